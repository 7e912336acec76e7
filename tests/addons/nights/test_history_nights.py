"""The history of a stream: what its documents say of every night, and of the last ones."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sample_documents import document_of, documents_of, night_class_of
from sample_history import CLASSES, draw_nights

from covdp.addons.nights.certainty import mean_certainty
from covdp.addons.nights.changes import WindowTest
from covdp.addons.nights.history import (
    NARROWER,
    Series,
    read_history,
    window_means,
    window_moves,
)
from covdp.addons.nights.history_page import build_history, windows
from covdp.addons.nights.night_page import joined
from covdp.addons.nights.schema import NightDocument
from covdp.addons.nights.stream import (
    Night,
    StreamMechanism,
    StreamPlan,
    covariance_of,
    cumulative_mean,
    empty_state,
    later_openings,
    release_night,
    split_epochs,
    window_mean,
)
from covdp.addons.nights.stream.history import mean_parts, part_moments
from covdp.addons.nights.stream.pool import pool
from covdp.addons.nights.transcript import ClassHistory, estimate_part, read_histories
from covdp.arrays import FloatArray
from covdp.datasets import open_dataset
from covdp.descriptors import DESCRIPTORS, describe, domain, terms_of
from covdp.geometry import MANIFOLDS
from covdp.inference import covariance
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP
from covdp.publish import read_terms
from covdp.publish.readings import Mean, mean_of, reader_of
from covdp.report import build_release_report
from covdp.report.release_page import verdict
from covdp.report.templates import draw, undivided
from tests.addons.nights.pages import marks, tables, words

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
    """Both are those that the stream itself computes of the nights up to each.

    The error is that of the mean before anything was shrunk, without clipping.
    """
    histories = read_histories(documents_of(results))
    for number, run in enumerate(series.runs, 1):
        for found, one in zip(histories, run.classes, strict=True):
            expected = cumulative_mean(found.stream, found.nights[:number])
            assert one.mean is not None
            assert (expected is None) == (one.mean.point is None) == (number < OPENING)
            if expected is not None:
                assert one.n == expected.n == 3 * number
                np.testing.assert_array_equal(one.mean.point, expected.offset)
                error = error_of_parts(found.stream, found.nights[:number])
                np.testing.assert_allclose(one.mean.covariance, error, rtol=1e-8, atol=1e-10)
                moves = window_moves(found, number)
                assert (moves is not None) == (number > OPENING)
                assert moves is None or np.linalg.matrix_rank(np.concatenate(moves)) == 15
                assert len(one.changes) == (4 if number == len(DAYS) else 0)


def error_of_parts(stream: StreamMechanism, nights: Sequence[Night]) -> FloatArray:
    """Return the covariance of the error of a mean of all so far, without clipping."""
    past = split_epochs(stream, nights)
    pooled, moments = mean_parts(stream, past), part_moments(stream, past)
    assert pooled is not None
    wide = [part for part in moments if part.moment is not None]
    single = np.average([covariance(p) for p in wide], axis=0, weights=[p.n for p in wide])
    error, n = np.zeros_like(single), sum(part.n for part in moments)
    for gain, part in zip(pool(*pooled).gains, moments, strict=True):
        rest = gain - part.n / n * np.eye(len(gain))
        error += gain @ part.noise @ gain.T + rest @ single @ rest.T / part.n
    return error


def test_a_night_and_the_history_state_the_same_bands(results: list[bytes], series: Series) -> None:
    """The page of the last night reads its document alone, and says what the history says of it."""
    last = series.runs[-1]
    assert any(one.low is not None for row in last.classes for one in row.readings)
    document = documents_of(results)[-1]
    reader = reader_of(document.settings)  # as the page of a release has it
    assert reader is not None
    for one, other in zip(map(reader.read, document.classes), last.classes, strict=True):
        assert (one.n, one.usable) == (other.n, other.usable)
        assert [read[1:] for read in one.readings] == [read[1:] for read in other.readings]


def test_windows_have_their_exact_noise(results: list[bytes]) -> None:
    """The covariance of a window is that which the stream knows of it, whatever clipping does."""
    documents = documents_of(results)
    histories, last = read_histories(documents), documents[-1]
    for found, row in zip(histories, last.classes, strict=True):
        told, more = (window_means(last, row, moves) for moves in (None, (np.eye(15),)))
        assert all(
            np.array_equal(one.covariance, other.covariance) and other.moves is not None
            for (_, one), (_, other) in zip(told, more, strict=True)
        )
        assert [part.nights for part, _ in told] == [1, 7, 30, 90]
        for part, mean in told:
            seen = window_mean(found.stream, found.nights, part.nights)
            assert seen is not None
            expected = covariance_of(found.stream, found.nights, seen, seen)
            np.testing.assert_allclose(mean.covariance, expected, rtol=1e-9, atol=1e-12)
            np.testing.assert_array_equal(mean.point, seen.offset)
            assert part.n == seen.n


def test_documents_that_cannot_be_read_back_have_the_error_they_state(
    results: list[bytes], series: Series
) -> None:
    """Where a version drew other noise, the bands are those of its documents all the same."""
    other = json.loads(results[4])
    other["coefficient_norm"] *= 2
    changed = [*results[:4], json.dumps(other).encode(), *results[5:]]
    ((found,), _) = read_history("ward", changed)
    for one, row in zip(found.runs[-1].classes, series.runs[-1].classes, strict=True):
        assert one.mean is not None
        assert row.mean is not None
        assert (len(one.changes), len(row.changes)) == (0, 4)
        np.testing.assert_array_equal(one.mean.covariance, row.mean.covariance)


def test_of_many_nights_some_are_read(
    results: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more nights than are shown every second is read, the last among them; all are listed."""
    monkeypatch.setattr("covdp.addons.nights.history.MOST_SHOWN", 4)
    ((thinned,), _) = read_history("ward", results)
    read = [run.document.night for run in thinned.runs if run.classes[0].readings]
    assert read == [2, 4, 6, 8]
    assert [run.key for run in thinned.runs] == DAYS


