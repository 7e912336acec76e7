"""Released counts of classes whose sizes are secret: unbiased, and spread as stated, everywhere.

Of R draws of a cell with truth n, z = (count − n)/sd is standard normal but for rounding, which sd
holds. So √R·mean(z) is normal and Σz² is χ² with R degrees of freedom. `LEVEL` is the chance that
any of the tests of this file fails, shared out over all of them (Bonferroni).
"""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from sample_manifolds import SPD
from scipy.stats import chi2, norm

from covdp.addons.nights.stream import split_epochs
from covdp.arrays import FloatArray
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP
from tests.addons.nights.recovering import recovering
from tests.addons.nights.secret_streams import FLAT, release, stream, units
from tests.mean.tiled import means, tiles

LEVEL = 0.01
TRUTHS, TOTAL, DRAWS = (0, 1, 5, 21, 26, 60, 79), 79, 500
STREAMS, CLASSES = 120, {"half at first": (150, 0, 0), "nobody": (0, 0, 0), "all": (300, 40, 40)}
TOTALS = CLASSES["all"]
TESTS = 2 * (len(TRUTHS) * len(SPD) + len(TOTALS) * len(CLASSES) * len(FLAT) + len(TOTALS))


def check(z: FloatArray) -> None:
    """Assert that values are standard normal in mean and in square, at the level of one test."""
    level, many = LEVEL / TESTS, len(z)
    assert 2.0 * norm.sf(abs(z.mean()) * np.sqrt(many)) > level, f"mean {z.mean():.3f}"
    square = float(z @ z)
    both = 2.0 * min(chi2.sf(square, many), chi2.cdf(square, many))
    assert both > level, f"mean square {square / many:.3f}"


@pytest.mark.parametrize("name", SPD)
@pytest.mark.parametrize("n", TRUTHS)
def test_counts_of_releases(name: str, n: int) -> None:
    """For no, one, few and all records, though a rough count by a prior decides the first clips."""
    from covdp.mean import Labels

    points, where = tiles(1, name, n)
    drawn = means(points, where, Labels(TOTAL), 0.5, DRAWS).class_size
    assert drawn is not None
    check((drawn.shown - n) / drawn.sd)


@pytest.mark.slow
@pytest.mark.parametrize("manifold", FLAT)
@pytest.mark.parametrize("name", CLASSES)
def test_counts_of_nights(manifold: str, name: str) -> None:
    """Before the opening, at it and in the epoch after it, whatever share of all a class has."""
    of, sizes = stream(manifold, GDP(1.0), 80.0, 8), CLASSES[name]
    batches, found = [units(of, n, 7, place) for place, n in enumerate(sizes)], list[list[float]]()
    for seed in range(STREAMS):
        history = release(of, batches, TOTALS, FloatNoise(np.random.default_rng([5, seed])))
        found.append([_off(of, history[: t + 1], sum(sizes[: t + 1])) for t in range(len(sizes))])
    for z in np.array(found).T:
        check(z)


@pytest.mark.slow
def test_counts_after_a_first_look() -> None:
    """Records that are held back are counted by themselves, and add up with those of the mean."""
    of, sizes = recovering(10.0, secret=True, horizon=8, mu=1.0), (60, 10, 30)
    batches, found = [units(of, n, 8, place) for place, n in enumerate(sizes)], list[list[float]]()
    for seed in range(STREAMS):
        history = release(of, batches, (90, 20, 50), FloatNoise(np.random.default_rng([6, seed])))
        found.append([_off(of, history[: t + 1], sum(sizes[: t + 1])) for t in range(len(sizes))])
    for z in np.array(found).T:
        check(z)


def _off(of: object, history: Sequence[object], truth: int) -> float:
    """Return by how many of its deviations the count of the last night is off."""
    past = split_epochs(of, history)  # type: ignore[arg-type]
    many, sd = past.count + past.waiting, math.hypot(past.n_sd, past.waiting_sd)
    return (many - truth) / sd
