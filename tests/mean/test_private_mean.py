"""The private mean: sensitivities never exceeded, budgets that add up, laws that hold, doors."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sample_manifolds import SPD
from scipy import stats

from covdp.arrays import facts_html
from covdp.datasets import open_dataset
from covdp.descriptors import describe, domain
from covdp.errors import (
    ConfigError,
    CovdpError,
    DomainError,
    PrivacyError,
    UndefinedError,
)
from covdp.geometry import MANIFOLDS, FlatChart, frechet_mean, sym_exp, unvecd
from covdp.mean import (
    AdaptivePlan,
    Ball,
    Records,
    SinglePlan,
    admit,
    default_prior,
    draw,
    feasible_set,
    mean,
    prepare,
    private_mean,
    select_footpoints,
    split_budget,
)
from covdp.mean.sensitivity import frechet_sensitivity
from covdp.mean.sums import parts_of
from covdp.mechanisms import LATTICE, MECHANISMS, FloatNoise
from covdp.mechanisms.base import small
from covdp.privacy import GDP, PureDP, compose
from tests.tools.addons import addon

StreamMechanism = addon("nights.stream:StreamMechanism")
StreamPlan = addon("nights.stream:StreamPlan")

CHART = FlatChart(MANIFOLDS["spd-log-euclidean"](k=2))


def images(n: int, seed: int) -> np.ndarray:
    """Return gray images from constant to noise."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, 256, (n, 1, 1))
    spread = rng.integers(1, 128, (n, 1, 1))
    return np.clip(levels + spread * rng.standard_normal((n, 28, 28)), 0, 255).astype(np.uint8)


@pytest.mark.addons
@pytest.mark.parametrize("name", SPD)
@pytest.mark.parametrize("embedded", [False, True])
def test_replacing_one_image_moves_the_mean_by_at_most_the_sensitivity(
    name: str, embedded: bool
) -> None:
    """Over replaced records, flat images by textured ones and back, the move is below Δ."""
    manifold = MANIFOLDS[name](k=5)
    limit = domain("oct5", height=28, width=28, manifold=name)
    extremes = np.zeros((3, 28, 28), np.uint8)
    extremes[1, ::2], extremes[2, :, :14] = 255, 255
    records = describe(np.concatenate([images(9, 0), extremes]))
    n = 6
    family = MECHANISMS["extrinsic-gaussian" if embedded else "ewg"]
    bound = frechet_sensitivity(limit, n, SinglePlan(), family, manifold)
    before = frechet_mean(records[:n], manifold).point
    moves = []
    for other in records[n:]:
        after = frechet_mean(np.concatenate([records[: n - 1], other[None]]), manifold).point
        moves.append(np.linalg.norm(after - before) if embedded else manifold.dist(before, after))
    assert max(moves) <= bound
    sharp = ("spd-log-euclidean", "spd-affine-invariant")
    near = 0.2 if name in sharp else 0.05  # near enough to test anything
    assert embedded or max(moves) > near * bound


def test_published_sensitivity_is_two_radii_over_n() -> None:
    """The rule "radius" is 2r/n of the papers and "diameter" is D/n, both rounded up."""
    limit = domain("oct5", height=28, width=28)
    for rule, width in (("radius", 2 * limit.radius), ("diameter", limit.diameter)):
        plan, space = SinglePlan(sensitivity=rule), MANIFOLDS["spd-log-euclidean"](k=5)
        found = frechet_sensitivity(limit, 100, plan, MECHANISMS["ewg"], space)
        assert width / 100 <= found <= (width / 100) * (1 + 1e-6)


@pytest.mark.parametrize("name", ["sampler", "statistic", "sensitivity", "footpoint"])
def test_a_plan_of_unknown_words_is_refused(name: str) -> None:
    """No word falls through to the formula of another: "Inductive" is not the Fréchet mean's Δ."""
    with pytest.raises(ConfigError, match=f"unknown {name} 'Inductive'; .*known are "):
        SinglePlan(**{name: "Inductive"})


def near_the_origin(n: int) -> Records:
    """Return n points of the plane of 2×2 matrices, in a ball of diameter 3."""
    points = 0.3 * np.random.default_rng(1).standard_normal((n, 3))
    return admit(points, domain=Ball(1.5, CHART.name), manifold=CHART)


@pytest.mark.parametrize("footpoint", ["origin", "all", "subsample"])
def test_scale_follows_from_the_share_of_the_mean(footpoint: str) -> None:
    """σ = Δ/(√0.9·μ) with a private footpoint and Δ/μ without one, never less."""
    plan, rng = SinglePlan(footpoint=footpoint), np.random.default_rng(2)
    prepared = prepare(near_the_origin(40), plan, size=4, rng=rng)
    drawn = draw(prepared, GDP(0.5), noise=FloatNoise(rng), size=4)[0]
    share = 1.0 if footpoint == "origin" else 0.9
    exact = 3.0 / 40 / (math.sqrt(share) * 0.5)
    assert exact <= drawn.sigma <= exact * (1 + 1e-6)


