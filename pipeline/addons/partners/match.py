"""Are local images, in the clear, of the population of a released class? It costs no privacy.

**Mean.** Local records are clipped exactly as the last round of the release clipped its own
(`clip_vectors`), so both means, v of the release with noise, v' of the m local records without,
estimate one value under "one population", whatever clipping does to it: no bound is needed. Their
difference has the covariance V = σ²·Id + (1/n + 1/m)·S, S that of the local vectors. Two tests are
made, of all directions and of the contrast axis alone, along which a change of contrast moves log
R; of descriptors with means brightness is a third, as in ``tests.py``. One more is of what is cut
off (`_overshoot_test`): the vector of an odd picture is 0, as if it were in the middle. The
smallest p-value counts as often as there are tests (Bonferroni). As S is estimated, by m − 1
degrees of freedom, and σ² is known, the quantiles are those of Hotelling's law with the degrees of
freedom of Krishnamoorthy and Yu ("Modified Nel and Van der Merwe test", 2004), one covariance being
known. Few local records may hold none of a rare sort that makes their class wide: so S is never
less wide than the release's second moment, on the contrast axis than the mean of its diagonal, off
it in any coordinate.

**Images.** How far a record is from the released mean is d² = Σ w_i·(v_i − c_i)², v its vector
unclipped, c the mean, 1/w_i = T + 2τ: T the mean of the diagonal of the second moment A, 2τ what
noise may mask in any direction (`noise_edge`). All w_i are one number, of which percentiles do not
depend, so A gives the mean of d², q = Σ w_i·A_ii, with noise of deviation σ/λ·‖w‖ and no bias.

Descriptors of images have heavy tails, and each class its own, which noise covers at any n·μ of
interest. So d² is taken to follow s·F(f, ν), f the effective degrees of freedom of the weights, of
which the median and the 90th percentile of local records give s and ν: a few outliers hardly
move them. The release has the last word: no law is heavier, or wider, than its second moment allows
(`SECOND_MOMENT_SD`). Where all local records are too far away, that leaves χ² with the mean that
the release allows, and all of them are outside.

An image is outside where its percentile is above 99. Local images of the same class
(``covdp reproduce ours-match``, 100 draws, n·μ of 500 and 2,000): of both classes of
PneumoniaMNIST and BreastMNIST 0.6 to 2.3 % are outside; of three classes of `tiles`, crops of
photographs some of which are blank, 0.2 to 4.6 %. So what is expected is 1 % with a range: what the
laws make of the same threshold that fit the 75th and the 95th percentile in place of the 90th, and
two standard errors. It holds the share in 83 to 98 % of the draws of the first two, on `tiles` in
38 to 99 %, least with 1,000 local images.

A night of a stream holds records that were clipped in several ways: local ones are matched with its
opening or the epoch of most records, as with a release of these alone. Where the mean is that of
the last nights of an epoch, it is tested, with its own noise; images are around that of the epoch.

It holds for releases of other people than the local ones, each record drawn by itself.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtr, fdtrc, fdtri

from covdp.addons.nights.changes import bonferroni, brightness_direction
from covdp.addons.nights.schema import StreamEntry
from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.geometry import Point, to_chart
from covdp.inference.released import (
    Entry,
    Released,
    certainty_refusal,
    read_released,
    region_refusal,
)
from covdp.mean import NoisyMoments
from covdp.mean.noisy_moments import noise_edge, noisy_covariance
from covdp.mean.sums import (
    FACTOR,
    OVERSHOOT,
    PER_UNIT,
    Clip,
    as_repetition,
    clipped_totals,
    clipped_vectors,
    sizes,
)
from covdp.mean.tuning import SHARES_OF_MANY

LEAST_N_MU = 500.0
"""n·μ below which the second moment says too little of where an image may be."""
N_MU_SIGMA = 1.0 / math.sqrt(SHARES_OF_MANY.last)
"""n·μ·σ of the last mean with the usual shares."""
FLAGGED = 99.0
"""Percentile above which a record is outside."""
EXPECTED = 0.01
"""Share of one population that does."""
FEWEST_RECORDS = 20
"""Local records from which on they say how heavy the tails are; see `TAIL`."""
TESTED = 10
"""Local records from which on their mean is tested."""
TAIL = 12.0
"""ν where they do not: by hand 8 to 30 on classes of three medical sets."""
OTHER_TAILS = (6.0, 30.0)
"""The same of the laws that give the range."""
TAILS = (2.01, 1e4)
"""Degrees of freedom between which ν is: with 2 or fewer there is no mean."""
BODY, TOP, OTHER_TOPS = 0.5, 0.9, (0.75, 0.95)
"""Quantiles that give s and ν; and those of the laws that give the range."""
RANGE_FACTORS = (0.3, 2.0)
"""Factors by which the range of the share outside reaches beyond that of all laws.

