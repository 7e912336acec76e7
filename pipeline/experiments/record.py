"""The record of a run, ``runs/<run>/run.json``: what was run, on what, how long it took.

The record of a reproduction says which runs there are, which had no data, and how to get these.

**The statement of privacy** of a run says in words what each series guarantees. A guarantee is
printed only for a series that has one: drawn exactly, with the noise that its calibration asks for,
from a sensitivity that is proven, in a definition that can be certified. All others are printed
with the reason why they have none.
"""

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from covdp.config import ExperimentConfig, SeriesConfig
from covdp.datasets import Card, classes_per_person, find_card, origin
from covdp.datasets.source import Selection
from covdp.descriptors import DESCRIPTORS
from covdp.errors import DatasetError, MissingError
from covdp.experiments.driver import UNITS, Setting, all_cells, cell_columns, unit_of
from covdp.experiments.images import Run, image_setting
from covdp.experiments.kinds import EXPERIMENT_KINDS, drawn_labels, source_of
from covdp.geometry import MANIFOLDS
from covdp.mean import SinglePlan, pays_footpoint, shares_of
from covdp.mechanisms import MECHANISMS
from covdp.mechanisms.base import small
from covdp.privacy import Budget, advantage, laplace_epsilon, privacy_statement, repeat
from covdp.privacy.definitions import KLDP, MCDP, ApproxDP, PureDP, RaoDP
from covdp.privacy.statement import classes_rule, equivalent
from covdp.results import (
    ClassCount,
    DatasetNote,
    RunRecord,
    collect_versions,
    machine,
    read_record,
    write_record,
    write_rows,
)

CLASSICAL = 1.0
"""The classical formula of the Gaussian mechanism is proven for ε below this."""
GROUP_TITLE = "Several images of one person"
"""Title in a statement for which the series of a run have different texts."""


def guarantees(config: ExperimentConfig, n_by_class: Mapping[str, int]) -> dict[str, str]:
    """Return the guarantee of one draw of each series at its largest budget.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    n_by_class : mapping of str to int
        Number of privacy units of each class, by its name.

    Returns
    -------
    dict of str to str
        Guarantee by the name of the series, or the reason why there is none.
    """
    out = {}
    for series in config.mechanisms:
        budget = _largest(config, series)
        reason = uncertified(config, series)
        promise = reason or _promise(budget, config, series, sum(n_by_class.values()))
        if not reason and persons_of(config) is not None and UNITS[unit_of(series)].group:
            promise += ", for persons with at most as many images as the one with most here has"
        out[series.series] = promise
    return out


def uncertified(config: ExperimentConfig, series: SeriesConfig) -> str:
    """Return the reason why nothing is certified for a series, "" if something is.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    series : SeriesConfig
        Settings of the series.
    """
    budget = _largest(config, series)
    if isinstance(budget, RaoDP | KLDP | MCDP):
        return f"never certified: {budget} is a label that bounds no (ε, δ)"
    if persons_of(config) is not None and not UNITS[unit_of(series)].protects:
        return f"none for persons: {budget} protects one image, and a person may have many"
    if isinstance(plan := series.plan, SinglePlan) and not plan.private:
        return (
            f"none: its footpoint is {plan.footpoint_distance:g} from the true mean, which only "
            "who knows the records can place"
        )
    if series.sampler == "chain":
        return (
            f"approximate only: {series.burn_in:,} steps of a Markov chain approach the law that "
            f"would give {budget}; no guarantee is proven for the chain itself"
        )
    if series.scale != 1.0:
        return (
            f"not certified: the noise is {series.scale:g} times that of the calibration to "
            f"{budget}, as published"
        )
    if not series.analytic and isinstance(budget, ApproxDP) and budget.epsilon >= CLASSICAL:
        return f"not certified: the classical formula is proven for ε < 1, found {budget}"
    simulated = {name for name, _, _ in config.simulated}
    on_sphere = any(small(MANIFOLDS[name]).curvature[1] > 0 for name in simulated)
    embedded = MECHANISMS[series.mechanism].embedded
    if embedded and series.sensitivity == "radius" and on_sphere:
        return f"not certified: 2r/n does not bound the move of a mean on a sphere, for {budget}"
    return ""


