"""The command for monitoring: when each population was last released about, and what is left."""

import re
import sys
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, Token

from covdp.cli.options import PLAIN, LedgerAddress, Printing
from covdp.cli.output import new_table, numbers
from covdp.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covdp.ledger import Account, HistoryLine, PaidStream

LATE = 3
"""Exit code where a population is late."""
HOURS = {"m": 1 / 60, "h": 1, "d": 24, "w": 168}
"""Hours of each letter of an age."""


def age(_: Any, tokens: "Sequence[Token]") -> timedelta:
    """Return an age such as 90m, 36h, 2d or 1w.

    Parameters
    ----------
    _ : object
        Type of the option, which is known.
    tokens : sequence of Token
        Words of the option, of which there is one.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,5})([mhdw])", text := tokens[0].value)
    if found is None:
        raise ConfigError(
            f"--max-age takes a whole number of m, h, d or w, such as 36h, found {text!r:.60}"
        )
    return timedelta(hours=int(found[1]) * HOURS[found[2]])


def status(
    population: str | None = None,
    *,
    max_age: Annotated[timedelta | None, Parameter(converter=age)] = None,
    ledger: LedgerAddress = None,
    output: Printing = PLAIN,
) -> None:
    """Show for each population its last success, how old it is, and what is left; for monitoring.

    A success is a release, or a night, that the ledger has stored. With `--max-age` the exit code
    is 3 if the last success of a population is older. If a population has none, the age of its
    account counts. Nothing is charged.

    ```
    covdp status
    covdp status ward-7 --max-age 36h --json
    ```

    Parameters
    ----------
    population
        One population only.
    max_age
        Age from which on a population is late: a whole number of m, h, d or w, such as 36h.
    """
    from covdp.ledger import open_ledger
    from covdp.publish import ledger_address

    book, now = open_ledger(ledger_address(ledger)), datetime.now(UTC)
    accounts, lines, streams = book.show(population), book.history(), book.streams()
    rows = [_row(account, lines, streams, now, max_age) for account in accounts]
    middle, cells = numbers("hours ago", "left", "nights left"), map(_cells, rows)
    output.answer(rows, new_table("population", "last success (UTC)", *middle, "", rows=cells))
    if any(row["late"] for row in rows):
        sys.stdout.flush()
        sys.exit(LATE)


def _row(
    account: "Account",
    lines: "Sequence[HistoryLine]",
    streams: "Sequence[PaidStream]",
    now: datetime,
    max_age: timedelta | None,
) -> dict[str, Any]:
    """Return the state of a population under the names that programs may rely on; age in s.

    A success after now, as a clock was wrong, counts where there is no other: its age is below 0.
    Nights are those of the stream that was opened last.
    """
    done = [
        ((line.committed <= now, line.committed, line.at), line)
        for line in reversed(lines)
        if line.population == account.population and line.committed
    ]
    last = max(done, key=itemgetter(0), default=(None, None))[1]
    since = account.created if last is None else last.committed
    passed = now - (since or now)
    here = [stream for stream in streams if stream.population == account.population]
    cost = account.latest
    return {
        "population": account.population,
        "last_success": last and last.committed,
        "run_key": last and last.run_key,
        "age": None if last is None else round(passed.total_seconds()),
        "late": max_age is not None and abs(passed) > max_age,
        "left": account.left,
        "releases_left": None if cost is None else account.lasts(cost),
        "nights_left": here[-1].horizon - here[-1].nights if here else None,
        "streams": [stream.as_json() for stream in here],
        "unfinished": account.unfinished + sum(stream.pending is not None for stream in here),
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the same as a person reads it."""
    from rich.markup import escape

    from covdp.privacy import equation

    age, nights, done = row["age"], row["nights_left"], row["last_success"]
    return (
        escape(row["population"]),
        "none" if done is None else f"{done:%Y-%m-%d %H:%M}",
        "" if age is None else f"{age / 3600:,.1f}",
        equation(row["left"], 6, left=True) if row["left"] else "nothing",
        "" if nights is None else f"{nights:,}",
        "late" * row["late"],
    )
