"""Where the numbers of the adaptive mean come from, and how much hangs on them.

    python -m tests.tools.tuning [--quick] [--factors | --ranges | --openings] [--data-root DIR]
                           [--json FILE] [word …]
    python -m tests.tools.tuning --scales

``images.py`` names the public images; ``measured.py`` prints what can be measured on them beside
the number in the code; ``numbers.py`` lists every number that can only be tried; ``flatness.py``
tries each at other values; ``factors.py`` makes the README's tables of errors; ``ranges.py`` counts
how often they are what `covdp plan` foresees; ``scales.py`` makes the prior's file of scales.
Nothing is downloaded, and nothing in `pipeline` imports this. On two idle cores it takes some
minutes, with ``--quick`` less than one.
"""
