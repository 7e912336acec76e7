"""Datasets: a card says what to fetch and how to read it; images come out as uint8 chunks.

    data/NAME.toml ─► Card ─► fetch ─► a file or folder with the right digest ─► ImageSource

A reader's order: ``cards`` (what every card may say), ``registry`` (names, kinds, `open_dataset`),
``download`` (files with the right digest, or one clear error), ``library`` (dataset classes of
medmnist and torchvision, in a process of their own), ``source`` (what every dataset becomes, and
where its images come from); then the kinds.

    published   ``tiles``; ``npz``; ``torchvision``
    one's own   ``listing`` and ``classed`` find the files by patterns
    pictures    ``pictures`` in folders, or in a ``table``; intensities of all
                ``encoded`` and ``jpeg``: whether a file is one image, and whole
    NIfTI       ``nifti``
    DICOM       ``dicom``
    drafts      of cards: ``draft``; ``summary`` counts files and names the odd ones
"""

from pipeline.datasets.cards import Card as Card
from pipeline.datasets.cards import classes_per_person as classes_per_person
from pipeline.datasets.cards import may_be_empty as may_be_empty
from pipeline.datasets.cards import pixel_rules as pixel_rules
from pipeline.datasets.download import data_root as data_root
from pipeline.datasets.listing import Fault as Fault
from pipeline.datasets.registry import DATASET_KINDS as DATASET_KINDS
from pipeline.datasets.registry import DATASETS as DATASETS
from pipeline.datasets.registry import beside as beside
from pipeline.datasets.registry import collect_faults as collect_faults
from pipeline.datasets.registry import fetch as fetch
from pipeline.datasets.registry import find_card as find_card
from pipeline.datasets.registry import is_on_disk as is_on_disk
from pipeline.datasets.registry import load_card as load_card
from pipeline.datasets.registry import open_dataset as open_dataset
from pipeline.datasets.registry import open_fetched as open_fetched
from pipeline.datasets.registry import origin as origin
from pipeline.datasets.registry import overview as overview
from pipeline.datasets.source import ImageSource as ImageSource
from pipeline.datasets.source import Splits as Splits
