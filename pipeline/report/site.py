"""The report of a folder: the page of its experiment, or an index and one page an experiment.

Every page is one file that needs no other. The index says what became of each statement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pipeline.figures import javascript, listing
from pipeline.files import atomic_path, make_folder, owner_only, resource
from pipeline.report.methods_of_runs import methods_of_runs, methods_of_site
from pipeline.report.page import (
    NOWHERE,
    Section,
    build_section,
    draw,
    load_spec,
    render,
    statements,
    where,
)
from pipeline.report.runs import FinishedRun, load_runs
from pipeline.report.standing import Entry, entry_of, groups_of, lead, legend


def build_report(out: Path, *, target: Path | None = None) -> Path:
    """Write the report of all experiments under `out` and return its path.

    One experiment is one page. Several have an index, and a page each in the folder ``…-pages``
    beside it; pages that are there of experiments that are not under `out` stay.

    Parameters
    ----------
    out : Path
        Folder of results: ``runs/*/run.json``, with ``bound.parquet`` and ``samples/*.png`` beside
        it, and ``results/*.parquet``. Nothing else is read.
    target : Path, optional
        The HTML file; ``out/report.html`` by default. For its owner alone if `out` is.

    Raises
    ------
    OutputError
        When there is no run, the record of one cannot be read, or a page cannot be written.
    ConfigError
        When ``reports/report.toml`` names a reportlet that does not exist.
    """
    spec = load_spec(resource("reports", "report.toml"))
    runs = sorted(load_runs(out), key=lambda run: run.record.status != "ok")  # without data: last
    path = target or out / "report.html"
    experiments: dict[str, list[FinishedRun]] = {}
    for run in runs:
        experiments.setdefault(run.record.experiment, []).append(run)
    closed = out.stat().st_mode & 0o077 == 0
    with owner_only(closed):
        make_folder(path.parent)
        if len(experiments) == 1:
            _write(path, _page(runs, spec, {}))
        else:
            _write_site(path, experiments, spec)
    return path


def _write_site(
    path: Path, experiments: Mapping[str, Sequence[FinishedRun]], spec: Mapping[str, Any]
) -> None:
    """Write the pages, and last the index, so that no link of it leads nowhere."""
    folder = path.with_name(f"{path.stem}-pages")
    make_folder(folder)
    words = spec["site"]
    groups = groups_of(
        [
            entry_of(name, runs, quote(f"{folder.name}/{name}.html"))
            for name, runs in experiments.items()
        ],
        words,
    )
    entries = [entry for group in groups for entry in group.entries]
    for place, entry in enumerate(entries):
        _write(
            folder / f"{entry.id}.html",
            _page(experiments[entry.id], spec, _bar(entries, place, path, spec)),
        )
    runs = [run for group in experiments.values() for run in group]
    page = spec["page"] | words | {"folded": words["statement_title"]}
    ends = [(page[f"{name}_title"], name, False) for name in ("privacy", "methods")]
    index = draw(
        "index.html.j2",
        title=page["title"],
        page=page,
        lead=lead(groups),
        legend=legend(entries, words["meaning"]),
        groups=groups,
        privacy=statements(runs),
        methods=methods_of_site(runs, words),
        nav={
            **NOWHERE,
            "pages": [_linked(entry, entry.href) for entry in entries],
            "pages_title": words["pages_title"],
            "parts": [*((group.title, group.id, False) for group in groups), *ends],
        },
    )
    _write(path, index)


def _bar(
    entries: Sequence[Entry], place: int, index: Path, spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Return where the bar of a page leads to, but for its own parts."""
    pages = [_linked(entry, quote(f"{entry.id}.html")) for entry in entries]
    pages[place]["here"] = True
    return {
        "home": quote(f"../{index.name}"),
        "pages": pages,
        "pages_title": spec["site"]["pages_title"],
        "before": pages[place - 1] if place else None,
        "after": pages[place + 1] if place + 1 < len(pages) else None,
    }


def _linked(entry: Entry, href: str) -> dict[str, Any]:
    return {
        "href": href,
        "title": entry.title,
        "told": entry.id,
        "mark": entry.mark,
        "here": False,
    }


def _page(runs: Sequence[FinishedRun], spec: Mapping[str, Any], bar: Mapping[str, Any]) -> str:
    """Return the page of an experiment, of all datasets that it ran on."""
    sections = [build_section(run, spec) for run in runs]
    if len(sections) > 1:
        sections = [_by_dataset(section) for section in sections]
    places = where(runs[0]) if len(runs) == 1 else ""
    return render(
        title=": ".join(filter(None, (listing(run.record.title for run in runs), places))),
        page=spec["page"],
        sections=sections,
        privacy=statements(runs),
        methods=methods_of_runs(runs),
        script=javascript(),
        bar=bar,
    )


def _by_dataset(section: Section) -> Section:
    """Return a section of a page whose heading has the title of the experiment already."""
    return replace(section, title=section.subtitle or section.id, subtitle="")


def _write(path: Path, page: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
