"""One run: an experiment on a dataset, where its images lie and where its results go."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pipeline.config import ExperimentConfig
from pipeline.datasets import find_card
from pipeline.store import Place, find_place, private_stores


@dataclass(frozen=True)
class Run:
    """What every step of a run is given.

    Attributes
    ----------
    config : ExperimentConfig
        One experiment on one dataset.
    root : Path, optional
        The data root; ``COVDP_DATA``, else ``data/cache``, when None.
    out : Path
        Folder of the results.
    """

    config: ExperimentConfig
    root: Path | None
    out: Path

    @property
    def name(self) -> str:
        """Name of the run and of its files."""
        return self.config.run_name

    @property
    def folder(self) -> Path:
        """Folder of the run's record, bound and samples, ``OUT/runs/<run>``."""
        return self.out / "runs" / self.name

    @property
    def table(self) -> Path:
        """The table of results, ``OUT/results/<run>.parquet``."""
        return self.out / "results" / f"{self.name}.parquet"

    @property
    def log(self) -> Path:
        """The record of the run, ``OUT/runs/<run>/run.json``."""
        return self.folder / "run.json"

    @property
    def labels(self) -> tuple[int, ...]:
        """The classes that are run."""
        config = self.config
        if not config.on_images:
            return tuple(range(len(config.simulated)))
        if config.classes is not None:
            return config.classes
        return tuple(range(len(find_card(config.dataset).classes)))

    @property
    def store(self) -> Place:
        """Where the descriptors of the images stand while the run works."""
        key = hashlib.sha256(str(self.folder.resolve()).encode(errors="surrogateescape"))
        return find_place(private_stores() / key.hexdigest()[:16])
