"""The axes of the next round: what is seen shapes them, what noise alone could be does not."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.arrays import FloatArray
from pipeline.mean import NoisyMoments
from pipeline.mean.axes import Frame, build_frame
from pipeline.mean.clip import Spread, mean_units
from pipeline.mean.noisy_moments import clip_moments, reshape_axes
from pipeline.mean.sums import FACTOR
from pipeline.mean.tuning import VARIANCE_RATIO
from tests.sample_means import clip_of

D = 6


def frame_of(lines: int) -> Frame:
    """Return axes whose scales differ."""
    rng = np.random.default_rng(3)
    line = rng.standard_normal(D)
    factor = rng.standard_normal((D, D))
    shape = factor @ factor.T + np.eye(D)
    return build_frame(line / np.linalg.norm(line) if lines else None, shape)


def seen_in(frame: Frame, moment: FloatArray, sigma: float) -> NoisyMoments:
    """Return what a round saw whose mean is in the middle of the clip."""
    clip = clip_of(0.0, 2.0, 1.0)
    noised = np.zeros(D)
    seen = clip_moments(
        50,
        np.zeros(D),
        noised,
        clip,
        frame,
        line_coordinate=1.0,
        spread=Spread(1.0, 1.0, *(0.0,) * 4),
        noises=(0.0, 0.0),
        reach=np.ones(3),
        sigma=sigma,
    )
    assert np.allclose(seen.axes, mean_units(clip, frame)[:, None] * frame.from_axes)
    return replace(seen, vector=seen.vector[None], moment=moment[None])


def reshaped(frame: Frame, seen: NoisyMoments) -> Frame:
    """Return the axes of the only repetition that was seen."""
    found = reshape_axes(frame, seen)
    return found if found is frame else found.at(0)


def usual(frame: Frame) -> FloatArray:
    """Return the covariance that records have for which the axes are made, (d, d), of trace ¼."""
    rest = frame.from_axes[frame.lines :]
    out = np.zeros((D, D))
    out[frame.lines :, frame.lines :] = rest @ rest.T / (4.0 * np.sum(rest**2))
    return out


@pytest.mark.parametrize("lines", [0, 1])
def test_without_noise_scales_are_the_fourth_root_of_the_covariance(lines: int) -> None:
    """Off the line, in coordinates, up to a factor; the line stays what it is."""
    frame = frame_of(lines)
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.standard_normal((D - lines, D - lines)))[0]
    half = np.linalg.cholesky(usual(frame)[lines:, lines:]) @ turn
    wide = np.zeros((D, D))
    wide[lines:, lines:] = (half * np.geomspace(0.4, 2.5, D - lines)) @ half.T
    found = reshaped(frame, seen_in(frame, wide, 1e-12))
    rest, old = found.from_axes[lines:], frame.from_axes[lines:]
    squares = rest.T @ rest
    expected = old.T @ wide[lines:, lines:] @ old
    np.testing.assert_allclose(
        squares @ squares / np.sum(squares**2), expected / np.trace(expected), atol=1e-6
    )
    np.testing.assert_allclose(found.to_axes @ found.from_axes, np.eye(D), atol=1e-9)
    assert found.lines == lines
    if lines:
        np.testing.assert_allclose(found.to_axes[:, 0], frame.to_axes[:, 0], atol=1e-12)


@pytest.mark.parametrize("lines", [0, 1])
def test_what_may_be_noise_changes_nothing(lines: int) -> None:
    """Half of what could be noise on top of what is usual leaves the axes as they are."""
    frame, sigma = frame_of(lines), 0.01
    rng = np.random.default_rng(5)
    for _ in range(20):
        noise = rng.standard_normal((D, D)) * sigma / (2.0 * FACTOR)
        moment = usual(frame) - sigma**2 * np.eye(D) + (noise + noise.T) / 2.0
        assert reshaped(frame, seen_in(frame, moment, sigma)) is frame


def test_a_covered_region_leaves_the_axes() -> None:
    """There is no second moment to go by."""
    frame = frame_of(1)
    seen = seen_in(frame, usual(frame), 0.01)
    assert reshaped(frame, replace(seen, moment=None)) is frame


@pytest.mark.parametrize("lines", [0, 1])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_no_noise_makes_an_axis_collapse(lines: int, size: float) -> None:
    """Whatever is released, axes stay inverse to each other, and change by 10^¼ at most."""
    frame = frame_of(lines)
    rng = np.random.default_rng(6)
    changed = 0
    for sigma in (1e-12, 1e-3, 1.0, 1e6):
        for _ in range(10):
            moment = size * rng.standard_normal((D, D))
            found = reshaped(frame, seen_in(frame, moment + moment.T, sigma))
            changed += found is not frame
            np.testing.assert_allclose(found.to_axes @ found.from_axes, np.eye(D), atol=1e-6)
            new, old = found.from_axes[lines:], frame.from_axes[lines:]
            ratios = np.linalg.svd(new @ frame.to_axes[:, lines:])[1]
            assert ratios.max() / ratios.min() <= VARIANCE_RATIO**0.5 * (1.0 + 1e-6)
            assert np.sum(new**2) == pytest.approx(np.sum(old**2))
    assert changed


def test_the_noise_is_least_with_the_fourth_root() -> None:
    """√tr(A⁻²Σ)·√tr(A²) is tr(Σ^½) for A = Σ^¼ and more for any other scales."""
    rng = np.random.default_rng(7)
    factor = rng.standard_normal((D, D))
    values, vectors = np.linalg.eigh(factor @ factor.T)

    def price(shape: FloatArray) -> float:
        frame = build_frame(None, shape)
        seen = frame.to_axes.T @ (vectors * values) @ vectors.T @ frame.to_axes
        return float(np.sqrt(np.trace(seen) * np.sum(frame.from_axes**2)))

    best = price((vectors * values**0.25) @ vectors.T)
    assert best == pytest.approx(np.sum(np.sqrt(values)))
    for _ in range(50):
        other = rng.standard_normal((D, D))
        assert price(other @ other.T) > best


@pytest.mark.parametrize("lines", [0, 1])
def test_axes_say_how_long_their_units_are(lines: int) -> None:
    """Nearest and farthest place with ‖z‖ = 1, and the mean square of records; axes are inverse."""
    before = frame_of(lines)
    moment = usual(before)
    moment[-1, -1] *= 4.0
    for frame in (before, reshaped(before, seen_in(before, moment, 1e-9))):
        scales = np.linalg.svd(frame.from_axes[lines:], compute_uv=False)
        expected = np.sqrt(np.sum(scales**4) / np.sum(scales**2))
        assert (frame.widest, frame.narrowest) == pytest.approx((scales[0], scales[-1]))
        assert frame.unit_length == pytest.approx(expected)
        assert np.sum(scales**2) == pytest.approx(D - lines)
        np.testing.assert_allclose(frame.to_axes @ frame.from_axes, np.eye(D), atol=1e-12)
