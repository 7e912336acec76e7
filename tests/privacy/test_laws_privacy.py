"""Laws that hold for every definition: records, composition, splitting, groups, the statement."""

import json
import math
from dataclasses import FrozenInstanceError, astuple
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covdp.errors import PrivacyError
from covdp.privacy import (
    DEFINITIONS,
    GDP,
    KLDP,
    MCDP,
    RDP,
    ZCDP,
    ApproxDP,
    PureDP,
    RaoDP,
    budget_from,
    compose,
    delta_of,
    fits,
    for_group,
    gaussian_cost,
    laplace_cost,
    main_parameter,
    privacy_statement,
    repeat,
    split,
    success,
)
from covdp.privacy.composition import parallel, remaining
from covdp.privacy.statement import equivalent
from tests.tools.addons import addon

generalized_gaussian_cost = addon("papers.generalized_gaussian:generalized_gaussian_cost")

seeded = settings(derandomize=True, max_examples=80)
values = st.floats(1e-9, 1e9)
MAKERS = {
    "pure": PureDP,
    "approx": lambda v: ApproxDP(v, 1e-9 * min(v, 1.0)),
    "gdp": GDP,
    "rdp": lambda v: RDP(4.0, v),
    "zcdp": ZCDP,
    "rao": RaoDP,
    "kl": KLDP,
    "mcdp": lambda v: MCDP(v, 2 * v),
}
every_definition = pytest.mark.parametrize("name", MAKERS)


def test_registry_holds_every_definition():
    """The laws below run on each registered definition, under its own name."""
    assert list(DEFINITIONS) == list(MAKERS)
    assert all(kind.name == name for name, kind in DEFINITIONS.items())
    assert all(isinstance(make(0.5), DEFINITIONS[name]) for name, make in MAKERS.items())


# records


@every_definition
@pytest.mark.parametrize("bad", [0, 0.0, -1, math.nan, math.inf, True, "1", None, [1.0], 10**400])
def test_every_field_refuses_what_is_not_a_positive_number(name, bad):
    """Each field alone, when bad, is one clear line with rule, value and way out."""
    fields = list(astuple(MAKERS[name](0.5)))
    for position in range(len(fields)):
        with pytest.raises(PrivacyError, match=r"must be a finite number above 0, found .*; give"):
            DEFINITIONS[name](*fields[:position], bad, *fields[position + 1 :])


@every_definition
def test_records_are_frozen_hashable_values(name):
    """Equal numbers make equal records, whole numbers become floats, nothing can be reassigned."""
    budget = MAKERS[name](2)
    assert budget == MAKERS[name](2.0) == MAKERS[name](np.float64(2.0)) == MAKERS[name](np.int64(2))
    assert hash(budget) == hash(MAKERS[name](2.0))
    assert all(type(value) is float for value in astuple(budget))
    with pytest.raises(FrozenInstanceError):
        budget.epsilon = 1.0


def test_ranges_beyond_positive():
    """δ must lie below 1 and a Rényi order above 1."""
    for delta in [1.0, 2.0]:
        with pytest.raises(PrivacyError, match="strictly between 0 and 1"):
            ApproxDP(1.0, delta)
    for alpha in [1.0, 0.5]:
        with pytest.raises(PrivacyError, match="order 1 is KLDP"):
            RDP(alpha, 1.0)


def read_back(text: str) -> float:
    """Return the number that people write with a power of ten."""
    plain = text.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    if plain == text:
        return float(text)
    factor, _, power = f"1·{plain}".rpartition("·10")
    return float(f"{factor.removeprefix('1·')}e{power}")


def test_labels_are_short_and_never_understate():
    """Labels show six digits, rounded up where six do not suffice."""
    assert str(GDP(0.5)) == "0.5-GDP"
    assert str(PureDP(0.1)) == "0.1-DP"
    assert str(ApproxDP(1.0, 1e-5)) == "(1, 10⁻⁵)-DP"
    assert str(ZCDP(0.5)) == "ρ = 0.5 zCDP"
    assert str(RDP(8.0, 0.5)) == "(α = 8, ε = 0.5)-RDP"
    assert str(RaoDP(2.0)) == "2-Rao DP"
    assert str(KLDP(0.1)) == "α = 0.1 KL DP"
    assert str(MCDP(0.5, 1.0)) == "(μ = 0.5, τ = 1)-mCDP"
    assert str(GDP(1.00000123)) == "1.00001-GDP"
    assert str(PureDP(123456.2)) == "123457-DP"
    assert str(PureDP(0.30000000000000004)) == "0.3-DP"
    for value in 10 ** np.random.default_rng(2).uniform(-12, 12, 500):
        shown = read_back(str(PureDP(value)).removesuffix("-DP"))
        assert value <= shown * (1 + 1.1e-9)
        assert shown <= value * (1 + 1.1e-5)


