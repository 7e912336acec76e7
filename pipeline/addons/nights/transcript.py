"""The transcript of a stream: what its documents say, read back as `stream` needs it.

    night ─► row of the document          what the night released of a class
    documents 1, 2, …, t ─► histories     the same values, to the last bit

So all that later nights build on, and every estimate, follows from the committed documents alone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covdp.addons.nights.schema import EstimatePart, NightClassPart, NightDocument, read_stream
from covdp.addons.nights.stream import CumulativeMean, Night, StreamMechanism, column_norm
from covdp.errors import OutputError
from covdp.geometry import FlatChart
from covdp.mean import Step
from covdp.publish.document import cost_rows
from covdp.schema import Document

AXES_ROUNDING = 1e-9
"""Largest difference of equal axes: linear algebra rounds otherwise elsewhere."""


@dataclass(frozen=True, eq=False)
class ClassHistory:
    """All nights of one class that were read, from the first on.

    Attributes
    ----------
    label : int
        Label of the class.
    name : str
        Name of the class.
    stream : StreamMechanism
        Mechanism of the stream.
    nights : tuple of Night
        Nights that were read, from the first on.
    before : CumulativeMean or None
        Mean of the streams that this one follows.
    """

    label: int
    name: str
    stream: StreamMechanism
    nights: tuple[Night, ...]
    before: CumulativeMean | None = None


def read_histories(documents: Iterable[Document]) -> tuple[ClassHistory, ...]:
    """Return the histories of all classes, from the documents of a stream's nights.

    Parameters
    ----------
    documents : iterable of NightDocument
        Documents of nights 1, 2, …, in order, as `read_document` returns them.

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

    Parameters
    ----------
    histories : sequence of ClassHistory
        Nights of each class, before this one.
    document : NightDocument
        Document of the night.

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
    """Return the axes of a stream, rows (d, d), and its centre, (d,), as fields of a document.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    """
    return {"axes": stream.frame.from_axes, "centre": stream.centre}


def steps_of(stream: StreamMechanism, night: Night) -> Sequence[Step]:
    """Return the step of each draw of a night, with its Δ and σ; none before the opening.

    Where labels are secret there is the count before it. Steps of the opening are spent once; those
    of later nights, and of the count until the opening, are of all nights together: a privacy unit
    pays them once for life.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    night : Night
        Night of the class.
    """
    if night.w is not None:
        return stream.steps
    if night.opened is None:
        return stream.count_steps
    shares, dim = stream.opening.shares, stream.manifold.dim
    assert shares is not None
    units = night.n_so_far if stream.plan.secret else night.opened.observed.n
    return [*stream.count_steps, *stream.plan.opening_steps(units, dim, shares)]


NIGHT_FIELDS = ("opened", "epoch", "shells", "w", "moment")
"""Fields that a night releases of a class, of one name in the history and in its document."""


def night_row(stream: StreamMechanism, night: Night) -> dict[str, Any]:
    """Return the release of a night as fields of `NightClassPart`; see `read_night`.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    night : Night
        Night of the class.
    """
    secret = stream.plan.secret
    return {name: getattr(night, name) for name in NIGHT_FIELDS} | {
        "sigma": stream.steps[-1].sigma,
        "n_tonight": None if secret else night.units,
        "n_so_far": None if secret else night.n_so_far,
        "costs": cost_rows(steps_of(stream, night), night.rhos),
        **({"count": night.count} if secret else {}),
    }


def read_night(document: NightDocument, row: NightClassPart) -> Night:
    """Return the night that `night_row` wrote.

    Parameters
    ----------
    document : NightDocument
        Document of the night.
    row : NightClassPart
        Class of the document.
    """
    return Night(
        night=document.night,
        units=document.units_tonight if row.n_tonight is None else row.n_tonight,
        n_so_far=document.units_so_far if row.n_so_far is None else row.n_so_far,
        rhos=tuple(math.nan if cost.rho is None else cost.rho for cost in row.costs),
        count=row.count,
        **{name: getattr(row, name) for name in NIGHT_FIELDS},
    )


def estimate_part(mean: CumulativeMean) -> EstimatePart:
    """Return a mean as it stands in a document; `read_estimate` reads it back.

    Parameters
    ----------
    mean : CumulativeMean
        Mean of all records so far.
    """
    return EstimatePart.model_construct(
        n=mean.n,
        point=mean.point,
        coordinates=mean.offset,
        covariance=mean.covariance,
        spread=mean.spread,
    )


def read_estimate(part: EstimatePart | None, stream: StreamMechanism) -> CumulativeMean | None:
    """Return the mean that `estimate_part` wrote, None where it wrote none.

    Parameters
    ----------
    part : EstimatePart or None
        Mean in a document; None where there is none.
    stream : StreamMechanism
        Mechanism of the stream.
    """
    if part is None:
        return None
    chart = FlatChart(stream.manifold)
    return CumulativeMean(chart, part.coordinates, part.covariance, part.n, part.spread)
