"""Commands on the ledger, and its accounts as people and programs read them: tables and JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App
from rich.markup import escape
from rich.table import Column, Table

from covdp.cli.options import PLAIN, LedgerAddress, Printing, Written
from covdp.cli.output import new_table, numbers, print_json, print_line
from covdp.errors import OutputError
from covdp.files import read_regular, write_whole
from covdp.ledger import (
    Account,
    Charge,
    HistoryLine,
    PaidStream,
    confirm_restored,
    init_ledger,
    open_ledger,
)
from covdp.ledger.keys import public_text
from covdp.privacy import Budget, budget_from, equation, letter, main_parameter, second_parameter
from covdp.privacy.rounding import digits_down, digits_up, in_powers
from covdp.publish import ledger_address

ACCOUNT_FIELDS = (
    *("population", "budget", "spent", "left", "delta", "epsilon_budget", "epsilon_spent"),
    *("epsilon_left", "group", "releases", "unfinished", "created"),
)
"""Keys of an account, as programs read them."""
MOST_BYTES = 1 << 26
"""Bytes of the largest document that is read."""


def init(*, ledger: LedgerAddress = None, output: Printing = PLAIN) -> None:
    """Create the ledger where there is none.

    ```
    covdp ledger init
    covdp ledger init --ledger postgresql+psycopg://covdp@dbhost/privacy
    ```
    """
    place = init_ledger(ledger_address(ledger)).database.place.removeprefix("ledger ")
    if output.json:
        print_json({"ledger": place})
    elif not output.quiet:
        print_line(f"ledger ready: {place}")


def set_budget(
    population: str,
    *,
    total: float,
    definition: Literal["gdp", "zcdp"] = "gdp",
    delta: float | None = None,
    ledger: LedgerAddress = None,
    output: Printing = PLAIN,
) -> None:
    """Give a population its total budget, or change it; every change is recorded.

    ```
    covdp ledger set-budget ward-7 --definition gdp --total 2
    ```

    Parameters
    ----------
    population
        The declared name of the people whom the images are of.
    total
        All that may ever be spent on them: μ for gdp, ρ for zcdp.
    definition
        Definition that charges are counted in.
    delta
        δ at which ε is shown; 1e-5 by default.
    """
    book = open_ledger(ledger_address(ledger))
    book.set_budget(population, budget_from(definition, total), delta=delta)
    _show_accounts(population, ledger, output)


def show_ledger(
    population: str | None = None,
    *,
    budget: float | None = None,
    ledger: LedgerAddress = None,
    output: Printing = PLAIN,
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
        Cost of one more release, in the account's definition; that of the last one when left out.
    """
    _show_accounts(population, ledger, output, budget)


def history(
    population: str | None = None, *, ledger: LedgerAddress = None, output: Printing = PLAIN
) -> None:
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
    book = open_ledger(ledger_address(ledger))
    if population is not None:
        book.show(population)  # refuses a name that has no account
    entries, digits = book.history(population), _digits(output)
    heads, title = ["population"], "History"
    if population is not None:
        heads, title = [], escape(population)
    table = new_table(Column("when (UTC)", no_wrap=True), *heads, "what", title=title)
    for entry in entries:
        whose = [escape(entry.population) for _ in heads]
        table.add_row(f"{entry.at:%Y-%m-%d %H:%M}", *whose, escape(_what(entry, digits)))
    output.answer(entries, table)


def confirm_ledger(*, ledger: LedgerAddress = None, output: Printing = PLAIN) -> None:
    """Accept a ledger that was restored from a backup, and write that into its history.

    Put the newer ledger back instead if there is one. All streams end, as images that entered after
    the backup could enter again, and a new stream is charged. The ledger has no record of budget
    that was spent after the backup, yet that budget is gone. If you know how much it was, lower the
    totals by it with `covdp ledger set-budget`.

    ```
    covdp ledger confirm-restored
    ```
    """
    confirmed = confirm_restored(ledger_address(ledger))
    done = "confirmed" if confirmed else "nothing to confirm: the ledger is as it was left"
    output.answer({"confirmed": confirmed}, done)


def show_key(*, ledger: LedgerAddress = None, output: Printing = PLAIN) -> None:
    """Print the public key of the ledger, for those who check what it has signed.

    The line above it is its fingerprint, which people compare by telephone.

    ```
    covdp ledger key > ward-7.pem
    covdp verify results/release/pneumonia-2026-11-23.json --key ward-7.pem
    ```
    """
    text = public_text(open_ledger(ledger_address(ledger)).signing_key())
    found, key = text.split("\n", 1)
    output.answer({"fingerprint": found.split()[1], "key": key}, escape(text.rstrip("\n")))


def sign_document(
    release: Path,
    /,
    *,
    out: Annotated[Path, Written(help="The signed document, such as signed.json.")],
    ledger: LedgerAddress = None,
    output: Printing = PLAIN,
) -> None:
    """Sign, with the date, a document that was committed before documents were signed.

    The ledger must hold the document, byte for byte, and its history records the signature. The
    same command again writes the same bytes. Later documents are signed when they are committed.

    ```
    covdp ledger sign results/release/pneumonia-2026-03-01.json --out signed.json
    ```

    Parameters
    ----------
    release
        The document of a release or of a night, `OUT/release/*.json`.
    """
    try:
        content = read_regular(release, MOST_BYTES)
    except OSError as error:
        raise OutputError(
            f"cannot read {release} ({error.strerror}); give OUT/release/*.json"
        ) from error
    signed = open_ledger(ledger_address(ledger)).sign(content)
    output.answer({}, paths={"signed": write_whole(out, signed)})


