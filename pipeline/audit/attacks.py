"""How transcripts are attacked: the adaptive mean, persons in two classes, and streams of nights.

In: what is released, drawn as its transcripts: all noised vectors in order, which tell more than
the result. Out: two neighbouring data sets, and a score. On either data set the law of a step,
given the steps before, is normal around the vector that this data set gives when those steps are
replayed: the log-likelihood ratio of a transcript is exact (``bounds.py``).

One record is replaced: an image, all images of a person, or a record of one night. It moves between
two ends (`ENDS`), on opposite sides of all others.
"""

import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import cycle, repeat
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.audit.bounds import Replay, Steps, log_ratio, squared_mu
from pipeline.datasets import Card, ImageSource
from pipeline.datasets.source import MemoryReader, split_codes
from pipeline.descriptors import domain
from pipeline.geometry import Manifold, to_chart
from pipeline.ledger import (
    NightReservation,
    StreamStatus,
    commit_night,
    init_ledger,
    open_stream,
    reserve_night,
    stream_status,
)
from pipeline.mean import (
    PUBLIC_LABELS,
    AdaptivePlan,
    Labels,
    Prepared,
    admit,
    draw,
    draw_each,
    person_records,
    prepare,
)
from pipeline.mean.sums import PER_UNIT
from pipeline.mechanisms import Diagnostics, Draws
from pipeline.mechanisms.base import Neighbours, Points
from pipeline.mechanisms.noise import FloatNoise, Noise, Noised
from pipeline.privacy import GDP, Budget, split
from pipeline.stream import Night, PrivateSums, StreamMechanism, StreamPlan, draw_night, empty_state
from pipeline.stream.epochs import epoch_due
from pipeline.stream.factorisation import from_limbs
from pipeline.stream.history import split_epochs
from pipeline.stream.night import add_placed, draw_openings

RECORDS = 4
"""Size n of the data sets; one of the records is replaced."""
OTHERS = (7.0, 5.0, 5.0, 4.0, 4.0)
"""Logarithms of the eigenvalues of all records that stay."""
End: TypeAlias = Sequence[float]
"""Logarithms of the eigenvalues of what is replaced."""
ENDS: tuple[End, End] = ((9.1, 7.4, 7.4, 7.0, 1.6), (-5.5, -6.3, -6.3, -6.7, 1.6))
"""The two ends: on opposite sides of the other records, along Id and off it, at different
distances. So what moves between them changes its bin in each histogram, and is clipped on opposite
sides. They lie beyond most clips, but not far beyond: the vectors of records farther away are
shortened, and so move a mean by less (``mean/sums.py``)."""
NEAR_ENDS: tuple[End, End] = ((10.0, 7.0, 5.0, 2.0, 0.0), (6.0, 6.0, 6.0, 6.0, 6.0))
"""Ends inside of most clips, which are close around the others. They move a mean by less, but in
more of the releases: where many images move it, more is shown by that."""
TOGETHER = 1000
"""Transcripts that are drawn, or replayed, in one call."""
SEARCH = 200
"""Ends that are tried for the dearest transcript."""
DESCRIPTOR, SIDE = "oct5", 28
"""What the records are descriptors of."""
IMAGES = 5
"""Images of a person; the one who takes the place of another has three more."""
OPENING = 2
"""Units of the first night, which a stream opens with."""
COUNTED = 60
"""Units of the first night of a class that opens on it, where labels are secret: at μ = 2, half of
them lie seven deviations of the noise of their count away."""


class ReplayedSteps(NamedTuple):
    """What the steps of a transcript release without noise on a data set, and σ of each."""

    vectors: list[FloatArray]
    sigmas: list[float]


class Transcript(NamedTuple):
    """All noised vectors in order, and what they were before noise; of a stream also its nights."""

    vectors: tuple[FloatArray, ...]
    own: ReplayedSteps
    history: tuple[Night, ...] = ()


