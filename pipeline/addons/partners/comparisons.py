"""Tests of two releases, or of one and local records: how often one population looks like two.

In each repetition n records are drawn from a class and others from what it is compared with: the
same class, the same with all its images changed, or the next class. Both are drawn with
replacement, so the classes are the populations, and released; the test sees the releases alone. Of
kind matches the second are not released: they are local records, in the clear (`match`).
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from covdp.addons.partners.match import match, match_refusal
from covdp.addons.partners.tests import two_sample
from covdp.config import ExperimentConfig, Positive
from covdp.experiments.driver import Cell, ExperimentKind, Setting, one_by_one
from covdp.experiments.populations import (
    ComparedSeries,
    Populations,
    batches,
    check_populations,
    read_populations,
)
from covdp.geometry import Point
from covdp.mean import Release


class TwoReleaseSeries(ComparedSeries):
    """A series of tests of two releases.

    Attributes
    ----------
    budget_other : float, optional
        Budget of the second release.
    """

    budget_other: Positive | None = None


class TwoReleaseExperiment(ExperimentConfig):
    """An experiment whose series are `TwoReleaseSeries`."""

    mechanisms: tuple[TwoReleaseSeries, ...] = ()


class MatchExperiment(ExperimentConfig):
    """An experiment whose series are pairs of a release and local records."""

    mechanisms: tuple[ComparedSeries, ...] = ()


TEST_LEVEL = 0.05
"""Level of the tests whose outcome is written down."""


class PairTest(NamedTuple):
    """A test of a repetition: how far means are apart, its p-value, and whether it is sound.

    Of local records also the share outside, and whether it is in the range that is stated. All are
    called as the columns of its row.

    Attributes
    ----------
    error : float
        Distance of the two means before they were shrunk.
    p_value : float
        Probability that two samples of one population differ so much.
    offered : bool
        True if the test is sound.
    outside : float
        Share of local records outside; NaN of two releases.
    as_stated : float
        1 if `outside` is in the range that is stated, else 0; NaN of two releases.
    """

    error: float
    p_value: float
    offered: bool
    outside: float = math.nan
    as_stated: float = math.nan


def run_tests(
    populations: Populations,
    setting: Setting,
    cell: Cell[ComparedSeries],
    rng: np.random.Generator,
    *,
    is_local: bool = False,
) -> dict[str, Any]:
    """Return the columns of one cell: a test a repetition.

    Parameters
    ----------
    populations : Populations
        Records, and their changes, by series.
    setting : Setting
        Config, manifold and public bound of the run.
    cell : Cell
        Series and budget.
    rng : np.random.Generator
        Random generator of samples and noise.
    is_local : bool
        True if the second sample is not released but in the clear.
    """
    series, config, results = cell.series, setting.config, list[PairTest]()
    first = populations.of(setting, series)
    other = populations.of(setting, series, (series.change, series.amount))
    n, many = series.n or first.own, series.n_other or series.n or other.own
    budget = config.budget(cell.value)
    other_budget = series.budget_other if isinstance(series, TwoReleaseSeries) else None
    second = budget if other_budget is None else config.budget(other_budget)
    sides = (first, n, budget), (other, many, second)
    for batch in batches(setting.repetitions(series), n + many):
        pairs = [[own.draw(size, rng, series.rare_share) for own, size, _ in sides] for _ in batch]
        samples = list(zip(*pairs, strict=True))
        released = [
            own.release_each(rows, cost, series.plan, rng)
            for (own, _, cost), rows in zip(sides[: 2 - is_local], samples, strict=False)
        ]
        if is_local:
            local = (other.records.placed[rows] for rows in samples[1])
            results += [_match(*both) for both in zip(released[0], local, strict=True)]
        else:
            tests = (two_sample(*both) for both in zip(*released, strict=True))
            results += [PairTest(test.distance, test.p_value, test.offered) for test in tests]
    columns = dict(zip(PairTest._fields, np.array(results, dtype=np.float64).T, strict=True))
    rejected = (columns["p_value"] <= TEST_LEVEL).astype(np.float64)
    return {"n": n, "rejected": rejected, **columns}


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
    cells=one_by_one(run_tests),
    read=read_populations,
    check=check_populations,
    config=TwoReleaseExperiment,
    on_images=True,
)
MATCHING = ExperimentKind(
    in_words=(
        "Each repetition drew two samples, released the mean of the first, and tested whether it "
        "and the second, in the clear, are of one population"
    ),
    cells=one_by_one(partial(run_tests, is_local=True)),
    read=read_populations,
    check=check_populations,
    config=MatchExperiment,
    on_images=True,
)
