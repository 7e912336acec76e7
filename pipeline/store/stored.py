"""What is stored, read back in chunks: by class, as often as wanted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.descriptors import Bound, DescriptorDomain, merge_bounds, verify
from pipeline.store.place import Place
from pipeline.store.shard import Chunk, decode

Form: TypeAlias = Callable[[FloatArray, NDArray[np.int64]], FloatArray]
"""From descriptors and the units they belong to, each unit's together, to one record a unit."""


class Held(NamedTuple):
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
    shards : tuple of Held
        In the order of the pass.
    """

    place: Place
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    counts: tuple[int, ...]
    units: tuple[int, ...]
    k: int
    shards: tuple[Held, ...]

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

    def digests(self, label: int, *, of_units: bool = False) -> Iterator[bytes]:
        """Yield what the pixels of a class are known by, in their order, and whose they are.

        Joined, they do not depend on where shards are cut.
        """
        for chunk in self.chunks(label):
            columns = [chunk.digests]
            if of_units:
                columns.append(chunk.units.astype("<i8")[:, np.newaxis].view(np.uint8))
            yield np.concatenate(columns, axis=1).tobytes()

    def verify(self, label: int, domain: DescriptorDomain) -> Bound:
        """Return the bound on one class; see `pipeline.descriptors.verify`."""
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
