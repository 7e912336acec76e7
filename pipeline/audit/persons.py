"""Persons under audit: all images of one are replaced, in every class, by another number of them.

In: the descriptors of images, their classes and persons. Out: transcripts of the adaptive means of
two classes, drawn from records that are formed as a release forms them. The person who is replaced
is in both classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.audit.transcript import (
    ENDS,
    RECORDS,
    Kept,
    Replayed,
    last_sigma,
    neighbours,
    prepared,
    rows,
)
from pipeline.datasets import Card, ImageSource
from pipeline.datasets.readers import InMemory
from pipeline.datasets.source import split_codes
from pipeline.geometry import Manifold
from pipeline.mean import Prepared, draw, person_records
from pipeline.mechanisms import Diagnostics, Draws, Mechanism
from pipeline.mechanisms.base import Neighbours, Points
from pipeline.mechanisms.noise import FloatNoise, Noise
from pipeline.privacy import Budget, split

CARD = Card(name="persons", kind="none", channels=1, classes=("first", "second"))
Places: TypeAlias = tuple[Sequence[float], Sequence[float]]
MANY = 5
"""Images that each of the others has, and that the one who is replaced has in a class, or more."""
NEAR: Places = ([10, 7, 5, 2, 0], [6, 6, 6, 6, 6])
"""Logarithms of eigenvalues that lie inside of most clips, which are close around the others.

What is replaced moves a mean by less than between `ENDS`, but in more of the releases: where many
images move it, more is shown by that.
"""


class Album(NamedTuple):
    """Images of persons: their descriptors, their classes, whose they are."""

    points: Points
    labels: NDArray[np.int64]
    people: NDArray[np.bytes_]

    def records(self, classes: int, manifold: Manifold, *, whole: bool) -> list[Points]:
        """Return the records of each class, persons unless not `whole`."""
        source = ImageSource(
            CARD,
            (1, 1),
            self.labels,
            split_codes("train", len(self.labels)),
            InMemory(np.zeros((len(self.labels), 1, 1), np.uint8)),
            people=self.people,
            classes_per_person=classes,
        )
        found = []
        for label in range(len(CARD.classes)):
            kept = source.select(label=label)
            points = self.points[kept.rows]
            found.append(person_records(points, kept.units, manifold) if whole else points)
        return found


@dataclass(frozen=True)
class PersonTranscripts:
    """The adaptive means of two classes of persons, drawn as their transcripts: a `Mechanism`.

    Attributes
    ----------
    budget, manifold
        As for any mechanism; the budget is for a person, in all classes they may be in.
    classes : int
        In how many classes a person may be.
    whole : bool
        Whether one record is a person; an image only where that is broken on purpose.
    noise : callable
        The source of noise of a generator.
    """

    budget: Budget
    manifold: Manifold
    classes: int
    whole: bool = True
    noise: Callable[[np.random.Generator], Noise] = FloatNoise
    sensitivity: ClassVar[float] = 1.0 / RECORDS
    law: ClassVar[str] = "for each class as of the adaptive mean, a person being one record"

    @property
    def of_class(self) -> Budget:
        """What one class may cost, so that all of a person's cost the budget."""
        return split(self.budget, [1.0 / self.classes] * self.classes)[0]

    @property
    def sigma(self) -> float:
        """Noise that the last step of a class asks for."""
        return last_sigma(self.ready(albums()[0])[-1], self.of_class)

    def ready(self, album: Album) -> list[Prepared]:
        """Return the records of both classes, prepared."""
        records = album.records(self.classes, self.manifold, whole=self.whole)
        return [prepared(points, self.manifold) for points in records]

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` transcripts of an album: the vectors of each, first class first."""
        drawn: list[tuple[FloatArray, ...]] = [()] * size
        for ready in self.ready(cast(Any, center)):
            noise = Kept(self.noise(rng))
            draw(ready, self.of_class, noise=noise, size=size)
            drawn = [(*a, *b) for a, b in zip(drawn, rows(noise.vectors, size), strict=True)]
        return Draws(rows([vector for told in drawn for vector in told], size), Diagnostics())

    def replay(self, side: list[Prepared], transcript: Sequence[FloatArray]) -> Replayed:
        """Return what the steps of a transcript release without noise, and σ of each."""
        noise = Replayed(transcript)
        for ready in side:
            draw(ready, self.of_class, noise=noise)
        return noise

    def expected_error(self) -> float | None:
        """Return None: not needed here."""
        return None


def albums(places: Places = (ENDS[0], ENDS[1])) -> tuple[Album, Album]:
    """Return two albums that differ in one person, who is in both classes.

    Their images are at one place in the first class and at the other in the second; those in their
    place the other way round, and more of them. All others have `MANY` images in one class.
    """
    one, other = places
    return _album(one, other, MANY), _album(other, one, MANY + 3)


def _album(first: Sequence[float], second: Sequence[float], many: int) -> Album:
    """Return the album in which one person has `many` images at each of two places."""
    logs: list[Sequence[float]] = []
    labels: list[int] = []
    people: list[bytes] = []
    for label, place in enumerate((first, second)):
        logs += [place] * many
        people += [b"one"] * many
        for number in range(RECORDS - 1):
            logs += [ENDS[2]] * MANY
            people += [f"{label}-{number}".encode()] * MANY
        labels += [label] * (len(logs) - len(labels))
    points = np.stack([np.diag(np.exp(log)) for log in logs])
    return Album(points, np.array(labels), np.array(people))


def person_transcripts(mechanism: Mechanism, places: Places = (ENDS[0], ENDS[1])) -> Neighbours:
    """Score the log-likelihood ratio of a transcript; all images of one person change."""
    assert isinstance(mechanism, PersonTranscripts)
    return neighbours(mechanism, *albums(places))


def images_as_records(honest: Any) -> Mechanism:
    """Return the mechanism with noise for one image of a person who has many."""
    return cast(Mechanism, replace(honest, whole=False))
