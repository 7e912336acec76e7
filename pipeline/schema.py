"""The schema of the committed document: its models make it and read it.

It is a `ReleaseDocument`, or one of an add-on as of a night (`DOCUMENTS`), whose `json_schema` is
what `covdp schema` prints. What a round released stands in it as the record that holds it
(`NoisyMoments`). Everybody else reads attributes.

A document of our own is made without checks (`model_construct`), since nothing between draw and
commit may fail by the values drawn, but for numbers that JSON does not have; and it is read without
them (`read_ours`). Those of others are checked (`covdp.addons.partners.foreign`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WrapValidator,
)

from covdp import arrays
from covdp.arrays import UNCHECKED, FloatArray
from covdp.descriptors import DescriptorDomain, domain
from covdp.errors import ConfigError
from covdp.geometry import MANIFOLDS, Manifold, Point, chart_of
from covdp.geometry.covariances import covariances_of
from covdp.mean import NoisyMoments
from covdp.mean.noisy_moments import WeighedParts
from covdp.mean.release import NOT_ADAPTIVE
from covdp.privacy import Budget, budget_from, repeat
from covdp.registry import Registry

Model = TypeVar("Model", bound=BaseModel)


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable")
    return text


SAME_MEANS = (
    *("descriptor", "eta", "manifold", "masked"),
    *("image_height", "image_width", "image_depth"),
)
"""Settings without which means are of different things."""
PIXEL_RULES = ("window", "fit")
"""The same, where they are known: of files, of which the card says how they become pixels."""
Ours = WrapValidator(lambda value, check, info: value if info.context else check(value))
"""Validator of what is not checked in a document of our own."""
Name = Annotated[str, Field(strict=True, max_length=1000), AfterValidator(_printable), Ours]
Sentence = Annotated[str, Field(strict=True, max_length=100_000), Ours]
Count: TypeAlias = Annotated[int, arrays.COUNT]
Label: TypeAlias = Annotated[int, arrays.LABEL]
Whole: TypeAlias = Annotated[int, arrays.WHOLE]
Flag: TypeAlias = Annotated[bool, arrays.FLAG]
Size: TypeAlias = Annotated[float, arrays.SIZE]
Number: TypeAlias = Annotated[float, arrays.NUMBER]
Divisor: TypeAlias = Annotated[float, arrays.DIVISOR]
Numbers: TypeAlias = Annotated[FloatArray, arrays.NUMBERS]
Matrix: TypeAlias = Annotated[FloatArray, arrays.MATRIX]
Basis: TypeAlias = Annotated[FloatArray, arrays.BASIS]
Coordinates: TypeAlias = Annotated[FloatArray, arrays.COORDINATES]
Triangle: TypeAlias = Annotated[FloatArray, arrays.TRIANGLE]


class StreamPart(BaseModel):
    """The settings of a stream of nights."""

    horizon: Count
    opening: Divisor
    follows: Name | None


class SettingsPart(BaseModel):
    """Settings of a release: the config, the size of the images, and the version."""

    name: Name
    title: Name
    population: Name
    dataset: Name
    size: Count | None
    splits: list[Name] | None
    labels: Literal["secret", "public"]
    descriptor: Name
    eta: Size
    manifold: Name
    definition: Name
    budget: Divisor
    mechanism: Name
    shares: Numbers | None
    noise: Name
    run_key: Name
    stream: StreamPart | None
    images_per_person: Count | None
    smallest_class: Count
    classes_per_person: Count | None
    unit: Literal["image", "person"]
    image_height: Count
    image_width: Count
    image_depth: Count = Field(0, description="of volumes")
    masked: Flag = Field(False, description="whether images have regions of interest")
    window: tuple[Number, Number] | Literal["image", "header"] | None = Field(
        None, description="what became 0 and 255, as the card has it; null of values as stored"
    )
    fit: Literal["crop", "pad", "stretch"] | None = Field(
        None, description="how images became square, as the card has it"
    )
    classes: Annotated[list[tuple[Label, Name, Label | None]], Ours] = Field(
        description="label, name and number of images or persons; null where labels are secret"
    )
    total: Count | None = Field(
        None,
        description="number of images or persons of all classes together, where labels are "
        "secret; of a night so far",
    )
    version: Name

    @property
    def secret(self) -> bool:
        """True if it is protected in which class an image or person is."""
        return self.labels == "secret"

    @property
    def promise(self) -> Budget:
        """Promise to one image or person, for all classes it may be in."""
        return repeat(budget_from(self.definition, self.budget), self.classes_per_person or 1)

    @property
    def domain(self) -> DescriptorDomain:
        """The bound on all images."""
        return domain(
            self.descriptor,
            height=self.image_height,
            width=self.image_width,
            depth=self.image_depth or None,
            eta=self.eta,
            manifold=self.manifold,
            masked=self.masked,
        )

    @property
    def is_safe(self) -> bool:
        """True if its noise is safe to publish."""
        return self.noise == "hardened"


class AccountPart(BaseModel):
    """The account right after the charge, in the parameter of its definition."""

    definition: Name
    charged: Size
    total: Size
    spent: Size
    left: Size
    releases: Label
    releases_left: Label | None
    delta: Size
    images_per_person: Count | None
    epsilon_total: Size
    epsilon_spent: Size
    epsilon_left: Size


class CostPart(BaseModel):
    """Purpose of a draw of noise, its Δ, σ and the ρ-zCDP that the source of noise certifies."""

    step: Name
    sensitivity: Size
    sigma: Size
    rho: Size | None


class ReleasedEntry(BaseModel):
    """Entry of a class of a release, as regions, tests and classifiers read it."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    manifold_name: Name = Field(alias="manifold")
    coordinates: Coordinates
    observed: NoisyMoments | None = None

    @cached_property
    def manifold(self) -> Manifold:
        """Manifold of the mean."""
        return manifold_named(self.manifold_name, len(self.coordinates))

    @property
    def space(self) -> Manifold:
        """Manifold of the draw: the chart of a flat one, as matrices may not hold its points."""
        return chart_of(self.manifold)

    @property
    def place(self) -> Point:
        """The private mean, a point of `space`."""
        return point_at(self.manifold, self.coordinates)

    @cached_property
    def noisy_moments(self) -> NoisyMoments:
        """Numbers that the last round released, the base a point of `space`.

        Raises
        ------
        ConfigError
            Of a mean of one draw.
        """
        if self.observed is None:
            raise ConfigError(NOT_ADAPTIVE)
        return replace(self.observed, base=point_at(self.manifold, self.observed.base))


