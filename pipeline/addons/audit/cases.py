"""Cases of the audit: every mechanism, on every manifold, under every definition that is proven.

In: the registry of mechanisms. Out: `Case` records. The manifolds are small on purpose. In d
dimensions the loss of spherical noise comes close to its bound only on outputs that are beyond the
statistic in one direction, and their share falls quickly with d: in 15 dimensions no number of
draws that fits in memory would come near the claim, and a wrong scale would not be detected. The
code is the same for every size.

**Controls** are mechanisms broken on purpose: an audit that does not catch them is worth nothing.
Each entry of `CONTROLS` is a case whose claim is that of the sound mechanism, and whose draws are
not. Neighbours and score are those of the sound mechanism, too, or of an attacker who knows the
fault.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from scipy.special import ndtr

from covdp.addons.audit import attacks, faults
from covdp.addons.audit.attacks import FIRST_NIGHT, SECRET_OPENING
from covdp.addons.audit.bounds import Transcript
from covdp.addons.audit.faults import changed_noise, hardened_noise, smaller_noise
from covdp.addons.nights.stream import column_norm
from covdp.addons.nights.stream.history import begin_epoch
from covdp.addons.nights.stream.plan import GROWTH
from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.geometry import MANIFOLDS, Manifold
from covdp.mean import Labels
from covdp.mean.plan import STEP_NAMES
from covdp.mean.release import COUNT_UNIT
from covdp.mechanisms import MECHANISMS
from covdp.mechanisms.base import KNG_RECORDS, SAMPLERS, Chain, Points, small
from covdp.mechanisms.exponential import gradient_sensitivity
from covdp.privacy import GDP, RDP, ZCDP, ApproxDP, Budget, PureDP, RaoDP

BUDGETS: dict[str, Budget] = {
    "pure": PureDP(2.0),
    "approx": ApproxDP(1.0, 0.01),
    "gdp": GDP(1.0),
    "rdp": RDP(4.0, 2.0),
    "zcdp": ZCDP(0.5),
    "rao": RaoDP(1.0),
}
"""One budget of each definition, of similar strength."""
SENSITIVITY = 0.25
"""Δ in the manifold's distance: large enough for curvature to show, and for all laws to exist."""
RADIUS = 0.2
"""Radius of the ball that holds the data on the sphere and on shapes, where it must be < π/8."""
CHAINS: dict[tuple[str, str], int] = {
    ("rl", "spd-log-euclidean"): 10_000,
    ("rl", "spd-affine-invariant"): 10_000,
    ("kng", "sphere"): 1000,
}
"""Burn-in of the published Markov chains; for the last its paper gives none: the 1,000 are ours."""
CHAIN_SHARE = 0.02
"""A chain takes thousands of steps a draw: it gets this share of the draws …"""
CHAIN_BUDGET = PureDP(4.0)
"""… and a larger budget, because few draws show more of it."""

HARDENED_SHARE = 0.01
"""Share of the draws of hardened noise: each of its numbers takes as long as a thousand others."""
SERIES_SHARE = 0.01
"""Share of the draws of persons and nights: a transcript is the work of hundreds of draws."""
LEAST_SCORES = 4
"""Fewest draws of a case that give a bound, however few trials there are."""


