"""Are two released classes of one population? From released values alone.

δ, the difference of the means of clipped records, has under "yes" the covariance
V = S_A + S_B + B + Σ̂_A/n_A + Σ̂_B/n_B: noise, what clipping may do, and what two samples of one
population differ by. Two tests are made: of all directions, δᵀV⁻¹δ against χ²_d, and of the
contrast axis alone, along which a change of contrast moves log R, against a normal. The smaller
p-value counts twice (Bonferroni). Of descriptors with means brightness is a third, along its own
coordinate (`Covariances.brightness`), and each counts three times: of 21 directions together an
offset of the gray levels is one. It holds for releases of different people.

**Clipping.** The means are those of clipped records, before anything was added to them: under "yes"
both samples are clipped from one law, so what it does to both is much the same, and only what it
does to one and not to the other moves δ. Of two balls around one centre the vectors of records
outside differ by the gap between the radii, at most: the share that is outside times the gap, all
of it: were half to count, with 3 % faint dots in both a third of the pairs would be found
different. The share is taken as large as its noise may mask (`OVERSHOOT_SD`). By what vectors are
shortened counts by as much as it differs. If the centres are Δ apart, the share p that is clipped
goes along by no more than p·‖Δ‖, were all of it cut in the direction of Δ; as Δ is noise, of d
directions in one, p·‖Δ‖/√d counts. B has the squares of these bounds, those off the contrast axis
spread over all directions: so the mean of δᵀV⁻¹δ is never larger than without them.

**Several releases.** δ stacks the differences of k releases from the largest, and Cochran's Q is
δᵀV⁻¹δ against χ² with d·(k − 1) degrees of freedom: noise and scatter of the largest are in all
blocks of V. As vvᵀ ≼ m·diag(v₁v₁ᵀ, …, v_mv_mᵀ) for a vector v of m blocks, B counts k − 1 times
in each block of its own, and so in full whichever way the releases are clipped. Along each
direction the same is χ² with k − 1 degrees. Of two releases this is the test above: `covdp
compare` and `covdp combine` have one verdict.

With records so few, or noise so wide, that there is no second moment, or that no region would be
available (`NOISY`, which is public), nothing is found different: there what clipping did is not
known. Else up to a third of the pairs of one class of OCT2017 would be, one n·μ being 25.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import block_diag
from scipy.special import ndtri

from covdp.addons.nights.changes import ALPHA, direction_tests, tested_axes
from covdp.addons.partners.coordinates import ClassCoordinates, common_coordinates
from covdp.arrays import FloatArray
from covdp.geometry import Manifold, Point, chart_of
from covdp.inference.confidence import ErrorLaw
from covdp.inference.released import Released, certainty_refusal, read_released
from covdp.mean import NoisyMoments
from covdp.mean.tuning import OVERSHOOT_SD

DIFFERENCE_LEVEL = 0.95
"""Confidence of the region of a difference."""
POWER = 0.8
"""Probability that the least difference that is called detectable is found at `ALPHA`."""


@dataclass(frozen=True)
class Comparison:
    """A test of two released classes.

    Attributes
    ----------
    p_value : float
        Probability that two samples of one population differ so much; 1 where noise is too wide to
        say, see `comparison_refusal`.
    statistic : float
        δᵀV⁻¹δ; NaN without a second moment.
    line : float
        δ along the contrast axis in its standard deviations, NaN where there is no contrast axis.
    distance : float
        Distance between the means before they were shrunk, noise included.
    radius : float
        Radius of the region around their difference that holds the true one with 95 % confidence,
        as a `ConfidenceRegion` states it, with all that clipping may do to either; NaN without a
        second moment.
    least : float
        Distance along the contrast axis at which `POWER` of such comparisons find two populations
        different at `ALPHA`, were both clipped as these two; NaN where
        there is no contrast axis, or nothing is found different. Two populations may be clipped
        less alike, so fewer are found: in trials a share of 0.8 to 0.9 at n·μ of some thousands,
        0.5 to 0.7 at n·μ of some hundreds.
    offered : bool
        True if a region is available for both classes; where not, nothing is tested.
    chance : float
        Radius of the region of 95 % of noise and chance alone; NaN without a second moment.
    clipping : float
        Largest distance by which clipping may have moved the means apart.
    """

    p_value: float
    statistic: float
    line: float
    distance: float
    radius: float
    least: float
    offered: bool
    chance: float = math.nan
    clipping: float = math.nan


def two_sample(a: Released, b: Released) -> Comparison:
    """Test whether two released classes of different people are of one population.

    Parameters
    ----------
    a : Released
        Release, or entry of a document.
    b : Released
        Another, of other people.

    Returns
    -------
    Comparison
        P-value, statistics and distance of the two.

    Raises
    ------
    ConfigError
        When they are of different geometries, or no adaptive means.
    """
    manifold, base, both = common_coordinates([a, b])
    delta = both[1].clipped - both[0].clipped
    distance = float(np.linalg.norm(both[1].unshrunk - both[0].unshrunk))
    if any(row.single is None for row in both):
        return Comparison(1.0, math.nan, math.nan, distance, math.nan, math.nan, False)
    (statistic, *_), p, total = one_population(manifold, base, both)
    along, line, least = _largest(both).line, math.nan, math.nan
    if along is not None:
        deviation = math.sqrt(along @ total @ along)
        line = float(along @ delta) / deviation
        sides = 2.0 * (1 + len(tested_axes(along, manifold, base)))  # both of each test
        quantiles = -ndtri(ALPHA / sides) - ndtri(1.0 - POWER)
        least = float(quantiles * deviation / np.linalg.norm(along))
    offered = all(row.offered for row in both)
    if not offered:
        p, least = 1.0, math.nan
    quantile = ErrorLaw(manifold.dim).ppf(DIFFERENCE_LEVEL) / manifold.dim
    errors, biases = (sum(map(np.trace, parts)) for parts in zip(*map(_parts, both), strict=True))
    return Comparison(
        p_value=p,
        statistic=statistic,
        line=line,
        distance=distance,
        radius=math.sqrt(quantile * (errors + biases)),
        least=least,
        offered=offered,
        chance=math.sqrt(quantile * errors),
        clipping=sum(row.clipping for row in both),
    )


def comparison_refusal(released: Mapping[str, Released]) -> str:
    """Return why releases of one class, by their names, are not tested; "" where two are read.

    In a p-value that is 1 for want of a test nothing else tells so.

    Parameters
    ----------
    released : mapping of str to Released
        Releases, or entries of documents, by their names.
    """
    refused = [
        f"in {name} {reason}"
        for name, item in released.items()
        if (reason := certainty_refusal(read_released(item)))
    ]
    return "" if len(released) - len(refused) >= 2 else "; ".join(refused)


def one_population(
    manifold: Manifold, base: Point, releases: Sequence[ClassCoordinates]
) -> tuple[list[float], float, FloatArray]:
    """Return Cochran's Q of releases with second moments, the p-value of all tests, and V.

    Q is that of all directions, then that along each of `tested_axes`. `base` is the point that
    their coordinates are at.

    Parameters
    ----------
    manifold : Manifold
        Geometry of the means.
    base : array, shape (*space.point_shape)
        Point at which their coordinates are, in the chart of a flat manifold.
    releases : sequence of ClassCoordinates
        Releases with second moments, in common coordinates.
    """
    first = _largest(releases)
    others = [row for row in releases if row is not first]
    count = len(others)
    delta = np.concatenate([row.clipped - first.clipped for row in others])
    own = block_diag(*(_error(row) + count * _clipping(manifold, first, row) for row in others))
    total = own + np.tile(_error(first), (count, count))
    directions = tested_axes(first.line, manifold, base)
    statistics, p = direction_tests(
        delta, total, [block_diag(*[along] * count) for along in directions]
    )
    return statistics, p, total


def _largest(releases: Sequence[ClassCoordinates]) -> ClassCoordinates:
    return max(releases, key=lambda row: row.n)


def _error(row: ClassCoordinates) -> FloatArray:
    """Return the covariance of noise and of the chance of a sample."""
    assert row.single is not None
    return row.noise + row.single / row.n


def _parts(row: ClassCoordinates) -> tuple[FloatArray, FloatArray]:
    """Return the covariance of noise and chance, and the most that clipping may do."""
    return _error(row), row.bias


def _clipping(manifold: Manifold, row: ClassCoordinates, other: ClassCoordinates) -> FloatArray:
    """Return B, (d, d), what clipping may do to the difference of two samples of one population.

    Means of parts with shares f_i and g_j differ by Σ f_i·g_j·(b_i − b_j), b what clipping does to
    a part: by no more than the parts do by pairs.
    """
    along = rest = 0.0
    for (share, first), (weight, second) in product(row.parts, other.parts):
        on, off = _apart(manifold, first, second)
        along, rest = along + share * weight * on, rest + share * weight * off
    first = row.moments
    return row.there(first.as_covariance(along / first.length, rest / first.unit_length))


def _apart(manifold: Manifold, first: NoisyMoments, second: NoisyMoments) -> tuple[float, float]:
    """Return how far clipping may move two samples apart, along the contrast axis and off it."""
    space, lines = chart_of(manifold), first.lines
    places = (space.exp(part.base, part.middle @ part.steps) for part in (first, second))
    moved = space.log(*places)
    across, off = float(np.linalg.norm(first.line @ moved)), moved - first.line @ moved
    share = min(max(map(_outside, (first, second))), 1.0)
    one_way = share / math.sqrt(manifold.dim)
    rest = share * abs(first.unit_length - second.unit_length) / 2.0
    rest += one_way * float(np.linalg.norm(off))
    short = abs(first.shortened * first.unit_length - second.shortened * second.unit_length)
    if not lines:
        return 0.0, rest + short
    along = share * abs(first.length - second.length) / 2.0 + one_way * across
    return along + abs(
        first.shortened * first.length - second.shortened * second.length
    ), rest + short


def _outside(part: NoisyMoments) -> float:
    """Return which share of the records may be outside of either ball, as one part tells it.

    The ball of one may be wide enough for rare records, as the counts of one sample say, and that
    of the other not: so those beyond the last edge count whether they are clipped or not.
    """
    shells = part.shells
    beyond = 0.0 if shells is None or not len(shells) else float(shells[-1])
    return float(max(part.clipped, beyond) + OVERSHOOT_SD * part.clipped_noise)
