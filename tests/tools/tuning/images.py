"""The images: public ones that the numbers were set on, and others that they were not.

`tiles` comes with scikit-image. The others are used if their files are in the data root.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from covdp.arrays import FloatArray, ImageArray
from covdp.datasets import DATASETS, find_card, open_dataset, overview
from covdp.datasets.registry import DatasetRow, data_root
from covdp.datasets.tiles import TILE_PICTURES, cut, opened, pictures_folder
from covdp.descriptors import describe, domain
from covdp.geometry import find_manifold
from covdp.mean import Records, admit

SET_ON = ("tiles", "pneumoniamnist", "breastmnist")
"""What the adaptive mean was measured on, in README and tests, when its numbers were set."""
CARDS = Path(__file__).parent / "cards"
HELD_OUT = (
    *(name for name, card in DATASETS.items() if name not in SET_ON and not card.volumes),
    *sorted(str(path) for path in CARDS.glob("*.toml")),
    "adrenalmnist3d",  # of volumes the middle slices
)
"""All other sets, and samples by cards beside this file."""
MOST = 1500
"""Records of a class, at most, where numbers are tried: a choice of fixed seed."""


class ImageClass(NamedTuple):
    """The images of one class of one set."""

    card: str
    label: int

    @property
    def name(self) -> str:
        """Set and class in words."""
        return f"{Path(self.card).stem}, {find_card(self.card).classes[self.label]}"


def classes_of(cards: tuple[str, ...], root: Path | None) -> tuple[list[ImageClass], list[str]]:
    """Return the classes of all sets whose files are there, and the sets that are not.

    Nothing is downloaded.
    """
    rows = {row.name: row for row in overview(root)}
    here = [card for card in cards if _present(card, rows, root)]
    found = [
        ImageClass(card, label)
        for card in here
        for label, count in enumerate(open_dataset(card, root).counts())
        if count
    ]
    return found, [Path(card).stem for card in cards if card not in here]


def _present(card: str, rows: dict[str, DatasetRow], root: Path | None) -> bool:
    """Whether the files of a set are there, in the size that is used."""
    if card in rows:
        return rows[card].on_disk and (len(rows[card].sizes) < 2 or 28 in rows[card].sizes_on_disk)
    return (data_root(root) / str(find_card(card).path)).exists()


@cache
def images_of(one: ImageClass, root: Path | None) -> ImageArray:
    """Return all images of a class, all splits."""
    chunks = open_dataset(one.card, root).chunks(label=one.label)
    if find_card(one.card).volumes:
        chunks = (volumes[:, volumes.shape[1] // 2] for volumes in chunks)
    return np.concatenate(list(chunks))


@cache
def colour_tiles() -> tuple[ImageArray, ...]:
    """Return tiles in colour, 28×28, of the pictures behind `tiles` that have colour."""
    pictures = (pictures_folder() / TILE_PICTURES[name] for name in ("ihc", "retina"))
    return tuple(cut(opened(picture, "RGB"), 28) for picture in pictures)


def gray(images: ImageArray) -> ImageArray:
    """Return colour images in gray, Rec. 601 luma, as `tiles` are made."""
    luma: FloatArray = images @ np.array([0.299, 0.587, 0.114])
    return np.rint(luma).astype(np.uint8)


def records_of(
    images: ImageArray, *, descriptor: str, manifold: str = "spd-log-euclidean"
) -> Records:
    """Return the records of images."""
    height, width = images.shape[1:3]
    points: FloatArray = describe(images, descriptor)
    facts = domain(descriptor, height=height, width=width, manifold=manifold)
    return admit(points, domain=facts, manifold=find_manifold(manifold, points))


def some(images: ImageArray, most: int = MOST) -> ImageArray:
    """Return at most `most` of the images."""
    if len(images) <= most:
        return images
    return images[np.sort(np.random.default_rng(0).permutation(len(images))[:most])]
