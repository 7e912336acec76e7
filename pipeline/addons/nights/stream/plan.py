"""Public ground that a stream stands on: its plan, and geometry, region and axes of a class.

The plan has budget, horizon and opening, and says what each part costs.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covdp.addons.nights.stream.factorisation import column_norm, sum_row
from covdp.arrays import FloatArray
from covdp.descriptors.bounds import ROUNDOFF
from covdp.errors import ConfigError, PrivacyError
from covdp.geometry import Manifold, Point
from covdp.mean import AdaptivePlan, Domain, admit, tuning
from covdp.mean.plan import Shares
from covdp.mean.public_model import check_domain
from covdp.mean.records import PublicModel, Records
from covdp.mean.release import PUBLIC_LABELS, Labels, Step
from covdp.mean.rounds import gaussian_steps, step_costs
from covdp.mean.sensitivity import vector_diameter
from covdp.mean.sums import InMemory
from covdp.privacy import Budget, gaussian_sigma

OPENING = 300.0
"""N·μ at which the records held back are released; 100 was worse at every later night."""
SURE_OPENING, AGAIN = 80.0, 20.0
"""N·μ of an opening that has a region; and with how many times its records a smaller one is made
good. See `later_openings`."""
OPENING_SHARES = Shares(0.07, 0.02, 0.05, 0.14, 0.72)
OPENING_SHARES_NO_LINE = Shares(0.05, 0.02, 0.12, 0.11, 0.70)
"""Shares of the opening, with a contrast axis and without: more than for a release of its own goes
to the last shells, which decide how the first epoch is clipped. By hand, on PneumoniaMNIST and
`tiles`."""
SERIES_NAMES, SERIES_SHARES = ("shells", "mean"), (0.05, 0.95)
"""Parts of the budget of a later record, and their shares."""
COUNT_NAMES, COUNT_SHARES = ("count", "opening"), (0.05, 0.95)
"""Parts of the budget of a record that comes before the opening of a class, where labels are
secret, and their shares. A count of 300/μ is off by 24/μ then, over ten years; and the opening
loses 2.5 %."""
GROWTH, AIM = 30, 10
"""A new epoch begins when there are so many times as many records as at the last; and for how many
times as many the clip of an epoch is the best.

