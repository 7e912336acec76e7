"""A night of a stream: who is new, claim, draw, commit. Only committed bytes come out.

    new                                                       reserved            stored
    read, describe ─► new units ─► private sums ─► reserve ─► draw ─► commit ─► bytes
    once, stored      by digest    in a file       claimed    noise

**What is there.** A night takes up the privacy units that have not entered the stream yet, whatever
else is in the folder: images that entered on an earlier night are left out, and so are all images
of a person who did. How many of them are there is not said. Where nothing is new, or nothing is
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

**Its document** holds what the ledger commits of it, and no more:

    tonight's rows (``document.py``) ─┬► what later nights and every estimate are made from
                                      └► the mean so far, windows: post-processing of all rows
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets import ImageSource, find_card, may_be_empty, open_fetched
from pipeline.descriptors import describe
from pipeline.errors import CovdpError, EmptyError
from pipeline.inference import mean_certainty, size_in_words
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
from pipeline.privacy import GDP, privacy_statement
from pipeline.publish.arrivals import (
    Arrivals,
    Unread,
    arrivals,
    find_unread,
    no_arrivals,
    write_file_cache,
)
from pipeline.publish.config import ReleaseConfig
from pipeline.publish.document import ClassHistory, estimate_part, night_row, stands_on
from pipeline.publish.night_state import (
    check_due,
    check_follows,
    check_stream,
    last_sums,
    mechanism_of,
    public_of,
    read_past,
)
from pipeline.publish.redact import draw_error, redact_errors, redact_images, silence
from pipeline.publish.release import (
    Public,
    account_part,
    temporary_store,
)
from pipeline.publish.sums import Sums, forget_sums, read_sums, write_sums
from pipeline.schema import NightClassPart, NightDocument, WindowPart, serialised
from pipeline.store import Place, fill, make_plan
from pipeline.stream import (
    WINDOWS,
    Night,
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


@dataclass(frozen=True)
class NightContext:
    """What the steps of a night share.

    Attributes
    ----------
    ledger, account : Ledger, StreamAccount
        Who pays, and the stream that is charged.
    status : StreamStatus
        All that the night rests on: how far the stream is, as one transaction read it.
    public : Public
        Its numbers of privacy units are not known yet.
    mechanism : StreamMechanism
        What all classes stand on.
    source : ImageSource or None
        What is there; None where nothing does.
    """

    ledger: Ledger
    account: StreamAccount
    status: StreamStatus
    public: Public
    mechanism: StreamMechanism
    source: ImageSource | None


def release_night(
    config: ReleaseConfig, ledger: Ledger, root: Path | None, store: Place | None = None
) -> bytes:
    """Release the night of a config's run key, or return it if that has been done before.

    One before it that is not finished comes first: see `unfinished_night`. Parameters, errors and
    what is returned are those of `release_once`; a night that is stored is given back, whatever
    is there.
    """
    status = check_stream(config, ledger)
    check_due(config, status)
    if status and status.tonight:
        return status.tonight.result
    if status and status.state == "reserved":
        content = _resume(_context(config, ledger, None, status))
        if content is not None:
            return content
    path = config.fetch_images(root)
    with silence(), temporary_store(config.store_key(path), store) as place:
        while True:
            night = _context(config, ledger, _open_images(config, ledger, path), status)
            content = _resume(night) or _begin(night, place)
            if content is not None:
                return content
            status = _read_status(config, ledger)


def count_waiting(config: ReleaseConfig, ledger: Ledger, root: Path | None) -> int:
    """Return how many privacy units are there that no night has taken up, as their files say.

    They are persons, or files that changed or are new: what the next night may take up, whose total
    it publishes. 0 where images are in one stream, which is not read for it.
    """
    status = check_stream(config, ledger)
    source = _open_images(config, ledger, config.fetch_images(root))
    if status is None or source is None or source.read.sequential:
        return 0
    if source.people is None:
        unread = find_unread(source, config.splits, ledger, status.stream, everything=False)
        return len(unread.stamps)
    rows = source.select(config.splits).rows
    persons = {bytes(person) for person in source.people[rows]}
    return entered_on(ledger, status.stream, tuple(persons)).count(None)


def _context(
    config: ReleaseConfig, ledger: Ledger, source: ImageSource | None, status: StreamStatus | None
) -> NightContext:
    """Return what the steps share; a stream that is new is opened, and paid.

    What can fail in public fails before that.
    """
    assert config.stream is not None
    public = public_of(config, source, status)
    query = public.query()
    if status is None:
        check_follows(query, ledger)
        _rehearse(public)
    account = open_stream(
        ledger,
        config.population,
        config.name,
        query,
        horizon=config.stream.horizon,
        cost=config.cost,
        group=config.group,
        classes=config.classes_per_person or 1,
        follows=config.stream.follows,
        known=None if status is None else status.stream,
    )
    now = status or _read_status(config, ledger)
    return NightContext(ledger, account, now, public, mechanism_of(query), source)


def _read_status(config: ReleaseConfig, ledger: Ledger) -> StreamStatus:
    """Return how far a stream is that was opened."""
    status = stream_status(ledger, config.population, config.name, str(config.run_key))
    assert status is not None
    return status


def _open_images(config: ReleaseConfig, ledger: Ledger, path: Path) -> ImageSource | None:
    """Return what is there, None where no image does."""
    card, key = may_be_empty(find_card(config.dataset)), ledger.person_key()
    try:
        source = redact_images(config.dataset, partial(open_fetched, card, path, key))
        source.select(config.splits)
    except EmptyError:
        return None
    config.check_unit(source)
    return source


def _rehearse(public: Public) -> None:
    """Release an opening and a night after it of black images: what fails then is public."""
    domain, config, mechanism = public.domain, public.config, mechanism_of(public.query())
    depth = () if domain.depth is None else (domain.depth,)
    colour = (3,) if find_card(config.dataset).channels == 3 else ()
    black = np.zeros((1, *depth, domain.height, domain.width, *colour), dtype=np.uint8)
    point = describe(black, config.descriptor, config.eta)
    history, private, secret = list[Night](), empty_state(mechanism.space.dim), config.secret
    plan = mechanism.plan
    enough = int(np.ceil(max((plan.opening, *plan.again)) / plan.mu)) + 1
    for units in (2 * enough if secret else enough, 1):
        points = np.repeat(point, units, axis=0)
        total = units if secret else None
        private = add_units(mechanism, history, private, points, total=total)
        history.append(draw_night(mechanism, history, private, units, noise=config.source))
        if plan.horizon == 1:
            return


def _resume(night: NightContext) -> bytes | None:
    """Return the document of a night that is stored, or reserved with its sums in their file."""
    status = night.status
    if status.tonight:
        return status.tonight.result
    if status.state == "new" or status.unfinished is None:
        return None
    held = status.unfinished
    sums = read_sums(night.ledger, status, night.mechanism, held.night, held.total)
    return None if sums is None else _finish(night, held, sums)


def _begin(night: NightContext, place: Place) -> bytes | None:
    """Return the document of a night, from what is there; None where another one overtook it."""
    try:
        unread, waiting, sums, held = _reserve(night, place)
    except CovdpError:  # what another night has done since may be the cause
        if _read_status(night.public.config, night.ledger).version == night.status.version:
            raise
        return None
    if held is None:
        return None
    if isinstance(held, StoredNight):
        return held.result
    content = _finish(night, held, sums)
    write_file_cache(night.ledger, night.account, unread.stamps_without(waiting))
    return content


def _reserve(
    night: NightContext, place: Place
) -> tuple[Unread, NDArray[np.bool_], Sums, NightReservation | StoredNight | None]:
    """Claim the privacy units of a night, and write its sums; all of it rests on its `status`.

    Returns
    -------
    tuple
        What was read, which images of it wait for a later night, the sums, and the night.
    """
    ledger, account, config = night.ledger, night.account, night.public.config
    status, source = night.status, night.source
    begun = status.unfinished.night if status.unfinished else None
    before = last_sums(ledger, status, night.mechanism)
    lost = bool(status.totals) and before is None
    unread = redact_images(
        config.dataset,
        partial(find_unread, source, config.splits, ledger, account, everything=lost),
    )
    present = redact_images(
        config.dataset, partial(_read_arrivals, night.public, unread.source, place)
    )
    present = present.sealed(ledger) if config.secret else present
    entered = entered_on(ledger, account, present.units)
    new = present.only([number == begun for number in entered])
    if begun is None:
        enough = new.together if config.secret else new.enough
        new = enough(config.smallest_class)
    sums = redact_images(
        config.dataset, partial(_add_tonight, night, before, present, entered, new)
    )
    held = reserve_night(
        ledger,
        account,
        str(config.run_key),
        units=new.units,
        labels=new.labels,
        version=status.version,
        prepare=lambda held: write_sums(ledger, status, held.total, sums),
    )
    late = {unit for unit, number in zip(present.units, entered, strict=True) if number is None}
    return unread, present.images_of(late.difference(new.units)), sums, held


def _read_arrivals(public: Public, source: ImageSource | None, place: Place) -> Arrivals:
    """Read and describe what is to be read."""
    config = public.config
    if source is None:
        return no_arrivals(len(public.classes), public.domain.k)
    plan = make_plan(source, config.splits, descriptor=config.descriptor, eta=config.eta)
    return arrivals(source, plan, fill(plan, place, shown=False).stored, public.form)


def _add_tonight(
    night: NightContext,
    before: Sums | None,
    present: Arrivals,
    entered: tuple[int | None, ...],
    new: Arrivals,
) -> Sums:
    """Return the sums of all nights with this one."""
    histories, private = read_past(
        night.ledger, night.status, night.mechanism, before, present, entered
    )
    total = len(new.units) if night.public.config.secret else None
    after = tuple(
        add_units(night.mechanism, history.nights, sums, points, total=total)
        for history, sums, points in zip(histories, private, new.points, strict=True)
    )
    units = new.counts if total is None else (total,) * len(after)
    return Sums(histories, after, units, before.rows if before else None)


def _finish(night: NightContext, held: NightReservation, sums: Sums) -> bytes:
    """Draw a night that is reserved, commit it, and return what the ledger stored."""
    content = redact_errors(lambda: serialised(_draw(night, held, sums)), draw_error())
    stored = commit_night(night.ledger, held, content)
    forget_sums(night.ledger, night.account, held.night)
    return stored.result


def _draw(night: NightContext, held: NightReservation, sums: Sums) -> NightDocument:
    """Return the document of a night: draw the noise of each class."""
    noise, histories = night.public.config.source, []
    for history, after, units in zip(sums.histories, sums.after, sums.units, strict=True):
        drawn = draw_night(night.mechanism, history.nights, after, units, noise=noise)
        histories.append(replace(history, nights=(*history.nights, drawn)))
    public = night.public
    if public.config.secret:
        classes = tuple((label, name, None) for label, name, _ in public.classes)
        public = replace(public, classes=classes, total=histories[0].nights[-1].n_so_far or None)
    else:
        pairs = zip(public.classes, sums.units, strict=True)
        public = replace(
            public, classes=tuple((label, name, units) for (label, name, _), units in pairs)
        )
    return make_night(public, night.account, held, histories)


ENTERED = (
    "equality of contents: an image that entered on an earlier night is left out, and of equal "
    "images all but the first, so whoever may submit images and sees how many entered can tell "
    "that; an image that cannot be read stops a night"
)
KNOWN = (
    "who entered: the later images of a person who entered on an earlier night are left out, so "
    "whoever may submit images of somebody and sees how many entered can tell that; an image that "
    "cannot be read stops a night"
)
"""What else may be seen from outside, of images and of persons."""


def make_night(
    public: Public, account: StreamAccount, held: NightReservation, classes: Sequence[ClassHistory]
) -> NightDocument:
    """Return the document of the last night of some histories."""
    stream = classes[0].stream
    plan, stated = stream.plan, stands_on(stream)
    if plan.secret:
        stated["n_tonight"] = classes[0].nights[-1].units
    return NightDocument.model_construct(
        title=public.config.title,
        settings=public.settings(),
        night=held.night,
        horizon=plan.horizon,
        coefficient_norm=column_norm(plan.horizon),
        **stated,
        classes=[_class_part(public, history) for history in classes],
        statement=_statement(public, account, held, classes),
        account=account_part(account.account, account.cost),
    )


def _class_part(public: Public, history: ClassHistory) -> NightClassPart:
    """Return what is said of a class."""
    stream, night, budget = history.stream, history.nights[-1], public.config.cost
    past = split_epochs(stream, history.nights)
    estimate = cumulative_mean(stream, history.nights)
    row = night_row(stream, night)
    if stream.plan.secret:
        row["n_sd"] = past.n_sd if past.opened else past.waiting_sd
    rhos = [cost.rho for cost in row["costs"]]
    if history.before is not None:
        if night.night == 1:
            row["before"] = estimate_part(history.before)
        both = [history.before] if estimate is None else [history.before, estimate]
        row["joined"] = estimate_part(join_streams(stream, *both))
    return NightClassPart.model_construct(
        label=history.label,
        class_name=history.name,
        n=past.n if past.opened else past.waiting,
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


def _why_not(found: ClassHistory) -> str:
    """Say why there is no mean yet, and when there will be one."""
    plan, past = found.stream.plan, split_epochs(found.stream, found.nights)
    return (
        f"no mean yet: the {size_in_words(past.waiting, past.waiting_sd)} so far are held back "
        f"until there are {plan.first_mean}, as a mean of fewer would be noise, and what they pay "
        "for it they could not pay again"
    )


def _window(found: ClassHistory, nights: int) -> WindowPart | None:
    """Return the mean of the last nights, and the exact variances of its noise along `axes`.

    With A the rows of `axes`, the covariance of `coordinates` is Aᵀ·diag(`variances`)·A. Where
    labels are secret it is not, by the noise of the counts, and is stated besides.
    """
    seen = window_mean(found.stream, found.nights, nights)
    if seen is None:
        return None
    into = found.stream.frame.to_axes
    secret = found.stream.plan.secret
    noise: dict[str, Any] = {"n_sd": seen.n_sd, "covariance": seen.covariance} if secret else {}
    return WindowPart.model_construct(
        nights=nights,
        first=seen.first,
        last=seen.last,
        n=seen.n,
        **noise,
        point=seen.point,
        coordinates=seen.offset,
        variances=(into.T @ seen.covariance @ into).diagonal(),
    )


def _statement(
    public: Public, account: StreamAccount, held: NightReservation, classes: Sequence[ClassHistory]
) -> list[tuple[str, str]]:
    """Return titles and texts: what one unit pays, for how long, and what everybody may know."""
    config, unit = public.config, public.config.unit
    last = {found.name: found.nights[-1] for found in classes}
    horizon, left = account.horizon, account.horizon - held.night
    follows = None if config.stream is None else config.stream.follows
    told = privacy_statement(
        config.promise,
        n_by_class={} if config.secret else {name: night.n_so_far for name, night in last.items()},
        total=classes[0].nights[-1].n_so_far if config.secret else None,
        classes_per_person=config.classes_per_person,
        group=config.images_per_person,
        composition=f"each {unit} enters on one night and pays there once, for that night and all "
        f"to come up to night {horizon} together; releases outside of this stream about the same "
        f"{unit}s add up",
        public=(
            f"on which night each {unit} entered",
            *(("the list of classes",) if config.secret else ()),
            "horizon, opening, descriptor, domain and plan",
        ),
        hardened=config.hardened,
        not_covered=(ENTERED if config.classes_per_person is None else KNOWN,),
        seen="all nights of this stream, for ever,",
        so_far=True,
    )
    entered = ", ".join(f"{name}: {night.units}" for name, night in last.items())
    if config.secret:
        entered = f"{classes[0].nights[-1].units}, of all classes together"
    return [
        *told.items(),
        (f"{unit.capitalize()}s of this night (exact)", entered),
        ("Horizon", f"night {held.night} of {horizon}; {left} left"),
        (
            "Charged to the account",
            f"{account.cost}, once, when the stream was opened; this night cost nothing more"
            + (f", nor did the stream, as it follows {follows!r}" if follows else ""),
        ),
    ]
