"""What is publicly expected of the records: where, and how wide in which direction.

None of it is read from the records, and none of it is assumed: a wrong prior costs accuracy at
small n·μ, never privacy. The figures for images, here and in a descriptor's `typical` and
`correlations`, were set by hand after looking at public ones: photographs and `tiles` of
scikit-image, and MedMNIST. ``python -m tests.tuning`` prints beside each what `tiles`,
PneumoniaMNIST and BreastMNIST say, or what another value would cost on them. They are coarse facts
on all of them: contrast varies by orders of magnitude between pictures and moves log R along Id
(each feature scales with it), while the ratios of the features' variances hardly vary; gradients
are weaker than intensities, second derivatives weaker still; a gradient's size and angle go with
its parts. How wide descriptors lie in which direction, `SCALES`, is that of tiles of three pictures
of scikit-image, as they are, stretched, made small, and in black and white.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold
from pipeline.geometry.covariances import Covariances, covariances_of
from pipeline.mean.domain import CovarianceDomain, Domain, check_domain

USUAL = -5.0
"""ln of a typical variance over the largest possible one, where `Descriptor.typical` says none.

By hand.
"""
SCALES = Path(__file__).with_name("scales.json")
"""`Prior.shape` of descriptors, by name and metric, upper triangles row by row.

As ``python -m tests.tuning --scales`` makes them of pictures of scikit-image.
"""
DIAGONAL, OTHERS = 0.7, 0.42
"""Scale of log-variances, and of all other coordinates, of descriptors that are not in there.

By hand.
"""
STEP, LEAST, DOUBT = 2.0, 0.45, 2.0
"""`Prior.step` where log-variances are coordinates, `Prior.least` and `Prior.doubt` of images.

By hand. The last two are for each unit of how wide records are expected to lie off the line: of
their root mean square there, and of their mean standard deviation.
"""
FARTHEST = 66.0
"""`Prior.farthest` of images, in units of `Prior.least`.

Of stripes, boards, ramps, edges, single pixels and noise, some thousand kinds, seen from classes of
PneumoniaMNIST and `tiles` in all metrics, the farthest with `oct5` lies 55 of them off the line,
with `grid9` 31; seen from classes of simple patterns some lie at 66.
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
        Symmetric, positive definite: scales. Best is the fourth root of the covariance of the
        records, so the square root of the standard deviation in each principal direction.
    least : float
        Smallest distance from the centre, off the line, that is worth telling apart.
    doubt : float
        Standard deviation of the mean off the line, in a direction of average scale; it goes with
        the square of the scale. Along the line it is `rounds.ALONG` steps.
    farthest : float
        Distance from the centre, off the line, beyond which no record is expected: overshoots of
        farther ones count as if they were there.
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
    known = covariances_of(manifold)
    if isinstance(domain, CovarianceDomain) and known is not None:
        return _images(domain, known, manifold)
    return Prior(
        centre=np.zeros(manifold.dim),
        line=None,
        span=(0.0, 0.0),
        step=1.0,
        shape=np.eye(manifold.dim),
        least=domain.radius / BALL_LEAST,
        doubt=domain.radius / BALL_DOUBT,
        farthest=2.0 * domain.radius,
    )


def _images(domain: CovarianceDomain, known: Covariances, manifold: Manifold) -> Prior:
    """Return the prior of descriptors: features of typical variances and correlations, line Id/√k.

    ⟨log(p, X), Id⟩ = ln det X − ln det p in the log-Euclidean and the affine-invariant metric, and
    half of it for the diagonal of log-Cholesky: contrast, whose place does not depend on p. It lies
    in Σ ln η .. Σ ln(v_j + η), since det X is at most the product of the diagonal (Hadamard).
    """
    d, k, share = manifold.dim, len(domain.variances), known.log_share
    typical = np.array(getattr(domain, "typical", ()) or (USUAL,) * k)
    logs = np.log(np.array(domain.variances)) + typical
    line = np.zeros(d)
    line[:k] = 1.0 / math.sqrt(k)
    ends = np.full(k, math.log(domain.eta)), np.log(np.array(domain.variances) + domain.eta)
    low, high = (float(line[:k] @ end) * share for end in ends)
    found = _shape(domain.descriptor, manifold.metric, d)
    shape = known.scales(DIAGONAL * np.eye(k), OTHERS, logs) if found is None else found
    squares = shape @ shape  # the root of the expected covariance
    wide = float(np.trace(squares) - line @ squares @ line) / (d - 1)
    return Prior(
        centre=_coordinates(_typical(domain, logs), manifold),
        line=line,
        span=(low, high),
        step=STEP * share,
        shape=shape,
        least=LEAST * math.sqrt(d - 1) * wide,
        doubt=DOUBT * wide,
        farthest=FARTHEST * LEAST * math.sqrt(d - 1) * wide,
    )


def _typical(domain: CovarianceDomain, logs: FloatArray) -> FloatArray:
    """Return the typical descriptor, (k, k), of these log-variances."""
    usual = np.eye(len(logs))
    for i, j, value in getattr(domain, "correlations", ()):
        usual[i, j] = usual[j, i] = value
    return np.asarray(usual * np.exp(np.add.outer(logs, logs) / 2.0))


def _coordinates(matrix: FloatArray, manifold: Manifold) -> FloatArray:
    """Return the coordinates at the origin of a matrix, (d,); a chart's points are these."""
    charted: Callable[[FloatArray], FloatArray] | None = getattr(manifold, "coordinates", None)
    return charted(matrix) if charted else manifold.log(manifold.origin, matrix)


def scales_name(descriptor: str, metric: str) -> str:
    """Return the name that a shape has in `SCALES`."""
    return f"{descriptor} {metric}"


@cache
def _scales() -> dict[str, list[float]]:
    """Return what is in `SCALES`."""
    found: dict[str, list[float]] = json.loads(SCALES.read_text(encoding="utf-8"))
    return found


def _shape(descriptor: str, metric: str, d: int) -> FloatArray | None:
    """Return the scales that public pictures have, (d, d), None where nobody has looked."""
    upper = _scales().get(scales_name(descriptor, metric))
    if upper is None:
        return None
    shape = np.zeros((d, d))
    shape[np.triu_indices(d)] = upper
    return np.asarray(shape + np.triu(shape, 1).T)
