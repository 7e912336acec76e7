"""Public knowledge of the records of a class: their region, and what is expected of them.

**The region** holds every record, and a map puts a point back into it. Each region here is convex
for its manifold (in coordinates if flat, along geodesics if not), so it holds the Fréchet mean of
records in it, and the metric projection onto it moves no point farther from any point of the
region: a private mean that is projected is never worse for it, and it costs no privacy.

**The prior** is what is publicly expected of the records: where, and how wide in which direction.
None of it is read from the records, and none of it is assumed: a wrong prior costs accuracy at
small n·μ, never privacy. The figures for images, here and in a descriptor's `typical` and
`correlations`, were set by hand after looking at public ones: photographs and `tiles` of
scikit-image, and MedMNIST. ``python -m tests.tools.tuning`` prints beside each what `tiles`,
PneumoniaMNIST and BreastMNIST say, or what another value would cost on them. They are coarse facts
on all of them: contrast varies by orders of magnitude between pictures and moves log R along Id
(each feature scales with it), while the ratios of the features' variances hardly vary; gradients
are weaker than intensities, second derivatives weaker still; a gradient's size and angle go with
its parts. How wide descriptors are in which direction, `SCALES_FILE`, is that of tiles of three
pictures of scikit-image, as they are, stretched, made small, and in black and white.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray, from_upper
from covdp.descriptors import DESCRIPTORS, DescriptorDomain, describe
from covdp.errors import DomainError
from covdp.geometry import Manifold, Point
from covdp.geometry.covariances import Covariances, covariances_of
from covdp.mean import tuning
from covdp.mean.axes import Frame, build_frame


class Domain(Protocol):
    """Public bound on the records of a class, in the distance of one manifold."""

    def __hash__(self) -> int:
        """Let what follows from a domain be cached by it."""

    @property
    def manifold(self) -> str:
        """Name of the manifold whose distance the bounds are in."""

    @property
    def radius(self) -> float:
        """Bound r ≥ dist(origin, record), the papers' radius."""

    @property
    def diameter(self) -> float:
        """Bound D ≥ dist(record, record)."""


@dataclass(frozen=True, eq=False)
class Ball:
    """Region of all records within `radius` of a public centre.

    Attributes
    ----------
    radius : float
        Bound on the distance of a record from the centre.
    manifold : str
        Name of the manifold whose distance it is in.
    center : array, shape (*point_shape), optional
        Public centre; the manifold's origin when left out.

    Examples
    --------
    >>> from covdp.mean import Ball
    >>> Ball(2.0, "spd-log-euclidean").diameter
    4.0
    """

    radius: float
    manifold: str
    center: Point | None = field(default=None, repr=False)

    @property
    def diameter(self) -> float:
        """Largest distance of two records, 2r: some of a ball are that far apart."""
        return 2.0 * self.radius


def center_of(domain: Domain, manifold: Manifold) -> Point:
    """Return the public centre of a domain in `manifold`: its own, else the manifold's origin.

    Parameters
    ----------
    domain : Domain
        Public bound on the records.
    manifold : Manifold
        Manifold, or its chart.

    Returns
    -------
    array, shape (*point_shape)
        Public centre.
    """
    own = getattr(domain, "center", None)
    if own is None:
        return manifold.origin
    charted = getattr(manifold, "coordinates", None)
    if charted is not None and np.shape(own) != manifold.point_shape:
        return np.asarray(charted(own))
    return np.asarray(own)


def check_domain(domain: Domain, manifold: Manifold) -> None:
    """Refuse a domain whose bounds are not in the distance of a manifold.

    Parameters
    ----------
    domain : Domain
        Public bound on the records.
    manifold : Manifold
        Manifold that a mean is taken on.

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension, or bounds nothing.
    """
    if domain.manifold != manifold.name:
        raise DomainError(
            f"the domain bounds distances of {domain.manifold}, the mean is taken on "
            f"{manifold.name}; make the domain with manifold={manifold.name!r}"
        )
    if isinstance(domain, DescriptorDomain) and domain.dimension != manifold.dim:
        raise DomainError(
            f"the domain is of {domain.descriptor}, dimension {domain.dimension}, the manifold has "
            f"dimension {manifold.dim}; take k = {len(domain.variances)}"
        )
    if not 0.0 < domain.diameter < math.inf or not 0.0 < domain.radius < math.inf:
        raise DomainError(
            f"a domain needs a finite radius and diameter above 0, found {domain.radius:g} and "
            f"{domain.diameter:g}; without a bound on the records no noise suffices"
        )


