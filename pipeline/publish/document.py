"""The committed document: its schema, what it says of a stream's nights, and its file.

**Its schema** is `ReleaseDocument` or, of one night of a stream, `NightDocument`. They make it, say
what it holds (`SCHEMA`, JSON Schema, which `covdp schema` prints), and check one that somebody
sent. Whoever wrote that may have erred, or mean harm: a number that is none of a release must not
become a wrong p-value, a failure without a word, or a page that hangs. What is checked is form and
size; who wrote a document, and whether it is as they released it, only its digest can tell. A
document of our own is made without these checks (`model_construct`), since nothing between draw and
commit may fail by the values drawn, but for numbers that JSON does not have.

**The transcript** of a stream is what its documents say, read back as `pipeline.stream` needs it:

    night ─► row of the document          what the night released of a class
    documents 1, 2, …, t ─► histories     the same values, to the last bit

So all that later nights build on, and every estimate, follows from the committed documents alone.

**The file** holds the very bytes that the ledger stored.
"""

import errno
import itertools
import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from pipeline.arrays import FloatArray
from pipeline.descriptors import DescriptorDomain, domain
from pipeline.errors import ConfigError, ConvergenceError, DomainError, OutputError
from pipeline.files import IrregularFileError, atomic_path, make_folder, open_regular, read_regular
from pipeline.geometry import MANIFOLDS, FlatChart, from_chart
from pipeline.geometry.covariances import covariances_of
from pipeline.inference import point_at
from pipeline.mean import Step, step_costs
from pipeline.mean.clip import Clip
from pipeline.mean.noisy_moments import as_values, from_values
from pipeline.privacy import budget_from
from pipeline.stream import (
    CumulativeMean,
    Epoch,
    Night,
    NoisyShares,
    OpeningRelease,
    StreamMechanism,
    StreamPlan,
    column_norm,
)