def statement(config: ExperimentConfig, n_by_class: Mapping[str, int]) -> dict[str, str]:
    """Return the statement of privacy of a run: title and text, each series with its own promise.

    Record, neighbours and the like are the same for all series that are certified. The power of an
    attacker is that against the series which gives away most.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    n_by_class : mapping of str to int
        Number of privacy units of each class, by its name.
    """
    promises = guarantees(config, n_by_class)
    alike = defaultdict[str, list[str]](list)
    for name, promise in promises.items():
        alike[promise].append(f"“{name}”")
    text = "; ".join(f"{', '.join(names)}: {promise}" for promise, names in alike.items())
    one = len(alike) == 1 and len(promises) > 1
    text = f"for every series: {next(iter(alike))}" if one else f"by series. {text}"
    certified = [series for series in config.mechanisms if not uncertified(config, series)]
    if not certified:
        return {"Guarantee": f"none is certified. {text[0].upper()}{text[1:]}"}
    budgets = sorted((_largest(config, series) for series in certified), key=advantage)
    statements = [_of(budget, config, n_by_class) for budget in reversed(budgets)]
    several = "image" if persons_of(config) is not None else unit(config)
    pairs = {
        title.replace("image", several): words
        for title, words in statements[0].items()
        if title not in ("Definition", "Implies")
    }
    rules = dict.fromkeys(item[GROUP_TITLE] for item in statements)
    pairs[GROUP_TITLE.replace("image", several)] = " — or ".join(rules)
    seen = "image" if config.on_images else "record"
    pairs["Trust model"] = (
        f"central: the people who run this see the {seen}s. Pages of an experiment may show what a "
        "release never does"
    )
    return pairs | {"Guarantee": f"of one draw at the largest budget, {text}"}


def unit(config: ExperimentConfig) -> str:
    """Return the word for one record, as the statement calls it.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    """
    if persons_of(config) is not None:
        return "person"
    return "image" if config.source is None else "record"


def persons_of(config: ExperimentConfig) -> int | None:
    """Return the number of classes of a person; None where the record is not the person.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    """
    if (source := source_of(config)) is not None:
        return 1 if source.by_person else None
    return classes_per_person(find_card(config.dataset)) if config.on_images else None


def _largest(config: ExperimentConfig, series: SeriesConfig) -> Budget:
    """Return what one draw costs at most, in all classes that a person may be in."""
    return repeat(config.budget(max(config.budgets), series), persons_of(config) or 1)


def _of(budget: Budget, config: ExperimentConfig, n_by_class: Mapping[str, int]) -> dict[str, str]:
    word, classes = unit(config), persons_of(config)
    return privacy_statement(
        budget,
        n_by_class=n_by_class,
        unit=word,
        classes_per_person=classes,
        composition=f"{classes_rule(word, classes)}. Every repetition of every series is one more "
        f"draw from the same {word}s, and the budgets of all draws add up",
    )


def _promise(budget: Budget, config: ExperimentConfig, series: SeriesConfig, n: int) -> str:
    """Return what one draw of a series guarantees; of Laplace noise alone as pure DP, too.

    Of a person in several classes, or with noise for a group of images, ε adds up otherwise: there
    only the budget is stated.
    """
    plan, many = series.plan, persons_of(config)
    alone = isinstance(plan, SinglePlan) and not pays_footpoint(plan)
    alone = alone and (many is None or (many == 1 and not UNITS[unit_of(series)].group))
    if not (alone and MECHANISMS[series.mechanism].pure) or isinstance(budget, PureDP):
        return _with_equivalent(budget, n)
    return f"{PureDP(laplace_epsilon(budget))}, pure: δ = 0, which implies {budget}"


