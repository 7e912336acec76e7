"""Mechanisms broken on purpose: an audit that does not catch them is worth nothing.

Each entry of `CONTROLS` is a case whose claim is that of the sound mechanism, and whose draws are
not. Neighbours and score are those of the sound mechanism, too, or of an attacker who knows the
fault.
"""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from scipy.special import ndtr

from pipeline.arrays import FloatArray
from pipeline.audit.attacks import (
    NEAR_ENDS,
    RECORDS,
    StreamTranscripts,
    Transcript,
    replays,
    transcripts,
    vector_sum,
)
from pipeline.audit.bounds import Steps
from pipeline.audit.cases import (
    ADAPTIVE_CASES,
    BUDGETS,
    LABEL_CASES,
    OVERLAPPING,
    PERSON_CASES,
    SENSITIVITY,
    STREAM_CASES,
    Case,
)
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.mean import Labels
from pipeline.mean.release import COUNT_UNIT
from pipeline.mechanisms import MECHANISMS, ChainSettings, Diagnostics, Draws, Mechanism
from pipeline.mechanisms.base import Neighbours, Points, small
from pipeline.mechanisms.noise import FloatNoise, Noised
from pipeline.privacy import ApproxDP, Budget, PureDP
from pipeline.stream import column_norm
from pipeline.stream.epochs import begin_epoch


@dataclass(frozen=True)
class SmallerNoise:
    """Noise with `scale` times the σ that was asked for."""

    rng: np.random.Generator
    scale: float

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Add less noise than asked."""
        return FloatNoise(self.rng)(vector, self.scale * sigma, sensitivity)


@dataclass(frozen=True)
class RepeatedNoise:
    """Noise that is drawn once, and used again for every vector of the same length."""

    rng: np.random.Generator
    drawn: dict[int, FloatArray] = field(default_factory=dict)

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Add the noise of the night before."""
        fresh = FloatNoise(self.rng)(np.zeros(len(vector)), sigma, sensitivity).vector
        return Noised(vector + self.drawn.setdefault(len(vector), fresh), math.nan)


