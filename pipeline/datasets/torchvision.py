"""MNIST, KMNIST, FashionMNIST and CIFAR10: torchvision knows where they are and parses them.

Files are as torchvision keeps them: ``ROOT/MNIST/raw/train-images-idx3-ubyte`` (or ``.gz``),
``ROOT/cifar-10-batches-py/data_batch_1`` (or ``ROOT/cifar-10-python.tar.gz``). Only the archives
are downloaded; they are unpacked in a temporary folder for reading, so that a read-only data root
will do. torchvision publishes digests of all of them except MNIST's unpacked files.
"""

import gzip
import io
import os
import pickle
import shutil
import tarfile
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator as check

from pipeline.arrays import ImageArray
from pipeline.datasets.cards import Card, no_path
from pipeline.datasets.download import Obtain, find_own, present, verify
from pipeline.datasets.listing import Faults, open_regular, require_inside, wrap_errors
from pipeline.datasets.source import (
    ImageSource,
    MemoryReader,
    check_labels,
    check_shape,
    split_codes,
)
from pipeline.errors import DatasetError, MissingError, require_extra

LARGEST_ARCHIVE = 1 << 30
"""Bytes of all that one archive unpacks to: five times the largest there is (CIFAR-10)."""


@dataclass
class _Bounded:
    """A stream that ends in an error after `left` bytes."""

    stream: BinaryIO
    left: int

    def read(self, size: int = -1) -> bytes:
        piece = self.stream.read(min(size, self.left + 1) if size >= 0 else self.left + 1)
        self.left -= len(piece)
        if self.left < 0:
            raise OSError(f"it unpacks to more than {LARGEST_ARCHIVE:,} bytes")
        return piece


def unpack(stream: BinaryIO, folder: Path, name: str, wanted: set[str]) -> None:
    """Write the wanted files of the archive `name`, a ``.gz`` or ``.tar.gz``, below `folder`.

    Parameters
    ----------
    stream : binary stream
        The archive.
    folder : Path
        Where the files go; the archive's own folders and links are not followed.
    name : str
        Its name relative to the data root; a plain ``.gz`` holds the file of its name without it.
    wanted : set of str
        Names of the files relative to the data root; what else is inside is left there.

    Raises
    ------
    OSError, EOFError, tarfile.TarError, zlib.error
        When it is damaged or unpacks to more than `LARGEST_ARCHIVE` bytes.
    """
    with gzip.GzipFile(fileobj=stream) as unzipped:
        bounded = _Bounded(cast(BinaryIO, unzipped), LARGEST_ARCHIVE)
        if not name.endswith(".tar.gz"):
            with (folder / name.removesuffix(".gz")).open("wb") as target:
                shutil.copyfileobj(bounded, target)
            return
        with tarfile.open(fileobj=cast(IO[bytes], bounded), mode="r|") as archive:
            for member in archive:
                plain = member.isreg() and not member.issparse()  # holes have bytes out of nothing
                content = archive.extractfile(member) if plain else None
                if content is not None and member.name in wanted:
                    (folder / member.name).parent.mkdir(parents=True, exist_ok=True)
                    with (folder / member.name).open("wb") as target:
                        shutil.copyfileobj(content, target)


ON_DISK = {
    "MNIST": "MNIST/raw/train-images-idx3-ubyte*",
    "KMNIST": "KMNIST/raw/train-images-idx3-ubyte*",
    "FashionMNIST": "FashionMNIST/raw/train-images-idx3-ubyte*",
    "CIFAR10": "cifar-10-*",
}
"""What is on disk, relative to the data root, when a dataset is; known without torch."""

_PLAIN = {"_reconstruct", "_frombuffer", "ndarray", "dtype", "encode"}


class VisionCard(Card):
    """What a card of kind ``torchvision`` says.

    Attributes
    ----------
    torchvision : str
        The name of the class in ``torchvision.datasets``.
    """

    official: ClassVar[str] = (
        "official files, compared with the digests that torchvision publishes of them"
    )

    torchvision: Literal["MNIST", "KMNIST", "FashionMNIST", "CIFAR10"] | None = None

    def on_disk(self, root: Path, size: int | None) -> bool:
        """Tell whether files of the dataset are there; known without torch."""
        return any(root.glob(ON_DISK[str(self.torchvision)]))

    @check(mode="after")
    def _keys_fit(self) -> Self:
        if not self.torchvision:
            raise ValueError("kind 'torchvision' needs torchvision = \"MNIST\" or the like")
        return no_path(self)


class TorchvisionFiles(NamedTuple):
    """Files of a dataset relative to the data root, each with its MD5 where one is published."""

    unpacked: dict[str, str | None]
    archives: dict[str, str]
    mirrors: tuple[str, ...]


def torchvision_datasets() -> Any:
    """Return ``torchvision.datasets``, also beside a torch it was not compiled for.

    Then torchvision's compiled operators do not load and its import fails at two that it wants to
    describe. No dataset needs them, so they are declared, if they are missing, and left empty.

    Raises
    ------
    MissingError
        When torchvision is not installed, with the extra that brings it.
    """
    require_extra("torch", "torchvision", fault=MissingError)
    try:
        return import_module("torchvision.datasets")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
    import torch

    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", schema)
    return import_module("torchvision.datasets")


