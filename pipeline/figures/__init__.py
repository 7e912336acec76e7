"""Figures: plain functions from a table of results to a chart.

    style      colours, numbers and lists in words, the `Figure` record; scales, panels, shapes
    curves     error or time against budget or size, with captions computed from what is shown; the
               bound and its tightness, time per step
    timelines  what was read of released means, run after run, with bands
    pictures   released means as correlations, sample tiles of public images
    texture    a random picture with the contrast, smoothness and direction of a released mean

Each chart is a static SVG and the Vega-Lite specification of the same picture, which stands in
``reports/charts.json`` but for its values. Next on the path: `covdp.report`.
"""

from covdp.figures.curves import bars as bars
from covdp.figures.curves import class_titles as class_titles
from covdp.figures.curves import curves as curves
from covdp.figures.curves import steps as steps
from covdp.figures.curves import tightness as tightness
from covdp.figures.pictures import matrices as matrices
from covdp.figures.pictures import montage as montage
from covdp.figures.style import PALETTE as PALETTE
from covdp.figures.style import Figure as Figure
from covdp.figures.style import definition_words as definition_words
from covdp.figures.style import digits as digits
from covdp.figures.style import firm as firm
from covdp.figures.style import grouped as grouped
from covdp.figures.style import javascript as javascript
from covdp.figures.style import listing as listing
from covdp.figures.style import number as number
from covdp.figures.style import own_ids as own_ids
from covdp.figures.style import words as words
from covdp.privacy import letter as letter
