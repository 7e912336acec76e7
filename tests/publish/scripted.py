"""A source of noise that is written down in advance."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import covdp.mechanisms.noise as noise_module
from covdp.arrays import FloatArray
from covdp.mean import Release
from tests.publish.fixed import one_key


class Call(NamedTuple):
    """One draw: what was asked for, what was to be noised, and what came back."""

    dim: int
    sigma: float
    given: FloatArray
    returned: FloatArray


Answer = Callable[[int, FloatArray, float], Sequence[float]]
"""Number of the draw, the vector and σ → what is released."""


class ScriptedSource:
    """Measurements that answer as told, certify what OpenDP certifies, and write all of it down."""

    def __init__(self, real: Callable[[int, float], Any], answer: Answer | None = None) -> None:
        self.real, self.answer = real, answer
        self.calls: list[Call] = []

    def __call__(self, dim: int, sigma: float) -> Any:
        """Return a measurement on R^dim of scale `sigma`."""
        true = self.real(dim, sigma)

        class Measurement:
            map = staticmethod(true.map)

            def __call__(_, values: list[float]) -> list[float]:
                given = np.array(values)
                answer = self.answer or (lambda *_: true(values))
                found = [float(x) for x in answer(len(self.calls), given, sigma)]
                self.calls.append(Call(dim, sigma, given, np.array(found)))
                return found

        return Measurement()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScriptedSource]:
    """Put a `ScriptedSource` in the place of OpenDP's measurements; ledgers have one key."""
    real = noise_module._measurement
    one_key(monkeypatch)

    def put(answer: Answer | None = None) -> ScriptedSource:
        source = ScriptedSource(real, answer)
        monkeypatch.setattr(noise_module, "_measurement", source)
        return source

    return put


def replay(calls: list[Call]) -> Answer:
    """Return the answers that were given to another data set."""
    return lambda number, given, sigma: calls[number].returned


def noised(seed: int) -> Answer:
    """Return noise as it should be, from a seed."""
    rng = np.random.default_rng(seed)
    return lambda number, given, sigma: given + sigma * rng.standard_normal(len(given))


def told(points: FloatArray, drawn: Release) -> Release:
    """Leak: the predicted error knows the records."""
    assert drawn.predicted_error is not None
    return drawn._replace(predicted_error=drawn.predicted_error + 1e-12 * points.sum())
