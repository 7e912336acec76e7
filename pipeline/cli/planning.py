"""The command `covdp plan`: a release or a stream before anything is spent."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from pipeline.cli.options import PLAIN, Ledger, Printing, begin, new_table, print_json, show

if TYPE_CHECKING:
    from pipeline.planning import ClassForecast, Expected, Forecast
    from pipeline.privacy import Budget

DIGITS = 30
"""Of a number of units; what is too large is said with it."""


def plan(
    *,
    config: Path,
    n: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    per_night: int | None = None,
    nights: int | None = None,
    error: float | None = None,
    ledger: Ledger = None,
    how: Printing = PLAIN,
) -> None:
    """Foresee a release: error, region, price and nights by budget, before anything is spent.

    Only the config, the card and the ledger, if there is one, are read: images need not be there.

    ```
    covdp plan --config ward.toml --n normal=1500 --n pneumonia=4000
    covdp plan --config ward.toml --n normal=1500 --error 0.1
    covdp plan --config stream.toml --per-night 20 --nights 365
    ```

    Parameters
    ----------
    config
        The release in TOML, as for `covdp release`.
    n
        Images, or persons, of a class, CLASS=N; once for each class. Some usual sizes when left
        out.
    per_night
        How many more come each night, in each class.
    nights
        The night that is foreseen; a stream's last one when left out, else the first.
    error
        Solve for the least budget whose range ends at or below this distance.
    """
    from pipeline.planning import Asked, forecast
    from pipeline.publish import load_release

    begin(how)
    settings = load_release(config)
    affords, why = _account(settings.population, ledger)
    asked = Asked(sizes_of(n), per_night, nights, error)
    found = forecast(settings, asked, affords)
    if how.json:
        print_json({"account": why, "forecast": found})
        return
    show_forecast(found, how)
    show(f" {escape(' '.join(found.meaning))}\n {escape(why)}", how)


def sizes_of(given: Iterable[str]) -> dict[str, int]:
    """Return sizes of classes from ``CLASS=N``; a name may hold an equals sign itself.

    Raises
    ------
    ConfigError
        For anything else, or a class that is named twice.
    """
    from pipeline.errors import ConfigError

    sizes = dict[str, int]()
    for item in given:
        name, _, count = item.rpartition("=")
        if not name or not (count.isascii() and count.isdecimal() and len(count) <= DIGITS):
            raise ConfigError(f"--n must be CLASS=N, as in --n normal=1500, found {item[:200]!r}")
        if name in sizes:
            raise ConfigError(f"--n gives class {name!r} twice; leave one out")
        sizes[name] = int(count)
    return sizes


def _account(population: str, address: str | None) -> tuple["Callable[[Budget], int] | None", str]:
    """Return how many releases the account pays for, and what is known of it in words.

    A ledger that is not there is no fault, unless it was named.
    """
    from pipeline.errors import LedgerError
    from pipeline.ledger import open_ledger
    from pipeline.publish import ledger_address

    try:
        book = open_ledger(ledger_address(address))
        (row,) = book.show(population)
    except LedgerError as fault:
        if address is not None:
            raise
        return None, f"nights: for how many the account lasts is not known: {fault}"
    return (
        lambda charge: book.releases_left(population, charge),
        f"nights: for how many the account of {population} lasts, with {row.left or 'nothing'} of "
        f"{row.budget} left",
    )


def show_forecast(found: "Forecast", how: Printing) -> None:
    """Print a table of prices, one of errors by budget, one by night, and what was solved for."""
    from pipeline.privacy import letter as letter_of

    letter = letter_of(found.definition)
    title = f"{found.name}: {found.descriptor}, {found.manifold}, {found.dimension} numbers"
    show(
        f"\n[bold]{escape(title)}[/], no two {found.unit}s farther apart than "
        f"{found.diameter:.4g}\n",
        how,
    )
    show(_prices(found, letter), how)
    for one in found.classes:
        show(f" [bold]{escape(_about(found, one))}[/]", how)
        show(_by_budget(found, one, letter), how)
    if found.nights:
        show(_by_night(found, letter), how)
    for line in _solved(found, letter):
        show(f" {escape(line)}\n", how)


def _prices(found: "Forecast", letter: str) -> Table:
    """Return what each budget costs and means."""
    from pipeline.privacy import main_parameter
    from pipeline.privacy.rounding import digits_up

    streamed = found.horizon is not None
    table = new_table(title="What it costs", title_justify="left")
    for head in (
        f"budget {letter}",
        f"charged {letter}, once" if streamed else f"charged {letter}",
        f"ε (δ = {found.prices[0].delta:.2g})",
        "best test, %",
        "advantage",
        "nights",
    ):
        table.add_column(head, justify="right", no_wrap=True)
    for price in found.prices:
        table.add_row(
            f"{price.value:.4g}",
            digits_up(main_parameter(price.charge), 4),
            digits_up(price.epsilon, 3),
            price.success,
            digits_up(price.advantage, 3),
            "" if price.nights is None else f"{price.nights:,}",
        )
    table.caption = (
        "best test: how often whoever knows all but one unit tells at most which of two it was; "
        "guessing has 50"
    )
    table.caption_justify = "left"
    return table


def _about(found: "Forecast", one: "ClassForecast") -> str:
    """Return what a table of errors is about."""
    n = one.by_budget[0].n
    said = f"{one.name}: mean of {n:,} {found.unit}{'s' * (n != 1)}"
    return f"{said} at night {found.night:,}" if found.night > 1 else said


def _by_budget(found: "Forecast", one: "ClassForecast", letter: str) -> Table:
    """Return the errors of one class by budget."""
    table = new_table()
    for head in (f"budget {letter}", "error", "radius"):
        table.add_column(head, justify="right", no_wrap=True)
    for price, expected in zip(found.prices, one.by_budget, strict=True):
        table.add_row(f"{price.value:.4g}", *_cells(expected))
    return table


def _cells(expected: "Expected") -> tuple[str, str]:
    """Return error and radius as text."""
    if expected.low is None or expected.high is None or expected.radius is None:
        return "not open yet", ""
    return f"{expected.low:.2g} to {expected.high:.2g}", f"{expected.radius:.2g}"


def _by_night(found: "Forecast", letter: str) -> Table:
    """Return errors by night, at the config's budget."""
    from pipeline.privacy import main_parameter
    from pipeline.privacy.rounding import digits_up

    table = new_table(title="Night by night, at the budget of the config", title_justify="left")
    table.add_column("night", justify="right", no_wrap=True)
    table.add_column(f"charged so far, {letter}", justify="right", no_wrap=True)
    for one in found.classes:
        table.add_column(f"{escape(one.name)}: n", justify="right")
        table.add_column("error", justify="right", no_wrap=True)
    for i, (night, total) in enumerate(zip(found.nights, found.totals, strict=True)):
        cells = [
            cell
            for one in found.classes
            for cell in (f"{one.by_night[i].n:,}", _cells(one.by_night[i])[0])
        ]
        table.add_row(f"{night:,}", digits_up(main_parameter(total), 4), *cells)
    return table


def _solved(found: "Forecast", letter: str) -> list[str]:
    """Return the least budget that suffices for the error asked for, class by class."""
    if found.error is None:
        return []
    lines = []
    for one in found.classes:
        said = (
            "no budget looked at suffices" if one.needed is None else f"{letter} = {one.needed:g}"
        )
        lines.append(f"{one.name}: for an error of at most {found.error:g}, {said}")
    if found.needed is not None and len(found.classes) > 1:
        lines.append(f"for all of them: {letter} = {found.needed:g}")
    return lines
