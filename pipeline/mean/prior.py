"""What is publicly expected of the records: where, and how wide in which direction.

None of it is read from the records, and none of it is assumed: a wrong prior costs accuracy at
small n·μ, never privacy. The figures for images, here and in a descriptor's `typical` and
`contrasts`, were set by hand after looking at public ones: photographs and `tiles` of scikit-image,
and MedMNIST. ``python -m tests.tuning`` prints beside each what `tiles`, PneumoniaMNIST and
BreastMNIST say, or what another value would cost on them. They are coarse facts on all of them:
contrast varies by orders of magnitude between pictures and moves log R along Id (each feature
scales with it), while the ratios of the features' variances hardly vary; gradients are weaker than
intensities, second derivatives weaker still; features correlate weakly.
Next on the path: ``plan.py``.
"""

import math
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold
from pipeline.geometry.covariances import Covariances, covariances_of
from pipeline.mean.domain import CovarianceDomain, Domain

USUAL = -5.0
"""ln of a typical variance over the largest possible one, where `Descriptor.typical` says none.

By hand.
"""
DIAGONAL, OTHERS = 0.7, 0.42
"""Scale of log-variances without known contrasts, and of all other coordinates.

The first by hand, the second on the three sets the same within a twentieth.
"""
STEP, LEAST, DOUBT = 2.0, 0.35, 0.8
"""`Prior.step` where log-variances are coordinates, `Prior.least` and `Prior.doubt` of images.

By hand.
"""
BALL_LEAST, BALL_DOUBT = 100.0, 2.0
"""Radius of a ball, of which nothing else is known, over its `Prior.least` and `Prior.doubt`.

By hand.
"""


@dataclass(frozen=True, eq=False)
class Prior:
    """A public expectation, in the manifold's coordinates at `centre`.

    Attributes
    ----------
    centre : array, shape (d,)
        Where the mean is expected: log(origin, centre).
    line : array, shape (d,), or None
        Unit vector e along which records spread widely and unevenly; their coordinate along it is
        clipped to an interval of its own. None: no such direction, all are treated alike.
    span : (float, float)
        Least and largest ⟨e, log(origin, X)⟩ of a record; any two numbers without a line.
    step : float
        Width of the bins along the line.
    shape : array, shape (d, d)
        Symmetric, positive definite: relative scales. Best is the fourth root of the covariance of
        the records, so the square root of the standard deviation in each principal direction.
    least : float
        Smallest distance from the centre, off the line, that is worth telling apart.
    doubt : float
        Standard deviation of the mean off the line, in a direction of average scale; it goes with
        the square of the scale. Along the line it is `rounds.ALONG` steps.
    """

    centre: FloatArray
    line: FloatArray | None
    span: tuple[float, float]
    step: float
    shape: FloatArray
    least: float
    doubt: float


def default_prior(domain: Domain, manifold: Manifold) -> Prior:
    """Return the prior of image descriptors on SPD(k), of a ball on any other manifold."""
    known = covariances_of(manifold)
    if isinstance(domain, CovarianceDomain) and known is not None:
        return _images(domain, known, manifold.dim)
    return Prior(
        centre=np.zeros(manifold.dim),
        line=None,
        span=(0.0, 0.0),
        step=1.0,
        shape=np.eye(manifold.dim),
        least=domain.radius / BALL_LEAST,
        doubt=domain.radius / BALL_DOUBT,
    )


def _images(domain: CovarianceDomain, known: Covariances, d: int) -> Prior:
    """Return the prior of descriptors: independent features of typical variance, line Id/√k.

    ⟨log(p, X), Id⟩ = ln det X − ln det p in the log-Euclidean and the affine-invariant metric, and
    half of it for the diagonal of log-Cholesky: contrast, whose place does not depend on p. It lies
    in Σ ln η .. Σ ln(v_j + η), since det X is at most the product of the diagonal (Hadamard).
    """
    k, share = len(domain.variances), known.log_share
    typical = np.array(getattr(domain, "typical", ()) or (USUAL,) * k)
    logs = np.log(np.array(domain.variances)) + typical
    line, centre = np.zeros(d), np.zeros(d)
    line[:k], centre[:k] = 1.0 / math.sqrt(k), share * logs
    ends = np.full(k, math.log(domain.eta)), np.log(np.array(domain.variances) + domain.eta)
    low, high = (float(line[:k] @ end) * share for end in ends)
    return Prior(
        centre=centre,
        line=line,
        span=(low, high),
        step=STEP * share,
        shape=known.scales(_contrasts(domain, k), OTHERS, logs),
        least=LEAST,
        doubt=DOUBT,
    )


def _contrasts(domain: CovarianceDomain, k: int) -> FloatArray:
    """Return the scales of log-variances, (k, k): known contrasts, and all others alike."""
    shape = DIAGONAL * np.eye(k)
    for weights, scale in getattr(domain, "contrasts", ()):
        axis = np.array(weights) / np.linalg.norm(weights)
        shape += (scale - DIAGONAL) * np.outer(axis, axis)
    return shape
