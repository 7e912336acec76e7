"""The pages of releases compared and combined: what they say, what lies beside them, in a browser.

Random tests are seeded and state how often any seed would raise a false alarm.
"""
# ruff: noqa: F811  (fixtures that are imported)

import hashlib
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sample_documents import class_of
from scipy.stats import binom

from covdp.addons.nights.changes import ALPHA
from covdp.addons.partners.several_page import _found, population_mean
from covdp.cli import main
from covdp.descriptors import DESCRIPTORS, terms_of
from covdp.figures import number
from covdp.inference import covariance, two_sample
from covdp.publish.readings import BAND_LEVEL, read_terms
from covdp.report.templates import finite, percent, probability
from tests.addons.nights.pages import tables
from tests.addons.partners.pages import (
    CLASSES,
    SPACE,
    hospitals,  # noqa: F401  (fixtures)
    release_of,
    releases,
    row_of,
    text_of,
)
from tests.inference.entries import tissue
from tests.report.browsing import (  # noqa: F401  (fixtures)
    PHONE,
    browser,
    draw_all,
    opened,
    overflow,
    parts,
    show,
)

ROWS = {
    title: ((0, name), (1, name)) for title, name in zip(CLASSES, ("tissue", "cells"), strict=True)
}
"""Which releases stand in the first two documents, by class."""


