"""Running an audit: draw, score, bound, compare with the claim; the table of `covdp audit`.

In: `Case` records. Out: `AuditFinding` records, one for each claim, and the table of them,
``OUT/audit/audit.parquet``.
"""

import math
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Column, Table

from pipeline import __version__
from pipeline.arrays import FloatArray
from pipeline.audit.attacks import edges, replayed_draws
from pipeline.audit.bounds import (
    SQUARED_MU,
    Claim,
    Cost,
    Law,
    claims,
    cost,
    epsilon_shown,
    exact_claim,
    lower_bounds,
    mu_shown,
)
from pipeline.audit.cases import CONTROLS, Case, all_cases
from pipeline.errors import ConfigError
from pipeline.files import make_folder
from pipeline.mechanisms import MECHANISMS
from pipeline.parallel import workers
from pipeline.privacy import main_parameter
from pipeline.progress import counted
from pipeline.results.tables import AUDIT_SCHEMA, to_arrow, write_arrow

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
    return (_audit_case(*call) for call in _calls(cases, trials, seed))


def _calls(cases: Sequence[Case], trials: int, seed: int) -> list[tuple[Case, int, int, float]]:
    """Return what each case is audited with; the last is the probability of error of its values."""
    if trials < LEAST_TRIALS or seed < 0:
        raise ConfigError(
            f"an audit needs at least {LEAST_TRIALS} trials and a seed of 0 or more, found "
            f"{trials} and {seed}; the default is 100000 and 0"
        )
    alpha = FALSE_ALARM / sum(len(_promised(case)) for case in cases)
    return [(case, trials, seed, alpha) for case in cases]


def _promised(case: Case) -> list[Claim]:
    """Return what the budget of a case promises, of transcripts about their exact μ² too."""
    return [*claims(case.budget), *([exact_claim(case.budget)] if case.replayed else [])]


def _audit_case(case: Case, trials: int, seed: int, alpha: float) -> tuple[AuditFinding, ...]:
    """Draw from both laws of one case and compare what they show with its claims."""
    start = time.perf_counter()
    honest = case.calibrate()
    drawn = honest if case.broken is None else case.broken(case)
    size = case.size(trials)
    rng = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    if case.replayed:
        left, right, (squared_mu, sigma) = _replayed_scores(case, drawn, size, rng, alpha)
        exact = [squared_mu]
    else:
        pair, exact, sigma = MECHANISMS[case.mechanism].neighbours(honest), [], drawn.sigma
        left, right = (
            pair.score(drawn.sample(center, base=pair.base, size=size, rng=rng).points)
            for center in (pair.left, pair.right)
        )
    measures = [
        mu_shown if claim.quantity == "mu" else epsilon_shown(claim.delta)
        for claim in claims(case.budget)
    ]
    shown = [*lower_bounds(left, right, measures, alpha=alpha), *exact]
    seconds = time.perf_counter() - start
    findings = [
        AuditFinding(case, sigma, size, claim, lower, seconds)
        for claim, lower in zip(_promised(case), shown, strict=True)
    ]
    return tuple(_tightest(findings) if case.fault else findings)


def _replayed_scores(
    case: Case, drawn: Any, size: int, rng: np.random.Generator, alpha: float
) -> tuple[FloatArray, FloatArray, Cost]:
    """Return the scores of transcripts of both data sets, and what they cost."""
    pairs = replayed_draws(drawn, size=size, rng=rng)
    laws = [Law.of(*pair) for pair in pairs]
    costs = np.concatenate([law.costs for law in laws]).sum(axis=1)
    released = [transcript for pair in pairs for transcript in pair[0]]
    others = [] if case.known else [edges(drawn, released[int(np.argmax(costs))])]
    score = case.score and partial(case.score, drawn)
    left, right = (
        np.array(list(map(score, *pair))) if score else law.log_ratios
        for law, pair in zip(laws, pairs, strict=True)
    )
    return left, right, cost(*laws, alpha=alpha, others=others)


class AuditRun(NamedTuple):
    """What an audit leaves.

    The file that was written; a table of the tightest bound of each case, and one of all bounds;
    the file's rows; whether everything is as it should be.
    """

    path: Path
    table: Table
    every: Table
    claims: list[dict[str, Any]]
    good: bool


