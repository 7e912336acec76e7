"""Datasets: a card says what to fetch and how to read it; images come out as uint8 chunks.

    data/NAME.toml ─► Card ─► fetch ─► a file or folder with the right digest ─► ImageSource

A reader's order: ``cards`` (what every card may say), ``registry`` (names, kinds, `open_dataset`),
``download`` with ``transfer`` (one file, whole and verified, or one clear error), ``source`` (what
every dataset becomes) with ``reading``, ``stamps``, ``shapes`` and ``persons``; then the adapters.

    published   ``tiles``; ``npz`` with ``members``; ``vision`` with ``archives`` and ``extras``;
                ``medmnist`` writes the cards of MedMNIST
    one's own   ``own``; ``doors``, ``patterns``, ``listing``, ``excluded`` and ``classed`` find the
                files, ``sifting`` tells those that cannot be used; ``intensities``, ``frames``
    pictures    ``folder`` and ``table``, with ``columns``: ``pictures``, ``decoding``
    NIfTI       ``nifti``, ``nifti_file``, ``nifti_planes``
    DICOM       ``dicom``, ``dicom_files``, ``dicom_header``, ``dicom_elements``, ``dicom_pixels``,
                ``dicom_apart``, ``dicom_scaling``; volumes of slices: ``dicom_planes``,
                ``dicom_volumes``, ``stacks``; masks: ``dicom_masks``, ``dicom_named``,
                ``dicom_beside``, ``dicom_regions``
    drafts      of cards: ``drafts``, ``looks``, ``layouts``, ``drafted_card``, ``drafted_masks``,
                ``drafted_dicom``
"""

from pipeline.datasets.cards import Card, may_be_empty
from pipeline.datasets.download import data_root
from pipeline.datasets.own import classes_per_person, shown_as
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
    "shown_as",
    "sift",
]
