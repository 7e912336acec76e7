"""Serving, the server behind a secret, ends that are not clean: as an attacker, as a user."""

import base64
import os
import pty
import queue
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psutil
import pytest
from filelock import FileLock, Timeout

from flows import serve
from flows.attached import start_attached
from flows.launch_release import check_release
from flows.serve import nights, planned_times
from flows.server import _next
from pipeline.cli import main
from pipeline.errors import BudgetError, CovdpError, OutputError
from pipeline.files import project_root
from pipeline.ledger import Reservation, init_ledger
from pipeline.privacy import GDP
from pipeline.publish import ReleaseConfig, load_release

SECRET = "covdp:a secret of this test"
COVDP = [sys.executable, "-m", "pipeline.cli"]
pytestmark = pytest.mark.usefixtures("own_server")


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
        "labels_and_class_sizes_are_public = true\n"
    )
    monkeypatch.setenv("COVDP_LEDGER", str(tmp_path / "ledger.sqlite"))
    init_ledger(tmp_path / "ledger.sqlite").set_budget("ward-7", GDP(0.6))
    return tmp_path


def pay(ward: Path, run_key: str) -> None:
    """Charge the one release that the account can pay for, under `run_key`."""
    told = load_release(ward / "nightly.toml")
    book = init_ledger(ward / "ledger.sqlite")
    contents = {"0 a": book.digest([b"a"]), "1 b": book.digest([b"b"])}
    book.reserve(told.population, "any", run_key, contents=contents, cost=told.cost)


# --- the server -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(
    copy_prefect: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, Path, "subprocess.Popen[bytes]"]]:
    """Give a guarded server that answers: its port, its folder, its process.

    While it starts it holds the lock of its home, which the next one waits for.
    """
    home = copy_prefect(tmp_path_factory.mktemp("guarded") / "home")
    (home / "prefect.db").chmod(0o644)
    environment = {"PREFECT_HOME": str(home), "PREFECT_SERVER_API_AUTH_STRING": SECRET}
    process = start_attached("flows.guarded", environment=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        port, held = int(process.stdout.readline()), False
        while not select.select([process.stdout], [], [], 0.02)[0]:
            held |= is_held(home / "starting.lock")
        assert process.stdout.readline() == b"ready\n"
        assert held
        assert not is_held(home / "starting.lock")
        yield port, home, process
    finally:
        process.kill()
        with process:  # closes its pipes
            pass


def is_held(lock: Path) -> bool:
    """Tell whether another process holds a lock."""
    try:
        with FileLock(lock, mode=0o600, blocking=False):
            return False
    except Timeout:
        return True


def test_a_server_that_ends_is_not_said_to_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is slow to have ended; both with where, and what to do."""
    monkeypatch.setenv("PREFECT_HOME", "/its/home")
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    said.put("")
    with pytest.raises(OutputError, match=r"ended while it started in /its/home; see why with"):
        _next(said)
    monkeypatch.setattr("flows.server.PATIENCE", 0.01)
    with pytest.raises(OutputError, match=r"did not start within 0 s in /its/home; see why with"):
        _next(said)


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str]]:
    """Return status and headers of what the server answers."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    request.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
    if method == "POST":
        request.data = b"{}"
        request.headers["Content-Type"] = "application/json"
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers)


def basic(secret: str) -> str:
    """Return the header of basic authentication."""
    return "Basic " + base64.b64encode(secret.encode()).decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": basic("covdp:")},
        {"Authorization": basic(SECRET[:-1])},
        {"Authorization": f"Bearer {SECRET}"},
        {"Origin": "http://evil.example", "Access_Control_Request_Method": "POST"},
    ],
    ids=["nothing", "no password", "most of it", "as a token", "from a web page"],
)
def test_without_the_secret_no_route_answers(
    server: tuple[int, Path, "subprocess.Popen[bytes]"], headers: dict[str, str]
) -> None:
    """Whatever is asked, in whatever way, is answered by 401, an empty page and no CORS header."""
    routes = ["/", "/api", "/api/health", "/api/ready", "/api/version", "/api/admin/settings"]
    routes += ["/docs", "/openapi.json", "/api/docs", "/api/openapi.json", "/ui-settings"]
    routes += [
        "/api/static/x",
        "//api/health",
        "/api/../api/health",
        "/api/metrics",
        "/api/x/health",
    ]
    asked = [("GET", route) for route in routes]
    asked += [("POST", "/api/flow_runs/filter"), ("POST", "/api/flows/"), ("POST", "/api/logs/")]
    asked += [("OPTIONS", "/api/flow_runs/"), ("DELETE", "/api/flows/x"), ("PUT", "/api/x")]
    for method, route in asked:
        status, answered = ask(server[0], route, method, **headers)
        assert status == 401, (method, route)
        assert not [name for name in answered if name.lower().startswith("access-control")]


