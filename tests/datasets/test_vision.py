"""MNIST and its like, CIFAR10: small files in the real formats, read by torchvision itself."""

import hashlib
import os
import pickle
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covdp.arrays import ImageArray
from covdp.datasets import DATASETS, ImageSource, open_dataset, torchvision
from covdp.datasets.torchvision import torchvision_datasets
from covdp.errors import DatasetError
from tests.datasets.digits import digits, idx, mnist
from tests.tools import medmnist_cards

CIFAR = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def thing(number: int) -> ImageArray:
    """Return 10 small random colour images."""
    return np.random.default_rng(number).integers(0, 256, (10, 32, 32, 3), dtype=np.uint8)


def cifar(root: Path) -> Path:
    """Write the seven files of a small CIFAR10."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for number, name in enumerate(CIFAR):
        data = thing(number).transpose(0, 3, 1, 2).reshape(10, 3072)
        batch = {"batch_label": "b", "labels": list(range(10)), "data": data, "filenames": ["f"]}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    meta = {"label_names": list(DATASETS["cifar10"].classes)}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))
    return folder


def own(root: Path, name: str) -> ImageSource:
    """Open a dataset of one's own in the layout of a known one."""
    known = DATASETS[name]
    (root / "own.toml").write_text(
        f'kind = "torchvision"\ntorchvision = "{known.torchvision}"\nlocal = true\n'
        f"channels = {known.channels}\nclasses = {list(known.classes)}\n"
    )
    return open_dataset(root / "own.toml", root)


def check_digits(source: ImageSource) -> None:
    """Assert that a source holds the small MNIST."""
    assert (source.shape, source.counts("train"), source.counts("val")) == (
        (28, 28),
        (3,) * 10,
        (0,) * 10,
    )
    np.testing.assert_array_equal(next(source.chunks("train")), digits("train"))
    np.testing.assert_array_equal(next(source.chunks("test", 4)), digits("t10k")[4::10])
    np.testing.assert_array_equal(source.labels(("train", "test")), np.arange(50) % 10)


def check_things(source: ImageSource) -> None:
    """Assert that a source holds the small CIFAR10."""
    assert (source.shape, source.counts("train")) == ((32, 32, 3), (5,) * 10)
    images = np.concatenate([thing(number) for number in range(6)])
    np.testing.assert_array_equal(np.concatenate(list(source.chunks())), images)
    np.testing.assert_array_equal(next(source.chunks("test", 7)), thing(5)[7:8])


