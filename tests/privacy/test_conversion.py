"""Conversions, profiles and trade-off curves: sound, tight where claimed, the same by any route."""

import math
from functools import cache
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import laplace, norm

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
    convert,
    delta_of,
    epsilon_of,
    fits,
    gaussian_cost,
    laplace_cost,
    main_parameter,
    pld_compose,
)
from covdp.privacy.conversion import LEAST_EPSILON
from covdp.privacy.rounding import GUARD
from tests.privacy.curves import tradeoff

seeded = settings(derandomize=True, max_examples=60)
PROFILED = [PureDP(1.0), ApproxDP(1.0, 0.2), GDP(1.0), RDP(8.0, 0.5), ZCDP(0.5), GDP(0.01)]
EPSILONS = [0.0, 1e-6, 0.1, 0.5, 0.999, 1.0, 2.0, 8.0]
LEVELS = np.concatenate(
    [[0.0], np.geomspace(1e-9, 0.5, 40), 1 - np.geomspace(0.4, 1e-9, 40), [1.0]]
)


def renyi_epsilon(order, divergence, delta):
    """ε at δ of one Rényi order, as printed by Canonne, Kamath and Steinke (Proposition 12)."""
    return divergence + np.log1p(-1 / order) - (math.log(delta) + np.log(order)) / (order - 1)


# profiles


@pytest.mark.parametrize("budget", PROFILED, ids=str)
def test_profile_falls_and_is_inverted(budget):
    """δ(ε) falls with ε, and ε(δ) is the least ε that reaches δ."""
    values = [delta_of(budget, epsilon) for epsilon in EPSILONS]
    assert all(high >= low for high, low in pairwise(values))
    for delta in [1e-9, 1e-5, 2e-3, 0.3]:
        if isinstance(budget, ApproxDP) and delta < budget.delta:
            continue
        epsilon = epsilon_of(budget, delta)
        assert delta_of(budget, epsilon) <= delta * (1 + 1e-15)
        if epsilon > 0:
            assert delta_of(budget, epsilon * (1 - 1e-9)) > delta


@cache
def gaussian_losses(mu):
    """Loss distribution of dp-accounting's on a grid."""
    from dp_accounting.pld import privacy_loss_distribution as losses

    return losses.from_gaussian_mechanism(1 / mu, sensitivity=1, value_discretization_interval=1e-3)


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 6.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_gdp_profile_agrees_with_dp_accounting(mu, delta):
    """ε of a Gaussian release equals that of two solvers of dp-accounting, and is above them."""
    from dp_accounting import get_epsilon_gaussian

    epsilon, grid = epsilon_of(GDP(mu), delta), gaussian_losses(mu)
    assert epsilon == pytest.approx(get_epsilon_gaussian(1 / mu, delta), rel=1e-6, abs=1e-9)
    assert epsilon <= grid.get_epsilon_for_delta(delta) + 1e-9
    assert epsilon == pytest.approx(grid.get_epsilon_for_delta(delta), abs=2e-3)


def test_golden_epsilon_of_one_gdp():
    """1-GDP is (4.3772, 1e-5)-DP, a published figure."""
    assert convert(GDP(1.0), ApproxDP, delta=1e-5).epsilon == pytest.approx(4.3772, abs=1e-4)


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_zcdp_profile_is_the_best_order(rho, delta):
    """ε of zCDP equals the least over a fine grid of orders of the printed formula."""
    orders = 1 + np.geomspace(1e-4, 1e6, 400_001)
    best = max(0.0, renyi_epsilon(orders, rho * orders, delta).min())
    assert epsilon_of(ZCDP(rho), delta) == pytest.approx(best, rel=1e-7, abs=1e-9)


def test_zcdp_profile_agrees_with_opendp():
    """OpenDP's proven conversion gives the same ε."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=3), dp.l2_distance(T=float)
    measurement = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=2.0))
    profile = measurement.map(1.0)
    for delta in [1e-9, 1e-6, 1e-3]:
        ours = epsilon_of(ZCDP(1 / 8), delta)
        assert ours == pytest.approx(profile.epsilon(delta), rel=1e-6)


@pytest.mark.parametrize("order", [1.5, 8.0, 200.0])
def test_renyi_profile_agrees_with_dp_accounting(order):
    """ε of one Rényi order equals the improved bound of dp-accounting."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    for delta in [1e-9, 1e-5, 1e-2]:
        theirs, _ = compute_epsilon([order], [0.7], delta)
        ours = epsilon_of(RDP(order, 0.7), delta)
        assert ours == pytest.approx(theirs, rel=1e-8)
        assert ours == pytest.approx(max(0, renyi_epsilon(order, 0.7, delta)), rel=1e-8)


