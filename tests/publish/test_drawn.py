"""Documents of means that Python drew: read as those of releases are, and marked as not paid."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from covdp import GDP, LATTICE, ZCDP, describe, domain, open_dataset, private_mean
from covdp.errors import ConfigError
from covdp.inference import region, two_sample
from covdp.mean import Ball, Release
from covdp.privacy import ApproxDP, Budget
from covdp.report.release_page import build_release_report
from covdp.schema import ReleaseDocument, json_schema, read_ours

TILES = open_dataset("tiles")
BOUND = domain("oct5", height=28, width=28)
TWO = GDP(2.0)


def draw(label: int, seed: int, budget: Budget = TWO, **settings: Any) -> Release:
    """Return a private mean of a class of the tiles."""
    points = describe(next(TILES.chunks(label=label)), "oct5")
    manifold = settings.pop("manifold", "spd-log-euclidean")
    source = settings.pop("rng", np.random.default_rng(seed))
    bound = settings.pop("domain", BOUND)
    drawn, _ = private_mean(points, budget, domain=bound, manifold=manifold, rng=source, **settings)
    return drawn


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"plan": "single"},
        {"total": 9000},
        {"budget": ZCDP(0.5)},
        {
            "manifold": "spd-log-cholesky",
            "domain": domain("oct5", height=28, width=28, manifold="spd-log-cholesky"),
        },
        {"rng": LATTICE},
    ],
    ids=["gdp", "single", "secret", "zcdp", "cholesky", "hardened"],
)
def test_a_document_has_the_form_of_a_release_s(settings: dict[str, Any]) -> None:
    """It is checked as one that somebody sent would be, and its JSON is that of its model."""
    release = draw(0, 1, **settings)
    values = json.loads(json.dumps(release.to_document("ihc", name="python")))
    Draft202012Validator(json_schema()).validate(values)
    document = ReleaseDocument.model_validate(values)
    (row,) = document.classes
    assert row.class_name == "ihc"
    np.testing.assert_array_equal(row.point, release.point)
    np.testing.assert_array_equal(row.coordinates, release.coordinates)
    assert document.settings.domain.radius == settings.get("domain", BOUND).radius
    assert document.settings.promise == settings.get("budget", TWO)
    assert document.settings.is_safe == (settings.get("rng") is LATTICE)
    assert (row.rho is not None) == document.settings.is_safe


def test_a_document_says_of_a_mean_what_the_release_says() -> None:
    """Regions and tests read either, to the same numbers."""
    releases = {name: draw(label, 3 + label) for label, name in enumerate(TILES.classes[:2])}
    (first, one), (second, two) = releases.items()
    rows = json.loads(json.dumps(one.to_document(first, {second: two})))["classes"]
    assert [row["name"] for row in rows] == [first, second]
    for row, release in zip(rows, (one, two), strict=True):
        assert region(row).radius == region(release).radius
    assert two_sample(*rows).p_value == two_sample(one, two).p_value


def test_a_size_that_is_secret_is_not_stated() -> None:
    """Of two classes of other sizes, drawn with the same total, only noised counts tell."""
    sizes = [len(next(TILES.chunks(label=label))) for label in (0, 1)]
    assert sizes[0] != sizes[1]
    for label, size in enumerate(sizes):
        release = draw(label, 5, total=9000)
        document = release.to_document()
        assert release.drawing is not None
        assert release.drawing.n is None
        assert document["settings"]["classes"] == [[0, "all images", None]]
        assert release.class_size is not None
        assert document["classes"][0]["n"] == release.class_size.shown[0]
        assert f" {size}" not in json.dumps(document["statement"])


def test_a_document_says_that_no_ledger_paid_it(tmp_path: Path) -> None:
    """Nothing of an account stands in it, and no page is made that would speak of one."""
    values = draw(0, 1).to_document()
    assert values["account"] is None
    assert dict(values["statement"])["Not paid from a ledger"].startswith("Python drew this")
    with pytest.raises(ConfigError, match="no ledger paid it; take a document that `covdp release"):
        build_release_report(read_ours(values), tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_persons_pay_for_each_class_of_a_document() -> None:
    """One may be in both: the promise of the document is that of two means."""
    release, other = draw(0, 1), draw(1, 2)
    values = release.to_document("one", {"two": other}, unit="person")
    settings = ReleaseDocument.model_validate(json.loads(json.dumps(values))).settings
    assert settings.promise == GDP(2.0 * np.sqrt(2.0))
    assert any(f"{settings.promise}" in text for _, text in values["statement"])


BALL = Ball(20.0, "spd-log-euclidean")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: draw(0, 1)._replace(drawing=None).to_document(), "covdp.private_mean returns"),
        (lambda: draw(0, 1, domain=BALL).to_document(), "found a Ball on spd-log-euclidean"),
        (lambda: draw(0, 1, ApproxDP(1.0, 1e-6), plan="single").to_document(), "take GDP or ZCDP"),
        (lambda: draw(0, 1).to_document("a", {"b": draw(1, 2, GDP(1.0))}), "a document of each"),
        (lambda: draw(0, 1).to_document("a", {"a": draw(1, 2)}), "two classes are named 'a'"),
        (lambda: draw(0, 1).to_document(""), "a name must be text"),
        (lambda: draw(0, 1).to_document(3), "found 3"),
        (lambda: draw(0, 1).to_document(name="a\nb"), "a name must be text"),
        (lambda: draw(0, 1).to_document(unit="patient"), 'unit must be "image" or "person"'),
        (lambda: draw(0, 1).to_document("a", {"b": 1}), "a class is a Release"),
        (lambda: draw(0, 1).to_document("a", [("b", 1)]), "a class is a Release"),
    ],
    ids=["another", "ball", "two numbers", "two budgets", *"abcdefg"],
)
def test_what_is_no_document_is_refused_in_one_line(make: Any, told: str) -> None:
    """The rule, the value and the way out."""
    with pytest.raises(ConfigError, match=told) as caught:
        make()
    assert "\n" not in str(caught.value)