def torchvision_files(card: VisionCard) -> TorchvisionFiles:
    """Return where torchvision keeps and gets the files of a dataset."""
    dataset = getattr(torchvision_datasets(), str(card.torchvision))
    if card.torchvision == "CIFAR10":
        pairs = [*dataset.train_list, *dataset.test_list]
        pairs.append((dataset.meta["filename"], dataset.meta["md5"]))
        unpacked = {f"{dataset.base_folder}/{name}": md5 for name, md5 in pairs}
        mirror = dataset.url.removesuffix(dataset.filename)
        return TorchvisionFiles(unpacked, {dataset.filename: dataset.tgz_md5}, (mirror,))
    raw = f"{card.torchvision}/raw"
    archives = {f"{raw}/{name}": md5 for name, md5 in dataset.resources}
    unpacked = {name.removesuffix(".gz"): None for name in archives}
    return TorchvisionFiles(unpacked, archives, tuple(dataset.mirrors))


def fetch_vision(card: VisionCard, root: Path, size: int | None, obtain: Obtain) -> Path:
    """Return `root` once it holds the dataset, unpacked or as archives, with the right digests.

    Raises
    ------
    MissingError
        When a file cannot be downloaded, or the card says ``local = true`` and files are missing.
    ImageError
        When a file has a wrong digest.
    """
    files = torchvision_files(card)
    for form in (files.unpacked, files.archives):
        if all(present(root / name) for name in form):
            for name, md5 in form.items():
                if md5 and not card.local:
                    verify(root / name, md5)
            return root
    for name in files.unpacked if card.local else ():
        find_own(card.name, root / name, root)
    for name, md5 in files.archives.items():
        _from_mirrors(obtain, files.mirrors, root / name, md5)
    return root


def _from_mirrors(obtain: Obtain, mirrors: tuple[str, ...], target: Path, md5: str) -> None:
    """Download one archive from the first mirror that gives it."""
    for mirror in mirrors:
        try:
            obtain(mirror + target.name, target, md5, most=LARGEST_ARCHIVE)
            return
        except DatasetError:
            if mirror == mirrors[-1]:
                raise


def open_vision(card: VisionCard, path: Path, faults: Faults) -> ImageSource:
    """Open a dataset that is under `path`; splits are train and test.

    Raises
    ------
    DatasetError
        When torchvision cannot parse the files or they hold other images than the card says.
    """
    arrays, labels, splits = [], [], []
    with ExitStack() as stack:
        folder = _unpacked(card, path, stack)
        for split in ("train", "test"):
            where = f"{path}, {card.name} {split}"
            images, targets = _parse(card, folder, split, where)
            check_shape(images.shape, images.dtype, card.channels, where)
            labels.append(check_labels(targets, len(images), len(card.classes), where))
            splits.append(split_codes(split, len(images)))
            arrays.append(images)
    if len(shapes := {images.shape[1:] for images in arrays}) != 1:
        raise DatasetError(f"{path}: images of all splits must have one size, found {shapes}")
    images = MemoryReader(np.concatenate(arrays))
    return ImageSource(card, shapes.pop(), np.concatenate(labels), np.concatenate(splits), images)


def _unpacked(card: VisionCard, path: Path, stack: ExitStack) -> Path:
    """Return a root with the unpacked files: `path`, or a temporary folder that `stack` removes."""
    files = torchvision_files(card)
    if (old := path / str(card.torchvision) / "processed").exists():
        raise DatasetError(
            f"{old.parent} has the folder processed, which torchvision would read in place of the "
            "files in raw; move it away"
        )
    if all(present(path / name) for name in files.unpacked):
        for name in files.unpacked:
            _check(card, path, name)
        return path
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="covdp-")))
    for name in files.archives:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        real, way = _check(card, path, name), "move it away and get it again"
        with wrap_errors(path / name, "archive", way, DatasetError), open_regular(real) as stream:
            unpack(stream, folder, name, set(files.unpacked))
    return folder


def _check(card: VisionCard, root: Path, name: str) -> Path:
    """Return where a file really is, if it is a regular one of a plausible size, in the root."""
    if card.local:
        require_inside(root / name, root, name)
    real = Path(os.path.realpath(root / name))
    with open_regular(real) as stream:
        if stream.seek(0, io.SEEK_END) > LARGEST_ARCHIVE:
            raise DatasetError(
                f"{root / name} has more than {LARGEST_ARCHIVE:,} bytes, which no file of this "
                "layout has; save large sets as .npz"
            )
    return real


def _parse(card: VisionCard, folder: Path, split: str, where: str) -> tuple[Any, Any]:
    """Return images and labels of one split as torchvision reads them."""
    dataset = getattr(torchvision_datasets(), str(card.torchvision))
    way = f"{'write' if card.local else 'move away and download'} its files again"
    with wrap_errors(where, "split of torchvision", way, DatasetError):
        if card.local and card.torchvision == "CIFAR10":
            return _own_batches(dataset, folder, split)
        parsed = dataset(str(folder), train=split == "train", download=False)
    return np.asarray(parsed.data), np.asarray(parsed.targets)


def _own_batches(dataset: Any, folder: Path, split: str) -> tuple[ImageArray, NDArray[Any]]:
    """Return CIFAR10 from files of one's own, which hold arrays and cannot run code."""
    parts, labels = [], []
    for name, _ in dataset.train_list if split == "train" else dataset.test_list:
        content = (folder / dataset.base_folder / name).read_bytes()
        batch = _ArraysOnly(io.BytesIO(content), encoding="latin1").load()
        data = np.asarray(batch["data"])
        if data.dtype != np.uint8 or data.shape[1:] != (3072,) or data.nbytes > len(content):
            raise ValueError(f"{name} has data of shape {data.shape}, not (n, 3072) of bytes")
        parts.append(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels.extend(batch["labels"])
    return np.concatenate(parts), np.asarray(labels)


class _ArraysOnly(pickle.Unpickler):
    """Unpickles arrays and plain values; a pickle that asks for more is refused unopened."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] not in ("numpy", "_codecs") or name not in _PLAIN:
            raise pickle.UnpicklingError(f"a pickle with {module}.{name} may run code")
        return super().find_class(module, name)
