"""`covdp status`: what a monitor reads, and the exit code that it acts on."""

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sample_nights import reserve

from covdp.cli import main
from covdp.ledger import Reservation, api, init_ledger, open_ledger
from covdp.privacy import GDP
from tests.tools.addons import addon

streams = addon("nights.ledger")
NightState = addon("nights.account:NightState")
commit_night = addon("nights.ledger:commit_night")
open_stream = addon("nights.ledger:open_stream")


@pytest.fixture
def hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Make three accounts: releases, a stream, and none; set how long ago things happen."""
    ago = {"hours": 100.0}

    def then() -> str:
        at = datetime.now(UTC).timestamp() - 3600 * ago["hours"]
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

    for module in (api, streams):
        monkeypatch.setattr(module, "now", then)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COVDP_LEDGER", "ledger.sqlite")
    book = init_ledger("ledger.sqlite")
    for name in ("never", "plain", "ward"):
        book.set_budget(name, GDP(1.0))
    for key, when in (("monday", 50.0), ("tuesday", 30.0), ("unfinished", 1.0)):
        ago["hours"] = when
        contents = {"all classes": book.digest([key.encode()])}
        held = book.reserve("plain", "query", key, contents=contents, cost=GDP(0.5))
        assert isinstance(held, Reservation)
        if key != "unfinished":
            book.commit(held, b"result")
    stream = open_stream(book, "ward", "nightly", "query", horizon=9, cost=GDP(0.5))
    for day, when in (("2026-03-01", 26.0), ("2026-03-02", 2.0)):
        ago["hours"] = when
        night = reserve(book, stream, day, [day.encode()], ["0 a"])
        assert isinstance(night, NightState)
        commit_night(book, night, b"night")
    return ago


def asked(capsys: pytest.CaptureFixture[str], *tokens: str) -> tuple[int, dict[str, dict]]:
    """Return the exit code and the rows, by population."""
    try:
        code = main(["status", "--json", *tokens])
    except SystemExit as end:
        code = int(end.code or 0)
    return code, {row["population"]: row for row in json.loads(capsys.readouterr().out)}


def test_status_says_when_the_last_success_was_and_what_is_left(
    hours: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a charge without a result nothing is a success; budgets and nights as the ledger has."""
    code, rows = asked(capsys)
    assert code == 0
    assert list(rows) == ["never", "plain", "ward"]
    assert [row["last_success"] is None for row in rows.values()] == [True, False, False]
    assert [row["run_key"] for row in rows.values()] == [None, "tuesday", "2026-03-02"]
    assert rows["plain"]["age"] == pytest.approx(30 * 3600, abs=120)
    assert rows["ward"]["age"] == pytest.approx(2 * 3600, abs=120)
    assert [row["nights_left"] for row in rows.values()] == [None, None, 7]
    assert rows["ward"]["streams"][0]["name"] == "nightly"
    assert rows["plain"]["left"]["mu"] == pytest.approx(0.5, rel=1e-9)
    assert [row["releases_left"] for row in rows.values()] == [None, 1, 3]
    assert [row["unfinished"] for row in rows.values()] == [0, 1, 0]
    assert not any(row["late"] for row in rows.values())


@pytest.mark.parametrize(
    ("tokens", "late"),
    [
        (["--max-age", "36h"], ["never"]),
        (["--max-age", "29h"], ["never", "plain"]),
        (["--max-age", "1740m"], ["never", "plain"]),
        (["--max-age", "5d"], []),
        (["--max-age", "1w"], []),
        (["ward", "--max-age", "1h"], ["ward"]),
        (["ward", "--max-age", "3h"], []),
    ],
)
def test_the_exit_code_is_3_where_somebody_is_late(
    hours: dict[str, float],
    capsys: pytest.CaptureFixture[str],
    tokens: list[str],
    late: list[str],
) -> None:
    """Older than that, or without any success while the account is older; nobody else counts."""
    code, rows = asked(capsys, *tokens)
    assert [name for name, row in rows.items() if row["late"]] == late
    assert code == (3 if late else 0)


@pytest.mark.parametrize("before", [False, True])
def test_a_success_that_lies_ahead_hides_no_lateness(
    hours: dict[str, float], capsys: pytest.CaptureFixture[str], before: bool
) -> None:
    """After a clock was a year ahead for one run, the last one that is not ahead counts, if any."""
    name, book = "plain" if before else "never", open_ledger("ledger.sqlite")
    for when, late in ((-8760.0, True), (1.0, False)):
        hours["hours"] = when
        contents = {"all classes": book.digest([str(when).encode()])}
        held = book.reserve(name, "query", str(when), contents=contents, cost=GDP(0.1))
        assert isinstance(held, Reservation)
        book.commit(held, b"result")
        code, rows = asked(capsys, name, "--max-age", "20h")
        assert (code, rows[name]["late"]) == (3 if late else 0, late)
        assert rows[name]["age"] == pytest.approx(
            3600 * (1 if not late else 30 if before else when), abs=120
        )


def test_status_for_people(hours: dict[str, float], capsys: pytest.CaptureFixture[str]) -> None:
    """A row each, with the word that matters; nothing is printed when quiet."""
    with pytest.raises(SystemExit) as end:
        main(["status", "--max-age", "3h"])
    assert end.value.code == 3
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert rows["never"].split()[1:] == ["none", "μ", "=", "1", "late"]
    assert rows["plain"].rstrip().endswith("late")
    assert not rows["ward"].rstrip().endswith("late")
    with pytest.raises(SystemExit):
        main(["status", "--max-age", "3h", "--quiet"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("value", ["36", "0h", "-1h", "h", "soon", "1.5h", "9999999d"])
def test_an_age_that_means_nothing_is_refused(
    hours: dict[str, float], capsys: pytest.CaptureFixture[str], value: str
) -> None:
    """One line with the value and the way out, exit code 2."""
    assert main(["status", f"--max-age={value}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "such as 36h" in line
    assert repr(value) in line


def test_a_ledger_that_is_missing_or_damaged_is_bad_input(
    hours: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and not the one of lateness; nor are populations without an account late."""
    assert main(["status", "--ledger", "no/ledger", "--max-age", "1h"]) == 2
    assert main(["status", "nobody", "--max-age", "1h"]) == 2
    with sqlite3.connect("ledger.sqlite") as connection:
        connection.execute("DELETE FROM covdp_journal WHERE number = 4")
    connection.close()
    assert main(["status", "--max-age", "1h"]) == 2
    assert "row 4 of its journal is missing" in capsys.readouterr().err
