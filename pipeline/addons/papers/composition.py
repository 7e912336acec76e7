"""A table without data: what m queries cost together, in every definition of privacy.

Each query adds noise of one scale to a number of sensitivity 1; its cost is stated in each
definition that has one for that noise, and m of them are composed by that definition's rule. A row
carries the total in `budget`, the number of queries in `n`, and in `error` the noise of one query.

**What the queries need.** A total proves nothing of its own rule. So `attained` is the least budget
of the definition that m queries satisfy, by the law of their privacy loss L = ln f(x)/f(x − 1), x
of density f. The loss of m queries is a sum of m independent ones, whose law is convolved on a
grid. No rule of composition enters. With P the law of the sum:

==========  ====================================================================================
pure        the largest L of P: of noise whose loss is bounded
approx      least ε with E(1 − e^(ε − L))⁺ ≤ δ, at the δ of the total
kl, mcdp    E L; of mcdp the first parameter
rdp         ln E e^((α − 1)L)/(α − 1)
zcdp        the largest of rdp/α over orders that the grid reaches
gdp         sup over t of Φ⁻¹(P(L > t)) − Φ⁻¹(P(L < −t)): the tests {L > t} are the best there are
==========  ====================================================================================

Rao DP has none: its distance is of a family of laws, and that of a product is Pythagoras' by
definition.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import special

from covdp.arrays import FloatArray
from covdp.config import ExperimentConfig, SeriesConfig
from covdp.errors import PrivacyError, require_known
from covdp.experiments.driver import ExperimentKind, named_columns
from covdp.geometry import FlatChart
from covdp.geometry.spd import LogEuclidean
from covdp.mechanisms import MECHANISMS, Mechanism
from covdp.privacy import DEFINITIONS, Budget, RaoDP, main_parameter, repeat, second_parameter
from covdp.privacy.definitions import GDP, KLDP, MCDP, RDP, ZCDP, ApproxDP, PureDP
from covdp.toml import Record


class CompositionConfig(Record):
    """A table of total budgets: what m queries cost together.

    Attributes
    ----------
    queries : tuple of int
        Numbers m of queries.
    definitions : tuple of str
        Names of the definitions of privacy.
    degree : float
        Degree N of the generalized Gaussian.
    """

    queries: tuple[int, ...] = Field(min_length=1)
    definitions: tuple[str, ...] = Field(min_length=1)
    degree: float = Field(4.0, ge=1)


class CompositionExperiment(ExperimentConfig):
    """An experiment that is a table of totals.

    Attributes
    ----------
    composition : CompositionConfig
    """

    composition: CompositionConfig

    @property
    def on_images(self) -> bool:
        """False: it has no images."""
        return False


LINE = FlatChart(LogEuclidean(k=1))
"""The real line."""


STEPS = 50
"""Steps of the grid of losses in Δ/σ, the largest loss of one query with Laplace noise."""
NEGLIGIBLE = 1e-60
"""Probability of a loss on the grid that is left out."""
FAINT, GUARDED = 1e-40, 1e-9
"""A last share below the first was cut there; of a divergence it may be no more than the second."""
LEAST_RATE = 1e-6
"""Least type I error at which tests are compared."""
ORDERS = 1 + np.geomspace(1e-3, 30.0, 60)
"""Rényi orders of zCDP."""


class LossLaw(NamedTuple):
    """Law of a privacy loss on a grid.

    Attributes
    ----------
    losses : array, shape (m,)
        Losses, in order.
    shares : array, shape (m,)
        Probability of each.
    """

    losses: FloatArray
    shares: FloatArray


def one_loss(noise: Any, sigma: float) -> LossLaw:
    """Return the law of the loss of one query: real noise around 0, against the same around 1.

    Every loss is divided between its two neighbours on the grid, which keeps the mean.

    Parameters
    ----------
    noise : object
        Law of the noise.
    sigma : float
        Scale σ > 0 of the noise.
    """
    x = np.linspace(0.5 - 60 * sigma, 0.5 + 60 * sigma, 600_001)
    log_f, shifted = (noise.log_density((x - at)[:, None], sigma) for at in (0.0, 1.0))
    weight = np.exp(log_f - log_f.max())
    kept = weight > NEGLIGIBLE
    weight, loss = weight[kept] / weight.sum(), (log_f - shifted)[kept]
    step = 1.0 / (sigma * STEPS)
    place = loss / step
    place = np.where(np.abs(place - place.round()) < 1e-9, place.round(), place)  # atoms stay whole
    low = np.floor(place).astype(np.int64)
    part, first = place - low, int(low.min())
    shares = np.bincount(low - first, weight * (1 - part), minlength=int(np.ptp(low)) + 2)
    shares += np.bincount(low - first + 1, weight * part, minlength=len(shares))
    return _trimmed(first, shares, step)


def _trimmed(first: int, shares: NDArray[Any], step: float) -> LossLaw:
    kept = np.flatnonzero(shares > NEGLIGIBLE)
    inside = np.arange(kept[0], kept[-1] + 1)
    return LossLaw(np.asarray(step * (first + inside)), np.asarray(shares[inside], np.float64))


def together(one: LossLaw, queries: int) -> LossLaw:
    """Return the law of the sum of the losses of independent queries, by repeated convolution.

    Sums of positive products lose no digits in the tails, as a Fourier transform would.

    Parameters
    ----------
    one : LossLaw
        Law of the loss of one query.
    queries : int
        Number of queries.
    """
    step = float(one.losses[1] - one.losses[0])
    if queries == 1:
        return one
    half = together(one, queries // 2)
    parts = [half, half, *([one] if queries % 2 else [])]
    first = sum(round(part.losses[0] / step) for part in parts)
    shares: NDArray[Any] = parts[0].shares
    for part in parts[1:]:
        shares = np.convolve(shares, part.shares)
    return _trimmed(first, shares, step)


def attained(law: LossLaw, budget: Budget) -> float:
    """Return the least main parameter of the definition of `budget` that a loss of `law` satisfies.

    NaN of definitions that no loss tells, and where the grid ends before a divergence does.

    Parameters
    ----------
    law : LossLaw
        Law of the loss of all queries.
    budget : Budget
        Budget whose definition is asked about.
    """
    losses, shares = law.losses, law.shares

    def renyi(order: float) -> float:
        tilted = (order - 1) * losses + np.log(np.maximum(shares, NEGLIGIBLE**2))
        total = float(special.logsumexp(tilted))
        if shares[-1] < FAINT and tilted[-1] > total + math.log(GUARDED):
            return math.nan
        return total / (order - 1)

    match budget:
        case PureDP():
            return float(losses[-1])
        case KLDP() | MCDP():
            return float(shares @ losses)
        case RDP(alpha, _):
            return renyi(alpha)
        case ZCDP():
            return max(renyi(order) / order for order in map(float, ORDERS))
        case ApproxDP(_, delta):
            return _least_epsilon(law, delta)
        case GDP():
            above = np.cumsum(shares[::-1])[::-1]  # P(L ≥ t) at each t of the grid
            below = np.interp(-losses, losses, np.cumsum(shares), left=0.0)
            seen = (below >= LEAST_RATE) & (above >= LEAST_RATE) & (losses >= 0)
            gaps = np.asarray(special.ndtri(above[seen]) - special.ndtri(below[seen]))
            return float(np.max(gaps))
    return math.nan


def _least_epsilon(law: LossLaw, delta: float) -> float:
    """Return the least ε with E(1 − e^(ε − L))⁺ ≤ δ, by bisection; the left side falls."""
    low, high = 0.0, max(float(law.losses[-1]), 0.0)
    for _ in range(60):
        middle = (low + high) / 2
        excess = law.shares @ -np.expm1(np.minimum(middle - law.losses, 0.0))
        low, high = (low, middle) if excess <= delta else (middle, high)
    return high


class TableEntry(NamedTuple):
    """One cell of the table.

    Attributes
    ----------
    label : int
        Place of the number of queries in the table, from 0.
    series : SeriesConfig
        Settings of the series.
    mechanism : Mechanism
        Noise of one query.
    queries : int
        Number of queries.
    one : Budget
        Cost of one query.
    loss : callable
        Function of a number of queries to the law of their loss.
    """

    label: int
    series: SeriesConfig
    mechanism: Mechanism
    queries: int
    one: Budget
    loss: Callable[[int], LossLaw]

    @property
    def key(self) -> str:
        """Name of the cell, unique in a run."""
        return f"{self.queries}/{self.series.series}/{self.one.name}"


def query(
    series: SeriesConfig, config: ExperimentConfig, table: CompositionConfig
) -> tuple[Mechanism, list[Budget]]:
    """Return the noise of one query, and its cost in each definition that knows it.

    Its Rao budget is θ, its sensitivity 1.

    Parameters
    ----------
    series : SeriesConfig
        Settings of the series.
    config : ExperimentConfig
        Experiment on one dataset.
    table : CompositionConfig
        Settings of the table.
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
    """Return the work of each cell, by its name; noise must have a cost in it.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    """
    assert isinstance(config, CompositionExperiment)
    table = config.composition
    one_query = [(series, *query(series, config, table)) for series in config.mechanisms]
    losses = [cache(partial(_loss, mechanism)) for _, mechanism, _ in one_query]
    entries = [
        TableEntry(label, series, mechanism, queries, one, loss)
        for label, queries in enumerate(table.queries)
        for (series, mechanism, costs), loss in zip(one_query, losses, strict=True)
        for one in costs
    ]
    return {entry.key: partial(columns, config, entry) for entry in entries}


def _loss(mechanism: Mechanism, queries: int) -> LossLaw:
    """Return the law of the loss of some queries of one mechanism."""
    return together(one_loss(cast(Any, mechanism).noise, mechanism.sigma), queries)


def columns(config: ExperimentConfig, entry: TableEntry) -> dict[str, Any]:
    """Return the rows of one cell.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    entry : TableEntry
        Cell of the table.
    """
    mechanism = entry.mechanism
    total = repeat(entry.one, entry.queries)
    known = not isinstance(total, RaoDP)
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
        "attained": attained(entry.loss(entry.queries), total) if known else np.nan,
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


def check_definitions(config: CompositionExperiment) -> None:
    """Refuse a definition of privacy that is not known.

    Parameters
    ----------
    config : CompositionExperiment
        Experiment on one dataset.
    """
    for definition in config.composition.definitions:
        require_known("definition", definition, DEFINITIONS)


COMPOSING = ExperimentKind(
    in_words=(
        "Total budgets follow from the rules of composition of each definition; nothing was drawn"
    ),
    config=CompositionExperiment,
    check=check_definitions,
    table=("table", table_cells),
)
