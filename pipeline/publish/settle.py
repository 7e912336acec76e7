"""Settling a release: pay, draw, commit. What comes out is what may leave; nothing else does.

    rehearse ─► read, describe ─► digest ─► reserve ─► private means ─► commit ─► bytes
    black image   once, stored              charged    hardened noise   stored

The order is the safety: the budget is charged before noise exists, and only bytes that the ledger
has stored are returned. Asked again for the same release, the ledger answers and nothing is drawn.
What may be said of what goes wrong is in ``withheld.py``.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.datasets import ImageSource, fetch, find_card, open_fetched
from pipeline.descriptors import describe, domain_of, require_made_for
from pipeline.errors import ImageError, MismatchError
from pipeline.ledger import Ledger, Stored, stream_status
from pipeline.publish.config import ReleaseConfig, check_sizes
from pipeline.publish.document import Public, make_document, private_part, serialised
from pipeline.publish.kept import kept
from pipeline.publish.silence import silence
from pipeline.publish.withheld import unless_told, withheld, withheld_if_it_fails
from pipeline.store import Place, StoredImages, fill, make_plan


def settle(
    config: ReleaseConfig, ledger: Ledger, root: Path | None, store: Place | None = None
) -> bytes:
    """Pay for a release, draw it and commit it, or return it if that has been done before.

    Parameters
    ----------
    config : ReleaseConfig
        What to release; its run key is set.
    ledger : Ledger
        The account of ``config.population``.
    root : Path or None
        The data root.
    store : Place, optional
        Where descriptors are kept and found again; a private one that goes when left out.

    Returns
    -------
    bytes
        The committed document, JSON in UTF-8.

    Raises
    ------
    LedgerError
        Out of budget, or no such ledger or population: nothing was drawn.
    DatasetError, ConfigError
        The images cannot be read, or do not fit the settings: nothing was charged.
    PrivacyError
        The private part failed; why is withheld, as it might depend on the images.
    """
    config = config.of_card(find_card(config.dataset))
    path = fetched(config, root)
    with silence(), kept(config, path, store) as place:
        stored, public, contents = _read(config, ledger, path, place)
        held = ledger.reserve(
            config.population,
            public.query(),
            str(config.run_key),
            contents=contents,
            cost=config.cost,
            group=config.group,
            classes=config.classes_per_person or 1,
        )
        if isinstance(held, Stored):
            return held.result
        content = withheld_if_it_fails(lambda: serialised(make_document(stored, public, held)))
        return ledger.commit(held, content).result


def released_since(config: ReleaseConfig, ledger: Ledger, planned: datetime) -> bool:
    """Return whether a run was released by the config of this name, and paid at `planned` or later.

    Before a run that was planned for that time, only a clock that was set back makes it true, or a
    release by hand. With the same images asking again is free, yet with others it is paid again. A
    night of a stream is one for ever, whenever it was settled.
    """
    if config.stream is not None:
        now = stream_status(ledger, config.population, config.name, str(config.run_key))
        return now is not None and now.tonight is not None
    queries = ledger.stored_since(config.population, str(config.run_key), planned)
    return any(_name(query) == config.name for query in queries)


def _name(query: str) -> str | None:
    """Return the name in a query of ours; queries of other programs may be any text."""
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(query)["name"])
    return None


def fetched(config: ReleaseConfig, root: Path | None) -> Path:
    """Return where the images lie; all that may be wrong so far is of the card and the settings."""
    with suppress(ImageError):  # the digest of a file that is there
        return fetch(find_card(config.dataset), root, size=config.size, progress=False)
    raise withheld(config)


def _read(
    config: ReleaseConfig, ledger: Ledger, path: Path, place: Place
) -> tuple[StoredImages, Public, dict[str, str]]:
    """Return what is stored of the images, what is public of them, and the digest of each class."""
    card, key = find_card(config.dataset), ledger.person_key()
    source = unless_told(config, partial(open_fetched, card, path, key))
    check_unit(source, config)
    source.labels(config.splits)  # raises where a class is empty: class sizes are public
    public = _public(config, source)
    _rehearse(source, public)
    stored = unless_told(config, partial(described, source, config, place))

    def content(label: int) -> str:
        return ledger.digest(stored.contents(label))  # of the units, in whatever order

    contents = {
        f"{label} {name}": unless_told(config, partial(content, label))
        for label, name, _ in public.classes
    }
    return stored, public, contents


def described(source: ImageSource, config: ReleaseConfig, place: Place) -> StoredImages:
    """Read and describe the images, once; how many a person has is not shown."""
    plan = make_plan(source, config.splits, descriptor=config.descriptor, eta=config.eta)
    return fill(plan, place, shown=config.classes_per_person is None).stored


def check_unit(source: ImageSource, config: ReleaseConfig) -> None:
    """Raise unless the images are told apart by what is paid for."""
    found = source.classes_per_person if source.unit == "person" else None
    if found != config.classes_per_person:
        raise MismatchError(
            f"{config.dataset} protects one {config.unit} (classes_per_person = "
            f"{config.classes_per_person}), and its kind, {source.card.kind}, reads it as one "
            f"{source.unit} ({found}); leave unit out of the card, or use a kind that knows persons"
        )


def _rehearse(source: ImageSource, public: Public) -> None:
    """Draw once for black images, as many as the smallest class has: what fails then is public."""
    black = np.zeros((1, *source.shape), dtype=np.uint8)
    point = describe(black, public.config.descriptor, public.config.eta)
    serialised(private_part(Copies(point, min(n for _, _, n in public.classes)), public))


@dataclass(frozen=True)
class Copies:
    """One point n times, in chunks: as many as a class has need not fit in memory."""

    point: FloatArray
    n: int

    def __iter__(self) -> Iterator[FloatArray]:
        for start in range(0, self.n, 4096):
            yield np.repeat(self.point, min(4096, self.n - start), axis=0)


def _public(config: ReleaseConfig, source: ImageSource) -> Public:
    card, counts = source.card, source.units(config.splits)
    require_made_for(config.descriptor, channels=card.channels, volumes=card.volumes)
    check_sizes(config, dict(zip(source.classes, counts, strict=True)))
    return Public(
        config,
        domain_of(
            config.descriptor,
            source.shape,
            eta=config.eta,
            manifold=config.manifold,
            masked=source.masks is not None,
        ),
        tuple((label, name, counts[label]) for label, name in enumerate(source.classes)),
        source.excluded(config.splits),
    )
