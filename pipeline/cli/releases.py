"""Commands on private images: plan, release, and serve, which releases night after night.

    planned time ─► can it be paid? ─► release ─► next planned time

When a release runs, and of what, is stated by the command line and the config alone.

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
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Column, Table

from covdp.cli.options import PLAIN, ConfigRoot, LedgerAddress, Out, Printing
from covdp.cli.output import new_table, numbers, print_json
from covdp.cli.streams import IN_WORDS, complain
from covdp.errors import (
    BudgetError,
    ConfigError,
    CovdpError,
    LedgerError,
    PrivacyError,
    one_line,
)

if TYPE_CHECKING:
    from covdp.jobs import ReleaseJob
    from covdp.ledger import Charge
    from covdp.planning import ClassForecast, ErrorForecast, Forecast
    from covdp.privacy import Budget
    from covdp.publish import ReleaseConfig

MOST_DIGITS = 30
"""Digits of a number of images or persons; what is too large is printed with them."""
LONGEST_SLEEP = 30.0
"""Seconds: clocks are set, and a machine that slept wakes in the middle."""
NOTIFY_SECONDS = 60.0
"""Seconds that the command of ``--notify`` may take."""


def plan(
    *,
    config: Path,
    n: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    per_night: int | None = None,
    nights: int | None = None,
    error: float | None = None,
    ledger: LedgerAddress = None,
    output: Printing = PLAIN,
) -> None:
    """Predict by budget what a release is usable for, before anything is spent.

    The config, the card and the ledger are read. If the images are there, their public number is
    counted. With secret labels the number of all images is split evenly over the classes. With
    public labels the number of each class counts. With --verbose the errors, regions and prices are
    shown.

    ```
    covdp plan --config ward.toml
    covdp plan --config ward.toml --n normal=1500 --n pneumonia=4000
    covdp plan --config ward.toml --n normal=1500 --error 0.1
    covdp plan --config stream.toml --per-night 20 --nights 365
    ```

    Parameters
    ----------
    config
        The release in TOML, as for `covdp release`.
    n
        Number of images, or persons, of a class, CLASS=N; once for each class. If left out: the
        number of images of the config, else some usual sizes.
    per_night
        Number of images, or persons, that come each night, in each class. Images that are there, or
        those of --n, come on the first night.
    nights
        Night for which the error is predicted [the last one of a stream, else the first].
    error
        Largest error that is wanted, a distance: the least budget for it is computed.
    """
    from covdp.planning import ForecastRequest, forecast
    from covdp.privacy import letter as letter_of
    from covdp.publish import load_release

    settings = load_release(config)
    affords, why = _account(settings, ledger)
    sizes, total = (sizes_of(n), None) if n else counted(settings, later=per_night is not None)
    result = forecast(settings, ForecastRequest(sizes, total, per_night, nights, error), affords)
    said = [f"Night {result.night:,}." * (result.night > 1), *result.verdict]
    first, rest = f"\n [bold]{escape(' '.join(filter(None, said)))}[/]", list[Table | str]()
    if output.verbose:
        rest = [*forecast_items(result), *(f" {escape(text)}" for text in result.meaning)]
    else:
        letter = letter_of(result.definition)
        rest = [_uses(result, letter)]
        if total is not None and len(settings.card.classes) > 1:
            divided = f" {total:,} {result.unit}s in all, here divided evenly over the classes: "
            rest.append(f"{divided}the number in each is secret.")
        if nights is not None and result.nights:
            rest.append(_by_night(result, letter))
        rest += [*(f" {escape(line)}" for line in _solved(result, letter)), MORE]
    if affords and result.nights and not settings.nights:
        rest += _unpaid(affords(settings.charge), result.nights[-1])
    output.answer({"account": why, "forecast": result}, first, *rest, f" {escape(why)}")


def _unpaid(paid: int, nights: int) -> list[str]:
    """Return how many of these nights the account pays, where it does not pay all."""
    stream = "a stream is paid once for all nights, see covdp start --nights"
    return [f" The account pays {paid:,} of these {nights:,} nights; {stream}."] * (paid < nights)


MORE = " --verbose shows errors, regions and prices, and what they mean."


def counted(config: "ReleaseConfig", *, later: bool) -> tuple[dict[str, int], int | None]:
    """Return the public sizes of classes, or of all together; none where no image can be listed.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of a release.
    later : bool
        True if more come later, so that a class may be empty now.
    """
    from covdp.publish.redact import silence
    from covdp.publish.release import public_sizes

    try:
        with silence():
            source = config.open_images(config.fetch_images(None), token_bytes(32))
    except CovdpError:
        return {}, None
    sizes = () if source is None else public_sizes(config, source)
    if config.secret or not sizes or (later and not any(sizes)):
        return {}, sum(sizes) or None
    of_class = dict(zip(config.card.classes, sizes, strict=True))
    if not later:
        config.check_sizes(of_class)
    return of_class, None


def _uses(result: "Forecast", letter: str) -> Table:
    """Return the predicted use of the mean of each class, by budget."""
    heads: list[Column | str] = [*numbers(f"budget {letter}", "best attack, %")]
    heads += numbers("releases" if result.horizon is None else "nights")
    heads += [Column(escape(f"usable at least for: {_of(row, result)}")) for row in result.classes]
    rows = (
        (
            f"{price.value:.4g}",
            price.success,
            "" if price.nights is None else f"{price.nights:,}",
            *(row.by_budget[place].in_words for row in result.classes),
        )
        for place, price in enumerate(result.prices)
    )
    return new_table(*heads, rows=rows)


def _of(row: "ClassForecast", result: "Forecast") -> str:
    """Return the name of a class and how many records it has at the night that is foreseen."""
    n = row.by_budget[0].n
    known = row.name.startswith("any class")
    return row.name if known else f"{row.name}, {n:,} {result.unit}{'s' * (n != 1)}"


def sizes_of(items: Iterable[str]) -> dict[str, int]:
    """Return sizes of classes from ``CLASS=N``; a name may hold an equals sign itself.

    Parameters
    ----------
    items : iterable of str
        Texts such as ``normal=1500``.

    Raises
    ------
    ConfigError
        For anything else, or a class that is named twice.
    """
    sizes = dict[str, int]()
    for item in items:
        name, _, count = item.rpartition("=")
        if not name or not (count.isascii() and count.isdecimal() and len(count) <= MOST_DIGITS):
            raise ConfigError(f"--n must be CLASS=N, as in --n normal=1500, found {item[:200]!r}")
        if name in sizes:
            raise ConfigError(f"--n gives class {name!r} twice; leave one out")
        sizes[name] = int(count)
    return sizes


def _account(
    config: "ReleaseConfig", address: str | None
) -> tuple["Callable[[Budget], int] | None", str]:
    """Return how many releases the account pays for, and what is known of it in words.

    A ledger that is not there is no fault, unless it was named.
    """
    from covdp.ledger import open_ledger
    from covdp.privacy import equation
    from covdp.publish import ledger_address

    try:
        book = open_ledger(ledger_address(address))
        (row,) = book.show(config.population)
    except LedgerError as fault:
        if address is not None:
            raise
        return None, f"how many releases the account pays for is not known: {fault}"
    left = equation(row.left, 6, left=True) if row.left else "nothing"
    return (
        row.lasts,
        f"{'nights' if config.nights else 'releases'}: number that the account of "
        f"{config.population} can pay ({left} left of {equation(row.budget, 6)})",
    )


def forecast_items(result: "Forecast") -> Iterator[Table | str]:
    """Yield a table of prices, one of errors by budget, one by night, and what was solved for.

    Parameters
    ----------
    result : Forecast
        Forecast of a release.
    """
    from covdp.privacy import letter as letter_of

    letter = letter_of(result.definition)
    title = f"{result.name}: {result.descriptor}, {result.manifold}, {result.dimension} numbers"
    apart = f"largest distance of two {result.unit}s {result.diameter:.4g}"
    yield f"\n[bold]{escape(title)}[/], {apart}\n"
    yield _prices(result, letter)
    for row in result.classes:
        n = row.by_budget[0].n
        about = f"{row.name}: mean of {n:,} {result.unit}{'s' * (n != 1)}"
        about += f" at night {result.night:,}" * (result.night > 1)
        yield f" [bold]{escape(about)}[/]"
        pairs = zip(result.prices, row.by_budget, strict=True)
        rows = ((f"{price.value:.4g}", *_cells(expected)) for price, expected in pairs)
        yield new_table(*numbers(f"budget {letter}", "error", "radius"), rows=rows)
    if result.nights:
        yield _by_night(result, letter)
    yield from (f" {escape(line)}\n" for line in _solved(result, letter))


def _prices(result: "Forecast", letter: str) -> Table:
    """Return what each budget costs and means."""
    from covdp.privacy import main_parameter, success
    from covdp.privacy.rounding import digits_up, in_powers

    streamed, delta = result.horizon is not None, in_powers(f"{result.prices[0].delta:.2g}")
    heads = numbers(
        f"budget {letter}",
        f"charged {letter}, once" if streamed else f"charged {letter}",
        f"ε (δ = {delta})",
        "best attack, %",
        "advantage",
        "nights" if streamed else "releases",
    )
    rows = (
        (
            f"{price.value:.4g}",
            digits_up(main_parameter(price.charge), 4),
            digits_up(price.epsilon, 3),
            price.success,
            digits_up(price.advantage, 3),
            "" if price.nights is None else f"{price.nights:,}",
        )
        for price in result.prices
    )
    caption = (
        f"best attack: how often the best attacker is right who knows all other {result.unit}s and "
        "chooses between two candidates; a guess is right in 50 %"
    )
    if any(price.success != success(price.charge) for price in result.prices):
        caption += (
            "; this is certified for noise on a lattice, by zCDP with ρ = μ²/2; noise of real "
            "numbers, as in experiments, has a lower figure at the same μ"
        )
    texts = {"title": "What it costs", "caption": caption}
    return new_table(*heads, rows=rows, **texts, title_justify="left", caption_justify="left")


def _cells(expected: "ErrorForecast") -> tuple[str, str]:
    """Return error and radius as text."""
    if expected.low is None or expected.high is None or expected.radius is None:
        return "not open yet" if expected.n else "no mean", ""
    return f"{expected.low:.2g} to {expected.high:.2g}", f"{expected.radius:.2g}"


def _by_night(result: "Forecast", letter: str) -> Table:
    """Return errors by night, at the config's budget."""
    from covdp.privacy import main_parameter
    from covdp.privacy.rounding import digits_up

    heads = numbers("night", f"charged so far, {letter}")
    for row in result.classes:
        heads += [Column(f"{escape(row.name)}: n", justify="right"), *numbers("error")]
    lines = zip(result.nights, result.totals, *(c.by_night for c in result.classes), strict=True)
    rows = (
        (
            f"{night:,}",
            digits_up(main_parameter(total), 4),
            *(cell for error in errors for cell in (f"{error.n:,}", _cells(error)[0])),
        )
        for night, total, *errors in lines
    )
    texts = {"title": "Night by night, at the budget of the config"}
    if result.horizon is not None:
        texts["caption"] = WIDER
    return new_table(*heads, rows=rows, **texts, title_justify="left", caption_justify="left")


