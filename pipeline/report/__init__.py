"""Report: what the experiments wrote, on HTML pages that open anywhere and call nobody.

    page       a declared page, filled and drawn by templates into one file
    runs       what an experiment left on disk
    findings   what rows prove, and what was found, in sentences
    run_page   of an experiment, with its blocks of numbers
    split      of how its series split their budget
    readings   what released means say in words, and where the truth is

    release_page   of a release or a night of a stream, from the committed document alone
    check_page     of what a release would be, before it is paid, in the clear
    methods        what a paper says of it, and cites

Titles, sections, their numbers, blocks, order and captions stand in ``reports/report.toml``, the
looks in ``reports/templates`` and ``reports/style.css``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
