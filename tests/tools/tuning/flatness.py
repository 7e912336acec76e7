"""How flat the optimum is: the error of the adaptive mean with one number changed at a time.

Both draws of a pair have the same noise, step by step, as far as they draw equally many numbers.
What is better on these sets may be worse on stranger images, for which
``mean/test_adaptive_utility.py``
asks that no mean is worse than the published one: a verdict is no order to change a number.
"""

import math
import zlib
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from covdp.arrays import FloatArray
from covdp.mean import AdaptivePlan, Ball, Domain, Records, admit, draw, prepare
from covdp.mechanisms import FloatNoise, NoisyVector
from covdp.privacy import GDP
from tests.tools.tuning.images import ImageClass, images_of, records_of, some
from tests.tools.tuning.numbers import NUMBERS, Number, trying


class Size(NamedTuple):
    """How much is drawn: at which n·μ, with which all of it scales, and how often."""

    cells: tuple[float, ...]
    draws: int


FULL, QUICK = Size((100.0, 300.0, 1000.0), 24), Size((300.0,), 8)
FEW = 500
"""Records of a class, at most, on the curved manifold, whose logarithms are slow."""
FLAT, SURE = 0.03, 3.0
"""A change below `FLAT` is small; one beyond `SURE` standard errors is no chance."""


class Paired:
    """Noise that is the same for the same seed and step, whatever else is changed."""

    rng = None

    def __init__(self, *seed: int) -> None:
        self.seed, self.step = seed, 0

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        """Add the noise of the next step."""
        self.step += 1
        rng = np.random.default_rng((*self.seed, self.step))
        return FloatNoise(rng)(vector, sigma, sensitivity)


class Effect(NamedTuple):
    """Relative change of the mean error at one value, with its standard error.

    Attributes
    ----------
    value : float
    change, error : float
        The mean over sets.
    sets : dict
        Set → its change and standard error.
    """

    value: float
    change: float
    error: float
    sets: dict[str, tuple[float, float]]

    @property
    def better(self) -> bool:
        """Whether the value is better on average, beyond chance."""
        return self.change < -SURE * self.error

    @property
    def clearly(self) -> bool:
        """Whether it is better by more than `FLAT`, and better on every set, beyond chance."""
        alike = all(change < -2.0 * error for change, error in self.sets.values())
        return self.better and self.change < -FLAT and alike


class Tried(NamedTuple):
    """What came of trying one number."""

    number: Number
    effects: tuple[Effect, ...]

    @property
    def verdict(self) -> str:
        """Say whether the value in the code is within noise of the best."""
        better = [effect for effect in self.effects if effect.better]
        clearly = [effect for effect in better if effect.clearly]
        if better:
            best = min(clearly or better, key=lambda effect: effect.change)
            where = "not best, on all sets:" if clearly else "on average"
            return f"{where} {best.value:.3g} has {-100.0 * best.change:.1f} % less"
        return "best within noise"


@cache
def _records(one: ImageClass, case: str, root: Path | None) -> Records:
    """Return the records that a number matters for."""
    images = images_of(one, root)
    if case == "curved":
        return records_of(some(images, FEW), descriptor="oct5", manifold="spd-affine-invariant")
    known = records_of(some(images), descriptor="oct5")
    if case == "unlisted":
        facts: Any = known.domain
        return Records(known.manifold, replace(facts, typical=(), descriptor="other"), known.parts)
    if case != "ball":
        return known
    around = Ball(known.domain.radius, known.manifold.name)
    return admit(known.stored, domain=around, manifold=known.manifold)


def errors(
    which: int, value: float | None, one: ImageClass, root: Path | None, size: Size
) -> FloatArray:
    """Return distances to the mean, (cells, draws), with a number at `value`; None: as it is."""
    number = NUMBERS[which]
    base = _records(one, number.case, root)
    if value is None:
        return _draws(base, base.domain, one, size)
    with trying(number, value, base.domain) as domain:
        return _draws(base, domain, one, size)


def _draws(base: Records, domain: Domain, one: ImageClass, size: Size) -> FloatArray:
    """Draw; each class and each n·μ has noise of its own, so that all cells are independent."""
    records = Records(base.manifold, domain, base.parts)  # nothing kept from before
    ready = prepare(records, AdaptivePlan(), rng=None)
    key = zlib.crc32(one.card.encode())
    out = np.empty((len(size.cells), size.draws))
    for i, information in enumerate(size.cells):
        for j in range(size.draws):
            noise = Paired(key, one.label, i, j)
            found = draw(ready, GDP(information / base.n), noise=noise)[0]
            out[i, j] = base.space.dist(base.frechet.point, found.outputs[0])
    return out


def relative(new: FloatArray, old: FloatArray) -> tuple[float, float]:
    """Return the change of the mean of `new` against `old`, (r,) pairs, and its standard error."""
    ratio = new.mean() / old.mean()
    spread = (new - ratio * old).std(ddof=1) / (math.sqrt(len(old)) * old.mean())
    return float(ratio - 1.0), float(spread)


def _average(values: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the mean of independent changes and its standard error."""
    changes, spreads = np.array(values).T
    return float(changes.mean()), float(np.linalg.norm(spreads)) / len(values)


def flatness(
    numbers: tuple[Number, ...],
    classes: list[ImageClass],
    root: Path | None,
    *,
    quick: bool,
    jobs: int,
) -> Iterator[Tried]:
    """Try each number at each value, on all classes: yield what came of it, one by one."""
    size = QUICK if quick else FULL
    with ProcessPoolExecutor(jobs) as pool:
        plain = {
            (case, one): pool.submit(errors, which, None, one, root, size)
            for case, which in _cases(numbers).items()
            for one in classes
        }
        changes = {
            (number.title, value, one): pool.submit(
                errors, NUMBERS.index(number), value, one, root, size
            )
            for number in numbers
            for value in _trials(number, quick)
            for one in classes
        }
        for number in numbers:
            effects = []
            for value in _trials(number, quick):
                sets: dict[str, list[tuple[float, float]]] = defaultdict(list)
                for one in classes:
                    new = changes[number.title, value, one].result()
                    old = plain[number.case, one].result()
                    sets[one.card] += [relative(a, b) for a, b in zip(new, old, strict=True)]
                found = {name: _average(cells) for name, cells in sets.items()}
                effects.append(Effect(value, *_average(list(found.values())), found))
            yield Tried(number, tuple(effects))


def _cases(numbers: tuple[Number, ...]) -> dict[str, int]:
    """Return each case that matters, with the place of a number it matters for."""
    wanted = {number.case for number in numbers}
    return {number.case: i for i, number in enumerate(NUMBERS) if number.case in wanted}


def _trials(number: Number, quick: bool) -> tuple[float, ...]:
    """Return the values that are tried: only the farthest if there is little time."""
    return (number.trials[0], number.trials[-1]) if quick else number.trials