def test_all_nights_are_read_without_a_scroll_of_their_own(page: Path, series: Series) -> None:
    """Ten are open, those before them at a click; neither table, nor statements, scrolls down."""
    text = page.read_text(encoding="utf-8")
    listed = text.partition('id="series-1-runs"')[2].partition('id="series-1-facts"')[0]
    assert "<table>" in listed
    assert '<table class="statements">' in listed
    assert "scroll tall" not in listed
    assert "<details><summary>" not in listed.partition("statements")[0]
    night = {"document": series.runs[0].document, "digest": ""}
    runs = [SimpleNamespace(key=f"night {place}", place=place, **night) for place in range(16)]
    content = SimpleNamespace(
        series=SimpleNamespace(runs=runs, settings=series.settings, horizon=series.horizon),
        files={run.place: Path(f"{run.place}.json") for run in runs},
    )
    block, section = SimpleNamespace(title="All"), SimpleNamespace(id="series-1")
    drawn = draw("runs.html.j2", content=content, block=block, section=section)
    shown, _, folded = drawn.partition("<details><summary>The 6 before these</summary>")
    places = [re.findall(r">night (\d+)</th>", part) for part in (shown, folded)]
    assert [*places[0], *places[1]] == [str(place) for place in reversed(range(16))]
    assert list(map(len, places)) == [10, 6]


def test_marks_begin_with_the_opening(page: Path, series: Series) -> None:
    """Until then there is nothing to draw; then each night has the mean of all, and of thirty."""
    for rows, drawn in zip(tables(page).values(), marks(page), strict=True):
        assert len(rows) == len(drawn) > 0
    contrast = tables(page)["series-1-contrast.csv"]
    every = [row for row in contrast if row["mean_of"] == "all nights so far"]
    assert [row["run"] for row in every[::2]] == DAYS[OPENING - 1 :]
    assert {row["class"] for row in contrast} == set(CLASSES)
    last = series.runs[-1].classes[0].readings[0]
    assert float(every[-2]["contrast"]) == pytest.approx(last.value, rel=1e-5)


def test_a_usable_mean_has_a_band(tmp_path: Path) -> None:
    """However many records are clipped: each of its terms is drawn, unless noise is all there is.

    A class that is not drawn is named with the reason, beside the charts.
    """
    results = draw_nights(tmp_path, DAYS, np.random.default_rng(20260322), mu=3.0)
    ((series,), _) = read_history("ward", results)
    rows = [row for run in series.runs for row in run.classes]
    assert any(row.usable for row in rows)
    for row in rows:
        assert all((one.low is None) == (one.value is None) for one in row.readings)
        assert row.usable or all(one.value is None for one in row.readings)
    page = build_history("ward", results, tmp_path / "out")
    waiting = f"has no mean yet: {DAYS[0]} to {DAYS[OPENING - 2]}, {OPENING - 1} runs."
    assert all(f"{name} {waiting}" in words(page) for name in series.classes)


