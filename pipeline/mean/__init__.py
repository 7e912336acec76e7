"""The private mean: where every mean of this project is planned, bounded and drawn.

    points ─► records ─► plan ─┬► single: statistic, sensitivity, noise ─┐
              (the door)       └► adaptive: view ─► rounds ──────────────┴► Release

``engine.py`` is the whole in one page, ``release.py`` what comes out. In reading order, on to them:
``plan.py``; ``domain.py``, ``region.py``, ``prior.py`` and ``ground.py``, what is publicly known;
``parts.py``, ``persons.py``, ``sums.py`` and ``records.py``, the door; ``vector_mean.py``,
``barycentre.py``, ``sensitivity.py`` and ``single.py``. The adaptive mean, noise as wide as the
records of a class lie and not as any two images could: ``frame.py``, ``bins.py``, ``smoothing.py``,
``survey.py``, ``choice.py``, ``clipping.py``, ``view.py``, ``second_moment.py``, ``spread.py``,
``observed.py``, ``pooling.py``, ``shrinkage.py``, ``reshaping.py``, ``rounds.py``.
"""

from pipeline.mean.domain import Ball, CovarianceDomain, Domain
from pipeline.mean.engine import Drawn, Prepared, draw, mean, prepare, private_mean
from pipeline.mean.observed import Observed
from pipeline.mean.parts import Chunks
from pipeline.mean.persons import person_records
from pipeline.mean.plan import (
    AdaptivePlan,
    Plan,
    Shares,
    SinglePlan,
    release_plan,
    shared_plan,
)
from pipeline.mean.prior import Prior, default_prior
from pipeline.mean.records import Records, admit
from pipeline.mean.region import Region, region
from pipeline.mean.release import NonPrivate, Release, Step
from pipeline.mean.single import calibrate
from pipeline.mean.vector_mean import step_costs

__all__ = [
    "AdaptivePlan",
    "Ball",
    "Chunks",
    "CovarianceDomain",
    "Domain",
    "Drawn",
    "NonPrivate",
    "Observed",
    "Plan",
    "Prepared",
    "Prior",
    "Records",
    "Region",
    "Release",
    "Shares",
    "SinglePlan",
    "Step",
    "admit",
    "calibrate",
    "default_prior",
    "draw",
    "mean",
    "person_records",
    "prepare",
    "private_mean",
    "region",
    "release_plan",
    "shared_plan",
    "step_costs",
]
