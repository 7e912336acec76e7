"""Figures: plain functions from a table of results to a chart.

    style      colours, numbers and lists in words, the `Figure` record; scales, panels, shapes
    curves     error or time against budget or size, with captions computed from what is shown; the
               bound and its tightness, time per step; what a paper prints, and ours
    timelines  what was read of released means, run after run, with bands
    pictures   released means as correlations, outlines, sample tiles of public images

Each chart is a static SVG and the Vega-Lite specification of the same picture, which stands in
``reports/charts.json`` but for its values. Next on the path: `pipeline.report`.
"""

from pipeline.figures.curves import bars as bars
from pipeline.figures.curves import class_titles as class_titles
from pipeline.figures.curves import curves as curves
from pipeline.figures.curves import printed_numbers as printed_numbers
from pipeline.figures.curves import steps as steps
from pipeline.figures.curves import tightness as tightness
from pipeline.figures.pictures import matrices as matrices
from pipeline.figures.pictures import montage as montage
from pipeline.figures.pictures import outlines as outlines
from pipeline.figures.style import PALETTE as PALETTE
from pipeline.figures.style import Figure as Figure
from pipeline.figures.style import definition_words as definition_words
from pipeline.figures.style import digits as digits
from pipeline.figures.style import firm as firm
from pipeline.figures.style import grouped as grouped
from pipeline.figures.style import javascript as javascript
from pipeline.figures.style import listing as listing
from pipeline.figures.style import number as number
from pipeline.figures.style import own_ids as own_ids
from pipeline.figures.style import words as words
from pipeline.figures.timelines import Scale as Scale
from pipeline.figures.timelines import comparison as comparison
from pipeline.figures.timelines import timeline as timeline
from pipeline.privacy import letter as letter
