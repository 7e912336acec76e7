"""Datasets: a card says what to fetch and how to read it; images come out as uint8 chunks.

    data/NAME.toml ─► Card ─► fetch ─► a file or folder with the right digest ─► ImageSource

A reader's order: ``cards`` (what every card may say), ``registry`` (names, kinds, `open_dataset`),
``download`` (one file, verified, or one clear error), ``source`` (what every dataset becomes, and
where its images come from); then the kinds.

    published   ``tiles``; ``npz``; ``torchvision``
    one's own   ``listing`` and ``classed`` find the files by patterns
    pictures    ``pictures`` in folders, or in a ``table``; intensities of all
    NIfTI       ``nifti``
    DICOM       ``dicom``
    drafts      of cards: ``draft``
"""

from pipeline.datasets.cards import Card, classes_per_person, may_be_empty, rendering_settings
from pipeline.datasets.download import data_root
from pipeline.datasets.listing import Fault
from pipeline.datasets.registry import (
    DATASETS,
    KINDS,
    beside,
    collect_faults,
    fetch,
    find_card,
    is_on_disk,
    load_card,
    open_dataset,
    open_fetched,
    origin,
    overview,
)
from pipeline.datasets.source import ImageSource, Splits

__all__ = [
    "DATASETS",
    "KINDS",
    "Card",
    "Fault",
    "ImageSource",
    "Splits",
    "beside",
    "classes_per_person",
    "collect_faults",
    "data_root",
    "fetch",
    "find_card",
    "is_on_disk",
    "load_card",
    "may_be_empty",
    "open_dataset",
    "open_fetched",
    "origin",
    "overview",
    "rendering_settings",
]
