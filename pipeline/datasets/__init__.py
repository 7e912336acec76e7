"""Datasets: a card says what to fetch and how to read it; images come out as uint8 chunks.

    data/NAME.toml ─► Card ─► fetch ─► a file or folder with the right digest ─► ImageSource

A reader's order: ``cards`` (what every card may say), ``kind`` (what differs from kind to kind),
``registry`` (names, `open_dataset`),
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

from covdp.datasets.cards import Card as Card
from covdp.datasets.cards import classes_per_person as classes_per_person
from covdp.datasets.cards import may_be_empty as may_be_empty
from covdp.datasets.cards import pixel_rules as pixel_rules
from covdp.datasets.registry import DATASET_KINDS as DATASET_KINDS
from covdp.datasets.registry import DATASETS as DATASETS
from covdp.datasets.registry import beside as beside
from covdp.datasets.registry import collect_faults as collect_faults
from covdp.datasets.registry import data_root as data_root
from covdp.datasets.registry import fetch as fetch
from covdp.datasets.registry import find_card as find_card
from covdp.datasets.registry import is_on_disk as is_on_disk
from covdp.datasets.registry import load_card as load_card
from covdp.datasets.registry import open_dataset as open_dataset
from covdp.datasets.registry import open_fetched as open_fetched
from covdp.datasets.registry import origin as origin
from covdp.datasets.registry import overview as overview
from covdp.datasets.source import ImageSource as ImageSource
from covdp.datasets.source import Splits as Splits
