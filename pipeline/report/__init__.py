"""Report: what the experiments wrote, on HTML pages that open anywhere and call nobody.

    sources    the files a report may read
    findings   what was found, in sentences
    content    from a run to what each reportlet shows
    page       sections, reportlets, templates
    standing   what became of each published statement
    site       the page of one experiment, or an index and a page each
    release    the page of a release, from the committed document alone
    history    the page of all releases of a population, from their committed documents alone
    several    the pages of releases compared and combined, from their documents alone

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