@dataclass(frozen=True)
class FeasibleSet:
    """A convex set of records.

    Attributes
    ----------
    inside : callable
        Metric projection onto the set, ``(..., *point_shape)`` to the same.
    diameter : float
        Largest distance D between two of its points.
    condition : float
        Largest condition number of its points, where rounding grows with it; else 1.
    """

    inside: Callable[[Point], Point]
    diameter: float
    condition: float = 1.0


def feasible_set(domain: Domain, manifold: Manifold) -> FeasibleSet:
    """Return the public region of a domain.

    Covariance descriptors are where the metric says (`Covariances.place`); other records in the
    ball {x : dist(centre, x) ≤ r} around the domain's centre. Balls of a Hadamard manifold are
    convex, and so are those that a mechanism accepts on positive curvature; the projection shortens
    the geodesic from the centre.

    Parameters
    ----------
    domain : Domain
        Public bound on the records.
    manifold : Manifold
        Manifold, or its chart.

    Returns
    -------
    FeasibleSet
        Region, convex in the manifold.

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp import MANIFOLDS
    >>> from covdp.mean import Ball, feasible_set
    >>> manifold = MANIFOLDS["spd-log-euclidean"](k=2)
    >>> region = feasible_set(Ball(1.0, manifold.name), manifold)
    >>> far = manifold.exp(manifold.origin, np.array([3.0, 0.0, 4.0]))
    >>> manifold.log(manifold.origin, region.inside(far)).round(6).tolist()
    [0.6, 0.0, 0.8]
    """
    check_domain(domain, manifold)
    covariances = covariances_of(manifold)
    if isinstance(domain, DescriptorDomain) and covariances is not None:
        return _of_covariances(domain, covariances, manifold)
    return _ball(domain, manifold)


def _of_covariances(
    domain: DescriptorDomain, covariances: Covariances, manifold: Manifold
) -> FeasibleSet:
    """Return the metric's place, seen through logarithms where points are matrices.

    Matrices of doubles and their factors miss what a logarithm says: `Domain.rounding` is added to
    the diameter and to the condition.
    """
    region = covariances.descriptor_set(domain.facts)
    diameter = (domain.diameter if region.diameter is None else region.diameter) + region.slack
    condition = region.condition * (1.0 + domain.rounding)
    if hasattr(manifold, "coordinates"):  # a chart: its points are these logarithms
        return FeasibleSet(region.inside, diameter, condition)

    def inside(points: Point) -> Point:
        before = manifold.log(manifold.origin, points)
        after = region.inside(before)
        moved = (after != before).any(axis=-1)
        if not moved.any():
            return np.array(points)  # what is admitted is ours
        return np.where(_beside(moved, manifold), manifold.exp(manifold.origin, after), points)

    return FeasibleSet(inside, diameter + 2.0 * domain.rounding, condition)


def _ball(domain: Domain, manifold: Manifold) -> FeasibleSet:
    radius, center = domain.radius, center_of(domain, manifold)

    def project(points: Point) -> Point:
        spokes = manifold.log(center, points)
        size = np.linalg.norm(spokes, axis=-1, keepdims=True)
        inner = manifold.exp(center, spokes * (radius / np.maximum(size, radius)))
        return np.where(_beside(size[..., 0] > radius, manifold), inner, points)

    condition = getattr(manifold, "condition", None)
    return FeasibleSet(
        project, 2.0 * radius, 1.0 if condition is None else condition(center, radius)
    )


