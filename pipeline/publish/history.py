"""What a population's committed documents say together, run after run.

Everything here is post-processing of committed bytes: no image, store or account is read.

The mean of all privacy units so far, night by night, and of the last nights, from a stream's
documents. A night's document states the error of both. Whether the last nights differ from those
before them, and what clipping may do to them, is computed from all documents.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.descriptors import DESCRIPTORS, Term, terms_of
from pipeline.errors import LedgerError, OutputError
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.inference import WindowTest, is_usable, window_test
from pipeline.mean.axes import Frame
from pipeline.publish.document import ClassHistory, read_committed, read_histories
from pipeline.publish.readings import Mean, Reading, axes_of, mean_of, of_bias, read_terms
from pipeline.schema import (
    SAME_MEANS,
    ClassEntry,
    Document,
    NightClassPart,
    NightDocument,
    SettingsPart,
    WindowPart,
)
from pipeline.stream import WINDOWS, StreamMechanism
from pipeline.stream.history import EpochHistory, split_epochs

ALIKE = ("name", "unit", "stream", *SAME_MEANS)
"""Settings that runs of one series share, besides classes."""
NARROWER = math.log(2.0)
"""`readings.WIDEST_BAND` of windows: those of few nights are mostly noise and would mask others."""
NONE = Mean(None, None)
"""What terms are read of where a mean is not usable."""
MOST_SHOWN = 400
"""Nights of a stream that are read: of more, every second, every third …, and the last."""


@dataclass(frozen=True, eq=False)
class ClassRun:
    """What one document says of a class.

    Attributes
    ----------
    name : str
        Of the class.
    n : int
        Images or persons behind the mean; of a stream all up to this night.
    n_sd : float
        Standard deviation of the noise of `n`; 0 where it is public.
    usable : bool
        Whether the mean is: see `pipeline.inference.verdict`. Of others terms say nothing.
    mean : Mean or None
        None where this version does not know the descriptor or the manifold, and on nights between
        those that are shown.
    readings : tuple of Reading
        What the terms say of it.
    windows : tuple of (WindowPart, tuple of Reading)
        The last nights of a stream, and what the terms say of the privacy units that came in them.
    changes : tuple of WindowTest
        Whether their privacy units differ from those before; of the last run alone.
    """

    name: str
    n: int
    n_sd: float = 0.0
    usable: bool = False
    mean: Mean | None = None
    readings: tuple[Reading, ...] = ()
    windows: tuple[tuple[WindowPart, tuple[Reading, ...]], ...] = ()
    changes: tuple[WindowTest, ...] = ()


@dataclass(frozen=True, eq=False)
class PublishedRun:
    """One committed document.

    Attributes
    ----------
    place : int
        Its number among the population's results, in the order in which they were paid.
    document : ReleaseDocument or NightDocument
        What it says.
    content : bytes
        Its very bytes.
    classes : tuple of ClassRun
        What it says of each class; none until its series is read.
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
        In the order in which they were paid.
    terms : tuple of Term
        What can be stated of its means.
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
    return runs[-1].document.account.releases, runs[-1].place


def read_alone(document: Document) -> Series:
    """Return a release as the only one of its series."""
    return _series([PublishedRun(1, document, b"")])


def _series(runs: Sequence[PublishedRun]) -> Series:
    """Return the series of some documents, in order."""
    settings = runs[-1].document.settings
    runs = tuple(replace(run, classes=_class_sizes(run.document)) for run in runs)
    kind, space = DESCRIPTORS.get(settings.descriptor), MANIFOLDS.get(settings.manifold)
    if kind is None or space is None:
        return Series(runs, ())
    manifold, terms = space(k=kind.k), terms_of(kind)
    documents = [run.document for run in runs]
    step = math.ceil(len(runs) / MOST_SHOWN) if isinstance(documents[-1], NightDocument) else 1
    shown = range(len(runs), 0, -step)
    means = night_means(documents, shown, axes_of(settings, manifold), manifold)
    read = partial(read_terms, terms, manifold=manifold)
    every = (
        replace(run, classes=_class_runs(run.document, means[place], read))
        if place in means
        else run
        for place, run in enumerate(runs, 1)
    )
    return Series(tuple(every), terms)


