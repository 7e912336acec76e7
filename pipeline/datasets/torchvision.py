"""MNIST, KMNIST, FashionMNIST and CIFAR10: torchvision downloads, unpacks and parses them.

Files are as torchvision keeps them: ``ROOT/MNIST/raw/train-images-idx3-ubyte`` (or ``.gz``),
``ROOT/cifar-10-batches-py/data_batch_1`` (or ``ROOT/cifar-10-python.tar.gz``). A download
leaves the archives, which have digests; they are unpacked in a temporary folder for reading, so
that a read-only data root will do.
"""

import io
import os
import tempfile
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import model_validator as check

from covdp.datasets.cards import Card, no_path
from covdp.datasets.download import find_own, obtain, present, verify
from covdp.datasets.kind import DatasetKind
from covdp.datasets.library import Download
from covdp.datasets.listing import Faults, open_regular, require_inside, wrap_errors
from covdp.datasets.source import (
    ImageSource,
    MemoryReader,
    check_labels,
    check_shape,
    split_codes,
)
from covdp.errors import DatasetError, MissingError, require_extra

LARGEST_FILE = 1 << 30
"""Bytes of the largest file of one's own: five times the largest official one (CIFAR-10)."""

ON_DISK = {
    "MNIST": "MNIST/raw/train-images-idx3-ubyte*",
    "KMNIST": "KMNIST/raw/train-images-idx3-ubyte*",
    "FashionMNIST": "FashionMNIST/raw/train-images-idx3-ubyte*",
    "CIFAR10": "cifar-10-*",
}
"""Files of a dataset on disk, relative to the data root; known without torch."""


class VisionCard(Card):
    """A card of kind ``torchvision``.

    Attributes
    ----------
    torchvision : str
        The name of the class in ``torchvision.datasets``.
    """

    official: ClassVar[str] = (
        "official files, compared with a digest where torchvision publishes one"
    )

    torchvision: Literal["MNIST", "KMNIST", "FashionMNIST", "CIFAR10"] | None = None

    def on_disk(self, root: Path, size: int | None) -> bool:
        """Return True if files of the dataset are there; known without torch.

        Parameters
        ----------
        root : Path
            Data root.
        size : int or None
            Side of the images in pixels, for sets that exist in several; the card's own when None.
        """
        return any(root.glob(ON_DISK[str(self.torchvision)]))

    @check(mode="after")
    def _keys_fit(self) -> Self:
        if not self.torchvision:
            raise ValueError("kind 'torchvision' needs torchvision = \"MNIST\" or the like")
        if self.local and self.torchvision == "CIFAR10":
            raise ValueError(
                "local = true is for the files of MNIST: those of CIFAR10 may run code; save your "
                "images as .npz"
            )
        return no_path(self)


class TorchvisionFiles(NamedTuple):
    """Files of a dataset relative to the data root, each with its MD5 where one is published.

    Attributes
    ----------
    unpacked : dict of str to str or None
        MD5 of each file, None where none is published, by path relative to the data root.
    archives : dict of str to str
        MD5 of each archive, by path relative to the data root.
    address : str
        Address of the archives.
    """

    unpacked: dict[str, str | None]
    archives: dict[str, str]
    address: str


def torchvision_datasets() -> Any:
    """Return ``torchvision.datasets``.

    Raises
    ------
    MissingError
        When torchvision is not installed, with the extra that brings it, or does not fit the torch
        beside it.
    """
    require_extra("torch", "torchvision", fault=MissingError)
    try:
        return import_module("torchvision.datasets")
    except (ImportError, OSError, RuntimeError) as error:
        raise MissingError(
            f"torchvision cannot be imported ({error}); install it anew with the torch that it was "
            "built for: pip install --force-reinstall torch torchvision"
        ) from error


