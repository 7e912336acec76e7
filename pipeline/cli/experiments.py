"""Commands on public images: run, report."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from covdp.cli.options import PLAIN, DataRoot, Out, Printing, Written
from covdp.cli.output import print_json, print_line

if TYPE_CHECKING:
    from covdp.experiments.images import Run


@Parameter(name="*")
@dataclass(frozen=True)
class Overrides:
    """Options with which `run` and `reproduce` change an experiment, and its place.

    Parameters
    ----------
    dataset
        A name from `covdp datasets`, or a card of your own (a TOML file), in place of the
        experiment's.
    descriptor
        The descriptor, in place of the experiment's: `covdp descriptors` says for which images each
        is.
    seed
        Seed of all random streams, in place of the experiment's.
    repetitions
        Repetitions, in place of the experiment's. A series with a smaller number of its own keeps
        that.
    runner
        Kind of workers, each of which takes a class: `threads`, `processes`, `dask`, or the address
        of a Dask scheduler [threads for run, processes for reproduce].
    """

    dataset: str | None = None
    descriptor: str | None = None
    seed: int | None = None
    repetitions: int | None = None
    data_root: DataRoot = None
    out: Out = None
    runner: str | None = None


NO_OVERRIDES = Overrides()
"""No option given."""


def run(
    *, config: Path | None = None, overrides: Overrides = NO_OVERRIDES, output: Printing = PLAIN
) -> None:
    """Run every configured mechanism on every class, and write Parquet and a report.

    Results are written to a folder named by the run and its options, such as
    `covdp-output/main-pathmnist-grid11`. A run that was interrupted is continued there. A folder
    with results of other settings is refused.

    The report shows sample images, true means and errors: images of your own need `public = true`
    in their card. What is written about them is readable by you alone (0600 in folders 0700).

    ```
    covdp run
    covdp run --dataset pneumoniamnist --data-root ~/medmnist --out results
    covdp run --dataset pathmnist --descriptor grid11
    covdp run --config my-experiment.toml --runner dask
    ```

    Parameters
    ----------
    config
        An experiment in TOML, anywhere; the built-in main job when left out.
    """
    runs, page = start_experiments([config], overrides, needs_data=True)
    if not (output.json or output.quiet):
        print_bound(page.parent)
    results = runs[0].table if len(runs) == 1 else page.parent / "results"
    output.paths({"results": results, "report": page})


def print_bound(folder: Path) -> None:
    """Print the proven bound of the one run in a folder, and how far each class fills it.

    Parameters
    ----------
    folder : Path
        Folder of results.
    """
    from covdp.report import bound_in_words, load_runs

    runs = load_runs(folder)
    for place, words in enumerate(bound_in_words(runs[0]) if len(runs) == 1 else ()):
        print_line(f"{'' if place else 'bound':8} {words}")


def start_experiments(
    sources: Sequence[str | Path | None],
    overrides: Overrides,
    *,
    quick: bool = False,
    chains: bool = True,
    needs_data: bool = False,
) -> tuple[tuple["Run", ...], Path]:
    """Load experiments, None being the main job; run them, and return the runs and the report.

    Parameters
    ----------
    sources : sequence of str or Path or None
        Names or files of experiments; None is the main job.
    overrides : Overrides
        Options that change the experiments.
    quick : bool
        True for few repetitions.
    chains : bool
        False to leave series by Markov chains out.
    needs_data : bool
        True if images that cannot be had are an error, and not a run that is left out.

    Returns
    -------
    runs : tuple of Run
        Runs of the experiments.
    page : Path
        Report of all.
    """
    from functools import partial

    from covdp.parallel import check_runner, threads, workers

    runner = overrides.runner or ("threads" if needs_data else "processes")
    check_runner(runner)  # before imports that take seconds on a busy machine
    from covdp.experiments.registry import MAIN, changed_words, load_experiments
    from covdp.files import default_out
    from covdp.runs import perform, run_experiments

    names = [MAIN if source is None else source for source in sources]
    keys = ("dataset", "descriptor", "seed", "repetitions")
    changes = {key: getattr(overrides, key) for key in keys} | {"quick": quick, "chains": chains}
    configs = load_experiments(*names, **changes)
    words = changed_words(*names, **changes)
    with workers(runner) as unordered, ThreadPoolExecutor(threads()) as pool:
        return run_experiments(
            configs,
            partial(perform, workers=unordered, shown=len(configs) == 1),
            side_by_side=pool.map,
            root=overrides.data_root,
            out=overrides.out
            or default_out(configs[0].run_name if needs_data else "reproduce", *words),
            needs_data=needs_data,
        )


def report(
    folder: Path, *, out: Annotated[Path | None, Written()] = None, output: Printing = PLAIN
) -> None:
    """Build the report of a results folder again.

    ```
    covdp report covdp-output/main-tiles
    ```

    Parameters
    ----------
    folder
        The folder that `covdp run` or `covdp reproduce` wrote.
    out
        File of the page [FOLDER/report.html]. If there are several experiments it is their index,
        and a folder beside it, NAME-pages, has a page of each.
    """
    from covdp.report import build_report

    page = build_report(folder, target=out)
    if output.json:
        print_json({"report": page})
    else:
        print_line(page)
