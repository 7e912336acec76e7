"""Images in a ``.npz`` of MedMNIST's layout, streamed: memory does not grow with the file.

The file holds ``train_images``, ``train_labels`` and the same for ``val`` and ``test``; a file of
one's own may leave splits out. What a header claims is compared with what the file can hold before
anything of that size is allocated (`members`).
"""

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.arrays import ImageArray, LabelArray
from pipeline.datasets.cards import Card
from pipeline.datasets.members import Array, Members, open_members
from pipeline.datasets.source import (
    SPLITS,
    ImageSource,
    Rows,
    check_extent,
    check_label_shape,
    check_labels,
    check_shape,
    regroup,
)
from pipeline.errors import DatasetError

BLOCK = 1 << 23
"""Bytes of images that are unpacked at a time."""
MANY = 1_000_000
"""Images that any file may have; a file of more has a byte or more for each, or it is no such."""


def open_npz(card: Card, path: Path) -> ImageSource:
    """Open a ``.npz``: read all labels and the images' headers, no image.

    Raises
    ------
    DatasetError
        When the file is damaged or claims more than it can hold, an array is missing or has a
        wrong dtype, shape or label.
    """
    with open_members(path) as members:
        splits = _splits(members, path)
        shapes = {split: _shape(members, split, card, path) for split in splits}
        labels = {split: _labels(members, split, shapes[split][0], card, path) for split in splits}
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
    step = max(1, BLOCK // math.prod(shape))
    with open_members(path) as members, members.opened(f"{split}_images") as (found, stream):
        if found.shape[1:] != shape:
            raise EOFError(f"{split}_images changed while it was read")
        total = found.shape[0]
        for start in range(0, total, step):
            block = np.empty((min(step, total - start), *shape), np.uint8)
            if stream.readinto(block.data.cast("B")) != block.nbytes:  # type: ignore[attr-defined]
                raise EOFError(f"{split}_images ends early")
            low, high = np.searchsorted(rows, (start, start + len(block)))
            yield block[rows[low:high] - start]


def _splits(members: Members, path: Path) -> list[str]:
    """Return the splits that the file has; images and labels come together."""
    found = set(members.names)
    splits = [s for s in SPLITS if {f"{s}_images", f"{s}_labels"} & found]
    missing = {f"{s}_{part}" for s in splits or ["train"] for part in ("images", "labels")} - found
    if missing:
        held = [name if name.isprintable() else repr(name) for name in sorted(found)]
        more = f" and {len(held) - 9} more" if len(held) > 9 else ""
        raise DatasetError(
            f"{path} has no array {', '.join(sorted(missing))}; it holds "
            f"{', '.join(held[:9]) or 'nothing'}{more}: name them SPLIT_images and SPLIT_labels, "
            f"with SPLIT one of {', '.join(SPLITS)}"
        )
    return splits


def _shape(members: Members, split: str, card: Card, path: Path) -> tuple[int, ...]:
    """Return the shape of a split's images, as many as the file can hold."""
    where = f"{path}, {split}_images"
    found = members.header(f"{split}_images")
    check_shape(found.shape, found.dtype, card.channels, where)
    if found.fortran:
        raise DatasetError(f"{where}: stored column first; save np.ascontiguousarray(images)")
    check_extent(found.shape[1:], where)
    n = found.shape[0]
    if n > max(MANY, members.size):
        raise DatasetError(
            f"{where}: {n:,} images are more than the file has bytes ({members.size:,}), so it "
            "unpacks to nothing but repeats; save real images"
        )
    return found.shape


def _labels(members: Members, split: str, n: int, card: Card, path: Path) -> LabelArray:
    """Return a split's labels; with findings, 1 where an image has at least one."""
    where = f"{path}, {split}_labels"
    found = members.header(f"{split}_labels")
    wanted = (n, len(card.findings))
    if card.findings and (found.shape != wanted or found.dtype.kind not in "biuf"):
        raise DatasetError(_not_findings(where, wanted, found))
    if not card.findings:
        check_label_shape(found.shape, found.dtype, n, where)
    labels = members.read(f"{split}_labels")
    if card.findings:
        if not np.isin(labels, (0, 1)).all():
            raise DatasetError(_not_findings(where, wanted, found))
        labels = (labels != 0).any(axis=1, keepdims=True)
    return check_labels(labels, n, len(card.classes), where)


def _not_findings(where: str, wanted: tuple[int, ...], found: Array) -> str:
    return (
        f"{where}: findings must be 0 or 1 of shape {wanted}, found {found.dtype} of shape "
        f"{found.shape}"
    )
