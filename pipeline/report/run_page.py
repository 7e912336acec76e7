"""The page of an experiment: from its runs, one a dataset, to what each of their blocks shows."""

import base64
from collections.abc import Mapping, Sequence
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
    printed_numbers,
    tightness,
)
from pipeline.report.claims import claims
from pipeline.report.findings import findings
from pipeline.report.methods import (
    Methods,
    Sentences,
    SeriesSettings,
    methods,
    of_experiment,
    series_of_experiment,
)
from pipeline.report.page import Declaration, PageFrame, Section, statement_of
from pipeline.report.run_tables import printed_lines
from pipeline.report.runs import FinishedRun, where
from pipeline.results import RunRecord, Table, summarise, unique


def run_page(runs: Sequence[FinishedRun], texts: Declaration) -> PageFrame:
    """Return the frame of the page of an experiment: a section a dataset that it ran on."""
    places = where(runs[0]) if len(runs) == 1 else ""
    title = listing(run.record.title for run in runs)
    return PageFrame(
        title=": ".join(filter(None, (title, places))),
        sections=[_section(run, alone=len(runs) == 1) for run in runs],
        privacy=statement_of_runs(runs),
        methods=methods_of_runs(runs),
    )


def _section(run: FinishedRun, *, alone: bool) -> Section:
    """Return the section of a run; beside others its heading is the dataset."""
    return Section(
        id=run.id,
        title=run.record.title if alone else where(run) or run.id,
        subtitle=where(run) if alone else "",
        key_numbers=key_numbers(run),
        headline=findings(run)[0],
        subject=run,
        about=_about(run),
    )


def statement_of_runs(runs: Sequence[FinishedRun]) -> Any:
    """Return what runs promise, of those that drew noise."""
    return statement_of(
        [(run.id, run.record.privacy.items()) for run in runs if run.record.privacy]
    )


def methods_of_runs(runs: Sequence[FinishedRun]) -> Methods:
    """Return what a paper says of some runs, a paragraph each: only what their rows hold."""
    said = {run.id: _sentences(run) for run in runs}
    series = {name: rows for name, (_, rows) in said.items()}
    sentences = {name: texts for name, (texts, _) in said.items()}
    return methods(sentences, series=series, apart=True, version=version_of(runs))


def _sentences(run: FinishedRun) -> tuple[Sentences, SeriesSettings]:
    """Return what a run did, and each series of it; of one without a result, that there is none."""
    record = run.record
    if run.rows is None or not np.any(run.rows["status"] == "ok"):
        return {"kind": f"“{record.experiment}” has no result on {record.dataset.name}"}, {}
    rows = {name: column[run.rows["status"] == "ok"] for name, column in run.rows.items()}
    config = {"dataset": record.dataset.name, **record.config, "seed": record.seed}
    names, series = set(rows["class_name"].tolist()), set(rows["series"].tolist())
    classes = [item for item in record.classes if item.name in names or config.get("source")]
    ran = _as_run(config | {"name": record.experiment}, rows)
    guarantees = {x: text for x, text in record.guarantees.items() if x in series}
    sizes = ", ".join(f"{item.name} n = {item.n:,}" for item in classes)
    sentences = of_experiment(ran, title=where(run), classes=sizes, guarantees=guarantees)
    return sentences, series_of_experiment(ran, guarantees)


def _as_run(config: Mapping[str, Any], rows: Table) -> dict[str, Any]:
    """Return a config as if it had asked for no more than there are rows of."""
    counts = {
        name: len(set(rows["repetition"][rows["series"] == name].tolist()))
        for name in dict.fromkeys(rows["series"].tolist())
    }
    most = max(counts.values())
    series = [
        {**item, "repetitions": None if counts[item["series"]] == most else counts[item["series"]]}
        for item in config.get("mechanisms", ())
        if item["series"] in counts
    ]
    ran = {**config, "mechanisms": series, "repetitions": most}
    if config.get("baseline") not in counts or len(counts) < 2:
        ran["baseline"] = ""
    if not config.get("composition"):  # whose rows have the budgets of all queries together
        spent = set(rows["budget"].tolist())
        ran["budgets"] = [value for value in config.get("budgets", ()) if float(value) in spent]
    return ran


def version_of(runs: Sequence[FinishedRun]) -> str:
    """Return the version of covdp that made all runs; "" where there are several."""
    versions = {run.record.versions.get("covdp", "") for run in runs}
    return versions.pop() if len(versions) == 1 else ""


def _about(run: FinishedRun) -> str:
    """Return what figures of a run are of, as a caption in a paper says it."""
    if run.subject == "budgets":
        return ""
    record = run.record
    descriptor, manifold = (
        listing(name for name in unique(run.rows[column])[0] if name != "none") if run.rows else ""
        for column in ("descriptor", "manifold")
    )
    if run.subject in ("images", "missing"):
        sides = " × ".join(str(side) for side in record.image_shape[:3])
        images = f"{record.dataset.title}, {sides} pixels" if sides else record.dataset.title
    else:
        images = f"Simulated {record.units}" if manifold else ""
    parts = [images, f"descriptor {descriptor}" if descriptor else "", manifold]
    if run.subject in ("times", "passes") and record.machine:
        parts.append(listing(machine_words(record.machine)))
    return "; ".join(filter(None, parts))