def test_where_no_mean_is_usable_one_sentence_says_so(results: list[bytes], tmp_path: Path) -> None:
    """Not a heading, a caption and the same sentence for each term."""
    said = words(build_history("ward", results[: OPENING - 1], tmp_path / "out"))
    assert said.count("Nothing is drawn: no mean of these classes is usable yet.") == 1
    assert "A gain of 1.1 in the images" not in said


def test_windows_are_compared(page: Path) -> None:
    """The chart of windows has all that noise lets see, beside all nights."""
    rows = tables(page)["series-1-windows.csv"]
    shown = {row["nights"] for row in rows}
    assert shown == {"last night", "last 7 nights", "all nights so far"}  # longer ones are no other
    assert len({row["term"] for row in rows}) == 5


def test_windows_are_tested_and_what_cannot_be_is_said(page: Path) -> None:
    """A line a class and window: the last night against those since the opening, Holm's beside it.

    Windows that reach further back than the stream are left out.
    """
    said = words(page)
    assert "Do the last nights differ from those before?" in said
    assert (
        said.count("Not tested: the limit of clipping changed on night 4, and no earlier night")
        == 2
    )
    tested = said.count("No difference from night")
    assert tested + said.count("Unlike night") == 2
    assert "Region of 95 %" in said


@pytest.mark.parametrize(
    ("p_values", "heading"),
    [
        ((0.013, 0.014, 0.015, 0.016), "no difference is found"),
        ((0.012, 0.02, 0.9, 0.9), "{}: last night differs"),
        (
            (0.012, 0.016, 0.02, 0.9),
            "{}: last night and last 7 nights differ; {}: last night differs",
        ),
    ],
)
def test_the_chart_of_windows_is_headed_by_what_holm_finds(
    series: Series, p_values: tuple[float, ...], heading: str
) -> None:
    """All tests of the table count: of four p-values of 0.016 none is small."""
    *runs, last = series.runs
    tests = [
        WindowTest(nights, 4, 9, 9, 0.0, 0.0, p_value)
        for p_value, nights in zip(p_values, (1, 7) * 2, strict=True)
    ]
    classes = [
        replace(row, changes=tuple(tests[2 * place :][:2]))
        for place, row in enumerate(last.classes)
    ]
    figure = windows(replace(series, runs=[*runs, replace(last, classes=classes)]), caption="")
    assert figure is not None
    assert figure.finding == heading.format(*CLASSES)


def test_the_page_says_what_is_left_of_the_horizon(page: Path) -> None:
    """Nights so far and left, for one image for ever, and how many came each night."""
    said = words(page)
    assert "nights so far 8" in said
    assert "nights left, at no further cost 32" in said
    assert "for one image, for ever μ = 60" in said
    assert "Images that night" in said
    assert f"{undivided(DAYS[-1])} 8 6 48 32 nights" in said


def test_before_the_opening_nothing_is_read(results: list[bytes], tmp_path: Path) -> None:
    """Two nights whose images wait: no chart, no value, and the reason."""
    page = build_history("ward", results[:2], tmp_path)
    assert marks(page) == []
    assert page.read_text(encoding="utf-8").count(">no mean yet</span>") == 2 * 5
    assert "no mean yet: the 6 so far are held back until there are 8" in words(page)


def test_a_stream_that_follows_is_read_by_itself(results: list[bytes]) -> None:
    """Before it opens it has no mean and no term, whatever the streams before it have.

    Their mean is a square of the night's page where it is usable: of a first look there is none.
    """
    document, known = document_of(results[0]), read_histories(documents_of(results))[0]
    plan = StreamPlan(GDP(0.5), 40, 10.0, again=later_openings(10.0))
    first = StreamMechanism(plan, known.stream.domain, known.stream.manifold)
    images, noise = next(iter(open_dataset("tiles").chunks(label=0))), np.random.default_rng(1)
    night, _ = release_night(
        first, [], empty_state(15), describe(images[:20]), noise=FloatNoise(noise)
    )
    for stream, nights, shown in ((first, (night,), False), (known.stream, known.nights, True)):
        before = cumulative_mean(stream, nights)
        assert before is not None
        for row in document.classes:
            row.joined = estimate_part(before)
        assert (joined(document) is not None) == shown
        reader = reader_of(document.settings)
        assert reader is not None
        for row, one in zip(document.classes, map(reader.read, document.classes), strict=True):
            assert (one.n, one.usable) == (row.n, False)
            assert all(reading.value is None for reading in one.readings)


