"""What is publicly known of the records of a class: their region, and what is expected of them.

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
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray, from_upper
from pipeline.descriptors import DescriptorDomain
from pipeline.errors import DomainError
from pipeline.geometry import Manifold, Point
from pipeline.geometry.covariances import Covariances, covariances_of
from pipeline.mean import tuning


class Domain(Protocol):
    """The public bound on the records of a class, in the distance of one manifold."""

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
    """Records within `radius` of a public centre, the manifold's origin when left out."""

    radius: float
    manifold: str
    center: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def diameter(self) -> float:
        """2r: two records of a ball are at most that far apart, and some are."""
        return 2.0 * self.radius


def center_of(domain: Domain, manifold: Manifold) -> Point:
    """Return the public centre of a domain in `manifold`: its own, else the manifold's origin."""
    own = getattr(domain, "center", None)
    if own is None:
        return manifold.origin
    charted = getattr(manifold, "coordinates", None)
    if charted is not None and np.shape(own) != manifold.point_shape:
        return np.asarray(charted(own))
    return np.asarray(own)


def check_domain(domain: Domain, manifold: Manifold) -> None:
    """Raise `DomainError` unless the bounds of `domain` are in the distance of `manifold`."""
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
        The metric projection onto the set, ``(..., *point_shape)`` to the same.
    diameter : float
        D: the largest distance between two of its points.
    condition : float
        Largest condition number of its points, where rounding grows with it; else 1.
    shape : array, shape (d,), or 1
        As `DescriptorSet.shape`, in coordinates of a chart: ‖(x − x')/shape‖ ≤ D.
    """

    inside: Callable[[Point], Point]
    diameter: float
    condition: float = 1.0
    shape: FloatArray | float = 1.0

    @cached_property
    def cover(self) -> float:
        """Root mean square of D·shape: noise that masks the whole set, over that of diameter 1."""
        return self.diameter * math.sqrt(float(np.mean(np.square(self.shape))))


def feasible_set(domain: Domain, manifold: Manifold) -> FeasibleSet:
    """Return the region of `domain`.

    Covariance descriptors are where the metric says (`Covariances.place`); other records in the
    ball {x : dist(centre, x) ≤ r} around the domain's centre. Balls of a Hadamard manifold are
    convex, and so are those that a mechanism accepts on positive curvature; the projection shortens
    the geodesic from the centre.

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension.
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
        return FeasibleSet(region.inside, diameter, condition, region.shape)

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
    """A public expectation, in the manifold's coordinates at `centre`.

    Attributes
    ----------
    centre : array, shape (d,)
        Where the mean is expected: log(origin, centre).
    line : array, shape (d,), or None
        Unit vector e of the *contrast axis*, along which records spread widely and unevenly: of
        images, where a change of contrast moves them. Their coordinate along it is clipped to an
        interval of its own. None: no such axis, all directions are treated the same.
    span : (float, float)
        Least and largest ⟨e, log(origin, X)⟩ of a record; any two numbers without a contrast axis.
    step : float
        Width of the bins along the contrast axis.
    shape : array, shape (d, d)
        Symmetric, positive definite: scales. Best is the fourth root of the covariance of the
        records, so the square root of the standard deviation in each principal direction.
    least : float
        Smallest distance from the centre, off the contrast axis, that is worth telling apart.
    doubt : float
        Standard deviation of the mean off the contrast axis, in a direction of average scale; it
        goes with the square of the scale. Along the contrast axis it is `tuning.PRIOR_SD_LINE`
        steps.
    farthest : float
        Distance from the centre, off the contrast axis, beyond which no record is expected:
        overshoots of farther ones count as if they were there.
    """

    centre: FloatArray
    line: FloatArray | None
    span: tuple[float, float]
    step: float
    shape: FloatArray
    least: float
    doubt: float
    farthest: float


def default_prior(domain: Domain, manifold: Manifold) -> Prior:
    """Return the prior of image descriptors on SPD(k), of a ball on any other manifold.

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension.
    """
    check_domain(domain, manifold)
    covariances = covariances_of(manifold)
    if isinstance(domain, DescriptorDomain) and covariances is not None:
        return _images(domain, covariances, manifold)
    return Prior(
        centre=np.zeros(manifold.dim),
        line=None,
        span=(0.0, 0.0),
        step=1.0,
        shape=np.eye(manifold.dim),
        least=domain.radius / tuning.BALL_LEAST,
        doubt=domain.radius / tuning.BALL_PRIOR_SD,
        farthest=2.0 * domain.radius,
    )


def _images(domain: DescriptorDomain, covariances: Covariances, manifold: Manifold) -> Prior:
    """Return the prior of descriptors: features of typical variances and correlations, axis Id/√k.

    ⟨log(p, X), Id⟩ = ln det X − ln det p in the log-Euclidean and the affine-invariant metric, and
    half of it for the diagonal of log-Cholesky: contrast, whose place does not depend on p. It is
    in Σ ln η .. Σ ln(v_j + η), since det X is at most the product of the diagonal (Hadamard). Of
    Gaussian embeddings the contrast axis is that of all features but the constant: e_jᵀ(log X)e_j
    is in ln λ_min(X) .. ln X_jj (Jensen), and ln L_jj in ½ ln η .. ½ ln X_jj.
    """
    d, k, share = manifold.dim, len(domain.variances), covariances.log_share
    typical = np.array(domain.typical or (tuning.TYPICAL_LOG_VARIANCE,) * k)
    logs = np.log(np.array(domain.variances)) + typical
    constant, line = bool(domain.facts.means), np.zeros(d)
    line[constant:k] = 1.0 / math.sqrt(k - constant)
    least, most = covariances.floor(domain.facts), np.array(domain.variances) + domain.eta
    ends = np.full(k, math.log(least)), np.log(most)
    low, high = (float(line[:k] @ end) * share for end in ends)
    shape = _shape(domain.descriptor, manifold.metric)
    if shape is None:
        shape = covariances.scales(tuning.SCALE_LOG_VARIANCE * np.eye(k), tuning.SCALE_OTHERS, logs)
    whole = getattr(manifold, "manifold", manifold)  # that of a chart, whose points are coordinates
    squares = shape @ shape  # the root of the expected covariance
    wide = float(np.trace(squares) - line @ squares @ line) / (d - 1)
    return Prior(
        centre=whole.log(whole.origin, _typical(domain, logs)),
        line=line,
        span=(low, high),
        step=tuning.LINE_STEP * share,
        shape=shape,
        least=tuning.LEAST_DISTANCE * math.sqrt(d - 1) * wide,
        doubt=tuning.PRIOR_SD_RADIAL * wide,
        farthest=tuning.FARTHEST_RATIO * tuning.LEAST_DISTANCE * math.sqrt(d - 1) * wide,
    )


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
    """Return the name that a shape has in `SCALES_FILE`."""
    return f"{descriptor} {metric}"


@cache
def _shape(descriptor: str, metric: str) -> FloatArray | None:
    """Return the scales that public pictures have, (d, d), None where nobody has looked."""
    upper = json.loads(SCALES_FILE.read_bytes()).get(scales_name(descriptor, metric))
    return None if upper is None else from_upper(np.array(upper))
