"""Draws at the public origin that need more than `pipeline.release` gives.

Positive curvature has sensitivities of its own; on affine-invariant SPD(k) the distance must be
known where matrices of doubles cannot carry it; and the classical Gaussian formula is a baseline.
"""

import time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.config import SeriesConfig
from pipeline.experiments.chart import NormalChart
from pipeline.geometry import Manifold
from pipeline.mechanisms import MECHANISMS, ChainSettings
from pipeline.mechanisms.sensitivity import (
    chord,
    convexity,
    gradient_sensitivity,
    laplace_sensitivity,
)
from pipeline.privacy import Budget
from pipeline.release import MEAN_TOLERANCE, Domain, NonPrivate, Release, sensitivity

WRAPPED = ("ewl", "ewg")
"""Mechanisms that need the chart at their footpoint only."""


class Centred(Domain, Protocol):
    """A ball of records with a public centre."""

    @property
    def center(self) -> NDArray[Any]:
        """The centre p0."""


def is_direct(series: SeriesConfig, manifold: Manifold) -> bool:
    """Tell whether a series is drawn here and not by `pipeline.release`."""
    return (
        not series.analytic
        or series.scale != 1.0
        or (not manifold.flat and series.footpoint == "origin")
    )


def bound_of(series: SeriesConfig, n: int, domain: Domain, manifold: Manifold) -> float:
    """Return the sensitivity a series is calibrated with.

    Positive curvature κ, records in B_r: the K-norm gradient needs 2r(2 − h)/n, the Fréchet mean
    moves by at most 2r(2 − h)/(n·h), and as a vector by the chord of that. The papers' 2r/n
    ("radius") is too small for the embedded Fréchet mean, and is kept to repeat their figure. The
    mean of outlines that were not aligned moves by at most 2/n, as no landmark is farther than 1
    from the centre. The computed mean errs by at most τ/h on both data sets.
    """
    embedded = MECHANISMS[series.mechanism].embedded
    if manifold.curvature[1] <= 0.0:
        return sensitivity(domain, n, series.sensitivity, embedded=embedded)
    curvature, radius = manifold.curvature[1], domain.radius
    if series.mechanism == "kng":
        return gradient_sensitivity(n, radius, curvature) * (1 + 1e-12)
    if embedded and series.sensitivity == "radius":
        return 2.0 * radius / n
    if not series.aligned:
        return 2.0 / n
    move = laplace_sensitivity(n, radius, curvature)
    move = (move + 2.0 * MEAN_TOLERANCE / convexity(radius, curvature)) * (1 + 1e-12)
    return move if series.mechanism == "rl" else chord(move)


def draw(
    data: NonPrivate,
    budget: Budget,
    *,
    domain: Centred,
    manifold: Manifold,
    series: SeriesConfig,
    size: int,
    rng: np.random.Generator,
) -> tuple[Release, FloatArray | None]:
    """Draw `size` private means, each of which alone costs `budget`.

    Returns
    -------
    Release
        The private means; on affine-invariant SPD(k), those of wrapped mechanisms are vecd(log X).
    array, shape (size,), or None
        Their distances to the true mean where the points cannot tell.
    """
    started = time.perf_counter()
    bound = bound_of(series, data.n, domain, manifold)
    center, base, options = _arguments(data, domain, manifold, series)
    if manifold.name == "spd-affine-invariant" and series.mechanism in WRAPPED:
        center, base = manifold.log(manifold.origin, data.mean), None
        manifold = NormalChart(manifold.point_shape[0])
    family = MECHANISMS[series.mechanism]
    wide = series.scale * bound
    mechanism = family.calibrate(budget, sensitivity=wide, manifold=manifold, **options)
    draws = mechanism.sample(center, base=base, size=size, rng=rng)
    seconds = (time.perf_counter() - started) / size
    charted = isinstance(manifold, NormalChart)
    distance = manifold.dist(center, draws.points) if charted else draws.nonprivate_distance
    release = Release(
        points=draws.points,
        footpoint=manifold.origin if base is None else base,
        budget=budget,
        sensitivity=bound,
        sigma=mechanism.sigma,
        expected_error=mechanism.expected_error(),
        acceptance=draws.diagnostics.acceptance,
        seconds=seconds,
    )
    return release, distance


def _arguments(
    data: NonPrivate, domain: Centred, manifold: Manifold, series: SeriesConfig
) -> tuple[NDArray[Any], NDArray[Any] | None, dict[str, Any]]:
    """Return the statistic, the footpoint and the options of the mechanism."""
    options: dict[str, Any] = {} if series.analytic else {"analytic": False}
    if series.sampler == "chain":
        options |= {"sampler": "chain", "chain": ChainSettings(burn_in=series.burn_in)}
    positive = manifold.curvature[1] > 0.0
    center = data.mean if series.aligned else data.points.mean(axis=0)
    if series.mechanism == "kng":
        center = data.points
        options |= {"radius": domain.radius} if positive else {}
    return center, domain.center if positive else None, options