@pytest.fixture(scope="module")
def report(hospitals: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of three releases combined."""
    out = tmp_path_factory.mktemp("combined")
    assert main(["combine", *map(str, hospitals), "--out", str(out), "--quiet"]) == 0
    return out / "combine.html"


def test_the_page_of_a_comparison_says_what_the_test_says(
    hospitals: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P-value, statistic and distance of each class; both committed files beside it, by digest."""
    out = tmp_path / "out"
    assert main(["compare", *map(str, hospitals[:2]), "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    page = Path(told["page"])
    assert page == out / "compare.html"
    text, together = text_of(page), probability(told["p_value"])
    for row in told["classes"]:
        found = two_sample(*(releases(name)[place] for place, name in ROWS[row["class"]]))
        assert row["radius"] == pytest.approx(found.radius, rel=1e-12)
        assert (
            f"{probability(found.p_value)} {finite(found.statistic)} {finite(found.line)}" in text
        )
        gain = math.exp(found.least / (2.0 * math.sqrt(5.0)))  # of the log-Euclidean metric
        told_apart = f"± {100 * (gain - 1):.2g} %"
        usual = 2.0 * math.sqrt(5.0) * math.log(1.25)
        printed = f"{number(found.distance)} ({percent(found.distance / usual)}) "
        printed += " ".join(map(number, (found.chance, found.clipping)))
        assert f"{printed} {told_apart}" in text
        assert found.chance < found.radius
    assert f"p {together}" in text or f"p = {together}" in text
    assert "together at most" not in text
    assert "An image in all releases has 2.82843-GDP." in text
    for path in hospitals[:2]:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert digest in text
        beside = out / "release" / f"{path.stem}-monday.json"
        assert beside.read_bytes() == path.read_bytes()
        assert f'href="release/{beside.name}"' in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("gain", [1.0, 1.6])
def test_a_chart_of_terms_is_headed_by_what_the_test_finds(
    hospitals: list[Path], tmp_path: Path, gain: float
) -> None:
    """Without a difference it says so; else it has the values that the documents read as."""
    document = json.loads(hospitals[1].read_text(encoding="utf-8"))
    names = zip(CLASSES, ("tissue", "cells"), strict=True)
    document["classes"] = [row_of(title, releases(x)[1], gain=gain) for title, x in names]
    path = tmp_path / "other.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    page, both = tmp_path / "out" / "compare.html", (hospitals[0], path)
    assert main(["compare", *map(str, both), "--out", str(page.parent), "--quiet"]) == 0
    text = text_of(page)
    if gain == 1.0:
        assert "no difference is found" in text
        return
    found = re.search(r"(\w+), Contrast \(gray levels\): ([\d.]+) in \S+ and ([\d.]+) in", text)
    assert found is not None
    assert found[1] in CLASSES
    assert float(found[3]) / float(found[2]) == pytest.approx(gain, rel=0.2)


KNOWN = {"value": 2.0, "low": 1.9, "high": 2.1}
LARGER = {"value": 2.4, "low": 2.2, "high": 2.6}
NEARER = {"value": 2.2, "low": 2.0, "high": 2.4}
LOST: dict[str, None] = {"value": None, "low": None, "high": None}


@pytest.mark.parametrize(
    ("p_values", "second", "heading"),
    [
        ({"a": 0.001, "b": 0.9}, LARGER, "a, Contrast: 2.00 in x and 2.40 in y"),
        ({"a": 0.001, "b": 0.9}, NEARER, "a differs"),  # noise covers the difference
        ({"a": 0.001, "b": 0.9}, LOST, "a differs"),  # nothing is known to differ
        ({"b": 0.001}, LARGER, "b differs"),  # no term is drawn
        ({"a": 0.03, "b": 0.9}, LARGER, "no difference is found"),
        ({"a": 0.024, "b": 0.9}, LARGER, "a, Contrast: 2.00 in x and 2.40 in y"),
        ({}, LARGER, ""),
    ],
    ids=["differs", "covered", "lost", "not drawn", "all together", "just", "not tested"],
)
def test_a_heading_names_a_term_that_differs_by_more_than_noise(
    p_values: dict[str, float], second: dict[str, Any], heading: str
) -> None:
    """Else the class alone; the smallest p-value counts as often as there are classes."""
    row = {"term": "Contrast", "class": "a"}
    records = [{**row, "mean": "x", **KNOWN}, {**row, "mean": "y", **second}]
    together = SimpleNamespace(results={}, p_values=p_values, combined=False)
    assert _found(together, records) == heading


def test_what_could_not_be_tested_says_so_and_why(
    hospitals: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With noise too wide in both classes, then in one: no p-value, but the reason."""
    noisy = []
    for path in hospitals[:2]:
        document = json.loads(path.read_text(encoding="utf-8"))
        for row in document["classes"]:
            row["observed"]["sigma"] = 0.3
        noisy.append(document)
    for known in (False, True):
        paths = []
        for path, document in zip(hospitals, noisy, strict=False):
            rows = json.loads(path.read_text(encoding="utf-8"))["classes"]
            rows = [document["classes"][0], rows[1] if known else document["classes"][1]]
            paths.append(tmp_path / path.name)
            paths[-1].write_text(json.dumps(document | {"classes": rows}))
        reason = "the noise is 15 times too wide to bound the error of clipping; "
        reason += "a region needs about 15 times as many records"
        reason = f"in a {reason}; in b {reason}"
        for command in ("compare", "combine"):
            out = tmp_path / f"{command} {known}"
            assert main([command, *map(str, paths), "--out", str(out), "--json"]) == 0
            told = json.loads(capsys.readouterr().out)
            first, second = (row.get("heterogeneity", row) for row in told["classes"])
            assert first["p_value"] is None
            assert reason in first["untested"]
            assert (second["p_value"] is None) == (second["untested"] is not None) == (not known)
            assert told.get("p_value", second["p_value"]) == second["p_value"]  # alone, it is all
            text = text_of(Path(told["page"]))
            all_of = f"{CLASSES[0]} and {CLASSES[1]}, because {reason}"
            assert (f"Nothing could be tested: {all_of}" in text) == (not known)
            assert (f" Not tested: {CLASSES[0]}, because {reason}" in text) == known
            assert text.count("not tested – –") + text.count("– – not tested") == 2 - known
            assert known or "p = 1" not in text
            assert main([command, *map(str, paths)]) == 0
            printed = " ".join(capsys.readouterr().out.split())
            assert f"{CLASSES[0]} is not tested: in a the noise" in printed
            assert printed.startswith("Not comparable: no class is tested") == (not known)
            first = printed.partition(" (")[0]  # the verdict of the page
            assert not known or f"{first} (" in " ".join(text.split())


def test_a_document_from_elsewhere_is_not_trusted(
    hospitals: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path up as a name stays in the folder and is no markup; what is not sound is warned of.

    That is noise in floats, one population in both releases, and noise too wide for a region.
    """
    document = json.loads(hospitals[1].read_text())
    document["settings"] |= {"name": "../../<i>up</i>", "noise": "float", "population": "a"}
    document["classes"][1]["observed"]["sigma"] = 0.05
    bad, out = tmp_path / "bad.json", tmp_path / "deep" / "out"
    bad.write_text(json.dumps(document))
    assert main(["compare", str(hospitals[0]), str(bad), "--out", str(out), "-q"]) == 0
    assert capsys.readouterr().out == f"{out / 'compare.html'}\n"
    names = ("a-monday", "..-..--i-up--i--monday")
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json")}
    assert found == {"bad.json", *(f"deep/out/release/{name}.json" for name in names)}
    assert "<i>up" not in (out / "compare.html").read_text(encoding="utf-8")
    text = text_of(out / "compare.html")
    assert "Not safe to publish" in text
    assert "More than one release is about the population a." in text
    refusal = "../../<i>up</i> has no region for cells, as the noise is 2.5 times too wide"
    assert refusal in text
    assert "It is not tested." in text
    assert "has no region for <b>tissue" not in text


def differences(*entries: dict[str, Any]) -> dict[str, tuple[float, float] | None]:
    """Return by what two populations differ on the scale of each term, and half of the band."""
    scales = [
        replace(term, unscaled=np.asarray, least=-np.inf, most=np.inf)
        for term in terms_of(DESCRIPTORS["oct5"])
    ]
    pair = [read_terms(scales, population_mean(class_of(entry)), SPACE) for entry in entries]
    found = dict[str, tuple[float, float] | None]()
    for one, other in zip(*pair, strict=True):
        found[one.term.name] = None
        if None not in (*one[1:], *other[1:]):
            halves = (other.high - other.low) / 2.0, (one.high - one.low) / 2.0
            found[one.term.name] = other.value - one.value, float(np.hypot(*halves))
    return found


def test_a_gain_is_found_as_such() -> None:
    """The same release of images 1.25 times as bright: contrast 1.25, all other terms alike."""
    release = releases("tissue")[0]
    found = differences(row_of("a", release), row_of("a", release, gain=1.25))
    values = {name: pair[0] for name, pair in found.items() if pair is not None}
    assert values.pop("contrast") == pytest.approx(np.log(1.25), rel=1e-9)
    assert list(values.values()) == pytest.approx([0.0] * 4, abs=1e-9)


def test_the_error_of_a_population_has_its_noise_and_its_scatter() -> None:
    """In no direction is it less than the noise with Σ̂/n; clipping adds to that."""
    for name in ("tissue", "cells"):
        row = class_of(row_of(name, releases(name)[0]))
        seen = row.noisy_moments
        least = seen.noise + covariance(seen) / seen.n
        stated = population_mean(row).covariance
        assert stated is not None
        assert np.linalg.eigvalsh(stated - least).min() > -1e-9 * np.trace(least)


def test_bands_of_differences_hold_as_often_as_they_say() -> None:
    """Disjoint samples of one class differ by nothing in 95 % of bands or more, of each term.

    40 pairs of 300 images at μ = 2: fewer than the 1e-4 quantile of the binomial would be a false
    alarm in one seed of 2,000, over 5 terms.
    """
    points, rng = tissue(), np.random.default_rng(11)
    held, widths = np.zeros(5), []
    for seed in range(40):
        order = rng.permutation(len(points))
        pair = (release_of(points[order[i : i + 300]], 2 * seed + (i > 0)) for i in (0, 300))
        for place, found in enumerate(differences(*(row_of("a", one) for one in pair)).values()):
            if found is None:  # a release without a second moment: nothing is said
                continue
            held[place] += abs(found[0]) <= found[1]
            widths.append(2.0 * found[1])
    said = len(widths) // 5
    assert said >= 36
    assert held.min() >= binom.ppf(1e-4, said, BAND_LEVEL)
    assert np.median(widths) < 0.3  # not so wide that they say nothing


def test_rows_of_one_picture_have_one_kind_of_interval(report: Path) -> None:
    """Bands are of noise and chance, whiskers have clipping at most: on the rows of all means.

    So the mean of all, which rests on the most images, has in no term a wider band than every
    release has, nor a longer whisker.
    """
    rows = tables(report)["combine-forest.csv"]
    widths: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    for row in rows:
        least, low, high, most = (float(row[key]) for key in ("least", "low95", "high95", "most"))
        assert least < low < high < most
        widths.setdefault((row["term"], row["class"]), {})[row["mean"]] = high - low, most - least
    assert len(widths) == 5 * 2
    for each in widths.values():
        whole = each.pop("mean of all")
        each.pop("common mean")
        assert len(each) == 3
        for one, widest in zip(whole, map(max, zip(*each.values(), strict=True)), strict=True):
            assert one <= widest


@pytest.mark.parametrize("gain", [1.0, 1.4])
def test_a_verdict_and_a_radius_agree(gain: float) -> None:
    """Means that are found different are farther apart than noise and chance alone reach."""
    rows = [row_of("a", releases("tissue")[0]), row_of("a", releases("tissue")[1], gain=gain)]
    found = two_sample(*map(class_of, rows))
    assert (found.p_value < ALPHA) == (found.distance > found.chance) == (gain > 1.0)
    assert found.chance < found.radius


@pytest.mark.parametrize("opened", [{}, PHONE], indirect=True, ids=["desktop", "phone"])
def test_the_page_in_a_browser(opened: Any, report: Path) -> None:
    """Charts are drawn inside the screen, a hospital a line; committed bytes are one click away."""
    assert draw_all(opened) == 2
    assert overflow(opened) == 0
    marks = opened.locator("#combine-forest .live .mark-symbol.role-mark path")
    assert marks.count() == 5 * 5 * 2  # terms, three hospitals and two means, classes
    assert opened.get_by_text("<b>tissue</b>").count() > 1
    assert parts(opened) == opened.locator(".reportlet").evaluate_all(
        "all => [...all.map(one => one.id), 'privacy', 'methods']"
    )
    link = opened.locator("#combine-documents a").first
    target = report.parent / str(link.get_attribute("href"))
    assert hashlib.sha256(target.read_bytes()).hexdigest() in opened.content()


@pytest.mark.parametrize(
    ("p_values", "said"),
    [
        ({"a": 1e-5, "b": 0.01, "c": 0.02}, "a and b: one mean does not fit all releases"),
        ({"a": 0.9, "b": 1e-5}, "b: one mean does not fit all releases"),
        ({"a": 0.9, "b": 0.03}, "no difference is found"),
    ],
)
def test_every_class_that_one_mean_does_not_fit_is_named(
    p_values: dict[str, float], said: str
) -> None:
    """All whose p-value, times the number of classes, is below the level; else none."""
    together: Any = SimpleNamespace(results={}, p_values=p_values, combined=True)
    assert _found(together, []) == said