def test_pure_profile_is_that_of_randomised_response():
    """δ(ε) of ε₀-DP equals (p − e^ε·q)⁺ of its two outcomes, in long arithmetic."""
    for top in [1e-6, 0.5, 1.0, 20.0]:
        for epsilon in [0.0, top / 3, top * 0.999]:
            with mpmath.workdps(50):
                p = mpmath.exp(top) / (1 + mpmath.exp(top))
                exact = p - mpmath.exp(epsilon) * (1 - p)
            assert 0 <= delta_of(PureDP(top), epsilon) / exact - 1 < 2 * GUARD
        assert delta_of(PureDP(top), top) == 0.0


def test_profiles_bound_real_noise():
    """δ(ε) of zCDP, Rényi and pure budgets is above the exact δ of noise that satisfies them."""
    for epsilon in EPSILONS:
        exact = delta_of(GDP(1.0), epsilon)
        assert delta_of(ZCDP(0.5), epsilon) >= exact
        for order in [1.1, 2.0, 8.0, 64.0]:
            assert delta_of(RDP(order, order / 2), epsilon) >= exact
        # Laplace noise, shift 1 scale: loss 1 on x < 0, 1 − 2x on (0, 1)
        cut = (1 - epsilon) / 2
        laplace_delta = max(0.0, laplace.cdf(cut) - math.exp(epsilon) * laplace.cdf(cut - 1))
        assert delta_of(PureDP(1.0), epsilon) >= laplace_delta


# trade-off curves


@pytest.mark.parametrize("budget", PROFILED, ids=str)
def test_tradeoff_is_a_convex_falling_curve(budget):
    """The curve falls, is convex, at most 1 − α, and keeps the shape of α."""
    curve = tradeoff(budget, LEVELS)
    assert ((curve >= 0) & (curve <= 1 - LEVELS)).all()
    assert (np.diff(curve) <= 1e-15).all()
    even = tradeoff(budget, np.linspace(0, 1, 501))
    assert (np.diff(even, 2) >= -1e-12).all()
    assert tradeoff(budget, LEVELS[:82].reshape(2, 41)).shape == (2, 41)
    assert tradeoff(budget, 0.1).shape == ()


@pytest.mark.parametrize("budget", PROFILED, ids=str)
def test_tradeoff_and_profile_are_dual(budget):
    """δ(ε) = max over α of 1 − e^ε·α − f(α), an inequality for the Rényi bounds."""
    level = np.concatenate([np.geomspace(1e-8, 0.1, 3000), np.linspace(0.1, 1, 3000)])
    if isinstance(budget, RDP | ZCDP):
        level = level[::5]
    curve = tradeoff(budget, level)
    for epsilon in [0.0, 0.1, 0.5, 2.0]:
        found = max(0.0, float((1 - math.exp(epsilon) * level - curve).max()))
        if isinstance(budget, RDP | ZCDP):
            assert found <= delta_of(budget, epsilon) + 1e-12
        else:
            assert found == pytest.approx(delta_of(budget, epsilon), abs=1e-3)


def test_renyi_tradeoff_is_exact_at_each_order():
    """The bound sits on the boundary: the two-point divergence equals ε there."""
    order, divergence, level = 3.0, 0.4, np.array([0.01, 0.2, 0.6])
    p = 1 - tradeoff(RDP(order, divergence), level)

    def renyi(p, q):
        mass = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
        return np.log(mass) / (order - 1)

    largest = np.maximum(renyi(p, level), renyi(level, p))
    np.testing.assert_allclose(largest, divergence, rtol=1e-9)


def test_tradeoff_bounds_real_noise():
    """Curves of zCDP and Rényi DP lie below the exact curve of Gaussian noise that has them."""
    exact = norm.cdf(norm.ppf(1 - LEVELS) - 1)
    np.testing.assert_allclose(tradeoff(GDP(1.0), LEVELS), exact, atol=1e-14)
    assert (tradeoff(ZCDP(0.5), LEVELS) <= exact + 1e-12).all()
    for order in [1.1, 2.0, 8.0, 64.0]:
        assert (tradeoff(RDP(order, order / 2), LEVELS) <= exact + 1e-12).all()


# conversion


@pytest.mark.parametrize("target", [ApproxDP, GDP, RDP, ZCDP, KLDP, MCDP])
@pytest.mark.parametrize("source", [PureDP, GDP, ZCDP, lambda v: RDP(4.0, v)])
def test_conversion_grows_with_the_budget(source, target):
    """A larger budget converts to a larger one, wherever there is a conversion."""
    found = []
    for value in np.geomspace(1e-3, 30, 25):
        try:
            found.append(main_parameter(convert(source(value), target, delta=1e-5, alpha=3.0)))
        except PrivacyError:
            assert (source(1.0).name, target.name) in IMPOSSIBLE
            return
    assert all(high >= low for low, high in pairwise(found))


