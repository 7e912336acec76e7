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


def test_an_error_is_noise_and_bias_where_few_are_clipped(released: dict[str, Any]) -> None:
    """What is stated of it adds up; where as many are clipped as may be there is no band.

    What may be cut off above counts though its noise may be all of it, and by how much vectors are
    shortened for it.
    """
    axes, row = axes_of(settings_of(released["settings"]), SPACE), released["classes"][0]
    reach, sigma = row["observed"]["reach"], row["observed"]["sigma"]
    above = reach[2] * sigma / OVERSHOOT
    cut = [0.0, 0.0, above, *[0.0] * (len(reach) - 3)]
    row = {**row, "observed": row["observed"] | {"overshoots": cut, "clipped": 0.48}}
    seen, known = class_of(row).noisy_moments, mean_of(class_of(row), axes, SPACE).covariance
    assert known is not None
    bias = known - seen.noise
    line = seen.axes[0] / np.linalg.norm(seen.axes[0])
    along, off = seen.predicted_bias
    level = seen.length * ((1.0 - seen.sure[1]) * above + above / reach[2] / 2.0)
    assert level > along
    assert line @ bias @ line == pytest.approx((2.0 * along) ** 2 + level**2)
    assert np.trace(bias) - line @ bias @ line == pytest.approx(14 * (1.5 * off) ** 2)
    clipped = {**row, "observed": {**row["observed"], "clipped": 0.5}}
    assert mean_of(class_of(clipped), axes, SPACE).covariance is None


def test_a_predicted_error_is_that_of_all_directions_together(released: dict[str, Any]) -> None:
    """Of one draw the mean square of the distance is its square."""
    axes, row = axes_of(settings_of(released["settings"]), SPACE), released["classes"][0]
    one = {**row, "observed": None, "predicted_error": 0.3, "costs": row["costs"][:1]}
    known = mean_of(class_of(one), axes, SPACE).covariance
    assert known is not None
    assert np.trace(known) == pytest.approx(0.09)
