"""Regions of the mean of all units of a stream, from what a night's document says."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_documents import night_class_of
from scipy.stats import binom, chi2

from covdp import open_dataset
from covdp.addons.nights.certainty import mean_certainty
from covdp.addons.nights.stream import (
    Night,
    StreamMechanism,
    StreamPlan,
    cumulative_mean,
    empty_state,
    release_night,
    split_epochs,
)
from covdp.addons.nights.stream.history import mean_parts, part_moments
from covdp.addons.nights.stream.pool import pool, pooled_clipping
from covdp.addons.partners.coordinates import common_coordinates
from covdp.addons.partners.match import _vectors, clip_vectors
from covdp.addons.partners.tests import _clipping
from covdp.descriptors import describe, domain
from covdp.errors import ConfigError
from covdp.experiments.images import CHANGES
from covdp.figures import number
from covdp.geometry import MANIFOLDS, vecd
from covdp.inference import combine, covariance, match, match_refusal, region, two_sample
from covdp.mean import AdaptivePlan, mean
from covdp.mean.noisy_moments import clipping_bound, pooled_bounds
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP
from covdp.report.readings import regions_of
from covdp.schema import as_json, read_entry

SPD = MANIFOLDS["spd-log-euclidean"](k=5)
PAIRS = 20
DRAWS = 25


@pytest.fixture(scope="module")
def stream() -> StreamMechanism:
    """Return a stream of a horizon of ten years that opens at N·μ = 300."""
    facts = domain("oct5", height=28, width=28, manifold=SPD.name)
    return StreamMechanism(StreamPlan(GDP(2.0), 3650, 300.0), facts, SPD)


@pytest.fixture(scope="module")
def tissue(stream: StreamMechanism) -> np.ndarray:
    """Return real records in the chart."""
    images = np.concatenate(list(open_dataset("tiles").chunks(label=0)))
    return stream.placed(describe(images))


def nights_of(stream: StreamMechanism, batches: list[np.ndarray], seed: int) -> list[Night]:
    """Return what some nights release; each is told its units' points."""
    history, private, noise = (
        list[Night](),
        empty_state(15),
        FloatNoise(np.random.default_rng(seed)),
    )
    for batch in batches:
        total = 2 * len(batch) if stream.plan.secret else None  # as many are of other classes
        night, private = release_night(stream, history, private, batch, noise=noise, total=total)
        history.append(night)
    return history


def row(stream: StreamMechanism, history: list[Night]) -> dict[str, Any]:
    """Return what a document says of the mean so far, written and read."""
    found = cumulative_mean(stream, history)
    place = None if found is None else found.offset.tolist()
    certainty = mean_certainty(stream, history)
    n = 0 if found is None else found.n
    stated = as_json(certainty) if certainty else None
    told: dict[str, Any] = json.loads(
        json.dumps({"n": n, "coordinates": place, "certainty": stated})
    )
    return told


def test_regions_of_a_stream_hold_real_means(stream: StreamMechanism, tissue: np.ndarray) -> None:
    """Opening and six nights, 25 draws: coverage not below 95 %, of units and of the population.

    A region of exactly 95 % would fail for one seed in 10⁴. Their radius is below 12 times the
    error in the median: rare images may move it so far unseen.
    """
    rng, held, sizes = np.random.default_rng(7), np.zeros(2), list[tuple[float, float]]()
    for seed in range(DRAWS):
        batches = [tissue[rng.integers(len(tissue), size=n)] for n in (200, *[90] * 6)]
        told = row(stream, nights_of(stream, batches, seed))
        of_units, of_law = region(told), region(told, of="population")
        units = np.concatenate(batches).mean(axis=0)
        ends = SPD.exp(SPD.origin, np.stack([units, tissue.mean(axis=0)]))
        held += of_units.contains(ends[0]), of_law.contains(ends[1])
        assert of_units.offered == of_law.offered
        assert np.trace(of_law.covariance) > np.trace(of_units.covariance)
        sizes.append((of_units.radius, float(SPD.dist(of_units.centre, ends[0]))))
    assert (held >= binom.ppf(1e-4, DRAWS, 0.95)).all()
    radius, error = np.median(sizes, axis=0)
    assert radius < 12.0 * error