WIDER = "After the first mean of a class the prediction is less sure, so its range is wider."


def _solved(result: "Forecast", letter: str) -> list[str]:
    """Return the least budget that suffices for the error asked for, class by class."""
    if result.error is None:
        return []
    lines = []
    for row in result.classes:
        answer = (
            "no budget looked at suffices" if row.needed is None else f"{letter} = {row.needed:g}"
        )
        lines.append(f"{row.name}: for an error of at most {result.error:g}, {answer}")
    if result.needed is not None and len(result.classes) > 1:
        lines.append(f"for all of them: {letter} = {result.needed:g}")
    return lines


def release(
    *,
    config: Path,
    ledger: LedgerAddress = None,
    data_root: ConfigRoot = None,
    out: Out = None,
    run_key: str | None = None,
    store: str | None = None,
    again: Annotated[bool, Parameter(negative="")] = False,
    even_if_useless: Annotated[bool, Parameter(negative="")] = False,
    output: Printing = PLAIN,
) -> None:
    """Release one private mean descriptor per class, and pay for it from the ledger.

    Noise is drawn from an exact sampler, unless the config says `noise = "float"`. Only
    noised and public values leave. The same command, with the same images, config and run key,
    gives the same release again and costs nothing.

    ```
    covdp ledger init
    covdp ledger set-budget ward-7 --definition gdp --total 2
    covdp release --config ward.toml
    ```

    With a table [stream] in the config a release is one night of a stream. Each image, or person,
    enters on one night, the stream is paid once, and every night releases the mean of all so far.

    Parameters
    ----------
    config
        The release in TOML: population, dataset, budget, what is public.
    run_key
        Key of this run [that of the config, else today's date (UTC)].
    store
        Place where descriptors are stored and found again, as `covdp describe` leaves them. If left
        out: a private folder, which is deleted after the release.
    again
        Release, and pay, once more. Without it four kinds of release are refused, and not charged:
        a run whose images, settings or name have changed since it was paid; a release beside a
        stream of the population; a second stream, or one beside releases; a stream that
        goes on with another card.
    even_if_useless
        Release, and pay, although the number of images and the budget say that no mean will be
        usable, or that no class of a stream can open. Without it such a release is refused, and
        nothing is charged.
    """
    from covdp import jobs
    from covdp.ledger import charge_of

    job = jobs.prepare_release(
        config,
        ledger=ledger,
        out=out,
        root=data_root,
        run_key=run_key,
        store=store,
        again=again,
        beside=again,
        even_if_useless=even_if_useless,
    )
    document = jobs.release(job)
    _show_release(job, document, charge_of(job.ledger, document.read_bytes()), output)