def _with_equivalent(budget: Budget, n: int) -> str:
    """Return the guarantee, with the (ε, δ) it implies of n records where it is of another kind."""
    if isinstance(budget, PureDP):
        return f"{budget}, pure: δ = 0"
    implied = equivalent(budget, None, n)
    return str(budget) if implied == budget else f"{budget}, which implies {implied}"


def write_log(run: Run, notes: Sequence[str]) -> Path:
    """Write the record of a run that has its rows.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    notes : sequence of str
        Notes of this start, which come first.

    Returns
    -------
    Path
        Path of the record.
    """
    config = run.config
    if not config.on_images:
        note = DatasetNote(config.dataset, "made by the experiment itself", origin="simulated")
        counts = tuple[ClassCount, ...]()
        if (made := source_of(config)) is not None:
            sizes = enumerate(n for _, _, n in config.simulated)
            counts = tuple(ClassCount(label, made.title(config, label), n) for label, n in sizes)
        return _write(run, notes, dataset=note, classes=counts)
    source = run.images
    n = source.units(config.splits)
    counts = tuple(ClassCount(label, source.classes[label], n[label]) for label in run.labels)
    note = _note(source.card, origin(source.card))
    facts = (*source.facts, *_persons(config, source.select(config.splits)))
    setting = image_setting(run)
    shares, others = (budget_shares(config, setting, few=few) for few in (False, True))
    few = {series: own for series, own in others.items() if own != shares[series]}
    return _write(
        run,
        notes,
        facts=facts,
        dataset=note,
        classes=counts,
        image_shape=source.shape,
        shares=shares,
        few_shares=few,
    )


def budget_shares(
    config: ExperimentConfig, setting: Setting, *, few: bool
) -> dict[str, dict[str, float]]:
    """Return the share of each step in the budget of a series, where series are private means.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    setting : Setting
        Config, public domain and geometry of the class.
    few : bool
        True for cells of a small n·μ.
    """
    if EXPERIMENT_KINDS[config.kind].footpoints is None:
        return {}
    domain, manifold = setting.domain, setting.manifold
    return {x.series: shares_of(x.plan, domain, manifold, few=few) for x in config.mechanisms}


def write_missing(run: Run, reason: MissingError) -> Path:
    """Write rows with status `data not available`, and a record that says how to get the data.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    reason : MissingError
        Error that says why there are no data, and the way out.

    Returns
    -------
    Path
        Path of the table.

    Raises
    ------
    DatasetError
        When there is a table of an earlier run of this name that had its data: it stays.
    """
    config = run.config
    if run.log.is_file() and read_record(run.log).status == "ok":
        raise DatasetError(f"{reason}; {run.table} of an earlier run stays as it is") from reason
    card = find_card(config.dataset)
    cells = all_cells(config, drawn_labels(run))
    manifold = MANIFOLDS[config.manifold](k=DESCRIPTORS[config.descriptor].k)
    rows = [cell_columns(config, cell, card.classes[cell.label], manifold) for cell in cells]
    columns: dict[str, ArrayLike] = {name: [row[name] for row in rows] for name in rows[0]}
    columns |= {"seed": np.array([row["seed"] for row in rows], dtype=np.uint64)}
    columns |= {"n": 0, "sensitivity": np.inf, "repetition": 0, "status": "data not available"}
    write_rows(run.table, columns, metadata={})
    _write(run, dataset=_note(card, ""), reason=str(reason), status="data not available")
    return run.table


