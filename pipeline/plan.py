"""How a budget is spent, decided before the data are seen. Next: `pipeline.release`."""

from dataclasses import dataclass
from typing import Literal

from pipeline.adaptive import read_shares
from pipeline.errors import ConfigError


@dataclass(frozen=True)
class Plan:
    """Everything about a release that is decided before the data are seen.

    Parameters
    ----------
    mechanism, sampler : str
        A name in `MECHANISMS`, drawn exactly or by the published Markov chain.
    sensitivity : {"diameter", "radius"}
        D/n of this project, or 2r/n of the papers.
    footpoint : {"origin", "all", "subsample", "adaptive"}
        The public origin of the manifold, or a private mean of all records or of a uniform
        subsample, paid with `footpoint_share` of the budget; or a private centre found in rounds,
        with private radii (`pipeline.adaptive`, which has shares and a sensitivity of its own).
    footpoint_mechanism : str
        How a private footpoint is drawn.
    footpoint_share, subsample : float
        Share of the budget for the footpoint; fraction of the records in a subsample.
    burn_in : int
        Steps that a Markov chain discards.
    shares : tuple of float, optional
        Adaptive: shares of the budget in the order of spending, one for the survey, then two for
        each round (shells, mean), in place of the default.
    """

    mechanism: str = "ewg"
    sampler: str = "exact"
    sensitivity: Literal["diameter", "radius"] = "diameter"
    footpoint: Literal["origin", "all", "subsample", "adaptive"] = "origin"
    footpoint_mechanism: str = "ewg"
    footpoint_share: float = 0.1
    subsample: float = 0.05
    burn_in: int = 10_000
    shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.footpoint == "adaptive" and (self.mechanism, self.sampler) != ("ewg", "exact"):
            raise ConfigError(
                f"an adaptive footpoint needs mechanism ewg, drawn exactly, found {self.mechanism} "
                f"({self.sampler}); its guarantee composes Gaussian steps"
            )
        if self.shares is not None:
            if self.footpoint != "adaptive":
                raise ConfigError(
                    f"shares divide an adaptive budget, found footpoint {self.footpoint}; "
                    "leave them out, or set footpoint_share"
                )
            read_shares(self.shares)
