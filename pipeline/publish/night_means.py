"""The mean of all units so far, night by night, and of the last nights, from a stream's documents.

What each night's document leaves to its predecessors, the covariance of the error, is computed from
all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import OutputError
from pipeline.geometry import Manifold
from pipeline.inference import WindowTest, stream_error, window_test
from pipeline.mean import NoisyMoments
from pipeline.mean.axes import Frame
from pipeline.publish.readings import CLIPPED, Mean, mean_of, of_bias, stated_bias
from pipeline.publish.transcript import ClassHistory, read_estimate, read_histories
from pipeline.stream import WINDOWS, StreamMechanism
from pipeline.stream.estimates import _cumulative_mean
from pipeline.stream.history import EpochHistory, split_epochs


class NightMean(NamedTuple):
    """The mean of all units of a class up to a night, how many they are, and what clipping may do.

    `bias` is a covariance, (d, d), and part of that of the mean. `changes` are of the last night
    alone: its windows against the nights before them.
    """

    n: int
    mean: Mean
    bias: FloatArray
    changes: tuple[WindowTest, ...] = ()


class WindowMean(NamedTuple):
    """The mean of the units of a class that came in the last nights."""

    nights: int
    n: int
    mean: Mean


def night_means(
    documents: Sequence[Mapping[str, Any]],
    nights: Iterable[int],
    axes: Frame,
    manifold: Manifold,
) -> dict[int, tuple[NightMean, ...]]:
    """Return the mean of each class on some nights of a stream, by number.

    Parameters
    ----------
    documents : sequence of mapping
        Of nights 1, 2, …, in order.
    nights : iterable of int
        Which of them are wanted.
    axes : Frame
        Of an error of which only the size is known: where the documents cannot be read back, as of
        a version that drew other noise.
    manifold : Manifold
    """
    with suppress(OutputError):
        histories = read_histories(documents)
        pasts = [split_epochs(found.nights) for found in histories]
        known = {
            night: tuple(
                class_mean(found, past, night, row)
                for found, past, row in zip(
                    histories, pasts, documents[night - 1]["classes"], strict=True
                )
            )
            for night in nights
        }
        if (end := len(documents)) in known:
            known[end] = tuple(
                one._replace(changes=_changes(found, past))
                for one, found, past in zip(known[end], histories, pasts, strict=True)
            )
        return known
    return {
        night: tuple(
            NightMean(row["n"], mean_of(row, axes, manifold), np.zeros_like(axes.to_axes))
            for row in documents[night - 1]["classes"]
        )
        for night in nights
    }


def _changes(found: ClassHistory, past: EpochHistory) -> tuple[WindowTest, ...]:
    return tuple(window_test(found.stream, found.nights, past, nights) for nights in WINDOWS)


def window_means(
    document: Mapping[str, Any],
    row: Mapping[str, Any],
    bias: FloatArray,
    near: FloatArray | None = None,
) -> tuple[WindowMean, ...]:
    """Return the windows that a night states of a class.

    Their noise is known exactly; `bias` is what clipping may do besides, `near` the mean of all,
    which has less of it.
    """
    axes = np.array(document["axes"])
    return tuple(
        WindowMean(
            told["nights"],
            told["n"],
            Mean(
                np.array(told["coordinates"]),
                (axes.T * np.array(told["variances"])) @ axes + bias,
                near=near,
            ),
        )
        for told in row["windows"]
    )


def class_mean(
    found: ClassHistory, past: EpochHistory, night: int, row: Mapping[str, Any]
) -> NightMean:
    """Return the mean of a class up to a night, that of the streams before it included.

    `past` is the history of all its nights in parts, `row` what the night's document says of it.
    """
    until = _until(found, past, night)
    bias = _bias(found.stream, until)
    joint = "joined" in row
    estimate = (
        read_estimate(row["joined"], found.stream)
        if joint
        else _cumulative_mean(found.stream, until)
    )
    if estimate is None:
        return NightMean(row["n"], Mean(None, None), bias)
    if not joint:
        error = stream_error(found.stream, until, stated_biases)
        if error is not None:
            hidden = any(one.clipped > CLIPPED for one in error.seen)
            return NightMean(
                estimate.n, Mean(estimate.offset, None if hidden else error.sample), bias
            )
    return NightMean(estimate.n, Mean(estimate.offset, estimate.covariance + bias), bias)


def stated_biases(parts: Sequence[NoisyMoments], shares: Sequence[float]) -> FloatArray:
    """Return what clipping is predicted to do to a mean of parts, each by itself."""
    both = [share**2 * stated_bias(one) for one, share in zip(parts, shares, strict=True)]
    return np.asarray(np.sum(both, axis=0))


def _bias(stream: StreamMechanism, past: EpochHistory) -> FloatArray:
    """Return what clipping may do to the mean of all epochs, by their shares of the units."""
    shares = np.array([part.n for part in past.segments], dtype=np.float64)
    shares /= max(float(shares.sum()), 1.0)
    biases = [(part.epoch.clip.bias_line, part.epoch.clip.bias_rest) for part in past.segments]
    line, rest = shares @ np.array(biases).reshape(-1, 2)
    return of_bias(line, rest, stream.frame.from_axes, stream.frame.lines)


def _until(found: ClassHistory, past: EpochHistory, night: int) -> EpochHistory:
    """Return a history as it was after a night."""
    opening = next((one.night for one in found.nights if one.opened), None)
    if past.opened is None or opening is None or night < opening:
        held = found.nights[night - 1].n_so_far
        return EpochHistory(None, held, past.survey[:0], ())
    segments = tuple(
        part.until(many) for part in past.segments if (many := night - part.epoch.first + 1) > 0
    )
    return EpochHistory(past.opened, past.held, past.survey[: night - opening], segments)
