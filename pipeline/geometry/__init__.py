"""Manifolds in one chart, functions of small symmetric matrices, and the Fréchet mean."""

from pipeline.geometry.chart import FlatChart, flat_chart
from pipeline.geometry.inductive import InductiveMean, inductive_mean, inductive_mean_of_parts
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
    "InductiveMean",
    "Manifold",
    "NormalChart",
    "Point",
    "find_manifold",
    "flat_chart",
    "frechet_mean",
    "frechet_mean_of_parts",
    "gradient",
    "gradient_norm",
    "inductive_mean",
    "inductive_mean_of_parts",
    "preshape",
    "sym_exp",
    "sym_log",
    "unvecd",
    "vecd",
]
