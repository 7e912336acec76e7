"""Commands on the published experiments and our own: reproduce."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.table import Column

from covdp.cli.experiments import NO_OVERRIDES, Overrides, start_experiments
from covdp.cli.options import PLAIN, Printing
from covdp.cli.output import new_table, numbers, print_json, print_line

if TYPE_CHECKING:
    from covdp.config import ExperimentConfig


def reproduce(
    *experiments: str,
    listing: Annotated[bool, Parameter("--list", negative="", show_default=False)] = False,
    quick: bool = False,
    chains: bool = True,
    overrides: Overrides = NO_OVERRIDES,
    output: Printing = PLAIN,
) -> None:
    """Run experiments by name or file, or all, the papers' and ours; write Parquet and a report.

    The report of several experiments is an index of the statements that hold and that do not, and a
    page of each experiment. A run that was interrupted goes on where it stopped. If a dataset is
    missing, the report has the command that gets and runs it, and the other datasets go on. The
    exit code is 2 if a named experiment has none of its datasets. With `all`, missing data are no
    error. The card of your own images must say public = true.

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
        At most 10 repetitions, and the smallest sizes of timings. All other settings are those of
        the experiment.
    chains
        Run the published Markov chains too, which take most of the time.
    """
    if listing:
        _list(experiments or ("all",), overrides.data_root, output)
        return
    runs, page = start_experiments(experiments, overrides, quick=quick, chains=chains)
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
