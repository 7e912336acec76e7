"""What is stored, read back in chunks: by class, as often as wanted."""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.descriptors import Bound, DescriptorDomain, merge_bounds, verify
from pipeline.store.place import Place
from pipeline.store.shard import DIGEST, Chunk, decode

Form: TypeAlias = Callable[[FloatArray, NDArray[np.int64]], FloatArray]
"""From descriptors and the units they belong to, each unit's together, to one record a unit."""


BATCH = 1 << 16
"""Units whose digests are yielded at a time."""


class StoredShard(NamedTuple):
    """A shard that is there: its file, and the classes in it, ascending."""

    name: str
    labels: tuple[int, ...]


@dataclass(frozen=True)
class StoredImages:
    """The descriptors of all images of a pass; nothing of it may leave without noise.

    Attributes
    ----------
    place : Place
        Where they lie.
    classes : tuple of str
        Class names; a label is an index into them.
    shape : tuple of int
        Of an image.
    counts, units : tuple of int
        Images and units, which are images or persons, of each class.
    k : int
        Order of the matrices.
    shards : tuple of StoredShard
        In the order of the pass.
    """

    place: Place
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    counts: tuple[int, ...]
    units: tuple[int, ...]
    k: int
    shards: tuple[StoredShard, ...]

    def chunks(self, label: int) -> Iterator[Chunk]:
        """Yield the images of a class in the order of the source.

        Raises
        ------
        OutputError
            When a shard is damaged.
        """
        for shard in self.shards:
            if label in shard.labels:
                with self.place.open(shard.name) as stream:
                    yield decode(stream, shard.labels.index(label), self.k)

    def records(self, label: int, form: Form | None = None) -> "StoredRecords":
        """Return the records of a class, read anew at each pass over them.

        Parameters
        ----------
        label : int
        form : callable, optional
            Makes one record of each unit, where a unit has several images.
        """
        return StoredRecords(self, label, form)

    def contents(self, label: int | None) -> Iterator[bytes]:
        """Yield what the units of a class, or of all, are known by, ascending, some at a time.

        Joined, it depends neither on the order of the units, nor on that of the images of one, nor
        on where shards are cut; of all, not on their classes. They are held, 16 bytes each.
        """
        labels = range(len(self.units)) if label is None else [label]
        known, at = np.empty((sum(self.units[own] for own in labels), DIGEST), np.uint8), 0
        for chunk in itertools.chain.from_iterable(map(self.chunks, labels)):
            units = digests_of_units(chunk)
            known[at : at + len(units)] = units
            at += len(units)
        known.view(f"S{DIGEST}").sort(axis=0)  # in place
        for start in range(0, len(known), BATCH):
            yield known[start : start + BATCH].tobytes()

    def verify(self, label: int, domain: DescriptorDomain) -> Bound:
        """Return the bound on one class; see `pipeline.descriptors.bounds`."""
        name, none = self.classes[label], np.zeros(0, np.int64)
        empty = verify(np.zeros((0, self.k, self.k)), none, domain, [name])[0]
        bounds = (
            verify(chunk.points, np.zeros(len(chunk.points), np.int64), domain, [name])[0]
            for chunk in self.chunks(label)
        )
        return merge_bounds([empty, *bounds])._replace(label=label)

    @property
    def fingerprint(self) -> str:
        """What the content of all shards is known by: the same wherever the images lie."""
        return "".join(shard.name.split(".")[1] for shard in self.shards)


def digests_of_units(chunk: Chunk) -> NDArray[np.uint8]:
    """Return what each unit is known by, (u, 16), in the order of the units.

    A unit of one image is known by that image's digest, one of several by a digest of theirs,
    ascending.
    """
    starts = np.flatnonzero(np.diff(chunk.units, prepend=-1))
    if len(starts) == len(chunk.units):
        return chunk.digests
    ascending = chunk.digests[np.lexsort((*_halves(chunk.digests), chunk.units))]
    found = ascending[starts]
    ends = np.append(starts[1:], len(chunk.units))
    for unit in np.flatnonzero(ends - starts > 1):
        images = ascending[starts[unit] : ends[unit]].tobytes()
        known = hashlib.blake2b(images, digest_size=DIGEST, person=b"covdp unit").digest()
        found[unit] = np.frombuffer(known, np.uint8)
    return found


def _halves(digests: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return what digests are sorted by, the first half last, as `numpy.lexsort` wants it."""
    return np.ascontiguousarray(digests).view(">u8").astype(np.uint64).T[::-1]


@dataclass(frozen=True)
class StoredRecords:
    """The records of one class: of `n` units, in chunks, as often as they are asked for."""

    stored: StoredImages
    label: int
    form: Form | None = None

    @property
    def n(self) -> int:
        """How many records there are."""
        return (
            self.stored.counts[self.label] if self.form is None else self.stored.units[self.label]
        )

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield records, (m, *point_shape)."""
        for chunk in self.stored.chunks(self.label):
            yield chunk.points if self.form is None else self.form(chunk.points, chunk.units)
