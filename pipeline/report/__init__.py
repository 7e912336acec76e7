"""Report: what the experiments wrote, on HTML pages that open anywhere and call nobody.

    page       a declared page, filled and drawn by templates into one file
    runs       what an experiment left on disk
    findings   what rows prove, and what was found, in sentences
    run_page   of an experiment, with its blocks of numbers
    split      of how its series split their budget
    readings   what released means say in words, and where the truth is

    release_page   of a release or a night of a stream, from the committed document alone
    history_page   of all releases of a population, from their documents alone
    check_page     of what a release would be, before it is paid, in the clear
    several_page   of releases compared, combined, harmonised; of local images beside one
    methods        what a paper says of it, and cites

Titles, sections, their numbers, blocks, order and captions stand in ``reports/report.toml``, the
looks in ``reports/templates`` and ``reports/style.css``.
"""

from covdp.report.check_page import build_check as build_check
from covdp.report.page import table_of as table_of
from covdp.report.release_page import build_release_report as build_release_report
from covdp.report.release_page import verdict as verdict
from covdp.report.run_page import bound_in_words as bound_in_words
from covdp.report.run_page import build_report as build_report
from covdp.report.run_page import headline_of as headline_of
from covdp.report.runs import FinishedRun as FinishedRun
from covdp.report.runs import load_run as load_run
from covdp.report.runs import load_runs as load_runs
