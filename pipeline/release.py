"""The heart: n points of one class go in, one private mean comes out.

    points ─► Fréchet mean (certified) ─► sensitivity ─► footpoint ─► calibrate ─► sample
           └► adaptive: private centre and radii, then a clipped mean (`pipeline.adaptive`)

What is computed from the points without noise stays in `NonPrivate`; what may leave is `Release`.
Next on the path: `pipeline.mechanisms` for the noise, `pipeline.results` for the files.
"""

import math
import time
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.adaptive import Cost, adaptive_mean, default_plan, prepare
from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError, DomainError
from pipeline.geometry import Manifold, frechet_mean
from pipeline.mechanisms import MECHANISMS, ChainSettings
from pipeline.plan import Plan
from pipeline.privacy import Budget, PureDP, split

MEAN_TOLERANCE = 1e-9
"""Certificate τ of the Fréchet mean: the least gradient norm asked of `frechet_mean`."""


class Domain(Protocol):
    """The public bound on the records: `pipeline.descriptors.domain` makes one."""

    @property
    def radius(self) -> float:
        """The papers' radius r around the identity."""

    @property
    def diameter(self) -> float:
        """The largest distance D between two records."""

    @property
    def largest_eigenvalue(self) -> float:
        """The largest eigenvalue a record can have, as a matrix."""

    @property
    def manifold(self) -> str:
        """The name of the manifold whose distance radius and diameter are in."""


class NonPrivate(NamedTuple):
    """Computed from the records and not private: for experiments only, never for a release's files.

    Attributes
    ----------
    mean : array, shape (*point_shape)
        The certified Fréchet mean.
    gradient_norm : float
        Its certificate, at most `MEAN_TOLERANCE`.
    n : int
        Number of records (public).
    footpoint_means : array, shape (*point_shape) or (size, *point_shape), or None
        The means that private footpoints are drawn around.
    footpoint_n : int
        Number of records behind each of them.
    points : array, shape (n, *point_shape)
        The records, for mechanisms that need them (K-norm gradient).
    """

    mean: NDArray[Any]
    gradient_norm: float
    n: int
    footpoint_means: NDArray[Any] | None
    footpoint_n: int
    points: NDArray[Any]


class Release(NamedTuple):
    """Private and free to leave.

    Attributes
    ----------
    points : array, shape (size, *point_shape)
        The private means.
    footpoint : array, shape (*point_shape) or (size, *point_shape)
        Where the noise was added; public, or itself private. Adaptive: where the rounds began.
    budget : Budget
        What all of it cost.
    sensitivity, sigma : float
        Bound on the move of the mean when one record is replaced, and the noise scale; the latter
        is not a number if there are several, see `costs`.
    expected_error : float or None
        Exact expectation of the distance to the mean, where the law gives it.
    acceptance : float
        Share of proposals the sampler kept.
    seconds : float
        Wall time of one draw, calibration included.
    costs : tuple of Cost
        Adaptive: the steps that the budget was spent on.
    """

    points: NDArray[Any]
    footpoint: NDArray[Any]
    budget: Budget
    sensitivity: float
    sigma: float
    expected_error: float | None
    acceptance: float
    seconds: float
    costs: tuple[Cost, ...] = ()

    @property
    def point(self) -> NDArray[Any]:
        """The first private mean, shape (*point_shape)."""
        return np.asarray(self.points[0])


def sensitivity(
    domain: Domain, n: int, rule: Literal["diameter", "radius"], *, embedded: bool = False
) -> float:
    """Return how far replacing one of `n` records can move the mean that is computed.

    On a Hadamard manifold the barycentre is 1-Lipschitz for the Wasserstein-1 distance (Sturm
    2003), so one replaced record moves it by at most dist(x, x')/n ≤ D/n; the papers bound the
    same by 2r/n. The computed mean lies within τ of the exact one on both data sets, since F is
    1-strongly convex and its gradient there is at most τ: add 2τ.

    Embedded mechanisms add noise to the matrix itself, so its own move counts, in Frobenius norm.
    With ℓ the largest eigenvalue that a mean can have, a step of length s moves a matrix by at most
    ℓ·s: along a log-Euclidean geodesic the derivative of exp is at most ℓ, along an
    affine-invariant one dX = X^½ S X^½, and ℓ bounds the eigenvalues between two means as well.
    For log-Cholesky, dX = dL·Lᵀ + L·dLᵀ with ‖L‖ ≤ √ℓ and ‖dL‖ ≤ max(1, √ℓ)·s: 2·max(√ℓ, ℓ)·s.
    """
    width = domain.diameter if rule == "diameter" else 2 * domain.radius
    bound = width / n + 2 * MEAN_TOLERANCE
    if embedded:
        largest = domain.largest_eigenvalue
        cholesky = domain.manifold == "spd-log-cholesky"
        bound *= 2 * max(math.sqrt(largest), largest) if cholesky else largest
    return bound * (1 + 1e-12)  # fewer than 100 roundings of 2⁻⁵³ each


