"""Simulated outlines are smoothed as the paper says: by first-order local linear regression."""

import json
from pathlib import Path

import numpy as np
import pytest

from covdp.addons.papers.simulated import outlines, smooth, template
from covdp.errors import ConfigError
from covdp.experiments import Run, load_experiments, run_experiment


def test_smoothing_is_a_local_line() -> None:
    """A straight part of an outline stays as it is, at and between its landmarks."""
    straight = np.arange(50) * (1 + 2j) - 3
    for points in (50, 150, 170):
        place = np.arange(points) * 50 / points
        inside = (place >= 6) & (place <= 43)  # ten landmarks a line: the seam is at 49 | 0
        found = smooth(straight, 0.2, points=points)
        np.testing.assert_allclose(found[inside], (place * (1 + 2j) - 3)[inside], atol=1e-9)
        assert np.abs(found - (place * (1 + 2j) - 3))[~inside].max() > 1


def test_smoothing_is_that_of_a_plain_fit() -> None:
    """Each smoothed point is the value of a weighted least-squares line, fitted one by one."""
    shape = outlines(50, 1, np.random.default_rng(3))[0]
    for point in (0, 1, 44, 149):
        place = point * 50 / 150
        apart = (np.arange(50) - place + 25) % 50 - 25
        weight = np.sqrt(np.clip(1 - np.abs(apart / 6) ** 3, 0, None) ** 3)
        design = weight[:, None] * np.stack([np.ones(50), apart], axis=-1)
        line = np.linalg.lstsq(design.astype(complex), weight * shape, rcond=None)[0]
        assert smooth(shape, 0.24)[point] == pytest.approx(line[0], abs=1e-12)


def test_smoothing_takes_noise_away_and_turns_along() -> None:
    """Noise at landmarks shrinks as by averaging; turning before or after is the same."""
    rng = np.random.default_rng(4)
    noise = rng.standard_normal((200, 50, 2)) @ np.array([1, 1j])
    assert np.std(smooth(noise, 0.2)) < 0.5 * np.std(noise)
    shape, turn = template(50), np.exp(0.7j)
    np.testing.assert_allclose(smooth(turn * shape, 0.2), turn * smooth(shape, 0.2), atol=1e-12)


@pytest.mark.parametrize("span", [0.02, 0.05, 0.079])
def test_a_span_that_cannot_be_is_refused(span: float) -> None:
    """Fewer than four landmarks make no local line; the error says from where on they do."""
    with pytest.raises(ConfigError, match=r"at least 4 .* between 0\.08 and 1"):
        smooth(template(50), span)
    assert np.isfinite(smooth(template(50), 0.08)).all()


def test_pictures_hold_raw_and_smoothed_outlines(tmp_path: Path) -> None:
    """Aligned series are drawn raw and smoothed, from the same draws; the others raw only."""
    (config,) = load_experiments("kng-shapes", quick=True, chains=False)
    assert config.source is not None
    assert config.source.smoothing is not None
    run_experiment(Run(config.model_copy(update={"repetitions": 2}), None, tmp_path))
    drawn = json.loads((tmp_path / "runs" / config.run_name / "outlines.json").read_text("utf-8"))
    aligned = {item.series for item in config.mechanisms if item.aligned}
    smoothed = {name.removesuffix(", smoothed") for name in drawn if name.endswith(", smoothed")}
    assert smoothed == aligned
    for name in aligned:
        raw = np.array(drawn[name]) @ np.array([1, 1j])
        fine = np.array(drawn[f"{name}, smoothed"]) @ np.array([1, 1j])
        np.testing.assert_allclose(fine, smooth(raw, config.source.smoothing), atol=2e-5)
