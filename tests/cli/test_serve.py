"""Serving night after night, and ends that are not clean."""

import os
import pty
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil
import pytest

from covdp import jobs, parallel
from covdp.cli import main, releases
from covdp.cli.releases import nights, planned_times
from covdp.errors import BudgetError, CovdpError
from covdp.experiments import MAIN
from covdp.files import project_root
from covdp.jobs import ReleaseJob, prepare_release
from covdp.ledger import Reservation, init_ledger
from covdp.privacy import GDP
from covdp.publish import load_release
from tests.cli.scheduled import on_schedule
from tests.tools.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

COVDP = [sys.executable, "-m", "covdp.cli"]


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


def pay(ward: Path, run_key: str) -> None:
    """Charge the one release that the account can pay for, under `run_key`."""
    told = load_release(ward / "nightly.toml")
    book = init_ledger(ward / "ledger.sqlite")
    contents = {"0 a": book.digest([b"a"]), "1 b": book.digest([b"b"])}
    book.reserve(told.population, "any", run_key, contents=contents, cost=told.cost)


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
    (first,) = next(coming)
    assert f"{first:%m-%d %H:%M}" == "03-02 02:00"
    assert clock.now() == first
    clock.sleep(7.5 * 86400)  # asleep until the 9th, 14:00
    *overtaken, after = next(coming)
    assert f"{after:%m-%d %H:%M}" == "03-09 02:00"
    assert [f"{missed:%d}" for missed in overtaken] == ["03", "04", "05", "06", "07", "08"]
    assert clock.now() < after + timedelta(days=1)
    assert next(coming) == [datetime(2026, 3, 10, 2, tzinfo=UTC)]


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
    assert "μ = 0.33" in line  # what is left of 0.6 after 0.5


