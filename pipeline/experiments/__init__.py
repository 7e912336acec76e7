"""Experiments: the Monte Carlo driver, and one TOML for each experiment.

    TOML ─► registry ─► run ─► steps: images or simulated ─► kinds: cells of rows ─► Parquet

In reading order: ``registry.py`` (which there are, and what is refused), ``run.py`` (one experiment
on one dataset), ``steps.py``, ``driver.py`` (what a record is, cells and their draws). What is
worked on: ``images.py``, or ``simulated.py``. What is done, a kind a file, in ``kinds``. Then what
is said of it: ``guarantees.py``, ``usefulness.py``, ``record.py``. ``passes.py`` is a process of
the kind scale.
"""

from pipeline.experiments.driver import all_cells
from pipeline.experiments.kinds import EXPERIMENT_KINDS
from pipeline.experiments.registry import EXPERIMENTS, MAIN, load_experiments
from pipeline.experiments.run import Run
from pipeline.experiments.steps import ExperimentStep, calls_by_mechanism, run_experiment

__all__ = [
    "EXPERIMENTS",
    "EXPERIMENT_KINDS",
    "MAIN",
    "ExperimentStep",
    "Run",
    "all_cells",
    "calls_by_mechanism",
    "load_experiments",
    "run_experiment",
]