@pytest.mark.slow
def test_with_the_secret_it_answers_and_lets_no_web_page_in(
    server: tuple[int, Path, "subprocess.Popen[bytes]"],
) -> None:
    """The secret opens the API; a page's origin gets no leave to read the answer."""
    known = {"Authorization": basic(SECRET), "Origin": "http://evil.example"}
    for method, route in (("GET", "/api/health"), ("POST", "/api/flow_runs/filter")):
        status, answered = ask(server[0], route, method, **known)
        assert status == 200
        assert not [name for name in answered if name.lower() == "access-control-allow-origin"]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/api/events/in", "/api/events/out", "/api/logs/out"])
def test_web_sockets_are_refused_before_they_open(
    server: tuple[int, Path, "subprocess.Popen[bytes]"], path: str
) -> None:
    """Without the secret the handshake fails, so that nothing can be said or heard."""
    handshake = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: prefect\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server[0]), timeout=30) as line:
        line.sendall(handshake.encode())
        assert line.recv(100).startswith(b"HTTP/1.1 403")


@pytest.mark.slow
def test_the_secret_and_the_database_are_nobody_elses(
    server: tuple[int, Path, "subprocess.Popen[bytes]"],
) -> None:
    """It listens here only, its files are 0600, and the secret is in no argument and no file."""
    port, home, process = server
    running = psutil.Process(process.pid)
    listening = [x.laddr for x in running.net_connections() if x.status == psutil.CONN_LISTEN]
    assert listening == [("127.0.0.1", port)]
    assert SECRET not in " ".join(running.cmdline())
    for path in home.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


@pytest.mark.slow
def test_the_server_ends_when_its_pipe_does(
    server: tuple[int, Path, "subprocess.Popen[bytes]"],
) -> None:
    """The end of the pipe, which the system closes for a killed parent, ends it within 5 s."""
    assert server[2].stdin is not None
    server[2].stdin.close()
    assert server[2].wait(timeout=5) == 0


# --- serving ----------------------------------------------------------------------------------


