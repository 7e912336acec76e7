"""From a run to what each reportlet shows: one function a reportlet."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pipeline.figures import (
    Figure,
    error_against_budget,
    letter,
    listing,
    number,
    steps,
    tightness,
)
from pipeline.figures.published import outlines, paper_curves
from pipeline.report.claims import claims, published, times, totals
from pipeline.report.findings import findings, gaps
from pipeline.report.sources import Run
from pipeline.results import summarise, unique

Content = Any
"""What a reportlet's template draws: a figure, a list, a mapping; its template says which."""


def facts(run: Run) -> Mapping[str, Any]:
    """Return what was run and on what: sentences, label and text pairs, and the configuration."""
    record = run.record
    pairs = {
        "Dataset": record.dataset.title,
        "Licence": record.dataset.licence,
        "Origin": record.dataset.origin,
        "Image size": " × ".join(str(side) for side in record.image_shape) + " pixels"
        if record.image_shape
        else "",
    }
    if run.rows is not None:
        for name, title in (("descriptor", "Descriptor"), ("manifold", "Manifold")):
            pairs[title] = listing(unique(run.rows[name])[0])
    url = record.dataset.url
    return {
        "pairs": {label: text for label, text in pairs.items() if text},
        "url": url if url.startswith(("https://", "http://")) else "",
        "classes": record.classes,
        "series": _series(run),
        "notes": record.notes,
        "config": json.dumps(record.config, indent=2, ensure_ascii=False) if record.config else "",
    }


def _series(run: Run) -> list[dict[str, str]]:
    """Return what each series is: its label, mechanism, sampler and footpoint."""
    if run.rows is None:
        return []
    rows = run.rows
    names, codes = unique(rows["series"])
    first = [int(np.argmax(codes == code)) for code in range(len(names))]
    columns = ("series", "mechanism", "sampler", "footpoint", "definition")
    return [{name: str(rows[name][index]) for name in columns} for index in first]


def samples(run: Run) -> list[dict[str, Any]] | None:
    """Return the tiles of each class as data URIs."""
    names = {item.label: item for item in run.record.classes}
    return [
        {
            "name": names[label].name if label in names else f"class {label}",
            "n": names[label].n if label in names else None,
            "uri": "data:image/png;base64," + base64.b64encode(png).decode(),
        }
        for label, png in run.samples.items()
    ]


def bound_figure(run: Run) -> Figure | None:
    """Return the bound and its tightness."""
    return tightness(run.bound) if run.bound is not None else None


def error_figure(run: Run) -> Figure | None:
    """Return error against budget, or the figure in the layout the experiment's TOML asks for."""
    layout = run.record.config.get("figure")
    if run.rows is None or run.record.config.get("composition"):
        return None
    if layout is None or not run.record.config.get("source"):
        return error_against_budget(run.rows, band=layout["band"] if layout else "se")
    series = run.record.config["mechanisms"]
    return paper_curves(run.rows, **layout, panel_of={x["series"]: x["panel"] for x in series})


def outline_figure(run: Run) -> Figure | None:
    """Return the private outlines."""
    return outlines(run.outlines)


def gap_lines(run: Run) -> list[str] | None:
    """Return the sentences on rows without a result."""
    return [finding.text for finding in gaps(run.rows)] if run.rows is not None else None


def numbers(run: Run) -> Mapping[str, Any] | None:
    """Return the table of numbers: one line a class, series and budget."""
    if run.rows is None or not len(run.rows["n"]) or run.record.config.get("composition"):
        return None
    table = summarise(run.rows)
    with np.errstate(invalid="ignore"):
        table["ratio"] = table["mean"] / table["expected_error"]
    order = {name: index for index, name in enumerate(unique(run.rows["series"])[0])}
    lines = [
        {
            name: column[row].item() if column.dtype != object else column[row]
            for name, column in table.items()
        }
        for row in range(len(table["count"]))
    ]
    for line in lines:
        line["colour"] = order[line["series"]]
    groups: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault(line["label"], []).append(line)
    return {"groups": groups, "letter": letter(str(run.rows["definition"][0]))}


def step_figure(run: Run) -> Figure | None:
    """Return the time per step."""
    return steps(run.record)


def reproduction(run: Run) -> Mapping[str, Any]:
    """Return what is needed to get the same numbers again."""
    record = run.record
    return {
        "command": record.command,
        "pairs": {
            "Seed": str(record.seed) if run.rows is not None else "",
            "Machine": ", ".join(_machine(record.machine)),
            "Started": record.started,
            "Finished": record.finished,
        },
        "versions": record.versions,
    }


def _machine(machine: Mapping[str, Any]) -> list[str]:
    return [f"{value} cores" if name == "cores" else str(value) for name, value in machine.items()]


def summary(run: Run) -> list[Any]:
    """Return what was found beside the headline."""
    return list(findings(run)[1:])


CONTENT: Mapping[str, Callable[[Run], Content]] = {
    "summary": summary,
    "facts": facts,
    "samples": samples,
    "bound": bound_figure,
    "claims": claims,
    "published": published,
    "times": times,
    "totals": totals,
    "error": error_figure,
    "outlines": outline_figure,
    "gaps": gap_lines,
    "numbers": numbers,
    "steps": step_figure,
    "reproduction": reproduction,
}
"""What ``name`` of a reportlet in ``reports/report.toml`` may be."""


def key_numbers(run: Run) -> list[tuple[str, str]]:
    """Return the few numbers that head a section: text and label."""
    record, rows = run.record, run.rows
    images = sum(item.n for item in record.classes)
    out = [(f"{images:,}", "images"), (str(len(record.classes)), "classes")] if images else []
    if rows is not None and len(rows["n"]):
        ends = [number(float(rows["budget"].min())), number(float(rows["budget"].max()))]
        out.append(("–".join(dict.fromkeys(ends)), f"budget {letter(str(rows['definition'][0]))}"))
        out.append((str(int(rows["repetition"].max()) + 1), "repetitions"))
    if record.steps:
        out.append((f"{number(sum(seconds for _, seconds in record.steps))} s", "wall-clock time"))
    return out
