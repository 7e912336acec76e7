"""What committed documents say: of a stream's nights, and of releases of other hospitals.

Their schema is `covdp.schema`.

**The transcript** of a stream is what its documents say, read back as `stream` needs it:

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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from covdp.addons.nights.stream import (
    CumulativeMean,
    Night,
    StreamMechanism,
    StreamPlan,
    column_norm,
    later_openings,
)
from covdp.errors import ConfigError, CovdpError, LedgerError, OutputError
from covdp.files import IrregularFileError, make_folder, open_regular, read_regular, write_whole
from covdp.geometry import MANIFOLDS, FlatChart
from covdp.mean import Step
from covdp.privacy import budget_from
from covdp.results import write_release
from covdp.schema import (
    CostPart,
    Document,
    EstimatePart,
    NightClassPart,
    NightDocument,
    SettingsPart,
    as_json,
    check,
    read_ours,
)

DOCUMENT_BYTES = 1 << 26
"""Bytes; a class of `grid11` takes 300,000."""
MOST = 1 << 22
"""Values; a class of `grid11` has 11,000. Each takes up to 100 bytes once it is parsed."""
DOCUMENT_SCHEMA = files("covdp.publish").joinpath("document.schema.json")
"""JSON Schema of a document: a file beside this one."""


def read_foreign(path: Path) -> tuple[bytes, Document]:
    """Return the bytes of a document that somebody sent, and what they say.

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
    """Return the bytes of a file that somebody sent, and its JSON; raises as `read_foreign`."""

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
    """Raise `ConfigError` where what follows from documents cannot be computed."""
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
    """Raise `ConfigError` unless all means are k × k, as those of the descriptor are."""
    if any(row.point is not None and len(row.point) != k for row in document.classes):
        raise ConfigError(
            f"{path} has means that are not {k} × {k}, as those of "
            f"{document.settings.descriptor} are; ask for the committed bytes again"
        )


AXES_ROUNDING = 1e-9
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


def read_histories(documents: Iterable[Document]) -> tuple[ClassHistory, ...]:
    """Return what the documents of a stream's nights say, one history a class.

    Parameters
    ----------
    documents : iterable of NightDocument
        Of nights 1, 2, …, in order, as `read_document` returns them.

    Raises
    ------
    OutputError
        When they are not the first nights of one stream, or their noise is not what this version
        would draw: then other values than those released would follow.
    """
    histories: tuple[ClassHistory, ...] = ()
    for number, document in enumerate(documents, 1):
        if not isinstance(document, NightDocument) or document.night != number:
            raise OutputError(
                f"the documents of a stream are read from its first night on, in order: expected "
                f"night {number}, found {getattr(document, 'night', None)!r}; give all that were "
                "committed"
            )
        if number == 1:
            stream = read_stream(document.settings)
            histories = tuple(
                ClassHistory(
                    row.label, row.class_name, stream, (), read_estimate(row.before, stream)
                )
                for row in document.classes
            )
        histories = with_night(histories, document)
    return histories


def with_night(
    histories: Sequence[ClassHistory], document: NightDocument
) -> tuple[ClassHistory, ...]:
    """Return the histories of all classes with the night after them, as its document says.

    Raises
    ------
    OutputError
        It has other noise, axes or another centre than this version.
    """
    nights = [read_night(document, row) for row in document.classes]
    _check_drawn(document, histories[0].stream, nights)
    return tuple(
        replace(history, nights=(*history.nights, night))
        for history, night in zip(histories, nights, strict=True)
    )


def read_stream(settings: SettingsPart) -> StreamMechanism:
    """Return the stream of a class that the settings of a document say."""
    assert settings.stream is not None
    budget, domain = budget_from(settings.definition, settings.budget), settings.domain
    stream = settings.stream
    again = later_openings(stream.opening)
    plan = StreamPlan(budget, stream.horizon, stream.opening, settings.secret, again)
    return StreamMechanism(plan, domain, MANIFOLDS[settings.manifold](k=domain.k))


def _check_drawn(document: NightDocument, stream: StreamMechanism, nights: Iterable[Night]) -> None:
    """Raise `OutputError` unless a night has the noise, the axes and the centre of this version.

    What a privacy unit pays is shared out over all nights: with other shares on some of them it
    would not add up to the charge. Along other axes, or around another centre, its sums would not
    add up.
    """
    horizon = stream.plan.horizon
    same = (document.horizon, document.coefficient_norm) == (horizon, column_norm(horizon))
    for row, night in zip(document.classes, nights, strict=True):
        steps = steps_of(stream, night)
        drawn = [(step.name, step.sensitivity, step.sigma) for step in steps]
        stated = [(cost.step, cost.sensitivity, cost.sigma) for cost in row.costs]
        same = same and stated == drawn
    other = "" if same else "noise"
    for name, ours in stands_on(stream).items():
        value = getattr(document, name)
        if value.shape != ours.shape or not np.allclose(value, ours, rtol=0.0, atol=AXES_ROUNDING):
            other = other or name
    if other:
        raise OutputError(
            f"night {document.night} of the stream {document.settings.name!r} was drawn "
            f"with other {other} than this version has; go on with version "
            f"{document.settings.version}, or open a stream of another name, which is charged"
        )


