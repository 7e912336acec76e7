"""A release with secret labels: nothing that leaves, or happens, tells the size of a class.

A source of noise stands in for the lattice that gives the same numbers whatever it is asked to
hide. So what two data sets make of them must be the same to the last byte: all that differs without
it is noise.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pytest
from PIL import Image

from covdp.cli import main
from covdp.errors import ConfigError, CovdpError
from covdp.inference import combine, region, two_sample
from covdp.ledger import init_ledger
from covdp.privacy import GDP, privacy_statement
from covdp.publish import load_release, read_document, release_once
from tests.publish.fixed import fixed_noise

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["well", "ill", "none"]\n'
CONFIG = 'population = "ward"\ndataset = "ward.toml"\nbudget = 0.5\nrun_key = "monday"\n'
N = 60


def write_ward(folder: Path, labels: Sequence[int], more: str = "", card: str = "") -> Path:
    """Write images with labels, their card, a ledger and a config of four lines; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 28, 28), dtype=np.uint8)
    np.savez(folder / "ward.npz", train_images=images, train_labels=np.array(labels, np.uint8))
    (folder / "ward.toml").write_text(CARD + card)
    (folder / "ward 7.toml").write_text(CONFIG + more)
    if not (folder / "ledger.sqlite").exists():
        init_ledger(folder / "ledger.sqlite").set_budget("ward", GDP(9.0))
    return folder / "ward 7.toml"


def released(folder: Path, labels: Sequence[int], **more: str) -> bytes:
    """Return the document of a release of images with labels, after all others in a folder."""
    config = load_release(write_ward(folder, labels, **more))
    return release_once(config, init_ledger(folder / "ledger.sqlite"), folder)


def relabelled(change: Callable[[list[int]], None]) -> list[int]:
    """Return labels, half of the images in either class, with a change."""
    labels = [place % 2 for place in range(N)]
    change(labels)
    return labels


WARDS: dict[str, list[int]] = {
    "as they are": relabelled(lambda labels: None),
    "one label": relabelled(lambda labels: labels.__setitem__(0, 1)),
    "to the empty class": relabelled(lambda labels: labels.__setitem__(0, 2)),
    "all but one in one": [0] * (N - 1) + [1],
    "all in one": [2] * N,
}


