"""Commands on private images: release, ledger, serve."""

from pathlib import Path
from typing import Any, Literal

from pipeline.cli.options import (
    PLAIN,
    DataRoot,
    Ledger,
    Out,
    Printing,
    begin,
    print_json,
    print_line,
    print_paths,
    show,
)


def release(
    *,
    config: Path,
    ledger: Ledger = None,
    data_root: DataRoot = None,
    out: Out = None,
    run_key: str | None = None,
    store: str | None = None,
    how: Printing = PLAIN,
) -> None:
    """Release one private mean descriptor per class, and pay for it from the ledger.

    Noise is drawn from an exact sampler, unless the config accepts floats in writing; nothing that
    was computed without noise leaves. Asked again with the same images, config and run key, it
    gives the same release and costs nothing.

    ```
    covdp ledger init
    covdp ledger set-budget ward-7 --definition gdp --total 2
    covdp release --config ward.toml
    ```

    With a table [stream] in the config it is one night of a stream: each image, or person, enters
    on one night, the stream is paid once, and every night has the mean of all so far.

    Parameters
    ----------
    config
        The release in TOML: population, dataset, budget, what is public.
    run_key
        Which run this is; the config's, else today's date (UTC).
    store
        Where descriptors are kept and found again, as `covdp describe` leaves them; a private
        folder that goes with the release when left out.
    """
    from pipeline import jobs
    from pipeline.cli.accounts import (
        charge_json,
        charge_line,
        read_accounts,
        read_streams,
        show_accounts,
        show_night,
        stream_json,
    )
    from pipeline.ledger import charge_of, rows_written

    begin(how)
    job = jobs.prepare_release(
        config, ledger=ledger, out=out, root=data_root, run_key=run_key, store=store
    )
    book, settings = job.ledger, job.settings
    before = rows_written(book)
    document = jobs.release(job)
    charge = charge_of(book, document.read_bytes(), before)
    paths = {
        "release": document.with_suffix(".parquet"),
        "report": document.with_suffix(".html"),
    }
    if how.json:
        streams = read_streams(book, settings.population, settings.name) if settings.stream else []
        lasts: dict[str, Any] = (
            {"stream": stream_json(streams[0])}
            if streams
            else {"account": read_accounts(book, settings.population)[0].as_json()}
        )
        print_json({**paths, **charge_json(charge), **lasts})
        return
    print_paths(paths, how)
    show(f" {charge_line(charge, how)}", how)
    if settings.stream is None:
        show_accounts(read_accounts(book, settings.population), how)
    else:
        show_night(read_streams(book, settings.population, settings.name), how)


def init(*, ledger: Ledger = None, how: Printing = PLAIN) -> None:
    """Create the ledger where there is none.

    ```
    covdp ledger init
    covdp ledger init --ledger postgresql+psycopg://covdp@dbhost/privacy
    ```
    """
    from pipeline.ledger import init_ledger
    from pipeline.publish import ledger_address

    begin(how)
    place = init_ledger(ledger_address(ledger)).database.place.removeprefix("ledger ")
    if how.json:
        print_json({"ledger": place})
    elif not how.quiet:
        print_line(f"ledger ready: {place}")


def set_budget(
    population: str,
    *,
    total: float,
    definition: Literal["gdp", "zcdp"] = "gdp",
    delta: float | None = None,
    ledger: Ledger = None,
    how: Printing = PLAIN,
) -> None:
    """Give a population its total budget, or change it; every change is kept.

    ```
    covdp ledger set-budget ward-7 --definition gdp --total 2
    ```

    Parameters
    ----------
    population
        The declared name of the people whose images are released about.
    total
        All that may ever be spent on them: μ for gdp, ρ for zcdp.
    definition
        What charges are counted in.
    delta
        δ at which ε is shown; 1e-5 by default.
    """
    from pipeline.ledger import open_ledger
    from pipeline.privacy import budget_from
    from pipeline.publish import ledger_address

    begin(how)
    book = open_ledger(ledger_address(ledger))
    book.set_budget(population, budget_from(definition, total), delta=delta)
    _show_accounts(population, ledger, how)


