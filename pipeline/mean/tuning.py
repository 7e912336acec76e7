"""Every number of the private mean that was set by hand: what it is, and what it trades.

None of them touches privacy: they choose where budget goes, where records are clipped and what a
noisy histogram is taken to say. ``python -m tests.tools.tuning`` prints the table of them: beside
each what `tiles`, PneumoniaMNIST and BreastMNIST say of it, or what other values cost there. What a
number has to show for itself beyond that table stands with it. The code reads them as
``tuning.NAME`` when it runs, so that a trial changes them here alone; no compiled loop reads one.
"""

from typing import NamedTuple

from pipeline.mean.plan import Shares

SHARES_WITH_LINE = Shares(0.18, (0.02, 0.02, 0.02), (0.02, 0.25, 0.49))
"""Shares of the budget with a contrast axis: the histograms' against those of the means."""
SHARES_WITHOUT_LINE = Shares(0.01, (0.02, 0.02), (0.15, 0.80))
"""The same without a contrast axis; not at its best, see the table."""

TYPICAL_LOG_VARIANCE = -5.0
"""ln of a typical variance over the largest possible one, where `Descriptor.typical` says none.

How far the prior's centre is from images of high contrast, against those of low contrast.
"""
SCALE_LOG_VARIANCE = 0.7
"""Scale of log-variances, of descriptors not in `SCALES_FILE`: noise in them against that in all
other coordinates."""
SCALE_OTHERS = 0.42
"""Scale of all other coordinates of such descriptors."""
LINE_STEP = 2.0
"""`Prior.step` where log-variances are coordinates: noise of the survey against its resolution."""
LEAST_DISTANCE = 0.45
"""`Prior.least` of images, over the expected root mean square size off the contrast axis.

Finer shells have more noise together, coarser ones say less of the radius.
"""
PRIOR_SD_RADIAL = 2.0
"""`Prior.doubt` of images, over the expected mean standard deviation off the contrast axis.

A surer prior has a smaller error where it is right, a larger one where it is wrong.
"""
FARTHEST_RATIO = 66.0
"""`Prior.farthest` of images, in units of `Prior.least`: bounds of overshoots against their noise.

Of stripes, boards, ramps, edges, single pixels and noise, some thousand kinds, seen from classes of
PneumoniaMNIST and `tiles` in all metrics, the farthest with `oct5` is 55 of them off the contrast
axis, with `grid9` 31; from classes of simple patterns some are at 66.
"""
BALL_LEAST = 100.0
"""Radius of a ball, of which nothing else is known, over its `Prior.least`."""
BALL_PRIOR_SD = 2.0
"""Radius of such a ball over its `Prior.doubt`."""
PRIOR_SD_LINE = 2.0
"""Standard deviation of the mean along the contrast axis, in steps of the prior.

On `tiles` it is 4, on PneumoniaMNIST and BreastMNIST 1: a surer prior has a smaller error where
it is right.
"""

LINE_RATIO = 1.8
"""Ratio of neighbouring bins along the contrast axis, outside of where records are expected."""
STEPS_BELOW = 10
"""Steps of that part below the prior's centre: more bins resolve more, and hold more noise."""
STEPS_ABOVE = 4
"""Steps of that part above it."""
SHELL_RATIO = 1.35
"""Ratio of neighbouring shells: resolution against noise."""
RADIUS_RATIO = 1.1
"""Ratio of neighbouring radii that are weighed against each other: accuracy against time."""
FAR_RATIO = 14.0
"""Records this many times `Prior.least` off the contrast axis are counted apart as outliers.

The nearer that is, the surer outliers are found, and the less the bins of the contrast axis
hold.
"""
STABLE_RATIO = 2.0
"""Outer shells this many times as far from their centre as it has moved hold the same records.

The less is asked, the longer the survey's counts are of use, and the oftener they mislead.
"""
CUTS_PER_STEP = 4
"""Places in a step along the contrast axis where an interval may end: accuracy against time."""
LINE_WEIGHT = 2.0
"""Length along the contrast axis that counts as one off it in the size of outliers."""

