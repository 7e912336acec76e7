"""Scales of noise: enough for the budget, no more than needed, by routes that share no code."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import gennorm, laplace, norm

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
    delta_of,
    fits,
    gaussian_cost,
    gaussian_sigma,
    laplace_cost,
    laplace_sigma,
)
from covdp.privacy.conversion import analytic_mu, laplace_epsilon, pure_renyi, pure_zcdp
from covdp.privacy.rounding import (
    GUARD,
    gdp_of_pure,
    greatest,
    least,
    log_delta,
    pure_of_gdp,
    round_down,
    round_up,
)
from tests.tools.addons import addon

generalized_gaussian_cost = addon("papers.generalized_gaussian:generalized_gaussian_cost")
generalized_gaussian_sigma = addon("papers.generalized_gaussian:generalized_gaussian_sigma")

seeded = settings(derandomize=True, max_examples=60)
sizes = st.floats(1e-6, 1e6)
deltas = st.floats(-200, -0.01).map(lambda exponent: 10**exponent)
BUDGETS = {
    "gdp": st.builds(GDP, sizes),
    "rdp": st.builds(RDP, st.floats(1.001, 1e4), sizes),
    "zcdp": st.builds(ZCDP, sizes),
    "rao": st.builds(RaoDP, sizes),
    "kl": st.builds(KLDP, sizes),
    "mcdp": st.builds(MCDP, sizes, sizes),
    "approx": st.builds(ApproxDP, st.floats(1e-6, 100.0), deltas),
}


def exact_delta(epsilon, mu):
    """δ(ε) of Gaussian noise as printed, with enough digits to survive the cancellation."""
    with mpmath.workdps(120):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        root = mpmath.sqrt(2)
        first = mpmath.erfc((e / m - m / 2) / root) / 2
        return first - mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / root) / 2


def in_terms(budget):
    """Arguments of a cost function that ask for the definition of `budget`."""
    return {
        "delta": getattr(budget, "delta", None),
        "alpha": budget.alpha if isinstance(budget, RDP) else None,
    }


def test_gaussian_curve_keeps_its_digits():
    """δ(ε) agrees with long arithmetic to GUARD/10 for ε in [1e-8, 1e3], δ down to 1e-300."""
    rng = np.random.default_rng(1)
    for epsilon in 10 ** rng.uniform(-8, 3, 300):
        a = rng.uniform(-6, 37)
        mu = 2 * epsilon / (a + math.hypot(a, math.sqrt(2 * epsilon)))
        exact = exact_delta(epsilon, mu)
        if exact > 1e-300:
            found = mpmath.exp(mpmath.mpf(log_delta(epsilon, mu)))
            assert abs(found / exact - 1) < GUARD / 10, (epsilon, mu)


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 0.5, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-6, 0.3, 0.99])
def test_analytic_sigma_is_the_least(epsilon, delta):
    """The condition holds at σ in long arithmetic, and fails at σ·(1 − 1e-9)."""
    sigma = gaussian_sigma(ApproxDP(epsilon, delta), 1.0)
    assert exact_delta(epsilon, 1 / mpmath.mpf(sigma)) <= delta
    assert exact_delta(epsilon, 1 / (mpmath.mpf(sigma) * (1 - mpmath.mpf("1e-9")))) > delta


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-3])
def test_analytic_sigma_agrees_with_dp_accounting(epsilon, delta):
    """An independent solver finds the same σ."""
    from dp_accounting import get_sigma_gaussian

    sigma = gaussian_sigma(ApproxDP(epsilon, delta), 2.5)
    assert sigma == pytest.approx(2.5 * get_sigma_gaussian(epsilon, delta), rel=1e-6)


@pytest.mark.parametrize(
    ("budget", "analytic", "classical"),
    [
        (ApproxDP(0.5, 1e-6), 8.0576, 10.598),
        (ApproxDP(1.0, 1e-5), 3.7306, None),
        (ApproxDP(2.0, 1e-6), 2.2305, None),
    ],
)
def test_golden_scales_of_approximate_dp(budget, analytic, classical):
    """σ at unit sensitivity equals published values; the classical formula stops at ε = 1."""
    assert gaussian_sigma(budget, 1.0) == pytest.approx(analytic, abs=1e-4)
    if classical is None:
        with pytest.raises(PrivacyError, match="proven for epsilon < 1"):
            gaussian_sigma(budget, 1.0, analytic=False)
    else:
        assert gaussian_sigma(budget, 1.0, analytic=False) == pytest.approx(classical, abs=1e-3)


def test_golden_closed_forms():
    """The closed forms of the other definitions, written out by hand."""
    assert gaussian_sigma(GDP(0.5), 1.0) == 2.0
    assert gaussian_sigma(RDP(8.0, 1.0), 0.5) == 1.0
    assert gaussian_sigma(ZCDP(0.5), 3.0) == 3.0
    assert gaussian_sigma(KLDP(2.0), 3.0) == 1.5
    assert gaussian_sigma(MCDP(2.0, 1.0), 3.0) == 3.0
    assert gaussian_sigma(MCDP(0.5, 4.0), 3.0) == 3.0
    assert gaussian_sigma(RaoDP(0.25), 1.0) == 4.0
    assert laplace_sigma(PureDP(0.5), 1.0) == 2.0
    assert laplace_sigma(ApproxDP(0.5, 1e-5), 1.0) == 2.0
    assert laplace_sigma(RaoDP(0.25), 1.0) == 4.0
    assert laplace_sigma(GDP(1.0), 1.0) == pytest.approx(
        1 / math.log(norm.cdf(0.5) / norm.cdf(-0.5)), rel=1e-9
    )
    assert laplace_sigma(ZCDP(math.tanh(0.5)), 1.0) == pytest.approx(1.0, rel=1e-9)


def test_classical_never_beats_analytic():
    """For every ε < 1 the classical σ is at least the analytic one."""
    for epsilon in [1e-8, 1e-3, 0.1, 0.5, 0.9, 0.999999]:
        for delta in [1e-300, 1e-30, 1e-6, 1e-2, 0.5, 0.9, 0.999]:
            budget = ApproxDP(epsilon, delta)
            assert gaussian_sigma(budget, 1.0, analytic=False) >= gaussian_sigma(budget, 1.0)


def test_published_sign_error_gives_too_little_noise():
    """With +Δ/2σ in the second Φ any σ passes, though its true δ is 1 for tiny σ."""
    epsilon, delta = 0.5, 1e-6
    for sigma in np.geomspace(1e-3, 8.0, 50):
        first = norm.cdf(1 / (2 * sigma) - epsilon * sigma)
        misprinted = first - math.exp(epsilon) * norm.cdf(+1 / (2 * sigma) - epsilon * sigma)
        assert misprinted <= delta
        assert delta_of(gaussian_cost(sigma, 1.0), epsilon) > delta
    assert delta_of(gaussian_cost(1e-3, 1.0), epsilon) > 0.999
    assert gaussian_sigma(ApproxDP(epsilon, delta), 1.0) > 8.0


@given(mu=sizes, sensitivity=st.floats(1e-150, 1e150))
@seeded
def test_closed_form_is_the_least_double(mu, sensitivity):
    """σ·μ ≥ Δ and 2ρσ² ≥ Δ² hold exactly, and fail at the double below."""
    s, d = Fraction(gaussian_sigma(GDP(mu), sensitivity)), Fraction(sensitivity)
    below = Fraction(math.nextafter(float(s), 0))
    assert s * Fraction(mu) >= d > below * Fraction(mu)
    s = Fraction(gaussian_sigma(ZCDP(mu), sensitivity))
    below = Fraction(math.nextafter(float(s), 0))
    assert 2 * Fraction(mu) * s**2 >= d**2 > 2 * Fraction(mu) * below**2


@pytest.mark.parametrize("name", BUDGETS)
@given(data=st.data())
@seeded
def test_gaussian_calibrate_then_spend(name, data):
    """Noise calibrated to a budget costs at most that budget, to the last bit."""
    budget, sensitivity = data.draw(BUDGETS[name]), data.draw(sizes)
    sigma = gaussian_sigma(budget, sensitivity)
    assert fits(gaussian_cost(sigma, sensitivity, type(budget), **in_terms(budget)), budget)


@given(st.builds(ApproxDP, st.floats(1e-6, 0.999), deltas), sizes)
@seeded
def test_classical_calibrate_then_spend(budget, sensitivity):
    """The classical formula comes back to at most the budget."""
    sigma = gaussian_sigma(budget, sensitivity, analytic=False)
    cost = gaussian_cost(sigma, sensitivity, ApproxDP, delta=budget.delta, analytic=False)
    assert fits(cost, budget)


@pytest.mark.parametrize("name", [*BUDGETS, "pure"])
@given(data=st.data())
@seeded
def test_laplace_calibrate_then_spend(name, data):
    """Laplace noise calibrated to a budget costs at most that budget."""
    budget = data.draw(st.builds(PureDP, sizes) if name == "pure" else BUDGETS[name])
    sensitivity = data.draw(sizes)
    sigma = laplace_sigma(budget, sensitivity)
    assert fits(laplace_cost(sigma, sensitivity, type(budget), **in_terms(budget)), budget)


@given(sizes, sizes, st.floats(1.0, 50.0))
@seeded
def test_generalized_gaussian_calibrate_then_spend(theta, sensitivity, degree):
    """Generalized Gaussian noise calibrated to θ costs at most θ."""
    sigma = generalized_gaussian_sigma(RaoDP(theta), sensitivity, degree)
    assert fits(generalized_gaussian_cost(sigma, sensitivity, degree=degree), RaoDP(theta))


@pytest.mark.parametrize("scale_of", [gaussian_sigma, laplace_sigma])
def test_scale_falls_with_the_budget_and_is_linear_in_sensitivity(scale_of):
    """A larger budget never needs more noise; doubling Δ doubles σ."""
    families = [
        GDP,
        ZCDP,
        RaoDP,
        KLDP,
        lambda v: RDP(4.0, v),
        lambda v: MCDP(v, v),
        lambda v: ApproxDP(v, 1e-6),
    ]
    for family in families:
        scales = [scale_of(family(value), 1.0) for value in np.geomspace(1e-3, 1e2, 40)]
        assert all(high > low for high, low in pairwise(scales))
        assert scale_of(family(0.7), 2.0) == pytest.approx(2 * scale_of(family(0.7), 1.0))
    scales = [gaussian_sigma(ApproxDP(1.0, delta), 1.0) for delta in np.geomspace(1e-12, 0.5, 40)]
    assert all(high > low for high, low in pairwise(scales))


def test_pure_divergences_are_those_of_randomised_response():
    """Rényi and zCDP costs of ε-DP agree with sums over its two outcomes; ρ is tight, ≤ ε²/2."""
    orders = 1 + np.geomspace(1e-6, 1e4, 60)
    for epsilon in [1e-5, 0.01, 0.5, 1.0, 4.0, 30.0]:
        with mpmath.workdps(60):
            p = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))
            divergences = [
                float(mpmath.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1))
                for a in map(mpmath.mpf, orders)
            ]
        for order, divergence in zip(orders, divergences, strict=True):
            assert divergence * (1 - 1e-13) <= pure_renyi(epsilon, order)
            assert pure_renyi(epsilon, order) == pytest.approx(divergence, rel=1e-9)
        tightest = max(np.array(divergences) / orders)
        assert tightest <= pure_zcdp(epsilon) <= epsilon**2 / 2 * (1 + 2 * GUARD)
        assert pure_zcdp(epsilon) == pytest.approx(tightest, rel=1e-4)
    assert pure_renyi(400.0, 3.0) == pytest.approx(400.0 + 0.0, rel=1e-9)
    assert pure_renyi(1000.0, 1.5) == pytest.approx(1000.0, rel=1e-9)


def test_pure_to_gdp_touches_the_curve_at_one_point():
    """G_μ lies below the chords of ε(μ)-DP and meets them where both errors agree."""
    level = np.linspace(1e-6, 1 - 1e-6, 20_001)
    for mu in [1e-4, 0.1, 1.0, 3.0]:
        epsilon = pure_of_gdp(mu)
        chords = np.maximum(1 - math.exp(epsilon) * level, math.exp(-epsilon) * (1 - level))
        gap = chords - norm.cdf(norm.ppf(1 - level) - mu)
        assert gap.min() > -1e-14
        kink = 1 / (1 + math.exp(epsilon))
        assert norm.cdf(norm.ppf(1 - kink) - mu) == pytest.approx(kink, rel=1e-9)
        assert mu * (1 - 4 * GUARD) < gdp_of_pure(epsilon) <= mu


@pytest.mark.parametrize("mu", [1e-8, 1e-3, 0.999, 1.001, 5.0, 40.0, 1e3])
def test_pure_to_gdp_keeps_its_digits(mu):
    """ε(μ) is rounded down, μ(ε) up, both within a few GUARD of long arithmetic."""
    with mpmath.workdps(50):
        root = mpmath.sqrt(2)
        exact = mpmath.log(mpmath.erfc(-mu / 2 / root) / mpmath.erfc(mu / 2 / root))
        assert 0 < 1 - pure_of_gdp(mu) / exact < 4 * GUARD
        back = gdp_of_pure(float(exact))
    assert 0 <= back / mu - 1 < 3 * GUARD


def test_laplace_noise_meets_a_gaussian_budget():
    """The exact trade-off curve of one-dimensional Laplace noise lies above that of μ-GDP."""
    level = np.linspace(1e-6, 1 - 1e-6, 5001)
    for mu in [0.1, 1.0, 3.0]:
        shift = 1 / laplace_sigma(GDP(mu), 1.0)
        error = laplace.cdf(laplace.ppf(1 - level) - shift)
        assert (error - norm.cdf(norm.ppf(1 - level) - mu)).min() > -1e-12


def laplace_renyi(order, shift):
    """D_a of two Laplace laws `shift` scales apart, by numerical integration."""

    def integrand(x):
        return math.exp(-order * abs(x) + (order - 1) * abs(x - shift)) / 2

    pieces = [(-40, 0), (0, shift), (shift, 60)]
    return math.log(sum(quad(integrand, *ends)[0] for ends in pieces)) / (order - 1)


@pytest.mark.parametrize("order", [1.001, 1.5, 2.0, 9.0])
def test_laplace_noise_meets_a_renyi_budget(order):
    """The Rényi divergence of Laplace noise is within Rényi, zCDP and (near order 1) KL budgets."""
    assert laplace_renyi(order, 1 / laplace_sigma(RDP(order, 0.3), 1.0)) <= 0.3
    assert laplace_renyi(order, 1 / laplace_sigma(ZCDP(0.5), 1.0)) <= 0.5 * order
    assert laplace_renyi(1.001, 1 / laplace_sigma(KLDP(0.2), 1.0)) <= 0.2


@pytest.mark.parametrize("degree", [1.0, 1.5, 2.0, 3.0, 10.0])
def test_generalized_gaussian_scale_is_its_fisher_information(degree):
    """θ = Δ·√I with I the Fisher information of the location, by numerical integration."""

    def score_squared(x):
        return (degree * x ** (degree - 1)) ** 2 * gennorm.pdf(x, degree)

    information = 2 * quad(score_squared, 0, 1)[0] + 2 * quad(score_squared, 1, 60, limit=200)[0]
    sigma = generalized_gaussian_sigma(RaoDP(0.5), 2.0, degree)
    assert sigma == pytest.approx(2.0 * math.sqrt(information) / 0.5, rel=1e-7)
    with mpmath.workdps(40):
        inverse = 1 / mpmath.mpf(degree)
        exact = degree * mpmath.gamma(2 - inverse) / mpmath.gamma(1 + inverse)
    assert (sigma / 4) ** 2 >= exact


def test_extreme_but_legal_budgets_give_a_scale():
    """Budgets at the ends of the range give a finite positive scale or one clear error."""
    for budget in [ApproxDP(1e-12, 1e-300), ApproxDP(1e4, 0.5), ApproxDP(1e-300, 1e-300)]:
        assert 0 < gaussian_sigma(budget, 1.0) < math.inf
    assert 0 < laplace_sigma(RDP(1e6, 1e-12), 1e-9) < math.inf
    assert analytic_mu(1e-6, 1 - 1e-12) > 10
    with pytest.raises(PrivacyError, match="floating point"):
        gaussian_sigma(GDP(1e-300), 1e300)


@pytest.mark.parametrize("sensitivity", [0, -1.0, math.nan, math.inf, True, "1", None])
@pytest.mark.parametrize("scale_of", [gaussian_sigma, laplace_sigma])
def test_bad_sensitivity_is_refused(scale_of, sensitivity):
    """A sensitivity that is not a positive number is one clear line."""
    with pytest.raises(PrivacyError, match="sensitivity must be a finite number above 0"):
        scale_of(GDP(1.0), sensitivity)


def test_meaningless_calibrations_are_refused():
    """Gaussian noise has no pure DP, generalized Gaussian noise no certified definition."""
    with pytest.raises(PrivacyError, match="no pure DP at any scale"):
        gaussian_sigma(PureDP(1.0), 1.0)
    with pytest.raises(PrivacyError, match="Rao DP only"):
        generalized_gaussian_sigma(GDP(1.0), 1.0, 2.0)
    with pytest.raises(PrivacyError, match="degree must be at least 1"):
        generalized_gaussian_sigma(RaoDP(1.0), 1.0, 0.9)


@given(
    st.fractions(0, 10**40) | st.floats(0, 1e150).map(lambda v: Fraction(v) ** 2),
    st.sampled_from([1, 2]),
)
@seeded
def test_rounding_is_exact(x, power):
    """The doubles on both sides of x^(1/power) are its neighbours."""
    up, down = round_up(x, power), round_down(x, power)
    assert Fraction(down) ** power <= x <= Fraction(up) ** power
    assert up == 0 or Fraction(math.nextafter(up, 0)) ** power < x
    assert Fraction(math.nextafter(down, math.inf)) ** power > x


def test_searches_find_the_last_double():
    """`greatest` and `least` stop at the two sides of a step, wherever they start."""
    for step in [1e-200, 0.3, 1.0, 7e150]:
        for guess in [1e-3, 1.0, 1e3]:
            assert greatest(lambda x, s=step: x <= s, guess) == step
            assert least(lambda x, s=step: x >= s, guess) == step
    with pytest.raises(PrivacyError):
        greatest(lambda x: False, 1.0)
    with pytest.raises(PrivacyError):
        least(lambda x: False, 1.0)


def test_laplace_epsilon_takes_the_smaller_of_two_limits():
    """A mean concentrated budget binds by its mean or by its spread."""
    assert laplace_epsilon(MCDP(100.0, 0.5)) == 0.5
    assert laplace_epsilon(MCDP(0.1, 9.0)) == laplace_epsilon(ZCDP(0.1))