def _beside(chosen: NDArray[np.bool_], manifold: Manifold) -> NDArray[np.bool_]:
    """Return one truth a point in a shape that broadcasts against points."""
    return chosen.reshape(chosen.shape + (1,) * len(manifold.point_shape))


SCALES_FILE = Path(__file__).with_name("scales.json")
"""`Prior.shape` of descriptors, by name and metric, upper triangles row by row.

As ``python -m tests.tools.tuning --scales`` makes them of pictures of scikit-image.
"""


@dataclass(frozen=True, eq=False)
class Prior:
    """Public expectation of the records, in the manifold's coordinates at `centre`.

    Attributes
    ----------
    centre : array, shape (d,)
        Expected place of the mean: log(origin, centre).
    line : array, shape (d,), or None
        Unit vector e of the *contrast axis*, along which records spread widely and unevenly: of
        images, where a change of contrast moves them. None: all directions are treated the same.
    odd : array, shape (m, d)
        Coordinates of public pictures unlike those of any class: blank, stripes, a checkerboard.
    shape : array, shape (d, d)
        Symmetric, positive definite: scales off the contrast axis. Best is the fourth root of the
        covariance of the records, so the square root of the standard deviation in each principal
        direction.
    unit : float
        Expected length of the vectors of records, in the axes of those scales (`prior_frame`), if
        the centre is right.
    first, doubt : float
        Radius of the first ball; and how far off the contrast axis the mean may be, in the root
        mean square of all directions together.
    shells : (float, float, int)
        Least and largest radius that records may be clipped to, and how many are distinguished.
    farthest : float
        Length beyond which no record is expected: what is cut off a farther one counts as if it
        were there.
    """

    centre: FloatArray
    line: FloatArray | None
    odd: FloatArray
    shape: FloatArray
    unit: float
    first: float
    doubt: float
    shells: tuple[float, float, int]
    farthest: float

    @cached_property
    def edges(self) -> FloatArray:
        """Radii between which records are counted."""
        return np.geomspace(*self.shells)

    @cached_property
    def far_edges(self) -> FloatArray:
        """Radii up to `farthest`, for classes with many outliers."""
        return self.edges * (self.farthest / self.shells[1])


@lru_cache(maxsize=32)
def prior_frame(prior: Prior) -> Frame:
    """Return the axes that the prior expects.

    Parameters
    ----------
    prior : Prior
        Public expectation of the records.

    Returns
    -------
    Frame
        Axes of the records.
    """
    return build_frame(prior.line, prior.shape, math.sqrt(tuning.LINE_SD))


def default_prior(domain: Domain, manifold: Manifold) -> Prior:
    """Return the prior of image descriptors on SPD(k), of a ball on any other manifold.

    Parameters
    ----------
    domain : Domain
        Public bound on the records.
    manifold : Manifold
        Manifold, or its chart.

    Returns
    -------
    Prior
        Public expectation of the records.

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension.

    Examples
    --------
    >>> from covdp import MANIFOLDS
    >>> from covdp.mean import Ball, default_prior
    >>> manifold = MANIFOLDS["spd-log-euclidean"](k=2)
    >>> default_prior(Ball(1.0, manifold.name), manifold).first
    1.0
    """
    check_domain(domain, manifold)
    covariances = covariances_of(manifold)
    if isinstance(domain, DescriptorDomain) and covariances is not None:
        return _images(domain, covariances, manifold)
    return Prior(
        centre=np.zeros(manifold.dim),
        line=None,
        odd=np.zeros((0, manifold.dim)),
        shape=np.eye(manifold.dim),
        unit=domain.radius / tuning.BALL_LEAST,
        first=domain.radius,
        doubt=domain.radius / tuning.BALL_PRIOR_SD,
        shells=(domain.radius / tuning.BALL_LEAST, domain.radius, tuning.BALL_SHELLS),
        farthest=2.0 * domain.radius,
    )


