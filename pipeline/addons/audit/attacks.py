"""Attacks on transcripts: the adaptive mean, persons in two classes, and streams of nights.

In: what is released, drawn as its transcripts: all noised vectors in order, which tell more than
the result. Out: the same transcripts on two neighbouring data sets. On either data set the law of a
step, given the steps before, is normal around the vector that this data set gives when those steps
are replayed: the log-likelihood ratio of a transcript is exact (``bounds.py``).

One record is replaced: an image, all images of a person, or a record of one night. It moves between
two ends (`ENDS`), on opposite sides of all others.
"""

import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import cycle
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from covdp.addons.audit.bounds import Law, Transcript
from covdp.addons.audit.calls import Calls
from covdp.addons.nights.account import StreamStatus
from covdp.addons.nights.ledger import commit_night, open_stream, reserve_night, stream_status
from covdp.addons.nights.stream import (
    Night,
    PrivateSums,
    StreamMechanism,
    StreamPlan,
    draw_night,
    empty_state,
)
from covdp.addons.nights.stream.factorisation import from_limbs
from covdp.addons.nights.stream.history import Epoch, begin_epoch, epoch_due, split_epochs
from covdp.addons.nights.stream.night import add_placed, draw_count, draw_openings
from covdp.arrays import FloatArray
from covdp.datasets import Card, ImageSource
from covdp.datasets.source import MemoryReader, split_codes
from covdp.descriptors import domain
from covdp.geometry import Manifold, to_chart
from covdp.ledger import init_ledger
from covdp.mean import (
    PUBLIC_LABELS,
    AdaptivePlan,
    Domain,
    Labels,
    Release,
    admit,
    draw_each,
    person_records,
    prepare,
)
from covdp.mean.plan import Shares
from covdp.mean.sums import PER_UNIT
from covdp.mechanisms.base import Points
from covdp.mechanisms.noise import FloatNoise, NoisyVector
from covdp.privacy import GDP, Budget, split
from covdp.recall import repeatable

PAIR_SIZE = 4
"""Size n of the data sets; one of the records is replaced."""
STAYING = (7.0, 5.0, 5.0, 4.0, 4.0)
"""Logarithms of the eigenvalues of all records that stay."""
End: TypeAlias = Sequence[float]
"""Logarithms of the eigenvalues of what is replaced."""
ENDS: tuple[End, End] = ((11.0, 5.4, 5.3, 0.3, 7.6), (4.0, 4.1, 3.9, 5.2, 1.4))
"""The two ends: on opposite sides of the other records, along Id and off it, at different
distances. So what moves between them changes its shell, and is clipped on opposite sides. They are
beyond most clips, but not far beyond, nor towards an odd picture: the vectors of such records are
shortened, and so move a mean by less (``mean/sums.py``)."""
NEAR_ENDS: tuple[End, End] = ((10.0, 7.0, 5.0, 2.0, 0.0), (6.0, 6.0, 6.0, 6.0, 6.0))
"""Ends inside of most clips, which are close around the others. They move a mean by less, but in
more of the releases: where many images move it, more is shown by that."""
FAR_ENDS: tuple[End, End] = ((11.0, 0.0, 14.0, 21.0, -9.0), (3.0, 10.0, -4.0, -13.0, 17.0))
"""Ends on the edge of the region, to which wide clips reach in the log-Cholesky metric."""
TOGETHER = 1000
"""Transcripts that are drawn, or replayed, in one call."""
SEARCH = 200
"""Most ends that are tried for the most costly transcript."""
LEAST_MOVE, LEAST_GAIN = 0.05, 1e-6
"""Step and relative-gain tolerances of the search."""
DESCRIPTOR, IMAGE_SIDE = "oct5", 28
"""Descriptor, and side of the images, of the records."""
PER_PERSON = 5
"""Images of a person; the one who takes the place of another has three more."""
FIRST_NIGHT = 2
"""Records of the first night, which a stream opens with."""
SECRET_OPENING = 60
"""Records of the first night of a class that opens on it, where labels are secret: at μ = 2, half
of them are seven deviations of the noise of their count away."""


Source: TypeAlias = Callable[[FloatArray, float, float], NoisyVector]
"""Source of noise: vector, σ and sensitivity → the noised vector."""


