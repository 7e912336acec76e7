"""The page of an experiment: from its runs, one a dataset, to what each of their blocks shows.

The second half are blocks of numbers. Those of add-ons stand in these.
"""

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.config import curve_name
from covdp.descriptors import DESCRIPTORS, terms_of
from covdp.figures import (
    Figure,
    class_titles,
    curves,
    grouped,
    letter,
    listing,
    matrices,
    number,
    tightness,
)
from covdp.files import owner_only
from covdp.registry import Registry
from covdp.report.findings import check_cells, findings
from covdp.report.methods import Methods, Sentences, SeriesSettings, methods, of_experiment
from covdp.report.page import Finding, cell, signed, table, write_page
from covdp.report.runs import FinishedRun, load_run, load_runs
from covdp.report.templates import say_each
from covdp.results import RunRecord, Table, summarise, unique

MEASURED_WORDS = {"error": "Mean error", "rejected": "Share found", "auc": "Mean AUC"}
"""Heads of the table of numbers, by the column that is shown."""


SiteWriter: TypeAlias = Callable[[Path, Mapping[str, Sequence[FinishedRun]]], Path]
"""Path of an index, and runs by experiment → the pages that are written, and the index."""
SITES = Registry[SiteWriter]("sites", {}, word="site")
"""Name → writer of the pages of several experiments: `index` is asked."""


def build_report(out: Path, *, target: Path | None = None, experiment: str | None = None) -> Path:
    """Write the report of all experiments under `out`, or of one of them, and return its path.

    One experiment is one page. Several have an index, and a page each, where an add-on writes them
    (`SITES`), else a section each.

    Parameters
    ----------
    out : Path
        Folder of results: ``runs/*/run.json``, with ``bound.parquet`` and ``samples/*.png`` beside
        it, and ``results/*.parquet``. Nothing else is read.
    target : Path, optional
        The HTML file; ``out/report.html`` by default. For its owner alone if `out` is.
    experiment : str, optional
        The one experiment whose page is written.

    Returns
    -------
    Path
        Path of the page.

    Raises
    ------
    OutputError
        When there is no run, the record of one cannot be read, or a page cannot be written.
    ConfigError
        When ``reports/report.toml`` names a function that does not exist.
    """
    runs = sorted(load_runs(out), key=lambda run: run.record.status != "ok")  # without data: last
    runs = [run for run in runs if experiment in (None, run.record.experiment)]
    path = target or out / "report.html"
    experiments = grouped((run.record.experiment, run) for run in runs)
    closed = out.stat().st_mode & 0o077 == 0
    with owner_only(closed):
        if len(experiments) == 1 or "index" not in SITES:
            return write_page(path, "run", runs)
        return SITES["index"](path, experiments)


def headline_of(folder: Path, results: Path) -> str:
    """Return what a reader should know first of a run: its folder, and the file of its rows.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    results : Path
        File of its rows.
    """
    return headline(load_run(folder, results)).text


