"""Along which geodesics the images of a class differ most, and how many of them can be trusted.

The principal geodesics through the released mean are those in the directions of the eigenvectors of
the raw covariance, of eigenvalues λ_1 ≥ λ_2 ≥ …. With e the norm of its noise, the plane of the
first k leans from the true one by an angle whose sine is at most e/(λ_k − λ_{k+1} − e) (Davis and
Kahan 1970, with Weyl's inequality). The law of the noise is known: its norm is taken where 95 % of
draws are below. The first k are trusted where that bound is at most ½, so 30 degrees.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.geometry import Manifold, chart_of, from_chart
from covdp.inference.released import Released, chart_jacobian, read_released
from covdp.mean import NoisyMoments
from covdp.mean.noisy_moments import raw_covariance
from covdp.mean.sums import FACTOR

NOISE_DRAWS, QUANTILE, LEAN = 200, 0.95, 0.5
"""Draws of the noise, the share of them below its norm, and the largest bound that is trusted."""


@dataclass(frozen=True, eq=False)
class PrincipalGeodesics:
    """Principal geodesics of a released class.

    Attributes
    ----------
    manifold : Manifold
    place : array, shape (*space.point_shape)
        The released mean, which they pass, in the chart of a flat manifold.
    directions : array, shape (d, d)
        Unit vectors in coordinates at the place, the widest first.
    variances : array, shape (d,)
        Variances of the images along them.
    trusted : int
        Number of the first that are more than noise.
    """

    manifold: Manifold
    place: NDArray[np.float64]
    directions: FloatArray
    variances: FloatArray
    trusted: int

    def along(self, which: int, deviations: float) -> NDArray[np.float64]:
        """Return the point so many standard deviations along a geodesic, from 0.

        Parameters
        ----------
        which : int
            Number of the geodesic, from 0, the widest.
        deviations : float
            Distance from the mean, in standard deviations of the images along it.
        """
        step = deviations * np.sqrt(self.variances[which]) * self.directions[which]
        point = chart_of(self.manifold).exp(self.place, step)
        return np.asarray(from_chart(self.manifold, point))


def principal_geodesics(released: Released) -> PrincipalGeodesics:
    """Return the principal geodesics of a released class.

    Parameters
    ----------
    released : Released
        Release, or entry of a document, with a second moment.

    Raises
    ------
    ConfigError
        When it was released without a second moment.
    """
    entry = read_released(released)
    moments, space = entry.noisy_moments, entry.space
    matrix = raw_covariance(moments)  # refuses first: a mean without one may have no logarithm
    turned = chart_jacobian(space, moments.base, space.log(moments.base, entry.place), entry.place)
    values, vectors = np.linalg.eigh(turned.T @ matrix @ turned)
    values, directions = np.maximum(values[::-1], 0.0), vectors.T[::-1]
    error = noise_norm(moments, moments.axes @ turned)
    gaps = values[:-1] - values[1:] - error
    sure = np.flatnonzero((gaps > 0.0) & (error <= LEAN * gaps))
    trusted = int(sure[-1]) + 1 if len(sure) else 0
    return PrincipalGeodesics(entry.manifold, entry.place, directions, values, trusted)


def noise_norm(observed: NoisyMoments, axes: FloatArray) -> float:
    """Return the spectral norm that the noise of the covariance seldom exceeds, along `axes`.

    It is that of M and of v: E − v·εᵀ − ε·vᵀ − (ε·εᵀ − σ²·Id), drawn with a generator of a fixed
    seed, so that it is the same for the same release.

    Parameters
    ----------
    observed : NoisyMoments
        Released numbers of the class, with the scale of their noise.
    axes : array, shape (d, d)
        Coordinates of one unit of each number.
    """
    rng, d = np.random.default_rng(0), len(observed.vector)
    rows, columns = np.triu_indices(d)
    upper = rng.standard_normal((NOISE_DRAWS, len(rows))) * observed.sigma / FACTOR
    moment = np.zeros((NOISE_DRAWS, d, d))
    moment[:, rows, columns] = upper * np.where(rows == columns, 1.0, np.sqrt(0.5))
    moment += np.triu(moment, 1).swapaxes(1, 2)
    noise = observed.sigma * rng.standard_normal((NOISE_DRAWS, d))
    vectors = observed.vector + noise
    moment -= vectors[:, :, None] * vectors[:, None, :]
    moment += np.outer(observed.vector, observed.vector) + observed.sigma**2 * np.eye(d)
    norms = np.linalg.norm(axes.T @ moment @ axes, ord=2, axis=(1, 2))
    return float(np.quantile(norms, QUANTILE))
