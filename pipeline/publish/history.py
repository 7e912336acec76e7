"""What a population's committed documents say together, run after run.

Everything here is post-processing of committed bytes: no image, store or account is read.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline.descriptors import DESCRIPTORS
from pipeline.descriptors.terms import Term, terms_of
from pipeline.errors import LedgerError
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.mean.frame import Frame
from pipeline.publish.readings import Mean, Reading, axes_of, mean_of, read_terms

ALIKE = ("name", "descriptor", "eta", "manifold", "unit", "stream", "masked")
"""Settings that runs of one series share, besides classes and the size of the images."""


@dataclass(frozen=True, eq=False)
class ClassRun:
    """What one document says of a class.

    Attributes
    ----------
    name : str
        Of the class.
    n : int
        Images or persons behind the mean.
    mean : Mean or None
        None where this version does not know the descriptor or the manifold.
    readings : tuple of Reading
        What the terms say of it.
    """

    name: str
    n: int
    mean: Mean | None
    readings: tuple[Reading, ...]


@dataclass(frozen=True, eq=False)
class Run:
    """One committed document.

    Attributes
    ----------
    key : str
        Its run key; of a night the planned date.
    place : int
        Its number among the population's results, in the order in which they were paid.
    document : mapping
        What it says.
    content : bytes
        Its very bytes.
    classes : tuple of ClassRun
    """

    key: str
    place: int
    document: Mapping[str, Any]
    content: bytes
    classes: tuple[ClassRun, ...]

    @property
    def n(self) -> int:
        """Images or persons of all classes."""
        return sum(one.n for one in self.classes)

    @property
    def digest(self) -> str:
        """SHA-256 of the committed bytes, hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, eq=False)
class Series:
    """Runs that can be compared: of one name, descriptor, manifold, unit, size and classes.

    Attributes
    ----------
    runs : tuple of Run
        In the order in which they were paid.
    terms : tuple of Term
        What can be said of its means.
    """

    runs: tuple[Run, ...]
    terms: tuple[Term, ...]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the last run."""
        found: Mapping[str, Any] = self.runs[-1].document["settings"]
        return found

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(one.name for one in self.runs[-1].classes)


class _Found(NamedTuple):
    """A document as it was committed."""

    place: int
    content: bytes
    document: Mapping[str, Any]


def read_history(population: str, results: Iterable[bytes]) -> tuple[tuple[Series, ...], int]:
    """Return the series of a population, the one that was paid last first, and what is left out.

    Parameters
    ----------
    population : str
    results : iterable of bytes
        All its committed results, in the order in which they were paid.

    Returns
    -------
    tuple of Series
    int
        How many results are no documents of releases, as another program may have committed them.

    Raises
    ------
    LedgerError
        When there is no release.
    """
    grouped: dict[str, list[_Found]] = {}
    others = 0
    for place, content in enumerate(results, 1):
        if (document := _document(content)) is None:
            others += 1
        else:
            found = _Found(place, content, document)
            grouped.setdefault(_alike(document["settings"]), []).append(found)
    if not grouped:
        raise LedgerError(
            f"{population!r} has no release yet, so there is no history to show; "
            "`covdp release` makes one"
        )
    every = sorted(grouped.values(), key=lambda documents: -documents[-1].place)
    return tuple(map(_series, every)), others


def _document(content: bytes) -> Mapping[str, Any] | None:
    """Return the document of a release; None where the bytes are something else."""
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        found: Mapping[str, Any] = json.loads(content)
        if found["classes"] and found["statement"] and found["settings"]["run_key"]:
            return found
    return None


def _alike(settings: Mapping[str, Any]) -> str:
    """Return what tells one series from another."""
    told = [settings.get(key, "image" if key == "unit" else None) for key in ALIKE]
    classes = [[label, name] for label, name, *_ in settings["classes"]]
    sizes = {key: settings[key] for key in settings if key.startswith("image_")}
    return json.dumps([*told, classes, sizes], sort_keys=True)


def _series(found: Sequence[_Found]) -> Series:
    """Return the series of some documents, in order."""
    settings = found[-1].document["settings"]
    kind, space = DESCRIPTORS.get(settings["descriptor"]), MANIFOLDS.get(settings["manifold"])
    if kind is None or space is None:
        return Series(tuple(_unread(one) for one in found), ())
    manifold, terms = space(k=kind.k), terms_of(kind)
    axes = axes_of(settings, manifold)
    return Series(tuple(_read(one, terms, manifold, axes) for one in found), terms)


def _read(found: _Found, terms: tuple[Term, ...], manifold: Manifold, axes: Frame) -> Run:
    rows = found.document["classes"]
    means = [mean_of(row, axes) for row in rows]
    classes = tuple(
        ClassRun(str(row["class_name"]), int(row["n"]), mean, read_terms(terms, mean, manifold))
        for row, mean in zip(rows, means, strict=True)
    )
    return Run(_key(found), found.place, found.document, found.content, classes)


def _unread(found: _Found) -> Run:
    """Return a run of which nothing is said but its size."""
    rows = found.document["classes"]
    classes = tuple(ClassRun(str(row["class_name"]), int(row["n"]), None, ()) for row in rows)
    return Run(_key(found), found.place, found.document, found.content, classes)


def _key(found: _Found) -> str:
    return str(found.document["settings"]["run_key"])
