"""The jobs of the command: on the embedded images, by threads and by Dask, and what listens."""

import json
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from PIL import Image
from sample_nights import Ward
from scipy.special import ndtr

from covdp.config import ExperimentConfig
from covdp.descriptors import describe, domain
from covdp.errors import ConfigError, DomainError
from covdp.experiments import MAIN, Run, images, load_experiments, run_experiment
from covdp.experiments.steps import perform as run_step
from covdp.geometry import MANIFOLDS
from covdp.mechanisms import MECHANISMS
from covdp.parallel import CLUSTER, workers
from covdp.privacy import GDP, ZCDP, PureDP
from covdp.report import load_runs
from covdp.report.split import in_words, split_of_budget
from covdp.results import read_bound, read_rows
from covdp.runs import perform, run_experiments
from tests.cli.wards import by_dask


def small(dataset: str, **changes: object) -> ExperimentConfig:
    """Return the main job with few budgets and repetitions."""
    few = {"budgets": (0.2, 1.0), "repetitions": 20}
    return load_experiments(MAIN, dataset=dataset)[0].model_copy(update={**few, **changes})


@pytest.fixture(scope="module")
def tiles_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of one run of the main job on the embedded images."""
    out = tmp_path_factory.mktemp("tiles")
    with workers("threads") as unordered:
        run_experiments(
            [small("tiles")],
            partial(perform, workers=unordered, shown=False),
            root=None,
            out=out,
            needs_data=True,
        )
    return out


@pytest.mark.slow
def test_a_run_writes_results_record_and_report(tiles_run: Path) -> None:
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
def test_the_farthest_image_is_the_one_that_is_shown(tiles_run: Path) -> None:
    """Its picture, described again, is as far from the identity as rows and table say."""
    space = MANIFOLDS["spd-log-euclidean"](k=5)
    folder = tiles_run / "runs" / "main-tiles"
    bound = read_bound(folder / "bound.parquet")
    rows = read_rows(tiles_run / "results" / "main-tiles.parquet")
    for label, largest in zip(bound["label"], bound["largest_norm"], strict=True):
        with Image.open(folder / "farthest" / f"{label}.png") as picture:
            image = np.asarray(picture.convert("L"))[None, :28, :28]
        distance = float(space.dist(space.origin, describe(image, "oct5"))[0])
        assert distance == pytest.approx(float(largest), rel=1e-9)
        assert set(rows["farthest"][rows["label"] == label]) == {largest}
    limit = domain("oct5", height=28, width=28)
    assert set(rows["radius_bound"]) == {limit.radius}
    assert set(rows["diameter_bound"]) == {limit.diameter}


@pytest.mark.slow
def test_rows_say_how_the_budget_was_split(tiles_run: Path) -> None:
    """Footpoint and mean add up to the budget; σ of both is that of their share, and no other.

    Who reads no footpoint has the whole budget for the mean.
    """
    rows = read_rows(tiles_run / "results" / "main-tiles.parquet")
    squares = np.nan_to_num(rows["footpoint_budget"]) ** 2 + rows["mean_budget"] ** 2
    np.testing.assert_allclose(squares, rows["budget"] ** 2, rtol=1e-12)
    share = np.nan_to_num(rows["footpoint_budget"]) ** 2 / rows["budget"] ** 2
    np.testing.assert_allclose(rows["footpoint_share"], share, atol=1e-12)
    paid = rows["footpoint_mechanism"] != "none"
    assert set(rows["mechanism"][~paid]) == {"rl", "kng", "tangent-gaussian"}
    assert (rows["mean_budget"] == rows["budget"])[~paid].all()
    for name, family in MECHANISMS.items():
        for at in np.flatnonzero((rows["mechanism"] == name) & (rows["repetition"] == 0)):
            if rows["footpoint"][at] == "adaptive":
                continue
            budget, width = GDP(float(rows["mean_budget"][at])), float(rows["sensitivity"][at])
            space = MANIFOLDS["spd-log-euclidean"](k=5)
            drawn = family.calibrate(budget, sensitivity=width, manifold=space)
            assert rows["sigma"][at] == pytest.approx(drawn.sigma, rel=1e-12)
            if not paid[at]:
                assert np.isnan(rows["footpoint_sigma"][at])
                continue
            few = 0.05 if rows["footpoint"][at] == "subsample" else 1.0
            wide = width * rows["n"][at] / round(few * rows["n"][at])
            law = MECHANISMS[rows["footpoint_mechanism"][at]]
            share = GDP(float(rows["footpoint_budget"][at]))
            drawn = law.calibrate(share, sensitivity=wide, manifold=space)
            assert rows["footpoint_sigma"][at] == pytest.approx(drawn.sigma, rel=1e-6)


@pytest.mark.slow
def test_the_page_says_how_the_budget_is_split(tiles_run: Path) -> None:
    """At μ = 1: √0.1·μ and √0.9·μ where there is a footpoint, all of it where there is none.

    Laplace noise is that of the ε whose tight GDP is μ, to three digits, rounded down; the steps of
    the adaptive mean are all there, and add up.
    """
    (run,) = load_runs(tiles_run)
    content = split_of_budget(run)
    assert content is not None
    lines = {(line[0], line[1]): line[2:] for line in content["lines"]}
    assert lines["EWG as published", "footpoint"][:3] == ["rl", "√0.1·μ = 0.316", "ε = 0.252"]
    assert lines["EWG as published", "mean"][:3] == ["ewg", "√0.9·μ = 0.948", "–"]
    epsilon = np.log(ndtr(0.5) / ndtr(-0.5))
    assert lines["RL as published", "mean"][:3] == ["rl", "μ = 1", f"ε = {epsilon - 5e-4:.3f}"]
    assert ("RL as published", "footpoint") not in lines
    steps = [step for series, step in lines if series == "Adaptive"]
    assert (steps[0], steps[-1]) == ("mean 1", "mean 3")
    squares = [float(lines["Adaptive", step][1].split("= ")[1]) ** 2 for step in steps]
    assert sum(squares) == pytest.approx(1.0, abs=0.01)
    for step, square in zip(steps, squares, strict=True):  # of a mean of vectors, Δ = 1/n
        sigmas = [float(text.replace("·10⁻⁴", "e-4")) for text in lines["Adaptive", step][3:]]
        sizes = [run.rows["n"][run.rows["label"] == label][0] for label in range(3)]
        assert sigmas == pytest.approx([1 / (n * square**0.5) for n in sizes], rel=0.02)
    text = (tiles_run / "report.html").read_text(encoding="utf-8").replace("\xa0", " ")
    assert "How the budget is split" in text
    assert "r = √5·max(|ln η|, ln(5·255² + η)) = 30.89" in text
    assert text.count("farthest of") == 3


def test_shares_are_of_what_adds_up(tmp_path: Path) -> None:
    """Of ε it is the share itself, of μ its root: 0.1·ε = 0.05 of 0.5, √0.1·μ = 0.158."""
    assert in_words(0.1, PureDP(0.05)) == "0.1·ε = 0.05"
    assert in_words(0.1, GDP(0.1**0.5 * 0.5)) == "√0.1·μ = 0.158"
    assert in_words(1.0, ZCDP(0.5)) == "ρ = 0.5"


@pytest.mark.slow
def test_the_main_job_takes_every_descriptor_of_gray_images(tmp_path: Path) -> None:
    """On another metric a series without a guarantee there is left out, and the report says so.

    An experiment that is about a metric takes no descriptor of another.
    """
    (config,) = load_experiments(MAIN, descriptor="gauss6", repetitions=2)
    assert config.manifold == "spd-log-cholesky"
    gone = {x.series for x in load_experiments(MAIN)[0].mechanisms}
    gone -= {x.series for x in config.mechanisms}
    assert gone == {"Tangent Gaussian as published"}
    few = config.model_copy(update={"budgets": (1.0,)})
    runs, page = run_experiments([few], run_step, root=None, out=tmp_path, needs_data=True)
    text = page.read_text(encoding="utf-8").replace("\xa0", " ")
    assert "“Tangent Gaussian as published” is left out" in text
    assert "Σ₊ without the first" in text
    assert set(read_rows(runs[0].table)["status"]) == {"ok"}
    with pytest.raises(ConfigError, match=r"ew-footpoint runs on .* choose another descriptor"):
        load_experiments("ew-footpoint", dataset="breastmnist", descriptor="gauss6")


def test_a_baseline_is_left_out_with_its_series(tmp_path: Path) -> None:
    """An experiment that keeps no series on the metric of another descriptor is refused."""
    head, *series = MAIN.read_text(encoding="utf-8").split("[[mechanisms]]")
    (refused,) = [one for one in series if "Tangent Gaussian as published" in one]
    (kept,) = [one for one in series if 'series = "Adaptive"' in one]
    head = re.sub("(?m)^baseline = .*$", 'baseline = "Tangent Gaussian as published"', head)
    path = tmp_path / "few.toml"
    path.write_text("[[mechanisms]]".join([head, refused, kept]), encoding="utf-8")
    (config,) = load_experiments(str(path), descriptor="gauss6")
    assert [one.series for one in config.mechanisms] == ["Adaptive"]
    assert config.baseline == ""
    path.write_text("[[mechanisms]]".join([head, refused]), encoding="utf-8")
    with pytest.raises(ConfigError, match=r" keeps no series on spd-log-cholesky: "):
        load_experiments(str(path), descriptor="gauss6")


@pytest.mark.slow
def test_a_row_is_recomputed_from_its_own_columns(tiles_run: Path) -> None:
    """A cell recomputed alone from the seed in its rows gives the same errors, bit for bit."""
    from covdp.experiments import all_cells
    from covdp.experiments.driver import run_cells
    from covdp.experiments.steps import read_class

    run = Run(small("tiles"), None, tiles_run / "again")
    images.verify_bound(run, images.describe_classes(run, run.images))
    data, setting = read_class(run, 2)
    rows = read_rows(tiles_run / "results" / "main-tiles.parquet")
    for cell in all_cells(run.config, [2]):
        columns = [found for _, found in run_cells(data, setting, [cell])]
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


@pytest.mark.parametrize("protocol", ["tls", "tcp"])
def test_a_cluster_of_ours_takes_work_from_nobody_else(protocol: str) -> None:
    """A client without the certificate that was made for the cluster does not get in."""
    from distributed import Client, LocalCluster

    with LocalCluster(**CLUSTER, n_workers=0) as cluster:
        address = re.sub("^tls", protocol, cluster.scheduler_address)
        with pytest.raises((OSError, RuntimeError, TypeError)):
            Client(address, timeout="2s")
        with Client(cluster) as ours:
            assert ours.scheduler_info()["workers"] == {}


@pytest.mark.slow
def test_dask_gives_the_same_numbers_as_threads(
    tmp_path: Path, tiles_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run on a real Dask cluster of two workers writes the errors that threads wrote.

    It is on a terminal, where its bars turn: a worker is sent each task, and no bar with it.
    """
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    text = MAIN.read_text(encoding="utf-8").replace("repetitions = 30", "repetitions = 20")
    few = re.sub(r"budgets = .*", "budgets = [0.2, 1.0]\nclasses = [0]", text)
    (tmp_path / "few.toml").write_text(few, encoding="utf-8")
    by_dask(monkeypatch, "run", f"--config {tmp_path / 'few.toml'} --out {tmp_path / 'out'}")
    name = Path("results") / "main-tiles.parquet"
    ours, theirs = read_rows(tmp_path / "out" / name), read_rows(tiles_run / name)
    np.testing.assert_array_equal(ours["error"], theirs["error"][theirs["label"] == 0])


