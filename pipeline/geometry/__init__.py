"""Manifolds in one chart, functions of small symmetric matrices, and the Fréchet mean.

In reading order: ``manifold.py``, the contract; ``linalg.py``, stacks of small matrices, on
``jacobi.py``; ``covariances.py``, what a metric knows of covariance descriptors; the manifolds
of SPD matrices, ``spd.py``; ``charts.py``, points as coordinates
and maps of these; ``frechet.py``, manifolds by name, and the mean.
"""

from covdp.geometry.charts import AffineMap as AffineMap
from covdp.geometry.charts import FlatChart as FlatChart
from covdp.geometry.charts import chart_of as chart_of
from covdp.geometry.charts import from_chart as from_chart
from covdp.geometry.charts import to_chart as to_chart
from covdp.geometry.frechet import MANIFOLDS as MANIFOLDS
from covdp.geometry.frechet import FrechetMean as FrechetMean
from covdp.geometry.frechet import find_manifold as find_manifold
from covdp.geometry.frechet import frechet_mean as frechet_mean
from covdp.geometry.frechet import frechet_mean_of_parts as frechet_mean_of_parts
from covdp.geometry.frechet import gradient_norm as gradient_norm
from covdp.geometry.linalg import sym_exp as sym_exp
from covdp.geometry.linalg import sym_log as sym_log
from covdp.geometry.linalg import unvecd as unvecd
from covdp.geometry.linalg import vecd as vecd
from covdp.geometry.manifold import Manifold as Manifold
from covdp.geometry.manifold import Point as Point
