"""The loop of `covdp serve`: one release a night, from this process, without a server.

    planned time ─► can it be paid? ─► release ─► next planned time

Nothing listens and nothing can be asked for: when a release runs, and of what, is said by the
command line and the config alone.

**Missed nights.** Of planned times that have passed, only the last is run, and only if covdp was
there when it passed, awake or asleep: every night that is made up for costs its full price, and the
images are today's in any case. What was planned before covdp started is not run at all. In a stream
the images of a missed night enter with the next one, and it takes none of the horizon; a night that
was killed is finished before the next.

**A clock that is set back.** A night whose result the ledger holds, paid when it was planned or
later, is not run again: other images under the same date would be paid for a second time.
"""

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cronsim import CronSim, CronSimError

from pipeline import jobs
from pipeline.cli.accounts import charge_line
from pipeline.cli.options import PLAIN
from pipeline.errors import BudgetError, ConfigError, CovdpError, PrivacyError, one_line
from pipeline.ledger import charge_of, rows_written
from pipeline.publish import read_document, released_since

LONGEST_SLEEP = 30.0
"""Seconds: clocks are set, and a machine that slept wakes in the middle."""
NOTIFY_SECONDS = 60.0
"""How long the command of ``--notify`` may take."""


class Night(NamedTuple):
    """A planned time that has come, and those before it that it has overtaken."""

    planned: datetime
    overtaken: tuple[datetime, ...] = ()


def serve_nights(
    config: Path,
    *,
    ledger: str | None,
    root: Path | None,
    out: Path | None,
    cron: str,
    notify: str | None = None,
) -> None:
    """Release whenever `cron` says (UTC), until stopped; a run is named by its planned date.

    A night that fails says so in one line, and the next one is tried.

    Raises
    ------
    BudgetError
        When the account cannot pay the next night: later ones would fail as well.
    ConfigError
        When `cron` or `notify` is none, or the config fixes the run key.
    CovdpError
        When a release could not start now.
    """
    times = planned_times(cron, datetime.now(UTC))
    first = next(times)
    command = notify_command(notify)

    def prepare(planned: datetime) -> jobs.ReleaseJob:
        return jobs.prepare_release(config, ledger=ledger, out=out, root=root, at=planned)

    settings = prepare(first).settings
    if settings.run_key != f"{first:%Y-%m-%d}":
        raise ConfigError(
            f"{config} fixes run_key = {settings.run_key!r}, so every night would give the first "
            "night's release again; leave run_key out of a config that is served"
        )
    print(f"serving {settings.name} at {cron!r}, next {_text(first)}; stop with Ctrl-C", flush=True)
    for night in nights(planned_times(cron, datetime.now(UTC)), lambda: datetime.now(UTC)):
        planned = _text(night.planned)
        for missed in night.overtaken:
            print(f"{_text(missed)} is skipped: {planned} has come as well", flush=True)
        try:
            job = prepare(night.planned)
            if released_since(job.settings, job.ledger, night.planned):
                print(f"{planned} is skipped: the ledger holds its release", flush=True)
                continue
            print(f"{planned}  {release_night(job)}", flush=True)
        except CovdpError as error:
            line = f"{planned}  {one_line(error)}"
            ends = isinstance(error, BudgetError)  # which is said when serving ends
            if not ends:
                print(f"covdp: {line}", file=sys.stderr, flush=True)
            notify_failure(line, command)
            if ends:
                raise


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
            sleep(min(left, LONGEST_SLEEP))
        passed = [planned]
        while (planned := next(times)) <= now():
            passed.append(planned)
        yield Night(passed[-1], tuple(passed[:-1]))


def release_night(job: jobs.ReleaseJob) -> str:
    """Release once, and return in words what was released and what was charged.

    Raises
    ------
    CovdpError
        What goes wrong; of what nobody foresaw no word, as it may depend on an image.
    """
    before, document = rows_written(job.ledger), None
    try:
        document = jobs.release(job)
    except (CovdpError, SystemExit, KeyboardInterrupt):
        raise
    except BaseException:  # a panic of a library in Rust is no Exception
        pass
    if document is None:  # outside the handler, so that no traceback holds the cause
        raise PrivacyError(
            "failed in a way that was not foreseen; it is withheld, as it may depend on an image; "
            "this is a fault of covdp, please report it"
        )
    released = read_document(document)
    what = f"{job.settings.name} {job.settings.run_key}"
    if "night" in released:
        what += f", night {released['night']} of {released['horizon']}"
    charge = charge_line(charge_of(job.ledger, document.read_bytes(), before), PLAIN)
    return f"released {what}: {document.with_suffix('.parquet')}; {charge}"


def notify_command(text: str | None) -> list[str]:
    """Return the words of a command that can be run; none when there is no text."""
    try:
        words = shlex.split(text or "")
    except ValueError as error:
        raise ConfigError(f"--notify takes a command, found {text!r} ({error})") from error
    if text is not None and (not words or shutil.which(words[0]) is None):
        raise ConfigError(
            f"--notify takes a command that can be run, found {text!r}; give the full path of its "
            "program, and arguments with blanks in quotes"
        )
    return words


def notify_failure(line: str, command: list[str]) -> None:
    """Tell whoever the command tells that a night failed; say so when that fails as well."""
    if not command:
        return
    try:
        done = subprocess.run(
            command, input=f"{line}\n", text=True, timeout=NOTIFY_SECONDS, check=False
        )
        fault = f"it ended with exit code {done.returncode}" * (done.returncode != 0)
    except (OSError, subprocess.SubprocessError) as error:
        fault = str(error)
    if fault:
        print(f"covdp: nobody was notified: {one_line(fault)}", file=sys.stderr, flush=True)


def _text(planned: datetime) -> str:
    return f"{planned:%Y-%m-%d %H:%M} UTC"
