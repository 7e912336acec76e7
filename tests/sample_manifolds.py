"""Manifolds of the sizes that tests use: a small one of every member, and some of more interest."""

from collections.abc import Mapping

from covdp.geometry import MANIFOLDS, Manifold, chart_of
from covdp.geometry.covariances import covariances_of
from covdp.mechanisms.base import small

SPD = [name for name, kind in MANIFOLDS.items() if covariances_of(kind) is not None]
"""The metrics that know covariance descriptors."""


def one_each(chosen: Mapping[str, Manifold]) -> dict[str, Manifold]:
    """Return a member of every kind: the chosen one, or its small one."""
    return {name: chosen.get(name) or small(kind) for name, kind in MANIFOLDS.items()}


MEDIUM = one_each(
    {
        "spd-log-euclidean": MANIFOLDS["spd-log-euclidean"](k=3),
        "spd-log-cholesky": MANIFOLDS["spd-log-cholesky"](k=3),
        "spd-affine-invariant": MANIFOLDS["spd-affine-invariant"](k=3),
        **{
            name: MANIFOLDS[name](**sizes)
            for name, sizes in {"hyperbolic": {"dim": 3}, "kendall": {"landmarks": 5}}.items()
            if name in MANIFOLDS  # of an add-on
        },
    }
)
"""Name → one of a few dimensions."""

BOUNDED = [name for name, space in MEDIUM.items() if space.flat or hasattr(space, "log_reach")]
"""The manifolds with a bound on the rounding of a barycentre: where the adaptive mean is."""


def charted(manifold: Manifold) -> Manifold:
    """Return where a mean on `manifold` is worked out: the chart of a flat one."""
    return chart_of(manifold)