@dataclass(frozen=True)
class CountlessNoise:
    """Noise of all coordinates but the last, which counts records in the sum of a mean."""

    rng: np.random.Generator

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Add noise, and leave the count as it is."""
        noised = FloatNoise(self.rng)(vector, sigma, sensitivity).vector
        return Noised(np.append(noised[:-1], vector[-1]), math.nan)


@dataclass(frozen=True)
class LongCount(Labels):
    """Secret labels whose count takes more room than a move between two classes leaves."""

    def counted(self, vector: FloatArray, n: int) -> FloatArray:
        """Return the vector with 0.4·n as its last coordinate, in place of √(1/8)·n."""
        return np.append(vector, 0.4 * n)


def first_count(mechanism: Mechanism) -> Neighbours:
    """Score the size of the first class, as its last sum tells it."""
    pair = transcripts(mechanism)

    def score(transcript: Transcript) -> float:
        vectors = transcript.vectors
        return float(vectors[len(vectors) // 2 - 1][-1]) / COUNT_UNIT - (RECORDS - 0.5)

    return pair._replace(score=lambda drawn: np.array(list(map(score, drawn))))


def broken(case: Case, **faults: Any) -> Mechanism:
    """Return the mechanism of a case with some of its fields replaced."""
    honest: Any = case.calibrate()
    return cast(Mechanism, replace(honest, **faults))


def half_noise(case: Case) -> Mechanism:
    """Return the mechanism with σ/2 in place of σ."""
    return broken(case, sigma=case.calibrate().sigma / 2.0)


def less_noise(case: Case, *, scale: float) -> Mechanism:
    """Return transcripts whose source gives `scale` times the σ that it is asked for."""
    return broken(case, noise=partial(SmallerNoise, scale=scale))


def half_sensitivity(case: Case) -> Mechanism:
    """Return the mechanism calibrated to Δ/2: r/n, or D/2n, taken where 2r/n, or D/n, is right."""
    return replace(case, sensitivity=case.sensitivity / 2.0).calibrate()


def misprinted_sigma(budget: ApproxDP, sensitivity: float) -> float:
    """Return the least σ ≥ Δ/10 that passes the analytic condition as printed, by bisection.

    Φ(Δ/2σ − εσ/Δ) − e^ε·Φ(+Δ/2σ − εσ/Δ) ≤ δ, where the second Φ should have −Δ/2σ. As printed the
    left side is never positive: every σ passes, and a search ends where it began.

    References
    ----------
    "Exponential-wrapped mechanisms for differential privacy on Hadamard manifolds", equation (1);
    Utpala, Vepakomma and Miolane, "Differentially private Fréchet mean on the manifold of symmetric
    positive definite matrices", Theorem 2.
    """
    low, high = sensitivity / 10.0, 10.0 * sensitivity
    for _ in range(50):
        sigma = (low + high) / 2.0
        tail = ndtr(sensitivity / (2.0 * sigma) - budget.epsilon * sigma / sensitivity)
        if tail - np.exp(budget.epsilon) * tail <= budget.delta:
            high = sigma
        else:
            low = sigma
    return high


def misprint(case: Case) -> Mechanism:
    """Return the Gaussian mechanism with the scale of the misprinted condition."""
    return broken(case, sigma=misprinted_sigma(cast(ApproxDP, case.budget), case.sensitivity))


def short_chain(case: Case) -> Mechanism:
    """Return the published chain of the mechanism, stopped after 10 steps."""
    settings = ChainSettings(burn_in=10, keep=4)
    return MECHANISMS[case.mechanism].calibrate(
        case.budget,
        sensitivity=case.sensitivity,
        manifold=case.manifold,
        sampler="chain",
        chain=settings,
    )


@dataclass(frozen=True)
class ProductLaplace:
    """Independent Laplace noise of scale σ = Δ/ε in each coordinate, Δ the L2 sensitivity.

    PrivateSums at this scale only if Δ bounded the L1 norm of the move, which is up to √d times as
    large; the noise is ε√d-DP.
    """

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float
    law: ClassVar[str] = "exp(p0, log(p0, c) + x), independent coordinates ∝ exp(−|x_i|/σ)"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return exp(p0, log(p0, c) + noise)."""
        base = self.manifold.origin if base is None else base
        noise = rng.laplace(0.0, self.sigma, (size, self.manifold.dim))
        points = self.manifold.exp(base, self.manifold.log(base, center) + noise)
        return Draws(points, Diagnostics())

    def expected_error(self) -> float | None:
        """Return None: not needed here."""
        return None


def product_noise(case: Case) -> Mechanism:
    """Return `ProductLaplace` with the scale of the spherical mechanism."""
    honest = case.calibrate()
    return ProductLaplace(honest.budget, honest.sensitivity, honest.manifold, honest.sigma)


def one_night_noise(case: Case) -> Mechanism:
    """Return the stream with noise for a horizon of one night."""
    honest = cast(StreamTranscripts, case.calibrate())
    return less_noise(case, scale=1.0 / column_norm(len(honest.sizes)))


def opened_again(honest: Any) -> Any:
    """Return the stream whose nights overlap, each going on from what it read after the first.

    So each of them opens the units that the first has held back.
    """
    return replace(honest, rests=tuple(min(place, 1) for place in range(len(honest.sizes))))


def opened_again_case(case: Case) -> Mechanism:
    """Return the stream of a case whose nights open units again."""
    return cast(Mechanism, opened_again(case.calibrate()))


def opened_again_attack(mechanism: Mechanism) -> Neighbours:
    """Score transcripts of such a stream by its own nights."""
    return transcripts(opened_again(mechanism))


def unit_again_attack(mechanism: Mechanism) -> Neighbours:
    """Score transcripts by the nights of a unit that comes again on every later one."""
    return transcripts(replace(cast(Any, mechanism), again=True))


