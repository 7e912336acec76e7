"""The pass: shards that are not there are made, in one stream here, or each by a worker elsewhere.

A worker describes the images of some shards in one stream, and writes them. Memory does not depend
on the number of images: pixels are held a few chunks at a time. Which worker makes a shard, and
when, changes no bit of it.
"""

import hashlib
import math
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray, ImageArray, count_labels
from covdp.descriptors import DESCRIPTORS, describe
from covdp.errors import DatasetError, OutputError
from covdp.parallel import Submit, UnorderedMap, peak_memory, side_by_side
from covdp.progress import counted, seconds_spent, spending
from covdp.store.place import TASK, Place, find_place, lease, sweep
from covdp.store.plan import Plan
from covdp.store.stored import DIGEST, SUFFIX, Chunk, StoredImages, StoredShard, encode, name_of

READ_BYTES = 1 << 23
"""Bytes of pixels that are read at a time; two or three such chunks are held."""
THREAD_BYTES = 1 << 20
"""Bytes of pixels that one thread works on at a time."""
DESCRIBING = "describing"
"""Name of the work that is no decoding."""
Tick: TypeAlias = Callable[[float], None]


class ShardReport(NamedTuple):
    """Work of one worker: images described, the most memory it ever had, in bytes, and seconds.

    These are those of all its threads, by what they were spent on: `DESCRIBING`, and decoding files
    of each format, or transfer syntax.

    Attributes
    ----------
    images : int
        Number of images described.
    peak : int
        Largest memory it ever had, in bytes.
    spent : mapping of str to float
        Seconds of all its threads, by what they were spent on.
    """

    images: int
    peak: int
    spent: Mapping[str, float]


def make(part: Plan, place: Place, tick: Tick) -> ShardReport:
    """Describe the images of some shards in one stream, and write each shard as it is full.

    Parameters
    ----------
    part : Plan
        Pass over the shards of one task.
    place : Place
        Address of the store.
    tick : Tick
        Function that is called with the number of images done.

    Returns
    -------
    ShardReport
        Images described, peak of memory in bytes, and seconds spent.
    """
    k, before = DESCRIPTORS[part.descriptor].k, seconds_spent()
    with side_by_side() as submit:
        writing = None
        for shard, chunk in _shards(part, k, submit, tick):
            if writing is not None:
                writing.result()
            writing = submit(_write, part, place, shard, chunk)
        if writing is not None:
            writing.result()
    return ShardReport(len(part.chosen.rows), peak_memory(), seconds_spent(before))


def _write(part: Plan, place: Place, shard: int, chunk: Chunk) -> None:
    content = encode(part.chosen.labels[part.span(shard)], chunk)
    place.write(name_of(part.keys[shard], content), content)


def _shards(part: Plan, k: int, submit: Submit, tick: Tick) -> Iterator[tuple[int, Chunk]]:
    """Yield the images of each shard, as they are described."""
    described = _described(part, submit)
    width = DIGEST if part.source.masks is None else 2 * DIGEST
    points, digests = np.empty((0, k, k)), np.empty((0, width), np.uint8)
    for shard in range(len(part.keys)):
        span, blocks = part.span(shard), [(points, digests)]
        size, last = span.stop - span.start, shard == len(part.keys) - 1
        # the last one comes when the files are read to their ends, where their sums are compared
        while last or sum(len(some) for some, _ in blocks) < size:
            more = next(described, None)
            if more is None:
                break
            blocks.append(more)
            tick(len(more[0]))
        points, digests = map(np.concatenate, zip(*blocks, strict=True))
        if len(points) < size:
            raise DatasetError("images became fewer while they were read; run again")
        units = part.chosen.units[span].astype(np.int64)
        yield shard, Chunk(points[:size], units, digests[:size])
        points, digests = points[size:], digests[size:]


