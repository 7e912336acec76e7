"""What is audited: every mechanism, on every manifold, under every definition it is proven for.

In: the registry of mechanisms. Out: `Case` records.

The manifolds are small on purpose. In d dimensions the loss of spherical noise comes close to its
bound only on outputs that lie beyond the statistic in one direction, and their share falls quickly
with d: in 15 dimensions no number of draws that fits in memory would come near the claim, and a
wrong scale could hide. The code is the same for every size.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline.audit.attacks import (
    COUNTED,
    OPENING,
    AdaptiveTranscripts,
    LabelStreamTranscripts,
    LabelTranscripts,
    PersonTranscripts,
    StreamTranscripts,
    overlapping,
    transcripts,
)
from pipeline.errors import ConfigError
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.mechanisms import MECHANISMS, ChainSettings, Mechanism
from pipeline.mechanisms.base import RECORDS, Neighbours, small
from pipeline.mechanisms.riemannian_laplace import gradient_sensitivity
from pipeline.privacy import GDP, RDP, ZCDP, ApproxDP, Budget, PureDP, RaoDP

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
CHAINS: dict[tuple[str, str], ChainSettings] = {
    ("rl", "spd-log-euclidean"): ChainSettings(burn_in=10_000),
    ("rl", "spd-affine-invariant"): ChainSettings(burn_in=10_000),
    ("kng", "sphere"): ChainSettings(burn_in=1000),
}
"""The published Markov chains; the paper of the last gives no length, so the 1,000 are ours."""
CHAIN_SHARE = 0.02
"""A chain takes thousands of steps a draw: it gets this share of the draws …"""
CHAIN_BUDGET = PureDP(4.0)
"""… and a larger budget, because few draws show more of it."""

ADAPTIVE = (("spd-log-euclidean", "gdp"), ("spd-affine-invariant", "zcdp"))
"""Manifold and definition of the cases of the adaptive mean, on 5×5 matrices: the log-likelihood
ratio of Gaussian steps is sharp in any dimension."""
ADAPTIVE_SHARE = 0.1
"""A transcript is hundreds of times the work of a draw: it gets this share of the draws …"""
LABEL_SHARE = 0.02
"""… those of two classes whose labels are secret, dearer by far, this one: 2,000 of each data set
show 0.69 of the claimed μ, and μ² is exact of any number …"""
SERIES_SHARE = 0.01
"""… and those of persons and of nights, dearer still, this one."""
LEAST_SCORES = 4
"""Fewest draws of a case that give a bound, however few trials there are."""


class AuditPlan(NamedTuple):
    """How a case of transcripts is calibrated, and its share of the draws."""

    calibrate: Callable[["Case"], Mechanism]
    share: float = SERIES_SHARE


@dataclass(frozen=True)
class Case:
    """One mechanism on one manifold under one budget, and how it is drawn.

    Attributes
    ----------
    mechanism : str
        A key of `MECHANISMS`, or of `PLANS`.
    manifold, budget, sensitivity
        What it is calibrated with.
    radius : float
        r of the ball that holds the data, where KNG needs one.
    chain : ChainSettings, optional
        Draw by the published Markov chain instead of exactly.
    fault : str
        What is broken on purpose, or "".
    broken : callable, optional
        With a fault: makes the mechanism that is drawn from, in place of the calibrated one.
    attack : callable, optional
        With a fault: inputs and score, where those of the sound mechanism do not see it.
    """

    mechanism: str
    manifold: Manifold
    budget: Budget
    sensitivity: float
    radius: float = math.inf
    chain: ChainSettings | None = None
    fault: str = ""
    broken: Callable[["Case"], Mechanism] | None = None
    attack: Callable[[Mechanism], Neighbours] | None = None

    @property
    def sampler(self) -> str:
        """``"exact"`` or ``"chain"``."""
        return "exact" if self.chain is None else "chain"

    @property
    def name(self) -> str:
        """What tells this case from all others."""
        place = f"{self.manifold.name}-{self.manifold.dim}"
        return "/".join((self.mechanism, place, str(self.budget), self.sampler, self.fault))

    def size(self, trials: int) -> int:
        """Return how many of `trials` draws this case gets."""
        if self.replayed:
            return max(LEAST_SCORES, round(PLANS[self.mechanism].share * trials))
        return trials if self.chain is None else round(CHAIN_SHARE * trials)

    def neighbours(self, mechanism: Mechanism) -> Neighbours:
        """Return the two inputs and the score, for the calibrated mechanism."""
        sound = transcripts if self.replayed else MECHANISMS[self.mechanism].neighbours
        return (self.attack or sound)(mechanism)

    @property
    def replayed(self) -> bool:
        """Whether its draws are transcripts, which can be replayed."""
        return self.mechanism in PLANS

    def calibrate(self) -> Mechanism:
        """Return the mechanism, calibrated as anybody would."""
        if self.replayed:
            return PLANS[self.mechanism].calibrate(self)
        knobs: dict[str, Any] = {}
        if math.isfinite(self.radius):
            knobs["radius"] = self.radius
        if self.chain is not None:
            knobs |= {"sampler": "chain", "chain": self.chain}
        return MECHANISMS[self.mechanism].calibrate(
            self.budget, sensitivity=self.sensitivity, manifold=self.manifold, **knobs
        )


OVERLAPPING = "stream, overlapping"
STREAMS = {
    "stream, first night": ((OPENING, 1, *(0,) * 10), 1, False, 0.035),
    "stream, last night": ((OPENING, 2, 2, 2, 2, 2), 5, False, SERIES_SHARE),
    "stream, opening": ((OPENING, 2, 2), 0, False, 0.004),
    "stream, two epochs": ((OPENING, 1, 9 * OPENING, 1, 1, 1, 1), 1, False, 0.006),
    "stream, person": ((OPENING, 2, 0, 2), 1, True, SERIES_SHARE),
    OVERLAPPING: ((1,) * 8, 0, False, 0.004),
}
"""Units of the nights; the night of the one who is replaced, the first being 0; whether that is a
person; and the share of the draws. The nights of one stream are begun at once, but for the first,
which holds its unit back."""


def _stream(sizes: tuple[int, ...], place: int, person: bool, share: float) -> AuditPlan:
    """Return a stream as a plan that is audited."""

    def calibrate(case: Case) -> StreamTranscripts:
        rests = overlapping(len(sizes)) if case.mechanism == OVERLAPPING else ()
        return StreamTranscripts(case.budget, case.manifold, sizes, place, person, rests=rests)

    return AuditPlan(calibrate, share)


LABEL_STREAMS = {
    "stream, labels": (((COUNTED, 0, 0), (COUNTED, 0, 0)), 1, 0.003),
    "stream, labels at the opening": (((COUNTED, 0), (COUNTED, 0)), 0, 0.002),
    "stream, labels of a class not opened": (((0, 0, 0), (COUNTED, 0, 0)), 0, 0.002),
}
"""Units of the nights of either class, the night of the one that moves, and the share of draws."""


def _label_stream(
    sizes: tuple[tuple[int, ...], tuple[int, ...]], place: int, share: float
) -> AuditPlan:
    """Return streams of two classes as a plan that is audited."""
    return AuditPlan(
        lambda case: LabelStreamTranscripts(case.budget, case.manifold, sizes, place), share
    )


PLANS = {
    "adaptive": AuditPlan(
        lambda case: AdaptiveTranscripts(case.budget, case.manifold), ADAPTIVE_SHARE
    ),
    "labels": AuditPlan(lambda case: LabelTranscripts(case.budget, case.manifold), LABEL_SHARE),
    "persons": AuditPlan(lambda case: PersonTranscripts(case.budget, case.manifold)),
    "persons in 2 classes": AuditPlan(
        lambda case: PersonTranscripts(case.budget, case.manifold, classes_per_person=2)
    ),
    **{name: _stream(*stream) for name, stream in STREAMS.items()},
    **{name: _label_stream(*stream) for name, stream in LABEL_STREAMS.items()},
}
"""Plans that are audited by their transcripts, beside the mechanisms."""


def all_cases(mechanism: str | None = None) -> tuple[Case, ...]:
    """Return the cases of all mechanisms, or of one; raise `ConfigError` if it is not known.

    Every certified definition is there; Rao DP, a label, only where there is no other.
    """
    names = [*MECHANISMS, *PLANS]
    if mechanism is not None and mechanism not in names:
        raise ConfigError(
            f"a mechanism must be one of {', '.join(names)}; found {mechanism!r}; choose one"
        )
    found = []
    for name in MECHANISMS if mechanism is None else {mechanism} & set(MECHANISMS):
        family = MECHANISMS[name]
        definitions = [kind for kind in family.definitions if kind != "rao"] or ["rao"]
        for space in family.manifolds:
            found += [_case(name, space, BUDGETS[kind]) for kind in definitions]
            if (name, space) in CHAINS:
                found.append(_case(name, space, CHAIN_BUDGET, CHAINS[name, space]))
    found += [
        case
        for case in (*ADAPTIVE_CASES, *LABEL_CASES, *PERSON_CASES, *STREAM_CASES.values())
        if mechanism in (None, case.mechanism)
    ]
    return tuple(found)


def _case(name: str, space: str, budget: Budget, chain: ChainSettings | None = None) -> Case:
    """Return a case with the sensitivity that suits its mechanism."""
    manifold, family = small(MANIFOLDS[space]), MECHANISMS[name]
    if family.moves == "gradient" and not manifold.hadamard:
        delta = gradient_sensitivity(RECORDS, RADIUS, manifold.curvature[1])
        return Case(name, manifold, budget, delta, RADIUS, chain)
    return Case(name, manifold, budget, family.typical, chain=chain)


ADAPTIVE_CASES = tuple(
    Case("adaptive", MANIFOLDS[space](k=5), BUDGETS[kind], AdaptiveTranscripts.sensitivity)
    for space, kind in ADAPTIVE
)
LABEL_CASES = (
    Case(
        "labels", MANIFOLDS["spd-log-euclidean"](k=5), BUDGETS["gdp"], LabelTranscripts.sensitivity
    ),
)
PERSON_CASES = (
    Case(
        "persons",
        MANIFOLDS["spd-log-euclidean"](k=5),
        BUDGETS["gdp"],
        AdaptiveTranscripts.sensitivity,
    ),
    Case(
        "persons in 2 classes",
        MANIFOLDS["spd-affine-invariant"](k=5),
        BUDGETS["gdp"],
        AdaptiveTranscripts.sensitivity,
    ),
)
STREAM_CASES = {
    name: Case(
        name,
        MANIFOLDS["spd-log-cholesky" if name == "stream, person" else "spd-log-euclidean"](k=5),
        GDP(3.0 if name == "stream, first night" else 2.0),
        StreamTranscripts.sensitivity,
    )
    for name in STREAMS
} | {
    name: Case(
        name, MANIFOLDS["spd-log-euclidean"](k=5), GDP(2.0), LabelStreamTranscripts.sensitivity
    )
    for name in LABEL_STREAMS
}
"""The first night's budget is large because its fault is small: 1.36 times the claim."""