@dataclass(frozen=True)
class Case:
    """One mechanism on one manifold under one budget, and how it is drawn.

    Attributes
    ----------
    mechanism : str
        A key of `MECHANISMS`, or a name of `PLANNED`.
    manifold, budget, sensitivity
        What it is calibrated with.
    radius : float
        r of the ball that holds the data, where KNG needs one.
    chain : Chain, optional
        Draw by the published Markov chain instead of exactly.
    share : float
        Share of the draws of an audit that this case gets.
    replayed : callable, optional
        Budget and manifold → what is drawn as its transcripts, which can be replayed.
    fault : str
        What is broken on purpose, or "".
    broken : callable, optional
        With a fault: makes the mechanism that is drawn from, in place of the calibrated one.
    known : bool
        With a fault of transcripts: whether the attacker knows it, so that no further data sets are
        tried.
    score : callable, optional
        With one: what is drawn, and a transcript on either data set → the score, where the
        log-likelihood ratio does not see the fault.
    hardened : bool
        True if a mechanism is drawn as a release draws it.
    """

    mechanism: str
    manifold: Manifold
    budget: Budget
    sensitivity: float
    radius: float = math.inf
    chain: Chain | None = None
    share: float = 1.0
    replayed: Callable[[Budget, Manifold], attacks.AdaptiveTranscripts] | None = None
    fault: str = ""
    broken: Callable[["Case"], Any] | None = None
    known: bool = False
    score: Callable[[Any, Transcript, Transcript], float] | None = None
    hardened: bool = False

    @property
    def sampler(self) -> str:
        """``"exact"``, ``"chain"`` or ``"hardened"``."""
        return "hardened" if self.hardened else "exact" if self.chain is None else "chain"

    @property
    def tested(self) -> bool:
        """True if the law of the noise is known, coordinate by coordinate."""
        return self.replayed is not None or MECHANISMS[self.mechanism].residuals is not None

    @property
    def name(self) -> str:
        """Name of the case, which no other case has."""
        place = f"{self.manifold.name}-{self.manifold.dim}"
        return "/".join((self.mechanism, place, str(self.budget), self.sampler, self.fault))

    def size(self, trials: int) -> int:
        """Return how many of `trials` draws this case gets."""
        return max(LEAST_SCORES, round(self.share * trials))

    def calibrate(self) -> Any:
        """Return the mechanism, calibrated as anybody would."""
        if self.replayed is not None:
            return self.replayed(self.budget, self.manifold)
        knobs: dict[str, Any] = {}
        if math.isfinite(self.radius):
            knobs["radius"] = self.radius
        if self.chain is not None:
            knobs["chain"] = self.chain
        return MECHANISMS[self.mechanism].calibrate(
            self.budget, sensitivity=self.sensitivity, manifold=self.manifold, **knobs
        )

    def outputs(
        self, drawn: Any, center: Points, base: Points | None, size: int, rng: np.random.Generator
    ) -> Points:
        """Return `size` outputs of a mechanism for one input."""
        if not self.hardened:
            return cast(Points, drawn.sample(center, base=base, size=size, rng=rng).points)
        draw, noise = MECHANISMS[self.mechanism].hardened, hardened_noise(rng)
        assert draw is not None
        return np.stack([draw(drawn, center, noise).point for _ in range(size)])


def _plan(
    name: str,
    kind: type[attacks.AdaptiveTranscripts],
    budget: Budget = BUDGETS["gdp"],
    *,
    space: str = "spd-log-euclidean",
    share: float = SERIES_SHARE,
    **fields: Any,
) -> Case:
    """Return a case of transcripts, with these fields of its kind.

    It is audited on 5×5 matrices: the log-likelihood ratio of Gaussian steps is sharp in any
    dimension.
    """
    make = partial(kind, **fields)
    manifold = MANIFOLDS[space](k=5)
    return Case(name, manifold, budget, kind.sensitivity, share=share, replayed=make)


def _stream(name: str, *sizes: tuple[int, ...], place: int, mu: float = 2.0, **fields: Any) -> Case:
    """Return a stream of these records each night, one of which, of the night `place`, is replaced.

    The first night is 0. With the sizes of two classes labels are secret, and one comes on that
    night who moves between them.
    """
    kind = attacks.StreamTranscripts if len(sizes) == 1 else attacks.LabelStreamTranscripts
    return _plan(name, kind, GDP(mu), sizes=sizes, place=place, **fields)