class RecordedNoise:
    """Sources of noise that keep what they were given and gave, one for each repetition.

    Repetitions are drawn together: each step of all of them, then the next step.
    """

    def __init__(
        self,
        sources: Sequence[Noise],
        vectors: Sequence[list[FloatArray]] | None = None,
        own: Sequence[ReplayedSteps] | None = None,
    ) -> None:
        self.sources = sources
        self.vectors = [list[FloatArray]() for _ in sources] if vectors is None else vectors
        self.own = [ReplayedSteps([], []) for _ in sources] if own is None else own
        self._each = cycle(zip(self.sources, self.vectors, self.own, strict=True))

    @property
    def rng(self) -> np.random.Generator | None:
        """The generator of the sources."""
        return self.sources[0].rng

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Add noise and keep the result."""
        source, vectors, own = next(self._each)
        noised = source(vector, sigma, sensitivity)
        vectors.append(noised.vector)
        own.vectors.append(vector)
        own.sigmas.append(sigma)
        return noised

    def repetition(self, row: int) -> "RecordedNoise":
        """Return the source of one repetition alone."""
        return RecordedNoise([self.sources[row]], [self.vectors[row]], [self.own[row]])

    def transcripts(self, histories: Iterable[Sequence[Night]] = repeat(())) -> Points:
        """Return the transcript of each repetition, as objects."""
        drawn = np.empty(len(self.sources), dtype=object)
        for row, (vectors, own, history) in enumerate(
            zip(self.vectors, self.own, histories, strict=False)
        ):
            drawn[row] = Transcript(tuple(vectors), own, tuple(history))
        return drawn


class ReplayedNoise:
    """No noise: transcripts are given back step by step, and what was asked is kept.

    Repetitions are drawn together: each step of all of them, then the next step.

    Vectors of a step may differ in length from draw to draw, as the last carries second moments or
    not. That is decided by what was released before, so a replay has the same; unless the mechanism
    is broken: then what both have counts.
    """

    rng = None

    def __init__(
        self,
        transcripts: Sequence[Sequence[FloatArray]],
        replayed: Sequence[ReplayedSteps] | None = None,
    ) -> None:
        self.transcripts = transcripts
        self.replayed = replayed or [ReplayedSteps([], []) for _ in transcripts]
        self._each = cycle(zip(self.transcripts, self.replayed, strict=True))

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Return the next part of a transcript."""
        transcript, replayed = next(self._each)
        released = transcript[len(replayed.vectors)]
        replayed.sigmas.append(sigma)
        if len(released) == len(vector):
            replayed.vectors.append(vector)
            return Noised(released, math.nan)
        both = min(len(released), len(vector))
        replayed.vectors.append(np.append(vector[:both], released[both:]))
        return Noised(np.append(released[:both], vector[both:]), math.nan)

    def repetition(self, row: int) -> "ReplayedNoise":
        """Return the source of one transcript alone."""
        return ReplayedNoise([self.transcripts[row]], [self.replayed[row]])


def replays(mechanism: Any, left: Any, right: Any) -> Replay:
    """Return what replays transcripts on two data sets."""
    sides = [mechanism.ready(data) for data in (left, right)]

    def replay(transcripts: Sequence[Transcript]) -> list[Steps]:
        replayed = zip(transcripts, *mechanism.replay(sides, transcripts), strict=True)
        return [_steps(one.vectors, *parts) for one, *parts in replayed]

    return replay


def replayed_pair(
    mechanism: Any, data: Sequence[Any], laws: Sequence[Sequence[Transcript]]
) -> list[list[Steps]]:
    """Return transcripts that `mechanism` drew of two data sets, each replayed on the other.

    What a step releases without noise on its own data set is what its noise was added to.
    """
    left, right = laws
    ready = [mechanism.ready(own) for own in data]
    (moved,), (back,) = mechanism.replay(ready[1:], left), mechanism.replay(ready[:1], right)
    return [
        [_steps(one.vectors, one.own, other) for one, other in zip(left, moved, strict=True)],
        [_steps(one.vectors, other, one.own) for one, other in zip(right, back, strict=True)],
    ]


def _steps(released: Sequence[FloatArray], left: ReplayedSteps, right: ReplayedSteps) -> Steps:
    sigmas = list(zip(left.sigmas, right.sigmas, strict=True))
    return Steps(released, left.vectors, right.vectors, sigmas)


def transcripts(mechanism: Any, ends: tuple[End, End] | None = None) -> Neighbours:
    """Return two data sets, and the log-likelihood ratio of transcripts, for a mechanism."""
    both = enumerate(ends or mechanism.ends)
    left, right = (mechanism.data_set(end, more=bool(i)) for i, end in both)
    replay = replays(mechanism, left, right)
    return Neighbours(left, right, None, lambda y: np.array(list(map(log_ratio, replay(y)))))


