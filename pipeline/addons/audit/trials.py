"""Running an audit: draw, score, bound, compare with the claim; the table of `covdp audit`.

In: `Case` records. Out: `AuditFinding` records, one for each claim, and the table of them,
``OUT/audit/audit.parquet``.
"""

import math
import re
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

from covdp import __version__
from covdp.addons.audit.attacks import differ, edges, replayed_draws
from covdp.addons.audit.bounds import (
    NOISE,
    SQUARED_MU,
    STATED_COST,
    Claim,
    Law,
    claims,
    cost,
    epsilon_shown,
    lower_bounds,
    mu_shown,
    squared_mu,
)
from covdp.addons.audit.cases import CONTROLS, Case, all_cases
from covdp.addons.audit.noise import Residuals, noise_p_value, transcript_residuals
from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.files import make_folder
from covdp.mechanisms import MECHANISMS
from covdp.parallel import workers
from covdp.privacy import RaoDP, main_parameter
from covdp.progress import counted
from covdp.results.tables import AUDIT_SCHEMA, to_arrow, write_arrow

FALSE_ALARM = 1e-6
"""Probability that sound code fails an audit: that any of its bounds is wrong, or any noise is
taken to be other than it is, all of them together."""
TESTED_OUTPUTS = 20_000
"""Most outputs of either law whose noise is tested, coordinate by coordinate."""
TRIALS = 100_000
"""Draws from either law, where no number is asked for."""
LEAST_TRIALS = 1000
"""Fewest draws from either law that make sense."""


ROWS_EXPLAINED = {
    SQUARED_MU: "Rows of μ² are exact, the largest of all transcripts that were replayed on both "
    "data sets.",
    STATED_COST: "Stated: the cost of the noise's scale by the proven sensitivity.",
    NOISE: "Noise: the p-value of a test of each coordinate and step against its law; there tight "
    "is the ratio of the logarithms.",
}
"""Sentence on the rows of a quantity."""
EXACT_SLACK = 1e-9
"""Largest share by which the rounding of a sum may carry an exact μ² above its claim."""


@dataclass(frozen=True)
class AuditFinding:
    """One claim beside what the audit saw.

    Attributes
    ----------
    case : Case
        Audited case.
    sigma : float
        Scale of the noise that was drawn, of transcripts that of the last step.
    trials : int
        Draws from either law.
    claim : Claim
        The true value is claimed to be at most ``claim.value``.
    lower : float
        The true value is at least this, see `FALSE_ALARM`; of the μ² of transcripts the largest; of
        noise −log₁₀ of its p-value.
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
        """True if `lower` is worked out of transcripts, and is no bound from counts."""
        return self.claim.quantity in (SQUARED_MU, STATED_COST)

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
        """True if a mechanism is within its claim, or a fault was caught."""
        return self.verdict not in ("VIOLATED", "MISSED")


def audit(
    cases: Sequence[Case], *, trials: int = TRIALS, seed: int = 0
) -> Iterator[tuple[AuditFinding, ...]]:
    """Yield the findings of each case in turn: one for each claim, or the tightest for a fault.

    Then come, of a case that has transcripts, their exact μ² and the stated one, and last, where
    the law of the noise is known, whether it has that law. All values hold together with
    probability at least 1 − `FALSE_ALARM` (Bonferroni over their number). A case has its own random
    stream, which depends on `seed` and its name only, but for noise from the system's entropy.

    Parameters
    ----------
    cases : sequence of Case
        Cases to audit.
    trials : int
        Number of draws on each of the two data sets.
    seed : int
        Seed of all random streams.

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
            f"{trials} and {seed}; the default is {TRIALS} and 0"
        )
    alpha = FALSE_ALARM / sum(len(_promised(case, 1.0)) for case in cases)
    return [(case, trials, seed, alpha) for case in cases]


def _promised(case: Case, alpha: float) -> list[Claim]:
    """Return what is promised of a case: by its budget, of its transcripts, and of its noise."""
    promised = list(claims(case.budget))
    if case.replayed:
        exact = squared_mu(case.budget)
        promised += [Claim(SQUARED_MU, math.nan, exact), Claim(STATED_COST, math.nan, exact)]
    elif not isinstance(case.budget, RaoDP):
        promised.append(Claim(STATED_COST, math.nan, main_parameter(case.budget)))
    if case.tested:
        promised.append(Claim(NOISE, math.nan, -math.log10(alpha)))
    return promised


