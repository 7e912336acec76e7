"""Before a stream is paid for: its openings and its error, night by night, from public numbers."""

import math
from bisect import bisect_left
from functools import partial

import numpy as np

from covdp.addons.nights.config import StreamSettings
from covdp.addons.nights.stream import StreamMechanism, StreamPlan, coefficients
from covdp.addons.nights.stream.plan import SERIES_SHARES
from covdp.mean.rounds import default_shares
from covdp.planning import ClassArrivals, Curve, ErrorRange
from covdp.publish import ReleaseConfig

STREAMED = (0.8, 1.2)
"""Factors by which the range of a stream exceeds that of its parts, after the opening.

A clip is chosen for the noise half way through its epoch and stays, so that what it costs does not
go when the noise does. By hand, on `tiles`, PneumoniaMNIST and BreastMNIST.
"""


class StreamForecast:
    """Forecast of a stream.

    Parameters
    ----------
    config : ReleaseConfig
        Release with a table ``[stream]``.
    """

    def __init__(self, config: ReleaseConfig) -> None:
        assert isinstance(config.stream, StreamSettings)
        self.plan, self.widened = config.stream.plan_of(config.cost, secret=config.secret), STREAMED

    def first_mean(self, units: ClassArrivals) -> int | None:
        """Return the night of the opening of a class; None where it does not open.

        Parameters
        ----------
        units : ClassArrivals
            Expected arrivals of the class.
        """
        return next(iter(opening_nights(self.plan, units)), None)

    def in_mean(self, units: ClassArrivals, night: int) -> int:
        """Return the number of records in the mean of a night; see `in_mean`.

        Parameters
        ----------
        units : ClassArrivals
            Expected arrivals of the class.
        night : int
            Number of the night.
        """
        return in_mean(self.plan, units, night)

    def ends(self, later: Curve, units: ClassArrivals, night: int) -> ErrorRange | None:
        """Return both ends of the range of the error at a night; see `stream_ends`.

        Parameters
        ----------
        later : Curve
            Error curve of releases of their own.
        units : ClassArrivals
            Expected arrivals of the class.
        night : int
            Number of the night.
        """
        return stream_ends(self.plan, later, units, night)

    def has_opened(self, n: int) -> bool:
        """Return True if records are held back no more after n.

        Parameters
        ----------
        n : int
            Number of records.
        """
        return self.plan.next_opening(n) is None


def opening_nights(plan: StreamPlan, units: ClassArrivals) -> tuple[int, ...]:
    """Return the nights of the openings that come before the horizon: one, or more of a small one.

    Where labels are secret they are those that are expected.

    Parameters
    ----------
    plan : StreamPlan
        Plan of the stream.
    units : ClassArrivals
        Expected arrivals of the class.
    """
    openings, released = list[int](), 0
    while plan.next_opening(released) is not None:
        nights = range(openings[-1] + 1 if openings else 1, plan.horizon + 1)
        enough = partial(lambda before, night: plan.opens(units.until(night), before), released)
        place = bisect_left(nights, True, key=enough)
        if place == len(nights):
            break
        openings.append(nights[place])
        released = units.until(nights[place])
    return tuple(openings)


def in_mean(plan: StreamPlan, units: ClassArrivals, night: int) -> int:
    """Return the number of records in the mean of a night, without those that are held back again.

    Parameters
    ----------
    plan : StreamPlan
        Plan of the stream.
    units : ClassArrivals
        Expected arrivals of the class.
    night : int
        Number of the night.
    """
    openings = [opened for opened in opening_nights(plan, units) if opened <= night]
    if openings and plan.next_opening(units.until(openings[-1])) is not None:
        night = openings[-1]
    return units.until(night)


def stream_ends(
    plan: StreamPlan, later: Curve, units: ClassArrivals, night: int
) -> ErrorRange | None:
    """Return both ends of the range of a stream's error at a night, None before the opening.

    The opening is a release by shares of its own; where labels are secret, counts before it have
    taken theirs of the budget. The arrivals of the k nights since make a mean under
    ‖c‖_H·‖c‖_k/√share times the noise of its n·μ, where a release of its own has 1/√share: like one
    at so much less n·μ. Both are parts of one mean, by their numbers of records; as long as the
    later one is the less certain, the statement on its records is near the opening.

    Parameters
    ----------
    plan : StreamPlan
        Plan of the stream.
    later : Curve
        Error curve of releases of their own.
    units : ClassArrivals
        Expected arrivals of the class.
    night : int
        Number of the night.
    """
    openings = [opened for opened in opening_nights(plan, units) if opened <= night]
    if not openings:
        return None
    *before, opened = openings
    n, stream = units.until(night), StreamMechanism(plan, later.domain, later.manifold)
    opening = units.until(opened) - (units.until(before[-1]) if before else 0)
    information = opening * plan.opening_mu(later.domain.dimension)
    first = Curve(later.domain, stream.opening).ends(information)
    if in_mean(plan, units, night) == units.until(opened):
        return first
    squares = np.cumsum(coefficients(plan.horizon) ** 2)
    norm = math.sqrt(squares[-1] * squares[night - opened - 1])
    signal = (n - units.until(opened)) * plan.mu / norm
    own = default_shares(stream.prior, few=False).last
    since = later.ends(signal * math.sqrt(SERIES_SHARES[-1] / own))
    low, high = (
        factor * min(a, math.hypot(a * opening / n, b * (n - opening) / n))
        for factor, a, b in zip(STREAMED, first, since, strict=True)
    )
    return ErrorRange(low, high)
