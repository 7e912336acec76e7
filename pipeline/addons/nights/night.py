"""A night of a stream: who is new, claim, draw, commit. Only committed bytes come out.

    new                                                        reserved            stored
    read, describe ─► new images ─► private sums ─► reserve ─► draw ─► commit ─► bytes
    once, stored      by digest     in a file       claimed    noise

**What is there.** A night takes up the privacy units that have not entered the stream yet, whatever
else is in the folder: images that entered on an earlier night are left out, and so are all images
of a person who did. How many of them are there is not stated. Where nothing is new, or nothing is
there, it is a night without privacy units, which is released like any other.

A class of which fewer than `smallest_class` new privacy units are there waits for the next night,
as how many entered is published: who saw one person come would know the class. What waits is not
claimed. Where labels are secret only how many came of all classes together is published: if they
are fewer than that, all of them wait. What a class has is used nowhere (``stream/plan.py``), and
the ledger keeps labels under its key.

**Killed at any moment.** The sums of the night are in a file before its privacy units are claimed,
the privacy units are claimed before noise is drawn, and only stored bytes are returned. So a night
that was claimed is finished from its file, even if the images have gone; a later one is begun after
that.

**Overtaken at any moment.** While a night is read and described, another may be reserved and
committed, and move what this one rests on: the nights before it, their sums, who has entered. So it
is compared in the transaction that claims, in which the sums are written, too (`reserve_night`); a
night that was overtaken claims and writes nothing, and is begun anew.

**All nights before it** are in the sums of the last one (``sums.py``). Where these were lost they
are made again from the images, if those of all nights are still present: each privacy unit counts
on the night on which it entered, so it is in one of them as before. A person with other images than
on that night has another record, and would pay for both: then they are not made again.

**Its document** holds what the ledger commits of it, and no more:

    tonight's rows (``schema.py``) ─┬► what later nights and every estimate are made from
                                    └► the mean so far, windows: post-processing of all rows
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covdp.addons.nights.account import NightState, StoredNight, StreamAccount, StreamStatus
from covdp.addons.nights.arrivals import (
    Arrivals,
    Unread,
    arrivals,
    find_unread,
    match_copies,
    no_arrivals,
)
from covdp.addons.nights.certainty import mean_certainty
from covdp.addons.nights.config import StreamSettings, check_decoding, rendering_of
from covdp.addons.nights.followed import (
    check_follows,
    followed_means,
    night_document,
    night_documents,
)
from covdp.addons.nights.ledger import (
    commit_night,
    entered_on,
    none_missing,
    open_stream,
    reserve_night,
    stream_status,
)
from covdp.addons.nights.schema import NightClassPart, NightDocument, WindowPart, read_stream
from covdp.addons.nights.stream import (
    WINDOWS,
    Night,
    PrivateSums,
    StreamMechanism,
    add_units,
    column_norm,
    cumulative_mean,
    draw_night,
    empty_state,
    join_streams,
    split_epochs,
    window_mean,
)
from covdp.addons.nights.sums import Sums, forget_sums, read_sums, sums_folder, write_sums
from covdp.addons.nights.transcript import (
    ClassHistory,
    estimate_part,
    night_row,
    read_histories,
    stands_on,
    with_night,
)
from covdp.datasets import ImageSource
from covdp.errors import ConfigError, CovdpError, LedgerError, MismatchError
from covdp.figures.style import size_in_words
from covdp.ledger import Ledger
from covdp.privacy import GDP, privacy_statement
from covdp.publish.config import Expect, ReleaseConfig
from covdp.publish.redact import (
    PUBLIC,
    draw_error,
    images_error,
    redact_errors,
    redact_images,
    silence,
)
from covdp.publish.release import (
    REFUSAL,
    PublicFacts,
    account_part,
    black_point,
    public_domain,
    public_sizes,
)
from covdp.schema import read_settings, serialised
from covdp.store import Place, fill, make_plan, temporary_store

EARLY = timedelta(minutes=1)
"""Time before its planned time at which a run may start, as clocks of two machines differ."""


@dataclass(frozen=True)
class NightContext:
    """Facts that the steps of a night share.

    Attributes
    ----------
    ledger : Ledger
        Ledger whose account pays.
    status : StreamStatus
        State that the night rests on, as one transaction read it.
    public : PublicFacts
        Public facts, without the numbers of privacy units, which are not known yet.
    mechanism : StreamMechanism
        Mechanism of all classes.
    source : ImageSource or None
        Images that are there; None where there are none.
    tonight : tuple or None
        Unread files and arrivals of the first night of a stream, which is read before it is paid.
    declared : tuple of str
        Declarations of the config on its images; none of a night that is drawn from its sums.
    """

    ledger: Ledger
    status: StreamStatus
    public: PublicFacts
    mechanism: StreamMechanism
    source: ImageSource | None
    tonight: tuple[Unread, Arrivals] | None = None
    declared: tuple[str, ...] = ()


def release_night(
    config: ReleaseConfig,
    ledger: Ledger,
    root: Path | None,
    store: Place | None = None,
    *,
    beside: bool = True,
    expect: Expect | None = None,
) -> bytes:
    """Release the night of a config's run key, or give it back if that has been done before.

    A night before it that is not finished comes first: see `unfinished_night`. Errors are those of
    `release_once`. A stored night is given back, whatever images are there.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    root : Path or None
        Folder of the images.
    store : Place, optional
        Store of the descriptors; a private one that goes when left out.
    beside : bool
        True if a new stream may be paid beside another, or beside releases.
    expect : Expect, optional
        Function that raises where the public sizes say that nothing will be usable, asked before a
        stream is opened.

    Returns
    -------
    bytes
        Committed bytes of the document.
    """
    status = check_stream(config, ledger, beside=beside)
    check_due(config, status)
    if content := _resume(config, ledger, status):
        return content
    path = config.fetch_images(root)
    declared = config.declared(path)
    if status is None:  # later nights are compared as they are reserved
        ledger.check_declared(config.population, declared)
    with silence(), temporary_store(config.store_key(path), store) as place:
        while True:
            source = config.open_images(path, ledger.person_key())
            if status is None and source is not None and expect is not None:
                expect(public_sizes(config, source))
            night = _context(config, ledger, source, status, place, declared, beside=beside)
            if content := _begin(night, place):
                return content
            status = _read_status(config, ledger)
            if content := _resume(config, ledger, status):
                return content


@silence()
def count_waiting(config: ReleaseConfig, ledger: Ledger, root: Path | None) -> int:
    """Return the number of privacy units that no night has taken up, as their files say.

    Persons, or files that changed or are new: the next night may take them up, and publishes their
    total. 0 where images are in one stream, which is not read for it.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    root : Path or None
        Folder of the images.
    """
    status = check_stream(config, ledger)
    source = config.open_images(config.fetch_images(root), ledger.person_key())
    if status is None or source is None or source.read.sequential:
        return 0
    if source.people is None:
        sums = read_sums(ledger, status, mechanism_of(status.stream.query), status.last)
        unread = redact_images(config.file, find_unread, source, config.splits, ledger, sums)
        return len(unread.stamps)
    rows = source.select(config.splits).rows
    persons = {bytes(person) for person in source.people[rows]}
    return entered_on(ledger, status.stream, tuple(persons)).count(None)


def _context(
    config: ReleaseConfig,
    ledger: Ledger,
    source: ImageSource | None,
    status: StreamStatus | None,
    place: Place | None = None,
    declared: tuple[str, ...] = (),
    *,
    beside: bool = True,
) -> NightContext:
    """Return what the steps share; a stream that is new is opened, and paid.

    What can fail in public fails before that, and so does what an image may make fail.
    """
    public = public_of(config, source, status)
    query = public.query()
    mechanism, tonight = mechanism_of(query), None
    if status is None:
        assert source is not None  # or `public_of` had raised
        assert place is not None
        check_follows(query, ledger)
        _rehearse(source, config, mechanism)
        tonight = redact_images(config.file, _read_tonight, public, ledger, source, None, place)
    _open(config, query, ledger, status, declared=declared, beside=beside)
    now = status or _read_status(config, ledger)
    return NightContext(ledger, now, public, mechanism, source, tonight, declared)


def _open(
    config: ReleaseConfig,
    query: str,
    ledger: Ledger,
    status: StreamStatus | None,
    *,
    declared: tuple[str, ...] = (),
    beside: bool = True,
) -> None:
    """Open and pay a stream, or raise where the one of a `status` has other settings."""
    stream = _stream_of(config)
    open_stream(
        ledger,
        config.population,
        config.name,
        query,
        horizon=stream.horizon,
        cost=config.cost,
        group=config.group,
        classes=config.classes_per_person or 1,
        declared=declared,
        follows=stream.follows,
        beside=beside,
        row=None if status is None else status.stream,
    )


def _read_status(config: ReleaseConfig, ledger: Ledger) -> StreamStatus:
    """Return how far a stream is that was opened."""
    status = stream_status(ledger, config.population, config.name, str(config.run_key))
    assert status is not None
    return status


def _rehearse(source: ImageSource, config: ReleaseConfig, mechanism: StreamMechanism) -> None:
    """Release an opening and a night after it of black images: what fails then is public."""
    point, plan, secret = black_point(source, config), mechanism.plan, config.secret
    history, private = list[Night](), empty_state(mechanism.space.dim)
    enough = int(np.ceil(max((plan.opening, *plan.again)) / plan.mu)) + 1
    for units in (2 * enough if secret else enough, 1):
        points = np.repeat(point, units, axis=0)
        total = units if secret else None
        private = add_units(mechanism, history, private, points, total=total)
        history.append(draw_night(mechanism, history, private, units, noise=config.source))
        if plan.horizon == 1:
            return


def _resume(config: ReleaseConfig, ledger: Ledger, status: StreamStatus | None) -> bytes | None:
    """Return the document of a night that is stored, or reserved with its sums in their file."""
    if status is None or status.state == "new":
        return None
    if status.tonight:
        return status.tonight.result
    night, reservation = _context(config, ledger, None, status), status.stream.rows[-1]
    sums = read_sums(ledger, status, night.mechanism, reservation)
    return None if sums is None else _finish(night, reservation, sums)


def _begin(night: NightContext, place: Place) -> bytes | None:
    """Return the document of a night, from what is there; None where another one overtook it."""
    try:
        sums, reservation = _reserve(night, place)
    except CovdpError:  # what another night has done since may be the cause
        if _read_status(night.public.config, night.ledger).version == night.status.version:
            raise
        return None
    if isinstance(reservation, StoredNight):
        return reservation.result
    return None if reservation is None else _finish(night, reservation, sums)


def _reserve(night: NightContext, place: Place) -> tuple[Sums, NightState | StoredNight | None]:
    """Claim the privacy units of a night, and write its sums; all of it rests on its `status`."""
    ledger, status, config = night.ledger, night.status, night.public.config
    begun = status.stream.pending.night if status.stream.pending else None
    before = read_sums(ledger, status, night.mechanism, status.last)
    unread, present = night.tonight or redact_images(
        config.file, _read_tonight, night.public, ledger, night.source, before, place
    )
    seal = config.secret or config.unit == "person"
    if config.unit == "image":
        known = unread.others.values()
        present = match_copies(present, known, ledger, status.stream, seal=seal)
    present = present.sealed(ledger) if seal else present
    entered = entered_on(ledger, status.stream, present.units)
    new = present.only([number == begun for number in entered])
    if begun is None:
        enough = new.together if config.secret else new.enough
        new = enough(config.smallest_class)
    late = {unit for unit, number in zip(present.units, entered, strict=True) if number is None}
    add = partial(_add_tonight, night, before, present, entered, new)
    sums = redact_errors(add, draw_error(), public=PUBLIC)
    sums = replace(sums, stamps=unread.stamps_without(present.images, late.difference(new.units)))
    reservation = reserve_night(
        ledger,
        status.stream,
        str(config.run_key),
        units=new.units,
        labels=new.labels,
        version=status.version,
        declared=night.declared,
        prepare=lambda reservation: write_sums(ledger, status, reservation.total, sums),
    )
    return sums, reservation


def _read_tonight(
    public: PublicFacts,
    ledger: Ledger,
    source: ImageSource | None,
    sums: Sums | None,
    place: Place,
) -> tuple[Unread, Arrivals]:
    """Return which files no night has taken up, as its sums say, and what is in them."""
    config = public.config
    unread = find_unread(source, config.splits, ledger, sums)
    if unread.source is None:
        return unread, no_arrivals(len(public.classes), public.domain.k)
    plan = make_plan(unread.source, config.splits, descriptor=config.descriptor, eta=config.eta)
    stored = fill(plan, place, shown=False).stored
    return unread, arrivals(unread.source, plan, stored, public.form)


def _add_tonight(
    night: NightContext,
    before: Sums | None,
    present: Arrivals,
    entered: Sequence[int | None],
    new: Arrivals,
) -> Sums:
    """Return the sums of all nights with this one."""
    histories, private = read_past(night, before, present, entered)
    total = len(new.units) if night.public.config.secret else None
    after = tuple(
        add_units(night.mechanism, history.nights, sums, points, total=total)
        for history, sums, points in zip(histories, private, new.points, strict=True)
    )
    return Sums(histories, after, new.counts if total is None else (total,) * len(after))


def _finish(night: NightContext, reservation: NightState, sums: Sums) -> bytes:
    """Draw a night that is reserved, commit it, and return what the ledger stored."""
    content = redact_errors(lambda: serialised(_draw(night, reservation, sums)), draw_error())
    stored = commit_night(night.ledger, reservation, content)
    forget_sums(night.ledger, night.status.stream, reservation.night)
    return stored.result


def _draw(night: NightContext, reservation: NightState, sums: Sums) -> NightDocument:
    """Return the document of a night: draw the noise of each class."""
    noise, histories = night.public.config.source, []
    for history, after, units in zip(sums.histories, sums.after, sums.units, strict=True):
        drawn = draw_night(night.mechanism, history.nights, after, units, noise=noise)
        histories.append(replace(history, nights=(*history.nights, drawn)))
    public, secret = night.public, night.public.config.secret
    classes = tuple(
        (label, name, None if secret else units)
        for (label, name, _), units in zip(public.classes, sums.units, strict=True)
    )
    total = histories[0].nights[-1].n_so_far or None if secret else None
    public = replace(public, classes=classes, total=total)
    return make_night(public, night.status.stream, reservation, histories)


def mechanism_of(query: str) -> StreamMechanism:
    """Return the mechanism of all classes of a stream.

    Parameters
    ----------
    query : str
        Query of the stream.
    """
    return read_stream(read_settings(json.loads(query)))


def _stream_of(config: ReleaseConfig) -> StreamSettings:
    """Return the table of a config that has it."""
    assert isinstance(config.stream, StreamSettings)
    return config.stream


def check_stream(
    config: ReleaseConfig, ledger: Ledger, *, beside: bool = True
) -> StreamStatus | None:
    """Return the state of the stream of a config, None before it was opened.

    Charges that the ledger would refuse for want of budget or nights, or beside earlier ones of the
    population, are refused at once: for use before images are read.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    beside : bool
        True if it may be paid beside another stream, or beside releases.

    Raises
    ------
    BudgetError
        The account cannot pay for a new stream, or the horizon is reached.
    LedgerError
        No account, a stream that has ended, or a run key that is no date.
    MismatchError
        The card makes other images of files than it did when the stream was opened, or it is
        another one than the last night's, by its name, and the release is not to be `beside`.
    ConfigError
        The stream is new, and its opening too small.
    """
    cost = None if _stream_of(config).follows else config.charge
    asked = ledger, config.population, config.name, str(config.run_key)
    status = stream_status(*asked, cost=cost, beside=beside)
    if status is None:
        config.check_new_stream()
    elif not status.tonight:
        _check_shown(config, json.loads(status.stream.query).get("shown", {}))
        if status.last is not None and not beside:
            _check_card(config, json.loads(status.last.result)["settings"]["dataset"])
    return status


def check_due(config: ReleaseConfig, status: StreamStatus | None) -> None:
    """Raise unless a night that is new was planned for today (UTC) or before.

    Nights go forward, so one that is named by a later day would be the last until then. A run that
    is planned for midnight may start `EARLY`.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    status : StreamStatus or None
        State of the stream; None before it was opened.
    """
    today = f"{datetime.now(UTC) + EARLY:%Y-%m-%d}"
    if (status is None or status.state == "new") and str(config.run_key) > today:
        raise ConfigError(
            f"run key {config.run_key} is in the future, as today is {today} (UTC): no night could "
            "be released until then; leave the run key out, or correct it or the clock"
        )


def _check_card(config: ReleaseConfig, before: str) -> None:
    """Raise where a config that was copied for another card has the name of the first's stream."""
    if (now := config.card.name) != before:
        raise MismatchError(
            f"the stream {config.name!r} of {config.population!r} has read card {before!r} so far, "
            f"and {config.file} names card {now!r}; give the config a name of its own, or a "
            "population, or add --again to go on with the other card"
        )


