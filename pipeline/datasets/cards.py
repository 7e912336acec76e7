"""Dataset cards: what one TOML file says about one dataset, validated.

A card is named by its file: ``data/pneumoniamnist.toml`` is the dataset ``pneumoniamnist``.
"""

import difflib
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError
from pydantic import model_validator as check

from pipeline.errors import DatasetError
from pipeline.toml import read_toml

Kind: TypeAlias = Literal["tiles", "npz", "folder", "torchvision"]

LARGEST = 1 << 36
"""Bytes that a download may have where its card does not say how many images it has: 64 GiB."""

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
"""What a card may name, with the ends of file names. Pillow decodes all of it in this process; a
format for which it would start another program (EPS) must never stand here."""

_OWNERS = {
    "files": "npz",
    "findings": "npz",
    "pattern": "folder",
    "formats": "folder",
    "fit": "folder",
    "torchvision": "torchvision",
}
"""Keys that mean something for one kind only."""


class Record(BaseModel):
    """A frozen record that forbids unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Images(Record):
    """How many images each split has."""

    train: NonNegativeInt = 0
    val: NonNegativeInt = 0
    test: NonNegativeInt = 0

    @property
    def total(self) -> int:
        """All images of all splits."""
        return self.train + self.val + self.test


class RemoteFile(Record):
    """One downloadable ``.npz``: its images' side in pixels, its address, its digest."""

    size: PositiveInt
    url: str = Field(pattern=r"^https?://\S+$")
    md5: str = Field(pattern=r"^[0-9a-f]{32}$")


class Card(Record):
    """One dataset, as its TOML card describes it.

    Attributes
    ----------
    name : str
        The name of the card's file, without ``.toml``.
    kind : {"tiles", "npz", "folder", "torchvision"}
        How the images are stored.
    classes : tuple of str
        Class names; a label is an index into them. Every record lies in exactly one class.
    channels : {1, 3}
        Gray or colour.
    files : tuple of RemoteFile
        npz: what can be downloaded, one file for each size; the first is the default.
    local : bool
        The files are the user's own: nothing is downloaded and no digest is checked.
    public : bool
        The images may be shown: a run writes samples and true means of them.
    path : str, optional
        Where the file or folder lies, relative to the data root, which it cannot leave;
        ``NAME.npz`` or ``NAME_SIZE.npz`` for npz, ``NAME`` for a folder when left out.
    size : int, optional
        Side of the square images in pixels. For a folder: images are made square as `fit` says and
        resized to it; when left out they are taken as they are.
    findings : tuple of str
        npz with several labels an image, as an ``(n, len(findings))`` array of 0 and 1: an image
        without any finding is in class 0, an image with at least one in class 1.
    pattern : str
        folder: where images lie, with ``{class}`` and, if there are splits, ``{split}``.
    formats : tuple of str
        folder: the formats that are read, out of `FORMATS`.
    fit : {"crop", "pad", "stretch"}
        folder: how an image becomes square: its central square, all of it on black, or distorted.
    torchvision : str, optional
        torchvision: the name of the class in ``torchvision.datasets``.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    title: str = ""
    kind: Kind
    description: str = ""
    licence: str = "not stated"
    url: str = ""
    channels: Literal[1, 3]
    classes: tuple[str, ...] = Field(min_length=1)
    images: Images | None = None
    files: tuple[RemoteFile, ...] = ()
    local: bool = False
    public: bool = Field(False, strict=True)
    path: str | None = None
    size: Annotated[int, Field(ge=1, strict=True)] | None = None
    findings: tuple[str, ...] = ()
    pattern: str = "{class}/*"
    formats: tuple[Format, ...] = Field(("PNG", "JPEG"), min_length=1)
    fit: Literal["crop", "pad", "stretch"] = "crop"
    torchvision: Literal["MNIST", "KMNIST", "FashionMNIST", "CIFAR10"] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that may be asked for, the default first; empty when the file decides."""
        return tuple(file.size for file in self.files) or ((self.size,) if self.size else ())

    def most_bytes(self, side: int) -> int:
        """Return how many bytes a file of these images may have: twice what they have unpacked."""
        if self.images is None:
            return LARGEST
        an_image = side * side * self.channels + 8 * max(1, len(self.findings))
        return 2 * self.images.total * an_image + (1 << 20)

    @property
    def own(self) -> bool:
        """Whether the files are the user's own."""
        return self.local or self.kind == "folder"

    @check(mode="after")
    def _keys_fit_the_kind(self) -> Self:
        for key, kind in _OWNERS.items():
            if key in self.model_fields_set and self.kind != kind:
                raise ValueError(f"key '{key}' belongs to kind '{kind}', not to '{self.kind}'")
        if self.kind == "npz" and self.local == bool(self.files):
            raise ValueError("kind 'npz' needs either local = true or [[files]] to download")
        if self.kind == "npz" and self.size:
            raise ValueError("key 'size' is not for kind 'npz': the file has the size")
        if "fit" in self.model_fields_set and not self.size:
            raise ValueError("key 'fit' needs size, the side in pixels that images are made to fit")
        if self.path and (self.kind not in ("npz", "folder") or self.files):
            raise ValueError("key 'path' is for a folder or for an npz with local = true")
        if (self.kind == "torchvision") != bool(self.torchvision):
            raise ValueError("kind 'torchvision' needs torchvision = \"MNIST\" or the like")
        return self

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
        if self.findings and len(self.classes) != 2:
            raise ValueError("findings need two classes: without and with a finding")
        return self

    @check(mode="after")
    def _stays_in_the_data_root(self) -> Self:
        if self.path is not None and not _plain(self.path):
            raise ValueError(
                f"path must lie in the data root, without '..', '~' or a leading '/', found "
                f"{self.path!r}; name another root with --data-root or COVDP_DATA"
            )
        if "{class}" not in self.pattern or not _plain(self.pattern):
            raise ValueError(
                "pattern must be relative, without '..', and contain {class}, as in "
                f"'{{class}}/*.png', found {self.pattern!r}"
            )
        if any("**" in part and part != "**" for part in Path(self.pattern).parts):
            raise ValueError("'**' in pattern must be a folder of its own, as in '{class}/**/*'")
        for name in self.classes if self.kind == "folder" else ():
            if not _plain(self.pattern.replace("{class}", name)):
                raise ValueError(f"class {name!r} would lead out of the folder")
        return self


