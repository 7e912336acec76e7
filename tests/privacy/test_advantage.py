"""What a budget means to one person: never below the best test there is, and no higher than known.

Nothing here is random: each best test is found by summing, integrating or searching.
"""

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from covdp.errors import PrivacyError
from covdp.privacy import (
    GDP,
    KLDP,
    MCDP,
    RDP,
    ZCDP,
    ApproxDP,
    PureDP,
    RaoDP,
    advantage,
    best_test,
    certified,
    compose,
    for_group,
    privacy_statement,
    success,
)
from covdp.privacy.statement import plainly, protected_unit

SLACK = 1e-9
"""More than rounding and `GUARD` add."""


@pytest.mark.parametrize("mu", [1e-3, 0.1, 0.5, 1.0, 2.0, 6.0])
def test_gaussian_noise_meets_the_bound_of_gdp(mu):
    """The best test on N(0, 1) against N(μ, 1), by integration, has the advantage that is stated.

    The bounds of zCDP at ρ = μ²/2 and of the two releases it may be split in are no smaller.
    """
    best = quad(lambda x: abs(norm.pdf(x) - norm.pdf(x - mu)), -12, mu / 2, epsabs=1e-13)[0]
    assert best <= advantage(GDP(mu)) <= best + SLACK
    assert advantage(ZCDP(mu**2 / 2)) >= best
    halves = compose([GDP(mu / math.sqrt(2))] * 2)
    assert advantage(halves) == pytest.approx(best, abs=SLACK)


@pytest.mark.parametrize(("sigma", "shift"), [(0.5, 1), (1.5, 1), (4.0, 3), (40.0, 25)])
def test_gaussian_noise_on_a_lattice_stays_within_its_certificate(sigma, shift):
    """Discrete Gaussian noise, summed over its lattice, leaks less than ρ = Δ²/(2σ²) states."""
    x = np.arange(-2000, 2001)
    weights = np.exp(-(x**2) / (2 * sigma**2))
    p = weights / weights.sum()
    best = 0.5 * np.abs(p - np.roll(p, shift)).sum()
    assert best <= advantage(ZCDP(shift**2 / (2 * sigma**2)))


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("leak", [0.0, 1e-5, 0.2])
def test_randomised_response_meets_the_bound_of_pure_and_approximate_dp(epsilon, leak):
    """A bit that is told truly with odds e^ε, and given away with probability δ."""
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    p = np.array([leak, 0.0, (1 - leak) * truth, (1 - leak) * (1 - truth)])
    q = p[[1, 0, 3, 2]]
    best = 0.5 * np.abs(p - q).sum()
    budget = ApproxDP(epsilon, leak) if leak else PureDP(epsilon)
    assert best <= advantage(budget) * (1 + 1e-15) <= best + SLACK


def renyi(p, q, order):
    """Rényi divergence of two coins."""
    heads = order * np.log(p) + (1 - order) * np.log(q)
    tails = order * np.log1p(-p) + (1 - order) * np.log1p(-q)
    return np.logaddexp(heads, tails) / (order - 1)


def searched(limit_of_order, orders, grid=801):
    """Largest p − q of all tests on a grid whose divergences keep to their limits both ways."""
    axis = np.linspace(0, 1, grid + 2)[1:-1]
    p, q = axis[np.array(np.tril_indices(grid))]
    for order in orders:
        limit = limit_of_order(order)
        fits = (renyi(p, q, order) <= limit) & (renyi(q, p, order) <= limit)
        p, q = p[fits], q[fits]
    return float((p - q).max()), 2 / grid


@pytest.mark.parametrize("rho", [0.02, 0.125, 0.5, 2.0])
def test_no_test_that_zcdp_allows_does_better(rho):
    """A search of all pairs of error rates that obey D_a ≤ ρa finds the bound, and none above."""
    orders = [1 + 1e-6, 1.01, 1.1, 1.5, 2, 3, 5, 10, 30]
    best, step = searched(lambda order: rho * order, orders)
    assert best <= advantage(ZCDP(rho)) <= best + step
    assert advantage(ZCDP(rho)) <= min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho))) + SLACK


@pytest.mark.parametrize(("order", "epsilon"), [(1.5, 0.1), (2.0, 0.5), (8.0, 2.0), (64.0, 1.0)])
def test_no_test_that_renyi_dp_allows_does_better(order, epsilon):
    """The same search at one order."""
    best, step = searched(lambda _: epsilon, [order])
    assert best <= advantage(RDP(order, epsilon)) <= best + step


