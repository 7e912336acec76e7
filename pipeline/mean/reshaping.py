"""The axes of the next round: as wide as the second moment found the records in each direction.

The second moment of a round costs nothing (``second_moment.py``), so the axes that the next one
clips in may follow it. They are a function of released values.
"""

import numpy as np
from scipy.linalg import eigh

from pipeline.mean.frame import Frame, scaled
from pipeline.mean.observed import Observed, noise_edge, noisy_covariance

REACH = 10.0
"""Ratio by which a variance may differ from what the axes were made for, so that no noise makes a
direction collapse; by hand."""


def reshaped(frame: Frame, observed: Observed) -> Frame:
    """Return the axes for the records that were seen in `frame`.

    In the axes' own units, where the noise of the covariance is the same in all directions, records
    as the axes expect them have the covariance T ∝ scale², of the trace that was seen. Of what was
    seen beyond it, A − T with eigenpairs (w, u), Σ sign(w)·√(w² − 4τ²)₊·u·uᵀ is kept, 2τ the edge
    of the noise. So the less is seen, the less the axes change.
    """
    if observed.moment is None:
        return frame
    lines, rest, edge = frame.lines, frame.back[frame.lines :], noise_edge(observed)
    seen = noisy_covariance(observed)[lines:, lines:]
    usual = rest @ rest.T * (np.trace(seen) / np.sum(rest**2))
    values, vectors = np.linalg.eigh(seen - usual)
    if np.trace(seen) <= 0.0 or np.abs(values).max() <= edge:
        return frame
    kept = np.sign(values) * np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    ratios, axes = eigh(usual + (vectors * kept) @ vectors.T, usual, check_finite=False)
    root = rest.T @ usual @ axes
    squares, directions = np.linalg.eigh((root * np.clip(ratios, 1.0 / REACH, REACH)) @ root.T)
    shape = (directions * np.maximum(squares, 0.0) ** 0.25) @ directions.T
    return scaled(frame.basis, lines, shape)
