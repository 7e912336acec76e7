"""A kind of dataset: one file of raw bytes a class, image after image, without a header."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from covdp.arrays import ImageArray
from covdp.datasets.cards import Card
from covdp.datasets.kind import DatasetKind
from covdp.datasets.listing import Faults, open_regular
from covdp.datasets.source import ImageSource, Rows, StreamReader, split_codes
from covdp.errors import DatasetError


class RawCard(Card):
    """What a card of kind ``raw`` says: how high and wide its images are, in pixels."""

    stored_as: ClassVar[str] = "raw bytes of your own"
    height: PositiveInt
    width: PositiveInt

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image."""
        return (self.height, self.width, 3)[: 2 + (self.channels == 3)]


def open_raw(card: RawCard, path: Path, faults: Faults) -> ImageSource:
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
    reader = StreamReader(partial(read, card, path), files)
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


RAW = DatasetKind(RawCard, open_raw)
"""Member of `DATASET_KINDS`."""