def key_numbers(run: FinishedRun) -> list[tuple[str, str]]:
    """Return the few numbers that head a section: text and label."""
    record, rows = run.record, run.rows
    total, count = sum(item.n for item in record.classes), len(record.classes)
    word, words = ("setting", "settings") if _is_made(record) else ("class", "classes")
    numbers = [(f"{total:,}", record.units), (str(count), words if count > 1 else word)]
    numbers = numbers if total else []
    if rows is not None and _has_means(run):
        ends = [number(float(rows["budget"].min())), number(float(rows["budget"].max()))]
        letters = " or ".join(dict.fromkeys(letter(name) for name in rows["definition"]))
        numbers.append(("–".join(dict.fromkeys(ends)), f"budget {letters}"))
        counts = {
            int(rows["repetition"][rows["series"] == name].max()) + 1
            for name in unique(rows["series"])[0]
        }
        numbers.append(("–".join(map(str, sorted({min(counts), max(counts)}))), "repetitions"))
    if record.steps:
        seconds = sum(seconds for _, seconds in record.steps)
        numbers.append((f"{number(seconds)} s", "wall-clock time"))
    return numbers


def _has_means(run: FinishedRun) -> bool:
    """Tell whether the rows are errors of private means."""
    return bool(
        run.rows is not None and len(run.rows["n"]) and run.record.status == "ok" and run.kind.means
    )


def summary(run: FinishedRun) -> list[Any]:
    """Return what was found beside the headline."""
    return list(findings(run)[1:])


def facts(run: FinishedRun, *, about: str) -> Mapping[str, Any] | None:
    """Return what was run and on what, of runs about that: the record, and names in its rows."""
    if run.subject != about:
        return None
    names = {
        column: listing(unique(run.rows[column])[0]) if run.rows else ""
        for column in ("descriptor", "manifold")
    }
    is_made, series = _is_made(run.record), _series(run)
    return {"run": run, "record": run.record, "is_made": is_made, "series": series, **names}


def _is_made(record: RunRecord) -> bool:
    """Tell whether a run is about what it made itself, not about images of a dataset."""
    return any(record.config.get(key) for key in ("source", "composition", "scale"))


def _series(run: FinishedRun) -> list[dict[str, str]]:
    """Return what each series is: label, mechanism, sampler, footpoint, and what it guarantees."""
    if run.rows is None or run.subject == "passes":
        return []
    names, codes = unique(run.rows["series"])
    columns = ("series", "mechanism", "sampler", "footpoint", "definition")
    return [
        {column: str(run.rows[column][np.argmax(codes == code)]) for column in columns}
        | {"guarantee": run.record.guarantees.get(str(name), "")}
        for code, name in enumerate(names)
    ]


def samples(run: FinishedRun) -> list[dict[str, Any]]:
    """Return the tiles of each class as data URIs."""
    classes = {item.label: item for item in run.record.classes}
    return [
        {
            "name": classes[label].name if label in classes else f"class {label}",
            "n": classes[label].n if label in classes else None,
            "uri": "data:image/png;base64," + base64.b64encode(png).decode(),
        }
        for label, png in run.samples.items()
    ]


def bound(run: FinishedRun) -> Figure | None:
    """Return the bound and its tightness."""
    manifold = str(run.record.config.get("manifold", ""))
    return tightness(run.bound, manifold=manifold) if run.bound is not None else None


def statements(run: FinishedRun, *, own: bool) -> list[Any]:
    """Return what became of the statements of a paper, or of our own claims."""
    return [] if own == bool(run.record.config.get("paper")) else claims(run)


def printed(run: FinishedRun) -> Figure | None:
    """Return the numbers that the paper prints with ours, drawn."""
    return printed_numbers(printed_lines(run))


def measured(run: FinishedRun, *, shown: str) -> Figure | None:
    """Return the figure of the rows if `shown` is along its axis.

    Parameters
    ----------
    run : FinishedRun
    shown : {"budget", "one budget", "n", "dim", "k", "night", "seconds", "rejected", "auc"}
        What an error is drawn against; or what else is drawn, against anything.
    """
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


MEASURED = {"error": "Mean error", "rejected": "Share found", "auc": "Mean AUC"}
"""What the numbers of a run are called in the head of their table."""


def numbers(run: FinishedRun) -> Mapping[str, Any] | None:
    """Return the table of numbers: one line a class, series and budget."""
    if run.rows is None or not _has_means(run) or run.subject == "times":
        return None
    value = run.value if run.value in MEASURED else "error"
    rows = summarise(run.rows, value=value)
    rows["title"] = class_titles(rows)
    with np.errstate(invalid="ignore"):
        rows["ratio"] = rows["mean"] / rows["expected_error"]
    rows["letter"] = np.array([letter(name) for name in rows["definition"]], dtype=object)
    order = {name: index for index, name in enumerate(unique(run.rows["series"])[0])}
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in range(len(rows["count"])):
        line = {name: column[row : row + 1].tolist()[0] for name, column in rows.items()}
        line["colour"] = order[line["series"]]
        groups.setdefault(line["label"], []).append(line)
    return {
        "groups": groups,
        "letters": list(dict.fromkeys(rows["letter"])),
        "measured": MEASURED[value],
        "theory": bool(np.isfinite(rows["expected_error"]).any()),
        "nights": bool(np.any(rows.get("night", 0))),
    }


def reproduction(run: FinishedRun) -> Mapping[str, Any]:
    """Return what is needed to get the same numbers again: the run, its machine and its times."""
    facts = {
        "Machine": ", ".join(machine_words(run.record.machine)),
        "Started": _moment(run.record.started),
        "Finished": _moment(run.record.finished),
    }
    return {"run": run, "facts": facts}


def _moment(written: str) -> str:
    """Return a time as a person reads it, to the second; old records may have none."""
    if not written:
        return ""
    return f"{datetime.fromisoformat(written).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def machine_words(machine: Mapping[str, Any]) -> list[str]:
    """Return what a machine is, in words: processor, cores, platform."""
    cores = machine.get("cores")
    counted = {"cores": f"{cores} core{'s' * (cores != 1)}"} if cores else {}
    return [str(value) for value in {**machine, **counted}.values()]