FIRST_NIGHTS = (FIRST_NIGHT, 1, *(0,) * 10)
"""Records of each night of the stream whose budget is large because its fault is small."""
PLANNED = (
    _plan("adaptive", attacks.AdaptiveTranscripts, share=0.1),
    _plan(
        "adaptive",
        attacks.AdaptiveTranscripts,
        BUDGETS["zcdp"],
        space="spd-affine-invariant",
        share=0.1,
    ),
    # dear: 2,000 of each data set show 0.64 of the claimed μ in an audit of all cases, 0.69 in
    # one of theirs alone, whose probability of error fewer bounds share; μ² is exact of any number
    _plan("labels", attacks.LabelTranscripts, share=0.02),
    _plan("persons", attacks.PersonTranscripts),
    _plan(
        "persons in 2 classes",
        attacks.PersonTranscripts,
        space="spd-affine-invariant",
        classes_per_person=2,
    ),
    _stream("stream, first night", FIRST_NIGHTS, place=1, mu=3.0),
    _stream("stream, last night", (FIRST_NIGHT, 2, 2, 2, 2, 2), place=5),
    _stream("stream, opening", (FIRST_NIGHT, 2, 2), place=0, share=0.004),
    _stream(
        "stream, two epochs",
        (FIRST_NIGHT, 1, GROWTH * FIRST_NIGHT, 1, 1, 1, 1),
        place=1,
        share=0.006,
    ),
    _stream(
        "stream, person",
        (FIRST_NIGHT, 2, 0, 2),
        place=1,
        space="spd-log-cholesky",
        person=True,
        ends=attacks.FAR_ENDS,
    ),
    # the nights are begun at once, but for the first, which holds its record back
    _stream("stream, overlapping", (1,) * 8, place=0, share=0.004, rests=attacks.overlapping),
    _stream("stream, labels", (SECRET_OPENING, 0, 0), (SECRET_OPENING, 0, 0), place=1, share=0.003),
    _stream(
        "stream, labels at the opening",
        (SECRET_OPENING, 0),
        (SECRET_OPENING, 0),
        place=0,
        share=0.002,
    ),
    _stream(
        "stream, labels of a class not opened",
        (0, 0, 0),
        (SECRET_OPENING, 0, 0),
        place=0,
        share=0.002,
    ),
    # as releases draw them, by default: with secret labels, from the system's entropy
    _stream(
        "hardened stream",
        (SECRET_OPENING, 0),
        (SECRET_OPENING, 0),
        place=0,
        share=0.0005,
        noise=hardened_noise,
    ),
    _plan("hardened mean", attacks.LabelTranscripts, share=0.0025, noise=hardened_noise),
)
"""Cases that are audited by their transcripts, beside the mechanisms."""


def all_cases(mechanism: str | None = None) -> tuple[Case, ...]:
    """Return the cases of all mechanisms, or of one; raise `ConfigError` if it is not known.

    Every certified definition is there; Rao DP, a label, only where there is no other.
    """
    names = [*MECHANISMS, *dict.fromkeys(case.mechanism for case in PLANNED)]
    if mechanism is not None and mechanism not in names:
        known = ", ".join(map(repr, names))
        raise ConfigError(f"a mechanism must be one of {known}; found {mechanism!r}; choose one")
    cases = []
    for name in MECHANISMS if mechanism is None else {mechanism} & set(MECHANISMS):
        family = MECHANISMS[name]
        definitions = [kind for kind in family.definitions if kind != "rao"] or ["rao"]
        for space in family.manifolds:
            cases += [_case(name, space, BUDGETS[kind]) for kind in definitions]
            if (name, space) in CHAINS and "chain" in SAMPLERS:
                chain = SAMPLERS["chain"](burn_in=CHAINS[name, space])
                cases.append(_case(name, space, CHAIN_BUDGET, chain))
        if family.hardened:  # drawn at the origin, which on a flat manifold is any other place
            flat = next(space for space in family.manifolds if small(MANIFOLDS[space]).flat)
            drawn = _case(name, flat, BUDGETS["gdp"])
            cases.append(replace(drawn, hardened=True, share=HARDENED_SHARE))
    return (*cases, *(case for case in PLANNED if mechanism in (None, case.mechanism)))