def _check_shown(config: ReleaseConfig, then: Mapping[str, Any]) -> None:
    """Raise unless the card makes images of files, and tells persons, as when it was opened."""
    now = rendering_of(config.card)
    check_decoding(now, then, config.name)
    for key in sorted(now.keys() | then.keys()):
        if now.get(key) != then.get(key):
            settings = [
                f"{key} = {json.dumps(rules[key])}" if key in rules else f"no {key}"
                for rules in (then, now)
            ]
            raise MismatchError(
                "the images of all nights of a stream must be made of files in one way: "
                f"{config.name!r} was opened with {settings[0]}, found {settings[1]} in "
                f"{config.dataset} or the environment; set it back, or give the config another "
                "name, which is another stream and is charged"
            )


def public_of(
    config: ReleaseConfig, source: ImageSource | None, status: StreamStatus | None
) -> PublicFacts:
    """Return the public facts of the images; of a night without any those of the nights before.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    source : ImageSource or None
        Images that are there; None where there are none.
    status : StreamStatus or None
        State of the stream; None before it was opened.
    """
    card = config.card
    side = config.size or getattr(card, "size", None)
    classes = tuple((label, name, 0) for label, name in enumerate(card.classes))
    before = None if status is None else read_settings(json.loads(status.stream.query)).domain
    if source is not None:
        domain = public_domain(config, source)
        if before is not None and side is None and domain.images != before.images:
            raise images_error(config.file)  # the size may be that of one image
    elif before is not None:
        domain = replace(before, height=side, width=side) if side else before
    else:
        raise MismatchError(
            f"{config.dataset} has no image, and a stream begins on a night with images, which say "
            "their size; nothing was charged"
        )
    return PublicFacts(config, domain, classes)


