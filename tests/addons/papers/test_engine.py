"""The Monte Carlo engine: simulated records, statuses, distances, and going on after a kill."""

import math
import os
import signal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covdp.addons.papers.simulated import build_manifold, class_title, simulate
from covdp.config import ExperimentConfig
from covdp.experiments import Run, all_cells, load_experiments, run_experiment
from covdp.experiments.driver import (
    distance_name,
    run_cells,
)
from covdp.geometry import MANIFOLDS, unvecd
from covdp.geometry.charts import NormalChart
from covdp.mean import SinglePlan, admit, draw, prepare
from covdp.mean.sensitivity import frechet_sensitivity
from covdp.mechanisms import MECHANISMS, FloatNoise
from covdp.mechanisms.exponential import gradient_sensitivity, laplace_sensitivity
from covdp.results import RowWriter, Table, read_record, read_rows
from tests.tools.trace import Watcher

SIMULATED = [config.name for config in load_experiments("all") if config.source is not None]


def tiny(name: str, **changes: object) -> ExperimentConfig:
    """Return a published experiment without chains, three repetitions a cell."""
    config = load_experiments(name, quick=True, chains=False)[0]
    series = tuple(x.model_copy(update={"repetitions": None}) for x in config.mechanisms)
    return config.model_copy(update={"repetitions": 3, "mechanisms": series, **changes})


def run(config: ExperimentConfig, out: Path) -> Table:
    """Run `config` and return its rows."""
    return read_rows(run_experiment(Run(config, None, out)))


@pytest.mark.parametrize("name", [name for name in SIMULATED if name not in ("tg-timing",)])
def test_simulated_records_lie_in_their_ball_and_repeat(name: str) -> None:
    """Every class lies within its public radius, on its manifold, and is the same each time."""
    config = next(found for found in load_experiments(name) if found.source is not None)
    small = config.source.model_copy(update={"n": (12,)})
    config = config.model_copy(update={"source": small})
    for label in range(len(config.simulated)):
        (_, _, points, _), (_, ball, manifold) = simulate(config, label)
        manifold.check(points)
        assert (manifold.dist(ball.center, points) <= ball.radius * (1 + 1e-9)).all()
        np.testing.assert_array_equal(points, simulate(config, label)[0].points)


def test_rl_is_undefined_exactly_where_its_density_does_not_exist(tmp_path: Path) -> None:
    """RL on SPD(k) with Δ = 3/40 is undefined iff Δ/ε ≥ 1/c_k: ε ≤ 0.237 (k = 5), 0.106 (k = 3)."""
    budgets = (0.05, 0.105, 0.107, 0.236, 0.238, 1.0)
    rows = run(tiny("ew-simulation", budgets=budgets), tmp_path)
    pure = rows["series"] == "RL exact, ε-DP"
    for label, k in enumerate((2, 3, 5, 6)):
        limit = 3 / 40 * math.sqrt(k * (k * k - 1) / 12)
        for budget in budgets:
            mine = pure & (rows["label"] == label) & (rows["budget"] == budget)
            assert mine.sum() == 3
            assert set(rows["status"][mine]) == {"undefined" if budget <= limit else "ok"}
            assert np.isnan(rows["error"][mine]).all() == (budget <= limit)
    wrapped = rows["mechanism"] != "rl"
    assert set(rows["status"][wrapped]) == {"ok"}


def test_rows_say_how_well_chains_mixed(tmp_path: Path) -> None:
    """Rows of a chain have acceptance, R-hat and effective size; exact draws are never rejected."""
    config = load_experiments("tg-synthetic", quick=True)[0]
    assert config.source is not None
    small = config.source.model_copy(update={"dimensions": (3,)})
    pair = tuple(item for item in config.mechanisms if item.series in ("RL chain", "RL exact"))
    rows = run(config.model_copy(update={"source": small, "mechanisms": pair}), tmp_path)
    chain = rows["sampler"] == "chain"
    assert 0 < chain.sum() < len(chain)
    assert ((rows["r_hat"] > 0.9) == chain).all()
    assert ((rows["effective_size"] > 1.0) == chain).all()
    assert ((rows["acceptance"] < 1.0) == chain).all()