By hand, so that it holds the share of the same class in 93 % of draws or more of each class of
PneumoniaMNIST and BreastMNIST, in 88 % of `tiles` (``covdp reproduce ours-match``). Without them it
held that of pneumonia in 46 %, as the tails of its images are lighter than those of any law here.
"""
RELEASED_SD = 3.0
"""Deviations by which what is cut off on average may exceed what the release says."""
SECOND_MOMENT_SD = 2.0
"""Deviations by which the mean of a law may exceed what the release says."""


@dataclass(frozen=True, eq=False)
class Match:
    """Local records against a released class; as private as they are.

    Attributes
    ----------
    n : int
        Local records.
    p_value : float
        Probability that two samples of one population have means so far apart; NaN where
        `untested` says why there is none.
    statistic : float
        δᵀV⁻¹δ of the means; NaN of fewer records than twice their dimension, where only single
        directions are tested.
    line : float
        Their difference along the contrast axis in its standard deviations, NaN without a contrast
        axis.
    percentile : array, shape (n,)
        Percentage of the population that is nearer to the released mean than each record.
    outside : float
        Share of the records whose percentile is above 99; NaN without a record.
    expected : float
        Expectation of `outside` under "one population".
    expected_range : tuple of float
        Range in which `outside` would mostly be.
    untested : str
        Reason why the means were not tested; "" where they were.
    """

    n: int
    p_value: float
    statistic: float
    line: float
    percentile: FloatArray
    outside: float
    expected: float
    expected_range: tuple[float, float]
    untested: str = ""

    @property
    def is_outside(self) -> NDArray[np.bool_]:
        """True for each record that is outside, shape (n,)."""
        return np.asarray(self.percentile > FLAGGED)

    @property
    def many_outside(self) -> bool:
        """True if more records are outside than the range of what is expected."""
        return self.outside > self.expected_range[1]

    @property
    def few_outside(self) -> bool:
        """True if fewer records are outside than the range of what is expected."""
        return self.outside < self.expected_range[0]


def match(released: Released, points: Point) -> Match:
    """Compare local records with a released class.

    Parameters
    ----------
    released : Released
        Release that `private_mean` returned first, or an entry of ``classes`` in the document of a
        release or of a night.
    points : array, shape (m, *point_shape)
        Records in the clear, described as those of the release were; of a flat manifold also
        coordinates in its chart, shape (m, d). Of a release that protects persons there is one
        record a person.

    Returns
    -------
    Match
        Test of the means, and percentile of each record.

    Raises
    ------
    ConfigError
        When the release says too little (`match_refusal`), or has no adaptive mean.
    """
    entry = read_released(released)
    if reason := match_refusal(entry):
        raise ConfigError(reason)
    moments, space = entry.noisy_moments, entry.space
    points = np.asarray(points)
    in_chart = entry.manifold.flat and points.ndim == 2
    places = points if in_chart else to_chart(entry.manifold, points)
    free = _vectors(moments, space.log(moments.base, places))
    clipped = clip_vectors(moments, free)
    statistic = line = p_value = math.nan
    untested = _too_few(moments, len(free))
    if not untested:
        statistic, line, p_value = _mean_tests(entry, clipped, _overshoot_test(moments, free))
    centre = moments.vector
    if not _is_window(entry):
        centre = _vectors(moments, space.log(moments.base, entry.place))
    weights = _weights(moments)
    squares, clipped_squares = (((part - centre) ** 2) @ weights for part in (free, clipped))
    if not np.isfinite(squares + clipped_squares).all() or (math.isnan(p_value) and not untested):
        raise ConfigError(
            "local records cannot be matched with this release, whose numbers are none of a "
            "release; was it changed? Ask for the committed bytes again"
        )
    percentile, outside, limits = np.empty(0), math.nan, (0.0, 1.0)
    if len(free):
        laws = _laws(moments, weights, squares, clipped_squares)
        percentile = 100.0 * laws[0].cdf(squares)
        outside = float(np.mean(percentile > FLAGGED))
        limits = _expected_range(laws, len(free))
    return Match(
        n=len(free),
        p_value=p_value,
        statistic=statistic,
        line=line,
        percentile=percentile,
        outside=outside,
        expected=EXPECTED,
        expected_range=limits,
        untested=untested,
    )


def match_refusal(released: Released) -> str:
    """Return why local records are not matched with a released class; "" where they are.

    Parameters
    ----------
    released : Released
        Release, or entry of a document.
    """
    entry = read_released(released)
    if isinstance(entry, StreamEntry) and (reason := certainty_refusal(entry)):
        return f"{reason}; n·μ of {LEAST_N_MU:g} is needed"
    moments = entry.noisy_moments
    n_mu = N_MU_SIGMA / moments.sigma
    if n_mu < 0.99 * LEAST_N_MU:  # other shares, and rounding
        more = math.ceil(100.0 * LEAST_N_MU / n_mu) / 100.0
        return (
            f"the release says too little of how images spread: its n·μ is {n_mu:.3g}, and "
            f"{LEAST_N_MU:g} is needed; ask for a release with {more:g} times the budget, or "
            f"{more:g} times the records"
        )
    if moments.moment is None:
        return region_refusal(moments)
    if not _mean_square(moments, _weights(moments)) > 0.0:
        return "its second moment is not larger than its noise; ask for a larger budget"
    return ""


def _vectors(moments: NoisyMoments, coordinates: FloatArray) -> FloatArray:
    """Return coordinates at the base, (..., d), as vectors of the last mean, nothing clipped."""
    return np.asarray(coordinates @ np.linalg.inv(moments.axes) - moments.middle)


def clip_vectors(moments: NoisyMoments, free: FloatArray) -> FloatArray:
    """Return the vectors, (m, d), that the last mean would have made of unclipped ones.

    Parameters
    ----------
    moments : NoisyMoments
        Numbers of the release; in their units the ball has radius ½.
    free : array, shape (m, d)
        Vectors of local records, unclipped.
    """
    return clipped_vectors(free, _clipping(moments))


def _clipping(moments: NoisyMoments) -> Clip:
    near, far = moments.reach[[1, 3]] if moments.lines else (0.0, 0.0)
    d, ends = len(moments.vector), (moments.lines, near, far, moments.reach[0])
    return Clip(np.zeros(d), 0.5, 1.0, *ends, moments.odd.reshape(-1, d))


def _overshoot_test(moments: NoisyMoments, free: FloatArray) -> float:
    """Return how likely as much is cut off local vectors, (m, d), of the release's population.

    Each overshoot of a record is 0 to 1 of its reach. The mean of the release is taken
    `RELEASED_SD` deviations of its noise larger; so much more of local ones is as likely as
    Bernstein's bound says at most, and as there are several, the least counts as often.
    """
    d, to = len(moments.vector), _clipping(moments)
    (total,), _ = clipped_totals(
        [as_repetition(free, sizes(free, to.centre))], to.as_repetition(), paired=False
    )
    local = (total[d:] / (len(free) * PER_UNIT * OVERSHOOT)).astype(np.float64)
    noise = RELEASED_SD * moments.overshoot_noise
    mean = np.maximum(moments.overshoots, 0.0) + noise
    mean = mean / moments.reach * (1.0 + RELEASED_SD * moments.n_sd / moments.n)
    more = np.maximum(local - mean, 0.0)
    return bonferroni(np.exp(-len(free) * more**2 / (2.0 * (mean + more / 3.0))).tolist())


def _too_few(moments: NoisyMoments, many: int) -> str:
    """Return why the mean of so few local records is not tested; "" where it is."""
    least = TESTED if moments.lines else 2 * len(moments.vector) + 1
    return "" if many >= least else f"there are {many} local records, and {least} are needed"


def _is_window(entry: Entry) -> bool:
    """Return whether a mean is of fewer records than the one epoch that they are of."""
    if not isinstance(entry, StreamEntry) or entry.certainty is None:
        return False
    return len(entry.certainty.parts) == 1 and entry.size < entry.noisy_moments.n


def _released_mean(entry: Entry) -> tuple[float, FloatArray, FloatArray]:
    """Return of how many records the mean is, its vector, and the covariance of its noise.

    Of last nights noise is what the error of a night's mean has besides clipping.
    """
    moments = entry.noisy_moments
    if isinstance(entry, StreamEntry) and _is_window(entry):
        assert entry.certainty is not None
        back = np.linalg.inv(moments.axes)
        vector = _vectors(moments, entry.space.log(moments.base, entry.place))
        return entry.size, vector, back.T @ entry.certainty.noise @ back
    vector, relative = moments.vector, (moments.n_sd / moments.n) ** 2
    error = moments.sigma**2 * np.eye(len(vector)) + relative * np.outer(vector, vector)
    return moments.n, vector, error


def _mean_tests(entry: Entry, vectors: FloatArray, overshoots: float) -> tuple[float, float, float]:
    """Return δᵀV⁻¹δ, δ along the contrast axis in its deviations, and the p-value of all tests.

    One of them is that of overshoots, whose p-value is given.
    """
    moments, many, (n, mean, error) = entry.noisy_moments, len(vectors), _released_mean(entry)
    delta = vectors.mean(axis=0) - mean
    scatter = _scatter(moments, vectors) * (1.0 / n + 1.0 / many)
    statistic, p = _hotelling(delta, error, scatter, many - 1)
    p_values, directions = [p, overshoots], [np.eye(len(delta))[0]] if moments.lines else []
    if (brightness := brightness_direction(entry.manifold, entry.place)) is not None:
        directions.append(moments.axes @ brightness)
    for along in directions:
        noise, spread = (np.array([[along @ part @ along]]) for part in (error, scatter))
        p_values.append(_hotelling(np.array([along @ delta]), noise, spread, many - 1)[1])
    line = delta[0] / math.sqrt(error[0, 0] + scatter[0, 0]) if moments.lines else math.nan
    return statistic, float(line), bonferroni(p_values)


def _scatter(moments: NoisyMoments, vectors: FloatArray) -> FloatArray:
    """Return the covariance of local vectors, as wide as the release says or wider.

    Few local records may hold none of a rare sort that makes their class as wide as it is: off the
    contrast axis the second moment says so of all directions together and of each. By
    ``covdp reproduce`` of ours-match in log-Cholesky coordinates, whose tails are heavy, `tiles`:
    without the second moment 50 local images of one class differ in up to 20 % of 100 draws at a
    level of 5 % (`oct5`; `gauss6` 36 %), with it in 5 % at most.
    """
    scatter, lines = np.cov(vectors, rowvar=False), moments.lines
    missing = moments.rough - np.diagonal(scatter)
    each = np.diagonal(noisy_covariance(moments) - scatter)[lines:]
    missing[lines:] = np.maximum(np.mean(missing[lines:]), each)
    return np.asarray(scatter + np.diag(np.maximum(missing, 0.0)))


def _hotelling(
    delta: FloatArray, error: FloatArray, scatter: FloatArray, freedom: int
) -> tuple[float, float]:
    """Return δᵀV⁻¹δ, V = known + scatter, and its p-value; NaN and 1 with too little `freedom`.

    The scatter is estimated with that many degrees of freedom; its share in V, R = V⁻¹·scatter,
    says how many V has. Below 2·d the approximation is none: a scatter without full rank leaves
    directions to the noise alone.
    """
    d, total = len(delta), error + scatter
    if freedom < 2 * d and d > 1:
        return math.nan, 1.0
    statistic, share = float(delta @ np.linalg.solve(total, delta)), np.linalg.solve(total, scatter)
    parts = float(np.trace(share @ share) + np.trace(share) ** 2)
    many = freedom * d * (d + 1) / max(parts, 1e-300)
    if many <= d - 1:
        return statistic, 1.0
    rest = many - d + 1
    return statistic, float(fdtrc(d, rest, statistic * rest / (many * d)))


def _weights(moments: NoisyMoments) -> FloatArray:
    """Return what the square of each coordinate counts, (d,): see the top of this file."""
    return np.asarray(1.0 / (moments.rough + noise_edge(moments)))


def _mean_square(moments: NoisyMoments, weights: FloatArray) -> float:
    """Return q, the mean of d² over the records of the release, clipped; with noise."""
    return float(weights @ np.diagonal(noisy_covariance(moments)))


class DistanceLaw(NamedTuple):
    """The law s·F(f, ν) of d², with f degrees of freedom, tail ν and scale s.

    Attributes
    ----------
    freedom : float
        Degrees of freedom f.
    tail : float
        Degrees of freedom ν of the denominator.
    scale : float
        Factor s, in squared distance.
    """

    freedom: float
    tail: float
    scale: float

    def cdf(self, squares: FloatArray) -> FloatArray:
        """Return how likely d² is at most each value.

        Parameters
        ----------
        squares : array, shape (n,)
            Squared distances.
        """
        return np.asarray(fdtr(self.freedom, self.tail, squares / self.scale))

    def ppf(self, level: float) -> FloatArray:
        """Return its quantile.

        Parameters
        ----------
        level : float
            Probability, between 0 and 1.
        """
        return np.asarray(self.scale * fdtri(self.freedom, self.tail, level))


def _laws(
    moments: NoisyMoments, weights: FloatArray, squares: FloatArray, clipped_squares: FloatArray
) -> list[DistanceLaw]:
    """Return the law of d² that percentiles are of, then those that give the range.

    Its mean is at most q, more by its noise, and as samples of n differ: of clipped records their
    variance is at hand.

    Parameters
    ----------
    squares, clipped_squares : array, shape (m,)
        d² of the local records, and of the same clipped.
    """
    parts, mean = weights * moments.rough, _mean_square(moments, weights)
    freedom = float(np.sum(parts) ** 2 / np.sum(parts**2))
    noise = (moments.sigma / FACTOR) ** 2 * float(weights @ weights)
    noise += (mean * moments.n_sd / moments.n) ** 2
    noise += float(np.var(clipped_squares)) / moments.n
    most = mean + SECOND_MOMENT_SD * math.sqrt(noise)
    return [
        _law(squares, freedom, mean, most, *shape)
        for shape in zip((TOP, *OTHER_TOPS), (TAIL, *OTHER_TAILS), strict=True)
    ]


def _law(
    squares: FloatArray, freedom: float, mean: float, most: float, top: float, tail: float
) -> DistanceLaw:
    """Return the law of d² with the median and the quantile `top` of the local records.

    Its mean is `most` or less. Of few records it has the mean of the release and a usual `tail`.
    """
    if len(squares) < FEWEST_RECORDS:
        return DistanceLaw(freedom, tail, mean * (tail - 2.0) / tail)
    median, upper = np.quantile(squares, [BODY, top])

    def median_of(tail: float) -> float:
        return float(fdtri(freedom, tail, BODY))

    fitted = _where_falls(
        lambda tail: median * float(fdtri(freedom, tail, top)) / median_of(tail), upper
    )
    widest = _where_falls(lambda tail: median * tail / (tail - 2.0) / median_of(tail), most)
    tail = max(fitted, widest)
    scale = min(median / median_of(tail), most * (tail - 2.0) / tail)
    return DistanceLaw(freedom, tail, scale)


def _where_falls(function: Callable[[float], float], value: float) -> float:
    """Return the ν in `TAILS` from which on a falling function is at most `value`."""
    from scipy.optimize import brentq

    low, high = TAILS
    if function(low) <= value:
        return low
    if function(high) >= value:
        return high
    ends = math.log(low), math.log(high)
    return math.exp(brentq(lambda log: function(math.exp(log)) - value, *ends, xtol=1e-9))


def _expected_range(laws: Sequence[DistanceLaw], many: int) -> tuple[float, float]:
    """Return what share of `many` records would mostly be beyond the 99 % of the first law."""
    edge = laws[0].ppf(FLAGGED / 100.0)
    shares = [1.0 - float(law.cdf(edge)) for law in laws]
    ends = RANGE_FACTORS[0] * min(shares), min(1.0, RANGE_FACTORS[1] * max(shares))
    low, high = (
        share + sign * 2.0 * math.sqrt(share * (1.0 - share) / many)
        for sign, share in zip((-1.0, 1.0), ends, strict=True)
    )
    return max(0.0, low), min(1.0, high)
