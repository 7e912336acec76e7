"""Released classes read: what a private mean returned, or their entries in a document.

Here are several of them in one set of coordinates (`common_coordinates`), and the covariance of
their records, estimated from the noised second moment. All of it is post-processing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.geometry import Manifold, Point, chart_of
from pipeline.mean import NoisyMoments, Release
from pipeline.mean.noisy_moments import noise_edge, noisy_covariance
from pipeline.mean.release import NOT_ADAPTIVE
from pipeline.schema import ReleasedEntry, StreamEntry, read_entry

Released: TypeAlias = Release | ReleasedEntry | Mapping[str, Any]
"""What `private_mean` returned first, or an entry of ``classes`` of a release's document; a region
may be of one of a night's document too."""


def read_released(released: Released) -> Release | ReleasedEntry:
    """Return a released class; an entry of a document that JSON gave is read.

    Raises
    ------
    ConfigError
        When it is none of a release.
    """
    entry = read_entry(released) if isinstance(released, Mapping) else released
    if isinstance(entry, StreamEntry):
        raise ConfigError(NOT_ADAPTIVE)
    return entry


STEP = 1e-5
"""Distance over which coordinates are differentiated."""


class ClassCoordinates(NamedTuple):
    """A released class, in coordinates at a common base.

    Attributes
    ----------
    moments : NoisyMoments
    mean, unshrunk : array, shape (d,)
        The released mean, and the one before it was shrunk.
    jacobian : array, shape (d, d)
        Row i: where a step along coordinate i of its own leads.
    """

    moments: NoisyMoments
    mean: FloatArray
    unshrunk: FloatArray
    jacobian: FloatArray

    @property
    def belief(self) -> FloatArray:
        """Covariance of the error of the released mean, in its own coordinates."""
        if self.moments.belief is None:
            raise ConfigError(NOT_ADAPTIVE)
        return self.moments.belief

    def there(self, covariance: FloatArray) -> FloatArray:
        """Return a covariance of its own coordinates in the common ones."""
        return np.asarray(self.jacobian.T @ covariance @ self.jacobian)


def chart_jacobian(manifold: Manifold, base: Point, place: FloatArray, target: Point) -> FloatArray:
    """Return how coordinates at `base`, near `place`, become those at `target`, (d, d)."""
    if manifold.flat:
        return np.eye(manifold.dim)
    steps = STEP * np.eye(manifold.dim)
    ahead, behind = (
        manifold.log(target, manifold.exp(base, place + step)) for step in (steps, -steps)
    )
    return np.asarray((ahead - behind) / (2.0 * STEP))


def common_coordinates(
    released: Sequence[Released], least: int
) -> tuple[Manifold, Point, list[ClassCoordinates]]:
    """Return released classes in coordinates at the mean of the largest of them.

    The manifold is where they live, the base a point of `chart_of` it.

    Raises
    ------
    ConfigError
        When there are fewer than `least`, or they are of different geometries.
    """
    found = [read_released(one) for one in released]
    if len(found) < least:
        raise ConfigError(f"give {least} released classes or more, found {len(found)}")
    spaces = {(one.manifold.name, one.manifold.dim) for one in found}
    if len(spaces) > 1:
        listing = ", ".join(sorted(f"{name} of dimension {dim}" for name, dim in spaces))
        raise ConfigError(
            f"classes are compared in one geometry, found {listing}; release them with the same "
            "descriptor and manifold"
        )
    manifold = found[0].manifold
    base = max(found, key=lambda one: one.noisy_moments.n).place
    return manifold, base, [_class_coordinates(one, chart_of(manifold), base) for one in found]


def _class_coordinates(
    released: Release | ReleasedEntry, space: Manifold, base: Point
) -> ClassCoordinates:
    moments = released.noisy_moments
    unshrunk = space.log(base, space.exp(moments.base, moments.offset))
    own = chart_jacobian(space, moments.base, moments.offset, base)
    return ClassCoordinates(moments, space.log(base, released.place), unshrunk, own)


def raw_covariance(observed: NoisyMoments) -> FloatArray:
    """Return the covariance nearest to A, in coordinates at the base, (d, d)."""
    return in_coordinates(_nearest_semidefinite(noisy_covariance(observed)), observed)


def covariance(observed: NoisyMoments) -> FloatArray:
    """Return the covariance of single records, in coordinates at the base, (d, d).

    With T what the histograms say, one variance along the line and one off it, and (w, u) the
    eigenpairs of A − T, it is T + Σ sign(w)·√(w² − 4τ²)₊·u·uᵀ, made definite: what noise alone
    could be is taken for noise, and the rest is rid of what noise has added to it. It is that of
    clipped records; along the line what moving their mean adds comes to it (`NoisyMoments.added`).
    """
    rough = np.full(len(observed.vector), observed.variance_rest)
    rough[: observed.lines] = observed.variance_line
    values, vectors = np.linalg.eigh(noisy_covariance(observed) - np.diag(rough))
    kept = np.sign(values) * np.sqrt(np.maximum(values**2 - noise_edge(observed) ** 2, 0.0))
    found = _nearest_semidefinite(np.diag(rough) + (vectors * kept) @ vectors.T)
    clipped = in_coordinates(found, observed)
    return np.asarray(clipped + observed.added * observed.line)


def in_coordinates(matrix: FloatArray, observed: NoisyMoments) -> FloatArray:
    """Return a matrix in units of the vectors in coordinates at the base."""
    return np.asarray(observed.axes.T @ matrix @ observed.axes)


def _nearest_semidefinite(matrix: FloatArray) -> FloatArray:
    """Return the nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
