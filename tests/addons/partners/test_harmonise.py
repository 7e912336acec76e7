"""Maps that put sites on one scale: what they do, what is refused, and who may send them.

Random tests are seeded and state how often any seed would raise a false alarm.
"""
# ruff: noqa: F811  (fixtures that are imported)

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from covdp.addons.partners.harmonise import harmonise
from covdp.addons.partners.several import read_several
from covdp.addons.partners.several_page import ReleaseComparison, forest_figure
from covdp.arrays import FloatArray
from covdp.cli import main
from covdp.datasets import open_dataset
from covdp.descriptors import DESCRIPTORS, describe, domain
from covdp.errors import ConfigError
from covdp.geometry import MANIFOLDS, AffineMap, chart_of, frechet_mean, to_chart
from covdp.mean import Release, private_mean
from covdp.privacy import GDP
from covdp.store import fill, find_place, make_plan
from tests.addons.partners.pages import text_of
from tests.addons.partners.sites import (
    CLASSES,
    GAINS,
    SPACE,
    documents,  # noqa: F401  (fixtures)
    released,
    sites,
)
from tests.inference.entries import tissue

harmonising = sys.modules["covdp.addons.partners.harmonise"]


def images_of(label: int) -> FloatArray:
    return np.concatenate(list(open_dataset("tiles").chunks(label=label)))[:900]


def test_each_site_is_moved_as_far_as_its_scanner_moved_it() -> None:
    """Shifts along the line of contrast are those of the gains, up to one of all, within 0.1.

    Sites differ by up to 1.2 there. Their means err by 0.04 or less along it, samples of 300 by
    0.07 at most: one seed in 1,000 is farther off.
    """
    found = harmonise(sites())
    assert found.weights.sum() == pytest.approx(1.0)
    assert not any(site.reason for site in found.sites.values())
    shifts = np.array([found.sites[name].shift[:5].mean() for name in GAINS])
    gains = 2.0 * np.log([*GAINS.values()])
    away = (shifts - shifts.mean()) - (gains - gains.mean())
    assert np.abs(away).max() < 0.1
    for name in ("south", "west"):
        assert found.sites[name].left < 0.5 * found.sites[name].apart
        size = np.linalg.norm(found.map_of(name).centre - found.common)
        assert size == pytest.approx(found.sites[name].effect)
    assert found.classes_after > found.classes_before > 0.0


def test_the_mean_of_a_site_is_mapped_onto_the_common_one() -> None:
    """But for what is shrunk: in all directions at a large budget, and the less the more noise."""
    rest = []
    for mu in (0.1, 0.3, 2.0):
        found = harmonise(sites(mu))
        away = []
        for name, rows in sites(mu).items():
            space = chart_of(SPACE)
            mean = found.weights @ [space.log(found.base, row.place) for row in rows]
            mapped = found.map_of(name)(SPACE.exp(SPACE.origin, found.base + mean))
            end = space.log(found.base, to_chart(SPACE, mapped))
            away.append(np.linalg.norm(end - found.common) / np.linalg.norm(mean - found.common))
        rest.append(max(away))
    assert rest[0] > rest[1] > rest[2]
    assert rest[2] < 0.1


def test_covariances_are_mapped_where_the_second_moment_says_enough() -> None:
    """At a huge budget those of a wider site become those of all; at a small one means alone."""
    points = SPACE.log(SPACE.origin, tissue())
    wider = {"narrow": points[::2], "wide": points.mean(axis=0) + 1.5 * (points[1::2] - points[0])}
    rows = {name: SPACE.exp(SPACE.origin, part) for name, part in wider.items()}
    one = {name: [released(part, 1e4, 3)] for name, part in rows.items()}
    found = harmonise(one)
    ratios = []
    for name, part in rows.items():
        assert found.sites[name].spread
        moved = SPACE.log(SPACE.origin, found.map_of(name)(part))
        ratios.append(np.trace(np.cov(moved.T)))
    assert 0.8 < ratios[1] / ratios[0] < 1.25
    assert not any(site.spread for site in harmonise(sites(0.5)).sites.values())


