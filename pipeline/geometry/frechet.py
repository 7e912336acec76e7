"""The Fréchet mean, with a certificate, and the gradient of its objective.

For points x_i and weights w_i ≥ 0 with sum 1 the mean x̄ is the least point of

    F(x) = ½ Σ_i w_i dist(x, x_i)²,        grad F(x) = −Σ_i w_i log(x, x_i).

On a Hadamard manifold F is 1-strongly convex along geodesics, so dist(x, x̄) ≤ ‖grad F(x)‖ at every
x: the norm of the gradient is a proof of how close the mean is.

**Steps.** Let the curvature be at least −κ² and h(s) = √(1 + s²), which is 1-Lipschitz and
at least s coth s, the largest eigenvalue of the Hessian of ½ dist² at distance s/κ. On the segment
from x to exp(x, −t grad F(x)), t ≤ 1, the eigenvalues of the Hessian of F are in [1, L] with
L = Σ_i w_i h(κ dist(x, x_i)) + κ‖grad F(x)‖, so the plain step t = 2/(1 + L) shrinks the gradient
by the factor (L − 1)/(L + 1) or better. Steps are accelerated (Anderson); one that does not shrink
the gradient by that factor is undone and the plain step taken: the rate holds whatever the data.

`MANIFOLDS` has the manifolds by name.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

import numpy as np

from covdp.arrays import FloatArray
from covdp.errors import ConfigError, ConvergenceError, DomainError, require_known
from covdp.geometry.manifold import DescentField, Manifold, Point, in_chunks
from covdp.geometry.spd import AffineInvariant, LogCholesky, LogEuclidean
from covdp.registry import Registry

MANIFOLDS = Registry[Callable[..., Manifold]](
    "manifolds",
    {
        "spd-log-euclidean": LogEuclidean,
        "spd-log-cholesky": LogCholesky,
        "spd-affine-invariant": AffineInvariant,
    },
    word="manifold",
)
"""Name → constructor; its argument is k on SPD(k), dim on H^d and S^d, landmarks for shapes."""


def find_manifold(manifold: Manifold | str, points: Point) -> Manifold:
    """Return a manifold, or the one of that name whose points have the shape of `points`, (n, …).

    Parameters
    ----------
    manifold : Manifold or str
        Geometry, or its name in `MANIFOLDS`.
    points : array, shape (n, *point_shape)
        Points, whose shape tells the size of the manifold.

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


MEMORY = 5
"""Earlier steps that an accelerated step learns from."""
MAX_ITERATIONS = 1000
"""Steps before giving up, unless stated otherwise."""


class FrechetMean(NamedTuple):
    """A mean and its certificate: dist(point, x̄) ≤ gradient_norm on Hadamard manifolds.

    Attributes
    ----------
    point : array, shape (*point_shape)
        Mean.
    gradient_norm : float
        Norm of the gradient at the point.
    iterations : int
        Number of steps.
    """

    point: Point
    gradient_norm: float
    iterations: int


class _Iterate(NamedTuple):
    """One iterate: the point, −grad F there, its norm and the bound L."""

    point: Point
    descent: FloatArray
    size: float
    bound: float


def _field(points: Point, manifold: Manifold, weights: FloatArray) -> DescentField:
    """Return the map from a batch of places to −grad F and the bound of the Hessian there."""
    own = getattr(manifold, "frechet_descent", None)
    if own is not None:
        return cast(DescentField, own(points, weights))

    def field(at: Point) -> tuple[FloatArray, FloatArray]:
        logs = manifold.log(at[:, None], points)
        bounds = np.sqrt(1.0 - min(0.0, manifold.curvature[0]) * np.sum(logs**2, axis=-1))
        return np.einsum("n,snd->sd", weights, logs), np.einsum("n,sn->s", weights, bounds)

    return in_chunks(field, len(points))


