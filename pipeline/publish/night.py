"""Settling a night of a stream: who is new, claim, draw, commit. Only committed bytes come out.

    read, describe ─► new units ─► private sums ─► reserve ─► draw ─► commit ─► bytes
    once, stored      by digest    in a file       claimed    noise   stored

**What lies there.** A night takes up the units that have not entered the stream yet, whatever else
lies in the folder: images that entered on an earlier night are left out, and so are all images of a
person who did. How many of them lie there is not said. Where nothing is new, or nothing lies there,
it is a night without units, which is released like any other.

**Killed at any moment.** The sums of the night are in a file before its units are claimed, the
units are claimed before noise is drawn, and only stored bytes are returned. So a night that was
claimed is finished for the same units from its file, even if the images have gone, and before a
later one is begun. Next on the path: ``committed.py``.
"""

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.datasets import ImageSource, find_card, may_be_empty, open_fetched
from pipeline.descriptors import describe, domain_of, require_made_for
from pipeline.errors import EmptyError, LedgerError, MismatchError
from pipeline.ledger import (
    Ledger,
    NightReservation,
    Standing,
    StoredNight,
    Stream,
    commit_night,
    entered_on,
    open_stream,
    reserve_night,
    standing,
    total_of,
)
from pipeline.publish.arrivals import Arrivals, arrivals, nobody
from pipeline.publish.config import ReleaseConfig
from pipeline.publish.document import Public, serialised
from pipeline.publish.earlier import check_follows, earlier, ground_of, how_far
from pipeline.publish.kept import kept
from pipeline.publish.night_document import make_night
from pipeline.publish.settle import check_unit, fetched
from pipeline.publish.silence import silence
from pipeline.publish.sums import Sums, forget_sums, read_sums, write_sums
from pipeline.publish.transcript import read_domain
from pipeline.publish.withheld import unless_told, withheld_if_it_fails
from pipeline.store import Place, fill, make_plan
from pipeline.stream import Night, add_units, draw_night, nothing
from pipeline.stream import Stream as Ground


@dataclass(frozen=True)
class Work:
    """What the steps of a night share.

    Attributes
    ----------
    ledger, account : Ledger, Stream
        Who pays, and the stream that is charged.
    public : Public
        Its numbers of units are not known yet.
    ground : Ground
        What all classes stand on.
    source : ImageSource or None
        What lies there; None where nothing does.
    place : Place
        Where descriptors are kept while it works, or longer.
    """

    ledger: Ledger
    account: Stream
    public: Public
    ground: Ground
    source: ImageSource | None
    place: Place


def settle_nights(
    config: ReleaseConfig, ledger: Ledger, root: Path | None, store: Place | None = None
) -> tuple[bytes, ...]:
    """Settle the night of a config's run key, and before it one that was not finished.

    Parameters and errors are those of `settle`. A night that is settled is given back, whatever
    lies there.

    Returns
    -------
    tuple of bytes
        The committed documents, JSON in UTF-8; tonight's is the last.
    """
    config = config.of_card(find_card(config.dataset))
    run_key, now = str(config.run_key), how_far(config, ledger)
    if now and now.tonight:
        return (now.tonight.result,)
    path = fetched(config, root)
    with silence(), kept(config, path, store) as place:
        source = _opened(config, ledger, path)
        public = _public(config, source, now)
        account = _account(public, ledger, now)
        work = Work(ledger, account, public, ground_of(public), source, place)
        now = now or _known(work, run_key)
        if (held := now.unfinished) is None or held.run_key >= run_key:
            return (_settled(work, now, run_key),)
        finished = _settled(work, now, held.run_key)
        if held.night == account.horizon:
            return (finished,)
        return finished, _settled(work, _known(work, run_key), run_key)


def _known(work: Work, run_key: str) -> Standing:
    """Return how far a stream is that was opened."""
    found = standing(work.ledger, work.account.population, work.account.name, run_key)
    assert found is not None
    return found


def _opened(config: ReleaseConfig, ledger: Ledger, path: Path) -> ImageSource | None:
    """Return what lies there, None where no image does."""
    card, key = may_be_empty(find_card(config.dataset)), ledger.person_key()
    try:
        source = unless_told(config, partial(open_fetched, card, path, key))
        source.select(config.splits)
    except EmptyError:
        return None
    check_unit(source, config)
    return source


def _public(config: ReleaseConfig, source: ImageSource | None, now: Standing | None) -> Public:
    """Return what is known of the images, of a night without any from those before it."""
    card = find_card(config.dataset)
    require_made_for(config.descriptor, channels=card.channels, volumes=card.volumes)
    classes = tuple((label, name, 0) for label, name in enumerate(card.classes))
    if source is not None:
        known = domain_of(
            config.descriptor,
            source.shape,
            eta=config.eta,
            manifold=config.manifold,
            masked=source.masks is not None,
        )
    elif now is not None:
        known = read_domain(json.loads(now.stream.query))
    else:
        raise MismatchError(
            f"{config.dataset} has no image, and a stream begins on a night with images, which say "
            "their size; nothing was charged"
        )
    return Public(config, known, classes)


