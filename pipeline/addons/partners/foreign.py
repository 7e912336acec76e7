"""Documents that somebody sent: read, and checked before anything is computed from them.

Whoever wrote a document may be wrong, or mean harm: a number that is none of a release must not
become a wrong p-value, a failure without a word, or a page that hangs. What is checked is form and
size; who wrote it, and whether it is as they released it, only its digest can tell.
"""

import errno
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from covdp.addons.nights.schema import NightClassPart, WindowPart
from covdp.arrays import FloatArray
from covdp.errors import ConfigError, ConvergenceError, CovdpError, DomainError, OutputError
from covdp.files import IrregularFileError, read_regular
from covdp.geometry import MANIFOLDS, from_chart
from covdp.geometry.covariances import covariances_of
from covdp.mean import NoisyMoments
from covdp.schema import (
    ClassEntry,
    ClassPart,
    Document,
    SettingsPart,
    first_fault,
    model_of,
    point_at,
)

Model = TypeVar("Model", bound=BaseModel)
NEAR = 1e-6
"""Largest distance of a matrix from that of its coordinates, over its largest entry."""
SKEWED = 1e10
"""Condition number of axes from which on solving with them means nothing."""
DOCUMENT_BYTES = 1 << 26
"""Bytes; a class of `grid11` takes 300,000."""
MOST = 1 << 22
"""Values; a class of `grid11` has 11,000. Each takes up to 100 bytes once it is parsed."""


def read_foreign(path: Path) -> tuple[bytes, Document]:
    """Return the bytes of a document that somebody sent, and the document.

    Parameters
    ----------
    path : Path
        File of the document.

    Raises
    ------
    ConfigError
        When it is no regular file, has more bytes or values than any release, or is no JSON, or
        none of a release.
    OutputError
        When it cannot be read.
    """
    content, values = foreign_json(path, "document of a release", "give OUT/release/*.json")
    return content, check(path, values)


def foreign_json(path: Path, what: str, way: str) -> tuple[bytes, Any]:
    """Return the bytes of a file that somebody sent, and its JSON; raises as `read_foreign`.

    Parameters
    ----------
    path : Path
        File.
    what : str
        Noun for it, for messages.
    way : str
        Way out, for messages.
    """

    def refusal(reason: str) -> ConfigError:
        return ConfigError(f"{path} {reason}, so it is no {what}; {way}")

    try:
        content = read_regular(path, DOCUMENT_BYTES)
    except IrregularFileError as error:
        raise refusal(f"is {error.strerror}") from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise refusal(f"has {error.strerror}") from None
        raise OutputError(f"cannot read {path} ({error.strerror}); {way}") from error
    if (count := sum(map(content.count, (b",", b"[", b"{")))) > MOST:
        raise refusal(f"has {count:,} values")
    try:
        return content, json.loads(content)
    except (ValueError, RecursionError):
        raise refusal("is no JSON") from None


@contextmanager
def computed(paths: Sequence[Path]) -> Iterator[None]:
    """Raise `ConfigError` where what follows from documents cannot be computed.

    Parameters
    ----------
    paths : sequence of Path
        Files of the documents.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except CovdpError:
        raise
    except (ValueError, ArithmeticError) as error:
        raise ConfigError(
            f"what {' and '.join(map(str, paths))} say together cannot be computed; were they "
            "changed? Ask for the committed bytes again, and compare their digests"
        ) from error


def check_sides(path: Path, document: Document, k: int) -> None:
    """Raise `ConfigError` unless all means are k × k, as those of the descriptor are.

    Parameters
    ----------
    path : Path
        File, for messages.
    document : Document
        Document of a release or a night.
    k : int
        Side of the descriptor.
    """
    if any(row.point is not None and len(row.point) != k for row in document.classes):
        raise ConfigError(
            f"{path} has means that are not {k} × {k}, as those of "
            f"{document.settings.descriptor} are; ask for the committed bytes again"
        )


def check(path: Path, values: Any) -> Document:
    """Return the document that somebody sent; raise `ConfigError` unless it is one.

    Parameters
    ----------
    path : Path
        File, for messages.
    values : object
        JSON values of the file.
    """
    kind = model_of(values)
    return checked(path, values, kind, _faults, kind.what, "give OUT/release/*.json")


def checked(
    path: Path,
    values: Any,
    model: type[Model],
    faults: Callable[[Model], Iterator[str]],
    what: str,
    way: str,
) -> Model:
    """Return the values that somebody sent as a model; raise `ConfigError` where it has faults.

    Parameters
    ----------
    path : Path
        File, for messages.
    values : object
        JSON values of the file.
    model : type of BaseModel
        Model that they are read by.
    faults : callable
        Function from a model to its faults.
    what : str
        Noun for the file, for messages.
    way : str
        Way out, for messages.
    """
    try:
        found = model.model_validate(values)
    except ValidationError as error:
        reason = first_fault(error)
    else:
        reason = next(faults(found), "")
        if not reason:
            return found
    raise ConfigError(f"{path} is no {what} ({reason}); {way}, unchanged")


def _faults(document: Document) -> Iterator[str]:
    """Yield what does not fit together."""
    names = [row.class_name for row in document.classes]
    if len(set(names)) < len(names):
        yield "two classes have one name"
    titles = [title for title, _ in document.statement]
    if len(set(titles)) < len(titles):
        yield "two texts of the statement have one title"
    for place, row in enumerate(document.classes):
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
    elif isinstance(row, ClassPart):
        yield from _misfits_release(row, settings, d)
    elif isinstance(row, NightClassPart):
        yield from _misfits_night(row, settings, d)


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
    """Tell whether a matrix is a covariance, (side, side)."""
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


def _misfits_release(row: ClassPart, settings: SettingsPart, d: int) -> Iterator[str]:
    """Yield what is wrong with the mean of a class of a release, of dimension d."""
    if row.observed is None:
        return
    if row.manifold_name != settings.manifold:
        yield "manifold is another than that of the settings"
    size = row.observed.n if settings.secret else row.n  # a count is not what divides sums
    yield from (f"observed.{fault}" for fault in _misfits_observed(row.observed, size, d))
    if row.observed.belief is None or not _is_symmetric(row.observed.belief, d):
        yield "observed.belief is no covariance"


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