class Tape:
    """A source of noise that writes transcripts, or gives back those that are written.

    Repetitions are drawn together: each step of all of them, then the next step. With `sources`,
    one for each repetition, noise is added and what was given and gave is recorded. Without them
    transcripts are given back step by step, and what was asked is recorded.

    Vectors of a step may differ in length from draw to draw, as the last carries second moments or
    not. That is decided by what was released before, so a replay has the same; unless the mechanism
    is broken: then what both have counts.

    Parameters
    ----------
    transcripts : sequence of Transcript
        Transcripts to give back, one a repetition; room for new ones with `sources`.
    sources : sequence of Source
        Sources of noise, one a repetition; none to replay.
    """

    rng = None

    def __init__(self, transcripts: Sequence[Transcript], sources: Sequence[Source] = ()) -> None:
        self.transcripts, self.sources = transcripts, sources
        self._rows = cycle(range(len(transcripts)))

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        """Add noise and keep the result, or return the next part of a transcript."""
        row = next(self._rows)
        released, own, sigmas, _ = self.transcripts[row]
        sigmas.append(sigma)
        if self.sources:
            noised = self.sources[row](vector, sigma, sensitivity)
            released.append(noised.vector)
            own.append(vector)
            return noised
        value = released[len(own)]
        both = min(len(value), len(vector))
        own.append(np.append(vector[:both], value[both:]))
        return NoisyVector(np.append(value[:both], vector[both:]), math.nan)

    def repetition(self, row: int) -> "Tape":
        """Return the tape of one repetition alone.

        Parameters
        ----------
        row : int
            Index of the repetition.
        """
        return Tape([self.transcripts[row]], self.sources[row : row + 1])


def replayed_draws(
    mechanism: Any, *, size: int, rng: np.random.Generator
) -> list[tuple[list[Transcript], list[Transcript]]]:
    """Return `size` transcripts of each of two data sets, on the left one and on the right one.

    What a step releases without noise on its own data set is what its noise was added to. Each
    block is replayed on the other when it was drawn: what follows from released vectors alone is
    the same on both data sets, and is computed once (``calls.py``).

    Parameters
    ----------
    mechanism : object
        Mechanism under audit, with its two neighbouring data sets.
    size : int
        Number of transcripts of each data set.
    rng : numpy.random.Generator
        Generator of the draws.
    """
    laws = []
    for side in (0, 1):
        both: tuple[list[Transcript], list[Transcript]] = [], []
        for start in range(0, size, mechanism.at_once):
            calls = Calls()
            with calls:
                many = min(mechanism.at_once, size - start)
                drawn = mechanism.block(mechanism.sides[side], many, rng)
            with calls:
                moved = mechanism.replay([mechanism.sides[1 - side]], drawn)
            both[side].extend(drawn)
            both[1 - side].extend(moved)
        laws.append(both)
    return laws


def differ(pairs: Sequence[tuple[list[Transcript], list[Transcript]]]) -> bool:
    """Return True if releases differ where all noised vectors are the same: not from these then.

    Parameters
    ----------
    pairs : sequence of tuple of list of Transcript
        Transcripts on the left data set and on the right one, of each block.
    """
    return any(a.history != b.history for pair in pairs for a, b in zip(*pair, strict=True))


def _leaving(release: Release, row: int) -> bytes:
    """Return all numbers of one draw that may leave: mean, errors, moments and count."""
    parts: list[Any] = [release.outputs[row]]
    parts += [] if release.predicted_error is None else [release.predicted_error[row]]
    parts += [] if release.class_size is None else [release.class_size.value[row]]
    moments = vars(release.moments[row]) if release.moments else {}
    parts += [value for value in moments.values() if isinstance(value, np.ndarray | float | int)]
    return b"".join(np.asarray(part, np.float64).tobytes() for part in parts)