def last_difference(mechanism: Mechanism) -> Neighbours:
    """Score the last night less the one before, which has no noise where both have the same."""
    pair = transcripts(mechanism)
    replay = replays(mechanism, pair.left, pair.right)

    def score(steps: Steps) -> float:
        y, a, b = (part[-1] - part[-4] for part in steps[:3])
        return float(np.sum((2.0 * y - a - b) * (a - b)))

    return pair._replace(score=lambda drawn: np.array(list(map(score, replay(drawn)))))


def last_centre(mechanism: Any) -> Neighbours:
    """Score the published centre of the last epoch: how far it is from what released values say."""
    pair = transcripts(mechanism)
    sides = mechanism.ready(pair.left), mechanism.ready(pair.right)

    def score(transcript: Transcript) -> float:
        epochs = [(i, night.epoch) for i, night in enumerate(transcript.history) if night.epoch]
        at, epoch = epochs[-1]
        before = transcript.history[:at]
        moved = epoch.centre - begin_epoch(sides[0].stream, before).centre
        a, b = (vector_sum(side.sums(before)[at], len(moved)) for side in sides)
        return float(np.sum((2.0 * moved - a - b) * (a - b)))

    return pair._replace(score=lambda drawn: np.array(list(map(score, drawn))))


def _case(name: str, space: str, kind: str) -> Case:
    return Case(name, small(MANIFOLDS[space]), BUDGETS[kind], SENSITIVITY)


CONTROLS: tuple[Case, ...] = (
    replace(_case("ewg", "hyperbolic", "gdp"), fault="half the noise", broken=half_noise),
    replace(_case("rl", "spd-affine-invariant", "pure"), fault="half the noise", broken=half_noise),
    replace(
        _case("tangent-gaussian", "spd-log-euclidean", "approx"),
        fault="sign error in the analytic condition",
        broken=misprint,
    ),
    replace(
        _case("ewl", "spd-log-euclidean", "pure"),
        fault="noise per coordinate at the L2 sensitivity",
        broken=product_noise,
    ),
    replace(
        _case("ewg", "spd-affine-invariant", "zcdp"),
        fault="sensitivity too small by 2",
        broken=half_sensitivity,
    ),
    replace(ADAPTIVE_CASES[0], fault="half the noise", broken=partial(less_noise, scale=0.5)),
    *(
        replace(case, fault="nine tenths of the noise", broken=partial(less_noise, scale=0.9))
        for case in (ADAPTIVE_CASES[0], PERSON_CASES[0], STREAM_CASES["stream, opening"])
    ),
    replace(
        LABEL_CASES[0],
        fault="a count too long for another class",
        broken=partial(broken, labels=LongCount),
    ),
    replace(
        LABEL_CASES[0],
        fault="sizes of classes without noise",
        broken=partial(broken, noise=CountlessNoise),
        attack=first_count,
    ),
    replace(
        PERSON_CASES[0],
        fault="noise for one image of a person",
        broken=partial(broken, whole=False),
        attack=partial(transcripts, ends=NEAR_ENDS),
    ),
    replace(
        STREAM_CASES["stream, first night"],
        fault="column norm of one night",
        broken=one_night_noise,
    ),
    replace(
        STREAM_CASES["stream, last night"],
        fault="noise used twice",
        broken=partial(broken, noise=RepeatedNoise),
        attack=last_difference,
    ),
    replace(
        STREAM_CASES[OVERLAPPING],
        fault="units held back are opened again",
        broken=opened_again_case,
        attack=opened_again_attack,
    ),
    replace(
        STREAM_CASES["stream, labels"],
        fault="a unit that comes again",
        broken=partial(broken, again=True),
        attack=unit_again_attack,
    ),
    replace(
        STREAM_CASES["stream, two epochs"],
        fault="a unit in two epochs",
        broken=partial(broken, again=True),
        attack=unit_again_attack,
    ),
    replace(
        STREAM_CASES["stream, two epochs"],
        fault="epochs chosen from sums without noise",
        broken=partial(broken, peek=True),
        attack=last_centre,
    ),
    Case(
        "rl",
        MANIFOLDS["spd-log-euclidean"](k=5),
        PureDP(4.0),
        SENSITIVITY,
        fault="chain stopped after 10 steps",
        broken=short_chain,
    ),
)
"""Every one of them must be caught."""
