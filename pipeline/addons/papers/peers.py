"""Our mean beside those of others, given the same public prior: how far each is from the truth.

In each repetition n records are drawn from a class without replacement, as many as it has at most,
some of them rare images unlike it, and one mean is drawn. Errors are those against the mean of the
very records.

**Peers** are given what ours is: records in the axes of the public prior, (n, d), seen from its
centre, and how long they are expected to be. Noise is NumPy's, neighbours differ by one record, and
budgets are of μ: a noisy count moves by 1 with a record, a mean of records clipped to radius C by
2C/n, and shares of μ² add up to it.

References
----------
Huang, Liang and Yi, "Instance-optimal mean estimation under differential privacy" (2021).
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.config import ExperimentConfig
from covdp.errors import require_known
from covdp.experiments.driver import Cell, ExperimentKind, Setting, one_by_one
from covdp.experiments.populations import (
    Population,
    Populations,
    RareSeries,
    batches,
    check_populations,
    read_populations,
)
from covdp.privacy import gaussian_sigma

Peer: TypeAlias = Callable[[FloatArray, float, float, np.random.Generator], FloatArray]
"""Records, their expected length, μ and a generator to the mean, (d,)."""

BISECTIONS = 10
"""Steps of a quantile of Huang, Liang and Yi; one of ours has two fewer."""


class PeerSeries(RareSeries):
    """A series of means of ours or of a peer.

    Attributes
    ----------
    peer : str
        Author of the mean; ours when left out.
    """

    peer: str = ""


class PeerExperiment(ExperimentConfig):
    """An experiment whose series are `PeerSeries`."""

    mechanisms: tuple[PeerSeries, ...] = ()


def noisy_quantile(
    values: FloatArray,
    count: float,
    ends: tuple[float, float],
    mu: float,
    steps: int,
    rng: np.random.Generator,
) -> float:
    """Return the value below which about `count` are, bisected by counts that cost μ together.

    Parameters
    ----------
    values : array, shape (n,)
        Values of the records.
    count : float
        Number of values below the quantile.
    ends : (float, float)
        Interval of the quantile.
    mu : float
        Budget μ of all counts together.
    steps : int
        Number of bisections.
    rng : numpy.random.Generator
        Source of the random numbers.
    """
    low, high = ends
    for _ in range(steps):
        middle = (low + high) / 2.0
        below = float((values <= middle).sum()) + rng.normal() * math.sqrt(steps) / mu
        low, high = (middle, high) if below <= count else (low, middle)
    return (low + high) / 2.0


def clipped_mean(
    records: FloatArray, radius: float, mu: float, rng: np.random.Generator
) -> FloatArray:
    """Return the noised mean of records clipped to a ball around 0, (d,).

    Parameters
    ----------
    records : array, shape (n, d)
        Records.
    radius : float
        Radius of the ball.
    mu : float
        Budget μ of the mean.
    rng : numpy.random.Generator
        Source of the random numbers.
    """
    norms = np.linalg.norm(records, axis=1, keepdims=True)
    mean = (records * np.minimum(1.0, radius / np.maximum(norms, 1e-300))).mean(axis=0)
    return np.asarray(mean + rng.normal(size=len(mean)) * 2.0 * radius / (len(records) * mu))


def shifted_clipped_mean(
    records: FloatArray, unit: float, mu: float, rng: np.random.Generator
) -> FloatArray:
    """Return the mean of Huang, Liang and Yi, (d,): clipped around private medians, in random axes.

    A quarter of the budget is for the medians, a tenth of the rest for the radius.

    Parameters
    ----------
    records : array, shape (n, d)
        Records.
    unit : float
        Expected length of a record.
    mu : float
        Budget μ of all.
    rng : numpy.random.Generator
        Source of the random numbers.
    """
    (n, d), far = records.shape, 6.0 * unit
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    turned, share = records @ turn, mu * math.sqrt(0.25 / d)
    medians = [noisy_quantile(y, n / 2.0, (-far, far), share, BISECTIONS, rng) for y in turned.T]
    moved, rest = turned - np.array(medians), mu**2 * 0.75 / 2.0
    inside = n - 4.0 * math.sqrt(d / (1.8 * rest)) - 2.0 * math.sqrt(BISECTIONS / (0.2 * rest))
    norms, ends = np.linalg.norm(moved, axis=1), (0.0, 2.0 * far * math.sqrt(d))
    spent = math.sqrt(0.2 * rest)
    radius = noisy_quantile(norms, max(inside, n / 2.0), ends, spent, BISECTIONS, rng)
    mean = clipped_mean(moved, radius, math.sqrt(1.8 * rest), rng)
    return np.asarray((mean + np.array(medians)) @ turn.T)


def quantile_mean(
    records: FloatArray,
    unit: float,
    mu: float,
    rng: np.random.Generator,
    *,
    inside: float = 0.9,
) -> FloatArray:
    """Return the mean clipped to a private quantile around a private rough centre, (d,).

    The centre takes 10 % of the budget, the quantile 5 %.

    Parameters
    ----------
    records : array, shape (n, d)
        Records.
    unit : float
        Expected length of a record.
    mu : float
        Budget μ of all.
    rng : numpy.random.Generator
        Source of the random numbers.
    inside : float
        Share of the records within the quantile.
    """
    first = clipped_mean(records, 2.5 * unit, mu * math.sqrt(0.10), rng)
    sizes = np.log(np.linalg.norm(records - first, axis=1) / unit)
    ends, spent = (math.log(0.1), math.log(4.0)), mu * math.sqrt(0.05)
    radius = unit * math.exp(noisy_quantile(sizes, inside * len(records), ends, spent, 8, rng))
    return np.asarray(first + clipped_mean(records - first, radius, mu * math.sqrt(0.85), rng))


def count_mean(records: FloatArray, unit: float, mu: float, rng: np.random.Generator) -> FloatArray:
    """Return `quantile_mean` with 6·√d/μ records outside, a quarter of them at most.

    Parameters
    ----------
    records : array, shape (n, d)
        Records.
    unit : float
        Expected length of a record.
    mu : float
        Budget μ of all.
    rng : numpy.random.Generator
        Source of the random numbers.
    """
    n, d = records.shape
    inside = max(0.75, 1.0 - 6.0 * math.sqrt(d) / (mu * n))
    return quantile_mean(records, unit, mu, rng, inside=inside)


PEERS: Mapping[str, Peer] = {
    "shifted clipped mean": shifted_clipped_mean,
    "clipped to a quantile": quantile_mean,
    "clipped by count": count_mean,
}
"""Means of others, by the names that a series has for them."""


def compare_means(
    populations: Populations, setting: Setting, cell: Cell[PeerSeries], rng: np.random.Generator
) -> dict[str, Any]:
    """Return the columns of one cell: the error of a repetition.

    Parameters
    ----------
    populations : Populations
        Records of the class, those that it is compared with, and rare ones.
    setting : Setting
        Config, public domain and geometry of the class.
    cell : Cell
        Class, series and budget.
    rng : numpy.random.Generator
        Source of the random numbers.
    """
    series, drawn = cell.series, populations.of(setting, cell.series)
    n = min(series.n or drawn.own, drawn.own)
    budget, errors = setting.config.budget(cell.value), list[float]()
    for batch in batches(setting.repetitions(series), n):
        samples = [_sample(drawn, n, series.rare_share, rng) for _ in batch]
        records = drawn.records
        if series.peer:
            mu = 1.0 / gaussian_sigma(budget, 1.0)
            errors += [_error_of(series.peer, drawn, rows, mu, rng) for rows in samples]
            continue
        released = drawn.release_each(samples, budget, series.plan, rng)
        for release, rows in zip(released, samples, strict=True):
            away = release.placed[0] - records.placed[rows].mean(axis=0)
            errors.append(float(np.linalg.norm(away)))
    return {"n": n, "error": np.array(errors)}


def _sample(drawn: Population, n: int, share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return n rows of the class, each once, so many of which make room for rare ones."""
    rows = rng.choice(drawn.own, n, replace=False)
    if share:
        many, rare = max(1, round(share * n)), drawn.records.n - drawn.own
        rows[:many] = drawn.own + rng.integers(rare, size=many)
    return rows


def _error_of(
    peer: str, drawn: Population, rows: NDArray[np.int64], mu: float, rng: np.random.Generator
) -> float:
    """Return how far the mean of a peer is from that of the records."""
    seen = np.asarray(drawn.records.sample(rows).seen.whole)
    found = PEERS[peer](seen, drawn.records.prior.unit, mu, rng)
    return float(np.linalg.norm((found - seen.mean(axis=0)) @ drawn.records.frame.from_axes))


def check_peers(config: PeerExperiment) -> None:
    """Refuse a peer that is not known.

    Parameters
    ----------
    config : PeerExperiment
        Experiment on one dataset.
    """
    check_populations(config)
    for series in config.mechanisms:
        require_known("peer", series.peer, ["", *PEERS], "ours-peers.toml has all")


COMPETING = ExperimentKind(
    in_words=(
        "Each repetition drew records from a class, without replacement, and one private mean of "
        "them, ours or that of others, all given the same public prior"
    ),
    cells=one_by_one(compare_means),
    read=read_populations,
    check=check_peers,
    config=PeerExperiment,
    on_images=True,
)