def edges(mechanism: Any, transcript: Transcript) -> Law:
    """Return a transcript replayed on the data sets, of many that are tried, that it costs most on.

    Clips differ from transcript to transcript, and a record moves a mean most between opposite
    edges of the clip: so either end goes, in turns, to where it costs more, by random steps, until
    these are small.

    Parameters
    ----------
    mechanism : object
        Mechanism under audit, with its two neighbouring data sets.
    transcript : Transcript
        Transcript to replay.
    """
    size, trial, calls = 2.0, 0, defaultdict[int, Calls](Calls)
    moves = np.random.default_rng(0).standard_normal((SEARCH, len(STAYING)))

    def replayed(tries: Sequence[tuple[int, FloatArray]]) -> list[Transcript]:
        ready = [mechanism.ready(mechanism.data_set(end, more=bool(i))) for i, end in tries]
        with calls[len(tries)]:
            return cast(list[Transcript], mechanism.replay(ready, [transcript] * len(ready)))

    ends = [np.array(end) for end in mechanism.ends]
    sides = replayed(list(enumerate(ends)))
    law = Law.of(sides[:1], sides[1:])
    while trial < SEARCH and size > LEAST_MOVE:
        # as if none of them cost more; those after one that does are not looked at
        tries, sizes = list[tuple[int, FloatArray]](), [size]
        for move in moves[trial : trial + mechanism.together]:
            i = (trial + len(tries)) % 2
            tries.append((i, ends[i] + sizes[-1] * move))
            sizes.append(0.93 * sizes[-1])
        for (i, end), side, size in zip(tries, replayed(tries), sizes[1:], strict=True):
            both = [side, sides[1]] if i == 0 else [sides[0], side]
            tried, trial = Law.of(both[:1], both[1:]), trial + 1
            if tried.costs.sum() > law.costs.sum() * (1.0 + LEAST_GAIN):
                ends[i], sides, law, size = end, both, tried, min(1.6 * size, 3.0)
                break
    return law


def matrices(logs: Sequence[End]) -> FloatArray:
    """Return diagonal matrices of these logarithms of eigenvalues, (n, k, k).

    Parameters
    ----------
    logs : sequence of End
        Logarithms of the eigenvalues of each matrix.
    """
    return np.stack([np.diag(np.exp(np.asarray(log, np.float64))) for log in logs])


# --- the adaptive mean --------------------------------------------------------------------------


