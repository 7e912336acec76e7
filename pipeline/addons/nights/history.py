"""Content of a population's committed documents together, run after run.

Everything here is post-processing of committed bytes: no image, store or account is read.

The mean of all privacy units so far, night by night, and of the last nights, from a stream's
documents. A night's document states the error of both. Whether the last nights differ from those
before them, and what clipping may do to them, is computed from all documents.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from covdp.addons.nights.changes import WindowTest, window_test
from covdp.addons.nights.followed import read_committed
from covdp.addons.nights.schema import NightClassPart, NightDocument, WindowPart
from covdp.addons.nights.stream import WINDOWS, split_epochs
from covdp.addons.nights.stream.history import epoch_moments
from covdp.addons.nights.transcript import ClassHistory, read_histories
from covdp.arrays import FloatArray
from covdp.descriptors import Term
from covdp.errors import LedgerError, OutputError
from covdp.inference import clipping_moves
from covdp.publish.readings import (
    ClassReadings,
    Mean,
    Reading,
    TermReader,
    read_terms,
    reader_of,
)
from covdp.schema import SAME_MEANS, ClassEntry, Document, SettingsPart

ALIKE = ("name", "unit", "stream", *SAME_MEANS)
"""Settings that runs of one series share, besides classes."""
NARROWER = math.log(2.0)
"""`readings.WIDEST_BAND` of windows: those of few nights are mostly noise and would mask others."""
MOST_SHOWN = 400
"""Nights of a stream that are read: of more, every second, every third …, and the last."""


@dataclass(frozen=True, eq=False)
class ClassRun(ClassReadings):
    """Content of one document on a class; of nights between those that are shown only its size.

    Attributes
    ----------
    windows : tuple of (WindowPart, tuple of Reading)
        Last nights of a stream, and the readings of the privacy units that came in them.
    changes : tuple of WindowTest
        Tests of their privacy units against those before; of the last run alone.
    """

    windows: tuple[tuple[WindowPart, tuple[Reading, ...]], ...] = ()
    changes: tuple[WindowTest, ...] = ()


@dataclass(frozen=True, eq=False)
class PublishedRun:
    """One committed document.

    Attributes
    ----------
    place : int
        Number among the population's results, in the order in which they were paid.
    document : Document
        Document of a release or of a night.
    content : bytes
        Committed bytes.
    classes : tuple of ClassRun
        Content on each class; none until its series is read.
    """

    place: int
    document: Document
    content: bytes
    classes: tuple[ClassRun, ...] = ()

    @property
    def key(self) -> str:
        """Its run key; of a night the planned date."""
        return self.document.settings.run_key

    @property
    def n(self) -> int:
        """Images or persons of all classes: where labels are secret their public number."""
        settings = self.document.settings
        return settings.total or 0 if settings.secret else sum(row.n for row in self.classes)

    @property
    def digest(self) -> str:
        """SHA-256 of the committed bytes, hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, eq=False)
class Series:
    """Runs that can be compared: of one name, descriptor, manifold, privacy unit, size and classes.

    Attributes
    ----------
    runs : tuple of PublishedRun
        Runs, in the order in which they were paid.
    terms : tuple of Term
        Terms in which its means are stated.
    """

    runs: tuple[PublishedRun, ...]
    terms: tuple[Term, ...]

    @property
    def settings(self) -> SettingsPart:
        """The settings of the last run."""
        return self.runs[-1].document.settings

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(row.name for row in self.runs[-1].classes)

    @property
    def horizon(self) -> int | None:
        """The most nights there will be, of a stream."""
        return getattr(self.runs[-1].document, "horizon", None)


def read_history(population: str, results: Iterable[bytes]) -> tuple[tuple[Series, ...], int]:
    """Return the series of a population, and the number of results that are left out.

    Parameters
    ----------
    population : str
        Name of the population.
    results : iterable of bytes
        All its committed results, in the order in which they were paid.

    Returns
    -------
    tuple of Series
        Series, the one that was paid last first.
    int
        Number of results that are no documents of releases, as of another program.

    Raises
    ------
    LedgerError
        When there is no release.
    """
    grouped: dict[str, list[PublishedRun]] = {}
    others = 0
    for place, content in enumerate(results, 1):
        if (document := read_committed(content)) is None:
            others += 1
        else:
            run = PublishedRun(place, document, content)
            settings = document.settings
            classes = [(label, name) for label, name, *_ in settings.classes]
            alike = repr(([getattr(settings, key) for key in ALIKE], classes))
            grouped.setdefault(alike, []).append(run)
    if not grouped:
        raise LedgerError(
            f"{population!r} has no release yet, so there is no history to show; "
            "`covdp release` makes one"
        )
    every = sorted(grouped.values(), key=_paid, reverse=True)
    return tuple(map(_series, every)), others


