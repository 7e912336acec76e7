"""Secret labels: a record that changes its class moves all steps of all classes by at most Δ.

A probe stands in for the noise, as in ``test_adaptive.py``: its script is the same for neighbours,
so that every choice is the same. Each class is drawn by itself, as a release draws it. A record
that goes from one class to another moves what it moves in either, added up as squares.
"""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sample_manifolds import BOUNDED, SPD
from scipy.spatial.distance import pdist

from covdp.arrays import FloatArray
from covdp.descriptors import domain
from covdp.errors import ConfigError, DomainError, PrivacyError
from covdp.geometry import MANIFOLDS, Point
from covdp.inference import region
from covdp.mean import (
    AdaptivePlan,
    Labels,
    MeanSetup,
    SinglePlan,
    admit,
    draw,
    draw_each,
    prepare,
    private_mean,
    sums,
)
from covdp.mean.plan import STEP_NAMES
from covdp.mean.release import COUNT_UNIT
from covdp.mean.rounds import step_costs
from covdp.mean.sums import NORM
from covdp.mean.tuning import SHARES_OF_MANY
from covdp.mechanisms.noise import LATTICE, FloatNoise
from covdp.privacy import GDP, PureDP, compose
from covdp.publish.config import WIDEST_NOISE
from tests.mean.scripts import (
    SCRIPTS,
    Probe,
    Script,
    random_script,
    setting,
    steps_of,
)
from tests.mean.tiled import means, tiles
from tests.sample_means import blocks_of, forced

TOTAL = 200


def ready(name: str, points: Point) -> MeanSetup:
    """Return a class of which only the total of all classes is public."""
    manifold, facts, _ = setting(name)
    records = admit(points, domain=facts, manifold=manifold, labels=Labels(TOTAL))
    return prepare(records, AdaptivePlan(), rng=None)


def of_count(script: Script, count: float) -> Script:
    """Return a script of shares and means as one of sums, with the count that it says."""

    def scaled(step: int, length: int) -> FloatArray:
        out = count * script(step, length)
        if STEP_NAMES[step].startswith("mean"):
            out[-1] = count * COUNT_UNIT
        return out

    return scaled


def squared_moves(name: str, base: Point, mu: float, *scripts: Script) -> tuple[Any, Any]:
    """Return what records move in a class, over Δ², squared: added, (steps, many), and replaced.

    The largest over scripts.
    """
    _, _, candidates = setting(name)
    more = [ready(name, np.concatenate([base, point[None]])) for point in candidates]
    alone, scales = steps_of([ready(name, base)], GDP(mu), *scripts)
    with_one, theirs = steps_of(more, GDP(mu), *scripts)
    assert theirs == scales
    added, replaced, delta = list[FloatArray](), list[float](), scales[0][2]
    for before, after in zip(alone, with_one, strict=True):
        added.append(np.linalg.norm(after - before, axis=-1) ** 2 / delta**2)
        replaced.append(float(pdist(after).max()) ** 2 / delta**2)
    steps = len(added) // len(scripts), len(scripts)
    most = np.reshape(added, (*steps, len(candidates))).max(axis=1)
    return most, np.reshape(replaced, steps).max(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDED)
def test_no_record_moves_all_classes_by_more_than_the_sensitivity(name: str) -> None:
    """‖moves in both classes‖ ≤ Δ in every step: to another value, class, or both; 0 to 50."""
    _, _, candidates = setting(name)
    reached = np.zeros((2, len(STEP_NAMES)))
    seen = 0
    for n, budgets in [(0, (5.0,)), (3, (0.5, 50.0)), (50, (5.0,))]:
        base = candidates[np.arange(n) * 5 % len(candidates)]
        for mu in budgets:
            scripts = [of_count(script, max(n, 1)) for script in SCRIPTS.values()]
            added, replaced = squared_moves(name, base, mu, *scripts)
            both = added[:, :, None] + added[:, None, :]  # from any class to any, alike or not
            seen += both[0].size * len(scripts) ** 2
            assert (both <= 1.0).all()
            assert (replaced <= 1.0).all()
            reached = np.maximum(reached, [both.max(axis=(1, 2)), replaced])
    assert seen > 10_000
    assert (reached[1] >= 0.9).all()
    means = [step.startswith("mean") for step in STEP_NAMES]
    assert (reached[0, ~np.array(means)] >= 0.9).all()
    plain = 0.75 if ready(name, candidates[:1]).records.space.flat else 1.0  # ¼ + ⅛ in two
    np.testing.assert_allclose(reached[0, means], [plain, plain, 1.0], atol=0.1)


