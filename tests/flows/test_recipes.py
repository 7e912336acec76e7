"""The commands at the top of what starts covdp elsewhere, run as they are written.

Of the systemd unit and the compose file paths of the machine are those of a temporary folder. What
needs root or a network is stood in for: `useradd`, `runuser` and `systemctl` write down what they
are given, `install` leaves owners as they are, and in place of pip this checkout is installed.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
import yaml

from covdp.cli import main
from covdp.ledger import open_ledger
from covdp.privacy import GDP
from tests.flows.deployments import LAST, told
from tests.tools.patience import PATIENCE, until
from tests.tools.postgres import new_address

ROOT = Path(__file__).resolve().parents[2]
CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["a", "b"]\n'
STUBS = {
    "useradd": 'echo "useradd $*" >> "$LOG"',
    "systemctl": 'echo "systemctl $*" >> "$LOG"',
    "runuser": '[ "$1 $3" = "-u --" ] && echo "runuser $2" >> "$LOG" && shift 3 && exec "$@"',
    "install": 'if [ "$4 $5 $6 $7" = "-o covdp -g covdp" ]; then echo "owned $8" >> "$LOG"; '
    f'set -- "$1" "$2" "$3" "$8"; fi; exec {shutil.which("install")} "$@"',
    "python3": '[ "$1 $2" = "-m venv" ] && mkdir -p "$3/bin" && cp "$FAKE" "$3/bin/python" && '
    'cp "$FAKE" "$3/bin/covdp"',
}
FAKE = f"""#!/bin/sh
case "$0" in
*/covdp) PYTHONPATH={ROOT} exec {sys.executable} -m covdp.cli "$@";;
*) [ "$1 $2 $3" = "-m pip install" ] && echo "pip $*" >> "$LOG";;
esac
"""


def commands(name: str, begins: str = "") -> list[str]:
    """Return the commands in the comment at the top of a file, in order."""
    head = (ROOT / "flows" / name).read_text(encoding="utf-8").partition("\n[Unit]")[0]
    lines = re.findall(r"^#   (\S.*)$", head, re.MULTILINE)
    return [line for line in lines if line.startswith(begins)]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a checkout in which `covdp start` has made ward.toml, with a ledger of its own."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("flows", "constraints.txt"):
        (folder / name).symlink_to(ROOT / name)
    images = np.random.default_rng(0).integers(0, 256, (400, 12, 12), dtype=np.uint8)
    (tmp_path / "images").mkdir()
    np.savez(tmp_path / "images/ward-card.npz", train_images=images, train_labels=[0, 1] * 200)
    (folder / "ward-card.toml").write_text(CARD)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COVDP_LEDGER", raising=False)
    answers = "--population", "ward", "--total", "2", "--budget", "0.5", "--ledger", "mine.sqlite"
    assert main(["start", "ward-card.toml", "--data-root", "../images", *answers]) == 0
    return folder


def runs_and_stops(command: Sequence[str], env: Mapping[str, str], stop: int) -> None:
    """Check that a service serves, and goes as soon as it is stopped."""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving ward at ")
        process.send_signal(stop)
        assert process.wait(PATIENCE) in (-stop, 128 + stop)


def warm(settings: Iterable[str]) -> list[str]:
    """Return settings but for the folder of machine code, which is empty: compiling takes long."""
    return [setting for setting in settings if not setting.startswith("NUMBA_CACHE_DIR=")]


def folders(volumes: Iterable[str], place: Path) -> dict[str, str]:
    """Return for each folder of a container that of the machine; named volumes are in `place`."""
    mounts = {}
    for source, target in (line.split(":")[:2] for line in volumes):
        mounts[target] = source if source.startswith("/") else f"{place}/{source}"
        Path(mounts[target]).mkdir(parents=True, exist_ok=True)
    return mounts


@pytest.mark.slow
def test_the_systemd_recipe_installs_a_service_that_releases(
    checkout: Path, tmp_path: Path
) -> None:
    """From an empty machine: user, program, config, ledger and budget, in this order; it serves."""
    places = ("/etc/systemd/system", "/etc/covdp", "/opt/covdp", "/var/lib/covdp")
    machine, bin_folder = tmp_path / "machine", tmp_path / "bin"
    bin_folder.mkdir()
    (machine / "etc/systemd/system").mkdir(parents=True)
    for parent in ("opt", "var/lib"):
        (machine / parent).mkdir(parents=True)
    for name, body in STUBS.items():
        (bin_folder / name).write_text(f"#!/bin/sh -e\n{body}\n")
        (bin_folder / name).chmod(0o755)
    (tmp_path / "fake").write_text(FAKE)
    (tmp_path / "fake").chmod(0o755)

    def moved(text: str) -> str:
        return re.sub("|".join(places), lambda found: f"{machine}{found[0]}", text)

    env = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": str(tmp_path / "root")}
    env |= {"LOG": str(tmp_path / "log"), "FAKE": str(tmp_path / "fake")}
    for line in commands("covdp.service"):
        done = subprocess.run(["sh", "-c", moved(line)], env=env, capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)
    log = (tmp_path / "log").read_text().splitlines()
    first = [entry.split()[0] for entry in log]
    assert first == ["useradd", "owned", "pip", "runuser", "runuser", "systemctl"]
    assert log[-1] == "systemctl enable --now covdp"
    assert not (tmp_path / "root").exists()  # nothing of it lies with the administrator
    state, settings = machine / "var/lib/covdp", machine / "etc/covdp/covdp.env"
    assert [path.stat().st_mode & 0o777 for path in (state, settings)] == [0o700, 0o600]
    (row,) = open_ledger(state / "ledger.sqlite").show()
    assert (row.population, row.budget, row.spent) == ("ward", GDP(2.0), None)

    installed = machine / "etc/systemd/system/covdp.service"
    unit = moved(installed.read_text())
    installed.write_text(unit)
    if analyze := shutil.which("systemd-analyze"):
        checked = subprocess.run(
            [analyze, "verify", "--man=no", installed], capture_output=True, text=True
        )
        assert (checked.returncode, checked.stderr) == (0, "")
    keys = dict(
        line.split("=", 1) for line in unit.splitlines() if re.match("[A-Z][A-Za-z]+=", line)
    )
    assert keys["EnvironmentFile"] == str(settings)
    given = warm([*shlex.split(keys["Environment"]), *settings.read_text().split()])
    service = {"PATH": os.environ["PATH"], **dict(item.split("=", 1) for item in given)}
    command = shlex.split(keys["ExecStart"])
    runs_and_stops(command, service, signal.SIGTERM)
    release = ["release" if word == "serve" else word for word in command]
    subprocess.run(release, env=service, check=True, capture_output=True, cwd=state)
    assert list((state / "released/release").glob("ward-*.parquet"))
    assert open_ledger(state / "ledger.sqlite").show()[0].spent == GDP(0.5)


@pytest.mark.slow
def test_the_compose_recipe_makes_a_ledger_and_serves(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each `run` does what it names, in place of the image, on a real PostgreSQL; `up` serves."""
    compose = yaml.safe_load((ROOT / "flows/compose.yaml").read_text(encoding="utf-8"))
    config, images = tmp_path / "config", (tmp_path / "images").rename(tmp_path / "elsewhere")
    config.mkdir()
    shutil.copy("ward-card.toml", config)
    shutil.copy("ward.toml", config / "release.toml")
    dotenv = {"LEDGER_PASSWORD": "letters1", "COVDP_CONFIG": config, "COVDP_IMAGES": images}
    if not subprocess.run(["sh", "-c", "docker compose version"], capture_output=True).returncode:
        asked = ["docker", "compose", "-f", "flows/compose.yaml", "config", "--quiet"]
        variables = {key: str(value) for key, value in dotenv.items()}
        subprocess.run(asked, env={**os.environ, **variables}, check=True, capture_output=True)
    named = {line.split("=")[0] for line in commands("compose.yaml") if "=..." in line}
    assert named == set(dotenv)

    def filled(text: str) -> str:
        return re.sub(r"\$\{(\w+)(?::\?[^}]*)?\}", lambda found: str(dotenv[found[1]]), text)

    service, database = compose["services"]["covdp"], compose["services"]["ledger"]["environment"]
    address = filled(service["environment"]["COVDP_LEDGER"])
    user, name = database["POSTGRES_USER"], database["POSTGRES_DB"]
    password = filled(database["POSTGRES_PASSWORD"])
    assert address == f"postgresql+psycopg://{user}:{password}@ledger/{name}"
    mounts = folders(map(filled, service["volumes"]), tmp_path / "volumes")

    def inside(text: str) -> str:
        return re.sub("|".join(mounts), lambda found: mounts[found[0]], text)

    setting = next(rest for step, rest in LAST if step == "ENV")
    image = {
        key: inside(value) for key, value in (x.split("=", 1) for x in warm(shlex.split(setting)))
    }
    env = {**image, "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    env |= {"COVDP_LEDGER": new_address("postgresql", tmp_path)}
    covdp = [sys.executable, "-m", "covdp.cli"]
    lines = commands("compose.yaml", "docker compose -f flows/compose.yaml ")
    *steps, last = [shlex.split(line)[4:] for line in lines]
    assert last == ["up", "--detach"]
    for words in steps:
        assert words[:3] == ["run", "--rm", "covdp"]
        subprocess.run([*covdp, *words[3:]], env=env, check=True, capture_output=True)
    monkeypatch.setenv("COVDP_MARKERS", image["HOME"] + "/.local/state/covdp/markers")
    (row,) = open_ledger(env["COVDP_LEDGER"]).show()
    assert (row.population, row.budget) == ("ward", GDP(2.0))
    command = [*covdp, *map(inside, yaml.safe_load(told("CMD")))]
    runs_and_stops(command, env, signal.Signals[told("STOPSIGNAL")])
    release = ["release" if word == "serve" else word for word in command]
    subprocess.run(release, env=env, check=True, capture_output=True)
    assert list(Path(mounts["/released"]).glob("release/ward-*.parquet"))
    assert open_ledger(env["COVDP_LEDGER"]).show()[0].spent == GDP(0.5)


@pytest.fixture
def prefect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_database: Path
) -> Iterator[Callable[[str], str]]:
    """Start a new server of Prefect; give what runs a command in the checkout and returns it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    (tmp_path / "prefect").mkdir()
    shutil.copy(prefect_database, tmp_path / "prefect")
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:  # of our flows
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{port}/api")
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")

    def done(command: str) -> str:
        words = shlex.split(command)
        found = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
        assert found.returncode == 0, (command, found.stdout, found.stderr)
        return found.stdout

    def is_there() -> bool:
        with suppress(OSError):
            return bool(urlopen(f"http://127.0.0.1:{port}/api/health").status == 200)
        return False

    server = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", f"{port}"]
    with subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until(is_there)
            yield done
        finally:
            process.terminate()


def ask_prefect(route: str, **body: object) -> Any:
    """Return what Prefect's server answers, once its database is not busy (503)."""
    address = f"{os.environ['PREFECT_API_URL']}/{route}"
    asked = Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    answers = list[Any]()

    def answered() -> bool:
        try:
            with urlopen(asked, timeout=PATIENCE) as answer:
                answers.append(json.load(answer))
        except HTTPError as error:
            if error.code != 503:
                raise
        return bool(answers)

    until(answered)
    return answers[0]