@pytest.mark.parametrize("mechanism", ["ewl", "ewg"])
@pytest.mark.parametrize("k", [2, 5])
def test_normal_chart_is_the_affine_invariant_manifold(mechanism: str, k: int) -> None:
    """Distances in the chart are those of the matrices, and hold where matrices cannot."""
    manifold = MANIFOLDS["spd-affine-invariant"](k=k)
    chart = NormalChart(manifold)
    rng = np.random.default_rng(1)
    p, q = rng.normal(size=chart.dim), rng.normal(size=(20, chart.dim))
    base = manifold.exp(manifold.origin, p)
    expected = manifold.dist(base, manifold.exp(manifold.origin, q))
    np.testing.assert_allclose(chart.dist(p, q), expected, rtol=1e-10)
    far = 40 * q
    along = chart.dist(np.zeros(chart.dim), far)
    np.testing.assert_allclose(along, np.linalg.norm(far, axis=-1), rtol=1e-12)
    assert (np.abs(chart.dist(p, far) - along) <= np.linalg.norm(p) * (1 + 1e-9)).all()


def test_chart_distances_agree_with_sixty_digits() -> None:
    """With eigenvalues e^±40 the chart's distance is right to 1e-10, checked with mpmath."""
    import mpmath

    chart = NormalChart(MANIFOLDS["spd-affine-invariant"](k=3))
    rng = np.random.default_rng(2)
    p, q = rng.normal(size=6), 25 * rng.normal(size=(1, 6))
    with mpmath.workdps(80):
        first, second = (mpmath.matrix(unvecd(u).tolist()) for u in (p, q[0]))
        root = mpmath.expm(-first / 2)
        values = mpmath.eigsy(root * mpmath.expm(second) * root, eigvals_only=True)
        exact = mpmath.sqrt(sum(mpmath.log(value) ** 2 for value in values))
    np.testing.assert_allclose(chart.dist(p, q)[0], float(exact), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ew-geometries", "tg-synthetic", "tg-burnin"])
def test_flat_mechanisms_have_their_exact_expectation(name: str, tmp_path: Path) -> None:
    """On flat manifolds each mean error lies within 5.5 standard errors of its exact expectation.

    400 repetitions make the mean nearly normal, fewer than 60 cells are compared: the false alarm
    is below 60 × 4e-8 < 3e-6 for each of the three experiments; the seeds are fixed.
    """
    config = tiny(name)
    source = config.source.model_copy(
        update={
            "dimensions": config.source.dimensions[:2],
            "manifolds": config.source.manifolds[:2],
            "n": (30,),
        }
    )
    config = config.model_copy(update={"source": source, "repetitions": 400, "budgets": (0.2, 0.4)})
    rows = run(config, tmp_path)
    assert set(rows["status"]) == {"ok"}
    checked = 0
    for key in dict.fromkeys(zip(rows["label"], rows["series"], rows["budget"], strict=True)):
        mine = (rows["label"] == key[0]) & (rows["series"] == key[1]) & (rows["budget"] == key[2])
        error, expected = rows["error"][mine], rows["expected_error"][mine][0]
        if np.isnan(expected):
            assert "Frobenius" in key[1]
            continue
        checked += 1
        assert abs(error.mean() - expected) < 5.5 * error.std(ddof=1) / np.sqrt(len(error)), key
    assert checked >= 4


def test_one_row_is_recomputed_alone(tmp_path: Path) -> None:
    """A single cell, run alone, gives the rows it has in the whole table, bit for bit."""
    config = tiny("ew-simulation", budgets=(0.5, 1.0))
    rows = run(config, tmp_path)
    cell = all_cells(config, [2])[-1]
    found = [columns for _, columns in run_cells(*simulate(config, 2), [cell])]
    mine = (rows["label"] == 2) & (rows["series"] == cell.series.series)
    mine &= rows["budget"] == cell.value
    assert set(rows["seed"][mine]) == {found[0]["seed"]}
    np.testing.assert_array_equal(rows["error"][mine], found[0]["error"])


def test_sphere_sensitivities_are_the_proven_ones() -> None:
    """KNG, RL and the embedded mechanisms on the sphere have the bounds of their proofs."""
    config = load_experiments("kng-sphere")[0]
    setting, (_, _, n) = simulate(config, 0)[1], config.simulated[0]
    radius = setting.domain.radius
    bounds = {
        series.series: frechet_sensitivity(
            setting.domain, n, series.plan, MECHANISMS[series.mechanism], setting.manifold
        )
        for series in config.mechanisms
        if isinstance(series.plan, SinglePlan)
    }
    assert bounds["KNG exact"] == pytest.approx(gradient_sensitivity(n, radius, 1.0))
    move = laplace_sensitivity(n, radius, 1.0)
    assert bounds["Manifold Laplace, Δ/ε"] == pytest.approx(move, rel=1e-6)
    assert bounds["Euclidean Laplace, Δ/ε"] == pytest.approx(2 * radius / n)
    assert 2 * radius / n < bounds["Euclidean Laplace, proven Δ/ε"] <= move * (1 + 1e-6)
    assert bounds["KNG exact"] < move


@pytest.mark.slow
def test_k_norm_gradient_draws_on_every_space_of_its_paper() -> None:
    """KNG accepts on the sphere, on SPD(2) and on shapes, and stays in the ball where it must."""
    for name in ("kng-sphere", "kng-spd", "kng-shapes"):
        config = tiny(name)
        data, setting = simulate(config, 0)
        cell = all_cells(config, [0])[0]
        rng = np.random.default_rng(3)
        records = admit(data.points, domain=setting.domain, manifold=setting.manifold)
        prepared = prepare(
            records, cell.series.plan, size=setting.repetitions(cell.series), rng=rng
        )
        budget = config.budget(cell.value, cell.series)
        size = setting.repetitions(cell.series)
        drawn = draw(prepared, budget, noise=FloatNoise(rng), size=size)[0]
        assert 0 < drawn.diagnostics.acceptance <= 1
        if setting.manifold.curvature[1] > 0:
            reach = setting.manifold.dist(setting.domain.center, drawn.points)
            assert (reach <= setting.domain.radius * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("tg-synthetic", {"log-Euclidean", "Frobenius"}),
        ("kng-sphere", {"chord"}),
        ("kng-spd", {"half-vectorisation"}),
        ("ew-geometries", {"log-Cholesky", "log-Euclidean", "affine-invariant", "hyperbolic"}),
        ("kng-shapes", {"shape space"}),
    ],
)
def test_every_error_says_in_which_distance(name: str, names: set[str]) -> None:
    """Rows name the distance of their error: that of the manifold, or of matrices and vectors."""
    config = load_experiments(name)[0]
    spaces = [build_manifold(name, dimension) for name, dimension, _ in config.simulated]
    found = {distance_name(item, space) for item in config.mechanisms for space in spaces}
    assert found == names


