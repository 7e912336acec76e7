"""A table without data: what m queries cost together, in every definition of privacy.

Each query adds noise of one scale to a number of sensitivity 1; its cost is stated in each
definition that has one for that noise, and m of them are composed by that definition's rule. A row
carries the total in `budget`, the number of queries in `n`, and in `error` the noise of one query.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pipeline.config import CompositionConfig, ExperimentConfig, SeriesConfig
from pipeline.errors import PrivacyError
from pipeline.experiments.driver import ExperimentKind, named_columns
from pipeline.geometry import FlatChart
from pipeline.geometry.spd import LogEuclidean
from pipeline.mechanisms import MECHANISMS, Mechanism
from pipeline.privacy import DEFINITIONS, Budget, RaoDP, main_parameter, repeat, second_parameter

LINE = FlatChart(LogEuclidean(k=1))
"""The real line."""


class TableEntry(NamedTuple):
    """One cell of the table: noise of a query, number of queries, and the cost of one query."""

    label: int
    series: SeriesConfig
    mechanism: Mechanism
    queries: int
    one: Budget

    @property
    def key(self) -> str:
        """Name of the cell, unique in a run."""
        return f"{self.queries}/{self.series.series}/{self.one.name}"


def query(
    series: SeriesConfig, config: ExperimentConfig, table: CompositionConfig
) -> tuple[Mechanism, list[Budget]]:
    """Return the noise of one query, and what it costs in each definition that knows it.

    Its Rao budget is θ, its sensitivity 1.
    """
    family, budget, costs = MECHANISMS[series.mechanism], RaoDP(config.budgets[0]), []
    options = {"degree": table.degree} if "degree" in family.options else {}
    mechanism = family.calibrate(budget, sensitivity=1.0, manifold=LINE, **options)
    for name in table.definitions:
        parameters = {"delta": config.delta, "alpha": config.alpha, **options}
        with suppress(PrivacyError):  # Gaussian noise is not pure DP, say
            costs.append(family.price(mechanism.sigma, 1.0, DEFINITIONS[name], **parameters))
    return mechanism, costs


def table_cells(config: ExperimentConfig) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return what computes the rows of each cell, by its name; noise must have a cost in it."""
    table = config.composition
    assert table is not None  # as the kind is composition
    one_query = [(series, *query(series, config, table)) for series in config.mechanisms]
    entries = [
        TableEntry(label, series, mechanism, queries, one)
        for label, queries in enumerate(table.queries)
        for series, mechanism, costs in one_query
        for one in costs
    ]
    return {entry.key: partial(columns, config, entry) for entry in entries}


def columns(config: ExperimentConfig, entry: TableEntry) -> dict[str, Any]:
    """Return the rows of one cell."""
    mechanism = entry.mechanism
    total = repeat(entry.one, entry.queries)
    named = named_columns(config, entry.label, f"m = {entry.queries}", entry.key)
    rng = np.random.default_rng(named["seed"])
    draws = mechanism.sample(np.zeros(1), size=config.repetitions, rng=rng)
    return named | {
        "n": entry.queries,
        "manifold": "real line",
        "dim": 1,
        "descriptor": "none",
        "mechanism": entry.series.mechanism,
        "series": entry.series.series,
        "sampler": "exact",
        "definition": entry.one.name,
        "budget": main_parameter(total),
        **second_parameter(total),
        "sensitivity": 1.0,
        "sigma": mechanism.sigma,
        "footpoint": "origin",
        "repetition": np.arange(config.repetitions),
        "distance": "absolute value",
        "error": np.abs(draws.points[:, 0]),
        "expected_error": mechanism.expected_error() or np.nan,
        "acceptance": 1.0,
        "status": "ok",
        "seconds": 0.0,
    }


COMPOSING = ExperimentKind(
    in_words=(
        "Total budgets follow from the rules of composition of each definition; nothing was drawn"
    ),
    table=("table", table_cells),
)
