"""One run: an experiment on a dataset, its images, opened and described once, and its results."""

import hashlib
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.config import ExperimentConfig
from pipeline.datasets import Card, ImageSource, find_card, open_dataset
from pipeline.errors import ConfigError
from pipeline.store import Place, StoredImages, fill, find_place, make_plan, private_stores


@dataclass(frozen=True)
class Run:
    """What every step of a run is given.

    The steps of a run share one object, so that its images are opened once, and described and
    digested once. A step in another process gets the settings alone.

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

    @cached_property
    def images(self) -> ImageSource:
        """The images, opened; they are fetched and checked first if they must be."""
        require_public(find_card(self.config.dataset))
        return open_dataset(self.config.dataset, self.root, size=self.config.size)

    @cached_property
    def stored(self) -> StoredImages:
        """The descriptors of the images; those that are not in the store are made."""
        config = self.config
        plan = make_plan(self.images, config.splits, descriptor=config.descriptor, eta=config.eta)
        return fill(plan, self.store).stored

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def require_public(card: Card) -> None:
    """Refuse images that nobody has declared public: what a run writes tells of them."""
    if not card.public:
        raise ConfigError(
            f"a run writes sample pictures of {card.name}, its true means and the errors against "
            "them, so its card must say public = true, if that is so; images that must not leak "
            "are for `covdp release`, which does not need it"
        )