def edges(mechanism: Any, transcript: Transcript) -> Steps:
    """Return a transcript replayed on the data sets, of many that are tried, that it costs most on.

    Clips differ from transcript to transcript, and a record moves a mean most between opposite
    edges of the clip: so either end goes, in turns, to where it costs more, by random steps.
    """
    vectors, size, trial = transcript.vectors, 2.0, 0
    moves = np.random.default_rng(0).standard_normal((SEARCH, len(OTHERS)))

    def replayed(tries: Sequence[tuple[int, FloatArray]]) -> list[ReplayedSteps]:
        data = [mechanism.data_set(end, more=bool(i)) for i, end in tries]
        return cast(
            list[ReplayedSteps], mechanism.replay_each(list(map(mechanism.ready, data)), transcript)
        )

    ends = [np.array(end) for end in mechanism.ends]
    sides = replayed(list(enumerate(ends)))
    most = squared_mu(_steps(vectors, *sides)).sum()
    while trial < SEARCH:
        # as if none of them cost more; those after one that does are not looked at
        tries, sizes = list[tuple[int, FloatArray]](), [size]
        for move in moves[trial : trial + mechanism.together]:
            i = (trial + len(tries)) % 2
            tries.append((i, ends[i] + sizes[-1] * move))
            sizes.append(max(0.93 * sizes[-1], 0.02))
        for (i, end), side, size in zip(tries, replayed(tries), sizes[1:], strict=True):
            tried = sides.copy()
            tried[i], trial = side, trial + 1
            cost = squared_mu(_steps(vectors, *tried)).sum()
            if cost > most:
                ends[i], sides, most, size = end, tried, cost, min(1.6 * size, 3.0)
                break
    return _steps(vectors, *sides)


# --- the adaptive mean --------------------------------------------------------------------------