def test_after_a_first_look_the_next_opening_is_what_is_needed(tmp_path: Path) -> None:
    """The number stated on the night of the first look is that at which the mean changes first."""
    days = [f"2026-03-{day:02d}" for day in range(1, 21)]
    found = documents_of(draw_nights(tmp_path, days, np.random.default_rng(1), mu=5.0))
    first, *later = found[OPENING - 1 :]
    assert isinstance(first, NightDocument)
    assert "about 60 images a class are needed" in verdict(first).text
    for row, *others in zip(*(document.classes for document in (first, *later)), strict=True):
        same = [np.array_equal(other.coordinates, row.coordinates) for other in others]
        assert same == [True] * (len(others) - 1) + [False]
        assert (row.n, others[-1].n) == (9, 60)


def test_the_stream_means_one_charge_for_ever(
    page: Path, results: list[bytes], tmp_path: Path
) -> None:
    """What it means to one person, and the account, are those of a stream; a night has words."""
    night = words(build_release_report(documents_of(results)[-1], tmp_path / "night.html"))
    for text in (night, words(page)):  # the account's figure is the same, and said once
        assert text.count("success of an attacker, at most") == 1
        assert "success with all that the account had paid for" not in text
    assert "Contrast" in night.split("term by term")[1].split("Region of the true mean")[0]
    said = words(page)
    assert "images, and all nights of this stream for ever, decides between two" in said
    assert re.search("Paid for all nights μ = [0-9.]+, once, on the first night Nights left", said)
    assert "Spent when the stream was opened" in said


@pytest.mark.parametrize(
    ("label", "name", "manifold", "mu"),
    [
        (0, "oct5", "spd-log-euclidean", 0.5),
        (1, "oct5", "spd-log-cholesky", 1.0),
        (2, "grid9", "spd-log-euclidean", 2.0),
    ],
    ids=["tissue", "retina", "cell"],
)
def test_bands_hold_the_mean_of_all_so_far(label: int, name: str, manifold: str, mu: float) -> None:
    """Of 20 streams of real tiles, for each term in at least 13; those of windows, if there are.

    Bands are with the most that clipping may have done.

    A band that holds 9 of 10 fails for a term with probability 4e-4.
    """
    streams, count = 20, 1200 if name == "oct5" else 600
    kind = DESCRIPTORS[name]
    chunks = open_dataset("tiles").chunks(label=label)
    records = np.concatenate([describe(part, name) for part in chunks])
    space, terms = MANIFOLDS[manifold](k=kind.k), terms_of(kind)
    known = domain(name, height=28, width=28, manifold=manifold)
    stream = StreamMechanism(StreamPlan(GDP(mu), 365), known, space)
    places, rng = space.log(space.origin, records), np.random.default_rng(20260322)
    held, missed = np.zeros(len(terms), dtype=int), np.zeros((2, len(terms)), dtype=int)
    for _ in range(streams):
        order, sums = rng.permutation(len(records))[:count].reshape(-1, 40), empty_state(space.dim)
        nights: list[Night] = []
        for units in order:
            released, sums = release_night(
                stream, nights, sums, records[units], noise=FloatNoise(rng)
            )
            nights.append(released)
        mean, certainty = cumulative_mean(stream, nights), mean_certainty(stream, nights)
        assert mean is not None
        row = night_class_of({"n": count}).model_copy(
            update={"coordinates": mean.offset, "certainty": certainty}
        )
        found = mean_of(row, stream.frame, stream.manifold)
        moves = window_moves(ClassHistory(0, "tissue", stream, tuple(nights)), len(nights))
        without = space.exp(space.origin, places[order.ravel()].mean(axis=0))
        for place, one in enumerate(read_terms(terms, found, space)):
            assert one.low is not None
            held[place] += one.ends[0] <= float(one.term.value(without)) <= one.ends[1]
        for row, last in enumerate((7, 30)):
            seen = window_mean(stream, nights, last)
            assert seen is not None
            mine = places[order[seen.first - 1 :].ravel()].mean(axis=0)
            mean = Mean(seen.offset, seen.covariance, near=found.point, moves=moves)
            for place, one in enumerate(read_terms(terms, mean, space, widest=NARROWER)):
                value = float(one.term.value(space.exp(space.origin, mine)))
                missed[row, place] += (
                    one.low is not None and not one.ends[0] <= value <= one.ends[1]
                )
    assert (held >= 13).all(), held
    assert (missed <= 7).all(), missed
