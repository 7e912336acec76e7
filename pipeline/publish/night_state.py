"""What a night goes on from: all nights before it, as released, and their private sums.

The sums come from the file of the last night. Where that was lost they are made again from the
images, if those of all nights are still present: each privacy unit counts on the night on which it
entered, so it is in one of them as before.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets import ImageSource, find_card, rendering_settings
from pipeline.descriptors import domain_of, require_descriptor_for
from pipeline.errors import ConfigError, LedgerError, MismatchError
from pipeline.ledger import (
    Ledger,
    StreamAccount,
    StreamStatus,
    none_missing,
    stored_nights,
    stream_named,
    stream_status,
)
from pipeline.publish.arrivals import Arrivals
from pipeline.publish.config import ReleaseConfig
from pipeline.publish.document import (
    ClassHistory,
    check_drawn,
    read_histories,
    read_night,
    read_stream,
)
from pipeline.publish.release import Public
from pipeline.publish.sums import Sums, read_sums, sums_folder
from pipeline.schema import SAME_MEANS, NightDocument, SettingsPart, read_ours, read_settings
from pipeline.stream import (
    CumulativeMean,
    PrivateSums,
    StreamMechanism,
    add_units,
    cumulative_mean,
    empty_state,
    join_streams,
)

SHARED = {*SAME_MEANS, "classes", "shown"}
"""What a stream has in common with the one that it follows, whose mean goes on in it."""

EARLY = timedelta(minutes=1)
"""How much before its planned time a run may start, as clocks of two machines differ."""


def mechanism_of(query: str) -> StreamMechanism:
    """Return what all classes of a stream stand on, from its query."""
    return read_stream(read_settings(json.loads(query)))


def check_stream(config: ReleaseConfig, ledger: Ledger) -> StreamStatus | None:
    """Return how far the stream of a config is, None before it was opened.

    What the ledger would refuse for want of budget or nights is refused at once: for use before
    images are read.

    Raises
    ------
    BudgetError
        The account cannot pay for a new stream, or the horizon is reached.
    LedgerError
        No account, a stream that has ended, or a run key that is no date.
    MismatchError
        The card makes other images of files than it did when the stream was opened.
    ConfigError
        The stream is new, and its opening too small.
    """
    assert config.stream is not None
    cost = None if config.stream.follows else config.charge
    status = stream_status(ledger, config.population, config.name, str(config.run_key), cost=cost)
    if status is None:
        config.check_new_stream()
    elif not status.tonight:
        _check_shown(config, json.loads(status.stream.query).get("shown", {}))
    return status


def check_due(config: ReleaseConfig, status: StreamStatus | None) -> None:
    """Raise unless a night that is new was planned for today (UTC) or before.

    Nights go forward, so one that is named by a later day would be the last until then. A run that
    is planned for midnight may start `EARLY`.
    """
    today = f"{datetime.now(UTC) + EARLY:%Y-%m-%d}"
    if (status is None or status.state == "new") and str(config.run_key) > today:
        raise ConfigError(
            f"a night is named by the day it was planned for, which has come, found run key "
            f"{config.run_key}, and today is {today} (UTC): no night could be released from now on "
            "until then; leave the run key out, or correct it or the clock"
        )


def _check_shown(config: ReleaseConfig, then: Mapping[str, Any]) -> None:
    """Raise unless the card makes images of files as it did when the stream was opened."""
    found = rendering_settings(find_card(config.dataset))
    for key in sorted(found.keys() | then.keys()):
        if found.get(key) != then.get(key):
            told = [
                f"{key} = {json.dumps(one[key])}" if key in one else f"no {key}"
                for one in (then, found)
            ]
            raise MismatchError(
                "all nights of a stream add up images that were made of files in one way: the card "
                f"of {config.name!r} had {told[0]} when it was opened, found {told[1]} in "
                f"{config.dataset}; set it back, or give the config another name: that is another "
                "stream, and is charged"
            )


def public_of(
    config: ReleaseConfig, source: ImageSource | None, status: StreamStatus | None
) -> Public:
    """Return what is known of the images, of a night without any from those before it."""
    card = find_card(config.dataset)
    require_descriptor_for(config.descriptor, channels=card.channels, volumes=card.volumes)
    classes = tuple((label, name, 0) for label, name in enumerate(card.classes))
    if source is not None:
        known = domain_of(
            config.descriptor,
            source.shape,
            eta=config.eta,
            manifold=config.manifold,
            masked=source.masks is not None,
        )
    elif status is not None:
        known = read_settings(json.loads(status.stream.query)).domain
    else:
        raise MismatchError(
            f"{config.dataset} has no image, and a stream begins on a night with images, which say "
            "their size; nothing was charged"
        )
    return Public(config, known, classes)


def unfinished_night(config: ReleaseConfig, ledger: Ledger) -> str | None:
    """Return the run key of a night before the config's that was claimed and is not committed yet.

    Its document is made by the same config under that run key, and has to be made first.
    """
    if config.stream is None:
        return None
    status = check_stream(config, ledger)
    held = status.unfinished if status else None
    return held.run_key if held and held.run_key < str(config.run_key) else None


def check_account(config: ReleaseConfig, ledger: Ledger, *, planned: bool = False) -> None:
    """Raise as `check_stream` or `Ledger.check_charge` where the account cannot pay for a release.

    And where a night is not due, unless it is `planned` for a time to come.
    """
    if config.stream is None:
        ledger.check_charge(config.population, config.charge, str(config.run_key))
        return
    status = check_stream(config, ledger)
    if not planned:
        check_due(config, status)


def read_past(
    ledger: Ledger,
    status: StreamStatus,
    mechanism: StreamMechanism,
    sums: Sums | None,
    present: Arrivals,
    entered: Sequence[int | None],
) -> tuple[tuple[ClassHistory, ...], tuple[PrivateSums, ...]]:
    """Return the history and the private sums of each class, up to the last night committed.

    Parameters
    ----------
    sums : Sums or None
        What `last_sums` gave.
    present, entered
        What was read, and on which night each privacy unit of it entered; all there is without
        `sums`.

    Raises
    ------
    LedgerError
        The private sums are lost, and so are some of the images.
    OutputError
        The nights before were drawn with other noise.
    """
    nights = len(status.digests)
    if not nights:
        settings = read_settings(json.loads(status.stream.query))
        before = _followed(settings, ledger)
        histories = tuple(
            ClassHistory(label, name, mechanism, (), before.get(name))
            for label, name, *_ in settings.classes
        )
        return histories, tuple(empty_state(mechanism.space.dim) for _ in histories)
    if sums is not None:
        assert status.last is not None
        document = _document(status.last.result)
        check_drawn(document, mechanism)
        histories = tuple(
            replace(found, nights=(*found.nights, read_night(document, row)))
            for found, row in zip(sums.histories, document.classes, strict=True)
        )
        return histories, sums.after
    histories = read_histories(_documents(ledger, status.stream))
    if not none_missing(ledger, status.stream, present.units, present.labels):
        raise LedgerError(
            f"the private sums of the stream {status.stream.name!r} are not in "
            f"{sums_folder(ledger, status.stream)}, and images of earlier nights are not there to "
            "make them again; put that folder or the images back, or open a stream of another "
            "name, which is charged"
        )
    return histories, tuple(
        _made_again(found, points, np.array([entered[i] or 0 for i in owner]))
        for found, points, owner in zip(histories, present.points, present.owners, strict=True)
    )


def last_sums(ledger: Ledger, status: StreamStatus, mechanism: StreamMechanism) -> Sums | None:
    """Return what the file of the last night that is committed holds, None where that is lost."""
    if not status.totals:
        return None
    return read_sums(ledger, status, mechanism, len(status.totals), status.totals[-1])


def _made_again(found: ClassHistory, points: Any, entered: NDArray[np.int64]) -> PrivateSums:
    """Return the private sums of a class, of privacy units that entered on these nights."""
    stream, private = found.stream, empty_state(found.stream.space.dim)
    for night in found.nights:
        units = points[entered == night.night]
        total = night.units if stream.plan.secret else None
        before = found.nights[: night.night - 1]
        private = add_units(stream, before, private, units, total=total)
    return private


def check_follows(query: str, ledger: Ledger) -> None:
    """Raise unless the stream that a new one follows is of the same means."""
    mine = json.loads(query)
    before = _stream_before(read_settings(mine), ledger)
    if before is None:
        return
    others = json.loads(before.query)
    for key in sorted(SHARED):
        if mine.get(key) != others.get(key):
            raise MismatchError(
                f"a stream goes on with the means of the one that it follows, so {key} must be "
                f"{others.get(key)!r} as in {before.name!r}, found {mine.get(key)!r}; set it back, "
                "or leave follows out and pay for a stream of its own"
            )


def _followed(settings: SettingsPart, ledger: Ledger) -> Mapping[str, CumulativeMean]:
    """Return the mean of each class of the streams before, where there is one."""
    before = _stream_before(settings, ledger)
    if before is None:
        return {}
    means = {}
    for found in read_histories(_documents(ledger, before)):
        own = cumulative_mean(found.stream, found.nights)
        both = [one for one in (found.before, own) if one is not None]
        if both:
            means[found.name] = join_streams(found.stream, *both)
    return means


def _stream_before(settings: SettingsPart, ledger: Ledger) -> StreamAccount | None:
    follows = settings.stream and settings.stream.follows
    if not follows:
        return None
    found = stream_named(ledger, settings.population, follows)
    if found is None:
        raise LedgerError(
            f"{settings.population!r} has no stream {follows!r} to follow; correct "
            "follows, or leave it out and pay for a stream of its own"
        )
    return found


def _documents(ledger: Ledger, account: StreamAccount) -> Iterator[NightDocument]:
    return (_document(night.result) for night in stored_nights(ledger, account))


def _document(content: bytes) -> NightDocument:
    with suppress(ValueError):
        if isinstance(document := read_ours(json.loads(content)), NightDocument):
            return document
    raise LedgerError(
        "a night of this stream was not committed by this version of covdp; go on with the one "
        "that did, or open a stream of another name, which is charged"
    )
