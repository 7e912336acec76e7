"""What every dataset becomes: classes, a shape, labels, and images in uint8 chunks."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray, LabelArray
from pipeline.datasets.cards import Card
from pipeline.errors import DatasetError, MismatchError

CHUNK = 1 << 28
"""Bytes of images in a chunk where nobody asks for a number of images."""
SPLITS = ("train", "val", "test")
LARGEST = 1 << 27
"""Bytes of the largest image: more pixels than any detector has."""
Splits: TypeAlias = str | tuple[str, ...] | None
"""One split, several in the order they are named, or None for all."""
Rows: TypeAlias = NDArray[np.int64]


class Reader(Protocol):
    """Reads rows of one split."""

    def __call__(self, split: str, rows: Rows, size: int) -> Iterator[ImageArray]:
        """Yield the images of `rows` (ascending), `size` at a time, (size, *shape) uint8."""


@dataclass(frozen=True, eq=False)
class ImageSource:
    """The images of one dataset, read chunk by chunk; records lie in disjoint classes.

    Attributes
    ----------
    card : Card
        What is known about the dataset.
    shape : tuple of int
        Shape of one image, (h, w) or (h, w, 3).
    by_split : mapping of str to (n,) int64
        The label of each image, by split.
    read : Reader
        Where the images come from.
    facts : tuple of str
        What a reader should know of how they were read. They depend on the images: a run tells
        them, a release does not.
    """

    card: Card
    shape: tuple[int, ...]
    by_split: Mapping[str, LabelArray]
    read: Reader
    facts: tuple[str, ...] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; a label is an index into them."""
        return self.card.classes

    def chunks(
        self, split: Splits = None, label: int | None = None, size: int | None = None
    ) -> Iterator[ImageArray]:
        """Yield the images of some splits and of one class or all, as uint8 arrays.

        Joined, the chunks hold each chosen image once, in the order of `labels(split)`.

        Parameters
        ----------
        split : str, tuple of str or None
            Which splits; all, in the order train, val, test, when None.
        label : int, optional
            Only the images of this class.
        size : int, optional
            Images in a chunk; the last one of a split may have fewer. When left out 4096, or as
            many as fit in 256 MiB.

        Raises
        ------
        DatasetError
            At once when a split or label is unknown or without images; while reading when the
            file turns out to be damaged.
        """
        if size is None:
            size = min(4096, max(1, CHUNK // math.prod(self.shape)))
        if size < 1:
            raise DatasetError(f"a chunk must hold at least 1 image, found size {size}")
        chosen = self._chosen(split)
        self._check(chosen, label)
        rows = {
            part: np.flatnonzero(labels == label) if label is not None else np.arange(len(labels))
            for part, labels in chosen.items()
        }
        return (
            block
            for part in chosen
            if len(rows[part])
            for block in self.read(part, rows[part], size)
        )

    def labels(self, split: Splits = None) -> LabelArray:
        """Return the label of each image of some splits, (n,) int64, in the order of `chunks`.

        Raises
        ------
        DatasetError
            When a split is unknown or a class has no image in the chosen splits.
        """
        chosen = self._chosen(split)
        self._check(chosen, None)
        return np.concatenate(list(chosen.values()))

    def counts(self, split: Splits = None) -> tuple[int, ...]:
        """Return how many images each class has in some splits; index = label; zeros included."""
        labels = np.concatenate(list(self._chosen(split).values()))
        return tuple(np.bincount(labels, minlength=len(self.classes)).tolist())

    def _chosen(self, split: Splits) -> dict[str, LabelArray]:
        """Return the labels of the chosen splits, each split once."""
        names = SPLITS if split is None else (split,) if isinstance(split, str) else tuple(split)
        if not names or len(set(names)) != len(names) or not set(names) <= set(SPLITS):
            raise MismatchError(
                f"split must be one or more of {', '.join(SPLITS)}, each once, found {split!r}"
            )
        nothing = np.empty(0, np.int64)
        return {name: self.by_split.get(name, nothing) for name in names}

    def _check(self, chosen: dict[str, LabelArray], label: int | None) -> None:
        """Raise when a wanted class has no image in the chosen splits."""
        if label is not None and not 0 <= label < len(self.classes):
            raise MismatchError(
                f"label must be 0..{len(self.classes) - 1} in {self.card.name}, found {label}"
            )
        counts = self.counts(tuple(chosen))
        where = f"{self.card.name}, split {'+'.join(chosen)}"
        if not any(counts):
            sizes = ", ".join(f"{part} {len(v)}" for part, v in self.by_split.items())
            raise MismatchError(f"{where}, has no image; choose another split ({sizes})")
        for wanted in range(len(self.classes)) if label is None else (label,):
            if counts[wanted] == 0:
                raise MismatchError(
                    f"{where}: class {wanted} '{self.classes[wanted]}' has no image; choose other "
                    "splits or take the class out of the card"
                )


def read_memory(
    arrays: Mapping[str, ImageArray], split: str, rows: Rows, size: int
) -> Iterator[ImageArray]:
    """Read rows of images that are in memory: the `Reader` of small datasets."""
    for start in range(0, len(rows), size):
        yield arrays[split][rows[start : start + size]]


def regroup(blocks: Iterable[ImageArray], size: int) -> Iterator[ImageArray]:
    """Yield the same images in the same order, `size` at a time."""
    held: list[ImageArray] = []
    count = 0
    for block in blocks:
        held.append(block)
        count += len(block)
        if count >= size:
            joined = np.concatenate(held)
            whole = count - count % size
            yield from (joined[start : start + size] for start in range(0, whole, size))
            held, count = [joined[whole:]], count - whole
    if count:
        yield np.concatenate(held)


def check_extent(shape: tuple[int, ...], where: str) -> None:
    """Raise unless one image of `shape` has a size that an image may have."""
    if not 1 <= (pixels := math.prod(shape)) <= LARGEST:
        raise MismatchError(
            f"{where}: an image must have 1 to {LARGEST:,} bytes, found {pixels:,}; cut it to "
            "tiles, or name a smaller size"
        )


def check_shape(shape: tuple[int, ...], dtype: np.dtype[Any], channels: int, where: str) -> None:
    """Raise unless (n, *image) is uint8 and (n, h, w) for 1 channel, (n, h, w, 3) for 3."""
    if dtype != np.uint8:
        raise DatasetError(
            f"{where}: images must be uint8 with intensities 0..255, found {dtype}; rescale "
            "(without NaN) to 0..255, convert with .astype('uint8') and save again"
        )
    wanted = "(n, h, w)" if channels == 1 else "(n, h, w, 3)"
    if len(shape) != (3 if channels == 1 else 4) or (channels == 3 and shape[-1] != 3):
        raise MismatchError(
            f"{where}: with {channels} channel(s) images must have shape {wanted}, found {shape}; "
            "move or drop axes, or correct channels in the card"
        )


def check_label_shape(shape: tuple[int, ...], dtype: np.dtype[Any], n: int, where: str) -> None:
    """Raise unless labels are n integers of shape (n,) or (n, 1)."""
    if dtype.kind not in "biu" or shape not in ((n,), (n, 1)):
        raise DatasetError(
            f"{where}: labels must be {n} integers, one for each image, of shape ({n},) or "
            f"({n}, 1), found {dtype} of shape {shape}"
        )


def check_labels(labels: NDArray[Any], n: int, classes: int, where: str) -> LabelArray:
    """Return labels as (n,) int64 if they are n integers 0..classes-1, else raise."""
    check_label_shape(labels.shape, labels.dtype, n, where)
    low, high = (labels.min(), labels.max()) if n else (0, 0)
    if low < 0 or high >= classes:
        raise DatasetError(
            f"{where}: labels must be 0..{classes - 1}, one for each class of the card, found "
            f"{low}..{high}; correct them or the classes"
        )
    return labels.reshape(-1).astype(np.int64)