def test_on_its_first_night_it_is_that_of_the_opening(
    stream: StreamMechanism, tissue: np.ndarray
) -> None:
    """One part alone: noise and bias of its mean before it was shrunk; before it nothing."""
    history = nights_of(stream, [tissue[:100], tissue[100:300]], 1)
    told, seen = row(stream, history), history[-1].opened.observed  # type: ignore[union-attr]
    certain = told["certainty"]
    assert seen is not None
    found, stated = region(told), mean_certainty(stream, history)
    assert stated is not None
    assert stated.population is not None
    np.testing.assert_allclose(
        stated.sample, seen.noise + seen.as_covariance(*seen.bounds), rtol=1e-8
    )
    scatter = covariance(seen) / seen.n
    np.testing.assert_allclose(stated.population - stated.sample, scatter, atol=1e-12)
    wide = region(told, of="population").covariance
    np.testing.assert_allclose(found.covariance, stated.sample, rtol=1e-12)
    np.testing.assert_allclose(wide, stated.population, rtol=1e-12)
    assert found.offered
    share = stated.parts[0].share
    assert found.clipping == math.hypot(*pooled_bounds([(share, seen)]))
    assert found.clipping == pytest.approx(clipping_bound([(1.0, seen)]), rel=1e-14)
    shown = regions_of([night_class_of(told | {"class_name": "tissue"})], "image")
    radii = found.radius, region(told, of="population").radius
    assert shown is not None
    assert shown["lines"][0][2:] == [number(x) for x in radii]
    loud = {
        "class_name": "loud",
        "certainty": {**certain, "offered": False},
    }  # its point is not read
    withheld = regions_of([night_class_of(loud)], "image")
    assert withheld is not None
    assert withheld["lines"][0][1].startswith("Not available: its document offers no region")
    with pytest.raises(ConfigError, match="before the opening of its class nothing is released"):
        region(row(stream, history[:1]))


def test_what_parts_leave_is_counted(stream: StreamMechanism, tissue: np.ndarray) -> None:
    """Against the population each part errs by itself: the same sum, written the other way.

    What clipping may do to a part counts by the share of that part.
    """
    history = nights_of(stream, [tissue[:200], tissue[200:300], tissue[300:600]], 2)
    past = split_epochs(stream, history)
    pooled, seen = mean_parts(stream, past), part_moments(stream, past)
    assert pooled is not None
    parts = [one for one in seen if one is not None]
    assert [one.n for one in parts] == [200, 400]
    wide = np.average([covariance(one) for one in parts], axis=0, weights=[200, 400])
    gains = pool(*pooled).gains
    shares = [float(np.trace(gain)) / 15.0 for gain in gains]
    expected = pooled_clipping(list(zip(shares, parts, strict=True)))
    for gain, one in zip(gains, parts, strict=True):
        expected = expected + gain @ (one.noise + wide / one.n) @ gain.T
    found = mean_certainty(stream, history)
    assert found is not None
    assert found.population is not None
    np.testing.assert_allclose(found.population, expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.population - found.sample, wide / 600, atol=1e-12)
    bounds = [clipping_bound([(1.0, one)]) for one in parts]
    assert found.clipping < np.dot(shares, bounds) < max(bounds)


def test_streams_are_compared_and_combined_as_releases_are(
    stream: StreamMechanism, tissue: np.ndarray
) -> None:
    """One population is seldom found different, a gain of 1.3 always; regions of all hold.

    Two streams of unlike length, and a release: with false alarms in 5 % more than allowed were
    called different for one seed in 10⁵, and regions of 95 % would hold fewer as seldom.
    """
    rng, p_values, held = np.random.default_rng(11), list[float](), 0
    brighter = 2.0 * math.log(1.3) * vecd(np.eye(5))
    for seed in range(PAIRS):
        order = rng.permutation(len(tissue))
        units = [tissue[order[:500]], tissue[order[500:900]], tissue[order[900:1200]]]
        one = row(stream, nights_of(stream, [units[0][:200], *np.split(units[0][200:], 6)], seed))
        two = row(stream, nights_of(stream, [units[1][:200], units[1][200:]], PAIRS + seed))
        release = mean(
            SPD.exp(SPD.origin, units[2]),
            stream.plan.budget,
            domain=stream.domain,
            manifold=SPD,
            plan=AdaptivePlan(),
            noise=FloatNoise(rng),
        )
        p_values += [two_sample(one, two).p_value, two_sample(one, release).p_value]
        moved = nights_of(stream, [units[1][:200] + brighter, units[1][200:] + brighter], seed)
        assert two_sample(one, row(stream, moved)).p_value < 0.05
        found = combine([one, two, release])
        held += int(found.all.contains(SPD.exp(SPD.origin, np.concatenate(units).mean(axis=0))))
        assert found.n == 1200
    assert np.sum(np.array(p_values) < 0.05) <= binom.ppf(1.0 - 1e-5, 2 * PAIRS, 0.05)
    assert held >= binom.ppf(1e-5, PAIRS, 0.95)


