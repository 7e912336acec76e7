"""What is done in an experiment of each kind that draws: a new kind is a file and a row here.

The kinds composition and scale draw nothing, so they are steps of their own (``steps.py``).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pipeline.experiments.classifiers import read_classes, run_classifiers
from pipeline.experiments.comparisons import read_populations, run_comparisons
from pipeline.experiments.hospitals import run_hospitals
from pipeline.experiments.images import class_images, image_setting
from pipeline.experiments.montecarlo import Cell, Setting, run_cells
from pipeline.experiments.nights import run_nights
from pipeline.experiments.persons import ClassData
from pipeline.experiments.regions import run_regions
from pipeline.experiments.run import Run
from pipeline.experiments.sources import (
    class_title,
    simulate,
    simulated_persons,
    simulated_setting,
)
from pipeline.experiments.timing import time_cells


def read_class(run: Run, label: int) -> tuple[ClassData, Setting]:
    """Return the records of one class, and what is public of it."""
    config = run.config
    if config.on_images:
        return ClassData(label, *class_images(run, label)), image_setting(run)
    records = simulate(config, label), simulated_persons(config, label)
    return ClassData(label, class_title(config, label), *records), simulated_setting(config, label)


class Work(NamedTuple):
    """What is done to the cells of a class.

    Attributes
    ----------
    cells : callable
        Takes what was read, what is public, the cells that are pending, and their writer.
    parallel : bool
        Whether classes may be worked on side by side.
    read : callable
        Run and label → what is worked on, and what is public of it.
    on_images : bool
        Whether it must have images: simulated records will not do.
    together : bool
        Whether a cell is of all classes, under the label of the first.
    useful : bool
        Whether it is asked what its private means are good for.
    """

    cells: Callable[[Any, Setting, Sequence[Cell], Callable[..., Any]], None]
    parallel: bool = True
    read: Callable[[Run, int], tuple[Any, Setting]] = read_class
    on_images: bool = False
    together: bool = False
    useful: bool = False


WORK: dict[str, Work] = {
    "error": Work(run_cells, useful=True),
    # a clock read while another class draws would say nothing
    "timing": Work(time_cells, parallel=False),
    "nights": Work(run_nights),
    "regions": Work(run_regions, read=read_populations, on_images=True),
    "tests": Work(run_comparisons, read=read_populations, on_images=True),
    "hospitals": Work(run_hospitals),
    "classifiers": Work(run_classifiers, read=read_classes, on_images=True, together=True),
}
"""Kind of an experiment → its work."""

WITHOUT = ("composition", "scale")
"""Kinds that draw nothing."""


def drawn_labels(run: Run) -> tuple[int, ...]:
    """Return the labels that cells of a run have."""
    return run.labels[:1] if WORK[run.config.kind].together else run.labels
