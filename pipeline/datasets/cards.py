"""Dataset cards: what one TOML file says about one dataset, validated.

A card is named by its file: ``data/pneumoniamnist.toml`` is the dataset ``pneumoniamnist``. `Card`
has the keys of all kinds, `LocalFilesCard` those of one's own files; a kind adds its own in the
file that reads it.
"""

import os
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeAlias, TypeVar

from pydantic import BeforeValidator, Field, FiniteFloat, NonNegativeInt, PrivateAttr
from pydantic import model_validator as check

from covdp.arrays import LabelArray, count_labels
from covdp.errors import (
    DatasetError,
    EmptyError,
    MismatchError,
    closest,
    image_error,
)
from covdp.toml import Record, parse, read_toml, unknown_key

Format: TypeAlias = Literal["PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP", "PPM", "JPEG2000"]

FORMATS: dict[Format, tuple[str, ...]] = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "TIFF": (".tif", ".tiff"),
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "WEBP": (".webp",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "JPEG2000": (".jp2", ".j2k", ".j2c", ".jpx"),
}
"""Formats that a card may name, with the ends of file names. Pillow decodes all of them in this
process; a format for which it would start another program (EPS) must never stand here."""

MASKS: tuple[Format, ...] = ("PNG", "TIFF", "BMP", "GIF", "PPM")
"""Formats of masks: none that blurs an edge."""

ASK_WINDOW = 'give window = [low, high] or "image" in the card'
"""Way out of values that have no window."""
ASK_ANY_WINDOW = 'give window = [low, high], "header" or "image" in the card'
"""Way out where files may have a window of their own."""

NARROWEST_IMAGE, WIDEST_IMAGE = 3, 8192
"""Sides of square images: 3 is the least with a pixel that has all its neighbours; described, the
widest takes about 8 bytes of memory a pixel, half a GB."""


class Images(Record):
    """Number of images of each split.

    Attributes
    ----------
    train : int
        Number of images of the split train.
    val : int
        Number of images of the split val.
    test : int
        Number of images of the split test.
    """

    train: NonNegativeInt = 0
    val: NonNegativeInt = 0
    test: NonNegativeInt = 0

    @property
    def total(self) -> int:
        """All images of all splits."""
        return self.train + self.val + self.test


AnyCard = TypeVar("AnyCard", bound="Card")


