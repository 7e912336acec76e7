"""Figures: plain functions from a table of results to a chart.

    style     colours, axes, the `Figure` record, the page's script
    curves    error or time against budget or size: scales, panels and captions are its parts
    bars      the bound and its tightness, time per step
    printed   what a paper prints, and ours
    matrices  a released mean as correlations
    accuracies what classifiers from private means tell right
    outlines  closed outlines, private and true
    timelines what was read of released means, run after run, with bands
    montage   sample tiles of public images

Each chart is a static SVG and the Vega-Lite specification of the same picture. Next on the path:
`pipeline.report`.
"""

from pipeline.figures.accuracies import accuracies
from pipeline.figures.bars import bars, steps, tightness
from pipeline.figures.curves import curves
from pipeline.figures.matrices import matrices
from pipeline.figures.montage import montage
from pipeline.figures.outlines import outlines
from pipeline.figures.panels import class_titles
from pipeline.figures.printed import printed_numbers
from pipeline.figures.style import (
    PALETTE,
    Figure,
    digits,
    javascript,
    listing,
    number,
    own_ids,
)
from pipeline.figures.timelines import Scale, comparison, timeline
from pipeline.privacy import letter

__all__ = [
    "PALETTE",
    "Figure",
    "Scale",
    "accuracies",
    "bars",
    "class_titles",
    "comparison",
    "curves",
    "digits",
    "javascript",
    "letter",
    "listing",
    "matrices",
    "montage",
    "number",
    "outlines",
    "own_ids",
    "printed_numbers",
    "steps",
    "tightness",
    "timeline",
]
