"""Nights as documents, files and commands: the same promises, whatever lies there and is killed."""

import json
from typing import Any

import numpy as np
import pytest

from pipeline.descriptors import domain
from pipeline.errors import OutputError
from pipeline.geometry import MANIFOLDS
from pipeline.mechanisms.noise import FloatNoise
from pipeline.privacy import GDP
from pipeline.publish import read_histories
from pipeline.publish.transcript import night_row
from pipeline.stream import Night, Stream, StreamPlan, column_norm, cumulative, nothing, window
from pipeline.stream.night import release_night

SETTINGS: dict[str, Any] = {
    "name": "nightly",
    "version": "0",
    "definition": "gdp",
    "budget": 2.0,
    "descriptor": "oct5",
    "eta": 1e-6,
    "manifold": "spd-log-euclidean",
    "image_height": 28,
    "image_width": 28,
    "stream": {"horizon": 40, "opening": 20.0, "follows": None},
}


def simulated(nights: int) -> tuple[Stream, list[Night], list[dict[str, Any]]]:
    """Release some nights of one class in floats; return what was and the documents of it."""
    known = domain("oct5", height=28, width=28)
    stream = Stream(StreamPlan(GDP(2.0), 40, 20.0), known, MANIFOLDS[known.manifold](k=5))
    rng, history, private = np.random.default_rng(3), list[Night](), nothing(15)
    documents = []
    for number in range(1, nights + 1):
        walks = rng.normal(0.0, 20.0, (4 * number, 5, 40))
        points = walks @ walks.swapaxes(1, 2) / 40
        night, private = release_night(stream, history, private, points, noise=FloatNoise(rng))
        history.append(night)
        row = {"label": 0, "class_name": "well", **night_row(stream, night)}
        head = {"night": number, "horizon": 40, "coefficient_norm": column_norm(40)}
        documents.append(json.loads(json.dumps({"settings": SETTINGS, **head, "classes": [row]})))
    return stream, history, documents


def test_documents_alone_give_the_history_to_the_last_bit() -> None:
    """Opening, epochs and every estimate follow from JSON as they did from what was released."""
    stream, history, documents = simulated(9)
    assert sum(night.epoch is not None for night in history) == 2
    (found,) = read_histories(documents)
    assert (found.label, found.name, found.before) == (0, "well", None)
    for one, other in zip(found.nights, history, strict=True):
        for name in ("night", "units", "n_so_far"):
            assert getattr(one, name) == getattr(other, name)
        for name in ("survey", "shells", "w"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
    for t in range(1, 10):
        mine, theirs = (
            cumulative(s, h[:t]) for s, h in ((found.stream, found.nights), (stream, history))
        )
        assert (mine is None) == (theirs is None) == (t < 2)
        if mine and theirs:
            assert np.array_equal(mine.offset, theirs.offset)
            assert np.array_equal(mine.covariance, theirs.covariance)
    mine, theirs = window(found.stream, found.nights, 3), window(stream, history, 3)
    assert mine
    assert theirs
    assert np.array_equal(mine.covariance, theirs.covariance)


def test_documents_of_other_nights_or_other_noise_are_refused() -> None:
    """A night that is missing, and one whose noise this version would not draw, are said."""
    _, _, documents = simulated(4)
    with pytest.raises(OutputError, match="expected night 2, found 3"):
        read_histories([documents[0], *documents[2:]])
    documents[3]["classes"][0]["costs"][2]["sigma"] *= 0.5
    with pytest.raises(OutputError, match=r"night 4 .* other noise"):
        read_histories(documents)
