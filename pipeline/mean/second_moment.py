"""The second moment rides along with the mean, for nothing: the same Δ, the same noise on the mean.

Each record's vector v, ‖v‖ ≤ ½ (``clipping.py``), is released as the pair (v, √2·v·vᵀ), symmetric
matrices in the isometric coordinates of `vecd`. **Two pairs are at most 1 apart**, as two vectors
alone may be. For ‖v‖, ‖w‖ ≤ ½ put x = 2v, y = 2w, a = ‖x‖², b = ‖y‖², s = a + b ≤ 2 and
P = ‖x − y‖² ≤ 2s. As v·vᵀ − w·wᵀ = ⅛·((x − y)(x + y)ᵀ + (x + y)(x − y)ᵀ), with
‖x + y‖² = 2s − P and ⟨x − y, x + y⟩ = a − b,

    ‖v − w‖² + 2‖v·vᵀ − w·wᵀ‖² = P/4 + (P·(2s − P) + (a − b)²)/16.

In P that is a parabola, largest at P = s + 2: at most ((s + 2)² + (a − b)²)/16. For a, b ≤ 1 this
grows with either of them, and is 1 at a = b = 1. It is reached by w = −v, where nothing of v·vᵀ
moves. A larger factor λ would make a diameter of (λ/2 + 1/λ)/√2. Related: Kalinin, Upadhyay and
Lampert, "Continual release moment estimation with differential privacy" (2025).

**Numerics.** The vectors that are added lie on a lattice, and with their rounding in a ball of
diameter 1 + ε, ε = `vector_diameter` − 1 < 2⁻³⁰ (``vector_mean.py``). Their products are exact, and
weighed with at most λ = √2·(1 − 2⁻³⁰). For v = (1 + ε)·v', and w alike,

    ‖v − w‖² + λ²‖v·vᵀ − w·wᵀ‖² ≤ (1 + ε)²·(‖v' − w'‖² + λ²(1 + ε)²·‖v'·v'ᵀ − w'·w'ᵀ‖²) ≤ (1 + ε)²,

since λ·(1 + ε) ≤ √2: the Δ of the mean alone, margin and all. The mean of the pairs is a quotient
of whole numbers, of norm at most √(3/8)·(1 + ε)² < 1, rounded once like that of the vectors.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry.linalg import unvecd
from pipeline.mean.sums import PER_UNIT, Clipping, Sized, clipped_totals

PER_WEIGHT = 2**60
"""Weights are whole multiples of 1 over this."""
OFF_DIAGONAL = 2 * PER_WEIGHT - 2 * PER_WEIGHT // 2**30
"""√2·λ over the unit: what an entry off the diagonal is weighed with in the pair."""
DIAGONAL = math.isqrt(OFF_DIAGONAL**2 // 2)
"""λ over the unit, from below."""
FACTOR = DIAGONAL / PER_WEIGHT
"""λ."""


def weights(dim: int) -> list[int]:
    """Return what each coordinate of the sum of v·vᵀ is weighed with, over `PER_WEIGHT`."""
    return [DIAGONAL] * dim + [OFF_DIAGONAL] * (dim * (dim - 1) // 2)


def paired_mean(parts: Iterable[Sized], n: int, to: Clipping) -> FloatArray:
    """Return the mean of the pairs of n records that come in parts, (d + d(d + 1)/2,).

    Its first d numbers are those of `clipped_mean`, to the last bit.
    """
    return pairs(*clipped_totals(parts, to), n)


def pairs(first: Sequence[int], second: Sequence[int], per: int) -> FloatArray:
    """Return (Σ v, λ·Σ v·vᵀ)/`per` of what `clipped_totals` gave, or of weighted sums of it."""
    weighed, whole = map(int.__mul__, second, weights(len(first))), float(PER_UNIT**2 * PER_WEIGHT)
    mean = [one / (per * PER_UNIT) for one in first]
    found = np.array(mean + [one / per for one in weighed])  # of whole numbers: rounded once
    found[len(mean) :] /= whole  # a power of two
    return found


def second_moment(weighed: FloatArray) -> FloatArray:
    """Return the mean of v·vᵀ, (d, d), of the last d(d + 1)/2 numbers of a mean of pairs."""
    return unvecd(weighed) / FACTOR
