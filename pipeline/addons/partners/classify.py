"""Which class a new image belongs to, decided by released classes alone: linear discriminants.

With x the coordinates of an image at a common base, m_c the released mean of class c and equal
priors, the discriminant of c is m_cᵀW⁻¹x − ½·m_cᵀW⁻¹m_c with

    W = Σ_c p_c·(Σ̂_c + `RIDGE`·2τ_c·Id) + mean of the covariances of the errors of the m_c,

p_c the share of class c among all records, Σ̂_c its raw covariance, 2τ_c where the spectrum of its
noise ends, in the units of its vectors. Classes without a second moment add nothing to Σ_c. There
are no quadratic discriminants: a covariance of one class is too noisy to be compared with
another's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covdp.addons.partners.coordinates import common_coordinates
from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.geometry import Manifold, Point, chart_of, to_chart
from covdp.inference.released import Released
from covdp.mean.noisy_moments import congruent, noise_edge, raw_covariance

RIDGE = 0.3
"""Ridge, over the edge of the noise: on PneumoniaMNIST and BreastMNIST; see ours-classify."""


@dataclass(frozen=True, eq=False)
class Discriminants:
    """A classifier between released classes, in their order.

    Attributes
    ----------
    manifold : Manifold
    base : array, shape (*space.point_shape)
        Point at which coordinates are taken, in the chart of a flat manifold.
    weights : array, shape (classes, d)
    offsets : array, shape (classes,)
        The discriminants are ``weights @ x + offsets``.
    """

    manifold: Manifold
    base: NDArray[np.float64]
    weights: FloatArray
    offsets: FloatArray

    def discriminants(self, points: Point) -> FloatArray:
        """Return how much speaks for each class, (n, classes).

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            Records to classify.
        """
        places = chart_of(self.manifold).log(self.base, to_chart(self.manifold, points))
        return np.asarray(places @ self.weights.T + self.offsets)

    def score(self, points: Point) -> FloatArray:
        """Return what speaks for each class, (n, classes); of two, for the second, (n,).

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            Records to classify.
        """
        odds = self.discriminants(points)
        return odds[:, 1] - odds[:, 0] if len(self.offsets) == 2 else odds

    def predict(self, points: Point) -> NDArray[np.int64]:
        """Return the index of the most likely class of each point, (n,).

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            Records to classify.
        """
        return np.asarray(np.argmax(self.discriminants(points), axis=1))


def lda(released: Sequence[Released], *, ridge: float = RIDGE) -> Discriminants:
    """Return the linear discriminants of two released classes or more.

    Parameters
    ----------
    released : sequence of Released
        Releases, or entries of documents, one a class.
    ridge : float
        Multiple of the largest eigenvalue that noise alone gives the covariance of a class, which
        is added to its diagonal.

    Raises
    ------
    ConfigError
        When there are fewer, they are of different geometries, or none has a second moment.
    """
    manifold, base, classes = common_coordinates(released)
    wide = [row for row in classes if row.moments.moment is not None]
    if not wide:
        raise ConfigError(
            "linear discriminants need a second moment, and no class was released with one: n·μ is "
            "too small; take the nearest mean"
        )
    total = sum(row.n for row in wide)
    within = np.mean([row.there(row.belief) for row in classes], axis=0)
    for row in wide:
        moments = row.moments
        even = congruent(np.eye(manifold.dim), moments.axes)
        spread = raw_covariance(moments) + ridge * noise_edge(moments) * even
        within += moments.n / total * row.there(spread)
    return _discriminants(manifold, base, np.stack([row.mean for row in classes]), within)


def nearest_mean(released: Sequence[Released]) -> Discriminants:
    """Return the classifier by the nearest released mean, in coordinates at a common base.

    Parameters
    ----------
    released : sequence of Released
        Releases, or entries of documents, one a class.

    Raises
    ------
    ConfigError
        As `lda`; a second moment is not needed.
    """
    manifold, base, classes = common_coordinates(released)
    means = np.stack([row.mean for row in classes])
    return _discriminants(manifold, base, means, np.eye(manifold.dim))


def discriminants_of_means(
    manifold: Manifold, points: Point, within: FloatArray | None = None
) -> Discriminants:
    """Return the classifier of given means, in coordinates at the first of them.

    Parameters
    ----------
    manifold : Manifold
        Geometry of the means.
    points : array, shape (classes, *manifold.point_shape)
        Mean of each class.
    within : array, shape (d, d), optional
        W, in those coordinates; without it the nearest mean decides.
    """
    points = to_chart(manifold, points)
    means = np.asarray(chart_of(manifold).log(points[0], points))
    return _discriminants(
        manifold, points[0], means, np.eye(manifold.dim) if within is None else within
    )


def _discriminants(
    manifold: Manifold, base: Point, means: FloatArray, within: FloatArray
) -> Discriminants:
    weights = np.asarray(np.linalg.solve(within, means.T).T, dtype=np.float64)
    return Discriminants(manifold, base, weights, -0.5 * np.sum(weights * means, axis=1))
