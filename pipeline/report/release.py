"""The page of a release: made from the committed document and from nothing else."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.descriptors import DESCRIPTORS
from pipeline.figures import javascript, matrices
from pipeline.files import atomic_path, make_folder, resource
from pipeline.report.findings import Finding
from pipeline.report.page import Reportlet, Section, load_spec, render


def build_release_report(document: Mapping[str, Any], target: Path) -> Path:
    """Write the page of a released document to `target`.

    Parameters
    ----------
    document : mapping
        What the ledger committed, as `pipeline.publish.read_document` returns it.
    target : Path
        The HTML file.

    Raises
    ------
    OutputError
        When the page cannot be written.
    """
    spec = load_spec(resource("reports", "report.toml"))
    section = _section(document, spec["release"])
    warning = {"warning": spec["release"]["unsafe"]} if section.headline.warning else {}
    page = render(
        title=document["title"],
        page=spec["page"] | spec["release"] | warning,
        sections=[section],
        privacy={label: [("", text)] for label, text in document["statement"]},
        script=javascript(),
    )
    make_folder(target.parent)
    with atomic_path(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def _section(document: Mapping[str, Any], words: Mapping[str, str]) -> Section:
    settings, rows = document["settings"], document["classes"]
    points = np.array([row["point"] for row in rows])
    features = DESCRIPTORS[settings["descriptor"]].features
    figure = matrices([row["class_name"] for row in rows], points, features)
    facts = {
        "pairs": {
            "Population": settings["population"],
            "Run": settings["run_key"],
            "Image size": f"{settings['image_height']} × {settings['image_width']} pixels",
            "Descriptor": settings["descriptor"],
            "Manifold": settings["manifold"],
            "Mechanism": words.get(settings["mechanism"], settings["mechanism"]),
            "Noise": words[settings["noise"]],
        },
        "url": "",
        "classes": [{"name": row["class_name"], "n": row["n"]} for row in rows],
        "series": [],
        "notes": [],
        "config": json.dumps(settings, indent=2, ensure_ascii=False),
    }
    return Section(
        id=settings["name"],
        title=document["title"],
        subtitle=settings["population"],
        key_numbers=[
            (f"{sum(row['n'] for row in rows):,}", "images"),
            (str(len(rows)), "classes"),
            (f"{settings['budget']:g}", {"gdp": "μ", "zcdp": "ρ"}[settings["definition"]]),
        ],
        headline=_headline(settings, words),
        reportlets=[
            Reportlet("facts", words["facts"], "", "facts.html.j2", facts),
            Reportlet("means", figure.title, words["means"], "figure.html.j2", figure),
            Reportlet(
                "errors", words["errors_title"], words["errors"], "lines.html.j2", _errors(rows)
            ),
            Reportlet("costs", words["costs_title"], words["costs"], "lines.html.j2", _costs(rows)),
        ],
    )


def _headline(settings: Mapping[str, Any], words: Mapping[str, str]) -> Finding:
    """Say that all is private, unless the noise was drawn in floats."""
    if settings["noise"] == "hardened":
        return Finding(words["lead"])
    return Finding(words["unsafe_lead"], warning=True)


def _errors(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line a class: how far the true mean may be."""
    return [
        f"{row['class_name']}: "
        + ("not known" if (far := row["predicted_error"]) is None else f"about {far:.3g}")
        for row in rows
    ]


def _costs(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line a draw: of what, how wide, and what is certified."""
    return [
        f"{row['class_name']}: {step['step']}, sensitivity {step['sensitivity']:.6g}, noise "
        f"σ = {step['sigma']:.6g}, "
        + ("not certified" if step["rho"] is None else f"certified ρ = {step['rho']:.6g}")
        for row in rows
        for step in row["costs"]
    ]
