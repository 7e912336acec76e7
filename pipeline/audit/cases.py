"""What is audited: every mechanism, on every manifold, under every definition it is proven for.

In: the registry of mechanisms. Out: `Case` records, and how their transcripts are
replayed.

The manifolds are small on purpose. In d dimensions the loss of spherical noise comes close to its
bound only on outputs that lie beyond the statistic in one direction, and their share falls quickly
with d: in 15 dimensions no number of draws that fits in memory would come near the claim, and a
wrong scale could hide. The code is the same for every size.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline.audit.nights import (
    OPENING,
    StreamTranscripts,
    Transcript,
    deciding,
    stream_transcripts,
)
from pipeline.audit.nights import Replay as NightReplay
from pipeline.audit.nights import replay as replay_nights
from pipeline.audit.overlaps import overlapping
from pipeline.audit.persons import PersonTranscripts, person_transcripts
from pipeline.audit.replay import Replay, Steps
from pipeline.audit.transcript import Transcripts, replays, transcripts
from pipeline.errors import ConfigError
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.mechanisms import MECHANISMS, ChainSettings, Mechanism
from pipeline.mechanisms.base import RECORDS, Neighbours, Points, small
from pipeline.mechanisms.riemannian_laplace import gradient_sensitivity
from pipeline.privacy import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    RaoDP,
)

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
ADAPTIVE_SHARE = 0.01
"""A transcript is a thousand times the work of a draw: it gets this share of the draws."""


class Subject(NamedTuple):
    """How a case is calibrated and attacked.

    Inputs and score, the share of the draws, and, of transcripts, how they are replayed on both
    inputs: they may be of a mechanism that is broken.
    """

    calibrate: Callable[["Case"], Mechanism]
    neighbours: Callable[[Mechanism], Neighbours]
    share: float = 1.0
    replays: Callable[[Any, Any, Any], Replay] | None = None


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
        share = self._subject.share if self.chain is None else CHAIN_SHARE
        return round(share * trials)

    def neighbours(self, mechanism: Mechanism) -> Neighbours:
        """Return the two inputs and the score, for the calibrated mechanism."""
        return (self.attack or self._subject.neighbours)(mechanism)

    @property
    def replayed(self) -> bool:
        """Whether its draws are transcripts, which can be replayed."""
        return self._subject.replays is not None

    def steps(
        self, drawn: Mechanism, pair: Neighbours, released: Sequence[Points]
    ) -> list[list[Steps]]:
        """Return the transcripts of `drawn` from either input, replayed; nothing of others."""
        if self._subject.replays is None:
            return []
        replay = self._subject.replays(drawn, pair.left, pair.right)
        return [[replay(transcript) for transcript in law] for law in released]

    def calibrate(self) -> Mechanism:
        """Return the mechanism, calibrated as anybody would."""
        return self._subject.calibrate(self)

    @property
    def _subject(self) -> Subject:
        if self.mechanism in PLANS:
            return PLANS[self.mechanism]
        return Subject(_calibrate, MECHANISMS[self.mechanism].neighbours)


def _calibrate(case: Case) -> Mechanism:
    """Return a mechanism of the registry."""
    knobs: dict[str, Any] = {}
    if math.isfinite(case.radius):
        knobs["radius"] = case.radius
    if case.chain is not None:
        knobs |= {"sampler": "chain", "chain": case.chain}
    return MECHANISMS[case.mechanism].calibrate(
        case.budget, sensitivity=case.sensitivity, manifold=case.manifold, **knobs
    )


OVERLAPPING = "stream, overlapping"
STREAMS = {
    "stream, first night": ((OPENING, 1, *(0,) * 10), 1, False, 0.035),
    "stream, last night": ((OPENING, 2, 2, 2, 2, 2), 5, False, ADAPTIVE_SHARE),
    "stream, opening": ((OPENING, 2, 2), 0, False, 0.004),
    "stream, two epochs": ((OPENING, 1, 9 * OPENING, 1, 1, 1, 1), 1, False, 0.006),
    "stream, person": ((OPENING, 2, 0, 2), 1, True, ADAPTIVE_SHARE),
    OVERLAPPING: ((1,) * 8, 0, False, 0.004),
}
"""Units of the nights; the night of the one who is replaced, the first being 0; whether that is a
person; and the share of the draws. The nights of one stream are begun at once, but for the first,
which holds its unit back."""


def _stream(sizes: tuple[int, ...], place: int, person: bool, share: float) -> Subject:
    """Return a stream as a subject of audits."""

    def calibrate(case: Case) -> StreamTranscripts:
        rests = overlapping(len(sizes)) if case.mechanism == OVERLAPPING else ()
        return StreamTranscripts(case.budget, case.manifold, sizes, place, person, rests=rests)

    return Subject(calibrate, stream_transcripts, share, _stream_replays)


def _stream_replays(mechanism: StreamTranscripts, left: Any, right: Any) -> Replay:
    """Return what replays the nights of a stream."""
    sides = [mechanism.begun(nights) for nights in (left, right)]
    found: dict[bytes, list[NightReplay]] = {}

    def replay(transcript: Transcript) -> Steps:
        known = deciding(transcript, mechanism.place)
        if known not in found:
            found[known] = [replay_nights(side, transcript) for side in sides]
        one, other = found[known]
        sigmas = list(zip(one.sigmas, other.sigmas, strict=True))
        return Steps(transcript.told, one.asked, other.asked, sigmas)

    return replay


PLANS = {
    "adaptive": Subject(
        lambda case: Transcripts(case.budget, case.manifold), transcripts, ADAPTIVE_SHARE, replays
    ),
    "persons": Subject(
        lambda case: PersonTranscripts(case.budget, case.manifold, 1),
        person_transcripts,
        ADAPTIVE_SHARE,
        replays,
    ),
    "persons in 2 classes": Subject(
        lambda case: PersonTranscripts(case.budget, case.manifold, 2),
        person_transcripts,
        ADAPTIVE_SHARE,
        replays,
    ),
    **{name: _stream(*told) for name, told in STREAMS.items()},
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
        for case in (*ADAPTIVE_CASES, *PERSON_CASES, *STREAM_CASES.values())
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
    Case("adaptive", MANIFOLDS[space](k=5), BUDGETS[kind], Transcripts.sensitivity)
    for space, kind in ADAPTIVE
)
PERSON_CASES = (
    Case("persons", MANIFOLDS["spd-log-euclidean"](k=5), BUDGETS["gdp"], Transcripts.sensitivity),
    Case(
        "persons in 2 classes",
        MANIFOLDS["spd-affine-invariant"](k=5),
        BUDGETS["gdp"],
        Transcripts.sensitivity,
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
}
"""The first night's budget is large because its fault is small: 1.36 times the claim."""
