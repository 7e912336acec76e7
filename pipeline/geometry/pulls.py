"""How a Fréchet mean is pulled at a batch of places: −grad F, and a bound of the Hessian.

Next on the path: the manifolds with a `mean_field` of their own, then ``mean.py``.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry.manifold import Point

CHUNK = 2**18
"""Pairs (place, point) held at once when gradients are taken at many places."""

Field: TypeAlias = Callable[[Point], tuple[FloatArray, FloatArray]]
"""Places ``(S, *point_shape)`` → −grad F ``(S, d)`` and Σ w h, a bound of the Hessian, ``(S,)``."""


def in_chunks(field: Field, n: int) -> Field:
    """Return a field of n points that holds at most `CHUNK` pairs at once."""

    def chunked(at: Point) -> tuple[FloatArray, FloatArray]:
        stride = max(1, CHUNK // n)
        parts = [field(at[start : start + stride]) for start in range(0, max(1, len(at)), stride)]
        pulls, bounds = zip(*parts, strict=True)
        return np.concatenate(pulls), np.concatenate(bounds)

    return chunked