def test_classes_are_named_by_k_where_the_paper_has_k() -> None:
    """SPD(k) of the tangent Gaussian's paper is k = 2, 5, …; the others keep d."""
    config = load_experiments("tg-burnin")[0]
    names = [class_title(config, label) for label in range(len(config.simulated))]
    assert names == ["k = 2", "k = 5", "k = 10", "k = 20", "k = 30"]


def test_an_impossible_dimension_is_refused() -> None:
    """SPD(k) has no dimension 4."""
    with pytest.raises(ValueError, match="found 4"):
        build_manifold("spd-log-euclidean", 4)


def run_until_killed(run: Run, cells: int) -> None:
    """Run, and end as in a power cut once so many cells are written."""
    write, left = RowWriter.write, iter(range(cells - 1))

    def counted(self: RowWriter, key: str, rows: Any) -> None:
        write(self, key, rows)
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    RowWriter.write = counted  # type: ignore[method-assign]
    run_experiment(run)


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_with_the_same_table(tmp_path: Path, watch: Watcher) -> None:
    """After SIGKILL midway, the same call computes only what lacks; the tables are equal."""
    config = load_experiments("tg-synthetic", quick=True, chains=False)[0]
    killed = Run(config, None, tmp_path / "killed")
    process = get_context("fork").Process(target=run_until_killed, args=(killed, 20))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    kept = len(list((tmp_path / "killed" / "results").glob(".*.parts/*.json")))
    assert kept >= 20
    assert not list((tmp_path / "killed" / "results").glob("*.parquet"))
    written = watch(RowWriter.write)
    resumed = run(config, tmp_path / "killed")
    record = read_record(killed.log)
    assert record.notes[1].startswith(f"{kept} of {kept + len(written)} cells were there")
    assert len(written) + kept == 7 * len(config.mechanisms) * len(config.budgets)
    undisturbed = run(config, tmp_path / "whole")
    for name in set(resumed) - {"seconds"}:
        np.testing.assert_array_equal(resumed[name], undisturbed[name], err_msg=name)
    keys = zip(
        *(resumed[name] for name in ("label", "series", "budget", "repetition")), strict=True
    )
    assert len(set(keys)) == len(resumed["seed"])
