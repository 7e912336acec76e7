"""Figures draw the numbers of their tables, all of them and nothing else."""

import csv
import io
import json
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
from PIL import Image
from sample_runs import OURS, PAPER, SERIES, write_sample
from scipy import stats

from covdp.errors import DatasetError
from covdp.figures import (
    PALETTE,
    Figure,
    bars,
    curves,
    digits,
    firm,
    matrices,
    montage,
    number,
    own_ids,
    steps,
    tightness,
)
from covdp.figures.pictures import DARK
from covdp.figures.style import INK, LETTER, POINT_SHAPES, WIDTH, chart_settings, log_ticks
from covdp.results import Table, read_bound, read_rows, summarise
from tests.tools.addons import addon

Scale = addon("nights.timelines:Scale")
comparison = addon("nights.timelines:comparison")
timeline = addon("nights.timelines:timeline")
outlines = addon("papers.blocks:outlines")
printed_numbers = addon("papers.blocks:printed_numbers")

pytestmark = pytest.mark.usefixtures("pictures_once")


@pytest.fixture(scope="module")
def run_rows(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Return the rows of a made-up run: 2 classes, 4 series, 5 budgets, 20 repetitions."""
    out = tmp_path_factory.mktemp("run")
    record = write_sample(out, images=False)
    return read_rows(out / "results" / f"{record.run}.parquet")


@pytest.fixture
def rows(run_rows: Table) -> Table:
    """Return a copy of these rows."""
    return {name: column.copy() for name, column in run_rows.items()}


def error_figure(rows: Table) -> Figure:
    """Return error against budget, which must exist."""
    figure = curves(rows)
    assert figure is not None
    return figure


def records(figure: Figure | None) -> list[dict[str, Any]]:
    """Return the data a figure was drawn from, out of its specification."""
    assert figure is not None
    (data,) = figure.spec["datasets"].values()
    return list(data)


def undefined(rows: Table, where: np.ndarray) -> Table:
    """Return the rows with those at `where` undefined."""
    blank = {name: np.where(where, np.nan, rows[name]) for name in ("error", "expected_error")}
    status = np.where(where, "undefined", rows["status"]).astype(object)
    return {**rows, **blank, "status": status}


def test_summary_is_the_mean_of_each_group(rows: Table) -> None:
    """Mean, spread and count of each group are those of a plain loop, groups in the rows' order."""
    table = summarise(rows)
    assert len(table["mean"]) == 2 * 4 * 5
    assert list(table["series"][:6]) == [PAPER] * 5 + [OURS]
    for line in range(0, 40, 3):
        mine = np.ones(len(rows["n"]), dtype=bool)
        for name in ("label", "series", "budget"):
            mine &= rows[name] == table[name][line]
        errors = rows["error"][mine]
        assert table["count"][line] == table["rows"][line] == len(errors) == 20
        assert table["mean"][line] == pytest.approx(errors.mean(), rel=1e-12)
        assert table["sd"][line] == pytest.approx(errors.std(ddof=1), rel=1e-9)
        assert table["se"][line] == pytest.approx(errors.std(ddof=1) / np.sqrt(20), rel=1e-9)
        assert table["sigma"][line] == pytest.approx(rows["sigma"][mine][0], rel=1e-12)
        assert table["class_name"][line] == rows["class_name"][mine][0]


def test_summary_without_values(rows: Table) -> None:
    """A group without a number has count 0 and NaN; a single value has a mean and no spread."""
    gone = rows["series"] == PAPER
    kept = np.flatnonzero(gone)[0]
    gone[kept] = False
    table = summarise(undefined(rows, gone))
    assert table["count"][0] == 1
    assert table["mean"][0] == rows["error"][kept]
    assert np.isnan(table["se"][0])
    assert table["count"][1] == 0
    assert np.isnan(table["mean"][1])
    assert table["rows"][1] == 20
    assert table["status"][1] == "undefined"


def test_error_figure_draws_the_summary(rows: Table) -> None:
    """Each class, series and budget is one point at its mean, with its 95 % and expectation."""
    table = summarise(rows)
    half = stats.t.ppf(0.975, 19) * table["se"]
    drawn = records(error_figure(rows))
    assert len(drawn) == len(table["mean"])
    for index, point in enumerate(drawn):
        assert point["series"] == table["series"][index]
        assert point["panel"].startswith(table["class_name"][index] + ", n = ")
        assert point["x"] == pytest.approx(table["budget"][index], rel=1e-6)
        assert point["mean"] == pytest.approx(table["mean"][index], rel=1e-6)
        assert point["high"] == pytest.approx(table["mean"][index] + half[index], rel=1e-6)
        assert point["low"] == pytest.approx(table["mean"][index] - half[index], rel=1e-6)
        assert point["expected"] == pytest.approx(table["expected_error"][index], rel=1e-6)


def test_every_chart_is_valid(rows: Table) -> None:
    """Charts of each kind are of the schema of Vega-Lite; a page takes them as they are."""
    from altair.vegalite.v6.schema.core import Root  # in no other test

    read = {"class": "a", "span": "all", "value": 1.0, "low": 0.9, "high": 1.1, "n": 9, "n_sd": 0.0}
    nights = [{**read, "run": f"2026-03-0{day}", "term": "Size"} for day in (1, 2, 4)]
    texts = {"name": "x", "title": "X", "caption": "", "classes": ["a", "b"]}
    number = {"quantity": "chain", "unit": "s", "paper": 14.0, "ours": 0.02}
    for figure in (
        curves(rows),
        curves({**rows, "budget": np.ones(len(rows["n"]))}),
        bars(["a"], [2.0], limits=[3.0], name="x", title="X", axis=["two", "lines"]),
        printed_numbers([number]),
        outlines({"a": [[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]}),
        matrices({"a": np.eye(2)}, ["I", "|I|"]),
        timeline(nights, scale=Scale("low", "high", middle=1.0), first="all", **texts),
        comparison(nights, along="run", **texts),
    ):
        assert figure
        spec = json.loads(json.dumps(figure.spec))
        Root.validate(spec)
    with pytest.raises(jsonschema.ValidationError):
        Root.validate({**spec, "columns": "three"})


def test_error_figure_leaves_gaps(rows: Table) -> None:
    """Undefined rows are not drawn, and with no result at all there is no figure."""
    gone = (rows["series"] == SERIES[3]) & (rows["budget"] < 1)
    drawn = records(error_figure(undefined(rows, gone)))
    assert len(drawn) == 40 - 2 * 2
    assert all(point["x"] >= 1 for point in drawn if point["series"] == SERIES[3])
    assert curves(undefined(rows, np.ones(len(gone), dtype=bool))) is None


def test_band_stays_above_zero(rows: Table) -> None:
    """A band wider than its mean keeps a positive foot, so that a log axis can show it."""
    wild = {**rows, "error": rows["error"] * np.where(rows["repetition"] == 0, 1000, 1)}
    assert all(0 < point["low"] < point["mean"] for point in records(error_figure(wild)))


@pytest.mark.parametrize("found", [0, 3, 20])
def test_bands_of_shares_are_those_of_the_score_test(rows: Table, found: int) -> None:
    """Both ends of a band of 95 % are where the score test is at its limit, and within 0 and 1."""
    share = found / 20
    tested = {**rows, "rejected": 1.0 * (rows["repetition"] < found)}
    point = records(curves(tested, value="rejected"))[0]
    for end in {point["low"], point["high"]} - {0.0, 1.0}:
        assert abs(share - end) == pytest.approx(1.96 * np.sqrt(end * (1 - end) / 20), rel=1e-4)
    assert 0 <= point["low"] <= share <= point["high"] <= 1
    assert point["high"] - point["low"] > 0.1


def test_bands_are_over_the_marks(rows: Table) -> None:
    """A stroke of 95 % stands over each mark, in the figures of curves and of one budget."""
    one = {name: column[rows["budget"] == 0.1] for name, column in rows.items()}
    for table in (rows, one):
        kinds = [layer["mark"]["type"] for layer in error_figure(table).spec["spec"]["layer"]]
        assert kinds[-1] == "rule"
        assert "point" in kinds


def test_no_line_break_parts_a_number_from_what_it_is_of() -> None:
    """Equations, products, percent and seconds stay together; words and what is no text do not."""
    text = firm("μ = 0.5, 697 ± 6.1 images, 62.4 % in 3 s; 28 × 28; a = b, as it is")
    assert text.split(" ") == [
        "μ\xa0=\xa00.5,",
        "697\xa0±\xa06.1",
        "images,",
        "62.4\xa0%",
        "in",
        "3\xa0s;",
        "28\xa0×\xa028;",
        *["a", "=", "b,", "as", "it", "is"],
    ]
    assert firm(7) == 7


def test_theory_is_drawn_only_where_it_exists(rows: Table) -> None:
    """The dashes and the words on them appear with an expectation and not without."""
    with_theory = error_figure(rows)
    without = error_figure({**rows, "expected_error": np.full(len(rows["n"]), np.nan)})
    assert "exact expectation" in with_theory.caption
    assert "expectation" not in without.caption
    for figure, dashed in ((with_theory, 2 * 4), (without, 0)):
        paths = [path for path in re.findall("<path [^>]*>", figure.svg) if ' d="M' in path]
        assert sum("stroke-dasharray" in path for path in paths) == dashed


def test_columns_of_the_file_of_numbers_say_what_they_are(rows: Table) -> None:
    """The budget by its letter, what is a mean and of what; of two letters a budget has none."""
    names = error_figure(rows).csv.splitlines()[0].split(",")
    assert {"series", "budget_mu", "mean_error", "low95", "high95", "repetitions"} <= set(names)
    mixed = np.where(rows["series"] == rows["series"][0], "pure", "gdp").astype(object)
    figure = curves({**rows, "definition": mixed})
    assert figure is not None
    assert "budget" in figure.csv.splitlines()[0].split(",")


def test_axes_are_logarithmic_where_values_span_decades(rows: Table) -> None:
    """Budgets from 0.1 to 2 stand on a log axis, from 1 to 2 on a linear one."""
    near = {**rows, "budget": 1 + rows["budget"] / 2}
    for table, kind in ((rows, "log"), (near, "linear")):
        layers = error_figure(table).spec["spec"]["layer"]
        scales = [layer["encoding"]["x"]["scale"] for layer in layers]
        assert {scale.get("type", "linear") for scale in scales} == {kind}


def test_picture_shows_text_and_marks(rows: Table) -> None:
    """The static picture holds every class, every series and a mark for every point."""
    figure = error_figure(rows)
    for word in ("normal, n = 1,583", "pneumonia, n = 4,274", *SERIES):
        assert f">{word}<" in figure.svg.replace("\xa0", " ")
    assert len(re.findall(r'<path [^>]*transform="translate[^>]*d="M', figure.svg)) >= 40
    assert "NaN" not in figure.svg
    assert "http" not in figure.svg.replace("http://www.w3.org/", "")


def test_names_cannot_break_the_picture(rows: Table) -> None:
    """A class and a series named like markup come out as text."""
    evil = "<script>alert('x')</script>"
    changed = {**rows, "class_name": np.full(len(rows["n"]), evil, dtype=object)}
    changed["series"] = np.full(len(rows["n"]), evil + " & co", dtype=object)
    figure = error_figure(changed)
    assert "<script" not in figure.svg
    assert "&lt;script&gt;" in figure.svg


def test_clip_paths_are_not_shared(rows: Table) -> None:
    """With prefixes two pictures have no id in common, and each still finds its own."""
    figure = error_figure(rows)
    pictures = [own_ids(figure.svg, prefix) for prefix in ("a-", "b-")]
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in pictures]
    used = [set(re.findall(r"url\(#([^)]+)\)", svg)) for svg in pictures]
    assert len(ids[0]) == len(ids[1]) >= 2
    assert used == ids
    assert not ids[0] & ids[1]


def test_a_picture_to_take_away_is_whole_and_on_white(rows: Table) -> None:
    """It is the static picture, all of it, with white paper that is wider by a margin all round."""
    figure = error_figure(rows)
    root = ElementTree.fromstring(figure.picture)
    left, top, wide, high = map(float, root.attrib["viewBox"].split())
    paper, *drawn = root
    inside = ElementTree.fromstring(figure.svg)
    assert (wide, high) == (float(root.attrib["width"]), float(root.attrib["height"]))
    assert wide + 2 * left == float(inside.attrib["width"])
    assert high + 2 * top == float(inside.attrib["height"])
    assert left == top < 0
    assert [paper.attrib[key] for key in ("x", "y", "width", "height", "fill")] == [
        *(f"{value:g}" for value in (left, top, wide, high)),
        "white",
    ]
    assert list(map(ElementTree.tostring, drawn)) == list(map(ElementTree.tostring, inside))


def test_same_rows_same_picture(rows: Table, pictures_once: dict[Any, Any]) -> None:
    """A figure is a function of its rows: drawn again, it is the same text."""
    first = error_figure(rows)
    pictures_once.clear()
    assert error_figure(rows) == first


def test_specification_stays_small(rows: Table) -> None:
    """The specification holds points, not rows: ten times the repetitions, the same size."""
    many = {name: np.tile(column, 10) for name, column in rows.items()}
    sizes = [len(str(error_figure(table).spec)) for table in (rows, many)]
    assert sizes[1] < 1.05 * sizes[0] < 25_000


SIZES = {"dim": np.array([3, 15]), "n": np.array([40, 500]), "k": np.array([2, 5])}
WORDS = {
    "budget": "budget μ",
    "n": "number of records n",
    "dim": "dimension d",
    "k": "size k of the k × k matrices",
}


@pytest.mark.parametrize("x", WORDS)
@pytest.mark.parametrize("value", ["error", "seconds"])
def test_axis_is_called_by_what_lies_along_it(rows: Table, x: str, value: str) -> None:
    """The points along x are the column that the title of the axis, and of the figure, names."""
    classes = {name: SIZES[name][rows["label"]] for name in ("dim", "n")}
    sized = {**rows, **classes, "distance": np.full(len(rows["n"]), "log-Cholesky", dtype=object)}
    figure = curves(sized, x=x, panels=(), value=value)
    assert figure is not None
    layers = figure.spec["spec"]["layer"]
    assert {layer["encoding"]["x"]["title"] for layer in layers} == {WORDS[x]}
    expected = np.unique(rows["budget"]) if x == "budget" else SIZES[x]
    drawn = {point["x"] for point in records(figure)}
    np.testing.assert_allclose(sorted(drawn), expected, rtol=1e-6)
    up = {"error": "log-Cholesky distance to the true mean", "seconds": "time of a draw"}[value]
    titles = {
        " ".join(title) if isinstance(title, list) else title
        for layer in layers
        for title in [layer["encoding"]["y"].get("title")]
        if title
    }
    assert titles == {up}
    assert figure.title == f"{up[0].upper()}{up[1:]} against {WORDS[x]}"
    assert ("udget" in figure.title) == (x == "budget")


def test_few_values_are_their_own_ticks(rows: Table) -> None:
    """Up to seven values along x are labelled by themselves, and their numbers are written out."""
    sized = {**rows, "n": np.array([40, 12_345])[rows["label"]]}
    figure = curves(sized, x="n", panels=())
    assert figure is not None
    axes = [layer["encoding"]["x"]["axis"] for layer in figure.spec["spec"]["layer"]]
    assert all(axis["values"] == [40, 12_345] for axis in axes)
    assert ">12,345<" in figure.svg


def test_one_budget_has_no_axis_of_budgets(rows: Table) -> None:
    """With one budget every series is a line of its own, along the error; the title says which."""
    one = {name: column[rows["budget"] == 0.1] for name, column in rows.items()}
    figure = error_figure(one)
    assert figure.title == "Distance to the true mean at μ = 0.1"
    for layer in figure.spec["spec"]["layer"]:
        assert layer["encoding"]["y"]["field"] == "series"
        assert layer["encoding"]["x"]["field"] in ("mean", "low", "expected")
    table = summarise(one)
    assert [point["mean"] for point in records(figure)] == pytest.approx(table["mean"], rel=1e-6)
    drawn = " ".join(re.findall(r">([^<>]+)<", figure.svg))  # long labels have two lines
    assert all(name in drawn.replace("\xa0", " ") for name in SERIES)


def test_distances_that_differ_are_told_apart(rows: Table) -> None:
    """Where series are measured in different distances the caption says which is measured how."""
    own = np.where(rows["series"] == OURS, "Frobenius", "log-Euclidean").astype(object)
    figure = error_figure({**rows, "distance": own})
    assert f"Frobenius ({OURS})" in figure.caption
    assert f"log-Euclidean ({PAPER}, " in figure.caption
    by_class = np.where(rows["label"] == 0, "hyperbolic", "log-Euclidean").astype(object)
    caption = error_figure({**rows, "distance": by_class}).caption
    assert "hyperbolic and log-Euclidean, that of each panel" in caption


def test_letters_of_budgets_are_said_in_words(rows: Table) -> None:
    """Each letter on the axis is spelled out, two definitions of one letter together."""
    names = dict(zip(SERIES, ("gdp", "pure", "approx", "gdp"), strict=True))
    mixed = np.array([names[series] for series in rows["series"]], dtype=object)
    figure = error_figure({**rows, "definition": mixed})
    assert figure.title.endswith("against budget μ or ε")
    assert "μ: Gaussian differential privacy; ε: pure and approximate" in figure.caption


@pytest.mark.parametrize("panels", [("class",), ("panel", "class"), ("panel", "class", "budget")])
def test_titles_of_panels_fit(rows: Table, panels: tuple[str, ...]) -> None:
    """A title is on as many lines as it needs: none is wider than its panel, nothing is lost."""
    name = {
        0: "choroidal neovascularisation",
        1: "a rather long name of a class, as hospitals give them",
    }
    named = np.array([name[label] for label in rows["label"]], dtype=object)
    groups = {series: f"group of {series[:3]}" for series in SERIES}
    figure = curves({**rows, "class_name": named}, panels=panels, panel_of=groups)
    assert figure is not None
    lines = json.loads(figure.spec["facet"]["header"]["labelExpr"].removesuffix("[datum.value]"))
    titles = {point["panel"] for point in records(figure)}
    assert set(lines) == titles
    for title, parts in lines.items():
        assert " ".join(filter(None, parts)).replace("\xa0", " ") == title
        assert max(map(len, parts)) * LETTER <= figure.spec["spec"]["width"]
    assert max(map(len, lines.values())) > 1
    columns, rows_of = (
        figure.spec["columns"],
        [lines[title] for title in figure.spec["facet"]["sort"]],
    )
    for first in range(0, len(rows_of), columns):  # panels of a row stand at one height
        assert len({len(parts) for parts in rows_of[first : first + columns]}) == 1


def test_sizes_are_said_once(rows: Table) -> None:
    """A class called by its n is not given it twice; an n that all share is in the caption."""
    named = np.array([f"S², n = {n}" for n in rows["n"]], dtype=object)
    titles = {point["panel"] for point in records(error_figure({**rows, "class_name": named}))}
    assert titles == set(named)
    same = error_figure({**rows, "n": np.full(len(rows["n"]), 40)})
    assert {point["panel"] for point in records(same)} == {"normal", "pneumonia"}
    assert same.caption.endswith("n = 40.")


def test_colours_are_those_of_the_table(rows: Table) -> None:
    """A series without a result takes no colour from the others, and is not in the legend."""
    figure = error_figure(undefined(rows, rows["series"] == PAPER))
    color = figure.spec["spec"]["layer"][0]["encoding"]["color"]
    assert color["scale"]["domain"] == list(SERIES)
    assert color["legend"]["values"] == list(SERIES[1:])


def test_outlines_are_drawn_whole() -> None:
    """Every outline is a closed line that fills its square, with its row's name, at most six."""
    angle = np.linspace(0, 2 * np.pi, 30, endpoint=False)
    circle = np.stack([np.cos(angle), 0.3 * np.sin(angle)], axis=-1)
    shapes = {"Records": [(0.1 * circle + 3).tolist()] * 8, "Some private ones": [circle.tolist()]}
    figure = outlines(shapes)
    points = records(figure)
    assert len(points) == (6 + 1) * 31
    for row in (0, 1):
        first = [point for point in points if (point["line"], point["place"]) == (row, 0)]
        assert (first[0]["x"], first[0]["y"]) == (first[-1]["x"], first[-1]["y"])
        assert max(point["x"] for point in first) == pytest.approx(1, abs=0.01)
        assert min(point["x"] for point in first) == pytest.approx(-1, abs=0.01)
    assert figure is not None
    assert ">Records<" in figure.svg
    assert outlines({}) is None


def test_bound_figure_shows_norm_and_radius(tmp_path: Path) -> None:
    """Each class is a bar as long as its largest norm, with a stroke at the radius."""
    record = write_sample(tmp_path, images=False)
    bound = read_bound(tmp_path / "runs" / record.run / "bound.parquet")
    drawn = records(tightness(bound))
    assert [bar["label"] for bar in drawn] == ["normal", "pneumonia"]
    assert [bar["value"] for bar in drawn] == bound["largest_norm"].tolist()
    assert {bar["limit"] for bar in drawn} == {30.892}
    assert [bar["text"] for bar in drawn] == ["91.9 %", "92.7 %"]
    figure = steps(record)
    assert [bar["value"] for bar in records(figure)] == [seconds for _, seconds in record.steps]
    assert figure is not None
    assert "2.29 s in all" in figure.caption
    assert bars([], [], name="x", title="x", axis="x") is None


def test_time_figure_draws_mean_seconds(rows: Table) -> None:
    """One point a series and size, at the mean of the seconds; no figure without a time."""
    timed = {**rows, "seconds": rows["repetition"] + 1.0}
    drawn = records(curves(timed, x="n", panels=(), value="seconds"))
    assert len(drawn) == 4 * 2 * 5
    assert {point["mean"] for point in drawn} == {10.5}
    untimed = {**rows, "seconds": np.full(len(rows["n"]), np.nan)}
    assert curves(untimed, x="n", panels=(), value="seconds") is None


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize(("n", "sheet"), [(7, (2 * 30 - 2, 4 * 30 - 2)), (2, (28, 58))])
def test_montage_copies_every_pixel(
    n: int, sheet: tuple[int, int], channels: tuple[int, ...]
) -> None:
    """Each image stands in its place, unchanged, gray or colour; the gaps are transparent."""
    images = np.random.default_rng(1).integers(0, 256, (n, 28, 28, *channels), dtype=np.uint8)
    picture = np.asarray(Image.open(io.BytesIO(montage(images, 4))))
    assert picture.shape == (*sheet, 4)
    for index, image in enumerate(images):
        top, left = 30 * (index // 4), 30 * (index % 4)
        tile = picture[top : top + 28, left : left + 28]
        expected = image if channels else np.repeat(image[..., None], 3, axis=-1)
        np.testing.assert_array_equal(tile[..., :3], expected)
        assert (tile[..., 3] == 255).all()
    assert (picture[..., 3] == 255).sum() == n * 28 * 28


def test_montage_refuses_floats() -> None:
    """Images that are not uint8 are refused at the door."""
    with pytest.raises(DatasetError, match="uint8"):
        montage(np.zeros((2, 28, 28)), 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "free", "fixed"),
    [
        (0.1, "0.1", "0.100"),
        (1.0, "1", "1.00"),
        (123.456, "123", "123"),
        (4273.0, "4,273", "4,273"),
        (4.6e-7, "4.6·10⁻⁷", "4.6·10⁻⁷"),
        (np.nan, "–", "–"),
        (0.0, "0", "0"),
    ],
)
def test_numbers_are_written_as_a_person_would(value: float, free: str, fixed: str) -> None:
    """Three significant digits, no exponent in sight where it is not needed."""
    assert (number(value), digits(value)) == (free, fixed)


@pytest.mark.parametrize(("low", "high"), [(0.09, 2.2), (1e-7, 3e3), (0.8, 8.0), (9.0, 80.0)])
def test_log_ticks_lie_inside(low: float, high: float) -> None:
    """There are between two and twelve ticks, all in the range, rising."""
    ticks = log_ticks(low, high)
    assert 2 <= len(ticks) <= 12
    assert ticks == sorted(ticks)
    assert ticks[0] >= low * 0.999
    assert ticks[-1] <= high * 1.001


def luminance(colour: tuple[int, ...]) -> float:
    """Return the relative luminance of 8-bit sRGB (WCAG 2)."""
    srgb = np.array(colour) / 255
    light = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    return float(light @ [0.2126, 0.7152, 0.0722])


def two_by_two(correlations: np.ndarray) -> np.ndarray:
    """Return one matrix a correlation, of standard deviations 0.2 and 12."""
    ones = np.ones_like(correlations)
    return np.array([[0.04 * ones, 2.4 * correlations], [2.4 * correlations, 144 * ones]]).T


def test_matrices_label_every_cell_readably() -> None:
    """Whatever the correlation, a label stands out 4.5 to 1 from its cell (WCAG 2, level AA)."""
    correlations = np.linspace(-0.99, 0.99, 67)
    names = [f"c{i}" for i in range(len(correlations))]
    svg = matrices(dict(zip(names, two_by_two(correlations), strict=True)), ["u", "v"]).svg
    for cell_key, label_key in (('fill="', 'font-size="10px" fill="'), ("--dark:", "--dark:")):
        cells = re.findall(rf'<path [^>]*{cell_key}rgb\((\d+), (\d+), (\d+)\)"', svg)
        labels = re.findall(rf'<text [^>]*{label_key}#(..)(..)(..)"', svg)
        assert len(cells) == len(labels) == 4 * len(names)
        for cell, label in zip(cells, labels, strict=True):
            levels = luminance(tuple(map(int, cell))), luminance(tuple(int(x, 16) for x in label))
            assert (max(levels) + 0.05) / (min(levels) + 0.05) >= 4.5, (cell, label)
    words = chart_settings("matrices")["spec"]["layer"][1]["encoding"]  # as a browser draws them
    assert words["color"]["condition"]["test"].endswith(f" < {DARK}")


def test_settings_of_charts_have_the_ink_of_figures() -> None:
    """Axes, heads and legends have the colour of the marks that are drawn in code."""
    house = chart_settings("house")
    pairs = [pair for part in ("axis", "header", "legend") for pair in house[part].items()]
    others = {key for key, value in pairs if key.endswith("Color") and value != INK}
    assert others == {"gridColor"}


def test_matrices_write_numbers_alike() -> None:
    """Correlations have two decimals and zero has no sign; deviations have two digits."""
    points = two_by_two(np.array([-1e-9, 0.2, -0.196, 0.5]))
    cells = records(matrices(dict(zip("abcd", points, strict=True)), ["u", "v"]))
    upper = [cell["text"] for cell in cells if (cell["row"], cell["column"]) == ("u", "v")]
    assert upper == ["0.00", "0.20", "-0.20", "0.50"]
    assert {cell["text"] for cell in cells if cell["row"] == cell["column"]} == {"0.20", "12"}


@pytest.mark.parametrize(("classes", "features"), [(3, 5), (3, 9), (4, 11)])
def test_each_matrix_has_its_own_labels(classes: int, features: int) -> None:
    """Every square, in whatever row of squares, names each feature at its side and below it."""
    names = [f"f{i}" for i in range(features)]
    svg = matrices(dict.fromkeys("abcd"[:classes], np.eye(features)), names).svg
    assert len(re.findall(r">f\d+</text>", svg)) == 2 * features * classes


@pytest.mark.parametrize(("features", "upright"), [(5, False), (11, True)])
def test_labels_of_small_squares_are_upright(features: int, upright: bool) -> None:
    """Tilted labels of squares that hold no number would overlap: picture and chart turn them."""
    figure = matrices(dict.fromkeys("abcd", np.eye(features)), [f"f{i}" for i in range(features)])
    assert ("rotate(270)" in figure.svg) == upright
    assert figure.spec["spec"]["encoding"]["x"]["axis"]["labelAngle"] == (-90 if upright else -40)


@pytest.mark.parametrize("across", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("features", [2, 5, 9, 11])
def test_matrices_fit_their_card(features: int, across: int) -> None:
    """However many there are, none is cut, and those that belong together stand in one row."""
    names = [f"|I{i:04d}|" for i in range(features)]
    for count in (1, 2, 3, 4, 7, 18):
        means = {f"a long name, {i}": np.eye(features) for i in range(count)}
        figure = matrices(means, names, across=across)
        root = ElementTree.fromstring(figure.svg)
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        assert width <= WIDTH
        assert figure.spec["columns"] <= 4
        if across <= 4 and across and count % across == 0:
            assert figure.spec["columns"] % across == 0
        side, columns = figure.spec["spec"]["width"], figure.spec["columns"]
        assert width >= columns * side
        assert height >= -(-count // columns) * side
        assert figure.is_tall == (height > 1000)
        shown = len(re.findall('font-size="10px"', figure.svg))
        assert shown in (0, count * features**2)
        assert len(figure.spec["spec"]["layer"]) == 1 + (shown > 0)


def test_many_large_matrices_are_small_multiples() -> None:
    """Pairs of nine classes of eleven features are five rows, shown on demand."""
    means = {f"class {i}: {kind}": np.eye(11) for i in range(9) for kind in ("true", "private")}
    figure = matrices(means, [f"f{i}" for i in range(11)], across=2)
    assert figure.spec["columns"] == 4
    assert 1000 < float(ElementTree.fromstring(figure.svg).attrib["height"]) < 1700
    assert figure.is_tall
    assert "tooltip" in figure.caption


VISION = {  # linear-light matrices, Machado, Oliveira and Fernandes (2009), severity 1
    "usual": np.eye(3),
    "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritan": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


@pytest.mark.parametrize("vision", VISION)
def test_colours_differ_for_every_eye(vision: str) -> None:
    """Any two of the series' colours are told apart (CIE76 ΔE > 15), and all shapes differ."""
    srgb = np.array([[int(hexa[i : i + 2], 16) for i in (1, 3, 5)] for hexa in PALETTE]) / 255
    light = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(light @ np.asarray(VISION[vision]).T, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    f = np.cbrt(seen @ np.array(to_xyz).T / [0.9505, 1.0, 1.089])
    lab = np.stack([116 * f[:, 1], 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)
    gaps = {
        (PALETTE[i], PALETTE[j]): float(np.linalg.norm(lab[i] - lab[j]))
        for i, j in combinations(range(len(PALETTE)), 2)
    }
    assert min(gaps.values()) > 15, min(gaps, key=lambda pair: gaps[pair])
    assert len(set(POINT_SHAPES)) == len(POINT_SHAPES) == len(PALETTE)


def test_import_is_light() -> None:
    """Importing the figures loads neither the drawing library nor Parquet."""
    code = (
        "import sys, covdp.figures, covdp.report;"
        "heavy = ('vl_convert', 'pyarrow', 'jinja2');"
        "print([m for m in heavy if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    out = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert out.stdout.strip() == "[]", out.stderr


def test_printed_numbers_stand_on_a_line_with_ours() -> None:
    """Every number is drawn where it is, what was not run is left out; units share no axis."""
    lines = [
        {"quantity": "chain", "unit": "s", "paper": 14.0, "ours": 0.02},
        {"quantity": "exact", "unit": "s", "paper": 1e-3, "ours": np.nan},
    ]
    figure = printed_numbers(lines)
    assert figure is not None
    rows = list(csv.DictReader(figure.csv.splitlines()))
    assert [(row["quantity"], row["whose"], float(row["seconds"])) for row in rows] == [
        ("chain", "Paper", 14.0),
        ("chain", "Ours", 0.02),
        ("exact", "Paper", 1e-3),
    ]
    assert all(text in figure.svg for text in ("Paper", "Ours", "chain", "exact"))
    assert "exact: 0.001 in the paper, – here" in figure.alt
    assert printed_numbers([lines[0], {**lines[1], "unit": "MB"}]) is None
    assert printed_numbers([]) is None
