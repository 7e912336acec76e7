"""What the cards of one's own files say besides: whose images they are, and how bright.

Next on the path: `folder`, `table`, `dicom` and `nifti`, which read them.
"""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, FiniteFloat
from pydantic import model_validator as check

from pipeline.datasets.cards import Card, goes_down
from pipeline.errors import ImageError

Count: TypeAlias = Annotated[int, Field(ge=1, strict=True)]


class OwnCard(Card):
    """One's own images, in files: the keys that all such kinds have.

    Attributes
    ----------
    unit : {"image", "person"}
        What a record is, and so what is protected: an image, or all images of a person.
    classes_per_person : int
        In how many classes a person may be. With 1 a person belongs to the first class, in the
        card's order, in which they have an image; more are paid for (`pipeline.publish`).
    window : (low, high), "image" or "header", optional
        What becomes 0 and 255, in the units of the file: for all images the same, each image's own
        1st and 99th percentile, or what the file says. Needed above 8 bits.
    fit : {"crop", "pad", "stretch"}
        With `size`, how an image becomes square: its central square, all of it on black, or
        distorted.
    exclude : str, optional
        A text file beside the images, a path a line: files that are left out.
    slices : (fewest, most), optional
        Of volumes: how many slices each may have, along the first axis of a DICOM volume and the
        last of one in NIfTI. It is public: bounds rest on it, not on what is found. All volumes
        have the same number when left out.
    excluded_public : bool
        A release states how many files of each class `exclude` leaves out: that is public.
    """

    unit: Literal["image", "person"] = "image"
    classes_per_person: Count = 1
    window: tuple[FiniteFloat, FiniteFloat] | Literal["image", "header"] | None = None
    fit: Literal["crop", "pad", "stretch"] = "crop"
    exclude: str | None = None
    slices: tuple[Count, Count] | None = None
    excluded_public: bool = Field(False, strict=True)

    @property
    def shared(self) -> bool:
        """Whether several images may have their masks in one file."""
        return False

    @check(mode="after")
    def _own_keys_fit(self) -> Self:
        if "fit" in self.model_fields_set and not self.size:
            raise ValueError("key 'fit' needs size, the side in pixels that images are made to fit")
        if self.classes_per_person > 1 and self.unit == "image":
            raise ValueError('classes_per_person needs unit = "person"')
        if self.classes_per_person > len(self.classes):
            raise ValueError(
                f"classes_per_person is at most the number of classes, {len(self.classes)}, found "
                f"{self.classes_per_person}"
            )
        if isinstance(self.window, tuple) and not self.window[0] < self.window[1]:
            raise ValueError(f"window must be [low, high] with low < high, found {self.window}")
        if self.slices and not self.volumes:
            raise ValueError("slices needs volumes = true")
        if self.slices and not self.slices[0] <= self.slices[1]:
            raise ValueError(f"slices must be [fewest, most], found {self.slices}")
        if self.exclude is not None and not goes_down(self.exclude):
            raise ValueError(
                f"exclude must lie in the folder of the images, found {self.exclude!r}"
            )
        if self.excluded_public and self.exclude is None:
            raise ValueError("excluded_public needs exclude, the list of what is left out")
        return self


def check_slices(slices: tuple[int, int], count: int, where: str) -> None:
    """Raise unless a volume has as many slices as its card says; `where` names it."""
    fewest, most = slices
    if not fewest <= count <= most:
        raise ImageError(
            f"{where}: a volume must have {fewest} to {most} slices, as the card says, found "
            f"{count}; leave it out with exclude, or widen slices for all, which is public"
        )


def of_several_depths(card: Card) -> tuple[str, ...]:
    """Return what a run tells of volumes that need not have the same number of slices."""
    if not isinstance(card, OwnCard) or card.slices is None:
        return ()
    fewest, most = card.slices
    return (f"Volumes have {fewest} to {most} slices; the size told is that of the largest.",)


SHOWN = frozenset({"window", "fit", "slices", "axis", "frames", "masks", "segments"})
"""Keys that say what becomes of the pixels of a file, but for the size of what comes of them."""


def shown_as(card: Card) -> dict[str, Any]:
    """Return what a card says of how files become images, as JSON values; defaults left out."""
    return card.model_dump(mode="json", include=set(SHOWN), exclude_defaults=True)


def classes_per_person(card: Card) -> int | None:
    """Return in how many classes a person may be; None where a record is an image.

    What is protected, and its price, hang on this alone.
    """
    if isinstance(card, OwnCard) and card.unit == "person":
        return card.classes_per_person
    return None
