"""Affine maps of coordinates: what puts descriptors of one scanner on the scale of others.

In coordinates u = log(base, X) a map takes u to target + A·(u − centre). On a flat manifold, whose
coordinates at any two bases differ by a constant, that is one affine map of its chart; elsewhere it
is affine in the tangent space at the base.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.geometry.charts import chart_of, from_chart, to_chart
from pipeline.geometry.manifold import Manifold, Point


@dataclass(frozen=True, eq=False)
class AffineMap:
    """An affine map of the coordinates at a base.

    Attributes
    ----------
    manifold : Manifold
        Where points live.
    base : array, shape (*space.point_shape)
        Where coordinates are taken, in the chart of a flat manifold.
    centre, target : array, shape (d,)
        A point, and where it is mapped to.
    matrix : array, shape (d, d)
        A.
    """

    manifold: Manifold
    base: NDArray[np.float64]
    centre: FloatArray
    target: FloatArray
    matrix: FloatArray

    def __call__(self, points: Point) -> Point:
        """Return points of the manifold where they are mapped to, (..., *point_shape).

        Each by itself, to the last bit: whatever comes with it, and how many.
        """
        space = chart_of(self.manifold)
        moved = self.move(space.log(self.base, to_chart(self.manifold, points)))
        return from_chart(self.manifold, space.exp(self.base, moved))

    def move(self, coordinates: FloatArray) -> FloatArray:
        """Return coordinates at the base where they are mapped to, (..., d)."""
        away = (coordinates - self.centre)[..., np.newaxis, :]
        return np.asarray(self.target + (away @ self.matrix.T)[..., 0, :])

    @property
    def digest(self) -> str:
        """What the map is known by: SHA-256 of all that it is, hexadecimal."""
        known = hashlib.sha256(f"{self.manifold.name} {self.manifold.dim}".encode())
        for part in (self.base, self.centre, self.target, self.matrix):
            known.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
        return known.hexdigest()
