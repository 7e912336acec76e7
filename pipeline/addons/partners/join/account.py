"""Joint releases in the account: shares that the ledger knows, and studies that were withdrawn.

A study is charged as any release is. The ledger knows the digest of each share before it leaves. So
a journal that is lost, or older than the ledger, is noticed before a second share of a step leaves.
What is withdrawn before the first of them (`covdp.addons.partners.join.hospital.withdraw`) is given
back: no word of it was said.
"""

from dataclasses import replace

from covdp.errors import LedgerError
from covdp.ledger import Ledger
from covdp.ledger.journal import Event
from covdp.ledger.records import HistoryLine, now
from covdp.ledger.state import State, pay


def seal_share(ledger: Ledger, identity: str, step: int, digest: str) -> None:
    """Have the ledger know a share before it leaves.

    Parameters
    ----------
    ledger : Ledger
        Ledger that was charged.
    identity : str
        Identity of its charge.
    step : int
        Number of the step.
    digest : str
        Digest of the share.

    Raises
    ------
    LedgerError
        When the step had another share, or the study was withdrawn.
    """
    with ledger.transaction() as tx:
        if identity not in tx.state.releases:
            raise LedgerError("the study was withdrawn, or its ledger restored; agree on a new one")
        known = tx.state.words.get(identity, {})
        if known.get(step, digest) != digest:
            raise LedgerError(
                f"step {step} had another share, so the journal of the study is lost or older than "
                "the ledger; noise is never drawn again: put the newer one back, or end the study"
            )
        if step not in known:
            share = {"kind": "share", "identity": identity, "step": step, "digest": digest}
            tx.write({**share, "at": now()})


def add_share(state: State, event: Event, number: int) -> None:
    """Add that a share was drawn.

    Parameters
    ----------
    state : State
        State of the ledger.
    event : Event
        Event of the share.
    number : int
        Row of the event in the journal.
    """
    known = state.words.get(event["identity"], {})
    state.words[event["identity"]] = {**known, event["step"]: event["digest"]}


def add_withdrawal(state: State, event: Event, number: int) -> None:
    """Add that a study was withdrawn: its account is as if it had not been charged.

    Parameters
    ----------
    state : State
        State of the ledger.
    event : Event
        Event of the withdrawal.
    number : int
        Row of the event in the journal.
    """
    paid = state.releases.pop(event["identity"])
    name, account = paid.population, state.accounts[paid.population]
    text = f"withdrew run {paid.run_key!r} of {paid.name} before its first word; given back"
    state.entries[number] = HistoryLine(event["at"], name, "note", text)
    state.entries[paid.number] = replace(state.entries[paid.number], kind="note", cost=None)
    for content, rows in [*state.contents.items()]:
        if left := tuple(row for row in rows if row != paid.number):
            state.contents[content] = left
        else:
            del state.contents[content]
    if all(stream.population != name for stream in state.streams.values()):  # which declare, too
        others = (other.declared for other in state.releases.values())
        for mac in {*paid.declared}.difference(*others):
            del state.declared[mac]
    state.accounts[name] = replace(account, costs=(), group=1, unfinished=account.unfinished - 1)
    for line in state.entries.values():
        if line.population == name and line.cost:
            pay(state, name, line.cost, line.group, unfinished=0)
