"""From a run to what each reportlet shows: one function a reportlet."""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from pipeline.figures import (
    Figure,
    class_titles,
    curves,
    letter,
    listing,
    number,
    outlines,
    printed_numbers,
    steps,
    tightness,
)
from pipeline.report.claims import claims
from pipeline.report.coverage import coverage
from pipeline.report.findings import findings
from pipeline.report.gaps import gaps
from pipeline.report.listed import (
    classified,
    passes,
    printed_lines,
    published,
    times,
    totals,
)
from pipeline.report.runs import FinishedRun
from pipeline.report.usefulness import beside_distances, beside_true, in_words, kept
from pipeline.results import RunRecord, summarise, unique

Content = Any
"""What a reportlet's template draws: a figure, a list, a mapping; its template says which."""


def facts_about(what: str) -> Callable[[FinishedRun], Mapping[str, Any] | None]:
    """Return the function that says what was run and on what, for runs about `what`."""
    return lambda run: _facts(run) if run.subject == what else None


def _facts(run: FinishedRun) -> Mapping[str, Any]:
    """Return label and text pairs, classes, series, notes and the configuration."""
    record = run.record
    pairs: dict[str, str] = {}
    if not _made(record):
        pairs |= {
            "Dataset": record.dataset.title,
            "Licence": record.dataset.licence,
            "Origin": record.dataset.origin,
            "Image size": " × ".join(str(side) for side in record.image_shape),
        }
        pairs["Image size"] += " pixels" if record.image_shape else ""
        pairs["Descriptor"] = listing(unique(run.rows["descriptor"])[0]) if run.rows else ""
    shown = "Descriptor" if run.subject == "passes" else "Manifold"
    pairs[shown] = listing(unique(run.rows[shown.lower()])[0]) if run.rows else ""
    url = record.dataset.url
    return {
        "pairs": {label: text for label, text in pairs.items() if text},
        "url": url if url.startswith(("https://", "http://")) else "",
        "classes": record.classes,
        "heads": _heads(record),
        "series": _series(run),
        "notes": record.notes,
        "config": json.dumps(record.config, indent=2, ensure_ascii=False) if record.config else "",
    }


def _heads(record: RunRecord) -> tuple[str, str]:
    """Return what a class of the run is, and what is counted in it."""
    return "Setting" if _made(record) else "Class", f"{record.units.capitalize()} n"


def _made(record: RunRecord) -> bool:
    """Tell whether a run is about what it made itself, not about images of a dataset."""
    return any(record.config.get(key) for key in ("source", "composition", "scale"))


def _series(run: FinishedRun) -> list[dict[str, str]]:
    """Return what each series is: label, mechanism, sampler, footpoint, and what it guarantees."""
    if run.rows is None or run.subject == "passes":
        return []
    rows = run.rows
    names, codes = unique(rows["series"])
    first = [int(np.argmax(codes == code)) for code in range(len(names))]
    columns = ("series", "mechanism", "sampler", "footpoint", "definition")
    promised = run.record.guarantees
    return [
        {name: str(rows[name][index]) for name in columns}
        | {"guarantee": promised.get(str(rows["series"][index]), "")}
        for index in first
    ]


def samples(run: FinishedRun) -> list[dict[str, Any]] | None:
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


def bound_figure(run: FinishedRun) -> Figure | None:
    """Return the bound and its tightness."""
    manifold = str(run.record.config.get("manifold", ""))
    return tightness(run.bound, manifold=manifold) if run.bound is not None else None


def figure_of(shown: str) -> Callable[[FinishedRun], Figure | None]:
    """Return the function that draws the figure of the rows if `shown` lies along its axis.

    Parameters
    ----------
    shown : {"budget", "one budget", "n", "dim", "k", "night", "seconds", "rejected", "auc"}
        What an error is drawn against; or what else is drawn, against anything.
    """

    def drawn(run: FinishedRun) -> Figure | None:
        if run.rows is None or not run.kind.means:
            return None
        chosen: dict[str, Any] = {"x": "budget"} | dict(run.record.config.get("figure") or {})
        along = chosen["x"]
        if along == "budget" and len(set(run.rows["budget"][run.rows["status"] == "ok"])) == 1:
            along = "one budget"
        if shown != (along if run.value == "error" else run.value):
            return None
        series = run.record.config.get("mechanisms", ())
        groups = {item["series"]: item.get("panel", "") for item in series}
        return curves(run.rows, **chosen, panel_of=groups)

    return drawn


def outline_figure(run: FinishedRun) -> Figure | None:
    """Return the private outlines."""
    return outlines(run.outlines)


def without(status: str) -> Callable[[FinishedRun], list[str]]:
    """Return the function that lists what has no result for one reason."""
    return lambda run: gaps(run.rows, status) if run.rows is not None else []