def headline(run: FinishedRun) -> Finding:
    """Return what a reader should know first.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    return findings(run)[0]


def promises_of_runs(runs: Sequence[FinishedRun]) -> list[tuple[str, Iterable[tuple[str, str]]]]:
    """Return what runs promise, of those that drew noise.

    Parameters
    ----------
    runs : sequence of FinishedRun
        Runs of one experiment.
    """
    return [(run.id, run.record.privacy.items()) for run in runs if run.record.privacy]


def methods_of_runs(runs: Sequence[FinishedRun]) -> Methods:
    """Return what a paper says of some runs, a paragraph each: only what their rows hold.

    Parameters
    ----------
    runs : sequence of FinishedRun
        Runs of one experiment.
    """
    contents = {run.id: _sentences(run) for run in runs}
    series = {name: rows for name, (_, rows) in contents.items()}
    sentences = {name: texts for name, (texts, _) in contents.items()}
    return methods(sentences, series=series, version=version_of(runs))


@lru_cache
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
    if not config.get("source") and record.unit != "image":
        sizes += f" {record.units}"
    own: dict[str, Any] = {"classes": sizes, "facts": record.facts, "guarantees": guarantees}
    kept = (run.use or {}).get("kept") or [{"kept": ()}]
    return of_experiment(ran, title=run.where, classified=len(kept[0]["kept"]), **own)


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
    """Return the version of covdp that made all runs; "" where there are several.

    Parameters
    ----------
    runs : sequence of FinishedRun
        Runs of one experiment.
    """
    versions = {run.record.versions.get("covdp", "") for run in runs}
    return versions.pop() if len(versions) == 1 else ""


def _about(run: FinishedRun) -> str:
    """Return what figures of a run are of, as a caption in a paper says it."""
    if run.subject == "budgets":
        return ""
    record, (descriptor, manifold) = run.record, _names(run).values()
    if run.subject in ("images", "missing"):
        shape = record.image_shape
        sides = " × ".join(map(str, shape[:2] if shape[2:] == (3,) else shape[:3]))  # not channels
        images = f"{record.dataset.title}, {sides} pixels" if sides else record.dataset.title
    else:
        images = f"Simulated {record.units}" if manifold else ""
    parts = [images, f"descriptor {descriptor}" if descriptor else "", manifold]
    if run.subject == "times" and record.machine:
        parts.append(listing(machine_words(record.machine)))
    return "; ".join(filter(None, parts))


def values(run: FinishedRun) -> dict[str, Any]:
    """Return what the texts and numbers at the head of a section say of its run.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    known: dict[str, Any] = {"about": _about(run), "is_made": _is_made(run.record)}
    if run.rows is None or not _has_means(run):
        return known
    series, budgets = run.rows["series"], run.rows["budget"]
    most = {int(run.rows["repetition"][series == name].max()) + 1 for name in unique(series)[0]}
    return known | {
        "letters": " or ".join(dict.fromkeys(map(letter, unique(run.rows["definition"])[0]))),
        "budgets": _range(number, budgets.min(), budgets.max()),
        "repetitions": _range(str, min(most), max(most)),
    }


def _range(text: Callable[[Any], str], least: float, most: float) -> str:
    """Return both ends of a range, or the one that both are."""
    return "–".join(dict.fromkeys(map(text, (least, most))))


def _has_means(run: FinishedRun) -> bool:
    """Tell whether the rows are errors of private means."""
    return bool(
        run.rows is not None and len(run.rows["n"]) and run.record.status == "ok" and run.kind.means
    )


def summary(run: FinishedRun) -> list[Any]:
    """Return what was checked, beside the headline.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    return [finding for finding in findings(run)[1:] if not finding.result]


def results(run: FinishedRun) -> list[Finding]:
    """Return what was measured, beside the headline.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    return [finding for finding in findings(run)[1:] if finding.result]


def facts(run: FinishedRun, *, about: str) -> Mapping[str, Any] | None:
    """Return what was run and on what, of runs about that: the record, and names in its rows.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    about : str
        Subject of the block: "images", "missing", "records", "times" or "budgets".
    """
    if run.subject != about:
        return None
    is_made, series, names = _is_made(run.record), _series(run), _names(run)
    told = is_made and all(f"n = {item.n:,}" in item.name for item in run.record.classes)
    known = {"classes": () if told else run.record.classes, "series": series, **names}
    return {"run": run, "record": run.record, "is_made": is_made, **known}


def _names(run: FinishedRun) -> dict[str, str]:
    """Return which descriptors and manifolds the rows of a run are of; "" of none."""
    return {
        column: listing(name for name in unique(run.rows[column])[0] if name != "none")
        if run.rows
        else ""
        for column in ("descriptor", "manifold")
    }


def _is_made(record: RunRecord) -> bool:
    """Tell whether a run is about what it made itself, not about images of a dataset."""
    return any(record.config.get(key) for key in ("source", "composition"))


