"""The private mean: where every mean of this project is planned, bounded and drawn.

    points ─► records ─► plan ─┬► single: statistic, sensitivity, noise ─┐
              (the door)       └► adaptive: survey ─► rounds ────────────┴► Release

``engine.py`` is the whole in one page; ``release.py`` is what comes out, and what is secret of
classes. In reading order, on to them: ``plan.py``; ``public_model.py``, what is publicly known of
records; ``records.py``, the door and the barycentre, and ``sums.py``, sums of what comes in batches
and never overflow or round; ``sensitivity.py`` and ``single.py``. The adaptive mean, noise as wide
as the records of a class lie and not as any two images could: ``axes.py``, ``histogram.py``,
``clip.py``, ``noisy_moments.py``, ``rounds.py``. Its numbers that were set by hand stand in
``tuning.py``.
"""

from pipeline.mean.engine import Prepared, draw, draw_each, mean, prepare, private_mean
from pipeline.mean.noisy_moments import NoisyMoments
from pipeline.mean.plan import AdaptivePlan, Plan, Shares, SinglePlan, release_plan, shared_plan
from pipeline.mean.public_model import (
    Ball,
    CovarianceDomain,
    Domain,
    FeasibleSet,
    Prior,
    default_prior,
    feasible_set,
)
from pipeline.mean.records import Records, admit, person_records
from pipeline.mean.release import (
    PUBLIC_LABELS,
    Labels,
    NonPrivate,
    Release,
    ReleasedCount,
    Step,
    read_labels,
)
from pipeline.mean.rounds import step_costs
from pipeline.mean.single import calibrate
from pipeline.mean.sums import Batches

__all__ = [
    "PUBLIC_LABELS",
    "AdaptivePlan",
    "Ball",
    "Batches",
    "CovarianceDomain",
    "Domain",
    "FeasibleSet",
    "Labels",
    "NoisyMoments",
    "NonPrivate",
    "Plan",
    "Prepared",
    "Prior",
    "Records",
    "Release",
    "ReleasedCount",
    "Shares",
    "SinglePlan",
    "Step",
    "admit",
    "calibrate",
    "default_prior",
    "draw",
    "draw_each",
    "feasible_set",
    "mean",
    "person_records",
    "prepare",
    "private_mean",
    "read_labels",
    "release_plan",
    "shared_plan",
    "step_costs",
]