class NamedPart(BaseModel):
    """Common part of a class of a release and that of a night: its name, and what it cost."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    label: Label
    class_name: Name = Field(alias="name")
    costs: list[CostPart]
    mu: Size | None
    rho: Size | None
    predicted_error: Size | None


class Refusal(str):
    """Reason why a class has no region, in words; "" where it has one.

    Attributes
    ----------
    short : str
        Fact alone, without the way out, for a list of classes.
    """

    short: str

    def __new__(cls, text: str = "", *, short: str = "") -> "Refusal":
        """Return the text, with its fact: the text itself when left out."""
        reason = super().__new__(cls, text)
        reason.short = short or text
        return reason


class StatedEntry(Protocol):
    """Entry of a class of another document than that of a release, as regions and tests read it.

    Attributes
    ----------
    n : int
        Number of records, as it is stated.
    n_sd : float
        Standard deviation of its noise.
    coordinates : array, shape (d,), or None
        Coordinates of the mean; None before there is one.
    """

    n: int
    n_sd: float
    coordinates: FloatArray | None

    @property
    def manifold(self) -> Manifold:
        """Manifold of the mean, a flat one."""

    @property
    def space(self) -> Manifold:
        """Its chart."""

    @property
    def place(self) -> Point:
        """The mean, a point of `space`."""

    @property
    def noisy_moments(self) -> NoisyMoments:
        """Released numbers of the part of the mean with the most records."""

    @property
    def offered(self) -> bool:
        """True if it has a region."""

    @property
    def refusal(self) -> Refusal:
        """Reason why it has no region and no test; "" where it has."""

    @property
    def clipping(self) -> float:
        """Largest distance by which clipping may have moved the mean."""

    @property
    def noise(self) -> FloatArray:
        """Covariance of the error of the mean, without clipping, (d, d)."""

    @property
    def weighed(self) -> WeighedParts:
        """The share of each part in the mean, and what it released; none without a mean."""

    def shape_of(self, of: Literal["sample", "population"]) -> FloatArray:
        """Return the covariance of all of the error against the mean of either, (d, d).

        Parameters
        ----------
        of : {"sample", "population"}
            Mean of the records, or of the population they were drawn from.
        """


class StatedClass(StatedEntry, Protocol):
    """A class of such a document."""

    label: int
    class_name: str
    costs: list[CostPart]
    rho: float | None
    predicted_error: float | None
    point: FloatArray | None
    n_tonight: int | None

    @property
    def counts(self) -> Sequence[str]:
        """Number of records, in words."""


class ClassPart(ReleasedEntry, NamedPart):
    """A class of a release: its private mean, and what it cost."""

    n: Whole = Field(
        description="number of records; if labels are secret the released count, unbiased, so it "
        "may be below 0"
    )
    n_sd: Size = Field(0.0, description="standard deviation of its noise; 0 where n is public")
    point: Matrix
    observed: NoisyMoments | None = Field(
        description="what `NoisyMoments` says of each; of the moment the upper triangle, row by "
        "row; null of a mean of one draw"
    )


ClassEntry: TypeAlias = ClassPart | StatedClass


class OpeningPlan(Protocol):
    """Plan by which records are held back until there are enough of a class."""

    @property
    def first_mean(self) -> int:
        """Number of records of a class at which its first mean is released."""

    def enough(self, units: float, released: float) -> float:
        """Return how many records there are when the mean is of `units` or more of them.

        Parameters
        ----------
        units : float
            Number of records that the mean is to be of.
        released : float
            Number of records that the latest mean is of.
        """


class SignaturePart(BaseModel):
    """Signature of a ledger: Ed25519, of the document as `covdp.ledger.keys.signed` writes it."""

    algorithm: Literal["Ed25519"]
    public_key: str = Field(min_length=64, max_length=64, description="32 bytes, hexadecimal")
    value: str = Field(min_length=128, max_length=128, description="64 bytes, hexadecimal")
    date: Name | None = Field(
        None, description="time of signing, UTC, of a document that was committed without"
    )


class Document(BaseModel):
    """Common part of the documents of all releases."""

    page: ClassVar[str] = "release"
    what: ClassVar[str] = "document of a release"
    counted: ClassVar[tuple[str, ...]] = ("n",)

    title: Name
    settings: SettingsPart
    statement: list[tuple[Name, Sentence]] = Field(description="titles and texts")
    account: AccountPart | None = Field(
        description="null of a document that Python drew, which no ledger paid"
    )
    signature: SignaturePart | None = Field(
        None, description="null of a document that no ledger committed, or an earlier version"
    )

    if TYPE_CHECKING:

        @property
        def classes(self) -> Sequence[ClassEntry]:
            """Released values of each class."""

    @property
    def plan(self) -> OpeningPlan | None:
        """Plan by which records are held back; None where none are."""
        return None

    @property
    def others(self) -> Sequence[str]:
        """Names of the other hospitals that released it together with this one."""
        return ()

    @property
    def is_simulated(self) -> bool:
        """True if one ledger stood for several hospitals."""
        return False

    @property
    def paid(self) -> AccountPart:
        """The account right after the charge.

        Raises
        ------
        ConfigError
            Of a document that Python drew.
        """
        if self.account is None:
            raise ConfigError(
                f"{self.settings.name} was drawn in Python and no ledger paid it; take a document "
                "that `covdp release` committed"
            )
        return self.account

    def price_in_words(self, paid: str, left: str) -> list[str]:
        """Return what it cost and what was left then, line by line.

        Parameters
        ----------
        paid : str
            Words for the charge.
        left : str
            Words for what was left after it.
        """
        return [f"Paid: {paid}. Left: {left}, {self.paid.releases_left} more like this."]

    @property
    def progress(self) -> str:
        """Progress of the stream that it is a part of, in words; "" of a release."""
        return ""


class ReleaseDocument(Document):
    """The document of a release."""

    classes: list[ClassPart]
    excluded: list[Label] = Field(
        [], description="files left out of each class, if public; of all where labels are secret"
    )


DOCUMENTS = Registry[type[Document]]("documents", {}, word="document")
"""Documents of add-ons, by the field that none of a release has."""
ENTRIES = Registry[Any]("entries", {}, word="entry")
"""Entries that are read of a class of these, by a field that none of a release's has."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a document as these models have it."""
    every: Any = Union[ReleaseDocument, *DOCUMENTS.values()]
    both = TypeAdapter[Any](every)
    dialect = "https://json-schema.org/draft/2020-12/schema"
    title = "What covdp release commits: a release, or one night of a stream"
    return {"$schema": dialect, "title": title, **both.json_schema()}


