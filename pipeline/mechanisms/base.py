"""Mechanism: the draw it returns, the object that draws, and the record in the registry.

A family (`Family`) calibrates a budget to a frozen mechanism (`Mechanism`), which draws (`Draws`).
Next on the path: ``additive.py``, the simplest families.

Adjacency is the same for all of them: *replace one*. One image is replaced by any other image of
the domain; the number of images and all labels are public.

**Neighbours**: two data sets on which a mechanism leaks most, and the score that tells them apart.
The two inputs are exactly as far apart as the mechanism's sensitivity allows, and the score is its
log-likelihood ratio. A family carries its own pair in its file. The audit draws from them. Points
are around p0, a public point that is not the manifold's origin, along a direction u that is
not a coordinate axis, so that noise which is not spherical shows. Both statistics and p0 are on one
geodesic: there log_{p0} keeps their distance Δ, elsewhere on a Hadamard manifold it shrinks it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.errors import ConfigError, DomainError, PrivacyError
from covdp.geometry import MANIFOLDS, Manifold
from covdp.geometry.manifold import EmbeddedManifold
from covdp.mechanisms.noise import Noise
from covdp.mechanisms.wrapping import Norms
from covdp.privacy import Budget
from covdp.registry import Registry

Points: TypeAlias = NDArray[Any]
"""Points of a manifold, real or complex, batch axes first."""

LAPLACE_DEFINITIONS = ("pure", "approx", "gdp", "rdp", "zcdp", "rao")
GAUSSIAN_DEFINITIONS = ("approx", "gdp", "rdp", "zcdp", "rao")


class Diagnostics(NamedTuple):
    """Record of how a draw was made.

    Attributes
    ----------
    acceptance : float
        Accepted share of proposals; 1 when nothing can be rejected.
    r_hat : float
        Split R-hat of the chains; NaN for an exact draw.
    effective_size : float
        Effective sample size of the stored traces of all chains; NaN for an exact draw.
    """

    acceptance: float = 1.0
    r_hat: float = math.nan
    effective_size: float = math.nan


class Chain(Protocol):
    """Markov chain with its settings: draws where a law has no exact sampler, or beside it."""

    def laplace(
        self, manifold: Manifold, sigmas: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, Diagnostics]:
        """Return tangent vectors at the centre, (C, d), for the density ∝ exp(−dist(y, c)/σ).

        Parameters
        ----------
        manifold : Manifold
            Manifold of the outputs.
        sigmas : array, shape (C,)
            Scale σ of each chain.
        rng : numpy.random.Generator
            Generator of the draws.
        """

    def geodesic(
        self,
        log_density: Callable[[Points], FloatArray],
        center: Points,
        manifold: Manifold,
        sigmas: FloatArray,
        rng: np.random.Generator,
    ) -> tuple[FloatArray, Diagnostics]:
        """Return tangent vectors at the centre, (C, d), for a density on the manifold.

        Parameters
        ----------
        log_density : callable
            Logarithm of the density at points (C, *point_shape), but for a constant.
        center : array, shape (*point_shape)
            Statistic c, at which the chains start.
        manifold : Manifold
            Manifold of the outputs.
        sigmas : array, shape (C,)
            Scale σ of each chain.
        rng : numpy.random.Generator
            Generator of the draws.
        """


SAMPLERS = Registry[Callable[..., Chain]]("samplers", {}, word="sampler")
"""Name of a sampler that is not exact → ``make(burn_in, start=…)``."""


class Draws(NamedTuple):
    """Independent outputs of a mechanism, and how they were made.

    Attributes
    ----------
    points : array, shape (size, *point_shape)
        The outputs.
    diagnostics : Diagnostics
        Record of how they were made.
    nonprivate_distance : array, shape (size,), or None
        dist(output, statistic) as the sampler knows it, for experiments. Near the limit of
        existence a matrix of doubles cannot carry its own small eigenvalues, and no function of
        `points` gives that distance any more.
    """

    points: Points
    diagnostics: Diagnostics
    nonprivate_distance: FloatArray | None = None


class Mechanism(Protocol):
    """A calibrated mechanism: what it costs, how wide its noise is, and how to draw from it."""

    @property
    def budget(self) -> Budget:
        """Cost of one draw."""

    @property
    def sensitivity(self) -> float:
        """Δ: the largest move of the statistic when one record is replaced."""

    @property
    def manifold(self) -> Manifold:
        """Manifold of the statistic."""

    @property
    def sigma(self) -> float:
        """Scale of the noise in `law`."""

    @property
    def law(self) -> str:
        """The law of the output, for statistic c and footpoint p0."""

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` outputs for the statistic `center`, one point or one point per output.

        Parameters
        ----------
        center : array, shape (*point_shape) or (size, *point_shape)
            Statistic c: one point, or one a draw.
        base : array, shape (*point_shape) or (size, *point_shape), optional
            Footpoint, public, for mechanisms that have one.
        size : int
            Number of independent draws.
        rng : numpy.random.Generator
            Generator of the draws.

        Examples
        --------
        >>> import numpy as np
        >>> from covdp import GDP, MANIFOLDS, MECHANISMS
        >>> manifold = MANIFOLDS["spd-log-euclidean"](k=5)
        >>> mechanism = MECHANISMS["ewg"].calibrate(GDP(0.5), sensitivity=0.01, manifold=manifold)
        >>> rng = np.random.default_rng(0)
        >>> mechanism.sample(np.eye(5), size=3, rng=rng).points.shape
        (3, 5, 5)
        """

    def expected_error(self, power: int = 1) -> float | None:
        """Return E dist(output, statistic)^power exactly, or None if no law gives it.

        Parameters
        ----------
        power : int
            Power p of the distance.
        """