def test_a_night_that_fails_is_one_line_and_an_exhausted_account_ends_serving(
    ward: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A config broken for one night is said; the next night is run; then nothing is left."""
    clock, ran = Clock("2026-03-01T12:00"), list[str]()
    config, text = ward / "nightly.toml", (ward / "nightly.toml").read_text()

    def mend_or_break(seconds: float) -> None:
        clock.sleep(seconds)
        config.write_text(text if clock.now().day != 2 else "budget = ")

    def night(job: ReleaseJob) -> str:
        ran.append(str(job.settings.run_key))
        pay(ward, str(job.settings.run_key))
        return "paid"

    on_schedule(monkeypatch, clock.now, mend_or_break, night)
    assert (
        main(
            ["serve", "--config", str(config), "--out", str(ward / "out"), "--data-root", str(ward)]
        )
        == 2
    )
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

    def night(job: ReleaseJob) -> str:
        ran.append(str(job.settings.run_key))
        if len(ran) == 2:
            raise BudgetError("enough")
        return "paid"

    on_schedule(monkeypatch, clock.now, clock.sleep, night)
    options = {"config": ward / "nightly.toml", "out": ward / "out", "data-root": ward}
    tokens = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    assert main(["serve", *tokens]) == 2
    first = 3 if skipped else 2
    assert ran == [f"{year}-03-{day:02}" for day in (first, first + 1)]
    line = f"{key} 02:00 UTC is skipped: the ledger holds its release"
    assert (line in capsys.readouterr().out.splitlines()) == skipped


def served(
    ward: Path, monkeypatch: pytest.MonkeyPatch, nights: int, *tokens: str, paid: str = ""
) -> int:
    """Serve so many nights, each at its time, and return the exit code.

    Each pays for the run `paid`, and releases nothing, where that is named.
    """
    if paid:
        monkeypatch.setattr(releases, "release_night", lambda job: pay(ward, paid))
    today = datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0)
    first = today - timedelta(days=nights - 1)
    times = [[first + timedelta(days=number)] for number in range(nights)]
    monkeypatch.setattr(releases, "nights", lambda *_: iter(times))
    options = ["--config", ward / "nightly.toml", "--out", ward / "out", "--data-root", ward]
    return main(["serve", *map(str, options), *tokens])


def test_each_night_is_one_line_with_what_was_released_and_charged(
    ward: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its time, the release, the table and the charge; the files are those of `covdp release`."""
    assert served(ward, monkeypatch, 1) == 0
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    said = capsys.readouterr()
    _, line = said.out.splitlines()
    table = ward / "out" / "release" / f"nightly-{day}.parquet"
    assert line.startswith(f"{day} 02:00 UTC  released nightly {day}: {table}; charged μ = 0.5; ")
    assert said.err == ""
    assert table.is_file()
    assert (ward / "out" / "report.html").is_file()


NOTIFY = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


def test_a_night_that_fails_is_notified_and_the_next_one_is_tried(
    ward: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command gets the line that is shown, and no word of what nobody foresaw."""
    real, faults = jobs.release, [RuntimeError("benengeli"), CovdpError("no images"), None]

    def release(job: ReleaseJob) -> Path:
        if fault := faults.pop(0):
            raise fault
        return real(job)

    monkeypatch.setattr(jobs, "release", release)
    heard = ward / "heard.txt"
    notify = shlex.join([sys.executable, "-c", NOTIFY, str(heard)])
    assert served(ward, monkeypatch, 3, "--notify", notify) == 0
    said = capsys.readouterr()
    assert said.err == "".join(f"covdp: {line}\n" for line in heard.read_text().splitlines())
    unforeseen, foreseen = heard.read_text().splitlines()
    assert "it is withheld" in unforeseen
    assert "benengeli" not in unforeseen
    assert foreseen.endswith("02:00 UTC  no images")
    assert "released nightly" in said.out


def test_a_night_that_cannot_be_paid_is_notified_and_ends_serving(
    ward: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line that ends it is said once; that nobody was notified is said as well."""
    assert served(ward, monkeypatch, 2, "--notify", "false", paid="another") == 2
    nobody, ends = capsys.readouterr().err.splitlines()
    assert nobody == "covdp: nobody was notified: it ended with exit code 1"
    assert "left" in ends


@pytest.mark.parametrize("command", ["", "'", "/no/such/program --at all"])
def test_a_command_that_cannot_be_run_is_refused_at_once(
    ward: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2: not on the night on which it would be needed."""
    assert main(["serve", "--config", str(ward / "nightly.toml"), "--notify", command]) == 2
    assert "--notify takes a command" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["folder", "card", "list", "ledger", "account", "cron", "run key"])
def test_what_is_missing_at_the_start_is_refused_at_once_and_notified(
    ward: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """Exit code 2 before the first planned time, and the line of standard error to the command."""
    config, options = ward / "nightly.toml", {"data-root": ward, "cron": "0 2 * * *"}
    if what == "folder":
        options["data-root"] = ward / "away"
    elif what == "card":
        (ward / "ward.toml").unlink()
    elif what == "list":
        with (ward / "ward.toml").open("a") as card:
            card.write('exclude = "ward-excluded.txt"\n')
    elif what == "ledger":
        monkeypatch.setenv("COVDP_LEDGER", str(ward / "another.sqlite"))
    elif what == "account":
        config.write_text(config.read_text().replace("ward-7", "ward-8"))
    elif what == "cron":
        options["cron"] = "at night"
    else:
        config.write_text(config.read_text() + 'run_key = "monday"\n')
    heard = ward / "heard.txt"
    notify = shlex.join([sys.executable, "-c", NOTIFY, str(heard)])
    tokens = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    assert main(["serve", "--config", str(config), "--notify", notify, *tokens]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert heard.read_text() == f"covdp serve ended: {line.removeprefix('covdp: ')}\n"


def test_an_end_that_nobody_foresaw_is_notified_without_its_words(
    ward: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as a fault of ours in the schedule: the command hears of it, and of no image."""
    heard = ward / "heard.txt"
    notify = shlex.join([sys.executable, "-c", NOTIFY, str(heard)])

    def broken(*_: object) -> None:
        raise RuntimeError("benengeli")

    monkeypatch.setattr("covdp.publish.released_since", broken)
    assert served(ward, monkeypatch, 2, "--notify", notify) == 70
    assert heard.read_text() == ("covdp serve ended: an unexpected failure, which is withheld\n")
    assert "benengeli" not in capsys.readouterr().err


def test_the_last_night_that_is_paid_is_followed_by_one_notice(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account that is spent ends serving, and the command hears of that once."""
    heard = ward / "heard.txt"
    notify = shlex.join([sys.executable, "-c", NOTIFY, str(heard)])
    assert served(ward, monkeypatch, 2, "--notify", notify, paid="another") == 2
    (line,) = heard.read_text().splitlines()
    assert "left of" in line


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_end_that_is_wanted_is_not_notified(ward: Path, number: int) -> None:
    """SIGTERM of a service manager and Ctrl-C: gone at once, and nobody is woken."""
    heard = ward / "heard.txt"
    notify = shlex.join([sys.executable, "-c", NOTIFY, str(heard)])
    options = {"config": ward / "nightly.toml", "data-root": ward, "out": ward / "out"}
    tokens = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [*COVDP, "serve", *tokens, "--notify", notify]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=project_root()) as served:
        assert served.stdout is not None
        said = served.stdout.readline()
        assert said.startswith("serving nightly")
        assert "; each release is charged μ = " in said
        served.send_signal(number)
        assert served.wait(PATIENCE) != 0
    assert not heard.exists()


def test_the_help_says_that_no_shell_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """A redirection in `--notify` would be an argument; `serve --help` says what to do."""
    assert main(["serve", "--help"]) == 0
    shown = " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    assert "No shell runs it: for pipes and redirections name a script" in shown


# --- ends -------------------------------------------------------------------------------------


@pytest.mark.parametrize("listening", [False, True], ids=["closed port", "not a scheduler"])
def test_a_scheduler_that_does_not_answer_is_refused(
    listening: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2, before images are read; that takes 4 s at most, 5 with imports."""
    assert parallel.CONNECT_SECONDS <= 4.0
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        if listening:
            held.listen()
        assert main(["run", "--runner", f"tcp://127.0.0.1:{held.getsockname()[1]}"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


REFUSED = """
import sys
from covdp.cli import main
print(main(sys.argv[1:] + ["--runner", "nowhere"]))
print(sorted({"numba", "scipy", "pydantic", "distributed"} & set(sys.modules)))
"""


@pytest.mark.addons
@pytest.mark.parametrize(
    "tokens", [["run"], ["reproduce", "all"], ["describe", "--dataset", "tiles", "--store", "x"]]
)
def test_a_runner_is_refused_before_anything_heavy_is_imported(tokens: list[str]) -> None:
    """What takes seconds on a busy machine is not loaded: the promise of 5 s is not one of luck."""
    command = [sys.executable, "-c", REFUSED, *tokens]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project_root(), check=True)
    assert done.stdout.splitlines() == ["2", "[]"]


def read_until(terminal: int, word: str) -> str:
    """Return what a terminal shows until `word` is in it, or until nobody writes any more."""
    seen, end = b"", time.monotonic() + PATIENCE
    while not (word and word.encode() in seen) and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 1 << 16)
            except OSError:  # Linux: the other side is closed
                break
    return seen.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokens", "moment"),
    [(["run"], "descriptors"), (["run"], "mechanisms"), (["serve"], "serving nightly")],
    ids=["run, describing", "run, drawing", "serve, idle"],
)
def test_ctrl_c_in_a_terminal_is_one_line_at_once_and_leaves_nothing(
    ward: Path, tokens: list[str], moment: str
) -> None:
    """Exit code 130 after one line; no process is started, and no socket is open.

    It does not wait for what it is at, which takes minutes: no mechanism ends, nothing is written.
    """
    text = MAIN.read_text(encoding="utf-8").replace("repetitions = 30", "repetitions = 3000")
    (ward / "long.toml").write_text(text, encoding="utf-8")
    config = "nightly.toml" if tokens == ["serve"] else "long.toml"
    command = [*COVDP, *tokens, "--config", str(ward / config), "--out", str(ward / "out")]
    command += ["--data-root", str(ward)] * (tokens == ["serve"])
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, command, {**os.environ, "TERM": "xterm"})
    shown = read_until(terminal, moment)
    assert moment in shown
    process = psutil.Process(pid)
    assert process.children(recursive=True) == []
    assert process.net_connections("inet") == []
    os.write(terminal, b"\x03")
    rest = read_until(terminal, "")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    shown = re.sub(r"\x1b\[[0-9?]*[A-Za-z]", "", rest)
    assert shown.count("covdp: interrupted") == 1
    assert not re.search("Traceback|Error|ignored", shown)
    assert not re.search("✓ mechanisms|results  |report  ", shown)
    assert not [*(ward / "out").rglob("*.part"), *(ward / "out").glob("results/*.parquet")]


@pytest.mark.slow
def test_a_killed_night_leaves_nothing_and_the_next_try_is_paid_once(ward: Path) -> None:
    """Kill -9 of who serves as soon as it has paid; again, it releases, and nothing is charged."""
    config, out = ward / "nightly.toml", ward / "out"
    book = init_ledger(ward / "ledger.sqlite")

    def night() -> str:
        job = prepare_release(config, ledger=None, out=out, root=ward)
        return releases.release_night(job)

    first = get_context("fork").Process(target=night)
    first.start()
    while first.is_alive() and not book.show("ward-7")[0].releases:
        time.sleep(0.02)
    first.kill()
    first.join()
    assert book.show("ward-7")[0].releases == 1
    said = night()
    assert re.search(r"; (nothing charged: μ = 0.5 was paid|already released)", said)
    assert len(list((ward / "out" / "release").glob("*.parquet"))) == 1
    (row,) = book.show("ward-7")
    assert (row.releases, row.unfinished, row.spent) == (1, 0, GDP(0.5))
