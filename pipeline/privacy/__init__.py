"""Privacy: definitions, calibration, composition, conversion, and the statement.

Read in this order: ``definitions.py`` (the records), ``profiles.py`` (what they mean to an
attacker), ``conversion.py`` (from a budget to the scale of noise, and from a scale, or from one
definition, to another), ``composition.py`` (how budgets add up, several records of one person among
them), ``statement.py`` (what they mean to one person). For who accounts for releases of their own,
as no release here needs it: `pld_compose`. ``rounding.py`` holds the numerics that keep every
figure on the private side.
"""

from covdp.privacy.composition import compose as compose
from covdp.privacy.composition import fits as fits
from covdp.privacy.composition import for_group as for_group
from covdp.privacy.composition import for_group_as_written as for_group_as_written
from covdp.privacy.composition import for_one_of_group as for_one_of_group
from covdp.privacy.composition import pld_compose as pld_compose
from covdp.privacy.composition import repeat as repeat
from covdp.privacy.composition import repeat_as_written as repeat_as_written
from covdp.privacy.composition import share_of as share_of
from covdp.privacy.composition import split as split
from covdp.privacy.conversion import convert as convert
from covdp.privacy.conversion import gaussian_cost as gaussian_cost
from covdp.privacy.conversion import gaussian_sigma as gaussian_sigma
from covdp.privacy.conversion import laplace_cost as laplace_cost
from covdp.privacy.conversion import laplace_epsilon as laplace_epsilon
from covdp.privacy.conversion import laplace_sigma as laplace_sigma
from covdp.privacy.definitions import DEFINITIONS as DEFINITIONS
from covdp.privacy.definitions import GDP as GDP
from covdp.privacy.definitions import KLDP as KLDP
from covdp.privacy.definitions import MCDP as MCDP
from covdp.privacy.definitions import RDP as RDP
from covdp.privacy.definitions import ZCDP as ZCDP
from covdp.privacy.definitions import ApproxDP as ApproxDP
from covdp.privacy.definitions import Budget as Budget
from covdp.privacy.definitions import PureDP as PureDP
from covdp.privacy.definitions import RaoDP as RaoDP
from covdp.privacy.definitions import budget_from as budget_from
from covdp.privacy.definitions import equation as equation
from covdp.privacy.definitions import letter as letter
from covdp.privacy.definitions import main_parameter as main_parameter
from covdp.privacy.definitions import second_parameter as second_parameter
from covdp.privacy.profiles import delta_of as delta_of
from covdp.privacy.profiles import epsilon_of as epsilon_of
from covdp.privacy.statement import advantage as advantage
from covdp.privacy.statement import best_test as best_test
from covdp.privacy.statement import certified as certified
from covdp.privacy.statement import privacy_statement as privacy_statement
from covdp.privacy.statement import protected_unit as protected_unit
from covdp.privacy.statement import protects as protects
from covdp.privacy.statement import success as success