def _series(run: FinishedRun) -> list[dict[str, str]]:
    """Return what each series is: label, mechanism, sampler, footpoint, and what it guarantees."""
    if run.rows is None:
        return []
    names, codes = unique(run.rows["series"])
    columns = ("series", "mechanism", "sampler", "footpoint", "definition")
    return [
        {column: str(run.rows[column][np.argmax(codes == code)]) for column in columns}
        | {"guarantee": run.record.guarantees.get(str(name), "")}
        for code, name in enumerate(names)
    ]


def samples(run: FinishedRun) -> list[dict[str, Any]]:
    """Return the tiles of each class as data URIs.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    classes = {item.label: item for item in run.record.classes}
    return [
        {
            "name": classes[label].name if label in classes else f"class {label}",
            "n": classes[label].n if label in classes else None,
            "units": "" if run.record.unit == "image" else f" {run.record.units}",
            "uri": _png(png),
        }
        for label, png in run.samples.items()
    ]


def verified_bound(run: FinishedRun) -> dict[str, Any] | None:
    """Return the formula of the bound, and of each class the image that fills most of it.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    if run.bound is None or not run.bound_formula:
        return None
    columns = ("label", "class_name", "n", "largest_norm", "ratio")
    rows = zip(*(run.bound[name] for name in columns), strict=True)
    return {
        "formula": run.bound_formula,
        "manifold": str(run.record.config.get("manifold", "")),
        "classes": [
            {
                "name": name,
                "n": int(n),
                "distance": f"{distance:.2f}",
                "share": f"{100 * ratio:.1f} %",
                "uri": _png(run.farthest[label]) if label in run.farthest else "",
            }
            for label, name, n, distance, ratio in rows
        ],
    }


def bound_in_words(run: FinishedRun) -> list[str]:
    """Return the bound and the farthest image of each class, in lines; none of a run without.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    found = verified_bound(run)
    if found is None:
        return []
    classes = [f"{x['name']} {x['distance']} ({x['share']} of r)" for x in found["classes"]]
    formula = found["formula"].replace("r =", "radius r =").replace("D =", "diameter D =")
    return [*formula.split("; "), f"farthest image: {', '.join(classes)}"]


def _png(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()


def bound(run: FinishedRun) -> Figure | None:
    """Return the bound and its tightness.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    manifold = str(run.record.config.get("manifold", ""))
    return tightness(run.bound, manifold=manifold) if run.bound is not None else None


def measured(run: FinishedRun, *, shown: str) -> Figure | None:
    """Return the figure of the rows if `shown` is along its axis.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    shown : {"budget", "one budget", "n", "dim", "k", "night", "footpoint_share",
            "footpoint_distance", "seconds", "rejected", "auc"}
        What an error is drawn against; or what else is drawn, against anything.
    """
    if run.rows is None or not run.kind.means:
        return None
    config = run.record.config
    for figure in (config.get("figure") or {}, *config.get("figures", ())):
        chosen = {"x": "budget"} | dict(figure)
        along = chosen["x"]
        if along == "budget" and len(set(run.rows["budget"][run.rows["status"] == "ok"])) == 1:
            along = "one budget"
        if shown == (along if run.value == "error" else run.value):
            figure = _figure(run, chosen)
            return figure and replace(figure, finding=_best(run))
    return None


BEST: Mapping[str, tuple[str, Callable[..., float]]] = {
    "error": ("smallest mean error", min),
    "seconds": ("shortest time", min),
    "auc": ("largest mean AUC", max),
}
"""Words for the best value of a column, and what finds it."""


