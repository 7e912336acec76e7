"""Declarations of a charge, and what may be charged beside it.

Two things are declared: the population that pays, and of which images, as texts that the caller
makes of the card and the folder (`covdp.publish.ReleaseConfig.declared`). The ledger keeps these
texts as HMACs, as folders may have the names of people. Nothing here depends on what images show.

====================================  ==========================================================
a charge for                          is refused
====================================  ==========================================================
images declared of another population always: people have one budget
a release, and the population has a   unless it is asked for in words: each image has paid there
stream
a release, and its run was paid for   unless it is asked for in words: the config was renamed
the same images under another name
a stream, and the population has      unless it is asked for in words, or it follows another,
another, or releases                  which has paid
====================================  ==========================================================

A stream that ended as its ledger was restored is none of these. Contents are compared by nobody
who pays, as that refusal would tell what images show: `Ledger.charges_of` and,
of streams, the add-on of nights tell their owner.
"""

from collections.abc import Iterable, Sequence

from covdp.errors import LedgerError
from covdp.ledger.journal import mac_of
from covdp.ledger.records import PaidRelease, PaidStream
from covdp.ledger.state import State
from covdp.privacy.definitions import Budget, equation


def declared_macs(key: bytes, declared: Iterable[str]) -> list[str]:
    """Return the HMACs under which declared images are known inside the ledger.

    Parameters
    ----------
    key : bytes
        Secret key of the ledger, 32 bytes.
    declared : iterable of str
        Texts that say of which images a release is, as in `Ledger.reserve`.
    """
    return [mac_of(key, f"declared\0{text}") for text in declared]


def check_declared(state: State, population: str, declared: Iterable[str]) -> None:
    """Raise `LedgerError` where declared images belong to another population.

    Parameters
    ----------
    state : State
        Ledger as it is.
    population : str
        The population that is to pay.
    declared : iterable of str
        The HMACs of `declared_macs`.
    """
    owners = [state.declared[mac] for mac in declared if mac in state.declared]
    if owner := next((name for name in owners if name != population), None):
        raise LedgerError(
            f"the images of this card and folder were charged under population {owner!r} before, "
            f"found {population!r}; people have one budget, so nothing was charged: set "
            f"population = {owner!r}, or name the card and folder of other images"
        )


def check_release_beside(
    state: State,
    population: str,
    name: str | None,
    run_key: str,
    declared: Sequence[str],
    charged: Budget,
) -> None:
    """Raise `LedgerError` where a release would be paid beside a stream, or under a new name.

    Parameters
    ----------
    state : State
        Ledger as it is.
    population, name, run_key : str
        The release.
    declared : sequence of str
        The HMACs of `declared_macs`.
    charged : Budget
        The charge, for the message.
    """
    if streams := streams_going(state, population):
        nights = ", ".join(f"{one.nights:,} of {one.horizon:,} nights" for one in streams)
        raise LedgerError(
            f"{population!r} has the {names_of('stream', streams)} ({nights}), in which its images "
            f"are paid for, and a release beside it would cost {equation(charged)} more; nothing "
            "was charged: go on with the stream's own config, or pay with --again"
        )
    others = [paid for paid in state.runs(population, run_key) if paid.name != name]
    if paid := next((one for one in others if not set(declared).isdisjoint(one.declared)), None):
        raise LedgerError(
            f"run {run_key} of {population!r} was paid for the same card and folder by the release "
            f"{paid.name!r}, and one named {name!r} would cost {equation(charged)} more; nothing "
            f"was charged: set name = {paid.name!r}, or pay with --again"
        )


def streams_going(state: State, population: str) -> list[PaidStream]:
    """Return the streams of a population that did not end, in the order of their opening.

    Parameters
    ----------
    state : State
        Ledger as it is.
    population : str
        Name of the population.
    """
    streams = (one for one in state.streams.values() if one.population == population)
    return [one for one in streams if not one.ended]


def names_of(what: str, paid: Sequence[PaidStream | PaidRelease]) -> str:
    """Return one or several of a kind by their names.

    Parameters
    ----------
    what : str
        Noun for one of them.
    paid : sequence of PaidStream or PaidRelease
        Charges, each with a name.
    """
    return f"{what}{'s' * (len(paid) != 1)} {', '.join(repr(one.name) for one in paid)}"