@dataclass(frozen=True)
class AdaptiveTranscripts:
    """The adaptive mean of `PAIR_SIZE` descriptors, drawn as its transcripts.

    Each step is a mean of vectors from a set of diameter 1, plus N(0, σ²·Id).

    Attributes
    ----------
    budget, manifold
        Budget and manifold, as of any mechanism.
    noise : callable
        The source of noise of a generator.
    ends : tuple
        The two ends that a record moves between.
    """

    budget: Budget
    manifold: Manifold
    noise: Callable[[np.random.Generator], Source] = FloatNoise
    ends: tuple[End, End] = ENDS
    at_once: ClassVar[int] = TOGETHER
    """Transcripts that are drawn in one call, and then replayed."""
    together: ClassVar[int] = 6
    sensitivity: ClassVar[float] = 1.0 / PAIR_SIZE

    parallel: ClassVar[int] = 1
    """Number of classes whose costs do not add up: a record pays in one, or once for all."""

    def stated(self, transcript: Transcript) -> float:
        """Return Σ Δ²/σ² of a drawn transcript, by the proven Δ and the σ that was asked for.

        Of classes in parallel the largest: no record pays more, whatever the records are.

        Parameters
        ----------
        transcript : Transcript
            Drawn transcript.
        """
        squares = (self.sensitivity / np.array(transcript.sigmas)) ** 2
        return float(squares.reshape(self.parallel, -1).sum(axis=1).max())

    @property
    def class_budget(self) -> Budget:
        """Budget of one class."""
        return self.budget

    @cached_property
    def sides(self) -> list[list[Any]]:
        """Two data sets, ready for draws: with the record at either end."""
        data = (self.data_set(end, more=bool(i)) for i, end in enumerate(self.ends))
        return list(map(self.ready, data))

    @cached_property
    def domain(self) -> Domain:
        """The public bound of the records."""
        return domain(DESCRIPTOR, height=IMAGE_SIDE, width=IMAGE_SIDE, manifold=self.manifold.name)

    def data_set(self, end: End, *, more: bool = False) -> Any:
        """Return the records of the only class, one of which is at `end`.

        Parameters
        ----------
        end : End
            Logarithms of the eigenvalues of the record that is replaced.
        more : bool
            True for the one of two data sets that has more: in its first class, or of one person.
        """
        return [matrices([end, *[STAYING] * (PAIR_SIZE - 1)])]

    def classes(self, data: Any) -> list[Points]:
        """Return the records of each class of a data set.

        Parameters
        ----------
        data : object
            Data set, as `data_set` makes it.
        """
        return list(data)

    def ready(self, data: Any) -> list[Any]:
        """Return the records of each class, prepared for draws of their adaptive mean.

        Parameters
        ----------
        data : object
            Data set, as `data_set` makes it.
        """
        bound, labels = self.domain, self.known(data)
        admitted = (
            admit(points, domain=bound, manifold=self.manifold, labels=labels)
            for points in self.classes(data)
        )
        return [prepare(records, AdaptivePlan(), rng=None) for records in admitted]

    def known(self, data: Any) -> Labels:
        """Return the public facts of the classes: here, the class of each record.

        Parameters
        ----------
        data : object
            Data set, as `data_set` makes it.
        """
        return PUBLIC_LABELS

    def draw(self, sides: Sequence[list[Any]], tape: Tape) -> Sequence[Sequence[Any]]:
        """Draw a transcript of each class, first class first; return what leaves, of each.

        Of streams that is their nights. All repetitions are of one data set, or each of its own.

        Parameters
        ----------
        sides : sequence of list of object
            Prepared data set of all repetitions, or one for each.
        tape : Tape
            Tape that draws the noise, or gives it back.

        Returns
        -------
        sequence of sequence of object
            Releases of each repetition, class by class.
        """
        size = len(tape.transcripts)
        drawn = [
            draw_each(prepared, self.class_budget, noise=tape, size=size)
            for prepared in zip(*sides, strict=True)
        ]
        return [[_leaving(release, row) for release in drawn] for row in range(size)]

    def transcripts(
        self, ready: list[Any], many: int, rng: np.random.Generator
    ) -> list[Transcript]:
        """Return `many` transcripts of a data set, drawn block by block.

        Parameters
        ----------
        ready : list of object
            Data set, as `ready` prepares it.
        many : int
            Number of transcripts.
        rng : numpy.random.Generator
            Generator of the draws.
        """
        sizes = [min(self.at_once, many - start) for start in range(0, many, self.at_once)]
        return [transcript for size in sizes for transcript in self.block(ready, size, rng)]

    def block(self, ready: list[Any], many: int, rng: np.random.Generator) -> list[Transcript]:
        """Return transcripts of a data set that are drawn together.

        Parameters
        ----------
        ready : list of object
            Data set, as `ready` prepares it.
        many : int
            Number of transcripts.
        rng : numpy.random.Generator
            Generator of the draws.
        """
        blank = [Transcript([], [], []) for _ in range(many)]
        histories = self.draw([ready], Tape(blank, [self.noise(rng) for _ in blank]))
        both = zip(blank, histories, strict=True)
        return [transcript._replace(history=history) for transcript, history in both]

    def replay(
        self, sides: Sequence[list[Any]], transcripts: Sequence[Transcript]
    ) -> list[Transcript]:
        """Return transcripts as they are on one data set, or on as many as there are of them.

        Of means with what leaves there: it follows from what was released, so it has to be the same
        (`differ`). Nights are those that were drawn.

        Parameters
        ----------
        sides : sequence of list of object
            Prepared data set of all repetitions, or one for each.
        transcripts : sequence of Transcript
            Transcripts drawn on either data set.
        """
        replayed = [transcript._replace(own=[], sigmas=[]) for transcript in transcripts]
        histories = self.draw(sides, Tape(replayed))
        if isinstance(self, StreamTranscripts):
            return replayed
        both = zip(replayed, histories, strict=True)
        return [transcript._replace(history=history) for transcript, history in both]


# --- secret labels ------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelTranscripts(AdaptiveTranscripts):
    """The adaptive means of two classes whose labels are secret, drawn as a release draws them.

    The very same image, at the first of two ends, is of the first class on one data set and of the
    second on the other. The budget is paid once, for both classes. Sums stand in place of means.

    Attributes
    ----------
    labels : callable
        Public facts of the classes, from the number of all records; another function only where
        that is broken on purpose.
    ends : tuple of End
        Logarithms of the eigenvalues of the record that is replaced, on either data set.
    """

    labels: Callable[[int], Labels] = Labels
    ends: tuple[End, End] = ENDS[0], ENDS[0]
    sensitivity: ClassVar[float] = 1.0
    parallel: ClassVar[int] = 2

    def data_set(self, end: End, *, more: bool = False) -> Any:
        """Return the records of both classes; one at `end` is in the first, or in the second.

        Parameters
        ----------
        end : End
            Logarithms of the eigenvalues of the record that is replaced.
        more : bool
            True for the one of two data sets that has more: in its first class, or of one person.
        """
        both = [STAYING] * (PAIR_SIZE - 1), [*[STAYING] * (PAIR_SIZE - 1), end]
        return [matrices(logs) for logs in (both if more else both[::-1])]

    def known(self, data: Any) -> Labels:
        """Return the public facts of the classes.

        Parameters
        ----------
        data : object
            Data set, as `data_set` makes it.
        """
        return self.labels(sum(map(len, data)))