def stands_on(stream: StreamMechanism) -> dict[str, Any]:
    """Return the axes of a stream, rows (d, d), and its centre, (d,), as fields of a document."""
    return {"axes": stream.frame.from_axes, "centre": stream.centre}


def steps_of(stream: StreamMechanism, night: Night) -> Sequence[Step]:
    """Return what each draw of a night is for, its Δ and σ; none before the opening.

    Where labels are secret there is the count before it.
    Those of the opening are spent once; those of later nights, and of the count until the opening,
    are of all nights together, what a privacy unit pays in them for life.
    """
    if night.w is not None:
        return stream.steps
    if night.opened is None:
        return stream.count_steps
    shares, dim = stream.opening.shares, stream.manifold.dim
    assert shares is not None
    units = night.n_so_far if stream.plan.secret else night.opened.observed.n
    return [*stream.count_steps, *stream.plan.opening_steps(units, dim, shares)]


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


NIGHT_FIELDS = ("opened", "epoch", "shells", "w", "moment")
"""What a night releases of a class, under one name in the history and in its document."""


def night_row(stream: StreamMechanism, night: Night) -> dict[str, Any]:
    """Return what a night released of a class, as fields of `NightClassPart`; see `read_night`."""
    secret = stream.plan.secret
    return {name: getattr(night, name) for name in NIGHT_FIELDS} | {
        "sigma": stream.steps[-1].sigma,
        "n_tonight": None if secret else night.units,
        "n_so_far": None if secret else night.n_so_far,
        "costs": cost_rows(steps_of(stream, night), night.rhos),
        **({"count": night.count} if secret else {}),
    }


def read_night(document: NightDocument, row: NightClassPart) -> Night:
    """Return what `night_row` wrote of a night."""
    return Night(
        night=document.night,
        units=document.units_tonight if row.n_tonight is None else row.n_tonight,
        n_so_far=document.units_so_far if row.n_so_far is None else row.n_so_far,
        rhos=tuple(math.nan if cost.rho is None else cost.rho for cost in row.costs),
        count=row.count,
        **{name: getattr(row, name) for name in NIGHT_FIELDS},
    )


def estimate_part(mean: CumulativeMean) -> EstimatePart:
    """Return a mean as it stands in a document; `read_estimate` reads it back."""
    return EstimatePart.model_construct(
        n=mean.n,
        point=mean.point,
        coordinates=mean.offset,
        covariance=mean.covariance,
        spread=mean.spread,
    )


def read_estimate(part: EstimatePart | None, stream: StreamMechanism) -> CumulativeMean | None:
    """Return what `estimate_part` wrote, None where it wrote nothing."""
    if part is None:
        return None
    chart = FlatChart(stream.manifold)
    return CumulativeMean(chart, part.coordinates, part.covariance, part.n, part.spread)


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
    return write_whole(path, content)


def read_committed(content: bytes) -> Document | None:
    """Return the document of a release of ours; None where the bytes are something else."""
    with suppress(ValueError, RecursionError):
        return read_ours(json.loads(content))
    return None


def read_document(path: Path) -> Document:
    """Return the document written to `path`; raise `OutputError` when it is damaged."""
    try:
        with open_regular(path) as stream:
            return read_ours(json.load(stream))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, ValidationError):  # bytes that the ledger had, and no disk is full
            raise LedgerError(
                f"{path} is no document of this version of covdp; if another one committed it, its "
                "values are there and paid: make its page with that version"
            ) from error
        raise OutputError(
            f"cannot read {path}; release again with the same run key: the ledger gives the same "
            "values back and charges nothing"
        ) from error


def write_parquet(document: Document, path: Path) -> Path:
    """Write a document as Parquet, a row a class; its statement and settings are metadata."""
    values = as_json(document)
    return write_release(values.pop("classes"), values, path)


def _is_taken(path: Path, content: bytes) -> bool:
    """Return whether `path`, or a file that goes with it, must be left to somebody else."""
    beside = [path, path.with_suffix(".parquet"), path.with_suffix(".html")]
    try:
        if not all(_can_be_replaced(place) for place in beside if os.path.lexists(place)):
            return True
        data = path.read_bytes() if path.exists() else content
    except OSError:  # it cannot even be looked at
        return True
    return data != content and _is_whole(data)


def _can_be_replaced(path: Path) -> bool:
    """Return whether there is a file that this user may replace, sticky folders included."""
    status, folder = path.lstat(), path.parent.stat()
    user = getattr(os, "geteuid", lambda: 0)()
    owned = not folder.st_mode & stat.S_ISVTX or user in (0, status.st_uid, folder.st_uid)
    return stat.S_ISREG(status.st_mode) and owned


def _is_whole(content: bytes) -> bool:
    """Return whether a document is undamaged: of another release, or of another program."""
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _safe(text: str) -> str:
    """Return `text` as part of a file name, cut where no folder would take it."""
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)
    return plain.encode()[:NAME_BYTES].decode(errors="ignore")
