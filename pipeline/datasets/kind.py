"""Kinds of datasets: what is different in each way in which images are stored."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from covdp.datasets.cards import Card
from covdp.datasets.source import ImageSource

if TYPE_CHECKING:
    from covdp.datasets.listing import Faults

OpenSource: TypeAlias = Callable[[Any, Path, "Faults"], ImageSource]
"""``open(card, path, faults)``, see `DatasetKind`."""


@dataclass(frozen=True)
class DatasetKind:
    """One way in which images are stored: all that differs from another is here.

    Attributes
    ----------
    card : type of Card
        Class of its cards, which know the place of their files.
    open : callable
        ``open(card, path, faults)``: the images of what `fetch` returned; what cannot be used of
        them is left out, and added to `faults`.
    fetch : callable, optional
        ``fetch(card, root, size, progress)``: where a dataset is, downloaded first if it is not
        there, with a bar where `progress` says so. None of one's own, which is not downloaded.
    """

    card: type[Card]
    open: OpenSource
    fetch: Callable[[Any, Path, int | None, bool], Path] | None = None
