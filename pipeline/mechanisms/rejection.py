"""Rejection sampling in batches: exact, independent draws from a law known up to a constant."""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import ConvergenceError

Proposal: TypeAlias = Callable[[int], tuple[FloatArray, FloatArray]]
"""count → candidates (count, d) and the logarithms of their acceptance probabilities (count,)."""

BATCH = 20_000
"""Most candidates that are looked at together."""
LIMIT = 5_000_000
"""Candidates per accepted draw, on average so far, beyond which the sampler gives up."""

ROUNDING = 1e-6
"""Largest log acceptance probability that is taken for the rounding of a 0."""


class Accepted(NamedTuple):
    """Accepted draws, ``(size, d)``, and the accepted share of all candidates."""

    draws: FloatArray
    acceptance: float


def accept(propose: Proposal, size: int, *, rng: np.random.Generator) -> Accepted:
    """Return the first `size` accepted candidates.

    Candidates are independent, so the first accepted ones are independent draws from the law with
    density ∝ proposal density × acceptance probability, whatever the sizes of the batches.

    Raises
    ------
    ConvergenceError
        When fewer than one in `LIMIT` candidates is accepted, or an acceptance probability is
        above 1 by more than rounding.
    """
    kept: list[FloatArray] = []
    accepted = tried = 0
    while accepted < size:
        share = max(accepted, 1) / tried if tried else 1.0
        count = min(BATCH, math.ceil(1.1 * (size - accepted) / share) + 8)
        candidates, log_probability = propose(count)
        if log_probability.max(initial=-math.inf) > ROUNDING:
            raise ConvergenceError(
                f"an acceptance probability must be at most 1, found exp({log_probability.max():g})"
                "; the bound under the proposal does not hold for this input"
            )
        chosen = candidates[np.log(1.0 - rng.random(count)) <= log_probability]
        kept.append(chosen)
        accepted, tried = accepted + len(chosen), tried + count
        if tried > LIMIT * (accepted + 1):
            raise ConvergenceError(
                f"rejection gave {accepted} of {size} draws after {tried} candidates; "
                "choose a larger budget or more records"
            )
    return Accepted(np.concatenate(kept)[:size], accepted / tried)