def _best(run: FinishedRun) -> str:
    """Return which series is the best most often, among those of one panel and guarantee.

    A mean error that disagrees with its law is nobody's, and a cell whose best value two methods
    share is left out. Cases are those in which the best one stands beside another. "" where there
    are none, or where two are the best as often. Of a series whose name has a size, the name of the
    method is the part before the first comma.
    """
    if run.rows is None or run.value not in BEST:
        return ""
    table, (words, best) = summarise(run.rows, value=run.value), BEST[run.value]
    off = check_cells(table).off if run.value == "error" else np.zeros(len(table["n"]), bool)
    group = {
        item["series"]: (item.get("panel"), item.get("definition"), item.get("delta"))
        for item in run.record.config.get("mechanisms", ())
    }
    parts = {
        series: series.partition(", ")[::2] if ", n = " in series else (series, "")
        for series in group
    }
    nights = table.get("night", np.zeros_like(table["label"]))
    where = zip(table["series"], table["label"], table["budget"], nights, table["n"], strict=True)
    cells = grouped(
        ((group[series], parts[series][1], *key), (parts[series][0], table["mean"][row]))
        for row, (series, *key) in enumerate(where)
        if series in group and table["count"][row] > 0 and not off[row]
    )
    beside = [set(values) for values in cells.values() if len(dict(values)) > 1]
    found = [(values, _names_of(best, values)) for values in beside]
    alone = [(dict(values), names.pop()) for values, names in found if len(names) == 1]
    ranks = Counter(name for _, name in alone).most_common(2)
    if not ranks or (len(ranks) > 1 and ranks[0][1] == ranks[1][1]):
        return ""
    name, count = ranks[0]
    total = sum(name in values for values, _ in alone)
    cases = f"all {total} cases" if 1 < count == total else f"{count} of {total} cases"
    some = any({name} == {*dict(values)} for values in cells.values())
    return f"{name}: {words} in {cases}{' with a rival' * some}"


def _names_of(best: Callable[..., float], values: Iterable[tuple[str, float]]) -> set[str]:
    """Return the names that have the best of some values."""
    found = best(value for _, value in values)
    return {name for name, value in values if value == found}


ALONG_FOOTPOINTS = ("footpoint_share", "footpoint_distance")
"""x axes along which series whose names differ after the last comma are one curve."""


def _figure(run: FinishedRun, chosen: dict[str, Any]) -> Figure | None:
    """Return a figure of the rows as a config says."""
    series, only = run.record.config.get("mechanisms", ()), chosen.pop("series", ())
    groups = {item["series"]: item.get("panel", "") for item in series}
    if chosen["x"] not in ALONG_FOOTPOINTS or run.rows is None:
        return curves(run.rows or {}, **chosen, panel_of=groups)
    curve_of = {name: curve_name(name) for name in groups}
    share = run.rows["footpoint_share"]
    rows = {**run.rows, "footpoint_share": np.where(share > 0.0, share, np.nan)}
    drawn = [not only or curve_of[name] in only for name in rows["series"]]
    rows = {name: column[drawn] for name, column in rows.items()}
    figure = curves(rows, **chosen, panel_of=groups, curve_of=curve_of)
    return figure and replace(figure, id=chosen["x"].replace("_", "-"))


def numbers(run: FinishedRun) -> Mapping[str, Any] | None:
    """Return the table of numbers: one line a class, series and budget.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    if run.rows is None or not _has_means(run) or run.subject == "times":
        return None
    value = run.value if run.value in MEASURED_WORDS else "error"
    rows = summarise(run.rows, value=value)
    rows["title"] = class_titles(rows)
    with np.errstate(invalid="ignore"):
        rows["ratio"] = rows["mean"] / rows["expected_error"]
    rows["letter"] = np.array([letter(name) for name in rows["definition"]], dtype=object)
    order = {name: index for index, name in enumerate(unique(run.rows["series"])[0])}
    lines = ({**line, "colour": order[line["series"]]} for line in lines_of(rows))
    return {
        "groups": grouped((line["label"], line) for line in lines),
        "letters": list(dict.fromkeys(rows["letter"])),
        "measured": MEASURED_WORDS[value],
        "theory": bool(np.isfinite(rows["expected_error"]).any()),
        "nights": bool(np.any(rows.get("night", 0))),
    }


def reproduction(run: FinishedRun) -> Mapping[str, Any]:
    """Return what is needed to get the same numbers again: the run, its machine and its times.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
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
    """Return what a machine is, in words: processor, cores that were used, platform.

    Parameters
    ----------
    machine : mapping of str to object
        Facts of a machine, by their names, as the record of a run has them.
    """
    cores = machine.get("cores")
    counted = {"cores": f"{cores} core{'s' * (cores != 1)} used"} if cores else {}
    return [str(value) for value in {**machine, **counted}.values()]


