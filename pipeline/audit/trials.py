"""Running an audit: draw, score, bound, compare with the claim.

In: `Case` records. Out: `AuditFinding` records, one for each claim. Next: ``controls.py``.
"""

import math
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.audit.bounds import (
    SQUARED_MU,
    Claim,
    claims,
    epsilon_shown,
    exact_claim,
    lower_bounds,
    mu_shown,
)
from pipeline.audit.cases import Case
from pipeline.audit.replay import cost, log_ratio
from pipeline.errors import ConfigError

FALSE_ALARM = 1e-6
"""Probability that any bound of one audit is wrong, all of them together."""
LEAST_TRIALS = 1000
"""Fewest draws from either law that make sense."""


EXACT_SLACK = 1e-9
"""By how much, relatively, the rounding of a sum may carry an exact μ² above its claim."""


@dataclass(frozen=True)
class AuditFinding:
    """One claim beside what the audit saw.

    Attributes
    ----------
    case : Case
        What was audited.
    sigma : float
        Scale of the noise that was drawn, of transcripts that of the last step.
    trials : int
        Draws from either law.
    claim : Claim
        The true value is claimed to be at most ``claim.value``.
    lower : float
        The true value is at least this, see `FALSE_ALARM`; of the μ² of transcripts the largest.
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
    def exact(self) -> bool:
        """Whether `lower` is worked out of transcripts, and not a bound from counts."""
        return self.claim.quantity == SQUARED_MU

    @property
    def tightness(self) -> float:
        """Lower bound / claim; NaN where nothing is claimed."""
        return self.lower / self.claim.value

    @property
    def verdict(self) -> str:
        """One of "ok" and "VIOLATED"; "caught" and "MISSED" for a fault; "label" for Rao DP."""
        if math.isnan(self.claim.value):
            return "label"
        above = self.tightness > (1.0 + EXACT_SLACK if self.exact else 1.0)
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

    Last comes, of a case that has transcripts, their exact μ². All values hold together with
    probability at least 1 − `FALSE_ALARM` (Bonferroni over their number). A case has its own random
    stream, which depends on `seed` and its name only.

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
    alpha = FALSE_ALARM / sum(len(claims(case.budget)) + case.replayed for case in cases)
    return (_audit_case(case, trials, seed, alpha) for case in cases)


def _audit_case(case: Case, trials: int, seed: int, alpha: float) -> tuple[AuditFinding, ...]:
    """Draw from both laws of one case and compare what they show with its claims."""
    start = time.perf_counter()
    honest = case.calibrate()
    pair = case.neighbours(honest)
    drawn = honest if case.broken is None else case.broken(case)
    size = case.size(trials)
    rng = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    released = [
        drawn.sample(center, base=pair.base, size=size, rng=rng).points
        for center in (pair.left, pair.right)
    ]
    steps = case.steps(drawn, pair, released)
    if case.replayed and case.attack is None:
        left, right = (np.array([log_ratio(one) for one in law]) for law in steps)
    else:
        left, right = (pair.score(law) for law in released)
    promised = claims(case.budget)
    measures = [
        mu_shown if claim.quantity == "mu" else epsilon_shown(claim.delta) for claim in promised
    ]
    bounds = lower_bounds(left, right, measures, alpha=alpha)
    exact = [cost(*steps, alpha=alpha)] if case.replayed else []
    sigma = exact[0].sigma if exact else drawn.sigma
    seconds = time.perf_counter() - start
    found = [
        AuditFinding(case, sigma, size, claim, bound, seconds)
        for claim, bound in zip(promised, bounds, strict=True)
    ]
    if case.fault:
        found = [max(found, key=lambda finding: finding.tightness)]
    found += [
        AuditFinding(case, sigma, size, exact_claim(case.budget), one.squared_mu, seconds)
        for one in exact
    ]
    return tuple(found)
