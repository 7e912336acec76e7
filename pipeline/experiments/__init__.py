"""Experiments: the Monte Carlo driver, and one TOML for each experiment.

    TOML ─► registry ─► run ─► steps: images or simulated ─► kinds: cells of rows ─► Parquet

In reading order: ``registry.py`` (which there are, and what is refused), ``steps.py``,
``driver.py`` (what a record is, cells and their draws). What is worked on: ``images.py`` (one
experiment on one dataset, and its images), and ``populations.py`` (what samples are drawn from).
What is done is a kind of ``kinds.py`` or of an add-on. Then what is stated of it:
``usefulness.py``, ``record.py``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
