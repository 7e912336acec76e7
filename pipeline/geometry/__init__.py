"""Manifolds in one chart, functions of small symmetric matrices, and the Fréchet mean."""

from collections.abc import Callable

from pipeline.geometry.affine import AffineInvariant
from pipeline.geometry.chart import FlatChart, flat_chart
from pipeline.geometry.hyperbolic import Hyperbolic
from pipeline.geometry.inductive import InductiveMean, inductive_mean
from pipeline.geometry.kendall import Kendall, preshape
from pipeline.geometry.linalg import inv_sqrtm, sqrtm, sym_eig, sym_exp, sym_log, unvecd, vecd
from pipeline.geometry.manifold import Manifold, Point
from pipeline.geometry.mean import FrechetMean, frechet_mean, gradient, gradient_norm
from pipeline.geometry.normal_chart import NormalChart
from pipeline.geometry.spd import LogCholesky, LogEuclidean
from pipeline.geometry.sphere import Sphere

MANIFOLDS: dict[str, Callable[..., Manifold]] = {
    "spd-log-euclidean": LogEuclidean,
    "spd-log-cholesky": LogCholesky,
    "spd-affine-invariant": AffineInvariant,
    "hyperbolic": Hyperbolic,
    "sphere": Sphere,
    "kendall": Kendall,
}
"""Name → constructor; its argument is k on SPD(k), dim on H^d and S^d, landmarks for shapes."""

__all__ = [
    "MANIFOLDS",
    "FlatChart",
    "FrechetMean",
    "InductiveMean",
    "Manifold",
    "NormalChart",
    "Point",
    "flat_chart",
    "frechet_mean",
    "gradient",
    "gradient_norm",
    "inductive_mean",
    "inv_sqrtm",
    "preshape",
    "sqrtm",
    "sym_eig",
    "sym_exp",
    "sym_log",
    "unvecd",
    "vecd",
]
