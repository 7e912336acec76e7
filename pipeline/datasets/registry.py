"""Names: which datasets there are, how one is fetched and opened."""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pipeline.datasets.cards import Card, Kind, load_card
from pipeline.datasets.doors import stay_inside
from pipeline.datasets.download import data_root, obtain, present
from pipeline.datasets.folder import open_folder
from pipeline.datasets.npz import open_npz
from pipeline.datasets.source import ImageSource
from pipeline.datasets.tiles import open_tiles, pictures_folder
from pipeline.datasets.vision import MARKERS, fetch_vision, open_vision
from pipeline.errors import DatasetError
from pipeline.files import resource

DATASETS: dict[str, Card] = {
    path.stem: load_card(path) for path in sorted(resource("data").glob("*.toml"))
}
"""Every dataset with a card in ``data/``."""

OPENERS: dict[Kind, Callable[[Card, Path], ImageSource]] = {
    "tiles": open_tiles,
    "npz": open_npz,
    "folder": open_folder,
    "torchvision": open_vision,
}
"""How each kind of dataset is opened once it is on disk."""


class Row(NamedTuple):
    """One line of ``covdp datasets``, as text."""

    name: str
    images: str
    classes: str
    sizes: str
    licence: str
    on_disk: str


def find_card(name: str | Path) -> Card:
    """Return the card of a known dataset, or read a card of one's own: a path to ``*.toml``.

    Raises
    ------
    DatasetError
        When there is no such dataset, with the closest name.
    """
    known = DATASETS.get(str(name))
    if known is not None:
        return known
    if str(name).endswith(".toml"):
        return load_card(Path(name))
    close = difflib.get_close_matches(str(name), DATASETS, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'? " if close else ""
    raise DatasetError(
        f"unknown dataset '{name}'; {hint}`covdp datasets` lists the known ones, and the path of "
        "a card of your own is a dataset too (data/README.md)"
    )


def fetch(
    card: Card,
    root: Path | str | None = None,
    *,
    size: int | None = None,
    progress: bool = True,
    attempts: int = 3,
    pause: float = 0.5,
) -> Path:
    """Return where a dataset lies, downloaded first if it is not on disk.

    Parameters
    ----------
    card : Card
        The dataset.
    root : Path, optional
        The data root; ``COVDP_DATA``, else ``data/cache``, when left out.
    size : int, optional
        Side of the images in pixels; the card's first when left out.
    progress : bool
        Show a bar on standard error while downloading.
    attempts, pause
        How often a server is asked at most, and the seconds before the second time; they double.

    Returns
    -------
    Path
        The file or folder; for torchvision's datasets the data root.

    Raises
    ------
    DatasetError
        When the size is not offered, a file of one's own is missing, a digest is wrong or the
        download fails, naming the URL, the target and the way out.
    """
    chosen = _size(card, size)
    where = data_root(root)
    if card.kind == "torchvision":
        return fetch_vision(card, where, progress=progress, attempts=attempts, pause=pause)
    target = _location(card, where, chosen)
    if card.own:
        stay_inside(target, where, card.name)
    for file in card.files:
        if file.size == chosen:
            return obtain(
                file.url,
                target,
                file.md5,
                most=card.most_bytes(file.size),
                progress=progress,
                attempts=attempts,
                pause=pause,
            )
    if not present(target):
        raise DatasetError(
            f"{card.name} is your own dataset but {target} does not exist; put it there, correct "
            "path in the card, or name the data root with --data-root or COVDP_DATA"
        )
    return target


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


def open_fetched(card: Card, path: Path) -> ImageSource:
    """Open a dataset where `fetch` said it lies; from here on the files may be at fault."""
    return OPENERS[card.kind](card, path)


def overview(root: Path | str | None = None) -> tuple[Row, ...]:
    """Return one row of text for each dataset of `DATASETS`; looks at names, not at digests."""
    where = data_root(root)
    return tuple(
        Row(
            name,
            f"{card.images.total:,}" if card.images else "",
            str(len(card.classes)),
            ", ".join(map(str, card.sizes)),
            card.licence,
            _on_disk(card, where),
        )
        for name, card in DATASETS.items()
    )


def _size(card: Card, size: int | None) -> int | None:
    """Return the size that is asked for, or the default, if the card offers it."""
    if size is None or size in card.sizes:
        return size or (card.sizes[0] if card.sizes else None)
    offered = ", ".join(map(str, card.sizes))
    way = f"choose one of {offered}" if offered else "leave size out: the files have their own"
    raise DatasetError(f"{card.name} is not offered in size {size}; {way}")


def _location(card: Card, root: Path, size: int | None) -> Path:
    """Return where a dataset of one file or folder lies."""
    if card.kind == "tiles":
        return pictures_folder()
    if card.path:
        return root / card.path
    if card.kind == "folder":
        return root / card.name
    suffix = f"_{size}" if size and size != card.sizes[0] else ""
    return root / f"{card.name}{suffix}.npz"


def _on_disk(card: Card, root: Path) -> str:
    """Return "yes" or "no", or which of several sizes are on disk."""
    if card.torchvision:
        return "yes" if any(root.glob(MARKERS[card.torchvision])) else "no"
    if len(card.sizes) > 1:
        found = [size for size in card.sizes if present(_location(card, root, size))]
        return ", ".join(map(str, found)) or "no"
    return "yes" if present(_location(card, root, None)) else "no"