@every_definition
def test_config_names_make_the_same_records(name):
    """`budget_from` and `main_parameter` are inverse for each name."""
    budget = budget_from(name, 0.5, delta=1e-6, alpha=8.0, tau=1.0)
    assert budget.name == name
    assert main_parameter(budget) == 0.5


def test_config_errors_are_clear():
    """Unknown names list the known ones; a missing second parameter is named."""
    with pytest.raises(PrivacyError, match=r"pure, approx, gdp.*found 'gpd'"):
        budget_from("gpd", 1.0)
    for name, missing in [("approx", "delta"), ("rdp", "alpha"), ("mcdp", "tau")]:
        with pytest.raises(PrivacyError, match=f"needs {missing}"):
            budget_from(name, 1.0)


# composition


@every_definition
@given(parts=st.lists(values, min_size=1, max_size=6), seed=st.integers(0, 99))
@seeded
def test_order_does_not_matter(name, parts, seed):
    """Composition is the same, to the last bit, for every order of the releases."""
    budgets = [MAKERS[name](part) for part in parts]
    shuffled = list(np.random.default_rng(seed).permutation(len(budgets)))
    assert compose(budgets) == compose(budgets[i] for i in shuffled)
    assert parallel(budgets) == parallel(budgets[i] for i in shuffled)


@every_definition
@given(part=values, times=st.integers(1, 40))
@seeded
def test_repeat_is_that_many_copies(name, part, times):
    """``repeat(b, n)`` equals ``compose([b] * n)``, and once is b itself."""
    budget = MAKERS[name](part)
    assert repeat(budget, times) == compose([budget] * times)
    assert repeat(budget, 1) == compose([budget]) == parallel([budget] * times) == budget


@every_definition
@given(parts=st.lists(values, min_size=2, max_size=6))
@seeded
def test_more_is_never_cheaper(name, parts):
    """A further release never lowers the total; disjoint classes cost at most a sequence."""
    budgets = [MAKERS[name](part) for part in parts]
    total = compose(budgets)
    assert fits(compose(budgets[:-1]), total)
    assert all(fits(budget, total) for budget in budgets)
    assert fits(parallel(budgets), total)
    assert fits(parallel(budgets[:-1]), parallel(budgets))
    assert compose(budgets[:-1]) != total or parts[-1] < 1e-6 * max(parts)


@every_definition
@given(whole=values, shares=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=8))
@seeded
def test_split_then_compose_is_at_most_the_budget(name, whole, shares):
    """The parts come back to at most the budget, to the last bit, and to almost all of it."""
    budget = MAKERS[name](whole)
    shares = [share / math.fsum(shares) for share in shares]
    back = compose(split(budget, shares))
    assert fits(back, budget)
    np.testing.assert_allclose(astuple(back), astuple(budget), rtol=1e-14)


@every_definition
@given(whole=values, used=st.floats(1e-3, 0.999))
@seeded
def test_spent_and_left_are_at_most_the_budget(name, whole, used):
    """What is left, spent too, stays within the budget; after that nothing is left."""
    budget = MAKERS[name](whole)
    spent = split(budget, (used, 1 - used))[0]
    left = remaining(budget, spent)
    assert fits(compose([spent, left]), budget)
    assert remaining(budget, budget) is None
    assert remaining(spent, budget) is None


def test_composition_rules_by_hand():
    """The rules of the published table, on round numbers."""
    assert compose([PureDP(0.25), PureDP(0.5)]) == PureDP(0.75)
    assert compose([ApproxDP(0.25, 0.125), ApproxDP(0.5, 0.25)]) == ApproxDP(0.75, 0.375)
    assert compose([GDP(3.0), GDP(4.0)]) == GDP(5.0)
    assert compose([RDP(2.0, 0.25), RDP(2.0, 0.5)]) == RDP(2.0, 0.75)
    assert compose([ZCDP(0.25), ZCDP(0.5)]) == ZCDP(0.75)
    assert compose([RaoDP(3.0), RaoDP(4.0)]) == RaoDP(5.0)
    assert compose([KLDP(0.25), KLDP(0.5)]) == KLDP(0.75)
    assert compose([MCDP(0.25, 3.0), MCDP(0.5, 4.0)]) == MCDP(0.75, 5.0)
    assert split(GDP(1.0), (0.25, 0.75))[0] == GDP(0.5)
    assert split(ApproxDP(1.0, 0.5), (0.25, 0.75))[0] == ApproxDP(0.25, 0.125)
    assert remaining(GDP(5.0), GDP(4.0)) == GDP(3.0)
    assert parallel([ApproxDP(1.0, 1e-6), ApproxDP(0.5, 1e-5)]) == ApproxDP(1.0, 1e-5)