@pytest.fixture
def known_digests(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes torchvision expect the digests of files that a test made."""
    datasets = torchvision_datasets()

    def digest(path: Path) -> str:
        return hashlib.md5(path.read_bytes()).hexdigest()

    def expect(root: Path) -> None:
        raw = root / "MNIST" / "raw"
        resources = [(n, digest(raw / n)) for n, _ in datasets.MNIST.resources if raw.is_dir()]
        monkeypatch.setattr(datasets.MNIST, "resources", resources or datasets.MNIST.resources)
        folder = root / "cifar-10-batches-py"
        if folder.is_dir():
            pairs = [[name, digest(folder / name)] for name in CIFAR]
            monkeypatch.setattr(datasets.CIFAR10, "train_list", pairs[:5])
            monkeypatch.setattr(datasets.CIFAR10, "test_list", pairs[5:])
            meta = {**datasets.CIFAR10.meta, "md5": digest(folder / "batches.meta")}
            monkeypatch.setattr(datasets.CIFAR10, "meta", meta)
        if (root / "cifar-10-python.tar.gz").exists():
            packed = digest(root / "cifar-10-python.tar.gz")
            monkeypatch.setattr(datasets.CIFAR10, "tgz_md5", packed)

    return expect


def test_torchvision_agrees_with_the_cards() -> None:
    """The datasets of torchvision name the cards' classes."""
    datasets = torchvision_datasets()
    for name in ("kmnist", "fashionmnist"):
        card = DATASETS[name]
        assert card.classes == tuple(getattr(datasets, str(card.torchvision)).classes)
    assert [name[0] for name in datasets.MNIST.classes] == list(DATASETS["mnist"].classes)


@pytest.mark.parametrize("name", ["mnist", "kmnist", "fashionmnist"])
def test_unpacked_mnist(tmp_path: Path, name: str) -> None:
    """Files in torchvision's layout are read where they lie, and nothing is written."""
    mnist(tmp_path, str(DATASETS[name].torchvision))
    before = sorted(tmp_path.rglob("*"))
    check_digits(open_dataset(name, tmp_path))
    assert sorted(tmp_path.rglob("*")) == before


def test_packed_mnist(tmp_path: Path, known_digests: Any) -> None:
    """Archives with the right digest are unpacked elsewhere; with another one they are refused."""
    mnist(tmp_path, packed=True)
    with pytest.raises(DatasetError, match=r"train-images-idx3-ubyte\.gz has MD5"):
        open_dataset("mnist", tmp_path)
    known_digests(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    check_digits(open_dataset("mnist", tmp_path))
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(DatasetError, match=r"is your own dataset but .*ubyte does not exist"):
        own(tmp_path, "mnist")


def test_cifar10(tmp_path: Path, known_digests: Any) -> None:
    """CIFAR10 is read where it lies, or from its archive, if its digests are torchvision's."""
    folder = cifar(tmp_path)
    with pytest.raises(DatasetError, match="data_batch_1 has MD5"):
        open_dataset("cifar10", tmp_path)
    known_digests(tmp_path)
    check_things(open_dataset("cifar10", tmp_path))
    packed = tmp_path / "packed"
    packed.mkdir()
    with tarfile.open(packed / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.add(folder, folder.name)
    known_digests(packed)
    check_things(open_dataset("cifar10", packed))
    assert [path.name for path in packed.iterdir()] == ["cifar-10-python.tar.gz"]


def test_own_pickles_are_refused(tmp_path: Path) -> None:
    """A card of one's own files in the layout of CIFAR10 is none."""
    with pytest.raises(DatasetError, match=r"may run code; save your images as \.npz"):
        own(tmp_path, "cifar10")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("cut", "is not a readable split of torchvision"),
        ("magic", "is not a readable split of torchvision"),
        ("label", r"labels must be 0..9, .* found 0..10"),
        ("count", "labels must be 30 integers"),
        ("size", r"splits must have one size, found \[\(5, 6\), \(28, 28\)\]; write them so"),
        ("absent", "is your own dataset but .*t10k-labels-idx1-ubyte does not exist"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, spoil: str, reason: str) -> None:
    """Files that are cut, of another format, or with wrong labels are refused in one line."""
    paths = mnist(tmp_path)
    images, labels = paths["train-images-idx3"], paths["train-labels-idx1"]
    match spoil:
        case "cut":
            images.write_bytes(images.read_bytes()[:-1])
        case "magic":
            images.write_bytes(b"\0\0\7" + images.read_bytes()[3:])
        case "label":
            labels.write_bytes(idx(np.arange(30, dtype=np.uint8) % 11))
        case "count":
            labels.write_bytes(idx(np.zeros(29, np.uint8)))
        case "size":
            images.write_bytes(idx(np.zeros((30, 5, 6), np.uint8)))
        case "absent":
            paths["t10k-labels-idx1"].unlink()
    with pytest.raises(DatasetError, match=reason) as caught:
        own(tmp_path, "mnist")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", ["torch", "torchvision"])
def test_without_the_extra_one_line_names_it(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where torch or torchvision is not installed, the error says which and names the extra."""
    mnist(tmp_path)
    for name in [*sys.modules]:
        if name.split(".")[0] in (missing, "torchvision"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(DatasetError, match=rf"needs {missing}, .*covdp\[sets\]") as caught:
        own(tmp_path, "mnist")
    assert "\n" not in str(caught.value)


def test_cards_are_not_written_without_medmnist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Writing MedMNIST's cards without its package is one line that names the extra, and exit 2."""
    monkeypatch.setitem(sys.modules, "medmnist", None)
    assert medmnist_cards.main() == 2
    assert re.fullmatch(r"covdp: this needs medmnist, .*covdp\[sets\].*\n", capsys.readouterr().err)


def test_own_files_have_a_size_that_is_plausible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A larger file is refused unread."""
    monkeypatch.setattr(torchvision, "LARGEST_FILE", 1 << 20)
    mnist(tmp_path)["train-images-idx3"].write_bytes(bytes(3 << 20))
    with pytest.raises(DatasetError, match="has more than 1,048,576 bytes"):
        own(tmp_path, "mnist")


@pytest.mark.parametrize(
    ("put", "words"),
    [
        (os.mkfifo, "not a file but a named pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "leads out of the data root"),
    ],
)
def test_what_is_no_file_is_one_line(tmp_path: Path, put: Any, words: str) -> None:
    """A pipe, or a link out of the data root, in the place of a file is refused at once."""
    path = mnist(tmp_path)["t10k-labels-idx1"]
    path.unlink()
    put(path)
    with pytest.raises(DatasetError, match=words):
        own(tmp_path, "mnist")


def test_torchvision_reads_no_other_files(tmp_path: Path) -> None:
    """The folder of an older layout, which torchvision would prefer, is refused."""
    mnist(tmp_path)
    (tmp_path / "MNIST" / "processed").mkdir()
    with pytest.raises(DatasetError, match=r"has the folder processed.*move it away"):
        own(tmp_path, "mnist")
