"""A release: pay, draw, commit. What comes out is what may leave; nothing else does.

    rehearse ─► read, describe ─► digest ─► reserve ─► private means ─► commit ─► bytes
    black image   once, stored              charged    hardened noise   stored

The order is the safety: the budget is charged before noise exists, and only bytes that the ledger
has stored are returned. Asked again for the same release, the ledger answers and nothing is drawn.
What may be stated of what goes wrong is in ``redact.py``.

Its images are read once. Unless a store is named, their descriptors are stored for the owner alone,
and go with the release. Killed before, they stay, and the next start goes on with them.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from covdp import __version__
from covdp.arrays import LARGEST, FloatArray
from covdp.datasets import (
    ImageSource,
    pixel_rules,
)
from covdp.datasets.cards import LocalFilesCard
from covdp.descriptors import (
    DESCRIPTORS,
    DescriptorDomain,
    describe,
    domain_of,
    require_descriptor_for,
)
from covdp.errors import EmptyError, LedgerError
from covdp.geometry import MANIFOLDS, Manifold
from covdp.ledger import Account, Ledger, Reservation, StoredRelease
from covdp.mean import Batches, NoisyMoments, Release, in_memory_if_few, mean, person_records
from covdp.mechanisms.noise import CollectiveNoise
from covdp.privacy import GDP, Budget, main_parameter, privacy_statement
from covdp.publish.config import Expect, ReleaseConfig
from covdp.publish.document import cost_rows
from covdp.publish.redact import (
    draw_error,
    images_error,
    redact_errors,
    redact_images,
    silence,
)
from covdp.schema import (
    AccountPart,
    ClassPart,
    ReleaseDocument,
    SettingsPart,
    as_json,
    read_settings,
    serialised,
)
from covdp.store import Form, Place, StoredImages, fill, make_plan, temporary_store

REFUSAL = "the refusal “not all images are as the card says”, which names no image"
EQUALITY = (
    "equality: a person who repeats a run learns whether images and classes are still the same"
)
IMAGE_COPIES = "a copy of an image, which counts once more"
PERSON_COPIES = "copies of images: each counts in the mean of its person"
"""Facts that may be seen from outside besides, as the statement says."""


@dataclass(frozen=True)
class PublicFacts:
    """Facts that everybody may know before anything is drawn.

    Attributes
    ----------
    config : ReleaseConfig
        Settings of the release.
    domain : DescriptorDomain
        Public bound on the descriptors.
    classes : tuple of tuple
        Label, name and number of privacy units of each class; None for a number that is secret.
    excluded : tuple of int or None
        Number of files of each class that are left out, where the card says that is public; with
        secret labels of all of them together.
    total : int or None
        Number of privacy units of all classes together, if labels are secret.
    """

    config: ReleaseConfig
    domain: DescriptorDomain
    classes: tuple[tuple[int, str, int | None], ...]
    excluded: tuple[int, ...] | None = None
    total: int | None = None

    def query(self) -> str:
        """Return what, with the data and the run key, tells one release from another.

        It is what the law of the result depends on: the title, and where the images were read
        from, are not. Of a stream it is what all its nights have in common.
        """
        named = as_json(self.settings())
        if self.config.stream is not None:
            named |= self.config.stream.query(self.classes, self.config.card)
        return json.dumps({**named, "title": None, "dataset": None}, sort_keys=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of records of each class; with secret labels that of all together."""
        if self.total is not None:
            return (self.total,)
        return tuple(n for _, _, n in self.classes if n is not None)

    @property
    def manifold(self) -> Manifold:
        """Manifold of the means."""
        return MANIFOLDS[self.config.manifold](k=DESCRIPTORS[self.config.descriptor].k)

    @property
    def form(self) -> Form | None:
        """Function of the images of a privacy unit to one record; None where each is one."""
        if self.config.classes_per_person is None:
            return None
        return partial(person_records, manifold=self.manifold)

    @property
    def left_out(self) -> dict[str, str]:
        """Statement on files that are left out; empty unless that is public."""
        if self.excluded is None:
            return {}
        if self.total is not None:
            return {"Files left out": f"{sum(self.excluded)}"}
        pairs = zip(self.classes, self.excluded, strict=True)
        return {"Files left out of each class": ", ".join(f"{c[1]}: {count}" for c, count in pairs)}

    def settings(self) -> SettingsPart:
        """Return the settings, as they stand in the document."""
        return read_settings(
            {
                **self.config.model_dump(mode="json"),
                "dataset": self.config.card.name,  # no path of this machine
                "unit": self.config.unit,
                **{key: value for key, value in self.domain.images.items() if value},
                **pixel_rules(self.config.card),
                "classes": self.classes,
                **({} if self.total is None else {"total": self.total}),
                "version": __version__,
            }
        )