def _show_accounts(
    population: str | None, address: str | None, output: Printing, budget: float | None = None
) -> None:
    """Print the accounts asked for, with their streams; `budget` as in `show_ledger`."""
    ledger = open_ledger(ledger_address(address))
    rows, streams = ledger.show(population), ledger.streams(population)
    accounts, items = list[dict[str, Any]](), list[Table | str]()
    for row in rows:
        cost = row.latest
        if budget is not None:
            cost = budget_from(row.budget.name, budget, **second_parameter(row.budget))
        streams_here = [stream for stream in streams if stream.population == row.population]
        accounts.append(account_json(row, cost, streams_here))
        items += account_items(row, cost, output, streams_here)
    nobody = "no population has a budget yet; `covdp ledger set-budget` gives one"
    output.answer(accounts, *(items or [nobody]))


book = App(name="ledger", help_epilogue="", help_format="markdown")
book.command(init)
book.command(set_budget)
book.command(show_ledger, name="show")
book.command(history)
book.command(show_key, name="key")
book.command(sign_document, name="sign")
book.command(confirm_ledger, name="confirm-restored")


def account_json(
    row: Account, cost: Budget | None, streams: Sequence[PaidStream] = ()
) -> dict[str, Any]:
    """Return an account and its streams under the names that programs may rely on.

    Parameters
    ----------
    row : Account
        Account of a population.
    cost : Budget or None
        Cost of another release.
    streams : sequence of PaidStream
        Streams that the account has paid.
    """
    values = {name: getattr(row, name) for name in ACCOUNT_FIELDS}
    values |= {"cost": cost, "releases_left": None if cost is None else row.lasts(cost)}
    return values | ({"streams": [stream.as_json() for stream in streams]} if streams else {})


def account_items(
    row: Account, cost: Budget | None, output: Printing, streams: Sequence[PaidStream] = ()
) -> tuple[Table, str]:
    """Return a small table: budget and ε, spent, left and in all; and how long the account lasts.

    `cost` is what another release costs. What is spent is rounded up and what is left is rounded
    down, to six digits; verbose has all.

    Parameters
    ----------
    row : Account
        Account of a population.
    cost : Budget or None
        Cost of another release.
    output : Printing
        Options of what is printed.
    streams : sequence of PaidStream
        Streams that the account has paid.
    """
    digits = _digits(output)
    lines = [_pace(row, cost, digits), *(escape(stream.in_words) for stream in streams)]
    if row.spent and row.budget.name == "gdp":
        lines.append("squares of μ add up to the square of the total")
    return _table(row, digits), "".join(f" {line}\n" for line in lines)


def _digits(output: Printing) -> int:
    """Return to how many digits budgets are shown."""
    return 17 if output.verbose else 6


def _table(row: Account, digits: int) -> Table:
    heads = [Column("", no_wrap=True), *numbers("spent", "left", "total", min_width=10)]
    spent, left = (main_parameter(item) if item else 0.0 for item in (row.spent, row.left))
    delta = in_powers(f"{row.delta:g}")
    lines = (
        (letter(row.budget.name), spent, left, main_parameter(row.budget)),
        (f"ε (δ = {delta})", row.epsilon_spent, row.epsilon_left, row.epsilon_budget),
    )
    rows = []
    for name, used, rest, total in lines:
        untouched = name.startswith("ε (") and rest == total  # ε is only shown, never spent as such
        shown = (digits_up if untouched else digits_down)(rest, digits)
        rows.append((name, digits_up(used, digits), shown, digits_up(total, digits)))
    title = f"[bold]{escape(row.population)}[/]"
    return new_table(*heads, rows=rows, title=title, title_justify="left", title_style="")


def _pace(row: Account, cost: Budget | None, digits: int) -> str:
    """Return how many charges were paid, of a release or stream each, and how many more can be."""
    paid = f"{row.releases or 'no'} charge{'s' * (row.releases != 1)}"
    paid += " for whole persons" * (row.group is None)
    if row.unfinished:
        paid += f", {row.unfinished} without a result yet"
    if cost is None:
        return f"{paid}. Number of releases at a budget: covdp ledger show --budget X"
    count = row.lasts(cost)
    return f"{paid}; the account can pay {count:,} more at {equation(cost, digits)}"


def charge_line(charge: Charge, output: Printing) -> str:
    """Return what a release has cost, in words; budgets as in `account_items`.

    Parameters
    ----------
    charge : Charge
        Charge of a release, and its account.
    output : Printing
        Options of what is printed.
    """
    digits, row = _digits(output), charge.account
    cost = equation(charge.cost, digits)
    if not charge.committed:
        return "already released, nothing charged"
    if charge.charged:
        of = ", once for all nights of the stream" if charge.of_stream else ""
        left = digits_down(main_parameter(row.left), digits) if row.left else "nothing"
        return f"charged {cost}{of}; left {left}"
    if charge.of_stream:
        return f"nothing charged: {cost} was paid once, for all nights of the stream"
    return f"nothing charged: {cost} was paid by an attempt before, which did not finish"


def charge_json(charge: Charge) -> dict[str, Any]:
    """Return the same under the names that programs may rely on.

    Parameters
    ----------
    charge : Charge
        Charge of a release, and its account.
    """
    return {
        "charged": charge.cost if charge.charged else None,
        "already_released": not charge.committed,
        "left": charge.account.left,
    }


def _what(entry: HistoryLine, digits: int) -> str:
    """Return an entry of the history in words."""
    if entry.cost is None or entry.kind != "charge":
        return entry.text
    release = f"{entry.name}, " if entry.name else ""
    paid = f"paid {equation(entry.cost, digits)} for {release}run {entry.run_key!r}"
    paid += ", for whole persons" * (entry.group is None)
    if entry.committed is None:
        return f"{paid}, which has no result yet"
    return f"{paid}, stored {entry.committed:%Y-%m-%d %H:%M}"