def _paid(runs: Sequence[PublishedRun]) -> tuple[int, int]:
    """Return when a series was paid last: by how many charges its account states, then by place."""
    return runs[-1].document.paid.releases, runs[-1].place


def _series(runs: Sequence[PublishedRun]) -> Series:
    """Return the series of some documents, in order."""
    settings, documents = runs[-1].document.settings, [run.document for run in runs]
    every = [replace(run, classes=_class_sizes(run.document)) for run in runs]
    if (reader := reader_of(settings)) is None:
        return Series(tuple(every), ())
    histories = tuple[ClassHistory, ...]()
    with suppress(OutputError):  # releases, or nights that another version drew
        histories = read_histories(documents)
    step = math.ceil(len(runs) / MOST_SHOWN) if isinstance(documents[-1], NightDocument) else 1
    for place in range(len(runs) - 1, -1, -step):
        document = documents[place]
        classes = (
            _class_run(document, row, history, reader)
            for row, history in zip_longest(document.classes, histories)
        )
        every[place] = replace(runs[place], classes=tuple(classes))
    return Series(tuple(every), reader.terms)


def _class_sizes(document: Document) -> tuple[ClassRun, ...]:
    """Return what a document says of its classes where means are not read: their sizes."""
    return tuple(ClassRun(row.class_name, row.n, row.n_sd) for row in document.classes)


def _class_run(
    document: Document, row: ClassEntry, history: ClassHistory | None, reader: TermReader
) -> ClassRun:
    """Return what a document says of a class, and of its last nights.

    What clipping may do to these, and whether they differ from those before, its history tells,
    where the documents of all nights are there.
    """
    own, windows = reader.read(row), tuple[tuple[WindowPart, Mean], ...]()
    changes = tuple[WindowTest, ...]()
    if isinstance(row, NightClassPart) and isinstance(document, NightDocument):
        moves = None
        if history is not None:
            moves = window_moves(history, document.night)
            if document.night == len(history.nights):
                changes = _changes(history)
        if own.usable and own.mean is not None:
            windows = window_means(document, row, moves, own.mean.point)
    readings = tuple(
        (part, read_terms(reader.terms, estimate, reader.manifold, widest=NARROWER))
        for part, estimate in windows
    )
    return ClassRun(**vars(own), windows=readings, changes=changes)


def window_means(
    document: NightDocument,
    row: NightClassPart,
    moves: tuple[FloatArray, ...] | None,
    near: FloatArray | None = None,
) -> tuple[tuple[WindowPart, Mean], ...]:
    """Return the windows that a night states of a class, each with its mean.

    Parameters
    ----------
    document : NightDocument
        Document of the night.
    row : NightClassPart
        Class of the document.
    moves : tuple of array, shape (m, d), or None
        Largest moves by clipping, besides the noise; None where they are not known.
    near : array, shape (d,), optional
        Mean of all records, which has less noise.
    """
    return tuple(
        (part, Mean(part.coordinates, part.noise(document.axes), near=near, moves=moves))
        for part in row.windows
    )


def _changes(history: ClassHistory) -> tuple[WindowTest, ...]:
    """Return whether the records of the last nights differ from those before, for each window."""
    stream, past = history.stream, split_epochs(history.stream, history.nights)
    return tuple(window_test(stream, history.nights, past, nights) for nights in WINDOWS)


def window_moves(history: ClassHistory, night: int) -> tuple[FloatArray, ...] | None:
    """Return the largest moves of the windows of a night by clipping, as `clipping_moves`.

    They are those of all epochs up to the night, by their shares of the records. Nothing was added
    to a window, so what is to the mean of an epoch may be missing in it. None before any epoch.

    Parameters
    ----------
    history : ClassHistory
        Nights of the class, as they were read.
    night : int
        Number of the night.
    """
    stream, past = history.stream, split_epochs(history.stream, history.nights[:night])
    epochs = [part for part in past.segments if part.n]
    if not epochs:
        return None
    parts = [(part.n / past.streamed, epoch_moments(stream, past, part)) for part in epochs]
    missing = [share * (moments.offset - moments.clipped_offset) for share, moments in parts]
    return *clipping_moves(parts), np.sum(missing, axis=0)[np.newaxis]