@pytest.mark.parametrize("mu", [30.0, 100.0, 300.0, 1000.0])
def test_no_map_stretches_a_direction_that_is_noise(mu: float) -> None:
    """A site that varies by a thousandth along one axis: its second moment is noise there.

    It is moved and not turned, unless noise is smaller than that; whatever the seed.
    """
    points = SPACE.log(SPACE.origin, tissue())
    flat = points.mean(axis=0) + (points[::2] - points.mean(axis=0)) * np.r_[1e-3, np.ones(14)]
    rows = {"flat": SPACE.exp(SPACE.origin, flat), "full": SPACE.exp(SPACE.origin, 1.0 + points)}
    for seed in range(3):
        found = harmonise({name: [released(part, mu, seed)] for name, part in rows.items()})
        for site in found.sites.values():
            assert np.isfinite(site.matrix).all()
            assert np.linalg.norm(site.matrix, 2) < 100.0


def test_sites_that_are_alike_are_refused() -> None:
    """Halves of one class at a small budget: their maps would be noise, in 9 of 10 draws or more.

    An effect above its standard error is one of two standard deviations or so by chance. Fewer than
    6 of 10 are refused with probability 2e-3 where 9 of 10 are.
    """
    reasons = []
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(900)
        rows = {
            name: [released(tissue()[own], 0.3, 100 * seed + place)]
            for place, (name, own) in enumerate(zip("ab", np.array_split(order, 2), strict=True))
        }
        try:
            harmonise(rows)
        except ConfigError as error:
            reasons.append(str(error))
    assert len(reasons) >= 6
    assert all(text.startswith("all maps would be noise") for text in reasons)


@pytest.mark.parametrize("manifold", ["spd-log-cholesky", "spd-affine-invariant"])
def test_other_geometries(manifold: str) -> None:
    """`gauss6` stays an embedding, also of an offset; affine-invariant maps move as they say."""
    if manifold == "spd-log-cholesky":
        images, name = images_of(0), "gauss6"
        parts = [images[::2], np.clip(images[1::2].astype(int) + 20, 0, 255).astype(np.uint8)]
        points = [describe(part, name) for part in parts]
    else:
        points, name = [tissue()[::2], 0.5 * tissue()[1::2]], "oct5"
    space = MANIFOLDS[manifold](k=DESCRIPTORS[name].k)
    known = domain(name, height=28, width=28, manifold=manifold)
    rng = np.random.default_rng(6)
    rows = {
        str(place): [private_mean(part, GDP(4.0), domain=known, manifold=space, rng=rng)[0]]
        for place, part in enumerate(points)
    }
    found = harmonise(rows)
    before, after = (
        space.dist(*(frechet_mean(part, space).point for part in both))
        for both in (points, [found.map_of(str(i))(part) for i, part in enumerate(points)])
    )
    assert after < 0.4 * before
    if name == "gauss6":
        moved = found.map_of("1")(points[1])
        np.testing.assert_array_equal(moved[:, 0, 0], 1.0)
        brightness = 8.0 * (points[1] - moved)[:, 0, 1]
        assert 5.0 < brightness.mean() < 30.0
        assert brightness.std() < 1e-9


def test_a_map_is_the_same_whatever_comes_with_it() -> None:
    """Each point by itself, to the last bit; another map has another digest."""
    found = harmonise(sites())
    one, points = found.map_of("south"), tissue()[:50]
    whole = one(points)
    np.testing.assert_array_equal(whole[7], one(points[7]))
    np.testing.assert_array_equal(whole[::-1], one(points[::-1]))
    assert len({found.map_of(name).digest for name in GAINS} | {one.digest}) == 3
    still = AffineMap(SPACE, one.base, one.centre, one.centre, np.eye(15))
    np.testing.assert_allclose(still(points), points, rtol=1e-9)


