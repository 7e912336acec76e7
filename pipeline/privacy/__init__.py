"""What a release costs: definitions, calibration, composition, conversion, and the statement.

Read in this order: ``definitions.py`` (the records), ``calibration.py`` (budget → scale of noise),
``composition.py`` (budgets add up), ``conversion.py`` (from one definition to another).
``exact.py`` and ``normal.py`` hold the numerics that keep every figure on the private side.
"""

from pipeline.privacy.calibration import gaussian_sigma, generalized_gaussian_sigma, laplace_sigma
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
    main_parameter,
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
    "PureDP",
    "RaoDP",
    "budget_from",
    "gaussian_sigma",
    "generalized_gaussian_sigma",
    "laplace_sigma",
    "main_parameter",
]
