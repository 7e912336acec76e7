"""The schema of the committed document: its models make it, read it, and check those of others.

It is a `ReleaseDocument` or, of one night of a stream, a `NightDocument`, whose `json_schema` is
what `covdp schema` prints. What a round, an opening or an epoch released stands in it as the record
that holds it (`NoisyMoments`, `OpeningRelease`, `Epoch`). Everybody else reads attributes.

Whoever wrote a document may be wrong, or mean harm: a number that is none of a release must not
become a wrong p-value, a failure without a word, or a page that hangs. What is checked (`check`) is
form and size; who wrote it, and whether it is as they released it, only its digest can tell. One of
our own is made without these checks (`model_construct`), since nothing between draw and commit may
fail by the values drawn, but for numbers that JSON does not have; and it is read without them
(`read_ours`).
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    TypeAdapter,
    ValidationError,
    WrapValidator,
)

from covdp import arrays
from covdp.addons.nights.stream import Epoch, OpeningRelease
from covdp.arrays import UNCHECKED, FloatArray
from covdp.descriptors import DescriptorDomain, domain
from covdp.errors import ConfigError, ConvergenceError, DomainError
from covdp.geometry import MANIFOLDS, Manifold, Point, chart_of, from_chart
from covdp.geometry.covariances import covariances_of
from covdp.mean import NoisyMoments
from covdp.mean.noisy_moments import WeighedParts, pooled_clipping
from covdp.mean.release import NOT_ADAPTIVE
from covdp.privacy import Budget, budget_from, repeat

Model = TypeVar("Model", bound=BaseModel)
NEAR = 1e-6
"""Of the largest entry of a matrix: how far it may be from that of its coordinates."""
SKEWED = 1e10
"""Condition number of axes from which on solving with them means nothing."""


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
"""What is not checked in a document of our own."""
Name = Annotated[str, Field(strict=True, max_length=1000), AfterValidator(_printable), Ours]
Sentence = Annotated[str, Field(strict=True, max_length=100_000), Ours]
Count: TypeAlias = Annotated[int, arrays.COUNT]
Label: TypeAlias = Annotated[int, arrays.LABEL]
Whole: TypeAlias = Annotated[int, arrays.WHOLE]
Flag: TypeAlias = Annotated[bool, arrays.FLAG]
Size: TypeAlias = Annotated[float, arrays.SIZE]
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
    """What was released, and how: the config, the size of the images, and the version."""

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
    window: tuple[FiniteFloat, FiniteFloat] | Literal["image", "header"] | None = Field(
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
        """Whether it is protected in which class an image or person is."""
        return self.labels == "secret"

    @property
    def promise(self) -> Budget:
        """What is promised to one image or person, in all classes it may be in."""
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
        """Whether its noise is safe to publish."""
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
    """What a draw of noise is for, its Δ, σ and the ρ-zCDP that the source of noise certifies."""

    step: Name
    sensitivity: Size
    sigma: Size
    rho: Size | None


class DocumentPart(BaseModel):
    """What the document of a release and that of a night have in common."""

    title: Name
    settings: SettingsPart
    statement: list[tuple[Name, Sentence]] = Field(description="titles and texts")
    account: AccountPart


class ReleasedEntry(BaseModel):
    """What regions, tests and classifiers read of a class of a release."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    manifold_name: Name = Field(alias="manifold")
    coordinates: Coordinates
    observed: NoisyMoments | None = None

    @cached_property
    def manifold(self) -> Manifold:
        """Where the mean is."""
        return manifold_named(self.manifold_name, len(self.coordinates))

    @property
    def space(self) -> Manifold:
        """Where it was drawn: the chart of a flat manifold, as matrices may not hold its points."""
        return chart_of(self.manifold)

    @property
    def place(self) -> Point:
        """The private mean, a point of `space`."""
        return point_at(self.manifold, self.coordinates)

    @cached_property
    def noisy_moments(self) -> NoisyMoments:
        """What the last round released, its base a point of `space`.

        Raises
        ------
        ConfigError
            Of a mean of one draw.
        """
        if self.observed is None:
            raise ConfigError(NOT_ADAPTIVE)
        return replace(self.observed, base=point_at(self.manifold, self.observed.base))