def _case(name: str, space: str, budget: Budget, chain: Chain | None = None) -> Case:
    """Return a case with the sensitivity that suits its mechanism."""
    manifold, family = small(MANIFOLDS[space]), MECHANISMS[name]
    share = 1.0 if chain is None else CHAIN_SHARE
    if family.moves == "gradient" and not manifold.hadamard:
        delta = gradient_sensitivity(KNG_RECORDS, RADIUS, manifold.curvature[1])
        return Case(name, manifold, budget, delta, RADIUS, chain, share)
    return Case(name, manifold, budget, family.typical, chain=chain, share=share)


@dataclass(frozen=True)
class LongCount(Labels):
    """Secret labels whose count takes more room than a move between two classes leaves."""

    def counted(self, vector: FloatArray, n: int) -> FloatArray:
        """Return the vector with n/2 as its last coordinate, in place of √(1/8)·n."""
        return np.append(vector, 0.5 * n)


def first_count(mechanism: Any, left: Transcript, right: Transcript) -> float:
    """Score the size of the first class, as its last sum tells it."""
    sums = left.released
    return float(sums[len(sums) // 2 - 1][-1]) / COUNT_UNIT - (attacks.PAIR_SIZE - 0.5)


def broken(case: Case, **faults: Any) -> Any:
    """Return the mechanism of a case with some of its fields replaced."""
    return replace(case.calibrate(), **faults)


def half_noise(case: Case) -> Any:
    """Return the mechanism with σ/2 in place of σ."""
    return broken(case, sigma=case.calibrate().sigma / 2.0)


def half_sensitivity(case: Case) -> Any:
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


def misprint(case: Case) -> Any:
    """Return the Gaussian mechanism with the scale of the misprinted condition."""
    return broken(case, sigma=misprinted_sigma(cast(ApproxDP, case.budget), case.sensitivity))


def short_chain(case: Case) -> Any:
    """Return the published chain of the mechanism, stopped after 10 steps."""
    return replace(case, chain=SAMPLERS["chain"](burn_in=10, keep=4)).calibrate()


def after_the_first(nights: int) -> list[int]:
    """Return from how many nights each goes on where all go on from the first alone.

    So each of them opens the records that the first has held back.
    """
    return [min(place, 1) for place in range(nights)]


def last_difference(mechanism: Any, left: Transcript, right: Transcript) -> float:
    """Score the last night less the one before, which has no noise where both have the same."""
    y, a, b = (part[-1] - part[-3] for part in (left.released, left.own, right.own))
    return float(np.sum((2.0 * y - a - b) * (a - b)))


def last_centre(mechanism: Any, left: Transcript, right: Transcript) -> float:
    """Score the published centre of the last epoch: how far it is from what released values say."""
    sides = [side for (side,) in mechanism.sides]
    epochs = [(i, night.epoch) for i, night in enumerate(left.history) if night.epoch]
    at, epoch = epochs[-1]
    before = left.history[:at]
    moved = epoch.centre - begin_epoch(sides[0].stream, tuple(before)).centre
    a, b = (attacks.vector_sum(side.sums(before)[at], len(moved)) for side in sides)
    return float(np.sum((2.0 * moved - a - b) * (a - b)))


def _control(name: str, space: str, kind: str, fault: str, make: Callable[[Case], Any]) -> Case:
    manifold = small(MANIFOLDS[space])
    return Case(name, manifold, BUDGETS[kind], SENSITIVITY, fault=fault, broken=make)


def _planned(
    name: str,
    fault: str,
    *,
    known: bool = False,
    score: Callable[[Any, Transcript, Transcript], float] | None = None,
    share: float | None = None,
    **fields: Any,
) -> Case:
    """Return the case of a plan with other fields of its mechanism."""
    case = next(case for case in PLANNED if case.mechanism == name)
    make, share = partial(broken, **fields), share or case.share
    known = known or score is not None
    return replace(case, fault=fault, broken=make, known=known, score=score, share=share)


CONTROLS: tuple[Case, ...] = (
    _control("ewg", "hyperbolic", "gdp", "half the noise", half_noise),
    _control("rl", "spd-affine-invariant", "pure", "half the noise", half_noise),
    _control(
        "tangent-gaussian",
        "spd-log-euclidean",
        "approx",
        "sign error in the analytic condition",
        misprint,
    ),
    _control(
        "ewl",
        "spd-log-euclidean",
        "pure",
        "noise per coordinate at the L2 sensitivity",
        partial(broken, noise=faults.ProductLaplace()),
    ),
    _control("ewg", "spd-affine-invariant", "zcdp", "sensitivity too small by 2", half_sensitivity),
    _planned("adaptive", "half the noise", noise=partial(smaller_noise, scale=0.5)),
    *(
        _planned(name, "nine tenths of the noise", noise=partial(smaller_noise, scale=0.9))
        for name in ("adaptive", "persons", "stream, opening")
    ),
    _planned("labels", "a count too long for another class", labels=LongCount),
    _planned(
        "labels", "sizes of classes without noise", score=first_count, noise=faults.countless_noise
    ),
    _planned(
        "persons",
        "noise for one image of a person",
        known=True,
        ends=attacks.NEAR_ENDS,
        whole=False,
    ),
    _planned(
        "stream, first night",
        "column norm of one night",
        noise=partial(smaller_noise, scale=1.0 / column_norm(len(FIRST_NIGHTS))),
    ),
    _planned(
        "stream, last night", "noise used twice", score=last_difference, noise=faults.repeated_noise
    ),
    _planned(
        "stream, overlapping",
        "records held back are opened again",
        known=True,
        rests=after_the_first,
    ),
    _planned("stream, labels", "a record that comes again", known=True, again=True),
    _planned("stream, two epochs", "a record in two epochs", known=True, again=True),
    _planned(
        "stream, two epochs",
        "epochs chosen from sums without noise",
        score=last_centre,
        peek=True,
    ),
    _control(
        "ewg",
        "spd-log-cholesky",
        "gdp",
        "one coordinate x 0.95",
        partial(broken, noise=faults.UnevenGaussian()),
    ),
    *(
        _planned(name, fault, known=True, noise=partial(changed_noise, change=change))
        for name, fault, change in (
            ("adaptive", "one coordinate x 0.95", partial(faults.scale_coordinate, scale=0.95)),
            ("labels", "one coordinate x 0.8", partial(faults.scale_coordinate, scale=0.8)),
            (
                "persons",
                "one coordinate x 0.8",
                partial(faults.scale_coordinate, scale=0.8, place=7),
            ),
            ("labels", "one step x 0.95", partial(faults.scale_step, scale=0.95, step=3)),
            ("persons", "a biased coordinate", partial(faults.shift_coordinate, by=0.25)),
            ("persons", "two coordinates share noise", faults.share_coordinates),
            (
                "persons",
                "a part of the noise is shared",
                partial(faults.mix_coordinates, share=0.05),
            ),
            ("adaptive", "noise of the step before last", partial(faults.use_again, steps=2)),
            ("labels", "noise of a mean in the shells", partial(faults.use_again, steps=1)),
            (
                "labels",
                "noise of the first class in the second",
                partial(faults.use_again, steps=len(STEP_NAMES)),
            ),
            ("stream, last night", "noise of the night before", partial(faults.use_again, steps=2)),
            ("persons", "rounded noise", partial(faults.round_noise, grid=0.5)),
        )
    ),
    _planned("persons", "the same seed twice", known=True, noise=faults.seeded_noise),
    *(
        _planned("hardened mean", fault, known=True, share=share, noise=noise)
        for fault, share, noise in (
            ("half the noise", 0.0005, partial(smaller_noise, scale=0.5, source=hardened_noise)),
            (
                "one coordinate x 0.8",
                0.001,
                partial(
                    changed_noise,
                    change=partial(faults.scale_coordinate, scale=0.8),
                    source=hardened_noise,
                ),
            ),
        )
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
