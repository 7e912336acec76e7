"""Manifolds in one chart, functions of small symmetric matrices, and the Fréchet mean.

In reading order: ``manifold.py``, the contract, with ``area.py`` for those that look alike in all
directions; ``linalg.py``, stacks of small matrices, on ``compiling.py``, ``loops.py``, ``lanes.py``
and ``factoring.py``; ``covariances.py``, what a metric knows of covariance descriptors, with
``spectrum.py``; ``spd.py``, ``affine.py``, and with ``vectors.py`` the manifolds of vectors:
``hyperbolic.py``, ``sphere.py``, ``kendall.py``. ``chart.py`` and ``normal_chart.py`` show points
as coordinates. ``registry.py`` has them by name; ``pulls.py`` and ``mean.py`` hold the
means.
"""

from pipeline.geometry.chart import FlatChart, chart_of, flat_chart, from_chart, to_chart
from pipeline.geometry.kendall import preshape
from pipeline.geometry.linalg import sym_exp, sym_log, unvecd, vecd
from pipeline.geometry.manifold import Manifold, Point
from pipeline.geometry.mean import (
    FrechetMean,
    frechet_mean,
    frechet_mean_of_parts,
    gradient,
    gradient_norm,
)
from pipeline.geometry.normal_chart import NormalChart
from pipeline.geometry.registry import MANIFOLDS, find_manifold

__all__ = [
    "MANIFOLDS",
    "FlatChart",
    "FrechetMean",
    "Manifold",
    "NormalChart",
    "Point",
    "chart_of",
    "find_manifold",
    "flat_chart",
    "frechet_mean",
    "frechet_mean_of_parts",
    "from_chart",
    "gradient",
    "gradient_norm",
    "preshape",
    "sym_exp",
    "sym_log",
    "to_chart",
    "unvecd",
    "vecd",
]
