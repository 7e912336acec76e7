"""Dataset cards: what one TOML file says about one dataset, validated.

A card is named by its file: ``data/pneumoniamnist.toml`` is the dataset ``pneumoniamnist``.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol, Self, TypeVar

from pydantic import Field, NonNegativeInt, PrivateAttr
from pydantic import model_validator as check

from pipeline.errors import DatasetError, EmptyError, MismatchError, closest
from pipeline.toml import Record, parse, read_toml, unknown_key

LARGEST = 1 << 36
"""Bytes that a download may have where its card does not say how many images it has: 64 GiB."""

WIDEST = 8192
"""Side of square images: described, one takes about 8 bytes of memory a pixel, half a GB."""


class Images(Record):
    """How many images each split has."""

    train: NonNegativeInt = 0
    val: NonNegativeInt = 0
    test: NonNegativeInt = 0

    @property
    def total(self) -> int:
        """All images of all splits."""
        return self.train + self.val + self.test


AnyCard = TypeVar("AnyCard", bound="Card")


class Card(Record):
    """One dataset, as its TOML card describes it: the keys that every kind has.

    A kind adds its own in a class of its own, in the file that reads it.

    Attributes
    ----------
    name : str
        The name of the card's file, without ``.toml``.
    kind : str
        How the images are stored, a key of `pipeline.datasets.registry.KINDS`.
    classes : tuple of str
        Class names; a label is an index into them. Every record lies in exactly one class.
    channels : {1, 3}
        Gray or colour.
    local : bool
        The files are the user's own: nothing is downloaded and no digest is checked.
    public : bool
        The images may be shown: a run writes samples and true means of them.
    path : str, optional
        Where the file or folder lies, relative to the data root, which it cannot leave; named after
        the dataset when left out.
    size : int, optional
        Side of the square images in pixels, up to `WIDEST`.
    volumes : bool
        Images are volumes, (d, h, w), of one channel; only for kinds that are `volumetric`.
    """

    volumetric: ClassVar[bool] = False

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    title: str = ""
    kind: str
    description: str = ""
    licence: str = "not stated"
    url: str = ""
    channels: Literal[1, 3]
    classes: tuple[str, ...] = Field(min_length=1)
    images: Images | None = None
    local: bool = False
    public: bool = Field(False, strict=True)
    path: str | None = None
    size: Annotated[int, Field(ge=1, le=WIDEST, strict=True)] | None = None
    volumes: bool = Field(False, strict=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that may be asked for, the default first; empty when the file decides."""
        return (self.size,) if self.size else ()

    _sparse: bool = PrivateAttr(False)

    @property
    def sparse(self) -> bool:
        """Whether a class may have no image: on one night of a stream; see `may_be_empty`."""
        return self._sparse

    @property
    def own(self) -> bool:
        """Whether the files are the user's own, as those of a kind are that says nothing else."""
        return True

    @property
    def masked(self) -> bool:
        """Whether each image comes with a mask."""
        return getattr(self, "masks", None) is not None

    @check(mode="after")
    def _classes_are_disjoint(self) -> Self:
        if len(set(self.classes)) != len(self.classes) or not all(self.classes):
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
                f"path must lie in the data root, without '..', '~' or a leading '/', found "
                f"{self.path!r}; name another root with --data-root or COVDP_DATA"
            )
        return self


class Classes(Protocol):
    """What a card says of its classes."""

    @property
    def classes(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def sparse(self) -> bool: ...  # noqa: D102


def may_be_empty(card: AnyCard) -> AnyCard:
    """Return the card of the same images, of which a class may have none."""
    card = card.model_copy()
    card._sparse = True
    return card


def require_classes(card: Classes, counts: Sequence[int], fault: Callable[[str], str]) -> None:
    """Raise unless each class has an image, or some class has where the card is sparse.

    Parameters
    ----------
    counts : sequence of int
        Images of each class.
    fault : callable
        What is said of a class that has none, by its name.

    Raises
    ------
    EmptyError
        No class has an image.
    MismatchError
        One has none.
    """
    missing = [name for name, count in zip(card.classes, counts, strict=True) if not count]
    if len(missing) == len(card.classes):
        raise EmptyError(fault(missing[0]))
    if missing and not card.sparse:
        raise MismatchError(fault(missing[0]))


def no_path(card: AnyCard) -> AnyCard:
    """Return a card of a kind whose files have a place of their own, unless it names another."""
    if card.path:
        raise ValueError("key 'path' is for a folder or for an npz with local = true")
    return card


def goes_down(path: str) -> bool:
    """Return whether `path` is printable and relative, and goes down only."""
    parts = path.replace("\\", "/").split("/")
    rooted = Path(path).anchor or path.startswith(("/", "\\", "~"))
    return not (rooted or ".." in parts or not path.isprintable())


def read_card(path: Path, kinds: Mapping[str, type[Card]]) -> Card:
    """Read and validate one card.

    Parameters
    ----------
    path : Path
        The TOML file.
    kinds : mapping of str to type
        What a card of each kind may say.

    Raises
    ------
    DatasetError
        When the file is unreadable, a key is unknown, missing or has a value that means nothing;
        one line naming file and key.
    """
    found = read_toml(path, DatasetError, "card")
    if "name" in found:
        raise DatasetError(f"{path}: leave out key 'name': a card is named by its file")
    model = kinds.get(str(found.get("kind")))
    if model is None:
        raise DatasetError(f"{path}: {_no_kind(found, kinds)}")
    for key in [key for key in found if key not in model.model_fields]:
        if owners := [kind for kind, other in kinds.items() if key in other.model_fields]:
            kinds_of = "' or '".join(owners)
            raise DatasetError(
                f"{path}: key '{key}' belongs to kind '{kinds_of}', not to '{found['kind']}'"
            )
    card = parse(model, {"name": path.stem, **found}, path, DatasetError)
    return card if card.title else card.model_copy(update={"title": card.name})


def _no_kind(found: Mapping[str, object], kinds: Mapping[str, type[Card]]) -> str:
    """Return what is wrong with a card whose kind is missing, misspelt or not known."""
    known = {key for model in kinds.values() for key in model.model_fields} - {"name"}
    if strange := [key for key in found if key not in known]:
        return unknown_key(strange[0], strange[0], known - found.keys())
    if "kind" not in found:
        return f"key 'kind' is missing; it is one of {', '.join(kinds)}"
    hint = closest(str(found["kind"]), kinds).strip()
    text = f"key 'kind' must be one of {', '.join(kinds)}, found {found['kind']!r}"
    return f"{text}; {hint}" if hint else text
