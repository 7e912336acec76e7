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

import numpy as np
from numpy.typing import NDArray

from covdp import __version__
from covdp.datasets import ImageSource, Splits
from covdp.datasets.source import Selection
from covdp.geometry import AffineMap

SHARD_FORMAT = 4
"""Raised when a shard's file, or what is in it, changes."""
SHARD_IMAGES = 1 << 14
PIXELS = 1 << 28
"""Images, and bytes of their pixels, that a shard is cut at."""
UNREAD = {"name", "title", "description", "licence", "url", "images", "public"}
"""The keys of a card that change neither pixels nor labels."""


@dataclass(frozen=True, eq=False)
class Plan:
    """One pass over some splits of a source, or what a worker makes of it.

    Attributes
    ----------
    source : ImageSource
    chosen : Selection
        The images, in the order of the pass.
    descriptor, eta
        Descriptor and η, as in `describe`.
    ends : array of int64, shape (s,)
        End of each shard in `chosen`; a privacy unit is in one shard.
    keys : tuple of str
        Identity of each shard.
    scale : AffineMap, optional
        Map of descriptors to another scale.
    """

    source: ImageSource
    chosen: Selection
    descriptor: str
    eta: float
    ends: NDArray[np.int64]
    keys: tuple[str, ...]
    scale: AffineMap | None = None

    def span(self, shard: int) -> slice:
        """Return the place of a shard in `chosen`.

        Parameters
        ----------
        shard : int
            Index of the shard.
        """
        return slice(int(self.ends[shard - 1]) if shard else 0, int(self.ends[shard]))

    def part(self, shards: Sequence[int]) -> "Plan":
        """Return the pass over some shards, in ascending order.

        Parameters
        ----------
        shards : sequence of int
            Indices of the shards.
        """
        spans = [self.span(shard) for shard in shards]
        rows: slice | NDArray[np.int64] = slice(spans[0].start, spans[-1].stop)
        if shards[-1] - shards[0] != len(shards) - 1:  # not one run, which needs no copy
            rows = np.concatenate([np.arange(span.start, span.stop) for span in spans])
        return replace(
            self,
            chosen=Selection(*(column[rows] for column in self.chosen)),
            ends=np.cumsum([span.stop - span.start for span in spans]),
            keys=tuple(self.keys[shard] for shard in shards),
        )

    def detached(self) -> "Plan":
        """Return the same with readers of these images alone, for a worker elsewhere.

        It can be pickled, and says of no image whose it is.
        """
        source = replace(self.source.only(self.chosen.rows), people=None, dates=None)
        rows = np.arange(len(self.chosen.rows))
        return replace(self, source=source, chosen=self.chosen._replace(rows=rows))


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

    Parameters
    ----------
    source : ImageSource
        Opened dataset.
    splits : Splits
        Name or names of splits; all when None.
    descriptor : str
        Name in `covdp.descriptors.DESCRIPTORS`.
    eta : float
        Least eigenvalue η > 0 of every exact descriptor.
    scale : AffineMap, optional
        Map of the descriptors to another site's scale; none when left out.

    Raises
    ------
    DatasetError
        When a split is unknown, a class has no image in them, or a file is not there.
    """
    chosen = source.select(splits)
    most = max(1, min(SHARD_IMAGES, PIXELS // math.prod(source.shape)))
    ends = _cut(chosen, most)
    card = source.card.model_dump_json(exclude=UNREAD)
    facts = [SHARD_FORMAT, __version__, descriptor, eta, source.masks is not None, card]
    facts += [source.card.rendering_settings]  # some are of the environment
    facts += [] if scale is None else [scale.digest]
    start = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
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
    """Return the ends of runs of at most `most` images, or of one person who has more."""
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
        else:  # a person of more
            stop += most
    return np.array(ends, np.int64)