class NamedPart(BaseModel):
    """What a class of a release and that of a night have in common: its name, and what it cost."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    label: Label
    class_name: Name = Field(alias="name")
    costs: list[CostPart]
    mu: Size | None
    rho: Size | None
    predicted_error: Size | None


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


class ReleaseDocument(DocumentPart):
    """The document of a release."""

    classes: list[ClassPart]
    excluded: list[Label] = Field(
        [], description="files left out of each class, if public; of all where labels are secret"
    )


class EstimatePart(BaseModel):
    """A mean of all records of some nights; its point is the matrix, all else in the chart."""

    n: Label
    point: Matrix
    coordinates: Coordinates
    covariance: Basis
    spread: Basis


class MomentsPart(BaseModel):
    """What the opening of a stream, or an epoch, says of its own records."""

    first: Count = Field(description="its first night; the opening has all nights up to it")
    share: Size = Field(description="its weight in the mean of all records so far")
    observed: NoisyMoments


class CertaintyPart(BaseModel):
    """What regions and tests read: upper triangles of covariances, and whether one is available."""

    manifold: Name
    offered: Flag
    clipping: Size
    size: Count | None = Field(
        None, description="where labels are secret, the number that `population` is divided by"
    )
    sample: Triangle
    population: Triangle | None = Field(description="null where no second moment was released")
    parts: list[MomentsPart] = Field(description="what the mean is made of, the opening first")
    corrected: Flag = Field(
        True,
        description="whether what was cut off was added to the mean; in windows it is not",
    )

    @property
    def added(self) -> FloatArray:
        """What was added to the parts of the mean, or is missing in it, (d,)."""
        moved = [share * (part.offset - part.clipped_offset) for share, part in self.weighed]
        return np.asarray(np.sum(moved, axis=0))

    @property
    def weighed(self) -> WeighedParts:
        """The share of each part in the mean, and what it released."""
        return [(part.share, part.observed) for part in self.parts]

    @property
    def bias(self) -> FloatArray:
        """What of `sample` is for clipping, a covariance, (d, d)."""
        return pooled_clipping(self.weighed)

    @property
    def noise(self) -> FloatArray:
        """What of `sample` is not, (d, d)."""
        return np.asarray(self.sample - self.bias)

    def single(self, n: int) -> FloatArray | None:
        """Return the covariance of single records, (d, d), of the mean of n; None if not known."""
        return None if self.population is None else n * (self.population - self.sample)


class WindowPart(BaseModel):
    """The mean of the records of the last nights; `variances` of its noise, along the axes."""

    nights: Count
    first: Count
    last: Count
    n: Label
    n_sd: Size = Field(0.0, description="standard deviation of its noise; 0 where n is public")
    point: Matrix
    coordinates: Coordinates
    variances: Numbers
    covariance: Triangle | None = Field(
        None,
        description="where labels are secret, of its noise in all coordinates: upper triangle, row "
        "by row; that of the counts is not along the axes",
    )

    def noise(self, axes: FloatArray) -> FloatArray:
        """Return the covariance of its noise, (d, d); `axes` are those of its night."""
        stated = self.covariance
        return np.asarray((axes.T * self.variances) @ axes) if stated is None else stated


class StreamEntry(BaseModel):
    """What regions and tests read of a class of a night."""

    n: Whole = Field(
        description="number of records in the mean so far; before the opening, of records that "
        "wait for it. If labels are secret it is a released count, unbiased, so it may be below 0"
    )
    n_sd: Size = Field(0.0, description="standard deviation of its noise; 0 where n is public")
    coordinates: Coordinates | None
    certainty: CertaintyPart | None

    @cached_property
    def manifold(self) -> Manifold:
        """Where the mean is.

        Raises
        ------
        ConfigError
            Before the opening of the class.
        """
        if self.certainty is None or self.coordinates is None:
            raise ConfigError(
                "this night has no mean: before the opening of its class nothing is released"
            )
        return manifold_named(self.certainty.manifold, len(self.coordinates))

    @property
    def size(self) -> int:
        """Number of records that errors are of, at least 1: `n` where that is public."""
        return self.n if self.certainty is None else self.certainty.size or self.n

    @property
    def space(self) -> Manifold:
        """Its chart: streams live on flat manifolds."""
        return chart_of(self.manifold)

    @property
    def place(self) -> Point:
        """The mean of all records so far, a point of `space`."""
        assert self.coordinates is not None
        return point_at(self.manifold, self.coordinates)

    @property
    def noisy_moments(self) -> NoisyMoments:
        """What the part of the mean with the most records says of these.

        Raises
        ------
        ConfigError
            Before the opening of the class.
        """
        _ = self.manifold  # its own check
        assert self.certainty is not None
        return max((part.observed for part in self.certainty.parts), key=lambda moments: moments.n)


class NightClassPart(StreamEntry, NamedPart):
    """A class of a night: what was released tonight, and what follows from all nights so far."""

    n_tonight: Label | None = Field(description="null where labels are secret, as n_so_far is")
    n_so_far: Label | None
    sigma: Size = Field(description="of the noise of each w, the same every night")
    w: Numbers | None = Field(description="weighted sums of clipped vectors, noised")
    count: Annotated[float, arrays.NUMBER] | None = Field(
        None, description="where labels are secret, the same of how many records came"
    )
    held: Whole | None = Field(
        None,
        description="where labels are secret, released count of those held back after a first look",
    )
    held_sd: Size = Field(0.0, description="standard deviation of its noise")
    moment: Numbers | None
    shells: Numbers | None
    opened: OpeningRelease | None
    epoch: Epoch | None
    point: Matrix | None = Field(description="the mean so far; null before the opening")
    no_point: Sentence | None
    windows: list[WindowPart]
    before: EstimatePart | None = Field(None, description="the mean of the streams before")
    joined: EstimatePart | None = Field(None, description="the mean of all streams together")

    @property
    def counts(self) -> tuple[str, str]:
        """How many records came tonight and so far, in words: what is secret with its noise."""
        if self.n_tonight is not None and self.n_so_far is not None:
            return f"{self.n_tonight:,}", f"{self.n_so_far:,}"
        n, deviation = self.n + (self.held or 0), math.hypot(self.n_sd, self.held_sd)
        return "secret", f"{n:,} ± {deviation:.2g}"


class NightDocument(DocumentPart):
    """The document of one night of a stream."""

    night: Count
    horizon: Count
    coefficient_norm: Size
    axes: Basis
    centre: Coordinates
    n_tonight: Label | None = Field(
        None,
        description="number of images or persons of all classes together tonight, where labels "
        "are secret",
    )
    classes: list[NightClassPart]

    @property
    def units_tonight(self) -> int:
        """Records of all classes that entered tonight; a person counts in each of their classes."""
        if self.n_tonight is not None:
            return self.n_tonight
        return sum(row.n_tonight or 0 for row in self.classes)

    @property
    def units_so_far(self) -> int:
        """Records of all classes up to tonight."""
        if self.settings.secret:
            return self.settings.total or 0
        return sum(row.n_so_far or 0 for row in self.classes)


Document: TypeAlias = ReleaseDocument | NightDocument
ClassEntry: TypeAlias = ClassPart | NightClassPart


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a document as these models have it."""
    both: TypeAdapter[Any] = TypeAdapter(Document)
    dialect = "https://json-schema.org/draft/2020-12/schema"
    title = "What covdp release commits: a release, or one night of a stream"
    return {"$schema": dialect, "title": title, **both.json_schema()}


