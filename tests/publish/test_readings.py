"""What is read off a mean: bands as wide as its noise, and what errors are made of.

All draws are seeded: shares of 20,000 draws scatter by 0.2 %, so that by chance a test here fails
less than once in a million seeds.
"""

import json
from typing import Any

import numpy as np
import pytest
from sample_documents import class_of, settings_of
from sample_history import draw_release

from covdp.arrays import FloatArray
from covdp.descriptors import DESCRIPTORS, terms_of
from covdp.geometry import MANIFOLDS, to_chart
from covdp.inference import NOISY
from covdp.mean.sums import OVERSHOOT
from covdp.publish import read_terms
from covdp.publish.readings import Mean, axes_of, mean_of

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

SPACE = MANIFOLDS["spd-log-euclidean"](k=5)
TERMS = terms_of(DESCRIPTORS["oct5"])
DRAWS = 20_000


def mean_with(noise: float, seed: int) -> tuple[Mean, FloatArray]:
    """Return a mean whose error has a covariance of about noise², and means that err so."""
    rng = np.random.default_rng(seed)
    walks = rng.normal(0.0, 30.0, (5, 40))
    point = walks @ walks.T / 40
    root = noise * rng.normal(size=(15, 15)) / np.sqrt(15)
    draws = SPACE.exp(point, SPACE.log(point, point) + rng.normal(size=(DRAWS, 15)) @ root.T)
    return Mean(to_chart(SPACE, point), root @ root.T), draws


def test_a_band_holds_the_term_in_nineteen_of_twenty_draws() -> None:
    """Of noise whose covariance is stated, in each term, whatever its scale."""
    mean, draws = mean_with(0.05, 1)
    for seen in read_terms(TERMS, mean, SPACE):
        assert seen.low is not None
        assert seen.high is not None
        inside = (seen.low < seen.term.value(draws)) & (seen.term.value(draws) < seen.high)
        assert np.mean(inside) == pytest.approx(0.95, abs=0.009)


def test_a_variance_that_rounding_made_negative_is_a_band_without_width() -> None:
    """Of hardly any noise: a page must not end for it, as it is paid for."""
    mean, _ = mean_with(0.05, 1)
    for seen in read_terms(TERMS, Mean(mean.point, -1e-24 * np.eye(15)), SPACE):
        assert seen.value is not None
        assert seen.low == seen.value == seen.high


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the document of a release."""
    return dict(json.loads(draw_release(tmp_path_factory.mktemp("ward"))))


def test_a_band_is_noise_and_a_whisker_the_most_that_clipping_does(
    released: dict[str, Any],
) -> None:
    """No bias within the bounds leaves the whisker, one along the gradient reaches its ends.

    The band is of noise alone, however many records are clipped.
    """
    axes, row = axes_of(settings_of(released["settings"]), SPACE), released["classes"][0]
    reach, sigma = row["observed"]["reach"], row["observed"]["sigma"]
    above = reach[2] * sigma / OVERSHOOT
    cut = [0.0, 0.0, above, *[0.0] * (len(reach) - 3)]
    row = {**row, "observed": row["observed"] | {"overshoots": cut, "clipped": 0.48}}
    row["observed"] |= {"sigma": min(sigma, NOISY)}
    seen, mean = class_of(row).noisy_moments, mean_of(class_of(row), axes, SPACE)
    np.testing.assert_array_equal(mean.covariance, seen.noise)
    assert mean.moves is not None
    along, off = seen.bounds
    rng, d = np.random.default_rng(7), len(seen.axes)
    for one in read_terms(TERMS, mean, SPACE):
        assert one.low is not None
        assert one.high is not None
        assert one.least is not None
        assert one.most is not None
        assert one.least < one.low < one.high < one.most
    biases = [(v := rng.normal(size=d - 1)) / np.linalg.norm(v) * off for _ in range(200)]
    for gradient in rng.normal(size=(20, d)):
        most = sum(np.linalg.norm(part @ gradient) for part in mean.moves)
        found = [seen.axes.T @ np.array([along, *bias]) @ gradient for bias in biases]
        assert max(map(abs, found)) <= most * (1.0 + 1e-12)
        turned = seen.axes @ gradient
        worst = np.array(
            [along * np.sign(turned[0]), *(off * turned[1:] / np.linalg.norm(turned[1:]))]
        )
        assert worst @ turned == pytest.approx(most)
    many = {**row, "observed": {**row["observed"], "clipped": 0.9}}
    np.testing.assert_array_equal(mean_of(class_of(many), axes, SPACE).covariance, seen.noise)


def test_without_a_region_there_is_a_band_and_no_whisker(released: dict[str, Any]) -> None:
    """Where noise is too wide to bound clipping, of no mean a whisker is stated."""
    axes, row = axes_of(settings_of(released["settings"]), SPACE), released["classes"][0]
    row = {**row, "observed": row["observed"] | {"sigma": 1.1 * NOISY}}
    mean = mean_of(class_of(row), axes, SPACE)
    assert mean.moves is None
    assert all(one.least is None for one in read_terms(TERMS, mean, SPACE))
    assert any(one.low is not None for one in read_terms(TERMS, mean, SPACE))


def test_a_predicted_error_is_that_of_all_directions_together(released: dict[str, Any]) -> None:
    """Of one draw the mean square of the distance is its square."""
    axes, row = axes_of(settings_of(released["settings"]), SPACE), released["classes"][0]
    one = {**row, "observed": None, "predicted_error": 0.3, "costs": row["costs"][:1]}
    known = mean_of(class_of(one), axes, SPACE).covariance
    assert known is not None
    assert np.trace(known) == pytest.approx(0.09)