@pytest.mark.parametrize("mechanism", ["rl", "kng"])
@pytest.mark.parametrize("footpoint", ["all", "subsample"])
def test_who_reads_no_footpoint_pays_for_none(mechanism: str, footpoint: str) -> None:
    """The whole budget is spent on the mean, in one step, and nothing else is drawn before it."""
    records = near_the_origin(40)
    plans = [SinglePlan(mechanism, footpoint=where) for where in (footpoint, "origin")]
    drawn = []
    for plan in plans:
        rng = np.random.default_rng(2)
        prepared = prepare(records, plan, size=4, rng=rng)
        drawn.append(draw(prepared, GDP(0.5), noise=FloatNoise(rng), size=4)[0])
        assert split_budget(GDP(0.5), plan) == (None, GDP(0.5))
        assert [(step.name, step.budget) for step in drawn[-1].steps] == [("mean", GDP(0.5))]
    np.testing.assert_array_equal(*(release.points for release in drawn))
    assert drawn[0].sigma == drawn[1].sigma


@pytest.mark.parametrize("mechanism", ["ewl", "ewg", "tangent-gaussian"])
def test_footpoints_drawn_before_are_those_of_the_draw(mechanism: str) -> None:
    """Two calls on one stream give what one gives: means, steps and scales, bit for bit."""
    plan, records = SinglePlan(mechanism, footpoint="subsample"), near_the_origin(60)
    once, twice = np.random.default_rng(5), np.random.default_rng(5)
    together = prepare(records, plan, size=6, rng=once)
    whole = draw(together, GDP(1.0), noise=FloatNoise(once), size=6)[0]
    prepared = prepare(records, plan, size=6, rng=twice)
    noise = FloatNoise(twice)
    selected = select_footpoints(prepared, GDP(1.0), noise=noise, size=6)
    assert selected is not None
    apart = draw(
        prepared._replace(footpoints=None), GDP(1.0), noise=noise, size=6, footpoint=selected
    )
    np.testing.assert_array_equal(whole.points, apart[0].points)
    assert whole.steps == apart[0].steps
    assert compose(step.budget for step in whole.steps) == GDP(1.0)
    known = prepared._replace(footpoints=None)
    for other in (GDP(5.0), GDP(0.5)):
        with pytest.raises(PrivacyError, match="drawn for their share of the budget"):
            draw(known, other, noise=noise, size=6, footpoint=selected)
    with pytest.raises(PrivacyError, match="drawn for their share"):
        draw(known, GDP(1.0), noise=noise, size=6, footpoint=selected._replace(step=None))


def test_subsample_footpoint_pays_for_its_few_records() -> None:
    """A footpoint from 5 % of the records is 20 times as noisy as one from all (1e-6 apart)."""
    spread = {}
    for footpoint in ("all", "subsample"):
        plan, rng = SinglePlan(footpoint=footpoint), np.random.default_rng(3)
        prepared = prepare(near_the_origin(400), plan, rng=rng)
        spread[footpoint] = draw(prepared, GDP(1.0), noise=FloatNoise(rng))[0].steps[0]
    assert spread["all"].name == "footpoint"
    ratio = spread["subsample"].sigma / spread["all"].sigma
    assert ratio == pytest.approx(20, rel=1e-6)


def test_private_mean_has_the_chi_law() -> None:
    """(dist/σ)² of single releases follows χ²_15 (Kolmogorov-Smirnov, false alarm 1e-7)."""
    manifold, limit = MANIFOLDS["spd-log-euclidean"](k=5), domain("oct5", height=28, width=28)
    points, rng = describe(images(400, 4)), np.random.default_rng(5)
    squares = []
    for _ in range(200):
        drawn, nonprivate = private_mean(
            points, GDP(2.0), domain=limit, manifold=manifold, plan="single", rng=rng
        )
        assert nonprivate.error == pytest.approx(manifold.dist(nonprivate.mean, drawn.point))
        squares.append((nonprivate.error / drawn.sigma) ** 2)
    assert stats.kstest(squares, stats.chi2(15).cdf).pvalue > 1e-7