def test_streams_of_unlike_budgets_are_compared(stream: StreamMechanism, shared: Path) -> None:
    """Of one population they seldom differ: in 5 % and two standard errors at most; of two, often.

    Secret labels, μ of 2 and 0.5 for ten years, 800 and 1,250 images of PneumoniaMNIST until their
    seventh nights. By hand, 50 pairs of each class, these and 30 nights, labels public and secret:
    none of 400 pairs of one population differ, so at most 0.75 % do, and more than 2 of 20 for one
    seed in 2,500; where the images of one have a gain of 1.2, 84 to 100 % differ, of these 96 %,
    and fewer than 15 of 20 for one seed in 10⁴.
    """
    images = np.concatenate(list(open_dataset("pneumoniamnist", shared).chunks(label=0)))
    rng = np.random.default_rng(13)
    brighter = CHANGES["gain"](images, 1.2, rng)
    plain, moved = (SPD.log(SPD.origin, describe(one)) for one in (images, brighter))
    rich, poor = (
        StreamMechanism(StreamPlan(GDP(mu), 3650, 300.0, secret=True), stream.domain, SPD)
        for mu in (2.0, 0.5)
    )
    same, other = list[float](), list[float]()
    for seed in range(PAIRS):

        def entry(kind: StreamMechanism, points: np.ndarray, first: int, seed: int) -> Any:
            sizes = (first, *[100] * 6)
            batches = [points[rng.integers(len(points), size=size)] for size in sizes]
            return row(kind, nights_of(kind, batches, seed))

        one = entry(rich, plain, 200, 3 * seed)
        tests = (
            two_sample(one, entry(poor, points, 650, 3 * seed + place))
            for place, points in enumerate((plain, moved), start=1)
        )
        for found, p_values in zip(tests, (same, other), strict=True):
            assert found.offered
            p_values.append(found.p_value)
    alarms, finds = (np.mean(np.array(p_values) < 0.05) for p_values in (same, other))
    assert alarms <= 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / PAIRS)
    assert finds >= 0.75


def test_local_records_are_matched_with_a_night(
    stream: StreamMechanism, tissue: np.ndarray
) -> None:
    """Those of one population seldom differ, those of a gain of 1.3 always do.

    They are clipped as the epoch of most units clips its own: the mean of these, clipped anew, is
    what it released but for noise of its law (20 draws of 15 coordinates; one seed in 10⁶). At a
    level of 5 % more than 6 of 20 alarms come for one seed in 3,000.
    """
    rng, p_values, errors = np.random.default_rng(12), list[float](), list[float]()
    brighter = 2.0 * math.log(1.3) * vecd(np.eye(5))
    for seed in range(PAIRS):
        units = tissue[rng.permutation(len(tissue))]
        nights = [units[:200], *np.split(units[200:1100], 6)]
        night = read_entry(row(stream, nights_of(stream, nights, seed)))
        assert match_refusal(night) == ""
        p_values.append(match(night, units[1100:]).p_value)
        assert match(night, units[1100:] + brighter).p_value < 0.05
        moments = night.noisy_moments
        assert moments.n == 900
        clipped = clip_vectors(moments, _vectors(moments, units[200:1100] - moments.base))
        errors += ((moments.vector - clipped.mean(axis=0)) / moments.sigma).tolist()
    assert np.sum(np.array(p_values) < 0.05) <= 6
    assert abs(chi2.cdf(np.sum(np.square(errors)), len(errors)) - 0.5) < 0.5 - 5e-7
    with pytest.raises(ConfigError, match="has not opened"):
        match(row(stream, nights_of(stream, [tissue[:20]], 0)), tissue)


def test_a_mean_of_parts_is_clipped_as_its_parts_are(
    stream: StreamMechanism, tissue: np.ndarray
) -> None:
    """Shares add up to one; a stream against itself is moved apart by its epochs' clips alone."""
    history = nights_of(stream, [tissue[:200], tissue[200:300], tissue[300:600]], 2)
    told = row(stream, history)
    parts = told["certainty"]["parts"]
    assert [part["first"] for part in parts] == [1, 2]
    assert sum(part["share"] for part in parts) == pytest.approx(1.0)
    assert [part["observed"]["n"] for part in parts] == [200, 400]
    opening = row(stream, history[:1])
    assert two_sample(opening, opening).statistic == 0.0
    manifold, _, (whole, alone) = common_coordinates([told, opening])
    assert np.trace(_clipping(manifold, alone, alone)) == 0.0
    assert 0.0 < np.trace(_clipping(manifold, whole, alone)) < np.trace(whole.bias + alone.bias)
