"""What rows prove, and how rarely by chance: the one rule by which a report calls anything true.

**A mean against its law.** Where the mean of the law is known exactly, a cell (class, series and
budget) whose measured mean disagrees with it earns nothing: neither it nor what rests on it. All
errors here have a density ∝ ρ^(d−1)·g(ρ) on manifolds that are not negatively curved, g
log-concave. Against Gamma(d), scaled to the same mean m, the logarithm of that density is concave,
so it crosses at most twice: the error is below Gamma(d) in convex order, its variance at most m²/d,
with equality for Laplace noise. The sum of n errors is held against Gamma(n·d). The spread of the
sample is not used: chains that have not mixed spread most. Elsewhere a t-test is made. A chain
without a known law is compared with the exact draws of the same noise in the same run, by the
spread of the latter.

**Two means.** Where both have such a law their ratio is held against F(2n·d, 2n'·d'), elsewhere it
is Welch's t-test on the difference. Cells of one seed had the same noise, repetition by repetition:
there it is a t-test on the differences, in which what both have in common cancels. Times have
outliers without bound: their medians are shown, and ranks decide, by the exact test of Mann and
Whitney. What is within the noise is not decided.

**Rates.** `RATE` bounds the probability of a wrong decision over all cells of a run, or over all
comparisons of a statement, by Bonferroni. The errors are skewed, so that a t-test on ten of them
is wrong up to a hundred times as often as it claims: it is made at `NOMINAL`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.figures import letter, number
from pipeline.geometry import MANIFOLDS
from pipeline.results import Table, cells_of, summarise

Claim = Mapping[str, Any]
"""A statement of an experiment's TOML."""
RATE = 1e-3
"""Stated probability of a wrong decision: over the cells of a run, over those of a statement."""
NOMINAL = RATE / 100
"""The same, as a t-test on skewed errors must be told it."""
STATED = f"a wrong decision has probability at most {100 * RATE:g} %"


class Checked(NamedTuple):
    """Each cell of a summary held against its law.

    Attributes
    ----------
    known, off : array of bool, shape (cells,)
        Whether there is anything to compare with, and whether it disagrees.
    reference : array, shape (cells,)
        The mean of the law, or that of exact draws of it; NaN where there is none.
    score : array, shape (cells,)
        Distance from it in standard errors.
    shape : array, shape (cells,)
        n·d of the Gamma law that bounds the spread of the sum, NaN where none does.
    """

    known: NDArray[np.bool_]
    off: NDArray[np.bool_]
    reference: NDArray[np.float64]
    score: NDArray[np.float64]
    shape: NDArray[np.float64]


def check_cells(table: Table) -> Checked:
    """Hold each mean of `table`, a summary of errors, against its law."""
    from scipy import special

    count, mean = table["count"], table["mean"]
    expected, d = table["expected_error"].copy(), table.get("dim", np.full(len(mean), np.nan))
    bends = np.array([_bends_down(str(name)) for name in table["manifold"]], dtype=bool)
    radial = np.isfinite(expected) & (count > 0) & np.isfinite(d) & ~bends
    spread = np.isfinite(expected) & ~radial & (count > 1) & (table["se"] > 0)
    scale, freedom = np.full(len(mean), np.nan), count - 1.0
    scale[radial] = expected[radial] / np.sqrt(count[radial] * d[radial])
    scale[spread] = table["se"][spread]
    paired = np.zeros(len(mean), dtype=bool)
    for chain, exact in _pairs(table, np.isfinite(expected)):
        paired[chain], expected[chain] = True, mean[exact]
        scale[chain] = table["sd"][exact] * np.sqrt(1 / count[chain] + 1 / count[exact])
        freedom[chain] = count[exact] - 1.0
    testable = radial | spread | paired
    score = np.abs(mean - expected) / scale
    p = np.ones(len(mean))
    shape = (count * d)[radial]
    place = shape * mean[radial] / expected[radial]
    tails = special.gammainc(shape, place), special.gammaincc(shape, place)
    p[radial] = 2 * np.minimum(*tails)
    by_t = spread | paired
    p[by_t] = 2 * special.stdtr(freedom[by_t], -score[by_t])
    tests = max(int(testable.sum()), 1)
    off = testable & (p < np.where(radial, RATE, NOMINAL) / tests)
    return Checked(
        known=testable,
        off=off,
        reference=np.where(testable, expected, np.nan),
        score=np.where(testable, score, np.nan),
        shape=np.where(radial & ~off, count * d, np.nan),
    )


def is_meant(claim: Claim, label: int, budget: float, night: int) -> bool:
    """Tell whether a claim is about a class, a budget and a night."""
    labels, nights = claim["labels"], claim.get("nights")
    within = claim["above"] <= budget <= claim["below"]
    return within and (labels is None or label in labels) and (nights is None or night in nights)


def rows_of(claim: Claim, table: Table) -> list[tuple[int, int]]:
    """Return the rows of both series of a claim, in every class and budget it is about."""
    out = []
    night = table.get("night", np.zeros(len(table["label"]), dtype=np.int64))
    for label, budget, when in dict.fromkeys(
        zip(table["label"], table["budget"], night, strict=True)
    ):
        if not is_meant(claim, label, budget, when):
            continue
        at = (table["label"] == label) & (table["budget"] == budget) & (night == when)
        both = [
            np.flatnonzero(at & (table["series"] == claim[side]) & (table["count"] > 0))
            for side in ("left", "right")
        ]
        if all(len(rows) for rows in both):
            out.append((int(both[0][0]), int(both[1][0])))
    return out


