"""Noise that is the same in every draw."""

import secrets
from collections.abc import Callable

import numpy as np
import pytest

from covdp.arrays import FloatArray
from covdp.mechanisms import NoisyVector, noise


def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all ledgers that are made from now on one key, so that they sign alike."""
    monkeypatch.setattr(secrets, "token_bytes", lambda size=32: bytes(size))


def draw_by(
    monkeypatch: pytest.MonkeyPatch, source: Callable[[FloatArray, float, float], NoisyVector]
) -> None:
    """Have a function draw in place of the lattice; ledgers have one key."""
    one_key(monkeypatch)
    monkeypatch.setattr(noise, "hardened_gaussian", source)


def fixed_noise(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float, float]]:
    """Have the lattice give numbers of its own, and return what is asked of it."""
    asked: list[tuple[int, float, float]] = []

    def fixed(vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        asked.append((len(vector), sigma, sensitivity))
        rng = np.random.default_rng(len(asked))
        return NoisyVector(sigma * rng.standard_normal(len(vector)) + 9.0 * rng.random(), 0.01)

    draw_by(monkeypatch, fixed)
    return asked
