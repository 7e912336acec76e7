"""The flow of an experiment on images, step by step, and the flows of experiments without images.

    download ─► describe ─► verify_bound ─► select_footpoint ─► release
                                                                   └─► write_results ─► write_report

Each step is a task, which takes what the one before it returned. The functions are those that
`covdp run` calls (`covdp.experiments.steps`). A task that draws noise is never done again by
itself; what is downloaded and what is written may be. Nothing that a task returns is stored.

Prefect keeps what a task raises, so what is wrong with the user's own images is not shown here: a
file may be named after a person. `covdp` shows it.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from prefect import flow, get_run_logger, task, unmapped
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner

from covdp.config import ExperimentConfig
from covdp.datasets import ImageSource, find_card
from covdp.errors import (
    ConfigError,
    CovdpError,
    DatasetError,
    MismatchError,
    MissingError,
    one_line,
)
from covdp.experiments import (
    EXPERIMENTS,
    MAIN,
    Run,
    changed_words,
    images,
    load_experiments,
    steps,
)
from covdp.experiments.driver import Footpoints
from covdp.experiments.images import VerifiedBound
from covdp.experiments.kinds import EXPERIMENT_KINDS
from covdp.experiments.record import outcome, write_missing
from covdp.experiments.steps import (
    ClassSeries,
    DrawnCells,
    SelectedFootpoints,
    beside,
    with_footpoint,
)
from covdp.files import default_out, owner_only
from covdp.parallel import cores
from covdp.report import build_report, headline_of
from covdp.results import read_record
from covdp.store import StoredImages

RUNNER: Any = ThreadPoolTaskRunner(max_workers=cores())
BEGUN: list[Any] = []
"""The flow runs of this process."""
P = ParamSpec("P")
T = TypeVar("T")


def withheld(work: Callable[P, T]) -> Callable[P, T]:
    """Return `work` with the words taken from its errors about the user's own images.

    Its first argument is the run. What is public keeps its words.

    Parameters
    ----------
    work : callable
        Task, whose first argument is the run.
    """

    @wraps(work)
    def done(*arguments: P.args, **named: P.kwargs) -> T:
        run = cast(Run, named.get("run", arguments[:1] and arguments[0]))
        if not is_own(run.config):
            return work(*arguments, **named)
        try:
            return work(*arguments, **named)
        except (MismatchError, MissingError):
            raise
        except DatasetError:
            pass  # what follows is raised outside, so that no traceback holds the cause
        words = ["covdp", "check", "--dataset", run.config.dataset]
        words += ["--data-root", str(run.root)] if run.root else []
        raise DatasetError(
            "the images are not all as their card says; which one and why is withheld, as Prefect "
            f"keeps these words; `{shlex.join(words)}` shows it"
        )

    return done


class Downloaded(NamedTuple):
    """The images of a run, opened.

    Prefect draws an edge for whatever a task returns and another takes, and for parts of it: of
    this the source alone, not what it holds.

    Attributes
    ----------
    source : ImageSource
        Opened dataset.
    """

    source: ImageSource


def may_pass(task: object, task_run: object, state: State[object]) -> bool:
    """Return True if a download failed for a reason that may pass: a server, or the way there.

    Parameters
    ----------
    task : object
        Task of Prefect; not used.
    task_run : object
        Run of the task; not used.
    state : State
        State in which the task failed.
    """
    error = state.result(raise_on_failure=False)
    return isinstance(error, MissingError) and error.passing


def is_own(config: ExperimentConfig) -> bool:
    """Return True if an experiment is on the user's own images.

    Parameters
    ----------
    config : ExperimentConfig
        Config of the experiment.
    """
    return config.on_images and find_card(config.dataset).own


@task(
    name="download",
    task_run_name="download",
    retries=3,
    retry_delay_seconds=[2, 10, 30],
    retry_condition_fn=may_pass,
    persist_result=False,
)
@withheld
def download(run: Run) -> Downloaded:
    """Have the images on disk with the right digest.

    Parameters
    ----------
    run : Run
        Run of the experiment.

    Returns
    -------
    Downloaded
        Dataset on the disk.
    """
    return Downloaded(images.fetch_images(run))


@task(name="describe", task_run_name="describe", persist_result=False)
@withheld
def describe(run: Run, downloaded: Downloaded) -> StoredImages:
    """Turn each image into its covariance descriptor.

    Parameters
    ----------
    run : Run
        Run of the experiment.
    downloaded : Downloaded
        Dataset on the disk.

    Returns
    -------
    StoredImages
        Stored descriptors.
    """
    return images.describe_classes(run, downloaded.source)


@task(name="verify_bound", task_run_name="verify_bound", persist_result=False)
@withheld
def verify_bound(run: Run, descriptors: StoredImages) -> VerifiedBound:
    """Hold every descriptor against the proven radius; leave a table of what was found.

    Parameters
    ----------
    run : Run
        Run of the experiment.
    descriptors : StoredImages
        Stored descriptors of all images.

    Returns
    -------
    VerifiedBound
        Bound of each class, which holds.
    """
    verified = images.verify_bound(run, descriptors)
    create_table_artifact(
        [
            {
                "class": row.class_name,
                "images": row.n,
                "farthest image": f"{row.largest_norm:.2f}",
                "share of r": f"{100 * row.ratio:.1f} %",
                "r": f"{row.radius:.2f}",
                "D": f"{row.diameter:.2f}",
            }
            for row in verified.classes
        ],
        key=artifact_key("bound", run),
        description=f"The bound holds on every image: {verified.domain.in_words}",
    )
    return verified


@task(
    name="select_footpoint",
    task_run_name="{what}, footpoint",
    retries=0,
    cache_policy=NO_CACHE,
    persist_result=False,
)
@withheld
def select_footpoint(
    run: Run, what: ClassSeries, bound: VerifiedBound | None = None
) -> SelectedFootpoints:
    """Draw the private footpoints of a series on a class, for their share of the budget.

    Parameters
    ----------
    run : Run
        Run of the experiment.
    what : ClassSeries
        Series and class.
    bound : VerifiedBound, optional
        Proof that all descriptors are inside their bound; None where none is asked for.

    Returns
    -------
    SelectedFootpoints
        Drawn footpoints.
    """
    with run.timed("footpoints"):
        return steps.select_footpoint(run, what)


@task(
    name="release",
    task_run_name="{what}",
    retries=0,
    cache_policy=NO_CACHE,
    persist_result=False,
)
@withheld
def release(
    run: Run,
    what: ClassSeries,
    footpoints: Footpoints | None,
    bound: VerifiedBound | None = None,
) -> DrawnCells:
    """Draw the private means of a series on a class, at every budget.

    Parameters
    ----------
    run : Run
        Run of the experiment.
    what : ClassSeries
        Series and class.
    footpoints : Footpoints or None
        Drawn footpoints; None where the series has none.
    bound : VerifiedBound, optional
        Proof that all descriptors are inside their bound; None where none is asked for.

    Returns
    -------
    DrawnCells
        Cells that were drawn.
    """
    return steps.release(run, what, footpoints)


@task(
    name="write_results",
    task_run_name="write_results",
    retries=0,
    cache_policy=NO_CACHE,
    persist_result=False,
)
@withheld
def write_results(run: Run, drawn: Sequence[DrawnCells]) -> Path:
    """Write the rows of all classes to one Parquet file.

    Parameters
    ----------
    run : Run
        Run of the experiment.
    drawn : sequence of DrawnCells
        Drawn cells of all classes.

    Returns
    -------
    Path
        Path of the table.
    """
    return steps.write_results(run, sum(item.cells for item in drawn))


@task(
    name="tabulate",
    task_run_name="tabulate",
    retries=0,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def tabulate(run: Run) -> Path:
    """Compute the table of an experiment that draws nothing of a class.

    Parameters
    ----------
    run : Run
        Run of the experiment.

    Returns
    -------
    Path
        Path of the table.
    """
    return steps.tabulate(run)


@task(
    name="write_report",
    task_run_name="write_report",
    retries=2,
    retry_delay_seconds=[2, 10],
    persist_result=False,
)
@withheld
def write_report(run: Run, table: Path) -> Path:
    """Write the page of an experiment, and leave its headline and a link.

    It is where an index expects it if the flow is one of several.

    Parameters
    ----------
    run : Run
        Run of the experiment.
    table : Path
        Path of the table of results.

    Returns
    -------
    Path
        Path of the page.
    """
    several = flow_run.parent_flow_run_id is not None
    target = run.out / "report-pages" / f"{run.config.name}.html" if several else None
    page = build_report(run.out, target=target, experiment=run.config.name)
    create_markdown_artifact(
        f"{headline_of(run.folder, table)}\n\n[Report]({page.as_uri()}) · "
        f"[results]({table.as_uri()})\n",
        key=artifact_key("report", run),
        description=run.config.title,
    )
    return page


@task(
    name="write_index",
    task_run_name="write_index",
    retries=2,
    retry_delay_seconds=[2, 10],
    persist_result=False,
)
def write_index(out: Path) -> Path:
    """Write the report of all experiments of a folder: an index, and a page each.

    Parameters
    ----------
    out : Path
        Folder for results.

    Returns
    -------
    Path
        Path of the index.
    """
    return build_report(out)


def artifact_key(kind: str, run: Run) -> str:
    """Return a key of the letters that Prefect takes.

    Parameters
    ----------
    kind : str
        First word of the key.
    run : Run
        Run of the experiment.
    """
    name = "".join(letter if letter.isalnum() else "-" for letter in run.name.lower())
    return f"{kind}-{name}".encode("ascii", "ignore").decode()


@flow(name="experiment", persist_result=False, task_runner=RUNNER)
def experiment(
    name: str | None = None,
    dataset: str | None = None,
    variant: str | None = None,
    descriptor: str | None = None,
    repetitions: int | None = None,
    quick: bool = False,
    data_root: Path | None = None,
    out: Path | None = None,
) -> Path:
    """Run an experiment on one dataset, and return the path of its report.

    Parameters
    ----------
    name : str, optional
        Name of an experiment, or path of its TOML file; the main job when left out.
    dataset : str, optional
        Name of `covdp datasets`, or path of a card, in place of the experiment's.
    variant : str, optional
        Name of one of the experiment's runs on that dataset, where it has several.
    descriptor : str, optional
        Name of `covdp descriptors`, in place of the experiment's.
    repetitions : int, optional
        Number of repetitions, in place of the experiment's.
    quick : bool
        True for at most 10 repetitions.
    data_root : Path, optional
        Data root; the usual one when left out.
    out : Path, optional
        Folder for results; ``covdp-output`` when left out.

    Returns
    -------
    Path
        Path of the report.
    """
    with opened_run(name, dataset, variant, descriptor, repetitions, quick, data_root, out) as run:
        downloaded = download(run)
        descriptors = describe(run, downloaded)
        bound = verify_bound(run, descriptors)
        paid = with_footpoint(run)
        selected = select_footpoint.map(unmapped(run), paid, unmapped(bound)).result()
        drawn = release.map(unmapped(run), *beside(run, selected), unmapped(bound)).result()
        table = write_results(run, drawn)
        return write_report(run, table)


@flow(name="simulation", persist_result=False, task_runner=RUNNER)
def simulation(
    name: str,
    dataset: str | None = None,
    variant: str | None = None,
    repetitions: int | None = None,
    quick: bool = False,
    out: Path | None = None,
) -> Path:
    """Run an experiment on records that it makes itself; parameters are those of `experiment`.

    Parameters
    ----------
    name : str
        Name of the experiment, or path of a file of one's own.
    dataset : str, optional
        Dataset in place of the experiment's; its own when None.
    variant : str, optional
        Name of one of the experiment's runs.
    repetitions : int, optional
        Number of repetitions in place of the experiment's; its own when None.
    quick : bool
        True for at most 10 repetitions.
    out : Path, optional
        Folder for results.

    Returns
    -------
    Path
        Path of the report.
    """
    with opened_run(name, dataset, variant, None, repetitions, quick, None, out) as run:
        selected = select_footpoint.map(unmapped(run), with_footpoint(run)).result()
        drawn = release.map(unmapped(run), *beside(run, selected)).result()
        table = write_results(run, drawn)
        return write_report(run, table)


@flow(name="tabulation", persist_result=False)
def tabulation(
    name: str,
    dataset: str | None = None,
    variant: str | None = None,
    repetitions: int | None = None,
    quick: bool = False,
    out: Path | None = None,
) -> Path:
    """Compute a table, of no images and no records; parameters are those of `experiment`.

    Parameters
    ----------
    name : str
        Name of the experiment, or path of a file of one's own.
    dataset : str, optional
        Dataset in place of the experiment's; its own when None.
    variant : str, optional
        Name of one of the experiment's runs.
    repetitions : int, optional
        Number of repetitions in place of the experiment's; its own when None.
    quick : bool
        True for at most 10 repetitions.
    out : Path, optional
        Folder for results.

    Returns
    -------
    Path
        Path of the report.
    """
    with opened_run(name, dataset, variant, None, repetitions, quick, None, out) as run:
        table = tabulate(run)
        return write_report(run, table)


@contextmanager
def opened_run(
    name: str | None,
    dataset: str | None,
    variant: str | None,
    descriptor: str | None,
    repetitions: int | None,
    quick: bool,
    data_root: Path | None,
    out: Path | None,
) -> Iterator[Run]:
    """Give the run that a flow is asked for, checked before anything else is done.

    What is written meanwhile of the user's own images is readable by their owner alone.

    Parameters
    ----------
    name : str or None
        Name of the experiment, or path of a file of one's own.
    dataset : str or None
        Dataset in place of the experiment's; its own when None.
    variant : str or None
        Name of one of the experiment's runs.
    descriptor : str or None
        Descriptor in place of the experiment's; its own when None.
    repetitions : int or None
        Number of repetitions in place of the experiment's; its own when None.
    quick : bool
        True for at most 10 repetitions.
    data_root : Path or None
        Data root; the usual one when None.
    out : Path or None
        Folder for results.

    Raises
    ------
    ConfigError, DatasetError
        As `load_experiments`; and when the experiment has several runs, and none is named.
    """
    BEGUN.append(flow_run.id)
    configs = [
        config
        for config in load_experiments(
            name or str(MAIN),
            dataset=dataset,
            descriptor=descriptor,
            repetitions=repetitions,
            quick=quick,
        )
        if variant in (None, config.variant)
    ]
    if len(configs) != 1:
        runs = ", ".join(config.run_name for config in configs) or "none"
        raise ConfigError(
            f"{name or 'main'} must be one run, found {runs}; name dataset and variant of one"
        )
    (config,) = configs
    words = changed_words(
        name or str(MAIN), quick=quick, descriptor=descriptor, repetitions=repetitions
    )
    folder = (out or default_out(config.run_name, *words)).resolve()
    with owner_only(is_own(config)):
        run = Run(config, data_root and data_root.resolve(), folder)
        steps.begin_run(run)
        yield run


def flow_of(config: ExperimentConfig) -> Any:
    """Return the flow that an experiment is for; clocks are read by one task at a time.

    Parameters
    ----------
    config : ExperimentConfig
        Config of the experiment.
    """
    kind = EXPERIMENT_KINDS[config.kind]
    if kind.table is not None:
        return tabulation
    chosen = experiment if config.on_images else simulation
    if kind.parallel:
        return chosen
    alone: Any = ThreadPoolTaskRunner(max_workers=1)
    return chosen.with_options(task_runner=alone)


@flow(name="experiments", persist_result=False)
def experiments(
    names: Sequence[str] = (),
    datasets: Sequence[str] = (),
    descriptor: str | None = None,
    repetitions: int | None = None,
    quick: bool = False,
    data_root: Path | None = None,
    out: Path | None = None,
) -> Path:
    """Run experiments one after another, a flow each, and return the path of their index.

    A dataset that cannot be had is left out, and the index has the command that gets it. What else
    fails is raised when all others are done.

    Parameters
    ----------
    names : sequence of str
        Names, TOML files, or ``all``; the main job when left out.
    datasets : sequence of str
        Dataset of each experiment; its own datasets when left out.
    descriptor : str, optional
        Descriptor in place of each experiment's; their own when left out.
    repetitions : int, optional
        Number of repetitions, in place of each experiment's.
    quick : bool
        True for at most 10 repetitions.
    data_root : Path, optional
        Data root; the usual one when left out.
    out : Path, optional
        Folder for results; ``covdp-output`` when left out.

    Returns
    -------
    Path
        Path of the index.

    Raises
    ------
    MissingError
        When an experiment that was named ran on none of its datasets, or a dataset that was named
        had no data.
    """
    BEGUN.append(flow_run.id)
    changes: dict[str, Any] = {"repetitions": repetitions, "quick": quick}
    words = changed_words(*(names or [str(MAIN)]), descriptor=descriptor, **changes)
    folder = out or default_out("reproduce" if names else "main", *words)
    parts = [
        (name, config)
        for name in (EXPERIMENTS if "all" in names else names or [str(MAIN)])
        for dataset in (*datasets,) or (None,)
        for config in load_experiments(name, dataset=dataset, descriptor=descriptor, **changes)
    ]
    runs = [Run(config, data_root and data_root.resolve(), folder.resolve()) for _, config in parts]
    with owner_only(any(is_own(run.config) for run in runs)):
        errors = list[CovdpError]()
        for (name, config), run in zip(parts, runs, strict=True):
            asked: dict[str, Any] = {"name": name, "dataset": config.dataset}
            asked |= {"variant": config.variant}
            if config.on_images:
                asked |= {"descriptor": descriptor, "data_root": data_root}
            try:
                flow_of(config)(**asked, **changes, out=folder)
            except MissingError as error:
                write_missing(run, error)
            except CovdpError as error:
                get_run_logger().error("%s: %s", run.name, one_line(error))
                errors.append(error)
        page = write_index(folder) if any(run.log.is_file() for run in runs) else None
    for fault in errors:
        raise fault
    assert page is not None  # a run that has no record has failed
    without = outcome(runs, page, folder).without
    if datasets and (gone := [run.name for run in runs if read_record(run.log).status != "ok"]):
        raise MissingError(
            f"{len(gone)} of {len(runs)} runs had no data: {', '.join(gone)}; {page} has the "
            "commands that get it, and the others are there"
        )
    if without and "all" not in names:
        raise MissingError(
            f"no data at all for {', '.join(without)}; {page} has the commands that get them"
        )
    return page
