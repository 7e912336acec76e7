"""Second moment and overshoots ride along with the mean for nothing: the same Δ, the same noise.

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

**Overshoots ride along, too.** Clipping moves a mean by at most the mean length that it cuts off,
so that length is worth knowing, and rare records that are very unlike the others make most of it.
With its pair a record has overshoots h ≥ 0, √(3/8) times the length by which it lies outside of the
ball, below and above the interval, each over its reach (`reaches`); of v as much is left as makes

    β + 2β² + ‖h‖² ≤ 3/8,  β = ‖v‖²:

all of it where nothing is cut off. **Two such triples are at most 1 apart.** With a = 4β, b alike
of the other, P ≤ (√a + √b)², where the parabola still grows, so with p = √(ab) ≤ 1 the pairs are at
most (√a + √b)²/4 + (a − b)²/8 = (a + b)/4 + p/2 + (a² + b²)/8 − p²/4 apart, squared; and as no
overshoot is negative, ‖h − h'‖² ≤ ‖h‖² + ‖h'‖² ≤ 3/4 − (a + b)/4 − (a² + b²)/8. The sum of both is
at most 3/4 + p/2 − p²/4 ≤ 1. With overshoots of √(3/8)·t together 1 − t² of v is left at least, as
y = 1 − t² has y²/4 + y⁴/8 ≤ 3y/8. One whose overshoots are longer than √(3/8)
together is counted with less: one at its reach off the line and at the end of the line as well
would count for 1/√2 of both.

**Numerics.** The numbers that are added lie on a lattice. Rounding to it, to the nearest for v and
down for h, moves v by at most δ = √d·2⁻⁴¹, its pair by √3·δ, as the products change by at most
√2·2‖v‖·δ ≤ √2·δ, and h by less than √3·2⁻⁴⁰: two triples by less than √d·2⁻³⁹ + 2⁻³⁷, which is
the margin of `vector_diameter`. Roundings of doubles move a pair √3 times as far as its vector, and
that of β, of absolute size, moves ‖h‖² + β by a few u: `vector_diameter` has room. Products
of lattice vectors are exact, and weighed with λ = √2·(1 − 2⁻³⁰) at most, which only shortens. The
mean of the triples is a quotient of whole numbers, of norm below 1, rounded once.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry.linalg import unvecd
from pipeline.mean.sums import NORM, PER_UNIT, Clipping, Sized, clipped_totals

PER_WEIGHT = 2**60
"""Weights are whole multiples of 1 over this."""
OFF_DIAGONAL = 2 * PER_WEIGHT - 2 * PER_WEIGHT // 2**30
"""√2·λ over the unit: what an entry off the diagonal is weighed with in the pair."""
DIAGONAL = math.isqrt(OFF_DIAGONAL**2 // 2)
"""λ over the unit, from below."""
FACTOR = DIAGONAL / PER_WEIGHT
"""λ."""


OVERSHOOT = math.sqrt(NORM)
"""The overshoot of a record that lies its whole reach outside."""


def weights(dim: int, overshoots: int) -> list[int]:
    """Return what sums of overshoots, then of v·vᵀ, are weighed with, over `PER_WEIGHT`."""
    products = [DIAGONAL] * dim + [OFF_DIAGONAL] * (dim * (dim - 1) // 2)
    return [PER_UNIT * PER_WEIGHT] * overshoots + products


def paired_mean(parts: Iterable[Sized], n: int, to: Clipping) -> FloatArray:
    """Return the mean of the triples of n records that come in parts, (d + e + d(d + 1)/2,).

    Its first d numbers are those of `clipped_mean`, to the last bit; e is `Clipping.overshoots`.
    """
    return pairs(*clipped_totals(parts, to), n)


def pairs(first: Sequence[int], second: Sequence[int], per: int) -> FloatArray:
    """Return (Σ v, Σ h, λ·Σ v·vᵀ)/`per` of what `clipped_totals` gave, or weighted sums of it."""
    dim = len(first)
    weighed = map(int.__mul__, second, weights(dim, len(second) - dim * (dim + 1) // 2))
    mean = [one / (per * PER_UNIT) for one in first]
    found = np.array(mean + [one / per for one in weighed])  # of whole numbers: rounded once
    found[dim:] /= float(PER_UNIT**2 * PER_WEIGHT)  # a power of two
    return found


def second_moment(weighed: FloatArray) -> FloatArray:
    """Return the mean of v·vᵀ, (d, d), of the last d(d + 1)/2 numbers of a mean of triples."""
    return unvecd(weighed) / FACTOR
