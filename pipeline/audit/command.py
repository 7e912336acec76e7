"""`covdp audit`: run the cases with a progress bar, write the table, show the tightest bounds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Column, Table

from pipeline import __version__
from pipeline.audit.cases import all_cases
from pipeline.audit.controls import CONTROLS
from pipeline.audit.run import FALSE_ALARM, Finding, audit
from pipeline.files import make_folder, project_root
from pipeline.privacy import main_parameter
from pipeline.results.audit import AUDIT_SCHEMA, write_audit


class AuditRun(NamedTuple):
    """The file that was written, the table to show, and whether everything is as it should be."""

    path: Path
    table: Table
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

    Parameters
    ----------
    mechanism : str, optional
        A key of `MECHANISMS`.
    trials : int
        Draws from either law of each pair.
    out : Path, optional
        Folder of the results; ``reports/output`` when left out.
    seed : int
        Seed of all random streams.
    controls : bool
        Also audit mechanisms broken on purpose, all of `CONTROLS`.

    Returns
    -------
    AuditRun
        ``good`` is False when a claim is violated, or a broken mechanism was not caught.

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
    progress = track(
        found, "auditing", total=len(cases), console=Console(stderr=True), transient=True
    )
    by_case = list(progress)
    findings = [finding for group in by_case for finding in group]
    metadata = {"seed": str(seed), "false_alarm": str(FALSE_ALARM), "version": __version__}
    write_audit(path, columns(findings), metadata=metadata)
    return AuditRun(path, _table(by_case), all(finding.good for finding in findings))


def columns(findings: Sequence[Finding]) -> dict[str, list[Any]]:
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


def _table(by_case: Sequence[Sequence[Finding]]) -> Table:
    """Return a table with the tightest bound of each case."""
    heads = ("manifold", "drawn", "guarantee", "at least", "claimed", "tightness", "verdict")
    table = Table(
        Column("mechanism", no_wrap=True),
        *heads,
        title="Audit: the tightest lower bound of each case",
        caption=(
            f"All lower bounds hold together with probability 1 − {FALSE_ALARM:g}. A bound above "
            "its claim proves a fault; a bound below it proves nothing."
        ),
    )
    for findings in by_case:
        tightest = max(findings, key=lambda finding: finding.tightness)
        case, claim = tightest.case, tightest.claim
        quantity = "μ" if claim.quantity == "mu" else f"ε(δ = {claim.delta:g})"
        labelled = tightest.verdict == "label"
        table.add_row(
            case.mechanism,
            case.manifold.name,
            case.fault or case.sampler,
            str(case.budget),
            f"{quantity} ≥ {tightest.lower:.3f}",
            "–" if labelled else f"{claim.value:.3f}",
            "–" if labelled else f"{tightest.tightness:.2f}",
            tightest.verdict,
        )
    return table
