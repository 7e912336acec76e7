"""One draw of noise around a mean: published plans, and the single release.

    records ─► statistic, Δ ─► footpoint ─► calibrate ─► sample ─► project

Published mechanisms spend a budget in one such draw, or in two.
"""

import math
import time
from typing import NamedTuple, cast

import numpy as np

from covdp.arrays import FloatArray
from covdp.errors import PrivacyError
from covdp.geometry import Manifold, Point
from covdp.mean.plan import SinglePlan
from covdp.mean.public_model import center_of, feasible_set
from covdp.mean.records import Records
from covdp.mean.release import Release, Step
from covdp.mean.sensitivity import frechet_sensitivity, sensitivity
from covdp.mechanisms import MECHANISMS, Diagnostics, Draws, Family, Mechanism, no_footpoint
from covdp.mechanisms.base import SAMPLERS
from covdp.mechanisms.noise import Noise
from covdp.mechanisms.radial import directions
from covdp.privacy import Budget, split


class Footpoints(NamedTuple):
    """Means that private footpoints are drawn around, and the records behind each of them.

    Attributes
    ----------
    means : array, shape (*point_shape) or (size, *point_shape)
        Means of the records, not private.
    n : int
        Number of records behind each.
    """

    means: Point
    n: int

    def __repr__(self) -> str:
        """Show no value."""
        return f"Footpoints(n={self.n}, …)"


class DrawnFootpoints(NamedTuple):
    """Footpoints of some draws, one of each.

    Attributes
    ----------
    points : array, shape (size, *point_shape)
        Footpoints, free to leave if they have a `step`.
    step : Step or None
        Cost of the footpoints; None if they are not private, for experiments.
    """

    points: Point
    step: Step | None

    def __repr__(self) -> str:
        """Show no value."""
        return f"DrawnFootpoints(step={self.step}, …)"


class CentredLaw(NamedTuple):
    """Mechanism that is ready to be drawn from, and its centre (not private).

    Attributes
    ----------
    mechanism : Mechanism
        Mechanism, calibrated.
    space : Manifold
        Manifold that is drawn on.
    statistic : array
        Centre of the noise, or the records: not private.
    base : array, shape (*point_shape), or None
        Public footpoint; None at the origin.
    """

    mechanism: Mechanism
    space: Manifold
    statistic: Point
    base: Point | None

    def __repr__(self) -> str:
        """Show no value of the records."""
        return f"Calibrated({self.mechanism!r}, …)"


def pays_footpoint(plan: SinglePlan) -> bool:
    """Return True if a draw pays for a footpoint: a private one, which its mechanism reads.

    Parameters
    ----------
    plan : SinglePlan
        Plan of one draw.

    Returns
    -------
    bool
        True if a draw pays for one.

    Examples
    --------
    >>> from covdp.mean import SinglePlan, pays_footpoint
    >>> pays_footpoint(SinglePlan()), pays_footpoint(SinglePlan(footpoint="all"))
    (False, True)
    """
    moved = plan.private and plan.footpoint != "origin"
    return moved and MECHANISMS[plan.mechanism].wrapped


def split_budget(budget: Budget, plan: SinglePlan) -> tuple[Budget | None, Budget]:
    """Return the budget of the footpoint, None where none is paid, and that of the mean.

    A mechanism that reads no footpoint spends all on the mean.

    Parameters
    ----------
    budget : Budget
        Budget of a draw in all.
    plan : SinglePlan
        Plan of one draw.

    Returns
    -------
    Budget or None
        Budget of the footpoint.
    Budget
        Budget of the mean.

    Examples
    --------
    >>> from covdp import ZCDP
    >>> from covdp.mean import SinglePlan, split_budget
    >>> footpoint, mean = split_budget(ZCDP(1.0), SinglePlan(footpoint="all"))
    >>> round(footpoint.rho, 9), round(mean.rho, 9)
    (0.1, 0.9)
    """
    if not pays_footpoint(plan):
        return None, budget
    share, rest = split(budget, (plan.footpoint_share, 1 - plan.footpoint_share))
    return share, rest


