"""Figures: plain functions from a table of results to a chart.

    style     colours, axes, the `Figure` record, the page's script
    curves    error against budget, time against size
    bars      the bound and its tightness, time per step
    montage   sample tiles of public images

Each chart is a static SVG and the Vega-Lite specification of the same picture. Next on the path:
`pipeline.report`.
"""

from pipeline.figures.bars import bars, steps, tightness
from pipeline.figures.curves import error_against_budget, time_against_size
from pipeline.figures.matrices import matrices
from pipeline.figures.montage import montage
from pipeline.figures.style import (
    DEFINITIONS,
    PALETTE,
    Figure,
    digits,
    javascript,
    letter,
    listing,
    number,
    own_ids,
)

__all__ = [
    "DEFINITIONS",
    "PALETTE",
    "Figure",
    "bars",
    "digits",
    "error_against_budget",
    "javascript",
    "letter",
    "listing",
    "matrices",
    "montage",
    "number",
    "own_ids",
    "steps",
    "tightness",
    "time_against_size",
]
