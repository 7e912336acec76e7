"""Documents as pydantic reads them, of JSON values that may lack what a test does not look at."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from covdp.arrays import UNCHECKED
from covdp.schema import ClassPart, Document, SettingsPart, read_ours
from tests.tools.addons import addon

NightClassPart = addon("nights.schema:NightClassPart")

COST = {"mu": 0.5, "rho": 0.125, "predicted_error": 0.1, "costs": []}
SETTINGS: Mapping[str, Any] = {
    "name": "nightly",
    "title": "Ward",
    "population": "ward",
    "dataset": "ward",
    "size": None,
    "splits": None,
    "classes": [],
    "descriptor": "toy3",
    "eta": 1e-6,
    "manifold": "spd-log-euclidean",
    "mechanism": "auto",
    "run_key": "monday",
    "definition": "gdp",
    "budget": 0.5,
    "shares": None,
    "stream": None,
    "labels": "public",
    "noise": "hardened",
    "version": "0.3.0",
    "images_per_person": None,
    "classes_per_person": None,
    "unit": "image",
    "smallest_class": 2,
    "image_height": 28,
    "image_width": 28,
}
ACCOUNT = {
    "definition": "gdp",
    "charged": 0.5,
    "total": 1.0,
    "spent": 0.5,
    "left": 0.8,
    "releases": 1,
    "releases_left": 3,
    "delta": 1e-5,
    "images_per_person": 1,
    "epsilon_total": 4.0,
    "epsilon_spent": 2.0,
    "epsilon_left": 3.0,
}
"""What documents of tests have in common."""
ROW = {"label": 0, "class_name": "well", "n": 200, "coordinates": None, "point": [[1.0]], **COST}


def document_of(values: bytes | Mapping[str, Any]) -> Any:
    """Return a document of our own, or what JSON says of one."""
    return read_ours(json.loads(values if isinstance(values, bytes) else json.dumps(values)))


def documents_of(several: Iterable[bytes | Mapping[str, Any]]) -> list[Document]:
    """Return documents of our own."""
    return list(map(document_of, several))


def settings_of(values: Mapping[str, Any]) -> SettingsPart:
    """Return settings; what is not said is as of other tests."""
    return SettingsPart.model_validate({**SETTINGS, **values}, context=UNCHECKED)


def class_of(values: Mapping[str, Any]) -> ClassPart:
    """Return a class of a release; what is not said is as of other tests."""
    named = {"manifold": SETTINGS["manifold"], "observed": None, **ROW, "coordinates": [0.0]}
    return ClassPart.model_validate({**named, **values}, context=UNCHECKED)


def night_class_of(values: Mapping[str, Any]) -> NightClassPart:
    """Return a class of a night; what is not said is not there."""
    row = {name: None for name, field in NightClassPart.model_fields.items() if field.is_required()}
    sizes = {"n": 0, "n_tonight": 0, "n_so_far": 0, "sigma": 0.1, "windows": []}
    return NightClassPart.model_validate({**row, **ROW, **sizes, **values}, context=UNCHECKED)