LOWEST_LEVEL = 0.3
"""Lowest level of a share, in units of the least noise.

Below the noise: several bins of few records each move the mean, though none is visible by itself.
"""
LEVEL_RATIO = 1.5
"""Ratio of neighbouring levels: accuracy against time."""
LEVEL_SD = 0.25
"""Standard deviation of a share around its level, relative to it: no gap between levels."""
SUM_CORRECTION_SD = 3.0
"""Standard deviations by which the sum of the shares is corrected at most."""
COUNT_DOUBT = 2.0
"""Times the variance of a sum of smoothed bins, as the count of a class whose size is secret.

The prior is not quite right: with 1 counts are beyond 3 of their deviations in 0.5 %, not in 0.3 %.
"""


class HmmPrior(NamedTuple):
    """Prior of a histogram.

    Attributes
    ----------
    first : float
        Probability that the first bin is filled.
    p_fill, p_refill, p_empty : float
        Probability that a bin is filled where none was before it, and after an empty one that came
        after a filled one; that it is empty after a filled one.
    level_decay : float
        A level is exp(−level_decay) as likely one rung farther away.
    separate_first : bool
        Whether the first bin says nothing of the others.
    """

    first: float
    p_fill: float
    p_refill: float
    p_empty: float
    level_decay: float
    separate_first: bool


LINE_PRIOR = HmmPrior(
    first=0.07, p_fill=0.06, p_refill=0.003, p_empty=0.15, level_decay=0.4, separate_first=True
)
"""Along the contrast axis; the first bin is that of featureless images.

Bins of 1 % of the records or more fill with 0.09 to 0.14 and empty with 0.19 to 0.33 in `tiles`,
PneumoniaMNIST and BreastMNIST, and none is apart from the others; bins of fewer empty more
rarely. The more rarely a tail ends, and the more likely bins are apart, the smaller is the error
of classes with a thin tail, and the larger that of all others; the more likely images are
featureless, the smaller is the error of classes with some, and the wider the regions of others.
"""
SHELL_PRIOR = HmmPrior(
    first=0.5, p_fill=0.002, p_refill=0.002, p_empty=0.2, level_decay=0.162, separate_first=False
)
"""Outwards from the centre; there they fill with 0 to 0.09 and empty with 0.15 to 0.18.

`p_fill` is small: outer shells are many and nearly always empty, and one that noise alone seems
to fill makes the clip as wide as the region.
"""
DISAGREEMENT_SD = 4.0
"""Standard deviations by which two counts of the same records may differ by chance.

Above it the later one is believed: less noise where records stay, against less error where the
survey missed some.
"""

FIRST_RADIUS = 2.5
"""Radius that the first round expects to clip to, in units of `Prior.least`."""
LENGTH_DISCOUNT = 0.6
"""What an interval's length costs, of what it would if its ends were as wide as its middle.

At 1 `tiles` tissue, which has a thin tail, has an error up to a tenth larger, and hardly smaller.
"""
CURVATURE_FRACTION = 0.17
"""Curvature that is assumed, as a share of the largest: SPD(k) is flat in many planes.

To be safe: that of the average plane of SPD(5) is 0.17.
"""
RADIAL_FLOOR = 0.25
"""Least share of the mean square size of records that is taken to be off the contrast axis.

It keeps regions from being too narrow where nearly all of it seems to be along the contrast axis.
"""
BIAS_AS_VARIANCE = 0.3
"""Share of the predicted squared bias that counts as noise in a mean's weight: trust in the newest
mean against trust in those before it."""
VARIANCE_RATIO = 10.0
"""Ratio by which a variance may differ from what the axes were made for, so that no noise makes a
direction collapse: narrow noise where records are narrow, against axes that follow noise."""
LARGEST_LOG_SCALE = 80.0
"""Largest ln τ by which a prior that was too sure is widened: beyond any that noise asks for."""
OVERSHOOT_SD = 1.0
"""Standard deviations above a mean overshoot that it may have, as regions and tests take it.

By itself that would be too little once in six; regions hold all the same in 9 of 10, as theirs is
the worst direction and there is noise besides. ``covdp reproduce ours-regions`` measures it.
"""
