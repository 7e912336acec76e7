"""Experiments: the Monte Carlo engine, and one TOML for each experiment.

    TOML ─► registry, checks ─► run ─► steps: images or sources ─► kinds: cells of rows ─► Parquet

In reading order: ``run.py`` (one experiment on one dataset), ``persons.py`` (what a record is) and
``montecarlo.py``, the engine. What is worked on: ``images.py``, or simulated ``sources.py``, with
``shapes.py`` and their ``pictures.py``. What is done, a kind a file: ``timing.py``; ``samples.py``
for ``regions.py``, ``nights.py``, ``comparisons.py`` with ``changes.py``, ``hospitals.py`` and
``classifiers.py``; without draws ``composition.py``, and ``scale.py`` with ``patches.py`` and
``passes.py``. ``kinds.py`` lists them. Then ``checks.py``, ``registry.py``, ``promises.py``,
``usefulness.py``, ``logbook.py``, ``steps.py`` and ``outcome.py``.
"""