@dataclass(frozen=True)
class CalibratedMechanism:
    """Fields of every mechanism, see `Mechanism`; one with a law of its error says its mean.

    Attributes
    ----------
    budget : Budget
        Cost of one draw.
    sensitivity : float
        Replace-one sensitivity Δ > 0 of the statistic.
    manifold : Manifold
        Manifold of the statistic.
    sigma : float
        Scale σ > 0 of the noise.
    """

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float

    def expected_error(self, power: int = 1) -> float | None:
        """Return None: no law gives the mean distance from output to statistic.

        Parameters
        ----------
        power : int
            Power p of the distance.
        """
        return None


class HardenedDraw(NamedTuple):
    """One output drawn with hardened noise, the σ that was used, and the certified ρ.

    Attributes
    ----------
    point : array, shape (*point_shape)
        Output.
    sigma : float
        Standard deviation σ that was used.
    rho : float
        Certified ρ of zCDP.
    """

    point: Points
    sigma: float
    rho: float


class Neighbours(NamedTuple):
    """Two inputs of a mechanism that are as far apart as Δ allows, and what tells them apart.

    Attributes
    ----------
    left, right : array
        The inputs: statistics, or records (`Family.statistic`).
    base : array, or None
        The footpoint.
    score : callable
        ln p(y)/q(y) of outputs y, up to a constant: p is the law from `left`, q that from `right`.
    exact : bool
        True if it is that; else something that rises with it.
    """

    left: Points
    right: Points
    base: Points | None
    score: Callable[[Points], FloatArray]
    exact: bool = True


