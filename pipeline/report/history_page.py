"""The page of a population's history: made from its committed documents and from nothing else."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.descriptors import Term
from pipeline.figures import javascript, letter
from pipeline.files import atomic_path, make_folder, resource
from pipeline.privacy import budget_from, main_parameter, repeat
from pipeline.privacy.rounding import digits_up
from pipeline.publish.committed import write_document
from pipeline.publish.history import Series, read_history
from pipeline.report.finding import Finding
from pipeline.report.history_parts import (
    changes,
    committed,
    correlations,
    latest,
    shared_statement,
    spans,
    statements,
    term_chart,
    windows,
)
from pipeline.report.methods import Methods, methods, word
from pipeline.report.methods_of_release import of_release
from pipeline.report.page import Reportlet, Section, load_spec, render
from pipeline.report.release_page import section_of, words_of

ABOUT, PAID = ("waiting", "facts"), ("meaning", "account")
"""Blocks of the page of the latest release, and those that are about all releases so far."""
LATELY = ("windows", "changes", "means")
"""Blocks of the last nights, and of the latest means."""


def build_history(population: str, results: Sequence[bytes], out: Path) -> Path:
    """Write ``OUT/index.html``, and the committed bytes beside it, and return the page.

    Parameters
    ----------
    population : str
    results : sequence of bytes
        All its committed results, in the order in which they were paid.
    out : Path
        The folder.

    Raises
    ------
    LedgerError
        When there is no release.
    OutputError
        When something cannot be written.
    """
    series, others = read_history(population, results)
    spec = load_spec(resource("reports", "report.toml"))
    words = spec["page"] | spec["release"] | spec["history"]
    files = {
        run.place: write_document(run.content, make_folder(out)).relative_to(out)
        for one in series
        for run in one.runs
    }
    sections = [
        _section(f"series-{number}", one, spec, files, first=number == 1)
        for number, one in enumerate(series, 1)
    ]
    floats = any(_is_float(one) for one in series)
    page = render(
        title=f"{population}: history of releases",
        page=words | _foreword(words, others, floats),
        sections=sections,
        privacy=_statement(series, sections),
        methods=_methods(series),
        script=javascript(),
    )
    with atomic_path(out / "index.html") as temporary:
        temporary.write_text(page, encoding="utf-8")
    return out / "index.html"


def _methods(series: Sequence[Series]) -> Methods:
    """Return what a paper says of all releases: of those alike but for run and sizes, the last."""
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for document in (run.document for one in series for run in one.runs):
        settings = document["settings"]
        known = {key: settings[key] for key in settings if key not in ("run_key", "classes")}
        alike.setdefault(json.dumps(known, sort_keys=True), []).append(document)
    told = {}
    for place, found in enumerate(alike.values(), 1):
        count = f"{len(found)} releases, of which the last is described: "
        said = dict(of_release(found[-1]["settings"], found[-1]["classes"]))
        said["data"] = (count if len(found) > 1 else "") + said["data"]
        told[f"{found[-1]['settings']['name']} ({place})"] = said
    latest = series[0].runs[-1].document
    more = f"{word('analysis', 'history')}{_spent(latest.get('account'))}"
    return methods(told, more=more, version=latest["settings"].get("version", ""))


def _spent(account: Mapping[str, Any] | None) -> str:
    """Return what all that was paid from an account comes to; releases add up."""
    if account is None:
        return ""
    return (
        f". Releases about the same people add up: all that this account had paid for by then is "
        f"{letter(account['definition'])} = {digits_up(account['spent'], 6)}"
    )


def _foreword(words: Mapping[str, Any], others: int, floats: bool) -> dict[str, str]:
    """Return what differs at the top of the page: a warning, and what is left out."""
    lead = words["lead"]
    if others:
        lead += f" {others} result{'s' * (others > 1)} of other programs are left out."
    return {"lead": lead} | ({"warning": words["unsafe"]} if floats else {})


def _section(
    name: str, series: Series, spec: Mapping[str, Any], files: Mapping[int, Path], *, first: bool
) -> Section:
    """Return the section of one series; the account stands in the one that was paid last."""
    words = spec["history"]
    told: dict[str, tuple[str, Any]] = {
        "latest": ("readings.html.j2", latest(series)),
        **{term.name: _term(series, term, words) for term in series.terms},
        "windows": ("figure.html.j2", windows(series)),
        "changes": ("table.html.j2", changes(series)),
        "means": ("figure.html.j2", correlations(series)),
        "runs": ("committed.html.j2", committed(series, files)),
        "statements": ("statements.html.j2", statements(series)),
    }
    titles = {term.name: term.title for term in series.terms}
    own = [
        Reportlet(
            key,
            titles.get(key) or words[f"{key}_title"],
            words[f"{key}_caption"],
            template,
            content,
        )
        for key, (template, content) in told.items()
        if content
    ]
    about = _of_latest(series, spec, (*ABOUT, *(PAID if first else ())))
    blocks = {one.name: one for one in (*own, *about)}
    order = ["latest", "waiting", *titles, *LATELY, *PAID, "runs", "statements", "facts"]
    return Section(
        id=name,
        title=str(series.runs[-1].document["title"]),
        subtitle=str(series.settings["name"]),
        key_numbers=_key_numbers(series),
        headline=_headline(series, words),
        reportlets=[blocks[key] for key in order if key in blocks],
        classes=series.classes,
        spans=spans(series),
    )


def _term(series: Series, term: Term, words: Mapping[str, Any]) -> tuple[str, Any]:
    """Return template and content of a term: its chart, or that there is nothing to draw."""
    chart = term_chart(series, term, words["band"])
    return ("figure.html.j2", chart) if chart else ("lines.html.j2", [words["no_band"]])


def _of_latest(
    series: Series, spec: Mapping[str, Any], names: Sequence[str]
) -> Iterator[Reportlet]:
    """Yield some blocks of the latest document's own page; none where it cannot be drawn."""
    document = series.runs[-1].document
    if series.terms:
        section = section_of(document, words_of(document, spec))
        yield from (one for one in section.reportlets if one.name in names)


