"""Use of private means: whether they still tell the classes of a run apart.

On public images, as all of an experiment: true means are looked at. The draws are others than those
of the run's table, so that a table that is complete is never drawn again.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray, evenly
from covdp.config import ExperimentConfig, SeriesConfig
from covdp.errors import ConvergenceError, DomainError, UndefinedError
from covdp.experiments.driver import (
    ClassData,
    Setting,
    admitted,
    budget_of,
    stream_seed,
    unit_of,
)
from covdp.experiments.images import Run, class_images, image_setting
from covdp.experiments.kinds import EXPERIMENT_KINDS
from covdp.files import write_whole
from covdp.geometry import Manifold, Point
from covdp.mean import AdaptivePlan, Records, SinglePlan, draw, prepare
from covdp.mechanisms import MECHANISMS
from covdp.mechanisms.noise import FloatNoise
from covdp.parallel import side_by_side

DRAWS = 10
"""Private means of each class, series and budget."""
CLASSIFIED = 2_000
"""Largest number of classified records of a class, spread over all of them."""


def judged(config: ExperimentConfig) -> tuple[SeriesConfig, ...]:
    """Return the judged series: the best one, and the one that others are compared with.

    The best is the last adaptive one, else the last. Chains, noise that leaves the manifold, and
    means that are not private are left out; so are published experiments, which ask something else.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    """
    if not EXPERIMENT_KINDS[config.kind].useful or config.paper or not config.on_images:
        return ()
    sound = [
        series
        for series in config.mechanisms
        if series.sampler == "exact" and not MECHANISMS[series.mechanism].embedded
        if not isinstance(series.plan, SinglePlan) or series.plan.private
    ]
    best = [series for series in sound if isinstance(series.plan, AdaptivePlan)] or sound
    chosen = [*(series for series in sound if series.series == config.baseline), *best[-1:]]
    return tuple({series.series: series for series in chosen}.values())


def measure_usefulness(run: Run, fingerprint: str) -> None:
    """Write ``use.json`` in the folder of the run, unless it is there for the same table.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    fingerprint : str
        Fingerprint of the table.
    """
    path = run.folder / "use.json"
    if path.is_file() and json.loads(path.read_bytes())["fingerprint"] == fingerprint:
        return
    measurement = {"fingerprint": fingerprint, **_measured(run)}
    write_whole(path, json.dumps(measurement, allow_nan=False))


def _measured(run: Run) -> dict[str, Any]:
    """Return what is measured, as JSON values."""
    series, setting = judged(run.config), image_setting(run)
    data = [class_images(run, label) for label in run.labels]
    records = [admitted(images, setting, unit_of(series[-1])) for images in data]
    first, classes = records[0], list(zip(data, records, strict=True))
    true = np.stack([own.frechet.point for own in records])
    chosen = [evenly(own.placed, CLASSIFIED) for own in records]
    points = np.concatenate(chosen)
    truth = np.repeat(np.arange(len(chosen)), list(map(len, chosen)))
    shown = run.config.budgets[len(run.config.budgets) // 2]
    recalls, drawn = [], None
    for item in series:
        for value, means in _means(classes, setting, item):
            with suppress(DomainError, ConvergenceError):  # wider than matrices of doubles hold
                shares = _recalls(first.space, means, points, truth)
                recalls.append({"series": item.series, "budget": value, "kept": shares.tolist()})
                if item is series[-1] and value == shown:
                    drawn = first.on_manifold(means[0]).tolist()
    return {
        "classes": [class_.name for class_ in data],
        "distances": [first.space.dist(point, true).tolist() for point in true],
        "plain": float(_recalls(first.space, true[np.newaxis], points, truth)[0]),
        "kept": recalls,
        "series": series[-1].series,
        "budget": shown,
        "true": first.on_manifold(true).tolist(),
        "private": drawn,
    }


def _means(
    classes: Sequence[tuple[ClassData, Records]], setting: Setting, series: SeriesConfig
) -> Iterator[tuple[float, Point]]:
    """Yield budgets with private means, (`DRAWS`, classes, …); those without a law are left out."""
    ready = [
        prepare(own, series.plan, size=DRAWS, rng=_stream(data, setting, series, "records"))
        for data, own in classes
    ]

    def means(value: float) -> Point | None:
        drawn = []
        try:
            for (data, _), prepared in zip(classes, ready, strict=True):
                budget = budget_of(setting.config.budget(value, series), data.most, unit_of(series))
                with np.errstate(over="ignore", invalid="ignore"):
                    noise = FloatNoise(_stream(data, setting, series, repr(value)))
                    drawn.append(draw(prepared, budget, noise=noise, size=DRAWS)[0].placed)
        except (UndefinedError, DomainError, ConvergenceError):
            return None
        return np.stack(drawn, axis=1)

    with side_by_side() as submit:
        jobs = [(value, submit(means, value)) for value in setting.config.budgets]
        for value, job in jobs:
            if (result := job.result()) is not None:
                yield value, result


def _stream(
    data: ClassData, setting: Setting, series: SeriesConfig, what: str
) -> np.random.Generator:
    """Return a stream of its own, apart from those of the run's table."""
    key = f"use/{data.label}/{series.series}/{what}"
    return np.random.default_rng(stream_seed(setting.config, key))


def _recalls(space: Manifold, means: Point, points: Point, truth: NDArray[np.int64]) -> FloatArray:
    """Return the mean share of a class that is nearest to its own mean, one for each draw.

    Distances are those of coordinates at the first mean, as `nearest_mean` of `covdp.inference`
    has them: ‖x − m‖² = ‖x‖² − 2(⟨x, m⟩ − ‖m‖²/2).
    """
    shares = np.empty(len(means))
    for place, drawn in enumerate(means):
        ends, others = space.log(drawn[0], drawn), space.log(drawn[0], points)
        nearness = others @ ends.T - 0.5 * np.sum(ends * ends, axis=1)
        right = np.argmax(nearness, axis=1) == truth
        shares[place] = np.mean([right[truth == label].mean() for label in range(len(drawn))])
    return shares
