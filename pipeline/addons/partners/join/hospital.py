"""One hospital in a joint release, from its images to the files that it publishes.

    approve: terms, images ─► charged, pinned ─► approval, in the ledger
    take part: approval ─► the same images ─► steps with all others ─► commit ─► publish

A study is paid when it is approved, whole, before any word leaves. Killed at any step and started
again, it says the same again and draws no noise anew. Who has committed takes part again until all
have.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from pydantic import Field

from covdp.addons.partners.join.account import keep
from covdp.addons.partners.join.schema import JointDocument, JointPart
from covdp.addons.partners.join.shares import MOST_RECORDS, JointError, check_room
from covdp.addons.partners.join.site import START_ANEW, Exchange, Site
from covdp.addons.partners.join.study import Study, read_study
from covdp.arrays import UNCHECKED
from covdp.errors import ConfigError, LedgerError
from covdp.jobs import publish
from covdp.ledger import Ledger, Reservation, StoredRelease, open_ledger
from covdp.ledger.keys import fingerprint
from covdp.ledger.records import now
from covdp.mean.plan import STEP_NAMES
from covdp.publish import check_account, check_folder, ledger_address, write_document
from covdp.publish.redact import PUBLIC, draw_error, redact_errors, silence
from covdp.publish.release import PublicFacts, charge, class_parts, document_of, read_images
from covdp.schema import ClassPart, as_json, serialised
from covdp.store import StoredImages, temporary_store
from covdp.toml import Record

Paid: TypeAlias = Reservation | StoredRelease
Opened: TypeAlias = tuple[StoredImages, PublicFacts, Path, dict[str, Any]]
"""Images of a hospital: stored, public facts, their place, and what is pinned: query, contents."""
Engine: TypeAlias = Callable[[str, Mapping[str, str]], None]
"""Function of the digest of a study, and of the ledger of each hospital: it runs the study."""
LAST_BITS = 1e-6  # largest share by which the leading one's numbers differ: machines do


class Approval(Record):
    """Approval of a study by one hospital, as its ledger keeps it.

    Attributes
    ----------
    study : Study
        Terms.
    hospital : str
        Name of this hospital.
    config : Path
        Its config.
    out : Path
        Folder of the results.
    pinned : dict
        Query of the charge, and digests of the images.
    identity : str
        Identity of the charge in the ledger.
    """

    study: Study
    hospital: str
    config: Path
    out: Path
    pinned: dict[str, Any] = Field(repr=False)
    identity: str = Field(repr=False)

    def standing(self, ledger: Ledger) -> tuple[Paid | None, int]:
        """Return the charge, None once it is given back, and the number of shares that were drawn.

        Parameters
        ----------
        ledger : Ledger
            Ledger that was charged.
        """
        with ledger.transaction(write=False) as tx:
            paid = tx.release(self.identity) if self.identity in tx.state.releases else None
            kept = tx.state.words.get(self.identity, {})
            return paid, sum(entry.startswith("share") for entry in kept)

    def state(self, ledger: Ledger) -> str:
        """Return how far the study is here, in words.

        Parameters
        ----------
        ledger : Ledger
            Ledger that was charged.
        """
        paid, steps = self.standing(ledger)
        if isinstance(paid, StoredRelease):
            return "released"
        every = len(STEP_NAMES) * len(self.study.classes)
        begun = f"under way, step {steps} of {every}" if steps else "approved, waits for its job"
        return begun if paid else "ended: its charge is not in the ledger"


def approvals(ledger: Ledger, study: str = "", hospital: str = "") -> list[Approval]:
    """Return the approvals that a ledger keeps, in order.

    Parameters
    ----------
    ledger : Ledger
        Ledger of the hospital.
    study : str
        Digest of the terms; "" for all studies.
    hospital : str
        Name of the hospital; "" for all.
    """
    with ledger.transaction(write=False) as tx:
        kept = [words["approval"] for words in tx.state.words.values() if "approval" in words]
    found = list[Approval]()
    for content in kept:
        with suppress(ValueError):  # of another version, which takes no part
            found.append(Approval.model_validate_json(bytes.fromhex(content)))
    return [x for x in found if study in ("", x.study.digest) and hospital in ("", x.hospital)]


def approve(
    study: Study, hospital: str, config: Path, ledger: Ledger, out: Path
) -> tuple[Approval, int, bool]:
    """Check the terms against card and account, pay, and write the approval.

    Parameters
    ----------
    study : Study
        Terms.
    hospital : str
        Name of this hospital.
    config : Path
        Its config, as of `covdp release`.
    ledger : Ledger
        Ledger that pays.
    out : Path
        Folder of the results.

    Returns
    -------
    Approval
        Approval as it was written.
    int
        Number of records of this hospital.
    bool
        True if it was charged now.

    Raises
    ------
    ConfigError, DatasetError
        When config, card or images are not of these terms: nothing is charged.
    LedgerError
        When the account cannot pay, or these terms were approved with other images.
    """
    with _opened(study, hospital, config, ledger, out) as (_, public, images, pinned):
        check_room(public.total or 0, 0.0)
        paid = charge(public.config, ledger, images, **pinned, once=study.name)
    places = {"config": config.resolve(), "out": out.resolve(), "identity": paid.identity}
    mine = Approval(study=study, hospital=hospital, pinned=pinned, **places)
    keep(ledger, paid.identity, "approval", lambda: mine.model_dump_json().encode(), anew=True)
    return mine, public.total or 0, paid.number > ledger.rows


def withdraw(ledger: Ledger, mine: Approval) -> None:
    """Withdraw a study before its first word, and give its charge back.

    Parameters
    ----------
    ledger : Ledger
        Ledger that was charged.
    mine : Approval
        Approval of the study.

    Raises
    ------
    LedgerError
        When a word has left.
    """
    with ledger.transaction() as tx:
        left = "share 1" in tx.state.words.get(mine.identity, {})
        if left or mine.identity not in tx.state.releases:
            raise LedgerError("a word of the study has left, so it stays charged; let it go on")
        tx.write({"kind": "withdrawal", "at": now(), "identity": mine.identity})


def simulate(
    study: Study, configs: Sequence[Path], address: str | None, out: Path, run: Engine
) -> dict[str, Path]:
    """Approve a study for all hospitals on this machine, and run it; withdraw where no word leaves.

    All have the key of the one ledger: asked for again, the same study goes on.

    Parameters
    ----------
    study : Study
        Terms; their fingerprints are left aside.
    configs : sequence of Path
        Config of each hospital: that of its name, else the one in its place.
    address : str or None
        Address of the ledger that pays for all, as of `covdp.publish.ledger_address`.
    out : Path
        Folder of the results, with a folder for each hospital.
    run : Engine
        Engine on this machine.

    Returns
    -------
    dict of str to Path
        Committed document of each hospital.

    Raises
    ------
    ConfigError
        When the configs are not as many as the hospitals.
    """
    if len(configs) != len(study.hospitals):
        wanted = f"--simulate takes {len(study.hospitals)} configs, one a hospital"
        raise ConfigError(f"{wanted}, found {len(configs)}")
    stems = {config.stem: config for config in configs}
    by_name = stems.keys() == {*study.hospitals}
    named = stems if by_name else dict(zip(study.hospitals, configs, strict=True))
    place, charged = ledger_address(address), list[Approval]()
    ledger = open_ledger(place)
    keys = dict.fromkeys(study.hospitals, own_fingerprint(ledger))
    study = study.model_copy(update={"fingerprints": keys})
    try:
        for name in study.hospitals:
            mine, _, fresh = approve(study, name, named[name], ledger, out / name)
            charged += [mine] * fresh
        run(study.digest, dict.fromkeys(study.hospitals, str(place)))
    except BaseException:
        if not any(mine.standing(ledger)[1] for mine in approvals(ledger, study.digest)):
            for mine in charged:
                withdraw(ledger, mine)
        raise
    stored = ((name, approved(ledger, study.digest, name)[1]) for name in study.hospitals)
    every = {name: paid for name, paid in stored if isinstance(paid, StoredRelease)}
    return {name: write_document(paid.result, out / name) for name, paid in every.items()}


def states(address: str | None) -> list[tuple[str, str, str]]:
    """Return name, hospital and state of each study that was approved with a ledger.

    Parameters
    ----------
    address : str or None
        Address of the ledger, as of `covdp.publish.ledger_address`.
    """
    ledger = open_ledger(ledger_address(address))
    return [(mine.study.name, mine.hospital, mine.state(ledger)) for mine in approvals(ledger)]


def own_study(path: Path, address: str | None) -> tuple[Study, Ledger, str]:
    """Return the terms in a file, the ledger, and the hospital that has its key.

    Parameters
    ----------
    path : Path
        File of the terms, in TOML.
    address : str or None
        Address of the ledger, as of `covdp.publish.ledger_address`.
    """
    terms, ledger = read_study(path), open_ledger(ledger_address(address))
    return terms, ledger, terms.hospital_of(own_fingerprint(ledger))


def own_fingerprint(ledger: Ledger) -> str:
    """Return the fingerprint of the key of a ledger.

    Parameters
    ----------
    ledger : Ledger
        Ledger of a hospital.
    """
    return fingerprint(ledger.signing_key().public_key().public_bytes_raw())


def take_part(study: str, hospital: str, exchange: Exchange) -> Path:
    """Take part in a study that was approved, until its release is published here.

    The ledger is where COVDP_LEDGER says, else the user's own; it has the approval, with the paths
    of config and results. It may be called again after any break, at no cost.

    Parameters
    ----------
    study : str
        Digest of the terms, 64 hexadecimal digits.
    hospital : str
        Name of this hospital in the terms.
    exchange : Exchange
        Way to the others; what fails there it raises as `JointError`.

    Returns
    -------
    Path
        Committed document, in the folder of the results.

    Raises
    ------
    CovdpError
        One line: what stands against it. Nothing more was sent.
    """
    ledger = open_ledger(ledger_address())
    mine, paid = approved(ledger, study, hospital)
    with _opened(mine.study, hospital, mine.config, ledger, mine.out) as opened:
        work = partial(_release, mine, paid, opened, ledger, exchange)
        content = redact_errors(work, draw_error(), public=(*PUBLIC, JointError))
    document = write_document(content, mine.out)
    publish(document, mine.out)
    return document


def approved(ledger: Ledger, study: str, hospital: str) -> tuple[Approval, Paid]:
    """Return the approval of a study, and its charge.

    Parameters
    ----------
    ledger : Ledger
        Ledger of the hospital.
    study : str
        Digest of the terms.
    hospital : str
        Name of the hospital.

    Raises
    ------
    LedgerError
        When it is not approved, or its charge was given back.
    """
    for mine in approvals(ledger, study, hospital):
        if mine.study.digest == study and (paid := mine.standing(ledger)[0]):
            return mine, paid
    found = f"{hospital} has not approved the study {study[:12]} in {ledger.database.place}"
    raise LedgerError(f"{found}, or has withdrawn it; `covdp join approve STUDY.toml` does")


@contextmanager
def _opened(study: Study, name: str, config: Path, ledger: Ledger, out: Path) -> Iterator[Opened]:
    """Give the images of a hospital; raise where the charge that stands is of others."""
    settings = study.config(name, config)
    check_account(settings, ledger)
    check_folder(out)
    images = settings.fetch_images(None)
    ledger.check_declared(settings.population, settings.declared(images))
    key = f"{settings.store_key(images)}-{settings.run_key}"  # which no other hospital waits for
    with silence(), temporary_store(key, None) as place:
        rehearsed = settings.drawn_with(study.noise(MOST_RECORDS))
        stored, public, contents = read_images(rehearsed, ledger, images, place, None)
        domain = public.domain
        if {domain.height, domain.width, domain.depth or study.size} != {study.size}:
            raise ConfigError(f"{settings.file}: its images do not have size = {study.size}")
        query = {**json.loads(public.query()), "joint": [study.digest, name]}
        pinned = {"query": json.dumps(query, sort_keys=True), "contents": contents}
        known = approvals(ledger, study.digest, name)
        if any(before.standing(ledger)[0] and before.pinned != pinned for before in known):
            way = "put those back, or agree on a new study"
            raise LedgerError(f"approved with other images or settings, which are pinned; {way}")
        yield stored, public, images, pinned


def _release(mine: Approval, paid: Paid, opened: Opened, ledger: Ledger, way: Exchange) -> bytes:
    """Return the committed document of the release, made in step with all others."""
    study, name, (stored, public, *_) = mine.study, mine.hospital, opened
    site = Site(name, study, ledger.signing_key(), way, partial(keep, ledger, mine.identity))
    site.begin()
    total = site.count(public.total or 0)
    source = public.config.drawn_with(study.noise(total, site))
    public = replace(public, config=source, total=total)
    parts = map(as_json, class_parts(stored, public))
    own = json.dumps([*parts], sort_keys=True, allow_nan=False).encode()
    rows = _led(site.end(own), own)
    if isinstance(paid, StoredRelease):
        return paid.result
    document, m, t = document_of(rows, public, paid), len(study.hospitals), study.colluders
    keys = [(each, study.fingerprints[each]) for each in study.hospitals]
    joint: dict[str, Any] = {"study": study.digest, "hospital": name, "hospitals": keys}
    joint |= {"colluders": t, "noise": (m / (m - t)) ** 0.5, "opened": site.digest.hex()}
    statement = {**dict(document.statement), **study.promises(document.settings)}
    made = {**dict(document), "statement": [*statement.items()], "joint": JointPart(**joint)}
    fields = document.model_fields_set | {"joint"}
    return ledger.commit(paid, serialised(JointDocument.model_construct(fields, **made))).result


def _led(content: bytes, own: bytes) -> list[ClassPart]:
    """Return the classes as the leading hospital has them: the same but for last bits.

    This hospital signs them, so all that is stated is compared.
    """
    with suppress(ValueError, TypeError, AttributeError):
        if _is_alike(led := json.loads(content), json.loads(own)):
            return [ClassPart.model_validate(row, context=UNCHECKED) for row in led]
    raise JointError(f"the leading hospital made other means of the same totals; {START_ANEW}")


def _is_alike(led: Any, own: Any) -> bool:
    """Return whether values of JSON are the same, but for last bits of numbers and arrays."""
    if isinstance(own, dict):
        return led.keys() == own.keys() and all(_is_alike(led[key], own[key]) for key in own)
    if isinstance(own, str | bool | None):
        return bool(led == own)
    if isinstance(own, list) and any(isinstance(each, dict | str) for each in own):
        return len(led) == len(own) and all(map(_is_alike, led, own))
    stated, made = np.asarray(led, np.float64), np.asarray(own, np.float64)
    near = LAST_BITS * float(np.abs(made).max(initial=0.0))
    return stated.shape == made.shape and np.allclose(stated, made, rtol=LAST_BITS, atol=near)