def show_ledger(
    population: str | None = None,
    *,
    budget: float | None = None,
    ledger: Ledger = None,
    how: Printing = PLAIN,
) -> None:
    """Show what each population may spend, has spent and has left, and how long that lasts.

    ```
    covdp ledger show
    covdp ledger show ward-7 --budget 0.25
    ```

    Parameters
    ----------
    population
        One population only.
    budget
        What one more release costs, in the account's definition; that of the last one when left
        out.
    """
    begin(how)
    _show_accounts(population, ledger, how, budget)


def history(population: str | None = None, *, ledger: Ledger = None, how: Printing = PLAIN) -> None:
    """Show every change of a budget and every release that was paid for, oldest first.

    ```
    covdp ledger history
    covdp ledger history ward-7 --json
    ```

    Parameters
    ----------
    population
        One population only.
    """
    from pipeline.cli.accounts import show_history
    from pipeline.ledger import open_ledger
    from pipeline.publish import ledger_address

    begin(how)
    book = open_ledger(ledger_address(ledger))
    if population is not None:
        book.show(population)  # refuses a name that has no account
    entries = book.history(population)
    if how.json:
        print_json(entries)
    else:
        show_history(entries, population, how)


def confirm_ledger(*, ledger: Ledger = None, how: Printing = PLAIN) -> None:
    """Accept a ledger that was restored from a backup; its history says so from then on.

    What was spent after the backup is not in it, is not charged again, and was spent all the same:
    lower the totals by it with `covdp ledger set-budget` where you know it.

    ```
    covdp ledger confirm-restored
    ```
    """
    from pipeline.ledger import confirm_restored
    from pipeline.publish import ledger_address

    begin(how)
    confirmed = confirm_restored(ledger_address(ledger))
    if how.json:
        print_json({"confirmed": confirmed})
    elif not how.quiet:
        print("confirmed" if confirmed else "nothing to confirm: the ledger is as it was left")


def _show_accounts(
    population: str | None, ledger: str | None, how: Printing, budget: float | None = None
) -> None:
    """Print the accounts asked for."""
    from pipeline.cli.accounts import read_accounts, read_streams, show_accounts
    from pipeline.ledger import open_ledger
    from pipeline.publish import ledger_address

    book = open_ledger(ledger_address(ledger))
    accounts, streams = read_accounts(book, population, budget), read_streams(book, population)
    if how.json:
        print_json([account.as_json(streams) for account in accounts])
    else:
        show_accounts(accounts, how, streams)


def serve(
    *,
    config: Path,
    out: Out = None,
    data_root: DataRoot = None,
    ledger: Ledger = None,
    cron: str = "0 2 * * *",
    notify: str | None = None,
) -> None:
    """Release on a schedule from this machine, until stopped.

    Nothing listens. Of planned times that have passed, because the machine was asleep or a release
    took long, only the last is run, and the others are named as skipped; what was planned before
    the start is not made up for, and a clock that is set back releases no night again. Each night
    is one line: when, what was released, what was charged. A night that fails says why in one line,
    and the next one is tried; when the account cannot pay any more, serving ends with exit code 2.

    ```
    covdp serve --config ward.toml --cron "0 2 * * *"
    covdp serve --config ward.toml --notify "mail -s 'covdp: a night failed' admin@ward"
    ```

    Parameters
    ----------
    config
        The release in TOML, without a run key: each night is a run of its own.
    cron
        When, in cron's five fields, UTC. A run's key is the date it was planned for.
    notify
        A command that is run when a night fails, with the line that says why as its standard input.
    """
    from pipeline.cli.serving import serve_nights

    serve_nights(config, ledger=ledger, root=data_root, out=out, cron=cron, notify=notify)