def summarise(
    points: NDArray[Any], *, manifold: Manifold, plan: Plan, size: int, rng: np.random.Generator
) -> NonPrivate:
    """Compute the non-private part once, for `size` releases under the same plan.

    Raises
    ------
    DomainError
        When there is no record.
    """
    n = len(points)
    if n < 1:
        raise DomainError("a mean needs at least one record, found 0; leave out empty classes")
    mean = frechet_mean(points, manifold, tolerance=MEAN_TOLERANCE)
    means, footpoint_n = None, n
    if plan.footpoint == "all":
        means = mean.point
    elif plan.footpoint == "subsample":
        footpoint_n = max(1, round(plan.subsample * n))
        rows = [rng.choice(n, footpoint_n, replace=False) for _ in range(size)]
        means = np.stack(
            [frechet_mean(points[row], manifold, tolerance=MEAN_TOLERANCE).point for row in rows]
        )
    return NonPrivate(mean.point, mean.gradient_norm, n, means, footpoint_n, points)


def release(
    data: NonPrivate,
    budget: Budget,
    *,
    domain: Domain,
    manifold: Manifold,
    plan: Plan,
    size: int,
    rng: np.random.Generator,
) -> Release:
    """Draw `size` private means, each of which alone costs `budget`.

    **Privacy.** Replace-one adjacency, n public. The footpoint and the mean are two releases about
    the same records; their shares compose to `budget`. Idealised numerics: floats are taken as
    real numbers.

    Raises
    ------
    PrivacyError
        When the mechanism has no density, or no guarantee, at this budget.
    """
    if plan.footpoint == "adaptive":
        return _adaptive(
            data, budget, domain=domain, manifold=manifold, plan=plan, size=size, rng=rng
        )
    started = time.perf_counter()
    base: NDArray[Any] = manifold.origin
    rest = budget
    if data.footpoint_means is not None:
        share, rest = split(budget, (plan.footpoint_share, 1 - plan.footpoint_share))
        bound = sensitivity(domain, data.footpoint_n, plan.sensitivity)
        footpoint = MECHANISMS[plan.footpoint_mechanism]
        mechanism = footpoint.calibrate(share, sensitivity=bound, manifold=manifold)
        base = mechanism.sample(data.footpoint_means, size=size, rng=rng).points
    family = MECHANISMS[plan.mechanism]
    bound = sensitivity(domain, data.n, plan.sensitivity, embedded=family.embedded)
    chain = {"sampler": "chain", "chain": ChainSettings(burn_in=plan.burn_in)}
    options = chain if plan.sampler == "chain" else {}
    mechanism = family.calibrate(rest, sensitivity=bound, manifold=manifold, **options)
    centre = data.points if plan.mechanism == "kng" else data.mean
    draws = mechanism.sample(centre, base=base, size=size, rng=rng)
    return Release(
        points=draws.points,
        footpoint=base,
        budget=budget,
        sensitivity=bound,
        sigma=mechanism.sigma,
        expected_error=mechanism.expected_error(),
        acceptance=draws.diagnostics.acceptance,
        seconds=(time.perf_counter() - started) / size,
    )


def _adaptive(
    data: NonPrivate,
    budget: Budget,
    *,
    domain: Domain,
    manifold: Manifold,
    plan: Plan,
    size: int,
    rng: np.random.Generator,
) -> Release:
    """Draw `size` private means with `pipeline.adaptive`."""
    started = time.perf_counter()
    rounds = default_plan(domain, manifold, plan.shares)
    records = prepare(data.points, domain=domain, manifold=manifold, plan=rounds)
    drawn = adaptive_mean(records, budget, size=size, rng=rng)
    return Release(
        points=drawn.points,
        footpoint=manifold.exp(manifold.origin, records.plan.prior.centre),
        budget=budget,
        sensitivity=sensitivity(domain, data.n, "diameter"),
        sigma=math.nan,
        expected_error=None,
        acceptance=1.0,
        seconds=(time.perf_counter() - started) / size,
        costs=drawn.costs,
    )


def private_mean(
    points: FloatArray,
    budget: Budget,
    *,
    domain: Domain,
    manifold: Manifold,
    plan: Plan | Literal["auto", "single"] = "auto",
    rng: np.random.Generator,
) -> tuple[Release, NonPrivate]:
    """Release one private Fréchet mean of `points`.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        The records of one class; each lies in `domain`.
    budget : Budget
        What may be spent in all.
    domain : Domain
        The public bound on the records.
    manifold : Manifold
        The geometry.
    plan : Plan, "auto" or "single"
        How to spend. "single" adds exponential-wrapped Gaussian noise at the origin. "auto" is the
        most accurate plan there is: the adaptive one, or for pure DP, which Gaussian noise never
        gives, exponential-wrapped Laplace noise at the origin.
    rng : numpy.random.Generator
        The source of noise.

    Returns
    -------
    Release
        What may leave.
    NonPrivate
        What may not.
    """
    named = {"single": Plan(), "auto": Plan(footpoint="adaptive")}
    if isinstance(budget, PureDP):
        named["auto"] = Plan("ewl")
    if isinstance(plan, str) and plan not in named:
        raise ConfigError(f'a plan must be "auto", "single" or a Plan, found {plan!r}')
    chosen = named[plan] if isinstance(plan, str) else plan
    data = summarise(manifold.check(points), manifold=manifold, plan=chosen, size=1, rng=rng)
    drawn = release(data, budget, domain=domain, manifold=manifold, plan=chosen, size=1, rng=rng)
    return drawn, data