def lines_of(rows: Table) -> Iterator[dict[str, Any]]:
    """Yield each row of a table as values by column.

    Parameters
    ----------
    rows : Table
        Columns by name.
    """
    for values in zip(*(column.tolist() for column in rows.values()), strict=True):
        yield dict(zip(rows, values, strict=True))


def rows_with(rows: Table, **values: Any) -> NDArray[np.bool_]:
    """Return which rows have some values in some columns.

    Parameters
    ----------
    rows : Table
        Columns by name.
    **values : object
        Value that each column named has in the rows.
    """
    columns = [rows[name] == value for name, value in values.items()]
    return np.asarray(np.logical_and.reduce(columns))


def missing(run: FinishedRun, *, status: str) -> list[str]:
    """Return what has no result for one reason, in sentences.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    status : str
        Reason why there is no result, one of `covdp.results.STATUSES`.
    """
    return missing_results(run.rows, status) if run.rows is not None else []


def missing_results(rows: Table, status: str) -> list[str]:
    """Return one sentence for each series on the pairs of class and budget it has no result at.

    Where nights are counted, nights stand for budgets. Classes with the same ones stand together.
    Where nothing has a result, one sentence says so.
    `status` is why, one of `covdp.results.STATUSES`.

    Parameters
    ----------
    rows : Table
        Columns by name.
    status : str
        Reason why there is no result, one of `covdp.results.STATUSES`.
    """
    means = summarise(rows)
    lost = (means["count"] == 0) & (means["status"] == status)
    places = {name: _places(means, name, lost) for name in unique(means["series"][lost])[0]}
    return list(say_each("missing", places=places, every=lost.all()))