def test_totals_round_up_and_shares_down():
    """√2·μ is irrational: its double lies above in a total and below in a share."""
    assert Fraction(repeat(GDP(1.0), 2).mu) ** 2 > 2
    assert Fraction(split(GDP(1.0), (0.5, 0.5))[0].mu) ** 2 < Fraction(1, 2)
    assert Fraction(repeat(PureDP(0.1), 3).epsilon) >= 3 * Fraction(0.1)


def test_total_budget_after_m_queries():
    """The published table of Rao DP: its total grows as √m, pure, KL and zCDP totals as m."""
    theta = 0.5
    for m in [1, 10, 100]:
        root = math.sqrt(m)
        for cost, total in [
            (laplace_cost(2.0, 1.0), m * theta),
            (laplace_cost(2.0, 1.0, RaoDP), root * theta),
            (gaussian_cost(2.0, 1.0), root * theta),
            (gaussian_cost(2.0, 1.0, RaoDP), root * theta),
            (gaussian_cost(2.0, 1.0, ZCDP), m * theta**2 / 2),
            (gaussian_cost(2.0, 1.0, KLDP), m * theta**2 / 2),
            (gaussian_cost(2.0, 1.0, RDP, alpha=4.0), m * 4 * theta**2 / 2),
            (gaussian_cost(2.0, 1.0, MCDP), m * theta**2 / 2),
            (generalized_gaussian_cost(2.0, 1.0, degree=1.0), root * theta),
            (generalized_gaussian_cost(2.0, 1.0, degree=2.0), root * theta * math.sqrt(2)),
        ]:
            assert main_parameter(repeat(cost, m)) == pytest.approx(total, rel=1e-9)
    assert repeat(gaussian_cost(2.0, 1.0, MCDP), 100).tau == pytest.approx(10 * theta)


def test_meaningless_compositions_are_refused():
    """Mixed definitions, orders, empty lists, bad shares and counts are one clear line."""
    for ask, rule in [
        (lambda: compose([GDP(1.0), PureDP(1.0)]), "one definition, found gdp, pure; convert"),
        (lambda: parallel([RDP(2.0, 1.0), RDP(3.0, 1.0)]), "at one order only"),
        (lambda: fits(GDP(1.0), ZCDP(1.0)), "one definition"),
        (lambda: compose([1.0]), "found float"),
        (lambda: compose([]), "at least one budget"),
        (lambda: repeat(ApproxDP(1.0, 0.5), 2), "strictly between"),
        (lambda: repeat(GDP(1.0), 0), "times must be a whole number"),
        (lambda: repeat(GDP(1.0), 1.5), "times must be a whole number"),
        (lambda: repeat(GDP(1.0), True), "times must be a whole number"),
        (lambda: split(GDP(1.0), (0.1, 0.8)), "shares must sum to 1, found 0.9"),
        (lambda: split(GDP(1.0), ()), "shares must sum to 1"),
        (lambda: split(GDP(1.0), (1.5, -0.5)), "a share must be"),
        (lambda: for_group(GDP(1.0), 0), "a group must be"),
        (lambda: for_group(KLDP(1.0), 2), "no group of 2"),
        (lambda: for_group(ApproxDP(1.0, 1e-5), 50), "no group of 50"),
    ]:
        with pytest.raises(PrivacyError, match=rule):
            ask()


# groups


def test_group_rules():
    """ε and μ grow as g, ρ as g², δ of approximate DP as a geometric series; 1 changes nothing."""
    assert for_group(PureDP(0.5), 3) == PureDP(1.5)
    assert for_group(GDP(0.5), 3) == GDP(1.5)
    assert for_group(RaoDP(0.5), np.int64(3)) == RaoDP(1.5)
    assert for_group(ZCDP(0.5), 3) == ZCDP(4.5)
    grown = for_group(ApproxDP(0.5, 1e-6), 3)
    assert grown.epsilon == 1.5
    assert grown.delta == pytest.approx(1e-6 * (1 + math.exp(0.5) + math.exp(1.0)), rel=1e-9)
    for make in MAKERS.values():
        assert for_group(make(0.5), 1) == make(0.5)


