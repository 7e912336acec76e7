"""The public region that holds every record, and the map that puts a point back into it.

Each region here is convex for its manifold (in coordinates if flat, along geodesics if not), so it
holds the Fréchet mean of records in it, and the metric projection onto it moves no point farther
from any point of the region: a private mean that is projected is never worse for it, and it costs
no privacy. Next on the path: ``prior.py``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold, Point, sym_eig, sym_exp, sym_log, unvecd, vecd
from pipeline.geometry.linalg import assemble
from pipeline.mean.domain import CovarianceDomain, Domain, center_of
from pipeline.mean.spectrum import fit_spectrum

TOLERANCE = 1e-6
"""A spectrum whose logarithms are this near to the region stays as it is, to the last bit."""


@dataclass(frozen=True)
class Region:
    """A convex set of records.

    Attributes
    ----------
    inside : callable
        The metric projection onto the set, ``(..., *point_shape)`` to the same.
    diameter : float
        D: the largest distance between two of its points.
    condition : float
        Largest condition number of its points, where they are matrices.
    """

    inside: Callable[[Point], Point]
    diameter: float
    condition: float = 1.0


def region(domain: Domain, manifold: Manifold) -> Region:
    """Return the region of `domain`: by its spectrum, by its Cholesky factor, or a ball.

    **Spectrum** (log-Euclidean, affine-invariant): {X : X ⪰ η·Id, tr X ≤ T + kη}. It is convex in
    log X, as λ_min is concave and tr exp is convex; and along affine-invariant geodesics X #_t Y,
    as X, Y ⪰ η·Id gives X #_t Y ⪰ η·Id (the geometric mean is monotone) and
    tr(X #_t Y) ≤ tr(X)^{1−t}·tr(Y)^t. In both metrics dist(X, Y) ≥ ‖ln λ(X) − ln λ(Y)‖ for ordered
    spectra (Lidskii; Gelfand and Naimark), with equality for equal eigenvectors: so the projection
    keeps the eigenvectors and projects the vector of log-eigenvalues (``spectrum.py``).

    **Cholesky factor** (log-Cholesky), X = L·Lᵀ: ½ ln η ≤ ln L_ii ≤ ½ ln(v_i + η) and
    Σ_{j<i} L_ij² ≤ v_i, a product of intervals and balls, projected factor by factor.

    **Ball** (anything else): {x : dist(centre, x) ≤ r} around the domain's centre. Balls of a
    Hadamard manifold are convex, and so are those that a mechanism accepts on positive curvature;
    the projection shortens the geodesic from the centre.
    """
    if isinstance(domain, CovarianceDomain) and manifold.name in COVARIANCE_REGIONS:
        return COVARIANCE_REGIONS[manifold.name](domain, manifold)
    return _ball(domain, manifold)


def _through_logs(
    project: Callable[[FloatArray], FloatArray], manifold: Manifold
) -> Callable[[Point], Point]:
    """Return `project`, a map of log X in coordinates, as a map of the manifold's points."""
    if len(manifold.point_shape) == 1:  # a chart: points are these coordinates
        return project

    def points_inside(points: Point) -> Point:
        before = vecd(sym_log(points))
        after = project(before)
        moved = (after != before).any(axis=-1)[..., None, None]
        return np.where(moved, sym_exp(unvecd(after)), points)

    return points_inside


def _spectral(domain: CovarianceDomain, manifold: Manifold) -> Region:
    low, total = math.log(domain.eta), domain.trace + len(domain.variances) * domain.eta

    def project(coordinates: FloatArray) -> FloatArray:
        values, vectors = sym_eig(unvecd(coordinates))
        fitted = fit_spectrum(values, low, total)
        moved = (np.abs(fitted - values) > TOLERANCE).any(axis=-1, keepdims=True)
        return np.where(moved, vecd(assemble(vectors, fitted)), coordinates)

    slack = 2.0 * math.sqrt(len(domain.variances)) * TOLERANCE
    if len(manifold.point_shape) == 2:  # matrices and their factors miss what the logarithm says
        slack += 2.0 * domain.rounding
    condition = total / domain.eta * (1.0 + domain.rounding)
    return Region(_through_logs(project, manifold), domain.diameter + slack, condition)


def _cholesky(domain: CovarianceDomain, manifold: Manifold) -> Region:
    variances = np.array(domain.variances)
    k = len(variances)
    low, high = 0.5 * math.log(domain.eta), 0.5 * np.log(variances + domain.eta)
    rows = np.tril_indices(k, -1)[0]
    width = 4.0 * variances[1:].sum() + np.sum((high - low) ** 2)

    def project(coordinates: FloatArray) -> FloatArray:
        out = np.array(coordinates)
        out[..., :k] = np.clip(out[..., :k], low, high)
        for row in range(1, k):
            mine = k + np.flatnonzero(rows == row)
            size = np.linalg.norm(out[..., mine], axis=-1, keepdims=True)
            limit = math.sqrt(variances[row])
            out[..., mine] *= np.where(size > limit, limit / np.maximum(size, limit), 1.0)
        return out

    def points_inside(points: Point) -> Point:
        if len(manifold.point_shape) == 1:
            return project(points)
        origin = manifold.origin
        return manifold.exp(origin, project(manifold.log(origin, points)))

    return Region(points_inside, math.sqrt(width) * (1 + 1e-12))


def _ball(domain: Domain, manifold: Manifold) -> Region:
    radius, center = domain.radius, center_of(domain, manifold)

    def project(points: Point) -> Point:
        spokes = manifold.log(center, points)
        size = np.linalg.norm(spokes, axis=-1, keepdims=True)
        inner = manifold.exp(center, spokes * (radius / np.maximum(size, radius)))
        far = (size > radius).reshape(size.shape[:-1] + (1,) * len(manifold.point_shape))
        return np.where(far, inner, points)

    spread = math.sqrt(2.0) * radius if len(manifold.point_shape) == 2 else 0.0
    return Region(project, 2.0 * radius, math.exp(min(spread, 700.0)))


COVARIANCE_REGIONS: dict[str, Callable[[CovarianceDomain, Manifold], Region]] = {
    "spd-log-euclidean": _spectral,
    "spd-affine-invariant": _spectral,
    "spd-log-cholesky": _cholesky,
}
"""Manifold → its region of covariance descriptors."""
