"""Where the true mean lies, with a stated confidence: from released values alone.

**Region.** An ellipsoid around the released mean: {x : uᵀW⁻¹u ≤ q}, u = log(centre, x). The error
is noise, whose covariance S is known exactly, and what clipping does to the mean. That is at most
the mean length that clipping cuts off, which each round releases with its mean (overshoots, see
``mean/second_moment.py``): `Observed.bounds` takes it `LIMIT` deviations of its noise larger than
it was released. For the mean of the very records of the release W = S, and q is the quantile of a
noncentral χ²_d: the largest for any bias within the bounds. For the mean of the population that
they were drawn from, each by itself, S + Σ̂/n takes the place of S, Σ̂ the estimated covariance of
single records, and W is of the shape of least radius. See ``ellipsoids.py``.

S belongs to the mean before it was shrunk. The released mean is nearer to the truth, by how much
depends on the truth: the covariance that the shrinkage predicts makes regions far too small.

**What rare images cost.** One image in a hundred that is black, or striped, moves the mean by ten
times its noise at n·μ = 500, and is found in the noise of no histogram there. A region holds such
means as often as it says only if it is so wide always, also where all images are alike. No
procedure escapes. Let a region hold the mean with probability 1 − α whatever the records, and m' be
the mean when k of the n records are replaced. μ-GDP lets it hold m', for the records as they are,
with probability Φ(Φ⁻¹(1 − α) − k·μ) at least: in more than half of all releases as long as
k·μ < Φ⁻¹(1 − α). So with α = 0.1 regions mostly reach to where 1.28/(n·μ) of the records may be
moved by others, whatever share of μ is spent on finding them. Overshoots are counted with half of
it, at 0.6 of its length, for nothing.

**Rule.** A region is offered where the noise of the mean, in units of its vectors, is small enough
(`NOISY`), which is public, and there is a second moment.

``covdp reproduce ours-regions`` measures the coverage on images, with rare other images among them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.geometry import Manifold, Point, chart_of, from_chart, to_chart
from pipeline.inference.coordinates import slope
from pipeline.inference.covariance import covariance
from pipeline.inference.ellipsoids import Law, ellipsoid
from pipeline.inference.released import Read, Released, manifold_of, point_at, read
from pipeline.mean import Observed
from pipeline.mean.observed import from_upper

NOISY = 0.02
"""Largest σ of the released vectors with which one is: n·μ of 67 with the usual shares.

By hand: at n·μ = 25 of normal scans of OCT2017 only 8 in 10 of the regions held the mean.
"""


@dataclass(frozen=True, eq=False)
class Region:
    """A confidence region for a mean.

    Attributes
    ----------
    manifold : Manifold
    offered : bool
        Whether the rule for offering one is met; where it is not, the region may be too small.
    place : array, shape (*space.point_shape)
        The released mean, in the chart of a flat manifold.
    covariance : array, shape (d, d)
        W, in coordinates at the place (``space.log``).
    level : float
        Confidence.
    law : Law
        Of uᵀW⁻¹u, at worst.
    clipping : float
        How far clipping may have moved the mean at most, in distance; it is in the region.
    """

    manifold: Manifold
    offered: bool
    place: NDArray[np.float64]
    covariance: FloatArray
    level: float
    law: Law
    clipping: float

    @property
    def space(self) -> Manifold:
        """Where it lies: the chart of a flat manifold, as matrices may not hold its points."""
        return chart_of(self.manifold)

    @property
    def centre(self) -> NDArray[np.float64]:
        """The released mean as a point of the manifold, as near as doubles hold it."""
        return np.asarray(from_chart(self.manifold, self.place))

    @cached_property
    def quantile(self) -> float:
        """The quantile q of the law at the level."""
        return self.law.ppf(self.level)

    @property
    def radius(self) -> float:
        """Root mean square of the ellipsoid's half-axes: √(q·tr W/d)."""
        return math.sqrt(self.quantile * float(np.trace(self.covariance)) / self.manifold.dim)

    def contains(self, points: Point) -> NDArray[np.bool_]:
        """Return whether points, (..., *point_shape), lie in the region, (...)."""
        return np.asarray(self._lengths(points) <= self.quantile)

    def reach(self, points: Point) -> FloatArray:
        """Return at which level points, (..., *point_shape), would lie on its edge, (...)."""
        lengths = self._lengths(points)
        return np.array([self.law.cdf(float(one)) for one in lengths.ravel()]).reshape(
            lengths.shape
        )

    def _lengths(self, points: Point) -> FloatArray:
        places = self.space.log(self.place, to_chart(self.manifold, points))
        solved = np.linalg.solve(self.covariance, places[..., np.newaxis])[..., 0]
        return np.asarray(np.sum(places * solved, axis=-1))


