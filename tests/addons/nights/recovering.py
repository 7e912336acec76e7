"""Streams that make a small opening good."""

from dataclasses import replace

from covdp.addons.nights.stream import (
    StreamMechanism,
    StreamPlan,
    later_openings,
)
from covdp.privacy import GDP
from tests.addons.nights import secret_streams
from tests.addons.nights.secret_streams import MU


def recovering(
    opening: float, *, secret: bool = False, horizon: int = 40, mu: float = MU
) -> StreamMechanism:
    of = secret_streams.stream(horizon=horizon)
    plan = StreamPlan(GDP(mu), horizon, opening, secret, later_openings(opening))
    return replace(of, plan=plan)