def make_document(
    stored: StoredImages, public: PublicFacts, reservation: Reservation
) -> ReleaseDocument:
    """Return the document: draw the private mean of each class.

    Parameters
    ----------
    stored : StoredImages
        Descriptors of the images.
    public : PublicFacts
        Facts that everybody may know.
    reservation : Reservation
        Charge in the account, under which the document is committed.
    """
    return document_of(class_parts(stored, public), public, reservation)


def class_parts(stored: StoredImages, public: PublicFacts) -> list[ClassPart]:
    """Return the private mean of each class.

    Parameters
    ----------
    stored : StoredImages
        Descriptors of the images.
    public : PublicFacts
        Facts that everybody may know.
    """
    rows = []
    for label, name, _ in public.classes:
        records = stored.records(label, public.form)
        rows.append(private_part(in_memory_if_few(records), public, label, name))
    return rows


def document_of(
    rows: list[ClassPart], public: PublicFacts, reservation: Reservation
) -> ReleaseDocument:
    """Return the document of private means.

    Parameters
    ----------
    rows : list of ClassPart
        Private mean of each class.
    public : PublicFacts
        Facts that everybody may know.
    reservation : Reservation
        Charge in the account, under which the document is committed.
    """
    config, left_out = public.config, public.left_out
    copies = IMAGE_COPIES if config.classes_per_person is None else PERSON_COPIES
    statement = privacy_statement(
        config.promise,
        n_by_class={name: n for _, name, n in public.classes if n is not None},
        total=public.total,
        classes_per_person=config.classes_per_person,
        group=config.images_per_person,
        public=(
            "class sizes" if public.total is None else "the list of classes",
            "descriptor, domain and plan",
            *(name.lower() for name in left_out),
        ),
        hardened=config.hardened,
        not_covered=(EQUALITY, copies, REFUSAL),
    )
    charged = ("Charged to the account", _charged(reservation, public))
    optional: dict[str, Any] = {}
    if public.excluded is not None:
        optional["excluded"] = list(public.excluded)
    return ReleaseDocument.model_construct(
        title=config.title,
        settings=public.settings(),
        classes=rows,
        statement=[*statement.items(), *left_out.items(), charged],
        account=account_part(reservation.account, reservation.cost),
        **optional,
    )


def _charged(reservation: Reservation, public: PublicFacts) -> str:
    """Return what the account paid, and why it is not what one image is promised."""
    images, classes = public.config.images_per_person, public.config.classes_per_person
    cost = reservation.cost
    if cost != public.config.charge:
        return f"{cost}, as it was when this release was first asked for"
    if classes is not None:
        together = "" if classes == 1 else f"; {public.config.cost} for each of {classes} classes"
        return f"{cost}: it protects people, and all images of one are one record{together}"
    if images is None:
        return f"{cost}, for one image, as images_per_person is not set"
    return f"{cost}: it protects people, so it pays for all images of one, at most {images}"


def account_part(account: Account, charged: Budget) -> AccountPart:
    """Return the account right after a charge, in the parameter of its definition.

    Parameters
    ----------
    account : Account
        Account after the charge.
    charged : Budget
        Budget that was charged.
    """
    spent, left, more = account.spent, account.left, account.lasts(account.costs[-1])
    return AccountPart.model_construct(
        definition=account.budget.name,
        charged=main_parameter(charged),
        total=main_parameter(account.budget),
        spent=main_parameter(spent) if spent else 0.0,
        left=main_parameter(left) if left else 0.0,
        releases=account.releases,
        releases_left=int(min(more, LARGEST)),
        delta=account.delta,
        images_per_person=account.group,
        epsilon_total=account.epsilon_budget,
        epsilon_spent=account.epsilon_spent,
        epsilon_left=account.epsilon_left,
    )