@dataclass(frozen=True)
class AdaptiveTranscripts:
    """The adaptive mean of `RECORDS` descriptors, drawn as its transcripts: a `Mechanism`.

    Attributes
    ----------
    budget, manifold
        As for any mechanism.
    noise : callable
        The source of noise of a generator.
    """

    budget: Budget
    manifold: Manifold
    noise: Callable[[np.random.Generator], Noise] = FloatNoise
    together: ClassVar[int] = 8
    ends: ClassVar[tuple[End, End]] = ENDS
    sensitivity: ClassVar[float] = 1.0 / RECORDS
    law: ClassVar[str] = "mean of vectors from a set of diameter 1, plus N(0, σ²·Id), step by step"

    @property
    def class_budget(self) -> Budget:
        """What one class may cost."""
        return self.budget

    @property
    def sigma(self) -> float:
        """Noise that the last step of a draw asks for, which does not depend on the records."""
        ready, noise = self.ready(self.data_set(ENDS[0])), FloatNoise(np.random.default_rng(0))
        return draw(ready[-1], self.class_budget, noise=noise)[0].sigma

    def data_set(self, end: End, *, more: bool = False) -> Any:
        """Return the records, one of which is at `end`."""
        return np.stack([np.diag(np.exp(log)) for log in (end, *[OTHERS] * (RECORDS - 1))])

    def classes(self, data: Any) -> list[Points]:
        """Return the records of each class of a data set."""
        return [data]

    def ready(self, data: Any) -> list[Prepared]:
        """Return the records of each class, prepared for draws of their adaptive mean."""
        known = domain(DESCRIPTOR, height=SIDE, width=SIDE, manifold=self.manifold.name)
        labels = self.known(data)
        admitted = (
            admit(x, domain=known, manifold=self.manifold, labels=labels)
            for x in self.classes(data)
        )
        return [prepare(records, AdaptivePlan(), rng=None) for records in admitted]

    def known(self, data: Any) -> Labels:
        """Return what is public of the classes: here, which each record is in."""
        return PUBLIC_LABELS

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` transcripts of a data set: the vectors of each, first class first."""
        drawn, prepared = list[Points](), self.ready(center)
        for start in range(0, size, TOGETHER):
            few = min(TOGETHER, size - start)
            noise = RecordedNoise([self.noise(rng) for _ in range(few)])
            for ready in prepared:
                draw(ready, self.class_budget, noise=noise, size=few)
            drawn.append(noise.transcripts())
        return Draws(np.concatenate(drawn), Diagnostics())

    def replay(
        self, sides: Sequence[list[Prepared]], transcripts: Sequence[Transcript]
    ) -> list[list[ReplayedSteps]]:
        """Return what the steps of transcripts release on each side, unnoised, and each σ."""
        replayed = [list[ReplayedSteps]() for _ in sides]
        for start in range(0, len(transcripts), TOGETHER):
            few = [one.vectors for one in transcripts[start : start + TOGETHER]]
            for ready, steps in zip(sides, replayed, strict=True):
                noise = ReplayedNoise(few)
                for prepared in ready:
                    draw(prepared, self.class_budget, noise=noise, size=len(few))
                steps += noise.replayed
        return replayed

    def replay_each(
        self, sides: Sequence[list[Prepared]], transcript: Transcript
    ) -> list[ReplayedSteps]:
        """Return what the steps of one transcript release on each of several sides."""
        noise = ReplayedNoise([transcript.vectors] * len(sides))
        for prepared in zip(*sides, strict=True):
            draw_each(prepared, self.class_budget, noise=noise)
        return list(noise.replayed)

    def expected_error(self) -> float | None:
        """Return None: not needed here."""
        return None


# --- secret labels ------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelTranscripts(AdaptiveTranscripts):
    """The adaptive means of two classes whose labels are secret, drawn as a release draws them.

    The very same image, at the first of two ends, is of the first class on one data set and of the
    second on the other. The budget is paid once, for both classes.

    Attributes
    ----------
    labels : callable
        What is public of the classes, from the number of all records; another only where that is
        broken on purpose.
    """

    labels: Callable[[int], Labels] = Labels
    ends: ClassVar[tuple[End, End]] = ENDS[0], ENDS[0]
    sensitivity: ClassVar[float] = 1.0
    law: ClassVar[str] = "for each class as of the adaptive mean, sums in place of means"

    def data_set(self, end: End, *, more: bool = False) -> Any:
        """Return the records of both classes; one at `end` is in the first, or in the second."""
        one, other = (np.diag(np.exp(np.asarray(log, float))) for log in (end, OTHERS))
        others = [other] * (RECORDS - 1)
        classes = [others, [*others, one]] if more else [[*others, one], others]
        return [np.stack(points) for points in classes]

    def classes(self, data: Any) -> list[Points]:
        """Return the records of each class of a data set."""
        return list(data)

    def known(self, data: Any) -> Labels:
        """Return what is public of the classes."""
        return self.labels(sum(map(len, data)))


# --- persons ------------------------------------------------------------------------------------

CARD = Card(name="persons", kind="none", channels=1, classes=("first", "second"))


class Album(NamedTuple):
    """Images of persons: their descriptors, their classes, whose they are."""

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
        In how many classes a person may be.
    whole : bool
        Whether one record is a person; an image only where that is broken on purpose.
    """

    classes_per_person: int = 1
    whole: bool = True
    law: ClassVar[str] = "for each class as of the adaptive mean, a person being one record"

    @property
    def class_budget(self) -> Budget:
        """What one class may cost, so that all of a person's cost the budget."""
        return split(self.budget, [1.0 / self.classes_per_person] * self.classes_per_person)[0]

    def data_set(self, end: End, *, more: bool = False) -> Album:
        """Return the album in which one person has images at `end` in both classes.

        All others have `IMAGES` in one class.
        """
        logs: list[End] = []
        labels: list[int] = []
        people: list[bytes] = []
        own = IMAGES + 3 * more
        for label in range(len(CARD.classes)):
            logs += [end] * own + [OTHERS] * (IMAGES * (RECORDS - 1))
            people += [b"one"] * own
            for number in range(RECORDS - 1):
                people += [f"{label}-{number}".encode()] * IMAGES
            labels += [label] * (len(logs) - len(labels))
        points = np.stack([np.diag(np.exp(log)) for log in logs])
        return Album(points, np.array(labels), np.array(people))

    def classes(self, data: Album) -> list[Points]:
        """Return the records of each class, persons unless not `whole`."""
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
    """What a data set's transcripts have in common: nights that are known, and the sums then.

    `placed` are the records of all nights as `StreamMechanism.placed` gives them, `rests` from how
    many nights each goes on.
    """

    stream: StreamMechanism
    placed: list[FloatArray]
    known: list[Night]
    private: PrivateSums
    rests: tuple[int, ...]

    def openings(
        self, noise: RecordedNoise | ReplayedNoise, size: int
    ) -> tuple[list[list[Night]], dict[int, PrivateSums]]:
        """Return the nights of `size` repetitions up to the last opening, and the sums till then.

        Nothing is released before an opening, so all of them are drawn together.
        """
        histories = [list(self.known) for _ in range(size)]
        states = {len(self.known): self.private}
        for place in range(len(self.known), len(self.placed)):
            past, units = histories[0][: self.rests[place]], len(self.placed[place])
            if split_epochs(self.stream, past).opened is not None:
                break
            held = add_placed(self.stream, past, states[self.rests[place]], self.placed[place])
            states[place + 1] = held
            if self.stream.plan.opens(len(held.held)):
                tonight = Night(len(past) + 1, units, len(held.held))
                nights = draw_openings(self.stream, tonight, held, noise=noise, size=size)
            else:
                nights = [draw_night(self.stream, past, held, units, noise=noise)] * size
            for history, night in zip(histories, nights, strict=True):
                history.append(night)
        return histories, states

    def sums(self, history: Sequence[Night]) -> dict[int, PrivateSums]:
        """Return the sums before each night of a history, by its place."""
        states = {len(self.known): self.private}
        for place in range(len(self.known), len(history)):
            past, private = history[: self.rests[place]], states[self.rests[place]]
            states[place + 1] = add_placed(self.stream, past, private, self.placed[place])
        return states


@dataclass(frozen=True)
class StreamTranscripts:
    """A stream of one class over all nights of its horizon, drawn as its transcripts.

    Drawn by the code that releases a night.

    Attributes
    ----------
    budget, manifold
        As for any mechanism; the budget is what a record pays for all nights.
    sizes : tuple of int
        Records of each night, the first of which opens the stream; as many nights as its horizon.
    place : int
        Index of the night whose first record is replaced. If that is not the first, the opening is
        the same on both data sets, and all transcripts go on from one.
    person : bool
        Whether a record is a person, who is replaced with all images.
    noise : callable
        The source of noise of a generator.
    rests : tuple of int
        From how many nights each goes on; from all before it where that is left out.
    again : bool
        Broken on purpose: the record comes again on every later night.
    peek : bool
        Broken on purpose: sums without noise move the centre of an epoch.
    """

    budget: Budget
    manifold: Manifold
    sizes: tuple[int, ...]
    place: int
    person: bool = False
    noise: Callable[[np.random.Generator], Noise] = FloatNoise
    rests: tuple[int, ...] = ()
    again: bool = False
    peek: bool = False
    together: ClassVar[int] = 1
    ends: ClassVar[tuple[End, End]] = ENDS
    sensitivity: ClassVar[float] = 1.0
    law: ClassVar[str] = "Σ c_{t−j}·x_j + N(0, σ²·Id) on night t, x_j the sum of night j"

    @cached_property
    def stream(self) -> StreamMechanism:
        """What is released of the one class."""
        known = domain(DESCRIPTOR, height=SIDE, width=SIDE, manifold=self.manifold.name)
        plan = StreamPlan(self.budget, len(self.sizes), opening=1.0)
        return StreamMechanism(replace(plan, opening=OPENING * plan.mu), known, self.manifold)

    @property
    def sigma(self) -> float:
        """Noise of the clipped vectors of every night."""
        return self.stream.steps[2].sigma

    def data_set(self, end: End, *, more: bool = False) -> list[Points]:
        """Return the records of every night, the first at `place` being the one at `end`."""
        one, other = (np.diag(np.exp(np.asarray(log, float))) for log in (end, OTHERS))
        if self.person:
            images = IMAGES + 3 * more
            own = person_records(np.stack([one] * images), np.full(images, b"one"), self.manifold)
        else:
            own = to_chart(self.manifold, one[None])
        others = to_chart(self.manifold, other[None])
        nights = [np.repeat(others, size, axis=0) for size in self.sizes]
        for night in range(self.place, len(nights) if self.again else self.place + 1):
            nights[night] = np.concatenate([own, nights[night][1:]])
        return nights

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` transcripts of the nights `center`, as objects."""
        noise = RecordedNoise([self.noise(rng) for _ in range(size)])
        histories = self._nights([self.ready(cast(list[Points], center))], [noise], size)
        return Draws(noise.transcripts(histories), Diagnostics())

    def _nights(
        self,
        sides: Sequence[ReadyStream],
        noises: Sequence[RecordedNoise | ReplayedNoise],
        size: int,
        published: Sequence[Sequence[Night]] | None = None,
    ) -> Sequence[Sequence[Night]]:
        """Draw all nights of repetitions, each after those that are drawn, or were published."""
        opened = [side.openings(noise, size) for side, noise in zip(sides, noises, strict=True)]
        begun, rests = len(opened[0][0][0]), sides[0].rests
        histories = opened[0][0] if published is None else list(map(list, published))
        sums = [dict[tuple[Any, ...], PrivateSums]() for _ in sides]
        for row, history in enumerate(histories):
            states = [dict(private) for _, private in opened]
            for place in range(begun, len(sides[0].placed)):
                past = history[: rests[place]]
                key = place, *_clip_key(sides[0].stream, past)
                for side, noise, state, known in zip(sides, noises, states, sums, strict=True):
                    private, units = state[rests[place]], side.placed[place]
                    if key not in known:
                        known[key] = add_placed(side.stream, past, private, units)
                    state[place + 1] = known[key]
                    source = noise.repetition(row)
                    night = draw_night(side.stream, past, known[key], len(units), noise=source)
                    if published is None:
                        history.append(self._published(night, private))
        return histories

    def _published(self, night: Night, private: PrivateSums) -> Night:
        """Return a night as it is published: with `peek`, its epoch moves by sums without noise."""
        if not self.peek or night.epoch is None:
            return night
        moved = night.epoch.centre + vector_sum(private, self.manifold.dim)
        return replace(night, epoch=replace(night.epoch, centre=moved))

    def ready(self, data: Sequence[Points]) -> ReadyStream:
        """Return what is the same on both data sets: an opening, or nothing."""
        stream, private = self.stream, empty_state(self.manifold.dim)
        placed = [stream.placed(points) for points in data]
        rests = self.rests or tuple(range(len(placed)))
        if self.place == 0:
            return ReadyStream(stream, placed, [], private, rests)
        private, opening = self._opened
        return ReadyStream(stream, placed, [opening], private, rests)

    @cached_property
    def _opened(self) -> tuple[PrivateSums, Night]:
        """Return the first night where all its records stay, and the sums then."""
        units = self.stream.placed(self.data_set(OTHERS)[0])
        private = add_placed(self.stream, [], empty_state(self.manifold.dim), units)
        noise = FloatNoise(np.random.default_rng(0))
        return private, draw_night(self.stream, [], private, len(units), noise=noise)

    def replay(
        self, sides: Sequence[ReadyStream], transcripts: Sequence[Transcript]
    ) -> list[list[ReplayedSteps]]:
        """Return what nights give on each side, each after those that were published."""
        noises = [ReplayedNoise([one.vectors for one in transcripts]) for _ in sides]
        self._nights(sides, noises, len(transcripts), [one.history for one in transcripts])
        return [list(noise.replayed) for noise in noises]

    def replay_each(
        self, sides: Sequence[ReadyStream], transcript: Transcript
    ) -> list[ReplayedSteps]:
        """Return what the nights of one transcript give on each of several sides."""
        return [self.replay([side], [transcript])[0][0] for side in sides]

    def expected_error(self) -> float | None:
        """Return None: not needed here."""
        return None


@dataclass(frozen=True)
class LabelStreamTranscripts:
    """Streams of two classes whose labels are secret, over all nights of their horizon.

    The very same record is of the first class on one data set and of the second on the other. The
    budget is paid once, for both classes. Steps are those of the first class, then of the second.

    Attributes
    ----------
    budget, manifold, noise
        As of `StreamTranscripts`.
    sizes : tuple of tuple of int
        Records of each night, but for the one that moves, of each class.
    place : int
        Index of the night on which that one comes.
    again : bool
        Broken on purpose: it comes again on every later night.
    """

    budget: Budget
    manifold: Manifold
    sizes: tuple[tuple[int, ...], tuple[int, ...]]
    place: int
    noise: Callable[[np.random.Generator], Noise] = FloatNoise
    again: bool = False
    together: ClassVar[int] = 1
    ends: ClassVar[tuple[End, End]] = ENDS[0], ENDS[0]
    sensitivity: ClassVar[float] = 1.0
    law: ClassVar[str] = "for each class as of a stream, its count beside its sums"

    @cached_property
    def stream(self) -> StreamMechanism:
        """What is released of either class, which opens at `COUNTED` records for certain."""
        known = domain(DESCRIPTOR, height=SIDE, width=SIDE, manifold=self.manifold.name)
        plan = StreamPlan(self.budget, len(self.sizes[0]), opening=1.0, secret=True)
        return StreamMechanism(replace(plan, opening=COUNTED / 2.0 * plan.mu), known, self.manifold)

    @property
    def sigma(self) -> float:
        """Noise of the clipped vectors of every night."""
        return self.stream.steps[2].sigma

    def data_set(self, end: End, *, more: bool = False) -> list[list[Points]]:
        """Return the records of every night of both classes; one at `end` is in the second."""
        one, other = (
            to_chart(self.manifold, np.diag(np.exp(np.asarray(log, float)))[None])
            for log in (end, OTHERS)
        )
        classes = [[np.repeat(other, size, axis=0) for size in sizes] for sizes in self.sizes]
        nights = classes[int(more)]
        for night in range(self.place, len(nights) if self.again else self.place + 1):
            nights[night] = np.concatenate([one, nights[night]])
        return classes

    def ready(self, data: list[list[Points]]) -> list[list[FloatArray]]:
        """Return the records of every night of both classes in the chart."""
        return [[self.stream.placed(points) for points in nights] for nights in data]

    def _draw(self, ready: list[list[FloatArray]], noise: Noise) -> None:
        """Draw all nights of the first class, then of the second."""
        totals = [sum(map(len, night)) for night in zip(*ready, strict=True)]
        for nights in ready:
            history, private = list[Night](), empty_state(self.manifold.dim)
            for placed, total in zip(nights, totals, strict=True):
                private = add_placed(self.stream, history, private, placed)
                history.append(draw_night(self.stream, history, private, total, noise=noise))

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` transcripts of a data set, as objects."""
        ready = self.ready(cast(list[list[Points]], center))
        drawn = np.empty(size, dtype=object)
        for row in range(size):
            noise = RecordedNoise([self.noise(rng)])
            self._draw(ready, noise)
            drawn[row] = noise.transcripts()[0]
        return Draws(drawn, Diagnostics())

    def replay(
        self, sides: Sequence[list[list[FloatArray]]], transcripts: Sequence[Transcript]
    ) -> list[list[ReplayedSteps]]:
        """Return what nights give on each side, each after those of a transcript."""
        replayed = [list[ReplayedSteps]() for _ in sides]
        for ready, steps in zip(sides, replayed, strict=True):
            for one in transcripts:
                noise = ReplayedNoise([one.vectors])
                self._draw(ready, noise)
                steps += noise.replayed
        return replayed

    def replay_each(
        self, sides: Sequence[list[list[FloatArray]]], transcript: Transcript
    ) -> list[ReplayedSteps]:
        """Return what the nights of one transcript give on each of several sides."""
        return [steps for (steps,) in self.replay(sides, [transcript])]

    def expected_error(self) -> float | None:
        """Return None: not needed here."""
        return None