@pytest.mark.slow
def test_the_commands_of_prefect_deploy_what_is_asleep_and_works(
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefect: Callable[[str], str],
) -> None:
    """On a new server: no schedule is active, one is turned on as it says, and the worker works.

    It releases with the parameters of a release edited, and all else as it is.
    """
    monkeypatch.setenv("COVDP_LEDGER", str(checkout / "mine.sqlite"))
    make, deploy, work, listed, resume = commands("prefect.yaml")
    prefect(make)
    edited = (ROOT / "flows/prefect.yaml").read_text(encoding="utf-8")
    for old, new in (("release.toml", "ward.toml"), ("reports/output/release", "out")):
        assert edited.count(f" {old}\n") == 1
        edited = edited.replace(f" {old}\n", f" {checkout / new}\n")
    (tmp_path / "prefect.yaml").write_text(edited, encoding="utf-8")
    prefect(deploy.replace("flows/prefect.yaml", str(tmp_path / "prefect.yaml")))
    deployed, asleep = ask_prefect("deployments/filter"), prefect(listed)
    ids = {found["name"]: found["id"] for found in deployed}
    assert ids.keys() >= {"main-job", "octmnist-weekly", "medmnist-monthly", "release"}
    assert "True" not in asleep
    (schedule,) = re.findall("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", asleep)
    assert resume.endswith(" ID")
    prefect(resume.replace("ID", schedule))
    schedules = [x for found in ask_prefect("deployments/filter") for x in found["schedules"]]
    assert [x["id"] for x in schedules if x["active"]] == [schedule]
    assert len(schedules) > 1
    ask_prefect(f"deployments/{ids['release']}/create_flow_run")
    prefect(f"{work} --run-once")
    assert list(checkout.glob("out/release/ward-*.parquet"))
    assert open_ledger(checkout / "mine.sqlite").show()[0].spent == GDP(0.5)
