"""What queries need together: by the law of their loss, against closed forms, and no rule."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from covdp.addons.papers.composition import (
    LINE,
    STEPS,
    LossLaw,
    attained,
    one_loss,
    together,
)
from covdp.addons.papers.verdicts import verdicts
from covdp.experiments import Run, load_experiments, run_experiment
from covdp.mechanisms import MECHANISMS
from covdp.privacy import GDP, ApproxDP, PureDP, RaoDP
from covdp.privacy.definitions import KLDP, RDP
from covdp.report import load_run

GRID = 5e-4
"""Relative error of the grid, half of what verdicts allow for."""


def loss(name: str, theta: float) -> LossLaw:
    """Return the loss of one query of a noise at Rao budget θ."""
    law = MECHANISMS[name].calibrate(RaoDP(theta), sensitivity=1.0, manifold=LINE)
    return one_loss(law.noise, law.sigma)  # type: ignore[attr-defined]


@pytest.mark.parametrize("queries", [1, 2, 7, 50])
@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_gaussian_queries_need_what_one_of_larger_mu_needs(mu: float, queries: int) -> None:
    """The loss of m Gaussian queries is that of one at √m·μ: N(mμ²/2, mμ²), in every definition."""
    law, total = together(loss("ewg", mu), queries), math.sqrt(queries) * mu
    assert law.shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert attained(law, GDP(1.0)) == pytest.approx(total, rel=GRID)
    assert attained(law, KLDP(1.0)) == pytest.approx(total**2 / 2, rel=GRID)
    divergence = attained(law, RDP(8.0, 1.0))
    if total < 2:
        assert divergence == pytest.approx(8 * total**2 / 2, rel=GRID)
    else:  # the grid ends before it does, which is noticed
        assert math.isnan(divergence)
    epsilon = attained(law, ApproxDP(1.0, 1e-6))
    phi = special.ndtr
    found = phi(total / 2 - epsilon / total) - math.exp(epsilon) * phi(-total / 2 - epsilon / total)
    assert found == pytest.approx(1e-6, rel=0.02)  # of δ, which falls steeply with ε


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
def test_one_laplace_query_needs_its_closed_forms(epsilon: float) -> None:
    """ε; ε − 1 + e^−ε; −2·Φ⁻¹(e^(−ε/2)/2); and δ(ε′) = 1 − e^((ε′ − ε)/2)."""
    law = loss("ewl", epsilon)
    assert attained(law, PureDP(1.0)) == pytest.approx(epsilon, rel=1e-9)
    kl = epsilon - 1 + math.exp(-epsilon)
    assert attained(law, KLDP(1.0)) == pytest.approx(kl, rel=GRID)
    mu = -2 * special.ndtri(math.exp(-epsilon / 2) / 2)
    assert attained(law, GDP(1.0)) == pytest.approx(mu, rel=GRID)
    half = attained(law, ApproxDP(1.0, 1 - math.exp(-epsilon / 4)))
    assert half == pytest.approx(epsilon / 2, rel=2e-3)


def test_losses_of_independent_queries_are_added() -> None:
    """The largest loss of m Laplace queries has probability 2^−m, and Rényi divergences add."""
    one = loss("ewl", 1.0)
    for queries in (2, 3, 10):
        law = together(one, queries)
        assert law.losses[-1] == pytest.approx(queries)
        atom = law.shares[-1] * 2**queries  # and half a step of the continuous part of each
        assert 1.0 <= atom < (1 + 1 / STEPS) ** queries
        assert law.shares.sum() == pytest.approx(1.0)
        for order in (1.5, 8.0):
            single = attained(one, RDP(order, 1.0))
            assert attained(law, RDP(order, 1.0)) == pytest.approx(queries * single, rel=1e-9)
    assert math.isnan(attained(one, RaoDP(1.0)))


def test_a_wrong_rule_does_not_agree(tmp_path: Path) -> None:
    """Totals are held against what queries need, so that a rule that asks for less is refuted."""
    (config,) = load_experiments("rao-composition", quick=True)
    table = run_experiment(Run(config, None, tmp_path))
    run = load_run(tmp_path / "runs" / config.run_name, table)
    assert run.rows is not None
    words = {item.says: item.word for item in verdicts(run)}
    assert words["Rao differential privacy: m budgets make √Σθ²"] == "No verdict"
    assert list(words.values()).count("Agrees") == 8
    for name, power in (("pure", 0.5), ("gdp", 0.25), ("zcdp", 0.5)):
        chosen = run.rows["definition"] == name
        one = {
            series: run.rows["budget"][chosen & (run.rows["series"] == series)][0]
            for series in set(run.rows["series"][chosen])
        }
        wrong = np.array([one.get(x, 0.0) for x in run.rows["series"]]) * run.rows["n"] ** power
        rows = {**run.rows, "budget": np.where(chosen, wrong, run.rows["budget"])}
        found = {item.says: item.word for item in verdicts(replace(run, rows=rows))}
        (changed,) = [says for says, word in found.items() if word != words[says]]
        assert found[changed] == "Agrees in part"  # of one query it is right
