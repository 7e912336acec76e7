"""Commands on public images: run, reproduce, report."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.table import Column

from covdp.cli.options import PLAIN, DataRoot, Out, Printing, Written
from covdp.cli.output import new_table, numbers, print_json, print_line

if TYPE_CHECKING:
    from covdp.config import ExperimentConfig
    from covdp.experiments.images import Run


@Parameter(name="*")
@dataclass(frozen=True)
class Overrides:
    """What `run` and `reproduce` change of an experiment, and where they run it.

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
        Repetitions, in place of the experiment's; a series with a number of its own keeps it where
        it is smaller.
    runner
        Where classes are worked on side by side: threads, as `run` does it, processes, as
        `reproduce` does, dask, or the address of a Dask scheduler.
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

    Results stand in a folder named by the run and by what is given besides, such as
    `covdp-output/main-pathmnist-grid11`. The same run goes on there; other settings are refused
    where they would write over results.

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
    runs, page = _start([config], overrides, needs_data=True)
    if not (output.json or output.quiet):
        print_bound(page.parent)
    results = runs[0].table if len(runs) == 1 else page.parent / "results"
    output.paths({"results": results, "report": page})


def print_bound(folder: Path) -> None:
    """Print the proven bound of the one run in a folder, and how far each class fills it."""
    from covdp.report import bound_in_words, load_runs

    runs = load_runs(folder)
    for place, words in enumerate(bound_in_words(runs[0]) if len(runs) == 1 else ()):
        print_line(f"{'' if place else 'bound':8} {words}")


def reproduce(
    *experiments: str,
    listing: Annotated[bool, Parameter("--list", negative="", show_default=False)] = False,
    quick: bool = False,
    chains: bool = True,
    overrides: Overrides = NO_OVERRIDES,
    output: Printing = PLAIN,
) -> None:
    """Run experiments by name or file, or all, the papers' and ours; write Parquet and a report.

    The report of several is an index of what holds and what does not, and a page each.
    What was interrupted goes on where it stopped. A dataset that cannot be had is neither done nor
    failed: it is listed with the command that gets and runs it, and the rest goes on. The exit code
    is 2 if an experiment that was asked for could not run on any of its datasets, otherwise 0;
    after `all`, missing data alone is never an error. Images of your own must say public = true.

    ```
    covdp reproduce --list
    covdp reproduce ew-simulation tg-timing
    covdp reproduce all --quick
    covdp reproduce my-experiment.toml --seed 7 --repetitions 20
    covdp reproduce ew-octmnist --dataset pneumoniamnist --data-root ~/medmnist
    ```

    Parameters
    ----------
    experiments
        Names of experiments (`--list` has them), files of your own (TOML), or `all`.
    listing
        List the experiments and run none: title, datasets at hand, minutes of a whole run.
    quick
        At most 10 repetitions, and of sets that are timed the smallest; all else stays as it is.
    chains
        Run the published Markov chains too, which take most of the time.
    """
    if listing:
        _list(experiments or ("all",), overrides.data_root, output)
        return
    runs, page = _start(experiments, overrides, quick=quick, chains=chains)
    from covdp.errors import DatasetError
    from covdp.experiments.record import outcome

    summary = outcome(runs, page, overrides.out)
    if output.json:
        print_json({**summary.paths, "runs": summary.runs})
    else:
        for line in () if output.quiet else summary.lines:
            print_line(line)
        output.paths(summary.paths)
    if summary.without and "all" not in experiments:
        where = "the commands above get them"
        if output.json or output.quiet:
            where = "the report has the commands that get them"
        raise DatasetError(f"no data at all for {', '.join(summary.without)}; {where}")


def _list(experiments: Sequence[str], root: Path | None, output: Printing) -> None:
    """Print a row per experiment: what it is, which of its datasets are here, how long it takes."""
    from covdp.datasets import find_card, is_on_disk
    from covdp.experiments.registry import load_experiments

    groups: dict[str, list[ExperimentConfig]] = {}
    for config in load_experiments(*experiments):
        groups.setdefault(config.name, []).append(config)
    rows, lines = [], []
    for name, configs in groups.items():
        first, on_images = configs[0], [config for config in configs if config.on_images]
        here = {
            config.dataset_name: is_on_disk(find_card(config.dataset), root, config.size)
            for config in on_images
        }
        local, missing = ([key for key, there in here.items() if there is x] for x in (True, False))
        rows.append(
            {
                "name": name,
                "title": first.title,
                "paper": first.paper,
                "at_hand": local,
                "missing": missing,
                "minutes": first.minutes,
            }
        )
        at_hand = ", ".join(local) if on_images else "none needed"
        minutes = "" if first.minutes is None else f"{first.minutes:.2g}"
        lines.append((name, first.title, at_hand, ", ".join(missing), minutes))
    name_head, minutes_head = Column("name", no_wrap=True), *numbers("minutes")
    heads = "title", "data at hand", "missing"
    output.answer(rows, new_table(name_head, *heads, minutes_head, rows=lines))


def _start(
    sources: Sequence[str | Path | None],
    overrides: Overrides,
    *,
    quick: bool = False,
    chains: bool = True,
    needs_data: bool = False,
) -> tuple[tuple["Run", ...], Path]:
    """Load experiments, None being the main job; run them, and return the runs and the report."""
    from functools import partial

    from covdp.parallel import check_runner, threads, workers

    runner = overrides.runner or ("threads" if needs_data else "processes")
    check_runner(runner)  # before imports that take seconds on a busy machine
    from covdp.experiments.registry import MAIN, changed_words, load_experiments
    from covdp.jobs import default_out, perform, run_experiments

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
        The page's file; FOLDER/report.html when left out. Of several experiments it is the index,
        and their pages are beside it, in a folder of its name and -pages.
    """
    from covdp.addons.papers.site import build_report

    page = build_report(folder, target=out)
    if output.json:
        print_json({"report": page})
    else:
        print_line(page)
