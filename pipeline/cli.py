"""The `covdp` command: every door a person or a scheduler comes in by.

Exit code 0 means done, 2 means that something given was wrong and one line on stderr says what.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console
from rich.table import Column, Table

from pipeline import __version__
from pipeline.errors import CovdpError

app = App(
    name="covdp",
    help="Differentially private mean covariance descriptors of medical images.",
    version=__version__,
    help_format="markdown",
    help_epilogue="Start with `covdp run`, which needs no network.",
)

DataRoot = Annotated[
    Path | None,
    Parameter("--data-root", help="Folder of the datasets [COVDP_DATA, else data/cache]."),
]
Ledger = Annotated[
    str | None,
    Parameter("--ledger", help="Path or database URL of the ledger [COVDP_LEDGER, else your own]."),
]
Out = Annotated[Path | None, Parameter("--out", help="Folder of the results.")]


@app.command
def run(
    *,
    dataset: str | None = None,
    config: Path | None = None,
    descriptor: str | None = None,
    data_root: DataRoot = None,
    out: Out = None,
    seed: int | None = None,
    runner: str = "threads",
) -> None:
    """Run every configured mechanism on every class, and write Parquet and a report.

    ```
    covdp run
    covdp run --dataset pneumoniamnist --data-root ~/medmnist --out results
    covdp run --dataset pathmnist --descriptor grid11
    covdp run --config my-experiment.toml --runner dask
    ```

    Parameters
    ----------
    dataset
        A name from `covdp datasets`, or a card of your own (a TOML file).
    config
        An experiment in TOML; the built-in main job when left out.
    descriptor
        The descriptor, in place of the config's: oct5 or grid9 for gray images, grid11 for colour.
    seed
        Seed of all random streams, in place of the config's.
    runner
        Where tasks run: threads, dask, or the address of a Dask scheduler.
    """
    from flows.launch import run_experiment
    from pipeline.config import load_config

    chosen = load_config(config, dataset=dataset, descriptor=descriptor, seed=seed)
    paths = run_experiment(chosen, root=data_root, out=out, runner=runner)
    _print_paths(paths)


@app.command
def reproduce(
    *names: str,
    quick: bool = False,
    chains: bool = True,
    dataset: str | None = None,
    data_root: DataRoot = None,
    out: Out = None,
) -> None:
    """Run the papers' experiments by name, or all of them, and write Parquet and one report.

    What was interrupted goes on where it stopped. A dataset that cannot be had is reported, and the
    rest goes on.

    ```
    covdp reproduce ew-simulation tg-timing
    covdp reproduce all --quick
    covdp reproduce ew-octmnist --dataset pneumoniamnist --data-root ~/medmnist
    ```

    Parameters
    ----------
    names
        Names of experiments (the README lists them), or `all`.
    quick
        At most 10 repetitions; all else stays as published.
    chains
        Run the published Markov chains too, which take most of the time.
    dataset
        A dataset for the experiments on images, in place of their own.
    """
    from flows.launch import run_reproduction
    from pipeline.experiments.registry import choose

    configs = choose(names, quick=quick, chains=chains, dataset=dataset)
    print("\n".join(run_reproduction(configs, root=data_root, out=out)))


@app.command
def datasets(*, data_root: DataRoot = None) -> None:
    """List the known datasets: images, classes, licence, and whether they are on disk."""
    from pipeline.datasets import overview

    table = Table(
        Column("name", no_wrap=True),
        "images",
        "classes",
        "sizes",
        "licence",
        "on disk",
        title="Datasets",
    )
    for row in overview(data_root):
        table.add_row(*row)
    _show(table)


@app.command
def mechanisms() -> None:
    """List the mechanisms: definitions, manifolds, exact or chain, fit for release or not."""
    from pipeline.mechanisms import MECHANISMS

    heads = (
        Column("name", no_wrap=True),
        "mechanism",
        "definitions",
        "manifolds",
        "drawn",
        "pure",
        "release",
        "note",
    )
    table = Table(*heads, title="Mechanisms", show_lines=True)
    for family in MECHANISMS.values():
        table.add_row(
            family.name,
            family.title,
            ", ".join(family.definitions),
            ", ".join(family.manifolds),
            " or ".join(family.samplers),
            "pure" if family.pure else "approximate",
            "yes" if family.release else "no",
            family.note,
        )
    _show(table)


@app.command
def report(folder: Path, *, out: Out = None) -> None:
    """Build the report of a results folder again.

    ```
    covdp report reports/output/main-tiles
    ```

    Parameters
    ----------
    folder
        The folder that `covdp run` wrote.
    """
    from pipeline.report import build_report

    print(build_report(folder, target=out))


@app.command
def release(
    *,
    config: Path,
    ledger: Ledger = None,
    data_root: DataRoot = None,
    out: Out = None,
    run_key: str | None = None,
) -> None:
    """Release one private mean descriptor per class, and pay for it from the ledger.

    Noise is drawn from an exact sampler; nothing that was computed without noise leaves. Asked
    again with the same images, config and run key, it gives the same release and costs nothing.

    ```
    covdp ledger init
    covdp ledger set-budget ward-7 --definition gdp --total 2
    covdp release --config ward.toml
    ```

    Parameters
    ----------
    config
        The release in TOML: population, dataset, budget, what is public.
    run_key
        Which run this is; the config's, else today's date (UTC).
    """
    from flows.launch_release import run_release

    paths = run_release(config, ledger=ledger, root=data_root, out=out, run_key=run_key)
    _print_paths(paths)


book = App(name="ledger", help="The account of privacy budgets: what was spent, what is left.")
app.command(book)


@book.command
def init(*, ledger: Ledger = None) -> None:
    """Create the ledger where there is none.

    ```
    covdp ledger init
    covdp ledger init --ledger postgresql+psycopg://covdp@dbhost/privacy
    ```
    """
    from pipeline.privacy.ledger import init_ledger
    from pipeline.publish import ledger_address

    print(f"ledger ready: {init_ledger(ledger_address(ledger)).database.place}")


@book.command
def set_budget(
    population: str,
    *,
    total: float,
    definition: Literal["gdp", "zcdp"] = "gdp",
    delta: float | None = None,
    ledger: Ledger = None,
) -> None:
    """Give a population its total budget, or raise it; every change is kept.

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
    from pipeline.privacy import budget_from
    from pipeline.privacy.ledger import open_ledger
    from pipeline.publish import ledger_address

    book_ = open_ledger(ledger_address(ledger))
    book_.set_budget(population, budget_from(definition, total), delta=delta)
    show(population, ledger=ledger)


