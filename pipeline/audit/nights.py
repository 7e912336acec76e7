"""Streams under audit: the whole transcript of many nights, by what every night published.

In: nights of records, of which one is replaced. Out: transcripts, drawn by the code that releases
a night. On either data set the law of a vector, given the nights before, is normal around the one
that this data set gives when those nights are replayed: the log-likelihood ratio of a transcript
is exact.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.audit.transcript import DESCRIPTOR, ENDS, SIDE
from pipeline.descriptors import domain
from pipeline.geometry import Manifold, to_chart
from pipeline.mean import person_records
from pipeline.mean.sums import PER_UNIT
from pipeline.mechanisms import Diagnostics, Draws, Mechanism
from pipeline.mechanisms.base import Neighbours, Points
from pipeline.mechanisms.noise import FloatNoise, Noise, Noised
from pipeline.privacy import Budget
from pipeline.stream import (
    Night,
    PrivateSums,
    StreamMechanism,
    StreamPlan,
    draw_night,
    empty_state,
)
from pipeline.stream.epochs import epoch_due
from pipeline.stream.factorisation import from_limbs
from pipeline.stream.history import split_epochs
from pipeline.stream.night import add_placed

OPENING = 2
"""Units of the first night, which the stream opens with."""
MANY = 5
"""Images of the person who is replaced; there are three more in their place."""


class Transcript(NamedTuple):
    """What became known: every night as it was published, and all its noised vectors in order."""

    history: tuple[Night, ...]
    told: tuple[FloatArray, ...]


class Replay(NamedTuple):
    """What a data set gives when a transcript is replayed: vectors without noise, and each σ."""

    asked: list[FloatArray]
    sigmas: list[float]
    private: list[PrivateSums]


class Begun(NamedTuple):
    """What a data set's transcripts have in common: nights that are known, and the sums then.

    `placed` are the units of all nights, as `Stream.placed` gives them, `rests` from how many
    nights each goes on.
    """

    stream: StreamMechanism
    placed: list[FloatArray]
    known: list[Night]
    private: PrivateSums
    rests: tuple[int, ...]


@dataclass
class Kept:
    """A source of noise that keeps what it told."""

    source: Noise
    told: list[FloatArray] = field(default_factory=list)

    @property
    def rng(self) -> np.random.Generator | None:
        """The generator of the source."""
        return self.source.rng

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Add noise and keep the result."""
        found = self.source(vector, sigma, sensitivity)
        self.told.append(found.vector)
        return found


@dataclass
class Replayed:
    """No noise: what was told is told again, and what was asked is kept."""

    told: Iterator[FloatArray]
    asked: list[FloatArray] = field(default_factory=list)
    sigmas: list[float] = field(default_factory=list)
    rng: None = None

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Return the next vector of the transcript."""
        self.asked.append(vector)
        self.sigmas.append(sigma)
        return Noised(next(self.told), math.nan)


@dataclass(frozen=True)
class StreamTranscripts:
    """A stream of one class over all nights of its horizon, drawn as its transcripts.

    Attributes
    ----------
    budget, manifold
        As for any mechanism; the budget is what a unit pays for all nights.
    sizes : tuple of int
        Units of each night, the first of which opens the stream; as many nights as its horizon.
    place : int
        Index of the night whose first unit is replaced. If that is not the first, the opening is
        the same on both data sets, and all transcripts go on from one.
    person : bool
        Whether a unit is a person, who is replaced with all images.
    noise : callable
        The source of noise of a generator.
    rests : tuple of int
        From how many nights each goes on; from all before it where that is left out.
    again : bool
        Broken on purpose: the unit comes again on every later night.
    peek : bool
        Broken on purpose: sums without noise move the centre of an epoch.
    """

    budget: Budget
    manifold: Manifold
    sizes: tuple[int, ...]
    place: int
    person: bool = False
    noise: Callable[[np.random.Generator], Noise] = FloatNoise
    rests: tuple[int, ...] = ()
    again: bool = False
    peek: bool = False
    sensitivity: ClassVar[float] = 1.0
    law: ClassVar[str] = "Σ c_{t−j}·x_j + N(0, σ²·Id) on night t, x_j the sum of night j"

    @cached_property
    def stream(self) -> StreamMechanism:
        """What is released of the one class."""
        known = domain(DESCRIPTOR, height=SIDE, width=SIDE, manifold=self.manifold.name)
        plan = StreamPlan(self.budget, len(self.sizes), opening=1.0)
        return StreamMechanism(replace(plan, opening=OPENING * plan.mu), known, self.manifold)

    @property
    def sigma(self) -> float:
        """Noise of the clipped vectors of every night."""
        return self.stream.steps[2].sigma

    def nights(self, end: Sequence[float], images: int) -> list[Points]:
        """Return the records of every night, that at `place` being the one that is replaced."""
        one, other = (np.diag(np.exp(np.asarray(place, float))) for place in (end, ENDS[2]))
        if self.person:
            own = person_records(np.stack([one] * images), np.full(images, b"one"), self.manifold)
        else:
            own = to_chart(self.manifold, one[None])
        others = to_chart(self.manifold, other[None])
        found = [np.repeat(others, size, axis=0) for size in self.sizes]
        for night in range(self.place, len(found) if self.again else self.place + 1):
            found[night] = np.concatenate([own, found[night][1:]])
        return found

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` transcripts of the nights `center`, as objects."""
        stream, placed, known, start, rests = self.begun(cast(list[Points], center))
        drawn, sums = np.empty(size, dtype=object), dict[tuple[Any, ...], PrivateSums]()
        for draw in range(size):
            noise, history, states = Kept(self.noise(rng)), list(known), {len(known): start}
            for place in range(len(known), len(placed)):
                past, private, units = history[: rests[place]], states[rests[place]], placed[place]
                key = place, *_told(past)
                if key not in sums:
                    sums[key] = add_placed(stream, past, private, units)
                states[place + 1] = sums[key]
                night = draw_night(stream, past, sums[key], len(units), noise=noise)
                if self.peek and night.epoch is not None:
                    centre = night.epoch.centre + total(private, self.manifold.dim)
                    night = replace(night, epoch=replace(night.epoch, centre=centre))
                history.append(night)
            drawn[draw] = Transcript(tuple(history), tuple(noise.told))
        return Draws(drawn, Diagnostics())

    def begun(self, nights: Sequence[Points]) -> Begun:
        """Return what is the same on both data sets: an opening, or nothing."""
        stream, private = self.stream, empty_state(self.manifold.dim)
        placed = [stream.placed(points) for points in nights]
        rests = self.rests or tuple(range(len(placed)))
        if self.place == 0:
            return Begun(stream, placed, [], private, rests)
        private = add_placed(stream, [], private, placed[0])
        noise = FloatNoise(np.random.default_rng(0))
        opening = draw_night(stream, [], private, len(placed[0]), noise=noise)
        return Begun(stream, placed, [opening], private, rests)

    def expected_error(self) -> float | None:
        """Return None: not needed here."""
        return None


