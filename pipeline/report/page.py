"""The page: sections of reportlets, drawn by templates into one file that needs nothing else.

``reports/report.toml`` says which reportlets a section has, in which order, under which title and
caption. A reportlet with nothing to show drops out.
"""

import base64
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError
from pipeline.figures import PALETTE, digits, javascript, listing, number, own_ids
from pipeline.files import atomic_path, make_folder, owner_only, resource
from pipeline.report.content import CONTENT, key_numbers
from pipeline.report.finding import Finding
from pipeline.report.findings import findings
from pipeline.report.methods import Methods, methods
from pipeline.report.methods_of_experiment import of_experiment
from pipeline.report.runs import FinishedRun, load_runs


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
    one that is drawn.
    """

    id: str
    title: str
    subtitle: str
    key_numbers: Sequence[tuple[str, str]]
    headline: Finding
    reportlets: Sequence[Reportlet]
    classes: Sequence[str] = ()
    spans: Sequence[str] = ()


def build_report(out: Path, *, target: Path | None = None) -> Path:
    """Write the report of all experiments under `out` and return its path.

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
        When there is no run, the record of one cannot be read, or the page cannot be written.
    ConfigError
        When ``reports/report.toml`` names a reportlet that does not exist.
    """
    spec = load_spec(resource("reports", "report.toml"))
    runs = load_runs(out)
    page = render(
        title=_title(runs, spec),
        page=spec["page"],
        sections=[build_section(run, spec) for run in runs],
        privacy=_statements(runs),
        methods=methods_of_runs(runs),
        script=javascript(),
    )
    path = target or out / "report.html"
    closed = out.stat().st_mode & 0o077 == 0
    with owner_only(closed):
        make_folder(path.parent)
        with atomic_path(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
    return path


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
        subtitle=_where(run),
        key_numbers=key_numbers(run),
        headline=findings(run)[0],
        reportlets=[Reportlet(**item, content=content) for item, content in filled if content],
    )


def render(
    *,
    title: str,
    page: Mapping[str, str],
    sections: Sequence[Section],
    privacy: Mapping[str, Sequence[tuple[str, str]]],
    methods: Methods,
    script: str,
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
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource("reports", "templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "digits": digits, "own_ids": own_ids, "link": _link}
    return environment.get_template("page.html.j2").render(
        title=title,
        page=page,
        sections=sections,
        privacy=privacy,
        methods=methods,
        palette=PALETTE,
        copying=resource("reports", "copy.js").read_text(encoding="utf-8"),
        style=resource("reports", "style.css").read_text(encoding="utf-8"),
        library=script,
        behaviour=resource("reports", "report.js").read_text(encoding="utf-8") if script else "",
    )


def methods_of_runs(runs: Sequence[FinishedRun]) -> Methods:
    """Return what a paper says of some runs, a paragraph each."""
    told = {
        run.id: of_experiment(
            {"dataset": run.record.dataset.name, **run.record.config, "seed": run.record.seed}
            | {"name": run.record.experiment},
            title=_where(run),
            classes=", ".join(f"{one.name} n = {one.n:,}" for one in run.record.classes),
            guarantees=run.record.guarantees,
        )
        for run in runs
    }
    versions = {run.record.versions.get("covdp", "") for run in runs}
    return methods(told, apart=True, version=versions.pop() if len(versions) == 1 else "")


def _link(csv: str) -> str:
    """Return a table as an address that needs no file; with a mark that spreadsheets look for."""
    coded = base64.b64encode(f"\ufeff{csv}".encode()).decode()
    return f"data:text/csv;charset=utf-8;base64,{coded}"


def _title(runs: Sequence[FinishedRun], spec: Mapping[str, Any]) -> str:
    if len(runs) > 1:
        return str(spec["page"]["title"])
    return ": ".join(filter(None, (runs[0].record.title, _where(runs[0]))))


def _where(run: FinishedRun) -> str:
    """Return the dataset of a run on images; simulated records have none."""
    return run.record.dataset.title if run.subject in ("images", "missing") else ""


def _statements(runs: Sequence[FinishedRun]) -> dict[str, list[tuple[str, str]]]:
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
