"""Joint releases in the account: what was drawn and opened, and studies that were withdrawn.

A study is charged as any release is. The ledger keeps a share before it leaves, and a digest of
each total before it is used. What it kept first stays: a step that is done again, after a break,
has the same share, under new masks, so noise is never drawn again. A ledger that was restored is
noticed as ever, and its charge pays for no other draw. A share has the noise of one hospital alone:
a ledger is for its owner alone. What is withdrawn before the first share
(`covdp.addons.partners.join.hospital.withdraw`) is given back: no word of it was said.
"""

from collections.abc import Callable
from dataclasses import replace

from covdp.errors import LedgerError
from covdp.ledger import Ledger
from covdp.ledger.journal import Event
from covdp.ledger.records import HistoryLine, now
from covdp.ledger.state import State, pay


def keep(
    ledger: Ledger, identity: str, entry: str, make: Callable[[], bytes], *, anew: bool = False
) -> bytes:
    """Return what the ledger kept first of an entry: what is made now, where it had nothing.

    Parameters
    ----------
    ledger : Ledger
        Ledger that was charged.
    identity : str
        Identity of the charge.
    entry : str
        Name of the entry: "approval", "total", "share 1", "opened 1", "share 2" and so on.
    make : callable
        Function that returns the content, called if it is wanted.
    anew : bool
        True to keep it in place of what was kept before.

    Raises
    ------
    LedgerError
        When the study was withdrawn.
    """
    with ledger.transaction() as tx:
        if identity not in tx.state.releases:
            raise LedgerError("the study was withdrawn, or its ledger restored; agree on a new one")
        kept = tx.state.words.get(identity, {})
        if anew or entry not in kept:
            event = {"kind": "word", "at": now(), "identity": identity, "entry": entry}
            kept = tx.write({**event, "content": make().hex()}).state.words[identity]
        return bytes.fromhex(kept[entry])


def add_word(state: State, event: Event, number: int) -> None:
    """Add that an entry of a study was kept.

    Parameters
    ----------
    state : State
        State of the ledger.
    event : Event
        Event of the entry.
    number : int
        Row of the event in the journal.
    """
    kept = state.words.get(event["identity"], {})
    state.words[event["identity"]] = {**kept, event["entry"]: event["content"]}


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
    state.words.pop(event["identity"], None)
    paid = state.releases.pop(event["identity"])
    name, account = paid.population, state.accounts[paid.population]
    text = f"withdrew run {paid.run_key!r} of {paid.name} before its first word; given back"
    state.entries[number] = HistoryLine(event["at"], name, "note", text)
    state.entries[paid.number] = replace(state.entries[paid.number], kind="note", cost=None)
    for content, rows in [*state.contents.items()]:
        state.contents[content] = tuple(row for row in rows if row != paid.number)
        if not state.contents[content]:
            del state.contents[content]
    if all(stream.population != name for stream in state.streams.values()):  # which declare, too
        others = (other.declared for other in state.releases.values())
        for mac in {*paid.declared}.difference(*others):
            del state.declared[mac]
    state.accounts[name] = replace(account, costs=(), group=1, unfinished=account.unfinished - 1)
    for line in state.entries.values():
        if line.population == name and line.cost:
            pay(state, name, line.cost, line.group, unfinished=0)
