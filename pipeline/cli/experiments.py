"""Commands on public images: run, reproduce, report."""

from pathlib import Path

from pipeline.cli.options import PLAIN, DataRoot, Out, Printing, begin, print_json, print_paths


def run(
    *,
    dataset: str | None = None,
    config: Path | None = None,
    descriptor: str | None = None,
    data_root: DataRoot = None,
    out: Out = None,
    seed: int | None = None,
    runner: str = "threads",
    how: Printing = PLAIN,
) -> None:
    """Run every configured mechanism on every class, and write Parquet and a report.

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
    from pipeline.datasets import find_card
    from pipeline.files import owner_only

    begin(how)
    chosen = load_config(config, dataset=dataset, descriptor=descriptor, seed=seed)
    with owner_only(find_card(chosen.dataset).own):
        paths = run_experiment(chosen, root=data_root, out=out, runner=runner)
    print_paths(paths, how)


def reproduce(
    *names: str,
    quick: bool = False,
    chains: bool = True,
    dataset: str | None = None,
    data_root: DataRoot = None,
    out: Out = None,
    how: Printing = PLAIN,
) -> None:
    """Run the papers' experiments by name, or all of them, and write Parquet and one report.

    What was interrupted goes on where it stopped. A dataset that cannot be had is neither done nor
    failed: it is listed with the command that gets and runs it, and the rest goes on. The exit code
    is 2 if an experiment given by name could not run on any of its datasets, otherwise 0; after
    `all`, missing data alone is never an error.

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
        A dataset for the experiments on images, in place of their own; a card of your own must say
        public = true, as for `covdp run`.
    """
    from flows.launch import run_reproduction
    from pipeline.datasets import find_card
    from pipeline.errors import DatasetError
    from pipeline.experiments.registry import choose
    from pipeline.files import owner_only

    begin(how)
    configs = choose(names, quick=quick, chains=chains, dataset=dataset)
    on_images = (item for item in configs if item.source is None and item.composition is None)
    with owner_only(any(find_card(item.dataset).own for item in on_images)):
        options = [*["--quick"] * quick, *["--no-chains"] * (not chains)]
        found = run_reproduction(configs, root=data_root, out=out, options=options)
    if how.json:
        print_json({**found.paths, "runs": found.runs})
    else:
        print("".join(f"{line}\n" for line in found.lines if not how.quiet), end="")
        print_paths(found.paths, how)
    if found.without and "all" not in names:
        where = "the commands above get them"
        if how.json or how.quiet:
            where = "the report has the commands that get them"
        raise DatasetError(f"no data at all for {', '.join(found.without)}; {where}")


def report(folder: Path, *, out: Path | None = None, how: Printing = PLAIN) -> None:
    """Build the report of a results folder again.

    ```
    covdp report reports/output/main-tiles
    ```

    Parameters
    ----------
    folder
        The folder that `covdp run` or `covdp reproduce` wrote.
    out
        The page's file; FOLDER/report.html when left out.
    """
    from pipeline.report import build_report

    begin(how)
    page = build_report(folder, target=out)
    if how.json:
        print_json({"report": page})
    else:
        print(page)
