"""Kinds of experiments, and sources of records without images. Add-ons bring more."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from covdp.config import ExperimentConfig
from covdp.experiments.driver import (
    ClassData,
    ErrorExperiment,
    ExperimentKind,
    Setting,
    check_units,
    draw_footpoints,
    run_cells,
)
from covdp.experiments.images import Run
from covdp.registry import Registry

EXPERIMENT_KINDS = Registry[ExperimentKind](
    "experiment_kinds",
    {
        "error": ExperimentKind(
            in_words=(
                "Each series released the mean of every class repeatedly, and its "
                "distance from the mean without noise was measured"
            ),
            cells=run_cells,
            footpoints=draw_footpoints,
            config=ErrorExperiment,
            check=check_units,
            useful=True,
        ),
    },
    word="kind of experiment",
)
"""Kinds of experiments, by their names."""


class RecordSource(Protocol):
    """One way to make the records of a class without images."""

    @property
    def unit(self) -> str:
        """Noun for a record; "" where it is called as a point of its manifold."""

    @property
    def by_person(self) -> bool:
        """True if a person may have several points."""

    @property
    def pictures(self) -> Callable[[ClassData, Setting, Path], Path] | None:
        """Function that draws private means of a class into a folder, if they make a picture."""

    def check(self, config: ExperimentConfig) -> None:
        """Refuse, in one line, settings of which no records can be made.

        Parameters
        ----------
        config : ExperimentConfig
            Experiment on one dataset.
        """

    def title(self, config: ExperimentConfig, label: int) -> str:
        """Return the name of a class.

        Parameters
        ----------
        config : ExperimentConfig
            Experiment on one dataset.
        label : int
            Label of the class.
        """

    def read(self, config: ExperimentConfig, label: int) -> tuple[ClassData, Setting]:
        """Return the records of a class, and its setting.

        Parameters
        ----------
        config : ExperimentConfig
            Experiment on one dataset.
        label : int
            Label of the class.
        """


SOURCES = Registry[RecordSource]("sources", {}, word="source")
"""Sources of records without images, by their names."""


def source_of(config: ExperimentConfig) -> RecordSource | None:
    """Return the source of the records of an experiment; None for one on images or of a table.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    """
    return None if config.source is None else SOURCES[config.source.kind]


def drawn_labels(run: Run) -> tuple[int, ...]:
    """Return the labels of the cells of a run.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    """
    return run.labels[:1] if EXPERIMENT_KINDS[run.config.kind].together else run.labels
