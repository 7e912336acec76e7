"""Are two released classes of one population? From released values alone.

δ, the difference of the means before they were shrunk, has under "yes" the covariance
V = S_A + S_B + B + Σ̂_A/n_A + Σ̂_B/n_B: noise, what clipping may do, and what two samples of one
population differ by. Two tests are made: of all directions, δᵀV⁻¹δ against χ²_d, and of the line
alone, along which a change of contrast moves log R, against a normal. The smaller p-value counts
twice (Bonferroni). It holds for releases of different people.

**Clipping.** Under "yes" both samples are clipped from one law, so what it does to both is much the
same, and only what it does to one and not to the other moves δ. Of two balls around one centre the
narrower cuts off more: by the mean length between them, which is at most what the narrower cuts off
in all, and at most the share that it cuts times the gap. Both are taken as large as their noise may
hide (`LIMIT`). Of two intervals the same holds at either end, and what vectors are shortened by
counts by as much as it differs; what the means were moved by along the line, to make it good, is
known, and subtracted. If the centres lie Δ apart, off the line, the
share p that is clipped goes along by no more than p·‖Δ‖, were all of it cut in the direction of Δ;
as Δ is noise, of m directions in one, p·‖Δ‖/√m counts. B has the squares of these bounds, those off
the line spread over all directions: so the mean of δᵀV⁻¹δ is never larger than without them. That
axes differ, too, as each release has its own, is not in it.

With records so few, or noise so wide, that there is no second moment, or that no region would be
offered (`NOISY`, which is public), nothing is found different: there what clipping did is not
known. Else up to a third of the pairs of one class of OCT2017 would be, one n·μ being 25.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold, chart_of
from pipeline.inference.coordinates import Placed, placed
from pipeline.inference.covariance import covariance
from pipeline.inference.regions import NOISY, is_offered
from pipeline.inference.released import Released, read
from pipeline.mean import Observed
from pipeline.mean.observed import LIMIT

LEVEL = 0.95
"""Confidence of the region of a difference."""
ALPHA, POWER = 0.05, 0.8
"""Level, and how often a difference is found, of what is called the least that is told."""


@dataclass(frozen=True)
class Comparison:
    """A test of two released classes.

    Attributes
    ----------
    p_value : float
        How likely two samples of one population differ so much; 1 where noise is too wide to say,
        see `untested`.
    statistic : float
        δᵀV⁻¹δ; NaN without a second moment.
    line : float
        δ along the line in its standard deviations, NaN where there is no line.
    distance : float
        ‖δ‖, noise and all.
    radius : float
        Of the region around δ that holds the true difference with 95 % confidence, as a `Region`
        states its radius, with all that clipping may do to either; NaN without a second moment.
    least : float
        How far apart along the line two populations must be for `POWER` of such comparisons to find
        them different at `ALPHA`; NaN where there is no line, or nothing is found different.
    offered : bool
        Whether a region is offered for both classes; where not, the p-value may be off.
    """

    p_value: float
    statistic: float
    line: float
    distance: float
    radius: float
    least: float
    offered: bool


def two_sample(a: Released, b: Released) -> Comparison:
    """Test whether two released classes of different people are of one population.

    Raises
    ------
    ConfigError
        When they are of different geometries, or no adaptive means.
    """
    from scipy.stats import chi2, norm

    manifold, _, both = placed([a, b], least=2)
    delta = both[1].unshrunk - both[0].unshrunk
    distance = float(np.linalg.norm(delta))
    if any(one.read.observed.moment is None for one in both):
        return Comparison(1.0, math.nan, math.nan, distance, math.nan, math.nan, False)
    whole, apart = _clipping(manifold, *both), np.zeros((manifold.dim, manifold.dim))
    for one in both:
        seen = one.read.observed
        whole += one.there(seen.noise + covariance(seen) / seen.n)
        apart += one.there(seen.noise + seen.lost + covariance(seen) / seen.n)
    statistic = float(delta @ np.linalg.solve(whole, delta))
    p = float(chi2.sf(statistic, manifold.dim))
    axes, line, least = both[0].read.observed, math.nan, math.nan
    if axes.lines:
        along = axes.axes[0] @ both[0].slope
        deviation = math.sqrt(along @ whole @ along)
        line = float(along @ delta) / deviation
        found = norm.isf(ALPHA / 4.0) + norm.isf(1.0 - POWER)  # both sides, and two tests
        least = float(found * deviation / np.linalg.norm(along))
        p = min(1.0, 2.0 * min(p, 2.0 * float(norm.sf(abs(line)))))
    if any(one.read.observed.sigma > NOISY for one in both):
        p, least = 1.0, math.nan
    return Comparison(
        p_value=p,
        statistic=statistic,
        line=line,
        distance=distance,
        radius=math.sqrt(float(chi2.ppf(LEVEL, manifold.dim)) * np.trace(apart) / manifold.dim),
        least=least,
        offered=all(is_offered(one.read.observed) for one in both),
    )


def untested(released: Mapping[str, Released]) -> str:
    """Return why releases of one class, by their names, are not tested; "" where two are read.

    In a p-value that is 1 for want of a test nothing else tells so.
    """
    seen = {name: read(one).observed for name, one in released.items()}
    none = [name for name, one in seen.items() if one.moment is None]
    wide = {name: one.sigma for name, one in seen.items() if one.sigma > NOISY and name not in none}
    if len(seen) - len(none) - len(wide) >= 2:
        return ""
    reasons = []
    if wide:
        reasons.append(
            f"noise in {' and '.join(wide)} is too wide to say what clipping did: its σ is "
            f"{' and '.join(f'{sigma:.2g}' for sigma in wide.values())} of the clip, and {NOISY:g} "
            "or less is needed"
        )
    if none:
        reasons.append(
            f"noise in {' and '.join(none)} is so wide that nothing was released of how wide the "
            "records lie"
        )
    return "; ".join(reasons)


def together(p_values: Sequence[float]) -> float:
    """Return the p-value of several tests together (Bonferroni); NaN without any."""
    return min(1.0, len(p_values) * min(p_values)) if p_values else math.nan


def _clipping(manifold: Manifold, one: Placed, other: Placed) -> FloatArray:
    """Return B, (d, d), what clipping may do to the difference of two samples of one population."""
    first, second = one.read.observed, other.read.observed
    moved = chart_of(manifold).log(first.base, second.base)
    moved = moved - moved @ first.line
    share = max(first.clipped, second.clipped) / math.sqrt(manifold.dim - first.lines)
    narrow, wide = sorted((first, second), key=lambda seen: seen.worth)
    gap = (wide.worth - narrow.worth) / 2.0
    rest = _between(narrow, 0, gap) + share * float(np.linalg.norm(moved))
    rest += abs(first.shortened * first.worth - second.shortened * second.worth)
    along = 0.0
    if first.lines:
        ends = first.interval - second.interval
        # by how much more the first moves the mean up than the second: below, above
        below, above = (
            np.sign(gap) * _between(seen, place, abs(gap))
            for place, gap, seen in (
                (1, float(ends[0]), first if ends[0] > 0.0 else second),
                (2, float(ends[1]), first if ends[1] < 0.0 else second),
            )
        )
        known = second.shift - first.shift
        along = max(abs(known + x + y) for x in (0.0, float(below)) for y in (0.0, float(above)))
        along += abs(first.shortened * first.length - second.shortened * second.length)
    return one.there(first.as_covariance(along / first.length, rest / first.worth))


def _between(narrow: Observed, place: int, gap: float) -> float:
    """Return the mean length, in distance, that a clip cuts off up to a wider one, at most."""
    share, noise = (
        (narrow.cut, narrow.cut_noise) if place else (narrow.clipped, narrow.clipped_noise)
    )
    whole = float(narrow.limits[place]) * (narrow.length if place else narrow.worth)
    return min(whole, min(share + LIMIT * noise, 1.0) * gap)
