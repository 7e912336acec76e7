"""The manifolds by name."""

from collections.abc import Callable
from typing import cast

import numpy as np

from pipeline.errors import ConfigError, require_known
from pipeline.geometry.hyperbolic import Hyperbolic
from pipeline.geometry.kendall import Kendall
from pipeline.geometry.manifold import Manifold, Point
from pipeline.geometry.spd import AffineInvariant, LogCholesky, LogEuclidean
from pipeline.geometry.sphere import Sphere

MANIFOLDS: dict[str, Callable[..., Manifold]] = {
    "spd-log-euclidean": LogEuclidean,
    "spd-log-cholesky": LogCholesky,
    "spd-affine-invariant": AffineInvariant,
    "hyperbolic": Hyperbolic,
    "sphere": Sphere,
    "kendall": Kendall,
}
"""Name → constructor; its argument is k on SPD(k), dim on H^d and S^d, landmarks for shapes."""


def find_manifold(manifold: Manifold | str, points: Point) -> Manifold:
    """Return a manifold, or the one of that name whose points have the shape of `points`, (n, …).

    Raises
    ------
    ConfigError
        For a name that is not in `MANIFOLDS`, with the closest.
    """
    if not isinstance(manifold, str):
        return manifold
    require_known("manifold", manifold, MANIFOLDS, f"known are {', '.join(MANIFOLDS)}")
    make = getattr(MANIFOLDS[manifold], "of_shape", None)
    if make is None:
        raise ConfigError(f"{manifold} is not made from a shape; give the manifold, not its name")
    return cast(Manifold, make(np.shape(points)[1:]))