def _class_sizes(document: Document) -> tuple[ClassRun, ...]:
    """Return what a document says of its classes where means are not read: their sizes."""
    return tuple(ClassRun(row.class_name, row.n, row.n_sd) for row in document.classes)


def _class_runs(
    document: Document, means: Sequence["NightMean"], read: Callable[..., tuple[Reading, ...]]
) -> tuple[ClassRun, ...]:
    """Return what a document says of its classes."""
    rows: Sequence[ClassEntry] = document.classes
    pairs = zip(rows, means, strict=True)
    return tuple(_class_run(document, row, mean, read) for row, mean in pairs)


def _class_run(
    document: Document, row: ClassEntry, mean: "NightMean", read: Callable[..., tuple[Reading, ...]]
) -> ClassRun:
    """Return what a document says of a class, and of its last nights."""
    usable, windows = is_usable(row), tuple[tuple[WindowPart, Mean], ...]()
    if usable and isinstance(row, NightClassPart) and isinstance(document, NightDocument):
        windows = window_means(document, row, mean.bias, mean.mean.point)
    readings = tuple((part, read(estimate, widest=NARROWER)) for part, estimate in windows)
    terms = read(mean.mean if usable else NONE)
    sizes = row.class_name, row.n, row.n_sd
    return ClassRun(*sizes, usable, mean.mean, terms, readings, mean.changes)


class NightMean(NamedTuple):
    """The mean of all records of a class up to a night, and what clipping may do to its windows.

    `bias` is a covariance, (d, d). `changes` are of the last night alone: its windows against the
    nights before them.
    """

    mean: Mean
    bias: FloatArray
    changes: tuple[WindowTest, ...] = ()


def night_means(
    documents: Sequence[Document],
    nights: Iterable[int],
    axes: Frame,
    manifold: Manifold,
) -> dict[int, tuple[NightMean, ...]]:
    """Return the mean of each class on some nights of a stream, or of some releases, by number.

    Parameters
    ----------
    documents : sequence of NightDocument or ReleaseDocument
        Of nights 1, 2, …, in order; or of releases.
    nights : iterable of int
        Which of them are wanted.
    axes : Frame
        Of an error of which only the size is known.
    manifold : Manifold
    """
    with suppress(OutputError):
        histories = read_histories(documents)
        return {
            night: tuple(
                class_mean(history, night, row)
                for history, row in zip(histories, documents[night - 1].classes, strict=True)
                if isinstance(row, NightClassPart)
            )
            for night in nights
        }
    return {
        night: tuple(
            NightMean(mean_of(row, axes, manifold), np.zeros_like(axes.to_axes))
            for row in documents[night - 1].classes
        )
        for night in nights
    }


def window_means(
    document: NightDocument, row: NightClassPart, bias: FloatArray, near: FloatArray | None = None
) -> tuple[tuple[WindowPart, Mean], ...]:
    """Return the windows that a night states of a class, each with its mean.

    `bias` is what clipping may do besides their noise, `near` the mean of all, which has less
    noise.
    """
    return tuple(
        (part, Mean(part.coordinates, part.noise(document.axes) + bias, near=near))
        for part in row.windows
    )


def class_mean(history: ClassHistory, night: int, row: NightClassPart) -> NightMean:
    """Return the mean of a class up to a night; `row` is what the night's document says of it."""
    stream, past = history.stream, split_epochs(history.stream, history.nights[:night])
    last = WINDOWS if night == len(history.nights) else ()
    changes = tuple(window_test(stream, history.nights, past, nights) for nights in last)
    mean = mean_of(row, stream.frame, stream.manifold)
    return NightMean(mean, _bias(stream, past), changes)


def _bias(stream: StreamMechanism, past: EpochHistory) -> FloatArray:
    """Return what clipping may do to the mean of all epochs, by their shares of the records."""
    shares = np.array([part.n for part in past.segments], dtype=np.float64)
    shares /= max(float(shares.sum()), 1.0)
    biases = [(part.epoch.clip.bias_line, part.epoch.clip.bias_rest) for part in past.segments]
    line, rest = shares @ np.array(biases).reshape(-1, 2)
    return of_bias(line, rest, stream.frame.from_axes, stream.frame.lines)
