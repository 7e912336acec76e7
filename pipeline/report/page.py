"""The page: sections of reportlets, drawn by templates into one file that needs nothing else.

``reports/report.toml`` says which reportlets a section has, in which order, under which title and
caption. A reportlet with nothing to show drops out.
"""

import base64
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError
from pipeline.figures import PALETTE, digits, listing, number, own_ids
from pipeline.files import resource
from pipeline.report.content import CONTENT, key_numbers, machine_words
from pipeline.report.finding import Finding
from pipeline.report.findings import findings
from pipeline.report.methods import Methods
from pipeline.report.runs import FinishedRun
from pipeline.results import unique


@dataclass(frozen=True)
class Reportlet:
    """One block of a section: name, heading, caption, template, and what the template draws."""

    name: str
    title: str
    caption: str
    template: str
    content: Any


@dataclass(frozen=True)
class Section:
    """One section of the page, and the line that stands for it in the summary.

    Of `classes`, where there are several, a reader may choose those that are shown; of `spans` the
    one that is drawn. `about` stands in the caption of each figure: what it is of.
    """

    id: str
    title: str
    subtitle: str
    key_numbers: Sequence[tuple[str, str]]
    headline: Finding
    reportlets: Sequence[Reportlet]
    classes: Sequence[str] = ()
    spans: Sequence[str] = ()
    about: str = ""


def load_spec(path: Path) -> Mapping[str, Any]:
    """Return the page's plan; raise `ConfigError` when it names an unknown reportlet."""
    with path.open("rb") as stream:
        spec = tomllib.load(stream)
    for item in spec["reportlet"]:
        if item["name"] not in CONTENT:
            raise ConfigError(
                f"{path}: unknown reportlet {item['name']!r}; known are {', '.join(CONTENT)}"
            )
    return spec


def build_section(run: FinishedRun, spec: Mapping[str, Any]) -> Section:
    """Return the section of one run, without the reportlets that have nothing to show."""
    filled = [(item, CONTENT[item["name"]](run)) for item in spec["reportlet"]]
    return Section(
        id=run.id,
        title=run.record.title,
        subtitle=where(run),
        key_numbers=key_numbers(run),
        headline=findings(run)[0],
        reportlets=[Reportlet(**item, content=content) for item, content in filled if content],
        about=_about(run),
    )


def render(
    *,
    title: str,
    page: Mapping[str, str],
    sections: Sequence[Section],
    privacy: Mapping[str, Sequence[tuple[str, str]]],
    methods: Methods,
    script: str,
    bar: Mapping[str, Any] | None = None,
) -> str:
    """Return the HTML of a page; every text is escaped, style and scripts stand inside.

    Parameters
    ----------
    title : str
        Title and first heading.
    page : mapping of str to str
        The texts of the page itself, table ``page`` of ``reports/report.toml``.
    sections : sequence of Section
        One an experiment.
    privacy : mapping of str to sequence of (str, str)
        The statement of privacy: label, and its texts, each with the runs it is about ("" for
        all of them).
    methods : Methods
        What a paper says of all this, and cites.
    script : str
        The library for interactive charts; "" leaves the static pictures.
    bar : mapping, optional
        Other pages that the bar leads to, which stays in sight; of its own parts it always knows.
    """
    return draw(
        "page.html.j2",
        title=title,
        page=page,
        sections=sections,
        privacy=privacy,
        methods=methods,
        nav={**NOWHERE, "title": title, "parts": _parts(sections, page), **(bar or {})},
        library=script,
        behaviour=resource("reports", "report.js").read_text(encoding="utf-8") if script else "",
    )


NOWHERE: Mapping[str, Any] = {"home": "", "pages": (), "before": None, "after": None}
"""A bar that leads to no other page."""


def _parts(sections: Sequence[Section], page: Mapping[str, str]) -> list[tuple[str, str, bool]]:
    """Return what the bar lists of a page: text, id, and whether it is part of the one before."""
    several, parts = len(sections) > 1, list[tuple[str, str, bool]]()
    for section in sections:
        if several:
            name = ": ".join(filter(None, (section.title, section.subtitle)))
            parts.append((name, section.id, False))
        parts += [(one.title, f"{section.id}-{one.name}", several) for one in section.reportlets]
    return [*parts, *((page[f"{name}_title"], name, False) for name in ("privacy", "methods"))]


def draw(template: str, **values: Any) -> str:
    """Return what a template of ``reports/templates`` makes of `values`, with style and menus."""
    page: str = _template(template).render(
        palette=PALETTE,
        style=resource("reports", "style.css").read_text(encoding="utf-8"),
        menus=resource("reports", "menus.js").read_text(encoding="utf-8"),
        copying=resource("reports", "copy.js").read_text(encoding="utf-8"),
        **values,
    )
    return page


@cache
def _template(name: str) -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource("reports", "templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "digits": digits, "own_ids": own_ids, "link": _link}
    return environment.get_template(name)


def _link(text: str, kind: str) -> str:
    """Return a text as an address that needs no file; tables have the mark of spreadsheets."""
    mark = "\ufeff" if kind == "text/csv" else ""
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(f'{mark}{text}'.encode()).decode()}"


def where(run: FinishedRun) -> str:
    """Return the dataset of a run on images; simulated records have none."""
    return run.record.dataset.title if run.subject in ("images", "missing") else ""


def _about(run: FinishedRun) -> str:
    """Return what figures of a run are of, as a caption in a paper says it."""
    if run.subject == "budgets":
        return ""
    record, rows = run.record, run.rows
    names = {
        name: listing([word for word in unique(rows[name])[0] if word != "none"]) if rows else ""
        for name in ("descriptor", "manifold")
    }
    if run.subject in ("images", "missing"):
        sides = " × ".join(str(side) for side in record.image_shape[:3])
        images = f"{record.dataset.title}, {sides} pixels" if sides else record.dataset.title
    else:
        images = f"Simulated {record.units}" if names["manifold"] else ""
    described = f"descriptor {names['descriptor']}" if names["descriptor"] else ""
    told = [images, described, names["manifold"]]
    if run.subject in ("times", "passes") and record.machine:
        told.append(listing(machine_words(record.machine)))
    return "; ".join(filter(None, told))


def statements(runs: Sequence[FinishedRun]) -> dict[str, list[tuple[str, str]]]:
    """Return each label of the statements of privacy with its texts, and for which runs each is.

    A text that all runs share stands for no run in particular.
    """
    labels = dict.fromkeys(label for run in runs for label in run.record.privacy)
    out: dict[str, list[tuple[str, str]]] = {}
    for label in labels:
        texts: dict[str, list[str]] = {}
        for run in runs:
            if label in run.record.privacy:
                texts.setdefault(run.record.privacy[label], []).append(run.id)
        shared = len(texts) == 1
        out[label] = [("" if shared else listing(who), text) for text, who in texts.items()]
    return out
