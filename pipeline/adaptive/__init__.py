"""The adaptive mean: noise as wide as the records of a class lie, not as any two images could.

One class: ``records.py`` (prepare) → ``mean.py`` (survey, rounds) → ``noise.py`` (released).
"""

from pipeline.adaptive.mean import AdaptiveDraws, adaptive_mean
from pipeline.adaptive.noise import (
    Cost,
    Noise,
    Noised,
    hardened_noise,
    mean_sensitivity,
    numpy_noise,
    step_costs,
)
from pipeline.adaptive.plan import AdaptivePlan, Shares, default_plan, read_shares
from pipeline.adaptive.prior import Prior, default_prior
from pipeline.adaptive.records import Records, prepare
from pipeline.adaptive.region import Domain, Region, definite, region

__all__ = [
    "AdaptiveDraws",
    "AdaptivePlan",
    "Cost",
    "Domain",
    "Noise",
    "Noised",
    "Prior",
    "Records",
    "Region",
    "Shares",
    "adaptive_mean",
    "default_plan",
    "default_prior",
    "definite",
    "hardened_noise",
    "mean_sensitivity",
    "numpy_noise",
    "prepare",
    "read_shares",
    "region",
    "step_costs",
]