def unfinished_night(config: ReleaseConfig, ledger: Ledger) -> str | None:
    """Return the run key of a night before the config's that was claimed and is not committed yet.

    Its document is made by the same config under that run key, and has to be made first.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    """
    status = check_stream(config, ledger)
    pending = status.stream.pending if status else None
    return pending.run_key if pending and pending.run_key < str(config.run_key) else None


def check_night(
    config: ReleaseConfig, ledger: Ledger, *, planned: bool = False, beside: bool = True
) -> None:
    """Raise as `check_stream`, for other settings than the stream was opened with, or too early.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    planned : bool
        True for a night of a time to come, which need not be due.
    beside : bool
        True if it may be paid beside another stream, or beside releases.
    """
    status = check_stream(config, ledger, beside=beside)
    if status is not None and not status.tonight:
        _open(config, public_of(config, None, status).query(), ledger, status)
    if not planned:
        check_due(config, status)


def read_past(
    night: NightContext,
    sums: Sums | None,
    present: Arrivals,
    entered: Sequence[int | None],
) -> tuple[tuple[ClassHistory, ...], tuple[PrivateSums, ...]]:
    """Return the history and the private sums of each class, up to the last night committed.

    Parameters
    ----------
    night : NightContext
        Facts that the steps of the night share.
    sums : Sums or None
        Content of the file of the last committed night, None where that is lost.
    present : Arrivals
        Privacy units that were read; without `sums` all there are.
    entered : sequence of int or None
        Number of the night on which each of them entered; None for no night.

    Raises
    ------
    LedgerError
        The private sums are lost, and so are some of the images, or a person has others now.
    OutputError
        The nights before were drawn with other noise.
    """
    ledger, status, mechanism = night.ledger, night.status, night.mechanism
    if status.last is None:
        settings = read_settings(json.loads(status.stream.query))
        before = followed_means(settings, ledger)
        histories = tuple(
            ClassHistory(label, name, mechanism, (), before.get(name))
            for label, name, *_ in settings.classes
        )
        return histories, tuple(empty_state(mechanism.space.dim) for _ in histories)
    if sums is not None:
        return with_night(sums.histories, night_document(status.last.result)), sums.after
    histories = read_histories(night_documents(ledger, status.stream))
    if not none_missing(ledger, status.stream, present.units, present.labels):
        raise LedgerError(
            f"the private sums of the stream {status.stream.name!r} are not in "
            f"{sums_folder(ledger, status.stream)}, and images of earlier nights are not there to "
            "make them again, or have other masks, or persons have others now; put that folder, or "
            "those images and masks, back, or open a stream of another name, which is charged"
        )
    return histories, tuple(
        _made_again(history, points, np.array([entered[i] or 0 for i in owner]))
        for history, points, owner in zip(histories, present.points, present.owners, strict=True)
    )