def as_json(part: BaseModel) -> dict[str, Any]:
    """Return a document, or a part of one, as JSON values.

    Parameters
    ----------
    part : BaseModel
        Document, or a part of one.
    """
    return part.model_dump(exclude_unset=True, warnings=False, by_alias=True)


def serialised(document: BaseModel) -> bytes:
    """Return JSON in UTF-8; a number that JSON does not have, such as NaN, is an error.

    Parameters
    ----------
    document : BaseModel
        Document.
    """
    return json.dumps(as_json(document), sort_keys=True, allow_nan=False).encode()


def read_ours(values: Any) -> Document:
    """Return a document of our own, whatever its noise made of it.

    Parameters
    ----------
    values : object
        JSON values of the document.

    Raises
    ------
    ValueError
        When it is none.
    """
    return model_of(values).model_validate(values, context=UNCHECKED)


def read_settings(values: Any) -> SettingsPart:
    """Return settings of our own, or those in the query of a stream, of which some may be null.

    Parameters
    ----------
    values : object
        JSON values of the settings.
    """
    return SettingsPart.model_validate(values, context=UNCHECKED)


def model_of(values: Any) -> type[Document]:
    """Return the model of a document; raise `ConfigError` where its add-on is missing.

    Parameters
    ----------
    values : object
        JSON values of the document.
    """
    if not isinstance(values, dict):
        return ReleaseDocument
    name = next((name for name in sorted(DOCUMENTS.own()) if name in values), None)
    if name is None and "night" in values:
        return DOCUMENTS.need("night", "a document of a night of a stream")
    return ReleaseDocument if name is None else DOCUMENTS[name]