A sum that begins anew has noise of its own, so the error is larger for a while, and a ball that is
old biases it in the end. By hand, 20 streams of six classes of images each, two of them with rare
images as well, μ = 0.5, opening 300, in the geometric mean: a growth of 12 in place of 30 makes the
error on night 400 1.2 times as large; an aim of 5 in place of 10 1.15 times, and of 20 that on
nights 100 and 200 1.13 times.
"""
MOST_UNITS = 2**27
"""Most images or persons of one class in a stream."""


@dataclass(frozen=True)
class StreamPlan:
    """One class's stream of releases, one a night.

    **Privacy.** Replace-one, for each record: on which night it comes, and how many come, is
    public. A record is in an opening, which spends the whole budget on it once
    (``mean/rounds.py``), or on one later night j, in two vectors of a set of diameter Δ₁
    (`vector_diameter`): its shell, and its clipped coordinates with their products and overshoots
    (``mean/sums.py``). Which sets they are was decided by what was released before night j.
    Replacing it moves the weighted sum of night t ≥ j by at most c_{t−j}·Δ₁ and no other, and the
    opening not at all. A night is a Gaussian mechanism given those before it, so by adaptive
    composition a series of nights is (Σ c²_{t−j})^½·Δ₁/σ-GDP, and half the square of that in zCDP,
    for ever; the shares of the two series compose to the budget.

    **Numerics.** Night sums and weights are whole numbers, and so is their sum of products: neither
    order nor history is in it. It is then rounded to doubles, and that of shells divided by √2: it
    moves by at most 2u times its norm, on either of two data sets, each night. No vector is longer
    than 0.71, no weight above 1, so that norm is at most 0.71·N, N ≤ `MOST_UNITS`. By Minkowski's
    inequality H nights move by at most

        Δ = ‖c‖_H·Δ₁ + √H·4u·`MOST_UNITS`,

    where 0.71 leaves room for the rounding of √2 and of this formula. An epoch has fewer nights
    than the stream, so a smaller norm: ‖c‖_H is used for all.

    **Secret labels.** In neighbours one record becomes any other *of any class*, on the same night.
    How many records of all classes together come on which night is public, and so is the list of
    classes. Each class has a transcript of its own: what it releases on a night follows from its
    records and from what it released before. So on which night a class opens, or begins an epoch,
    is decided by its released count and by no other class. A record of night j counts

    ===============================  ==============================================================
    in a class that has not opened   in its count, as √½ from night j on, with the share
    for good before night j          first in `COUNT_SHARES`; and in its next opening, on night j or
                                     later, with the rest, with the noise of secret labels
    in a class that has              in the two series from night j on, as above; the vector of
                                     the mean has the further coordinate a (``mean/release.py``)
    ===============================  ==============================================================

    *One class.* A record that becomes another of its class moves no count, and all else as above:
    the squares of what it moves, over σ², sum up to at most μ² whichever row it is in, as the
    shares of a row sum up to 1. A record that is there in place of none moves at most half of that:
    a count moves by √½, so do shells, and a mean, with a, by √(3/8 + 1/8); an opening by √½
    as well, step by step. That holds whatever the class has released before: on every path.

    *Two classes.* A record of A that becomes one of B is one record fewer in A and one more in B,
    and the two may be in different rows and in different epochs. The noise of the two is
    independent, so squares add up: at most μ²/2 + μ²/2 = μ² on every path. (A person in g classes
    at most is g records at once: g·μ², as with public labels.)

    *Composition.* How much which night moves depends on the path, the bound on the sum does not.
    Let δ_t be what night t moves, given all before it, over σ_t, and Σ‖δ_t‖² ≤ μ². After the last
    night release one number more, with noise of σ = 1, which moves by √(μ² − Σ‖δ_t‖²). Then the log
    of the likelihood ratio of the whole is M + μ²/2, M = Σ⟨δ_t, z_t⟩ with z_t standard normal given
    all before. E exp(iθM_t + θ²·Σ_{s≤t}‖δ_s‖²/2), M_t the sum up to t, is 1 for all t, so that
    E exp(iθM) = exp(−θ²μ²/2): M ~ N(0, μ²), as for one Gaussian of sensitivity μ. On the neighbour
    the ratio is that of the other sign. This is μ-GDP, and μ²/2-zCDP; not to tell the last number
    is post-processing (Smith and Thakurta 2022).

    *Numerics.* `MOST_UNITS` bounds the records of all classes together. Rounding is Minkowski's
    above for each of two classes, of N_A + N_B ≤ N records; beside √½ in place of 1 it may need √2
    times as much room, and has twice. Each class opens with Δ for the N of that night, at least its
    own.

    Attributes
    ----------
    budget : Budget
        Budget that each record pays, once: μ-GDP, ρ-zCDP, or one that Gaussian noise can be stated
        in.
    horizon : int
        Number of nights H.
    opening : float
        N·μ at which the first records are released.
    secret : bool
        True if the class of a record is secret.
    again : tuple of float
        N·μ at which records are released as an opening again, as long as one is to be made good.
    """

    budget: Budget
    horizon: int
    opening: float = OPENING
    secret: bool = False
    again: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        column_norm(self.horizon)  # its own checks
        if not 0.0 < self.opening < math.inf:
            raise ConfigError(
                f"the opening must be a finite N·μ above 0, found {self.opening:g}; 300 is usual"
            )

    @cached_property
    def mu(self) -> float:
        """μ of the Gaussian noise that the budget buys."""
        return 1.0 / gaussian_sigma(self.budget, 1.0)

    @property
    def first_mean(self) -> int:
        """Number of records of a class at which its first mean is released."""
        return math.ceil(self.opening / self.mu)

    def next_opening(self, released: float) -> float | None:
        """Return N·μ of the next opening, None where records are held back no more.

        Parameters
        ----------
        released : float
            Number of records of the openings so far, as far as is known; 0 before the first.
        """
        if not released:
            return self.opening
        if released * self.mu >= SURE_OPENING:
            return None
        return next((later for later in self.again if later > released * self.mu), None)

    def enough(self, units: float, released: float) -> float:
        """Return the number of records at which the mean is of `units` or more of them.

        While later ones are held back, the mean is of no more until an opening.

        Parameters
        ----------
        units : float
            Number of records that the mean shall have.
        released : float
            Number of records that it has now.
        """
        if self.next_opening(released) is None:
            return units
        return next((later / self.mu for later in self.again if later >= units * self.mu), units)

    def opens(self, units: float, released: float = 0.0) -> bool:
        """Return True if so many records are enough for the next opening.

        Parameters
        ----------
        units : float
            Number of records, those released included.
        released : float
            Number of records of the openings so far.
        """
        wanted = self.next_opening(released)
        return wanted is not None and units > 0 and units * self.mu >= wanted

    def sensitivity(self, dim: int) -> float:
        """Return Δ of a series of vectors of length `dim` over all nights, see above.

        Parameters
        ----------
        dim : int
            Dimension of the vectors.
        """
        rounding = math.sqrt(self.horizon) * (8.0 if self.secret else 4.0) * ROUNDOFF * MOST_UNITS
        return (column_norm(self.horizon) * vector_diameter(dim) + rounding) * (1.0 + 1e-15)

    def before_opening(self, dim: int) -> tuple[Step, ...]:
        """Return the steps of a class with secret labels: count until it opens, and opening.

        Parameters
        ----------
        dim : int
            Dimension of the vectors.
        """
        return gaussian_steps(self.budget, COUNT_NAMES, COUNT_SHARES, self.sensitivity(dim))

    def opening_steps(self, units: int, dim: int, shares: Shares) -> tuple[Step, ...]:
        """Return the steps of the opening, on a night up to which so many records came.

        Parameters
        ----------
        units : int
            Number of records up to the night.
        dim : int
            Dimension of the vectors.
        shares : Shares
            Shares of the steps in the budget.
        """
        return step_costs(
            self.opening_budget(dim), units, shares, dim=dim, labels=self.labels(units)
        )

    def opening_budget(self, dim: int) -> Budget:
        """Return the budget of the opening: all, but for the share of the counts before it.

        Parameters
        ----------
        dim : int
            Dimension of the vectors.
        """
        return self.before_opening(dim)[1].budget if self.secret else self.budget

    def opening_mu(self, dim: int) -> float:
        """Return μ of the Gaussian noise that the opening buys.

        Parameters
        ----------
        dim : int
            Dimension of the vectors.
        """
        return 1.0 / gaussian_sigma(self.opening_budget(dim), 1.0)

    def labels(self, units: int) -> Labels:
        """Return the statement on labels of a night up to which so many records came.

        Parameters
        ----------
        units : int
            Number of records up to the night.
        """
        return Labels(max(1, units)) if self.secret else PUBLIC_LABELS


def later_openings(opening: float) -> tuple[float, ...]:
    """Return the N·μ at which a stream of this opening opens again: none of one that is large.

    What later nights are clipped to is what the opening found. One of fewer records than
    `SURE_OPENING` finds hardly anything, and its epochs stay inaccurate. Its mean is a first look,
    for which its records have paid; all others are held back until they are an opening of their
    own, at the whole budget: with `AGAIN` times as many records, or the usual `OPENING` where it is
    first. There the error is that of a stream that opens then, but for the few records that the
    first look had: by a twentieth, or by a quarter where it had 60 of 300. Nights clipped by what
    the first look found would have noise that is wider by ‖c‖_H·‖c‖_t as well.

    Parameters
    ----------
    opening : float
        N·μ of the first opening.
    """
    openings = list[float]()
    while opening < SURE_OPENING:
        opening = min(AGAIN * opening, OPENING)
        openings.append(opening)
    return tuple(openings)


@dataclass(frozen=True, eq=False)
class StreamMechanism(PublicModel):
    """One class's stream: its plan, domain and flat manifold.

    Attributes
    ----------
    plan : StreamPlan
        Plan of the budget.
    domain : Domain
        Public domain of the records.
    manifold : Manifold
        Manifold of the records, flat.

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
    def steps(self) -> tuple[Step, ...]:
        """Shells and mean of every night: share of the budget, Δ over all nights, σ.

        Raises
        ------
        PrivacyError
            For pure DP, which Gaussian noise never satisfies.
        """
        delta = self.plan.sensitivity(self.manifold.dim)
        return gaussian_steps(self.plan.budget, SERIES_NAMES, SERIES_SHARES, delta)

    @cached_property
    def count_steps(self) -> tuple[Step, ...]:
        """The count of a class until it opens, where labels are secret."""
        return self.plan.before_opening(self.manifold.dim)[:1] if self.plan.secret else ()

    @cached_property
    def opening(self) -> AdaptivePlan:
        """Plan of the opening; its shells are those of all later nights."""
        return AdaptivePlan(OPENING_SHARES_NO_LINE if self.prior.line is None else OPENING_SHARES)

    def placed(self, points: Point) -> FloatArray:
        """Return records as coordinates inside the region, (m, d); there may be none.

        Parameters
        ----------
        points : array, shape (m, *point_shape)
            Records, on the manifold.

        Raises
        ------
        DomainError
            As `admit`.
        """
        if not len(points):
            return np.empty((0, self.space.dim))
        return admit(points, domain=self.domain, manifold=self.manifold).placed

    def records(self, placed: FloatArray, units: int) -> Records:
        """Return placed coordinates as records of a mean.

        Parameters
        ----------
        placed : array, shape (m, d)
            Coordinates, as `placed` gives them.
        units : int
            Number of records that came up to that night.
        """
        return Records(
            self.manifold, self.domain, InMemory(len(placed), placed), self.plan.labels(units)
        )

    def spread(self, radius: float) -> FloatArray:
        """Return a likely covariance of records clipped to a radius, (d, d), for weights.

        Parameters
        ----------
        radius : float
            Radius of the clip, in the axes.
        """
        variance = np.array([(tuning.USUAL_SIZE * radius) ** 2 / self.space.dim])
        return np.asarray(self.frame.covariance(variance, variance)[0])

    def noise_of_sum(self, sigma: float, nights: int) -> float:
        """Return the noise σ‖c‖_t of the sum of t nights.

        Parameters
        ----------
        sigma : float
            Standard deviation σ of the noise of each night.
        nights : int
            Number of nights t.
        """
        return sigma * math.sqrt(float(np.sum(sum_row(1, nights, self.plan.horizon) ** 2)))
