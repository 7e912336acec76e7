"""Streams of classes whose labels are secret."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from covdp.addons.nights.stream import (
    Night,
    StreamMechanism,
    StreamPlan,
    empty_state,
)
from covdp.addons.nights.stream.night import add_placed, draw_night
from covdp.arrays import FloatArray
from covdp.descriptors import domain
from covdp.geometry import MANIFOLDS
from covdp.privacy import GDP
from tests.addons.nights.replayed import Recorded, Replayed

MU, HORIZON, CLASSES = 20.0, 24, 3
FLAT = ("spd-log-euclidean", "spd-log-cholesky")


def stream(
    manifold: str = FLAT[0], budget: Any = None, opening: float = 80.0, horizon: int = HORIZON
) -> StreamMechanism:
    known = domain("oct5", height=28, width=28, manifold=manifold)
    plan = StreamPlan(budget or GDP(MU), horizon, opening, secret=True)
    return StreamMechanism(plan, known, MANIFOLDS[manifold](k=5))


@cache
def units(of: StreamMechanism, n: int, *seed: int, width: float = 0.4) -> Any:
    """Matrices about the prior's centre: like images of one class."""
    offset = of.centre + width * np.random.default_rng(seed).standard_normal((n, of.space.dim))
    return of.manifold.exp(of.manifold.origin, offset)


PLACED: dict[tuple[str, bytes], FloatArray] = {}
"""Records inside the region, by their manifold, on which all domains here are the same."""


def placed(of: StreamMechanism, points: Any) -> FloatArray:
    """Return records as the stream places them, once for the same."""
    key = of.manifold.name, points.tobytes()
    if key not in PLACED:
        PLACED[key] = of.placed(points)
    return PLACED[key]


def release(
    of: StreamMechanism, batches: Sequence[Any], totals: Sequence[int], noise: Any
) -> tuple[Night, ...]:
    """Release all nights of a class, as `release_night` does."""
    history, private = list[Night](), empty_state(of.space.dim)
    for points, total in zip(batches, totals, strict=True):
        private = add_placed(of, history, private, placed(of, points))
        history.append(draw_night(of, history, private, total, noise=noise))
    return tuple(history)


def run(
    of: StreamMechanism,
    classes: Sequence[Sequence[Any]],
    noises: Sequence[Any],
    totals: Sequence[int] = (),
) -> list[Any]:
    """Release all nights of every class, and return their histories.

    `totals` are the persons of each night, where one may be in several classes.
    """
    totals = totals or [sum(map(len, night)) for night in zip(*classes, strict=True)]
    return [
        release(of, batches, totals, noise) for batches, noise in zip(classes, noises, strict=True)
    ]


RECORDINGS: dict[Any, tuple[StreamMechanism, tuple[Night, ...], Recorded]] = {}
"""All nights of a class and its noise, by mechanism, place, scale, totals and records."""


def recorded(
    of: StreamMechanism, place: int, batches: Sequence[Any], totals: Sequence[int], scale: float
) -> tuple[tuple[Night, ...], Recorded]:
    """Release all nights of a class, once for the same records: nothing else decides what it does.

    Noise is that of its place among the classes, so that no two have the same.
    """
    records = tuple(points.tobytes() for points in batches)
    key = id(of), place, scale, tuple(totals), records
    if key not in RECORDINGS:
        noise = Recorded(scale=scale)
        noise.gave.extend([None] * place)
        (history,) = run(of, [batches], [noise], totals)
        RECORDINGS[key] = of, history, noise  # with `of`, so that no other has its id
    return RECORDINGS[key][1:]


def leak(
    of: StreamMechanism,
    left: Sequence[Any],
    right: Sequence[Any],
    totals: Sequence[int] = (),
    scale: float = 1.0,
) -> float:
    """Return the exact μ of the transcripts of all classes together, as `test_stream.leak`.

    Noise is `scale` times as wide as was asked for: 1 but in a control. A class that has the same
    records on both sides asks for the same.
    """
    sums = [
        totals or [sum(map(len, night)) for night in zip(*side, strict=True)]
        for side in (left, right)
    ]
    assert sums[0] == sums[1]
    squares = 0.0
    for place, (batches, others) in enumerate(zip(left, right, strict=True)):
        if all(map(np.array_equal, batches, others)):
            continue
        first, noise = recorded(of, place, batches, sums[0], scale)
        replayed = Replayed(told=noise.gave[place:])
        (second,) = run(of, [others], [replayed], sums[0])
        for a, b in zip(first, second, strict=True):
            assert (a.epoch is None) == (b.epoch is None)
            assert (a.opened is None) == (b.opened is None)
            assert (a.units, a.n_so_far, a.count) == (b.units, b.n_so_far, b.count)
        squares += sum(
            float(np.sum((a - b) ** 2)) / (scale * sigma) ** 2
            for a, b, sigma in zip(noise.asked, replayed.asked, noise.sigmas, strict=True)
        )
    return math.sqrt(squares)


SIZES = (
    (5, 3, 0, 250, *(2,) * 20),
    (1, 0, 2, 2, 1, *(1,) * 19),
    (0,) * 24,
)
"""The first class opens soon and begins a second epoch, the second opens later, the third never."""


def with_person(
    of: StreamMechanism, night: int, records: dict[int, Any], sizes: Any = SIZES
) -> tuple[list[list[Any]], list[int]]:
    """Return the nights of all classes, with a person who has a record in some, and the persons.

    All others have one record each.
    """
    totals = np.sum(sizes, axis=0)
    found = [
        [units(of, n, own, place) for place, n in enumerate(several)]
        for own, several in enumerate(sizes)
    ]
    for label, record in records.items():
        found[label][night] = np.concatenate([record[None], found[label][night]])
    totals[night] += 1
    return found, totals.tolist()


def classes_with(
    of: StreamMechanism, night: int, label: int, unit: Any, sizes: Any = SIZES
) -> list[list[Any]]:
    """Return the nights of all classes, a unit more in one on a night."""
    return with_person(of, night, {label: unit}, sizes)[0]