def _plain(path: str) -> bool:
    """Return whether `path` is printable and relative, and goes down only."""
    parts = path.replace("\\", "/").split("/")
    rooted = Path(path).anchor or path.startswith(("/", "\\", "~"))
    return not (rooted or ".." in parts or not path.isprintable())


def load_card(path: Path) -> Card:
    """Read and validate one card.

    Raises
    ------
    DatasetError
        When the file is unreadable, a key is unknown, missing or has a value that means nothing;
        one line naming file and key.
    """
    found = read_toml(path, DatasetError, "card")
    if "name" in found:
        raise DatasetError(f"{path}: leave out key 'name': a card is named by its file")
    try:
        card = Card.model_validate({"name": path.stem, **found})
    except ValidationError as error:
        raise DatasetError(f"{path}: {_first_reason(error)}") from error
    return card if card.title else card.model_copy(update={"title": card.name})


def _first_reason(error: ValidationError) -> str:
    """Return one thing that is wrong with a card; a misspelt key before the one it hides."""
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"key '{place}' is missing"
    if first["type"] == "extra_forbidden":
        models: dict[str, type[Record]] = {"files": RemoteFile, "images": Images}
        model = models.get(str(first["loc"][0]), Card) if len(first["loc"]) > 1 else Card
        known = sorted(set(model.model_fields) - {"name"})
        close = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known keys: {', '.join(known)}"
        return f"key '{place}' is not known; {hint}"
    reason = first["msg"].removeprefix("Value error, ")
    return f"key '{place}': {reason}, found {first['input']!r}" if place else reason
