"""The command from a card to a first release: the ledger, the account and the config.

What it needs are options. On a terminal it asks for those that are not given; without one it says
which are missing, so it never waits for an answer that cannot come.
"""

import math
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Parameter
from rich.markup import escape

from covdp.cli.check import descriptor_of, look, root_beside
from covdp.cli.options import PLAIN, DataRoot, LedgerAddress, Printing, Written
from covdp.cli.output import print_json, print_line
from covdp.errors import ConfigError, CovdpError, LedgerError, one_line

if TYPE_CHECKING:
    from covdp.ledger import Account, Ledger
    from covdp.privacy import Budget
    from covdp.publish import ReleaseConfig
    from covdp.publish.preview import Preview

Value = TypeVar("Value")

TOTAL, BUDGET = 2.0, 0.5
"""μ that is proposed for an account and for a release."""
SIXTEEN = f"{TOTAL:g} pays for 16 releases of {BUDGET:g}"
"""Words in which the total is proposed."""
NEXT, MENDING = ("plan", "release"), ("plan", "check")
"""Commands that take the config that was made: those that would not be refused."""


def start(
    card: Path,
    /,
    *,
    population: str | None = None,
    total: float | None = None,
    budget: float | None = None,
    nights: int | None = None,
    out: Annotated[Path | None, Written(help="The config [POPULATION.toml].")] = None,
    data_root: Annotated[
        DataRoot,
        Parameter(
            help="Folder of the images [that of the card if they are there, else COVDP_DATA, else "
            "the user's cache]."
        ),
    ] = None,
    ledger: LedgerAddress = None,
    output: Printing = PLAIN,
) -> None:
    """Make the ledger, account and config of a first release, from a card.

    Images are checked as by `covdp check`, and decisions are named. Nothing is paid. In a
    terminal the command asks for options that are missing. It changes no ledger, account or config
    that is there.

    ```
    covdp start ward-card.toml --data-root /srv/images
    covdp start ward-card.toml --population ward-7 --total 2 --budget 0.5
    covdp start ward-card.toml --population ward-7 --total 2 --budget 0.5 --nights 3650
    ```

    Parameters
    ----------
    card
        The card of the images, as `covdp card` drafts it.
    population
        A name for the people whose images they are; its account pays.
    total
        All that may ever be spent on them, as μ.
    budget
        Cost of the release, as μ, for all classes together.
    nights
        Maximum number of nights of a stream. An image is paid once for all of them. Without a
        stream it is paid in each release.
    """
    from covdp.datasets import fetch, find_card
    from covdp.datasets.registry import data_root as root_of
    from covdp.ledger import clean_name, init_ledger
    from covdp.privacy import budget_from
    from covdp.publish import ledger_address, load_release, plain_name

    settings, address = find_card(card), ledger_address(ledger)
    data_root = data_root or root_beside(str(card), settings)
    fetch(settings, data_root)  # says where they should be
    answers: dict[str, object] = {"population": population, "budget": budget, "total": total}
    paid = population is not None and _account(address, population) is not None
    missing = [key for key, x in answers.items() if x is None and not (paid and key == "total")]
    answers |= {"data-root": data_root, "nights": nights, "out": out, "ledger": ledger}
    _check_answers(card, answers, missing)
    plain = plain_name(card.stem.removesuffix("-card"))
    asked = population or _ask("name of the population whose account pays", plain, str)
    name = clean_name("population", asked)
    row = _account(address, name)
    if row is None and total is None:
        total = _ask(f"μ of all its releases together ({SIXTEEN})", TOTAL, float)
    if budget is None:
        budget = _ask(f"μ of one release ({_meaning()})", BUDGET, float)
    if missing:
        print(file=sys.stderr)  # what was made is apart from the questions
    _check_numbers(budget, total)
    config = out or Path(f"{plain_name(name)}.toml")
    values = {"population": name, "root": root_of(data_root).resolve(), "budget": budget}
    values["descriptor"] = descriptor_of(settings)
    _write_config(config, card, values, nights)
    try:
        made = load_release(config)
        if row is None and total is not None:
            _check_total(made.charge, budget_from("gdp", total))
        book = init_ledger(address)
        if row is None and total is not None:
            book.set_budget(name, budget_from("gdp", total))
    except CovdpError:
        config.unlink()
        raise
    _say_made(config, made, book, ledger, output)


def _checked(
    made: "ReleaseConfig", ledger: str | None
) -> tuple[dict[str, list[str]], dict[str, Path], bool, str]:
    """Return decisions and notes, their page, True if a release is refused, and public sizes."""
    from covdp.files import default_out

    try:
        preview, paths = look(made, None, default_out(made.name, "check"), ledger, made=True)
    except CovdpError as error:  # such as a folder without an image
        return {"decide": [one_line(error)], "notes": []}, {}, True, ""
    said = {"decide": [*preview.decisions, *preview.paste], "notes": list(preview.notes)}
    return said, {"check": paths["page"]}, preview.refused, f"; here: {_sizes(preview)}"


def _meaning() -> str:
    """Return the meaning of the budget that is proposed, in words."""
    from covdp.privacy import GDP, best_test

    most = best_test(GDP(BUDGET), hardened=True)
    return f"at {BUDGET:g} the best attack is right in at most {most} % of cases, a guess in 50 %"