def as_json(part: BaseModel) -> dict[str, Any]:
    """Return a document, or a part of one, as JSON values."""
    return part.model_dump(exclude_unset=True, warnings=False, by_alias=True)


def serialised(document: BaseModel) -> bytes:
    """Return JSON in UTF-8; a number that JSON does not have, such as NaN, is an error."""
    return json.dumps(as_json(document), sort_keys=True, allow_nan=False).encode()


def read_ours(values: Any) -> Document:
    """Return a document of our own, whatever its noise made of it.

    Raises
    ------
    ValueError
        When it is none.
    """
    return _model(values).model_validate(values, context=UNCHECKED)


def read_settings(values: Any) -> SettingsPart:
    """Return settings of our own, or those in the query of a stream, of which some may be null."""
    return SettingsPart.model_validate(values, context=UNCHECKED)


def _model(values: Any) -> type[Document]:
    is_night = isinstance(values, dict) and "night" in values
    return NightDocument if is_night else ReleaseDocument


def check(path: Path, values: Any) -> Document:
    """Return the document that somebody sent; raise `ConfigError` unless it is one."""
    kind = _model(values)
    what = "document of a night of a stream" if kind is NightDocument else "document of a release"
    return checked(path, values, kind, _faults, what, "give OUT/release/*.json")