def test_no_records_and_no_density_are_typed_errors() -> None:
    """An empty class is a `DomainError`; a scale without a density is an `UndefinedError`."""
    manifold = MANIFOLDS["spd-affine-invariant"](k=3)
    ball, rng = Ball(1.5, manifold.name), np.random.default_rng(6)
    with pytest.raises(DomainError):
        private_mean(np.empty((0, 3, 3)), GDP(1), domain=ball, manifold=manifold, rng=rng)
    points = sym_exp(unvecd(rng.standard_normal((5, 6))))
    plan = SinglePlan("rl")
    with pytest.raises(UndefinedError):
        private_mean(points, PureDP(0.1), domain=ball, manifold=manifold, plan=plan, rng=rng)


@pytest.mark.parametrize("own", SPD)
@pytest.mark.parametrize("other", SPD)
def test_a_domain_of_another_manifold_is_refused(own: str, other: str) -> None:
    """Bounds in one distance say nothing of another: each pair of metrics but the right ones.

    That holds for a mean, and for whatever else takes a domain and a manifold.
    """
    facts, space = domain("oct5", height=28, width=28, manifold=other), MANIFOLDS[own](k=5)
    points, family = describe(images(5, 1)), MECHANISMS["ewg"]
    args = {"domain": facts, "manifold": space, "plan": "single", "noise": LATTICE}
    doors: list[Callable[[], object]] = [
        lambda: mean(points, GDP(1.0), **args),
        lambda: admit(points, domain=facts, manifold=space),
        lambda: Records(space, facts, parts_of(points)),
        lambda: feasible_set(facts, space),
        lambda: default_prior(facts, space),
        lambda: frechet_sensitivity(facts, 5, SinglePlan(), family, space),
        lambda: StreamMechanism(StreamPlan(GDP(1.0), 10), facts, space),
    ]
    for door in doors if own != other else []:
        with pytest.raises(DomainError, match=f"manifold='{own}'"):
            door()
    if own == other:
        assert mean(points, GDP(1.0), **args).point.shape == (5, 5)


def test_a_domain_of_another_size_is_refused() -> None:
    """The bound on 9×9 descriptors is none on 5×5 ones, whose region it would not even describe."""
    facts = domain("grid9", height=28, width=28)
    with pytest.raises(DomainError, match="k = 9"):
        admit(describe(images(5, 1)), domain=facts, manifold=MANIFOLDS[SPD[0]](k=5))


@pytest.mark.parametrize("name", MANIFOLDS)
def test_records_outside_the_domain_are_moved_to_its_nearest_point(name: str) -> None:
    """A record beyond the ball ends on its edge; one inside stays where it is, to the last bit."""
    manifold = small(MANIFOLDS[name])
    ball = Ball(0.3, name)
    steps = np.zeros((2, manifold.dim))
    steps[0, 0], steps[1, 1] = 0.29, 0.9
    points = manifold.exp(manifold.origin, steps)
    records = admit(points, domain=ball, manifold=manifold)
    reach = records.space.dist(records.space.origin, records.placed)
    assert reach == pytest.approx([0.29, 0.3], abs=1e-9)
    if not manifold.flat:
        assert np.array_equal(records.placed[0], points[0])


@pytest.mark.parametrize(
    "points",
    [np.full((3, 5, 5), np.nan), np.ones((3, 4, 4)), np.ones((5, 5)), np.empty((0, 5, 5))],
)
def test_records_of_the_wrong_shape_or_without_numbers_are_refused(
    points: NDArray[np.float64],
) -> None:
    """NaN, another k, no batch axis, no record: one line each."""
    facts = domain("oct5", height=28, width=28)
    with pytest.raises(DomainError):
        admit(points, domain=facts, manifold=MANIFOLDS[SPD[0]](k=5))


@pytest.mark.addons
def test_a_mechanism_without_hardened_noise_is_refused_by_the_lattice() -> None:
    """Asked for Laplace noise from a source of Gaussian noise: refused, not replaced."""
    facts, manifold = domain("oct5", height=28, width=28), MANIFOLDS[SPD[0]](k=5)
    args = {"domain": facts, "manifold": manifold, "noise": LATTICE}
    for plan in (SinglePlan("ewl"), SinglePlan("extrinsic-gaussian"), SinglePlan("rl")):
        with pytest.raises(PrivacyError, match="no hardened noise"):
            mean(describe(images(5, 1)), GDP(1.0), plan=plan, **args)
    with pytest.raises((ConfigError, PrivacyError)):
        mean(describe(images(5, 1)), GDP(1.0), plan=SinglePlan(footpoint="all"), **args)


