"""Settling a release: pay, draw, commit. What comes out is what may leave; nothing else does.

    rehearse ─► read ─► digest ─► reserve ─► describe ─► private means ─► commit ─► bytes
    black image                   charged                hardened noise   stored

The order is the safety: the budget is charged before noise exists, and only bytes that the ledger
has stored are returned. Asked again for the same release, the ledger answers and nothing is drawn.
What card and settings decide is told when it is wrong. What the files decide, down to their names
and all that an image may make a library say or raise, is not.
"""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pipeline import __version__
from pipeline.arrays import FloatArray
from pipeline.datasets import ImageSource, fetch, find_card, open_fetched
from pipeline.descriptors import DESCRIPTORS, Domain, describe, domain
from pipeline.errors import (
    DatasetError,
    ImageError,
    LedgerError,
    MismatchError,
    PrivacyError,
)
from pipeline.geometry import MANIFOLDS
from pipeline.privacy import GDP, main_parameter, privacy_statement
from pipeline.privacy.ledger import Ledger, Reservation, Stored
from pipeline.progress import passing
from pipeline.publish.config import ReleaseConfig, check_sizes
from pipeline.publish.draw import draw
from pipeline.publish.silence import silence

T = TypeVar("T")

EQUALITY = (
    "equality of contents: the ledger tells images that were charged before, and two classes of "
    "the same images, from others; an image that cannot be read stops a release"
)
"""What else may be seen from outside, as the statement says."""

FIRST_KEYS = frozenset(
    {"name", "title", "population", "dataset", "size", "splits", "descriptor", "eta", "manifold"}
    | {"labels_and_class_sizes_are_public", "definition", "budget", "mechanism", "shares", "noise"}
    | {"run_key", "images_per_person"}
)
"""The keys of a config in 0.1.0."""