def _sample(
    points: Point, manifold: Manifold, weights: FloatArray | None
) -> tuple[Point, FloatArray]:
    """Return the points of positive weight and their weights, normalised to sum 1."""
    points = manifold.check(points)
    if points.ndim != len(manifold.point_shape) + 1 or len(points) == 0:
        raise DomainError(
            f"points must have shape (n, {', '.join(map(str, manifold.point_shape))}) with n ≥ 1, "
            f"found {points.shape}"
        )
    if weights is None:
        return points, np.full(len(points), 1.0 / len(points))
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (len(points),) or not (weights >= 0.0).all() or not weights.sum() < np.inf:
        raise ConfigError(
            f"weights must be {len(points)} finite numbers ≥ 0, one a point, found shape "
            f"{weights.shape} with least value {weights.min(initial=np.inf):.3g}"
        )
    used = weights > 0.0
    if not used.any():
        raise ConfigError("weights must not all be 0")
    return points[used], weights[used] / weights.sum()


def _state(field: DescentField, manifold: Manifold, point: Point) -> _Iterate:
    descents, bounds = field(point[None])
    size = float(np.linalg.norm(descents[0]))
    drift = math.sqrt(max(0.0, -manifold.curvature[0])) * size
    return _Iterate(point, descents[0], size, float(bounds[0]) + drift)


def _accelerated(
    state: _Iterate, plain: float, memory: list[tuple[FloatArray, FloatArray]]
) -> FloatArray:
    """Return Anderson's step: the plain one, corrected by what earlier steps have shown."""
    if not memory:
        return plain * state.descent
    steps = np.stack([step for step, _ in memory], axis=1)
    changes = np.stack([change for _, change in memory], axis=1)
    mix = np.linalg.lstsq(changes, state.descent, rcond=1e-10)[0]
    return np.asarray(plain * (state.descent - changes @ mix) - steps @ mix)


def frechet_mean(
    points: Point,
    manifold: Manifold | str,
    *,
    weights: FloatArray | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = MAX_ITERATIONS,
) -> FrechetMean:
    """Return the Fréchet mean of `points`, with ‖grad F‖ ≤ `tolerance` at the returned point.

    On a flat manifold the first point tried is the mean of the coordinates, which is exact. The
    certificate is evaluated in floating point at the returned array itself.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        Points of the manifold.
    manifold : Manifold or str
        Geometry, or its name in `MANIFOLDS`.
    weights : array, shape (n,), optional
        Non-negative weights, of any positive sum; all equal when left out.
    tolerance : float
        Largest norm of the gradient, in the manifold's distance.
    max_iterations : int
        Largest number of steps.

    Returns
    -------
    FrechetMean
        ``point``, ``gradient_norm`` ≤ tolerance, ``iterations``.

    Raises
    ------
    DomainError
        When the points are not on the manifold; under positive curvature also when some point is
        not within ½·min(injectivity radius, π/√(largest curvature)) of the mean: a mean need not
        be unique then (Afsari, "Riemannian L^p center of mass", Proc. AMS 139, 2011, Theorem 2.1).
    ConvergenceError
        When `tolerance` is not reached, with the number of steps and the norm that was reached.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp import frechet_mean
    >>> points = np.array([np.diag([1.0, 4.0]), np.diag([4.0, 1.0])])
    >>> frechet_mean(points, "spd-log-euclidean").point.round(6)
    array([[2., 0.],
           [0., 2.]])
    """
    manifold = find_manifold(manifold, points)
    points, weights = _sample(points, manifold, weights)
    field = _field(points, manifold, weights)
    start = points[np.argmax(weights)]
    return _descend(field, manifold, [points], start, tolerance, max_iterations)


def frechet_mean_of_parts(
    parts: Iterable[Point], n: int, manifold: Manifold, *, tolerance: float = 1e-9
) -> FrechetMean:
    """Return the Fréchet mean of n points that are read in parts, once for every gradient.

    Parameters
    ----------
    parts : iterable of array, shape (m, *point_shape)
        Parts of the same n points each time.
    n : int
        Number of points.
    manifold : Manifold
        Geometry.
    tolerance : float
        Largest norm of the gradient; `frechet_mean` says what is returned and raised.
    """

    def field(at: Point) -> tuple[FloatArray, FloatArray]:
        descents, bounds = np.zeros((len(at), manifold.dim)), np.zeros(len(at))
        for part in parts:
            descent, bound = _field(part, manifold, np.full(len(part), 1.0 / n))(at)
            descents, bounds = descents + descent, bounds + bound
        return descents, bounds

    return _descend(field, manifold, parts, next(iter(parts))[0], tolerance, MAX_ITERATIONS)


