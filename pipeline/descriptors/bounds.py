"""Bounds on how far apart two descriptors can be, proved for all images of a size, and checked.

No bound sees data. What is used of an image: R − η·Id is a covariance matrix, so R ⪰ η·Id;
its diagonal is at most v_1, …, v_k (`Descriptor.variances`), so tr(R − η·Id) ≤ T = Σ v_j; and the
grid coordinates x, y have fixed variances and covariance 0. Of a Gaussian embedding R − η·Id need
not be one: its least eigenvalue is at least that of `Facts.least`, and v_j ≥ R_jj − η still.

**Depth.** None of these knows how many slices a volume has. Of all facts only ``rounding`` does,
and grows with it, so those of the deepest volumes hold for all of one height and width.

**Masks.** With S any non-empty set of pixels R − η·Id is still a covariance matrix of features
with the same ranges at each pixel, so v_j = b_j²/4 (Popoviciu) and ‖φ‖² ≤ B hold. What does not is
what all pixels together make of x and y: their variances are at most ¼ and their covariance is
any. So a masked domain has no grid (`Facts.grid` = 0), and v = ¼ for them; nothing else changes.

**Radius and diameter** belong to the metric, and are proved where it is: `geometry.covariances` for
log-Euclidean and affine-invariant, `geometry.spd` for log-Cholesky.

**Rounding.** Radii and diameters are raised by 1e-12 of their value: their formulas take fewer
than 100 floating-point steps of relative error 2⁻⁵³ ≈ 1.1e-16, so the result is an upper bound.

**Verification.** `verify` says of a class whether the bound holds on descriptors, and how tight it
is. The bound is a theorem about images; checking it guards against everything a theorem does not
see: descriptors made elsewhere, a wrong η, a filter without gain 1. What it says is computed from
the data without noise: it belongs in experiments and never in a release.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from covdp.arrays import FloatArray, check_square
from covdp.descriptors.base import Descriptor, check_eta, check_sides
from covdp.descriptors.describe import find_descriptor
from covdp.errors import ConfigError, DomainError, MismatchError
from covdp.geometry import MANIFOLDS
from covdp.geometry.covariances import Covariances, Facts, covariances_of

UPWARDS = 1.0 + 1e-12
"""Covers fewer than 100 roundings of 2⁻⁵³ each."""
ROUNDOFF = 2.0**-53
"""u, the unit roundoff of double precision."""


@dataclass(frozen=True)
class DescriptorDomain:
    """Public facts on the descriptors of all images of one size. Build it with `domain`.

    Attributes
    ----------
    descriptor, height, width, eta, manifold, depth, masked
        Descriptors that the facts are about; sizes in pixels, `depth` None for images.
    k, dimension : int
        Order of the matrices, and d = k(k + 1)/2.
    radius : float
        r ≥ dist(R, Id) in the manifold's distance.
    diameter : float
        D ≥ dist(R, R') for any two images; replacing one of n records moves their mean by ≤ D/n.
    variances : tuple of float
        v_j ≥ R_jj − η; the first two are equalities if there is a grid, and no mask.
    trace : float
        T = Σ v_j ≥ tr(R − η·Id).
    rounding : float
        Bound on the distance of the computed from the exact chart coordinates of a descriptor
        (logarithm, or log-Cholesky coordinates), the numeric margin of `radius` and `diameter`.
    typical, correlations, typical_means : tuple
        Usual values of the descriptor, see `Descriptor`: expected, not proven. Means are scaled.
    means : tuple of float
        Largest scaled mean of each feature after the constant, of a Gaussian embedding; else empty.
    formulas : (str, str, str)
        Formulas of `radius` and `diameter`, and the meaning of symbols, as text.
    """

    descriptor: str
    height: int
    width: int
    eta: float
    manifold: str
    k: int = field(repr=False)
    dimension: int = field(repr=False)
    radius: float = field(repr=False)
    diameter: float = field(repr=False)
    variances: tuple[float, ...] = field(repr=False)
    trace: float = field(repr=False)
    rounding: float = field(repr=False)
    typical: tuple[float, ...] = field(default=(), repr=False)
    correlations: tuple[tuple[int, int, float], ...] = field(default=(), repr=False)
    depth: int | None = None
    masked: bool = False
    means: tuple[float, ...] = field(default=(), repr=False)
    typical_means: tuple[float, ...] = field(default=(), repr=False)
    formulas: tuple[str, str, str] = field(default=("", "", ""), repr=False)

    @property
    def images(self) -> dict[str, int]:
        """Facts that documents state of the images: sides, a depth of 0 if flat, and masked."""
        return {
            "image_height": self.height,
            "image_width": self.width,
            "image_depth": self.depth or 0,
            "masked": self.masked,
        }

    @property
    def in_words(self) -> str:
        """Radius and diameter with their formulas, and what stands in these, as text."""
        radius, diameter, symbols = self.formulas
        eta = f"{self.eta:g}".replace("e-0", "e-")
        bounds = f"r = {radius} = {self.radius:.2f}; D = {diameter} = {self.diameter:.2f}"
        return f"{bounds}; η = {eta}; {symbols}"

    @property
    def facts(self) -> Facts:
        """Facts that hold of these descriptors whatever is known of their grid."""
        return Facts(self.eta, self.variances, self.trace, means=self.means)

    @property
    def largest_eigenvalue(self) -> float:
        """T + kη, which no eigenvalue of a descriptor exceeds."""
        return (self.trace + self.k * self.eta) * UPWARDS


def domain(
    descriptor: str,
    *,
    height: int,
    width: int,
    depth: int | None = None,
    eta: float = 1e-6,
    manifold: str = "spd-log-euclidean",
    masked: bool = False,
) -> DescriptorDomain:
    """Return the proven bounds of a descriptor on images of a size, whatever the images are.

    Parameters
    ----------
    descriptor : str
        A key of `DESCRIPTORS`.
    height, width : int
        Size of the images in pixels.
    depth : int, optional
        Slices of volumes. May be left out for exact descriptors: no fact on them depends on it.
    eta : float
        The η of `describe`.
    manifold : str
        "spd-log-euclidean", "spd-affine-invariant" or "spd-log-cholesky".
    masked : bool
        True if the images have masks: then the facts hold for any non-empty masks.

    Returns
    -------
    DescriptorDomain
        For 28×28 and η = 1e-6, log-Euclidean: `oct5` r = 30.892, D = 54.081; `grid9` r = 41.447,
        D = 39.491; `grid11` r = 45.821, D = 43.637. With masks `grid9` D = 39.874,
        `grid11` D = 43.990. `vol7`, volumes of any size: r = 36.552, D = 64.014.

    Raises
    ------
    ConfigError
        When the descriptor or manifold is unknown, or η too small for floats to hold.
    DatasetError
        When the size is too small for the descriptor, or has a depth where it has none.

    References
    ----------
    Radius: "Differentially private Fréchet mean on SPD matrices with the log-Euclidean metric",
    Theorem 5. Diameter: proved at the top of this file.

    Examples
    --------
    >>> from covdp import domain
    >>> facts = domain("oct5", height=28, width=28)
    >>> f"r = {facts.radius:.2f}, D = {facts.diameter:.2f}"
    'r = 30.89, D = 54.08'
    """
    spec = find_descriptor(descriptor)
    if depth is not None and spec.dimensions == 2:
        raise MismatchError(
            f"{spec.name} describes {spec.takes}, which have no depth; leave it out"
        )
    if depth is None and spec.dimensions == 3 and not spec.exact:
        raise ConfigError(f"{spec.name} rounds its sums, so its domain needs the depth; add depth=")
    sides = (height, width) if depth is None else (depth, height, width)
    check_sides(spec, sides)
    check_eta(eta)
    covariances = covariances_of(MANIFOLDS.get(manifold))
    if covariances is None:
        proved = ", ".join(name for name, kind in MANIFOLDS.items() if covariances_of(kind))
        raise ConfigError(f"no bound is proved for {manifold!r}; choose one of {proved}")
    variances = tuple(float(v) for v in spec.variances(height, width, masked))
    trace = math.fsum(variances) * UPWARDS
    means = tuple(spec.means * b for b in spec.ranges[1:]) if spec.means else ()
    facts = Facts(eta, variances, trace, spec.norm_bound, 0 if masked else spec.grid, means)
    radius, diameter = covariances.bounds(facts)
    return DescriptorDomain(
        descriptor=descriptor,
        height=height,
        width=width,
        eta=eta,
        manifold=manifold,
        k=spec.k,
        dimension=spec.dimension,
        radius=radius * UPWARDS,
        diameter=diameter * UPWARDS,
        variances=variances,
        trace=trace,
        rounding=_rounding(spec, math.prod(sides), facts, covariances),
        typical=spec.typical,
        correlations=spec.correlations,
        depth=depth,
        masked=masked,
        means=means,
        formulas=covariances.formulas(facts),
        typical_means=tuple(spec.means * mean for mean in spec.typical_means[1:]),
    )


def domain_of(
    descriptor: str,
    shape: tuple[int, ...],
    *,
    eta: float = 1e-6,
    manifold: str = "spd-log-euclidean",
    masked: bool = False,
) -> DescriptorDomain:
    """Return the `domain` of images of a shape, that of one image: (h, w), (h, w, 3), (d, h, w).

    Parameters
    ----------
    descriptor : str
        Name in `DESCRIPTORS`.
    shape : tuple of int
        Shape of one image, (h, w), (h, w, 3) or (d, h, w).
    eta : float
        Least eigenvalue η > 0 of every exact descriptor.
    manifold : str
        Name of a manifold of SPD matrices in `MANIFOLDS`.
    masked : bool
        True if descriptors are of pixels inside masks.

    Examples
    --------
    >>> from covdp.descriptors import domain_of
    >>> f"{domain_of('oct5', (28, 28)).diameter:.2f}"
    '54.08'
    """
    spec = find_descriptor(descriptor)
    if not spec.fits(shape):
        raise MismatchError(
            f"{spec.name} describes {spec.takes}, found images of shape {shape}; choose another "
            "descriptor"
        )
    *depth, height, width = shape[: spec.dimensions]
    return domain(
        descriptor,
        height=height,
        width=width,
        depth=depth[0] if depth else None,
        eta=eta,
        manifold=manifold,
        masked=masked,
    )


def _rounding(spec: Descriptor, pixels: int, facts: Facts, covariances: Covariances) -> float:
    """Return the bound called `DescriptorDomain.rounding`.

    With u = 2⁻⁵³, the computed descriptor R̂ has ‖R̂ − R‖_F ≤ 4u(T + kη) if its moments are exact
    (conversion, division and + η each round an entry once), and ≤ (3|S| + 32)·u·B if not: a sum of
    |S| terms in any order is off by at most |S|·u times the sum of their absolute values, three
    such sums meet in an entry, E|ab| and E|a|·E|b| are at most √(E a²·E b²), and the Frobenius norm
    of that matrix is Σ E a² ≤ B; the 32 covers the steps outside the sums, and that a feature
    itself, magnitude or angle, may be off by 4u of its value, which twice meets in an entry. A
    backward stable eigen or Cholesky decomposition counts for at most 16·k·u·(T + kη). Let e be the
    total.

    With η of 4e or more each factorisation succeeds, and its correction is relative to the matrix
    at most e/(η − e) ≤ 1/3 (``mean/records.py``). What the errors make of the coordinates is the
    metric's (`Covariances.rounding`).

    An entry of a Gaussian embedding is rounded at most 8 times more, each by u·√(R_aa·R_bb): there
    the 4 is 12, and e is compared with `Covariances.floor` in the place of η.
    """
    eta, largest = facts.eta, math.fsum(facts.variances) + spec.k * facts.eta
    steps = 12 if facts.means else 4
    moments = steps * largest if spec.exact else (3 * pixels + 32) * spec.norm_bound
    error = moments * ROUNDOFF + 16 * spec.k * ROUNDOFF * largest
    way = "raise it (the papers use 1e-6)"
    if facts.means:
        error *= eta / covariances.floor(facts)
        way = f"raise it, or take {spec.manifold}"
    if 4.0 * error >= eta:
        raise ConfigError(
            f"eta must be larger than 4 times the rounding errors of {spec.name}, {error:.1e} at "
            f"this size, found {eta}; {way}"
        )
    return covariances.rounding(error / (eta - error), largest)


class Bound(NamedTuple):
    """The bound on one class; not private.

    Attributes
    ----------
    label : int
        Index of the class.
    class_name : str
        Name of the class.
    n : int
        Number of images.
    radius : float
        Proven radius r, in the metric's distance.
    diameter : float
        Proven diameter D, in the metric's distance.
    least_eigenvalue : float
        Least eigenvalue that was found.
    largest_trace : float
        Largest trace that was found.
    """

    label: int
    class_name: str
    n: int
    largest_norm: float
    """Largest dist(R, Id), 0 if the class is empty."""
    radius: float
    ratio: float
    """largest_norm / radius: how tight the bound is, at most 1."""
    diameter: float
    least_eigenvalue: float
    largest_trace: float
    ok: bool
    """largest_norm ≤ r, least eigenvalue ≥ η, trace ≤ T + kη and R_jj ≤ v_j + η, up to rounding."""
    farthest: int = 0
    """Place in the class of the first descriptor at `largest_norm`, 0 if the class is empty."""


def verify(chunks: Iterable[FloatArray], domain: DescriptorDomain, label: int, name: str) -> Bound:
    """Return the largest distance to Id of the descriptors of a class next to the proven radius.

    The exact figures obey the bounds exactly (a constant image has R = η·Id and reaches r), the
    computed ones up to ``domain.rounding``: that, and no more, is the tolerance.

    Parameters
    ----------
    chunks : iterable of array, shape (m, k, k)
        Descriptors made by `describe` with the descriptor, size and η of `domain`; there may be
        none.
    domain : DescriptorDomain
        The bounds.
    label, name : int, str
        Index and name of the class.

    Returns
    -------
    Bound
        Nothing is raised for a violation: see `require`.

    Raises
    ------
    DomainError
        When the descriptors are not finite (m, k, k) matrices.
    """
    n, largest, farthest, least, trace = 0, 0.0, 0, math.inf, 0.0
    diagonal = np.zeros(domain.k)
    for chunk in chunks:
        matrices = check_square(chunk, k=domain.k)
        eigenvalues = np.asarray(np.linalg.eigvalsh(matrices), dtype=np.float64)
        distances = _distances(matrices, eigenvalues, domain)
        if np.max(distances, initial=-math.inf) > largest:
            farthest, largest = n + int(np.argmax(distances)), float(np.max(distances))
        n += len(matrices)
        least = float(np.min(eigenvalues, initial=least))
        each = np.diagonal(matrices, axis1=-2, axis2=-1)
        diagonal = np.maximum(diagonal, np.max(each, axis=0, initial=0.0))
        trace = float(np.max(np.sum(each, axis=-1), initial=trace))
    extra = domain.eta * (1 + domain.rounding)
    ok = (
        largest <= domain.radius + domain.rounding
        and least >= domain.facts.least / (1 + domain.rounding)
        and trace <= domain.trace + domain.k * extra
        and bool(np.all(diagonal <= np.array(domain.variances) * UPWARDS + extra))
    )
    return Bound(
        label=label,
        class_name=name,
        n=n,
        largest_norm=largest,
        farthest=farthest,
        radius=domain.radius,
        ratio=largest / domain.radius,
        diameter=domain.diameter,
        least_eigenvalue=least,
        largest_trace=trace,
        ok=ok,
    )


def _distances(
    matrices: FloatArray, eigenvalues: FloatArray, domain: DescriptorDomain
) -> FloatArray:
    """Return dist(R, Id) of each matrix, infinite if floats cannot tell it positive definite."""
    out = np.full(len(matrices), np.inf)
    positive = eigenvalues[:, 0] > 1e-15 * domain.k * eigenvalues[:, -1]
    if positive.any():
        manifold = MANIFOLDS[domain.manifold](k=domain.k)
        out[positive] = manifold.dist(manifold.origin, matrices[positive])
    return out


def require(bounds: Sequence[Bound]) -> None:
    """Raise `DomainError` naming the first class that is outside its bound, if there is one.

    Parameters
    ----------
    bounds : sequence of Bound
        Bounds of the classes, as `covdp.descriptors.bounds` returns them.
    """
    for row in bounds:
        if not row.ok:
            raise DomainError(
                f"class {row.class_name}: distance to the identity {row.largest_norm:.6g} with "
                f"radius {row.radius:.6g}, least eigenvalue {row.least_eigenvalue:.3g}, trace "
                f"{row.largest_trace:.6g}: outside the proven domain; describe the images with "
                "the same descriptor, size and eta, or correct the ranges of your own descriptor"
            )
