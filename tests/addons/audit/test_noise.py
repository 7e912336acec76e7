"""Noise is tested against its law: every planted fault is seen, sound noise passes as stated.

Random tests are seeded, but for what draws from the system's entropy, where sound code fails with
probability below 1e-6 (`FALSE_ALARM`).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from covdp.addons.audit import attacks, audit, noise, run_audit, trials
from covdp.addons.audit.bounds import NOISE, SQUARED_MU, STATED_COST, Law, Transcript
from covdp.addons.audit.cases import CONTROLS, PLANNED, Case, all_cases
from covdp.addons.audit.noise import Residuals, noise_p_value, p_values, transcript_residuals
from covdp.addons.nights.stream import factorisation, plan
from covdp.arrays import FloatArray
from covdp.mean import engine, rounds
from covdp.mechanisms import FloatNoise, NoisyVector, additive
from covdp.mechanisms import noise as sources
from covdp.mechanisms.additive import GaussianNoise, LaplaceNoise
from tests.addons.audit.chosen import audit_only
from tests.publish.fixed import draw_by

WIDTHS = (6, 1, 4, 6, 2)
"""Lengths of five steps."""
FLOAT_CASES = {item.mechanism: item for item in PLANNED if "hardened" not in item.mechanism}


def drawn(n: int, seed: int) -> FloatArray:
    """Return sound residuals of steps of `WIDTHS`."""
    return np.random.default_rng(seed).standard_normal((n, sum(WIDTHS)))


def never(many: int) -> Residuals:
    """Fail: no more draws are wanted."""
    raise AssertionError(many)


# --- the tests hold what they state ---------------------------------------------------------------


@pytest.mark.parametrize("n", [4, 61, 400])
def test_sound_noise_is_suspected_as_often_as_is_stated(n: int) -> None:
    """The corrected p-value is below α in at most a share α of 400 draws, at α = 0.02 to 0.3.

    Limits are 5 deviations of the binomial: the test fails by chance with 1e-6.
    """
    runs, least = 400, list[float]()
    for seed in range(runs):
        found = p_values(Residuals(drawn(n, seed), WIDTHS))
        assert all(np.all((each >= 0.0) & (each <= 1.0)) for each in found.values())
        least.append(min(len(found) * len(each) * float(each.min()) for each in found.values()))
    for alpha in (noise.SUSPICION, 0.1, 0.3):
        limit = runs * alpha + 5.0 * math.sqrt(runs * alpha * (1.0 - alpha))
        assert np.count_nonzero(np.array(least) < alpha) <= limit


def test_each_p_value_is_uniform_or_above() -> None:
    """Row by row: the first p-value of each is below 0.01 in about 1 % of 2,000 draws, or less.

    The limit is 6 deviations. Those of χ², normals and correlations are exact, so not rarer either.
    """
    runs, below = 2000, dict[str, int]()
    for seed in range(runs):
        for name, each in p_values(Residuals(drawn(12, seed), WIDTHS)).items():
            below[name] = below.get(name, 0) + int(each[0] < 0.01)
    expected, wide = 0.01 * runs, 6.0 * math.sqrt(0.01 * runs)
    assert max(below.values()) < expected + wide
    exact = {
        name: count
        for name, count in below.items()
        if name not in ("law", "directions", "used twice")
    }
    assert min(exact.values()) > 0
    assert min(below["scale of a coordinate"], below["bias of a coordinate"]) > 4


def change_column(z: FloatArray, column: int, value: FloatArray) -> FloatArray:
    """Return a copy with another column."""
    changed = z.copy()
    changed[:, column] = value
    return changed


Z = drawn(4000, 3)
W = np.array([0.1, 0.7, 0.1, 0.1, -0.7, 0.0])
"""A direction of the first step, of length 1 but for a hundredth."""
SECOND = slice(11, 17)
"""The second step of length 6."""
FAULTS: dict[str, tuple[FloatArray, str]] = {
    "coordinate too small": (change_column(Z, 4, 0.85 * Z[:, 4]), "scale of a coordinate"),
    "a place too small in all steps": (
        Z * np.where(np.isin(np.arange(19), [2, 9, 13]), 0.9, 1.0),
        "scale of coordinates",
    ),
    "step too large": (Z * np.where(np.arange(19) >= 17, 1.1, 1.0), "scale of coordinates"),
    "coordinate biased": (change_column(Z, 4, Z[:, 4] + 0.2), "bias of a coordinate"),
    "all biased": (Z + 0.05, "bias of coordinates"),
    "two coordinates": (change_column(Z, 4, 0.9 * Z[:, 4] + 0.436 * Z[:, 1]), "two coordinates"),
    "a tenth of a step again": (
        np.concatenate(
            [Z[:, :11], math.sqrt(0.97) * Z[:, SECOND] + math.sqrt(0.03) * Z[:, :6], Z[:, 17:]],
            axis=1,
        ),
        "two steps",
    ),
    "a step again, turned": (
        np.concatenate([Z[:, :11], Z[:, [3, 4, 5, 0, 1, 2]], Z[:, 17:]], axis=1),
        "norms of two steps",
    ),
    "a step again, of any sign": (
        np.concatenate([Z[:, :11], np.sign(drawn(4000, 4)[:, :1]) * Z[:, :6], Z[:, 17:]], axis=1),
        "norms of two steps",
    ),
    "one factor for a whole step": (
        Z * np.where(np.arange(19) < 6, np.exp(0.2 * drawn(4000, 5)[:, :1]) / 1.02, 1.0),
        "scale of norms",
    ),
    "a common part": (Z + 0.3 * drawn(4000, 6)[:, :1], "scale of sums"),
    "uniform": (math.sqrt(12.0) * (np.random.default_rng(7).random((4000, 19)) - 0.5), "law"),
    "rounded": (np.round(Z / 0.4) * 0.4, "law"),
    "no noise in one direction": (
        np.concatenate([Z[:, :6] @ (np.eye(6) - np.outer(W, W)), Z[:, 6:]], axis=1),
        "directions",
    ),
    "a draw again": (np.concatenate([Z[:-1], Z[:1]]), "used twice"),
    "a draw again, negated": (np.concatenate([Z[:-1], -Z[:1]]), "used twice"),
    "draws that follow each other": (
        math.sqrt(0.9) * Z + math.sqrt(0.1) * np.roll(Z, 1, axis=0),
        "two draws",
    ),
    "draws that follow the fifth before": (
        math.sqrt(0.9) * Z + math.sqrt(0.1) * np.roll(Z, 5, axis=0),
        "two draws",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_seen_by_its_row(fault: str) -> None:
    """A p-value of that row, and the whole, are below 1e-8; without the fault they are not."""
    values, name = FAULTS[fault]
    found = p_values(Residuals(values, WIDTHS))[name]
    assert len(found) * float(found.min()) < 1e-8
    assert noise_p_value(Residuals(values, WIDTHS), never, alpha=1e-7) < 1e-7
    sound = p_values(Residuals(Z, WIDTHS))[name]
    assert len(sound) * float(sound.min()) > 1e-3


def test_what_is_suspected_is_drawn_again_and_tested_once() -> None:
    """A weak fault at one coordinate: the second time it is certain; a suspicion alone is none."""
    weak = Residuals(change_column(drawn(2000, 11), 4, 0.92 * drawn(2000, 11)[:, 4]), WIDTHS)
    asked = list[int]()

    def more(values: Callable[[int], FloatArray]) -> Callable[[int], Residuals]:
        def fresh(many: int) -> Residuals:
            asked.append(many)
            return Residuals(values(many), WIDTHS)

        return fresh

    first = p_values(weak)["scale of a coordinate"].min() * sum(WIDTHS) * len(p_values(weak))
    assert 1e-6 < first < noise.SUSPICION
    again = noise_p_value(
        weak,
        more(lambda many: change_column(drawn(many, 12), 4, 0.92 * drawn(many, 12)[:, 4])),
        alpha=1e-6,
    )
    assert again < 0.1 * first
    alone = noise_p_value(weak, more(lambda many: drawn(many, 12)), alpha=1e-6)
    assert alone == pytest.approx(2.0 * first)
    assert asked == [noise.FRESH * 2000] * 2


def test_residuals_of_transcripts_are_noise_over_sigma() -> None:
    """(released − own)/σ, step by step; what a shorter vector lacks is drawn."""
    z, sigmas = [np.arange(1.0, 4.0), np.array([5.0]), np.array([7.0, 8.0])], [2.0, 0.5, 3.0]
    own = [np.full(len(part), 10.0) for part in z]
    released = [a + s * part for a, s, part in zip(own, sigmas, z, strict=True)]
    whole = Transcript(released, own, sigmas)
    short = Transcript([released[0][:1], *released[1:]], [own[0][:1], *own[1:]], sigmas)
    law = Law.of([whole, short, whole], [whole, short, whole])
    found = transcript_residuals([law, law], np.random.default_rng(1))
    assert found.widths == (3, 1, 2)
    assert found.values.shape == (6, 6)
    assert found.values[[0, 2, 3, 5]] == pytest.approx(np.tile([1.0, 2, 3, 5, 7, 8], (4, 1)))
    assert found.values[[1, 4]][:, [0, 3, 4, 5]] == pytest.approx(np.tile([1.0, 5, 7, 8], (2, 1)))
    assert len(set(found.values[[1, 4]][:, 1:3].ravel().tolist())) == 4
    narrow = transcript_residuals([law], np.random.default_rng(1), (2, 1, 2))
    assert narrow.values[0] == pytest.approx([1.0, 2, 5, 7, 8])


# --- faults planted in the code that draws noise, or scales it ------------------------------------


@pytest.fixture(autouse=True)
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try no further data sets, which cost more: what is asked here does not depend on them."""
    monkeypatch.setattr(attacks, "SEARCH", 0)