@dataclass(frozen=True)
class Family:
    """One row of the table of mechanisms.

    Attributes
    ----------
    name, title, in_words : str
        Key of the registry; name in full; what a paper says, with its reference.
    make : callable
        ``make(budget, *, sensitivity, manifold, ...) -> Mechanism``, for what `refusal` lets in.
    definitions : tuple of str
        The definitions of privacy for which the guarantee is proven.
    proven : callable
        Predicate of a manifold: the guarantee is proven, and the noise can be drawn.
    price : callable
        Cost of its noise at a scale, in any definition, as `covdp.privacy.gaussian_cost`:
        ``price(sigma, sensitivity, target, delta=…, alpha=…)``, and its `options`.
    neighbours : callable
        Two inputs Δ apart on which a calibrated mechanism leaks most, and a score: for the audit.
    residuals : callable, optional
        ``residuals(mechanism, points, center, base)``: the noise of outputs around one centre, as
        independent standard normals (n, m): for the audit. None where nothing but the score tells.
    note : str
        One line: why, or what to know before using it.
    samplers : tuple of str
        ``"exact"``: independent draws of the law itself; ``"chain"``: the published Markov chain.
    statistic : {"mean", "records"}
        Statistic that it takes in place of the centre: a mean, or the records.
    moves : {"distance", "gradient", "embedding"}
        Move that Δ bounds: of the mean in the manifold's distance, of the gradient of its
        objective, or of the mean as it is stored.
    embedded : bool
        True if the output is left as it is stored, off the manifold.
    wrapped : bool
        True if it needs the chart at its footpoint only.
    noise_norms : callable, optional
        ``noise_norms(sigma, dim)``: a quadrature for the norm of wrapped noise of scale σ, where
        its law is spherical, by which errors are bounded (``wrapping.py``).
    hardened : callable, optional
        ``hardened(mechanism, statistic, noise)``: one draw at the origin with the noise of a source
        that survives floating point. None: there is no such sampler, so no release.
    options : tuple of str
        Further options of ``make``: ``"analytic"``, ``"degree"``, ``"radius"``.
    typical : float
        A sensitivity of a usual size, at which it is audited.
    """

    name: str
    title: str
    in_words: str
    make: Callable[..., Mechanism]
    definitions: tuple[str, ...]
    proven: Callable[[Manifold], bool]
    price: Callable[..., Budget]
    neighbours: Callable[[Mechanism], Neighbours]
    note: str
    samplers: tuple[str, ...] = ("exact",)
    statistic: Literal["mean", "records"] = "mean"
    moves: Literal["distance", "gradient", "embedding"] = "distance"
    embedded: bool = False
    wrapped: bool = False
    noise_norms: Callable[[float, int], Norms] | None = None
    hardened: Callable[[Mechanism, Points, Noise], HardenedDraw] | None = None
    residuals: Callable[[Any, Points, Points, Any], FloatArray] | None = None
    options: tuple[str, ...] = ()
    typical: float = 0.25

    @property
    def pure(self) -> bool:
        """True if its exact draw satisfies pure DP."""
        return "pure" in self.definitions

    @property
    def manifolds(self) -> tuple[str, ...]:
        """Names of the known manifolds on which the guarantee is proven."""
        return tuple(name for name, kind in MANIFOLDS.items() if self.proven(small(kind)))

    @property
    def footpoint(self) -> bool:
        """True if an output may be a footpoint: a point of the manifold, drawn around one mean."""
        return self.moves == "distance"

    @property
    def release(self) -> bool:
        """True if a release may use it: its noise is available in hardened form."""
        return self.hardened is not None

    def refusal(
        self, definition: str, manifold: Manifold | str, sampler: str = "exact"
    ) -> str | None:
        """Return one line saying why the combination means nothing, or None if it is sound.

        A manifold may be given by the name it has in `MANIFOLDS`.

        Parameters
        ----------
        definition : str
            Name in `covdp.privacy.DEFINITIONS`.
        manifold : Manifold or str
            Manifold, or its name in `MANIFOLDS`.
        sampler : str
            "exact", or "chain" for the published Markov chain.
        """
        if sampler not in self.samplers:
            samplers = " or ".join(self.samplers)
            return f"{self.name} has the sampler {samplers}, found {sampler!r}; choose {samplers}"
        if isinstance(manifold, str):
            space = small(MANIFOLDS[manifold]) if manifold in MANIFOLDS else None
        else:
            space = manifold
        if space is None or not self.proven(space):
            return (
                f"{self.name} has no privacy guarantee on {getattr(manifold, 'name', manifold)}; "
                f"use one of {', '.join(self.manifolds)}"
            )
        if definition not in self.definitions:
            why = (
                "Gaussian noise has no bounded density ratio, so it is not pure DP at any scale"
                if definition == "pure"
                else f"{self.name} has no calibration to {definition}"
            )
            return f"{why}; use one of {', '.join(self.definitions)}"
        return None

    def calibrate(
        self, budget: Budget, *, sensitivity: float, manifold: Manifold, **options: Any
    ) -> Mechanism:
        """Return the mechanism of a budget.

        Parameters
        ----------
        budget : Budget
            Budget of one release.
        sensitivity : float
            Replace-one sensitivity Δ > 0 of the statistic, in the manifold's distance.
        manifold : Manifold
            Manifold of the outputs.
        **options : object
            Options of the family, such as `chain`.

        Raises
        ------
        PrivacyError
            With the message of `refusal` if there is one; for a sensitivity that is not positive.

        Examples
        --------
        >>> from covdp import GDP, MANIFOLDS, MECHANISMS
        >>> manifold = MANIFOLDS["spd-log-euclidean"](k=5)
        >>> mechanism = MECHANISMS["ewg"].calibrate(GDP(0.5), sensitivity=0.01, manifold=manifold)
        >>> mechanism.sigma
        0.02
        """
        sampler = "exact" if options.get("chain") is None else "chain"
        reason = self.refusal(budget.name, manifold, sampler)
        if reason is not None:
            raise PrivacyError(reason)
        return self.make(budget, sensitivity=sensitivity, manifold=manifold, **options)


