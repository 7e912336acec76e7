"""Ellipsoids of known noise and bounded bias: they hold the error whichever way the bias points.

Random tests are seeded, and fail for one seed in 10⁶ if what they test is so.
"""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chi2, ncx2

from covdp.arrays import FloatArray
from covdp.inference.confidence import ErrorLaw, ellipsoid
from covdp.mean import NoisyMoments
from covdp.mean.noisy_moments import pooled_bounds
from covdp.mean.sums import OVERSHOOT
from covdp.mean.tuning import OVERSHOOT_SD

D, DRAWS = 6, 20_000


def observed(**fields: Any) -> NoisyMoments:
    """Return an observation with a line and unlike scales off it, of which much was clipped."""
    rng = np.random.default_rng(0)
    scales = np.array([4.0, 0.5, 1.0, 1.0, 2.0, 3.0])
    basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
    shorter = np.append(1.0, np.linspace(0.7, 0.95, D - 1))  # a Newton step bends no line
    known: dict[str, Any] = {
        "n": 200,
        "base": np.zeros(6),
        "middle": np.zeros(D),
        "axes": scales[:, np.newaxis] * basis,
        "newton": (basis.T * shorter) @ basis,
        "vector": np.zeros(D),
        "moment": np.eye(D),
        "sigma": 0.01,
        "lines": 1,
        "clipped": 0.0,
        "clipped_noise": 0.0,
        "overshoots": np.array([0.03, -0.01, -0.02, -0.04, -0.05]),
        "reach": np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        "odd": np.zeros(0),
    }
    return NoisyMoments(**{**known, **fields})


def scattered(seen: NoisyMoments) -> FloatArray:
    """Return the covariance of the mean of a sample: uneven, and along the line and off it."""
    rough = np.random.default_rng(1).standard_normal((D, D)) * [3.0, 0.1, 0.1, 0.5, 1.0, 2.0]
    return np.asarray(seen.axes.T @ rough.T @ rough @ seen.axes * 4e-5)


def biases(seen: NoisyMoments) -> list[FloatArray]:
    """Return biases as long as they may be, in vectors: along each axis, and some others."""
    along, off = seen.bounds
    turned = np.random.default_rng(2).standard_normal((8, D - 1))
    ways = np.concatenate([np.eye(D - 1), turned / np.linalg.norm(turned, axis=1, keepdims=True)])
    return [np.append(sign * along, off * way) for way in ways for sign in (-1.0, 1.0)]


def held(
    seen: NoisyMoments, scatter: FloatArray | None, bias: FloatArray, level: float, seed: int
) -> int:
    """Return how many of `DRAWS` errors with a bias are in the ellipsoid."""
    shape, law = ellipsoid(seen, scatter, level)
    whole = seen.noise if scatter is None else seen.noise + scatter
    rng = np.random.default_rng(seed)
    errors = rng.standard_normal((DRAWS, D)) @ np.linalg.cholesky(whole).T + bias @ seen.axes
    lengths = np.sum(errors * np.linalg.solve(shape, errors.T).T, axis=1)
    return int(np.sum(lengths <= law.ppf(level)))