def shown(case: Case, quantity: str, trials: int) -> Any:
    """Return what an audit of one case finds of a quantity."""
    (found,) = audit([case], trials=trials, seed=5)
    return next(one for one in found if one.claim.quantity == quantity)


def planted(change: Callable[[FloatArray], FloatArray]) -> Callable[..., NoisyVector]:
    """Return a source of NumPy's noise in its place, changed."""

    def call(self: FloatNoise, vector: FloatArray, sigma: float, delta: float) -> NoisyVector:
        drawn = change(self.rng.standard_normal(vector.shape))
        return NoisyVector(vector + sigma * drawn, math.nan)

    return call


@pytest.mark.parametrize(
    ("name", "place"),
    [("labels", 0), ("persons", 9), ("stream, last night", -1), ("stream, labels", 0)],
)
def test_a_coordinate_of_a_source_is_seen_in_every_plan(
    name: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One coordinate × 0.8 of whatever is noised, at a quarter of the default number of draws."""

    def change(z: FloatArray) -> FloatArray:
        if len(z) > abs(place):
            z[place] *= 0.8
        return z

    monkeypatch.setattr(FloatNoise, "__call__", planted(change))
    assert shown(FLOAT_CASES[name], NOISE, 25_000).verdict == "VIOLATED"


def test_half_the_noise_of_releases_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the lattice, in every case that draws from it; σ that was asked for is not enough."""
    sound = sources.hardened_gaussian
    hardened = [item for item in all_cases() if item.hardened or "hardened" in item.mechanism]
    assert {item.mechanism for item in hardened} == {
        "ewg",
        "tangent-gaussian",
        "hardened mean",
        "hardened stream",
    }

    def half(vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        return sound(vector, sigma / 2.0, sensitivity)

    draw_by(monkeypatch, half)
    for group in audit(hardened, trials=6_000):
        assert group[-1].claim.quantity == NOISE
        assert group[-1].verdict == "VIOLATED"


@pytest.mark.parametrize("name", FLOAT_CASES)
def test_a_step_that_asks_for_less_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """σ × 0.999 of one step of a mean, or of all nights: what is stated exceeds the claim.

    What asks for all of σ passes (``test_audit.py``), here as in the tests below.
    """
    sound, steps = FLOAT_CASES[name], rounds.gaussian_steps

    def fewer(*arguments: Any) -> Any:
        first, *rest, last = steps(*arguments)
        return (
            first,
            *rest,
            type(last)(last.name, last.budget, last.sensitivity, 0.999 * last.sigma),
        )

    module = plan if name.startswith("stream") else rounds
    monkeypatch.setattr(module, "gaussian_steps", fewer)
    found = shown(sound, STATED_COST, 1000)
    assert found.verdict == "VIOLATED"
    assert found.tightness < 1.0 / 0.999**2 + 1e-9


def test_a_norm_that_is_too_small_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """‖c‖ × 0.999, by which nights are scaled, is not taken from where it is wrong."""
    monkeypatch.setattr(plan, "column_norm", lambda h: 0.999 * factorisation.column_norm(h))
    case = FLOAT_CASES["stream, last night"]
    assert shown(case, STATED_COST, 1000).verdict == "VIOLATED"


def test_a_mechanism_that_is_scaled_to_less_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """σ × 0.99 from the function that scales Gaussian noise: its price exceeds the budget."""
    scale = additive.gaussian_sigma
    monkeypatch.setattr(additive, "gaussian_sigma", lambda *a, **b: 0.99 * scale(*a, **b))
    for group in audit([*all_cases("ewg"), *all_cases("extrinsic-gaussian")], trials=1000):
        (stated,) = (finding for finding in group if finding.claim.quantity == STATED_COST)
        assert stated.verdict == "VIOLATED"


@pytest.mark.parametrize("name", ["adaptive", "labels", "persons"])
def test_a_mean_that_leaves_without_noise_is_seen(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All noise is drawn as it should be, and something else than what follows from it leaves."""
    draw = engine.draw_rounds

    def leak(classes: Any, *arguments: Any, **named: Any) -> Any:
        true = classes[0].frechet.point
        drawn = draw(classes, *arguments, **named)
        return drawn._replace(outputs=np.repeat(true[np.newaxis], len(drawn.outputs), axis=0))

    monkeypatch.setattr(engine, "draw_rounds", leak)
    assert shown(FLOAT_CASES[name], SQUARED_MU, 1000).verdict == "VIOLATED"


@pytest.mark.parametrize("law", [GaussianNoise, LaplaceNoise])
def test_a_coordinate_of_a_mechanism_is_seen(law: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One × 0.95 in what every wrapped and embedded mechanism with this noise draws."""
    draw = law.draw

    def uneven(self: Any, sigma: float, size: int, dim: int, rng: Any) -> FloatArray:
        return np.asarray(
            draw(self, sigma, size, dim, rng) * np.where(np.arange(dim) == 1, 0.95, 1)
        )

    names = {
        GaussianNoise: ("ewg", "extrinsic-gaussian"),
        LaplaceNoise: ("ewl", "euclidean-laplace"),
    }
    cases = [item for name in names[law] for item in all_cases(name) if item.sampler == "exact"]
    monkeypatch.setattr(law, "draw", uneven)
    for group in audit(cases, trials=10_000):
        assert group[-1].claim.quantity == NOISE
        assert group[-1].verdict == "VIOLATED"


def test_the_rate_of_false_alarms_is_stated(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all rows together, on screen and in the file; a row of the noise has α for its claim."""
    control = next(item for item in CONTROLS if item.fault == "the same seed twice")
    audit_only(monkeypatch, [FLOAT_CASES["persons"]], [control])
    done = run_audit("persons", trials=5000, out=tmp_path, controls=True)
    assert f"probability {trials.FALSE_ALARM:g} at most" in str(done.table.caption)
    law = [row for row in done.claims if row["quantity"] == NOISE]
    assert [row["verdict"] for row in law] == ["ok", "caught"]
    rows = 2 * (3 + 1 + 2 + 1)
    assert law[0]["claim"] == pytest.approx(-math.log10(trials.FALSE_ALARM / rows))