class _Shown(NamedTuple):
    """Scores on either side, σ of the last step, exact values, and a p-value of the noise."""

    left: FloatArray
    right: FloatArray
    sigma: float
    exact: list[float]
    p_value: float


def _audit_case(case: Case, trials: int, seed: int, alpha: float) -> tuple[AuditFinding, ...]:
    """Draw from both laws of one case and compare what they show with its claims."""
    start = time.perf_counter()
    honest = case.calibrate()
    drawn = honest if case.broken is None else case.broken(case)
    size = case.size(trials)
    rng = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    if case.replayed:
        seen = _show_transcripts(case, drawn, size, rng, alpha)
    else:
        seen = _show_outputs(case, honest, drawn, size, rng, alpha)
    measures = [
        mu_shown if claim.quantity == "mu" else epsilon_shown(claim.delta)
        for claim in claims(case.budget)
    ]
    shown = [*lower_bounds(seen.left, seen.right, measures, alpha=alpha), *seen.exact]
    shown += [-math.log10(seen.p_value)] if case.tested else []
    seconds = time.perf_counter() - start
    findings = [
        AuditFinding(case, seen.sigma, size, claim, lower, seconds)
        for claim, lower in zip(_promised(case, alpha), shown, strict=True)
    ]
    return tuple(_tightest(findings) if case.fault else findings)


