"""How far the mean of all units so far errs, night by night."""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial

import numpy as np

from pipeline.geometry import Manifold
from pipeline.mean import AdaptivePlan
from pipeline.mean.rounds import default_shares
from pipeline.planning.curves import Curve, Ends, curve_of
from pipeline.stream import StreamMechanism, StreamPlan, coefficients
from pipeline.stream.plan import SERIES_SHARES

STREAMED = (0.8, 1.2)
"""How far the range of a stream reaches beyond that of its parts, after the opening.

A clip is chosen for the noise half way through its epoch and stays, so that what it costs does not
go when the noise does. By hand, on `tiles`, PneumoniaMNIST and BreastMNIST.
"""
MARKS = (1, 2, 5, 10, 30, 100, 365, 1000, 3650, 10_000)
"""Nights that are shown, with the opening and the last."""


@dataclass(frozen=True)
class ClassArrivals:
    """How many units of a class there are: `first` on the first night, `nightly` more on each."""

    first: int
    nightly: int = 0

    def until(self, night: int) -> int:
        """Return the units up to a night."""
        return self.first + (night - 1) * self.nightly


def opening_nights(plan: StreamPlan, units: ClassArrivals) -> tuple[int, ...]:
    """Return the nights of the openings that come before the horizon: one, or more of a small one.

    Where labels are secret they are those that are expected.
    """
    found, released = list[int](), None
    while plan.next_opening(released) is not None:
        nights = range(found[-1] + 1 if found else 1, plan.horizon + 1)
        enough = partial(lambda before, night: plan.opens(units.until(night), before), released)
        place = bisect_left(nights, True, key=enough)
        if place == len(nights):
            break
        found.append(nights[place])
        released = units.until(nights[place])
    return tuple(found)


def marks(last: int, *more: int | None) -> tuple[int, ...]:
    """Return the nights that are shown of so many."""
    chosen = {*MARKS, last, *(night for night in more if night)}
    return tuple(sorted(night for night in chosen if night <= last))


@dataclass(frozen=True, eq=False)
class StreamCurves:
    """The range of a stream's error, by night.

    The opening is a release by shares of its own. What came on the k nights since is a mean under
    ‖c‖_H·‖c‖_k/√share times the noise of its n·μ, where a release of its own has 1/√share: like one
    at so much less n·μ. Both are parts of one mean, by their numbers of units; as long as the later
    one is the less certain, what is said of its units is near the opening.
    """

    opening: Curve
    later: Curve

    def ends(self, plan: StreamPlan, units: ClassArrivals, night: int) -> Ends | None:
        """Return both ends of the range at a night, None before the opening."""
        nights = opening_nights(plan, units)
        openings = [opened for opened in nights if opened <= night]
        if not openings:
            return None
        *before, opened = openings
        n = units.until(night)
        held = units.until(opened) - (units.until(before[-1]) if before else 0)
        first = self.opening.ends(held * plan.mu)
        holds = plan.next_opening(units.until(opened)) is not None
        if n == units.until(opened) or holds:
            return first
        squares = np.cumsum(coefficients(plan.horizon) ** 2)
        norm = math.sqrt(squares[-1] * squares[night - opened - 1])
        signal = (n - units.until(opened)) * plan.mu / norm
        own = sum(default_shares(self.later.sets[0].records.prior).means)
        later = self.later.ends(signal * math.sqrt(SERIES_SHARES[-1] / own))
        low, high = (
            factor * min(a, math.hypot(a * held / n, b * (n - held) / n))
            for factor, a, b in zip(STREAMED, first, later, strict=True)
        )
        return Ends(low, high)


def stream_curves(plan: StreamPlan, later: Curve, manifold: Manifold) -> StreamCurves:
    """Return the curves of a stream whose releases of their own have the curve `later`."""
    opening: AdaptivePlan = StreamMechanism(plan, later.domain, manifold).opening
    return StreamCurves(curve_of(later.domain, opening), later)
