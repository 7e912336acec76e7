"""The statement of privacy that goes with every release and report.

It answers what NIST SP 800-226 ("Guidelines for evaluating differential privacy guarantees", 2025)
asks of a claim: privacy unit and neighbours, definition and parameters, composition, trust model,
what is public, and what is not covered.

**What a budget means to one person**: how well the best test can tell whether an image was used.
The test knows everything but one image: the mechanism, all other images, two candidates for the one
in question. It sees what was released and says which of the two it was. At even odds it is right
with probability ½ + TV(P, Q)/2, where TV = sup_S |P(S) − Q(S)| and P, Q are the laws of the output
with either candidate; guessing is right with ½. If the other candidate is drawn at random, Q is a
mixture, and TV is at most the largest over its parts. Figures are rounded up.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from covdp.errors import PrivacyError
from covdp.privacy.composition import for_group, scaled
from covdp.privacy.conversion import convert, pure_renyi
from covdp.privacy.definitions import (
    GDP,
    KLDP,
    MCDP,
    RDP,
    ZCDP,
    ApproxDP,
    Budget,
    RaoDP,
    check_count,
)
from covdp.privacy.profiles import delta_of
from covdp.privacy.rounding import GUARD, least, round_up


def advantage(budget: Budget) -> float:
    """Return the largest TV(P, Q) that `budget` allows: P(success) = ½ + TV/2 at even odds.

    =====================  =============================================================
    ε-DP                   tanh(ε/2)
    (ε, δ)-DP              δ + (1 − δ)·tanh(ε/2)
    μ-GDP                  2Φ(μ/2) − 1
    ρ-zCDP                 tanh(ε/2) with ε·tanh(ε/2) = ρ; at most √(ρ/2)
    (α, ε_α)-Rényi DP      tanh(ε/2) with ln[cosh((α − ½)ε)/cosh(ε/2)]/(α − 1) = ε_α
    =====================  =============================================================

    The first three are the privacy profile at ε = 0, since TV is the least δ of (0, δ)-DP. Each is
    the least possible.

    *zCDP and Rényi DP.* Let a test tell v = p − q, accepting with probability p under P and q under
    Q. By data processing D_α(Ber(p)‖Ber(q)) is bounded as D_α(P‖Q) is; as neighbours are symmetric,
    so is D_α(Ber(q)‖Ber(p)) = D_α(Ber(1 − q)‖Ber(1 − p)). D_α is jointly quasi-convex, hence
    bounded as well halfway between the two pairs, at Ber((1 + v)/2) and Ber((1 − v)/2). This is
    randomised response with e^ε = (1 + v)/(1 − v), so v = tanh(ε/2). It attains the bound, and is
    itself an instance of it. For zCDP all orders bind at once: the strictest is the limit α → 1, as
    shown at `covdp.privacy.conversion.pure_zcdp`, where D_1 = ε·tanh(ε/2). From tanh(ε/2) ≤ ε/2 it
    follows that ρ ≥ 2v², which is Pinsker's inequality.

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.

    Raises
    ------
    PrivacyError
        For Rao, KL and mean concentrated DP, which are labels.

    References
    ----------
    Dong, Roth and Su (2019), section 2. Kairouz, Oh and Viswanath (2015). van Erven and Harremoës,
    "Rényi divergence and Kullback-Leibler divergence" (2014), Theorems 9 and 13.

    Examples
    --------
    >>> from covdp.privacy import GDP, advantage
    >>> f"{advantage(GDP(0.5)):.3f}"
    '0.197'
    """
    match budget:
        case ZCDP(rho):
            floor = rho * (1 + GUARD)
            level = least(lambda x: x * math.tanh(x / 2) >= floor, 1.0)
        case RDP(alpha, divergence):
            floor = divergence * (1 + 3 * GUARD)  # `pure_renyi` has one in it
            level = least(lambda x: pure_renyi(x, alpha) >= floor, 1.0)
        case _:
            return delta_of(budget, 0.0)
    return min(1.0, math.tanh(level / 2) * (1 + GUARD))


def certified(budget: Budget) -> Budget:
    """Return the certified budget of noise on a lattice, for `advantage` and `success`.

    Of μ-GDP that is (μ²/2)-zCDP: μ itself holds for noise of real numbers, and for a lattice up to
    the ratio of its step to σ, which no map certifies (``mechanisms/noise.py``). Others are as they
    are.

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.
    """
    return convert(budget, ZCDP) if isinstance(budget, GDP) else budget


def success(budget: Budget) -> str:
    """Return the success of the best test at even odds, in per cent: one decimal, rounded up.

    "59.9" of 0.5-GDP, say, and "62.4" of what is certified at it; guessing gives 50.

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.

    Examples
    --------
    >>> from covdp.privacy import GDP, success
    >>> success(GDP(0.5))
    '59.9'
    """
    return f"{math.ceil(500 * (1 + Fraction(advantage(budget)))) / 10:.1f}"


def best_test(budget: Budget, hardened: bool) -> str:
    """Return `success` of what hardened noise is certified for, of floats that of ideal noise.

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.
    hardened : bool
        True if the noise is drawn on a lattice, False for floats.
    """
    return success(certified(budget) if hardened else budget)


NOBODY = 0.98
"""Advantage from which on a promise protects nobody: the best test is right in 99 of 100 cases."""


def protects(budget: Budget, hardened: bool) -> bool:
    """Return True if a promise protects anybody; arguments as in `best_test`.

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.
    hardened : bool
        True if the noise is drawn on a lattice, False for floats.
    """
    return advantage(certified(budget) if hardened else budget) < NOBODY


def plainly(
    budget: Budget,
    *,
    unit: str = "image",
    group: int | None = 1,
    output: str = "the result",
    hardened: bool = True,
) -> str:
    """Return the meaning of `budget` to one person, for readers who know none of the terms.

    Parameters
    ----------
    budget : Budget
        Budget that protects the records in question, all of them together.
    unit : str
        Noun for one record.
    group : int or None
        Largest number of records of one person, None for any number; they are in question together.
    output : str
        Part of the release that the attacker knows.
    hardened : bool
        True if the noise is drawn on a lattice, as in `best_test`.
    """
    record, other = f"one particular {unit} was used", "another in its place"
    if group != 1:
        most = "" if group is None else f", at most {group},"
        record = f"the {unit}s of one particular person{most} were used"
        other = "others in their place"
    return (
        f"an attacker who knows all other {unit}s, and {output}, must decide whether {record}, or "
        f"{other}; the best attacker is right in at most {best_test(budget, hardened)} % of cases, "
        "a guess in 50 %"
    )


_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PATIENTS = ("image", "person")
"""Records behind which a patient may stand."""


class _Words(dict[str, str]):
    """Facts by name, and the texts of ``statement.toml`` with these filled in."""

    def __init__(self, record: str, many: int | None, *others: str, **facts: Any) -> None:
        """Take a record, in how many classes a person counts if that is one, what else holds."""
        article = "an" if record[0] in "aeiou" else "a"
        named = {**facts, "record": record, "many": many, "a_record": f"{article} {record}"}
        super().__init__((name, str(fact)) for name, fact in named.items())
        holds = {"any", "record" if many is None else "person", *others}
        holds |= {"several"} if (many or 1) > 1 else set()
        holds |= {"patient"} if record in PATIENTS else set()
        self.texts: dict[str, str] = {}
        for names, texts in _TEXTS["texts"].items():
            if holds.issuperset(names.split()):
                self.texts |= texts

    def __missing__(self, name: str) -> str:
        return self.texts[name].format_map(self)

    def rows(self) -> dict[str, str]:
        """Return texts by title, in reading order, but those that are empty."""
        rows = {title: text.format_map(self) for title, text in _TEXTS["rows"].items()}
        return {title.format_map(self): text for title, text in rows.items() if text}


def privacy_statement(
    budget: Budget,
    *,
    n_by_class: Mapping[str, int],
    unit: str = "image",
    classes_per_person: int | None = None,
    delta: float | None = None,
    composition: str | None = None,
    group: int | None = None,
    public: Sequence[str] = (),
    hardened: bool = False,
    not_covered: Sequence[str] = (),
    output: str = "the result",
    so_far: bool = False,
    total: int | None = None,
) -> dict[str, str]:
    """Return the statement for what was spent: texts by title, in reading order, all of it public.

    Parameters
    ----------
    budget : Budget
        The total cost for one record, in a certified definition; for a person in several classes
        that of all of them.
    n_by_class : mapping of str to int
        Public number of records of each class.
    unit : str
        Noun for one record, where it is not all that one person has.
    classes_per_person : int, optional
        Largest number of classes with a record of one person, where one person is one record of a
        class.
    delta : float, optional
        Failure probability δ of the equivalent (ε, δ); the smaller of 1e-5 and 1/(10 n) when left
        out, n all images.
    composition : str, optional
        Way in which the total came about, in place of what holds for releases.
    group : int, optional
        The most images one person may have, where that is known.
    public : sequence of str
        Further facts that are assumed to be known: descriptor, domain, footpoint, mechanism and so
        on.
    hardened : bool
        True if the noise was drawn exactly on a lattice with the system's entropy.
    not_covered : sequence of str
        Further facts that this guarantee does not cover.
    output : str
        Part of the release that the attacker knows, as in `plainly`.
    so_far : bool
        True if records are still to come, so that a class may have none yet.
    total : int, optional
        Public number of all records, if the class of a record is secret; then `n_by_class` is
        empty.

    Raises
    ------
    PrivacyError
        For Rao, KL and mean concentrated DP, which certify no (ε, δ); for no class or counts that
        are not positive; for a group that `for_group` refuses.
    """
    if isinstance(budget, RaoDP | KLDP | MCDP):
        raise PrivacyError(
            f"a statement needs a certified definition, found {budget}; "
            "state the release in GDP and show the label beside it"
        )
    person = classes_per_person is not None
    many = check_count(classes_per_person, "classes_per_person") if person else None
    record, image = ("person", "image") if person else (unit, unit)
    sizes = {
        name: n if so_far and n == 0 else check_count(n, f"{record}s of {name}")
        for name, n in n_by_class.items()
    }
    if not sizes and total is None:
        raise PrivacyError("a statement needs the size of every class, found none; give n_by_class")
    cases = {"so-far": so_far, "secret": total is not None, "gdp": isinstance(budget, GDP)}
    words = _Words(
        record,
        many,
        "lattice" if hardened else "floats",
        *(case for case, holds in cases.items() if holds),
        budget=budget,
        plainly=plainly(
            budget, unit=image, group=None if person else 1, output=output, hardened=hardened
        ),
        **_figures(budget),
        meaning=_TEXTS["definitions"][budget.name],
        equivalent=equivalent(budget, delta, total or sum(sizes.values())),
        approx=_TEXTS["definitions"]["approx"],
        promise=_promise_of_one_more(budget, hardened),
        image=image,
        public="".join(f"; {fact}" for fact in public),
        capital=record.capitalize(),
        counts=", ".join(f"{name}: {n}" for name, n in sizes.items()) if total is None else total,
        not_covered="".join(f"; {gap}" for gap in not_covered),
    )
    if composition is not None:
        words["composition"] = composition
    if not person:
        words["group"] = _group(words, budget, group, hardened)
    return words.rows()


def _figures(budget: Budget) -> dict[str, str]:
    """Return the success of the best test on noise on a lattice, and on noise of real numbers."""
    return {"certified": best_test(budget, True), "ideal": best_test(budget, False)}


def protected_unit(unit: str, *, alone: bool = False) -> str:
    """Return who is protected, in words: "one image, not a person", say.

    Parameters
    ----------
    unit : str
        Privacy unit, "image" or "person".
    alone : bool
        True if no person has a second image.
    """
    return f"one {unit}" if alone else _Words(unit, 1 if unit == "person" else None)["who"]


def class_sentence(record: str) -> str:
    """Return in words that the figure of `plainly` holds for a secret class as well.

    Parameters
    ----------
    record : str
        Privacy unit in words, "image" or "person".
    """
    return _Words(record, None)["class_sentence"]


def classes_rule(unit: str, classes_per_person: int | None) -> str:
    """Return the rule by which costs of classes add up, in words; see `privacy_statement`.

    Parameters
    ----------
    unit : str
        Privacy unit, "image" or "person".
    classes_per_person : int or None
        Largest number of classes with records of one person; None for images.
    """
    return _Words(unit, classes_per_person)["classes"]


def group_rule(definition: str) -> str:
    """Return what becomes of a budget with g records of one person, in words.

    Parameters
    ----------
    definition : str
        Name of a definition of privacy.
    """
    return str(_TEXTS["groups"][definition])


def _promise_of_one_more(budget: Budget, hardened: bool) -> str:
    """Return what holds of the same noise for data sets of which one has one record more.

    Such a record moves the sums by √½ of what one that is replaced may (``mean/release.py``).
    """
    if not isinstance(budget, GDP | ZCDP):
        return ""
    half = scaled(budget, Fraction(1, 2), round_up)  # of μ² and of ρ
    most = best_test(half, hardened)
    return f", at {half}: the best attacker is then right in at most {most} % of cases"


def equivalent(budget: Budget, delta: float | None, n: int) -> ApproxDP:
    """Return the (ε, δ) that `budget` implies; δ as in `privacy_statement`, of n records in all.

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.
    delta : float or None
        Failure probability δ; as in `privacy_statement` when None.
    n : int
        Number of records in all.
    """
    if isinstance(budget, ApproxDP):
        return budget
    level = min(1e-5, 1 / (10 * max(n, 1))) if delta is None else delta
    return convert(budget, ApproxDP, delta=level)


def _group(words: _Words, budget: Budget, group: int | None, hardened: bool) -> str:
    """Return what holds for a person with several records, in words."""
    if group is None:
        words["rule"] = group_rule(budget.name)
        return words["no_group"]
    together = for_group(budget, group)
    most = best_test(together, hardened)
    words |= {"size": f"{group}", "together": f"{together}", "most": most}
    return words["some_group"]