@pytest.mark.parametrize("value", [1e-12, 1e-5, 0.3, 0.5, 3.0, 11.0])
def test_figures_are_rounded_up(value):
    """Against 40 digits no figure is too small, and none is more than a billionth too large."""
    with mpmath.workdps(40):
        x = mpmath.mpf(value)
        root = mpmath.findroot(
            lambda e: mpmath.log(e * mpmath.tanh(e / 2) / x), max(x, mpmath.sqrt(2 * x))
        )
        exact = {
            GDP(value): 2 * mpmath.ncdf(x / 2) - 1,
            PureDP(value): mpmath.tanh(x / 2),
            ZCDP(value): mpmath.tanh(root / 2),
        }
        for budget, true in exact.items():
            assert true <= advantage(budget) <= true * (1 + mpmath.mpf(SLACK)), budget
            assert 50 * (1 + true) <= mpmath.mpf(success(budget)) <= 50 * (1 + true) + 0.11


def test_a_person_with_more_images_is_told_from_nobody_more_easily_than_stated():
    """Three images of one person move a Gaussian mean by three steps: the group's bound is met."""
    best = 2 * norm.cdf(3 * 0.5 / 2) - 1
    assert best <= advantage(for_group(GDP(0.5), 3)) <= best + SLACK
    assert success(for_group(GDP(0.5), 3)) == "77.4"


def test_labels_bound_no_test():
    """Rao, KL and mean concentrated DP are refused."""
    for label in (RaoDP(1.0), KLDP(1.0), MCDP(1.0, 1.0)):
        with pytest.raises(PrivacyError, match="bounds no"):
            advantage(label)


def test_what_leads_is_what_noise_on_a_lattice_is_certified_for() -> None:
    """Of 0.5-GDP 62.4 % and not 59.9; of zCDP the same as ever; of floats in theory."""
    assert certified(GDP(0.5)) == ZCDP(0.125)
    assert certified(ZCDP(0.3)) == ZCDP(0.3)
    assert (best_test(GDP(0.5), True), best_test(GDP(0.5), False)) == ("62.4", "59.9")
    assert "at most 62.4 % of cases" in plainly(GDP(0.5))
    sizes = {"well": 9}
    for hardened, figure in ((True, "62.4"), (False, "59.9")):
        said = privacy_statement(GDP(0.5), n_by_class=sizes, hardened=hardened)
        assert f"at most {figure} % of cases" in said["In plain words"]


@pytest.mark.parametrize("hardened", [True, False])
def test_two_figures_of_one_budget_are_both_explained(hardened: bool) -> None:
    """A run states 84.2 % and a release 91.7 % at μ = 2: each names the other, and its source.

    In zCDP there is one figure for both.
    """
    shown, other = ("91.7", "84.2") if hardened else ("84.2", "91.7")
    assert (best_test(GDP(2.0), hardened), best_test(GDP(2.0), not hardened)) == (shown, other)
    said = privacy_statement(GDP(2.0), n_by_class={"well": 9}, hardened=hardened)
    text = said["In plain words"]
    assert 0 < text.index(f"at most {shown} % of cases") < text.index(f" {other} %")
    assert "zCDP with ρ = μ²/2" in text
    assert ("figure is for noise of real numbers" in text) != hardened
    assert "μ" not in privacy_statement(ZCDP(2.0), n_by_class={"well": 9})["In plain words"]


def test_who_is_protected_has_one_wording() -> None:
    """The statement begins with the words that card and pages have."""
    assert protected_unit("person") == "one person, with all images of that person"
    assert protected_unit("image") == "one image, not a person"
    assert protected_unit("image", alone=True) == "one image"
    said = privacy_statement(GDP(1.0), n_by_class={"well": 9}, classes_per_person=2)
    assert said["Unit of privacy"].startswith(f"{protected_unit('person')}, however many")


def test_a_statement_begins_with_what_is_exact_and_not_protected() -> None:
    """Counts by class, of streams by night, and what they tell; diagnoses are assumed known."""
    for unit, persons in (("image", None), ("person", 2)):
        for so_far, when in ((False, "was added between two releases"), (True, "came on a night")):
            said = privacy_statement(
                GDP(1.0),
                n_by_class={"well": 9},
                classes_per_person=persons,
                hardened=True,
                so_far=so_far,
            )
            label, text = next(iter(said.items()))
            assert label == "Exact, not protected"
            assert text.startswith(f"the number of {unit}s of each class")
            assert ("on each night, by class and date" in text) == so_far
            assert f"one patient {when} may learn" in text
            known = said["Assumed to be known, not protected"]
            assert "it is not published, but an attacker is assumed to know it" in known
    plain = privacy_statement(GDP(1.0), n_by_class={"all": 9}, unit="matrix")
    assert "diagnosis" not in " ".join(map(": ".join, plain.items()))
