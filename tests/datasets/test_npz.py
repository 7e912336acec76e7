"""Array files: what is read is what lies on disk, and anything else is one clear error."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from covdp.datasets import DATASETS, ImageSource, open_dataset
from covdp.errors import DatasetError

NPZ = """\
kind = "npz"
local = true
channels = 1
classes = ["a", "b"]
"""
Arrays = dict[str, NDArray[Any]]


def arrays(seed: int = 0, *channels: int) -> Arrays:
    """Return small images and labels of two classes in all three splits."""
    rng = np.random.default_rng(seed)
    found: Arrays = {}
    for split, n in (("train", 41), ("val", 5), ("test", 13)):
        found[f"{split}_images"] = rng.integers(0, 256, (n, 6, 5, *channels), dtype=np.uint8)
        found[f"{split}_labels"] = (np.arange(n) % 3 == 0).astype(np.uint8)[:, None]
    return found


def toy(folder: Path, content: Arrays, card: str = NPZ) -> ImageSource:
    """Write arrays and a card, and open them."""
    np.savez_compressed(folder / "toy.npz", **content)
    (folder / "toy.toml").write_text(card)
    return open_dataset(folder / "toy.toml", folder)


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("split", [None, "val", ("train", "test"), ("test", "train")])
def test_chunks_are_the_arrays(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    channels: tuple[int, ...],
    size: int,
    split: Any,
) -> None:
    """Joined chunks equal the arrays of the file, for every split, class, chunk and block size."""
    monkeypatch.setattr("covdp.datasets.npz.BYTES_AT_ONCE", 200)
    content = arrays(1, *channels)
    card = NPZ.replace("channels = 1", "channels = 3") if channels else NPZ
    source = toy(tmp_path, content, card)
    asked = ("train", "val", "test") if split is None else (split,) if split == "val" else split
    parts = sorted(asked, key=("train", "val", "test").index)
    images = np.concatenate([content[f"{part}_images"] for part in parts])
    labels = np.concatenate([content[f"{part}_labels"][:, 0] for part in parts])
    assert source.shape == images.shape[1:]
    assert source.labels(split).dtype == np.int64
    np.testing.assert_array_equal(source.labels(split), labels)
    assert source.counts(split) == tuple(np.bincount(labels))
    for label in (None, 0, 1):
        chunks = list(pickle.loads(pickle.dumps(source)).chunks(split, label, size))
        wanted = images if label is None else images[labels == label]
        np.testing.assert_array_equal(np.concatenate(chunks), wanted)
        assert all(
            c.dtype == np.uint8 and c.flags.c_contiguous and c.flags.writeable for c in chunks
        )
        assert all(len(chunk) == size for chunk in chunks[:-1])
        assert 1 <= len(chunks[-1]) <= size


def test_chunks_check_at_once(tmp_path: Path) -> None:
    """A split, label or size that means nothing raises when it is asked for, not while reading."""
    content = arrays()
    content |= {"val_images": content["val_images"][:0], "val_labels": content["val_labels"][:0]}
    content["test_labels"][:] = 1
    source = toy(tmp_path, content)
    for message, ask in {
        "split must be one or more of train, val, test, each once, found 'tset'": {"split": "tset"},
        "each once, found \\('train', 'train'\\)": {"split": ("train", "train")},
        "each once, found \\(\\)": {"split": ()},
        "label must be 0..1 in toy, found 2": {"label": 2},
        "label must be 0..1 in toy, found -1": {"label": -1},
        "split val, has no image; choose another split \\(train, test\\)": {"split": "val"},
        "split test: class 0 'a' has no image": {"split": "test", "label": 0},
        "split val\\+test: class 0 'a' has no image": {"split": ("val", "test")},
        "at least 1 image, found size 0": {"size": 0},
    }.items():
        with pytest.raises(DatasetError, match=message):
            source.chunks(**ask)  # type: ignore[arg-type]
    with pytest.raises(DatasetError, match="class 0 'a' has no image"):
        source.labels("test")
    assert source.counts("test") == (0, 13)
    assert source.counts("val") == (0, 0)
    assert len(list(source.chunks(("val", "train"), 1))) == 1


def change(name: str, value: object) -> Any:
    """Return a function that gives one array another value, or none."""
    return lambda content: {
        key: a for key, a in ({**content, name: value}).items() if a is not None
    }


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (change("val_labels", None), "has no array val_labels; it holds"),
        (change("valid_images", np.zeros(3)), "has arrays of no split; it holds .* valid_images:"),
        (change("Test_labels", np.zeros(3)), "has arrays of no split; it holds Test_labels, test"),
        (lambda _: {"x": np.zeros(3)}, "has no array train_images, train_labels; it holds x"),
        (change("train_images", np.full((41, 6, 5), np.nan)), "must be uint8 .* found float64"),
        (change("train_images", np.zeros((41, 6, 5), np.uint16)), "must be uint8 .* uint16"),
        (change("val_images", np.array([{}] * 5)), "val_images holds Python objects"),
        (change("val_labels", np.array([{}] * 5)), "not a readable .npz .*Python objects"),
        (change("train_images", np.zeros((41, 6), np.uint8)), "shape \\(n, h, w\\), found"),
        (change("train_images", np.zeros((41, 6, 5, 1), np.uint8)), "move or drop axes"),
        (change("train_images", np.zeros((41, 6, 5, 3), np.uint8)), "correct channels or volumes"),
        (change("train_images", np.zeros((5, 6, 41), np.uint8).T), "ascontiguousarray"),
        (
            change("train_images", np.zeros((41, 6, 6), np.uint8)),
            r"all splits must have one size, found \[.*\]; save them so",
        ),
        (change("train_labels", np.zeros(40, np.uint8)), "must be 41 integers"),
        (change("train_labels", np.zeros((41, 2), np.uint8)), "found uint8 of shape \\(41, 2\\)"),
        (change("train_labels", np.zeros(41)), "found float64 of shape"),
        (change("train_labels", np.full(41, 2)), "must be 0..1, .* found 2..2"),
        (change("train_labels", np.full(41, -1)), "must be 0..1, .* found -1..-1"),
    ],
)
def test_bad_arrays_are_one_line(tmp_path: Path, spoil: Any, reason: str) -> None:
    """An array that is missing or of a wrong dtype, shape or value is refused when it is opened."""
    with pytest.raises(DatasetError, match=reason) as caught:
        toy(tmp_path, spoil(arrays()))
    assert "\n" not in str(caught.value)
    assert "toy.npz" in str(caught.value)


@pytest.mark.parametrize(
    "damage", ["empty", "text", "truncated", "bits", "short", "long", "header"]
)
@pytest.mark.parametrize("compressed", [True, False])
def test_damaged_file_is_one_line(tmp_path: Path, damage: str, compressed: bool) -> None:
    """A file that is no zip, cut, with a bit flipped or rows short never passes in silence."""
    path = tmp_path / "toy.npz"
    content = arrays()
    (np.savez_compressed if compressed else np.savez)(path, **content)
    whole = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        middle = archive.getinfo("train_images.npy").header_offset + 600
    whole[middle] ^= 16
    damaged = {"empty": b"", "text": b"no zip", "truncated": whole[:-30], "bits": whole}
    if damage in damaged:
        path.write_bytes(damaged[damage])
    else:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        first = members["train_images.npy"]
        cut = {"short": first[:-1], "long": first + b"x", "header": first[:9]}
        with zipfile.ZipFile(path, "w") as archive:
            for name, body in {**members, "train_images.npy": cut[damage]}.items():
                archive.writestr(name, body)
    (tmp_path / "toy.toml").write_text(NPZ)
    with pytest.raises(DatasetError, match="is not a readable") as caught:
        list(open_dataset(tmp_path / "toy.toml", tmp_path).chunks(label=1))
    assert "\n" not in str(caught.value)


def test_findings_become_two_classes(tmp_path: Path) -> None:
    """With findings, class 0 are the images without any flag, class 1 those with one or more."""
    flags = np.random.default_rng(2).integers(0, 2, (41, 3)) * np.array([1, 1, 0])
    content = {"train_images": arrays()["train_images"], "train_labels": flags.astype(np.uint8)}
    card = NPZ + 'findings = ["x", "y", "z"]\n'
    source = toy(tmp_path, content, card)
    np.testing.assert_array_equal(source.labels(), flags.sum(axis=1) > 0)
    assert min(source.counts()) > 0
    with pytest.raises(DatasetError, match="findings must be 0 or 1 of shape"):
        toy(tmp_path, {**content, "train_labels": flags * 2}, card)


def test_own_file_that_is_missing(tmp_path: Path) -> None:
    """A local dataset that is not there names the path it should have and --data-root."""
    (tmp_path / "toy.toml").write_text(NPZ + 'path = "deep/er.npz"\n')
    with pytest.raises(DatasetError, match=f"{tmp_path}/deep/er.npz does not exist.*--data-root"):
        open_dataset(tmp_path / "toy.toml", tmp_path)


@pytest.mark.parametrize(
    ("name", "train", "val", "test"),
    [
        ("pneumoniamnist", (1214, 3494), (135, 389), (234, 390)),
        ("breastmnist", (147, 399), (21, 57), (42, 114)),
    ],
)
def test_official_counts(shared: Path, name: str, train: Any, val: Any, test: Any) -> None:
    """The official files have the published number of images, class by class and split by split."""
    source = open_dataset(name, shared)
    assert source.shape == (28, 28)
    assert [source.counts(split) for split in ("train", "val", "test")] == [train, val, test]
    assert source.card.images is not None
    assert tuple(map(sum, (train, val, test))) == tuple(source.card.images.model_dump().values())


@pytest.mark.parametrize(
    ("file", "shape", "counts"),
    [
        ("pathmnist_subset", (28, 28, 3), (147, 78, 26, 60, 112, 60, 85, 28, 122)),
        ("pathmnist_64_subset", (64, 64, 3), (32, 14, 6, 14, 21, 6, 12, 5, 22)),
    ],
)
def test_real_subset_by_a_card_of_ones_own(
    samples: Path, tmp_path: Path, file: str, shape: Any, counts: Any
) -> None:
    """A subset of PathMNIST is read by a four-line card; its empty splits do not disturb."""
    classes = list(DATASETS["pathmnist"].classes)
    card = f'kind = "npz"\nlocal = true\nchannels = 3\npath = "{file}.npz"\nclasses = {classes}\n'
    (tmp_path / "subset.toml").write_text(card)
    source = open_dataset(tmp_path / "subset.toml", samples)
    assert (source.shape, source.counts(), source.counts("train")) == (shape, counts, (0,) * 9)
    with np.load(samples / f"{file}.npz") as content:
        for label in range(9):
            wanted = content["test_images"][content["test_labels"][:, 0] == label]
            found = np.concatenate(list(source.chunks(("train", "test"), label, 10)))
            np.testing.assert_array_equal(found, wanted)
