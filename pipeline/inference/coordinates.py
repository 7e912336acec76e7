"""Several released classes in one set of coordinates."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.geometry import Manifold, Point, chart_of
from pipeline.inference.released import Read, Released, read

STEP = 1e-5
"""Distance over which coordinates are differentiated."""


class Placed(NamedTuple):
    """A released class, in coordinates at a common base.

    Attributes
    ----------
    read : Read
    mean, unshrunk : array, shape (d,)
        The released mean, and the one before it was shrunk.
    slope : array, shape (d, d)
        Row i: where a step along coordinate i of its own leads.
    """

    read: Read
    mean: FloatArray
    unshrunk: FloatArray
    slope: FloatArray

    def there(self, covariance: FloatArray) -> FloatArray:
        """Return a covariance of its own coordinates in the common ones."""
        return np.asarray(self.slope.T @ covariance @ self.slope)


def slope(manifold: Manifold, base: Point, place: FloatArray, target: Point) -> FloatArray:
    """Return how coordinates at `base`, near `place`, become those at `target`, (d, d)."""
    if manifold.flat:
        return np.eye(manifold.dim)
    steps = STEP * np.eye(manifold.dim)
    ahead, behind = (
        manifold.log(target, manifold.exp(base, place + step)) for step in (steps, -steps)
    )
    return np.asarray((ahead - behind) / (2.0 * STEP))


def placed(released: Sequence[Released], least: int) -> tuple[Manifold, Point, list[Placed]]:
    """Return released classes in coordinates at the mean of the largest of them.

    The manifold is where they live, the base a point of `chart_of` it.

    Raises
    ------
    ConfigError
        When there are fewer than `least`, or they are of different geometries.
    """
    found = [read(one) for one in released]
    if len(found) < least:
        raise ConfigError(f"give {least} released classes or more, found {len(found)}")
    spaces = {(one.manifold.name, one.manifold.dim) for one in found}
    if len(spaces) > 1:
        listing = ", ".join(sorted(f"{name} of dimension {dim}" for name, dim in spaces))
        raise ConfigError(
            f"classes are compared in one geometry, found {listing}; release them with the same "
            "descriptor and manifold"
        )
    manifold = found[0].manifold
    base = max(found, key=lambda one: one.observed.n).point
    return manifold, base, [_placed(one, chart_of(manifold), base) for one in found]


def _placed(one: Read, space: Manifold, base: Point) -> Placed:
    seen = one.observed
    unshrunk = space.log(base, space.exp(seen.base, seen.offset))
    own = slope(space, seen.base, seen.offset, base)
    return Placed(one, space.log(base, one.point), unshrunk, own)
