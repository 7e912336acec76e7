"""Exports of a released document: tables for a spreadsheet, for R or Python, and in BIDS's manner.

    document ─► tables: terms with intervals; mean, ─┬► csv    a file a table
                noise of it and spread of records    ├► xlsx   a sheet a table
                of each class, as matrices           └► bids   a TSV with a JSON sidecar a table

Intervals and words are those of the document's page (`covdp.publish.readings`). Nothing but the
document is read, so it costs no privacy. BIDS names no tables of groups: they are listed in
``.bidsignore``, as its validator advises.
"""

import csv
import io
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import digits
from typing import Any, NamedTuple

import numpy as np

from covdp import __version__
from covdp.addons.partners.coordinates import coordinates_at
from covdp.addons.partners.foreign import check_sides, computed
from covdp.addons.partners.several import CommittedDocument, open_document
from covdp.descriptors import DESCRIPTORS
from covdp.errors import ConfigError, one_line, printable
from covdp.figures.style import inert
from covdp.files import write_new
from covdp.geometry import MANIFOLDS, Manifold, chart_of, from_chart
from covdp.publish.readings import BAND_LEVEL, reader_of
from covdp.report.readings import has_region, readings, says_region
from covdp.schema import as_json

PERCENT = f"{100 * BAND_LEVEL:g}"
"""Confidence of the intervals, as it stands in heads."""
NUDGE = 1e-4
"""Length of a step along a coordinate that shows which entry of a matrix it moves."""
_MEANT = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
_MEANINGS = tomllib.loads(_MEANT.replace("{level}", PERCENT))
TERM_COLUMNS: dict[str, str] = _MEANINGS["terms"]
"""Columns of the terms, and their meaning."""
MATRICES: dict[str, str] = _MEANINGS["matrices"]
"""Matrices of a class, and their meaning."""


class ExportTable(NamedTuple):
    """A table of an export.

    Attributes
    ----------
    name : str
        Name of its file, or sheet.
    columns : mapping of str to str
        Head of a column to its meaning.
    rows : sequence of sequence of object
        Texts, numbers, and None.
    """

    name: str
    columns: Mapping[str, str]
    rows: Sequence[Sequence[Any]]

    @property
    def cells(self) -> list[list[Any]]:
        """Heads and rows; no text has a control character, or is a formula."""
        return [
            [inert(printable(x, lines=False)) if isinstance(x, str) else x for x in line]
            for line in (list(self.columns), *self.rows)
        ]

    def text(self, comma: str, absent: str) -> str:
        """Return the table as text.

        Parameters
        ----------
        comma : str
            Sign between cells.
        absent : str
            Cell without a value.
        """
        text = io.StringIO()
        rows = ([absent if x in (None, "") else x for x in row] for row in self.cells)
        csv.writer(text, delimiter=comma, lineterminator="\n").writerows(rows)
        return text.getvalue()


def export_document(path: Path, form: str, folder: Path) -> dict[str, Path]:
    """Write the tables of a document into a folder.

    Parameters
    ----------
    path : Path
        Document of a release or a night.
    form : {"csv", "xlsx", "bids"}
        Form of the files.
    folder : Path
        Folder of the files.

    Returns
    -------
    dict of str to Path
        Files by their names, terms first.

    Raises
    ------
    ConfigError
        When it is no document, or of a descriptor that is not known here.
    OutputError
        When a file of that name is there with other content, or the folder cannot be written.
    """
    committed = open_document(path, None)
    with computed([path]):
        files = EXPORTS[form](list(tables_of(committed)), facts_of(committed))
    return write_new(folder, files)


def tables_of(committed: CommittedDocument) -> Iterator[ExportTable]:
    """Yield the terms of all classes, and the matrices of each whose mean is usable.

    Parameters
    ----------
    committed : CommittedDocument
        Document of a release or a night.

    Raises
    ------
    ConfigError
        When its descriptor or manifold is not known here.
    """
    document, settings = committed.document, committed.settings
    reader, kind = reader_of(settings), DESCRIPTORS.get(settings.descriptor)
    if reader is None or kind is None:
        raise ConfigError(
            f"{committed.path} has descriptor {settings.descriptor!r} and manifold "
            f"{settings.manifold!r}, one of which is not known here; install the package with it"
        )
    check_sides(committed.path, document, kind.k)
    classes = [reader.read(row) for row in document.classes]
    page = readings(document, reader.terms, classes) or {"lines": ()}
    terms = [
        [*size, line["title"], *one[1:], line["unit"], one.term.formula, *cell.values()]
        for place, read in enumerate(classes)
        for size in [(read.name, read.n, read.n_sd)]
        for one, line in zip(read.readings, page["lines"], strict=True)
        if (cell := line["cells"][place])
    ]
    yield ExportTable("terms", TERM_COLUMNS, terms)
    names, wide = coordinate_names(reader.manifold, kind.features), len(str(len(classes)))
    for number, (row, read) in enumerate(zip(document.classes, classes, strict=True), 1):
        if not read.usable or read.mean is None:
            continue
        found = {"mean": row.point, "noise": read.mean.covariance}
        if says_region(row):  # at the mean, where the page has them at the last base
            here = coordinates_at(row, row.place)
            found |= {"noise": here.noise, "spread": here.single if has_region(row) else None}
        found |= {f"last{part.nights}": part.point for part in getattr(row, "windows", ())}
        label = f"class-{number:0{wide}}{re.sub('[^0-9A-Za-z]', '', read.name)[:12]}"
        for key, matrix in found.items():
            if matrix is not None:
                about = f"{MATRICES[key.rstrip(digits)]}, of {read.name}"
                heads = names if key in ("noise", "spread") else kind.features
                columns = {x: f"{x}, of the {about}" for x in ("row", *heads)}
                lines = [[head, *line] for head, line in zip(heads, matrix.tolist(), strict=True)]
                yield ExportTable(f"{label}_{key}", columns, lines)


