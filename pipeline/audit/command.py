"""`covdp audit`: run the cases with a progress bar, write the table, show the tightest bounds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.markup import escape
from rich.table import Column, Table

from pipeline import __version__
from pipeline.audit.bounds import SQUARED_MU
from pipeline.audit.cases import all_cases
from pipeline.audit.controls import CONTROLS
from pipeline.audit.trials import FALSE_ALARM, AuditFinding, audit
from pipeline.files import make_folder, project_root
from pipeline.privacy import main_parameter
from pipeline.progress import counted
from pipeline.results.tables import AUDIT_SCHEMA, write_audit


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
) -> AuditRun:
    """Audit all mechanisms, or one, and write ``OUT/audit/audit.parquet``.

    Results go to ``reports/output`` when `out` is left out; with `controls`, mechanisms broken on
    purpose are audited too. ``good`` is False when a claim is violated, or one of those was not
    caught.

    Raises
    ------
    ConfigError
        For an unknown mechanism, too few trials or a negative seed, before anything is drawn.
    OutputError
        When the folder cannot be written, before anything is drawn.
    """
    cases = [*all_cases(mechanism), *(CONTROLS if controls else ())]
    found = audit(cases, trials=trials, seed=seed)
    root = (project_root() or Path.cwd()) / "reports" / "output"
    path = make_folder((out or root) / "audit") / "audit.parquet"
    by_case = []
    with counted("auditing", len(cases), "cases") as tick:
        for group in found:
            fault = group[0].case.fault
            by_case.append((max(group, key=_tightness),) if fault else group)
            tick(1)
    findings = [finding for group in by_case for finding in group]
    metadata = {"seed": str(seed), "false_alarm": str(FALSE_ALARM), "version": __version__}
    rows = columns(findings)
    write_audit(path, rows, metadata=metadata)
    claims = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    tightest = [finding for group in by_case for finding in _tightest(group)]
    good = all(finding.good for finding in findings)
    every = _table(findings, "Audit: every bound")
    return AuditRun(path, _table(tightest, TIGHTEST), every, claims, good)


def _tightness(finding: AuditFinding) -> float:
    return finding.tightness


def _tightest(group: Sequence[AuditFinding]) -> list[AuditFinding]:
    """Return the tightest bound from counts, and what is exact beside it."""
    bounds = [finding for finding in group if not finding.exact]
    exact = [finding for finding in group if finding.exact]
    return [*([max(bounds, key=_tightness)] if bounds else []), *exact]


TIGHTEST = "Audit: the tightest lower bound of each case"


def columns(findings: Sequence[AuditFinding]) -> dict[str, list[Any]]:
    """Return the columns of `AUDIT_SCHEMA`."""
    rows = [
        (
            finding.case.mechanism,
            finding.case.manifold.name,
            finding.case.manifold.dim,
            finding.case.sampler,
            finding.case.fault,
            finding.case.budget.name,
            str(finding.case.budget),
            main_parameter(finding.case.budget),
            finding.case.sensitivity,
            finding.sigma,
            finding.trials,
            finding.claim.quantity,
            finding.claim.delta,
            finding.lower,
            finding.claim.value,
            finding.tightness,
            finding.verdict,
            finding.seconds,
        )
        for finding in findings
    ]
    return {
        name: list(column)
        for name, column in zip(AUDIT_SCHEMA, zip(*rows, strict=True), strict=True)
    }


def _table(findings: Sequence[AuditFinding], title: str) -> Table:
    """Return a table of bounds beside what is claimed; it fits in 80 columns."""
    table = Table(
        "guarantee",
        *(Column(head, vertical="bottom") for head in ("at least", "claimed", "tight", "verdict")),
        title=title,
        caption=(
            f"All lower bounds hold together with probability 1 − {FALSE_ALARM:g}. A bound above "
            "its claim proves a fault; a bound below it proves nothing. Tight: one over the other. "
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