def mean_errors(rows: Table) -> Table:
    """Return the summary of errors, with the seed and all errors of each cell."""
    errors = _values(rows, "error")
    seeds = [int(rows["seed"][cell[0]]) for cell in cells_of(rows)]
    return {**summarise(rows), "errors": errors, "seed": np.array(seeds)}


def median_times(rows: Table) -> Table:
    """Return the summary of seconds with medians for means, and all of each cell in `samples`."""
    samples = _values(rows, "seconds")
    samples[:] = [values[np.isfinite(values)] for values in samples]
    medians = [np.median(values) if len(values) else np.nan for values in samples]
    return {**summarise(rows, value="seconds"), "mean": np.array(medians), "samples": samples}


def _values(rows: Table, name: str) -> NDArray[np.object_]:
    """Return the values of a column in each cell of a summary, in the order of the rows."""
    cells = [np.array(rows[name][cell]) for cell in cells_of(rows)]
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    return values


def smaller(
    table: Table, a: int, b: int, factor: float, tests: int, checked: Checked | None = None
) -> int:
    """Decide whether `factor` times the mean of row `a` is below the mean of row `b`.

    Parameters
    ----------
    tests : int
        How many comparisons share the rate.
    checked : Checked, optional
        What `check_cells` found in `table`; None for a column that has no law.

    Returns
    -------
    int
        1 if it is below, −1 if it is above, 0 where neither is decided.
    """
    from scipy import special, stats

    gap = float(table["mean"][b] - factor * table["mean"][a])
    if "samples" in table:
        both = factor * table["samples"][a], table["samples"][b]
        p = float(stats.mannwhitneyu(*both, method="exact").pvalue)
        return int(np.sign(gap)) if p < RATE / tests else 0
    if checked is not None and np.isfinite(checked.shape[[a, b]]).all():
        ratio = factor * float(table["mean"][a] / table["mean"][b])
        forms = 2 * checked.shape[[a, b]]
        tail = special.fdtr(*forms, ratio), special.fdtrc(*forms, ratio)
        return int(np.sign(gap)) if min(tail) < RATE / (2 * tests) else 0
    if "errors" in table and table["seed"][a] == table["seed"][b]:
        pairs = zip(table["errors"][a], table["errors"][b], strict=False)  # the first of the longer
        gaps = np.array([other - factor * first for first, other in pairs])
        gaps = gaps[np.isfinite(gaps)]
        gap, se = float(np.mean(gaps)), float(stats.sem(gaps))
        limit = -special.stdtrit(len(gaps) - 1, NOMINAL / (2 * tests))
        return int(np.sign(gap)) if abs(gap) > limit * se else 0
    parts = np.array([table["se"][b], factor * table["se"][a]]) ** 2
    freedom = np.array([table["count"][b], table["count"][a]]) - 1.0
    if not np.isfinite(parts).all():
        return 0
    if parts.sum() == 0:
        return int(np.sign(gap))
    degrees = parts.sum() ** 2 / (parts**2 / freedom).sum()
    limit = -special.stdtrit(degrees, NOMINAL / (2 * tests))
    return int(np.sign(gap)) if abs(gap) > limit * np.sqrt(parts.sum()) else 0


def disagreement(table: Table, checked: Checked, row: int) -> str:
    """Return how the mean of a cell differs from that of its law, in words."""
    mean, law = float(table["mean"][row]), float(checked.reference[row])
    series = f"“{table['series'][row]}”"
    if table["sampler"][row] == "chain":
        series += " has not mixed:"
    text = f"{series} mean error {number(mean)} where its law has {number(law)}"
    if mean < law:
        return f"{text}, {number(law / mean)} times too little noise"
    return text


def place(table: Table, row: int) -> str:
    """Return class and budget of a cell, and its night where there are nights."""
    symbol = letter(str(table["definition"][row]))
    night = int(table["night"][row]) if "night" in table else 0
    text = f"{table['class_name'][row]}, {symbol} = {number(float(table['budget'][row]))}"
    return f"{text}, night {night}" if night else text


def _bends_down(manifold: str) -> bool:
    """Tell whether volume grows faster than in a flat space, so that laws may spread more."""
    curvature: tuple[float, float] = getattr(MANIFOLDS.get(manifold), "curvature", (0.0, 0.0))
    return curvature[0] < 0


def _pairs(table: Table, testable: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the rows of chains without a known law, each with that of the same noise, exact."""
    same = ("label", "budget", "mechanism", "definition", "footpoint", "distance", "sigma")
    columns = [table[name].tolist() for name in same if name in table]
    keys = list(zip(*columns, strict=True))
    good = (table["count"] > 1) & (table["se"] > 0)
    exact = {
        key: row
        for row, key in enumerate(keys)
        if good[row] and table["sampler"][row] == "exact" and not testable[row]
    }
    return [
        (row, exact[key])
        for row, key in enumerate(keys)
        if table["sampler"][row] == "chain" and table["count"][row] and not testable[row]
        if key in exact
    ]
