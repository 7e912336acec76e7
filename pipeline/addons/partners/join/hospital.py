"""One hospital in a joint release, from its images to the files that it publishes.

    approve: terms, images ─► charged, pinned ─► approval, beside the ledger
    take part: approval ─► the same images ─► steps with all others ─► commit ─► publish

A study is paid when it is approved, whole, before any word leaves. Killed at any step and started
again, it goes on from its journal and draws no noise anew. Who has committed takes part again until
all have.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from covdp.addons.partners.join.account import seal_share, withdraw_charge
from covdp.addons.partners.join.journal import open_journal
from covdp.addons.partners.join.schema import JointDocument, JointPart
from covdp.addons.partners.join.shares import MOST_RECORDS, JointError, Rehearsal
from covdp.addons.partners.join.site import START_ANEW, Exchange, Site
from covdp.addons.partners.join.study import Study
from covdp.arrays import UNCHECKED
from covdp.errors import ConfigError, LedgerError
from covdp.files import write_whole
from covdp.jobs import publish
from covdp.ledger import Ledger, Reservation, StoredRelease, open_ledger
from covdp.ledger.keys import fingerprint
from covdp.mean.plan import STEP_NAMES
from covdp.publish import check_account, check_folder, ledger_address, write_document
from covdp.publish.config import ReleaseConfig
from covdp.publish.redact import PUBLIC, draw_error, redact_errors, silence
from covdp.publish.release import PublicFacts, charge, class_parts, document_of, read_images
from covdp.schema import ClassPart, as_json, serialised
from covdp.store import StoredImages, temporary_store
from covdp.toml import Record

LAST_BITS = 1e-6
"""Largest distance of a coordinate from that of the leading hospital: doubles of machines differ.
"""


class Approval(Record):
    """Approval of a study by one hospital, as it stands beside the ledger, for its owner alone.

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

    def standing(self, ledger: Ledger) -> tuple[Reservation | StoredRelease | None, int]:
        """Return the charge, None once it is given back, and the number of shares that were drawn.

        Parameters
        ----------
        ledger : Ledger
            Ledger that was charged.
        """
        with ledger.transaction(write=False) as tx:
            paid = tx.release(self.identity) if self.identity in tx.state.releases else None
            return paid, len(tx.state.words.get(self.identity, ()))

    def document(self, ledger: Ledger) -> Path:
        """Return the path of the committed document, written again where it is gone.

        Parameters
        ----------
        ledger : Ledger
            Ledger that holds the release.
        """
        paid, _ = self.standing(ledger)
        assert isinstance(paid, StoredRelease)
        return write_document(paid.result, self.out)

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


def approval_path(ledger: Ledger, study: str, hospital: str, ending: str = "json") -> Path:
    """Return the path of an approval, or of its journal.

    Parameters
    ----------
    ledger : Ledger
        Ledger of the hospital.
    study : str
        Digest of the terms; "*" of all studies.
    hospital : str
        Name of the hospital; "*" of all.
    ending : str
        Ending of the file's name.
    """
    return ledger.beside(f"join-{study[:16]}-{hospital}.{ending}")


def approvals(ledger: Ledger, study: str = "*", hospital: str = "*") -> list[Approval]:
    """Return the approvals beside a ledger, in order of their names.

    Parameters
    ----------
    ledger : Ledger
        Ledger of the hospital.
    study : str
        Digest of the terms; "*" of all studies.
    hospital : str
        Name of the hospital; "*" of all.

    Raises
    ------
    LedgerError
        When one is damaged.
    """
    pattern, found = approval_path(ledger, study, hospital), list[Approval]()
    for path in sorted(pattern.parent.glob(pattern.name)):
        try:
            found.append(Approval.model_validate_json(path.read_bytes()))
        except (OSError, ValueError) as error:
            raise LedgerError(f"{path} is damaged; approve the study again, at no cost") from error
    return found


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
    settings = study.config(hospital, config)
    check_account(settings, ledger)
    check_folder(out)
    images = settings.fetch_images(None)
    ledger.check_declared(settings.population, settings.declared(images))
    with _opened(study, hospital, settings, ledger, images) as (_, public, pinned):
        for before in approvals(ledger, study.digest, hospital):
            if before.standing(ledger)[0] and before.pinned != pinned:
                raise LedgerError(OTHER_IMAGES)
        paid = charge(settings, ledger, images, **pinned, once=settings.name)
    fields = {"study": study, "hospital": hospital, "pinned": pinned, "identity": paid.identity}
    places = {"config": config.resolve(), "out": out.resolve()}
    mine = Approval.model_validate(fields | places)
    path = approval_path(ledger, study.digest, hospital)
    write_whole(path, mine.model_dump_json(), mode=0o600)
    return mine, public.total or 0, paid.number > ledger.rows


OTHER_IMAGES = (
    "these terms were approved with other images or settings, which are pinned; put those back, or "
    "agree on a new study"
)


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
    withdraw_charge(ledger, mine.identity)
    for ending in ("json", "jsonl"):
        approval_path(ledger, mine.study.digest, mine.hospital, ending).unlink(missing_ok=True)