def vector_sum(private: PrivateSums, dim: int) -> FloatArray:
    """Return the sum of the clipped vectors of an epoch, without noise: what nobody may see."""
    total = np.zeros(dim)
    for row in private.means:
        total += np.array(from_limbs(row[:dim]), dtype=np.float64) / PER_UNIT
    return total


def _clip_key(stream: StreamMechanism, history: Sequence[Night]) -> tuple[Any, ...]:
    """Return what decides where the records of the next night are clipped, and so the sums then."""
    past = split_epochs(stream, history)
    released = [past.opened.offset] if past.opened else []
    released += [part.epoch.centre for part in past.segments]
    if epoch_due(past):
        released += [night.w for night in history if night.w is not None]
    return (len(history), *map(np.ndarray.tobytes, released))


@cache
def overlapping(count: int) -> tuple[int, ...]:
    """Return from how many nights each of `count` nights goes on, all but the first begun at once.

    That is all that an overlap may change of a transcript. A ledger of its own says it, in a folder
    that goes. Each night has read how far the stream is before any other of them was reserved; one
    that is told that another came between reads again.
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

        def settle(day: str, now: StreamStatus) -> None:
            units = [day.encode()]
            while (
                held := reserve_night(
                    ledger, stream, day, units=units, labels=["0"], version=now.version
                )
            ) is None:
                now = read(day)
            assert isinstance(held, NightReservation)
            commit_night(ledger, held, b"{}")
            rests.append(len(now.digests))

        settle(days[0], read(days[0]))
        for day, now in [(day, read(day)) for day in days[1:]]:
            settle(day, now)
    return tuple(rests)