@dataclass(frozen=True)
class Public:
    """What everybody may know before anything is drawn."""

    config: ReleaseConfig
    domain: Domain
    classes: tuple[tuple[int, str, int], ...]

    def query(self) -> str:
        """Return what, with the data and the run key, tells one release from another.

        It is what the law of the result depends on: the title, and where the images were read
        from, are not. Keys of the config that 0.1.0 did not have are in it only where they are not
        at their defaults, so that a release paid before there was a key stays paid.
        """
        chosen = self.config.model_dump(exclude_defaults=True)
        later = set(ReleaseConfig.model_fields) - FIRST_KEYS - set(chosen)
        named = {key: value for key, value in self.settings().items() if key not in later}
        return json.dumps({**named, "title": None, "dataset": None}, sort_keys=True)

    def settings(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return {
            **self.config.model_dump(mode="json"),
            "image_height": self.domain.height,
            "image_width": self.domain.width,
            "classes": [list(item) for item in self.classes],
            "version": __version__,
        }


def settle(config: ReleaseConfig, ledger: Ledger, root: Path | None) -> bytes:
    """Pay for a release, draw it and commit it, or return it if that has been done before.

    Parameters
    ----------
    config : ReleaseConfig
        What to release; its run key is set.
    ledger : Ledger
        The account of ``config.population``.
    root : Path or None
        The data root.

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
    path = _fetched(config, root)
    with silence():
        source, public, contents = _read(config, ledger, path)
        held = ledger.reserve(
            config.population,
            public.query(),
            str(config.run_key),
            contents=contents,
            cost=config.cost,
            group=config.images_per_person or 1,
        )
        if isinstance(held, Stored):
            return held.result
        content = _withheld_if_it_fails(source, public, held)
    return ledger.commit(held, content).result


def _fetched(config: ReleaseConfig, root: Path | None) -> Path:
    """Return where the images lie; all that may be wrong so far is of the card and the settings."""
    with suppress(ImageError):  # the digest of a file that is there
        return fetch(find_card(config.dataset), root, size=config.size, progress=False)
    raise _withheld(config)


def _read(
    config: ReleaseConfig, ledger: Ledger, path: Path
) -> tuple[ImageSource, Public, dict[str, str]]:
    """Return the images, what is public of them, and the digest of each class."""
    source = _unless_told(config, partial(open_fetched, find_card(config.dataset), path))
    source.labels(config.splits)  # raises where a class is empty: class sizes are public
    public = _public(config, source)
    _rehearse(source, public)
    contents = {
        f"{label} {name}": _unless_told(
            config, partial(ledger.digest, _bytes(source, config, label))
        )
        for label, name, _ in public.classes
    }
    return source, public, contents


def _unless_told(config: ReleaseConfig, work: Callable[[], T]) -> T:
    """Return what `work` gives; its failures lose their words but for those of public things."""
    try:
        return work()
    except (MismatchError, LedgerError):
        raise
    except Exception:
        failure = _withheld(config)
    raise failure  # outside the handler, so that not even a traceback holds the cause


def _withheld(config: ReleaseConfig) -> DatasetError:
    return DatasetError(
        f"the images of {config.dataset} are not all as its card says; which one and why is "
        "withheld, as it would stay in logs. In Python, open_dataset(CARD, ROOT) of "
        "pipeline.datasets and a pass over its chunks() show it to you. Nothing was charged"
    )


def _rehearse(source: ImageSource, public: Public) -> None:
    """Draw once for black images, as many as the smallest class has: what fails then is public."""
    black = np.zeros((1, *source.shape), dtype=np.uint8)
    point = describe(black, public.config.descriptor, public.config.eta)
    _serialised(_mean(np.repeat(point, min(n for _, _, n in public.classes), axis=0), public))


def _public(config: ReleaseConfig, source: ImageSource) -> Public:
    height, width = source.shape[:2]
    counts = source.counts(config.splits)
    check_sizes(config, dict(zip(source.classes, counts, strict=True)))
    return Public(
        config,
        domain(
            config.descriptor,
            height=height,
            width=width,
            eta=config.eta,
            manifold=config.manifold,
        ),
        tuple((label, name, counts[label]) for label, name in enumerate(source.classes)),
    )


def _bytes(source: ImageSource, config: ReleaseConfig, label: int) -> Iterator[bytes]:
    n = source.counts(config.splits)[label]
    chunks = source.chunks(config.splits, label)
    for images in passing(chunks, f"reading {source.classes[label]}", n, "images"):
        yield images.tobytes()


def _serialised(document: dict[str, Any]) -> bytes:
    """Return JSON in UTF-8; a number that JSON does not have, such as NaN, is an error."""
    return json.dumps(document, sort_keys=True, allow_nan=False).encode()


def _withheld_if_it_fails(source: ImageSource, public: Public, held: Reservation) -> bytes:
    """Return the document; any failure in here loses its words, which might tell of an image."""
    try:
        content = _serialised(_document(source, public, held))
    except Exception:
        content = None
    if content is None:  # outside the handler, so that not even a traceback holds the cause
        raise PrivacyError(
            "the private part of the release failed; the reason is withheld because it may depend "
            "on an image. The charge stays and pays for the next attempt with the same run key; "
            "try the same config on public images with `covdp run`"
        )
    return content


def _document(source: ImageSource, public: Public, held: Reservation) -> dict[str, Any]:
    config = public.config
    rows = []
    for label, name, n in public.classes:
        chunks = source.chunks(config.splits, label)
        chunks = passing(chunks, f"describing {name}", n, "images")
        points = np.concatenate([describe(x, config.descriptor, config.eta) for x in chunks])
        rows.append({"label": label, "class_name": name, "n": n, **_mean(points, public)})
    statement = privacy_statement(
        config.cost,
        n_by_class={name: n for _, name, n in public.classes},
        group=config.images_per_person,
        public=("class sizes", "descriptor, domain and plan"),
        hardened=config.noise == "hardened",
        not_covered=(EQUALITY,),
    )
    return {
        "title": config.title,
        "settings": public.settings(),
        "classes": rows,
        "statement": [
            *map(list, statement.items()),
            ["Charged to the account", _charged(held, public)],
        ],
        "account": _account(held),
    }


def _charged(held: Reservation, public: Public) -> str:
    """Return what the account paid, and why it is not what one image is promised."""
    images = public.config.images_per_person
    if held.cost != public.config.charge:
        return f"{held.cost}, as it was when this release was first asked for"
    if images is None:
        return f"{held.cost}: one image a person is counted, since images_per_person is not set"
    return f"{held.cost}: it protects people, so it pays for all images of one, at most {images}"


def _account(held: Reservation) -> dict[str, Any]:
    """Return the account right after this charge, in the parameter of its definition."""
    row = held.account
    budgets = {"charged": held.cost, "total": row.budget, "spent": row.spent, "left": row.left}
    return {
        "definition": row.budget.name,
        **{name: main_parameter(one) if one else 0.0 for name, one in budgets.items()},
        "releases": row.releases,
        "releases_left": row.releases_left,
        "delta": row.delta,
        "images_per_person": row.group,
        "epsilon_total": row.epsilon_budget,
        "epsilon_spent": row.epsilon_spent,
        "epsilon_left": row.epsilon_left,
    }


def _mean(points: FloatArray, public: Public) -> dict[str, Any]:
    """Return the private mean of one class and what it cost."""
    config = public.config
    drawn = draw(
        points,
        config.cost,
        mechanism=config.mechanism,
        shares=config.shares,
        noise=config.noise,
        domain=public.domain,
        manifold=MANIFOLDS[config.manifold](k=DESCRIPTORS[config.descriptor].k),
    )
    certified = [step.rho for step in drawn.steps if step.rho is not None]
    return {
        "point": drawn.point.tolist(),
        "mu": config.cost.mu if isinstance(config.cost, GDP) else None,
        "predicted_error": drawn.predicted_error,
        "rho": math.fsum(certified) if len(certified) == len(drawn.steps) else None,
        "costs": [step._asdict() for step in drawn.steps],
    }
