"""Names: which datasets there are, how one is fetched and opened."""

import os
import secrets
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from covdp.datasets.cards import Card, read_card
from covdp.datasets.download import data_root, find_own
from covdp.datasets.kind import DatasetKind
from covdp.datasets.listing import Fault, Faults
from covdp.datasets.source import ImageSource, opaque
from covdp.errors import DatasetError, MissingError, require_known
from covdp.files import resource
from covdp.registry import Later, Registry, at

DATASET_KINDS = Registry[DatasetKind](
    "dataset_kinds",
    {
        "tiles": at("covdp.datasets.tiles:TILES"),
        "npz": at("covdp.datasets.npz:NPZ"),
        "folder": at("covdp.datasets.pictures:FOLDER"),
        "torchvision": at("covdp.datasets.torchvision:VISION"),
    },
    word="kind of dataset",
    fault=MissingError,
)
"""What ``kind`` of a card may be."""


def load_card(path: Path) -> Card:
    """Read and validate one card; see `read_card`."""
    return read_card(path, DATASET_KINDS)


DATASETS = Registry[Card](
    "datasets",
    {
        path.stem: Later(partial(load_card, path))
        for path in sorted(resource("data").glob("*.toml"))
    },
    word="dataset",
)
"""Every dataset with a card in ``data/``."""


def origin(card: Card) -> str:
    """Say how the images of a card came here, and which files were compared with a digest."""
    return card.origin(ours=DATASETS.get(card.name) == card)


class DatasetRow(NamedTuple):
    """One line of ``covdp datasets``; `images` is None where a card does not say how many."""

    name: str
    images: int | None
    classes: tuple[str, ...]
    sizes: tuple[int, ...]
    licence: str
    on_disk: bool
    sizes_on_disk: tuple[int, ...]


def find_card(name: str | Path) -> Card:
    """Return the card of a known dataset, or read a card of one's own: a path to ``*.toml``.

    Raises
    ------
    DatasetError
        When there is no such dataset, with the closest name.
    """
    if str(name).endswith(".toml"):
        return load_card(Path(name))
    way = (
        "`covdp datasets` lists the known ones, and the path of a card of your own is a dataset "
        "too (data/README.md)"
    )
    require_known("dataset", str(name), DATASETS, way, DatasetError)
    return DATASETS[str(name)]


def beside(dataset: str, file: Path) -> str:
    """Return a dataset as a `file` names it: a card is searched beside the file, then here."""
    card = file.parent / dataset
    there = os.path.exists(card)  # noqa: PTH110 (a name that no file can have is none)
    return str(card) if dataset.endswith(".toml") and there else dataset


def fetch(
    card: Card,
    root: Path | str | None = None,
    *,
    size: int | None = None,
    progress: bool = True,
) -> Path:
    """Return where a dataset is, downloaded first if it is not on disk.

    Parameters
    ----------
    card : Card
        The dataset.
    root : Path, optional
        The data root; ``COVDP_DATA``, else the user's cache folder, when left out.
    size : int, optional
        Side of the images in pixels; the card's first when left out.
    progress : bool
        Show a bar on standard error while downloading.

    Returns
    -------
    Path
        The file or folder; for torchvision's datasets the data root.

    Raises
    ------
    MissingError
        When a file of one's own is missing, an extra is, or the download fails, naming the URL, the
        target and the way out.
    DatasetError
        When the size is not available or a digest is wrong.
    """
    root, size = data_root(root), _size(card, size)
    own = DATASET_KINDS[card.kind].fetch
    if own is None:
        return find_own(card.name, card.place(root, size), root)
    return own(card, root, size, progress)


def open_dataset(
    name: str | Path,
    root: Path | str | None = None,
    *,
    size: int | None = None,
    progress: bool = True,
) -> ImageSource:
    """Open a dataset by its name or by the path of a card, fetched first if it must be.

    Raises
    ------
    DatasetError
        When the dataset is unknown, cannot be fetched or is not what its card says.
    """
    card = find_card(name)
    return open_fetched(card, fetch(card, root, size=size, progress=progress))


def open_fetched(card: Card, path: Path, key: bytes | None = None) -> ImageSource:
    """Open a dataset where `fetch` stated it is; from here on the files may be at fault.

    Raises
    ------
    DatasetError
        What was at fault first.
    """
    result = collect_faults(card, path, key)
    for fault in result.faults:
        raise fault.raised or fault.error
    assert result.source is not None
    return result.source


class OpenResult(NamedTuple):
    """The images that can be listed, or why there are none; and what cannot be, all of it."""

    source: ImageSource | None
    faults: tuple[Fault, ...]
    error: DatasetError | None


def collect_faults(card: Card, path: Path, key: bytes | None = None) -> OpenResult:
    """Open a dataset where `fetch` stated it is, whatever some of its files are.

    Who is whose is held as digests under `key`, a random one when left out.

    Raises
    ------
    DatasetError
        When it cannot be opened, and no file is at fault.
    """
    faults: Faults = []
    source, error = None, None
    try:
        source = DATASET_KINDS[card.kind].open(card, path, faults)
        if source.people is not None:
            people = opaque(source.people, key or secrets.token_bytes(32))
            source = replace(source, people=people)
    except DatasetError as caught:
        if not faults:
            raise
        error = caught
    first = dict[str, Fault]()  # of several about one file
    for fault in faults:
        first.setdefault(fault.file, fault)
    return OpenResult(source, tuple(first.values()), error)


def overview(root: Path | str | None = None) -> tuple[DatasetRow, ...]:
    """Return one row for each dataset of `DATASETS`; looks at names, not at digests."""
    where, rows = data_root(root), []
    for name, card in DATASETS.items():
        images = card.images.total if card.images else None
        here = tuple(size for size in card.sizes if card.on_disk(where, size))
        on_disk = bool(here) or card.on_disk(where, None)
        rows.append(DatasetRow(name, images, card.classes, card.sizes, card.licence, on_disk, here))
    return tuple(rows)


def _size(card: Card, size: int | None) -> int | None:
    """Return the size that is asked for, or the default, if the card offers it."""
    if size is None or size in card.sizes:
        return size or (card.sizes[0] if card.sizes else None)
    offered = ", ".join(map(str, card.sizes))
    way = f"choose one of {offered}" if offered else "leave size out: the files have their own"
    raise DatasetError(f"{card.name} is not available in size {size}; {way}")


def is_on_disk(card: Card, root: Path | str | None = None, size: int | None = None) -> bool:
    """Return whether nothing is to be downloaded; `root` and `size` as of `fetch`."""
    return card.on_disk(data_root(root), _size(card, size))