def numbers(run: FinishedRun) -> Mapping[str, Any] | None:
    """Return the table of numbers: one line a class, series and budget."""
    if not _measured(run) or run.subject == "times":
        return None
    rows = run.rows
    assert rows is not None
    value = run.value if run.value in MEASURED else "error"
    table = summarise(rows, value=value)
    table["title"] = class_titles(table)
    with np.errstate(invalid="ignore"):
        table["ratio"] = table["mean"] / table["expected_error"]
    table["letter"] = np.array([letter(name) for name in table["definition"]], dtype=object)
    order = {name: index for index, name in enumerate(unique(rows["series"])[0])}
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in range(len(table["count"])):
        line = {name: column[row : row + 1].tolist()[0] for name, column in table.items()}
        line["colour"] = order[line["series"]]
        groups.setdefault(line["label"], []).append(line)
    return {
        "groups": groups,
        "letters": list(dict.fromkeys(table["letter"])),
        "measured": MEASURED[value],
        "theory": bool(np.isfinite(table["expected_error"]).any()),
        "nights": bool(np.any(table.get("night", 0))),
    }


MEASURED = {"error": "Mean error", "rejected": "Share found", "auc": "Mean AUC"}
"""What the numbers of a run are called in the head of their table."""


def step_figure(run: FinishedRun) -> Figure | None:
    """Return the time per step."""
    return steps(run.record)


def reproduction(run: FinishedRun) -> Mapping[str, Any]:
    """Return what is needed to get the same numbers again."""
    record = run.record
    return {
        "command": record.command,
        "pairs": {
            "Seed": str(record.seed) if run.rows is not None else "",
            "Machine": ", ".join(machine_words(record.machine)),
            "Started": _moment(record.started),
            "Finished": _moment(record.finished),
        },
        "versions": record.versions,
    }


def _moment(written: str) -> str:
    """Return a time as a person reads it, to the second; old records may have none."""
    if not written:
        return ""
    found = datetime.fromisoformat(written).astimezone(UTC)
    return f"{found:%Y-%m-%d %H:%M:%S} UTC"


def machine_words(machine: Mapping[str, Any]) -> list[str]:
    """Return what a machine is, in words: processor, cores, platform."""
    cores = machine.get("cores")
    counted = {"cores": f"{cores} core{'s' * (cores != 1)}"} if cores else {}
    return [str(value) for value in {**machine, **counted}.values()]


def summary(run: FinishedRun) -> list[Any]:
    """Return what was found beside the headline."""
    return list(findings(run)[1:])


CONTENT: dict[str, Callable[[FinishedRun], Content]] = {
    "summary": summary,
    "facts": facts_about("images"),
    "missing": facts_about("missing"),
    "records": facts_about("records"),
    "timed": facts_about("times"),
    "rules": facts_about("budgets"),
    "passed": facts_about("passes"),
    "samples": samples,
    "bound": bound_figure,
    "claims": lambda run: claims(run) if run.record.config.get("paper") else None,
    "own-claims": lambda run: None if run.record.config.get("paper") else claims(run),
    "printed": lambda run: printed_numbers(printed_lines(run)),
    "published": published,
    "times": times,
    "totals": totals,
    "passes": passes,
    "error": figure_of("budget"),
    "error-one": figure_of("one budget"),
    "error-n": figure_of("n"),
    "error-d": figure_of("dim"),
    "error-k": figure_of("k"),
    "error-night": figure_of("night"),
    "seconds": figure_of("seconds"),
    "rejected": figure_of("rejected"),
    "auc": figure_of("auc"),
    "classified": classified,
    "outlines": outline_figure,
    "coverage": coverage,
    "use": beside_distances,
    "kept": kept,
    "beside": beside_true,
    "said": in_words,
    "undefined": without("undefined"),
    "unrepresentable": without("not representable"),
    "unavailable": without("data not available"),
    "held": without("held back"),
    "numbers": numbers,
    "steps": step_figure,
    "reproduction": reproduction,
}
"""What ``name`` of a reportlet in ``reports/report.toml`` may be."""


def key_numbers(run: FinishedRun) -> list[tuple[str, str]]:
    """Return the few numbers that head a section: text and label."""
    record, rows = run.record, run.rows
    total, count = sum(item.n for item in record.classes), len(record.classes)
    several = {"Class": "classes", "Setting": "settings"}[_heads(record)[0]]
    word = several if count > 1 else _heads(record)[0].lower()
    out = [(f"{total:,}", record.units), (str(count), word)] if total else []
    if rows is not None and _measured(run):
        ends = [number(float(rows["budget"].min())), number(float(rows["budget"].max()))]
        letters = " or ".join(dict.fromkeys(letter(name) for name in rows["definition"]))
        out.append(("–".join(dict.fromkeys(ends)), f"budget {letters}"))
        counts = {
            int(rows["repetition"][rows["series"] == name].max()) + 1
            for name in unique(rows["series"])[0]
        }
        out.append(("–".join(map(str, sorted({min(counts), max(counts)}))), "repetitions"))
    if record.steps:
        out.append((f"{number(sum(seconds for _, seconds in record.steps))} s", "wall-clock time"))
    return out


def _measured(run: FinishedRun) -> bool:
    """Tell whether the rows are errors of private means."""
    return bool(
        run.rows is not None and len(run.rows["n"]) and run.record.status == "ok" and run.kind.means
    )
