"""Previews of releases, in the clear: images as they enter, and what the ledger knows of them.

It is for the owner of the images, before anything is paid. All of it is as private as the images:
it names files, and counts classes whose sizes a release keeps secret. It charges nothing, and
nothing that releases by itself may act on it, as that would be a refusal that tells.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import ImageArray, evenly
from covdp.datasets import Card
from covdp.datasets.source import middle_slices
from covdp.datasets.summary import OddFile
from covdp.errors import CovdpError, DatasetError, one_line
from covdp.ledger import Ledger, PaidStream
from covdp.privacy import equation
from covdp.publish.config import ReleaseConfig
from covdp.publish.release import check_account
from covdp.registry import Registry
from covdp.store import (
    Chunk,
    FileFault,
    Inspection,
    ascending,
    digests_of_units,
    inspect,
)

PRIVATE_NOTE = "Output and page are as private as the images."
"""First sentence of the page and of the output."""
PICTURES = 12
"""Images of a class that are shown."""
QUANTILES = (0.01, 0.5, 0.99)
"""Quantiles of gray levels that are stated."""
NO_USE = "At the upper end of the predicted errors no mean of this release is usable"
"""Decision where a release may be useless, and public numbers do not refuse it."""
REFUSED = "be refused, until what is “to decide or mend” is done"
"""Effect of a release that account, declaration, files or public numbers refuse."""


ENTRANTS = Registry[Callable[[Ledger, Sequence[bytes]], Iterable[tuple[PaidStream, int]]]](
    "entered", {}
)
"""Streams that some images or persons entered, and their number, by the kind of an account line."""


class PreviewedClass(NamedTuple):
    """A class as it would enter a release.

    Attributes
    ----------
    name : str
    images : int
        Images that can be used.
    persons : int or None
        Persons who own them; None where an image is the privacy unit.
    low, high : float
        Medians of the least and of the largest gray level of its images; NaN without any.
    rows : (m,) int64
        Some of its images, in the order of the source.
    """

    name: str
    images: int
    persons: int | None
    low: float
    high: float
    rows: NDArray[np.int64]

    @property
    def units(self) -> int:
        """Number of privacy units."""
        return self.images if self.persons is None else self.persons


@dataclass(frozen=True, eq=False)
class Preview:
    """Preview of a release: what it would read, pay and be.

    Attributes
    ----------
    config : ReleaseConfig
        Settings of the release; of a card alone, those that `covdp start` proposes.
    card : Card
        The card of the images.
    found : Inspection
        The files.
    classes : tuple of PreviewedClass
        Classes in the order of the card.
    persons : int or None
        Number of persons; None where an image is the privacy unit.
    would : str
        Effect of a release: open or go on with a stream, release, or give a result again.
    account : str
        Account, in words.
    refusals : tuple of str
        Reasons for which it would be refused, without those that its images decide.
    charged : tuple of str
        Charges of other populations for images that are equal to these.
    use : tuple of tuple of str
        Sentences on the predicted use of its means, those of one use together.
    uses : tuple of str
        Use of the mean of each class at the upper end of its error range, in a few words.
    useless : bool
        True if no mean is usable at the upper end of its error range.
    paste : tuple of str
        Rows to paste, so that the card leaves out what cannot be used.
    note : str
        Sentence on who may see the preview.
    """

    config: ReleaseConfig
    card: Card
    found: Inspection
    classes: tuple[PreviewedClass, ...]
    persons: int | None
    would: str
    account: str
    refusals: tuple[str, ...] = ()
    charged: tuple[str, ...] = ()
    use: tuple[tuple[str, ...], ...] = ()
    uses: tuple[str, ...] = ()
    useless: bool = False
    paste: tuple[str, ...] = ()
    note: str = PRIVATE_NOTE

    @property
    def odd(self) -> list[tuple[FileFault | OddFile, str]]:
        """Files that cannot be used, differ from nearly all others or are copies: and which."""
        found = self.found
        kinds = (found.faults, "cannot be used"), (found.odd, "is odd"), (found.copies, "is a copy")
        return [(file, what) for files, what in kinds for file in files]

    @property
    def images(self) -> int:
        """Number of images that can be used."""
        return sum(row.images for row in self.classes)

    @property
    def decisions(self) -> tuple[str, ...]:
        """Tasks that somebody must decide or mend before a release is paid."""
        faults, odd = len(self.found.faults), len(self.found.odd)
        files = (
            f"{_many(faults, 'file')} cannot be used" * bool(faults),
            f"{_many(odd, 'file')} {'differs' if odd == 1 else 'differ'} from nearly all others"
            * bool(odd),
        )
        persons = "" if self.persons is None else "of persons of earlier classes, "
        empty = [
            f"class {row.name!r} counts no image: its {many:,} are {persons}of other splits, or "
            "cannot be used"
            for row, many in zip(self.classes, self.found.class_sizes, strict=False)
            if many and not row.images
        ]
        error = [one_line(self.found.error)] if self.found.error and not faults else []
        useless = [NO_USE] * self.useless
        found = [*filter(None, files), *error, *self.found.warnings, *self.found.layout, *empty]
        return (*found, *self.charged, *self.refusals, *useless)

    @property
    def refused(self) -> bool:
        """True if a release would be refused as long as nothing is mended."""
        found = self.found
        return bool(self.refusals or found.faults or found.error is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """Facts that ask for no decision: images that are copies of others."""
        copies = len(self.found.copies)
        each = "Each counts" if self.persons is None else "Each counts in the mean of its person"
        text = (
            f"{_many(copies, 'image')} {'is a copy' if copies == 1 else 'are copies'} of others. "
            f"{each}. To leave them out, name them under exclude in the card."
        )
        return (text,) if copies else ()

    @cached_property
    def gray(self) -> dict[str, float | None]:
        """Gray levels of all pixels: 1st percentile, median, 99th; shares of black and white."""
        histogram = self.found.pixels.histogram
        total = int(histogram.sum())
        if not total:
            return dict.fromkeys(("low", "median", "high", "black", "white"))
        cumulated = np.cumsum(histogram)
        low, median, high = (int(np.searchsorted(cumulated, share * total)) for share in QUANTILES)
        black, white = (float(histogram[level] / total) for level in (0, 255))
        return {"low": low, "median": median, "high": high, "black": black, "white": white}

    def pictures(self, row: PreviewedClass) -> ImageArray:
        """Return some images of a class as they enter, (m, h, w[, 3]).

        Parameters
        ----------
        row : PreviewedClass
            Class of the preview.
        """
        assert self.found.source is not None
        return np.concatenate(list(middle_slices(self.found.source, row.rows)))


def _many(count: int, word: str) -> str:
    """Return a number with its noun."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def preview_images(
    config: ReleaseConfig, path: Path, ledger: Ledger | None = None
) -> tuple[Inspection, tuple[PreviewedClass, ...], int | None]:
    """Read every file of a dataset; return what was found, its classes, and number of persons.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release; splits are taken as they say.
    path : Path
        Folder or file of the dataset.
    ledger : Ledger, optional
        Ledger under whose key persons are known.

    Returns
    -------
    found : Inspection
        Files of the dataset.
    classes : tuple of PreviewedClass
        Classes in the order of the card.
    persons : int or None
        Number of persons; None if an image is the privacy unit.
    """
    found = inspect(config.card, path, None if ledger is None else ledger.person_key())
    people = None if found.source is None else found.source.people
    if people is None:
        return found, tuple(_classes(config, found)), None
    rows = [_selected(config, found, label)[0] for label in range(len(config.card.classes))]
    return found, tuple(_classes(config, found)), len(np.unique(people[np.concatenate(rows)]))


