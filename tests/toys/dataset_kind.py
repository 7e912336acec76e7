"""A kind of dataset: one file of raw bytes a class, image after image, without a header."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import PositiveInt

from pipeline.arrays import ImageArray
from pipeline.datasets import Card, ImageSource
from pipeline.datasets.download import Asking, find_own, present
from pipeline.datasets.listing import open_regular
from pipeline.datasets.readers import InOneStream, Rows
from pipeline.datasets.registry import DatasetKind
from pipeline.datasets.source import split_codes
from pipeline.errors import DatasetError


class RawCard(Card):
    """What a card of kind ``raw`` says: how high and wide its images are, in pixels."""

    height: PositiveInt
    width: PositiveInt

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image."""
        return (self.height, self.width, 3)[: 2 + (self.channels == 3)]


def fetch(card: RawCard, root: Path, size: int | None, asking: Asking) -> Path:
    """Return the folder, which is the user's own."""
    return find_own(card.name, root / (card.path or card.name), root)


def has(card: RawCard, root: Path, size: int | None) -> bool:
    """Tell whether the folder is there."""
    return present(root / (card.path or card.name))


def open_raw(card: RawCard, path: Path) -> ImageSource:
    """Open ``CLASS.raw`` of each class; all images are in split train."""
    pixels = int(np.prod(card.shape))
    sizes = [(path / f"{name}.raw").stat().st_size for name in card.classes]
    if any(size % pixels for size in sizes):
        raise DatasetError(
            f"{path}: files must hold whole images of {pixels} bytes, found {sizes}; correct "
            "height, width or channels in the card"
        )
    labels = np.repeat(np.arange(len(sizes)), [size // pixels for size in sizes])
    files = tuple(path / f"{name}.raw" for name in card.classes)
    reader = InOneStream(partial(read, card, path), files)
    return ImageSource(card, card.shape, labels, split_codes("train", len(labels)), reader)


def read(card: RawCard, path: Path, rows: Rows, size: int) -> Iterator[ImageArray]:
    """Read rows, `size` at a time."""
    parts = []
    for name in card.classes:
        with open_regular(path / f"{name}.raw") as stream:
            parts.append(np.frombuffer(stream.read(), np.uint8).reshape(-1, *card.shape))
    images = np.concatenate(parts)
    for start in range(0, len(rows), size):
        yield images[rows[start : start + size]]


RAW = DatasetKind(RawCard, fetch, has, open_raw, lambda card, ours: "raw bytes of your own")