def footpoints(
    records: Records, plan: SinglePlan, *, size: int, rng: np.random.Generator
) -> Footpoints | None:
    """Return the means behind the private footpoints of `size` draws, None for a public one.

    None, too, where the mechanism reads no footpoint. Those that are not private are returned
    themselves, each in a direction of its own.

    Parameters
    ----------
    records : Records
        Records of one class.
    plan : SinglePlan
        Plan of one draw.
    size : int
        Number of draws.
    rng : numpy.random.Generator
        Generator of the subsamples.

    Returns
    -------
    Footpoints or None
        Means, not private.
    """
    if plan.footpoint == "origin" or not MECHANISMS[plan.mechanism].wrapped:
        return None
    if plan.footpoint_distance is not None:
        space, centre = records.space, records.frechet.point
        away = plan.footpoint_distance * directions(size, space.dim, rng)
        return Footpoints(space.exp(centre, away), records.n)
    if plan.footpoint == "all":
        return Footpoints(records.frechet.point, records.n)
    few = max(1, round(plan.subsample * records.n))
    rows = (rng.choice(records.n, few, replace=False) for _ in range(size))
    return Footpoints(np.stack([records.sample(row).frechet.point for row in rows]), few)


def calibrate(records: Records, budget: Budget, plan: SinglePlan) -> CentredLaw:
    """Return the mechanism of `plan` at `budget`, and its statistic, without drawing.

    Parameters
    ----------
    records : Records
        Records of one class.
    budget : Budget
        Budget of the mean, without that of its footpoint.
    plan : SinglePlan
        Plan of one draw.

    Returns
    -------
    CentredLaw
        Mechanism and what it is drawn around: not private.

    Raises
    ------
    PrivacyError
        When the mechanism has no density, or no guarantee, at this budget.
    """
    family = MECHANISMS[plan.mechanism]
    space, statistic = _statistic(records, plan, family)
    base = None
    options: dict[str, object] = {} if plan.analytic else {"analytic": False}
    if plan.sampler != "exact":
        options["chain"] = SAMPLERS[plan.sampler](plan.burn_in, start=plan.start)
    if records.manifold.curvature[1] > 0.0:
        base = center_of(records.domain, records.manifold)
        if "radius" in family.options:
            options["radius"] = records.domain.radius
    wide = plan.scale * sensitivity(records, plan, family)
    mechanism = family.calibrate(budget, sensitivity=wide, manifold=space, **options)
    return CentredLaw(mechanism, space, statistic, base)


def draw_single(
    records: Records,
    budget: Budget,
    plan: SinglePlan,
    *,
    noise: Noise,
    size: int,
    footpoint: DrawnFootpoints | None,
) -> tuple[Release, FloatArray | None]:
    """Draw `size` private means, each of which costs `budget` with its `footpoint`, as of `draw`.

    **Privacy.** Replace-one adjacency, n public. A private footpoint and the mean are two releases
    about the same records; their shares compose to `budget`. With NumPy's noise numerics are
    idealised: floats are taken as real numbers.

    Parameters
    ----------
    records : Records
        Records of one class.
    budget : Budget
        Budget of each mean with its footpoint.
    plan : SinglePlan
        Plan of one draw.
    noise : Noise
        Source of noise.
    size : int
        Number of draws.
    footpoint : DrawnFootpoints or None
        Footpoints, drawn before.

    Returns
    -------
    Release
        Private means and their noise, free to leave.
    array, shape (size,), or None
        Distances of the outputs to the mean where the points cannot tell: not private.

    Raises
    ------
    PrivacyError
        As `calibrate`; and when hardened noise is asked for and the mechanism has none.
    """
    started = time.perf_counter()
    steps = [] if footpoint is None or footpoint.step is None else [footpoint.step]
    share, rest = split_budget(budget, plan)
    if [step.budget for step in steps] != [part for part in (share,) if part is not None]:
        raise PrivacyError(
            f"footpoints must be drawn for their share of the budget, {share}, found "
            f"{[str(step.budget) for step in steps]}; select them with the budget of the draw"
        )
    mechanism, space, statistic, pole = calibrate(records, rest, plan)
    family, base = MECHANISMS[plan.mechanism], pole if footpoint is None else footpoint.points
    if noise.rng is not None:
        drawn = mechanism.sample(statistic, base=base, size=size, rng=noise.rng)
        sigma, rhos = mechanism.sigma, np.full((size, len(steps) + 1), np.nan)
    else:
        drawn, sigma, rhos = _draw_hardened(mechanism, family, statistic, noise, size)
    # the scale of a baseline is not part of what a record can move
    steps.append(Step("mean", mechanism.budget, mechanism.sensitivity / plan.scale, sigma))
    outputs, most = drawn.points, math.inf
    if plan.projected:
        region = feasible_set(records.domain, space)
        outputs, most = region.inside(outputs), region.diameter
    distance = drawn.nonprivate_distance
    if space is not records.manifold and family.statistic == "mean":
        distance = space.dist(statistic, outputs)
    has_law = space.flat and family.hardened is not None
    error = min(sigma * math.sqrt(space.dim), most)  # of Gaussian noise
    release = Release(
        outputs=outputs,
        manifold=records.manifold,
        space=space,
        steps=tuple(steps),
        rhos=rhos,
        expected_error=mechanism.expected_error(),
        predicted_error=np.full(size, error) if has_law else None,
        seconds=(time.perf_counter() - started) / size,
        diagnostics=drawn.diagnostics,
        footpoint=None if footpoint is None else footpoint.points,
        expected_square=mechanism.expected_error(2),
    )
    return release, distance


