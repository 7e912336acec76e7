"""What is publicly expected of descriptors, and what far records say when it was wrong.

Random tests state nothing of chance: all is seeded or exact.
"""

import numpy as np
import pytest

from pipeline.descriptors import DESCRIPTORS, domain
from pipeline.geometry import MANIFOLDS, chart_of
from pipeline.mean import Prior, default_prior
from pipeline.mean.axes import Frame, build_frame
from pipeline.mean.clip import choose_interval
from pipeline.mean.histogram import (
    LineBins,
    ShellBins,
    line_bins,
    merge,
    shell_bins,
    survey_posterior,
)
from pipeline.mean.public_model import _shape as prior_shape
from pipeline.mean.tuning import LINE_WEIGHT, STABLE_RATIO
from tests.tools.tuning.images import ImageClass, images_of, records_of, some
from tests.tools.tuning.scales import shape_of

SPD = ["spd-log-euclidean", "spd-log-cholesky", "spd-affine-invariant"]


def expected(name: str) -> tuple[Prior, Frame, LineBins, ShellBins, float]:
    """Return prior, frame, bins and where the line begins, of `oct5` on a flat manifold."""
    space = chart_of(MANIFOLDS[name](k=5))
    facts = domain("oct5", height=28, width=28, manifold=name)
    prior = default_prior(facts, space)
    frame = build_frame(prior.line, prior.shape)
    start = float(prior.centre @ frame.to_axes[:, 0])
    line = line_bins(prior, start)
    return prior, frame, line, shell_bins(prior, frame, facts.diameter), start


def test_far_shells_are_trusted_as_long_as_their_centre_is_near() -> None:
    """A centre that moves by 1 leaves what lies 2 and more away about where it was."""
    shells = ShellBins(np.array([0.5, 1.0, 2.0, 4.0]), np.ones(1), np.ones((5, 1)), 2)
    assert STABLE_RATIO == 2.0
    assert shells.steady(0.0).tolist() == [True, True, True]
    assert shells.steady(0.9).tolist() == [False, True, True]  # begin at 1, 2 and 4
    assert shells.steady(1.5).tolist() == [False, False, True]
    assert shells.steady(9.0).tolist() == [False, False, False]


def test_records_that_were_far_from_the_prior_are_not_far_from_their_mean() -> None:
    """What the survey counted around the prior's centre says nothing around one that moved away.

    Seen from where the shells are counted all records are near: so the merged shells say.
    """
    late, far = np.array([0.0, 0.7, 0.3, 0.0, 0.0]), np.array([0.0, 0.4, 0.6])
    moved = merge(late, far, 0.01, 0.004, np.zeros(3, dtype=bool))
    np.testing.assert_allclose(moved, late, atol=0.03)
    held = merge(late, far, 0.01, 0.004, np.ones(3, dtype=bool))
    assert held[2:].sum() > 0.5  # with the survey's precision


def test_the_line_reaches_as_far_as_the_survey_saw_records() -> None:
    """Of far records it is unknown where along the line they lie: the interval holds them all."""
    prior, frame, line, shells, start = expected("spd-log-cholesky")
    beyond = np.zeros(len(shells.edges) + 1 - shells.far)
    beyond[0] = 1.0  # far from the prior's centre
    nobody = np.zeros(len(line.edges) + 1)
    survey = survey_posterior((nobody, np.outer(nobody, nobody)), beyond, beyond, (line, shells))
    found = choose_interval(survey, (line, shells), frame, sigma=1e-6, radius=1.0)
    reach = LINE_WEIGHT * shells.edges[shells.far]
    assert found.low <= max(start - reach, prior.span[0]) + prior.step
    assert found.high >= min(start + reach, prior.span[1]) - prior.step


@pytest.mark.parametrize("name", SPD)
@pytest.mark.parametrize("descriptor", ["oct5", "grid9"])
def test_most_tiles_are_near_where_the_prior_expects_them(name: str, descriptor: str) -> None:
    """No whole class is far, off the line: far records are counted as exceptions."""
    images = np.concatenate([some(images_of(ImageClass("tiles", i), None), 100) for i in range(3)])
    records = records_of(images, descriptor=descriptor, manifold=name)
    shells = records.bins[1]
    far = records.counts[len(records.counts) - (len(shells.edges) + 1 - shells.far) :]
    assert far.sum() <= 0.05 * len(images)


def test_scales_are_those_of_the_pictures() -> None:
    """The file says what its script finds, and every built-in descriptor is in it."""
    spec = DESCRIPTORS["oct5"]
    for name in SPD:
        metric = MANIFOLDS[name].metric
        found = prior_shape(spec.name, metric)
        np.testing.assert_allclose(found, shape_of(spec, name), rtol=0, atol=2e-3)
        for other in DESCRIPTORS.values():
            shape = prior_shape(other.name, metric)
            assert shape is not None
            assert len(shape) == other.dimension
            assert np.linalg.eigvalsh(shape)[0] > 0.01
    assert prior_shape("other", "log-Euclidean") is None


@pytest.mark.parametrize("descriptor", DESCRIPTORS)
def test_typical_correlations_make_a_covariance(descriptor: str) -> None:
    """The centre of the prior is that of a definite matrix, with the variances that it names."""
    deep = {"depth": 16} if DESCRIPTORS[descriptor].dimensions == 3 else {}
    facts = domain(descriptor, height=16, width=16, manifold="spd-log-cholesky", **deep)
    k = len(facts.variances)
    space = MANIFOLDS["spd-log-cholesky"](k=k)
    usual = space.exp(space.origin, default_prior(facts, space).centre)
    if facts.means:
        np.testing.assert_allclose(usual[0], [1.0, *facts.typical_means])
        usual[1:, 1:] -= np.outer(usual[0, 1:], usual[0, 1:])
        usual[0, 1:] = usual[1:, 0] = 0.0
    logs = facts.typical or (-5.0,) * k
    np.testing.assert_allclose(np.diag(usual), facts.variances * np.exp(logs), rtol=1e-9)
    deviations = np.sqrt(np.diag(usual))
    correlations = usual / np.outer(deviations, deviations)
    for i, j, value in facts.correlations:
        assert correlations[i, j] == pytest.approx(value)
    assert np.count_nonzero(np.abs(correlations) > 1e-9) == k + 2 * len(facts.correlations)
    assert np.linalg.eigvalsh(correlations)[0] > 0.01
