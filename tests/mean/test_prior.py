"""What is publicly expected of descriptors, beside tiles.

Random tests state nothing of chance: all is seeded or exact.
"""

import numpy as np
import pytest

from covdp.descriptors import DESCRIPTORS, domain
from covdp.geometry import MANIFOLDS, chart_of
from covdp.mean import default_prior
from covdp.mean.public_model import _shape as prior_shape
from tests.tools.tuning.images import ImageClass, images_of, records_of, some
from tests.tools.tuning.scales import shape_of

SPD = ["spd-log-euclidean", "spd-log-cholesky", "spd-affine-invariant"]


@pytest.mark.parametrize("name", SPD)
@pytest.mark.parametrize("descriptor", ["oct5", "grid9"])
def test_most_tiles_are_near_where_the_prior_expects_them(name: str, descriptor: str) -> None:
    """Off the contrast axis none is beyond the last edge, beyond which shells are not told apart.

    But for nine features on the curved manifold: a quarter of the tiles are.
    """
    images = np.concatenate([some(images_of(ImageClass("tiles", i), None), 100) for i in range(3)])
    records = records_of(images, descriptor=descriptor, manifold=name)
    (seen,) = records.seen
    off = np.linalg.norm(seen[:, records.frame.lines :], axis=1)
    curved = (descriptor, name) == ("grid9", "spd-affine-invariant")
    assert np.mean(off > records.prior.edges[-1]) <= (0.3 if curved else 0.0)
    assert np.linalg.norm(seen, axis=1).max() <= records.prior.farthest


@pytest.mark.parametrize("name", SPD)
def test_lengths_of_the_prior_are_in_order(name: str) -> None:
    """Radii rise from narrower than the records expected to beyond the first ball.

    The first odd picture is blank: it lies along the contrast axis, as no other does.
    """
    space = chart_of(MANIFOLDS[name](k=5))
    prior = default_prior(domain("oct5", height=28, width=28, manifold=name), space)
    assert (np.diff(prior.edges) > 0.0).all()
    assert prior.edges[0] < prior.unit < prior.first < prior.edges[-1] < prior.farthest
    assert prior.line is not None
    blank, *others = prior.odd - prior.centre
    assert len(others) == 5
    assert abs(blank @ prior.line) > 0.8 * np.linalg.norm(blank)
    assert all(abs(odd @ prior.line) < 0.8 * np.linalg.norm(odd) for odd in others)


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