def run_audit(
    mechanism: str | None = None,
    *,
    trials: int = 100_000,
    out: Path | None = None,
    seed: int = 0,
    controls: bool = False,
    runner: str = "threads",
) -> AuditRun:
    """Audit all mechanisms, or one, and write ``OUT/audit/audit.parquet``.

    Results go to ``covdp-output`` when `out` is left out; with `controls`, mechanisms broken on
    purpose are audited too. ``good`` is False when a claim is violated, or one of those was not
    caught. Cases are audited side by side, see `pipeline.parallel.workers`.

    Raises
    ------
    ConfigError
        For an unknown mechanism, too few trials or a negative seed, before anything is drawn.
    OutputError
        When the folder cannot be written, before anything is drawn.
    """
    cases = [*all_cases(mechanism), *(CONTROLS if controls else ())]
    calls = _calls(cases, trials, seed)[::-1]  # the most costly first
    root = Path.cwd() / "covdp-output"
    path = make_folder((out or root) / "audit") / "audit.parquet"
    groups = dict[str, tuple[AuditFinding, ...]]()
    with counted("auditing", len(cases), "cases") as tick, workers(runner) as unordered:
        for group in unordered(_audit_case, calls):
            case = group[0].case
            groups[case.name] = (max(group, key=attrgetter("tightness")),) if case.fault else group
            tick(1)
    by_case = [groups[case.name] for case in cases]
    findings = [finding for group in by_case for finding in group]
    metadata = {"seed": str(seed), "false_alarm": str(FALSE_ALARM), "version": __version__}
    rows = [row(finding) for finding in findings]
    columns = {name: [item[name] for item in rows] for name in AUDIT_SCHEMA}
    write_arrow(path, to_arrow(columns, AUDIT_SCHEMA), metadata)
    tightest = [finding for group in by_case for finding in _tightest(group)]
    good = all(finding.good for finding in findings)
    table = _table(tightest, "Audit: the tightest lower bound of each case")
    return AuditRun(path, table, _table(findings, "Audit: every bound"), rows, good)


def _tightest(group: Sequence[AuditFinding]) -> list[AuditFinding]:
    """Return the tightest bound from counts, and what is exact beside it."""
    bounds = [finding for finding in group if not finding.exact]
    exact = [finding for finding in group if finding.exact]
    return [*([max(bounds, key=attrgetter("tightness"))] if bounds else []), *exact]


def row(finding: AuditFinding) -> dict[str, Any]:
    """Return the row of a finding in `AUDIT_SCHEMA`."""
    case, claim = finding.case, finding.claim
    own = ("sigma", "trials", "lower", "tightness", "verdict", "seconds")
    return {
        "mechanism": case.mechanism,
        "manifold": case.manifold.name,
        "dimension": case.manifold.dim,
        "sampler": case.sampler,
        "fault": case.fault,
        "definition": case.budget.name,
        "guarantee": str(case.budget),
        "budget": main_parameter(case.budget),
        "sensitivity": case.sensitivity,
        "quantity": claim.quantity,
        "delta": claim.delta,
        "claim": claim.value,
        **{name: getattr(finding, name) for name in own},
    }


def _table(findings: Sequence[AuditFinding], title: str) -> Table:
    """Return a table of bounds beside what is claimed; it fits in 80 columns."""
    table = Table(
        "guarantee",
        *(Column(head, vertical="bottom") for head in ("at least", "claimed", "tight", "verdict")),
        title=title,
        caption=(
            f"All lower bounds hold together with probability 1 − {FALSE_ALARM:g}. A bound above "
            "its claim proves a fault; a bound below it proves nothing: of few draws it is low. "
            "Tight: one over the other. "
            "μ² is exact: the largest of all transcripts, replayed on both data sets."
        ),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    last = ""
    for finding in findings:
        case, claim = finding.case, finding.claim
        group = f"{case.mechanism}, {case.manifold.name}, {case.fault or case.sampler}"
        names = {"mu": "μ", SQUARED_MU: "μ²", "epsilon": f"ε(δ={claim.delta:g})"}
        quantity = names[claim.quantity]
        relation = f"= {finding.lower:.7f}" if finding.exact else f"≥ {finding.lower:.3f}"
        labelled = finding.verdict == "label"
        table.add_row(
            f"  {case.budget}" if group == last else f"[bold]{escape(group)}[/]\n  {case.budget}",
            f"{quantity} {relation}",
            "–" if labelled else f"{claim.value:.3f}",
            "–" if labelled else f"{finding.tightness:.2f}",
            finding.verdict,
        )
        last = group
    return table
