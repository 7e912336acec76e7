"""The transcript of a stream: what its documents say, read back as `pipeline.stream` needs it.

    night ─► row of the document          what the night released of a class
    documents 1, 2, …, t ─► histories     the same values, to the last bit

So all that later nights build on, and every estimate, follows from the committed documents alone.
Next on the path: ``night_document.py``, which makes one.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.descriptors import DescriptorDomain, domain
from pipeline.errors import OutputError
from pipeline.geometry import MANIFOLDS, FlatChart
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


def costs_of(stream: StreamMechanism, night: Night) -> list[dict[str, Any]]:
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


def cost_rows(steps: Iterable[Step], rhos: Iterable[float]) -> list[dict[str, Any]]:
    """Return what each draw of noise cost, as JSON values; ρ is None where nothing certifies it."""
    return [
        {
            "step": step.name,
            "sensitivity": step.sensitivity,
            "sigma": step.sigma,
            "rho": None if math.isnan(rho) else rho,
        }
        for step, rho in zip(steps, rhos, strict=True)
    ]


def night_row(stream: StreamMechanism, night: Night) -> dict[str, Any]:
    """Return what a night released of a class as JSON values; `read_night` reads them back."""
    return {
        "sigma": stream.steps[2].sigma,
        "n_so_far": night.n_so_far,
        "n_tonight": night.units,
        "w": _listed(night.w),
        "moment": _listed(night.moment),
        "survey": _listed(night.survey),
        "shells": _listed(night.shells),
        "opened": None if night.opened is None else opened_row(night.opened),
        "epoch": None if night.epoch is None else epoch_row(night.epoch),
        "costs": costs_of(stream, night),
    }


def read_night(number: int, row: Mapping[str, Any]) -> Night:
    """Return what `night_row` wrote of a night."""
    opened, epoch = row["opened"], row["epoch"]
    return Night(
        night=number,
        units=row["n_tonight"],
        n_so_far=row["n_so_far"],
        opened=None if opened is None else read_opened(opened),
        epoch=None if epoch is None else read_epoch(epoch),
        survey=_array(row["survey"]),
        shells=_array(row["shells"]),
        w=_array(row["w"]),
        moment=_array(row.get("moment")),
        rhos=tuple(math.nan if one["rho"] is None else one["rho"] for one in row["costs"]),
    )


def estimate_row(found: CumulativeMean) -> dict[str, Any]:
    """Return an estimate as JSON values; its point is the matrix, all else in the chart."""
    return {
        "n": found.n,
        "point": found.point.tolist(),
        "coordinates": found.offset.tolist(),
        "covariance": found.covariance.tolist(),
        "spread": found.spread.tolist(),
    }


def read_estimate(row: Mapping[str, Any], stream: StreamMechanism) -> CumulativeMean:
    """Return what `estimate_row` wrote."""
    chart = FlatChart(stream.manifold)
    offset, covariance, spread = (np.array(row[x]) for x in ("coordinates", "covariance", "spread"))
    return CumulativeMean(chart, offset, covariance, row["n"], spread)


def _before(row: Mapping[str, Any], stream: StreamMechanism) -> CumulativeMean | None:
    found = row.get("before")
    return None if found is None else read_estimate(found, stream)


def opened_row(opened: OpeningRelease) -> dict[str, Any]:
    """Return an opening as JSON values; `read_opened` reads them back."""
    return {
        "observed": as_values(opened.observed),
        "offset": opened.offset.tolist(),
        "belief": opened.belief.tolist(),
        "survey": {"values": opened.survey.values.tolist(), "noise": opened.survey.noise},
        "shells": {"values": opened.shells.values.tolist(), "noise": opened.shells.noise},
    }


def read_opened(row: Mapping[str, Any]) -> OpeningRelease:
    """Return what `opened_row` wrote."""
    survey, shells = (
        NoisyShares(np.array(row[name]["values"]), row[name]["noise"])
        for name in ("survey", "shells")
    )
    mean, belief = np.array(row["offset"]), np.array(row["belief"])
    return OpeningRelease(mean, belief, survey, shells, from_values(row["observed"]))


def epoch_row(epoch: Epoch) -> dict[str, Any]:
    """Return an epoch as JSON values; `read_epoch` reads them back."""
    clip = epoch.clip._asdict()
    return {"first": epoch.first, "centre": epoch.centre.tolist(), "clip": clip}


def read_epoch(row: Mapping[str, Any]) -> Epoch:
    """Return what `epoch_row` wrote."""
    return Epoch(row["first"], np.array(row["centre"]), Clip(**row["clip"]))


def _listed(values: FloatArray | None) -> list[float] | None:
    return None if values is None else values.tolist()


def _array(values: list[float] | None) -> FloatArray | None:
    return None if values is None else np.array(values)