# --- persons ------------------------------------------------------------------------------------

CARD = Card(name="persons", kind="none", channels=1, classes=("first", "second"))


class Album(NamedTuple):
    """Images of persons: their descriptors, their classes, whose they are.

    Attributes
    ----------
    points : array, shape (n, k, k)
        Descriptors of the images.
    labels : array of int, shape (n,)
        Class of each image.
    people : array of bytes_, shape (n,)
        Person of each image.
    """

    points: Points
    labels: NDArray[np.int64]
    people: NDArray[np.bytes_]


@dataclass(frozen=True)
class PersonTranscripts(AdaptiveTranscripts):
    """The adaptive means of two classes of persons, formed as a release forms them.

    All images of one person, who is in both classes, are replaced by another number of them. The
    budget is for a person, in all classes they may be in.

    Attributes
    ----------
    classes_per_person : int
        Largest number of classes with images of one person.
    whole : bool
        True if one record is a person; an image only where that is broken on purpose.
    """

    classes_per_person: int = 1
    whole: bool = True

    @property
    def parallel(self) -> int:  # type: ignore[override]
        """Number of classes of which a person pays in one alone."""
        return len(CARD.classes) // self.classes_per_person

    @property
    def class_budget(self) -> Budget:
        """Budget of one class, such that all classes of a person cost the budget."""
        return split(self.budget, [1.0 / self.classes_per_person] * self.classes_per_person)[0]

    def data_set(self, end: End, *, more: bool = False) -> Album:
        """Return the album in which one person has images at `end` in both classes.

        All others have `PER_PERSON` in one class.

        Parameters
        ----------
        end : End
            Logarithms of the eigenvalues of the record that is replaced.
        more : bool
            True for the one of two data sets that has more: in its first class, or of one person.
        """
        own = PER_PERSON + 3 * more
        images = [
            (log, label, person)
            for label in range(len(CARD.classes))
            for log, person, many in (
                (end, "one", own),
                *((STAYING, f"{label}-{number}", PER_PERSON) for number in range(PAIR_SIZE - 1)),
            )
            for _ in range(many)
        ]
        logs, labels, people = zip(*images, strict=True)
        return Album(matrices(logs), np.array(labels), np.array(people, dtype=np.bytes_))

    def classes(self, data: Album) -> list[Points]:
        """Return the records of each class, persons unless not `whole`.

        Parameters
        ----------
        data : Album
            Album of persons.
        """
        count = len(data.labels)
        source = ImageSource(
            CARD,
            (1, 1),
            data.labels,
            split_codes("train", count),
            MemoryReader(np.zeros((count, 1, 1), np.uint8)),
            people=data.people,
            classes_per_person=self.classes_per_person,
        )
        chosen = [source.select(label=label) for label in range(len(CARD.classes))]
        return [
            person_records(data.points[c.rows], c.units, self.manifold)
            if self.whole
            else data.points[c.rows]
            for c in chosen
        ]


# --- streams ------------------------------------------------------------------------------------


