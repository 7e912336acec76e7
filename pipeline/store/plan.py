"""Which images go into which shard, and what a shard is known by. Next: ``place.py``.

A shard's key is a digest of all that decides its content, so a shard that is there is right, and
one made of other files, with another descriptor or by another version is never taken for it.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline import __version__
from pipeline.arrays import LabelArray
from pipeline.datasets import ImageSource, Splits
from pipeline.datasets.source import Reader, Rows, Selection
from pipeline.geometry import AffineMap

FORMAT = 2
"""Raised when a shard's file, or what is in it, changes."""
IMAGES = 1 << 14
PIXELS = 1 << 28
"""Images, and bytes of their pixels, that a shard is cut at."""
UNREAD = {"name", "title", "description", "licence", "url", "images", "public"}
"""The keys of a card that change neither pixels nor labels."""


@dataclass(frozen=True, eq=False)
class ShardJob:
    """What a worker needs for some shards, one after another; it can be pickled.

    Attributes
    ----------
    read, masks : Reader
        Where the images, and regions of interest if there are any, come from.
    rows, labels, units : (m,) integers
        As in `Selection`.
    shape : tuple of int
        Of an image.
    descriptor, eta
        As in `describe`.
    ends : tuple of int
        Where each shard ends in `rows`.
    keys : tuple of str
        What each is known by.
    scale : AffineMap, optional
        What puts descriptors on another scale.
    """

    read: Reader
    masks: Reader | None
    rows: Rows
    labels: LabelArray
    units: NDArray[np.signedinteger[Any]]
    shape: tuple[int, ...]
    descriptor: str
    eta: float
    ends: tuple[int, ...]
    keys: tuple[str, ...]
    scale: AffineMap | None = None

    def span(self, shard: int) -> tuple[int, int]:
        """Return where one of the shards is in `rows`."""
        return self.ends[shard - 1] if shard else 0, self.ends[shard]

    def detached(self) -> "ShardJob":
        """Return the same with readers of these rows alone."""
        rows = np.arange(len(self.rows))
        masks = None if self.masks is None else self.masks.only(self.rows)
        return replace(self, read=self.read.only(self.rows), masks=masks, rows=rows)


@dataclass(frozen=True, eq=False)
class Plan:
    """One pass over some splits of a source.

    Attributes
    ----------
    source : ImageSource
    chosen : Selection
        The images, in the order of the pass.
    descriptor, eta
        As in `describe`.
    ends : (s,) int64
        Where each shard ends in `chosen`; a unit is in one shard.
    keys : tuple of str
        What each shard is known by.
    scale : AffineMap, optional
        As in `ShardJob`.
    """

    source: ImageSource
    chosen: Selection
    descriptor: str
    eta: float
    ends: NDArray[np.int64]
    keys: tuple[str, ...]
    scale: AffineMap | None = None

    def span(self, shard: int) -> slice:
        """Return where a shard is in `chosen`."""
        return slice(int(self.ends[shard - 1]) if shard else 0, int(self.ends[shard]))

    def part(self, shards: Sequence[int]) -> ShardJob:
        """Return what some shards need, in ascending order."""
        spans = [self.span(shard) for shard in shards]
        kept: slice | NDArray[np.int64] = slice(spans[0].start, spans[-1].stop)
        if shards[-1] - shards[0] != len(shards) - 1:  # not one run, which needs no copy
            kept = np.concatenate([np.arange(span.start, span.stop) for span in spans])
        rows, labels, units = (column[kept] for column in self.chosen)
        ends = itertools.accumulate(span.stop - span.start for span in spans)
        return ShardJob(
            self.source.read,
            self.source.masks,
            rows,
            labels,
            units,
            self.source.shape,
            self.descriptor,
            self.eta,
            tuple(ends),
            tuple(self.keys[shard] for shard in shards),
            self.scale,
        )


def make_plan(
    source: ImageSource,
    splits: Splits = None,
    *,
    descriptor: str,
    eta: float = 1e-6,
    scale: AffineMap | None = None,
) -> Plan:
    """Return the pass over some splits, looked up in file names, sizes and times: nothing is read.

    With a `scale` descriptors are stored as it maps them; no bound is proven on these.

    Raises
    ------
    DatasetError
        When a split is unknown, a class has no image in them, or a file is not there.
    """
    chosen = source.select(splits)
    most = max(1, min(IMAGES, PIXELS // math.prod(source.shape)))
    ends = _cut(chosen, most)
    card = source.card.model_dump_json(exclude=UNREAD)
    known = [FORMAT, __version__, descriptor, eta, source.masks is not None, card]
    known += [] if scale is None else [scale.digest]
    start = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    keys = []
    for low, high in itertools.pairwise([0, *ends.tolist()]):
        rows, labels, units = (column[low:high] for column in chosen)
        key = start.copy()
        key.update(source.read.stamp(rows))
        if source.masks is not None:
            key.update(source.masks.stamp(rows))
        key.update(labels.astype(np.int64).tobytes())
        key.update(units.astype(np.int64).tobytes())
        keys.append(key.hexdigest())
    return Plan(source, chosen, descriptor, eta, ends, tuple(keys), scale)


def _cut(chosen: Selection, most: int) -> NDArray[np.int64]:
    """Return the ends of runs of at most `most` images, or of one unit that has more."""
    ends, start, stop = list[int](), 0, most
    while start < len(chosen.rows):
        _, labels, units = (column[start : stop + 1] for column in chosen)
        edges = np.flatnonzero((labels[1:] != labels[:-1]) | (units[1:] != units[:-1])) + 1
        if stop >= len(chosen.rows):
            edges = np.append(edges, len(labels))
        if len(edges):
            at = int(np.searchsorted(edges, most, "right")) - 1
            start += int(edges[max(0, at)])
            ends.append(start)
            stop = start + most
        else:  # a unit of more
            stop += most
    return np.array(ends, np.int64)
