"""Plans of spending a budget, decided before data are read: in one draw, or in adaptive steps."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args, get_origin, get_type_hints

from covdp.errors import ConfigError, require_known

NOT_PRIVATE = "at"
"""Footpoint that is taken from the true mean."""


@dataclass(frozen=True)
class SinglePlan:
    """One draw of noise around the mean.

    Attributes
    ----------
    mechanism, sampler : str
        A name in `MECHANISMS`, drawn exactly or by the published Markov chain.
    statistic : {"frechet", "barycentre"}
        Certified Fréchet mean, as the papers take it; or the same computed by steps that cannot
        fail, from exact sums: what a release uses.
    sensitivity : {"diameter", "radius"}
        D/n of this project, or 2r/n of the papers.
    footpoint : {"origin", "all", "subsample", "at"}
        Public origin of the manifold, or a private mean of all records or of a uniform subsample,
        paid with `footpoint_share` of the budget; or, for experiments alone, a point at
        `footpoint_distance` from the true mean, which is not private.
    footpoint_mechanism : str
        Mechanism that draws a private footpoint.
    footpoint_share, subsample : float
        Share of the budget for the footpoint; fraction of the records in a subsample.
    footpoint_distance : float, optional
        Distance of footpoint "at" from the true mean, in a random direction.
    burn_in : int
        Steps that a Markov chain discards.
    start : float, optional
        Start of the chain, see `covdp.addons.papers.chains.ChainSettings`.
    analytic : bool
        True for the exact (ε, δ) condition, False for the classical formula.
    scale : float
        Noise as a multiple of what the guarantee needs.
    aligned : bool
        True if outlines are rotated onto each other before their mean is taken.
    charted : bool
        True to draw coordinates in the chart where there is one; False to draw points of the
        manifold, as timed.
    projected : bool
        True to put the result back into the public region that holds every record: post-processing.

    Raises
    ------
    ConfigError
        For a word that is not known: it would be taken for another, with that one's sensitivity;
        and for a distance of a footpoint that has none, or none of one that has.

    Examples
    --------
    >>> from covdp.mean import SinglePlan
    >>> plan = SinglePlan("ewl", footpoint="all", footpoint_share=0.2)
    >>> plan.private
    True
    >>> SinglePlan(footpoint="at", footpoint_distance=0.5).private
    False
    """

    mechanism: str = "ewg"
    sampler: Literal["exact", "chain"] = "exact"
    statistic: Literal["frechet", "barycentre"] = "frechet"
    sensitivity: Literal["diameter", "radius"] = "diameter"
    footpoint: Literal["origin", "all", "subsample", "at"] = "origin"
    footpoint_mechanism: str = "ewg"
    footpoint_share: float = 0.1
    subsample: float = 0.05
    footpoint_distance: float | None = None
    burn_in: int = 10_000
    start: float | None = None
    analytic: bool = True
    scale: float = 1.0
    aligned: bool = True
    charted: bool = True
    projected: bool = False

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(SinglePlan).items():
            if get_origin(kind) is Literal:
                words = get_args(kind)
                require_known(name, getattr(self, name), words, f"known are {', '.join(words)}")
        if (self.footpoint == NOT_PRIVATE) != (self.footpoint_distance is not None):
            raise ConfigError(
                f'footpoint = "at" needs footpoint_distance, and no other has one; found '
                f"footpoint {self.footpoint!r} and footpoint_distance {self.footpoint_distance}"
            )

    @property
    def private(self) -> bool:
        """True if what it draws is private; else it is for experiments alone."""
        return self.footpoint != NOT_PRIVATE


@dataclass(frozen=True)
class AdaptivePlan:
    """A private centre and private radii found step by step, then a clipped mean.

    Attributes
    ----------
    shares : Shares, optional
        Shares of the budget; a public rule when left out.
    moment : bool
        True if the second moment rides along in the last mean. It costs no privacy and the mean
        stays as it is, but it takes time, which repetitions of one experiment may spare.

    Examples
    --------
    >>> from covdp.mean import AdaptivePlan, Shares
    >>> plan = AdaptivePlan(Shares(0.1, 0.05, 0.1, 0.05, 0.7), moment=False)
    >>> plan.shares.last
    0.7
    """

    shares: "Shares | None" = None
    moment: bool = True


@dataclass(frozen=True)
class Shares:
    """Shares of an adaptive budget, in the order of spending.

    Attributes
    ----------
    first, middle, last : float
        For three means, each of records clipped to a ball.
    shells, last_shells : float
        For counts of records by their distance from the centre, before the latter two.

    Raises
    ------
    ConfigError
        Unless all are positive and sum to 1 within 1e-9.

    Examples
    --------
    >>> from covdp.mean import Shares
    >>> Shares(first=0.1, shells=0.05, middle=0.1, last_shells=0.05, last=0.7).all
    (0.1, 0.05, 0.1, 0.05, 0.7)
    """

    first: float
    shells: float
    middle: float
    last_shells: float
    last: float

    def __post_init__(self) -> None:
        if not all(share > 0.0 for share in self.all):
            raise ConfigError(f"shares must be positive, found {self.all}")
        if not abs(math.fsum(self.all) - 1.0) <= 1e-9:
            raise ConfigError(f"shares must sum to 1, found {math.fsum(self.all):.10g}")

    @property
    def all(self) -> tuple[float, ...]:
        """Shares in the order of spending."""
        return self.first, self.shells, self.middle, self.last_shells, self.last


STEP_NAMES = ("mean 1", "shells 1", "mean 2", "shells 2", "mean 3")
"""Statistic that each share is spent on."""


Plan: TypeAlias = SinglePlan | AdaptivePlan


def read_shares(values: tuple[float, ...] | None) -> Shares | None:
    """Return shares that are written in the order of spending; None where they are left out.

    Parameters
    ----------
    values : tuple of float, or None
        Five shares, for `STEP_NAMES`.

    Returns
    -------
    Shares or None
        Shares of an adaptive budget.

    Raises
    ------
    ConfigError
        As in `Shares`, and when there are not five.
    """
    if values is None:
        return None
    if len(values) != len(STEP_NAMES):
        raise ConfigError(
            f"shares must be {len(STEP_NAMES)}, for {', '.join(STEP_NAMES)}, found {len(values)}; "
            "leave them out for the usual ones"
        )
    return Shares(*values)


RELEASE_PLANS = ("auto",)
"""Mechanisms of releases whose plan is adaptive."""
SERIES_PLANS = ("adaptive",)
"""Footpoints of series whose plan is adaptive: only the error of their means is stored."""


def choose_plan(plan: Plan | str, definition: str) -> Plan:
    """Return the plan that a word names, for a budget in a definition.

    "single" adds exponential-wrapped Gaussian noise at the origin. "auto" is the most accurate plan
    there is: the adaptive one; or for pure DP, which Gaussian noise never gives, noise of the
    exponential-wrapped Laplace mechanism at the origin.

    Parameters
    ----------
    plan : SinglePlan, AdaptivePlan, "auto" or "single"
        Plan, returned itself, or its name.
    definition : str
        Name of the definition of privacy, such as "gdp"; `Budget.name`.

    Returns
    -------
    SinglePlan or AdaptivePlan
        Plan of spending.

    Raises
    ------
    ConfigError
        For any other word.

    Examples
    --------
    >>> from covdp.mean.plan import choose_plan
    >>> choose_plan("auto", "gdp")
    AdaptivePlan(shares=None, moment=True)
    >>> choose_plan("auto", "pure").mechanism
    'ewl'
    """
    if not isinstance(plan, str):
        return plan
    best = SinglePlan("ewl") if definition == "pure" else AdaptivePlan()
    named: dict[str, Plan] = {"single": SinglePlan(), "auto": best}
    if plan not in named:
        raise ConfigError(f'a plan must be "auto", "single" or a Plan, found {plan!r}')
    return named[plan]


def shared_plan(
    mechanism: str, sampler: str, footpoint: str, shares: tuple[float, ...] | None
) -> Plan | None:
    """Return the plan of several steps that the footpoint of a series names, None for one draw.

    Parameters
    ----------
    mechanism, sampler, footpoint : str
        Words of the series.
    shares : tuple of float, or None
        Five shares of the budget, for `STEP_NAMES`.

    Returns
    -------
    AdaptivePlan or None
        Plan of several steps, without second moments.

    Raises
    ------
    ConfigError
        When shares are given to another footpoint, or the mechanism is not the exact Gaussian one.
    """
    if footpoint not in SERIES_PLANS:
        if shares is not None:
            raise ConfigError(
                f"shares divide an adaptive budget, found footpoint {footpoint}; "
                "leave them out, or set footpoint_share"
            )
        return None
    if (mechanism, sampler) != ("ewg", "exact"):
        raise ConfigError(
            f"an adaptive footpoint needs mechanism ewg, drawn exactly, found {mechanism} "
            f"({sampler}); its guarantee composes Gaussian steps"
        )
    return AdaptivePlan(read_shares(shares), moment=False)


def release_plan(
    mechanism: str, *, hardened: bool, shares: tuple[float, ...] | None = None
) -> Plan:
    """Return the plan of a release: of several steps, or one draw around the barycentre.

    Hardened results are put back into the public region; what is drawn in floats is left as it is.

    Parameters
    ----------
    mechanism : str
        "auto", or a name in `MECHANISMS`.
    hardened : bool
        True if noise is drawn on the lattice.
    shares : tuple of float, optional
        Five shares of the budget, for `STEP_NAMES`.

    Returns
    -------
    SinglePlan or AdaptivePlan
        Plan of spending.

    Raises
    ------
    ConfigError
        When shares are given to a plan that has none.

    Examples
    --------
    >>> from covdp.mean import release_plan
    >>> release_plan("auto", hardened=True)
    AdaptivePlan(shares=None, moment=True)
    >>> release_plan("ewg", hardened=True).statistic
    'barycentre'
    """
    if mechanism in RELEASE_PLANS:
        return AdaptivePlan(read_shares(shares))
    if shares is not None:
        several = " or ".join(f'"{name}"' for name in RELEASE_PLANS)
        raise ConfigError(f"shares need mechanism = {several}, found {mechanism!r}")
    return SinglePlan(mechanism, statistic="barycentre", projected=hardened)