class ReadyStream(NamedTuple):
    """Common part of the transcripts of a class: nights that are known, and the sums then.

    `placed` are the records of all nights as `StreamMechanism.placed` gives them, `units` how many
    it is public that came, `rests` from how many nights each goes on. `added` has the sums of those
    nights before which sums and epoch are the same.

    Attributes
    ----------
    stream : StreamMechanism
        Stream under audit.
    placed : list of array
        Records of each night, as `StreamMechanism.placed` gives them.
    units : list of int
        Public number of privacy units of each night.
    known : list of Night
        Nights that are published.
    private : PrivateSums
        Sums before the nights that are drawn.
    rests : sequence of int
        Number of earlier nights from which each night goes on.
    added : dict of (int, PrivateSums, Epoch or None) to PrivateSums
        Sums of those nights before which sums and epoch are the same.
    """

    stream: StreamMechanism
    placed: list[FloatArray]
    units: list[int]
    known: list[Night]
    private: PrivateSums
    rests: Sequence[int]
    added: dict[tuple[int, PrivateSums, Epoch | None], PrivateSums]

    def add(self, place: int, past: Sequence[Night], before: PrivateSums) -> PrivateSums:
        """Return the sums of a night after others, which have these.

        Parameters
        ----------
        place : int
            Index of the night.
        past : sequence of Night
            Nights before it.
        before : PrivateSums
            Sums before the night.
        """
        key = place, before, _epoch(self.stream, past)
        if key not in self.added:
            self.added[key] = add_placed(self.stream, past, before, self.placed[place])
        return self.added[key]

    def sums(self, history: Sequence[Night]) -> dict[int, PrivateSums]:
        """Return the sums before each night of a history, by its place.

        Parameters
        ----------
        history : sequence of Night
            Nights in order.
        """
        states = {len(self.known): self.private}
        for place in range(len(self.known), len(history)):
            past, private = history[: self.rests[place]], states[self.rests[place]]
            states[place + 1] = add_placed(self.stream, past, private, self.placed[place])
        return states


def openings(
    sides: Sequence[ReadyStream], tape: Tape
) -> tuple[list[list[Night]], list[dict[int, PrivateSums]]]:
    """Return the nights of all repetitions up to the last opening, and the sums till then.

    Of one data set, or of as many as there are repetitions. Nothing but counts is released before
    an opening, so all of them are drawn together.

    Parameters
    ----------
    sides : sequence of ReadyStream
        Prepared data set of all repetitions, or one for each.
    tape : Tape
        Tape that draws the noise, or gives it back.
    """
    first, size = sides[0], len(tape.transcripts)
    stream, units, rests = first.stream, first.units, first.rests
    histories = [list(first.known) for _ in range(size)]
    states = [{len(side.known): side.private} for side in sides]
    for place in range(len(first.known), len(units)):
        pasts = [history[: rests[place]] for history in histories]
        if split_epochs(stream, pasts[0]).opened is not None:
            break
        for side, own in zip(sides, states, strict=True):
            before = own[rests[place]]
            own[place + 1] = add_placed(stream, pasts[0], before, side.placed[place])
        sums = [own[place + 1] for own in states]
        so_far = sum(units[: rests[place]]) + units[place]
        nights = [Night(len(pasts[0]) + 1, units[place], so_far)] * size
        opens = stream.plan.opens(len(sums[0].waiting))
        if stream.plan.secret:  # by its count, as the records of these classes do for certain
            each = zip(pasts, cycle(sums), nights, strict=False)
            nights = [draw_count(stream, *own, tape)[0] for own in each]
        if opens:
            opened = draw_openings(stream, nights[0], *sums, noise=tape, size=size)
            nights = [
                replace(night, opened=opening.opened)
                for night, opening in zip(nights, opened, strict=True)
            ]
        for history, night in zip(histories, nights, strict=True):
            history.append(_once(night))
    return histories, states