@pytest.mark.addons
def test_a_mean_whose_rounding_is_not_bounded_is_refused() -> None:
    """Hyperbolic records farther out than rounding was measured: refused before noise is drawn.

    An adaptive mean clips each record by itself, so its sensitivity needs no such bound.
    """
    manifold, plan = MANIFOLDS["hyperbolic"](dim=3), SinglePlan(statistic="barycentre")
    for radius in (9.0, 11.0):
        args = {"domain": Ball(radius, manifold.name), "manifold": manifold, "noise": LATTICE}
        plans = [AdaptivePlan(), plan] if radius < 10.0 else [AdaptivePlan()]
        for own in plans:
            assert mean(manifold.origin[None], GDP(1.0), plan=own, **args).point.shape == (4,)
    with pytest.raises(PrivacyError, match="rounding"):
        mean(manifold.origin[None], GDP(1.0), plan=plan, **args)


def test_what_is_not_private_is_not_shown() -> None:
    """The repr of what was computed without noise holds no digit of a record or a mean."""
    points, rng = describe(images(5, 1)), np.random.default_rng(1)
    facts, manifold = domain("oct5", height=28, width=28), MANIFOLDS[SPD[0]](k=5)
    records = admit(points, domain=facts, manifold=manifold)
    prepared = prepare(records, AdaptivePlan(), rng=None)
    around = prepare(records, SinglePlan(footpoint="all"), rng=rng)
    _, nonprivate = private_mean(points, GDP(1.0), domain=facts, manifold=manifold, rng=rng)
    for item in (records, prepared, around, nonprivate):
        assert "array" not in repr(item)
        assert "." not in repr(nonprivate)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"points": None}, "points must be an array of records, .* found None"),
        ({"budget": 0.5}, r"budget must be GDP\(0.5\) or the like; found 0.5"),
        ({"budget": "0.5"}, "budget must be .* found '0.5'"),
        ({"domain": 5.0}, "domain must be a bound, .* found 5.0"),
        ({"manifold": None}, "manifold must be a manifold or its name, .* found None"),
        ({"plan": None}, 'plan must be "auto", "single" or a Plan; found None'),
        ({"rng": 0}, r"rng must be a generator, such as numpy.random.default_rng\(0\).* found 0"),
        ({"rng": np.random.RandomState(0)}, "rng must be .* found RandomState"),
        ({"labels": "secret"}, "total, the public number of records"),
        ({"total": "50"}, "total must be a whole number or left out; found '50'"),
        ({"total": 3}, "more records than the total"),
        ({"points": np.eye(5)}, r"records must have shape \(n, 5, 5\), found \(5, 5\)"),
    ],
)
def test_a_slip_at_the_door_is_one_line(changed: dict[str, Any], words: str) -> None:
    """An argument of another type or shape: the rule, what was found, and what to write."""
    known: dict[str, Any] = {
        "points": describe(images(20, 0)),
        "budget": GDP(1.0),
        "domain": domain("oct5", height=28, width=28),
        "manifold": "spd-log-euclidean",
        "rng": np.random.default_rng(0),
    }
    with pytest.raises(CovdpError, match=words) as caught:
        private_mean(**{**known, **changed})
    assert "\n" not in str(caught.value)


def test_labels_are_secret_where_a_total_is_given() -> None:
    """And public without one: then the size of the class is what sums are divided by."""
    points, bound = describe(images(20, 0)), domain("oct5", height=28, width=28)

    def drawn(**more: Any) -> Any:
        rng = np.random.default_rng(1)
        return private_mean(
            points, GDP(1.0), domain=bound, manifold="spd-log-euclidean", rng=rng, **more
        )[0]

    for implied, stated in (
        ({}, {"labels": "public"}),
        ({"total": 50}, {"labels": "secret", "total": 50}),
    ):
        one, other = drawn(**implied), drawn(**stated)
        np.testing.assert_array_equal(one.outputs, other.outputs)
        assert (one.class_size is None) == (other.class_size is None) == (not implied)


def test_a_release_and_a_source_are_shown_in_a_few_lines() -> None:
    """In a terminal and in a notebook, names escaped; sizes of classes where they are public."""
    points, bound = describe(images(20, 0)), domain("oct5", height=28, width=28)
    rng = np.random.default_rng(1)
    release, truth = private_mean(
        points, GDP(1.0), domain=bound, manifold="spd-log-euclidean", rng=rng, total=50
    )
    source = open_dataset("tiles")
    for shown, words in ((release, "± "), (source, "retina 8,078")):
        assert len(repr(shown).splitlines()) <= 6
        assert words in repr(shown)
        assert shown._repr_html_().startswith("<table><caption>")
    private = replace(source, card=source.card.model_copy(update={"public": False}))
    assert not re.search(r"\d", repr(private).replace("28 × 28", ""))
    assert not re.search(r"\d", private._repr_html_().replace("28 × 28", ""))
    page = facts_html("<a>", {"<b>": "<c>"})
    assert all(f"&lt;{name}&gt;" in page and f"<{name}>" not in page for name in "abc")
    assert repr(truth) == "NonPrivate(…)"
