"""Content of the folder tonight: privacy units, their classes and records; as private as they.

An image is known by its pixels, wherever it is and whatever its name, a person by the digest of
who it is. The label of a person has a digest of their images too, and that of an image a digest of
its mask, as records are made of these: nothing is drawn again with another record of what entered.

**Copies.** A copy of an image is a record of its own, as in a release: copies are numbered, and
each number enters once. Let m(t, x) be how many images with the pixels x are there on night t, and
e(t, x) how many of them entered before. Then the first max(0, m − e) numbers that are free come
tonight, so a file that was renamed or moved does not enter again. Which of the images has which
number is found by what entered: a file that is known keeps its number, and of the others those that
are of the class, and have the mask, of a number that entered have that number (`match_copies`).
Without it a copy of another class could take the number of a renamed file, which would enter again
in its place. So if no image goes away, or changes its class or mask, each record enters on the
night on which it arrives, or on which its class no longer waits, once, and as what it is. A
neighbour, who has another image in the place of one, has as many on every night, and differs in one
record of one night: the sensitivity is that of one record, and how many enter says nothing. If an
image goes away, a copy that comes after it takes its place and does not enter; the statement says
so.

**Files known from a night before** need not be read again: their images entered, or were left out.
A file is known by its name, size and times, and by whose images the card says it holds. So what is
decoded and described on a night depends on what is new, not on what is there. What is known is
looked at before the file is read, so one that changes meanwhile is read again. What is read is
looked up among the claims, so no list makes an image enter twice. The list is handed on with the
sums (``sums.py``): where these are lost all files are read.
"""

import hmac
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from covdp.addons.nights.account import StreamAccount
from covdp.addons.nights.ledger import entered_as
from covdp.addons.nights.sums import STAMP, Sums
from covdp.datasets import ImageSource, Splits
from covdp.datasets.source import Rows
from covdp.geometry import Point
from covdp.ledger import Ledger
from covdp.store import DIGEST, Form, Plan, StoredImages, digests_of_units


