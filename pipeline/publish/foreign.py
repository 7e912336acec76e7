"""A document of a release that somebody sent: every value that is read of it, checked first.

Whoever wrote it may have erred, or mean harm: a number that is none of a release must not become a
wrong p-value, a failure without a word, or a page that hangs. What is checked is form and size; who
wrote a document, and whether it is as they released it, only its digest can tell.
"""

import errno
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from pipeline.errors import ConfigError, ConvergenceError, DomainError, OutputError
from pipeline.files import IrregularFileError, read_regular
from pipeline.geometry import MANIFOLDS, from_chart
from pipeline.geometry.covariances import covariances_of
from pipeline.inference import point_at

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


class Settings(BaseModel):
    """The settings that pages and tests read."""

    name: Name
    run_key: Name
    population: Name
    dataset: Name
    classes: list[tuple[int, Name, Annotated[int, Field(strict=True, ge=0, le=int(LARGEST))]]]
    definition: Name
    budget: Divisor
    mechanism: Name
    noise: Name
    descriptor: Name
    eta: Size
    manifold: Name
    unit: Literal["image", "person"] = "image"
    image_height: Count | None = None
    image_width: Count | None = None
    image_depth: Count | None = None
    masked: Annotated[bool, Field(strict=True)] = False
    classes_per_person: Count | None = None
    images_per_person: Count | None = None
    size: Count | None = None
    splits: list[Name] | None = None
    shares: Numbers | None = None
    smallest_class: Count = 2
    stream: None = None


class Seen(BaseModel):
    """What `NoisyMoments` is read from."""

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
    clipped: Annotated[float, Field(strict=True, ge=0, le=1)]
    cut: Annotated[float, Field(strict=True, ge=0, le=1)]
    clipped_noise: Size
    cut_noise: Size
    interval: Numbers
    shift: Annotated[float, Field(strict=True, allow_inf_nan=False)]
    added: Size
    bend: Size
    overshoots: Numbers | None
    reach: Annotated[list[Divisor], Field(max_length=3)] | None
    belief: Basis


class Row(BaseModel):
    """A class; `observed` is missing in documents of older versions."""

    class_name: Name
    n: Count
    point: Matrix
    coordinates: Coordinates
    manifold: Name | None = None
    observed: Seen | None = None


class Document(BaseModel):
    """All of it that is read."""

    settings: Settings
    classes: list[Row]
    statement: list[tuple[Name, Annotated[str, Field(strict=True, max_length=100_000)]]] = []


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
        found = Document.model_validate(document)
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


def _faults(found: Document) -> Iterator[str]:
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


def _misfits(row: Row, seen: Seen, k: int, found: Document) -> Iterator[str]:
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


def _is_matrix_of(row: Row, manifold: str) -> bool:
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
