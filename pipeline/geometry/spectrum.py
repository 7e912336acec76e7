"""The nearest spectrum that a record can have: least change of log-eigenvalues under two bounds.

Given w, find a with a_i ≥ ℓ and Σ e^{a_i} ≤ t that minimises ‖a − w‖. The set is convex, so there
is one. By the Karush-Kuhn-Tucker conditions a_i = max(ℓ, x_i) with x_i + λ e^{x_i} = w_i for the
least λ ≥ 0 that obeys the sum; the sum falls in λ, and λ is bracketed by bisection.
"""

import math

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry.compiling import compiled

HALVINGS = 80
"""Bisections of ln λ: from 200 to below the rounding of doubles."""


def fit_spectrum(logs: FloatArray, low: float, total: float) -> FloatArray:
    """Return the log-eigenvalues nearest to `logs` with a_i ≥ `low` and Σ e^{a_i} ≤ `total`.

    `logs` are in any order, ``(..., k)``; it needs k·e^ℓ < t, ℓ = `low` and t = `total`.
    """
    rows = np.ascontiguousarray(logs).reshape(-1, logs.shape[-1])
    out = np.empty_like(rows)
    fit_rows(rows, low, total, out)
    return out.reshape(logs.shape)


@compiled
def fit_rows(logs: FloatArray, low: float, total: float, out: FloatArray) -> None:
    """Write the nearest spectrum of each row."""
    k = logs.shape[1]
    for n in range(logs.shape[0]):
        size = 0.0
        for i in range(k):
            out[n, i] = max(low, logs[n, i])
            size += math.exp(min(out[n, i], 700.0))
        if size <= total:
            continue
        below, above = -100.0, 100.0
        for _ in range(HALVINGS):
            middle = 0.5 * (below + above)
            weight = math.exp(middle)
            size = 0.0
            for i in range(k):
                out[n, i] = low
                room = logs[n, i] - low
                if room > 0.0:
                    # a root above `low` has λ e^x = w − x < room: start above it, fall to it
                    x = min(logs[n, i], math.log(room) - middle)
                    for _ in range(100):
                        grown = weight * math.exp(x)
                        step = (x + grown - logs[n, i]) / (1.0 + grown)
                        x -= step
                        if step < 1e-15 * (1.0 + abs(x)):
                            break
                    out[n, i] = max(low, x)
                size += math.exp(out[n, i])
            if size > total:
                below = middle
            else:
                above = middle
                if above - below < 1e-14 * (1.0 + abs(above)):
                    break
