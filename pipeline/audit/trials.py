"""Running an audit: draw, score, bound, compare with the claim.

In: `Case` records. Out: `AuditFinding` records, one for each claim. Next: ``controls.py``.
"""

import math
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.audit.bounds import epsilon_shown, lower_bounds, mu_shown
from pipeline.audit.cases import Case, Claim, claims
from pipeline.errors import ConfigError

FALSE_ALARM = 1e-6
"""Probability that any bound of one audit is wrong, all of them together."""
LEAST_TRIALS = 1000
"""Fewest draws from either law that make sense."""


@dataclass(frozen=True)
class AuditFinding:
    """One claim beside what the audit saw.

    Attributes
    ----------
    case : Case
        What was audited.
    sigma : float
        Scale of the noise that was drawn.
    trials : int
        Draws from either law.
    claim : Claim
        The true value is claimed to be at most ``claim.value``.
    lower : float
        The true value is at least this, see `FALSE_ALARM`.
    seconds : float
        Wall-clock time of the whole case.
    """

    case: Case
    sigma: float
    trials: int
    claim: Claim
    lower: float
    seconds: float

    @property
    def tightness(self) -> float:
        """Lower bound / claim; NaN where nothing is claimed."""
        return self.lower / self.claim.value

    @property
    def verdict(self) -> str:
        """One of "ok" and "VIOLATED"; "caught" and "MISSED" for a fault; "label" for Rao DP."""
        if math.isnan(self.claim.value):
            return "label"
        above = self.lower > self.claim.value
        if self.case.fault:
            return "caught" if above else "MISSED"
        return "VIOLATED" if above else "ok"

    @property
    def good(self) -> bool:
        """Whether a mechanism is within its claim, or a fault was caught."""
        return self.verdict not in ("VIOLATED", "MISSED")


def audit(
    cases: Sequence[Case], *, trials: int = 100_000, seed: int = 0
) -> Iterator[tuple[AuditFinding, ...]]:
    """Yield the findings of each case in turn: one for each claim, or the tightest for a fault.

    All lower bounds hold together with probability at least 1 − `FALSE_ALARM` (Bonferroni over
    their number). A case has its own random stream, which depends on `seed` and its name only.

    Raises
    ------
    ConfigError
        For too few trials or a negative seed.
    """
    if trials < LEAST_TRIALS or seed < 0:
        raise ConfigError(
            f"an audit needs at least {LEAST_TRIALS} trials and a seed of 0 or more, found "
            f"{trials} and {seed}; the default is 100000 and 0"
        )
    alpha = FALSE_ALARM / sum(len(claims(case.budget)) for case in cases)
    return (_audit_case(case, trials, seed, alpha) for case in cases)


def _audit_case(case: Case, trials: int, seed: int, alpha: float) -> tuple[AuditFinding, ...]:
    """Draw from both laws of one case and compare what they show with its claims."""
    start = time.perf_counter()
    honest = case.calibrate()
    pair = case.neighbours(honest)
    drawn = honest if case.broken is None else case.broken(case)
    size = case.size(trials)
    rng = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    left, right = (
        pair.score(drawn.sample(center, base=pair.base, size=size, rng=rng).points)
        for center in (pair.left, pair.right)
    )
    promised = claims(case.budget)
    measures = [
        mu_shown if claim.quantity == "mu" else epsilon_shown(claim.delta) for claim in promised
    ]
    bounds = lower_bounds(left, right, measures, alpha=alpha)
    seconds = time.perf_counter() - start
    found = tuple(
        AuditFinding(case, drawn.sigma, size, claim, bound, seconds)
        for claim, bound in zip(promised, bounds, strict=True)
    )
    return (max(found, key=lambda finding: finding.tightness),) if case.fault else found
