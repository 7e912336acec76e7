"""Figures: plain functions from a table of results to a chart.

    style      colours, numbers and lists in words, the `Figure` record; scales, panels, shapes
    curves     error or time against budget or size, with captions computed from what is shown; the
               bound and its tightness, time per step; what a paper prints, and ours
    timelines  what was read of released means, run after run, with bands; accuracies by budget
    pictures   released means as correlations, outlines, sample tiles of public images

Each chart is a static SVG and the Vega-Lite specification of the same picture. Next on the path:
`pipeline.report`.
"""

from pipeline.figures.curves import bars, class_titles, curves, printed_numbers, steps, tightness
from pipeline.figures.pictures import matrices, montage, outlines
from pipeline.figures.style import (
    DEFINITIONS,
    PALETTE,
    Figure,
    digits,
    javascript,
    listing,
    number,
    own_ids,
)
from pipeline.figures.timelines import Scale, accuracies, comparison, timeline
from pipeline.privacy import letter

__all__ = [
    "DEFINITIONS",
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