def observed_moments(drawn: Release) -> NoisyMoments | None:
    """Return what regions, tests and classifiers read of an adaptive mean, None of a single one.

    The base is that of a document: its coordinates, as the mean has.

    Parameters
    ----------
    drawn : Release
        Release of a class.
    """
    if not drawn.moments:
        return None
    moments, space = drawn.moments[0], drawn.space
    return replace(moments, base=space.log(space.origin, moments.base))


def private_part(points: Batches, public: PublicFacts, label: int, name: str) -> ClassPart:
    """Return the private mean of one class and what it cost.

    With secret labels that is paid once for all classes (``pipeline/mean/release.py``), and nothing
    here but what is noised depends on how many points there are.

    Parameters
    ----------
    points : Batches
        Records of the class, in chunks.
    public : PublicFacts
        Facts that everybody may know.
    label : int
        Label of the class.
    name : str
        Name of the class.
    """
    config = public.config
    source, cost = config.source, config.cost
    if isinstance(source, CollectiveNoise):
        cost = source.budget_of_total(cost)
    drawn = mean(
        points,
        cost,
        domain=public.domain,
        manifold=public.manifold,
        plan=config.plan,
        noise=source,
        labels=config.labels,
        total=public.total,
    )
    return class_part(drawn, config.cost, points.n, label, name, hardened=config.hardened)


def class_part(
    drawn: Release, cost: Budget, n: int | None, label: int, name: str, *, hardened: bool
) -> ClassPart:
    """Return the first mean of a release as a document has it.

    Parameters
    ----------
    drawn : Release
        Private mean of the class.
    cost : Budget
        Budget of the draw.
    n : int or None
        Number of records, which is stated only if it is public.
    label : int
        Label of the class.
    name : str
        Name of the class.
    hardened : bool
        True if the source of noise certifies ρ.
    """
    count = drawn.class_size
    rhos = drawn.rhos[0].tolist()
    error = drawn.expected_error if drawn.predicted_error is None else drawn.predicted_error[0]
    return ClassPart.model_construct(
        label=label,
        class_name=name,
        n=n or 0 if count is None else int(count.shown[0]),
        n_sd=0.0 if count is None else float(count.sd[0]),
        point=drawn.point,
        coordinates=drawn.coordinates,
        manifold_name=drawn.manifold.name,
        observed=observed_moments(drawn),
        mu=cost.mu if isinstance(cost, GDP) else None,
        predicted_error=None if error is None else float(error),
        rho=math.fsum(rhos) if hardened else None,
        costs=cost_rows(drawn.steps, rhos),
    )


def release_once(
    config: ReleaseConfig,
    ledger: Ledger,
    root: Path | None,
    store: Place | None = None,
    *,
    again: bool = True,
    beside: bool = True,
    expect: Expect | None = None,
) -> bytes:
    """Pay for a release, draw it and commit it, or return it if that has been done before.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release, as `load_release` returns them.
    ledger : Ledger
        The account of ``config.population``.
    root : Path or None
        The data root.
    store : Place, optional
        Store where descriptors are found again; a private one that goes when left out.
    again : bool
        True to pay once more where the run of this name was paid with other images or settings.
    beside : bool
        True to pay beside a stream, or beside this run under another name.
    expect : callable, optional
        Function that raises where `public_sizes` say that nothing will be usable, before images
        are read.

    Returns
    -------
    bytes
        The committed document, JSON in UTF-8.

    Raises
    ------
    LedgerError
        Out of budget, no such ledger or population, or paid before and not `again`: nothing was
        drawn.
    DatasetError, ConfigError
        The images cannot be read, or do not fit the settings: nothing was charged.
    PrivacyError
        The private part failed; why is withheld, as it might depend on the images.
    """
    path = config.fetch_images(root)
    ledger.check_declared(config.population, config.declared(path))
    with silence(), temporary_store(config.store_key(path), store) as place:
        stored, public, contents = read_images(config, ledger, path, place, expect)
        query, once = public.query(), None if again else config.name
        reservation = charge(config, ledger, path, query, contents, once=once, beside=beside)
        if isinstance(reservation, StoredRelease):
            return reservation.result
        content = redact_errors(
            lambda: serialised(make_document(stored, public, reservation)), draw_error()
        )
        try:
            return ledger.commit(reservation, content).result
        except LedgerError as error:
            raise LedgerError(
                f"{error}; it is charged: asked for again with --run-key {config.run_key}, and no "
                "other, it costs nothing"
            ) from error


