"""What commands print: JSON and nothing else, quiet, verbose, 80 columns, completion, progress."""

import inspect
import io
import json
import math
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from covdp import progress
from covdp.cli import app, main
from covdp.datasets import DATASETS
from covdp.descriptors import DESCRIPTORS
from covdp.errors import LedgerError
from covdp.ledger import Ledger, Reservation, init_ledger
from covdp.mechanisms import MECHANISMS
from covdp.privacy import GDP
from covdp.privacy.rounding import digits_down, digits_up
from covdp.progress import Level, counted, pace, say, step
from tests.tools.leaves import LEAVES
from tests.tools.patience import until

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

SILENT = (["serve"], ["completion"], ["schema"])
"""Commands that end in no result to print."""


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    """Leave the process as quiet as a library is."""
    yield
    say(Level.QUIET)


def printed(capsys: pytest.CaptureFixture[str], *tokens: str) -> str:
    """Run a command that must succeed in silence but for its standard output."""
    assert main(list(tokens)) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.mark.parametrize("tokens", [x for x in LEAVES if x not in SILENT], ids=" ".join)
def test_every_command_prints_as_it_is_told(
    capsys: pytest.CaptureFixture[str], tokens: list[str]
) -> None:
    """Each command that has a result knows --json, --quiet and --verbose, and has examples."""
    text = printed(capsys, *tokens, "--help")
    for option in ("--json", "--quiet", "-q", "--verbose", "-v"):
        assert option in text
    assert f"covdp {' '.join(tokens)}" in text.split("Usage", 1)[1].split("\n", 1)[1]


OUTPUTS = [["--help"], ["audit", "--help"], ["datasets"], ["datasets", "--json"], ["schema"]]
"""Commands that print by each way there is."""
READING, WRITING = 0, 1
"""Ends of a pipe."""