def _write(run: Run, notes: Sequence[str] = (), *, reason: str = "", **fields: Any) -> Path:
    """Write the record with some `fields`, and those that follow from the config."""
    config, sizes = run.config, {item.name: item.n for item in fields.get("classes", ())}
    paper = config.paper and f"Reproduces {config.paper}."
    record = RunRecord(
        experiment=config.name,
        title=config.title,
        config=config.model_dump(mode="json"),
        command=command(run),
        baseline=config.baseline,
        seed=config.seed,
        versions=collect_versions(),
        machine=machine(),
        privacy=statement(config, sizes) if sizes else {},
        guarantees=guarantees(config, sizes) if sizes else {},
        unit=_unit(config),
        notes=tuple(filter(None, (reason, paper, *notes, *config.open))),
        steps=run.steps,
        started=run.started.isoformat(timespec="milliseconds"),
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        **fields,
    )
    return write_record(run.log, record)


def _note(card: Card, origin: str) -> DatasetNote:
    return DatasetNote(card.name, card.title, card.licence, card.url, origin)


def command(run: Run, out: Path | None = None) -> str:
    """Return the command that runs the same again, "" where it is not known.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    out : Path, optional
        The folder of results, where one was named.
    """
    config = run.config
    if not config.words:
        return ""
    words = ["covdp", *config.words]
    words += ["--dataset", config.dataset] if config.on_images else []
    for option, folder in (("--data-root", config.on_images and run.root), ("--out", out)):
        words += [option, str(folder)] if folder else []
    return shlex.join(words)


def _persons(config: ExperimentConfig, chosen: Selection) -> tuple[str, ...]:
    """Say how many images are whose, which a run on public images may."""
    if persons_of(config) is None:
        return ()
    _, many = np.unique(np.stack([chosen.labels, chosen.units]), axis=1, return_counts=True)
    return (
        f"One record is the mean of one person's images: {many.sum():,} images make "
        f"{len(many):,} records, of {many.min()} to {many.max()} images each.",
    )


def _unit(config: ExperimentConfig) -> str:
    """Return what one record is."""
    if EXPERIMENT_KINDS[config.kind].table is not None:
        return "query"
    if config.source is None:
        return unit(config)
    if (source := source_of(config)) is not None and source.unit:
        return source.unit
    units = {getattr(MANIFOLDS[name], "unit", "point") for name in config.manifolds}
    return units.pop() if len(units) == 1 else "record"


class Outcome(NamedTuple):
    """Summary of runs, as it is printed in the end.

    Attributes
    ----------
    lines : tuple of str
        Lines on each run without data, its reason and the command that gets and runs it; then the
        count of both.
    without : tuple of str
        The experiments that ran on none of their datasets.
    runs : tuple of mapping
        The same for programs: run, whether it is done, why not, and the command that gets it.
    paths : mapping of str to Path
        Paths of the results and of the report.
    """

    lines: tuple[str, ...]
    without: tuple[str, ...]
    runs: tuple[Mapping[str, Any], ...]
    paths: Mapping[str, Path]


def outcome(runs: Sequence[Run], page: Path, out: Path | None) -> Outcome:
    """Read the results that the runs left behind.

    Parameters
    ----------
    runs : sequence of Run
        Runs that were made.
    page : Path
        The report.
    out : Path, optional
        The folder of results as it was given, for the commands.

    Returns
    -------
    Outcome
        Summary that is printed.
    """
    lines, ran, reports = list[str](), dict[str, bool](), list[Mapping[str, Any]]()
    for run in runs:
        record = read_record(run.log)
        done = record.status == "ok"
        ran[run.config.name] = ran.get(run.config.name, False) or done
        reason = fetch = None
        if not done:
            reason, fetch = (*record.notes, record.status)[0], command(run, out)
            lines.append(f"not run  {record.run}: {reason}")
            lines.append(f"         gets and runs it: {fetch}")
        reports.append({"run": record.run, "done": done, "reason": reason, "command": fetch})
    missing = len(lines) // 2
    summary = f"{len(runs) - missing} run, {missing} not run"
    lines.append(f"summary  {summary}: no data" if missing else f"summary  {summary}")
    without = tuple(name for name, done in ran.items() if not done)
    paths = {"results": page.parent / "results", "report": page}
    return Outcome(tuple(lines), without, tuple(reports), paths)
