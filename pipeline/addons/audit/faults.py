"""Noise that is broken on purpose: what an audit has to catch in sources of noise and their laws.

In: a generator, and for most faults a sound source. Out: a source of noise with the fault.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from covdp.addons.audit.attacks import Source
from covdp.arrays import FloatArray
from covdp.mechanisms.additive import GaussianNoise, LaplaceNoise
from covdp.mechanisms.noise import NOISES, FloatNoise, Noise, NoisyVector

MakeSource: TypeAlias = Callable[[np.random.Generator], Source]
"""Generator → source of noise."""
Change: TypeAlias = Callable[[FloatArray, list[FloatArray]], FloatArray]
"""Noise of a step over its σ, and that of all steps before → what is added in its place."""


def hardened_noise(rng: np.random.Generator) -> Noise:
    """Return the source of noise that releases take; no generator is used.

    Parameters
    ----------
    rng : numpy.random.Generator
        Not used: the entropy is the operating system's.
    """
    return NOISES["hardened"]()


def smaller_noise(
    rng: np.random.Generator,
    *,
    scale: float,
    source: MakeSource = FloatNoise,
) -> Source:
    """Return noise of a source with `scale` times the σ that was asked for.

    Parameters
    ----------
    rng : numpy.random.Generator
        Generator of the draws.
    scale : float
        Factor of the noise.
    source : MakeSource
        Function of a generator that returns a source of noise.
    """
    sound = source(rng)
    return lambda vector, sigma, sensitivity: sound(vector, scale * sigma, sensitivity)


def repeated_noise(rng: np.random.Generator) -> Source:
    """Return noise that is drawn once, and used again for every vector of the same length.

    Parameters
    ----------
    rng : numpy.random.Generator
        Generator of the draws.
    """
    source, drawn = FloatNoise(rng), dict[int, FloatArray]()

    def noise(vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        fresh = source(np.zeros(len(vector)), sigma, sensitivity).vector
        return NoisyVector(vector + drawn.setdefault(len(vector), fresh), math.nan)

    return noise


def changed_noise(
    rng: np.random.Generator,
    *,
    change: Change,
    source: MakeSource = FloatNoise,
) -> Source:
    """Return noise of a source that is changed, step by step.

    Parameters
    ----------
    rng : numpy.random.Generator
        Generator of the draws.
    change : Change
        Function of the noise of a step and of those before that returns the noise to use.
    source : MakeSource
        Function of a generator that returns a source of noise.
    """
    sound, before = source(rng), list[FloatArray]()

    def noise(vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        drawn = sound(np.zeros(len(vector)), sigma, sensitivity).vector / sigma
        before.append(change(drawn, before))
        return NoisyVector(vector + sigma * before[-1], math.nan)

    return noise


def scale_coordinate(
    noise: FloatArray, before: list[FloatArray], *, scale: float, place: int = 0
) -> FloatArray:
    """Return the noise with one coordinate scaled.

    Parameters
    ----------
    noise : array, shape (d,)
        Noise of this step.
    before : list of array
        Noise of the steps before, in order.
    scale : float
        Factor of the noise.
    place : int
        Index of the coordinate.
    """
    return np.asarray(noise * np.where(np.arange(len(noise)) == place, scale, 1.0))


def scale_step(
    noise: FloatArray, before: list[FloatArray], *, scale: float, step: int
) -> FloatArray:
    """Return the noise, of one step scaled.

    Parameters
    ----------
    noise : array, shape (d,)
        Noise of this step.
    before : list of array
        Noise of the steps before, in order.
    scale : float
        Factor of the noise.
    step : int
        Index of the step.
    """
    return np.asarray(noise * (scale if len(before) == step else 1.0))


def shift_coordinate(noise: FloatArray, before: list[FloatArray], *, by: float) -> FloatArray:
    """Return the noise with a bias of the last coordinate.

    Parameters
    ----------
    noise : array, shape (d,)
        Noise of this step.
    before : list of array
        Noise of the steps before, in order.
    by : float
        Bias, as a multiple of σ.
    """
    return np.asarray(noise + by * (np.arange(len(noise)) == len(noise) - 1))


def share_coordinates(noise: FloatArray, before: list[FloatArray]) -> FloatArray:
    """Return the noise with its third coordinate in place of its sixth.

    Parameters
    ----------
    noise : array, shape (d,)
        Noise of this step.
    before : list of array
        Noise of the steps before, in order.
    """
    return np.asarray(noise[np.where(np.arange(len(noise)) == 5, 2, np.arange(len(noise)))])


def mix_coordinates(noise: FloatArray, before: list[FloatArray], *, share: float) -> FloatArray:
    """Return noise whose coordinates share a part of their variance.

    Parameters
    ----------
    noise : array, shape (d,)
        Noise of this step.
    before : list of array
        Noise of the steps before, in order.
    share : float
        Share of the variance that is common to all coordinates.
    """
    common = math.sqrt(len(noise)) * noise.mean()
    return np.asarray(math.sqrt(1.0 - share) * noise + math.sqrt(share) * common)


def use_again(noise: FloatArray, before: list[FloatArray], *, steps: int) -> FloatArray:
    """Return the noise of so many steps before, as far as it goes.

    Parameters
    ----------
    noise : array, shape (d,)
        Noise of this step.
    before : list of array
        Noise of the steps before, in order.
    steps : int
        Number of steps to go back.
    """
    old = before[-steps] if len(before) >= steps else noise[:0]
    return np.append(old[: len(noise)], noise[len(old) :])


def round_noise(noise: FloatArray, before: list[FloatArray], *, grid: float) -> FloatArray:
    """Return the noise rounded to multiples of a share of σ.

    Parameters
    ----------
    noise : array, shape (d,)
        Noise of this step.
    before : list of array
        Noise of the steps before, in order.
    grid : float
        Width of the grid, as a share of σ.
    """
    return np.asarray(np.round(noise / grid) * grid)


def seeded_noise(rng: np.random.Generator) -> Source:
    """Return noise of the same seed in every draw.

    Parameters
    ----------
    rng : numpy.random.Generator
        Not used: the seed is always the same.
    """
    return FloatNoise(np.random.default_rng(7))


class UnevenGaussian(GaussianNoise):
    """Gaussian noise with one coordinate × 0.95."""

    def draw(self, sigma: float, size: int, dim: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` draws, shape (size, m).

        Parameters
        ----------
        sigma : float
            Scale σ > 0 of the noise.
        size : int
            Number of independent draws.
        dim : int
            Dimension m of the noise.
        rng : numpy.random.Generator
            Generator of the draws.
        """
        return super().draw(sigma, size, dim, rng) * np.where(np.arange(dim) == 1, 0.95, 1.0)


def countless_noise(rng: np.random.Generator) -> Source:
    """Return noise of all coordinates but the last, which counts records in the sum of a mean.

    Parameters
    ----------
    rng : numpy.random.Generator
        Generator of the draws.
    """
    source = FloatNoise(rng)

    def noise(vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        noised = source(vector, sigma, sensitivity).vector
        return NoisyVector(np.append(noised[:-1], vector[-1]), math.nan)

    return noise


class ProductLaplace(LaplaceNoise):
    """Independent Laplace noise of scale σ = Δ/ε in each coordinate, Δ the L2 sensitivity.

    Private at this scale only if Δ bounded the L1 norm of the move, which is up to √d times as
    large; the noise is ε√d-DP.
    """

    law = "independent coordinates of density ∝ exp(−|x_i|/σ)"

    def draw(self, sigma: float, size: int, dim: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` draws, shape (size, m).

        Parameters
        ----------
        sigma : float
            Scale σ > 0 of the noise.
        size : int
            Number of independent draws.
        dim : int
            Dimension m of the noise.
        rng : numpy.random.Generator
            Generator of the draws.
        """
        return rng.laplace(0.0, sigma, (size, dim))