@contextmanager
def printing_to(monkeypatch: pytest.MonkeyPatch, end: int) -> Iterator[None]:
    """Let standard output be one end of a pipe of which the other is closed."""
    ends = os.pipe()
    os.close(ends[1 - end])
    with os.fdopen(ends[end], "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        yield


@pytest.mark.addons
@pytest.mark.parametrize("tokens", OUTPUTS)
def test_a_reader_that_has_had_enough_ends_a_command_with_141(
    tokens: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of all programs that a closed pipe ends: 1 would be the answer of a gate."""
    with printing_to(monkeypatch, WRITING):
        assert main(tokens) == 141
    assert capsys.readouterr().err == ""


def test_an_answer_that_nobody_reads_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate ends with an exit code of its own; with its pipe closed that is 141 as well."""

    def gate() -> None:
        print("the images differ")
        raise SystemExit(3)

    asked = gate, inspect.signature(gate).bind(), {}
    monkeypatch.setattr(type(app), "parse_args", lambda *given, **options: asked)
    with pytest.raises(SystemExit):
        main([])
    with printing_to(monkeypatch, WRITING):
        assert main([]) == 141


@pytest.mark.addons
@pytest.mark.parametrize("tokens", OUTPUTS)
def test_output_that_cannot_be_written_is_one_line(
    tokens: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk, or as here a pipe's end for reading; a service that has no output needs none."""
    with printing_to(monkeypatch, READING):
        assert main(tokens) == 2
    error = capsys.readouterr().err
    assert error.startswith("covdp: cannot write to standard output (Bad file descriptor); ")
    assert error.count("\n") == 1
    monkeypatch.setattr(sys, "stdout", None)
    assert main(tokens) == 0
    sys.stdout.close()


def test_an_option_without_its_value_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """And one that is missing altogether is asked for."""
    assert main(["release", "--config", "ward.toml", "--run-key"]) == 2
    assert "--run-key needs a value" in capsys.readouterr().err
    assert main(["release"]) == 2
    assert "release needs --config" in capsys.readouterr().err


def test_a_ledger_without_a_place_is_named_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where one's own folder cannot be written, --out would not help."""
    (tmp_path / "file").touch()
    monkeypatch.delenv("COVDP_LEDGER", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert main(["ledger", "show"]) == 2
    error = capsys.readouterr().err
    assert "name another ledger with --ledger or COVDP_LEDGER" in error
    assert "--out" not in error


def test_the_help_is_grouped_and_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Each command stands under one heading, once."""
    text = printed(capsys, "--help")
    for heading in ("On public images", "On private images", "What there is"):
        assert heading in text
    for name in (name for name in app if not name.startswith("-")):
        assert sum(line.startswith(f"│ {name} ") for line in text.splitlines()) == 1


def test_lists_as_json_hold_every_member(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output of --json is one JSON value with the registry's members and true numbers."""
    sets = json.loads(printed(capsys, "datasets", "--json"))
    assert [row["name"] for row in sets] == list(DATASETS)
    assert {"images", "classes", "sizes", "licence", "on_disk", "sizes_on_disk"} < set(sets[0])
    tiles = next(row for row in sets if row["name"] == "tiles")
    assert tiles["images"] == DATASETS["tiles"].images.total
    assert tiles["on_disk"] is True
    families = json.loads(printed(capsys, "mechanisms", "--json"))
    assert [row["name"] for row in families] == list(MECHANISMS)
    for row in families:
        assert row["definitions"] == list(MECHANISMS[row["name"]].definitions)
    one = json.loads(printed(capsys, "mechanisms", "ewg", "--json"))
    assert one == [row for row in families if row["name"] == "ewg"]


def test_datasets_are_listed_with_what_is_on_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a dataset in several sizes those on disk are named; of another whether it is there."""
    for name in ("octmnist.npz", "octmnist_64.npz"):
        (tmp_path / name).touch()
    lines = printed(capsys, "datasets", "--data-root", str(tmp_path)).splitlines()
    ends = {line.split()[0]: line.rstrip() for line in lines if line.strip()}
    assert ends["octmnist"].endswith(" 28, 64")
    assert ends["mnist"].endswith(" no")
    assert ends["tiles"].endswith(" yes")


@pytest.mark.addons
def test_an_audit_as_json_holds_the_rows_it_wrote(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The claims are those of the Parquet file; when quiet its path is all there is."""
    from covdp.results.tables import AUDIT_SCHEMA, read_table

    tokens = ["audit", "--mechanism", "tangent-gaussian", "--trials", "1000"]
    found = json.loads(printed(capsys, *tokens, "--out", str(tmp_path), "--json"))
    rows = read_table(Path(found["results"]), AUDIT_SCHEMA)
    assert found["good"] is True
    assert [claim["lower"] for claim in found["claims"]] == rows["lower"].tolist()
    quiet = printed(capsys, *tokens, "--out", str(tmp_path), "--quiet")
    assert quiet == f"{tmp_path / 'audit/audit-tangent-gaussian-trials-1000.parquet'}\n"
    few, every = (
        printed(capsys, *tokens, "--out", str(tmp_path), *more).count(" ok ")
        for more in ([], ["-v"])
    )
    assert few < every == len(found["claims"])


@pytest.mark.parametrize("command", ["datasets", "descriptors", "mechanisms"])
def test_quiet_leaves_tables_out_and_excludes_verbose(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """--quiet prints no table; with --verbose it is refused in one line."""
    assert printed(capsys, command, "--quiet") == ""
    assert main([command, "-q", "-v"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "leave one out" in captured.err


@pytest.mark.addons
def test_eighty_columns_are_enough(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In 80 columns no line is longer, and no name or heading is broken in two."""
    monkeypatch.setenv("COLUMNS", "80")
    audit = ["audit", "--mechanism", "projected-euclidean-laplace", "--trials", "1000"]
    for tokens, words in (
        (["datasets"], [*DATASETS, "licence", "on disk", "28, 64, 128, 224", "restrictions"]),
        (["descriptors"], [*DESCRIPTORS, "images", "features"]),
        (["mechanisms"], [*MECHANISMS, "manifolds", "pure DP", "exact, chain"]),
        (["mechanisms", "-v"], [*MECHANISMS, "approximately", "spd-affine-invariant"]),
        ([*audit, "--out", str(tmp_path)], ["projected-euclidean-laplace,", "guarantee"]),
    ):
        lines = printed(capsys, *tokens).splitlines()
        assert max(map(len, (line for line in lines if str(tmp_path) not in line))) <= 80
        assert [word for word in words if not any(word in line for line in lines)] == []


@pytest.mark.addons
@pytest.mark.parametrize(
    ("tokens", "near"),
    [
        (("relaese",), "release"),
        (("ledger", "shwo"), "show"),
        (("run", "--sed", "1"), "--seed"),
        (("datasets", "--jsno"), "--json"),
        (("mechanisms", "tangent-gausian"), "tangent-gaussian"),
        (("reproduce", "tg-timeing"), "tg-timing"),
    ],
)
def test_the_closest_name_is_offered(
    capsys: pytest.CaptureFixture[str], tokens: tuple[str, ...], near: str
) -> None:
    """An unknown command, option or name is one line with the nearest that there is."""
    assert main(list(tokens)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert near in captured.err.split("?")[0]


@pytest.mark.addons
def test_completion_works_in_bash(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The printed script, read by a real bash, completes commands, subcommands and options."""
    script = tmp_path / "covdp.bash"
    script.write_text(printed(capsys, "completion", "bash"))
    ask = (
        f'source "{script}"; function_of=$(complete -p covdp | sed "s/.*-F \\([^ ]*\\).*/\\1/"); '
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; '
        '"$function_of" covdp "${@: -1}" "${@: -2:1}"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    for typed, found in (
        (("covdp", "rep"), {"report", "reproduce"}),
        (("covdp", "ledger", "s"), {"set-budget", "show", "sign"}),
        (("covdp", "release", "--run"), {"--run-key"}),
    ):
        done = subprocess.run(
            ["bash", "-c", ask, "bash", *typed], check=True, capture_output=True, text=True
        )
        assert set(done.stdout.split()) == found, done.stderr


# the ledger


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Make a ledger with μ = 2 for a ward, three nights at 0.5 paid, one of them unfinished."""
    monkeypatch.setenv("COVDP_LEDGER", str(tmp_path / "ledger.sqlite"))
    book = init_ledger(tmp_path / "ledger.sqlite")
    book.set_budget("ward-7", GDP(2.0))
    for night in ("mon", "tue", "wed"):
        digest = book.digest([night.encode()])
        held = book.reserve("ward-7", "query", night, contents={"well": digest}, cost=GDP(0.5))
        if night != "wed":
            assert isinstance(held, Reservation)
            book.commit(held, b"{}")
    return book


def test_the_ledger_says_how_many_nights_are_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, account: Ledger
) -> None:
    """Of 2² / 0.5² = 16 nights 13 are left, 325 at μ = 0.1, in lines of at most 80 columns.

    As many as are said are then accepted, and not one more.
    """
    monkeypatch.setenv("COLUMNS", "80")
    text = printed(capsys, "ledger", "show")
    assert max(map(len, text.splitlines())) <= 80
    assert "3 charges, 1 without a result yet; the account can pay 13 more at μ = 0.5" in text
    asked = printed(capsys, "ledger", "show", "ward-7", "--budget", "0.1")
    assert "can pay 325 more at μ = 0.1" in asked
    (found,) = json.loads(printed(capsys, "ledger", "show", "--json"))
    assert found["spent"]["definition"] == "gdp"
    assert found["spent"]["mu"] == pytest.approx(math.sqrt(0.75), rel=1e-12)
    assert (found["releases_left"], found["cost"]) == (13, {"definition": "gdp", "mu": 0.5})
    for night in range(13):
        pay(account, str(night))
    assert "can pay 0 more" in printed(capsys, "ledger", "show")
    with pytest.raises(LedgerError, match="nothing left"):
        pay(account, "one more")


def pay(book: Ledger, night: str) -> None:
    """Charge one night at μ = 0.5."""
    contents = {"well": book.digest([night.encode()])}
    book.reserve("ward-7", "query", night, contents=contents, cost=GDP(0.5))


def test_what_is_spent_is_rounded_up_and_what_is_left_down(
    capsys: pytest.CaptureFixture[str], account: Ledger
) -> None:
    """Six digits of the table err to the private side; --verbose has every digit."""
    (row,) = account.show("ward-7")
    assert row.spent is not None
    assert row.left is not None
    cells = [line.split() for line in printed(capsys, "ledger", "show").splitlines()]
    spent, left, total = (float(x) for x in next(line for line in cells if line[:1] == ["μ"])[1:])
    assert row.spent.mu <= spent <= row.spent.mu * 1.00001
    assert row.left.mu * 0.99999 <= left <= row.left.mu
    assert total == 2.0
    verbose = printed(capsys, "ledger", "show", "-v")
    assert repr(row.spent.mu) in verbose
    assert repr(row.left.mu) in verbose
    assert digits_up(0.1234561, 6) == "0.123457"
    assert digits_down(0.1234569, 6) == "0.123456"
    account.set_budget("untouched", GDP(2.0))
    fresh = printed(capsys, "ledger", "show", "untouched").splitlines()
    (epsilon,) = (line.split()[-3:] for line in fresh if "ε (" in line)
    assert epsilon[0] == "0"
    assert epsilon[1] == epsilon[2]


def test_history_tells_budgets_and_charges_in_order(
    capsys: pytest.CaptureFixture[str], account: Ledger
) -> None:
    """Set, paid three times, raised: five lines, with run keys, and which has no result."""
    account.set_budget("ward-7", GDP(3.0))
    entries = json.loads(printed(capsys, "ledger", "history", "ward-7", "--json"))
    assert [entry["kind"] for entry in entries] == ["budget", *["charge"] * 3, "budget"]
    assert [entry["run_key"] for entry in entries] == [None, "mon", "tue", "wed", None]
    assert [bool(entry["committed"]) for entry in entries[1:4]] == [True, True, False]
    text = printed(capsys, "ledger", "history", "ward-7")
    places = [text.index(word) for word in ("opened", "'mon'", "'tue'", "'wed'", "changed")]
    assert places == sorted(places)
    assert text.count("has no result yet") == 1
    assert main(["ledger", "history", "ward-8"]) == 2
    assert "ward-8" in capsys.readouterr().err


def test_the_commands_of_the_ledger_print_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Init names the file, set-budget the account; both are silent when quiet."""
    place = str(tmp_path / "new.sqlite")
    assert json.loads(printed(capsys, "ledger", "init", "--ledger", place, "--json")) == {
        "ledger": place
    }
    tokens = ("ledger", "set-budget", "[bold]", "--total", "1", "--ledger", place)
    (found,) = json.loads(printed(capsys, *tokens, "--json"))
    assert (found["population"], found["budget"]["mu"]) == ("[bold]", 1.0)
    assert printed(capsys, *tokens, "-q") == ""
    assert "[bold]" in printed(capsys, "ledger", "show", "--ledger", place)


# progress


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (1200, 4000, 4.0, "1,200 of 4,000 images, 300/s, 0:00:09 left"),
        (1, 4, 8.0, "1 of 4 images, 0.12/s, 0:00:24 left"),
        (3, None, 6.0, "3 images, 0.5/s"),
        (0, 4000, 1.0, "0 of 4,000 images"),
    ],
)
def test_pace_is_count_rate_and_time_left(
    done: float, total: float | None, seconds: float, text: str
) -> None:
    """Done of how many, how many a second, and the time that the rest takes at that rate."""
    assert pace(done, total, seconds, "images") == text


Wait = Callable[[str], None]
"""Waits until a terminal has shown a text."""


def on_terminal(monkeypatch: pytest.MonkeyPatch, work: Callable[[Wait], None]) -> str:
    """Run `work` with a terminal in the place of standard error; return what was shown there."""
    ours, theirs = pty.openpty()
    shown = io.BytesIO()

    def text() -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue().decode(errors="ignore"))

    def read() -> None:
        with suppress(OSError):  # the other end is closed
            while piece := os.read(ours, 4096):
                shown.write(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream, monkeypatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "100")
        patch.setattr(sys, "stderr", stream)
        work(lambda word: until(lambda: word in text()))
        say(Level.QUIET)  # lets go of the terminal
    reader.join()
    os.close(ours)
    return text()


def work(drawn: Wait = lambda _: None) -> None:
    """Count to 10, to 8 of them in four threads, inside a step, and wait until a bar is drawn."""
    with step("descriptors"), counted("well", 10, "images") as tick:
        threads = [threading.Thread(target=tick, args=(2,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tick(2)
        drawn("10 of 10 images")


def test_a_terminal_shows_count_rate_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a pass shows how many of how many are done, and a step its time in the end."""

    def command(drawn: Wait) -> None:
        say(Level.NORMAL)
        work(drawn)

    shown = on_terminal(monkeypatch, command)
    assert "10 of 10 images" in shown
    assert "/s, 0:00:00 left" in shown
    assert re.search(r"✓ descriptors \d+\.\d\d s", shown)


def test_a_name_is_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of classes with brackets are shown as they are, on bars and behind them."""

    def command(drawn: Wait) -> None:
        say(Level.NORMAL)
        for skipped in ("", "no [data]"):
            with step("[/x]") as now, counted("[bold]", 10, "[y]") as tick:
                tick(10)
                drawn("10 of 10 [y]")
                now.skipped = skipped

    shown = on_terminal(monkeypatch, command)
    assert re.search(r"✓ \[/x\] \d+\.\d\d s", shown)
    assert "○ [/x]: no [data]" in shown
    assert "[bold]" in shown
    assert "10 of 10 [y]" in shown


@pytest.mark.parametrize("level", [Level.QUIET, Level.NORMAL, Level.VERBOSE])
def test_logs_hold_no_bars(capsys: pytest.CaptureFixture[str], level: Level) -> None:
    """Where there is no terminal nothing is shown, but for the steps' times when verbose."""
    say(level)
    work()
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == (level == Level.VERBOSE)
    assert all(line.startswith("✓ descriptors") for line in lines)


def test_quiet_shows_nothing_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """When quiet, not even a terminal sees a bar; and that is how a library starts."""

    def command(_: Wait) -> None:
        say(Level.QUIET)
        work()

    assert on_terminal(monkeypatch, command) == ""
    state: Any = progress._Screen()
    assert state.level == Level.QUIET