def _key_numbers(series: Series) -> list[tuple[str, str]]:
    """Return the numbers at the top of a series."""
    settings, runs = series.settings, series.runs
    promise = repeat(
        budget_from(settings["definition"], settings["budget"]),
        settings.get("classes_per_person") or 1,
    )
    unit = settings.get("unit", "image")
    spent = f"{letter(settings['definition'])} = {digits_up(main_parameter(promise), 6)}"
    if series.horizon is not None:
        left = series.horizon - runs[-1].document["night"]
        return [
            (f"{len(runs):,}", f"night{'s' * (len(runs) != 1)} so far"),
            (runs[-1].key, "latest"),
            (f"{runs[-1].n:,}", f"{unit}s so far"),
            (spent, f"for one {unit}, for ever"),
            (f"{left:,}", "nights left, at no further cost"),
        ]
    return [
        (f"{len(runs):,}", f"release{'s' * (len(runs) != 1)}"),
        (runs[-1].key, "latest"),
        (f"{runs[-1].n:,}", f"{unit}s in it"),
        (spent, f"for one {unit}, each release"),
    ]


def _headline(series: Series, words: Mapping[str, Any]) -> Finding:
    if _is_float(series):
        return Finding(words["warning_lead"], warning=True)
    return Finding(words["lead"])


def _is_float(series: Series) -> bool:
    """Tell whether the noise of a run is not safe to publish."""
    return any(run.document["settings"]["noise"] != "hardened" for run in series.runs)


def _statement(
    series: Sequence[Series], sections: Sequence[Section]
) -> dict[str, list[tuple[str, str]]]:
    """Return what the statements of all releases share, by label: texts, and of which series."""
    known = [shared_statement(one) for one in series]
    out: dict[str, list[tuple[str, str]]] = {}
    for label in dict.fromkeys(label for one in known for label in one):
        texts = dict.fromkeys(one[label] for one in known if label in one)
        for text in texts:
            whose = [
                s.subtitle for s, one in zip(sections, known, strict=True) if one.get(label) == text
            ]
            alone = len(texts) == 1 and len(whose) == len(known)
            out.setdefault(label, []).append(("" if alone else ", ".join(whose), text))
    return out
