"""How the budget is spent: decided before the data are seen. Next on the path: ``noise.py``."""

import math
from dataclasses import dataclass

from pipeline.adaptive.prior import Prior, default_prior
from pipeline.adaptive.region import Domain
from pipeline.errors import ConfigError
from pipeline.geometry import Manifold


@dataclass(frozen=True)
class Shares:
    """Shares of the budget: one survey, then in each round the shells and the mean.

    Parameters
    ----------
    survey : float
        For the histogram along the line, with the far records.
    shells : tuple of float
        For the histogram of distances off the line, one a round.
    means : tuple of float
        For the clipped mean, one a round.

    Raises
    ------
    ConfigError
        Unless all are positive, sum to 1 within 1e-9, and each round has both.
    """

    survey: float = 0.2
    shells: tuple[float, ...] = (0.02, 0.02)
    means: tuple[float, ...] = (0.1, 0.66)

    def __post_init__(self) -> None:
        if len(self.shells) != len(self.means) or not self.means:
            raise ConfigError(
                f"shells and means must have one share a round, found {len(self.shells)} and "
                f"{len(self.means)}"
            )
        if not all(share > 0.0 for share in self.all):
            raise ConfigError(f"shares must be positive, found {self.all}")
        if not abs(math.fsum(self.all) - 1.0) <= 1e-9:
            raise ConfigError(f"shares must sum to 1, found {math.fsum(self.all):.10g}")

    @property
    def all(self) -> tuple[float, ...]:
        """All shares in the order of spending."""
        rounds = zip(self.shells, self.means, strict=True)
        return (self.survey, *(share for pair in rounds for share in pair))

    @property
    def names(self) -> tuple[str, ...]:
        """What each share is spent on."""
        rounds = range(1, len(self.means) + 1)
        return ("survey", *(f"{what} {i}" for i in rounds for what in ("shells", "mean")))


@dataclass(frozen=True)
class AdaptivePlan:
    """Everything that is decided beforehand.

    Parameters
    ----------
    shares : Shares
        Of the budget.
    prior : Prior
        Where the records are expected.
    """

    shares: Shares
    prior: Prior


def read_shares(values: tuple[float, ...]) -> Shares:
    """Return shares that are written in the order of spending: survey, then shells, mean, ….

    Raises
    ------
    ConfigError
        As in `Shares`, and when there is not one survey and two shares for each round.
    """
    if len(values) < 3 or len(values) % 2 == 0:
        raise ConfigError(
            "shares must be one for the survey, then two for each round (shells, mean), found "
            f"{len(values)}; the default is {', '.join(f'{s:g}' for s in Shares().all)}"
        )
    return Shares(values[0], values[1::2], values[2::2])


def default_plan(
    domain: Domain, manifold: Manifold, shares: tuple[float, ...] | None = None
) -> AdaptivePlan:
    """Return the plan for records of `domain`, the same for every n and budget.

    `shares` replaces the default shares, in the order of `read_shares`.

    All numbers scale with n·μ: to 1/(n·μ) scales the noise, and by it the histograms decide how
    much clipping is worth. At small n·μ they say nothing, the prior decides, and the answer stays
    near it. Where clipping is predicted to cost more, the whole region is covered: that is the
    single release with the share of the last mean, 0.66 where a line is surveyed and D is smaller
    than 2r, 0.80 without a line.
    """
    prior = default_prior(domain, manifold)
    if shares is not None:
        return AdaptivePlan(read_shares(shares), prior)
    if prior.line is None:
        return AdaptivePlan(Shares(0.01, (0.02, 0.02), (0.15, 0.80)), prior)
    return AdaptivePlan(Shares(), prior)
