"""The pass: shards that are not there are made, in one stream here, or each by a worker elsewhere.

Which worker makes a shard, and when, changes no bit of it.
"""

import hashlib
import pickle
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import NamedTuple, TypeAlias

import numpy as np

from pipeline.arrays import count_labels
from pipeline.descriptors import DESCRIPTORS
from pipeline.errors import OutputError
from pipeline.memory import peak_memory
from pipeline.progress import counted
from pipeline.store.lease import TASK, lease, sweep
from pipeline.store.making import Made, Tick, make, unseen
from pipeline.store.place import Place, find_place
from pipeline.store.plan import Plan
from pipeline.store.shard import SUFFIX, name_of
from pipeline.store.stored import Held, StoredImages

HandOut: TypeAlias = Callable[[Sequence[str], Callable[[Made], None]], None]
"""``hand_out(addresses, done)`` has `take` called for each address, and `done` with each result."""


class Filled(NamedTuple):
    """What a pass came to.

    Attributes
    ----------
    stored : StoredImages
        The descriptors of all images.
    images : int
        How many of them were described now.
    seconds : float
        How long that took.
    peak : int
        The most memory that any worker ever had, in bytes.
    """

    stored: StoredImages
    images: int
    seconds: float
    peak: int


def fill(
    plan: Plan, place: Place, hand_out: HandOut | None = None, *, shown: bool = True
) -> Filled:
    """Make the shards that are missing or damaged, and return what is stored.

    Parameters
    ----------
    plan : Plan
    place : Place
        Where shards lie.
    hand_out : callable, optional
        Has each shard made by a worker elsewhere; all of them here, in one stream, when left out.
    shown : bool
        Whether how many images there are may be shown, behind a bar.

    Raises
    ------
    DatasetError
        When images cannot be read; shards that were finished stay.
    OutputError
        When the place cannot be read or written.
    """
    started = time.perf_counter()
    place.prepare()
    made: list[Made] = []
    with lease(place) as own:
        sweep(place, own)
        names = _found(plan, place)
        if missing := [shard for shard, key in enumerate(plan.keys) if key not in names]:
            total = sum(plan.span(shard).stop - plan.span(shard).start for shard in missing)
            with counted("describing", total, "images") if shown else nullcontext(unseen) as tick:
                if hand_out is None:
                    made.append(make(plan.part(missing), place, tick))
                else:
                    _distribute(plan, place, missing, hand_out, made, tick)
                    sweep(place, own)  # what a worker that was killed left half done
            names = _listed(plan, place)
    held = [_held(plan, shard, names) for shard in range(len(plan.keys))]
    seconds = time.perf_counter() - started
    peak = max((one.peak for one in made), default=peak_memory())
    stored = StoredImages(
        place,
        plan.source.classes,
        plan.source.shape,
        tuple(count_labels(plan.chosen.labels, len(plan.source.classes)).tolist()),
        plan.chosen.count_units(len(plan.source.classes)),
        DESCRIPTORS[plan.descriptor].k,
        tuple(held),
    )
    return Filled(stored, sum(one.images for one in made), seconds, peak)


def take(address: str) -> Made:
    """Make the shards of one task that lies in the store; for a worker, on any machine.

    A task is a pickle, so it is opened only if its content has the digest in its name.
    """
    place, _, name = address.rpartition("/")
    where = find_place(place)
    content = where.read(name)
    if name != _task_name(content):
        raise OutputError(f"a task in the store {where.shown} was changed; describe again")
    return make(pickle.loads(content), where, unseen)


def _listed(plan: Plan, place: Place) -> dict[str, str]:
    """Return the names of the plan's shards that are there, by key."""
    wanted = set(plan.keys)
    names = [name for name in sorted(place.names()) if name.endswith(SUFFIX)]
    return {name.partition(".")[0]: name for name in names if name.partition(".")[0] in wanted}


def _found(plan: Plan, place: Place) -> dict[str, str]:
    """Return the shards that are there and whole; those that are damaged are removed."""
    whole = {}
    for key, name in _listed(plan, place).items():
        if name == name_of(key, place.read(name)):
            whole[key] = name
        else:
            place.remove(name)
    return whole


def _held(plan: Plan, shard: int, names: dict[str, str]) -> Held:
    key = plan.keys[shard]
    if key not in names:
        raise OutputError("a shard of the store is gone; run again, one pass at a time")
    labels = np.unique(plan.chosen.labels[plan.span(shard)])
    return Held(names[key], tuple(labels.tolist()))


def _distribute(
    plan: Plan,
    place: Place,
    missing: list[int],
    hand_out: HandOut,
    made: list[Made],
    tick: Tick,
) -> None:
    """Write a task for each shard, or one for all that lie in one stream, and hand them out."""
    groups = [missing] if plan.source.read.sequential else [[shard] for shard in missing]
    tasks = []

    def done(one: Made) -> None:
        made.append(one)
        tick(one.images)

    try:
        for group in groups:
            content = pickle.dumps(plan.part(group).detached())
            tasks.append(_task_name(content))
            place.write(tasks[-1], content)
        hand_out([place.join(name) for name in tasks], done)
    finally:
        for name in tasks:
            place.remove(name)


def _task_name(content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}{TASK}"