def _show_release(job: "ReleaseJob", document: Path, charge: "Charge", output: Printing) -> None:
    """Print where a release is, what it cost, and how long account or stream last."""
    from covdp.cli import ledger
    from covdp.publish import read_document
    from covdp.report import verdict

    settings = job.settings
    (row,) = job.ledger.show(settings.population)
    streams = job.ledger.streams(settings.population) if settings.stream else ()
    stream = next((one for one in streams if one.name == settings.name), None)
    beside = {"release": ".parquet", "document": ".json", "report": ".html"}
    paths = {name: document.with_suffix(ending) for name, ending in beside.items()}
    usable = verdict(read_document(document)).text
    if output.json:
        account = ledger.account_json(row, row.latest)
        left = {"stream": stream.as_json()} if stream else {"account": account}
        print_json({**paths, **ledger.charge_json(charge), **left, "verdict": usable})
        return
    output.paths(paths)
    output.show(f" [bold]{escape(usable)}[/]")
    output.show(f" {ledger.charge_line(charge, output)}")
    if stream is None:
        for item in ledger.account_items(row, row.latest, output) if output.verbose else ():
            output.show(item)
        return
    output.show(f" {escape(stream.in_words)}")
    if not charge.committed and not output.quiet:
        _show_waiting(job, output)