def test_bad_input() -> None:
    """One site, other classes, other geometries, no second moment: one line each."""
    rows = sites()
    for given, words in (
        ({"north": rows["north"]}, "two sites or more are harmonised, found 1"),
        ({**rows, "south": rows["south"][:1]}, "1 and 2 classes"),
        ({"a": [rows["north"][0]._replace(moments=())], "b": [rows["south"][0]]}, "adaptive"),
        ({name: [_without(row) for row in own] for name, own in rows.items()}, "second moment"),
    ):
        with pytest.raises(ConfigError, match=words) as caught:
            harmonise(given)
        assert "\n" not in str(caught.value)


def _without(row: Release) -> Release:
    return row._replace(moments=tuple(replace(one, moment=None) for one in row.moments))


def test_maps_go_from_releases_to_a_store(
    documents: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`covdp harmonise`, its page and file; `covdp describe --map` stores what the map makes."""
    maps = tmp_path / "out" / "maps.json"
    assert main(["harmonise", *map(str, documents), "--out", str(maps), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["site"] for row in told["sites"]] == list(GAINS)
    page = tmp_path / "out" / "maps-page" / "harmonise.html"
    assert told["page"] == str(page)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"maps.json", "maps-page"}
    text = text_of(page)
    assert "3 of 3 sites are mapped to the common scale" in text
    assert "expected AUC of" in text
    assert "<b>tissue" not in page.read_text(encoding="utf-8")
    rng, ward = np.random.default_rng(1), tmp_path / "ward"
    for name in ("well", "ill"):
        (ward / name).mkdir(parents=True)
        for number in range(3):
            picture = rng.integers(0, 256, (28, 28), dtype=np.uint8)
            Image.fromarray(picture).save(ward / name / f"{number}.png")
    card = tmp_path / "ward.toml"
    card.write_text('kind = "folder"\npath = "ward"\nchannels = 1\nclasses = ["well", "ill"]\n')
    root = ["--dataset", str(card), "--data-root", str(tmp_path), "--store", str(tmp_path / "st")]
    assert main(["describe", *root, "--map", str(maps), "--site", "south", "-q"]) == 0
    found = harmonise(sites()).map_of("south")
    source = open_dataset(card, tmp_path)
    plan = make_plan(source, descriptor="oct5", scale=found)
    stored = fill(plan, find_place(str(tmp_path / "st"))).stored
    plain = describe(np.concatenate(list(source.chunks(label=0))))
    mapped = np.concatenate(list(stored.records(0)))
    np.testing.assert_allclose(mapped, found(plain), rtol=1e-6)
    assert np.abs(np.log(mapped[0, 0, 0] / plain[0, 0, 0])) > 0.1
    assert len(list((tmp_path / "st").glob("*.parquet"))) <= 4  # its file holds all digits but few
    capsys.readouterr()


def forged(kind: str, values: dict[str, Any]) -> str:
    """Return a file of maps that somebody changed."""
    if kind == "long":
        values["common"] *= 2
    elif kind == "huge":
        values["sites"][0]["shift"][0] = 1e300
    elif kind == "script":
        values["sites"][0]["name"] = "<script>\u0007"
    elif kind == "manifold":
        values["manifold"] = "sphere"
    elif kind == "twice":
        values["sites"][1]["name"] = values["sites"][0]["name"]
    elif kind == "matrix":
        values["sites"][0]["matrix"] = [[1.0]]
    elif kind == "gone":
        del values["base"]
    text = json.dumps(values)
    return text.replace(str(values["weights"][0]), "NaN") if kind == "nan" else text


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nan", "weights"),
        ("long", "common has length 30, not 15"),
        ("huge", "sites.0.shift.0"),
        ("script", "must be printable"),
        ("manifold", "found the manifold 'sphere'"),
        ("twice", "two sites have one name"),
        ("matrix", "is not 15 × 15"),
        ("gone", "base: it is missing"),
        ("fine", "no site 'east' in the maps; give --site one of 'north', 'south', 'west'"),
        ("other", "descriptor = 'oct5', found 'grid9' here"),
    ],
)
def test_maps_from_elsewhere_are_not_trusted(
    kind: str,
    words: str,
    documents: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """NaN, huge numbers, letters that a terminal obeys, sizes that do not fit: one line, exit 2."""
    maps = tmp_path / "maps.json"
    assert main(["harmonise", *map(str, documents), "--out", str(maps), "-q"]) == 0
    maps.write_text(forged(kind, json.loads(maps.read_text())))
    capsys.readouterr()
    tokens = ["describe", "--dataset", "tiles", "--store", str(tmp_path / "st")]
    tokens += ["--map", str(maps), "--site", "east"]
    tokens += ["--descriptor", "grid9"] if kind == "other" else []
    assert main(tokens) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert words in line
    assert not (tmp_path / "st").exists()


def test_documents_that_do_not_go_together_are_refused(
    documents: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another descriptor, a site twice, one alone, half of the options: nothing is written."""
    other = json.loads(documents[1].read_text())
    other["settings"]["descriptor"] = "grid9"
    changed = tmp_path / "other.json"
    changed.write_text(json.dumps(other))
    maps = tmp_path / "maps.json"
    first = str(documents[0])
    for given, words in (
        ([first, str(changed)], "has descriptor = 'oct5'"),
        ([first, first], "count twice"),
        ([first], "two documents"),
    ):
        assert main(["harmonise", *given, "--out", str(maps)]) == 2
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        assert words in line
    assert main(["describe", "--dataset", "tiles", "--store", "st", "--site", "north"]) == 2
    assert "give both, or neither" in capsys.readouterr().err
    assert not maps.exists()


def test_of_two_maxima_of_the_likelihood_the_larger_is_taken() -> None:
    """Sites are alike in coordinates that are known well, and far apart in one that is not.

    With no shift at all the likelihood has a maximum, and exp(28) times as large a one far from it.
    """
    errors, away = np.diag([1e-3, 1.0])[None], np.array([[0.0, 80.0**0.5]])

    def surprise(beta: float) -> float:
        return float(
            np.sum(np.log(beta + np.diag(errors[0])) + away**2 / (beta + np.diag(errors[0])))
        )

    found = harmonising._beta(away, np.eye(2), errors)
    assert surprise(found) < surprise(2e-9) - 2 * 28.0
    assert all(surprise(found) <= surprise(found * factor) for factor in (0.5, 0.9, 1.1, 2.0))


def test_the_page_draws_sites_before_and_after(documents: list[Path], tmp_path: Path) -> None:
    """Each class of each site stands there twice, with bands: as it is, and where its map leads.

    Contrast, in which the sites differ, is within a tenth after it. A shift leaves bands as wide.
    """
    several = read_several(documents)
    by_site = zip(several.names, zip(*several.classes.values(), strict=True), strict=True)
    maps = harmonise(dict(by_site))
    figure = forest_figure(ReleaseComparison("harmonise", several, maps), marks="")
    assert figure is not None
    rows = list(csv.DictReader(figure.csv.splitlines()))
    sites = several.names
    assert list(dict.fromkeys(row["mean"] for row in rows)) == [
        f"{x}, {y}" for x in sites for y in ("before", "after")
    ]
    contrast = {
        (row["class"], row["mean"]): np.array(
            [float(row[key]) for key in ("value", "low95", "high95")]
        )
        for row in rows
        if row["term"].startswith("Contrast")
    }
    assert len(contrast) == 2 * len(CLASSES) * len(sites)
    for name in CLASSES:
        before, after = ([contrast[name, f"{x}, {y}"] for x in sites] for y in ("before", "after"))
        assert max(x[0] for x in before) / min(x[0] for x in before) > 1.5
        assert max(x[0] for x in after) / min(x[0] for x in after) < 1.1
        for site, one, other in zip(sites, before, after, strict=True):
            if not maps.sites[site].spread:
                np.testing.assert_allclose(one[1:] / one[0], other[1:] / other[0], rtol=1e-2)
