"""The flows, on a real server of Prefect's: the rows of `covdp`, and nothing private there."""

import hashlib
import importlib
import inspect
import json
import logging
import os
import re
import runpy
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import platformdirs
import pytest
import yaml
from PIL import Image
from sample_nights import Ward

from covdp.cli import main
from covdp.datasets import DATASETS, find_card
from covdp.errors import ConfigError, CovdpError, DatasetError, MissingError
from covdp.experiments import MAIN, Run, load_experiments, run_experiment
from covdp.figures import javascript
from covdp.files import project_root
from covdp.ledger import init_ledger
from covdp.mean import mean
from covdp.privacy import GDP
from covdp.results import read_rows
from tests.addons.nights.secret_wards import COUNTS, FIVE, SECRET, fixed_noise, move
from tests.addons.partners.local import document, put
from tests.publish.leaks import CARD, CONFIG, SCANS, contents, needles, planted, write_scans
from tests.sample_server import npz_like_octmnist, serving, sockets_are_left
from tests.tools.patience import PATIENCE

FEW = ("EWG as published", "Adaptive")
"""The series of a small main job."""
settling = sys.modules["covdp.addons.nights.night"]
pytestmark = pytest.mark.usefixtures("prefect_imported", "noise_in_doubles")


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Return the file of a small main job: two classes, two of its mechanisms, one budget."""
    path, between = tmp_path / "few.toml", "[[mechanisms]]"
    text = re.sub(r"budgets = .*", "budgets = [1.0]", MAIN.read_text(encoding="utf-8"))
    text = text.replace("repetitions = 30", "repetitions = 2")
    head, _, ewg, *_, last = text.split(between)
    path.write_text("classes = [0, 1]\n" + between.join([head, ewg, last]), encoding="utf-8")
    return path


def status_without_secret(url: str) -> int:
    """Return how a server of Prefect's answers whoever asks for its runs without a password."""
    asked = urllib.request.Request(
        f"{url}/api/flow_runs/filter", b"{}", {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked, timeout=PATIENCE)
    with refused.value as answer:
        return answer.code


def kept(path: Path) -> tuple[dict[str, set[str]], dict[str, tuple[str, str]]]:
    """Return which completed tasks each task waited for, by name, and artifacts by key."""
    with closing(sqlite3.connect(path)) as database:
        tasks = database.execute(
            "SELECT id, name, state_name, task_inputs FROM task_run"
        ).fetchall()
        artifacts = database.execute("SELECT key, description, data FROM artifact").fetchall()
    names = {key.replace("-", ""): name for key, name, state, _ in tasks if state == "Completed"}
    assert len(names) == len(tasks) == len(set(names.values()))
    before = {
        name: {
            names[item["id"].replace("-", "")]
            for items in json.loads(inputs).values()
            for item in items
            if item["input_type"] == "task_run"
        }
        for _, name, _, inputs in tasks
    }
    return before, {key: (description, data) for key, description, data in artifacts}


@pytest.mark.slow
def test_python_m_flows_writes_what_the_command_writes(
    few: Path, tmp_path: Path, prefect_database: Path
) -> None:
    """As `make run` does it: tasks in sight, the paths of rows and page, a server of its own.

    The rows are those of `covdp run`. Prefect has a task for each class and mechanism, and knows
    which takes what another returned; what it keeps begins with what was found. The server tells
    nothing without the secret of the process, and goes with it.
    """
    out, home = tmp_path / "flow", tmp_path / "home"
    home.mkdir()
    shutil.copy(prefect_database, home)
    with subprocess.Popen(
        [sys.executable, "-m", "flows", str(few), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=project_root(),
        env={**os.environ, "PREFECT_HOME": str(home), "PREFECT_LOGGING_LEVEL": "INFO"},
    ) as process:
        assert process.stdout
        assert process.stderr
        status, said = 0, ""
        for line in process.stderr:
            said += line
            if "Beginning flow run" in line:
                (url,) = re.findall("Starting temporary server on (.*)", said)
                status = status_without_secret(url)
        printed = process.stdout.read().splitlines()
    assert process.returncode == 0, said
    table = Path("results") / "main-tiles.parquet"
    assert any(line.startswith("bound    radius r =") and "30.89" in line for line in printed)
    assert printed[-2:] == [f"results  {out / table}", f"report   {out / 'report.html'}"]
    assert "Task run 'verify_bound' - Finished in state Completed()" in said
    assert status == 401
    assert "Stopping temporary server" in said
    assert "<title>" in (out / "report.html").read_text(encoding="utf-8")

    assert main(["run", "--config", str(few), "--out", str(tmp_path / "covdp")]) == 0
    ours, theirs = read_rows(out / table), read_rows(tmp_path / "covdp" / table)
    for column in set(ours) - {"seconds"}:
        np.testing.assert_array_equal(ours[column], theirs[column], err_msg=column)
    before, left = kept(home / "prefect.db")
    drawn = {f"{name} · {series}" for name in ("ihc", "retina") for series in FEW}
    footpoints = {f"{name} · EWG as published, footpoint" for name in ("ihc", "retina")}
    steps = ["download", "describe", "verify_bound", "write_results", "write_report"]
    assert sorted(before) == sorted([*steps, *drawn, *footpoints])
    assert before["download"] == set()
    assert all(before[step] >= {first} for first, step in pairwise(steps[:3]))
    assert all(before[name] >= {"verify_bound"} for name in drawn | footpoints)
    assert all(name.removesuffix(", footpoint") in drawn for name in footpoints)
    assert all(name in before[name.removesuffix(", footpoint")] for name in footpoints)
    assert before["write_results"] >= drawn
    assert before["write_report"] >= {"write_results"}
    assert "30.89" in left["bound-main-tiles"][0]
    assert "share of r" in left["bound-main-tiles"][1]
    assert json.loads(left["report-main-tiles"][1]).startswith("At the same budget")
    assert (out / "report.html").as_uri() in left["report-main-tiles"][1]


def at_once(many: int, say: Callable[..., None], *words: Any, **named: Any) -> None:
    """Say something in many threads."""
    threads = [threading.Thread(target=say, args=words, kwargs=named) for _ in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_steps_are_told_in_words(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A line a step, with how many there were, in place of Prefect's; what went wrong stays.

    Tasks of one step end at once, each in a thread of its own.
    """
    from flows.__main__ import log_in_words

    def write(text: str) -> None:
        time.sleep(0.02)  # a terminal takes its time
        shown.append(text)

    shown = list[str]()
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=write))
    tasks, flow = map(logging.getLogger, ("prefect.task_runs", "prefect.flow_runs"))
    with monkeypatch.context() as patch:
        for logger in (tasks, flow, logging.getLogger("prefect")):
            for name, value in {"filters": [], "handlers": [caplog.handler], "level": 20}.items():
                patch.setattr(logger, name, value)
            patch.setattr(logger, "propagate", False)
        log_in_words()
        flow.info("Beginning flow run")
        tasks.info("Task run failed: retry 1/3 begins in 2 s", extra={"task_name": "download"})
        for step in ("download", "describe", "release", "write_report"):
            many = 16 if step == "release" else 1
            at_once(many, tasks.info, "Finished in state Completed()", extra={"task_name": step})
        tasks.error("Finished in state Failed()", extra={"task_name": "write_report"})
        flow.info("Finished in state Completed()")
    told = re.sub(r" \(\d+\.\d s\)", "", "".join(shown)).splitlines()
    assert told == [
        "Prefect starts a server, which ends with the flow",
        "✓ images are on disk",
        "✓ each image is a covariance matrix",
        "✓ private means are drawn, for 16 pairs of class and series",
        "✓ the report is written",
    ]
    assert [record.levelname for record in caplog.records] == ["INFO", "ERROR"]


@pytest.mark.slow
def test_ctrl_c_ends_python_m_flows(tmp_path: Path, prefect_database: Path) -> None:
    """One line and exit code 130; the run has crashed, and the server has gone."""
    shutil.copy(prefect_database, tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "flows", "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        text=True,
        cwd=project_root(),
        env={**os.environ, "PREFECT_HOME": str(tmp_path), "PREFECT_LOGGING_LEVEL": "INFO"},
        start_new_session=True,
    ) as process:
        assert process.stderr
        said = ""
        while "Task run 'download'" not in said:
            said += process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        said += process.stderr.read()
    assert said.count("covdp: interrupted; the same command starts it again\n") == 1
    assert "Traceback" not in said
    (url,) = re.findall("Starting temporary server on (.*)", said)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=PATIENCE)
    with closing(sqlite3.connect(tmp_path / "prefect.db")) as database:
        assert database.execute("SELECT state_name FROM flow_run").fetchall() == [("Crashed",)]


def test_ctrl_c_while_python_m_flows_is_imported_is_no_traceback(tmp_path: Path) -> None:
    """It ends by the signal."""
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "flows", "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        text=True,
        cwd=project_root(),
    ) as process:
        assert process.stderr
        while "cyclopts" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == -signal.SIGINT
        assert "Traceback" not in process.stderr.read()
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens")
def test_python_m_flows_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input is one line and exit code 2."""
    monkeypatch.setattr(sys, "argv", ["flows", "absent.toml"])
    monkeypatch.delitem(sys.modules, "flows.__main__", raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("flows", run_name="__main__")
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "absent.toml" in line


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["--dataset", "octmnits"], "octmnist"),
        (["--descriptor", "oct6"], "oct5"),
        (["--dataset", "tiles", "--descriptor", "grid11"], "grid11"),
        (["--repetitions", "1"], "repetitions"),
        (["mechanism.toml"], "unknown mechanism 'ewh'; did you mean 'ew"),
        (["manifold.toml"], "unknown manifold"),
    ],
)
def test_what_a_flow_is_asked_for_is_checked_before_anything_is_started(
    tokens: list[str], words: str, few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is not known is one line: no server is looked for, and there is no folder."""
    import covdp.flows.__main__ as command

    text = few.read_text(encoding="utf-8")
    wrong = text.replace('mechanism = "ewg"', 'mechanism = "ewh"', 1)
    (tmp_path / "mechanism.toml").write_text(wrong, encoding="utf-8")
    flat = text.replace('manifold = "spd-log-euclidean"', 'manifold = "flat"')
    (tmp_path / "manifold.toml").write_text(flat, encoding="utf-8")
    told = [str(tmp_path / token) if token.endswith(".toml") else token for token in tokens]
    monkeypatch.delattr(command, "require_server")  # what comes first is a NameError otherwise
    with pytest.raises(CovdpError, match=words) as refused:
        command.app([*told, "--out", str(tmp_path / "out")])
    assert len(str(refused.value).splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_server_that_does_not_answer_is_one_line(few: Path, tmp_path: Path) -> None:
    """Where PREFECT_API_URL names no server the line says so, and the way out: exit code 2."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/api"
    done = run_flows([str(few)], PREFECT_HOME=str(tmp_path / "home"), PREFECT_API_URL=address)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"covdp: no Prefect server answers at PREFECT_API_URL, {address} (")
    assert "unset PREFECT_API_URL" in line


def test_what_draws_noise_is_never_done_again() -> None:
    """No task that draws is retried or cached, and Prefect stores nothing that a task returns."""
    from prefect.cache_policies import NO_CACHE

    from covdp.flows import experiment

    for drawing in (experiment.select_footpoint, experiment.release, experiment.write_results):
        assert drawing.retries == 0
        assert drawing.cache_policy == NO_CACHE
    steps = [experiment.download, experiment.describe, experiment.verify_bound]
    steps += [experiment.select_footpoint, experiment.release, experiment.write_results]
    for step in (*steps, experiment.write_report):
        assert step.persist_result is False
        assert step.fn.__wrapped__.__name__ == step.name  # words about own images are withheld
    assert (experiment.download.retries, experiment.write_report.retries) == (3, 2)


def run_flows(tokens: list[str], **settings: str) -> subprocess.CompletedProcess[str]:
    """Return what ``python -m flows`` gave, with some settings of the environment."""
    return subprocess.run(
        [sys.executable, "-m", "flows", *tokens],
        capture_output=True,
        text=True,
        cwd=project_root(),
        env={**os.environ, **settings},
        timeout=600,
        check=False,
    )


DEPLOYMENTS = (
    "main-job",
    "octmnist-weekly",
    "medmnist-monthly",
    "release",
    "nightly-release",
    "nightly-match",
)


def test_deployments_give_their_flows_what_they_take() -> None:
    """Each entrypoint of prefect.yaml is a flow that its parameters are enough for.

    No schedule is active before somebody turns it on. The main job of each month is on every 2-D
    set of MedMNIST.
    """
    root = project_root()
    assert root is not None
    listed = yaml.safe_load((root / "flows" / "prefect.yaml").read_text(encoding="utf-8"))
    deployments = {item["name"]: item for item in listed["deployments"]}
    assert tuple(deployments) == DEPLOYMENTS
    schedules = [each for item in deployments.values() for each in item["schedules"]]
    assert len(schedules) == 4
    assert not any(each["active"] for each in schedules)
    monthly = deployments["medmnist-monthly"]["parameters"]["datasets"]
    flat = [x for x in DATASETS if x.endswith("mnist") and "medmnist" in find_card(x).url.lower()]
    assert monthly == sorted(flat)
    for deployment in listed["deployments"]:
        path, name = deployment["entrypoint"].split(":")
        module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        inspect.signature(getattr(module, name).fn).bind(**deployment["parameters"])


@pytest.mark.slow
def test_prefect_hears_of_no_file(
    prefect_server: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an image at fault nothing is said where Prefect keeps states; `covdp` names it.

    Of images that are missing it is said, and the flow fails, as `covdp reproduce` does.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.sorting import FlowRunSort, LogSort, TaskRunSort

    from covdp.flows.experiment import experiments

    for label in "ab":
        Image.new("L", (9, 9), ord(label)).save(tmp_path / f"benengeli-{label}.png")
    rows = ["path,class", "benengeli-b.png,b", *["benengeli-a.png,a"] * 2]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    table = 'kind = "table"\npath = "rows.csv"\ncolumns = { path = "path", class = "class" }\n'
    text, out, pages = MAIN.read_text(encoding="utf-8"), tmp_path / "out", list[str]()
    withheld = "which one and why is withheld"
    for name, kind, error, kept_words, fault in (
        ("rows", table, DatasetError, withheld, "benengeli-a.png is in two rows"),
        ("gone", 'kind = "folder"\n', MissingError, "no data at all", "does not exist"),
    ):
        assert not any("not at hand" in page for page in pages)
        card = tmp_path / f"{name}.toml"
        card.write_text(f'{kind}channels = 1\npublic = true\nclasses = ["a", "b"]\n')
        config = tmp_path / f"{name}-run.toml"
        own = text.replace('"main"', f'"{name}-run"').replace('"tiles"', f'"{name}.toml"')
        config.write_text(own)
        with pytest.raises(error, match=kept_words):
            experiments([str(config)], data_root=tmp_path, out=out)
        tokens = ["reproduce", config, "--data-root", tmp_path, "--out", out]
        assert main([str(token) for token in tokens]) == 2
        assert fault in "".join(capsys.readouterr())
        pages = [page.read_text(encoding="utf-8") for page in out.rglob("*.html")]
    assert any("not at hand" in page for page in pages)
    with get_client(sync_client=True) as client:
        runs = [
            *client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC),
            *client.read_task_runs(sort=TaskRunSort.END_TIME_DESC),
        ]
        logs = [*client.read_logs(sort=LogSort.TIMESTAMP_DESC), *client.read_artifacts()]
    kept = [run.model_dump_json() for run in runs] + [log.model_dump_json() for log in logs]
    assert any(withheld in one for one in kept)
    assert not any("benengeli" in one for one in kept)
    assert not any("benengeli" in file.read_text() for file in tmp_path.rglob("*.json"))


def test_flows_refuse_a_folder_with_the_results_of_other_settings(
    prefect_server: None, few: Path, tmp_path: Path
) -> None:
    """As `covdp run` does: what is there stays."""
    from covdp.flows.experiment import experiments

    for folder in ("runs/main-tiles", "results"):
        (tmp_path / "here" / folder).mkdir(parents=True)
    (tmp_path / "here/results/main-tiles.parquet").touch()
    (tmp_path / "here/runs/main-tiles/settings.json").write_text('{"seed": 3}')
    with pytest.raises(ConfigError, match="seed 3 there"):
        experiments([str(few)], out=tmp_path / "here")
    assert (tmp_path / "here/results/main-tiles.parquet").read_bytes() == b""


@pytest.mark.slow
def test_what_a_flow_writes_of_own_images_is_their_owners(
    prefect_server: None, few: Path, tmp_path: Path
) -> None:
    """Files are 0600 in folders 0700, pictures and rows too, though tasks work side by side."""
    from covdp.flows.experiment import experiment, experiments

    rng, out, there = np.random.default_rng(0), tmp_path / "out", tmp_path / "there"
    images = rng.integers(0, 256, (40, 9, 9), dtype=np.uint8)
    np.savez(
        tmp_path / "own.npz", train_images=images, train_labels=np.arange(40, dtype=np.uint8) % 2
    )
    card = 'kind = "npz"\nlocal = true\npublic = true\nchannels = 1\nclasses = ["a", "b"]\n'
    (tmp_path / "own.toml").write_text(card)
    other = tmp_path / "other.toml"
    other.write_text(few.read_text(encoding="utf-8").replace('name = "main"', 'name = "other"'))
    before, own = os.umask(0o022), str(tmp_path / "own.toml")
    try:
        experiment(str(few), own, data_root=tmp_path, out=out)
        assert os.umask(0o022) == 0o022
        there.mkdir(mode=0o755)
        experiments([str(few), str(other)], [own], data_root=tmp_path, out=there)
    finally:
        os.umask(before)
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in (out, *out.rglob("*"))}
    assert modes == {(True, 0o700), (False, 0o600)}
    assert {path.suffix for path in out.rglob("*.*")} >= {".png", ".parquet", ".html", ".json"}
    pages = list(there.rglob("*.html"))
    assert {page.stem for page in pages} >= {"main", "other"}
    assert all(page.stat().st_mode & 0o777 == 0o600 for page in pages)


@pytest.mark.slow
@sockets_are_left
def test_a_download_that_fails_for_once_is_done_again(prefect_server: None, tmp_path: Path) -> None:
    """The flow runs from download to report on a file of OCTMNIST's shape, asked for twice.

    Each class has every series of the main job, here at one budget, and the farthest of its images.
    """
    from prefect.client.orchestration import get_client

    from covdp.flows.experiment import experiment

    body, out, card = npz_like_octmnist(), tmp_path / "out", tmp_path / "octmnist.toml"
    with serving() as server:
        server.files["/octmnist.npz"] = body
        server.faults["/octmnist.npz"] = [503]
        card.write_text(
            'kind = "npz"\nchannels = 1\npublic = true\n'
            f"classes = {json.dumps(DATASETS['octmnist'].classes)}\n"
            f'[[files]]\nsize = 28\nurl = "{server.address}/octmnist.npz"\n'
            f'md5 = "{hashlib.md5(body).hexdigest()}"\n'
        )
        job = tmp_path / "main.toml"
        job.write_text(re.sub(r"budgets = .*", "budgets = [1.0]", MAIN.read_text(encoding="utf-8")))
        told = {"repetitions": 2, "data_root": tmp_path / "root", "out": out}
        state = experiment(str(job), str(card), **told, return_state=True)
        assert len(server.requests) == 2
    page = state.result()
    rows = read_rows(out / "results" / "main-octmnist.parquet")
    (config,) = load_experiments(MAIN)
    assert set(rows["class_name"]) == set(DATASETS["octmnist"].classes)
    assert set(rows["series"]) == {series.series for series in config.mechanisms}
    assert set(rows["status"]) == {"ok"}
    assert (rows["farthest"] <= rows["radius_bound"]).all()
    assert "How the budget is split" in page.read_text(encoding="utf-8")
    with get_client(sync_client=True) as client:
        runs = client.read_task_runs()
    (download,) = [
        run
        for run in runs
        if run.name == "download" and run.flow_run_id == state.state_details.flow_run_id
    ]
    assert download.run_count == 2


BALL = """
name = "ball"
title = "A ball"
definition = "gdp"
budgets = [1.0]
repetitions = 2
seed = 7

[source]
kind = "ball"
dimensions = [3, 6]
n = [20]
radius = 1.5

[[mechanisms]]
series = "EWG"
mechanism = "ewg"
footpoint = "all"

[[mechanisms]]
series = "RL"
mechanism = "rl"
"""


@pytest.mark.slow
def test_several_experiments_are_a_flow_each_and_an_index(
    prefect_server: None, tmp_path: Path
) -> None:
    """Records that the experiment makes, and a table: rows as `covdp` has them, and a page each."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.sorting import ArtifactSort

    from covdp.flows.experiment import experiments

    out, ball = tmp_path / "out", tmp_path / "ball.toml"
    ball.write_text(BALL)
    page = experiments([str(ball), "rao-composition"], out=out)
    assert "A ball" in page.read_text(encoding="utf-8")
    pages = {path.stem for path in out.glob("report-pages/*.html")}
    assert pages == {"ball", "rao-composition", "errata"}
    newest = ArtifactSort.CREATED_DESC
    with get_client(sync_client=True) as client:
        left = "".join(str(one.data) for one in client.read_artifacts(sort=newest))
    for name in ("ball", "rao-composition"):
        assert str(out / "report-pages" / f"{name}.html") in left
    for name in (str(ball), "rao-composition"):
        (config,) = load_experiments(name)
        run = Run(config, None, tmp_path / "here")
        ours, theirs = (
            read_rows(folder / "results" / f"{config.run_name}.parquet")
            for folder in (run_experiment(run).parents[1], out)
        )
        for column in set(ours) - {"seconds"}:
            np.testing.assert_array_equal(ours[column], theirs[column], err_msg=column)


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a config, card and images, and a ledger that pays for one release."""
    labels = (np.arange(80) % 2).astype(np.uint8)
    images = np.random.default_rng(0).integers(0, 256, (80, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "ward.npz", train_images=images, train_labels=labels)
    card = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["a", "b"]\n'
    (tmp_path / "ward.toml").write_text(card)
    (tmp_path / "nightly.toml").write_text(
        'name = "nightly"\npopulation = "ward-7"\ndataset = "ward.toml"\nbudget = 0.5\n'
        'labels = "public"\n'
    )
    monkeypatch.setenv("COVDP_LEDGER", str(tmp_path / "ledger.sqlite"))
    init_ledger(tmp_path / "ledger.sqlite").set_budget("ward-7", GDP(0.6))
    return tmp_path


def test_a_config_is_never_quoted_where_prefect_would_keep_it(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a file that is no TOML only line and column are said; inside a flow not even a value."""
    from covdp.flows.release import settle_release

    config = ward / "nightly.toml"
    for text in (
        "root:$6$hash:19000",
        "a = 1\nroot:$6$hash:19000",
        'budget = "$6$hash"',
        "$6$hash=1",
    ):
        config.write_text(text)
        assert main(["release", "--config", str(config)]) == 2
        said = capsys.readouterr().err
        assert "$6$hash" not in said or text.startswith("budget")
        with pytest.raises(CovdpError) as caught:
            settle_release.fn(config, ward / "out", None, None)
        assert "$6$hash" not in str(caught.value)
        assert caught.value.__context__ is None


def test_a_flow_pays_by_slip_no_more_than_a_command(ward: Path) -> None:
    """Under another name, or of too few images, it pays only with the parameters that say so."""
    from covdp.flows.release import settle_release

    init_ledger(ward / "ledger.sqlite").set_budget("ward-7", GDP(2.0))
    config, asked = ward / "nightly.toml", (ward / "out", ward, "2026-11-20", None)
    settle_release.fn(config, *asked)
    config.write_text(config.read_text().replace('"nightly"', '"another"'))
    with pytest.raises(CovdpError, match=r"by the release 'nightly', .*--again"):
        settle_release.fn(config, *asked)
    settle_release.fn(config, *asked, again=True)
    config.write_text(config.read_text().replace("0.5", "0.1"))
    later = (*asked[:2], "2026-11-21", None)
    with pytest.raises(CovdpError, match=r"prediction: no mean is usable.*--even-if-useless"):
        settle_release.fn(config, *later)
    settle_release.fn(config, *later, even_if_useless=True)
    (row,) = init_ledger(ward / "ledger.sqlite").show()
    assert row.releases == 3


@pytest.mark.slow
def test_a_run_of_a_deployment_has_its_parameters_and_is_skipped_when_overtaken(
    prefect_server: None, ward: Path
) -> None:
    """Other parameters than the deployment's are refused; what is overtaken costs nothing."""
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import Scheduled

    from covdp.flows.release import release

    parameters = {"config": str(ward / "absent.toml"), "out": str(ward / "out")}
    with get_client(sync_client=True) as client:
        flow_id = client.create_flow(release)
        made = client.create_deployment(flow_id, "nightly", parameters=parameters)
        now = datetime.now(UTC)
        times = [now - timedelta(days=2), now - timedelta(days=1)]
        runs = [
            client.create_flow_run_from_deployment(made, state=Scheduled(scheduled_time=at))
            for at in times
        ]
        other = {"config": str(ward / "nightly.toml")}
        runs.append(client.create_flow_run_from_deployment(made, parameters=other))
        for run in runs:
            run_flow(release, flow_run=run, parameters=run.parameters, return_type="state")
        states = [client.read_flow_run(run.id).state for run in runs]
    assert [state and state.name for state in states] == ["Cancelled", "Cancelled", "Failed"]


@pytest.mark.slow
def test_a_run_by_hand_pays_once_a_day(
    prefect_server: None, ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With other images it is refused, as by command; what a schedule makes is a release anew."""
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import Scheduled

    from covdp.flows import release as flows_release

    book = init_ledger(ward / "ledger.sqlite")
    book.set_budget("ward-7", GDP(2.0))
    config = ward / "nightly.toml"
    config.write_text(config.read_text().replace('"nightly"', '"by-hand"'))
    told = {"config": str(config), "out": str(ward / "out"), "root": str(ward)}
    state, names = Scheduled(scheduled_time=datetime(2026, 3, 1, 2, tzinfo=UTC)), []
    with get_client(sync_client=True) as client:
        flow_id = client.create_flow(flows_release.release)
        made = client.create_deployment(flow_id, "by hand", parameters=told)
        for again in (False, False, True):
            if again:
                monkeypatch.setattr(flows_release, "on_schedule", lambda: True)
            run = client.create_flow_run_from_deployment(made, state=state)
            run_flow(
                flows_release.release,
                flow_run=run,
                parameters=run.parameters,
                return_type="state",
            )
            done = client.read_flow_run(run.id).state
            names.append(done and (done.name, book.show()[0].releases))
            other = np.random.default_rng(len(names)).integers(0, 256, (80, 28, 28), np.uint8)
            np.savez(ward / "ward.npz", train_images=other, train_labels=np.arange(80) % 2)
    assert names == [("Completed", 1), ("Failed", 1), ("Completed", 2)]


@pytest.mark.slow
def test_a_schedule_of_nights(
    prefect_server: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nights are named by their plan; one is killed, one missed, one empty; each says what it did.

    The night that fails has a state of one line; the next one finishes it, publishes both, and
    leaves an artifact of each, of public values alone.
    """
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import Scheduled

    from covdp.flows.release import release

    ward = Ward(tmp_path)
    ward.pay()
    out = ward.folder / "out"
    monkeypatch.setenv("COVDP_LEDGER", str(ward.folder / "ledger.sqlite"))
    told = {"config": str(ward.folder / "night.toml"), "out": str(out), "root": str(ward.folder)}

    with get_client(sync_client=True) as client:
        made = client.create_deployment(client.create_flow(release), "stream", parameters=told)

        def planned(day: int) -> Any:
            state = Scheduled(scheduled_time=datetime(2026, 3, day, 2, tzinfo=UTC))
            run = client.create_flow_run_from_deployment(made, state=state)
            run_flow(release, flow_run=run, parameters=run.parameters, return_type="state")
            done = client.read_flow_run(run.id).state
            assert done
            return done

        mine = ward.put(well=5, ill=5)
        with monkeypatch.context() as patch:
            patch.setattr(settling, "commit_night", lambda *_: exec("raise OSError('full')"))
            failed = planned(1)
        assert (failed.name, len(str(failed.message).splitlines())) == ("Failed", 1)
        for path in mine:
            path.unlink()
        ward.put(well=1)
        assert planned(3).name == "Completed"
        assert planned(4).name == "Completed"
        left = client.read_artifacts()
    files = sorted(path.name for path in (out / "release").iterdir())
    days = ("01", "03", "04")
    ends = ("html", "json", "parquet")
    assert files == [f"nightly-2026-03-{day}.{end}" for day in days for end in ends]
    said = {one.description: str(one.data) for one in left if one.key == "release-nightly"}
    assert sorted(said) == [f"ward-7, 2026-03-{day}" for day in days]
    assert "Night 3 of 40, 37 left" in said["ward-7, 2026-03-04"]
    assert f"Page: `{out / 'release' / 'nightly-2026-03-04.html'}`" in said["ward-7, 2026-03-04"]
    counts = [text.split("| well | ")[1].split(" | ")[:2] for _, text in sorted(said.items())]
    assert counts == [["5", "5"], ["1", "6"], ["0", "6"]]


@pytest.mark.slow
def test_a_match_fails_its_state_with_one_line(prefect_server: None, tmp_path: Path) -> None:
    """Alike, then with a gain, then with a file that is none: nothing but that is said of images.

    At a gain of 1.3 a difference is found in all of a million seeds; where none is one is found in
    one of twenty, and this seed is none of them.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.sorting import FlowRunSort, LogSort, TaskRunSort

    from covdp.flows.release import match

    release, ward = document(tmp_path / "partner.json"), tmp_path / "ward.toml"
    put(tmp_path)
    told = (release, str(ward), tmp_path / "out", tmp_path)
    states = [match(*told, return_state=True)]
    files = sorted((tmp_path / "ward").rglob("*.png"))
    for path in files:
        brighter = np.asarray(Image.open(path)) * 1.3
        Image.fromarray(np.clip(brighter, 0, 255).astype(np.uint8)).save(path)
    states.append(match(*told, return_state=True))
    release.write_text("[]")
    states.append(match(*told, return_state=True))
    assert [state.name for state in states] == ["Completed", "Failed", "Failed"]
    words = ("no difference was found", "differs from", "cannot be matched")
    for state, word in zip(states, words, strict=True):
        assert word in str(state.message)
        assert len(str(state.message).splitlines()) == 1
    assert (tmp_path / "out" / "match.html").stat().st_mode & 0o777 == 0o600
    with get_client(sync_client=True) as client:
        runs = [
            *client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC),
            *client.read_task_runs(sort=TaskRunSort.END_TIME_DESC),
        ]
        logs = client.read_logs(sort=LogSort.TIMESTAMP_DESC)
    kept = [run.model_dump_json() for run in runs] + [log.model_dump_json() for log in logs]
    assert any("differs from" in one for one in kept)
    assert not any(path.name in one for one in kept for path in files)


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["", FIVE], ids=["release", "night"])
def test_a_label_changes_nothing_that_prefect_keeps(
    prefect_server: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    stream: str,
) -> None:
    """A file is moved to another class: the same artifact, log, state and files, but for noise."""
    from prefect.client.orchestration import get_client

    from covdp.flows.release import release

    outcomes = []
    for moved in (False, True):
        fixed_noise(monkeypatch, COUNTS)
        ward = Ward(tmp_path / "ward")
        ward.write(config=SECRET, stream=stream)
        ward.pay()
        (first, *_) = ward.put(well=3, ill=2)
        if moved:
            move(ward, first)
        monkeypatch.setenv("COVDP_LEDGER", str(ward.folder / "ledger.sqlite"))
        out = ward.folder / "out"
        state = release(
            ward.folder / "night.toml", out, ward.folder, "2026-03-01", return_state=True
        )
        identity = state.state_details.flow_run_id
        with get_client(sync_client=True) as client:
            left = [one for one in client.read_artifacts() if one.flow_run_id == identity]
        said = [re.sub("'[^']*'|http.*", "NAME", message) for message in caplog.messages]
        caplog.clear()
        files = {
            str(path.relative_to(out)): path.read_bytes()
            for path in sorted(out.rglob("*"))
            if path.is_file()
        }
        assert (state.name, len(files), len(left)) == ("Completed", 4, 1)
        assert len(said) > 3
        kept = [(one.key, one.description, one.data) for one in left]
        outcomes.append((state.type, state.message, said, kept, files))
        shutil.rmtree(ward.folder)
    assert outcomes[0] == outcomes[1]
    assert "±" in str(outcomes[0][3])


@pytest.mark.slow
def test_no_output_of_a_release_holds_a_private_value(
    prefect_server: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Files, logs, Prefect's database, the ledger: no canary, true mean, norm or plain hash.

    A release, and one that fails inside: by the command, and by the flow. What is released comes
    from DICOM files, by person: nothing of their headers and names either. What fails inside had
    seen the same images as an array.
    """
    from prefect.settings import (
        PREFECT_HOME,
        PREFECT_SERVER_DATABASE_CONNECTION_URL,
        temporary_settings,
    )

    from covdp.flows.release import release

    home, ward, out = tmp_path / "home", tmp_path / "ward", tmp_path / "out"
    for folder in (ward, tmp_path / "prefect"):
        folder.mkdir()
    javascript()  # of all pages; joined anew for a user without a cache it takes two seconds
    shutil.copytree(platformdirs.user_cache_path("covdp"), home / ".cache" / "covdp")
    images, labels = planted()
    for name in ("ward.npz", "array.npz"):
        np.savez(ward / name, train_images=images, train_labels=labels)
    write_scans(ward / "ward", images, labels)
    (ward / "ward.toml").write_text(SCANS)
    (ward / "array.toml").write_text(CARD)
    config, failing = ward / "release.toml", ward / "failing.toml"
    config.write_text(CONFIG)
    failing.write_text(CONFIG.replace("ward.toml", "array.toml").replace("monday", "tuesday"))
    book = init_ledger(home / "ledger.sqlite")
    book.set_budget("ward-7", GDP(2.0))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COVDP_LEDGER", str(home / "ledger.sqlite"))
    caplog.set_level(logging.DEBUG, logger="prefect")

    def by_command(path: Path, name: str) -> int:
        tokens = ["release", "--config", path, "--out", out / name, "--data-root", ward]
        return main([str(token) for token in tokens])

    def by_flow(path: Path, key: str) -> Any:
        return release(path, out / "flow", ward, key, return_state=True)

    with temporary_settings({PREFECT_HOME: tmp_path / "prefect"}):
        assert by_command(config, "released") == 0
        assert by_flow(config, "wednesday").is_completed()
        monkeypatch.setattr("covdp.publish.release.mean", failing_mean)
        assert by_command(failing, "failed") == 2
        assert by_flow(failing, "thursday").is_failed()
        database = PREFECT_SERVER_DATABASE_CONNECTION_URL.value()
    logging.getLogger("prefect.flow_runs").handlers[0].flush()
    (out / "screen.log").write_text("\n".join([*capfd.readouterr(), caplog.text]))
    with (
        closing(sqlite3.connect(database.removeprefix("sqlite+aiosqlite:///"))) as server,
        closing(sqlite3.connect(tmp_path / "prefect" / "server.db")) as copy,
    ):
        server.backup(copy)  # the server goes on writing
    searched = [
        (name, re.sub(rb"\d\d:\d\d:\d\d\.\d+", b"", text))  # times have six decimals as well
        for folder in (home, tmp_path / "prefect", out)
        for name, text in contents(folder)
    ]
    assert any(
        name.endswith("server.db, decoded") and b"thursday" in text for name, text in searched
    )
    assert any(name.endswith(".parquet") for name, _ in searched)
    (row,) = book.show()
    assert (row.releases, row.unfinished) == (4, 2)
    for what, needle in needles(images, labels, ward).items():
        for name, haystack in searched:
            assert needle not in haystack, f"{what} in {name}"


def failing_mean(points: Any, *arguments: Any, **options: Any) -> Any:
    """Return the mean that a rehearsal asks for, of black images; fail with that of real ones."""
    first = next(iter(points)).flat[0]
    return mean(points, *arguments, **options) if first < 1e-3 else [][int(first) and 1 // 0]
