"""Streams broken on purpose, and how an attacker who knows the fault scores their transcripts.

In: a sound stream. Out: one whose nights are not what was promised.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.audit.nights import (
    Replay,
    StreamTranscripts,
    Transcript,
    scored,
    stream_transcripts,
    total,
)
from pipeline.mechanisms import Mechanism
from pipeline.mechanisms.base import Neighbours
from pipeline.mechanisms.noise import FloatNoise, Noised
from pipeline.stream import column_norm
from pipeline.stream.epochs import begin_epoch


@dataclass(frozen=True)
class Smaller:
    """Noise with `scale` times the σ that was asked for."""

    rng: np.random.Generator
    scale: float

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Add less noise than asked."""
        return FloatNoise(self.rng)(vector, self.scale * sigma, sensitivity)


@dataclass(frozen=True)
class Repeated:
    """Noise that is drawn once, and used again for every vector of the same length."""

    rng: np.random.Generator
    drawn: dict[int, FloatArray] = field(default_factory=dict)

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Add the noise of the night before."""
        fresh = FloatNoise(self.rng)(np.zeros(len(vector)), sigma, sensitivity).vector
        return Noised(vector + self.drawn.setdefault(len(vector), fresh), math.nan)


def of_differences(mechanism: Mechanism) -> Neighbours:
    """Score the last night less the one before, which has no noise where both have the same."""

    def score(transcript: Transcript, one: Replay, other: Replay) -> float:
        told, a, b = (part[-1] - part[-4] for part in (transcript.told, one.asked, other.asked))
        return float(np.sum((2.0 * told - a - b) * (a - b)))

    return scored(mechanism, score)


def of_centres(mechanism: Mechanism) -> Neighbours:
    """Score the published centre of the last epoch: how far it is from what released values say."""
    assert isinstance(mechanism, StreamTranscripts)
    stream = mechanism.stream

    def score(transcript: Transcript, one: Replay, other: Replay) -> float:
        history = transcript.history
        at = max(place for place, night in enumerate(history) if night.epoch)
        epoch = history[at].epoch
        assert epoch is not None
        moved = epoch.centre - begin_epoch(stream, history[:at]).centre
        a, b = (
            total(side.private[at - 2], len(moved)) for side in (one, other)
        )  # the first night is known
        return float(np.sum((2.0 * moved - a - b) * (a - b)))

    return scored(mechanism, score)


def of_units_that_come_again(mechanism: Mechanism) -> Neighbours:
    """Score the log-likelihood ratio, knowing that the unit comes again every night."""
    return stream_transcripts(unit_again(mechanism))


def of_units_opened_again(mechanism: Mechanism) -> Neighbours:
    """Score the log-likelihood ratio, knowing from which nights each goes on."""
    return stream_transcripts(opened_again(mechanism))


def noise_of_one_night(honest: Any) -> Mechanism:
    """Return the mechanism with noise for a horizon of one night."""
    scale = 1.0 / column_norm(len(honest.sizes))
    return cast(Mechanism, replace(honest, noise=lambda rng: Smaller(rng, scale)))


def same_noise(honest: Any) -> Mechanism:
    """Return the mechanism whose nights all have the noise of the first."""
    return cast(Mechanism, replace(honest, noise=Repeated))


def unit_again(honest: Any) -> Mechanism:
    """Return the mechanism that takes a unit again on every later night."""
    return cast(Mechanism, replace(honest, again=True))


def peeking(honest: Any) -> Mechanism:
    """Return the mechanism whose epochs are chosen from sums without noise."""
    return cast(Mechanism, replace(honest, peek=True))


def opened_again(honest: Any) -> Mechanism:
    """Return the mechanism whose nights overlap, each going on from what it read after the first.

    So each of them opens the units that the first has held back.
    """
    rests = tuple(min(place, 1) for place in range(len(honest.sizes)))
    return cast(Mechanism, replace(honest, rests=rests))
