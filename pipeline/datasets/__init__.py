"""Datasets: a card says what to fetch and how to read it; images come out as uint8 chunks.

    data/NAME.toml ─► Card ─► fetch ─► a file or folder with the right digest ─► ImageSource

A reader's order: ``cards`` (what every card may say), ``registry`` (names, kinds, `open_dataset`),
``download`` (one file, whole and verified, or one clear error), ``source`` (what every dataset
becomes), then one adapter per kind of source: ``tiles``, ``npz``, ``folder``, ``vision``.
``medmnist`` writes the cards of MedMNIST from the installed package.
"""

from pipeline.datasets.cards import Card, may_be_empty
from pipeline.datasets.download import data_root
from pipeline.datasets.own import classes_per_person
from pipeline.datasets.registry import (
    DATASETS,
    beside,
    fetch,
    find_card,
    load_card,
    open_dataset,
    open_fetched,
    origin,
    overview,
    sift,
)
from pipeline.datasets.source import ImageSource, Splits

__all__ = [
    "DATASETS",
    "Card",
    "ImageSource",
    "Splits",
    "beside",
    "classes_per_person",
    "data_root",
    "fetch",
    "find_card",
    "load_card",
    "may_be_empty",
    "open_dataset",
    "open_fetched",
    "origin",
    "overview",
    "sift",
]
