"""The mean of all units so far, night by night, and of the last nights, from a stream's documents.

What each night's document leaves to its predecessors, the covariance of the error, is computed from
all of them. Next on the path: ``history.py``.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from pipeline.errors import OutputError
from pipeline.mean.frame import Frame
from pipeline.publish.readings import Mean, mean_of
from pipeline.publish.transcript import ClassHistory, read_estimate, read_histories
from pipeline.stream.estimates import cumulative_of
from pipeline.stream.history import Past, parts_of


class NightMean(NamedTuple):
    """The mean of all units of a class up to a night, and how many they are."""

    n: int
    mean: Mean


class WindowMean(NamedTuple):
    """The mean of the units of a class that came in the last nights."""

    nights: int
    n: int
    mean: Mean


def night_means(
    documents: Sequence[Mapping[str, Any]], nights: Iterable[int], axes: Frame
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
    """
    with suppress(OutputError):
        histories = read_histories(documents)
        pasts = [parts_of(found.nights) for found in histories]
        return {
            night: tuple(
                _mean(found, past, night, row)
                for found, past, row in zip(
                    histories, pasts, documents[night - 1]["classes"], strict=True
                )
            )
            for night in nights
        }
    return {
        night: tuple(
            NightMean(row["n"], mean_of(row, axes)) for row in documents[night - 1]["classes"]
        )
        for night in nights
    }


def window_means(document: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[WindowMean, ...]:
    """Return the windows that a night states of a class; their noise is known exactly."""
    axes = np.array(document["axes"])
    return tuple(
        WindowMean(
            told["nights"],
            told["n"],
            Mean(np.array(told["point"]), (axes.T * np.array(told["variances"])) @ axes),
        )
        for told in row["windows"]
    )


def _mean(found: ClassHistory, past: Past, night: int, row: Mapping[str, Any]) -> NightMean:
    """Return the mean of a class up to a night, that of the streams before it included."""
    if "joined" in row:
        estimate = read_estimate(row["joined"], found.stream)
        return NightMean(estimate.n, Mean(estimate.point, estimate.covariance))
    so_far = cumulative_of(found.stream, _until(found, past, night))
    if so_far is None:
        return NightMean(row["n"], Mean(None, None))
    return NightMean(so_far.n, Mean(so_far.point, so_far.covariance))


def _until(found: ClassHistory, past: Past, night: int) -> Past:
    """Return a history as it was after a night."""
    opening = next((one.night for one in found.nights if one.opened), None)
    if past.opened is None or opening is None or night < opening:
        held = found.nights[night - 1].n_so_far
        return Past(None, held, past.survey[:0], ())
    segments = tuple(
        part.until(many) for part in past.segments if (many := night - part.epoch.first + 1) > 0
    )
    return Past(past.opened, past.held, past.survey[: night - opening], segments)
