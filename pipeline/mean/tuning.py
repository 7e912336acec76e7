"""Every number of the private mean that was set by hand: what it is, and what it trades.

None of them touches privacy: they choose where budget goes, where records are clipped and what is
taken for noise. ``python -m tests.tools.tuning`` prints the table of them: beside
each what `tiles`, PneumoniaMNIST and BreastMNIST say of it, or what other values cost there. What a
number has to show for itself beyond that table stands with it. The code reads them as
``tuning.NAME`` when it runs, so that a trial changes them here alone; no compiled loop reads one.
"""

from covdp.mean.plan import Shares

SHARES_OF_MANY = Shares(0.08, 0.02, 0.03, 0.03, 0.84)
"""Shares of the budget."""
SHARES_WITHOUT_LINE = Shares(0.05, 0.02, 0.15, 0.03, 0.75)
"""The same without a contrast axis, where nothing is known of where records are in their ball."""
SHARES_OF_FEW = Shares(0.14, 0.01, 0.17, 0.07, 0.61)
"""The same where n·μ is below `FEW`·√d: more for where the centre is, less for the last mean."""
FEW = 24.0
"""See there; below it noise is wider than records are far from the first centre."""

TYPICAL_LOG_VARIANCE = -5.0
"""ln of a typical variance over the largest possible one, where `Descriptor.typical` says none.

How far the prior's centre is from images of high contrast, against those of low contrast.
"""
SCALE_LOG_VARIANCE = 0.7
"""Scale of log-variances, of descriptors not in `SCALES_FILE`: noise in them against that in all
other coordinates."""
SCALE_OTHERS = 0.42
"""Scale of all other coordinates of such descriptors."""
LINE_SD = 2.0
"""Standard deviation of records along the contrast axis, in distance: it sets their scale there."""
FIRST_RADIUS = 2.5
"""Radius of the first ball, in units of the prior: noise, against how far its centre may be off."""
FEW_RADIUS = 1.2
"""Radius of the second where n·μ is small: nearer than most records, as there noise is most."""
SHELLS = (0.15, 4.0, 16)
"""`Prior.shells` of images, in units of the prior. The fewer there are, and the less wide the last
is, the less noise their counts have together: 10 up to 9.6 cost 8 %."""
BALL_LEAST, BALL_SHELLS = 100.0, 12
"""Radius of a ball, of which nothing else is known, over the least of its shells, and over what is
worth telling apart; and their number."""
BALL_PRIOR_SD = 2.0
"""Radius of such a ball over `Prior.doubt`."""
OUTSIDE, MOST_OUTSIDE = 6.5, 0.5
"""Records that are clipped, in √d times the noise of a sum; and the largest share of them.

By count the bias of clipping is in one proportion to the noise, whatever the class is.
"""
FAR_SD = 4.0
"""Deviations of its noise by which a count beyond the last edge says that many records are distant.

Then the second counts are on edges up to `FARTHEST_RECORD`. Without that 2 % of striped images
would cost a mean of n·μ = 5000 ten times its error; one false alarm doubles the noise of its draw.
"""
MOST_BEYOND = 0.25
"""Share of the records beyond the last edge of the second shells that is worth a ball around all
that records may be: as where all images are black, and the centre comes near them."""
SECOND_NOISE = 1.0
"""Noise of the second mean, in units of the prior, that a ball may have where so many records are
beyond the last edge: a wide one finds classes that are distant from the prior."""
FAR_OFF, NEARER = 3.0, 0.6
"""Radius, in units of the prior, that says the first centre is distant: then the ball is around the
second. And radius around that over it, that says no more than that the class is narrow: then the
ball is halfway, with the mean of both radii. It holds what both hold, as norms are convex.

Elsewhere the ball stays: around a better centre the thin tail of a class is cut off on one side.
Not halfway but all the way, narrow classes distant from the prior err up to a third less, and cells
of `tiles` up to two thirds more.
"""
TAIL_SHARE, TAIL_NEARER = 0.5, 0.9
"""Share of the records outside at which a narrow class is nearer, too: the radius there, over the
first one, is less than the second number. Without, thick tails are cut off; cells of `tiles` err a
tenth more at n·μ = 900."""
CLUSTER_SD = 3.0
"""Deviations of its noise by which a shell may exceed the count of one peak, for its radius.

Such counts are made where n·μ is small or shells go far out: without, classes distant from the
prior err up to a quarter more. Elsewhere a radius is as wide as noise makes it, which holds
separate tails.
"""
PRIOR_SD_LINE = 4.0
"""Standard deviation of the mean along the contrast axis, in distance, before any release."""
PRIOR_SD = 1.5
"""The same off it, in units of the prior in all directions together."""
SURPRISE = 0.5
"""Deviations of χ² by which a mean may be off before the belief it meets is widened."""
FARTHEST_RECORD = 24.0
"""`Prior.farthest` of images, in units of the prior: bounds of overshoots against their noise.

Of stripes, boards, ramps, edges, single pixels and noise, some thousand kinds, seen from classes of
PneumoniaMNIST and `tiles`, hardly any is farther.
"""
NEAR_RADII, NEAR_TO, FAR_UNITS = 2.5, 4.5, 5.0
"""Overshoots along the contrast axis are measured up to so many radii, but not beyond `NEAR_TO`
in units of the prior; and those beyond up to `FAR_UNITS`, or twice that: noise against length."""
SURE, SURE_ODD = (3.5, 3.5, 3.8, 3.8), 3.6
"""Deviations of its noise that an overshoot must have to be added to the mean: below, above, the
same beyond what these reach; towards an odd picture. One too many costs its whole reach, one too
few is a bias of a few of its noise. One picture and the same turned are told together."""
BIAS_OF_CLIPPING = 0.33
"""Bias of clipping over the noise of a mean: about the same at every n, see `OUTSIDE`."""
LEFT_ONE_WAY, LEFT_SD, MISSED_SD = 0.5, 2.0, 3.0
"""Share of the square of the length that is left which points one way; deviations of its noise from
which it counts as error, and those of an overshoot that was not added."""
USUAL_SIZE = 0.5
"""Length of records, in radii of the ball, as weights of nights assume it."""
STEP_LEFT = 0.25
"""Part of the way to the mean that Newton's step may leave, over what it shortens that way by: a
twentieth where records are many, more where noise masks how wide they are."""
SCATTER_FLOOR = 0.1
"""Least variance of a coordinate of a vector, over that of vectors as long as the ball allows."""
LARGEST_LOG_SCALE = 80.0
"""Largest ln τ by which a prior that was too sure is widened: beyond any that noise asks for."""
OVERSHOOT_SD = 0.7
"""Standard deviations above a mean overshoot that it may have, as regions and tests take it.

By itself that would be too little once in four; regions hold all the same in 9 of 10, as theirs is
the worst direction and there is noise besides. ``covdp reproduce ours-regions`` measures it.
"""