def data_sets(mechanism: StreamTranscripts) -> tuple[list[Points], list[Points]]:
    """Return the nights of two data sets that differ in one unit, which moves from end to end."""
    return mechanism.nights(ENDS[0], MANY), mechanism.nights(ENDS[1], MANY + 3)


Score = Callable[[Transcript, Replay, Replay], float]


def stream_transcripts(mechanism: Mechanism) -> Neighbours:
    """Score the log-likelihood ratio of a transcript."""
    return scored(mechanism, log_ratio)


def replay(begun: Begun, transcript: Transcript) -> Replay:
    """Return what the nights give, each after those that the transcript published."""
    (stream, placed, known, start, rests), history = begun, transcript.history
    noise, states = Replayed(iter(transcript.told)), {len(known): start}
    for place in range(len(known), len(history)):
        past = history[: rests[place]]
        private = add_placed(stream, past, states[rests[place]], placed[place])
        draw_night(stream, past, private, len(placed[place]), noise=noise)
        states[place + 1] = private
    return Replay(noise.asked, noise.sigmas, list(states.values())[1:])


def deciding(transcript: Transcript, place: int) -> bytes:
    """Return what decides the sums of a replay: nights of the same epochs, opened alike."""
    opened = b"" if place else b"".join(map(np.ndarray.tobytes, transcript.told))
    epochs = (night.epoch.centre.tobytes() for night in transcript.history if night.epoch)
    return opened + b"".join(epochs)


def total(private: PrivateSums, dim: int) -> FloatArray:
    """Return the sum of the clipped vectors of an epoch, without noise: what nobody may see."""
    found = np.zeros(dim)
    for row in private.means:
        found += np.array(from_limbs(row[:dim]), dtype=np.float64) / PER_UNIT
    return found


def log_ratio(transcript: Transcript, one: Replay, other: Replay) -> float:
    """Return the log-likelihood ratio of a transcript under two data sets."""
    steps = zip(transcript.told, one.asked, other.asked, one.sigmas, strict=True)
    return sum(
        float(np.sum((2.0 * y - a - b) * (a - b))) / (2.0 * sigma**2) for y, a, b, sigma in steps
    )


def _told(history: Sequence[Night]) -> tuple[Any, ...]:
    """Return what decides where the units of the next night are clipped, and so the sums then."""
    past = split_epochs(history)
    told = [past.opened.offset] if past.opened else []
    told += [part.epoch.centre for part in past.segments]
    if epoch_due(history, past):
        told += [night.w for night in history if night.w is not None]
    return (len(history), *map(np.ndarray.tobytes, told))


def scored(mechanism: Mechanism, score: Score) -> Neighbours:
    """Return both data sets, and the score of transcripts that is given what either replays to."""
    assert isinstance(mechanism, StreamTranscripts)
    pair = data_sets(mechanism)
    begun = [mechanism.begun(nights) for nights in pair]

    def scores(drawn: Any) -> FloatArray:
        seen: dict[bytes, list[Replay]] = {}
        found = []
        for transcript in drawn:
            key = deciding(transcript, mechanism.place)
            if key not in seen:
                seen[key] = [replay(side, transcript) for side in begun]
            found.append(score(transcript, *seen[key]))
        return np.array(found, dtype=np.float64)

    left, right = (cast(Any, nights) for nights in pair)
    return Neighbours(left, right, None, scores)
