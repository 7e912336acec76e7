"""The history of a stream: what its documents say of every night, and of the last ones."""

import json
from pathlib import Path

import numpy as np
import pytest
from sample_history import CLASSES, draw_nights
from test_history import marks, tables, words

from pipeline.publish import read_histories
from pipeline.publish.history import Series, read_history
from pipeline.publish.night_means import night_means, window_means
from pipeline.publish.readings import axes_of
from pipeline.report import build_history
from pipeline.stream import covariance_of, cumulative, window

DAYS = [f"2026-03-{day:02d}" for day in (1, 2, 3, 4, 5, 8, 9, 10)]
OPENING = 3
"""The number of the night of the opening."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Return the documents of eight nights."""
    folder = tmp_path_factory.mktemp("nights")
    return draw_nights(folder, DAYS, np.random.default_rng(20260322))


@pytest.fixture(scope="module")
def series(results: list[bytes]) -> Series:
    """Return their series."""
    ((found,), _) = read_history("ward", results)
    return found


@pytest.fixture(scope="module")
def page(results: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return their page."""
    return build_history("ward", results, tmp_path_factory.mktemp("history"))


def test_every_night_has_the_mean_and_error_of_all_so_far(
    results: list[bytes], series: Series
) -> None:
    """Both are those that the stream itself computes of the nights up to each, to the last bit."""
    histories = read_histories(map(json.loads, results))
    for number, run in enumerate(series.runs, 1):
        for found, one in zip(histories, run.classes, strict=True):
            expected = cumulative(found.stream, found.nights[:number])
            assert one.mean is not None
            assert (expected is None) == (one.mean.point is None) == (number < OPENING)
            if expected is not None:
                assert one.n == expected.n == 3 * number
                np.testing.assert_array_equal(one.mean.point, expected.point)
                np.testing.assert_array_equal(one.mean.covariance, expected.covariance)


def test_windows_have_their_exact_noise(results: list[bytes]) -> None:
    """The covariance of a window is that which the stream knows of it."""
    histories, last = read_histories(map(json.loads, results)), json.loads(results[-1])
    for found, row in zip(histories, last["classes"], strict=True):
        told = window_means(last, row)
        assert [one.nights for one in told] == [1, 7, 30, 90]
        for one in told:
            seen = window(found.stream, found.nights, one.nights)
            assert seen is not None
            expected = covariance_of(found.stream, found.nights, seen, seen)
            np.testing.assert_allclose(one.mean.covariance, expected, rtol=1e-9, atol=1e-12)
            np.testing.assert_array_equal(one.mean.point, seen.point)
            assert one.n == seen.n


def test_documents_that_cannot_be_read_back_have_the_error_they_state(
    results: list[bytes],
) -> None:
    """Where a version drew other noise, the size of the error is spread over the directions."""
    documents = [json.loads(result) for result in results]
    settings = documents[0]["settings"]
    axes = axes_of(settings, read_histories(documents)[0].stream.manifold)
    documents[4]["coefficient_norm"] *= 2
    found = night_means(documents, [8], axes)[8]
    for one, row in zip(found, documents[-1]["classes"], strict=True):
        assert one.mean.covariance is not None
        size = np.trace(one.mean.covariance)
        assert size == pytest.approx(1.25 * row["predicted_error"] ** 2)


def test_of_many_nights_some_are_read(
    results: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more nights than are shown every second is read, the last among them; all are listed."""
    monkeypatch.setattr("pipeline.publish.history.SHOWN", 4)
    ((thinned,), _) = read_history("ward", results)
    read = [run.document["night"] for run in thinned.runs if run.classes[0].readings]
    assert read == [2, 4, 6, 8]
    assert [run.key for run in thinned.runs] == DAYS


def test_marks_begin_with_the_opening(page: Path, series: Series) -> None:
    """Until then there is nothing to draw; then each night has the mean of all, and of thirty."""
    for rows, drawn in zip(tables(page).values(), marks(page), strict=True):
        assert len(rows) == len(drawn) > 0
    contrast = tables(page)["series-1-contrast.csv"]
    every = [row for row in contrast if row["span"] == "all nights so far"]
    assert [row["run"] for row in every[::2]] == DAYS[OPENING - 1 :]
    assert {row["class"] for row in contrast} == set(CLASSES)
    last = series.runs[-1].classes[0].readings[0]
    assert float(every[-2]["value"]) == pytest.approx(last.value, rel=1e-5)


def test_windows_are_compared(page: Path) -> None:
    """The chart of windows has all that noise lets see, beside all nights."""
    rows = tables(page)["series-1-windows.csv"]
    assert {row["nights"] for row in rows} <= {
        *("last night", "last 7 nights", "last 30 nights", "last 90 nights", "all nights so far")
    }
    assert "all nights so far" in {row["nights"] for row in rows}
    assert len({row["term"] for row in rows}) == 5


def test_the_page_says_what_is_left_of_the_horizon(page: Path) -> None:
    """Nights so far and left, for one image for ever, and how many came each night."""
    said = words(page)
    assert "nights so far 8" in said
    assert "nights left, at no further cost 32" in said
    assert "for one image, for ever μ = 4" in said
    assert "Images that night" in said
    assert f"{DAYS[-1]} 8 6 48 32 nights" in said


def test_before_the_opening_nothing_is_read(results: list[bytes], tmp_path: Path) -> None:
    """Two nights whose images wait: no chart, no value, and the reason."""
    page = build_history("ward", results[:2], tmp_path)
    assert marks(page) == []
    assert page.read_text(encoding="utf-8").count(">no mean yet</span>") == 2 * 5
    assert "no mean yet: the 6 so far are held back until there are 8" in words(page)


def test_the_stream_means_one_charge_for_ever(page: Path) -> None:
    """What it means to one person, and the account, are those of a stream."""
    said = words(page)
    assert "Whoever sees all nights of this stream, for ever," in said
    assert "Paid for this night nothing more" in said
