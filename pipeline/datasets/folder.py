"""Images in folders, one class a folder or as the card's pattern says."""

from pathlib import Path
from typing import Self

from pydantic import model_validator as check

from pipeline.datasets.classed import check_card, check_person, sort_files
from pipeline.datasets.decoding import FORMATS, PictureCard
from pipeline.datasets.download import Asking, find_own, present
from pipeline.datasets.own import OwnCard
from pipeline.datasets.pictures import from_files
from pipeline.datasets.sifting import Sift
from pipeline.datasets.source import ImageSource


class FolderCard(PictureCard):
    """What a card of kind ``folder`` says.

    With `size`, images are made square as `fit` says and resized; without, they are taken as they
    are.

    Attributes
    ----------
    pattern : str
        Where images lie, with ``{class}`` and, where wanted, ``{split}``, ``{person}`` and
        ``{date}`` (`pipeline.datasets.patterns`).
    masks : str, optional
        Where the mask of an image lies: what the pattern names, and ``*`` for the name of the image
        without its end.
    """

    pattern: str = "{class}/*"
    masks: str | None = None

    @property
    def beside(self) -> str | None:
        """Where masks lie that are found by the names of images."""
        return self.masks

    @check(mode="after")
    def _pattern_fits(self) -> Self:
        check_card(self)
        check_person(self)
        return self


def fetch_folder(card: OwnCard, root: Path, size: int | None, asking: Asking) -> Path:
    """Return the folder, which is always the user's own."""
    return find_own(card.name, root / (card.path or card.name), root)


def has_folder(card: OwnCard, root: Path, size: int | None) -> bool:
    """Tell whether the folder is there."""
    return present(root / (card.path or card.name))


def open_folder(card: FolderCard, path: Path, sift: Sift | None = None) -> ImageSource:
    """Open a folder: list the images of each class; what they hold is seen when they are read.

    Gray is Rec. 601 luma, as Pillow computes it. Images are ordered by class, then by path.

    Raises
    ------
    DatasetError
        When a class has no image, an image lies in two classes or out of the data root, or a path
        does not say whose it is where the card asks; when there are images of a format that the
        card does not name.
    """
    suffixes = tuple(end for kind in card.formats for end in FORMATS[kind])
    return from_files(card, sort_files(card, path, suffixes, card.formats, sift), path, sift)