def _made_again(history: ClassHistory, points: Any, entered: NDArray[np.int64]) -> PrivateSums:
    """Return the private sums of a class, of privacy units that entered on these nights."""
    stream, private = history.stream, empty_state(history.stream.space.dim)
    for night in history.nights:
        units = points[entered == night.night]
        total = night.units if stream.plan.secret else None
        before = history.nights[: night.night - 1]
        private = add_units(stream, before, private, units, total=total)
    return private


DECODED = (
    "decoding: if another version of a decoder reads other pixels from a file, its image enters "
    "again and counts twice; the stream ends if a decoder reads other pixels than before from the "
    "test files of covdp; other changes of a decoder are not noticed"
)
LOST = (
    "equality: if the saved sums of earlier nights are lost, a night is refused if images, classes "
    "or persons have changed, and the refusal shows that"
)
ENTERED = (
    "copies: each copy counts as one more image, but for each image that was removed, one later "
    "copy does not enter, and a person who submits images may see that from the number that "
    "entered; "
    f"{DECODED}; {LOST}; {REFUSAL}"
)
KNOWN = (
    "who entered: later images of a person who entered before are left out, and a person who "
    "submits such images may see that from the number that entered; "
    f"{LOST}; {REFUSAL}"
)
"""Facts that may be seen from outside besides, of images and of persons."""


