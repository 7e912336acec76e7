"""What one worker does: it describes the images of some shards in one stream, and writes them.

Memory does not depend on the number of images: pixels are held a few chunks at a time. Next on the
path: ``filling.py``, which says which shards, and who makes them.
"""

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray, ImageArray
from pipeline.descriptors import DESCRIPTORS, describe
from pipeline.errors import DatasetError
from pipeline.memory import peak_memory
from pipeline.store.place import Place
from pipeline.store.plan import Part
from pipeline.store.shard import DIGEST, Chunk, encode, name_of
from pipeline.threads import Submit, side_by_side

CHUNK = 1 << 23
"""Bytes of pixels that are read at a time; two or three such chunks are held."""
BLOCK = 1 << 20
"""Bytes of pixels that one thread works on at a time."""
Tick: TypeAlias = Callable[[float], None]


class Made(NamedTuple):
    """What one worker did: images described, and the most memory it ever had, in bytes."""

    images: int
    peak: int


def unseen(count: float) -> None:
    """Show nothing."""


def make(part: Part, place: Place, tick: Tick) -> Made:
    """Describe the images of some shards in one stream, and write each shard as it is full."""
    k = DESCRIPTORS[part.descriptor].k
    with side_by_side() as submit:
        writing = None
        for shard, chunk in _shards(part, k, submit, tick):
            if writing is not None:
                writing.result()
            writing = submit(_write, part, place, shard, chunk)
        if writing is not None:
            writing.result()
    return Made(len(part.rows), peak_memory())


def _write(part: Part, place: Place, shard: int, chunk: Chunk) -> None:
    low, high = part.span(shard)
    content = encode(part.labels[low:high], chunk)
    place.write(name_of(part.keys[shard], content), content)


def _shards(part: Part, k: int, submit: Submit, tick: Tick) -> Iterator[tuple[int, Chunk]]:
    """Yield the images of each shard, as they are described."""
    described = _described(part, submit)
    held = next(described, None)
    for shard in range(len(part.keys)):
        low, high = part.span(shard)
        points, digests = np.empty((high - low, k, k)), np.empty((high - low, DIGEST), np.uint8)
        filled = 0
        while filled < high - low:
            if held is None:
                raise DatasetError("images became fewer while they were read; run again")
            fits = min(len(held[0]), high - low - filled)
            points[filled : filled + fits] = held[0][:fits]
            digests[filled : filled + fits] = held[1][:fits]
            filled += fits
            tick(fits)
            rest = (held[0][fits:], held[1][fits:])
            held = rest if len(rest[0]) else next(described, None)
        yield shard, Chunk(points, part.units[low:high].astype(np.int64), digests)


def _described(part: Part, submit: Submit) -> Iterator[tuple[FloatArray, NDArray[np.uint8]]]:
    """Yield descriptors and digests chunk by chunk; meanwhile the next chunk is read."""
    size = max(1, CHUNK // math.prod(part.shape))
    images = part.read(part.rows, size)
    masks = itertools.repeat(None) if part.masks is None else part.masks(part.rows, size)
    before: list[Future[Any]] = []
    for chunk, mask in zip(images, masks, strict=False):
        now = _ask(submit, part, chunk, mask)
        yield from (job.result() for job in before)
        before = now
    yield from (job.result() for job in before)


def _ask(
    submit: Submit, part: Part, images: ImageArray, masks: ImageArray | None
) -> "list[Future[Any]]":
    step = max(1, BLOCK // math.prod(part.shape))
    cuts = [slice(start, start + step) for start in range(0, len(images), step)]
    return [submit(_work, part, images[cut], None if masks is None else masks[cut]) for cut in cuts]


def _work(
    part: Part, images: ImageArray, masks: ImageArray | None
) -> tuple[FloatArray, NDArray[np.uint8]]:
    """Return descriptors and digests of a few images."""
    regions: dict[str, Any] = {} if masks is None else {"masks": masks}
    points = describe(images, part.descriptor, part.eta, **regions)
    pixels = np.ascontiguousarray(images).data.cast("B")
    size = len(pixels) // len(images)
    starts = range(0, len(pixels), size)
    digests = [hashlib.sha256(pixels[at : at + size]) for at in starts]  # in hardware mostly
    if masks is not None:
        for digest, mask in zip(digests, masks, strict=True):
            digest.update(mask.tobytes())
    whole = np.frombuffer(b"".join([digest.digest() for digest in digests]), np.uint8)
    return points, whole.reshape(len(images), -1)[:, :DIGEST]
