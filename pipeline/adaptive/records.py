"""The records of one class, made ready: what every repetition shares is computed once.

Nothing in here is private or may leave. Next on the path: ``mean.py``.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.adaptive.bins import LineBins, ShellBins, line_bins, shell_bins
from pipeline.adaptive.clipping import survey_counts
from pipeline.adaptive.frame import Frame, build_frame
from pipeline.adaptive.plan import AdaptivePlan, default_plan
from pipeline.adaptive.region import Domain, Region, region
from pipeline.arrays import FloatArray
from pipeline.errors import DomainError, PrivacyError
from pipeline.geometry import FlatChart, InductiveMean, Manifold, Point, inductive_mean


@dataclass(frozen=True, eq=False)
class Records:
    """Records in the space that is worked in: the chart of a flat manifold, else the manifold.

    Attributes
    ----------
    manifold, space : Manifold
        Where the result lives, and where the work is done.
    plan : AdaptivePlan
        What was decided beforehand.
    frame : Frame
        The axes.
    bins : (LineBins or None, ShellBins)
        The histograms.
    region : Region
        Where records, means and results lie.
    points : array, shape (n, *space.point_shape)
        The records, inside the region.
    centre : array, shape (*space.point_shape)
        Where the rounds begin: the prior's centre.
    seen : array, shape (n, d)
        They in the axes of the frame, from the prior's centre; along the line from the origin.
    counts : array
        The survey, before noise.
    """

    manifold: Manifold
    space: Manifold
    plan: AdaptivePlan
    frame: Frame
    bins: tuple[LineBins | None, ShellBins]
    region: Region
    points: Point
    centre: Point
    seen: FloatArray
    counts: FloatArray

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.points)

    @cached_property
    def mean(self) -> InductiveMean:
        """A mean that moves by at most D/n with one record: the Fréchet mean where it is flat."""
        if self.space.flat:
            return InductiveMean(self.centre + (self.points - self.centre).mean(axis=0), 0.0)
        return inductive_mean(self.points, self.space, condition=self.region.condition)

    @property
    def span(self) -> float:
        """The diameter of what the n records add to the computed log(p, mean), for every p.

        One replaced record moves it by at most ``span``/n: on a Hadamard manifold log(p, ·) is a
        contraction, so by D/n, D the diameter of the region, and what rounding may add on both data
        sets. The region holds the records as they were computed, so what came before needs no
        margin.
        """
        return self.region.diameter + 2.0 * self.n * self.mean.rounding


def place(space: Manifold, frame: Frame, point: Point) -> float:
    """Return ⟨e, log(origin, point)⟩, where on the line a point is; 0 without a line."""
    if not frame.lines:
        return 0.0
    return float(space.log(space.origin, point) @ frame.into[:, 0])


def see(space: Manifold, frame: Frame, base: Point, points: Point) -> FloatArray:
    """Return points in the axes of the frame at `base`, (n, d), along the line from the origin."""
    seen = space.log(base, points) @ frame.into
    if frame.lines:
        seen[:, 0] += place(space, frame, base)
    return np.ascontiguousarray(seen)


def prepare(
    points: Point,
    *,
    domain: Domain,
    manifold: Manifold,
    plan: AdaptivePlan | None = None,
) -> Records:
    """Compute what all repetitions, and all budgets, share.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        The records. Those outside the domain's region are moved to its nearest point, unreported.
    domain : Domain
        What is publicly known of them.
    manifold : Manifold
        A Hadamard manifold.
    plan : AdaptivePlan, optional
        `default_plan` when left out.

    Raises
    ------
    DomainError
        When there is no record.
    PrivacyError
        When the manifold is not a Hadamard manifold.
    """
    if not manifold.hadamard:
        raise PrivacyError(
            f"the adaptive mean is private on Hadamard manifolds, found {manifold.name}, which has "
            "positive curvature; use a mechanism made for it"
        )
    if len(points) < 1:
        raise DomainError("a mean needs at least one record, found 0; leave out empty classes")
    charted = manifold.flat and not isinstance(manifold, FlatChart)
    space: Manifold = FlatChart(manifold) if charted else manifold
    if charted:
        points = manifold.log(manifold.origin, points)
    chosen = default_plan(domain, space) if plan is None else plan
    prior = chosen.prior
    frame, area = build_frame(prior), region(domain, space)
    centre = area.inside(space.exp(space.origin, prior.centre))
    inside = area.inside(points)
    shells = shell_bins(prior, frame, area.diameter)
    start = place(space, frame, centre)
    line = line_bins(prior, prior.span, start) if frame.lines else None
    seen = see(space, frame, centre, inside)
    return Records(
        manifold=manifold,
        space=space,
        plan=chosen,
        frame=frame,
        bins=(line, shells),
        region=area,
        points=inside,
        centre=centre,
        seen=seen,
        counts=survey_counts(seen, start, frame, line, shells),
    )
