"""Cards, names and the embedded images."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covdp.datasets import DATASET_KINDS, DATASETS, load_card, open_dataset, overview
from covdp.errors import DatasetError
from covdp.files import resource
from tests.tools import medmnist_cards


def test_every_card_is_named_and_listed(tmp_path: Path) -> None:
    """Every TOML in data/ is a dataset of its name and a row of the README and of the overview."""
    names = [path.stem for path in sorted(resource("data").glob("*.toml"))]
    assert [card.name for card in DATASETS.values()] == list(DATASETS) == names
    rows = overview(tmp_path)
    assert [row.name for row in rows] == names
    assert {row.name for row in rows if row.on_disk} == {"tiles"}
    readme = (resource("data") / "README.md").read_text()
    assert all(f"`{name}`" in readme for name in names)
    keys = {key for kind in DATASET_KINDS.values() for key in kind.card.model_fields}
    assert [key for key in sorted(keys - {"name"}) if f"`{key}`" not in readme] == []


def test_overview_sees_what_is_on_disk(tmp_path: Path) -> None:
    """The overview names the sizes that are in the data root."""
    for name in ("octmnist.npz", "octmnist_64.npz", "MNIST/raw/train-images-idx3-ubyte.gz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    on_disk = {row.name: (row.on_disk, row.sizes_on_disk) for row in overview(tmp_path)}
    assert on_disk["octmnist"] == (True, (28, 64))
    assert (on_disk["mnist"], on_disk["kmnist"]) == ((True, (28,)), (False, ()))


@pytest.mark.slow
def test_medmnist_cards_are_those_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The committed MedMNIST cards equal what the installed medmnist gives, with URL and MD5."""
    monkeypatch.setenv("HOME", str(tmp_path))  # medmnist makes a folder there
    generated, known = medmnist_cards.cards(), medmnist_cards.information()["INFO"]
    assert len(generated) == 12 + 6
    for name, text in generated.items():
        assert (resource("data") / f"{name}.toml").read_text(encoding="utf-8") == text
        assert DATASETS[name].files[0].md5 == known[name]["MD5"]
        volumes = name.endswith("3d")
        assert DATASETS[name].volumes == volumes
        assert [file.size for file in DATASETS[name].files] == [28, 64, 128, 224][: 4 - 2 * volumes]
        assert DATASETS[name].files[1].url == known[name]["url_64"]
        assert DATASETS[name].files[1].md5 == known[name]["MD5_64"]
        assert volumes or DATASETS[name].files[3].url == known[name]["url_224"]
        assert DATASETS[name].description == known[name]["description"]
        assert (DATASETS[name].findings or DATASETS[name].classes) == tuple(
            known[name]["label"].values()
        )