@pytest.mark.parametrize("more", ["", 'manifold = "spd-affine-invariant"\n'])
def test_two_runs_that_differ_in_one_label_differ_in_noise_alone(
    more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same noise their bytes are the same, and so is all that was asked of the noise."""
    found = []
    for labels in WARDS.values():
        asked, folder = fixed_noise(monkeypatch), tmp_path / "ward"
        found.append((released(folder, labels, more=more), asked))
        rmtree(folder)
    assert all(one == found[0] for one in found)
    assert len(found[0][1]) >= 3 * 5


def test_what_is_printed_and_written_tells_no_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit codes, both streams, names of files and their bytes are the same, pages included."""
    outcomes = []
    for name in ("as they are", "one label", "all in one"):
        folder = tmp_path / "ward"
        fixed_noise(monkeypatch)
        config = write_ward(folder, WARDS[name])
        monkeypatch.chdir(folder)
        asked = ["release", "--config", config.name, "--ledger", "ledger.sqlite", "--out", "out"]
        code = main([*asked, "--data-root", ".", "--even-if-useless"])
        printed = capsys.readouterr()
        files = {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted((folder / "out").rglob("*"))
            if path.is_file()
        }
        assert any(one.endswith(".parquet") for one in files)
        outcomes.append((code, printed.out, printed.err, files))
        rmtree(folder)
    assert outcomes[0][0] == 0
    assert all(one == outcomes[0] for one in outcomes)


def test_classes_of_no_and_of_one_image_are_released_as_all_others(tmp_path: Path) -> None:
    """Their counts lie near what they are, with the same noise, and no region is offered."""
    content = released(tmp_path, [0] * (N - 1) + [1])
    document = json.loads(content)
    (tmp_path / "found.json").write_bytes(content)
    read_document(tmp_path / "found.json")
    assert [row["name"] for row in document["classes"]] == ["well", "ill", "none"]
    for row, n in zip(document["classes"], (N - 1, 1, 0), strict=True):
        assert abs(row["n"] - n) <= 6.0 * row["n_sd"]
        assert 3.0 < row["n_sd"] < 8.0
        assert not region(row).offered
    assert document["settings"]["classes"] == [
        [0, "well", None],
        [1, "ill", None],
        [2, "none", None],
    ]
    assert document["settings"]["total"] == N
    assert document["settings"]["labels"] == "secret"
    assert document["settings"]["name"] == "ward-7"
    two_sample(document["classes"][0], document["classes"][0])
    combine(document["classes"][:1] * 2)


def test_labels_are_secret_unless_declared_public(tmp_path: Path) -> None:
    """What needs sizes of classes says how they become public."""
    config = write_ward(tmp_path, WARDS["as they are"])
    assert load_release(config).labels == "secret"
    assert load_release(write_ward(tmp_path, [0, 1], 'labels = "public"\n')).labels == "public"
    for more, words in (
        ('mechanism = "ewg"\n', 'labels = "public"'),
        ("labels_and_class_sizes_are_public = true\n", "labels_and_class_sizes_are_public"),
        ('labels = "hidden"\n', "labels"),
    ):
        with pytest.raises(ConfigError, match=words):
            load_release(write_ward(tmp_path, [0, 1], more))


def test_with_public_labels_an_empty_class_is_refused(tmp_path: Path) -> None:
    """As its size is public; and nothing is charged."""
    with pytest.raises(CovdpError, match="has no image"):
        released(tmp_path, WARDS["as they are"], more='labels = "public"\n')


def test_the_ledger_knows_the_images_without_their_labels(tmp_path: Path) -> None:
    """One charge for all classes; other labels are another release of the images it knows."""
    first = released(tmp_path, WARDS["as they are"])
    assert released(tmp_path, WARDS["as they are"]) == first
    released(tmp_path, WARDS["one label"])
    book = init_ledger(tmp_path / "ledger.sqlite")
    (row,) = book.show("ward")
    assert row.releases == 2
    assert row.spent is not None
    assert row.spent.mu == pytest.approx(0.5 * 2**0.5, rel=1e-9)  # type: ignore[union-attr]
    with book.transaction(write=False) as tx:
        assert sorted(len(book.charges_of([content])) for content in tx.state.contents) == [1, 1, 2]


@pytest.mark.parametrize(("first", "then"), [("secret", "public"), ("public", "secret")])
def test_images_are_known_again_whether_labels_are_secret_or_not(
    first: str, then: str, tmp_path: Path
) -> None:
    """The ledger knows all images together of a release with public labels, too."""
    more = 'smallest_class = 1\nlabels = "{}"\n'
    released(tmp_path, WARDS["to the empty class"], more=more.format(first))
    book = init_ledger(tmp_path / "ledger.sqlite")
    released(tmp_path, WARDS["to the empty class"], more=more.format(then))
    with book.transaction(write=False) as tx:
        assert max(len(book.charges_of([content])) for content in tx.state.contents) == 2


def test_what_a_release_states_of_secret_labels(tmp_path: Path) -> None:
    """Neighbours of any class; the total and no size is exact; one more or fewer at μ/√2."""
    said = dict(json.loads(released(tmp_path, WARDS["one label"]))["statement"])
    assert "of the same class or of any other" in said["Neighbouring data sets"]
    assert (
        "an attacker who chooses between two classes is right no more often"
        in said["In plain words"]
    )
    assert said["Images of all classes together (exact)"] == f"{N}"
    assert (
        "0.353554" in said["One more or one fewer"] or "0.353553" in said["One more or one fewer"]
    )
    assert not any("per class" in title for title in said)
    text = json.dumps(said)
    assert "diagnosis" not in text
    assert "class sizes" not in text
    persons = privacy_statement(GDP(1.0), n_by_class={}, total=9, classes_per_person=2)
    assert "all images of one person become any other images" in persons["Neighbouring data sets"]
    assert "what 2 classes cost together" in persons["Composition"]


def test_persons_may_have_images_in_several_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of persons is public; in which classes each is changes nothing but noise."""
    found = []
    for moved in ((), (0,), (0, 1, 2)):
        folder = tmp_path / "ward"
        for person, image in itertools.product(range(8), range(2)):
            classes = {"well", "ill"} if person in moved else {("well", "ill")[person % 2]}
            for name in classes:
                place = folder / "ward" / name
                place.mkdir(parents=True, exist_ok=True)
                pixels = np.random.default_rng([person, image]).integers(0, 256, (8, 8), np.uint8)
                Image.fromarray(pixels).save(place / f"p{person}-{image}.png")
        card = 'kind = "folder"\npath = "ward"\nchannels = 1\nclasses = ["well", "ill"]\n'
        card += 'pattern = "{class}/{person}-*.png"\nunit = "person"\nclasses_per_person = 2\n'
        (folder / "ward.toml").write_text(card)
        (folder / "release.toml").write_text(CONFIG)
        fixed_noise(monkeypatch)
        book = init_ledger(folder / "ledger.sqlite")
        book.set_budget("ward", GDP(9.0))
        found.append(release_once(load_release(folder / "release.toml"), book, folder))
        rmtree(folder)
    assert all(one == found[0] for one in found)
    document: Any = json.loads(found[0])
    assert document["settings"]["total"] == 8
    assert document["account"]["charged"] == pytest.approx(0.5 * 2**0.5)


@pytest.mark.parametrize("pattern", ["{class}/*", "{split}/deep [[]1]/{class}/*/*"])
def test_a_class_without_a_folder_is_one_that_nobody_has(pattern: str, tmp_path: Path) -> None:
    """It is released as with an empty folder: asked again, it is the same release."""
    above = (
        tmp_path / "ward" / pattern.split("{class}")[0].format(split="train").replace("[[]", "[")
    )
    for number in range(8):
        place = above / "well" / "x" if pattern.endswith("/*/*") else above / "well"
        place.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8)
        Image.fromarray(pixels).save(place / f"{number}.png")
    card = 'kind = "folder"\nchannels = 1\nclasses = ["well", "ill"]\n'
    (tmp_path / "ward.toml").write_text(f'{card}pattern = "{pattern}"\n')
    (tmp_path / "release.toml").write_text(CONFIG)
    config, book = load_release(tmp_path / "release.toml"), init_ledger(tmp_path / "ledger.sqlite")
    book.set_budget("ward", GDP(9.0))
    content = release_once(config, book, tmp_path)
    (above / "ill").mkdir()
    assert release_once(config, book, tmp_path) == content
    assert book.show("ward")[0].releases == 1
