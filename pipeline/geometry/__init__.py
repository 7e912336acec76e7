"""Manifolds in one chart, functions of small symmetric matrices, and the Fréchet mean.

In reading order: ``manifold.py``, the contract; ``linalg.py``, stacks of small matrices, on
``jacobi.py``; ``covariances.py``, what a metric knows of covariance descriptors; the manifolds
``spd.py``, ``space_forms.py``, ``kendall.py``; ``charts.py``, points as coordinates
and maps of these; ``frechet.py``, manifolds by name, and the mean.
"""

from pipeline.geometry.charts import AffineMap as AffineMap
from pipeline.geometry.charts import FlatChart as FlatChart
from pipeline.geometry.charts import chart_of as chart_of
from pipeline.geometry.charts import from_chart as from_chart
from pipeline.geometry.charts import to_chart as to_chart
from pipeline.geometry.frechet import MANIFOLDS as MANIFOLDS
from pipeline.geometry.frechet import FrechetMean as FrechetMean
from pipeline.geometry.frechet import find_manifold as find_manifold
from pipeline.geometry.frechet import frechet_mean as frechet_mean
from pipeline.geometry.frechet import frechet_mean_of_parts as frechet_mean_of_parts
from pipeline.geometry.frechet import gradient_norm as gradient_norm
from pipeline.geometry.kendall import preshape as preshape
from pipeline.geometry.linalg import sym_exp as sym_exp
from pipeline.geometry.linalg import sym_log as sym_log
from pipeline.geometry.linalg import unvecd as unvecd
from pipeline.geometry.linalg import vecd as vecd
from pipeline.geometry.manifold import Manifold as Manifold
from pipeline.geometry.manifold import Point as Point