def make_night(
    public: PublicFacts,
    account: StreamAccount,
    reservation: NightState,
    classes: Sequence[ClassHistory],
) -> NightDocument:
    """Return the document of the last night of some histories.

    Parameters
    ----------
    public : PublicFacts
        Public facts of the night.
    account : StreamAccount
        Stream, as it was opened.
    reservation : NightState
        Night that was reserved.
    classes : sequence of ClassHistory
        Nights of each class, the last one included.
    """
    stream = classes[0].stream
    plan, stated = stream.plan, stands_on(stream)
    if plan.secret:
        stated["n_tonight"] = classes[0].nights[-1].units
    return NightDocument.model_construct(
        title=public.config.title,
        settings=public.settings(),
        night=reservation.night,
        horizon=plan.horizon,
        coefficient_norm=column_norm(plan.horizon),
        **stated,
        classes=[_class_part(public, history) for history in classes],
        statement=_statement(public, account, reservation, classes),
        account=account_part(account.account, account.cost),
    )


def _class_part(public: PublicFacts, history: ClassHistory) -> NightClassPart:
    """Return the entry of a class."""
    stream, night, budget = history.stream, history.nights[-1], public.config.cost
    past = split_epochs(stream, history.nights)
    estimate = cumulative_mean(stream, history.nights)
    row = night_row(stream, night)
    if stream.plan.secret:
        row["n_sd"] = past.n_sd if past.opened else past.waiting_sd
        if past.opened and past.holds:
            row |= {"held": past.waiting, "held_sd": past.waiting_sd}
    rhos = [cost.rho for cost in row["costs"]]
    if history.before is not None:
        if night.night == 1:
            row["before"] = estimate_part(history.before)
        both = [history.before] if estimate is None else [history.before, estimate]
        row["joined"] = estimate_part(join_streams(stream, *both))
    return NightClassPart.model_construct(
        label=history.label,
        class_name=history.name,
        n=past.count if past.opened else past.waiting,
        mu=budget.mu if isinstance(budget, GDP) else None,
        rho=math.fsum(rhos) if rhos and None not in rhos else None,
        point=None if estimate is None else estimate.point,
        coordinates=None if estimate is None else estimate.offset,
        no_point=_why_not(history) if estimate is None else None,
        predicted_error=None if estimate is None else math.sqrt(estimate.covariance.trace()),
        certainty=mean_certainty(stream, history.nights),
        windows=[part for nights in WINDOWS if (part := _window(history, nights))],
        **row,
    )