def test_noises_of_overshoots_and_of_parts_add_up_as_variances() -> None:
    """What is found and not added counts in full, along known ways; what noise hides as a root.

    Two parts that are alike have the same found, and less that noise hides.
    """
    odd = np.array([[3.0, 4.0, 0.0, 0.0, 0.0, 0.0], [0.0, -5.0, 0.0, 0.0, 0.0, 0.0]])
    reach = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0])
    noise = reach * 0.01 / OVERSHOOT
    found = noise * [1.0, 0.0, 1.5, 0.0, 0.0, 2.0, 2.0]
    seen = observed(overshoots=found, reach=reach, odd=odd.ravel())
    short, more = 0.5 * found[:5] / reach[:5], 0.5 * OVERSHOOT_SD * noise[:5] / reach[:5]
    missing, may = found[1:] * (1.0 - seen.sure), OVERSHOOT_SD * noise
    up = missing[1] + 0.6 * missing[4] + short.sum()
    off = found[0] + abs(0.8 * missing[4] - missing[5]) + short.sum()
    less = np.minimum(found[2:], may[2:])
    hidden_up = [more[0], more[1], may[2] + more[2], more[3], may[4] + more[4], 0.6 * may[5]]
    assert (less == [may[2], 0.0, 0.0, may[5], may[6]]).all()
    hidden_off = [may[0] + more[0], *more[1:], 0.8 * may[5], may[6]]
    wanted = up + np.linalg.norm(hidden_up), off + np.linalg.norm(hidden_off)
    assert seen.bounds == pytest.approx(wanted, rel=1e-9)
    units = np.array([float(seen.length), float(seen.unit_length)])
    both = np.array(pooled_bounds([(0.5, seen), (0.5, seen)])) / units
    half = up + np.linalg.norm(hidden_up) / 2**0.5, off + np.linalg.norm(hidden_off) / 2**0.5
    assert both == pytest.approx(half, rel=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_of_the_records_it_is_exact_for_every_longest_bias(level: float) -> None:
    """As often as it says, whatever the direction; without a line too.

    But where a Newton step is shorter in some directions than in others it holds more often.
    """
    low, high = binom.ppf([1e-8, 1.0 - 1e-8], DRAWS, level)
    for seen in (
        observed(newton=None),
        observed(newton=None, lines=0, overshoots=np.array([0.03]), reach=np.ones(1)),
        observed(),
    ):
        for seed, bias in enumerate(biases(seen)[::3]):
            longest = bias if seen.lines else np.append(0.6 * seen.bounds[1], 0.8 * bias[1:])
            found = held(seen, None, longest, level, seed)
            assert low <= found
            assert found <= high or seen.newton is not None
        assert held(seen, None, np.zeros(D), level, 0) > high


@pytest.mark.parametrize("level", [0.3, 0.5, 0.9])
def test_of_the_population_it_holds_whichever_way_the_bias_points(level: float) -> None:
    """Along each axis and others, where single records scatter unevenly: at least as often."""
    seen = observed()
    shape, law = ellipsoid(seen, scattered(seen), level)
    plain = seen.noise + scattered(seen)
    raised = np.linalg.eigvalsh(np.linalg.inv(shape) - np.linalg.inv(plain))
    assert law.weight > 1.0
    assert (raised.min() < -1.0) == (level >= 0.5)  # noise that is not there
    low = binom.ppf(1e-8, DRAWS, level)
    for seed, bias in enumerate(biases(seen)):
        assert held(seen, scattered(seen), bias, level, seed) >= low


def test_its_shape_is_smaller_than_that_of_the_noise() -> None:
    """Of least radius; along the line with the noise and at least half of the scatter."""
    seen = observed()
    shape, law = ellipsoid(seen, scattered(seen), 0.95)
    alike = ErrorLaw(D, 1.0, law.line, law.rest)
    whole = seen.noise + scattered(seen)
    least = np.linalg.eigvalsh(np.linalg.inv(seen.axes).T @ whole @ np.linalg.inv(seen.axes))[0]
    along, off = seen.bounds
    wide = ncx2.ppf(0.95, D, (along**2 + off**2) / least) * np.trace(whole)
    assert law.ppf(0.95) * np.trace(shape) < 0.8 * wide
    assert alike.ppf(0.95) < law.ppf(0.95) < law.weight * alike.ppf(0.95)
    line = seen.axes[0] / 4.0
    assert line @ shape @ line > (1.0 - 1e-9) * (line @ (whole + seen.noise) @ line) / 2.0


def test_the_law_is_that_of_the_sum() -> None:
    """Against a million draws at many levels, to six standard errors; quantile undoes it."""
    rng = np.random.default_rng(3)
    first = 2.5 * rng.noncentral_chisquare(1, 7.0, 500_000)
    draws = first + rng.noncentral_chisquare(4, 11.0, 500_000)
    law = ErrorLaw(5, 2.5, 7.0, 11.0)
    for level in (0.01, 0.3, 0.9, 0.999):
        value = law.ppf(level)
        assert law.cdf(value) == pytest.approx(level, rel=1e-9)
        spread = np.sqrt(level * (1.0 - level) / len(draws))
        assert np.mean(draws <= value) == pytest.approx(level, abs=6.0 * spread)
    near, far = ErrorLaw(5, 1.0 + 1e-12, 7.0, 11.0), ErrorLaw(5, 4.0, 900.0, 1e5)
    assert near.ppf(0.95) == pytest.approx(ncx2.ppf(0.95, 5, 18.0), rel=1e-9)
    assert far.cdf(far.ppf(0.999)) == pytest.approx(0.999, abs=1e-9)
    sure = ErrorLaw(70, 1.4, 0.5, 0.0).ppf(1.0 - 1e-15)  # all that doubles know of
    assert ncx2.ppf(1.0 - 1e-15, 70, 0.5) <= sure <= 1.4 * ncx2.ppf(1.0 - 1e-15, 70, 0.5) + 1e-6
    assert ErrorLaw(5).ppf(0.9) == pytest.approx(chi2.ppf(0.9, 5))
    assert law.cdf(0.0) == 0.0