LARGEST = 1e12
"""Of any number: images of 8 bits have covariances below 10⁵ and logarithms below 40."""
FARTHEST = 1e6
"""Of a coordinate of a mean: √`LARGEST`, as entries of factors are roots of those of matrices."""
SMALLEST = 1e-12
"""Of one that is divided by."""
LONGEST = 1 << 26
"""Bytes; a class of `grid11` takes 300,000."""
NEAR = 1e-6
"""Of the largest entry of a matrix: how far it may be from that of its coordinates."""
MOST = 1 << 22
"""Values; a class of `grid11` has 11,000. Each takes up to 100 bytes once it is parsed."""
WIDEST = 32
"""Side of a mean; those of `grid11` have 11. What is computed takes the sixth power of it."""
_D = WIDEST * (WIDEST + 1) // 2
SKEWED = 1e10
"""Condition number of axes from which on solving with them means nothing."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable")
    return text


Name = Annotated[str, Field(strict=True, max_length=1000), AfterValidator(_printable)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-LARGEST, le=LARGEST)]
Size = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=LARGEST)]
Divisor = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=SMALLEST, le=LARGEST)]
Count = Annotated[int, Field(strict=True, ge=1, le=int(LARGEST))]
Numbers = Annotated[list[Number], Field(max_length=_D * (_D + 1) // 2)]
Matrix = Annotated[
    list[Annotated[list[Number], Field(max_length=WIDEST)]], Field(max_length=WIDEST)
]
Basis = Annotated[list[Annotated[list[Number], Field(max_length=_D)]], Field(max_length=_D)]
Coordinates = Annotated[
    list[Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-FARTHEST, le=FARTHEST)]],
    Field(max_length=_D),
]


Flag = Annotated[bool, Field(strict=True)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Label = Annotated[int, Field(strict=True, ge=0, le=int(LARGEST))]
Sentence = Annotated[str, Field(strict=True, max_length=100_000)]


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
    labels_and_class_sizes_are_public: Flag
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
    classes: list[tuple[Label, Name, Label]] = Field(description="label, name and number of units")
    version: Name


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


class MomentsPart(BaseModel):
    """`NoisyMoments`, which says what each is; of the moment the upper triangle, row by row."""

    n: Count
    base: Coordinates
    middle: Coordinates
    axes: Basis
    vector: Numbers
    moment: Numbers | None
    sigma: Divisor
    gain: Divisor
    lines: Literal[0, 1]
    bias_line: Size
    bias_rest: Size
    variance_line: Size
    variance_rest: Size
    clipped: Share
    cut: Share
    clipped_noise: Size
    cut_noise: Size
    interval: Numbers
    shift: Annotated[float, Field(strict=True, allow_inf_nan=False)]
    added: Size
    bend: Size
    overshoots: Numbers | None
    reach: Annotated[list[Divisor], Field(max_length=3)] | None


class ObservedPart(MomentsPart):
    """What regions, tests and classifiers read of an adaptive mean."""

    survey: Numbers
    shells: Numbers
    belief: Basis


class DocumentPart(BaseModel):
    """What the document of a release and that of a night have in common."""

    title: Name
    settings: SettingsPart
    statement: list[tuple[Name, Sentence]] = Field(description="titles and texts")
    account: AccountPart


class ClassPart(BaseModel):
    """A class of a release: its private mean, and what it cost."""

    label: Label
    class_name: Name
    n: Count
    point: Matrix
    coordinates: Coordinates
    manifold: Name
    observed: ObservedPart | None = Field(description="null of a mean of one draw")
    mu: Size | None
    predicted_error: Size | None
    rho: Size | None
    costs: list[CostPart]


class ReleaseDocument(DocumentPart):
    """The document of a release."""

    classes: list[ClassPart]
    excluded: list[Label] = Field([], description="files left out of each class, if public")


class SharesPart(BaseModel):
    """Noised shares of units in bins, and the standard deviation of the noise of each."""

    values: Numbers
    noise: Size


class OpeningPart(BaseModel):
    """What a stream released when it opened: its first mean and the covariance of its error."""

    observed: MomentsPart
    offset: Coordinates
    belief: Basis
    survey: SharesPart
    shells: SharesPart


class ClipPart(BaseModel):
    """`Clip`, which says what each is."""

    low: Number
    high: Number
    weight: Number
    radius: Number
    whole: Flag
    gain: Number
    error: Number
    bias_line: Size
    bias_rest: Size
    bend: Size


class EpochPart(BaseModel):
    """What units are clipped to from a night on."""

    first: Count
    centre: Coordinates
    clip: ClipPart


class EstimatePart(BaseModel):
    """A mean of all units of some nights; its point is the matrix, all else in the chart."""

    n: Label
    point: Matrix
    coordinates: Coordinates
    covariance: Basis
    spread: Basis


class CertaintyPart(BaseModel):
    """What a region reads: upper triangles of covariances, and whether it is offered."""

    manifold: Name
    offered: Flag
    clipping: Size
    sample: Numbers
    population: Numbers


class WindowPart(BaseModel):
    """The mean of the units of the last nights; `variances` of its noise, along the axes."""

    nights: Count
    first: Count
    last: Count
    n: Label
    point: Matrix
    coordinates: Coordinates
    variances: Numbers


class NightClassPart(BaseModel):
    """A class of a night: what was released tonight, and what follows from all nights so far."""

    label: Label
    class_name: Name
    n: Label
    n_tonight: Label
    n_so_far: Label
    sigma: Size = Field(description="of the noise of each w, the same every night")
    w: Numbers | None = Field(description="weighted sums of clipped vectors, noised")
    moment: Numbers | None
    survey: Numbers | None
    shells: Numbers | None
    opened: OpeningPart | None
    epoch: EpochPart | None
    costs: list[CostPart]
    mu: Size | None
    rho: Size | None
    point: Matrix | None = Field(description="the mean so far; null before the opening")
    coordinates: Coordinates | None
    no_point: Sentence | None
    predicted_error: Size | None
    certainty: CertaintyPart | None
    windows: list[WindowPart]
    before: EstimatePart | None = Field(None, description="the mean of the streams before")
    joined: EstimatePart | None = Field(None, description="the mean of all streams together")


class NightDocument(DocumentPart):
    """The document of one night of a stream."""

    night: Count
    horizon: Count
    coefficient_norm: Size
    axes: Basis
    centre: Coordinates
    classes: list[NightClassPart]


SCHEMA = files("pipeline.publish").joinpath("document.schema.json")
"""JSON Schema of a document, `ReleaseDocument` or `NightDocument`: a file beside this one."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a document as these models have it: what `SCHEMA` holds."""
    both: TypeAdapter[Any] = TypeAdapter(ReleaseDocument | NightDocument)
    dialect = "https://json-schema.org/draft/2020-12/schema"
    title = "What covdp release commits: a release, or one night of a stream"
    return {"$schema": dialect, "title": title, **both.json_schema()}