def test_group_rules_agree_across_definitions():
    """The zCDP rule is the GDP rule seen through ρ = μ²/2; the (ε, δ) rule is weaker than GDP's."""
    mu, g = 0.7, 4
    assert for_group(ZCDP(mu**2 / 2), g).rho == pytest.approx(for_group(GDP(mu), g).mu ** 2 / 2)
    epsilon = 2.0
    claim = for_group(ApproxDP(epsilon, delta_of(GDP(mu), epsilon)), g)
    assert claim.delta >= delta_of(for_group(GDP(mu), g), claim.epsilon)


# the statement


def test_statement_says_all_that_a_claim_needs():
    """Unit, neighbours, guarantee, (ε, δ), composition, trust, public facts, group and gaps."""
    statement = privacy_statement(
        GDP(0.5), n_by_class={"normal": 3884, "bacteria": 622}, group=3, public=("the footpoint",)
    )
    text = "\n".join(map(": ".join, statement.items()))
    for phrase in [
        "one image", "replace one", "0.5-GDP", "10⁻⁵)-DP", "central", "the footpoint",
        "normal: 3884", "at most 3 images a person: 1.5-GDP", "floating point", "the time",
        "the class of every image",
    ]:  # fmt: skip
        assert phrase in text
    assert equivalent(GDP(0.5), None, 3884 + 622).delta == 1e-5
    assert json.loads(json.dumps(statement))["Guarantee"] == "0.5-GDP"
    several = privacy_statement(GDP(0.5), n_by_class={"a": 1})["Several images of one person"]
    assert several == (
        "with g images of one person μ is g times as large; here g is not limited, so "
        "no figure is stated"
    )


def test_statement_follows_its_arguments():
    """Hardened noise drops the float caveat; δ follows n; approximate budgets stand as they are."""
    soft = privacy_statement(ZCDP(0.5), n_by_class={"a": 10})
    hard = privacy_statement(ZCDP(0.5), n_by_class={"a": 10}, hardened=True)
    gaps, fewer = soft["Not covered"], hard["Not covered"]
    assert gaps.endswith(f"; {fewer}")
    assert gaps.startswith("floating point")
    assert "floating point" not in fewer
    assert f"at most {success(ZCDP(0.5))} % of cases" in hard["In plain words"]
    assert "figure is for noise of real numbers" in soft["In plain words"]
    assert "figure is for noise of real numbers" not in hard["In plain words"]
    for budget in [PureDP(1.0), ApproxDP(1.0, 1e-7), GDP(1.0), RDP(2.0, 0.5), ZCDP(1.0)]:
        items = privacy_statement(budget, n_by_class={"a": 9})
        assert success(budget) in items["In plain words"]
        assert items["Definition"] != budget.name
    none = privacy_statement(GDP(0.5), n_by_class={}, total=0, so_far=True)
    assert none["Images of all classes together (exact)"] == "0"
    large = privacy_statement(ZCDP(0.5), n_by_class={"a": 10**6, "b": 10**6})
    assert equivalent(ZCDP(0.5), None, 2 * 10**6).delta == 1 / (2 * 10**7)
    assert large["Implies"].startswith(f"{equivalent(ZCDP(0.5), None, 2 * 10**6)}: ")
    said = privacy_statement(ZCDP(0.5), n_by_class={"a": 1}, delta=1e-9)["Implies"]
    assert said.startswith(f"{equivalent(ZCDP(0.5), 1e-9, 1)}: ")
    assert ", 10⁻⁹)-DP" in said
    said = privacy_statement(ApproxDP(1.0, 1e-7), n_by_class={"a": 1})["Implies"]
    assert said.startswith(f"{ApproxDP(1.0, 1e-7)}: ")
    scans = privacy_statement(GDP(1.0), n_by_class={"a": 1}, unit="scan")
    assert "one scan" in scans["Unit of privacy"]


def test_statement_refuses_labels_and_bad_counts():
    """Rao DP certifies nothing; every class needs at least one image."""
    for budget in [RaoDP(1.0), KLDP(1.0), MCDP(1.0, 1.0)]:
        with pytest.raises(PrivacyError, match="certified definition"):
            privacy_statement(budget, n_by_class={"a": 1})
    with pytest.raises(PrivacyError, match="images of b must be a whole number above 0"):
        privacy_statement(GDP(1.0), n_by_class={"a": 1, "b": 0})
    with pytest.raises(PrivacyError, match="size of every class"):
        privacy_statement(GDP(1.0), n_by_class={})
