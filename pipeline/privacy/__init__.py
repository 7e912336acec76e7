"""What a release costs: definitions, calibration, composition, conversion, and the statement.

Read in this order: ``definitions.py`` (the records), ``profiles.py`` (what they mean to an
attacker), ``conversion.py`` (from a budget to the scale of noise, and from a scale, or from one
definition, to another), ``composition.py`` (how budgets add up, several records of one person among
them), ``statement.py`` (what they mean to one person). For who accounts for releases of their own,
as no release here needs it: `amplify`, `pld_compose` and `tradeoff`. ``rounding.py`` holds the
numerics that keep every figure on the private side.
"""

from pipeline.privacy.composition import compose as compose
from pipeline.privacy.composition import fits as fits
from pipeline.privacy.composition import for_group as for_group
from pipeline.privacy.composition import for_group_as_written as for_group_as_written
from pipeline.privacy.composition import for_one_of_group as for_one_of_group
from pipeline.privacy.composition import pld_compose as pld_compose
from pipeline.privacy.composition import repeat as repeat
from pipeline.privacy.composition import repeat_as_written as repeat_as_written
from pipeline.privacy.composition import share_of as share_of
from pipeline.privacy.composition import split as split
from pipeline.privacy.conversion import amplify as amplify
from pipeline.privacy.conversion import convert as convert
from pipeline.privacy.conversion import gaussian_cost as gaussian_cost
from pipeline.privacy.conversion import gaussian_sigma as gaussian_sigma
from pipeline.privacy.conversion import generalized_gaussian_cost as generalized_gaussian_cost
from pipeline.privacy.conversion import generalized_gaussian_sigma as generalized_gaussian_sigma
from pipeline.privacy.conversion import laplace_cost as laplace_cost
from pipeline.privacy.conversion import laplace_epsilon as laplace_epsilon
from pipeline.privacy.conversion import laplace_sigma as laplace_sigma
from pipeline.privacy.definitions import DEFINITIONS as DEFINITIONS
from pipeline.privacy.definitions import GDP as GDP
from pipeline.privacy.definitions import KLDP as KLDP
from pipeline.privacy.definitions import MCDP as MCDP
from pipeline.privacy.definitions import RDP as RDP
from pipeline.privacy.definitions import ZCDP as ZCDP
from pipeline.privacy.definitions import ApproxDP as ApproxDP
from pipeline.privacy.definitions import Budget as Budget
from pipeline.privacy.definitions import PureDP as PureDP
from pipeline.privacy.definitions import RaoDP as RaoDP
from pipeline.privacy.definitions import budget_from as budget_from
from pipeline.privacy.definitions import equation as equation
from pipeline.privacy.definitions import letter as letter
from pipeline.privacy.definitions import main_parameter as main_parameter
from pipeline.privacy.definitions import second_parameter as second_parameter
from pipeline.privacy.profiles import delta_of as delta_of
from pipeline.privacy.profiles import epsilon_of as epsilon_of
from pipeline.privacy.profiles import tradeoff as tradeoff
from pipeline.privacy.statement import advantage as advantage
from pipeline.privacy.statement import best_test as best_test
from pipeline.privacy.statement import certified as certified
from pipeline.privacy.statement import privacy_statement as privacy_statement
from pipeline.privacy.statement import protects as protects
from pipeline.privacy.statement import success as success
