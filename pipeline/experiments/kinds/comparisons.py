"""Tests of two releases, or of one and local records: how often one population looks like two.

In each repetition n records are drawn from a class and others from what it is compared with: the
same class, the same with all its images changed, or the next class. Both are drawn with
replacement, so the classes are the populations, and released; the test sees the releases alone. Of
kind matches the second are not released: they are local records, in the clear (`match`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from pipeline.descriptors import describe
from pipeline.experiments.driver import (
    Cell,
    CellRows,
    ClassData,
    ExperimentKind,
    Population,
    Setting,
    batches,
    describe_cell,
    place,
    population,
    records_of,
    stream_seed,
)
from pipeline.experiments.images import CHANGES, Run, described, image_setting, rare_images
from pipeline.geometry import Point
from pipeline.inference import match, match_refusal, two_sample
from pipeline.mean import Release

LEVEL = 0.05
"""Level of the tests whose outcome is written down."""
SAME, OTHER = "none", "class"
"""What `change` of a series may be, beside `CHANGES`: the same class, the next one."""


class Populations(NamedTuple):
    """A class, what it is compared with by what was changed and how much, and rare records."""

    data: ClassData
    others: Mapping[tuple[str, float], Point]
    rare: Mapping[str, Point]

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.data.name


def read_populations(run: Run, label: int) -> tuple[Populations, Setting]:
    """Return a class and all that it is compared with, as records in the chart."""
    setting = image_setting(run)
    name = run.images.classes[label]

    def records(label: int, change: Callable[..., Any] | None = None) -> Point:
        mine = ClassData(label, name, *described(run, label, run.config.splits, change))
        return place(records_of(mine, "persons", setting.manifold), setting)

    others = dict[tuple[str, float], Point]()
    for kind, amount in dict.fromkeys((one.change, one.amount) for one in run.config.mechanisms):
        if kind == SAME:
            continue
        if kind == OTHER:
            after = run.labels.index(label) + 1
            others[kind, amount] = records(run.labels[after % len(run.labels)])
            continue
        seed = stream_seed(run.config, f"{label}/{kind} {amount}")
        rng, work = np.random.default_rng(seed), CHANGES[kind]
        others[kind, amount] = records(
            label, lambda images, w=work, a=amount, r=rng: w(images, a, r)
        )
    rare, shape = dict[str, Point](), run.images.shape
    for kind in dict.fromkeys(series.rare for series in run.config.mechanisms):
        if kind != SAME:
            rng = np.random.default_rng(stream_seed(run.config, f"{label}/{kind}"))
            points = describe(rare_images(kind, shape, rng), run.config.descriptor, run.config.eta)
            rare[kind] = place(points, setting)
    return Populations(ClassData(label, name, records(label)), others, rare), setting


def run_comparisons(
    populations: Populations, setting: Setting, pending: Sequence[Cell], *, is_local: bool = False
) -> CellRows:
    """Compute the `pending` cells of one class and yield each one's columns."""

    @cache
    def of(change: tuple[str, float], rare: str) -> Population:
        points = populations.others.get(change, populations.data.points)
        return population(points, setting, populations.rare.get(rare))

    for cell in pending:
        series = cell.series
        pair = of((SAME, 0.0), series.rare), of((series.change, series.amount), series.rare)
        yield cell, columns(populations.data, pair, cell, setting, is_local=is_local)


class PairTest(NamedTuple):
    """A test of a repetition: how far means are apart, its p-value, and whether it is sound.

    Of local records also the share outside, and whether it is in the range that is stated.
    """

    distance: float
    p_value: float
    offered: bool
    outside: float = math.nan
    as_stated: float = math.nan


def columns(
    data: ClassData,
    pair: tuple[Population, Population],
    cell: Cell,
    setting: Setting,
    *,
    is_local: bool,
) -> dict[str, Any]:
    """Return the rows of one cell: a test a repetition."""
    series, (one, other) = cell.series, pair
    n, many = series.n or one.own, series.n_other or series.n or other.own
    known = describe_cell(data, n, cell, setting)
    rng, budget = np.random.default_rng(known["seed"]), setting.config.budget(cell.value)
    second = budget if series.budget_other is None else setting.config.budget(series.budget_other)
    sides = (one, n, budget), (other, many, second)
    found, times = list[PairTest](), setting.repetitions(series)
    started = perf_counter()
    for batch in batches(times, n + many):
        pairs = [[own.draw(size, rng, series.rare_share) for own, size, _ in sides] for _ in batch]
        samples = list(zip(*pairs, strict=True))
        released = [
            own.release_each(rows, cost, series.plan, rng)
            for (own, _, cost), rows in zip(sides[: 2 - is_local], samples, strict=False)
        ]
        if is_local:
            local = (other.records.placed[rows] for rows in samples[1])
            found += [_match(*both) for both in zip(released[0], local, strict=True)]
        else:
            tests = (two_sample(*both) for both in zip(*released, strict=True))
            found += [PairTest(test.distance, test.p_value, test.offered) for test in tests]
    error, p, offered, outside, as_stated = np.array(found, dtype=np.float64).T
    return known | {
        "status": "ok",
        "error": error,
        "p_value": p,
        "rejected": (p <= LEVEL).astype(np.float64),
        "offered": offered,
        "outside": outside,
        "as_stated": as_stated,
        "acceptance": 1.0,
        "seconds": (perf_counter() - started) / times,
    }


def _match(release: Release, points: Point) -> PairTest:
    """Return the test of a release and local records; nothing is found where it says too little."""
    distance = float(np.linalg.norm(release.space.log(release.place, points).mean(axis=0)))
    if match_refusal(release):
        return PairTest(distance, 1.0, False)
    result = match(release, points)
    low, high = result.expected_range
    return PairTest(distance, result.p_value, True, result.outside, low <= result.outside <= high)


COMPARING = ExperimentKind(
    in_words=(
        "Each repetition drew two samples, released the mean of each, and tested whether both "
        "releases are of one population"
    ),
    cells=run_comparisons,
    read=read_populations,
    on_images=True,
)
MATCHING = ExperimentKind(
    in_words=(
        "Each repetition drew two samples, released the mean of the first, and tested whether it "
        "and the second, in the clear, are of one population"
    ),
    cells=partial(run_comparisons, is_local=True),
    read=read_populations,
    on_images=True,
)
