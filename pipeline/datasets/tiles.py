"""The embedded images: tiles of three real biomedical pictures that scikit-image ships.

They are there for the first run, which then needs no network. Neighbouring tiles overlap by half,
so that they are not independent; they show how the pipeline works, not how tissue differs.
"""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator as check

from covdp.arrays import ImageArray
from covdp.datasets.cards import Card, no_path
from covdp.datasets.kind import DatasetKind
from covdp.datasets.source import ImageSource, MemoryReader, split_codes
from covdp.errors import DatasetError, MissingError

if TYPE_CHECKING:
    from covdp.datasets.listing import Faults

TILE_PICTURES = {"ihc": "ihc.png", "retina": "retina.jpg", "cell": "cell.png"}
"""Class to file: stained colon tissue, the back of an eye, a living cell."""

CONTRAST = 8
"""A tile is used when its intensities span at least this much: no tile of plain background."""


class TilesCard(Card):
    """A card of kind ``tiles``, without keys of its own."""

    official: ClassVar[str] = "shipped with scikit-image, cut on the fly"

    def place(self, root: Path, size: int | None) -> Path:
        """Return the folder of the pictures.

        Parameters
        ----------
        root : Path
            Data root.
        size : int or None
            Side of the images in pixels, for sets that exist in several; the card's own when None.
        """
        return pictures_folder()

    @check(mode="after")
    def _keys_fit(self) -> Self:
        return no_path(self)


def pictures_folder() -> Path:
    """Return the folder of the pictures inside the installed scikit-image (nothing is imported)."""
    spec = find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        raise MissingError("scikit-image is not installed; install covdp with its dependencies")
    return Path(spec.submodule_search_locations[0]) / "data"


def open_tiles(card: TilesCard, path: Path, faults: "Faults") -> ImageSource:
    """Cut the pictures in `path` into square tiles, one class a picture, all in split train.

    Parameters
    ----------
    card : TilesCard
        Card of the dataset.
    path : Path
        Folder of the pictures.
    faults : Faults
        Faults found so far, to which others are added.

    Returns
    -------
    ImageSource
        Opened dataset.
    """
    unknown = set(card.classes) - set(TILE_PICTURES)
    if unknown or not card.size:
        raise DatasetError(
            f"card {card.name}: kind 'tiles' needs a size and classes out of "
            f"{', '.join(TILE_PICTURES)}, found {card.size or 'none'}, {', '.join(card.classes)}"
        )
    pictures = [opened(path / TILE_PICTURES[name]) for name in card.classes]
    if card.size > (shortest := min(min(picture.shape) for picture in pictures)):
        raise DatasetError(
            f"card {card.name}: size must be up to {shortest}, the shortest side of the pictures, "
            f"found {card.size}"
        )
    tiles = [cut(picture, card.size) for picture in pictures]
    labels = np.repeat(np.arange(len(tiles)), [len(group) for group in tiles])
    images = MemoryReader(np.concatenate(tiles))
    shape, split = (card.size, card.size), split_codes("train", len(labels))
    return ImageSource(card, shape, labels, split, images)


def cut(picture: ImageArray, side: int) -> ImageArray:
    """Return the tiles of a picture, (n, side, side) or in colour, row by row, half over the next.

    The tile at (i, j) covers rows ``i·s .. i·s + side - 1`` and columns ``j·s ..``, with the
    stride s = side // 2. Retained are those with ``max - min >= CONTRAST``.

    Parameters
    ----------
    picture : uint8 array, shape (h, w) or (h, w, 3)
        Picture to cut.
    side : int
        Side s of a tile, in pixels.
    """
    stride = max(1, side // 2)
    windows = np.lib.stride_tricks.sliding_window_view(picture, (side, side), axis=(0, 1))
    tiles = windows[::stride, ::stride]
    if picture.ndim == 3:
        tiles = np.moveaxis(tiles, 2, -1)
    tiles = tiles.reshape(-1, side, side, *picture.shape[2:])
    with_contrast: ImageArray = tiles[np.ptp(tiles, axis=tuple(range(1, tiles.ndim))) >= CONTRAST]
    return with_contrast


@lru_cache(maxsize=8)
def opened(file: Path, mode: Literal["L", "RGB"] = "L") -> ImageArray:
    """Return a picture in gray (Rec. 601 luma), (h, w), or in colour, (h, w, 3), not to be written.

    It stays in memory: to open the pictures takes several times as long as to cut them.

    Parameters
    ----------
    file : Path
        Path of the file.
    mode : {"L", "RGB"}
        "L" for gray, "RGB" for colour.
    """
    from PIL import Image

    try:
        with Image.open(file, formats=("PNG", "JPEG")) as image:
            return np.asarray(image.convert(mode))
    except OSError as error:
        raise DatasetError(f"cannot read {file}; install scikit-image again") from error


TILES = DatasetKind(
    TilesCard, open_tiles, lambda card, root, size, progress: card.place(root, size)
)
"""Kind of dataset of the embedded images."""
