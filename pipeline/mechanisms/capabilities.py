"""What families share in saying where they are proven and what their noise costs."""

from collections.abc import Callable
from typing import cast

from pipeline.errors import ConfigError
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.geometry.manifold import Embedded
from pipeline.privacy import Budget, gaussian_cost, laplace_cost


def small(kind: Callable[..., Manifold]) -> Manifold:
    """Return a small member of a kind of manifold; raise `ConfigError` if it offers none."""
    dim, make = getattr(kind, "small", None), getattr(kind, "of_dimension", None)
    if dim is None or make is None:
        raise ConfigError(
            f"{kind} offers no small member, on which mechanisms are tried; add small and "
            "of_dimension"
        )
    return cast(Manifold, make(dim))


def hadamard(manifold: Manifold) -> bool:
    """Return whether log is a contraction, which wrapped noise needs."""
    return manifold.hadamard


def radial(manifold: Manifold) -> bool:
    """Return whether the law of distances from a centre is known."""
    known = hasattr(manifold, "area") or hasattr(manifold, "spectral_order")
    return manifold.flat or known


def embedded(manifold: Manifold) -> bool:
    """Return whether points are vectors of a space around the manifold."""
    return isinstance(manifold, Embedded)


def gaussian_price(
    sigma: float,
    sensitivity: float,
    target: type[Budget],
    *,
    delta: float | None,
    alpha: float | None,
    degree: float | None,
) -> Budget:
    """Return what Gaussian noise costs."""
    return gaussian_cost(sigma, sensitivity, target, delta=delta, alpha=alpha)


def laplace_price(
    sigma: float,
    sensitivity: float,
    target: type[Budget],
    *,
    delta: float | None,
    alpha: float | None,
    degree: float | None,
) -> Budget:
    """Return what Laplace noise costs."""
    return laplace_cost(sigma, sensitivity, target, delta=delta, alpha=alpha)


def names_where(proven: Callable[[Manifold], bool]) -> tuple[str, ...]:
    """Return the names of the known manifolds on which something is proven."""
    return tuple(name for name, kind in MANIFOLDS.items() if proven(small(kind)))
