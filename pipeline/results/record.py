"""The record of a run: what was run, on what, with which versions, how long it took.

In: what the flow knows. Out: ``runs/<run>/run.json``, from which the report is written.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from covdp import __version__
from covdp.errors import OutputError
from covdp.files import make_folder, read_regular, write_whole
from covdp.parallel import cores

REPORTED_PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "scikit-image",
    "pyarrow",
    "opendp",
    "dp-accounting",
    "prefect",
    "vl-convert-python",
)
"""The packages whose version a report names: those that numbers and pictures depend on."""
RECORD_BYTES = 1 << 26
"""Bytes of a record; one has a few thousand."""


@dataclass(frozen=True)
class DatasetNote:
    """Origin of the images: name, title, licence, address, and how they got here.

    Attributes
    ----------
    name : str
        Name of the dataset.
    title : str
        Name on pages.
    licence : str
        Licence of the images.
    url : str
        Address of the dataset's page.
    origin : str
        Sentence on how the images got here.
    """

    name: str
    title: str
    licence: str = ""
    url: str = ""
    origin: str = ""


@dataclass(frozen=True)
class ClassCount:
    """One class of the dataset: its label, its name and how many records it has.

    Attributes
    ----------
    label : int
        Index of the class.
    name : str
        Name of the class.
    n : int
        Number of records.
    """

    label: int
    name: str
    n: int


@dataclass(frozen=True)
class RunRecord:
    """Everything a reader needs to judge a run, and to repeat it.

    Attributes
    ----------
    experiment, title : str
        Name of the experiment and its title in plain words.
    dataset : DatasetNote
        Origin of the images.
    classes : tuple of ClassCount
        The classes that were worked on.
    image_shape : tuple of int
        (h, w) or (h, w, 3).
    config : mapping
        The configuration as run, JSON values only.
    command : str
        Command to type to repeat the run (or, with status "data not available", to fetch and run).
    baseline : str
        The series that is the published setting; the summary compares the others with it.
    seed : int
        Seed of all random streams.
    versions, machine : mapping
        Versions and machine, as `collect_versions` and `machine` return them.
    steps : tuple of (str, float)
        Each step with its wall-clock time in seconds, in order.
    privacy : mapping of str to str
        The statement of privacy: label to text, in order.
    facts : tuple of str
        Sentences on the images: which are left out, how they are cropped, and whose they are.
    notes : tuple of str
        Further remarks for the reader.
    unit : str
        Noun for one record: image, matrix, point, outline, query.
    shares : mapping of str to mapping of str to float
        Share of the budget of each step of a series, by name, in order; empty where no series is of
        private means.
    few_shares : mapping of str to mapping of str to float
        The same in cells of a small n·μ, of series whose shares it decides.
    guarantees : mapping of str to str
        Guarantee of one draw of each series at its largest budget, or why there is none.
    status : {"ok", "undefined", "data not available"}
        Outcome of the run.
    started, finished : str
        UTC, ISO 8601.
    """

    experiment: str
    title: str
    dataset: DatasetNote
    classes: tuple[ClassCount, ...] = ()
    image_shape: tuple[int, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    baseline: str = ""
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[tuple[str, float], ...] = ()
    privacy: Mapping[str, str] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unit: str = "image"
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    few_shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    guarantees: Mapping[str, str] = field(default_factory=dict)
    status: str = "ok"
    started: str = ""
    finished: str = ""

    @property
    def run(self) -> str:
        """Name of the run, of its folder and of its section: ``<experiment>-<dataset>``.

        Of several runs on a dataset what tells them apart follows.
        """
        parts = (self.experiment, self.dataset.name, str(self.config.get("variant", "")))
        return "-".join(filter(None, parts))

    @property
    def units(self) -> str:
        """Several records, as `unit` calls them."""
        odd = {"matrix": "matrices", "query": "queries"}
        return odd.get(self.unit, f"{self.unit}s")


def write_record(path: Path, record: RunRecord) -> Path:
    """Write `record` as JSON to `path` (``runs/<run>/run.json``), whole or not at all.

    Parameters
    ----------
    path : Path
        Path of the file.
    record : RunRecord
        Record of the run.

    Returns
    -------
    Path
        The path.
    """
    make_folder(path.parent)
    text = json.dumps(asdict(record), indent=2, ensure_ascii=False, allow_nan=False)
    return write_whole(path, text + "\n")


def read_record(path: Path) -> RunRecord:
    """Return the record written to `path`; raise `OutputError` when it is missing or damaged.

    Parameters
    ----------
    path : Path
        Path of the file.
    """
    from pydantic import TypeAdapter

    try:
        return TypeAdapter(RunRecord).validate_json(read_regular(path, RECORD_BYTES))
    except (OSError, ValueError) as error:  # a fault of form is a ValueError
        raise OutputError(
            f"cannot read {path} as the record of a run ({error!r}); delete it and run again"
        ) from error


def collect_versions() -> dict[str, str]:
    """Return the versions of covdp, Python and those of `REPORTED_PACKAGES` that are installed."""
    versions = {"covdp": __version__, "python": platform.python_version()}
    for name in REPORTED_PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def machine() -> dict[str, str | int]:
    """Return processor, usable cores and platform; nothing that names this very machine."""
    system = f"{platform.system()} {platform.machine()}"
    return {"processor": _processor(), "cores": cores(), "platform": system}


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
