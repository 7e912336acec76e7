"""The stream that another one follows, and the documents of the nights of a stream."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress

from covdp.addons.nights.account import StreamAccount
from covdp.addons.nights.config import check_decoding
from covdp.addons.nights.ledger import stored_nights, stream_named
from covdp.addons.nights.schema import NightDocument
from covdp.addons.nights.stream import CumulativeMean, cumulative_mean, join_streams
from covdp.addons.nights.transcript import read_histories
from covdp.errors import LedgerError, MismatchError
from covdp.ledger import Ledger
from covdp.schema import SAME_MEANS, Document, SettingsPart, read_ours, read_settings

SHARED = {*SAME_MEANS, "classes"}
"""Settings that a stream shares with the one that it follows, whose mean goes on in it; besides
them it shares what makes images of files."""


def check_follows(query: str, ledger: Ledger) -> None:
    """Raise unless the stream that a new one follows is of the same means, and can be read.

    Parameters
    ----------
    query : str
        Query of the new stream.
    ledger : Ledger
        Ledger with the stream before.
    """
    spec = json.loads(query)
    before = stream_before(read_settings(spec), ledger)
    if before is None:
        return
    others = json.loads(before.query)
    shown, before_shown = spec.get("shown", {}), others.get("shown", {})
    check_decoding(shown, before_shown, before.name)
    now, then = spec | shown, others | before_shown
    for key in sorted({*SHARED, *shown, *before_shown}):
        if now.get(key) != then.get(key):
            raise MismatchError(
                f"a stream goes on with the means of the one that it follows, so {key} must be "
                f"{then.get(key)!r} as in {before.name!r}, found {now.get(key)!r}; set it back, "
                "or leave follows out and pay for a stream of its own"
            )
    followed_means(read_settings(spec), ledger)  # before anything is opened


def followed_means(settings: SettingsPart, ledger: Ledger) -> Mapping[str, CumulativeMean]:
    """Return the mean of each class of the streams before, where there is one.

    Parameters
    ----------
    settings : SettingsPart
        Settings of the stream that follows.
    ledger : Ledger
        Ledger with the stream before.
    """
    before = stream_before(settings, ledger)
    if before is None:
        return {}
    means = {}
    for history in read_histories(night_documents(ledger, before)):
        own = cumulative_mean(history.stream, history.nights)
        both = [mean for mean in (history.before, own) if mean is not None]
        if both:
            means[history.name] = join_streams(history.stream, *both)
    return means


def stream_before(settings: SettingsPart, ledger: Ledger) -> StreamAccount | None:
    """Return the stream that one of these settings follows, None where it follows none.

    Parameters
    ----------
    settings : SettingsPart
        Settings of the stream that follows.
    ledger : Ledger
        Ledger with the stream before.
    """
    follows = settings.stream and settings.stream.follows
    if not follows:
        return None
    stream = stream_named(ledger, settings.population, follows)
    if stream is None:
        raise LedgerError(
            f"{settings.population!r} has no stream {follows!r} to follow; correct "
            "follows, or leave it out and pay for a stream of its own"
        )
    return stream


def night_documents(ledger: Ledger, account: StreamAccount) -> Iterator[NightDocument]:
    """Yield the documents of the committed nights of a stream, in order.

    Parameters
    ----------
    ledger : Ledger
        Ledger with the nights.
    account : StreamAccount
        Stream, as it was opened.
    """
    return (night_document(night.result) for night in stored_nights(ledger, account))


def night_document(content: bytes) -> NightDocument:
    """Return the document that a night committed, or raise `LedgerError` where it is no such.

    Parameters
    ----------
    content : bytes
        Committed bytes of the night.
    """
    if isinstance(document := read_committed(content), NightDocument):
        return document
    raise LedgerError(
        "a night of this stream was not committed by this version of covdp; go on with the one "
        "that did, or open a stream of another name, which is charged"
    )


def read_committed(content: bytes) -> Document | None:
    """Return the document of a release of ours; None where the bytes are something else.

    Parameters
    ----------
    content : bytes
        Bytes that the ledger gave back.
    """
    with suppress(ValueError, RecursionError):
        return read_ours(json.loads(content))
    return None
