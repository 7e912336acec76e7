"""Images in a ``.npz`` of MedMNIST's layout, streamed: memory does not grow with the file.

The file holds ``train_images``, ``train_labels`` and the same for ``val`` and ``test``; a file of
one's own may leave splits out.
"""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray, LabelArray
from pipeline.datasets.cards import Card
from pipeline.datasets.doors import open_regular
from pipeline.datasets.source import (
    SPLITS,
    ImageSource,
    Rows,
    check_labels,
    check_shape,
    regroup,
)
from pipeline.errors import DatasetError

BLOCK = 1 << 23
"""Bytes of images that are unpacked at a time."""


def open_npz(card: Card, path: Path) -> ImageSource:
    """Open a ``.npz``: read all labels and the images' headers, no image.

    Raises
    ------
    DatasetError
        When the file is damaged, an array is missing or has a wrong dtype, shape or label.
    """
    with _archive(path) as archive:
        splits = _splits(archive, path)
        shapes = {split: _image_header(archive, split, card, path) for split in splits}
        labels = {split: _labels(archive, split, shapes[split][0], card, path) for split in splits}
    if len(different := {shape[1:] for shape in shapes.values()}) != 1:
        raise DatasetError(f"{path}: images of all splits must have one size, found {different}")
    shape = different.pop()
    return ImageSource(card, shape, labels, partial(read_npz, path, shape))


def read_npz(
    path: Path, shape: tuple[int, ...], split: str, rows: Rows, size: int
) -> Iterator[ImageArray]:
    """Read rows of one split; the whole member is unpacked, so that its CRC is checked."""
    return regroup(_blocks(path, shape, split, rows), size)


def _blocks(path: Path, shape: tuple[int, ...], split: str, rows: Rows) -> Iterator[ImageArray]:
    """Yield the wanted rows of each block of the member."""
    step = max(1, BLOCK // int(np.prod(shape)))
    with _archive(path) as archive, _open(archive, split) as stream:
        total = _header(stream)[0][0]
        for start in range(0, total, step):
            block = np.empty((min(step, total - start), *shape), np.uint8)
            if stream.readinto(block.data.cast("B")) != block.nbytes:  # type: ignore[attr-defined]
                raise EOFError(f"{split}_images ends early")
            low, high = np.searchsorted(rows, (start, start + len(block)))
            yield block[rows[low:high] - start]


def _splits(archive: zipfile.ZipFile, path: Path) -> list[str]:
    """Return the splits that the file has; images and labels come together."""
    found = {Path(name).stem for name in archive.namelist()}
    splits = [s for s in SPLITS if {f"{s}_images", f"{s}_labels"} & found]
    missing = {f"{s}_{part}" for s in splits or ["train"] for part in ("images", "labels")} - found
    if missing:
        raise DatasetError(
            f"{path} has no array {', '.join(sorted(missing))}; it holds "
            f"{', '.join(sorted(found)) or 'nothing'}: name them SPLIT_images and SPLIT_labels, "
            f"with SPLIT one of {', '.join(SPLITS)}"
        )
    return splits


def _image_header(archive: zipfile.ZipFile, split: str, card: Card, path: Path) -> tuple[int, ...]:
    """Return the shape of a split's images, checked against the bytes that are there."""
    where = f"{path}, {split}_images"
    with _open(archive, split) as stream:
        shape, fortran, dtype = _header(stream)
        start = stream.tell()
    check_shape(shape, dtype, card.channels, where)
    if fortran and len(shape) > 1:
        raise DatasetError(f"{where}: stored column first; save np.ascontiguousarray(images)")
    stored = archive.getinfo(f"{split}_images.npy").file_size - start
    if stored != int(np.prod(shape)):
        raise EOFError(f"{split}_images has {stored} bytes for shape {shape}")
    return shape


def _labels(archive: zipfile.ZipFile, split: str, n: int, card: Card, path: Path) -> LabelArray:
    """Return a split's labels; with findings, 1 where an image has at least one."""
    where = f"{path}, {split}_labels"
    with archive.open(f"{split}_labels.npy") as stream:
        labels: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    if card.findings:
        wanted = (n, len(card.findings))
        if labels.shape != wanted or not np.isin(labels, (0, 1)).all():
            raise DatasetError(
                f"{where}: findings must be 0 or 1 of shape {wanted}, found {labels.dtype} of "
                f"shape {labels.shape}"
            )
        labels = (labels != 0).any(axis=1, keepdims=True)
    return check_labels(labels, n, len(card.classes), where)


def _open(archive: zipfile.ZipFile, split: str) -> IO[bytes]:
    return archive.open(f"{split}_images.npy")


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether the columns come first, and dtype of a ``.npy`` stream."""
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(stream)
    if version not in readers:
        raise ValueError(f"npy version {version} is not known")
    return readers[version](stream)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open the file; whatever a damaged one makes the readers raise becomes one `DatasetError`."""
    try:
        with open_regular(path.resolve()) as stream, zipfile.ZipFile(stream) as archive:
            yield archive
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DatasetError(
            f"{path} is not a readable .npz ({reason}); download or save it again"
        ) from error