def _why_not(history: ClassHistory) -> str:
    """Say why there is no mean yet, and when there will be one."""
    plan, past = history.stream.plan, split_epochs(history.stream, history.nights)
    return (
        f"no mean yet: the {size_in_words(past.waiting, past.waiting_sd)} so far are held back "
        f"until there are {plan.first_mean}, as a mean of fewer would be noise, and each pays once"
    )


def _window(history: ClassHistory, nights: int) -> WindowPart | None:
    """Return the mean of the last nights, and the exact variances of its noise along `axes`.

    With A the rows of `axes`, the covariance of `coordinates` is Aᵀ·diag(`variances`)·A. Where
    labels are secret it is not, by the noise of the counts, and is stated besides.
    """
    window = window_mean(history.stream, history.nights, nights)
    if window is None:
        return None
    into = history.stream.frame.to_axes
    secret = history.stream.plan.secret
    noise: dict[str, Any] = {"n_sd": window.n_sd, "covariance": window.covariance} if secret else {}
    return WindowPart.model_construct(
        nights=nights,
        first=window.first,
        last=window.last,
        n=window.n,
        **noise,
        point=window.point,
        coordinates=window.offset,
        variances=(into.T @ window.covariance @ into).diagonal(),
    )


def _statement(
    public: PublicFacts,
    account: StreamAccount,
    reservation: NightState,
    classes: Sequence[ClassHistory],
) -> list[tuple[str, str]]:
    """Return titles and texts: what an image or person pays, for how long, and what is public."""
    config, unit = public.config, public.config.unit
    last = {history.name: history.nights[-1] for history in classes}
    horizon, left = account.horizon, account.horizon - reservation.night
    follows = _stream_of(config).follows
    paid = f"by {follows!r}, which it follows" if follows else "on its first night"
    statement = privacy_statement(
        config.promise,
        n_by_class={} if config.secret else {name: night.n_so_far for name, night in last.items()},
        total=classes[0].nights[-1].n_so_far if config.secret else None,
        classes_per_person=config.classes_per_person,
        group=config.images_per_person,
        composition=f"each {unit} enters on one night and pays once, for that night and all "
        f"later ones up to night {horizon}; the budgets of releases outside of this stream about "
        f"the same {unit}s add up",
        public=(
            f"on which night each {unit} entered",
            *(("the list of classes",) if config.secret else ()),
            "horizon, opening, descriptor, domain and plan",
        ),
        hardened=config.hardened,
        not_covered=(ENTERED if config.classes_per_person is None else KNOWN,),
        output="all nights of this stream, for ever",
        so_far=True,
    )
    entered = ", ".join(f"{name}: {night.units}" for name, night in last.items())
    if config.secret:
        entered = f"{classes[0].nights[-1].units}, of all classes together"
    return [
        *statement.items(),
        (f"{unit.capitalize()}s of this night (exact)", entered),
        ("Horizon", f"night {reservation.night} of {horizon}; {left} left"),
        ("Charged to the account", f"{account.cost}, once for all nights of the stream, {paid}"),
    ]
