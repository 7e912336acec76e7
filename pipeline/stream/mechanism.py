"""What a stream stands on, all of it public: its plan, and geometry, region and axes of a class."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import PrivacyError
from pipeline.geometry import Manifold, Point
from pipeline.mean import AdaptivePlan, Domain, Step, admit
from pipeline.mean.axes import line_coordinate, to_frame
from pipeline.mean.clip import Clip
from pipeline.mean.public_model import check_domain
from pipeline.mean.records import PublicModel, Records
from pipeline.mean.sums import InMemory
from pipeline.mean.tuning import PRIOR_SD_LINE
from pipeline.stream.factorisation import sum_row
from pipeline.stream.plan import OPENING_SHARES, OPENING_SHARES_NO_LINE, StreamPlan


@dataclass(frozen=True, eq=False)
class StreamMechanism(PublicModel):
    """One class's stream: its plan, domain and flat manifold.

    Raises
    ------
    DomainError
        When the domain is that of another manifold.
    PrivacyError
        When the manifold is curved, or the budget is none that Gaussian noise satisfies.
    """

    plan: StreamPlan
    domain: Domain
    manifold: Manifold

    def __post_init__(self) -> None:
        check_domain(self.domain, self.manifold)
        if not self.manifold.flat:
            raise PrivacyError(
                "a stream adds up what its nights release, which has a meaning in the coordinates "
                f"of a flat manifold only, found {self.manifold.name}; choose spd-log-euclidean or "
                "spd-log-cholesky, or a release of its own for each night"
            )
        _ = self.steps  # their own checks

    @cached_property
    def steps(self) -> tuple[Step, Step, Step]:
        """Survey, shells and mean of every night: share of the budget, Δ over all nights, σ."""
        return self.plan.steps(self.manifold.dim)

    @cached_property
    def count_steps(self) -> tuple[Step, ...]:
        """The count of a class until it opens, where labels are secret."""
        return self.plan.count_steps(self.manifold.dim)

    @cached_property
    def opening(self) -> AdaptivePlan:
        """How the opening spends the budget; its shells are those of all later nights."""
        return AdaptivePlan(
            OPENING_SHARES_NO_LINE if self.prior.line is None else OPENING_SHARES, reshape=False
        )

    def spot(self, point: Point) -> float:
        """Return the place of a point on the contrast axis."""
        return float(line_coordinate(self.space, self.frame, point))

    def placed(self, points: Point) -> FloatArray:
        """Return records as coordinates inside the region, (m, d); there may be none.

        Raises
        ------
        DomainError
            As `admit`.
        """
        if not len(points):
            return np.empty((0, self.space.dim))
        return admit(points, domain=self.domain, manifold=self.manifold).placed

    def records(self, placed: FloatArray, units: int) -> Records:
        """Return what `placed` gave as records of a mean; `units` came up to that night."""
        return Records(
            self.manifold, self.domain, InMemory(len(placed), placed), self.plan.labels(units)
        )

    def seen(self, placed: FloatArray) -> FloatArray:
        """Return coordinates in the axes, (m, d), along the contrast axis from the origin."""
        return to_frame(self.space, self.frame, self.centre, placed)

    def in_axes(self, point: Point) -> FloatArray:
        """Return a centre in the axes, from where they start."""
        return np.asarray((point - self.centre) @ self.frame.to_axes)

    def spread(self, clip: Clip | None) -> FloatArray:
        """Return a covariance that records may have, (d, d), for weighing parts of a mean.

        The clip was chosen to hold nearly all: a quarter of its interval and half of its radius are
        taken for the standard deviations. Before there is one, the prior's doubt of the mean.
        """
        frame = self.frame
        if clip is None:
            return frame.prior_cov((PRIOR_SD_LINE * self.prior.step) ** 2, self.prior.doubt**2)
        scales = np.full(self.space.dim, (clip.radius / 2.0) ** 2 / frame.others)
        scales[: frame.lines] = ((clip.high - clip.low) / 4.0) ** 2
        return np.asarray((frame.from_axes.T * scales) @ frame.from_axes)

    def noise_of_sum(self, sigma: float, nights: int) -> float:
        """Return the noise σ‖c‖_t of the sum of t nights."""
        return sigma * math.sqrt(float(np.sum(sum_row(1, nights, self.plan.horizon) ** 2)))
