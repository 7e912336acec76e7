"""The adaptive mean in two calls, for tests that look into it."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.geometry import Manifold, Point
from covdp.mean import (
    AdaptivePlan,
    Domain,
    MeanSetup,
    Release,
    Shares,
    admit,
    draw,
    mean,
    prepare,
    release_plan,
    rounds,
)
from covdp.mean.sums import Clip, Sized, as_repetition, clipped_totals, of_digits, sizes
from covdp.mechanisms import NOISES, FloatNoise, Noise
from covdp.privacy import Budget


def adaptive(
    points: Point, *, domain: Domain, manifold: Manifold, shares: Shares | None = None
) -> MeanSetup:
    """Return what all draws of an adaptive mean share."""
    records = admit(points, domain=domain, manifold=manifold)
    return prepare(records, AdaptivePlan(shares), rng=None)


def forced(monkeypatch: pytest.MonkeyPatch, radius: float | FloatArray) -> None:
    """Let the second and third mean clip to balls of this radius, or of one a repetition."""

    def same(shells: FloatArray, *_: Any) -> FloatArray:
        return np.array(np.broadcast_to(radius, len(shells)))

    monkeypatch.setattr(rounds, "choose_radius", same)


def blocks_of(monkeypatch: pytest.MonkeyPatch, coordinates: int) -> None:
    """Let repetitions be drawn in blocks of at most so many coordinates."""
    monkeypatch.setattr(rounds, "COORDINATES_AT_ONCE", coordinates)


def reaching(dim: int, lines: int, radius: float = 1.5, *, many: int = 1) -> Clip:
    """Return a clipping of one class that overshoots are measured with, around 0.

    Of `many` odd pictures the first is far below along the contrast axis, as a blank image is, and
    the third lies nearly the way of the second.
    """
    odd = np.random.default_rng(many).standard_normal((many, dim))
    odd *= np.linspace(9.0, 4.0, many)[:, None] / np.linalg.norm(odd, axis=1)[:, None]
    odd[2:] = 0.5 * odd[1:-1] + 0.4 * odd[2:]
    odd[:1] = np.append(-9.0, np.linspace(1.0, 2.0, dim - 1))
    return Clip(np.zeros(dim), radius, 2.0 * radius, lines, 4.0, 9.0, 12.0, odd)


def drawn(ready: MeanSetup, budget: Budget, noise: Noise | int, *, size: int = 1) -> Release:
    """Return private means with noise from a source, or from NumPy's generator of a seed."""
    source = FloatNoise(np.random.default_rng(noise)) if isinstance(noise, int) else noise
    return draw(ready, budget, noise=source, size=size)[0]


def released(
    points: Point,
    budget: Budget,
    *,
    mechanism: str,
    noise: str = "hardened",
    shares: tuple[float, ...] | None = None,
    domain: Domain,
    manifold: Manifold,
) -> Release:
    """Return one private mean with the plan and the noise that a release's config names."""
    source = NOISES[noise]()
    plan = release_plan(mechanism, hardened=source.rng is None, shares=shares)
    return mean(points, budget, domain=domain, manifold=manifold, plan=plan, noise=source)


def clipped_sum(seen: FloatArray, to: Clip) -> NDArray[np.int64]:
    """Return 2⁴⁰ times the sum of the clipped vectors of records, (d,)."""
    sized = as_repetition(seen, sizes(seen, to.centre))
    (found,), _ = clipped_totals([sized], to.as_repetition(), paired=False)
    return found[: seen.shape[1]].astype(np.int64)


def exact_sums(parts: Iterable[Sized], to: Clip) -> tuple[list[int], list[int]]:
    """Return 2⁴⁰ times the sum of vectors, then that of overshoots and 2⁸⁰ times that of v·vᵀ."""
    (found,), (digits,) = clipped_totals(parts, to.as_repetition())
    d = len(to.centre)
    words = zip(*(part.tolist() for part in of_digits(digits)), strict=True)
    return found[:d].tolist(), [*found[d:], *(low % 2**64 + (high << 64) for low, high in words)]
