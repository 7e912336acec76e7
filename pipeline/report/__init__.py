"""Report: what the experiments wrote, on HTML pages that open anywhere and call nobody.

    runs       what an experiment left on disk
    evidence   what rows prove, with reasons and covering; claims, the paper beside us
    findings   what was found, each a finding, in sentences
    content    from a run to what each reportlet shows: with coverage, gaps, listed, usefulness
    methods    what a paper says of it, with methods_of_experiment, methods_of_runs and
               methods_of_release, from references
    page       sections, reportlets, templates
    standing   what became of each published statement
    site       the page of one experiment, or an index and a page each

    release_page   of a release, from the committed document alone; release_parts, release_regions
    night_page     of a night of a stream, likewise
    history_page   of all releases of a population, from their documents alone; history_parts
    several_page   of releases compared and combined, from their documents alone; several_parts

Order and captions stand in ``reports/report.toml``, the looks in ``reports/templates`` and
``reports/style.css``.
"""

from pipeline.report.history_page import build_history
from pipeline.report.release_page import build_release_report
from pipeline.report.several_page import build_combination, build_comparison
from pipeline.report.site import build_report

__all__ = [
    "build_combination",
    "build_comparison",
    "build_history",
    "build_release_report",
    "build_report",
]