def _account(public: Public, ledger: Ledger, now: Standing | None) -> Stream:
    """Return the stream, opened now if it was not; what can fail in public fails before that."""
    config, told = public.config, public.config.stream
    assert told is not None
    if now is None:
        check_follows(public, ledger)
        _rehearse(public)
    return open_stream(
        ledger,
        config.population,
        config.name,
        public.query(),
        horizon=told.horizon,
        cost=config.cost,
        group=config.group,
        classes=config.classes_per_person or 1,
        follows=told.follows,
    )


def _rehearse(public: Public) -> None:
    """Release an opening and a night after it of black images: what fails then is public."""
    domain, config, ground = public.domain, public.config, ground_of(public)
    depth = () if domain.depth is None else (domain.depth,)
    colour = (3,) if find_card(config.dataset).channels == 3 else ()
    black = np.zeros((1, *depth, domain.height, domain.width, *colour), dtype=np.uint8)
    point = describe(black, config.descriptor, config.eta)
    history, private = list[Night](), nothing(ground.space.dim)
    for units in (int(np.ceil(ground.plan.opening / ground.plan.mu)) + 1, 1):
        points = np.repeat(point, units, axis=0)
        private = add_units(ground, history, private, points)
        history.append(draw_night(ground, history, private, units, noise=config.source))
        if ground.plan.horizon == 1:
            return


def _settled(work: Work, now: Standing, run_key: str) -> bytes:
    """Return the document of a night: stored, finished from its file, or from what lies there."""
    if now.tonight and now.tonight.run_key == run_key:
        return now.tonight.result
    if (done := _from_file(work, now, run_key)) is not None:
        return done
    lying = unless_told(work.public.config, partial(_lying, work))
    entered = entered_on(work.ledger, work.account, lying.units)
    mine = now.unfinished and now.unfinished.run_key == run_key and now.unfinished.night
    new = lying.only([night == (mine or None) for night in entered])
    sums = unless_told(work.public.config, partial(_added, work, now, lying, entered, new))
    total = total_of(work.ledger, work.account, new.units, new.labels)
    write_sums(work.ledger, work.account, now, total, sums)
    try:
        held = reserve_night(work.ledger, work.account, run_key, units=new.units, labels=new.labels)
    except LedgerError:  # it was started twice, and the other saw other images
        done = _from_file(work, _known(work, run_key), run_key)
        if done is None:
            raise
        return done
    if isinstance(held, StoredNight):
        return held.result
    if held.total == total:
        return _finished(work, held, sums)
    return _settled(work, _known(work, run_key), run_key)


def _from_file(work: Work, now: Standing, run_key: str) -> bytes | None:
    """Finish a night that is reserved from the file of its sums, if there is one."""
    held = now.unfinished
    if held is None or held.run_key != run_key:
        return None
    sums = read_sums(work.ledger, work.account, now, work.ground, held.night, held.total)
    return None if sums is None else _finished(work, held, sums)


def _lying(work: Work) -> Arrivals:
    """Read and describe what lies there."""
    config, public = work.public.config, work.public
    if work.source is None:
        return nobody(len(public.classes), public.domain.k)
    plan = make_plan(work.source, config.splits, descriptor=config.descriptor, eta=config.eta)
    return arrivals(work.source, plan, fill(plan, work.place, shown=False).stored, public)


def _added(
    work: Work, now: Standing, lying: Arrivals, entered: tuple[int | None, ...], new: Arrivals
) -> Sums:
    """Return the sums of all nights with this one."""
    histories, private = earlier(
        work.public, work.ledger, work.account, now, work.ground, lying, entered
    )
    after = tuple(
        add_units(work.ground, found.nights, sums, points)
        for found, sums, points in zip(histories, private, new.points, strict=True)
    )
    return Sums(histories, after, new.counts)


def _finished(work: Work, held: NightReservation, sums: Sums) -> bytes:
    """Draw a night that is reserved, commit it, and return what the ledger stored."""
    content = withheld_if_it_fails(lambda: serialised(_drawn(work, held, sums)))
    stored = commit_night(work.ledger, held, content)
    forget_sums(work.ledger, work.account, held.night)
    return stored.result


def _drawn(work: Work, held: NightReservation, sums: Sums) -> dict[str, Any]:
    config = work.public.config.model_copy(update={"run_key": held.run_key})
    classes = [
        (label, name, units)
        for (label, name, _), units in zip(work.public.classes, sums.units, strict=True)
    ]
    histories = []
    for found, after, units in zip(sums.histories, sums.after, sums.units, strict=True):
        night = draw_night(work.ground, found.nights, after, units, noise=config.source)
        histories.append(replace(found, nights=(*found.nights, night)))
    public = replace(work.public, config=config, classes=tuple(classes))
    return make_night(public, work.account, held, histories)
