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
μ·σ are public constants of a release. A region is available where σ ≤ `NOISY`, and a secret
count is well above its noise; `ROOM` times as many records, or as large a μ, suffice in 19 of 20
releases for `LARGE` at least. Where a region is available already, the error falls as 1/(n·μ) or
faster. After a first look a stream holds its records back: as many are needed as an opening has.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covdp.geometry import Manifold
from covdp.inference.released import COUNT_SDS, NOISY, is_offered
from covdp.schema import ClassEntry, ClassPart, OpeningPlan

USUAL_GAIN = 1.25
"""Gain of gray levels that moves a descriptor as much as usual classes differ."""
NOTHING, LARGE, COMPARISONS, SMALL = 0, 1, 2, 3
"""Uses, each with all before it."""
SHARES = {LARGE: 1.0, COMPARISONS: 0.25, SMALL: 0.05}
"""Largest error with which a mean has a use, as a share of a usual difference: where a region is
available; else half of that of `LARGE`, and no other use."""
ROOM = 1.25
"""Factor on what a region needs that is asked for where a mean is not usable."""


@dataclass(frozen=True)
class Verdict:
    """Judgement on the use of the mean of a class.

    Attributes
    ----------
    name : str
        Name of the class.
    n, n_sd : float
        Number of images or persons, and its standard deviation.
    use : int
        One of `NOTHING`, `LARGE`, `COMPARISONS` and `SMALL`.
    share : float or None
        Error as a share of a usual difference between classes; None without a mean.
    factor : float
        Multiple of n or μ that is needed for the next use; 1 where there is none, or where the
        count may be of no images.
    each : bool
        True if it is of several classes, of n images or persons each.
    """

    name: str
    n: float
    n_sd: float
    use: int
    share: float | None
    factor: float
    each: bool = False

    @property
    def uncounted(self) -> bool:
        """True if its count may be of no images or persons: it is all noise."""
        return self.n < COUNT_SDS * self.n_sd

    @property
    def needed(self) -> float:
        """Number of images or persons that are needed for the next use.

        Of a class without records it is `factor`, as sums are divided by 1 there.
        """
        return max(self.n, 1.0) * self.factor


def usual_difference(manifold: Manifold, side: int) -> float:
    """Return how far usual classes are apart: what a gain of `USUAL_GAIN` does to the identity.

    `side` is that of the descriptor's matrices.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the descriptor.
    side : int
        Side of the descriptor's matrices.
    """
    return float(manifold.dist(np.eye(side), USUAL_GAIN**2 * np.eye(side)))


def verdict_of(
    name: str,
    n: float,
    share: float | None,
    sigma: float | None,
    *,
    offered: bool,
    n_sd: float = 0.0,
    plan: OpeningPlan | None = None,
) -> Verdict:
    """Return what a mean is usable for.

    Parameters
    ----------
    name : str
        Name of the class.
    n : float
        Number of images or persons.
    share : float or None
        Error as a share of `usual_difference`; None where there is no mean.
    sigma : float or None
        Noise of the vectors of the last round; None of a mean of one draw.
    offered : bool
        True if a region is available.
    n_sd : float
        Standard deviation of that number.
    plan : OpeningPlan, optional
        Plan by which records are held back.
    """
    nothing = Verdict(name, n, n_sd, NOTHING, share, 1.0)
    if share is None or nothing.uncounted:  # no budget makes a mean of no images
        return nothing
    most = SHARES if offered else {LARGE: SHARES[LARGE] / 2.0}
    use = max((use for use in most if share <= most[use]), default=NOTHING)
    factor = 1.0
    if sigma is None:  # no number of records gives it a region, which all further uses ask for
        factor = share / most[LARGE] if use == NOTHING else 1.0
    elif use != SMALL:
        factor = share / SHARES[use + 1] if offered else ROOM * sigma / NOISY
    if plan is not None and factor > 1.0:
        factor = plan.enough(n * factor, n) / n
    return Verdict(name, n, n_sd, use, share, max(factor, 1.0))


def verdicts(rows: Sequence[ClassEntry], plan: OpeningPlan | None = None) -> list[Verdict]:
    """Return what the mean of each class of a release, or of a night by a plan, is usable for.

    Parameters
    ----------
    rows : sequence of ClassEntry
        Entries of the classes.
    plan : OpeningPlan, optional
        Plan by which records are held back.
    """
    return [_verdict(row, plan) for row in rows]


def is_usable(row: ClassEntry) -> bool:
    """Return whether the mean of a class is usable: no other is drawn.

    Parameters
    ----------
    row : ClassEntry
        Entry of the class.
    """
    return _verdict(row).use != NOTHING


def _verdict(row: ClassEntry, plan: OpeningPlan | None = None) -> Verdict:
    share = sigma = None
    offered = False
    if row.point is not None and row.predicted_error is not None:
        share = row.predicted_error / usual_difference(row.manifold, len(row.point))
    if not isinstance(row, ClassPart):
        offered = row.offered
        sigma = min((part.sigma for _, part in row.weighed), default=None)
    elif row.observed is not None:
        offered, sigma = is_offered(row.observed), row.observed.sigma
    return verdict_of(
        row.class_name, row.n, share, sigma, offered=offered, n_sd=row.n_sd, plan=plan
    )
