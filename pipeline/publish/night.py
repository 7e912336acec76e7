"""Settling a night of a stream: who is new, claim, draw, commit. Only committed bytes come out.

    new                                                       reserved            stored
    read, describe ─► new units ─► private sums ─► reserve ─► draw ─► commit ─► bytes
    once, stored      by digest    in a file       claimed    noise

**What lies there.** A night takes up the units that have not entered the stream yet, whatever else
lies in the folder: images that entered on an earlier night are left out, and so are all images of a
person who did. How many of them lie there is not said. Where nothing is new, or nothing lies there,
it is a night without units, which is released like any other.

A class of which fewer than `smallest_class` new units lie there waits for the next night, as how
many entered is published: who saw one person come would know the class. What waits is not claimed.

**Killed at any moment.** The sums of the night are in a file before its units are claimed, the
units are claimed before noise is drawn, and only stored bytes are returned. So a night that was
claimed is finished from its file, even if the images have gone; a later one is begun after that.

**Overtaken at any moment.** While a night is read and described, another may be reserved and
settled, and move what this one rests on: the nights before it, their sums, who has entered. So it
is compared in the transaction that claims, in which the sums are written, too (`reserve_night`); a
night that was overtaken claims and writes nothing, and is begun anew.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets import ImageSource, find_card, may_be_empty, open_fetched
from pipeline.descriptors import describe
from pipeline.errors import CovdpError, EmptyError
from pipeline.ledger import (
    Ledger,
    NightReservation,
    StoredNight,
    StreamAccount,
    StreamStatus,
    commit_night,
    entered_on,
    open_stream,
    reserve_night,
    stream_status,
)
from pipeline.publish.arrivals import Arrivals, arrivals, nobody
from pipeline.publish.config import ReleaseConfig
from pipeline.publish.document import Public, serialised
from pipeline.publish.earlier import (
    check_due,
    check_follows,
    earlier,
    ground_of,
    how_far,
    last_sums,
    public_of,
)
from pipeline.publish.kept import kept
from pipeline.publish.night_document import make_night
from pipeline.publish.seen import Rest, rest_of, write_seen
from pipeline.publish.settle import check_unit, fetched
from pipeline.publish.silence import silence
from pipeline.publish.sums import Sums, forget_sums, read_sums, write_sums
from pipeline.publish.withheld import unless_told, withheld_if_it_fails
from pipeline.store import Place, fill, make_plan
from pipeline.stream import Night, add_units, draw_night, empty_state
from pipeline.stream import StreamMechanism as Ground


@dataclass(frozen=True)
class Work:
    """What the steps of a night share.

    Attributes
    ----------
    ledger, account : Ledger, StreamAccount
        Who pays, and the stream that is charged.
    public : Public
        Its numbers of units are not known yet.
    ground : Ground
        What all classes stand on.
    source : ImageSource or None
        What lies there; None where nothing does.
    """

    ledger: Ledger
    account: StreamAccount
    public: Public
    ground: Ground
    source: ImageSource | None


def settle_night(
    config: ReleaseConfig, ledger: Ledger, root: Path | None, store: Place | None = None
) -> bytes:
    """Settle the night of a config's run key, or return it if that has been done before.

    One before it that is not finished comes first: see `unfinished_night`. Parameters, errors and
    what is returned are those of `settle`; a night that is settled is given back, whatever lies
    there.
    """
    config = config.of_card(find_card(config.dataset))
    now = how_far(config, ledger)
    check_due(config, now)
    if now and now.tonight:
        return now.tonight.result
    if now and now.state == "reserved":
        done = _going_on(_work(config, ledger, None, now), now)
        if done is not None:
            return done
    path = fetched(config, root)
    with silence(), kept(config, path, store) as place:
        while True:
            work = _work(config, ledger, _opened(config, ledger, path), now)
            done = _settled(work, now or _known(work), place)
            if done is not None:
                return done
            now = _known(work)


def _work(
    config: ReleaseConfig, ledger: Ledger, source: ImageSource | None, now: StreamStatus | None
) -> Work:
    """Return what the steps share; the stream is opened, and paid, if it was not."""
    public = public_of(config, source, now)
    return Work(ledger, _account(public, ledger, now), public, ground_of(public), source)


def _known(work: Work) -> StreamStatus:
    """Return how far a stream is that was opened."""
    config = work.public.config
    found = stream_status(work.ledger, config.population, config.name, str(config.run_key))
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


def _account(public: Public, ledger: Ledger, now: StreamStatus | None) -> StreamAccount:
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
    history, private = list[Night](), empty_state(ground.space.dim)
    for units in (int(np.ceil(ground.plan.opening / ground.plan.mu)) + 1, 1):
        points = np.repeat(point, units, axis=0)
        private = add_units(ground, history, private, points)
        history.append(draw_night(ground, history, private, units, noise=config.source))
        if ground.plan.horizon == 1:
            return


def _settled(work: Work, now: StreamStatus, place: Place) -> bytes | None:
    """Return the document of a night, from what lies there; None where another one overtook it."""
    if (done := _going_on(work, now)) is not None:
        return done
    try:
        rest, waiting, sums, held = _reserved(work, now, place)
    except CovdpError:  # what another night has done since may be the cause
        if _known(work).version == now.version:
            raise
        return None
    if held is None:
        return None
    if isinstance(held, StoredNight):
        return held.result
    content = _finished(work, held, sums)
    write_seen(work.ledger, work.account, rest.stamps_without(waiting))
    return content


def _going_on(work: Work, now: StreamStatus) -> bytes | None:
    """Return the document of a night that is stored, or reserved with its sums in their file."""
    if now.tonight:
        return now.tonight.result
    held = now.unfinished
    if now.state == "new" or held is None:
        return None
    sums = read_sums(work.ledger, work.account, now, work.ground, held.night, held.total)
    return None if sums is None else _finished(work, held, sums)


def _reserved(
    work: Work, now: StreamStatus, place: Place
) -> tuple[Rest, NDArray[np.bool_], Sums, NightReservation | StoredNight | None]:
    """Claim the units of a night, and write its sums; all of it rests on `now`.

    Returns
    -------
    tuple
        What was read, which images of it wait for a later night, the sums, and the night.
    """
    ledger, account, config = work.ledger, work.account, work.public.config
    begun = now.unfinished.night if now.unfinished else None
    before = last_sums(ledger, account, now, work.ground)
    lost = bool(now.totals) and before is None
    rest = unless_told(
        config, partial(rest_of, work.source, config.splits, ledger, account, everything=lost)
    )
    lying = unless_told(config, partial(_lying, work, rest.source, place))
    entered = entered_on(ledger, account, lying.units)
    new = lying.only([night == begun for night in entered])
    if begun is None:
        new = new.enough(config.smallest_class)
    sums = unless_told(config, partial(_added, work, now, before, lying, entered, new))
    held = reserve_night(
        ledger,
        account,
        str(config.run_key),
        units=new.units,
        labels=new.labels,
        version=now.version,
        prepare=lambda held: write_sums(ledger, account, now, held.total, sums),
    )
    late = {unit for unit, night in zip(lying.units, entered, strict=True) if night is None}
    return rest, lying.images_of(late.difference(new.units)), sums, held


def _lying(work: Work, source: ImageSource | None, place: Place) -> Arrivals:
    """Read and describe what is to be read."""
    config, public = work.public.config, work.public
    if source is None:
        return nobody(len(public.classes), public.domain.k)
    plan = make_plan(source, config.splits, descriptor=config.descriptor, eta=config.eta)
    return arrivals(source, plan, fill(plan, place, shown=False).stored, public)


def _added(
    work: Work,
    now: StreamStatus,
    before: Sums | None,
    lying: Arrivals,
    entered: tuple[int | None, ...],
    new: Arrivals,
) -> Sums:
    """Return the sums of all nights with this one."""
    histories, private = earlier(
        work.public, work.ledger, work.account, now, work.ground, before, lying, entered
    )
    after = tuple(
        add_units(work.ground, found.nights, sums, points)
        for found, sums, points in zip(histories, private, new.points, strict=True)
    )
    return Sums(histories, after, new.counts, before.kept if before else None)


def _finished(work: Work, held: NightReservation, sums: Sums) -> bytes:
    """Draw a night that is reserved, commit it, and return what the ledger stored."""
    content = withheld_if_it_fails(lambda: serialised(_drawn(work, held, sums)))
    stored = commit_night(work.ledger, held, content)
    forget_sums(work.ledger, work.account, held.night)
    return stored.result


def _drawn(work: Work, held: NightReservation, sums: Sums) -> dict[str, Any]:
    config = work.public.config
    classes = [
        (label, name, units)
        for (label, name, _), units in zip(work.public.classes, sums.units, strict=True)
    ]
    histories = []
    for found, after, units in zip(sums.histories, sums.after, sums.units, strict=True):
        night = draw_night(work.ground, found.nights, after, units, noise=config.source)
        histories.append(replace(found, nights=(*found.nights, night)))
    public = replace(work.public, classes=tuple(classes))
    return make_night(public, work.account, held, histories)
