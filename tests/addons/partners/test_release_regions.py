"""Regions on the pages of releases and of histories: radii of the library, and what they mean."""

import math

import pytest
from sample_documents import class_of

from covdp.geometry import MANIFOLDS
from covdp.inference import NOISY, region, verdicts
from covdp.report.readings import (
    as_gain,
    errors_in_words,
    percent,
    radius_of,
    regions_of,
    unbounded,
)
from tests.addons.partners.pages import SPACE, releases, row_of
from tests.tools.addons import addon

radius_cell = addon("nights.history_page:radius_cell")


@pytest.mark.parametrize("name", [name for name in MANIFOLDS if name.startswith("spd")])
def test_a_radius_is_a_gain_that_goes_as_far(name: str) -> None:
    """The descriptor with all standard deviations so much larger lies at that very distance."""
    manifold, point = MANIFOLDS[name](k=5), releases("tissue")[0].point
    for distance in (1e-3, 0.3, 9.0):
        gain = as_gain(manifold, point, distance)
        assert gain > 1.0
        assert float(manifold.dist(point, gain**2 * point)) == pytest.approx(distance, rel=1e-6)
    for distance in (1e300, math.inf):  # of what is all noise
        assert math.isinf(as_gain(manifold, point, distance))
    flat = as_gain(SPACE, point, 0.3)
    assert flat == pytest.approx(math.exp(0.3 / (2.0 * math.sqrt(5.0))))


def test_the_page_has_the_regions_of_the_library() -> None:
    """Radii of sample and population, and how far a region reaches.

    Its edge on the way to the other mean is where `contains` has it.
    """
    rows = [class_of(row_of(name, releases(name)[0])) for name in ("tissue", "cells")]
    found, (tissue, cells) = regions_of(rows, "image"), map(region, rows)
    assert found is not None
    for row, line, mean in zip(rows, found["lines"], (cells, tissue), strict=True):
        here, beyond = (region(row, 0.95, of=of) for of in ("sample", "population"))
        assert here.offered
        printed = [f"{x:.3g}" for x in (here.radius, beyond.radius)]
        assert line[2:] == printed
        share = float(here.share_of_way(mean.centre))
        way = SPACE.log(here.centre, mean.centre)
        for factor, held in ((0.999, True), (1.001, False)):
            assert here.contains(SPACE.exp(here.centre, factor * share * way)) == held
        other = "cells" if row.class_name == "tissue" else "tissue"
        way = f"extends {percent(share)} of the way to {other}, the nearest class."
        assert line[1] == f"The first region {way}"
    same = [row_of("tissue", releases("tissue")[place]) | {"name": str(place)} for place in (0, 1)]
    near = regions_of(list(map(class_of, same)), "image")
    assert near is not None
    assert near["lines"][0][1] == "The first region holds the mean of 1, the nearest class."
    assert regions_of([class_of({"class_name": "a"})], "image") is None


def test_a_mean_that_is_all_noise_leaves_the_others_their_regions() -> None:
    """Its coordinates may be those of no matrix that doubles hold: no region, and no error."""
    rows = [row_of(name, releases(name)[0]) for name in ("tissue", "cells", "cells")]
    rows[2]["name"] = "few"
    rows[2]["coordinates"] = [60.0, 0.0, 0.0, 0.0, -60.0, *[20.0] * 10]
    rows[2]["observed"] |= {"sigma": 50.0}
    classes = list(map(class_of, rows))
    found, without = regions_of(classes, "image"), regions_of(classes[:2], "image")
    assert found is not None
    assert without is not None
    assert found["lines"][:2] == without["lines"]
    assert found["lines"][2][2:] == ["–", "–"]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("sigma", 0.05, "2.5 times too wide"),
        ("moment", None, "there is no second moment: release with"),
    ],
)
def test_a_region_that_is_not_offered_says_why(field: str, value: float | None, words: str) -> None:
    """No radius, and the reason: the rule of the library in words."""
    row = row_of("tissue", releases("tissue")[0])
    row["observed"] |= {field: value}
    text, where = radius_of(class_of(row))
    assert where is None
    assert not region(row).offered
    assert words in text


def test_noise_is_blamed_only_where_it_is_wide() -> None:
    """Where there is no second moment another plan is the way out, however wide the noise is."""
    row = row_of("tissue", releases("tissue")[0])
    row["observed"] |= {"sigma": 0.99 * NOISY}
    assert radius_of(class_of(row))[1] is not None
    row["observed"] |= {"sigma": 1.5 * NOISY}
    assert "the noise is 1.5 times too wide" in radius_of(class_of(row))[0]
    for sigma in (0.99 * NOISY, 1.5 * NOISY):
        row["observed"] |= {"moment": None, "sigma": sigma}
        assert radius_of(class_of(row)) == (
            'Not available: there is no second moment: release with mechanism = "auto", or '
            'plan="auto".',
            None,
        )


def test_a_history_has_the_radius_of_the_latest_release() -> None:
    """Radius where a region is offered; else that none is."""
    row = row_of("tissue", releases("tissue")[0])
    cell = radius_cell(class_of(row))
    assert cell["value"] == f"{region(row).radius:.3g}"
    assert "clipping" in cell["band"]
    row["observed"] |= {"sigma": 0.05}
    assert radius_cell(class_of(row))["band"] == "not available"
    assert radius_cell(class_of({"class_name": "a"}))["band"] == "not known"


def test_what_clipping_may_do_is_stated_with_its_bound() -> None:
    """The bound of the library where a region is available; where not, that there is none."""
    row = row_of("tissue", releases("tissue")[0]) | {"predicted_error": 0.1}
    (judgement,) = verdicts([class_of(row)])
    assert errors_in_words(class_of(row), judgement)[2] == f"{region(row).clipping:.2g}"
    assert unbounded([class_of(row)]) == []
    row["observed"] |= {"sigma": 0.05}
    assert errors_in_words(class_of(row), judgement)[2] == "–"
    (note,) = unbounded([class_of(row)])
    reason = (
        "for tissue: the noise is 2.5 times too wide to bound the error of clipping; "
        "a region needs about 2.5 times as many records."
    )
    assert note == f"No region is available {reason} Its band is of noise alone."
    (useless,) = unbounded([class_of(row | {"predicted_error": 90.0})])
    assert useless == "Not usable, and without a region: tissue (2.5 times too wide)."