def serialised(document: BaseModel) -> bytes:
    """Return JSON in UTF-8; a number that JSON does not have, such as NaN, is an error."""
    values = document.model_dump(exclude_unset=True, warnings=False)
    return json.dumps(values, sort_keys=True, allow_nan=False).encode()


def read_foreign(path: Path) -> tuple[bytes, Any]:
    """Return the bytes of a document that somebody sent, and what they say, unchecked.

    Raises
    ------
    ConfigError
        When it is no regular file, has more bytes or values than any release, or is no JSON.
    OutputError
        When it cannot be read.
    """
    way, reason = "give OUT/release/*.json", ""
    try:
        content = read_regular(path, LONGEST)
    except IrregularFileError as error:
        reason = f"is {error.strerror}"
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise OutputError(f"cannot read {path} ({error.strerror}); {way}") from error
        reason = f"has {error.strerror}"
    else:
        if (found := sum(map(content.count, (b",", b"[", b"{")))) > MOST:
            reason = f"has {found:,} values"
    if not reason:
        try:
            return content, json.loads(content)
        except (ValueError, RecursionError):
            reason = "is no JSON"
    raise ConfigError(f"{path} {reason}, so it is no document of a release; {way}")


def check(path: Path, document: Any) -> None:
    """Raise `ConfigError` unless a document is one of a release, as far as it is read."""
    try:
        found = ReleaseDocument.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        reason = f"{place}: {first['msg'].removeprefix('Value error, ')}"
    else:
        reason = next(_faults(found), "")
    if reason:
        raise ConfigError(
            f"{path} is no document of a release ({reason}); give OUT/release/*.json, unchanged"
        )


def _faults(found: ReleaseDocument) -> Iterator[str]:
    """Yield what does not fit together."""
    names = [row.class_name for row in found.classes]
    if len(set(names)) < len(names):
        yield "two classes have one name"
    for place, row in enumerate(found.classes):
        here = f"classes.{place}"
        k = len(row.point)
        if not (k and _is_shaped(row.point, k) and _is_symmetric(row.point)):
            yield f"{here}.point is no symmetric matrix"
        elif len(row.coordinates) != k * (k + 1) // 2:
            yield f"{here}.coordinates has length {len(row.coordinates)}, not {k * (k + 1) // 2}"
        elif not _is_matrix_of(row, found.settings.manifold):
            yield f"{here}.point is not the matrix of its coordinates"
        elif row.observed is not None:
            yield from (f"{here}.{fault}" for fault in _misfits(row, row.observed, k, found))


def _misfits(row: ClassPart, seen: ObservedPart, k: int, found: ReleaseDocument) -> Iterator[str]:
    """Yield what is wrong with what was observed of a class of k × k matrices."""
    d = k * (k + 1) // 2
    if row.manifold != found.settings.manifold:
        yield "manifold is another than that of the settings"
    if seen.n != row.n:
        yield f"observed.n is {seen.n}, and n {row.n}"
    for name in ("base", "middle", "vector"):
        if (length := len(getattr(seen, name))) != d:
            yield f"observed.{name} has length {length}, not {d}"
    if seen.moment is not None and len(seen.moment) != d * (d + 1) // 2:
        yield f"observed.moment has length {len(seen.moment)}, not {d * (d + 1) // 2}"
    if len(seen.interval) != 2 * seen.lines:
        yield f"observed.interval has length {len(seen.interval)}, not {2 * seen.lines}"
    many = None if seen.moment is None else 1 + 2 * seen.lines
    for name in ("overshoots", "reach"):
        values = getattr(seen, name)
        if (None if values is None else len(values)) != many:
            yield f"observed.{name} must have {many or 'no'} numbers"
    if not (_is_shaped(seen.axes, d) and np.linalg.cond(seen.axes) < SKEWED):
        yield "observed.axes are no basis"
    if not (_is_shaped(seen.belief, d) and _is_symmetric(seen.belief)):
        yield "observed.belief is no covariance"


def _is_shaped(rows: Sequence[Sequence[float]], side: int) -> bool:
    return len(rows) == side and all(len(row) == side for row in rows)


def _is_symmetric(rows: Sequence[Sequence[float]]) -> bool:
    matrix = np.array(rows)
    return bool(np.abs(matrix - matrix.T).max() <= 1e-6 * np.abs(matrix).max())