def _places(means: Table, series: str, lost: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Return where a series has no result: budgets or nights, and the classes that share them."""
    nights = bool(np.any(means.get("night", 0)))
    axis, drawn = means["night" if nights else "budget"], means["series"] == series
    names = dict(zip(means["label"].tolist(), means["class_name"].tolist(), strict=True))
    chosen = {x: drawn & lost & (means["label"] == x) for x in unique(means["label"][drawn])[0]}
    values = {label: tuple(sorted(set(axis[at].tolist()))) for label, at in chosen.items()}
    classes = grouped((at, names[label]) for label, at in values.items())
    count = len(set(axis[drawn].tolist()))
    symbol = "" if nights else letter(str(means["definition"][drawn][0]))
    return [
        {"at": at, "symbol": symbol, "anywhere": len(at) == count > 1, "classes": alike}
        for at, alike in classes.items()
        if at
    ]


def beside_distances(run: FinishedRun) -> Mapping[str, Any] | None:
    """Return a row per class: how far the next class is, and how much of that the error is.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    use = run.use
    if not use or run.rows is None or len(use["classes"]) < 2:
        return None
    apart = np.array(use["distances"])
    np.fill_diagonal(apart, np.inf)
    means = summarise(run.rows)
    budgets = sorted(set(run.record.config["budgets"]))
    shown = list(dict.fromkeys([budgets[0], use["budget"], budgets[-1]]))
    symbol = letter(run.record.config["definition"])
    lines = []
    for place, name in enumerate(use["classes"]):
        nearest = int(np.argmin(apart[place]))
        distance = float(apart[place, nearest])
        errors = (_error(means, name, use["series"], value) for value in shown)
        cells = [f"{number(error)} ({_times(error / distance)})" for error in errors]
        lines.append([name, use["classes"][nearest], number(distance), *cells])
    heads = [f"Error at {symbol} = {number(value)}" for value in shown]
    return table(["Class", "Nearest class", "Distance", *heads], lines, text=2)


def _error(means: Table, name: str, series: str, budget: float) -> float:
    cell = rows_with(means, class_name=name, series=series, budget=budget)
    return float(means["mean"][cell][0]) if cell.any() else np.nan


def _times(value: float) -> str:
    """Return a share of a distance: in hundredths, or in whole times where it is more."""
    if not np.isfinite(value):
        return "–"
    return f"{100 * value:.2g} %" if value < 1 else f"{value:.2g} times it"


def kept(run: FinishedRun) -> Figure | None:
    """Return what the nearest mean tells right at each budget, beside the true means.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    use = run.use
    if not use or not use["kept"] or len(use["classes"]) < 2:
        return None
    config = run.record.config
    points = [(item["series"], use["budget"], np.nan) for item in config["mechanisms"]]  # colours
    points += [(item["series"], item["budget"], x) for item in use["kept"] for x in item["kept"]]
    every = np.ones(len(points))
    rows = {
        "series": np.array([series for series, _, _ in points], dtype=object),
        "budget": np.array([budget for _, budget, _ in points]),
        "accuracy": np.array([share for _, _, share in points]),
        "definition": np.array([config["definition"]] * len(points), dtype=object),
        "class_name": np.array([""] * len(points), dtype=object),
        "expected_error": use["plain"] * every,
        **dict.fromkeys(("label", "n", "dim"), every),
    }
    figure = curves(rows, value="accuracy", panels=())
    caption = (
        f"Mean of {len(use['kept'][0]['kept'])} draws of all classes. Band and stroke: 95 % "
        "confidence for the mean of all draws. Thin dashes: by the true means. Classified "
        "correctly: the share of a class that is nearest to its own mean, averaged over classes; "
        f"guessing has {100 / len(use['classes']):.3g} %."
    )
    best = max(use["kept"], key=lambda item: (item["budget"], np.mean(item["kept"])))
    finding = (
        f"{number(100.0 * float(np.mean(best['kept'])))} % classified correctly at "
        f"{letter(config['definition'])} = {number(best['budget'])}, "
        f"{number(100.0 * use['plain'])} % without noise"
    )
    return figure and replace(figure, id="accuracies", caption=caption, finding=finding)


def beside_true(run: FinishedRun) -> Figure | None:
    """Return each class's mean without noise and one private mean, side by side.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    use = run.use
    if not use or use["private"] is None:
        return None
    symbol = letter(run.record.config["definition"])
    private = f"private, {symbol} = {number(use['budget'])}"
    pairs = zip(use["classes"], use["true"], use["private"], strict=True)
    squares = {
        f"{name}: {what}": point
        for name, true, noised in pairs
        for what, point in (("without noise", true), (private, noised))
    }
    features = DESCRIPTORS[run.record.config["descriptor"]].features
    drawn = matrices(squares, features, across=2)
    return replace(drawn, title="A private mean beside the true one")


def in_words(run: FinishedRun) -> Mapping[str, Any] | None:
    """Return what the private mean of each class says in words, beside the one without noise.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    use = run.use
    if not use or use["private"] is None or run.rows is None:
        return None
    true, private = np.array(use["true"]), np.array(use["private"])
    names, codes = unique(run.rows["class_name"])
    sizes = {name: int(run.rows["n"][codes == code][0]) for code, name in enumerate(names)}
    lines = []
    for term in terms_of(DESCRIPTORS[run.record.config["descriptor"]]):
        pairs = zip(term.value(private), term.value(true), strict=True)
        cells = [cell(signed(a), f"{signed(b)} without noise") for a, b in pairs]
        words = {"title": term.title, "unit": term.unit, "meaning": term.meaning}
        lines.append({**words, "tip": term.formula, "cells": cells})
    symbol = letter(run.record.config["definition"])
    return {
        "unit": f"{use['series']}, {symbol} = {number(use['budget'])}",
        "heads": [(name, f"{sizes.get(name, 0):,}") for name in use["classes"]],
        "lines": lines,
    }
