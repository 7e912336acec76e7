"""Is it enough? What means are usable for, from released and public values alone.

The error of a mean is put beside a usual difference between classes: what a gain of `USUAL_GAIN`
moves a descriptor by, a public number. Means of PneumoniaMNIST's classes are 2.02 apart by `oct5`
in the log-Euclidean metric, those of BreastMNIST's 0.64; the gain's 1.00 is between. The
distance between released means would not do: where the noise is wide, it is noise.

**Uses**, by the share s of the error in a usual difference, each with all before it:

==================  ======================================  =====================================
use                 where                                   what is true then
==================  ======================================  =====================================
`LARGE`             s ≤ ½; s ≤ 1 if a region is available     changes of a usual difference show
`COMPARISONS`       s ≤ ¼, and a region is available          the mean is nearer to the truth than
                                                            half of a usual difference
`SMALL`             s ≤ 1/20, and a region is available       … than a tenth of it
==================  ======================================  =====================================

else `NOTHING`. The error is the root mean square that the release predicts; in single releases it
was up to twice that in 98 of 100 (tiles and PneumoniaMNIST, n·μ from 15 to 500), hence thresholds
of half of what is to hold. ``tests/inference/test_verdict.py`` draws releases of `tiles`: at most
one in twenty verdicts of `COMPARISONS` and `SMALL` is false, and where `NOTHING` is stated,
releases like that have errors of more than a quarter of a usual difference. Of images on which no
number was set, n·μ from 15 to 500, by hand: of PathMNIST and OCT2017 1 of 462 verdicts of
`COMPARISONS` and `SMALL` was false, of middle slices of AdrenalMNIST3D 9 of 104, all of
hyperplasia, where some masks are empty; of 701 releases that were not usable 24 had an error below
a quarter.

**What is needed.** The noise of the last round is σ of what records are clipped to, and n·σ and
μ·σ are public constants of a release. A region is available where σ ≤ `NOISY`; `ROOM` times as many
records, or as large a μ, suffice in 19 of 20 releases for `LARGE` at least. Where a region is
available already, the error falls as 1/(n·μ) or faster.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.geometry import Manifold
from pipeline.inference.released import NOISY, is_offered
from pipeline.schema import ClassEntry, NightClassPart

USUAL_GAIN = 1.25
"""Gain of gray levels that moves a descriptor as much as usual classes differ."""
NOTHING, LARGE, COMPARISONS, SMALL = 0, 1, 2, 3
"""Uses, each with all before it."""
SHARES = {LARGE: 1.0, COMPARISONS: 0.25, SMALL: 0.05}
"""Largest error with which a mean has a use, as a share of a usual difference: where a region is
offered; else half of that of `LARGE`, and no other use."""
ROOM = 1.25
"""How much more than a region needs is asked for where a mean is not usable."""
PHRASES = {
    NOTHING: "Not usable",
    LARGE: "Usable for large differences only",
    COMPARISONS: "Usable for comparisons and classifiers",
    SMALL: "Usable for comparisons, classifiers and small changes over time",
}


@dataclass(frozen=True)
class Verdict:
    """What the mean of a class is usable for.

    Attributes
    ----------
    name : str
    n, n_sd : float
        How many images or persons, and the standard deviation of that number.
    use : int
        One of `NOTHING`, `LARGE`, `COMPARISONS` and `SMALL`.
    share : float or None
        Its error as a share of a usual difference between classes; None without a mean.
    factor : float
        How many times n or μ are needed for the next use; 1 where there is none.
    """

    name: str
    n: float
    n_sd: float
    use: int
    share: float | None
    factor: float


def usual_difference(manifold: Manifold, side: int) -> float:
    """Return how far usual classes are apart: what a gain of `USUAL_GAIN` does to the identity.

    `side` is that of the descriptor's matrices.
    """
    return float(manifold.dist(np.eye(side), USUAL_GAIN**2 * np.eye(side)))


def most_noise(manifold: Manifold, side: int) -> float:
    """Return the largest error with which a mean without a region is usable, as a distance."""
    return SHARES[LARGE] / 2.0 * usual_difference(manifold, side)


def verdict_of(
    name: str,
    n: float,
    share: float | None,
    sigma: float | None,
    *,
    offered: bool,
    n_sd: float = 0.0,
) -> Verdict:
    """Return what a mean is usable for.

    Parameters
    ----------
    name, n, n_sd
        As in `Verdict`.
    share : float or None
        Error as a share of `usual_difference`; None where there is no mean.
    sigma : float or None
        Noise of the vectors of the last round; None of a mean of one draw.
    offered : bool
        Whether a region is.
    """
    if share is None:
        return Verdict(name, n, n_sd, NOTHING, None, 1.0)
    most = SHARES if offered else {LARGE: SHARES[LARGE] / 2.0}
    use = max((use for use in most if share <= most[use]), default=NOTHING)
    factor = 1.0
    if use != SMALL:
        factor = share / SHARES[use + 1]
        if sigma is not None and not offered:
            factor = ROOM * sigma / NOISY
    return Verdict(name, n, n_sd, use, share, max(factor, 1.0))


def verdicts(rows: Sequence[ClassEntry]) -> list[Verdict]:
    """Return what the mean of each class of a release or a night is usable for."""
    return [_verdict(row) for row in rows]


def is_usable(row: ClassEntry) -> bool:
    """Return whether the mean of a class is usable: no other is drawn."""
    return _verdict(row).use != NOTHING


def _verdict(row: ClassEntry) -> Verdict:
    share = sigma = None
    offered = False
    if row.point is not None and row.predicted_error is not None:
        share = row.predicted_error / usual_difference(row.manifold, len(row.point))
    if isinstance(row, NightClassPart):
        if row.certainty is not None:
            offered = row.certainty.offered
            sigma = min(part.observed.sigma for part in row.certainty.parts)
    elif row.observed is not None:
        offered, sigma = is_offered(row.observed), row.observed.sigma
    return verdict_of(row.class_name, row.n, share, sigma, offered=offered, n_sd=row.n_sd)


def in_words(
    found: Sequence[Verdict],
    *,
    unit: str,
    definition: str,
    budget: float,
    likely: bool = False,
    first_mean: int | None = None,
) -> tuple[str, ...]:
    """Return sentences on all classes: those of one use together, the best use first.

    Parameters
    ----------
    found : sequence of Verdict
    unit : str
        What one record is.
    definition, budget : str, float
        Of the settings; a larger budget is named in GDP and zCDP.
    likely : bool
        Whether nothing was released yet, so that all is foreseen.
    first_mean : int or None
        Of a stream: the number of records at which a class has its first mean.
    """
    lines = []
    for use in (SMALL, COMPARISONS, LARGE, NOTHING):
        rows = [row for row in found if row.use == use and row.share is not None]
        if not rows:
            continue
        phrase = PHRASES[use]
        if likely:
            phrase = f"Likely {phrase[0].lower()}{phrase[1:]}"
        lines.append(f"{phrase}: {_and([row.name for row in rows])}.")
        lines += _reasons(rows, use, unit, definition, budget)
    if waiting := [row.name for row in found if row.share is None]:
        lines.append(f"No mean yet of {_and(waiting)}.")
        if first_mean is not None:
            lines.append(f"A class has its first mean at about {first_mean:,} {unit}s.")
    return tuple(lines)


def _reasons(
    rows: Sequence[Verdict], use: int, unit: str, definition: str, budget: float
) -> list[str]:
    """Return how large the error is beside a usual difference, and what would be enough."""
    worst = max(rows, key=lambda row: row.share or 0.0)
    share = worst.share or 0.0
    size = f"{100.0 * share:.{0 if share > 0.1 else 1}f} % of" if share < 0.9 else "as large as"
    size = size if share < 1.5 else f"{share:.2g} times"
    noise = f"With {size_in_words(worst.n, worst.n_sd)} {unit}s the noise is {size} a usual "
    lines = [f"{noise}difference between classes."]
    factor = max(row.factor for row in rows)
    if use < COMPARISONS and factor > 1.0:
        # a class of none has sums that are divided by the noise of its count, or by 1
        units = max(max(row.n, row.n_sd, 1.0) * row.factor for row in rows)
        enough = f"about {_two_digits(units)} {unit}s a class"
        more = {"gdp": ("μ", budget * factor), "zcdp": ("ρ", budget * factor**2)}.get(definition)
        if more:
            enough += f", or {more[0]} = {_two_digits(more[1])},"
        purpose = "any use" if use == NOTHING else "comparisons"
        lines.append(f"For {purpose} {enough} are needed.")
    return lines


def size_in_words(n: float, deviation: float) -> str:
    """Return a number of images or persons, with its standard deviation where it has one."""
    return f"{n:,.0f} ± {deviation:.2g}" if deviation else f"{n:,.0f}"


def _two_digits(value: float) -> str:
    """Return a number rounded up to two digits."""
    step = 10.0 ** (math.floor(math.log10(max(value, 1e-9))) - 1)
    return f"{math.ceil(value / step - 1e-9) * step:,.10g}"


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
