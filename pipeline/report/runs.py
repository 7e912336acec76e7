"""Finished runs, read back from disk: the only door through which data enters a report.

An experiment's report may show errors, norms and images, because its images are public. A release
has sources of its own, and nothing here is read for it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from covdp.errors import OutputError
from covdp.results import RunRecord, Table, read_bound, read_metadata, read_record, read_rows


class ExperimentDisplay(NamedTuple):
    """Display of experiments of one kind.

    Attributes
    ----------
    subject : str
        Subject of its page; "" where that is what its records are.
    means : bool
        True if private means were drawn.
    compared : bool
        True if the errors of its series are compared with those of the baseline.
    """

    subject: str = ""
    means: bool = True
    compared: bool = False


REPORT_KINDS = {
    "error": ExperimentDisplay(compared=True),
    "timing": ExperimentDisplay("times"),
    "composition": ExperimentDisplay("budgets", means=False),
}
"""Kind of an experiment → what its report shows; of all others private means, not compared."""


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """One experiment on one dataset: its record and whatever else it wrote; compared by identity.

    Attributes
    ----------
    id : str
        Name of its folder, and of its section.
    record : RunRecord
        Record of what was run.
    rows, bound : Table or None
        The results and the bound on the descriptors; None where the run wrote none.
    samples : mapping of int to bytes
        PNG of sample tiles by label.
    outlines : mapping of str to list
        Outlines by series, where the run drew any; nested lists, shape (count, landmarks, 2).
    bound_formula : str
        The proven radius and diameter with their formulas; "" where the run wrote none.
    farthest : mapping of int to bytes
        PNG of the image whose descriptor is farthest from the identity, by label.
    use : mapping
        Use of its private means; empty where the run did not ask.
    faults : tuple of str
        One line for each file that exists and cannot be read.
    """

    id: str
    record: RunRecord
    rows: Table | None
    bound: Table | None
    samples: Mapping[int, bytes]
    outlines: Mapping[str, Any] = field(default_factory=dict)
    bound_formula: str = ""
    farthest: Mapping[int, bytes] = field(default_factory=dict)
    use: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[str, ...] = ()

    @property
    def kind(self) -> ExperimentDisplay:
        """Display of its kind of experiment."""
        return REPORT_KINDS.get(self.record.config.get("kind", "error"), ExperimentDisplay())

    def measures(self, column: str) -> bool:
        """Return True if a row has a number in a column.

        Parameters
        ----------
        column : str
            Name of a column of the results.
        """
        values = (self.rows or {}).get(column)
        return values is not None and bool(np.isfinite(values).any())

    @property
    def value(self) -> str:
        """The column that its figure and its table of numbers show."""
        return str((self.record.config.get("figure") or {}).get("value", "error"))

    @property
    def subject(self) -> str:
        """Subject of its page: images, missing ones, records, times or budgets."""
        if self.kind.subject:
            return self.kind.subject
        if self.record.config.get("source"):
            return "records"
        return "images" if self.record.status == "ok" else "missing"

    @property
    def where(self) -> str:
        """The dataset of a run on images, with the variant; simulated records have none."""
        if self.subject not in ("images", "missing"):
            return ""
        variant = self.record.config.get("variant")
        return ", ".join(filter(None, (self.record.dataset.title, variant)))


def load_runs(out: Path) -> list[FinishedRun]:
    """Return every run under `out`, in the order they were started.

    Parameters
    ----------
    out : Path
        Folder of results.

    Raises
    ------
    OutputError
        When there is none, or the record of one cannot be read.
    """
    folders = sorted(path.parent for path in out.glob("runs/*/run.json"))
    if not folders:
        raise OutputError(f"no results under {out}: expected runs/*/run.json; start one: covdp run")
    runs = [load_run(folder, out / "results" / f"{folder.name}.parquet") for folder in folders]
    return sorted(runs, key=lambda run: run.record.started)


def load_run(folder: Path, results: Path) -> FinishedRun:
    """Return the run recorded in `folder`, with its rows in the file `results`.

    Parameters
    ----------
    folder : Path
        Folder of the run, with its record.
    results : Path
        File of its rows; it may be missing.
    """
    faults: list[str] = []
    tables: list[Table | None] = []
    bound = folder / "bound.parquet"
    for reader, path in ((read_rows, results), (read_bound, bound)):
        try:
            tables.append(reader(path) if path.is_file() else None)
        except OutputError as error:
            tables.append(None)
            faults.append(str(error))
    drawn, use = folder / "outlines.json", folder / "use.json"
    return FinishedRun(
        id=folder.name,
        record=read_record(folder / "run.json"),
        rows=tables[0],
        bound=tables[1],
        samples=_pictures(folder / "samples"),
        bound_formula="" if tables[1] is None else read_metadata(bound).get("bound", ""),
        farthest=_pictures(folder / "farthest"),
        outlines=json.loads(drawn.read_text(encoding="utf-8")) if drawn.is_file() else {},
        use=json.loads(use.read_text(encoding="utf-8")) if use.is_file() else {},
        faults=tuple(faults),
    )


def _pictures(folder: Path) -> Mapping[int, bytes]:
    """Return the pictures of classes in a folder, PNG by label."""
    pictures = {
        int(path.stem): path.read_bytes()
        for path in folder.glob("*.png")
        if path.stem.isdigit() and path.is_file()
    }
    return dict(sorted(pictures.items()))
