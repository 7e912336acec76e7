"""Releases of several hospitals put together: no image moves, and no privacy is spent.

Each hospital's mean before it was shrunk, u_i = m_i + N(0, V_i), V_i = S_i + B_i of its noise and,
squared and spread evenly, of what clipping may do (`Observed.lost`), is a part; the covariance Σ of
single records is the mean of the Σ̂_i by size. That clipping does its worst in each hospital, and
the same in all, is not reckoned with, as it is for one (``ellipsoids.py``).

**Mean of all** records: Σ f_i·r_i of the released means r_i, f_i the share of hospital i in all
records, with V = Σ f_i²·V_i; whatever they differ by. **Common mean**, of one population:
Σ G_i·r_i, weighted by the precisions of the u_i, the scatter of samples counted, so much nearer
where one hospital saw little (``mean/pooling.py``). Both are of released means, which are nearer
than the u_i; their regions are as wide as of these, as that of one release is. **Heterogeneity**:
Cochran's Q = Σ (u_i − m)ᵀ(V_i + Σ/n_i)⁻¹(u_i − m), m = Σ G_i·u_i, is χ² with d·(k − 1) degrees of
freedom where the k hospitals are of one population; as V_i is on the safe side, Q is smaller. Where
it is too large there is no common mean. Hospitals whose noise is too wide for a region (`NOISY`) do
not enter Q, as what clipping did to them is not known: with fewer than two others nothing is found
unlike.

It holds for releases of disjoint people. Who is in several hospitals pays in each: their budgets
compose, √Σμ_i² in GDP, Σρ_i in zCDP.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.geometry import Manifold, Point, chart_of
from pipeline.inference.coordinates import Placed, placed, slope
from pipeline.inference.covariance import covariance
from pipeline.inference.ellipsoids import Law
from pipeline.inference.regions import NOISY, Region, clipping_of, is_offered
from pipeline.inference.released import Released
from pipeline.mean.pooling import Part, pool


@dataclass(frozen=True, eq=False)
class Combined:
    """What several releases of one class say together.

    Attributes
    ----------
    n : int
        Records in all.
    all, common : Region
        Where the mean of all records lies, and that of the population.
    statistic : float
        Cochran's Q.
    freedom : int
        d·(k − 1) of the k hospitals in it, its degrees of freedom where they are of one population;
        0 of fewer than two.
    p_value : float
        How likely they differ so much then.
    """

    n: int
    all: Region
    common: Region
    statistic: float
    freedom: int
    p_value: float

    @property
    def point(self) -> NDArray[np.float64]:
        """The mean of all records."""
        return self.all.centre


def combine(released: Sequence[Released], level: float = 0.95) -> Combined:
    """Return what releases of one class, from disjoint people, say together.

    Parameters
    ----------
    released : sequence of Release or mapping
        Two or more, of one descriptor and manifold.
    level : float
        Confidence of the regions, between 0 and 1.

    Raises
    ------
    ConfigError
        When they are of different geometries, fewer than two, without a second moment in any, or
        the level means nothing.
    """
    from scipy.stats import chi2

    if not 0.0 < level < 1.0:
        raise ConfigError(f"a level must lie between 0 and 1, found {level:g}; 0.95 is usual")
    manifold, base, hospitals = placed(released, least=2)
    parts = [_part(one) for one in hospitals]
    spread = _spread(hospitals)
    common = pool(parts, spread)
    statistic, freedom = _heterogeneity(hospitals, parts, spread)
    seen = [one.read.observed for one in hospitals]
    known = level, all(map(is_offered, seen)), max(clipping_of(one) for one in seen)
    means = np.stack([one.mean for one in hospitals])
    weighed = np.einsum("kij,kj->i", common.gains, means)
    return Combined(
        n=sum(part.n for part in parts),
        all=_region(manifold, base, _by_size(means, parts), *known),
        common=_region(manifold, base, (weighed, common.of_law), *known),
        statistic=statistic,
        freedom=freedom,
        p_value=float(chi2.sf(statistic, freedom)) if freedom else 1.0,
    )


def _heterogeneity(
    hospitals: Sequence[Placed], parts: Sequence[Part], spread: FloatArray
) -> tuple[float, int]:
    """Return Cochran's Q of the hospitals that can be told apart, and its degrees of freedom."""
    told = [
        part for one, part in zip(hospitals, parts, strict=True) if one.read.observed.sigma <= NOISY
    ]
    if len(told) < 2:
        return 0.0, 0
    mean = pool(told, spread).mean
    statistic = sum(
        float(away @ np.linalg.solve(part.covariance + spread / part.n, away))
        for part in told
        for away in (part.offset - mean,)
    )
    return statistic, len(spread) * (len(told) - 1)


def _part(one: Placed) -> Part:
    seen = one.read.observed
    return Part(seen.n, one.unshrunk, one.there(seen.noise + seen.lost))


def _spread(hospitals: Sequence[Placed]) -> FloatArray:
    """Return the covariance of single records, over all hospitals that say one."""
    wide = [one for one in hospitals if one.read.observed.moment is not None]
    if not wide:
        raise ConfigError(
            "releases are combined by how wide their records lie, and none holds a second moment: "
            "n·μ is too small; release with a larger budget, or more records"
        )
    spreads = [one.there(covariance(one.read.observed)) for one in wide]
    return np.average(spreads, axis=0, weights=[one.read.observed.n for one in wide])


def _by_size(means: FloatArray, parts: Sequence[Part]) -> tuple[FloatArray, FloatArray]:
    """Return the mean of all records, and the covariance of its error."""
    sizes = np.array([part.n for part in parts], dtype=np.float64)
    shares = sizes / sizes.sum()
    covariances = np.stack([part.covariance for part in parts])
    return shares @ means, np.tensordot(shares**2, covariances, axes=1)


def _region(
    manifold: Manifold,
    base: Point,
    estimate: tuple[FloatArray, FloatArray],
    level: float,
    offered: bool,
    clipping: float,
) -> Region:
    """Return the region around a place in coordinates at a base."""
    place, error = estimate
    space = chart_of(manifold)
    centre = space.exp(base, place)
    turned = slope(space, base, place, centre)
    return Region(
        manifold=manifold,
        offered=offered,
        place=centre,
        covariance=turned.T @ error @ turned,
        level=level,
        law=Law(manifold.dim),
        clipping=clipping,
    )