def _statistic(records: Records, plan: SinglePlan, family: Family) -> tuple[Manifold, Point]:
    """Return the space that is drawn in and what the noise covers, as a point of it."""
    manifold, space = records.manifold, records.space
    if family.statistic == "records":
        return (space, records.placed) if plan.charted else (manifold, records.stored)
    if not plan.aligned:
        return manifold, records.stored.mean(axis=0)
    if family.embedded or not plan.charted:
        return manifold, records.on_manifold(records.frechet.point)
    drawn_in = _chart(records, plan, family)
    if plan.statistic == "frechet":
        mean = records.frechet.point
        return drawn_in, mean if drawn_in is space else space.log(space.origin, mean)
    if drawn_in is space and not space.flat:
        return space, records.barycentre.point
    return drawn_in, records.barycentre.seen_from(space.origin, space)


def _chart(records: Records, plan: SinglePlan, family: Family) -> Manifold:
    """Return the chart at the origin where it is all that the mechanism needs, else the space.

    Matrices of doubles cannot carry what wide noise makes of them, coordinates can.
    """
    chart = getattr(records.space, "normal_chart", None)
    if chart is None or not family.wrapped or plan.footpoint != "origin":
        return records.space
    return cast(Manifold, chart())


def draw_footpoints(
    records: Records,
    budget: Budget,
    plan: SinglePlan,
    *,
    noise: Noise,
    size: int,
    footpoints: Footpoints | None,
) -> DrawnFootpoints | None:
    """Draw the footpoints of `size` draws for their share of `budget`; None of the public origin.

    Footpoints that are not private cost nothing, and are what they are.

    Parameters
    ----------
    records : Records
        Records of one class.
    budget : Budget
        Budget of each mean with its footpoint.
    plan : SinglePlan
        Plan of one draw.
    noise : Noise
        Source of noise.
    size : int
        Number of draws.
    footpoints : Footpoints or None
        Means that they are drawn around; None of the public origin.

    Returns
    -------
    DrawnFootpoints or None
        One of each draw.

    Raises
    ------
    PrivacyError
        When hardened noise is asked for, or the mechanism has no density at its share.
    """
    if footpoints is None:
        return None
    share = split_budget(budget, plan)[0]
    if share is None:
        return DrawnFootpoints(footpoints.means, None)
    if noise.rng is None:
        raise PrivacyError("a hardened release has a public footpoint; set footpoint = 'origin'")
    family = MECHANISMS[plan.footpoint_mechanism]
    if not family.footpoint:
        raise PrivacyError(no_footpoint(plan.footpoint_mechanism))
    rule = SinglePlan(plan.footpoint_mechanism, sensitivity=plan.sensitivity)
    bound = frechet_sensitivity(records.domain, footpoints.n, rule, family, records.manifold)
    mechanism = family.calibrate(share, sensitivity=bound, manifold=records.space)
    drawn = mechanism.sample(footpoints.means, size=size, rng=noise.rng)
    return DrawnFootpoints(drawn.points, Step("footpoint", share, bound, mechanism.sigma))


def _draw_hardened(
    mechanism: Mechanism, family: Family, statistic: Point, noise: Noise, size: int
) -> tuple[Draws, float, FloatArray]:
    """Return draws of the family's hardened sampler, σ and the certified ρ of each."""
    if family.hardened is None:
        raise PrivacyError(
            f"{family.name} has no hardened noise ({family.note}); give a budget of GDP or zCDP, "
            "or a generator of NumPy for experiments"
        )
    draws = [family.hardened(mechanism, statistic, noise) for _ in range(size)]
    points = np.stack([item.point for item in draws])
    return Draws(points, Diagnostics()), draws[0].sigma, np.array([[item.rho] for item in draws])