def _described(part: Plan, submit: Submit) -> Iterator[tuple[FloatArray, NDArray[np.uint8]]]:
    """Yield descriptors and digests chunk by chunk; meanwhile the next chunk is read."""
    size = max(1, READ_BYTES // math.prod(part.source.shape))
    step = max(1, THREAD_BYTES // math.prod(part.source.shape))
    before: list[Future[Any]] = []
    for chunk, mask in part.source.with_masks(part.chosen.rows, size):
        cuts = [slice(start, start + step) for start in range(0, len(chunk), step)]
        now = [submit(_work, part, chunk[cut], None if mask is None else mask[cut]) for cut in cuts]
        yield from (job.result() for job in before)
        before = now
    yield from (job.result() for job in before)


def _work(
    part: Plan, images: ImageArray, masks: ImageArray | None
) -> tuple[FloatArray, NDArray[np.uint8]]:
    """Return descriptors and digests of a few images."""
    with spending(DESCRIBING):
        points = describe(images, part.descriptor, part.eta, masks)
        if part.scale is not None:
            points = part.scale(points)
        digests = [digests_of(array) for array in (images, masks) if array is not None]
    return points, np.hstack(digests)


def digests_of(arrays: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a digest of each of some images or masks, (m, 16).

    Parameters
    ----------
    arrays : array, shape (m, ...)
        Images or masks.
    """
    pixels = np.ascontiguousarray(arrays).data.cast("B")
    size = len(pixels) // len(arrays)
    each = (pixels[start : start + size] for start in range(0, len(pixels), size))
    digests = b"".join(hashlib.sha256(one).digest()[:DIGEST] for one in each)  # in hardware mostly
    return np.frombuffer(digests, np.uint8).reshape(len(arrays), DIGEST)


class PassReport(NamedTuple):
    """Outcome of a pass.

    Attributes
    ----------
    stored : StoredImages
        The descriptors of all images.
    images : int
        Number of images that were described now.
    seconds : float
        Time that took.
    peak : int
        The most memory that any worker ever had, in bytes.
    decoding : mapping
        Share of the work that was decoding, by format or transfer syntax of the files.
    """

    stored: StoredImages
    images: int
    seconds: float
    peak: int
    decoding: Mapping[str, float]


def fill(
    plan: Plan, place: Place, workers: UnorderedMap | None = None, *, shown: bool = True
) -> PassReport:
    """Make the shards that are missing or damaged, and return what is stored.

    Parameters
    ----------
    plan : Plan
        Pass over the images.
    place : Place
        Place of the shards.
    workers : callable, optional
        Function that has each shard made elsewhere; all of them are made here, in one stream, when
        left out.
    shown : bool
        True if the number of images may be shown, behind a bar.

    Returns
    -------
    PassReport
        Stored descriptors of all images, and what the pass took.

    Raises
    ------
    DatasetError
        When images cannot be read; shards that were finished stay.
    OutputError
        When the place cannot be read or written.
    """
    started = time.perf_counter()
    place.prepare()
    made = list[ShardReport]()
    with lease(place) as own:
        sweep(place, own)
        names = _intact(plan, place)
        if missing := [shard for shard, key in enumerate(plan.keys) if key not in names]:
            total = sum(plan.span(shard).stop - plan.span(shard).start for shard in missing)
            with counted("describing", total, "images", shown=shown) as tick:
                if workers is None:
                    made = [make(plan.part(missing), place, tick)]
                else:
                    made = _distribute(plan, place, missing, workers, tick)
                    sweep(place, own)  # what a worker that was killed left half done
            names = _names(plan, place)
    shards = [_stored_shard(plan, shard, names) for shard in range(len(plan.keys))]
    seconds = time.perf_counter() - started
    peak = max((part.peak for part in made), default=peak_memory())
    stored = StoredImages(
        place,
        tuple(count_labels(plan.chosen.labels, len(plan.source.classes)).tolist()),
        plan.chosen.count_units(len(plan.source.classes)),
        DESCRIPTORS[plan.descriptor].k,
        tuple(shards),
    )
    spent = Counter[str]()
    for part in made:
        spent.update(part.spent)
    decoding = {what: spent[what] / spent.total() for what, _ in spent.most_common()}
    decoding.pop(DESCRIBING, None)
    return PassReport(stored, sum(part.images for part in made), seconds, peak, decoding)


def make_shards(address: str) -> ShardReport:
    """Make the shards of one task that is in the store; for a worker, on any machine.

    A task is a pickle, so it is opened only if its content has the digest in its name.

    Parameters
    ----------
    address : str
        Address of the task's file.

    Returns
    -------
    ShardReport
        Images described, peak of memory in bytes, and seconds spent.
    """
    place, _, name = address.rpartition("/")
    where = find_place(place)
    content = where.read(name)
    if name != _task_name(content):
        raise OutputError(f"a task in the store {where.shown} was changed; describe again")
    return make(pickle.loads(content), where, lambda count: None)


def _names(plan: Plan, place: Place) -> dict[str, str]:
    """Return the names of the plan's shards that are there, by key."""
    wanted = set(plan.keys)
    names = [name for name in sorted(place.names()) if name.endswith(SUFFIX)]
    return {name.partition(".")[0]: name for name in names if name.partition(".")[0] in wanted}


def _intact(plan: Plan, place: Place) -> dict[str, str]:
    """Return the shards that are there and whole; those that are damaged are removed."""
    shards = {}
    for key, name in _names(plan, place).items():
        if name == name_of(key, place.read(name)):
            shards[key] = name
        else:
            place.remove(name)
    return shards


def _stored_shard(plan: Plan, shard: int, names: dict[str, str]) -> StoredShard:
    key = plan.keys[shard]
    if key not in names:
        raise OutputError("a shard of the store is gone; run again, one pass at a time")
    labels = np.unique(plan.chosen.labels[plan.span(shard)])
    return StoredShard(names[key], tuple(labels.tolist()))


def _distribute(
    plan: Plan, place: Place, missing: list[int], workers: UnorderedMap, tick: Tick
) -> list[ShardReport]:
    """Have workers do a task for each shard, or one for all shards that are in one stream."""
    groups = [missing] if plan.source.read.sequential else [[shard] for shard in missing]
    tasks, made = list[str](), list[ShardReport]()
    try:
        for group in groups:
            content = pickle.dumps(plan.part(group).detached())
            tasks.append(_task_name(content))
            place.write(tasks[-1], content)
        for shards in workers(make_shards, [(place.join(name),) for name in tasks]):
            made.append(shards)
            tick(shards.images)
    finally:
        for name in tasks:
            place.remove(name)
    return made


def _task_name(content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}{TASK}"
