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
from itertools import zip_longest

import numpy as np

from covdp.addons.nights.changes import WindowTest, window_test
from covdp.addons.nights.stream import WINDOWS, split_epochs
from covdp.addons.nights.stream.history import epoch_moments
from covdp.arrays import FloatArray
from covdp.descriptors import DESCRIPTORS, Term, terms_of
from covdp.errors import LedgerError, OutputError
from covdp.geometry import MANIFOLDS
from covdp.inference import is_usable
from covdp.publish.document import ClassHistory, read_committed, read_histories
from covdp.publish.readings import Mean, Reading, axes_of, mean_of, of_bias, read_terms
from covdp.schema import (
    SAME_MEANS,
    ClassEntry,
    Document,
    NightClassPart,
    NightDocument,
    SettingsPart,
    WindowPart,
)

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
        Whether the mean is: see `covdp.inference.verdict`. Of others terms say nothing.
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
    settings, documents = runs[-1].document.settings, [run.document for run in runs]
    every = [replace(run, classes=_class_sizes(run.document)) for run in runs]
    kind, space = DESCRIPTORS.get(settings.descriptor), MANIFOLDS.get(settings.manifold)
    if kind is None or space is None:
        return Series(tuple(every), ())
    manifold, terms = space(k=kind.k), terms_of(kind)
    axes, histories = axes_of(settings, manifold), tuple[ClassHistory, ...]()
    with suppress(OutputError):  # releases, or nights that another version drew
        histories = read_histories(documents)
    read = partial(read_terms, terms, manifold=manifold)
    step = math.ceil(len(runs) / MOST_SHOWN) if isinstance(documents[-1], NightDocument) else 1
    for place in range(len(runs) - 1, -1, -step):
        document = documents[place]
        rows: Sequence[ClassEntry] = document.classes
        classes = (
            _class_run(document, row, mean_of(row, axes, manifold), history, read)
            for row, history in zip_longest(rows, histories)
        )
        every[place] = replace(runs[place], classes=tuple(classes))
    return Series(tuple(every), terms)


def _class_sizes(document: Document) -> tuple[ClassRun, ...]:
    """Return what a document says of its classes where means are not read: their sizes."""
    return tuple(ClassRun(row.class_name, row.n, row.n_sd) for row in document.classes)


def _class_run(
    document: Document,
    row: ClassEntry,
    mean: Mean,
    history: ClassHistory | None,
    read: Callable[..., tuple[Reading, ...]],
) -> ClassRun:
    """Return what a document says of a class, and of its last nights.

    What clipping may do to these, and whether they differ from those before, its history tells,
    where the documents of all nights are there.
    """
    usable, windows = is_usable(row), tuple[tuple[WindowPart, Mean], ...]()
    changes = tuple[WindowTest, ...]()
    if isinstance(row, NightClassPart) and isinstance(document, NightDocument):
        bias = np.zeros_like(document.axes)
        if history is not None:
            bias = window_bias(history, document.night)
            if document.night == len(history.nights):
                changes = _changes(history)
        if usable:
            windows = window_means(document, row, bias, mean.point)
    readings = tuple((part, read(estimate, widest=NARROWER)) for part, estimate in windows)
    terms = read(mean if usable else NONE)
    return ClassRun(row.class_name, row.n, row.n_sd, usable, mean, terms, readings, changes)


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


def _changes(history: ClassHistory) -> tuple[WindowTest, ...]:
    """Return whether the records of the last nights differ from those before, for each window."""
    stream, past = history.stream, split_epochs(history.stream, history.nights)
    return tuple(window_test(stream, history.nights, past, nights) for nights in WINDOWS)


def window_bias(history: ClassHistory, night: int) -> FloatArray:
    """Return what clipping may do to the windows of a night, a covariance, (d, d).

    It is that of all epochs up to the night, by their shares of the records. Nothing was added to a
    window, so what is to the mean of an epoch may be missing in it.
    """
    stream, past = history.stream, split_epochs(history.stream, history.nights[:night])
    biases, missing = np.zeros(2), np.zeros(stream.space.dim)
    for part in past.segments:
        if part.n:
            moments, share = epoch_moments(stream, past, part), part.n / past.streamed
            biases += share * np.array(moments.predicted_bias)
            missing += share * (moments.offset - moments.clipped_offset)
    line, rest = biases
    own = of_bias(line, rest, stream.frame.from_axes, stream.frame.lines)
    return np.asarray(own + np.outer(missing, missing))
