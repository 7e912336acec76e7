"""Mechanisms broken on purpose: an audit that does not catch them is worth nothing.

Each entry of `CONTROLS` is a case whose neighbours, score and claim are those of the sound
mechanism, and whose draws are not.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from scipy.special import ndtr

from pipeline.audit.broken_nights import (
    Smaller,
    noise_of_one_night,
    of_centres,
    of_differences,
    of_units_opened_again,
    of_units_that_come_again,
    opened_again,
    peeking,
    same_noise,
    unit_again,
)
from pipeline.audit.cases import (
    ADAPTIVE_CASES,
    BUDGETS,
    OVERLAPPING,
    PERSON_CASES,
    SENSITIVITY,
    STREAM_CASES,
    Case,
)
from pipeline.audit.persons import NEAR, images_as_records, person_transcripts
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.mechanisms import MECHANISMS, ChainSettings, Diagnostics, Draws, Mechanism
from pipeline.mechanisms.base import Points, small
from pipeline.privacy import ApproxDP, Budget, PureDP


def half_noise(case: Case) -> Mechanism:
    """Return the mechanism with σ/2 in place of σ."""
    honest: Any = case.calibrate()
    return cast(Mechanism, replace(honest, sigma=honest.sigma / 2.0))


def less_noise(case: Case, *, scale: float) -> Mechanism:
    """Return transcripts whose source gives `scale` times the σ that it is asked for."""
    honest: Any = case.calibrate()
    return cast(Mechanism, replace(honest, noise=partial(Smaller, scale=scale)))


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
    honest: Any = case.calibrate()
    sigma = misprinted_sigma(cast(ApproxDP, case.budget), case.sensitivity)
    return cast(Mechanism, replace(honest, sigma=sigma))


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

    Private at this scale only if Δ bounded the L1 norm of the move, which is up to √d times as
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
    replace(
        ADAPTIVE_CASES[0],
        fault="half the noise",
        broken=partial(less_noise, scale=0.5),
    ),
    *(
        replace(case, fault="nine tenths of the noise", broken=partial(less_noise, scale=0.9))
        for case in (ADAPTIVE_CASES[0], PERSON_CASES[0], STREAM_CASES["stream, opening"])
    ),
    replace(
        PERSON_CASES[0],
        fault="noise for one image of a person",
        broken=lambda case: images_as_records(case.calibrate()),
        attack=partial(person_transcripts, places=NEAR),
    ),
    replace(
        STREAM_CASES["stream, first night"],
        fault="column norm of one night",
        broken=lambda case: noise_of_one_night(case.calibrate()),
    ),
    replace(
        STREAM_CASES["stream, last night"],
        fault="noise used twice",
        broken=lambda case: same_noise(case.calibrate()),
        attack=of_differences,
    ),
    replace(
        STREAM_CASES[OVERLAPPING],
        fault="units held back are opened again",
        broken=lambda case: opened_again(case.calibrate()),
        attack=of_units_opened_again,
    ),
    replace(
        STREAM_CASES["stream, two epochs"],
        fault="a unit in two epochs",
        broken=lambda case: unit_again(case.calibrate()),
        attack=of_units_that_come_again,
    ),
    replace(
        STREAM_CASES["stream, two epochs"],
        fault="epochs chosen from sums without noise",
        broken=lambda case: peeking(case.calibrate()),
        attack=of_centres,
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