IMPOSSIBLE = {
    ("gdp", "pure"), ("gdp", "mcdp"), ("gdp", "rao"),
    ("approx", "pure"), ("approx", "gdp"), ("approx", "rdp"), ("approx", "zcdp"),
    ("approx", "rao"), ("approx", "kl"), ("approx", "mcdp"),
    ("rdp", "pure"), ("rdp", "gdp"), ("rdp", "zcdp"), ("rdp", "rao"), ("rdp", "mcdp"),
    ("zcdp", "pure"), ("zcdp", "gdp"), ("zcdp", "rao"), ("zcdp", "mcdp"),
    ("pure", "rao"),
} | {
    (source, target)
    for source in ("rao", "kl", "mcdp")
    for target in ("pure", "approx", "gdp", "rdp", "zcdp", "rao", "kl", "mcdp")
    if source != target
}  # fmt: skip
EXAMPLES = [
    PureDP(1.0), ApproxDP(1.0, 1e-6), GDP(1.0), RDP(8.0, 0.5), ZCDP(0.5), RaoDP(1.0), KLDP(0.5),
    MCDP(0.5, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("budget", EXAMPLES, ids=str)
@pytest.mark.parametrize("target", DEFINITIONS.values(), ids=list(DEFINITIONS))
def test_every_pair_converts_or_is_refused_with_a_reason(budget, target):
    """Each pair gives a record of the class asked for, or one line with the reason and way out."""
    if (budget.name, target.name) in IMPOSSIBLE:
        with pytest.raises(PrivacyError, match=r"implies no|bounds no") as refusal:
            convert(budget, target, delta=1e-5, alpha=2.0)
        assert "\n" not in str(refusal.value)
        assert ";" in str(refusal.value)
    else:
        assert isinstance(convert(budget, target, delta=1e-5, alpha=2.0), target)
        assert convert(budget, type(budget)) == budget


def test_rao_is_never_certified_but_says_what_to_do():
    """Rao DP names the Gaussian case, the only one in which it is a guarantee."""
    with pytest.raises(PrivacyError, match=r"state GDP\(0.7\)"):
        convert(RaoDP(0.7), GDP)
    assert gaussian_cost(2.0, 1.4, RaoDP).theta == gaussian_cost(2.0, 1.4, GDP).mu == 0.7
    assert laplace_cost(2.0, 1.4, RaoDP).theta == laplace_cost(2.0, 1.4).epsilon == 0.7


@given(st.floats(1e-6, 30.0))
@seeded
def test_conversions_agree_along_two_paths(value):
    """GDP → zCDP → Rényi and → KL are the direct ways; pure → GDP → profile is only weaker."""
    direct = convert(GDP(value), RDP, alpha=5.0)
    via = convert(convert(GDP(value), ZCDP), RDP, alpha=5.0)
    assert direct.epsilon == pytest.approx(via.epsilon, rel=1e-14)
    assert fits(direct, via)
    assert convert(GDP(value), KLDP).alpha == convert(GDP(value), ZCDP).rho
    for epsilon in [0.0, value / 2, value]:
        for budget, weaker in [(PureDP(value), GDP), (GDP(value), ZCDP)]:
            exact = delta_of(budget, epsilon)
            assert delta_of(convert(budget, weaker), epsilon) >= exact * (1 - 1e-15)
    assert convert(PureDP(value), RDP, alpha=3.0).epsilon <= 3.0 * convert(PureDP(value), ZCDP).rho


def test_renyi_order_may_only_fall():
    """A lower order keeps ε, a higher one is refused."""
    assert convert(RDP(8.0, 0.5), RDP, alpha=3.0) == RDP(3.0, 0.5)
    with pytest.raises(PrivacyError, match="bounds no higher order"):
        convert(RDP(8.0, 0.5), RDP, alpha=9.0)


def test_total_variation_case_is_stated_with_a_small_epsilon():
    """Where (0, δ)-DP holds already, ε is 0 in the profile and 1e-9 in the record."""
    assert epsilon_of(GDP(1e-7), 1e-5) == 0.0
    assert convert(GDP(1e-7), ApproxDP, delta=1e-5) == ApproxDP(LEAST_EPSILON, 1e-5)


def test_bad_questions_are_one_clear_line():
    """Missing second parameters, values out of range and non-definitions are refused."""
    for ask, rule in [
        (lambda: convert(GDP(1.0), ApproxDP), "needs delta"),
        (lambda: convert(GDP(1.0), RDP), "needs alpha"),
        (lambda: convert(GDP(1.0), RDP, alpha=1.0), "must be above 1"),
        (lambda: convert(GDP(1.0), "zcdp"), "must be a definition"),
        (lambda: convert(GDP(1.0), ApproxDP, delta=1.0), "strictly between 0 and 1"),
        (lambda: convert(ApproxDP(1.0, 1e-3), ApproxDP, delta=1e-5), "delta below its own"),
        (lambda: delta_of(GDP(1.0), -1.0), "epsilon must be"),
        (lambda: delta_of(GDP(1.0), math.nan), "epsilon must be"),
        (lambda: delta_of(RaoDP(1.0), 1.0), "bounds no"),
        (lambda: gaussian_cost(0.0, 1.0), "sigma must be"),
        (lambda: gaussian_cost(1.0, 1.0, PureDP), "implies no PureDP"),
        (lambda: gaussian_cost(1.0, 2.0, ApproxDP, delta=1e-5, analytic=False), "epsilon < 1"),
        (lambda: laplace_cost(1.0, -1.0), "sensitivity must be"),
    ]:
        with pytest.raises(PrivacyError, match=rule):
            ask()


# privacy loss distributions


def test_pld_of_gaussian_releases_is_the_closed_form():
    """Gaussian releases compose to one, and dp-accounting's convolution of them agrees."""
    from dp_accounting.pld import privacy_loss_distribution as losses

    exact = epsilon_of(GDP(0.5), 1e-6)
    assert pld_compose([GDP(0.3), GDP(0.4)], 1e-6).epsilon == pytest.approx(exact, rel=1e-12)
    parts = [
        losses.from_gaussian_mechanism(standard_deviation=s, sensitivity=1) for s in (1 / 0.3, 2.5)
    ]
    assert parts[0].compose(parts[1]).get_epsilon_for_delta(1e-6) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("delta", [1e-11, 1e-6, 1e-2])
def test_pld_of_a_mixed_pair_matches_its_exact_curve(delta):
    """Pure with Gaussian: δ(ε) = p·δ_G(ε − ε₀) + q·δ_G(ε + ε₀), in long arithmetic."""
    top, mu = 0.4, 0.8
    found = pld_compose([PureDP(top), GDP(mu)], delta).epsilon
    with mpmath.workdps(40):

        def curve(epsilon):
            return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(
                -mu / 2 - epsilon / mu
            )

        p = mpmath.exp(top) / (1 + mpmath.exp(top))
        at_found = p * curve(found - top) + (1 - p) * curve(found + top)
        at_less = p * curve(found * 0.999 - top) + (1 - p) * curve(found * 0.999 + top)
    assert at_found <= delta < at_less


@pytest.mark.parametrize("budget", [PureDP(0.3), ApproxDP(0.3, 1e-9), GDP(0.3)], ids=str)
def test_pld_repetition_order_and_growth(budget):
    """Repetition costs what an explicit list does; order does not matter; more costs more."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as losses

    six = pld_compose([budget] * 6, 1e-6).epsilon
    if isinstance(budget, GDP):
        one = losses.from_gaussian_mechanism(standard_deviation=1 / budget.mu, sensitivity=1)
    else:
        parameters = common.DifferentialPrivacyParameters(0.3, getattr(budget, "delta", 0.0))
        one = losses.from_privacy_parameters(parameters)
    whole = one
    for _ in range(5):
        whole = whole.compose(one)
    assert six == pytest.approx(whole.get_epsilon_for_delta(1e-6), rel=2e-3)
    other = PureDP(0.2)
    forwards = pld_compose([budget, other, budget], 1e-6)
    assert forwards == pld_compose([other, budget, budget], 1e-6)
    assert pld_compose([budget] * 5, 1e-6).epsilon < six < pld_compose([budget] * 7, 1e-6).epsilon


def test_pld_of_many_pure_releases_beats_their_sum():
    """ε of 100 pure releases is far below the sum, and above the exact binomial law."""
    epsilon, n, delta = 0.1, 100, 1e-6
    found = pld_compose([PureDP(epsilon)] * n, delta).epsilon
    with mpmath.workdps(40):
        p = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))

        def curve(total):
            return sum(
                mpmath.binomial(n, i) * p**i * (1 - p) ** (n - i) * (1 - mpmath.exp(total - loss))
                for i in range(n + 1)
                if (loss := (2 * i - n) * epsilon) > total
            )

        assert curve(found) <= delta < curve(found * 0.99)
    assert found < 0.6 * n * epsilon


def test_pld_refuses_what_it_cannot_compose():
    """Other definitions, an empty list, a leak above δ and a tiny δ are one clear line."""
    for budgets, delta, rule in [
        ([ZCDP(1.0)], 1e-6, "convert the others"),
        ([], 1e-6, "at least one budget"),
        ([ApproxDP(1.0, 0.1), PureDP(1.0)], 0.01, "lose all protection"),
        ([PureDP(1.0)], 1e-13, "at least 1e-12"),
        ([PureDP(1.0)], 1.0, "strictly between"),
    ]:
        with pytest.raises(PrivacyError, match=rule):
            pld_compose(budgets, delta)


# amplification