@dataclass(frozen=True, eq=False, repr=False)
class Arrivals:
    """Privacy units that are there.

    Attributes
    ----------
    units : tuple of bytes
        Digest of each privacy unit.
    labels : tuple of str
        Class of each, or classes; of a person with a digest of their images in each, of an image
        with one of its mask if it has one.
    points : tuple of array
        Records of each class: of images (m, k, k), of persons in the chart, (m, d).
    owners : tuple of array
        Privacy unit of each record of each class, an index into `units`, (m,).
    images : tuple of bytes
        Privacy unit of each image that was read, in the order of the source; b"" of one that is in
        none of the classes.
    """

    units: tuple[bytes, ...]
    labels: tuple[str, ...]
    points: tuple[Point, ...]
    owners: tuple[NDArray[np.int64], ...]
    images: tuple[bytes, ...] = ()

    def only(self, keep: Sequence[bool]) -> "Arrivals":
        """Return the privacy units that are retained.

        Parameters
        ----------
        keep : sequence of bool
            True for each privacy unit that is retained.
        """
        mask = np.array(keep, dtype=bool)
        place = np.cumsum(mask) - 1
        entries = [mask[owner] for owner in self.owners]
        return Arrivals(
            tuple(unit for unit, is_in in zip(self.units, keep, strict=True) if is_in),
            tuple(label for label, is_in in zip(self.labels, keep, strict=True) if is_in),
            tuple(points[rows] for points, rows in zip(self.points, entries, strict=True)),
            tuple(place[owner[rows]] for owner, rows in zip(self.owners, entries, strict=True)),
            self.images,
        )

    def enough(self, fewest: int) -> "Arrivals":
        """Return the privacy units without those of a class that has fewer than `fewest`.

        A privacy unit of several classes is left out of all of them with one, which may leave too
        few in another class. The choice depends on the sizes of the classes, and on no record.

        Parameters
        ----------
        fewest : int
            Smallest number of privacy units of a class.
        """
        keep = np.ones(len(self.units), dtype=bool)
        while few := [own for own in self.owners if 0 < np.count_nonzero(keep[own]) < fewest]:
            keep[np.concatenate(few)] = False
        return self.only(keep.tolist())

    def together(self, fewest: int) -> "Arrivals":
        """Return the privacy units, or none where there are fewer than `fewest` of all classes.

        Parameters
        ----------
        fewest : int
            Smallest number of privacy units of all classes.
        """
        return self.only([len(self.units) >= fewest] * len(self.units))

    def sealed(self, ledger: Ledger) -> "Arrivals":
        """Return the same with labels that only the ledger's key tells apart.

        Parameters
        ----------
        ledger : Ledger
            Ledger with the key of the seal.
        """
        return replace(self, labels=tuple(map(partial(_seal, ledger), self.units, self.labels)))

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of records of each class."""
        return tuple(map(len, self.points))


def no_arrivals(classes: int, k: int) -> Arrivals:
    """Return the privacy units of an empty folder: none.

    Parameters
    ----------
    classes : int
        Number of classes.
    k : int
        Order of the descriptors.
    """
    none = tuple(np.empty((0, k, k)) for _ in range(classes))
    return Arrivals((), (), none, tuple(np.empty(0, np.int64) for _ in range(classes)))


def arrivals(
    source: ImageSource,
    plan: Plan,
    stored: StoredImages,
    form: Form | None,
) -> Arrivals:
    """Return the privacy units that a pass over images finds.

    Parameters
    ----------
    source : ImageSource
        Images, opened.
    plan : Plan
        Plan of the images that are read.
    stored : StoredImages
        Descriptors of the images.
    form : Form or None
        Function that makes one record of the images of a privacy unit; None if each is one, and
        then copies are numbered as they are read: see `match_copies`.
    """
    classes: dict[bytes, list[str]] = {}
    copies = Counter[bytes]()
    points, owners = [], list[list[bytes]]()
    images = [b""] * len(source.label_of)
    for label, name in enumerate(source.classes):
        rows = plan.chosen.rows[plan.chosen.labels == label]
        parts, made_of = list[Point](), list[bytes]()
        for chunk in stored.chunks(label):
            parts.append(chunk.records(form))
            made_of += [row.tobytes() for row in digests_of_units(chunk)]
        if source.people is None:
            units = records = [_numbered(digests[:DIGEST], copies) for digests in made_of]
            made_of = [digests[DIGEST:] for digests in made_of]  # of masks
        else:
            units = [bytes(person) for person in source.people[rows]]
            records = list(dict.fromkeys(units))  # the images of one follow each other
        for row, unit in zip(rows.tolist(), units, strict=True):
            images[row] = unit
        for unit, digest in zip(records, made_of, strict=True):
            own = f"{label} {name}" + f" {digest.hex()}" * bool(digest)
            classes.setdefault(unit, []).append(own)
        points.append(np.concatenate(parts or [np.empty((0, stored.k, stored.k))]))
        owners.append(records)
    place = {unit: index for index, unit in enumerate(classes)}
    return Arrivals(
        tuple(classes),
        tuple(map(", ".join, classes.values())),
        tuple(points),
        tuple(np.array([place[unit] for unit in own], np.int64) for own in owners),
        tuple(images),
    )


def _numbered(digest: bytes, copies: Counter[bytes]) -> bytes:
    """Return the privacy unit of the next image with a pixel digest."""
    copies[digest] += 1
    return _copy(digest, copies[digest])


def _copy(digest: bytes, number: int) -> bytes:
    """Return the privacy unit of a copy, from 1; the first has no number."""
    return digest if number == 1 else digest + b"%d" % number


def _seal(ledger: Ledger, unit: bytes, label: str) -> str:
    return hmac.digest(ledger.key, b"label\0" + unit + b"\0" + label.encode(), "sha256").hex()


def match_copies(
    present: Arrivals, known: Iterable[bytes], ledger: Ledger, stream: StreamAccount, *, seal: bool
) -> Arrivals:
    """Return images with the numbers that they entered as, and those that come with free ones.

    Parameters
    ----------
    present : Arrivals
        Images, not persons, with labels that are not sealed.
    known : iterable of bytes
        Privacy units of the images that are there and were not read.
    ledger : Ledger
        Ledger with the claims of the stream.
    stream : StreamAccount
        Stream that copies may have entered.
    seal : bool
        True if the labels of claims are sealed.
    """
    rows, taken = defaultdict[bytes, list[int]](list), defaultdict[bytes, set[bytes]](set)
    for row, unit in enumerate(present.units):
        rows[unit[:DIGEST]].append(row)
    for unit in known:
        taken[unit[:DIGEST]].add(unit)
    free = dict[bytes, list[bytes]]()
    for digest, own in rows.items():
        if (many := len(own) + len(taken[digest])) > 1:
            numbers = (_copy(digest, number + 1) for number in range(many))
            free[digest] = [unit for unit in numbers if unit not in taken[digest]]
    if not (asked := [unit for units in free.values() for unit in units]):
        return present
    claims = dict(zip(asked, entered_as(ledger, stream, asked), strict=True))
    units = list(present.units)
    for digest, candidates in free.items():
        own = rows[digest]
        labels = {present.labels[row] for row in own}
        as_entered, others = defaultdict[str, list[bytes]](list), list[bytes]()
        for unit in sorted(candidates, key=lambda unit: claims[unit] is None):  # stable
            told = ((_seal(ledger, unit, label) if seal else label, label) for label in labels)
            same = next((label for told, label in told if told == claims[unit]), None)
            (others if same is None else as_entered[same]).append(unit)
        late = list[int]()
        for row in own:
            if units_left := as_entered[present.labels[row]]:
                units[row] = units_left.pop(0)
            else:
                late.append(row)
        others = [*itertools.chain.from_iterable(as_entered.values()), *others]
        for row, unit in zip(late, others, strict=False):
            units[row] = unit
    now = dict(zip(present.units, units, strict=True))
    images = tuple(now.get(unit, unit) for unit in present.images)
    return replace(present, units=tuple(units), images=images)


class Unread(NamedTuple):
    """Images that are to be read, and the stamps of all files that are there.

    Attributes
    ----------
    source : ImageSource or None
        Images that may be new; None where there are none.
    stamps : tuple of bytes
        Stamp of the file of each of these. Empty where images are in one stream, which is read from
        its start to its end.
    others : mapping of bytes to bytes
        Stamp and privacy unit of the images that need not be read, as `Sums` has them.
    """

    source: ImageSource | None
    stamps: tuple[bytes, ...] = ()
    others: Mapping[bytes, bytes] = MappingProxyType({})

    def stamps_without(self, images: Sequence[bytes], late: Set[bytes]) -> dict[bytes, bytes]:
        """Return stamp and privacy unit of all images but those that wait, which are read again.

        Parameters
        ----------
        images : sequence of bytes
            Privacy unit of each image that was read.
        late : Set
            Privacy units that wait.
        """
        read = zip(self.stamps, images, strict=False)
        entered = {stamp: unit for stamp, unit in read if unit not in late}
        return {**self.others, **entered}


def find_unread(
    source: ImageSource | None, splits: Splits, ledger: Ledger, sums: Sums | None
) -> Unread:
    """Return the images of unknown files, whose contents no night has taken up.

    Parameters
    ----------
    source : ImageSource or None
        Images, opened; None where there are none.
    splits : Splits
        Splits that are read.
    ledger : Ledger
        Ledger with the key of the stamps.
    sums : Sums or None
        Private sums with the stamps of known files; None where they are lost.
    """
    if source is None or source.read.sequential:
        return Unread(source)
    before = sums.stamps if sums else {}
    rows = np.sort(source.select(splits).rows)
    stamps = _stamps(source, ledger, rows)
    is_new = [stamp not in before for stamp in stamps]
    unread, new = rows[is_new], tuple(itertools.compress(stamps, is_new))
    others = {stamp: before[stamp] for stamp in stamps if stamp in before}
    return Unread(source.only(unread) if len(unread) else None, new, others)


def _stamps(source: ImageSource, ledger: Ledger, rows: Rows) -> list[bytes]:
    """Return what the file of each image is known by, with that of its mask, and whose it is.

    Under the ledger's key, since names of files may be those of patients, and can be guessed.
    """
    parts: list[Iterable[bytes]] = [map(source.read.stamp, rows[:, np.newaxis])]
    if source.masks is not None:
        parts.append(map(source.masks.stamp, rows[:, np.newaxis]))
    if source.people is not None:
        parts.append(map(bytes, source.people[rows]))
    keys = map(b"".join, zip(*parts, strict=True))
    return [hmac.digest(ledger.key, b"file\0" + key, "sha256")[:STAMP] for key in keys]
