"""A texture has the numbers that were asked for, or there is none; and it has nothing else."""

import base64
import html
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sample_documents import ACCOUNT, COST, SETTINGS, document_of

from covdp.descriptors import DESCRIPTORS, describe, terms_of
from covdp.figures.texture import SHOWN, texture
from covdp.geometry import MANIFOLDS, to_chart
from covdp.publish.readings import reader_of
from covdp.report import build_release_report
from tests.inference.entries import tissue

GRAY = tuple(name for name, kind in DESCRIPTORS.items() if kind.dimensions == 2)
OURS = "oct5", "grid9", "grid11", "gauss6"
"""Descriptors that must have a texture for each of `VALUES`."""
VALUES = [(22.4, 0.35, 1.22), (4.0, 0.132, 0.98), (47.8, 0.22, 0.65), (43.1, 0.35, 1.25)]
"""Contrast, roughness and direction of classes of X-rays, ultrasound and tissue."""


def found(image: np.ndarray, name: str = "oct5") -> list[float]:
    """Return the three terms of a texture that is described as images are."""
    kind = DESCRIPTORS[name]
    drawn = image if kind.channels == 1 else np.repeat(image[..., np.newaxis], 3, axis=-1)
    terms = {term.name: term for term in terms_of(kind)}
    return [float(terms[term].value(describe(drawn[np.newaxis], name)[0])) for term in SHOWN]


@pytest.mark.parametrize("name", GRAY)
@pytest.mark.parametrize("sides", [(28, 28), (48, 90), (300, 200)])
def test_a_texture_has_the_numbers(name: str, sides: tuple[int, int]) -> None:
    """Described again it has contrast, roughness and direction within 5 %, at 128 pixels a side.

    A descriptor of another package may have no texture: then pages show none.
    """
    for values in VALUES:
        image = texture(DESCRIPTORS[name], dict(zip(SHOWN, values, strict=True)), sides, 1e-6)
        if image is None:
            assert name not in OURS
            continue
        assert image.shape == tuple(min(side, 128) for side in sides)
        np.testing.assert_allclose(found(image, name), values, rtol=0.05)


def test_whatever_is_asked_for_it_has_the_numbers_or_is_not_there() -> None:
    """Of 150 triples, from smooth to rough, many have a texture, all of which are right."""
    rng, drawn = np.random.default_rng(0), 0
    for _ in range(150):
        values = np.exp(rng.uniform(np.log([1.0, 0.05, 0.2]), np.log([110.0, 0.8, 5.0])))
        image = texture(DESCRIPTORS["oct5"], dict(zip(SHOWN, values, strict=True)), (28, 28), 1e-6)
        if image is not None:
            drawn += 1
            np.testing.assert_allclose(found(image), values, rtol=0.05)
    assert 40 < drawn < 150


@pytest.mark.parametrize(
    "values",
    [
        (127.5, 0.05, 1.0),  # of black and white alone, and yet smooth
        (30.0, 3.0, 1.0),
        (30.0, 0.3, 400.0),
        (1e-9, 0.3, 1.0),
        (30.0, np.inf, 1.0),
        (np.nan, 0.3, 1.0),
        (30.0, 0.3, None),
        (-1.0, 0.3, 1.0),
        (1e300, 1e300, 1e300),
    ],
)
def test_no_texture_has_impossible_numbers(values: tuple[Any, ...]) -> None:
    """There is none, and no error, of numbers that no image has, or that are not known."""
    asked = dict(zip(SHOWN, values, strict=True))
    for name in GRAY:
        assert texture(DESCRIPTORS[name], asked, (28, 28), 1e-6) is None


def test_descriptors_without_the_terms_have_no_texture() -> None:
    """Volumes have none, and images of three pixels a side."""
    asked = dict(zip(SHOWN, VALUES[0], strict=True))
    others = [kind for name, kind in DESCRIPTORS.items() if name not in GRAY]
    assert all(texture(kind, asked, (28, 28), 1e-6) is None for kind in others)
    assert texture(DESCRIPTORS["oct5"], asked, (3, 28), 1e-6) is None


def test_brightness_is_that_of_the_release() -> None:
    """Where the descriptor has it, a texture has the released mean gray level, within one level."""
    asked = dict(zip(SHOWN, VALUES[1], strict=True))
    for level in (60.0, 200.0):
        image = texture(DESCRIPTORS["gauss6"], {**asked, "brightness": level}, (28, 28), 1e-6)
        assert image is not None
        assert image.mean() == pytest.approx(level, abs=1.0)


def release(**changes: Any) -> dict[str, Any]:
    """Return a document of two classes: one of tissue with a wide band, one of noise alone."""
    space, points = MANIFOLDS["spd-log-euclidean"](k=5), tissue()[:2]
    rows = [
        {
            "label": label,
            "name": f"class {label}",
            "n": 900,
            **COST,
            "point": point.tolist(),
            "coordinates": to_chart(space, point).tolist(),
            "manifold": space.name,
            "observed": None,
            "predicted_error": error,
        }
        for label, point, error in zip((0, 1), points, (0.1, 90.0), strict=True)
    ]
    settings = {**SETTINGS, "descriptor": "oct5", "manifold": space.name, **changes}
    settings["classes"] = [[row["label"], row["name"], 900] for row in rows]
    known = {"title": "Ward", "account": ACCOUNT, "statement": [["Unit of privacy", "image"]]}
    return {"settings": settings, "classes": rows, **known}


def pictures(document: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    """Return alt text and address of each picture of a release's page."""
    page = build_release_report(document_of(json.loads(json.dumps(document))), folder / "page.html")
    tags = re.findall(r'<img src="([^"]*)" alt="([^"]*)">', page.read_text(encoding="utf-8"))
    return [(html.unescape(alt), address) for address, alt in tags]


def pixels(address: str) -> np.ndarray:
    """Return the gray levels of a picture in a page."""
    content = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    levels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    assert (levels == levels[..., :1]).all()
    return levels[..., 0]


def test_a_page_shows_a_texture_of_each_mean(tmp_path: Path) -> None:
    """One picture of the usable class, of the numbers that it says; none of the other."""
    document = release()
    read = reader_of(document_of(document).settings)
    assert read is not None
    row = read.read(document_of(document).classes[0])
    readings = [reading for reading in row.readings if reading.term.name in SHOWN]
    ((alt, address),) = pictures(document, tmp_path)
    image, wanted = pixels(address), [reading.value for reading in readings]
    side = document["settings"]["image_height"]
    assert image.shape == (side, side)
    np.testing.assert_allclose(found(image), wanted, rtol=0.05)
    assert alt.startswith("Random texture, no image of anybody: ")
    told = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", alt)]
    np.testing.assert_allclose(told, wanted, rtol=5e-3)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count(". No image of anybody.") == 1


def test_pixels_depend_on_released_numbers_alone(tmp_path: Path) -> None:
    """Other names, people, accounts and states of random numbers leave every pixel as it is.

    Another mean changes them.
    """
    first = pictures(release(), tmp_path)
    np.random.seed(1)  # noqa: NPY002  (the state of the process)
    other = release(population="elsewhere", run_key="tuesday", title="Another", version="9")
    other["statement"] = [["Unit of privacy", "another"]]
    for row in other["classes"]:
        row["name"] += " of another name"
    assert [address for _, address in pictures(other, tmp_path)] == [x for _, x in first]
    other["classes"][0]["coordinates"][0] += 0.1
    assert [address for _, address in pictures(other, tmp_path)] != [x for _, x in first]
