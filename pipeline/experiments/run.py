"""One run: an experiment on a dataset, where its images lie and where its results go."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config import ExperimentConfig
from pipeline.datasets import find_card
from pipeline.files import atomic_path, make_folder


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

    def records(self, label: int) -> Path:
        """File of the records of a class, which stands while the run works."""
        return self.folder / "records" / f"{label}.npy"

    def persons(self, label: int) -> Path:
        """File that says whose each record is, where persons are told apart."""
        return self.folder / "records" / f"{label}-persons.npy"

    def keep(
        self, label: int, points: NDArray[Any], persons: NDArray[np.int64] | None = None
    ) -> None:
        """Write the records of a class, shape (n, *point_shape), whole or not at all."""
        make_folder(self.records(label).parent)
        kept = {self.persons(label): persons, self.records(label): points}
        for path, values in kept.items():
            if values is not None:
                with atomic_path(path) as temporary, temporary.open("wb") as stream:
                    np.save(stream, values)

    def kept(self, label: int) -> list[Path]:
        """Return the files that `keep` wrote."""
        return [path for path in (self.records(label), self.persons(label)) if path.is_file()]
