"""The definitions of privacy, as small frozen records.

A budget is one of these records: the numbers of one definition, checked when it is made. The same
record says what a user allows, what a mechanism was calibrated to, and what a release has cost.

Adjacency is the same for all of them: *replace one*. Two data sets are neighbours when one image is
replaced by any other image of the domain; the number of images and every label are public and stay.
P and Q below stand for the laws of the output on two neighbouring data sets.
"""

import math
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar, TypeAlias, TypeVar, get_args

from covdp.errors import PrivacyError
from covdp.privacy.rounding import digits_down, digits_up, in_powers


def check_positive(value: Any, what: str) -> float:
    """Return `value` as a float if it is a finite number above 0, else raise `PrivacyError`.

    Parameters
    ----------
    value : object
        Candidate number.
    what : str
        Name of the number, for the message.
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if 0 < number < math.inf:
            return number
    raise PrivacyError(
        f"{what} must be a finite number above 0, found {value!r}; give one like 0.5"
    )


def check_count(value: Any, what: str) -> int:
    """Return `value` as an int if it is a whole number above 0, else raise `PrivacyError`.

    Parameters
    ----------
    value : object
        Candidate number.
    what : str
        Name of the number, for the message.
    """
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) > 0:
        return int(value)
    raise PrivacyError(
        f"{what} must be a whole number above 0, found {value!r:.40}; give 1 or more"
    )


def _show(value: float) -> str:
    """Return `value` in six digits, never smaller than it is (beyond one part in 10⁹)."""
    text = f"{value:.6g}"
    if float(text) < value * (1 - 1e-9):
        step = 10.0 ** (math.floor(math.log10(value)) - 5)
        text = f"{value + step / 2:.6g}"
    return in_powers(text)


class _Definition:
    """Base of all definitions: fields are checked and stored as floats, and shown by `form`.

    `powers` has, for each field, the power of it that is additive; 0 for the order of Rényi DP,
    which must agree.
    """

    title: ClassVar[str]
    form: ClassVar[str]
    powers: ClassVar[tuple[int, ...]] = (1,)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, check_positive(value, f"{name} of {self.title}"))

    def __str__(self) -> str:
        return self.form.format(**{name: _show(value) for name, value in vars(self).items()})


@dataclass(frozen=True)
class PureDP(_Definition):
    """ε-DP: P(S) ≤ e^ε·Q(S) for every event S (Dwork, McSherry, Nissim and Smith 2006).

    Attributes
    ----------
    epsilon : float
        Privacy loss ε > 0.

    Examples
    --------
    >>> from covdp import PureDP
    >>> print(PureDP(1.0))
    1-DP
    """

    epsilon: float
    name: ClassVar[str] = "pure"
    title: ClassVar[str] = "pure DP"
    form: ClassVar[str] = "{epsilon}-DP"


@dataclass(frozen=True)
class ApproxDP(_Definition):
    """(ε, δ)-DP: P(S) ≤ e^ε·Q(S) + δ for every event S, with 0 < δ < 1.

    Attributes
    ----------
    epsilon : float
        Privacy loss ε > 0.
    delta : float
        Failure probability δ, 0 < δ < 1.

    Examples
    --------
    >>> from covdp import ApproxDP
    >>> budget = ApproxDP(1.0, 1e-6)
    >>> budget.epsilon, budget.delta
    (1.0, 1e-06)
    """

    epsilon: float
    delta: float
    name: ClassVar[str] = "approx"
    title: ClassVar[str] = "approximate DP"
    form: ClassVar[str] = "({epsilon}, {delta})-DP"
    powers: ClassVar[tuple[int, ...]] = (1, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delta(self.delta)


@dataclass(frozen=True)
class GDP(_Definition):
    """μ-GDP: telling P from Q is at least as hard as telling N(0, 1) from N(μ, 1).

    That is, T(P, Q)(α) ≥ Φ(Φ⁻¹(1 − α) − μ) for every level α (Dong, Roth and Su 2019).

    Attributes
    ----------
    mu : float
        Parameter μ > 0: the distance of two unit normals that are as hard to tell apart.

    Examples
    --------
    >>> from covdp import GDP
    >>> print(GDP(0.5))
    0.5-GDP
    >>> GDP(0.5) == GDP(mu=0.5)
    True
    """

    mu: float
    name: ClassVar[str] = "gdp"
    title: ClassVar[str] = "GDP"
    form: ClassVar[str] = "{mu}-GDP"
    powers: ClassVar[tuple[int, ...]] = (2,)


@dataclass(frozen=True)
class RDP(_Definition):
    """(α, ε)-Rényi DP: D_α(P‖Q) ≤ ε, at one order 1 < α < ∞ (Mironov 2017).

    Attributes
    ----------
    alpha : float
        Order α > 1.
    epsilon : float
        Divergence ε > 0 at that order.
    """

    alpha: float
    epsilon: float
    name: ClassVar[str] = "rdp"
    title: ClassVar[str] = "Rényi DP"
    powers: ClassVar[tuple[int, ...]] = (0, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha <= 1:
            raise PrivacyError(
                f"alpha of Rényi DP must be above 1, found {self.alpha:g}; "
                "order 1 is KLDP, order infinity is PureDP"
            )

    def __str__(self) -> str:
        return f"(α = {in_powers(f'{self.alpha:g}')}, ε = {_show(self.epsilon)})-RDP"


@dataclass(frozen=True)
class ZCDP(_Definition):
    """ρ-zCDP: D_α(P‖Q) ≤ ρ·α for every order α > 1 (Bun and Steinke 2016).

    Attributes
    ----------
    rho : float
        Divergence ρ > 0 for each unit of the order.

    Examples
    --------
    >>> from covdp import GDP, ZCDP
    >>> from covdp.privacy import convert
    >>> convert(GDP(0.5), ZCDP)
    ZCDP(rho=0.125)
    """

    rho: float
    name: ClassVar[str] = "zcdp"
    title: ClassVar[str] = "zCDP"
    form: ClassVar[str] = "ρ = {rho} zCDP"


@dataclass(frozen=True)
class RaoDP(_Definition):
    """θ-Rao DP: the Fisher-Rao distance of P and Q within the family of the noise is ≤ θ.

    A label, not a guarantee: except for Gaussian noise, where it equals μ of GDP, it bounds neither
    ε nor δ. It is shown beside certified figures and never in their place.

    Attributes
    ----------
    theta : float
        Fisher-Rao distance θ > 0.
    """

    theta: float
    name: ClassVar[str] = "rao"
    title: ClassVar[str] = "Rao DP"
    form: ClassVar[str] = "{theta}-Rao DP"
    powers: ClassVar[tuple[int, ...]] = (2,)


@dataclass(frozen=True)
class KLDP(_Definition):
    """α-KL DP: KL(P‖Q) ≤ α. A mean, so it says nothing about rare events; for tables only.

    Attributes
    ----------
    alpha : float
        Divergence α > 0.
    """

    alpha: float
    name: ClassVar[str] = "kl"
    title: ClassVar[str] = "KL DP"
    form: ClassVar[str] = "α = {alpha} KL DP"


@dataclass(frozen=True)
class MCDP(_Definition):
    """(μ, τ)-mean concentrated DP (Dwork and Rothblum 2016); for tables only.

    The privacy loss Z = ln(dP/dQ) under P has E Z ≤ μ and Z − E Z is τ-sub-Gaussian.

    Attributes
    ----------
    mu : float
        Mean μ > 0 of the privacy loss.
    tau : float
        Width τ > 0 of its sub-Gaussian tail.
    """

    mu: float
    tau: float
    name: ClassVar[str] = "mcdp"
    title: ClassVar[str] = "mCDP"
    form: ClassVar[str] = "(μ = {mu}, τ = {tau})-mCDP"
    powers: ClassVar[tuple[int, ...]] = (1, 2)


Budget: TypeAlias = PureDP | ApproxDP | GDP | RDP | ZCDP | RaoDP | KLDP | MCDP
"""Any budget."""
B = TypeVar("B", bound=Budget)
"""One definition, the same in arguments and result."""

DEFINITIONS: dict[str, type[Budget]] = {kind.name: kind for kind in get_args(Budget)}
"""Name of a definition → its class."""
SECOND = {"approx": "delta", "rdp": "alpha", "mcdp": "tau"}
"""Name of a definition of two parameters → the one that is not its main one."""
GREEK = dict(
    zip(("epsilon", "mu", "rho", "theta", "alpha", "delta", "tau"), "εμρθαδτ", strict=True)
)
"""Name of a parameter → its letter."""


def check_delta(delta: Any) -> float:
    """Return `delta` as a float if 0 < δ < 1, else raise `PrivacyError`.

    Parameters
    ----------
    delta : object
        Candidate δ.
    """
    number = check_positive(delta, "delta")
    if number >= 1:
        raise PrivacyError(
            f"delta must be strictly between 0 and 1, found {number:g}; "
            "it is the probability of losing all protection: take at most 1 / (number of images)"
        )
    return number


def budget_from(
    name: str,
    value: float,
    *,
    delta: float | None = None,
    alpha: float | None = None,
    tau: float | None = None,
) -> Budget:
    """Make a budget from the name of its definition and its main parameter, as config files do.

    `value` is ε, ε, μ, ε, ρ, θ, α, μ in the order of `DEFINITIONS`. `delta`, `alpha` and `tau` are
    the second parameters of "approx", "rdp" and "mcdp"; other definitions do not look at them, so
    that one config can list several definitions.

    Parameters
    ----------
    name : str
        Name in `DEFINITIONS`.
    value : float
        Main parameter of the budget.
    delta : float, optional
        Second parameter δ of "approx".
    alpha : float, optional
        Rényi order, the second parameter of "rdp".
    tau : float, optional
        Tail parameter, the second of "mcdp".

    Returns
    -------
    Budget
        Budget of that definition.

    Raises
    ------
    PrivacyError
        Unknown name, missing second parameter, or a value out of range.

    Examples
    --------
    >>> from covdp.privacy import budget_from
    >>> budget_from("gdp", 0.5)
    GDP(mu=0.5)
    >>> budget_from("approx", 1.0, delta=1e-6)
    ApproxDP(epsilon=1.0, delta=1e-06)
    """
    if name not in DEFINITIONS:
        raise PrivacyError(
            f"a definition must be one of {', '.join(DEFINITIONS)}; found {name!r}; choose one"
        )
    kind: Any = DEFINITIONS[name]
    parameters, second = {"delta": delta, "alpha": alpha, "tau": tau}, SECOND.get(name)
    if second is None:
        return kind(value)  # type: ignore[no-any-return]
    if parameters[second] is None:
        raise PrivacyError(f"definition {name!r} needs {second}, found none; give {second} too")
    return kind(**{_main(name): value, second: parameters[second]})  # type: ignore[no-any-return]


def second_parameter(budget: Budget) -> dict[str, float]:
    """Return the parameter of a budget beside its main one, by name; empty where it has none.

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.
    """
    second = SECOND.get(budget.name)
    return {} if second is None else {second: getattr(budget, second)}


def main_parameter(budget: Budget) -> float:
    """Return the number that stands for `budget` on axes and in tables (ε, μ, ρ, θ or α).

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.
    """
    return float(getattr(budget, _main(budget.name)))


def letter(definition: str) -> str:
    """Return the letter of the main parameter in `definition`; "budget" where it is not known.

    Parameters
    ----------
    definition : str
        Name of a definition.
    """
    return GREEK[_main(definition)] if definition in DEFINITIONS else "budget"


def equation(budget: Budget, digits: int = 17, *, left: bool = False) -> str:
    """Return a budget as people write it, μ = 0.5 or ε = 1, δ = 1e-05; all digits from 17 on.

    What is spent is rounded up; what is `left` is rounded down, so that it can be spent.

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.
    digits : int
        Number of significant digits.
    left : bool
        True for a budget that can still be spent, which is rounded down.

    Examples
    --------
    >>> from covdp.privacy import GDP, equation
    >>> equation(GDP(0.5))
    'μ = 0.5'
    >>> equation(GDP(2 / 3), 3)
    'μ = 0.667'
    """
    shown = digits_down if left else digits_up
    values = {name: shown(value, digits).removesuffix(".0") for name, value in vars(budget).items()}
    return ", ".join(f"{GREEK[name]} = {value}" for name, value in values.items())


def _main(definition: str) -> str:
    """Return the name of the main parameter."""
    (main,) = {field.name for field in fields(DEFINITIONS[definition])} - {SECOND.get(definition)}
    return main