class Clock:
    """A clock that a test sets: sleeping moves it on."""

    def __init__(self, text: str) -> None:
        self.time = datetime.fromisoformat(text).replace(tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.time += timedelta(seconds=seconds)


def test_missed_nights_cost_one_release_at_most() -> None:
    """Of planned times passed asleep the last is run; of those before the start none."""
    clock = Clock("2026-03-01T12:00")
    coming = nights(planned_times("0 2 * * *", clock.now()), clock.now, clock.sleep)
    first = next(coming)
    assert (f"{first.planned:%m-%d %H:%M}", first.overtaken) == ("03-02 02:00", ())
    assert clock.now() == first.planned
    clock.sleep(7.5 * 86400)  # asleep until the 9th, 14:00
    after = next(coming)
    assert f"{after.planned:%m-%d %H:%M}" == "03-09 02:00"
    assert [f"{missed:%d}" for missed in after.overtaken] == ["03", "04", "05", "06", "07", "08"]
    assert clock.now() < after.planned + timedelta(days=1)
    assert next(coming) == (datetime(2026, 3, 10, 2, tzinfo=UTC), ())


@pytest.mark.parametrize("cron", ["", "@daily", "60 2 * * *", "0 0 2 * * *", "0 2 30 2 *"])
def test_a_cron_expression_that_means_nothing_is_refused_at_once(
    ward: Path, cron: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with the expression, exit code 2, before anything starts."""
    assert main(["serve", "--config", str(ward / "nightly.toml"), "--cron", cron]) == 2
    assert repr(cron) in capsys.readouterr().err


@pytest.mark.parametrize("command", [["release"], ["serve"]], ids=["release", "serve"])
def test_an_exhausted_account_is_said_before_images_are_read(
    ward: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the config and what is left; the images are not even there."""
    (ward / "ward.npz").unlink()
    pay(ward, "an earlier night")
    tokens = ["--config", str(ward / "nightly.toml"), "--out", str(ward / "out")]
    assert main([*command, *tokens]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(ward / "nightly.toml") in line
    assert "GDP(mu=0.33" in line  # what is left of 0.6 after 0.5


def test_a_night_that_fails_is_one_line_and_an_exhausted_account_ends_serving(
    ward: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A config broken for one night is said; the next night is run; then nothing is left."""
    clock, ran = Clock("2026-03-01T12:00"), list[str]()
    config, text = ward / "nightly.toml", (ward / "nightly.toml").read_text()

    def mend_or_break(seconds: float) -> None:
        clock.sleep(seconds)
        config.write_text(text if clock.now().day != 2 else "budget = ")

    def night(_: Path, told: ReleaseConfig, *__: object) -> None:
        ran.append(str(told.run_key))
        pay(ward, str(told.run_key))

    real = serve.nights
    monkeypatch.setattr(serve, "NAP", 1e6)
    monkeypatch.setattr(serve, "nights", lambda times, _: real(times, clock.now, mend_or_break))
    monkeypatch.setattr(serve, "planned_times", lambda cron, _: planned_times(cron, clock.now()))
    monkeypatch.setattr(serve, "_release", night)
    assert main(["serve", "--config", str(config), "--out", str(ward / "out")]) == 2
    failed, ended = capsys.readouterr().err.splitlines()
    assert "not valid TOML" in failed
    assert str(config) in ended
    assert "left" in ended
    assert ran == ["2026-03-03"]


@pytest.mark.parametrize(
    ("year", "name", "stored", "skipped"),
    [
        (2020, "nightly", True, True),
        (2020, "nightly", False, False),
        (2020, "weekly", True, False),
        (2999, "nightly", True, False),
    ],
    ids=["released since", "paid, not stored", "of another config", "earlier that day"],
)
def test_a_clock_that_is_set_back_releases_no_night_again(
    ward: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    year: int,
    name: str,
    stored: bool,
    skipped: bool,
) -> None:
    """A night whose result is stored, paid when it was planned or later, is said and not run.

    The ledger has its own clock, which is later than 2020 and earlier than 2999.
    """
    book = init_ledger(ward / "ledger.sqlite")
    book.set_budget("ward-7", GDP(0.8))  # one more
    contents = {"0 a": book.digest([b"a"]), "1 b": book.digest([b"b"])}
    key, query = f"{year}-03-02", f'{{"name": "{name}"}}'
    held = book.reserve("ward-7", query, key, contents=contents, cost=GDP(0.5))
    book.reserve("ward-7", "no JSON", key, contents=contents, cost=GDP(1e-3))
    if stored:
        assert isinstance(held, Reservation)
        book.commit(held, b"a result")
    clock, ran = Clock(f"{year}-03-01T12:00"), list[str]()

    def night(_: Path, told: ReleaseConfig, *__: object) -> None:
        ran.append(str(told.run_key))
        if len(ran) == 2:
            raise BudgetError("enough")

    real = serve.nights
    monkeypatch.setattr(serve, "nights", lambda times, _: real(times, clock.now, clock.sleep))
    monkeypatch.setattr(serve, "planned_times", lambda cron, _: planned_times(cron, clock.now()))
    monkeypatch.setattr(serve, "_release", night)
    tokens = ["--config", str(ward / "nightly.toml"), "--out", str(ward / "out")]
    assert main(["serve", *tokens]) == 2
    first = 3 if skipped else 2
    assert ran == [f"{year}-03-{day:02}" for day in (first, first + 1)]
    line = f"{key} 02:00 UTC is skipped: the ledger holds its release"
    assert (line in capsys.readouterr().out.splitlines()) == skipped


def test_a_config_is_never_quoted_where_prefect_would_keep_it(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a file that is no TOML only line and column are said; inside a flow not even a value."""
    from flows.release import settle_release

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


@pytest.mark.slow
def test_a_run_of_a_deployment_has_its_parameters_and_is_skipped_when_overtaken(
    prefect_server: None, ward: Path
) -> None:
    """Other parameters than the deployment's are refused; what is overtaken costs nothing."""
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import Scheduled

    from flows.release import release

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
    assert [state and state.name for state in states] == ["Skipped", "Skipped", "Failed"]


# --- ends -------------------------------------------------------------------------------------


@pytest.mark.parametrize("listening", [False, True], ids=["closed port", "not a scheduler"])
def test_a_scheduler_that_does_not_answer_is_refused_within_five_seconds(
    listening: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2, before images are read and before Prefect starts."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        if listening:
            held.listen()
        started = time.monotonic()
        assert main(["run", "--runner", f"tcp://127.0.0.1:{held.getsockname()[1]}"]) == 2
        assert time.monotonic() - started < 5
    assert len(capsys.readouterr().err.splitlines()) == 1


def read_until(terminal: int, word: str, patience: float = 120.0) -> str:
    """Return what a terminal shows until `word` is in it, or until nobody writes any more."""
    seen, deadline = b"", time.monotonic() + patience
    while not (word and word.encode() in seen) and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 1 << 16)
            except OSError:  # Linux: the other side is closed
                break
    return seen.decode()


def left_after(seconds: float, processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those that still are there; one that has ended but whom no init collects is not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(psutil.NoSuchProcess):
            processes = [x for x in processes if x.is_running()]
            processes = [x for x in processes if x.status() != psutil.STATUS_ZOMBIE]
            if not processes:
                break
        time.sleep(0.05)
    return processes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokens", "moment"),
    [(["run"], "starting Prefect"), (["run"], "descriptors"), (["serve"], "serving nightly")],
    ids=["run, Prefect starts", "run, at work", "serve, idle"],
)
def test_ctrl_c_in_a_terminal_is_one_line_at_once_and_leaves_nothing(
    ward: Path, copy_prefect: Callable[[Path], Path], tokens: list[str], moment: str
) -> None:
    """Exit code 130 within 3 s after one line; whatever was started is gone within 5 s more."""
    environment = {"PREFECT_HOME": str(copy_prefect(ward / "prefect")), "TERM": "xterm"}
    more = ["--config", str(ward / "nightly.toml")] if tokens == ["serve"] else []
    command = [*COVDP, *tokens, *more, "--out", str(ward / "out")]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, command, {**os.environ, **environment})
    shown = read_until(terminal, moment)
    assert moment in shown
    started = psutil.Process(pid).children(recursive=True)
    assert bool(started) == (tokens == ["run"])
    os.write(terminal, b"\x03")
    asked = time.monotonic()
    rest = read_until(terminal, "")
    _, status = os.waitpid(pid, 0)
    assert time.monotonic() - asked < 3
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    shown = re.sub(r"\x1b\[[0-9?]*[A-Za-z]", "", rest)
    assert shown.count("covdp: interrupted") == 1
    assert not re.search("Traceback|Error|ignored", shown)
    assert left_after(5, started) == []
    assert not list((ward / "out").rglob("*.part"))


NIGHT = """
import sys
from pathlib import Path
from flows.launch_release import check_release
from flows.serve import _release
config, out, root = map(Path, sys.argv[1:])
_release(config, *check_release(config, out), root)
"""


@pytest.mark.slow
def test_a_killed_night_leaves_nothing_and_the_next_try_is_paid_once(
    ward: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefect_server: dict[str, str],
    copy_prefect: Callable[[Path], Path],
) -> None:
    """Kill -9 of who serves ends the release and its server too; again, it releases, paid once."""
    own = {**os.environ, "PREFECT_HOME": str(copy_prefect(ward / "prefect"))}
    config, out = ward / "nightly.toml", ward / "out"
    command = [sys.executable, "-c", NIGHT, str(config), str(out), str(ward)]
    first = subprocess.Popen(command, env=own, cwd=project_root())
    started = list[psutil.Process]()
    deadline = time.monotonic() + 60
    while len(started) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        started = psutil.Process(first.pid).children(recursive=True)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert len(started) == 2  # the release and its server
    assert left_after(5, started) == []
    for name, value in prefect_server.items():
        monkeypatch.setenv(name, value)
    serve._release(config, *check_release(config, out), ward)
    assert len(list((ward / "out" / "release").glob("*.parquet"))) == 1
    (row,) = init_ledger(ward / "ledger.sqlite").show("ward-7")
    assert (row.releases, row.unfinished, row.spent) == (1, 0, GDP(0.5))
