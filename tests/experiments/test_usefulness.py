"""What a run says its private means are good for: measured against plain computations."""

import json
from typing import Any

import numpy as np
import pytest

from covdp import open_dataset
from covdp.config import ExperimentConfig
from covdp.descriptors import describe
from covdp.experiments import EXPERIMENTS, MAIN, Run, load_experiments, run_experiment
from covdp.experiments.steps import write_results
from covdp.experiments.usefulness import judged
from covdp.figures import digits
from covdp.geometry import MANIFOLDS, frechet_mean
from covdp.report import FinishedRun, load_runs
from covdp.report.run_page import beside_distances, beside_true, in_words, kept

CARD = """\
kind = "npz"
local = true
public = true
channels = 1
classes = ["<i>tissue</i>", "cells"]
"""
CONFIG = """\
name = "small"
title = "Small"
dataset = "ward.toml"
budgets = [0.001, 1.0, 20000.0]
repetitions = 2
seed = 5
baseline = "EWG as published"

[[mechanisms]]
series = "EWG as published"
mechanism = "ewg"
sensitivity = "radius"

[[mechanisms]]
series = "Adaptive"
mechanism = "ewg"
footpoint = "adaptive"
"""
SPACE = MANIFOLDS["spd-log-euclidean"](k=5)


def tiles(label: int) -> np.ndarray:
    """Return sixty real pictures of a class."""
    return next(iter(open_dataset("tiles").chunks(label=label)))[:600:10]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a small experiment on 120 pictures of two classes."""
    folder = tmp_path_factory.mktemp("useful")
    images = np.concatenate([tiles(0), tiles(2)])
    labels = np.repeat(np.arange(2, dtype=np.uint8), 60)
    np.savez(folder / "ward.npz", train_images=images, train_labels=labels)
    (folder / "ward.toml").write_text(CARD)
    (folder / "small.toml").write_text(CONFIG)
    (config,) = load_experiments(folder / "small.toml")
    found = Run(config, folder, folder / "out")
    run_experiment(found)
    return found


@pytest.fixture(scope="module")
def finished(run: Run) -> FinishedRun:
    """Return what the run left, as a report reads it."""
    (found,) = load_runs(run.out)
    return found


def test_true_means_and_their_accuracy_are_those_of_the_images(finished: FinishedRun) -> None:
    """Distances, means and the share told right, computed again by the definition of each."""
    points = [describe(tiles(label), descriptor="oct5") for label in (0, 2)]
    means = np.stack([frechet_mean(one, SPACE).point for one in points])
    use = finished.use
    assert np.array(use["true"]) == pytest.approx(means, rel=1e-6)
    assert use["distances"][0][1] == pytest.approx(float(SPACE.dist(*means)), rel=1e-6)
    told = [
        np.argmin(np.stack([SPACE.dist(mean, one) for mean in means]), axis=0) for one in points
    ]
    plain = np.mean([np.mean(nearest == place) for place, nearest in enumerate(told)])
    assert use["plain"] == pytest.approx(float(plain), abs=1e-9)


def test_noise_takes_what_it_must_and_no_more(finished: FinishedRun) -> None:
    """Without noise to speak of all is kept; under the widest published noise nothing is.

    There one mean is nearest to all images, so half of them are told right, whichever it is.
    """
    shares = {(one["series"], one["budget"]): one["kept"] for one in finished.use["kept"]}
    names = ("EWG as published", "Adaptive")
    assert set(shares) == {(name, mu) for name in names for mu in (0.001, 1.0, 20000.0)}
    for name in names:
        assert shares[name, 20000.0] == pytest.approx([finished.use["plain"]] * 10, abs=0.02)
    assert shares["EWG as published", 0.001] == pytest.approx([0.5] * 10, abs=0.1)
    private = np.array(finished.use["private"])
    assert finished.use["budget"] == 1.0
    assert (np.linalg.eigvalsh(private) > 0).all()
    assert not np.allclose(private, finished.use["true"], rtol=1e-3)


def test_it_is_drawn_once(run: Run) -> None:
    """For the same table nothing is drawn again; for another, as after a change, it is."""
    path = run.folder / "use.json"
    before = path.read_bytes()
    changed = json.loads(before) | {"fingerprint": "another"}
    path.write_text(json.dumps(changed))
    write_results(run)
    assert path.read_bytes() == before
    stamp = path.stat().st_mtime_ns
    write_results(run)
    assert path.stat().st_mtime_ns == stamp


def test_the_page_holds_errors_against_distances(finished: FinishedRun) -> None:
    """The share that is printed is error over distance; figures and words are of both means."""
    table = beside_distances(finished)
    assert table is not None
    assert table["heads"][3:] == [f"Error at μ = {mu}" for mu in ("0.001", "1", "20,000")]
    rows = finished.rows
    assert rows is not None
    distance = finished.use["distances"][0][1]
    mine = (rows["series"] == "Adaptive") & (rows["budget"] == 1.0) & (rows["label"] == 0)
    share = float(rows["error"][mine].mean()) / distance
    printed = f"{100 * share:.2g} %" if share < 1 else f"{share:.2g} times it"
    assert table["lines"][0][:2] == ["<i>tissue</i>", "cells"]
    assert table["lines"][0][4].endswith(f"({printed})")
    drawn = beside_true(finished)
    assert drawn is not None
    assert len({row["class"] for rows in drawn.spec["datasets"].values() for row in rows}) == 4
    said: Any = in_words(finished)
    assert [name for name, _ in said["heads"]] == ["<i>tissue</i>", "cells"]
    true = np.sqrt(np.array(finished.use["true"])[0, 0, 0])
    assert said["lines"][0]["cells"][0]["band"] == f"{digits(float(true))} without noise"
    chart = kept(finished)
    assert chart is not None
    assert "guessing has 50 %" in chart.caption


def test_published_experiments_are_not_asked() -> None:
    """The main job is judged by its baseline and the adaptive mean; a paper's experiment is not."""
    (main,) = load_experiments(MAIN)
    assert [one.series for one in judged(main)] == ["EWG as published", "Adaptive"]
    for name in EXPERIMENTS:
        for config in load_experiments(name):
            assert judged(config) == () or not config.paper
    chains: ExperimentConfig = main.model_copy(
        update={"mechanisms": tuple(one for one in main.mechanisms if one.mechanism == "rl")}
    )
    assert [one.series for one in judged(chains)] == ["RL with D/n"]
