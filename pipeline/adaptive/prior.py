"""What is publicly expected of the records: where, and how wide in which direction.

None of it is learned from the data, and none of it is assumed: a wrong prior costs accuracy at
small n·μ, never privacy. The figures for images are coarse facts on photographs, scans and noise
alike: contrast varies by orders of magnitude between pictures and moves log R along Id (each
feature scales with it), while the ratios of the features' variances hardly vary; gradients are
weaker than intensities, second derivatives weaker still; features correlate weakly.
Next on the path: ``plan.py``.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from pipeline.adaptive.region import Domain, ImageDomain
from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold, Point

TYPICAL: dict[str, tuple[float, ...]] = {
    "oct5": (-3.4, -5.2, -5.2, -6.1, -6.1),
    "grid9": (0.0, 0.0, -3.4, -5.2, -5.2, -6.1, -6.1, -4.9, -1.1),
    "grid11": (0.0, 0.0, -3.4, -3.4, -3.4, -5.2, -5.2, -6.1, -6.1, -4.9, -1.1),
}
"""Descriptor → ln of the typical variance of each feature over its largest possible one."""
USUAL = -5.0
"""The same for a feature of a descriptor that is not listed."""


@dataclass(frozen=True, eq=False)
class Prior:
    """A public expectation, in the manifold's coordinates at `centre`.

    Attributes
    ----------
    centre : array, shape (*point_shape)
        Where the mean is expected.
    line : array, shape (d,), or None
        Unit vector e along which records spread widely and unevenly; their coordinate along it is
        clipped to an interval of its own. None: no such direction, all are treated alike.
    span : (float, float)
        Least and largest ⟨e, log(origin, X)⟩ of a record; any two numbers without a line.
    step : float
        Width of the bins along the line.
    scales : array, shape (d,)
        Relative scale of each coordinate; best is the square root of its standard deviation.
    least : float
        Smallest distance from the centre, off the line, that is worth telling apart.
    doubt : float
        Standard deviation of the mean off the line, in a direction of average scale; it goes with
        the square of the scale. Along the line it is twice `step`.
    """

    centre: Point
    line: FloatArray | None
    span: tuple[float, float]
    step: float
    scales: FloatArray
    least: float
    doubt: float


def centred(prior: Prior, centre: Point) -> Prior:
    """Return `prior` with another array for the same centre, or another centre."""
    return replace(prior, centre=centre)


def default_prior(domain: Domain, manifold: Manifold) -> Prior:
    """Return the prior of image descriptors on SPD(k), of a ball on any other manifold."""
    if isinstance(domain, ImageDomain) and manifold.name.startswith("spd-"):
        return _images(domain, manifold)
    return Prior(
        centre=manifold.origin,
        line=None,
        span=(0.0, 0.0),
        step=1.0,
        scales=np.ones(manifold.dim),
        least=domain.radius / 100.0,
        doubt=domain.radius / 2.0,
    )


def _images(domain: ImageDomain, manifold: Manifold) -> Prior:
    """Return the prior of descriptors: independent features of typical variance, line Id/√k.

    ⟨log(p, X), Id⟩ = ln det X − ln det p in the log-Euclidean and the affine-invariant metric, and
    half of it for the diagonal of log-Cholesky: contrast, whose place does not depend on p. It lies
    in Σ ln η .. Σ ln(v_j + η), since det X is at most the product of the diagonal (Hadamard).
    """
    k, d = len(domain.variances), manifold.dim
    share = np.array(TYPICAL.get(domain.descriptor, (USUAL,) * k))
    logs = np.log(np.array(domain.variances)) + share
    line = np.zeros(d)
    line[:k] = 1.0 / math.sqrt(k)
    scales = np.full(d, 0.45)
    scales[:k] = 0.7
    half = manifold.name == "spd-log-cholesky"
    coordinates = np.zeros(d)
    coordinates[:k] = logs / 2.0 if half else logs
    if half:  # logarithms of deviations in place of variances; entries of L in units of its row
        rows = np.tril_indices(k, -1)[0]
        scales[:k] = 0.5
        scales[k:] = np.exp(logs[rows] / 4.0) * 0.4
    ends = np.full(k, math.log(domain.eta)), np.log(np.array(domain.variances) + domain.eta)
    low, high = (float(line[:k] @ end) / (2.0 if half else 1.0) for end in ends)
    centre = manifold.exp(manifold.origin, coordinates)
    return Prior(centre, line, (low, high), 1.0 if half else 2.0, scales, 0.35, 0.8)