def _show_outputs(
    case: Case, honest: Any, drawn: Any, size: int, rng: np.random.Generator, alpha: float
) -> _Shown:
    """Return what outputs of both data sets show."""
    family, budget = MECHANISMS[case.mechanism], case.budget
    pair, tell = family.neighbours(honest), family.residuals

    def points(many: int) -> list[Any]:
        return [case.outputs(drawn, center, pair.base, many, rng) for center in pair[:2]]

    def noise(outputs: list[Any]) -> Residuals:
        assert tell is not None
        both = zip(outputs, pair[:2], strict=True)
        values = [tell(honest, y[:TESTED_OUTPUTS], center, pair.base) for y, center in both]
        return Residuals(np.concatenate(values), (values[0].shape[1],))

    first, p_value = points(size), 1.0
    if tell is not None:
        p_value = noise_p_value(noise(first), lambda many: noise(points(many // 2)), alpha=alpha)
    left, right = map(pair.score, first)
    stated = list[float]()
    if not isinstance(budget, RaoDP):  # by the price, which is not the function that scales noise
        given = {
            name: getattr(budget, name) for name in ("delta", "alpha") if hasattr(budget, name)
        }
        price = family.price(drawn.sigma, case.sensitivity, type(budget), **given)
        stated.append(main_parameter(price))
    return _Shown(left, right, drawn.sigma, stated, p_value)


def _show_transcripts(
    case: Case, drawn: Any, size: int, rng: np.random.Generator, alpha: float
) -> _Shown:
    """Return what transcripts of both data sets show."""
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
    found = cost(*laws, alpha=alpha, others=others)
    noise = transcript_residuals([laws[0], laws[1].turned], rng)

    def fresh(many: int) -> Residuals:
        sides = [drawn.transcripts(side, many // 2, rng) for side in drawn.sides]
        return transcript_residuals([Law.of(side, side) for side in sides], rng, noise.widths)

    stated = max(drawn.stated(own) for side, pair in enumerate(pairs) for own in pair[side])
    exact = [math.inf if differ(pairs) else found.squared_mu, stated]
    return _Shown(left, right, found.sigma, exact, noise_p_value(noise, fresh, alpha=alpha))


class AuditRun(NamedTuple):
    """Result of an audit.

    The file that was written; a table of the tightest bound of each case, and one of all bounds;
    the file's rows; whether everything is as it should be.

    Attributes
    ----------
    path : Path
        Path of the file that was written.
    table : Table
        Tightest bound of each case.
    every : Table
        All bounds.
    claims : list of dict of str to object
        Rows of the file.
    good : bool
        True if everything is as it should be.
    """

    path: Path
    table: Table
    every: Table
    claims: list[dict[str, Any]]
    good: bool


def run_audit(
    mechanism: str | None = None,
    *,
    trials: int = TRIALS,
    out: Path | None = None,
    seed: int = 0,
    controls: bool = False,
    runner: str = "threads",
) -> AuditRun:
    """Audit all mechanisms, or one, and write ``OUT/audit/audit.parquet``.

    The file's name has what was asked for: ``audit-ewg-seed-7.parquet``. Results go to
    ``covdp-output`` when `out` is left out; with `controls`, mechanisms broken on purpose are
    audited too. ``good`` is False when a claim is violated, or one of those was not caught. Cases
    are audited side by side, see `covdp.parallel.workers`.

    Parameters
    ----------
    mechanism : str, optional
        Name in `MECHANISMS`, or "adaptive"; all when left out.
    trials : int
        Number of draws on each of the two data sets.
    out : Path, optional
        Folder for results; ``covdp-output`` when left out.
    seed : int
        Seed of all random streams.
    controls : bool
        True to audit mechanisms that are broken on purpose as well.
    runner : str
        Runner of the cases, as in `covdp.parallel.workers`.

    Returns
    -------
    AuditRun
        Path of the file, tables of bounds, rows, and the verdict.

    Raises
    ------
    ConfigError
        For an unknown mechanism, too few trials or a negative seed, before anything is drawn.
    OutputError
        When the folder cannot be written, before anything is drawn.
    """
    cases = [*all_cases(mechanism), *(CONTROLS if controls else ())]
    calls = _calls(cases, trials, seed)[::-1]  # the most costly first
    asked = [mechanism] if mechanism else []
    asked += [f"trials {trials}"] if trials != TRIALS else []
    asked += [f"seed {seed}"] if seed else []
    name = re.sub(r"\W+", "-", " ".join(["audit", *asked, *["controls"] * controls]))
    root = Path.cwd() / "covdp-output"
    path = make_folder((out or root) / "audit") / f"{name}.parquet"
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
    """Return the tightest bound from counts, and the other values of transcripts and faults.

    Of outputs whose noise is as it should be the bound tells more.
    """
    bounds = [finding for finding in group if finding.claim.quantity in ("epsilon", "mu")]
    other = [
        finding
        for finding in group
        if finding not in bounds and (finding.case.replayed or finding.verdict != "ok")
    ]
    return [*([max(bounds, key=attrgetter("tightness"))] if bounds else []), *other]


def row(finding: AuditFinding) -> dict[str, Any]:
    """Return the row of a finding in `AUDIT_SCHEMA`.

    Parameters
    ----------
    finding : AuditFinding
        Finding of one claim or fault.
    """
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
    there = {finding.claim.quantity for finding in findings}
    table = Table(
        "guarantee",
        *(Column(head, vertical="bottom") for head in ("at least", "claimed", "tight", "verdict")),
        title=title,
        caption=(
            f"Sound code fails an audit with probability {FALSE_ALARM:g} at most, all rows "
            "together. A bound above its claim proves a fault. A bound below it proves nothing: "
            "with few draws each bound is low. Tight: the bound over the claim."
            f"{''.join(f' {text}' for name, text in ROWS_EXPLAINED.items() if name in there)}"
        ),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    last = ""
    for finding in findings:
        case, claim = finding.case, finding.claim
        group = f"{case.mechanism}, {case.manifold.name}, {case.fault or case.sampler}"
        names = {SQUARED_MU: "μ²", STATED_COST: "stated", "epsilon": f"ε(δ={claim.delta:g})"}
        quantity = {"mu": "μ", NOISE: "noise", **names}[claim.quantity]
        relation = f"= {finding.lower:.7f}" if finding.exact else f"≥ {finding.lower:.3f}"
        claimed = f"{claim.value:.3f}"
        if claim.quantity == NOISE:
            relation, claimed = f"p = {10**-finding.lower:.1g}", f"{10**-claim.value:.1g}"
        labelled = finding.verdict == "label"
        table.add_row(
            f"  {case.budget}" if group == last else f"[bold]{escape(group)}[/]\n  {case.budget}",
            f"{quantity} {relation}",
            "–" if labelled else claimed,
            "–" if labelled else f"{finding.tightness:.2f}",
            finding.verdict,
        )
        last = group
    return table
