"""The private mean: where every mean of this project is planned, bounded and drawn.

    points ─► records ─► plan ─┬► single: statistic, sensitivity, noise ─┐
              (the door)       └► adaptive: view ─► rounds ──────────────┴► Release

Read in this order: ``engine.py`` (the whole in one page), ``release.py`` (what comes out),
``plan.py``, ``domain.py`` and ``region.py`` with ``spectrum.py`` (what is publicly known),
``parts.py`` and ``records.py`` (the door), ``sensitivity.py``, ``single.py``. Then the adaptive
mean, noise as wide as the records of a class lie and not as any two images could: ``prior.py``,
``frame.py``, ``bins.py``, ``view.py``, ``vector_mean.py``, ``smoothing.py``, ``survey.py``,
``choice.py``, ``sums.py``, ``second_moment.py``, ``clipping.py``, ``shrinkage.py``, ``spread.py``,
``observed.py``, ``rounds.py``.
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
    choose_plan,
    read_shares,
    release_plan,
    shared_plan,
)
from pipeline.mean.prior import Prior, default_prior
from pipeline.mean.records import Records, admit
from pipeline.mean.region import Region, region
from pipeline.mean.release import NonPrivate, Release, Step
from pipeline.mean.single import calibrate, footpoints
from pipeline.mean.vector_mean import mean_sensitivity, step_costs

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
    "choose_plan",
    "default_prior",
    "draw",
    "footpoints",
    "mean",
    "mean_sensitivity",
    "person_records",
    "prepare",
    "private_mean",
    "read_shares",
    "region",
    "release_plan",
    "shared_plan",
    "step_costs",
]
