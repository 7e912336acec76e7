"""Report: what the experiments wrote, on HTML pages that open anywhere and call nobody.

    page       a declared page, filled and drawn by templates into one file
    runs       what an experiment left on disk
    evidence   what rows prove; claims, statements judged
    findings   what was found, in sentences
    run_page   of an experiment; run_tables are its blocks of numbers
    site       the page of one experiment, or an index and a page each
    readings   what released means say in words, and where the truth is

    release_page   of a release or a night of a stream, from the committed document alone
    history_page   of all releases of a population, from their documents alone
    several_page   of releases compared and combined, from their documents alone
    harmonise_page of sites put on one scale
    match_page     of local images against a release: for their owner alone
    methods        what a paper says of it, and cites

Blocks, order and captions stand in ``reports/report.toml``, the looks in ``reports/templates``
and ``reports/style.css``.
"""

from pipeline.report.claims import judge, verdicts
from pipeline.report.harmonise_page import build_harmonise
from pipeline.report.history_page import build_history
from pipeline.report.match_page import (
    FARTHEST,
    MatchFiles,
    build_match,
    match_verdict,
    outside_cells,
)
from pipeline.report.page import build_page
from pipeline.report.release_page import build_release_report, verdict
from pipeline.report.runs import FinishedRun, load_run, load_runs
from pipeline.report.several_page import Together, build_together, probability, size_together
from pipeline.report.site import build_report

__all__ = [
    "FARTHEST",
    "FinishedRun",
    "MatchFiles",
    "Together",
    "build_harmonise",
    "build_history",
    "build_match",
    "build_page",
    "build_release_report",
    "build_report",
    "build_together",
    "judge",
    "load_run",
    "load_runs",
    "match_verdict",
    "outside_cells",
    "probability",
    "size_together",
    "verdict",
    "verdicts",
]
