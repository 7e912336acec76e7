"""Commands on private images: release, ledger, serve."""

from pathlib import Path
from typing import Literal

from rich.table import Table

from pipeline.cli.options import DataRoot, Ledger, Out, print_paths
from pipeline.cli.options import show as show_table


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
    from pipeline.publish import load_release

    paths = run_release(config, ledger=ledger, root=data_root, out=out, run_key=run_key)
    print_paths(paths)
    show_ledger(load_release(config).population, ledger=ledger)


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

    book = open_ledger(ledger_address(ledger))
    book.set_budget(population, budget_from(definition, total), delta=delta)
    show_ledger(population, ledger=ledger)


def show_ledger(population: str | None = None, *, ledger: Ledger = None) -> None:
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
    show_table(table)


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
        When, in cron's five fields, UTC. A run's key is the date it was planned for.
    """
    from flows.launch_release import serve_release

    serve_release(config, ledger=ledger, root=data_root, out=out, cron=cron)