@pytest.mark.parametrize("name", BOUNDED)
def test_forced_clips_leave_room_for_another_class(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is clipped to, what one record adds is at most √½ of Δ, and nearly so somewhere."""
    _, _, candidates = setting(name)
    most = []
    for radius in (1e-3, 0.02, 1.0, 50.0):
        forced(monkeypatch, radius)
        added, _ = squared_moves(name, candidates[:1], 1.0, of_count(random_script(1, 0.3), 2.0))
        most.append(added.max())
    assert 0.499 < max(most) <= 0.5


def test_the_coordinate_of_the_count_fills_what_is_left() -> None:
    """a² + 3/8 ≤ ½, exactly, and by less than a lattice step."""
    left = Fraction(1, 2) - Fraction(NORM) - Fraction(COUNT_UNIT) ** 2
    assert 0 <= left < Fraction(2, sums.PER_UNIT)


@pytest.mark.parametrize("name", SPD)
def test_nothing_that_is_public_depends_on_the_size_of_a_class(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise, Δ, the lengths of vectors and the blocks of draws are those of any class."""
    manifold, _, candidates = setting(name)
    blocks_of(monkeypatch, 3 * 7 * manifold.dim)  # room for three draws of 7
    asked = []
    for n in (0, 1, 2, 7):
        probe = Probe(tuple(of_count(SCRIPTS["near"], 9.0) for _ in range(5)))
        drawn = draw(ready(name, candidates[:n]), GDP(1.0), noise=probe, size=5)[0]
        asked.append((probe.scales, drawn.steps, drawn.predicted_error.tolist()))  # type: ignore[union-attr]
    assert all(one == asked[0] for one in asked)


def test_a_sample_of_records_has_their_labels() -> None:
    """What is drawn of a class with secret labels does not become one with public ones."""
    manifold, facts, candidates = setting(SPD[0])
    records = admit(candidates[:3], domain=facts, manifold=manifold, labels=Labels(9))
    some = records.sample(np.array([0, 0, 2]))
    assert (some.labels, some.n) == (Labels(9), 3)
    np.testing.assert_array_equal(some.placed[2], records.placed[2])


def test_means_of_unlike_sizes_are_drawn_together() -> None:
    """What is drawn of several classes at once is what each gives alone; labels are all alike."""
    _, _, candidates = setting(SPD[0])
    classes = [ready(SPD[0], candidates[:n]) for n in (2, 0, 5)]
    scripts = [of_count(SCRIPTS["near"], 5.0)] * 3
    together = Probe(tuple(scripts))
    draw_each(classes, GDP(1.0), noise=together)
    alone = [steps_of([one], GDP(1.0), scripts[0])[0] for one in classes]
    for place, vectors in enumerate(zip(*[iter(together.vectors)] * 3, strict=True)):
        for vector, own in zip(vectors, alone, strict=True):
            np.testing.assert_array_equal(vector, own[place][0])
    manifold, facts, _ = setting(SPD[0])
    other = prepare(
        admit(candidates[:2], domain=facts, manifold=manifold), AdaptivePlan(), rng=None
    )
    with pytest.raises(ConfigError, match="drawn together"):
        draw_each([*classes, other], GDP(1.0), noise=FloatNoise(np.random.default_rng(0)))


def test_sums_of_all_classes_cost_the_budget_once() -> None:
    """Δ is 1 and its margin, whatever n; the steps compose to the budget."""
    for n, total in itertools.product((0, 1, 5000), (1, 10**4)):
        steps = step_costs(GDP(0.7), n, SHARES_OF_MANY, dim=15, labels=Labels(total))
        assert {step.sensitivity for step in steps} == {steps[0].sensitivity}
        assert 1.0 < steps[0].sensitivity < 1.0 + 1e-9
        assert compose(step.budget for step in steps).mu == pytest.approx(0.7, rel=1e-9)  # type: ignore[union-attr]


def test_counts_are_those_of_all_means_whichever_ball_the_last_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where some repetitions have a ball around all records, and where all or none have one."""
    points, where = tiles(0, SPD[0], 60)
    for wide in ([False] * 4, [True] * 4, [True, False, False, True]):
        forced(monkeypatch, np.where(wide, 1e3, 1.0))
        drawn = means(points, where, Labels(200), 1.0, 4)
        assert drawn.class_size is not None
        shares = sum(step.sigma**-2 for step in drawn.steps if step.name.startswith("mean"))
        noise = 1.0 / (math.sqrt(shares) * COUNT_UNIT)
        np.testing.assert_allclose(np.sqrt(drawn.class_size.variance), noise)
        assert [seen.n for seen in drawn.moments] == drawn.class_size.divisor.tolist()
        lengths = [float(np.linalg.norm(seen.axes[-1])) for seen in drawn.moments]
        assert [length > 20.0 for length in lengths] == wide


@pytest.mark.slow
@pytest.mark.parametrize("name", SPD)
def test_counts_and_regions_hold_and_means_err_as_with_public_labels(name: str) -> None:
    """Counts within 3 of their deviations, regions of 95 % that hold, medians of errors alike."""
    for label, n in ((0, 60), (1, 300), (2, 120)):
        points, where = tiles(label, name, n)
        true = admit(points, **where).frechet.point
        errors = []
        for labels in (Labels(), Labels(1000)):
            drawn = means(points, where, labels, 1.0, 150)
            errors.append(np.median(drawn.space.dist(true, drawn.outputs)))
        assert drawn.class_size is not None
        off = np.abs(drawn.class_size.shown - n) / drawn.class_size.sd
        assert np.mean(off > 3.0) <= 0.02  # 0.003 each: more than 3 of 150 are seen once in 600
        assert (drawn.class_size.sd < 3.5).all()
        assert errors[1] <= (1.1 if n >= 300 else 1.3) * errors[0]
        if n >= 300:
            regions = [region(one) for one in drawn.each]
            held = [
                one.contains(drawn.manifold.exp(drawn.manifold.origin, true))
                if drawn.space is not drawn.manifold
                else one.contains(true)
                for one in regions
            ]
            assert all(one.offered for one in regions)
            assert np.mean(held) >= 0.9


def test_a_class_without_images_is_told_by_noise_alone() -> None:
    """Its count lies near 0, it has no region, in memory and in chunks, in floats and hardened."""
    _, where = tiles(0, SPD[0], 1)

    class Nobody:
        n = 0

        def __iter__(self) -> Any:
            return iter(())

    for points in (np.empty((0, 5, 5)), Nobody()):
        for noise in (np.random.default_rng(0), LATTICE):
            told = {"labels": "secret", "total": 50}
            drawn, private = private_mean(points, GDP(1.0), **where, rng=noise, **told)  # type: ignore[arg-type]
            assert drawn.class_size is not None
            assert drawn.class_size.shown[0] <= 5 * drawn.class_size.sd[0]
            assert not region(drawn).offered
            assert private.n == 0
    means(np.empty((0, 5, 5)), where, Labels(50), 1.0, 3)


def test_what_cannot_be_secret_is_refused() -> None:
    """A plan of one draw needs n; a total belongs to secret labels, and no class exceeds it."""
    points, where = tiles(0, SPD[0], 4)
    rng = np.random.default_rng(0)
    for plan in ("single", SinglePlan("ewl")):
        with pytest.raises(PrivacyError, match='mechanism = "auto"'):
            private_mean(points, GDP(1.0), **where, plan=plan, rng=rng, labels="secret", total=9)
    with pytest.raises(PrivacyError, match="size of the class, which is secret"):
        private_mean(points, PureDP(1.0), **where, rng=rng, labels="secret", total=9)
    for labels, total in (("secret", None), ("secret", 0), ("public", 9), ("hidden", 9)):
        with pytest.raises(ConfigError, match=f"{labels}' with total {total}"):
            private_mean(points, GDP(1.0), **where, rng=rng, labels=labels, total=total)  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="more records than the total"):
        private_mean(points, GDP(1.0), **where, rng=rng, labels="secret", total=3)
    with pytest.raises(DomainError, match="one record or more"):
        private_mean(points[:0], GDP(1.0), **where, rng=rng)
    assert "4" not in repr(admit(points, **where, labels=Labels(9)))
    assert math.isnan(
        private_mean(points[:0], GDP(1.0), **where, rng=rng, labels="secret", total=3)[1].error
    )


def test_no_draw_fails_by_its_noise_at_the_least_budget_of_a_release() -> None:
    """The widest noise that a config may ask for, and one record of one: 300 draws, seeded.

    A release refuses less, as from N·μ of 1e-7 on one draw in six has no solution in doubles.
    """
    points = MANIFOLDS["spd-log-euclidean"](k=5).exp(np.eye(5), np.zeros((1, 15)))
    known = domain("oct5", height=28, width=28)
    records = admit(
        points, domain=known, manifold=MANIFOLDS["spd-log-euclidean"](k=5), labels=Labels(1)
    )
    prepared = prepare(records, AdaptivePlan(), rng=None)
    noise = FloatNoise(np.random.default_rng(0))
    drawn, _ = draw(prepared, GDP(1.0 / WIDEST_NOISE), noise=noise, size=300)
    assert np.isfinite(drawn.outputs).all()