COMMANDS = """
import sys
import numpy.testing  # older ones ask lscpu when they are imported
events = {"socket.bind", "socket.connect", "subprocess.Popen", "os.fork", "os.posix_spawn"}
sys.addaudithook(lambda event, _: sys.exit(event) if event in events else None)
from covdp.cli import main
few, night, root, out = sys.argv[1:]
release = ["release", "--config", night, "--data-root", root, "--out", f"{out}/night"]
assert main([*release, "--ledger", f"{root}/ledger.sqlite", "--run-key", "2026-03-01"]) == 0
heavy = {"vl_convert", "jsonschema", "pandas", "scipy.stats", "scipy.integrate"}
heavy |= {"scipy.ndimage", "dp_accounting", "pydicom", "nibabel", "covdp.experiments.steps"}
heavy &= set(sys.modules)
assert not heavy, heavy
assert main(["run", "--config", few, "--out", f"{out}/run"]) == 0
assert main(["reproduce", "rao-composition", "--out", f"{out}/reproduce"]) == 0
assert main(["describe", "--dataset", "tiles", "--store", f"{out}-store"]) == 0
foreign = {"prefect", "distributed", "dask", "uvicorn", "fastapi", "pandas"} & set(sys.modules)
assert not foreign, foreign
"""


@pytest.mark.slow
def test_commands_start_nothing_that_listens_and_import_no_prefect(tmp_path: Path) -> None:
    """No process of a command has a socket that listens, or one at all.

    None starts another, but workers of Python's own, which have pipes. Python tells of its own at
    once; what a library has of its own is looked for.
    """
    few = tmp_path / "few.toml"
    text = MAIN.read_text(encoding="utf-8").replace("repetitions = 30", "repetitions = 2")
    few.write_text(re.sub(r"budgets = .*", "budgets = [1.0]\nclasses = [0]", text))
    (tmp_path / "ward").mkdir()
    ward = Ward(tmp_path / "ward")
    ward.pay()
    ward.put(well=5, ill=5)
    paths = [few, ward.folder / "night.toml", ward.folder, tmp_path / "out"]
    sockets, children, looks = list[Any](), set[str](), 0
    with subprocess.Popen([sys.executable, "-c", COMMANDS, *paths]) as command:
        process = psutil.Process(command.pid)
        forked = " ".join(process.cmdline())  # what a child is called until it has begun
        while command.poll() is None:
            try:
                sockets += process.net_connections("inet")
                for child in process.children(recursive=True):
                    children.add(" ".join(child.cmdline()))
                    sockets += child.net_connections("inet")
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            looks += 1
            time.sleep(0.1)
    assert command.returncode == 0
    assert looks > 20
    assert sockets == []
    begun = children - {forked}
    assert all("from multiprocessing." in child for child in begun), begun