def _images(domain: DescriptorDomain, covariances: Covariances, manifold: Manifold) -> Prior:
    """Return the prior of descriptors: features of typical variances and correlations, axis Id/√k.

    ⟨log(p, X), Id⟩ = ln det X − ln det p in the log-Euclidean and the affine-invariant metric, and
    half of it for the diagonal of log-Cholesky: contrast. Of Gaussian embeddings the contrast axis
    is that of all features but the constant.
    """
    d, k = manifold.dim, len(domain.variances)
    typical = np.array(domain.typical or (tuning.TYPICAL_LOG_VARIANCE,) * k)
    largest = np.array(domain.variances)
    logs = np.log(largest) + typical
    constant, line = bool(domain.facts.means), np.zeros(d)
    line[constant:k] = 1.0 / math.sqrt(k - constant)
    shape = _shape(domain.descriptor, manifold.metric)
    if shape is None:
        shape = covariances.scales(tuning.SCALE_LOG_VARIANCE * np.eye(k), tuning.SCALE_OTHERS, logs)
    whole = getattr(manifold, "manifold", manifold)  # that of a chart, whose points are coordinates
    squares = shape @ shape  # the root of the expected covariance
    along = float(line @ squares @ line)
    unit = math.sqrt(float(np.trace(squares)) - along + tuning.LINE_SD)
    least, most, many = tuning.SHELLS
    return Prior(
        centre=whole.log(whole.origin, _typical(domain, logs)),
        line=line,
        odd=whole.log(whole.origin, _odd_pictures(domain)),
        shape=shape,
        unit=unit,
        first=tuning.FIRST_RADIUS * unit,
        doubt=tuning.PRIOR_SD * unit,
        shells=(least * unit, most * unit, many),
        farthest=tuning.FARTHEST_RECORD * unit,
    )


def _odd_pictures(domain: DescriptorDomain) -> FloatArray:
    """Return the descriptors of odd pictures, (m, k, k): blank, stripes both ways, a checkerboard.

    Broken sensors and bad exports make such images, and what is drawn beside them.
    """
    if domain.descriptor not in DESCRIPTORS:  # blank ones have no variance in what varies
        constant = np.arange(len(domain.variances)) < bool(domain.facts.means)
        return np.diag(np.where(constant, domain.variances, domain.eta))[None]
    spec = DESCRIPTORS[domain.descriptor]
    at = np.indices((32,) * spec.dimensions)
    both = at[-2:]
    pictures = np.stack(
        [
            0 * at[0],
            *[np.where(axis % 8 < 4, 0, 255) for axis in both],
            *[8 * axis for axis in both],
            np.where(at.sum(axis=0) % 2, 0, 255),
        ]
    )
    if spec.channels > 1:
        pictures = np.repeat(pictures[..., None], spec.channels, axis=-1)
    return np.asarray(describe(pictures.astype(np.uint8), domain.descriptor, domain.eta))


def _typical(domain: DescriptorDomain, logs: FloatArray) -> FloatArray:
    """Return the typical descriptor, (k, k), of these log-variances."""
    usual = np.eye(len(logs))
    for i, j, value in domain.correlations:
        usual[i, j] = usual[j, i] = value
    usual *= np.exp(np.add.outer(logs, logs) / 2.0)
    if domain.facts.means:
        mean = np.array([0.0, *domain.typical_means])
        usual += np.outer(mean, mean)
        usual[0] = usual[:, 0] = np.array([1.0, *mean[1:]])
    return usual


def scales_name(descriptor: str, metric: str) -> str:
    """Return the name that a shape has in `SCALES_FILE`.

    Parameters
    ----------
    descriptor : str
        Name of a descriptor.
    metric : str
        Name of a metric.

    Returns
    -------
    str
        Key of the file.
    """
    return f"{descriptor} {metric}"


@cache
def _shape(descriptor: str, metric: str) -> FloatArray | None:
    """Return the scales that public pictures have, (d, d), None where nobody has looked."""
    upper = json.loads(SCALES_FILE.read_bytes()).get(scales_name(descriptor, metric))
    return None if upper is None else from_upper(np.array(upper))
