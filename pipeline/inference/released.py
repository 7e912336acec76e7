"""One class of a release, read: what a private mean returned, or its entry in a document.

Here are its parts (`read_released`), several of them in one set of coordinates
(`common_coordinates`), and the
covariance of its records, estimated from the noised second moment. All of it is post-processing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.geometry import MANIFOLDS, Manifold, Point, chart_of
from pipeline.geometry.covariances import covariances_of
from pipeline.mean import NoisyMoments, Release
from pipeline.mean.noisy_moments import from_values, noise_edge, noisy_covariance

Released: TypeAlias = Release | Mapping[str, Any]
"""What `private_mean` returned first, or an entry of ``classes`` of a release's document; a region
may be of one of a night's document too."""


class ReleasedClass(NamedTuple):
    """A released class.

    Attributes
    ----------
    manifold : Manifold
    point : array, shape (*space.point_shape)
        The private mean, as it was released.
    observed : NoisyMoments
        The same before it was shrunk, seen from a base in `space`.
    belief : array, shape (d, d)
        Covariance of the error of `point`, as the shrinkage predicts it.
    """

    manifold: Manifold
    point: NDArray[np.float64]
    observed: NoisyMoments
    belief: FloatArray

    @property
    def space(self) -> Manifold:
        """Where it was drawn: the chart of a flat manifold, as matrices may not hold its points."""
        return chart_of(self.manifold)


def read_released(released: Released) -> ReleasedClass:
    """Return what was released of a class.

    Raises
    ------
    ConfigError
        When it has no adaptive mean.
    """
    if isinstance(released, Release):
        if released.observed is None:
            raise ConfigError(_WITHOUT)
        told = released.statistics[0]
        return ReleasedClass(released.manifold, released.outputs[0], released.observed, told.belief)
    if not released.get("observed"):
        raise ConfigError(_WITHOUT)
    coordinates = np.array(released["coordinates"], dtype=np.float64)
    manifold = manifold_of(released, len(coordinates))
    values = released["observed"]
    seen, belief = from_values(values), np.array(values["belief"], dtype=np.float64)
    seen = seen._replace(base=point_at(manifold, seen.base))
    return ReleasedClass(manifold, point_at(manifold, coordinates), seen, belief)


def point_at(manifold: Manifold, coordinates: FloatArray) -> Point:
    """Return the point of `chart_of(manifold)` that has some coordinates at the origin."""
    space = chart_of(manifold)
    return space.exp(space.origin, coordinates)


def manifold_of(values: Mapping[str, Any], dim: int) -> Manifold:
    """Return the manifold of dimension `dim` that a document names.

    Raises
    ------
    ConfigError
        When it is none of covariance matrices.
    """
    name = str(values["manifold"])
    if name not in MANIFOLDS or covariances_of(MANIFOLDS[name]) is None:
        raise ConfigError(
            f"a document holds covariance matrices, found the manifold {name!r}; take the document "
            "as `covdp release` wrote it"
        )
    kind: Any = MANIFOLDS[name]
    found: Manifold = kind.of_dimension(dim)
    return found


_WITHOUT = (
    "regions, tests and classifiers need what an adaptive mean observed, and this release holds "
    'none: release with mechanism = "auto", or plan="auto", in this version or later'
)


STEP = 1e-5
"""Distance over which coordinates are differentiated."""


class ClassCoordinates(NamedTuple):
    """A released class, in coordinates at a common base.

    Attributes
    ----------
    released : ReleasedClass
    mean, unshrunk : array, shape (d,)
        The released mean, and the one before it was shrunk.
    jacobian : array, shape (d, d)
        Row i: where a step along coordinate i of its own leads.
    """

    released: ReleasedClass
    mean: FloatArray
    unshrunk: FloatArray
    jacobian: FloatArray

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
    base = max(found, key=lambda one: one.observed.n).point
    return manifold, base, [_class_coordinates(one, chart_of(manifold), base) for one in found]


def _class_coordinates(one: ReleasedClass, space: Manifold, base: Point) -> ClassCoordinates:
    seen = one.observed
    unshrunk = space.log(base, space.exp(seen.base, seen.offset))
    own = chart_jacobian(space, seen.base, seen.offset, base)
    return ClassCoordinates(one, space.log(base, one.point), unshrunk, own)


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
