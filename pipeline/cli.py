"""The `covdp` command: every door a person or a scheduler comes in by.

Exit code 0 means done, 2 means that something given was wrong and one line on stderr says what.
"""

import sys
from pathlib import Path
from typing import Annotated

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
    for title, path in paths.items():
        print(f"{title:8} {path}")


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