def check_size(size: int) -> int:
    """Return `size` if it counts draws, else raise `ConfigError`.

    Parameters
    ----------
    size : int
        Candidate number of draws.
    """
    if size < 1:
        raise ConfigError(f"size must be at least 1, found {size}; ask for one draw or more")
    return size


def check_centers(center: Points, shape: tuple[int, ...], size: int) -> Points:
    """Return `center` as an array of one point or of one a draw, else raise `DomainError`.

    Parameters
    ----------
    center : array, shape (*shape) or (size, *shape)
        Candidate statistic.
    shape : tuple of int
        Shape of one point.
    size : int
        Number of independent draws.
    """
    points = np.asarray(center)
    if points.shape not in (shape, (size, *shape)):
        raise DomainError(
            f"a centre or base must be one point of shape {shape} or one per draw, "
            f"{(size, *shape)}; found {points.shape}"
        )
    if not np.isfinite(points).all():
        raise DomainError("a centre or base must be finite, found NaN or infinity; check the data")
    return points


def small(kind: Callable[..., Manifold]) -> Manifold:
    """Return a small member of a kind of manifold; raise `ConfigError` if it offers none.

    Parameters
    ----------
    kind : callable
        Class of manifolds.
    """
    dim, make = getattr(kind, "small", None), getattr(kind, "of_dimension", None)
    if dim is None or make is None:
        raise ConfigError(
            f"{kind} offers no small member, on which mechanisms are tried; add small and "
            "of_dimension"
        )
    return cast(Manifold, make(dim))


def hadamard(manifold: Manifold) -> bool:
    """Return True if log is a contraction, which wrapped noise needs.

    Parameters
    ----------
    manifold : Manifold
        Manifold to ask.
    """
    return manifold.hadamard


def radial(manifold: Manifold) -> bool:
    """Return True if the law of distances from a centre is known.

    Parameters
    ----------
    manifold : Manifold
        Manifold to ask.
    """
    has_law = hasattr(manifold, "area") or hasattr(manifold, "spectral_order")
    return manifold.flat or has_law


def embedded(manifold: Manifold) -> bool:
    """Return True if points are vectors of a space around the manifold.

    Parameters
    ----------
    manifold : Manifold
        Manifold to ask.
    """
    return isinstance(manifold, EmbeddedManifold)


KNG_RECORDS = 2
"""Size n of the data sets of the K-norm gradient mechanism; one of the records is replaced."""
FAR = 0.5
"""Distance of p0 from the manifold's origin."""


def diagonal(dim: int) -> FloatArray:
    """Return u = (1, …, 1)/√d.

    Parameters
    ----------
    dim : int
        Dimension d.
    """
    return np.full(dim, 1.0 / math.sqrt(dim))


def opposite(manifold: Manifold, reach: float) -> tuple[Points, Points, Points]:
    """Return p0, `FAR` along the first axis, and the points at ±`reach` of its geodesic along u.

    Parameters
    ----------
    manifold : Manifold
        Manifold on which neighbours are placed.
    reach : float
        Distance of each point from the one between them.
    """
    base = manifold.exp(manifold.origin, FAR * np.eye(manifold.dim)[0])
    step = reach * diagonal(manifold.dim)
    return base, manifold.exp(base, step), manifold.exp(base, -step)