def coordinate_names(manifold: Manifold, features: Sequence[str]) -> list[str]:
    """Return the names of coordinates: the features whose entry of the matrix they move.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the means.
    features : sequence of str
        Features of a pixel, k of them.

    Examples
    --------
    >>> from covdp import MANIFOLDS
    >>> from covdp.addons.partners.export import coordinate_names
    >>> coordinate_names(MANIFOLDS["spd-log-euclidean"](k=2), ["I", "|Ix|"])
    ['I', '|Ix|', 'I × |Ix|']
    """
    space = chart_of(manifold)
    near = from_chart(manifold, space.exp(space.origin, NUDGE * np.eye(manifold.dim)))
    moved = np.triu(np.abs(near - np.eye(len(features)))).reshape(manifold.dim, -1)
    places = np.array(np.unravel_index(moved.argmax(axis=1), near.shape[1:])).T
    return [" × ".join(dict.fromkeys(features[x] for x in place)) for place in places]


def facts_of(committed: CommittedDocument) -> dict[str, Any]:
    """Return settings, account and statement of a document, by keys in BIDS's manner.

    Parameters
    ----------
    committed : CommittedDocument
        Document of a release or a night.
    """
    document = committed.document
    settings = as_json(document.settings).items()
    facts = {key.title().replace("_", ""): value for key, value in settings if value is not None}
    facts |= {"Document": committed.path.stem, "SHA256": committed.digest, "Title": document.title}
    facts["Filters"] = DESCRIPTORS[document.settings.descriptor].formula
    manifold: Any = MANIFOLDS[document.settings.manifold]
    facts["Coordinates"] = getattr(manifold, "coordinates_in_words", "an orthonormal frame")
    if joint := getattr(document, "joint", None):
        facts["Hospitals"] = [name for name, _ in joint.hospitals]
    facts |= {"Progress": document.progress, "PrivacyStatement": dict(document.statement)}
    return facts | {"Account": document.account and as_json(document.account)}


def _about(facts: Mapping[str, Any]) -> ExportTable:
    """Return what tables are of, and the meaning of their columns."""
    nested = [(key, x if isinstance(x, dict) else {"": x}) for key, x in facts.items()]
    told = {f"{key}.{x}" if x else key: y for key, part in nested for x, y in part.items()}
    told |= {**TERM_COLUMNS, **MATRICES}
    rows = [[key, x if isinstance(x, str) else json.dumps(x)] for key, x in told.items()]
    return ExportTable("about", {"fact": "name", "value": "text, or JSON"}, rows)


def _csv(tables: Sequence[ExportTable], facts: Mapping[str, Any]) -> dict[str, bytes]:
    """Return CSV files, with the mark by which spreadsheets know UTF-8."""
    every = (*tables, _about(facts))
    return {f"{table.name}.csv": table.text(",", "").encode("utf-8-sig") for table in every}


def _xlsx(tables: Sequence[ExportTable], facts: Mapping[str, Any]) -> dict[str, bytes]:
    """Return a workbook with a sheet a table, named as the document."""
    from openpyxl import Workbook

    book, content = Workbook(write_only=True), io.BytesIO()
    for table in (*tables, _about(facts)):
        sheet = book.create_sheet(table.name)
        for row in table.cells:
            sheet.append(row)
    book.save(content)
    return {f"{facts['Document']}.xlsx": content.getvalue()}


def _bids(tables: Sequence[ExportTable], facts: Mapping[str, Any]) -> dict[str, bytes]:
    """Return a derivative dataset of a group, without participants."""
    made = {"covdp release": facts["Version"], "covdp export": __version__}
    about = [f"# {facts['Title']}", "Private means of images; no row is of a single person."]
    about += [f"**{title}.** {one_line(text)}" for title, text in facts["PrivacyStatement"].items()]
    description = {
        "Name": facts["Title"],
        "BIDSVersion": "1.10.0",
        "DatasetType": "derivative",
        "GeneratedBy": [{"Name": name, "Version": each} for name, each in made.items()],
    }
    files = {"README.md": "\n\n".join([*about, ""]), ".bidsignore": "group_*\n"}
    sidecars = {"dataset_description.json": description}
    for table in tables:
        columns = {head: {"Description": text} for head, text in table.columns.items()}
        files[f"group_{table.name}.tsv"] = table.text("\t", "n/a")
        sidecars[f"group_{table.name}.json"] = {**facts, **columns}
    files |= {name: json.dumps(each, indent=2) for name, each in sidecars.items()}
    return {name: text.encode() for name, text in files.items()}


EXPORTS = {"csv": _csv, "xlsx": _xlsx, "bids": _bids}
"""Form → function from tables, and what they are of, to the content of files."""
