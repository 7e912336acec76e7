"""Manifolds in one chart, functions of small symmetric matrices, and the Fréchet mean.

In reading order: ``manifold.py``, the contract; ``linalg.py``, stacks of small matrices, on
``jacobi.py``; ``covariances.py``, what a metric knows of covariance descriptors; the manifolds
``spd.py``, ``hyperbolic.py``, ``sphere.py``, ``kendall.py``; ``charts.py``, points as coordinates
and maps of these; ``frechet.py``, manifolds by name, and the mean.
"""

from pipeline.geometry.charts import (
    AffineMap,
    FlatChart,
    NormalChart,
    chart_of,
    flat_chart,
    from_chart,
    to_chart,
)
from pipeline.geometry.frechet import (
    MANIFOLDS,
    FrechetMean,
    find_manifold,
    frechet_mean,
    frechet_mean_of_parts,
    gradient,
    gradient_norm,
)
from pipeline.geometry.kendall import preshape
from pipeline.geometry.linalg import sym_exp, sym_log, unvecd, vecd
from pipeline.geometry.manifold import Manifold, Point

__all__ = [
    "MANIFOLDS",
    "AffineMap",
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