@pytest.mark.addons
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("clases = ['a']", "key 'clases' is not known; did you mean 'classes'"),
        (
            "kind = 'npz'\n[[files]]\nsize = 28\nulr = 'x'",
            "key 'files.0.ulr' is not known; did you mean 'url'",
        ),
        ("zzz = 1", "key 'zzz' is not known; other keys: axis, burnt_in, channels"),
        ("knid = 'npz'", "key 'knid' is not known; did you mean 'kind'"),
        ("channels = 1", "key 'kind' is missing; it is one of tiles, npz, folder"),
        ("kind = 'nzp'", "key 'kind' must be one of .*, found 'nzp'; did you mean 'npz'"),
        ("name = 'x'", "leave out key 'name'"),
        ("kind = 'npz'\nclasses = ['a']", "key 'channels' is missing"),
        ("kind = 'npz'\nclasses = ['a']\nchannels = 2", "key 'channels': .* found 2"),
        ("kind = 'npz'\nclasses = ['a', 'a']\nchannels = 1\nlocal = true", "different"),
        ("kind = 'npz'\nclasses = ['a']\nchannels = 1", "local = true or"),
        ("kind = 'npz'\nclasses = ['a']\nchannels = 1\nlocal = true\nsize = 9", "'size' is not"),
        ("kind = 'npz'\nclasses = ['a']\nchannels = 1\npattern = 'x'", "belongs to kind 'folder'"),
        ("kind = 'folder'\nclasses = ['a']\nchannels = 1\npattern = 'x'", "contain {class}"),
        ("kind = 'tiles'\nclasses = ['a']\nchannels = 1\npath = 'x'", "'path' is for"),
        ("kind = 'torchvision'\nclasses = ['a']\nchannels = 1", "needs torchvision"),
        ("kind = 'folder'\nclasses = ['a']\nchannels = 1\nvolumes = true", "flat"),
        ("kind = 'npz'\nclasses = ['a']\nchannels = 3\nlocal = true\nvolumes = true", "1 channel"),
        ("kind = 'npz'\nfindings = ['x']\nclasses = ['a']\nchannels = 1\nlocal = true", "two"),
        (
            "kind = 'npz'\nchannels = 1\nclasses = []",
            "'classes': must have more values, found \\[\\]",
        ),
        ("kind = 'folder'\nclasses = ['a']\nchannels = 1\nwindow = [5]", "'window': must have mo"),
        ("kind = 'folder'\nclasses = ['a']\nchannels = 1\nwindow = 5", "'window': must be a li"),
        (
            "kind = 'folder'\nclasses = ['a']\nchannels = true",
            "'channels': must be a number, not tr",
        ),
        ("kind = 'nifti'\nclasses = ['a']\nchannels = 1\naxis = true", "'axis': must be a number"),
        ("kind = ", "not valid TOML"),
    ],
)
def test_bad_card_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    """A card with a wrong key or value is one line naming the file, the key and the way out."""
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(DatasetError, match=reason) as caught:
        load_card(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_card_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """As editors on Windows write UTF-8."""
    (tmp_path / "mine.toml").write_text(
        "kind = 'folder'\nclasses = ['ä']\nchannels = 1\n", encoding="utf-8-sig"
    )
    assert load_card(tmp_path / "mine.toml").classes == ("ä",)


def test_unknown_dataset_suggests(tmp_path: Path) -> None:
    """An unknown name gets the closest one and the command that lists all."""
    with pytest.raises(DatasetError, match=r"did you mean 'pneumoniamnist'.*`covdp datasets`"):
        open_dataset("pnuemoniamnist", tmp_path)
    with pytest.raises(DatasetError, match="cannot read the card"):
        open_dataset(tmp_path / "absent.toml")
    with pytest.raises(DatasetError, match="tiles is not available in size 64; choose one of 28"):
        open_dataset("tiles", size=64)


def test_import_is_light() -> None:
    """Importing the datasets imports no heavy library."""
    code = "import sys, covdp.datasets; print(*sys.modules)"
    root = Path(__file__).parents[2]
    out = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=True)
    heavy = {"torch", "torchvision", "medmnist", "skimage", "PIL", "pooch", "requests"}
    assert not heavy & set(out.stdout.decode().split())


@pytest.mark.addons
@pytest.mark.parametrize(
    "kind", ["array file", "3-D set", "folders", "a table", "DICOM", "NIfTI", "volumes"]
)
def test_readme_example_runs(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worked examples of data/README.md run as they are printed, those of a section in turn."""
    monkeypatch.chdir(tmp_path)
    text = (resource("data") / "README.md").read_text()
    sections = re.split(r"^## ", text, flags=re.M)
    (section,) = [part for part in sections if part.startswith("Your own") and kind in part[:50]]
    cards = re.findall(r"```toml\n(.*?)```", section, flags=re.S)
    for name, card in zip(
        dict.fromkeys(re.findall(r"`([\w-]+\.toml)`", section)), cards, strict=True
    ):
        Path(name).write_text(card)
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", section, flags=re.S):
        exec(compile(code, kind, "exec"), names)


def test_tiles_need_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded dataset has 1,000 tiles a class and more, with no network and no home folder."""

    def refuse(*_: object) -> None:
        raise AssertionError("the embedded dataset must not use the network")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    source = open_dataset("tiles", tmp_path / "empty")
    assert source.shape == (28, 28)
    assert min(source.counts()) >= 1000
    assert source.card.images is not None
    assert source.counts() == source.counts("train")
    assert sum(source.counts()) == source.card.images.train
    assert not (tmp_path / "empty").exists()


def test_tiles_are_windows_of_the_pictures() -> None:
    """Tiles lie on the grid of stride 14 and are exactly those that span 8 levels or more."""
    from skimage import data

    picture = data.cell()
    windows = [
        picture[row : row + 28, column : column + 28]
        for row in range(0, picture.shape[0] - 27, 14)
        for column in range(0, picture.shape[1] - 27, 14)
    ]
    kept = np.stack([tile for tile in windows if int(tile.max()) - int(tile.min()) >= 8])
    again = np.concatenate(list(open_dataset("tiles").chunks(label=2)))
    np.testing.assert_array_equal(again, kept)
    assert len(windows) > len(kept)