def _is_matrix_of(row: ClassPart, manifold: str) -> bool:
    """Tell whether the point, which is shown, is that of the coordinates, which are reckoned with.

    As near as doubles hold it; where this version does not know the manifold nothing is.
    """
    kind: Any = MANIFOLDS.get(manifold)
    if kind is None or covariances_of(kind) is None:
        return True
    space = kind.of_dimension(len(row.coordinates))
    with np.errstate(all="ignore"), suppress(DomainError, ConvergenceError, np.linalg.LinAlgError):
        found = from_chart(space, point_at(space, np.array(row.coordinates)))
        gap = np.abs(found - row.point).max()
        return bool(gap <= NEAR * np.abs(row.point).max())
    return False


@contextmanager
def computed(paths: Sequence[Path]) -> Iterator[None]:
    """Raise `ConfigError` where what follows from documents cannot be computed."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (np.linalg.LinAlgError, ArithmeticError) as error:
        raise ConfigError(
            f"what {' and '.join(map(str, paths))} say together cannot be computed; were they "
            "changed? Ask for the committed bytes again, and compare their digests"
        ) from error


def check_sides(path: Path, document: Mapping[str, Any], k: int) -> None:
    """Raise `ConfigError` unless all means are k × k, as those of the descriptor are."""
    if any(len(row["point"]) != k for row in document["classes"]):
        raise ConfigError(
            f"{path} has means that are not {k} × {k}, as those of "
            f"{document['settings']['descriptor']} are; ask for the committed bytes again"
        )


ROUNDING = 1e-9
"""How far axes may be apart that are the same: linear algebra rounds otherwise elsewhere."""


@dataclass(frozen=True, eq=False)
class ClassHistory:
    """All nights of one class that were read, from the first on.

    Attributes
    ----------
    label : int
    name : str
        Of the class.
    stream : StreamMechanism
    nights : tuple of Night
    before : CumulativeMean or None
        The mean of the streams that this one follows.
    """

    label: int
    name: str
    stream: StreamMechanism
    nights: tuple[Night, ...]
    before: CumulativeMean | None = None


def read_histories(documents: Iterable[Mapping[str, Any]]) -> tuple[ClassHistory, ...]:
    """Return what the documents of a stream's nights say, one history a class.

    Parameters
    ----------
    documents : iterable of mapping
        Of nights 1, 2, …, in order, as `read_document` returns them.

    Raises
    ------
    OutputError
        When they are not the first nights of one stream, or their noise is not what this version
        would draw: then other values than those released would follow.
    """
    stream: StreamMechanism | None = None
    known: list[ClassHistory] = []
    nights: list[list[Night]] = []
    for number, document in enumerate(documents, 1):
        if document.get("night") != number:
            raise OutputError(
                f"the documents of a stream are read from its first night on, in order: expected "
                f"night {number}, found {document.get('night')!r}; give all that were committed"
            )
        if stream is None:
            stream = read_stream(document["settings"])
            known = [
                ClassHistory(row["label"], row["class_name"], stream, (), _before(row, stream))
                for row in document["classes"]
            ]
            nights = [[] for _ in known]
        check_drawn(document, stream)
        for row, so_far in zip(document["classes"], nights, strict=True):
            so_far.append(read_night(number, row))
    return tuple(
        ClassHistory(one.label, one.name, one.stream, tuple(so_far), one.before)
        for one, so_far in zip(known, nights, strict=True)
    )


def read_stream(settings: Mapping[str, Any]) -> StreamMechanism:
    """Return the stream of a class that the settings of a document say."""
    told = settings["stream"]
    budget = budget_from(settings["definition"], settings["budget"])
    known = read_domain(settings)
    plan = StreamPlan(budget, told["horizon"], told["opening"])
    return StreamMechanism(plan, known, MANIFOLDS[settings["manifold"]](k=known.k))


def read_domain(settings: Mapping[str, Any]) -> DescriptorDomain:
    """Return the bound on all images that the settings of a document say."""
    return domain(
        settings["descriptor"],
        height=settings["image_height"],
        width=settings["image_width"],
        depth=settings.get("image_depth"),
        eta=settings["eta"],
        manifold=settings["manifold"],
        masked=settings.get("masked", False),
    )


def check_drawn(document: Mapping[str, Any], stream: StreamMechanism) -> None:
    """Raise `OutputError` unless a night has the noise, the axes and the centre of this version.

    What a unit pays is shared out over all nights: with other shares on some of them it would not
    add up to the charge. Along other axes, or around another centre, its sums would not add up.
    """
    horizon = stream.plan.horizon
    drawn = [step._replace(budget=stream.plan.budget) for step in stream.steps]
    stated = [
        Step(step["step"], stream.plan.budget, step["sensitivity"], step["sigma"])
        for row in document["classes"]
        if row["w"] is not None
        for step in row["costs"]
    ]
    same = (document["horizon"], document["coefficient_norm"]) == (horizon, column_norm(horizon))
    other = "" if same and set(stated) <= set(drawn) else "noise"
    for name, mine in stands_on(stream).items():
        theirs = np.array(document.get(name, ()))
        if theirs.shape != np.shape(mine) or not np.allclose(theirs, mine, rtol=0.0, atol=ROUNDING):
            other = other or name
    if other:
        raise OutputError(
            f"night {document['night']} of the stream {document['settings']['name']!r} was drawn "
            f"with other {other} than this version has; go on with the version that the document "
            f"names, {document['settings']['version']}"
        )


def stands_on(stream: StreamMechanism) -> dict[str, Any]:
    """Return the axes of a stream, rows (d, d), and its centre, (d,), as JSON values."""
    return {"axes": stream.frame.from_axes.tolist(), "centre": stream.centre.tolist()}


def costs_of(stream: StreamMechanism, night: Night) -> list[CostPart]:
    """Return what each draw of a night is for, its Δ, σ and ρ; nothing before the opening.

    Those of the opening are spent once; those of later nights are of all nights together, what a
    unit pays in them for life.
    """
    if night.opened is not None:
        shares = stream.opening.shares
        assert shares is not None
        steps = step_costs(stream.plan.budget, night.n_so_far, shares, dim=stream.manifold.dim)
        return cost_rows(steps, night.rhos)
    return cost_rows(stream.steps, night.rhos) if night.w is not None else []


def cost_rows(steps: Iterable[Step], rhos: Iterable[float]) -> list[CostPart]:
    """Return what each draw of noise cost; ρ is None where nothing certifies it."""
    return [
        CostPart.model_construct(
            step=step.name,
            sensitivity=step.sensitivity,
            sigma=step.sigma,
            rho=None if math.isnan(rho) else rho,
        )
        for step, rho in zip(steps, rhos, strict=True)
    ]


def night_row(stream: StreamMechanism, night: Night) -> dict[str, Any]:
    """Return what a night released of a class, as fields of `NightClassPart`; see `read_night`."""
    return {
        "sigma": stream.steps[2].sigma,
        "n_so_far": night.n_so_far,
        "n_tonight": night.units,
        "w": _listed(night.w),
        "moment": _listed(night.moment),
        "survey": _listed(night.survey),
        "shells": _listed(night.shells),
        "opened": None if night.opened is None else opening_part(night.opened),
        "epoch": None if night.epoch is None else epoch_part(night.epoch),
        "costs": costs_of(stream, night),
    }


def read_night(number: int, row: Mapping[str, Any]) -> Night:
    """Return what `night_row` wrote of a night."""
    opened, epoch = row["opened"], row["epoch"]
    return Night(
        night=number,
        units=row["n_tonight"],
        n_so_far=row["n_so_far"],
        opened=None if opened is None else read_opening(opened),
        epoch=None if epoch is None else read_epoch(epoch),
        survey=_array(row["survey"]),
        shells=_array(row["shells"]),
        w=_array(row["w"]),
        moment=_array(row["moment"]),
        rhos=tuple(math.nan if one["rho"] is None else one["rho"] for one in row["costs"]),
    )


def estimate_part(mean: CumulativeMean) -> EstimatePart:
    """Return a mean as it stands in a document; `read_estimate` reads it back."""
    return EstimatePart.model_construct(
        n=mean.n,
        point=mean.point.tolist(),
        coordinates=mean.offset.tolist(),
        covariance=mean.covariance.tolist(),
        spread=mean.spread.tolist(),
    )


def read_estimate(row: Mapping[str, Any], stream: StreamMechanism) -> CumulativeMean:
    """Return what `estimate_part` wrote."""
    chart = FlatChart(stream.manifold)
    offset, covariance, spread = (np.array(row[x]) for x in ("coordinates", "covariance", "spread"))
    return CumulativeMean(chart, offset, covariance, row["n"], spread)


def _before(row: Mapping[str, Any], stream: StreamMechanism) -> CumulativeMean | None:
    found = row.get("before")
    return None if found is None else read_estimate(found, stream)


def opening_part(opened: OpeningRelease) -> OpeningPart:
    """Return an opening as it stands in a document; `read_opening` reads it back."""
    return OpeningPart.model_construct(
        observed=MomentsPart.model_construct(**as_values(opened.observed)),
        offset=opened.offset.tolist(),
        belief=opened.belief.tolist(),
        survey=_shares(opened.survey),
        shells=_shares(opened.shells),
    )


def _shares(shares: NoisyShares) -> SharesPart:
    return SharesPart.model_construct(values=shares.values.tolist(), noise=shares.noise)


def read_opening(row: Mapping[str, Any]) -> OpeningRelease:
    """Return what `opening_part` wrote."""
    survey, shells = (
        NoisyShares(np.array(row[name]["values"]), row[name]["noise"])
        for name in ("survey", "shells")
    )
    mean, belief = np.array(row["offset"]), np.array(row["belief"])
    return OpeningRelease(mean, belief, survey, shells, from_values(row["observed"]))


def epoch_part(epoch: Epoch) -> EpochPart:
    """Return an epoch as it stands in a document; `read_epoch` reads it back."""
    clip = ClipPart.model_construct(**epoch.clip._asdict())
    return EpochPart.model_construct(first=epoch.first, centre=epoch.centre.tolist(), clip=clip)


def read_epoch(row: Mapping[str, Any]) -> Epoch:
    """Return what `epoch_part` wrote."""
    return Epoch(row["first"], np.array(row["centre"]), Clip(**row["clip"]))


def _listed(values: FloatArray | None) -> list[float] | None:
    return None if values is None else values.tolist()


def _array(values: list[float] | None) -> FloatArray | None:
    return None if values is None else np.array(values)


NAME_BYTES = 200
"""Bytes of a name, of 255 that a file may have, before its ending; ours have at most 161."""


def check_folder(folder: Path) -> None:
    """Raise `OutputError` unless a release can be written to `folder`: before it is paid for."""
    make_folder(folder / "release")
    if (folder / "report.html").is_dir():
        raise OutputError(
            f"cannot write {folder / 'report.html'}, which is a folder; choose another --out"
        )


def write_document(content: bytes, folder: Path) -> Path:
    """Write the bytes the ledger gave back to ``OUT/release/<name>-<run key>.json``.

    Where that name is taken by another release, or by what is not ours, it gets a number; a
    damaged document is written again.

    Raises
    ------
    OutputError
        The folder cannot be written: the same run key gives the same bytes again, at no cost.
    """
    settings = json.loads(content)["settings"]
    stem = _safe(f"{settings['name']}-{settings['run_key']}")  # it may come from elsewhere
    place = make_folder(folder / "release")
    names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    path = next(
        path for path in (place / f"{name}.json" for name in names) if not _is_taken(path, content)
    )
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return path


def read_document(path: Path) -> dict[str, Any]:
    """Return the document written to `path`; raise `OutputError` when it is damaged."""
    try:
        with open_regular(path) as stream:
            document: dict[str, Any] = json.load(stream)
    except (OSError, ValueError, RecursionError) as error:
        raise OutputError(
            f"cannot read {path}; release again with the same run key: the ledger gives the same "
            "values back and charges nothing"
        ) from error
    return document


def _is_taken(path: Path, content: bytes) -> bool:
    """Return whether `path`, or a file that goes with it, must be left to somebody else."""
    beside = [path, path.with_suffix(".parquet"), path.with_suffix(".html")]
    try:
        if not all(_can_be_replaced(one) for one in beside if os.path.lexists(one)):
            return True
        found = path.read_bytes() if path.exists() else content
    except OSError:  # it cannot even be looked at
        return True
    return found != content and _is_whole(found)


def _can_be_replaced(path: Path) -> bool:
    """Return whether there is a file that this user may replace, sticky folders included."""
    found, folder = path.lstat(), path.parent.stat()
    user = getattr(os, "geteuid", lambda: 0)()
    owned = not folder.st_mode & stat.S_ISVTX or user in (0, found.st_uid, folder.st_uid)
    return stat.S_ISREG(found.st_mode) and owned


def _is_whole(found: bytes) -> bool:
    """Return whether a document is undamaged: of another release, or of another program."""
    try:
        json.loads(found)
    except (ValueError, RecursionError):
        return False
    return True


def _safe(text: str) -> str:
    """Return `text` as part of a file name, cut where no folder would take it."""
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)
    return plain.encode()[:NAME_BYTES].decode(errors="ignore")
