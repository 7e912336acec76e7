"""What a release costs: definitions, calibration, composition, conversion, and the statement.

Read in this order: ``definitions.py`` (the records), ``calibration.py`` (budget → scale of noise),
``composition.py`` (how budgets add up), ``groups.py`` (several records of one person),
``profiles.py`` (what they mean to an attacker), ``advantage.py`` (what they mean to one person),
``conversion.py`` and ``costs.py`` (from one definition, or from a scale, to another),
``statement.py``. For who accounts for releases of their own, as no release here needs it:
``amplification.py``, ``pld.py``, and `tradeoff` of ``profiles.py``.
``exact.py`` and ``normal.py`` hold the numerics that keep every figure on the private side.
"""

from pipeline.privacy.advantage import advantage, best_test, certified, success
from pipeline.privacy.amplification import amplify
from pipeline.privacy.calibration import (
    gaussian_sigma,
    generalized_gaussian_sigma,
    laplace_sigma,
)
from pipeline.privacy.composition import (
    compose,
    fits,
    parallel,
    remaining,
    repeat,
    repeat_as_written,
    split,
)
from pipeline.privacy.conversion import convert
from pipeline.privacy.costs import gaussian_cost, generalized_gaussian_cost, laplace_cost
from pipeline.privacy.definitions import (
    DEFINITIONS,
    GDP,
    KLDP,
    MCDP,
    RDP,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    RaoDP,
    budget_from,
    letter,
    main_parameter,
    second_parameter,
)
from pipeline.privacy.groups import for_group, for_group_as_written, for_one_of_group
from pipeline.privacy.pld import pld_compose
from pipeline.privacy.profiles import delta_of, epsilon_of, tradeoff
from pipeline.privacy.statement import PrivacyStatement, privacy_statement

__all__ = [
    "DEFINITIONS",
    "GDP",
    "KLDP",
    "MCDP",
    "RDP",
    "ZCDP",
    "ApproxDP",
    "Budget",
    "PrivacyStatement",
    "PureDP",
    "RaoDP",
    "advantage",
    "amplify",
    "best_test",
    "budget_from",
    "certified",
    "compose",
    "convert",
    "delta_of",
    "epsilon_of",
    "fits",
    "for_group",
    "for_group_as_written",
    "for_one_of_group",
    "gaussian_cost",
    "gaussian_sigma",
    "generalized_gaussian_cost",
    "generalized_gaussian_sigma",
    "laplace_cost",
    "laplace_sigma",
    "letter",
    "main_parameter",
    "parallel",
    "pld_compose",
    "privacy_statement",
    "remaining",
    "repeat",
    "repeat_as_written",
    "second_parameter",
    "split",
    "success",
    "tradeoff",
]