def _number(value: Any) -> Any:
    """Return what a card says unless it is true or false, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


Axis: TypeAlias = Annotated[Literal[0, 1, 2], BeforeValidator(_number)]
"""An axis of a volume."""


RENDERING_KEYS = frozenset({"window", "fit", "slices", "axis", "frames", "masks", "segments"})
"""Keys that say what becomes of the pixels of a file, but for the size of what comes of them."""


class Card(Record):
    """One dataset, as its TOML card describes it: the keys that every kind has.

    A kind adds its own in a class of its own, in the file that reads it.

    Attributes
    ----------
    name : str
        The name of the card's file, without ``.toml``.
    title : str
        Name on pages.
    kind : str
        Format of the images, a key of `covdp.datasets.registry.DATASET_KINDS`.
    description : str
        Content of the images, in a sentence.
    licence : str
        Licence of the images.
    url : str
        Address of the dataset's page.
    channels : {1, 3}
        Gray or colour.
    classes : tuple of str
        Class names; a label is an index into them. Every record is in exactly one class.
    images : Images, optional
        Number of images of each split, where it is known before they are read.
    local : bool
        The files are the user's own: nothing is downloaded and no digest is checked.
    public : bool
        The images may be shown: a run writes samples and true means of them.
    path : str, optional
        Path of the file or folder, relative to the data root, which it cannot leave; named after
        the dataset when left out.
    size : int, optional
        Side of the square images in pixels, from `NARROWEST_IMAGE` to `WIDEST_IMAGE`.
    volumes : bool
        Images are volumes, (d, h, w), of one channel; only for kinds that are `volumetric`.
    """

    volumetric: ClassVar[bool] = False
    stored_as: ClassVar[str] = "files of your own"
    official: ClassVar[str] = ""
    """Words for files that are not the user's own; "" of a kind that has no others."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    title: str = ""
    kind: str
    description: str = ""
    licence: str = "not stated"
    url: str = ""
    channels: Annotated[Literal[1, 3], BeforeValidator(_number)]
    classes: tuple[str, ...] = Field(min_length=1)
    images: Images | None = None
    local: bool = False
    public: bool = Field(False, strict=True)
    path: str | None = None
    size: Annotated[int, Field(ge=NARROWEST_IMAGE, le=WIDEST_IMAGE, strict=True)] | None = None
    volumes: bool = Field(False, strict=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that may be asked for, the default first; empty when the file decides."""
        return (self.size,) if self.size else ()

    def place(self, root: Path, size: int | None) -> Path:
        """Return the path of the files of a size.

        Parameters
        ----------
        root : Path
            Data root.
        size : int or None
            Side of the images in pixels, for sets that exist in several; the card's own when None.
        """
        return root / (self.path or self.name)

    def on_disk(self, root: Path, size: int | None) -> bool:
        """Return True if they are there, as far as this user can see; by names, not by digests.

        Parameters
        ----------
        root : Path
            Data root.
        size : int or None
            Side of the images in pixels, for sets that exist in several; the card's own when None.
        """
        return os.access(self.place(root, size), os.F_OK)

    def origin(self, *, ours: bool) -> str:
        """Describe the origin of the images, and what was checked of them; of `ours` in ``data/``.

        Parameters
        ----------
        ours : bool
            True for a card in ``data/``, False for one of the user's own.

        Returns
        -------
        str
            Sentence without its full stop.
        """
        return f"{self.stored_as}, no digest to check" if self.own else self.official

    _sparse: bool = PrivateAttr(False)

    @property
    def sparse(self) -> bool:
        """True if a class may have no image: on one night of a stream; see `may_be_empty`."""
        return self._sparse

    @property
    def own(self) -> bool:
        """True if the files are the user's own, as those of most kinds always are."""
        return self.local or not self.official

    @property
    def masked(self) -> bool:
        """True if each image comes with a mask."""
        return getattr(self, "masks", None) is not None

    @property
    def person_from(self) -> str | None:
        """The rule of the card that says whose an image is; None where it has none."""
        return None

    @property
    def rendering_settings(self) -> dict[str, Any]:
        """The settings of how files become images, and whose, as JSON values; no defaults."""
        return self.model_dump(mode="json", include=set(RENDERING_KEYS), exclude_defaults=True)

    @property
    def decoding(self) -> str:
        """Digest of the images that the libraries of this machine make of public files.

        It tells versions apart that make other images of the same files. "" where none is decoded.
        """
        return ""

    def require_classes(self, labels: LabelArray, fault: Callable[[str], str]) -> None:
        """Raise unless each class has an image, or some class has where the card is sparse.

        Parameters
        ----------
        labels : array of int, shape (n,)
            The class of each image.
        fault : callable
            Function of the name of a class without images that returns the error.

        Raises
        ------
        EmptyError
            No class has an image.
        MismatchError
            One has none.
        """
        counts = count_labels(labels, len(self.classes))
        missing = [name for name, count in zip(self.classes, counts, strict=True) if not count]
        if len(missing) == len(self.classes):
            raise EmptyError(fault(missing[0]))
        if missing and not self.sparse:
            raise MismatchError(fault(missing[0]))

    @check(mode="after")
    def _classes_are_disjoint(self) -> Self:
        plain = {unicodedata.normalize("NFC", name) for name in self.classes}
        if len(plain) != len(self.classes) or not all(self.classes):
            raise ValueError(f"classes must have different, non-empty names, found {self.classes}")
        for name in self.classes:
            if not name.isprintable() or name != name.strip():
                raise ValueError(
                    "a class is named on one line without invisible characters and blanks around "
                    f"it, found {name!a}"
                )
        return self

    @check(mode="after")
    def _volumes_are_gray(self) -> Self:
        if self.volumes and not self.volumetric:
            raise ValueError(f"key 'volumes' is not for kind '{self.kind}', whose images are flat")
        if self.volumes and self.channels != 1:
            raise ValueError(f"volumes have 1 channel, found channels = {self.channels}")
        return self

    @check(mode="after")
    def _stays_in_the_data_root(self) -> Self:
        if self.path is not None and not goes_down(self.path):
            raise ValueError(
                "path must be in the data root, printable, without '..', '~' or a leading '/', "
                f"found {self.path!r}; name another root with --data-root or COVDP_DATA"
            )
        return self


def may_be_empty(card: AnyCard) -> AnyCard:
    """Return the card of the same images, of which a class may have none.

    Parameters
    ----------
    card : AnyCard
        Card of the dataset.
    """
    card = card.model_copy()
    card._sparse = True
    return card


def no_path(card: AnyCard) -> AnyCard:
    """Return a card of a kind whose files have a place of their own, unless it names another.

    Parameters
    ----------
    card : AnyCard
        Card of one kind.
    """
    if card.path:
        raise ValueError("key 'path' is for a folder or for an npz with local = true")
    return card


def goes_down(path: str) -> bool:
    """Return True if `path` is printable and relative, and goes down only.

    Parameters
    ----------
    path : str
        Path as the card has it.
    """
    parts = path.replace("\\", "/").split("/")
    rooted = Path(path).anchor or path.startswith(("/", "\\", "~"))
    return not (rooted or ".." in parts or not path.isprintable())


class CardKind(Protocol):
    """Kind of dataset, as far as its cards go."""

    @property
    def card(self) -> "type[Card]":
        """Model of its cards."""


def read_card(path: Path, kinds: Mapping[str, CardKind]) -> Card:
    """Read and validate one card.

    Parameters
    ----------
    path : Path
        The TOML file.
    kinds : mapping of str to CardKind
        Kinds of datasets, by the value of ``kind``.

    Returns
    -------
    Card
        Validated card.

    Raises
    ------
    DatasetError
        When the file is unreadable, a key is unknown, missing or has a value that means nothing;
        one line naming file and key.
    """
    keys = read_toml(path, DatasetError, "card")
    if not keys:
        raise DatasetError(f"{path} is an empty card; write it with `covdp card FOLDER > {path}`")
    if "name" in keys:
        raise DatasetError(f"{path}: leave out key 'name': a card is named by its file")
    kind = kinds.get(str(keys.get("kind")))
    if kind is None:
        raise DatasetError(f"{path}: {_no_kind(keys, kinds)}")
    model = kind.card
    for key in [key for key in keys if key not in model.model_fields]:
        if owners := [name for name, other in kinds.items() if key in other.card.model_fields]:
            kinds_of = "' or '".join(owners)
            raise DatasetError(
                f"{path}: key '{key}' belongs to kind '{kinds_of}', not to '{keys['kind']}'"
            )
    card = parse(model, {"name": path.stem, **keys}, path, DatasetError)
    if isinstance(card, LocalFilesCard) and card.exclude:
        card._folder = path.absolute().parent
    return card if card.title else card.model_copy(update={"title": card.name})


def _no_kind(keys: Mapping[str, object], kinds: Mapping[str, CardKind]) -> str:
    """Return what is wrong with a card whose kind is missing, misspelt or not known."""
    all_keys = {key for kind in kinds.values() for key in kind.card.model_fields} - {"name"}
    if strange := [key for key in keys if key not in all_keys]:
        return unknown_key(strange[0], strange[0], all_keys - keys.keys())
    if "kind" not in keys:
        return f"key 'kind' is missing; it is one of {', '.join(kinds)}"
    hint = closest(str(keys["kind"]), kinds).strip()
    text = f"key 'kind' must be one of {', '.join(kinds)}, found {keys['kind']!r}"
    return f"{text}; {hint}" if hint else text


def _named_window(window: Any) -> Any:
    """Return what a card says unless it is a word that names no window."""
    if isinstance(window, str) and window not in ("image", "header"):
        raise ValueError('must be [low, high], "image" or "header"')
    return window


Count: TypeAlias = Annotated[int, Field(ge=1, strict=True)]


class LocalFilesCard(Card):
    """One's own images, in files: the keys that all such kinds have.

    Attributes
    ----------
    unit : {"image", "person"}
        Record, and so what is protected: an image, or all images of a person.
    classes_per_person : int
        Largest number of classes with images of one person. With 1 a person belongs to the first
        class, in the card's order, in which they have an image; more are paid for
        (`covdp.publish`).
    window : (low, high), "image" or "header", optional
        Values that become 0 and 255, in the units of the file: for all images the same, each
        image's own 1st and 99th percentile, or those in its header. Needed above 8 bits.
    fit : {"crop", "pad", "stretch"}
        Way in which an image becomes square, with `size`: its central square, all of it on black,
        or distorted.
    exclude : str, optional
        A text file beside the card, or else beside the images, one path in each row: files that are
        left out, by their paths in the folder of the images.
    slices : (fewest, most), optional
        Range of the number of slices of a volume, along the first axis in DICOM and the last one in
        NIfTI. It is public: bounds rest on it, not on what is found. All volumes have the same
        number when left out.
    excluded_public : bool
        A release states how many files of each class `exclude` leaves out: that is public.
    """

    unit: Literal["image", "person"] = "image"
    classes_per_person: Count = 1
    window: Annotated[
        tuple[FiniteFloat, FiniteFloat] | Literal["image", "header"] | None,
        BeforeValidator(_named_window),
    ] = None
    fit: Literal["crop", "pad", "stretch"] = "crop"
    exclude: str | None = None
    slices: tuple[Count, Count] | None = None
    excluded_public: bool = Field(False, strict=True)
    _folder: Path | None = PrivateAttr(None)

    @property
    def folder(self) -> Path | None:
        """Folder of the card, where `exclude` names a file."""
        return self._folder

    @property
    def shared(self) -> bool:
        """True if several images may have their masks in one file."""
        return False

    @property
    def rendering_settings(self) -> dict[str, Any]:
        """The settings of how files become images, and of persons also whose they are."""
        named = self.unit == "person" and self.person_from is not None
        return super().rendering_settings | ({"person": self.person_from} if named else {})

    def check_depth(self, count: int, where: str) -> None:
        """Raise unless a volume has as many slices as the card says; `where` names it.

        Parameters
        ----------
        count : int
            Number of slices of the volume.
        where : str
            Name of the file, for the message.
        """
        fewest, most = self.slices or (count, count)
        if not fewest <= count <= most:
            raise image_error(
                f"{where}: a volume must have {fewest} to {most} slices, as the card says, found "
                f"{count}; widen slices in the card for all, which is public"
            )

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
        if self.window == "header" and self.channels == 3:
            raise ValueError('colour has no window of its own; give [low, high] or "image"')
        if self.volumes and (strange := {"size", "frames", "mixed"} & self.model_fields_set):
            raise ValueError(
                f"key '{min(strange)}' is for images: size, frames and mixed are for slices, not "
                "for whole volumes"
            )
        if getattr(self, "frames", None) == "masked" and not self.masked:
            raise ValueError('frames = "masked" needs masks, found none; name them')
        if self.slices and not self.volumes:
            raise ValueError("slices needs volumes = true")
        if self.slices and not self.slices[0] <= self.slices[1]:
            raise ValueError(f"slices must be [fewest, most], found {self.slices}")
        if self.exclude is not None and not goes_down(self.exclude):
            raise ValueError(
                "exclude must be a path from the folder of the card or of the images, printable, "
                f"without '..', found {self.exclude!r}"
            )
        if self.excluded_public and self.exclude is None:
            raise ValueError("excluded_public needs exclude, the list of what is left out")
        return self


def pixel_rules(card: Card) -> dict[str, Any]:
    """Return ``window`` and ``fit``, where a card says them: how files become gray levels, squares.

    Means of images that were made by other rules are of different things.

    Parameters
    ----------
    card : Card
        Card of the dataset.
    """
    rules = {"window", "fit"} if card.size else {"window"}
    return card.model_dump(include=rules, exclude_none=True)


def classes_per_person(card: Card) -> int | None:
    """Return in how many classes a person may be; None where a record is an image.

    What is protected, and its price, hang on this alone.

    Parameters
    ----------
    card : Card
        Card of the dataset.
    """
    if isinstance(card, LocalFilesCard) and card.unit == "person":
        return card.classes_per_person
    return None


def _known(frames: Any) -> Any:
    """Return what a card says if it names frames, each once."""
    if frames in ("all", "middle", "masked"):
        return frames
    indices = list(frames) if isinstance(frames, list | tuple) else []
    if not all(type(index) is int and index >= 0 for index in indices):
        raise ValueError(f"indices are whole numbers from 0 on, found {frames}")
    if not indices or len(set(indices)) < len(indices):
        raise ValueError(
            f'must be "all", "middle", "masked" or a list of different indices, found {frames}'
        )
    return tuple(indices)


Frames: TypeAlias = Annotated[
    Literal["all", "middle", "masked"] | tuple[int, ...], BeforeValidator(_known)
]
"""All, the middle one (of an even number the later of the two), those with a pixel inside their
mask, or those of these indices."""