def read_entry(values: Mapping[str, Any]) -> ReleasedEntry | StatedEntry:
    """Return what is read of an entry of ``classes``, of a release or of a night, unchecked.

    Parameters
    ----------
    values : mapping of str to object
        JSON values of the entry.

    Raises
    ------
    ConfigError
        When it is none.
    """
    kind = next((ENTRIES[name] for name in ENTRIES.own() if name in values), ReleasedEntry)
    try:
        entry: ReleasedEntry | StatedEntry = kind.model_validate(values, context=UNCHECKED)
        return entry
    except ValidationError as error:
        raise ConfigError(
            f"this is no entry of a document's classes ({first_fault(error)}); give one of "
            "OUT/release/*.json, unchanged"
        ) from error


def first_fault(error: ValidationError) -> str:
    """Return where a model does not fit first, and why.

    Parameters
    ----------
    error : ValidationError
        Error that tells how values do not fit a model.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    own = {"missing": "it is missing", "model_type": "it must be an object, { … } in JSON"}
    reason = own.get(first["type"], first["msg"]).removeprefix("Value error, ")
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), reason)))


def point_at(manifold: Manifold, coordinates: FloatArray) -> Point:
    """Return the point of `chart_of(manifold)` that has some coordinates at the origin.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the mean.
    coordinates : array, shape (d,)
        Coordinates at the origin.
    """
    space = chart_of(manifold)
    return space.exp(space.origin, coordinates)


def manifold_named(name: str, dim: int) -> Manifold:
    """Return the manifold of dimension `dim` that a document names.

    Parameters
    ----------
    name : str
        Name of the manifold.
    dim : int
        Dimension of the manifold.

    Raises
    ------
    ConfigError
        When it is none of covariance matrices.
    """
    if name not in MANIFOLDS or covariances_of(MANIFOLDS[name]) is None:
        raise ConfigError(
            f"a document holds covariance matrices, found the manifold {name!r}; take the document "
            "as `covdp release` wrote it"
        )
    kind: Any = MANIFOLDS[name]
    manifold: Manifold = kind.of_dimension(dim)
    return manifold
