"""The records of one class, made ready: what every repetition shares is computed once.

Nothing in here is private or may leave. Next on the path: ``mean.py``.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.adaptive.bins import LineBins, ShellBins, line_bins, shell_bins
from pipeline.adaptive.clipping import survey_counts
from pipeline.adaptive.frame import Frame, build_frame
from pipeline.adaptive.plan import AdaptivePlan, default_plan
from pipeline.adaptive.region import Domain, Region, region
from pipeline.arrays import FloatArray
from pipeline.errors import DomainError, PrivacyError
from pipeline.geometry import FlatChart, Manifold, Point, frechet_mean

TOLERANCE = 1e-9
"""τ: largest gradient norm of the exact Fréchet mean on a curved manifold."""


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
    seen : array, shape (n, d)
        They in the axes of the frame, from the prior's centre; along the line from the origin.
    counts : array
        The survey, before noise.
    mean : array, shape (*space.point_shape)
        The Fréchet mean.
    span : float
        n times what one replaced record may move the computed log(p, mean), for every p.
    """

    manifold: Manifold
    space: Manifold
    plan: AdaptivePlan
    frame: Frame
    bins: tuple[LineBins | None, ShellBins]
    region: Region
    points: Point
    seen: FloatArray
    counts: FloatArray
    mean: Point
    span: float

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.points)


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
    margin: float = 0.0,
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
    margin : float
        Bound on how far the computed coordinates of one record, or of the Fréchet mean on a curved
        manifold, are from the exact ones. It counts where the whole region is covered; a clipped
        vector needs none.

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
    centre = space.exp(space.origin, prior.centre)
    frame, area = build_frame(prior), region(domain, space)
    inside = area.inside(points)
    shells = shell_bins(prior, frame, area.diameter)
    start = place(space, frame, centre)
    line = line_bins(prior, prior.span, start) if frame.lines else None
    seen = see(space, frame, centre, inside)
    slack = 2.0 * margin if space.flat else 2.0 * len(points) * (TOLERANCE + margin)
    return Records(
        manifold=manifold,
        space=space,
        plan=chosen,
        frame=frame,
        bins=(line, shells),
        region=area,
        points=inside,
        seen=seen,
        counts=survey_counts(seen, start, frame, line, shells),
        mean=inside.mean(axis=0)
        if space.flat
        else frechet_mean(inside, space, tolerance=TOLERANCE).point,
        span=area.diameter + slack,
    )