@dataclass(frozen=True)
class StreamTranscripts(AdaptiveTranscripts):
    """A stream of one class over all nights of its horizon, drawn as its transcripts.

    Drawn by the code that releases a night: Σ c_{t−j}·x_j + N(0, σ²·Id) on night t, x_j the sum of
    night j.

    Attributes
    ----------
    sizes : tuple of tuple of int
        Records of each night of each class, as many nights as its horizon; the first opens the
        stream.
    place : int
        Index of the night whose first record is replaced. If that is not the first, the opening is
        the same on both data sets, and all transcripts go on from one.
    person : bool
        True if a record is a person, who is replaced with all images.
    rests : callable
        Number of nights → from how many each of them goes on; from all before it by default.
    again : bool
        Broken on purpose: the record comes again on every later night.
    peek : bool
        Broken on purpose: sums without noise move the centre of an epoch.
    """

    sizes: tuple[tuple[int, ...], ...] = ()
    place: int = 0
    person: bool = False
    rests: Callable[[int], Sequence[int]] = range
    again: bool = False
    peek: bool = False
    secret: ClassVar[bool] = False
    sensitivity: ClassVar[float] = 1.0

    @cached_property
    def stream(self) -> StreamMechanism:
        """Mechanism of each class."""
        plan = StreamPlan(self.budget, len(self.sizes[0]), opening=1.0, secret=self.secret)
        least = SECRET_OPENING / 2.0 if self.secret else FIRST_NIGHT
        return StreamMechanism(replace(plan, opening=least * plan.mu), self.domain, self.manifold)

    @property
    def opened(self) -> bool:
        """True if all transcripts go on from one opening."""
        return bool(self.place) and not self.secret

    def stated(self, transcript: Transcript) -> float:
        """Return the largest Σ Δ²/σ² of a night, by the proven Δ and the σ that was asked for.

        A record pays the opening that it is in, with the counts before it, or its own night and
        all later ones, whose Δ is that of all nights together: ‖c‖ = (Σ (binom(2j, j)/4^j)²)^½.

        Parameters
        ----------
        transcript : Transcript
            Drawn transcript.
        """
        horizon, sigmas, most = len(self.sizes[0]), iter(transcript.sigmas), 0.0
        series = sum((math.comb(2 * j, j) / 4.0**j) ** 2 for j in range(horizon))
        for night in transcript.history[int(self.opened) :]:
            squares = [series] * len(night.rhos)  # of the noise beside an opening's
            if night.opened is not None:
                own = 1.0 if self.secret else 1.0 / night.n_so_far**2
                squares += [own] * len(cast(Shares, self.stream.opening.shares).all)
            most = max(most, sum(square / next(sigmas) ** 2 for square in squares))
        return most

    @property
    def at_once(self) -> int:  # type: ignore[override]
        """Transcripts that are drawn in one call: few, whose histories are known when replayed."""
        return 2 if self.opened else TOGETHER

    @property
    def together(self) -> int:  # type: ignore[override]
        """Ends that are tried in one call: several where there are openings to draw together."""
        return 1 if self.opened else 4

    def data_set(self, end: End, *, more: bool = False) -> list[list[Points]]:
        """Return the records of every night of each class, one at `place` being at `end`.

        Parameters
        ----------
        end : End
            Logarithms of the eigenvalues of the record that is replaced.
        more : bool
            True for the one of two data sets that has more: in its first class, or of one person.
        """
        own, others = (to_chart(self.manifold, matrices([log])) for log in (end, STAYING))
        if self.person:
            images = matrices([end] * (PER_PERSON + 3 * more))
            own = person_records(images, np.zeros(len(images)), self.manifold)
        classes = [[np.repeat(others, size, axis=0) for size in sizes] for sizes in self.sizes]
        nights, replaced = classes[int(more and self.secret)], int(not self.secret)
        for night in range(self.place, len(nights) if self.again else self.place + 1):
            nights[night] = np.concatenate([own, nights[night][replaced:]])
        return classes

    def ready(self, data: Any) -> list[Any]:
        """Return the common part of both data sets: an opening, or nothing.

        Parameters
        ----------
        data : object
            Data set, as `data_set` makes it.
        """
        stream, nothing = self.stream, empty_state(self.manifold.dim)
        placed = [_placed(stream, nights) for nights in data]
        units = [sum(map(len, night)) for night in zip(*placed, strict=True)]
        rests = self.rests(len(units))
        private, past = self._opening if self.opened else (nothing, [])
        return [ReadyStream(stream, nights, units, past, private, rests, {}) for nights in placed]

    @cached_property
    def _opening(self) -> tuple[PrivateSums, list[Night]]:
        """Return the sums of the first night where all its records stay, and that night."""
        units = self.stream.placed(self.data_set(STAYING)[0][0])
        private = add_placed(self.stream, [], empty_state(self.manifold.dim), units)
        noise = FloatNoise(np.random.default_rng(0))
        return private, [draw_night(self.stream, [], private, len(units), noise=noise)]

    def draw(self, sides: Sequence[list[Any]], tape: Tape) -> Sequence[Sequence[Night]]:
        """Draw all nights of each class; each goes on from those drawn, or those published.

        Parameters
        ----------
        sides : sequence of list of object
            Prepared data set of all repetitions, or one for each.
        tape : Tape
            Tape that draws the noise, or gives it back.

        Returns
        -------
        sequence of sequence of Night
            Nights of each repetition, class by class.
        """
        histories = zip(*(self._nights(own, tape) for own in zip(*sides, strict=True)), strict=True)
        return [[night for history in own for night in history] for own in histories]

    def _nights(self, sides: Sequence[ReadyStream], tape: Tape) -> Sequence[Sequence[Night]]:
        """Draw all nights of repetitions of one class."""
        histories, privates = openings(sides, tape)
        own = zip(histories, tape.transcripts, cycle(sides), cycle(privates), strict=False)
        for row, (history, published, side, private) in enumerate(own):
            states = dict(private)
            for place in range(len(history), len(side.placed)):
                past, before = history[: side.rests[place]], states[side.rests[place]]
                after = states[place + 1] = side.add(place, past, before)
                night = draw_night(
                    side.stream, past, after, side.units[place], noise=tape.repetition(row)
                )
                if self.peek and night.epoch is not None:
                    night = self._moved(night, before, published.history)
                history.append(_once(night))
        return histories

    def _moved(self, night: Night, private: PrivateSums, published: Sequence[Night]) -> Night:
        """Return a night whose epoch begins where it was published, or by sums without noise."""
        epoch = night.epoch
        assert epoch is not None
        if published:
            return replace(night, epoch=published[night.night - 1].epoch)
        moved = epoch.centre + vector_sum(private, self.manifold.dim)
        return replace(night, epoch=replace(epoch, centre=moved))