def _show_waiting(job: "ReleaseJob", output: Printing) -> None:
    """Say how many privacy units wait for the next night, where one is asked for again."""
    settings = job.settings
    if settings.stream is None:
        return
    try:
        waiting = settings.stream.waiting(settings, job.ledger, job.root)
    except CovdpError:  # the night is the answer, whatever is there
        return
    if waiting:
        output.show(f" {waiting}")


def serve(
    *,
    config: Path,
    out: Out = None,
    data_root: ConfigRoot = None,
    ledger: LedgerAddress = None,
    cron: str = "0 2 * * *",
    notify: str | None = None,
    again: Annotated[bool, Parameter(negative="")] = False,
    even_if_useless: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Release on a schedule from this machine, until stopped.

    Card, folder, ledger and account are checked at the start. No port is opened. If several planned
    times have passed, because the machine was asleep or a release took long, only the last is run,
    and the others are named as skipped. Times before the start are not made up for. A clock that is
    set back releases no night again. Each night prints one line: when, what was released, what was
    charged. If a night fails, one line says why, and the next one is tried. If the account cannot
    pay any more, the command ends with exit code 2.

    ```
    covdp serve --config ward.toml --cron "0 2 * * *"
    covdp serve --config ward.toml --notify "mail -s 'covdp: a night failed' admin@ward"
    ```

    Parameters
    ----------
    config
        The release in TOML, without a run key: each night is a run of its own.
    cron
        Times in cron's five fields, UTC. A run's key is the date it was planned for.
    notify
        A program with its arguments. It is run when a night fails, and when the command ends,
        except by Ctrl-C or SIGTERM. Its standard input is one line that says why. No shell runs it:
        for pipes and redirections name a script.
    again
        Pay although the population has paid for other releases; see `covdp release`.
    even_if_useless
        Pay although no mean will be usable; see `covdp release`.
    """
    from covdp import jobs

    command = notify_command(notify)

    def prepare(planned: datetime) -> "ReleaseJob":
        return jobs.prepare_release(
            config,
            ledger=ledger,
            out=out,
            root=data_root,
            at=planned,
            again=True,  # each planned time is a release of its own
            beside=again,
            even_if_useless=even_if_useless,
        )

    with _notified(command):
        _serve(config, prepare, cron, command)


@contextmanager
def _notified(command: list[str]) -> Iterator[None]:
    """Notify of whatever ends the block; Ctrl-C and SIGTERM, which are wanted, do not come here."""
    try:
        yield
    except BaseException as error:
        known = isinstance(error, CovdpError)
        why = one_line(error) if known else "an unexpected failure, which is withheld"
        notify_failure(f"covdp serve ended: {why}", command)
        raise


def _serve(
    config: Path, prepare: Callable[[datetime], "ReleaseJob"], cron: str, command: list[str]
) -> None:
    """Check what can be checked, then release night after night."""
    from covdp.privacy import equation
    from covdp.publish import released_since

    times = planned_times(cron, datetime.now(UTC))
    first = next(times)
    job = prepare(first)
    settings = job.settings
    images = settings.fetch_images(job.root)  # a folder that is missing is missing now
    job.ledger.check_declared(settings.population, settings.declared(images))
    if settings.run_key != f"{first:%Y-%m-%d}":
        raise ConfigError(
            f"{config} fixes run_key = {settings.run_key!r}, so every night would give the first "
            "night's release again; leave run_key out of a config that is served"
        )
    price = "" if settings.nights else f"; each release is charged {equation(settings.charge, 6)}"
    _log(f"serving {settings.name} at {cron!r}, next {_text(first)}{price}; stop with Ctrl-C")
    times = planned_times(cron, datetime.now(UTC))
    for *overtaken, night in nights(times, lambda: datetime.now(UTC)):
        planned = _text(night)
        for missed in overtaken:
            _log(f"{_text(missed)} is skipped: {planned} has come as well")
        try:
            job = prepare(night)
            if released_since(job.settings, job.ledger, night):
                _log(f"{planned} is skipped: the ledger holds its release")
                continue
            _log(f"{planned}  {release_night(job)}")
        except BudgetError:  # which ends serving, and is reported there
            raise
        except CovdpError as error:
            line = f"{planned}  {one_line(error)}"
            complain(line)
            notify_failure(line, command)


def _log(line: str) -> None:
    """Print what happened; a full disk ends no nights, and a reader that is gone does."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        complain(f"cannot write to standard output ({error.strerror}); serving goes on: {line}")


def planned_times(cron: str, after: datetime) -> Iterator[datetime]:
    """Yield the times of a cron expression after `after`, without end.

    Parameters
    ----------
    cron : str
        Expression of cron's five fields, in UTC.
    after : datetime
        Time after which the first one is.
    """
    from cronsim import CronSim, CronSimError

    try:
        if len(cron.split()) != 5:
            raise CronSimError("not five fields")
        return CronSim(cron, after)
    except CronSimError as error:
        raise ConfigError(
            "--cron takes cron's five fields for a time that exists, such as '0 2 * * *', found "
            f"{cron!r}"
        ) from error


def nights(
    times: Iterator[datetime],
    now: Callable[[], datetime],
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[list[datetime]]:
    """Yield planned times as they come; of several that have passed, the last after the others.

    Parameters
    ----------
    times : iterator of datetime
        Planned times, in order and without end.
    now : callable
        Function that returns the present time.
    sleep : callable
        Function that waits for some seconds.
    """
    planned = next(times)
    while True:
        while (left := (planned - now()).total_seconds()) > 0:
            sleep(min(left, LONGEST_SLEEP))
        passed = [planned]
        while (planned := next(times)) <= now():
            passed.append(planned)
        yield passed


def release_night(job: "ReleaseJob") -> str:
    """Release once, and return in words what was released and what was charged.

    Parameters
    ----------
    job : ReleaseJob
        Release that is planned.

    Returns
    -------
    str
        Line about the night.

    Raises
    ------
    CovdpError
        What goes wrong; an unexpected failure without its words, as they may depend on an image.
    """
    from covdp import jobs
    from covdp.cli.ledger import charge_line
    from covdp.ledger import charge_of
    from covdp.publish import read_document
    from covdp.publish.redact import redact_errors

    unforeseen = PrivacyError(
        "failed in a way that was not foreseen; it is withheld, as it may depend on an image; "
        "this is a fault of covdp, please report it"
    )
    document = redact_errors(lambda: jobs.release(job), unforeseen, public=(CovdpError,))
    released = read_document(document)
    what = f"{job.settings.name} {job.settings.run_key}"
    if released.progress:
        what += f", {released.progress}"
    charge = charge_line(charge_of(job.ledger, document.read_bytes()), PLAIN)
    return f"released {what}: {document.with_suffix('.parquet')}; {charge}"


def notify_command(text: str | None) -> list[str]:
    """Return the words of a command that can be run; none when there is no text.

    Parameters
    ----------
    text : str or None
        Command as it is typed in a shell.
    """
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
    """Tell whoever the command tells that a night failed; say so when that fails as well.

    Parameters
    ----------
    line : str
        Line that says why the night failed.
    command : list of str
        Words of the command; none of them when nobody is told.
    """
    if not command:
        return
    try:
        done = subprocess.run(
            command,
            input=f"{line}\n",
            text=True,
            errors=IN_WORDS,
            timeout=NOTIFY_SECONDS,
            check=False,
        )
        fault = f"it ended with exit code {done.returncode}" * (done.returncode != 0)
    except (OSError, subprocess.SubprocessError) as error:
        fault = str(error)
    if fault:
        complain(f"nobody was notified: {fault}")


def _text(planned: datetime) -> str:
    return f"{planned:%Y-%m-%d %H:%M} UTC"