def _sizes(preview: "Preview") -> str:
    """Return the public sizes of classes, or of all together, in words."""
    if not preview.config.secret:
        return ", ".join(f"{row.name} {row.units:,}" for row in preview.classes)
    size = preview.images if preview.persons is None else preview.persons
    return f"{size:,} in {len(preview.classes)} classes together"


def _check_numbers(budget: float, total: float | None) -> None:
    """Raise `ConfigError` unless both are numbers above 0."""
    for option, value, usual in (("--budget", budget, BUDGET), ("--total", total, TOTAL)):
        if value is not None and not 0.0 < value < math.inf:
            raise ConfigError(f"{option} must be a number above 0, found {value}; {usual} is usual")


def _check_total(charge: "Budget", total: "Budget") -> None:
    """Raise `ConfigError` where an account of this total could not pay for one release."""
    from covdp.privacy import equation, fits

    if not fits(charge, total):
        raise ConfigError(
            f"a release would cost {equation(charge)}, and the account would have "
            f"{equation(total)} in all, so it could never pay; give a larger --total, or a smaller "
            "--budget"
        )


def _write_config(
    config: Path, card: Path, values: Mapping[str, object], nights: int | None
) -> None:
    """Write the config of a release, where there is none."""
    from covdp.publish import ReleaseConfig, plain_name
    from covdp.toml import to_toml

    beside = card.resolve().parent == config.resolve().parent
    lines = [
        "# run again on the same day, this file or a copy gives the same release, at no cost",
        f"name = {to_toml(plain_name(config.stem), ConfigError)}",
        f"population = {to_toml(values['population'], ConfigError)}  # the account that pays",
        f"dataset = {to_toml(card.name if beside else str(card.resolve()), ConfigError)}",
        f"data_root = {to_toml(str(values['root']), ConfigError)}",
        f"budget = {to_toml(values['budget'], ConfigError)}  # μ, for all classes together",
    ]
    if values["descriptor"] != ReleaseConfig.model_fields["descriptor"].default:
        lines.append(f"descriptor = {to_toml(values['descriptor'], ConfigError)}  # fits the card")
    lines += [] if nights is None else ["", "[stream]", f"horizon = {nights}"]
    try:
        with config.open("x", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
    except FileExistsError:
        on = f", or go on with `covdp plan --config {config}`" * (
            config.resolve() != card.resolve()
        )
        raise ConfigError(
            f"{config} is there already, and nothing was made; name another file with --out{on}"
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot write {config} ({error.strerror}); name it by --out") from error


def _say_made(
    config: Path, made: "ReleaseConfig", book: "Ledger", ledger: str | None, output: Printing
) -> None:
    """Print what was made, how many images or persons a stream begins with, and what is next."""
    from covdp.privacy import equation

    (row,) = book.show(made.population)
    where = book.database.place.removeprefix("ledger ")
    found, pages, refused, here = _checked(made, ledger)
    if output.json:
        print_json({"config": config, "ledger": where, "account": row, **found, **pages})
        return
    print_line(config if output.quiet else f"config   {config}")
    more = ["--ledger", ledger] if ledger else []
    names = MENDING if refused else NEXT
    commands = [shlex.join(["covdp", x, "--config", str(config), *more]) for x in names]
    left = equation(row.left, 6, left=True) if row.left else "nothing"
    opening = "stream   a class has its first mean at {:,} {}s{}"
    for line in (
        f"ledger   {where}",
        f"account  {made.population}: {left} left of {equation(row.budget, 6)}",
        *([opening.format(made.nights.first_mean, made.unit, here)] if made.nights else ()),
        *(f"check    {page}" for page in pages.values()),
        *(f"{'' if place else 'decide':8} {text}" for place, text in enumerate(found["decide"])),
        *(["refused  covdp release, until this is decided or mended"] if refused else ()),
        *(f"note     {text}" for text in found["notes"]),
        *(f"next     {command}" for command in commands),
    ):
        output.show(escape(line))


def _account(address: str | Path, population: str) -> "Account | None":
    """Return an account, None where there is none, or no ledger."""
    from covdp.ledger import open_ledger

    try:
        return next(iter(open_ledger(address).show(population)))
    except LedgerError:  # of a damaged ledger making it says more
        return None


def _check_answers(card: Path, answers: Mapping[str, object], missing: list[str]) -> None:
    """Raise `ConfigError` where options are missing and there is no terminal to ask on."""
    if not missing or (sys.stdin and sys.stdin.isatty()):
        return
    values = {"population": "NAME", "total": f"{TOTAL:g}", "budget": f"{BUDGET:g}"}
    words = {key: str(value) for key, value in answers.items() if value is not None}
    words |= {key: values[key] for key in missing}
    options = [word for key, value in words.items() for word in (f"--{key}", value)]
    raise ConfigError(
        f"there is no terminal to ask on; give {', '.join(f'--{key}' for key in missing)}, as in "
        f"`{shlex.join(['covdp', 'start', str(card), *options])}`"
    )


def _ask(what: str, proposed: Value, kind: Callable[[str], Value]) -> Value:
    """Return what somebody at the terminal answers; Enter takes what is proposed."""
    while True:
        print(f"{what} [{proposed}]: ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer:
            raise ConfigError(f"{what}: there was no answer; give it with an option")
        try:
            return kind(answer.strip()) if answer.strip() else proposed
        except ValueError:
            print(f"{what} must be a number, found {answer.strip()[:60]!r}", file=sys.stderr)