def _descend(
    field: DescentField,
    manifold: Manifold,
    parts: Iterable[Point],
    start: Point,
    tolerance: float,
    max_iterations: int,
) -> FrechetMean:
    """Return the certified mean of all points in `parts`; `start` is used on positive curvature."""
    if manifold.hadamard:
        start = manifold.exp(manifold.origin, field(manifold.origin[None])[0][0])
    state = _state(field, manifold, start)
    memory: list[tuple[FloatArray, FloatArray]] = []
    iterations, stuck = 0, False
    while state.size > tolerance and iterations < max_iterations and not stuck:
        iterations += 1
        plain = 2.0 / (1.0 + state.bound)
        rate = (state.bound - 1.0) / (state.bound + 1.0) if manifold.hadamard else 1.0
        step = _accelerated(state, plain, memory)
        trial = _state(field, manifold, manifold.exp(state.point, step))
        if memory and trial.size > rate * state.size:
            memory, step = [], plain * state.descent
            trial = _state(field, manifold, manifold.exp(state.point, step))
        memory = [*memory, (step, trial.descent - state.descent)][-MEMORY:]
        stuck = trial.size >= state.size
        state = min(state, trial, key=lambda iterate: iterate.size)
    _check_unique(parts, manifold, state.point)
    if state.size > tolerance:
        raise ConvergenceError(
            f"the mean needs a gradient of norm ≤ {tolerance:.3g}, reached {state.size:.3g} after "
            f"{iterations} iterations; {'steps no longer shrink it' if stuck else 'allow more'}, "
            "or give a larger tolerance"
        )
    return FrechetMean(state.point, state.size, iterations)


def _check_unique(parts: Iterable[Point], manifold: Manifold, mean: Point) -> None:
    """Raise `DomainError` unless Afsari's theorem makes the mean unique."""
    if manifold.hadamard:
        return
    limit = 0.5 * min(manifold.injectivity_radius, math.pi / math.sqrt(manifold.curvature[1]))
    reach = max(float(manifold.dist(mean, part).max()) for part in parts)
    if reach >= limit:
        raise DomainError(
            f"points must be within {limit:.4g} of their mean for it to be unique, found one at "
            f"{reach:.4g}; restrict the data to a smaller ball"
        )


def gradient(
    points: Point, manifold: Manifold, at: Point, *, weights: FloatArray | None = None
) -> FloatArray:
    """Return grad F(y) = −Σ_i w_i log(y, x_i) in the frame at y, ``(..., d)``, for every y of `at`.

    Weights are as in `frechet_mean`.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        Points x_i.
    manifold : Manifold
        Manifold of the points.
    at : array, shape (..., *point_shape)
        Points y at which the gradient is taken.
    weights : array, shape (n,), optional
        Non-negative weights, of any positive sum; all equal when left out.

    Raises
    ------
    DomainError
        When `points` or `at` are not on the manifold, or a logarithm is not defined.
    """
    points, weights = _sample(points, manifold, weights)
    at = manifold.check(at)
    batch = at.shape[: at.ndim - len(manifold.point_shape)]
    descents, _ = _field(points, manifold, weights)(at.reshape(-1, *manifold.point_shape))
    return -descents.reshape(*batch, manifold.dim)


def gradient_norm(points: Point, manifold: Manifold, at: Point) -> FloatArray:
    """Return ‖grad F(y)‖ of equal weights, ``(...)``, for every y of `at`; see `gradient`.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        Points x_i.
    manifold : Manifold
        Manifold of the points.
    at : array, shape (..., *point_shape)
        Points y at which the gradient is taken.
    """
    return np.asarray(np.linalg.norm(gradient(points, manifold, at), axis=-1))