def torchvision_files(card: VisionCard) -> TorchvisionFiles:
    """Return the paths and addresses of torchvision for the files of a dataset.

    Parameters
    ----------
    card : VisionCard
        Card of the dataset.
    """
    dataset = getattr(torchvision_datasets(), str(card.torchvision))
    if card.torchvision == "CIFAR10":
        pairs = [*dataset.train_list, *dataset.test_list]
        pairs.append((dataset.meta["filename"], dataset.meta["md5"]))
        unpacked = {f"{dataset.base_folder}/{name}": md5 for name, md5 in pairs}
        return TorchvisionFiles(unpacked, {dataset.filename: dataset.tgz_md5}, dataset.url)
    raw = f"{card.torchvision}/raw"
    archives = {f"{raw}/{name}": md5 for name, md5 in dataset.resources}
    unpacked = {name.removesuffix(".gz"): None for name in archives}
    return TorchvisionFiles(unpacked, archives, dataset.mirrors[0])


def fetch_vision(card: VisionCard, root: Path, size: int | None, progress: bool) -> Path:
    """Return `root` once it holds the dataset, unpacked or as archives, with the right digests.

    Parameters
    ----------
    card : VisionCard
        Card of the dataset.
    root : Path
        Data root.
    size : int or None
        Side of the images in pixels, for sets that exist in several; the card's own when None.
    progress : bool
        True to show the progress of downloads.

    Raises
    ------
    MissingError
        When a file cannot be downloaded, or the card says ``local = true`` and files are missing.
    ImageError
        When a file has a wrong digest.
    """
    files = torchvision_files(card)
    if card.local:
        for name in files.unpacked:
            find_own(card.name, root / name, root)
    elif all(present(root / name) for name in files.unpacked):
        for name, md5 in files.unpacked.items():
            if md5:
                verify(root / name, md5)
    else:
        options = {"train": False, "download": True}
        download = Download("torchvision.datasets", str(card.torchvision), "root", options)
        obtain(root, files.archives, download, files.address, progress=progress)
    return root


def open_vision(card: VisionCard, path: Path, faults: Faults) -> ImageSource:
    """Open a dataset that is under `path`; splits are train and test.

    Parameters
    ----------
    card : VisionCard
        Card of the dataset.
    path : Path
        Data root, as `fetch` returns it.
    faults : Faults
        Faults found so far, to which others are added.

    Returns
    -------
    ImageSource
        Opened dataset.

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
        raise DatasetError(
            f"{path}: splits must have one size, found {sorted(shapes)}; write them so"
        )
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
    if card.local:
        for name in files.unpacked:
            _check_own(card.name, path, name)
    if all(present(path / name) for name in files.unpacked):
        return path
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="covdp-")))
    extract = import_module("torchvision.datasets.utils").extract_archive
    for name in files.archives:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with wrap_errors(path / name, "archive", "move it away and get it again", DatasetError):
            extract(str(path / name), str((folder / name).parent))
    return folder


def _check_own(dataset: str, root: Path, name: str) -> None:
    """Refuse a file of one's own that is outside the root, irregular, or implausibly large."""
    file = require_inside(root / name, root, dataset)
    damaged = wrap_errors(file, "file of torchvision", "write it again", DatasetError)
    with damaged, open_regular(Path(os.path.realpath(file))) as stream:
        if stream.seek(0, io.SEEK_END) > LARGEST_FILE:
            raise DatasetError(
                f"{file} has more than {LARGEST_FILE:,} bytes, which no file of this layout "
                "has; save large sets as .npz"
            )


def _parse(card: VisionCard, folder: Path, split: str, where: str) -> tuple[Any, Any]:
    """Return images and labels of one split as torchvision reads them."""
    dataset = getattr(torchvision_datasets(), str(card.torchvision))
    way = f"{'write' if card.local else 'move away and download'} its files again"
    with wrap_errors(where, "split of torchvision", way, DatasetError):
        parsed = dataset(str(folder), train=split == "train", download=False)
    return np.asarray(parsed.data), np.asarray(parsed.targets)


VISION = DatasetKind(VisionCard, open_vision, fetch_vision)
"""Kind of dataset that torchvision reads."""