def checked(
    path: Path,
    values: Any,
    model: type[Model],
    faults: Callable[[Model], Iterator[str]],
    what: str,
    way: str,
) -> Model:
    """Return what somebody sent as a model; raise `ConfigError` where it has faults."""
    try:
        found = model.model_validate(values)
    except ValidationError as error:
        reason = first_fault(error)
    else:
        reason = next(faults(found), "")
        if not reason:
            return found
    raise ConfigError(f"{path} is no {what} ({reason}); {way}, unchanged")


def read_entry(values: Mapping[str, Any]) -> ReleasedEntry | StreamEntry:
    """Return what is read of an entry of ``classes``, of a release or of a night, unchecked.

    Raises
    ------
    ConfigError
        When it is none.
    """
    kind = StreamEntry if "certainty" in values else ReleasedEntry
    try:
        return kind.model_validate(values, context=UNCHECKED)
    except ValidationError as error:
        raise ConfigError(
            f"this is no entry of a document's classes ({first_fault(error)}); give one of "
            "OUT/release/*.json, unchanged"
        ) from error


def first_fault(error: ValidationError) -> str:
    """Return where a model does not fit first, and why."""
    first = error.errors(include_url=False, include_input=False)[0]
    own = {"missing": "it is missing", "model_type": "it must be an object, { … } in JSON"}
    reason = own.get(first["type"], first["msg"]).removeprefix("Value error, ")
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), reason)))


def _faults(document: Document) -> Iterator[str]:
    """Yield what does not fit together."""
    names = [row.class_name for row in document.classes]
    if len(set(names)) < len(names):
        yield "two classes have one name"
    classes: Sequence[ClassEntry] = document.classes
    for place, row in enumerate(classes):
        yield from (f"classes.{place}.{fault}" for fault in _misfits(row, document.settings))


def _misfits(row: ClassEntry, settings: SettingsPart) -> Iterator[str]:
    """Yield what is wrong with a class."""
    if row.n < 0 and not settings.secret:
        yield f"n is {row.n}, and sizes of classes are public"
    if row.point is None or row.coordinates is None:
        if row.point is not row.coordinates:
            yield "point and coordinates are not both there"
        return
    k = len(row.point)
    d = k * (k + 1) // 2
    if not (k and _is_symmetric(row.point, k)):
        yield "point is no symmetric matrix"
    elif len(row.coordinates) != d:
        yield f"coordinates has length {len(row.coordinates)}, not {d}"
    elif not _is_matrix_of(row.coordinates, row.point, settings.manifold):
        yield "point is not the matrix of its coordinates"
    elif isinstance(row, ClassPart) and row.observed is not None:
        if row.manifold_name != settings.manifold:
            yield "manifold is another than that of the settings"
        size = row.observed.n if settings.secret else row.n  # a count is not what divides sums
        yield from (f"observed.{fault}" for fault in _misfits_observed(row.observed, size, d))
        if row.observed.belief is None or not _is_symmetric(row.observed.belief, d):
            yield "observed.belief is no covariance"
    elif isinstance(row, NightClassPart):
        yield from _misfits_night(row, settings, d)


