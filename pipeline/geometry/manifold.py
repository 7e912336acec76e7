"""The contract of a manifold: one chart in orthonormal coordinates, and the laws it obeys.

Every mechanism is written once against this Protocol. The laws, for all points p, q and coordinates
u (‖u‖ below the injectivity radius)::

    exp(p, log(p, q)) = q          ‖log(p, q)‖₂ = dist(p, q)          log(p, exp(p, u)) = u
    dist(p, q) = dist(q, p)        dist(p, r) ≤ dist(p, q) + dist(q, r)
    Hadamard:  ‖log(b, p) − log(b, q)‖₂ ≤ dist(p, q)        (log is a contraction)

What only some manifolds offer is a capability: an attribute that others lack. Who needs it asks
for it and raises where it is absent; nothing compares names.

======================  ===========================================================================
``area``                size of geodesic spheres, where all directions are alike (``area.py``)
``spectral_order``      k, where volume depends on the eigenvalues of a tangent matrix of order k
``of_shape``            makes the one whose points are arrays of a shape
``of_dimension``        makes one of a given dimension, where experiments simulate records
``small``               the dimension of a small one, on which audits and tests try everything
``embed``, ``unembed``  to and from a vector space of dimension ``embedding_dim``, and ``stretch``:
                        how far an embedded mean moves at most for each unit of distance
``nearest``             nearest point to a vector around it, as embedded
``mean_field``          the gradient of a Fréchet mean, faster than point by point (``mean.py``)
``factor_logs``         log of a point given by its factor, which holds digits that its array lost;
                        with ``factors``, ``logs_of_factors`` and ``factor_exp``
``log_reach``           how far from the origin the rounding of a logarithm was measured
``condition``           largest condition number in a ball, where that rounding grows with it
``definite``            makes points definite that rounding left on the border
``unit``                what a point is called, where it is more than a point
``normal_chart``        the manifold seen from its origin, points as coordinates
``coordinates``         such a chart: takes points of the manifold that is seen to points of itself
``covariances``         what is known on it of covariance descriptors (``covariances.py``)
======================  ===========================================================================

Next on the path: the manifolds, one a file, then ``mean.py``.
"""

from typing import Any, Protocol, TypeAlias, runtime_checkable

from numpy.typing import NDArray

from pipeline.arrays import FloatArray

Point: TypeAlias = NDArray[Any]
"""Points of a manifold, ``(..., *point_shape)``: float64, complex128 for planar shapes."""


class Manifold(Protocol):
    """A complete Riemannian manifold with its exponential chart.

    All array methods take any leading batch axes and broadcast them against each other. They trust
    their input; `check` is the door.
    """

    @property
    def name(self) -> str:
        """Key in ``MANIFOLDS``."""

    @property
    def title(self) -> str:
        """What it is called in tables, with its size."""

    @property
    def metric(self) -> str:
        """What its distance is called."""

    @property
    def dim(self) -> int:
        """Dimension d, the length of a coordinate vector."""

    @property
    def point_shape(self) -> tuple[int, ...]:
        """Shape of the array of one point."""

    @property
    def flat(self) -> bool:
        """True when the manifold is isometric to R^d."""

    @property
    def hadamard(self) -> bool:
        """True when it is simply connected and nowhere positively curved: log is global."""

    @property
    def homogeneous(self) -> bool:
        """True when isometries carry every point to every other: volumes do not depend on it."""

    @property
    def curvature(self) -> tuple[float, float]:
        """Lower and upper bound of the sectional curvature."""

    @property
    def injectivity_radius(self) -> float:
        """Largest radius on which log is defined everywhere, ``inf`` on Hadamard manifolds."""

    @property
    def origin(self) -> Point:
        """A public reference point: the identity matrix, the pole, a regular polygon."""

    def dist(self, p: Point, q: Point) -> FloatArray:
        """Return the geodesic distance, ``(...)``."""

    def log(self, base: Point, p: Point) -> FloatArray:
        """Return the coordinates of p in an orthonormal frame at `base`, ``(..., d)``.

        Raises
        ------
        DomainError
            When p lies outside the injectivity radius of `base`.
        """

    def exp(self, base: Point, u: FloatArray) -> Point:
        """Return the end, ``(..., *point_shape)``, of the geodesic from `base` with velocity u."""

    def check(self, points: Point) -> Point:
        """Return `points` in the array type of this manifold if they lie on it.

        Raises
        ------
        DomainError
            With the rule that is broken: shape, finiteness or the equation of the manifold.
        """


@runtime_checkable
class Embedded(Protocol):
    """A manifold that lies in a vector space R^m."""

    @property
    def embedding_metric(self) -> str:
        """What the distance of that space is called."""

    @property
    def embedding_dim(self) -> int:
        """M."""

    def embed(self, points: Point) -> FloatArray:
        """Return points as vectors, ``(..., m)``."""

    def unembed(self, vectors: FloatArray) -> Point:
        """Return vectors in the array type of points, whether they lie on the manifold or not."""

    def stretch(self, largest: float) -> float:
        """Return how far an embedded mean moves at most for each unit of distance.

        `largest` bounds what a mean can be as it is stored: its largest eigenvalue, say.
        """
