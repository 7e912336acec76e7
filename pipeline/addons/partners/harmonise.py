"""Several sites put on one scale, from released values alone: one affine map a site.

Scanners differ, so one can tell from a descriptor which site it is of, and what is learned at one
site fails at another. Means and covariances by site are what remedies exchange (ComBat: Johnson, Li
and Rabinovic, Biostatistics 8(1), 2007; Fortin et al., NeuroImage 167, 2018); released ones serve.

**Means.** In common coordinates the mean of site s is M_s = Σ_c w_c·m_sc over its classes c, with
weights that are the same at all sites, so that a site where more are ill is not taken for another
scanner: w_c by the mean precision of the m_sc, in units in which W is Id. The common mean is
M = Σ f_s·M_s, f_s the share of site s in all records. d_s = M_s − M has the covariance V_s of
noise and of chance, W/n for a class of n. What scanners do is taken to be N(0, β·W), W the
covariance of single records within site and class: scanners move images along directions in which
images differ. β is where the d_s are most likely (empirical Bayes, as in ComBat), and the shift of
site s its posterior mean,

    δ_s = β·W·(β·W + V_s)⁻¹·d_s,    of error P_s = β·W − β·W·(β·W + V_s)⁻¹·β·W.

``covdp reproduce ours-harmonise`` measures it: of PneumoniaMNIST in five sites of 1,000 linear
discriminants tell the site of 0.43 of the images as they are, of 0.24 with δ_s of μ = 0.5, of 0.18
with means without noise. By hand, at μ = 0.1, of 0.57 with d_s, worse than nothing, and of 0.38.
V_s is too wide at n·μ of some hundreds, and a gain is shrunk as if it were in all directions. So by
hand a gain of 0.68 standard deviations was stated as 0.39, and 0.25 were left where 0.20 were
expected; at n = 1,000 and μ = 2 both were right.

**Refused.** Where ‖δ_s‖² is no larger than tr P_s the map would be noise: that site stays as it is,
and says so. If that is so of all sites there is nothing to harmonise.

**Covariances.** C_s, that of single records within the classes of a site, is mapped to C, that of
all sites together, by C^{½}·C_s^{−½} where its second moment is good enough: where the spectrum of
its noise, in units in which C is Id, ends below `SPREAD_EDGE` and before that of C_s begins. Else
the map is a shift: a direction in which C_s is mostly noise would be stretched at will.

Coordinates that are the same in all means, as ln L_11 of Gaussian embeddings is, are left alone.
All of it is post-processing of released bytes: it costs no privacy.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from covdp.addons.partners.coordinates import ClassCoordinates, common_coordinates, mean_covariance
from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.geometry import AffineMap, Manifold
from covdp.inference.released import Released
from covdp.mean.noisy_moments import noise_edge

SPREAD_EDGE = 1.0
"""Largest edge of the spectrum of the noise of a covariance, that of all sites being 1: in no
direction is noise as large as the records' own variance. Of `oct5` that is so from n·μ of about
10,000 on."""
LOG_BETA = (-20.0, 5.0)
"""Range in which ln β is searched."""
GRID = 51
"""Values of ln β that are tried first, ½ apart."""


class HarmonisedSite(NamedTuple):
    """Map of a site to the common scale.

    Attributes
    ----------
    shift : array, shape (d,)
        δ_s; 0 where it would be noise.
    effect, standard_error : float
        ‖δ_s‖ and its standard error √tr P_s.
    matrix : array, shape (d, d)
        A of the map; the identity where the map is a shift.
    spread : bool
        True if the second moment is good enough to map covariances.
    apart, left : float
        Distance of its mean from the common one, in standard deviations of single images in that
        direction (Mahalanobis): before, and expected after.
    reason : str
        Reason why it stays as it is; "" where it is mapped.
    """

    shift: FloatArray
    effect: float
    standard_error: float
    matrix: FloatArray
    spread: bool
    apart: float
    left: float
    reason: str


@dataclass(frozen=True, eq=False)
class Harmonisation:
    """Maps of sites to one scale.

    Attributes
    ----------
    manifold : Manifold
    base : array, shape (*space.point_shape)
        Point at which coordinates are taken, in the chart of a flat manifold.
    common : array, shape (d,)
        The common mean, in these.
    weights : array, shape (classes,)
        Weights w_c of the classes.
    sites : mapping of str to HarmonisedSite
        Map of each site, by its name.
    classes_before, classes_after : float
        Least distance of the means of two classes, in standard deviations of single images of all
        sites together: before, and expected after. NaN of one class.
    """

    manifold: Manifold
    base: NDArray[np.float64]
    common: FloatArray
    weights: FloatArray
    sites: Mapping[str, HarmonisedSite]
    classes_before: float
    classes_after: float

    def map_of(self, name: str) -> AffineMap:
        """Return the map of a site.

        Parameters
        ----------
        name : str
            Name of the site.
        """
        site = self.sites[name]
        centre = self.common + site.shift
        return AffineMap(self.manifold, self.base, centre, self.common, site.matrix)


def harmonise(released: Mapping[str, Sequence[Released]]) -> Harmonisation:
    """Return the maps that put sites on one scale.

    Parameters
    ----------
    released : mapping of str to sequence of Released
        Classes of each site, the same in the same order; two sites or more, of different people.

    Raises
    ------
    ConfigError
        When there are fewer, their classes or geometries differ, none holds a second moment, or all
        maps would be noise.
    """
    counts = {len(rows) for rows in released.values()}
    if len(released) < 2 or len(counts) != 1 or not min(counts):
        raise ConfigError(
            f"the same classes of two sites or more are harmonised, found {len(released)} sites "
            f"with {' and '.join(map(str, sorted(counts)))} classes"
        )
    many = counts.pop()
    flat = [row for rows in released.values() for row in rows]
    manifold, base, entries = common_coordinates(flat)
    sites = [entries[start : start + many] for start in range(0, len(entries), many)]
    sizes = np.array([[row.n for row in rows] for rows in sites], dtype=np.float64)
    shares, means = sizes.sum(axis=1) / sizes.sum(), np.array([row.mean for row in entries])
    keep = np.flatnonzero((means != means[0]).any(axis=0))
    if not len(keep):
        raise ConfigError("the means of all sites are the same; there is nothing to harmonise")
    inner, means = mean_covariance(entries)[np.ix_(keep, keep)], means.reshape(len(sites), many, -1)
    weights, errors = _weigh(sites, sizes, inner, keep)
    common = np.einsum("s,c,sci->i", shares, weights, means)
    away = (np.einsum("c,sci->si", weights, means) - common)[:, keep]
    scatter = _beta(away, inner, errors) * inner
    gains = np.stack([np.linalg.solve(scatter + error, scatter).T for error in errors])
    shifts, left = np.einsum("sij,sj->si", gains, away), scatter - gains @ scatter
    matrices = _matrices(sites, sizes, inner, keep)
    every = zip(released, shifts, left, matrices, strict=True)
    results = {
        name: _site(shift, rest, matrix, inner, keep, manifold.dim)
        for name, shift, rest, matrix in every
    }
    _refuse_noise(results)
    stays = np.array([bool(site.reason) for site in results.values()])
    classes = np.einsum("s,sci->ci", shares, means)[:, keep]
    between = np.einsum("s,si,sj->sij", shares, shifts, shifts)
    rest = np.tensordot(shares, left, 1)
    distances = (
        _least_distance(classes, inner + rest + part)
        for part in (between.sum(axis=0), between[stays].sum(axis=0))
    )
    return Harmonisation(manifold, base, common, weights, results, *distances)


def _site(
    shift: FloatArray,
    left: FloatArray,
    matrix: FloatArray | None,
    within: FloatArray,
    keep: NDArray[np.int64],
    dim: int,
) -> HarmonisedSite:
    """Return how a site is mapped, from its shift, of covariance `left`, and its matrix if any."""
    effect, error = float(np.linalg.norm(shift)), math.sqrt(np.trace(left))
    reason = "" if effect > error else "its shift is smaller than its standard error"
    moved, turned, spread = np.zeros(dim), np.eye(dim), matrix is not None and not reason
    if not reason:
        moved[keep] = shift
    if spread:
        turned[np.ix_(keep, keep)] = matrix
    before = left + np.outer(shift, shift)
    apart, rest = (
        math.sqrt(np.trace(np.linalg.solve(within, part)))
        for part in (before, before if reason else left)
    )
    return HarmonisedSite(moved, effect, error, turned, spread, apart, rest, reason)


def _refuse_noise(sites: Mapping[str, HarmonisedSite]) -> None:
    """Raise `ConfigError` where all maps would be noise."""
    if not all(site.reason for site in sites.values()):
        return
    name, site = max(sites.items(), key=lambda item: item[1].effect / item[1].standard_error)
    raise ConfigError(
        "all maps would be noise, as no site differs from the others by more than its standard "
        f"error: the difference of {name} is {site.effect / site.standard_error:.2g} standard "
        "errors, the largest of all; leave the sites as they are, or release with a larger budget"
    )


def _weigh(
    sites: Sequence[Sequence[ClassCoordinates]],
    sizes: FloatArray,
    within: FloatArray,
    keep: NDArray[np.int64],
) -> tuple[FloatArray, FloatArray]:
    """Return w_c, and the covariance of M_s − M of each site, (s, d, d)."""
    block = np.ix_(keep, keep)
    noises = np.array([[_error(row)[block] for row in rows] for rows in sites])
    weights = 1.0 / np.trace(np.linalg.solve(within, noises), axis1=-2, axis2=-1).mean(axis=0)
    weights /= weights.sum()
    errors = np.einsum("c,scij->sij", weights**2, noises)
    errors += (1.0 / sizes @ weights**2)[:, np.newaxis, np.newaxis] * within
    shares = sizes.sum(axis=1) / sizes.sum()
    total = np.einsum("s,sij->ij", shares**2, errors)  # that of M, as the M_s are independent
    return weights, (1.0 - 2.0 * shares)[:, np.newaxis, np.newaxis] * errors + total


def _error(row: ClassCoordinates) -> FloatArray:
    """Return the covariance of the error of a mean, shrunk as that of a release is, or not."""
    belief = row.moments.belief if len(row.parts) == 1 else None
    return row.predicted if belief is None else row.there(belief)


def _beta(away: FloatArray, within: FloatArray, errors: FloatArray) -> float:
    """Return β at which the differences of the means, (s, d), are most likely."""
    from scipy.optimize import minimize_scalar

    def surprise(log_beta: float) -> float:
        covariances = math.exp(log_beta) * within + errors
        _, logs = np.linalg.slogdet(covariances)
        squares = np.einsum("si,si->s", away, np.linalg.solve(covariances, away[..., None])[..., 0])
        return float(np.sum(logs + squares))

    # there may be several minima, the least of which is searched near the best of a grid
    grid = np.linspace(*LOG_BETA, GRID)
    near = min(grid, key=surprise)
    step = grid[1] - grid[0]
    ends = max(near - step, LOG_BETA[0]), min(near + step, LOG_BETA[1])
    return math.exp(float(minimize_scalar(surprise, bounds=ends, method="bounded").x))


def _matrices(
    sites: Sequence[Sequence[ClassCoordinates]],
    sizes: FloatArray,
    within: FloatArray,
    keep: NDArray[np.int64],
) -> list[FloatArray | None]:
    """Return C^{½}·C_s^{−½} of each site, None where its second moment is not good enough."""
    root, whitening = _power(within, 0.5), _power(within, -0.5)
    matrices = list[FloatArray | None]()
    for rows, own in zip(sites, sizes, strict=True):
        matrices.append(None)
        if any(row.single is None or len(row.parts) > 1 for row in rows):
            continue
        shares = own / own.sum()
        ends = [
            _edge(whitening @ (row.moments.axes @ row.jacobian)[:, keep].T, row) for row in rows
        ]
        spreads = [np.asarray(row.single)[np.ix_(keep, keep)] for row in rows]
        spread = np.tensordot(shares, spreads, 1)
        least = np.linalg.eigvalsh(whitening @ spread @ whitening)[0]
        if math.sqrt(float(np.sum((shares * ends) ** 2))) < min(SPREAD_EDGE, least):
            matrices[-1] = root @ _power(spread, -0.5)
    return matrices


def _edge(units: FloatArray, row: ClassCoordinates) -> float:
    """Return where the spectrum of U·N·Uᵀ ends at most, N the noise of the raw covariance.

    N has independent Gaussian entries of standard deviation at most s/√2 off the diagonal and s on
    it, 2√d·s/√2 the end of its own: E‖U·N·Uᵀ‖ ≤ 2·‖U‖·‖U‖_F·s/√2 (Chevet).
    """
    sizes = np.linalg.norm(units, 2) * np.linalg.norm(units)
    return float(noise_edge(row.moments) * sizes) / math.sqrt(len(row.mean))


def _power(matrix: FloatArray, power: float) -> FloatArray:
    """Return a power of a symmetric positive definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * values**power) @ vectors.T)


def _least_distance(means: FloatArray, covariance: FloatArray) -> float:
    """Return the least Mahalanobis distance between two of some means; NaN of one."""
    away = [first - second for first, second in combinations(means, 2)]
    squares = (float(step @ np.linalg.solve(covariance, step)) for step in away)
    return math.sqrt(min(squares, default=math.nan))
