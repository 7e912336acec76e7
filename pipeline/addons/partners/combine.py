"""Releases of several hospitals put together: no image moves, and no privacy is spent.

Each hospital's mean before it was shrunk, u_i = m_i + an error of noise, S_i, and of what clipping
did, is a part; the covariance Σ of single records is the mean of the Σ̂_i by size.

**Mean of all** records: Σ f_i·r_i of the released means r_i, f_i the share of hospital i in all
records; whatever they differ by. **Common mean**, of one population: Σ G_i·r_i, weighted by the
precisions that are predicted of the u_i, the scatter of samples counted, so much nearer where one
hospital saw little (``mean/noisy_moments.py``). Their errors are the sum of the noises, and of what
clipping may do to all in the same way (`pooled_clipping`). Both are of released means, which are
nearer than the u_i; their regions are as wide as of these, as that of one release is.

**Heterogeneity**: Cochran's Q of the u_i, with the allowance for clipping that two releases have
when they are compared, and the same along contrast and brightness (``tests.py``). Where the p-value
is small there is no common mean. Hospitals without a second moment, or whose noise is too wide for
a region (`NOISY`), do not enter Q, as what clipping did to them is not known: with fewer than two
others nothing is found unlike.

It holds for releases of disjoint people. Who is in several hospitals pays in each: their budgets
compose, √Σμ_i² in GDP, Σρ_i in zCDP.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covdp.addons.nights.stream.pool import Part, pool, pooled_clipping
from covdp.addons.partners.coordinates import ClassCoordinates, common_coordinates, mean_covariance
from covdp.addons.partners.tests import one_population
from covdp.arrays import FloatArray
from covdp.geometry import chart_of
from covdp.inference.confidence import (
    ConfidenceRegion,
    ErrorLaw,
    check_level,
    clipping_moves,
)
from covdp.inference.released import Released, chart_jacobian
from covdp.mean.noisy_moments import congruent


@dataclass(frozen=True, eq=False)
class CombinedMean:
    """Mean of all records of several releases of one class, and test that they are alike.

    Attributes
    ----------
    n : int
        Records in all.
    n_sd : float
        Standard deviation of the noise of `n`; 0 where it is public.
    all, common : ConfidenceRegion
        Regions of the mean of all records, and of the mean of the population.
    statistic : float
        Cochran's Q.
    line : float
        The same along contrast, of k − 1 degrees of freedom; NaN where it is not tested.
    freedom : int
        d·(k − 1) of the k hospitals in it, its degrees of freedom where they are of one population;
        0 of fewer than two.
    p_value : float
        Probability that hospitals of one population differ so much: of Q, and of the same along
        contrast and brightness, together (Bonferroni). Of two it is that of `two_sample`.
    """

    n: int
    n_sd: float
    all: ConfidenceRegion
    common: ConfidenceRegion
    statistic: float
    line: float
    freedom: int
    p_value: float

    @property
    def point(self) -> NDArray[np.float64]:
        """The mean of all records."""
        return self.all.centre


def combine(released: Sequence[Released], level: float = 0.95) -> CombinedMean:
    """Return what releases of one class, from disjoint people, say together.

    Parameters
    ----------
    released : sequence of Released
        Releases, or entries of documents; two or more, of one descriptor and manifold.
    level : float
        Confidence of the regions, between 0 and 1.

    Raises
    ------
    ConfigError
        When they are of different geometries, fewer than two, without a second moment in any, or
        the level means nothing.
    """
    check_level(level)
    manifold, base, hospitals = common_coordinates(released)
    spread, sizes = mean_covariance(hospitals), np.array([float(site.n) for site in hospitals])
    gains = pool([Part(site.n, site.unshrunk, site.predicted) for site in hospitals], spread).gains
    tested = [site for site in hospitals if site.single is not None and site.offered]
    statistics, p, freedom = [0.0], 1.0, manifold.dim * max(len(tested) - 1, 0)
    if freedom:
        statistics, p, _ = one_population(manifold, base, tested)
    has_line = freedom and max(tested, key=lambda site: site.n).line is not None
    shares = (sizes / sizes.sum())[:, np.newaxis, np.newaxis] * np.eye(manifold.dim)
    space, law = chart_of(manifold), ErrorLaw(manifold.dim)
    offered = all(site.offered for site in hospitals)
    clipping = max(site.clipping for site in hospitals)

    def around(
        mean: FloatArray, error: FloatArray, bias: FloatArray, moves: tuple[FloatArray, ...]
    ) -> ConfidenceRegion:
        centre = space.exp(base, mean)
        turned = chart_jacobian(space, base, mean, centre)
        noise, most = (congruent(part, turned) for part in (error, error + bias))
        there = tuple(part @ turned for part in moves)
        return ConfidenceRegion(manifold, offered, centre, most, level, law, clipping, noise, there)

    return CombinedMean(
        n=sum(site.n for site in hospitals),
        n_sd=math.hypot(*(site.n_sd for site in hospitals)),
        all=around(*_weighed(hospitals, shares, None)),
        common=around(*_weighed(hospitals, gains, spread)),
        statistic=statistics[0],
        line=statistics[1] if has_line else math.nan,
        freedom=freedom,
        p_value=p,
    )


def _weighed(
    hospitals: Sequence[ClassCoordinates], gains: FloatArray, spread: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray, tuple[FloatArray, ...]]:
    """Return Σ G_i·r_i, the covariances of its noise and of clipping, and the moves of clipping.

    Noise includes the scatter of samples where `spread` is given.

    Where sizes are counted with noise, shares f_i are off: one record more of hospital i moves
    Σ f_i·r_i by (r_i − Σ f_i·r_i)/n.
    """
    mean, error = np.zeros(len(gains[0])), np.zeros_like(gains[0])
    for gain, site in zip(gains, hospitals, strict=True):
        own = site.noise + (0.0 if spread is None else spread / site.n)
        mean, error = mean + gain @ site.mean, error + gain @ own @ gain.T
    for site in hospitals if spread is None else ():
        away = (site.mean - mean) * site.n_sd / sum(other.n for other in hospitals)
        error = error + np.outer(away, away)
    parts = [
        (float(np.trace(gain)) / len(gain) * share, moments)
        for gain, site in zip(gains, hospitals, strict=True)
        for share, moments in site.parts
    ]
    first = next(site for site in hospitals if site.single is not None)
    moves = tuple(part @ hospitals[0].jacobian for part in clipping_moves(parts))
    return mean, error, first.there(pooled_clipping(parts)), moves