def _classes(config: ReleaseConfig, found: Inspection) -> Iterator[PreviewedClass]:
    for label, name in enumerate(config.card.classes):
        rows, units = _selected(config, found, label)
        images, persons = len(rows), len(np.unique(units))
        levels = found.pixels.levels[rows]
        low, high = np.median(levels, axis=0).tolist() if images else (np.nan, np.nan)
        own = persons if config.unit == "person" else None
        yield PreviewedClass(name, images, own, low, high, evenly(np.sort(rows), PICTURES))


def _selected(
    config: ReleaseConfig, found: Inspection, label: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the images of a class that can be used, and which privacy unit each is of."""
    none = np.empty(0, np.int64)
    if found.source is None:
        return none, none
    try:
        chosen = found.source.select(config.splits, label)
    except DatasetError:  # no image of this class in the splits
        return none, none
    usable = found.usable[chosen.rows]
    return chosen.rows[usable].astype(np.int64), chosen.units[usable].astype(np.int64)


def intention(config: ReleaseConfig, ledger: Ledger) -> tuple[str, bool]:
    """Return what a release would do, and whether it would be paid now.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    """
    name, population, key = config.name, config.population, str(config.run_key)
    cost = equation(config.charge)
    if config.stream is not None:
        return config.stream.intention(config, ledger)
    lines = (line for line in ledger.history(population) if line.kind == "charge")
    paid = [line.cost for line in lines if (line.name, line.run_key) == (name, key)]
    if paid and config.charge not in paid:
        said = " and ".join(equation(each) for each in paid if each is not None)
        return f"be refused: run {key} of {name!r} was paid with {said}; --again pays {cost}", False
    if paid:
        return (
            f"give run {key} of {name!r} again, at no cost; other images or settings than those "
            "that were paid are refused without --again",
            False,
        )
    return (
        f"take {cost} from the account of {population!r}, for run {key} of release {name!r}",
        True,
    )


def refusals(config: ReleaseConfig, ledger: Ledger, path: Path) -> Iterator[str]:
    """Yield why account and declaration refuse a release.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    path : Path
        Folder or file of the dataset.
    """
    asked: Sequence[Callable[[], Any]] = (
        lambda: check_account(config, ledger, beside=False),
        lambda: ledger.check_declared(config.population, config.declared(path)),
    )
    for ask in asked:
        try:
            ask()
        except CovdpError as error:
            yield one_line(error)


def charged_elsewhere(config: ReleaseConfig, ledger: Ledger, found: Inspection) -> Iterator[str]:
    """Yield the charges of other populations for images that are equal to these.

    Releases are known by the digest of all their records, or of those of a class, and streams by
    each image or person. With masks only streams are.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    found : Inspection
        Files of the dataset.
    """
    if found.source is None:
        return
    parts, units = list[NDArray[np.uint8]](), dict[bytes, None]()
    for label in range(len(config.card.classes)):
        rows, owners = _selected(config, found, label)
        if len(rows):
            digests = found.pixels.digests[rows]
            parts.append(digests_of_units(Chunk(np.empty((0, 1, 1)), owners, digests)))
            people = found.source.people
            units |= dict.fromkeys(map(bytes, digests if people is None else people[rows]))
    contents = [] if found.source.masks is not None else [parts, *([part] for part in parts)]
    for line in ledger.charges_of(ledger.digest(ascending(part)) for part in contents if part):
        if line.population != config.population:
            run = f"run {line.run_key} of {line.name!r}"
            yield (
                f"images equal to these were charged under {line.population!r}: {run}; if they are "
                f"of the same people, let population {line.population!r} pay"
            )
    kinds = {line.kind for line in ledger.history()}
    for entered in (ENTRANTS[kind] for kind in ENTRANTS.own() if kind in kinds):
        for stream, count in entered(ledger, list(units)):
            if stream.population != config.population:
                what = f"{count:,} of these {config.unit}s entered the stream {stream.name!r}"
                yield f"{what} of {stream.population!r}"


def account_in_words(config: ReleaseConfig, ledger: Ledger) -> str:
    """Return what the account of a release has; raise `LedgerError` where there is none.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    """
    (row,) = ledger.show(config.population)
    left = equation(row.left, 6, left=True) if row.left else "nothing"
    return f"{config.population}: {left} left of {equation(row.budget, 6)}"
