"""The records as the adaptive rounds see them: in the axes of the prior, counted in public bins.

Nothing in here is private or may leave.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import PrivacyError
from pipeline.geometry import Manifold, Point
from pipeline.mean.bins import LineBins, ShellBins, line_bins, shell_bins
from pipeline.mean.clipping import survey_counts
from pipeline.mean.frame import Frame, build_frame
from pipeline.mean.parts import Parts
from pipeline.mean.plan import Shares
from pipeline.mean.prior import Prior
from pipeline.mean.records import Records
from pipeline.mean.sums import Sized, sizes
from pipeline.threads import compiled

SURVEYED = Shares(0.18, (0.02, 0.02, 0.02), (0.02, 0.25, 0.49))
"""Shares of the budget where a line is surveyed; by hand, see ``python -m tests.tuning``."""
UNSURVEYED = Shares(0.01, (0.02, 0.02), (0.15, 0.80))
"""The same without a line; by hand, and not at its best: see there."""


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """What all repetitions, and all budgets, of an adaptive mean share.

    Attributes
    ----------
    records : Records
        Who is seen.
    frame : Frame
        The axes that the prior expects.
    bins : (LineBins or None, ShellBins)
        The histograms.
    parts : Parts
        The records in the axes, from the prior's centre; along the line from the origin.
    counts : array
        The survey, before noise.
    """

    records: Records
    frame: Frame
    bins: tuple[LineBins | None, ShellBins]
    parts: Parts[FloatArray]
    counts: NDArray[np.int64]

    def around(self, point: Point, frame: Frame) -> tuple[Parts[Sized], FloatArray]:
        """Return the records in some axes with ‖z − c‖, and c, where `point` is in the axes."""
        records = self.records
        if records.space.flat and frame is self.frame:
            parts, centre = self.parts, (point - records.centre) @ frame.into
        else:
            parts = records.parts.map(partial(see, records.space, frame, point))
            centre = np.zeros(records.space.dim)
        return parts.map(lambda part: (part, sizes(part, centre, frame.lines))), centre

    def steady(self, point: Point) -> NDArray[np.bool_]:
        """Tell which far shells of the survey, around the prior's centre, hold around a point."""
        moved = self.records.space.log(self.records.centre, point) @ self.frame.into
        return self.bins[1].steady(float(np.linalg.norm(moved[self.frame.lines :])))


def place(space: Manifold, frame: Frame, point: Point) -> float:
    """Return ⟨e, log(origin, point)⟩, where on the line a point is; 0 without a line."""
    if not frame.lines:
        return 0.0
    return float(space.log(space.origin, point) @ frame.into[:, 0])


def see(space: Manifold, frame: Frame, base: Point, points: Point) -> FloatArray:
    """Return points in the axes of the frame at `base`, (n, d), along the line from the origin.

    Each by itself, in one order of operations: what is made of a record is the same to the last bit
    whatever the others are.
    """
    seen = turned(np.ascontiguousarray(space.log(base, points)), frame.into)
    if frame.lines:
        seen[:, 0] += place(space, frame, base)
    return seen


@compiled
def turned(vectors: FloatArray, into: FloatArray) -> FloatArray:
    """Return vectors @ into, (n, d), where a library's product may depend on n in its last bits."""
    out = np.zeros(vectors.shape)
    for n in range(len(vectors)):
        for i in range(len(into)):
            for j in range(len(into)):
                out[n, j] += vectors[n, i] * into[i, j]
    return out


def view(records: Records) -> View:
    """Return the records in the axes of their prior.

    Raises
    ------
    PrivacyError
        When the manifold is not a Hadamard manifold.
    """
    space, prior = records.space, records.prior
    if not space.hadamard:
        raise PrivacyError(
            f"the adaptive mean is private on Hadamard manifolds, found {space.name}, which has "
            "positive curvature; use a mechanism made for it"
        )
    records.check_rounding()  # the whole region may be covered
    frame = build_frame(prior.line, prior.shape)
    line, shells = bins_of(space, prior, frame, records.centre, records.region.diameter)
    start = place(space, frame, records.centre)
    parts = records.parts.map(partial(see, space, frame, records.centre))
    counts = [survey_counts(part, start, frame, line, shells) for part in parts]
    return View(records, frame, (line, shells), parts, np.sum(counts, axis=0))


def bins_of(
    space: Manifold, prior: Prior, frame: Frame, centre: Point, diameter: float
) -> tuple[LineBins | None, ShellBins]:
    """Return the bins of both histograms, for records expected around `centre`: all public."""
    start = place(space, frame, centre)
    line = line_bins(prior, prior.span, start) if frame.lines else None
    return line, shell_bins(prior, frame, diameter)


def default_shares(prior: Prior) -> Shares:
    """Return the shares of the budget, a function of the prior: public.

    They are the same for all n and μ: to 1/(n·μ) scales the noise, and by it the histograms decide
    how much clipping is worth. At small n·μ they say nothing, the prior decides, and the answer
    stays near it. Where clipping is predicted to cost more, the whole region is covered: that is
    the single release with the share of the last mean, 0.49 where a line is surveyed and D is
    smaller than 2r, 0.80 without a line.
    """
    return UNSURVEYED if prior.line is None else SURVEYED
