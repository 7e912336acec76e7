"""Manifolds in one chart, functions of small symmetric matrices, and the Fréchet mean."""

from collections.abc import Callable

from pipeline.geometry.linalg import sqrtm, sym_eig, sym_exp, sym_log, unvecd, vecd
from pipeline.geometry.manifold import Manifold, Point
from pipeline.geometry.spd import LogEuclidean

MANIFOLDS: dict[str, Callable[..., Manifold]] = {
    "spd-log-euclidean": LogEuclidean,
}
"""Name → constructor: ``MANIFOLDS["spd-log-euclidean"](k=5)``, …"""

__all__ = [
    "MANIFOLDS",
    "Manifold",
    "Point",
    "sqrtm",
    "sym_eig",
    "sym_exp",
    "sym_log",
    "unvecd",
    "vecd",
]
