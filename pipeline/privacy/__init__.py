"""What a release costs: definitions, calibration, composition, conversion, and the statement.

Read in this order: ``definitions.py`` (the records), ``profiles.py`` (what they mean to an
attacker), ``conversion.py`` (from a budget to the scale of noise, and from a scale, or from one
definition, to another), ``composition.py`` (how budgets add up, several records of one person among
them), ``statement.py`` (what they mean to one person). For who accounts for releases of their own,
as no release here needs it: `amplify`, `pld_compose` and `tradeoff`. ``rounding.py`` holds the
numerics that keep every figure on the private side.
"""

from pipeline.privacy.composition import (
    compose,
    fits,
    for_group,
    for_group_as_written,
    for_one_of_group,
    parallel,
    pld_compose,
    remaining,
    repeat,
    repeat_as_written,
    split,
)
from pipeline.privacy.conversion import (
    amplify,
    convert,
    gaussian_cost,
    gaussian_sigma,
    generalized_gaussian_cost,
    generalized_gaussian_sigma,
    laplace_cost,
    laplace_sigma,
)
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
from pipeline.privacy.profiles import delta_of, epsilon_of, tradeoff
from pipeline.privacy.statement import (
    PrivacyStatement,
    advantage,
    best_test,
    certified,
    privacy_statement,
    success,
)

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
