"""The main flow, on the embedded images and on real ones, under one Prefect test server."""

import importlib
import inspect
import json
import re
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import yaml
from PIL import Image

from pipeline.cli import main
from pipeline.config import ExperimentConfig
from pipeline.errors import DomainError
from pipeline.experiments import images
from pipeline.experiments.registry import MAIN, load_experiments
from pipeline.experiments.run import Run
from pipeline.experiments.steps import run_experiment
from pipeline.files import project_root
from pipeline.results import read_bound, read_rows


def small(dataset: str, **changes: object) -> ExperimentConfig:
    """Return the main job with few budgets and repetitions."""
    few = {"budgets": (0.2, 1.0), "repetitions": 20}
    return load_experiments(MAIN, dataset=dataset)[0].model_copy(update={**few, **changes})


@pytest.fixture(scope="module")
def tiles_run(prefect_server: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of one run of the main flow on the embedded images."""
    from flows.experiments import experiments

    out = tmp_path_factory.mktemp("tiles")
    experiments([Run(small("tiles"), None, out)], out)
    return out


@pytest.mark.slow
def test_flow_writes_results_record_and_report(tiles_run: Path) -> None:
    """One run leaves one table with every cell, one record, one report, and no descriptor."""
    config = small("tiles")
    rows = read_rows(tiles_run / "results" / "main-tiles.parquet")
    cells = set(zip(rows["label"], rows["series"], rows["budget"], strict=True))
    assert len(cells) == 3 * len(config.mechanisms) * 2
    assert len(rows["error"]) == 20 * len(cells)
    assert set(rows["status"]) == {"ok"}
    record = json.loads((tiles_run / "runs" / "main-tiles" / "run.json").read_text())
    assert [name for name, _ in record["steps"]][:3] == ["images", "descriptors", "bound"]
    assert "<title>" in (tiles_run / "report.html").read_text(encoding="utf-8")
    assert not list(tiles_run.rglob("*.npy"))
    assert not [path for path in tiles_run.rglob("*") if path.name.endswith((".part", ".parts"))]


def test_deployments_give_their_flows_what_they_take() -> None:
    """Each entrypoint of prefect.yaml is a flow that its parameters are enough for."""
    root = project_root()
    assert root is not None
    listed = yaml.safe_load((root / "flows" / "prefect.yaml").read_text(encoding="utf-8"))
    for deployment in listed["deployments"]:
        path, name = deployment["entrypoint"].split(":")
        module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        inspect.signature(getattr(module, name).fn).bind(**deployment["parameters"])


@pytest.mark.slow
def test_mean_error_agrees_with_its_exact_expectation(tiles_run: Path) -> None:
    """Each cell's mean error lies within 6 standard errors of theory (false alarm < 1e-6).

    The adaptive mean has no exact expectation, and says so in every row.
    """
    rows = read_rows(tiles_run / "results" / "main-tiles.parquet")
    assert np.isnan(rows["expected_error"][rows["series"] == "Adaptive"]).all()
    for series in set(rows["series"]) - {"Adaptive"}:
        for budget in set(rows["budget"]):
            mine = (rows["series"] == series) & (rows["budget"] == budget) & (rows["label"] == 1)
            error, expected = rows["error"][mine], rows["expected_error"][mine][0]
            assert abs(error.mean() - expected) < 6 * error.std(ddof=1) / np.sqrt(mine.sum())


@pytest.mark.slow
def test_bound_holds_and_says_how_tight(tiles_run: Path) -> None:
    """The largest norm of each class lies below the proven radius, and the ratio is theirs."""
    bound = read_bound(tiles_run / "runs" / "main-tiles" / "bound.parquet")
    assert (bound["largest_norm"] <= bound["radius"]).all()
    np.testing.assert_allclose(bound["ratio"], bound["largest_norm"] / bound["radius"])


@pytest.mark.slow
def test_a_row_is_recomputed_from_its_own_columns(tiles_run: Path) -> None:
    """A cell recomputed alone from the seed in its rows gives the same errors, bit for bit."""
    from pipeline.experiments.montecarlo import all_cells, run_cells
    from pipeline.experiments.steps import read_class

    run = Run(small("tiles"), None, tiles_run / "again")
    images.describe_classes(run)
    data, setting = read_class(run, 2)
    rows = read_rows(tiles_run / "results" / "main-tiles.parquet")
    for cell in all_cells(run.config, [2]):
        columns: list[dict[str, Any]] = []
        run_cells(data, setting, [cell], lambda _, found: columns.append(found))  # noqa: B023
        mine = (rows["label"] == 2) & (rows["series"] == cell.series.series)
        mine &= rows["budget"] == cell.value
        assert columns[0]["seed"] == rows["seed"][mine][0]
        np.testing.assert_array_equal(columns[0]["error"], rows["error"][mine])


def test_a_violated_bound_stops_the_run_before_any_noise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a radius that is too small the run ends at verify, and no row is written."""
    run = Run(small("tiles"), None, tmp_path)
    true = images.public_domain(run)
    wrong = type(true)(**{**vars(true), "radius": 5.0})
    monkeypatch.setattr(images, "public_domain", lambda *_: wrong)
    with pytest.raises(DomainError, match="radius"):
        run_experiment(run)
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_prefect_hears_of_no_file(
    prefect_server: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run on an image at fault names it on the terminal alone, not where Prefect keeps states."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.sorting import FlowRunSort, LogSort, TaskRunSort

    for label, number in product("ab", range(2)):
        file = tmp_path / "ward" / label / f"benengeli-{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (9 - number * (label == "b"), 9), number).save(file)
    card = tmp_path / "ward.toml"
    card.write_text('kind = "folder"\nchannels = 1\npublic = true\nclasses = ["a", "b"]\n')
    tokens = ["run", "--dataset", card, "--data-root", tmp_path, "--out", tmp_path / "out"]
    assert main([str(token) for token in tokens]) == 2
    said = capsys.readouterr().err
    assert "b/benengeli-1.png: images must have one size, found (9, 9)" in said
    with get_client(sync_client=True) as client:
        runs = [
            *client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC),
            *client.read_task_runs(sort=TaskRunSort.END_TIME_DESC),
        ]
        logs = client.read_logs(sort=LogSort.TIMESTAMP_DESC)
    told = [run.model_dump_json() for run in runs] + [log.model_dump_json() for log in logs]
    assert any("which one and why is withheld" in one for one in told)
    assert not any("benengeli" in one for one in told)
    assert not any("benengeli" in file.read_text() for file in tmp_path.rglob("*.json"))


@pytest.mark.parametrize("protocol", ["tls", "tcp"])
def test_a_cluster_of_ours_takes_work_from_nobody_else(protocol: str) -> None:
    """A client without the certificate that was made for the cluster does not get in."""
    from distributed import Client, LocalCluster

    from flows.runners import task_runner

    asked = {**cast(Any, task_runner("dask")).cluster_kwargs, "n_workers": 0}
    with LocalCluster(**asked) as cluster:
        address = re.sub("^tls", protocol, cluster.scheduler_address)
        with pytest.raises((OSError, RuntimeError, TypeError)):
            Client(address, timeout="2s")
        with Client(cluster) as ours:
            assert ours.scheduler_info()["workers"] == {}


@pytest.mark.slow
def test_dask_gives_the_same_numbers_as_threads(
    tmp_path: Path, tiles_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run on a real Dask cluster of two workers writes the errors that threads wrote."""
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    text = MAIN.read_text(encoding="utf-8").replace("repetitions = 100", "repetitions = 20")
    few = re.sub(r"budgets = .*", "budgets = [0.2, 1.0]", text)
    (tmp_path / "few.toml").write_text(few, encoding="utf-8")
    tokens = ["run", "--runner", "dask", "--config", tmp_path / "few.toml"]
    assert main([str(token) for token in [*tokens, "--out", tmp_path / "out"]]) == 0
    name = Path("results") / "main-tiles.parquet"
    ours, theirs = read_rows(tmp_path / "out" / name), read_rows(tiles_run / name)
    np.testing.assert_array_equal(ours["error"], theirs["error"])
