"""Did the units of the last nights of a stream differ from those before? A test of two windows.

Two windows that share no night share noise, whose covariance is known exactly, C of one and the
other; their means, nothing shrunk, differ under "one population" by a vector of covariance

    V = S_A + S_B − C − Cᵀ + Σ̂/n_A + Σ̂/n_B,

Σ̂ the covariance of single clipped units, from the second moment. What clipping does to a mean is
the same in both, whatever it is, as long as both are clipped alike: so it is nowhere in V, and the
nights before are those of the same epoch, all of them. Two tests are made, as of two releases
(``comparing.py``): of all directions against χ²_d, and of the line alone against a normal; the
smaller p-value counts twice (Bonferroni). Several windows and classes together: see `holm`. It
holds for units that come each by itself. Next on the path: ``comparing.py``.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipeline.inference.covariance import covariance
from pipeline.stream import Night, Stream, between, covariance_of
from pipeline.stream.epochs import observed_in
from pipeline.stream.history import Past


class Change(NamedTuple):
    """The units of the last nights, against those of the nights before them.

    Attributes
    ----------
    nights : int
        How many nights are the last.
    since : int
        The first of the nights before them.
    n, before : int
        Units of both.
    p_value : float or None
        How likely two samples of one population differ so much; None where `reason` says why not.
    reason : str
    """

    nights: int
    since: int
    n: int
    before: int
    p_value: float | None
    reason: str = ""


def change(stream: Stream, nights: Sequence[Night], past: Past, last: int) -> Change:
    """Test whether the units of the `last` nights differ from those before; `past` is of `nights`.

    From released values alone: a p-value is post-processing, and costs no privacy.
    """
    from scipy.stats import chi2, norm

    if not past.segments:
        return Change(last, 0, 0, 0, None, "no night since its first mean")
    segment, end = past.segments[-1], len(nights)
    since, split = segment.epoch.first, end - last
    late = between(stream, nights, max(split + 1, since), end)
    early = between(stream, nights, since, split) if split >= since else None
    sizes = (late.n if late else 0, early.n if early else 0)
    if split < since:
        reason = f"units are clipped otherwise since night {since}, and no night before is alike"
        return Change(last, since, *sizes, None, reason)
    if late is None or early is None:
        return Change(last, since, *sizes, None, "nobody came in these nights, or before")
    seen = observed_in(stream, past, segment)
    if seen.moment is None:
        return Change(last, since, *sizes, None, "a night of an older version, no second moment")
    both = covariance_of(stream, nights, late, early)
    whole = late.covariance + early.covariance - both - both.T
    whole = whole + covariance(seen) * (1.0 / late.n + 1.0 / early.n)
    delta = late.offset - early.offset
    p = float(chi2.sf(delta @ np.linalg.solve(whole, delta), stream.space.dim))
    if stream.frame.lines:
        along = stream.frame.back[0]
        line = float(along @ delta) / math.sqrt(along @ whole @ along)
        p = min(1.0, 2.0 * min(p, 2.0 * float(norm.sf(abs(line)))))
    return Change(last, since, *sizes, p)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values of several tests, adjusted: by chance one of them is small as seldom as said.

    Holm's, which holds however the tests depend on one another.
    """
    order = np.argsort(p_values)
    grown = np.array(p_values)[order] * (len(order) - np.arange(len(order)))
    found = np.empty(len(order))
    found[order] = np.minimum(np.maximum.accumulate(grown), 1.0)
    return tuple(found.tolist())
