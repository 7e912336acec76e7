"""`covdp serve`: one release a night, from this machine, without a server that waits.

    planned time ─► can it be paid? ─► `covdp release`, in a process of its own ─► next planned time

Between two nights nothing listens and nothing can be asked for: when a release runs, and of what,
is said by the command line and the config alone. A night is a process, so its memory is given back
and its end, whatever it is, is not the end of those to come.

**Missed nights.** Of planned times that have passed, only the last is run, and only if covdp was
there when it passed, awake or asleep: every night that is made up for costs its full price, and the
images are today's in any case. What was planned before covdp started is not run at all. In a stream
the images of a missed night enter with the next one, and it takes none of the horizon; a night that
was killed is finished before the next.

**A clock that is set back.** A night whose result the ledger holds, paid when it was planned or
later, is not run again: other images under the same date would be paid for a second time.
"""

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cronsim import CronSim, CronSimError

from flows.attached import start_attached
from flows.launch_release import check_release, use_ledger
from pipeline.errors import BudgetError, ConfigError, CovdpError, one_line
from pipeline.ledger import open_ledger
from pipeline.publish import ReleaseConfig, ledger_address, released_since

NAP = 30.0
"""Most seconds of one sleep: clocks are set, and a machine that slept wakes in the middle."""


class Night(NamedTuple):
    """A planned time that has come, and those before it that it has overtaken."""

    planned: datetime
    overtaken: tuple[datetime, ...] = ()


def serve_release(
    config: Path, *, ledger: str | None, root: Path | None, out: Path | None, cron: str
) -> None:
    """Release whenever `cron` says (UTC), until stopped; a run is named by its planned date.

    A night that fails says so in one line, and the next one is tried.

    Raises
    ------
    BudgetError
        When the account cannot pay the next night: later ones would fail as well.
    ConfigError
        When `cron` is none, or the config fixes the run key.
    CovdpError
        When a release could not start now.
    """
    times = planned_times(cron, datetime.now(UTC))
    first = next(times)
    use_ledger(ledger)
    told, folder = check_release(config, out, at=first)
    if told.run_key != _key(first):
        raise ConfigError(
            f"{config} fixes run_key = {told.run_key!r}, so every night would give the first "
            "night's release again; leave run_key out of a config that is served"
        )
    print(f"serving {told.name} at {cron!r}, next {_text(first)}; stop with Ctrl-C", flush=True)
    for night in nights(planned_times(cron, datetime.now(UTC)), lambda: datetime.now(UTC)):
        for missed in night.overtaken:
            last = _text(night.planned)
            print(f"{_text(missed)} is skipped: {last} has come as well", flush=True)
        try:
            told, folder = check_release(config, out, at=night.planned)
            again = released_since(told, open_ledger(ledger_address()), night.planned)
        except BudgetError:
            raise
        except CovdpError as error:
            print(f"covdp: {one_line(error)}", file=sys.stderr, flush=True)
            continue
        if again:
            print(f"{_text(night.planned)} is skipped: the ledger holds its release", flush=True)
            continue
        _release(config, told, folder, root)


def planned_times(cron: str, after: datetime) -> Iterator[datetime]:
    """Yield the times of a cron expression after `after`, without end."""
    try:
        if len(cron.split()) != 5:
            raise CronSimError("not five fields")
        return CronSim(cron, after)
    except CronSimError as error:
        raise ConfigError(
            f"--cron takes cron's five fields, such as '0 2 * * *', found {cron!r}"
        ) from error


def nights(
    times: Iterator[datetime],
    now: Callable[[], datetime],
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Night]:
    """Yield planned times as they come; of several that have passed, the last with the others."""
    planned = next(times)
    while True:
        while (left := (planned - now()).total_seconds()) > 0:
            sleep(min(left, NAP))
        passed = [planned]
        while (planned := next(times)) <= now():
            passed.append(planned)
        yield Night(passed[-1], tuple(passed[:-1]))


def _release(config: Path, told: ReleaseConfig, folder: Path, root: Path | None) -> None:
    """Run one night as a process that ends with this one.

    A run key that was paid before passes the check of the account, yet other images need another
    charge: where the account cannot pay that, the night has said so, and serving ends. A stream is
    paid; after its last night the next one says so.
    """
    tokens = ["--config", str(config.resolve()), "--out", str(folder)]
    tokens += ["--run-key", str(told.run_key)]
    if root is not None:
        tokens += ["--data-root", str(root.resolve())]
    with start_attached("flows.attached", "release", *tokens, environment={}) as night:
        code = night.wait()
    if code == 0 or told.stream is not None:
        return
    try:
        new = f"{told.run_key} again"
        open_ledger(ledger_address()).check_charge(told.population, told.charge, new)
    except BudgetError:
        sys.exit(2)
    except CovdpError as error:
        print(f"covdp: {one_line(error)}", file=sys.stderr, flush=True)


def _key(planned: datetime) -> str:
    return f"{planned:%Y-%m-%d}"


def _text(planned: datetime) -> str:
    return f"{planned:%Y-%m-%d %H:%M} UTC"