def charge(
    config: ReleaseConfig,
    ledger: Ledger,
    images: Path,
    query: str,
    contents: Mapping[str, str],
    *,
    once: str | None,
    beside: bool = True,
) -> Reservation | StoredRelease:
    """Charge a release, once; see `Ledger.reserve`.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    images : Path
        Folder or file of the images.
    query : str
        Query of the release.
    contents : mapping of str to str
        Digests of the images.
    once : str or None
        Name of the release where no other run of it is paid beside.
    beside : bool
        True to pay beside a stream, or beside this run under another name.

    Returns
    -------
    Reservation or StoredRelease
        Charge, or the release that is stored.
    """
    return ledger.reserve(
        config.population,
        query,
        str(config.run_key),
        contents=contents,
        cost=config.cost,
        group=config.group,
        classes=config.classes_per_person or 1,
        declared=config.declared(images),
        once=once,
        beside=beside,
    )


def check_account(
    config: ReleaseConfig, ledger: Ledger, *, planned: bool = False, beside: bool = True
) -> None:
    """Raise as `Ledger.check_charge` where the account is not to pay a release.

    Of a stream also where it was opened with other settings, or a night is not due, unless it is
    `planned` for a time to come.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    planned : bool
        True if the release is planned for a time to come.
    beside : bool
        True if it may be paid beside a stream or another name.
    """
    if config.stream is not None:
        config.stream.check_account(config, ledger, planned=planned, beside=beside)
        return
    ledger.check_charge(config.population, config.charge, str(config.run_key), beside=beside)


def released_since(config: ReleaseConfig, ledger: Ledger, planned: datetime) -> bool:
    """Return whether a run was released by the config of this name, and paid at `planned` or later.

    Before a run that was planned for that time, only a clock that was set back makes it true, or a
    release by hand. With the same images asking again is free, yet with others it is paid again. A
    night of a stream is one for ever, whenever it was committed.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger whose account pays.
    planned : datetime
        Time that the run is planned for.
    """
    if config.stream is not None:
        return config.stream.is_stored(config, ledger)
    return ledger.stored_since(config.population, config.name, str(config.run_key), planned)


def read_images(
    config: ReleaseConfig, ledger: Ledger, path: Path, place: Place, expect: Expect | None
) -> tuple[StoredImages, PublicFacts, dict[str, str]]:
    """Read the images of a release, and rehearse its draw on black ones.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : Ledger
        Ledger under whose key persons and contents are known.
    path : Path
        Folder or file of the images.
    place : Place
        Store of descriptors.
    expect : callable or None
        Function that raises where public sizes say that nothing will be usable.

    Returns
    -------
    StoredImages
        Descriptors of the images.
    PublicFacts
        Facts that everybody may know.
    dict of str to str
        Digest of each class, for the ledger alone.
    """
    source = config.open_images(path, ledger.person_key())
    if source is None:
        where = f", split {'+'.join(config.splits)}," if config.splits else ""
        raise EmptyError(
            f"{config.dataset}{where} has no image; correct path, pattern or splits. Nothing was "
            "charged"
        )
    public = _public(config, source)
    if expect is not None:
        expect(public.sizes)
    _rehearse(source, public)
    stored = redact_images(config.file, described, source, config, place)
    return stored, public, redact_images(config.file, _contents, ledger, stored, public)


def _contents(ledger: Ledger, stored: StoredImages, public: PublicFacts) -> dict[str, str]:
    """Return digests of the records, in whatever order: of all of them together, and of each class.

    With secret labels nothing that the ledger refuses may depend on them, such as two classes that
    are equal: it knows the records without their classes, and all that a release is of. Whatever
    labels are, it knows all records together, so the same images have one budget either way.
    """
    of_class = {
        f"class {name}": ledger.digest(stored.contents(label)) for label, name, _ in public.classes
    }
    if public.total is None and len(of_class) == 1:  # which is all of them
        return of_class
    if public.total is not None:
        of_class = {"each class": ledger.digest(digest.encode() for digest in of_class.values())}
    return {"all classes": ledger.digest(stored.contents(None)), **of_class}