@book.command
def show(population: str | None = None, *, ledger: Ledger = None) -> None:
    """Show what each population may spend, has spent and has left, also as (ε, δ).

    Parameters
    ----------
    population
        One population only.
    """
    from pipeline.privacy.ledger import open_ledger
    from pipeline.publish import ledger_address

    heads = ("population", "total", "spent", "left", "δ", "ε total", "ε spent", "ε left")
    table = Table(*heads, "releases", "unfinished", title="Ledger")
    for row in open_ledger(ledger_address(ledger)).show(population):
        budgets = [repr(item) if item else "nothing" for item in (row.budget, row.spent, row.left)]
        epsilons = (row.epsilon_budget, row.epsilon_spent, row.epsilon_left)
        shown = [f"{value:.4g}" for value in epsilons]
        counts = [str(row.releases), str(row.unfinished)]
        table.add_row(row.population, *budgets, f"{row.delta:g}", *shown, *counts)
    _show(table)


@app.command
def serve(
    *,
    config: Path,
    out: Out = None,
    data_root: DataRoot = None,
    ledger: Ledger = None,
    cron: str = "0 2 * * *",
) -> None:
    """Release on a schedule from this machine, without a Prefect server of its own.

    ```
    covdp serve --config ward.toml --cron "0 2 * * *"
    ```

    Parameters
    ----------
    config
        The release in TOML, without a run key: each night is a run of its own.
    cron
        When, in cron's five fields.
    """
    from flows.launch_release import serve_release

    serve_release(config, ledger=ledger, root=data_root, out=out, cron=cron)


def _print_paths(paths: Mapping[str, Path]) -> None:
    for title, path in paths.items():
        print(f"{title:8} {path}")


def _show(table: Table) -> None:
    """Print a table, wide enough when nobody's terminal sets the width."""
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def main(tokens: list[str] | None = None) -> int:
    """Run the command line; errors of the user become one line and exit code 2."""
    try:
        app(tokens, exit_on_error=False, print_error=False, result_action="return_none")
    except (CovdpError, CycloptsError) as error:
        print(f"covdp: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("covdp: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
