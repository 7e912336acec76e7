"""One class of a release, read: what a private mean returned, or its entry in a document."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.geometry import MANIFOLDS, Manifold, Point, chart_of
from pipeline.geometry.covariances import covariances_of
from pipeline.mean import Observed, Release
from pipeline.mean.observed import from_values

Released: TypeAlias = Release | Mapping[str, Any]
"""What `private_mean` returned first, or an entry of ``classes`` of a release's document; a region
may be of one of a night's document too."""


class Read(NamedTuple):
    """A released class.

    Attributes
    ----------
    manifold : Manifold
    point : array, shape (*space.point_shape)
        The private mean, as it was released.
    observed : Observed
        The same before it was shrunk, seen from a base in `space`.
    belief : array, shape (d, d)
        Covariance of the error of `point`, as the shrinkage predicts it.
    """

    manifold: Manifold
    point: NDArray[np.float64]
    observed: Observed
    belief: FloatArray

    @property
    def space(self) -> Manifold:
        """Where it was drawn: the chart of a flat manifold, as matrices may not hold its points."""
        return chart_of(self.manifold)


def read(released: Released) -> Read:
    """Return what was released of a class.

    Raises
    ------
    ConfigError
        When it has no adaptive mean, or is of a version that kept only the mean.
    """
    if isinstance(released, Release):
        if released.observed is None:
            raise ConfigError(_WITHOUT)
        told = released.told[0]
        return Read(released.manifold, released.outputs[0], released.observed, told.belief)
    if not released.get("observed"):
        raise ConfigError(_WITHOUT)
    coordinates = np.array(released["coordinates"], dtype=np.float64)
    manifold = manifold_of(released, len(coordinates))
    values = released["observed"]
    seen, belief = from_values(values), np.array(values["belief"], dtype=np.float64)
    seen = seen._replace(base=point_at(manifold, seen.base))
    return Read(manifold, point_at(manifold, coordinates), seen, belief)


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