@dataclass(frozen=True)
class LabelStreamTranscripts(StreamTranscripts):
    """Streams of two classes whose labels are secret, each opening at `SECRET_OPENING` for certain.

    The very same record is of the first class on one data set and of the second on the other: it
    comes on the night at `place`, beside all others. The budget is paid once, for both classes.

    Attributes
    ----------
    ends : tuple of End
        Logarithms of the eigenvalues of the record that is replaced, on either data set.
    """

    ends: tuple[End, End] = ENDS[0], ENDS[0]
    secret: ClassVar[bool] = True


@repeatable
def _once(night: Night) -> Night:
    """Return a night; of a transcript that is replayed the very one that was drawn, if it is so."""
    return night


def _placed(stream: StreamMechanism, nights: Sequence[Points]) -> list[FloatArray]:
    """Return the records of each night as `StreamMechanism.placed` gives them, in one call."""
    ends = np.cumsum([len(points) for points in nights])
    return np.split(stream.placed(np.concatenate(nights)), ends[:-1])


def vector_sum(private: PrivateSums, dim: int) -> FloatArray:
    """Return the sum of the clipped vectors of an epoch, without noise: what nobody may see.

    Parameters
    ----------
    private : PrivateSums
        Sums of an epoch.
    dim : int
        Dimension d of the vectors.
    """
    total = np.zeros(dim)
    for row in private.means:
        total += np.array(from_limbs(row[:dim]), dtype=np.float64) / PER_UNIT
    return total


def _epoch(stream: StreamMechanism, history: Sequence[Night]) -> Epoch | None:
    """Return what decides where the records of the next night are clipped, if they are."""
    past = split_epochs(stream, history)
    if past.holds:
        return None
    return begin_epoch(stream, tuple(history)) if epoch_due(past) else past.segments[-1].epoch


@cache
def overlapping(count: int) -> tuple[int, ...]:
    """Return from how many nights each of `count` nights goes on, all but the first begun at once.

    That is all that an overlap may change of a transcript. A ledger of its own says it, in a folder
    that goes. Each night has read how far the stream is before any other of them was reserved; one
    whose reservation reports that another came between reads again.

    Parameters
    ----------
    count : int
        Number of nights.
    """
    population, name = "audit", "nights"
    days = [f"2000-01-{1 + number:02d}" for number in range(count)]
    rests = list[int]()
    with tempfile.TemporaryDirectory() as folder:
        ledger = init_ledger(Path(folder) / "ledger.sqlite")
        ledger.set_budget(population, GDP(1.0))
        stream = open_stream(ledger, population, name, "{}", horizon=count, cost=GDP(1.0))

        def read(day: str) -> StreamStatus:
            now = stream_status(ledger, population, name, day)
            assert now is not None
            return now

        def commit(day: str, now: StreamStatus) -> None:
            units = [day.encode()]
            while (
                reservation := reserve_night(
                    ledger, stream, day, units=units, labels=["0"], version=now.version
                )
            ) is None:
                now = read(day)
            commit_night(ledger, reservation, b"{}")
            rests.append(len(now.stream.committed))

        commit(days[0], read(days[0]))
        for day, now in [(day, read(day)) for day in days[1:]]:
            commit(day, now)
    return tuple(rests)
