"""What a stream is told, all of it public: budget, horizon, opening; and what each part costs."""

import math
from dataclasses import dataclass

from pipeline.errors import ConfigError
from pipeline.mean.plan import Shares
from pipeline.mean.release import Step
from pipeline.mean.rounds import gaussian_steps
from pipeline.mean.sensitivity import vector_diameter
from pipeline.mean.sums import UNIT
from pipeline.privacy import Budget, gaussian_sigma
from pipeline.stream.factorisation import column_norm

OPENING = 300.0
"""N·μ at which the units held back are released; 100 was worse at every later night."""
OPENING_SHARES = Shares(0.30, (0.03, 0.15), (0.12, 0.40))
OPENING_SHARES_NO_LINE = Shares(0.01, (0.03, 0.15), (0.12, 0.69))
"""Shares of the opening, with a line and without: more than for a release of its own goes to the
histograms, which decide how the first epoch is clipped. By hand, on PneumoniaMNIST and `tiles`."""
SERIES_NAMES, SERIES_SHARES = ("survey", "shells", "mean"), (0.10, 0.05, 0.85)
"""What the budget of a later unit is spent on."""
GROWTH = 10
"""A new epoch begins when there are so many times as many units as at the last."""
MOST_UNITS = 2**27
"""Most units of one class in a stream."""


@dataclass(frozen=True)
class StreamPlan:
    """One class's stream of releases, one a night.

    **Privacy.** Replace-one, for each unit: on which night it comes, and how many come, is public.
    A unit is in the opening, which spends the whole budget on it once (``mean/rounds.py``), or on
    one later night j, in three vectors of a set of diameter Δ₁ (`vector_diameter`): its bin of the
    survey, its shell, and its clipped coordinates paired with their products
    (``mean/sums.py``). Which sets they are was decided by what was released before night
    j. Replacing it moves the weighted sum of night t ≥ j by at most c_{t−j}·Δ₁ and no other, and
    the opening not at all. A night is a Gaussian mechanism given those before it, so by adaptive
    composition a series of nights is (Σ c²_{t−j})^½·Δ₁/σ-GDP, and half the square of that in zCDP,
    for ever; the shares of the three series compose to the budget.

    **Numerics.** Night sums and weights are whole numbers, and so is their sum of products: neither
    order nor history is in it. It is then rounded to doubles, and in the histograms divided by √2:
    it moves by at most 2u times its norm, on either of two data sets, each night. No vector is
    longer than 0.71, no weight above 1, so that norm is at most 0.71·N, N ≤ `MOST_UNITS`. By
    Minkowski's inequality H nights move by at most

        Δ = ‖c‖_H·Δ₁ + √H·4u·`MOST_UNITS`,

    where 0.71 leaves room for the rounding of √2 and of this formula. An epoch has fewer nights
    than the stream, so a smaller norm: ‖c‖_H is kept for all.

    Parameters
    ----------
    budget : Budget
        What each unit pays, once: μ-GDP, ρ-zCDP, or what Gaussian noise can be stated in.
    horizon : int
        H, the number of nights.
    opening : float
        N·μ at which the first units are released.
    """

    budget: Budget
    horizon: int
    opening: float = OPENING

    def __post_init__(self) -> None:
        column_norm(self.horizon)  # its own checks
        if not 0.0 < self.opening < math.inf:
            raise ConfigError(
                f"the opening must be a finite N·μ above 0, found {self.opening:g}; 300 is usual"
            )

    @property
    def mu(self) -> float:
        """μ of the Gaussian noise that the budget buys."""
        return 1.0 / gaussian_sigma(self.budget, 1.0)

    def opens(self, units: int) -> bool:
        """Whether so many units are enough for the opening."""
        return units > 0 and units * self.mu >= self.opening

    def sensitivity(self, dim: int) -> float:
        """Return Δ of a series of vectors of length `dim` over all nights, see above."""
        rounding = math.sqrt(self.horizon) * 4.0 * UNIT * MOST_UNITS
        return (column_norm(self.horizon) * vector_diameter(dim) + rounding) * (1.0 + 1e-15)

    def steps(self, dim: int) -> tuple[Step, Step, Step]:
        """Return survey, shells and mean, for a mean of length `dim`: σ is that of every night.

        Raises
        ------
        PrivacyError
            For pure DP, which Gaussian noise never satisfies.
        """
        survey, shells, mean = gaussian_steps(
            self.budget, SERIES_NAMES, SERIES_SHARES, self.sensitivity(dim)
        )
        return survey, shells, mean