def described(source: ImageSource, config: ReleaseConfig, place: Place) -> StoredImages:
    """Read and describe the images, once; how many a person has is not shown.

    Parameters
    ----------
    source : ImageSource
        Images that were opened.
    config : ReleaseConfig
        Settings of the release.
    place : Place
        Store of descriptors.

    Returns
    -------
    StoredImages
        Descriptors of the images.
    """
    plan = make_plan(source, config.splits, descriptor=config.descriptor, eta=config.eta)
    return fill(plan, place, shown=config.classes_per_person is None).stored


def _rehearse(source: ImageSource, public: PublicFacts) -> None:
    """Draw once for black images, as many as the smallest class has: what fails then is public.

    With secret labels for one of them.
    """
    fewest = min((n for _, _, n in public.classes if n is not None), default=1)
    black = Copies(black_point(source, public.config), fewest)
    serialised(private_part(black, public, 0, ""))


def black_point(source: ImageSource, config: ReleaseConfig) -> FloatArray:
    """Return the descriptor of a black image of a source's shape, (1, k, k).

    Parameters
    ----------
    source : ImageSource
        Images that were opened.
    config : ReleaseConfig
        Settings of the release.
    """
    black = np.zeros((1, *source.shape), dtype=np.uint8)
    return describe(black, config.descriptor, config.eta)


@dataclass(frozen=True)
class Copies:
    """One point n times, in chunks: as many as a class has need not fit in memory.

    Attributes
    ----------
    point : array, shape (1, k, k)
        Descriptor.
    n : int
        Number of copies.
    """

    point: FloatArray
    n: int

    def __iter__(self) -> Iterator[FloatArray]:
        for start in range(0, self.n, 4096):
            yield np.repeat(self.point, min(4096, self.n - start), axis=0)


def public_sizes(config: ReleaseConfig, source: ImageSource) -> tuple[int, ...]:
    """Return how many records each class has; with secret labels how many all have together.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    source : ImageSource
        Images that were opened.
    """
    if not config.secret:
        return tuple(source.units(config.splits))
    people = source.persons(config.splits)
    return (sum(source.units(config.splits)) if people is None else len(np.unique(people)),)


def _public(config: ReleaseConfig, source: ImageSource) -> PublicFacts:
    sizes, secret = public_sizes(config, source), config.secret
    excluded = source.excluded(config.splits)
    if not secret:
        config.check_sizes(dict(zip(source.classes, sizes, strict=True)))
    return PublicFacts(
        config,
        public_domain(config, source),
        tuple(
            (label, name, None if secret else sizes[label])
            for label, name in enumerate(source.classes)
        ),
        (sum(excluded),) if secret and excluded is not None else excluded,
        sizes[0] if secret else None,
    )


def public_domain(config: ReleaseConfig, source: ImageSource) -> DescriptorDomain:
    """Return `domain_for` a release; a size that the card leaves open may be that of one image.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    source : ImageSource
        Images that were opened.
    """
    find, card = _domain_finder(config, source), source.card
    if isinstance(card, LocalFilesCard) and card.size is None:
        return redact_errors(find, images_error(config.file))
    return find()


def domain_for(settings: ReleaseConfig | SettingsPart, source: ImageSource) -> DescriptorDomain:
    """Return what is publicly known of the descriptors of images; raise where none is of them.

    Parameters
    ----------
    settings : ReleaseConfig or SettingsPart
        Settings of a release, or of a document.
    source : ImageSource
        Images that were opened.
    """
    return _domain_finder(settings, source)()


def _domain_finder(
    settings: ReleaseConfig | SettingsPart, source: ImageSource
) -> Callable[[], DescriptorDomain]:
    """Return what finds the domain of images whose channels the descriptor takes."""
    card = source.card
    require_descriptor_for(settings.descriptor, channels=card.channels, volumes=card.volumes)
    return partial(
        domain_of,
        settings.descriptor,
        source.shape,
        eta=settings.eta,
        manifold=settings.manifold,
        masked=source.masks is not None,
    )