def region(
    released: Released, level: float = 0.95, of: Literal["sample", "population"] = "sample"
) -> Region:
    """Return where the mean of a released class lies, with confidence `level`.

    Parameters
    ----------
    released : Release or mapping
        What `private_mean` returned first, or an entry of ``classes`` in the document of a release
        or of a night: then of the mean of all units of the stream so far.
    level : float
        Confidence, between 0 and 1.
    of : {"sample", "population"}
        Of the records of the release; or of what they were drawn from, each by itself.

    Raises
    ------
    ConfigError
        When `level` or `of` mean nothing, or the release has no adaptive mean.
    """
    if not 0.0 < level < 1.0:
        raise ConfigError(f"a level must lie between 0 and 1, found {level:g}; 0.95 is usual")
    if of not in ("sample", "population"):
        raise ConfigError(f'a region is of the "sample" or of the "population", found {of!r}')
    if isinstance(released, Mapping) and "certainty" in released:
        where = _of_night(released, of)
    else:
        where = _of_release(read(released), of, level)
    return Region(**where._asdict(), level=level)


class _Where(NamedTuple):
    """What a region has beside its level."""

    manifold: Manifold
    offered: bool
    place: NDArray[np.float64]
    covariance: FloatArray
    law: Law
    clipping: float


def _of_release(found: Read, of: str, level: float) -> _Where:
    seen, space, scatter = found.observed, found.space, None
    if of == "population" and seen.moment is not None:
        scatter = covariance(seen) / seen.n
    whole, law = ellipsoid(seen, scatter, level)
    turned = slope(space, seen.base, space.log(seen.base, found.point), found.point)
    covariance_there = turned.T @ whole @ turned
    return _Where(
        found.manifold, is_offered(seen), found.point, covariance_there, law, clipping_of(seen)
    )


def _of_night(row: Mapping[str, Any], of: str) -> _Where:
    """Return the same of the mean of all units so far, in a stream; its manifold is flat."""
    told = row["certainty"]
    if told is None:
        raise ConfigError(
            "this night says no region: before the opening of its class nothing is released, and "
            "documents of older versions do not say how certain their means are"
        )
    coordinates = np.array(row["coordinates"], dtype=np.float64)
    manifold = manifold_of(told, len(coordinates))
    whole = from_upper(np.array(told[of]), manifold.dim)
    place = point_at(manifold, coordinates)
    return _Where(manifold, told["offered"], place, whole, Law(manifold.dim), told["clipping"])


def is_offered(observed: Observed) -> bool:
    """Return whether the rule for offering a region is met."""
    return not withheld(observed)


def withheld(observed: Observed) -> str:
    """Return why no region is offered, in words; "" where one is."""
    if observed.moment is None and observed.sigma > NOISY:
        return "no second moment: the noise covers the whole region, n·μ is too small"
    if observed.moment is None:
        return (
            "no second moment: records seemed to lie far from all others, so the noise covers the "
            "whole region; n·μ is not too small, and noise alone may look so, seldom"
        )
    if observed.sigma > NOISY:
        times = observed.sigma / NOISY
        return f"the noise is {times:.2g} times too wide to say how much was clipped: n·μ is small"
    return ""


def clipping_of(observed: Observed) -> float:
    """Return how far clipping may have moved a mean at most, in distance."""
    along, off = observed.bounds
    return math.hypot(along * observed.length, off * observed.worth)