@contextmanager
def simulated(
    study: Study, configs: Mapping[str, Path], ledger: Ledger, out: Path
) -> Iterator[list[Approval]]:
    """Give the approvals of all hospitals on one machine, which end where no word leaves.

    All have the key of the one ledger: asked for again, the same study goes on.

    Parameters
    ----------
    study : Study
        Terms; their fingerprints are left aside.
    configs : mapping of str to Path
        Config of each hospital.
    ledger : Ledger
        Ledger that pays for all.
    out : Path
        Folder of the results, with a folder for each hospital.
    """
    keys = dict.fromkeys(study.hospitals, own_fingerprint(ledger))
    terms, made, new = study.model_copy(update={"fingerprints": keys}), [], list[Approval]()
    try:
        for name in study.hospitals:
            mine, _, paid = approve(terms, name, configs[name], ledger, out / name)
            made.append(mine)
            new += [mine] * paid
        yield made
    except BaseException:
        if not any(mine.standing(ledger)[1] for mine in made):
            for mine in new:
                withdraw(ledger, mine)
        raise


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

    The ledger is where COVDP_LEDGER says, else the user's own; beside it stands the approval, with
    the paths of config, images and results. It may be called again after any break, at no cost.

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
    mine = next(iter(approvals(ledger, study, hospital)), None)
    if mine is None or mine.study.digest != study or not (paid := mine.standing(ledger)[0]):
        raise LedgerError(
            f"{hospital} has not approved the study {study[:12]} in {ledger.database.place}, or "
            "has withdrawn it; `covdp join approve STUDY.toml --config FILE` does"
        )
    settings = mine.study.config(hospital, mine.config)
    images = settings.fetch_images(None)
    with _opened(mine.study, hospital, settings, ledger, images) as (stored, public, pinned):
        if pinned != mine.pinned:
            raise LedgerError(OTHER_IMAGES)
        work = partial(_release, mine, stored, public, paid, ledger, exchange)
        content = redact_errors(work, draw_error(), public=(*PUBLIC, JointError))
        if isinstance(paid, Reservation):
            content = ledger.commit(paid, content).result
    document = write_document(content, mine.out)
    publish(document, mine.out)
    return document


@contextmanager
def _opened(
    study: Study, hospital: str, settings: ReleaseConfig, ledger: Ledger, images: Path
) -> Iterator[tuple[StoredImages, PublicFacts, dict[str, Any]]]:
    """Give what is stored and public of the images, and what is pinned: query and contents."""
    key = f"{settings.store_key(images)}-{settings.run_key}"  # which no other hospital waits for
    with silence(), temporary_store(key, None) as place:
        rehearsed = settings.drawn_with(study.noise(MOST_RECORDS, Rehearsal()))
        stored, public, contents = read_images(rehearsed, ledger, images, place, None)
        domain = public.domain
        if {domain.height, domain.width, domain.depth or study.size} != {study.size}:
            raise ConfigError(f"{settings.file}: its images do not have size = {study.size}")
        query = {**json.loads(public.query()), "joint": [study.digest, hospital]}
        yield stored, public, {"query": json.dumps(query, sort_keys=True), "contents": contents}


def _release(
    mine: Approval,
    stored: StoredImages,
    public: PublicFacts,
    paid: Reservation | StoredRelease,
    ledger: Ledger,
    exchange: Exchange,
) -> bytes:
    """Return the document of the release, made in step with all others."""
    study, name = mine.study, mine.hospital
    journal = open_journal(approval_path(ledger, study.digest, name, "jsonl"))
    seal = partial(seal_share, ledger, mine.identity)
    site = Site(name, study, ledger.signing_key(), exchange, journal, seal)
    site.begin()
    total = site.count(public.total or 0)
    source = public.config.drawn_with(study.noise(total, site))
    own = class_parts(stored, replace(public, config=source, total=total))
    values = json.dumps([as_json(row) for row in own], sort_keys=True, allow_nan=False)
    rows = _led(site.end(values.encode()), own)
    if isinstance(paid, StoredRelease):
        return paid.result
    document = document_of(rows, replace(public, total=total), paid)
    promises, m, t = study.promises(document.settings), len(study.hospitals), study.colluders
    keys = [(each, study.fingerprints[each]) for each in study.hospitals]
    joint: dict[str, Any] = {"study": study.digest, "hospital": name, "hospitals": keys}
    joint |= {"colluders": t, "noise": math.sqrt(m / (m - t)), "opened": site.digest.hex()}
    said = {"joint": JointPart.model_construct(**joint, promises=[*promises.items()])}
    made: dict[str, Any] = {x: getattr(document, x) for x in document.model_fields_set}
    made |= {"statement": [*{**dict(document.statement), **promises}.items()], **said}
    return serialised(JointDocument.model_construct(**made))


def _led(content: bytes, own: Sequence[ClassPart]) -> list[ClassPart]:
    """Return the classes as the leading hospital has them: the same but for last bits."""
    with suppress(ValueError, TypeError, AttributeError):
        rows = [ClassPart.model_validate(row, context=UNCHECKED) for row in json.loads(content)]
        led, here = ([row.coordinates for row in each] for each in (rows, own))
        if np.allclose(led, here, rtol=LAST_BITS, atol=LAST_BITS):
            return rows
    raise JointError(f"the leading hospital made other means of the same totals; {START_ANEW}")
