"""Released counts of experiments: how likely their noise is, exactly."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr

from covdp.addons.papers import regions
from covdp.mean.release import ReleasedCount


@pytest.mark.parametrize("sigma", [0.2, 0.7, 1.4, 1.53, 2.9, 5.8])
@pytest.mark.parametrize("level", [0.3173, 0.05, 0.01, 1e-4])
def test_no_count_is_unlikelier_than_its_noise(sigma: float, level: float) -> None:
    """Of all whole numbers that may be shown, those at or below a level have at most its share.

    Exactly: the probability of each is that of noise which is rounded to it.
    """
    shown = np.arange(-60, 61)
    shares = ndtr((shown + 0.5) / sigma) - ndtr((shown - 0.5) / sigma)
    found = [
        regions._of_count(
            SimpleNamespace(
                class_size=ReleasedCount(np.array([7.0 + away]), np.array([sigma**2]), 1000)
            ),
            7,
        )
        for away in shown
    ]
    assert shares[np.array(found) <= level].sum() <= level
    assert max(found) == 1.0