def _misfits_night(row: NightClassPart, settings: SettingsPart, d: int) -> Iterator[str]:
    """Yield what is wrong with the mean of a class of a night, of dimension d."""
    certainty = row.certainty
    if certainty is None or (not row.n and not settings.secret):
        yield "a mean must have records, and what is known of its error"
        return
    if certainty.manifold != settings.manifold:
        yield "certainty.manifold is another than that of the settings"
    for matrix, name in ((certainty.sample, "sample"), (certainty.population, "population")):
        if matrix is not None and not _is_covariance(matrix, d):
            yield f"certainty.{name} is no covariance of {d} coordinates"
    if not certainty.parts:
        yield "certainty.parts is empty"
    elif all(epoch.observed.moment is None for epoch in certainty.parts) and certainty.offered:
        yield "certainty.offered is true, and no part has a second moment"
    faults = [
        f"certainty.parts.{place}.{fault}"
        for place, epoch in enumerate(certainty.parts)
        for fault in _misfits_observed(epoch.observed, epoch.observed.n, d)
    ]
    yield from faults
    sound = certainty.parts and not faults and len(certainty.sample) == d
    if sound and np.linalg.eigvalsh(certainty.noise)[0] <= 0.0:
        yield "certainty.sample is no more than what clipping may do, and holds no noise"
    for part in row.windows:
        yield from _misfits_window(part, d)


def _misfits_window(part: WindowPart, d: int) -> Iterator[str]:
    """Yield what is wrong with the mean of the last nights, of dimension d."""
    name = f"the window of {part.nights} nights"
    if not len(part.coordinates) == len(part.variances) == d:
        yield f"{name} is not of {d} coordinates"
    elif (part.variances < 0.0).any():
        yield f"{name} has a negative variance"
    elif part.covariance is not None and not _is_covariance(part.covariance, d):
        yield f"{name} has no covariance of {d} coordinates"


def _misfits_observed(moments: NoisyMoments, n: int, d: int) -> Iterator[str]:
    """Yield what is wrong with what was observed of n records of dimension d."""
    if moments.n != n:
        yield f"n is {moments.n}, and n {n}"
    odd = len(moments.odd) // d
    many, lengths = 1 + 4 * moments.lines + odd, {"base": d, "middle": d, "vector": d}
    lengths |= {"odd": odd * d, "overshoots": many, "reach": many}
    for name, wanted in lengths.items():
        if (length := len(getattr(moments, name))) != wanted:
            yield f"{name} has length {length}, not {wanted}"
    if moments.moment is not None and (side := len(moments.moment)) != d:
        yield f"moment has length {side * (side + 1) // 2}, not {d * (d + 1) // 2}"
    if not (moments.axes.shape == (d, d) and np.linalg.cond(moments.axes) < SKEWED):
        yield "axes are no basis"
    if moments.newton is not None:
        steps = np.linalg.eigvalsh(moments.newton)
        if len(steps) != d or not 0.0 < steps[0] <= steps[-1] <= 1.0 + NEAR:
            yield "newton is no step towards a mean"


def _is_covariance(matrix: FloatArray, side: int) -> bool:
    values = np.linalg.eigvalsh(matrix)
    return len(values) == side and bool(values[0] >= -NEAR * values[-1])


def _is_symmetric(matrix: FloatArray, side: int) -> bool:
    within = NEAR * np.abs(matrix).max(initial=0.0)
    return matrix.shape == (side, side) and bool(np.abs(matrix - matrix.T).max() <= within)


def _is_matrix_of(coordinates: FloatArray, point: FloatArray, manifold: str) -> bool:
    """Tell whether the point, which is shown, is that of the coordinates, which are used.

    As near as doubles hold it; where this version does not know the manifold nothing is.
    """
    kind: Any = MANIFOLDS.get(manifold)
    if kind is None or covariances_of(kind) is None:
        return True
    space = kind.of_dimension(len(coordinates))
    with np.errstate(all="ignore"), suppress(DomainError, ConvergenceError, np.linalg.LinAlgError):
        matrix = from_chart(space, point_at(space, coordinates))
        return bool(np.abs(matrix - point).max() <= NEAR * np.abs(point).max())
    return False


def point_at(manifold: Manifold, coordinates: FloatArray) -> Point:
    """Return the point of `chart_of(manifold)` that has some coordinates at the origin."""
    space = chart_of(manifold)
    return space.exp(space.origin, coordinates)


def manifold_named(name: str, dim: int) -> Manifold:
    """Return the manifold of dimension `dim` that a document names.

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
