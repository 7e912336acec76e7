"""The account of one population: what was spent, what is left, what may be changed."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from pipeline.errors import BudgetError, LedgerError, PrivacyError
from pipeline.privacy.composition import (
    compose,
    fits,
    fits_as_written,
    remaining,
    times_left,
)
from pipeline.privacy.definitions import RDP, Budget
from pipeline.privacy.profiles import epsilon_of


@dataclass(frozen=True)
class Account:
    """The account of one population, as the journal adds it up.

    Attributes
    ----------
    population : str
        Its declared name.
    budget : Budget
        All that it may ever spend; its class is the definition of the account.
    delta : float
        δ at which ε is stated.
    created : datetime
        When the budget was first set, UTC.
    costs : tuple of Budget
        All charges, in order.
    group : int or None
        The most images of one person for whom `spent` holds: the least that any charge counted.
        None where every charge was for whole persons, with any number of images. One for images
        and one for persons add up, since each says what it costs a person; together they hold for
        a person of at most as many images as the former counted.
    unfinished : int
        How many charges have no result: in progress, or crashed and waiting to be asked for again.
    """

    population: str
    budget: Budget
    delta: float
    created: datetime
    costs: tuple[Budget, ...]
    group: int | None
    unfinished: int

    @cached_property
    def spent(self) -> Budget | None:
        """Composition of all charges in one go, rounded up once, but not above the budget.

        Decimals that add up to the budget may be doubles that add up to a little more.
        """
        if not self.costs:
            return None
        spent = compose(self.costs)
        over = not fits(spent, self.budget)
        return self.budget if over and fits_as_written(self.costs, self.budget) else spent

    @cached_property
    def left(self) -> Budget | None:
        """What one more release may cost, rounded down; None when nothing is left.

        Let q be the quantity that adds up (ε, μ², ρ …). q(left) ≤ q(budget) − q(spent), and
        q(spent) is at least the exact sum of the charges. So the charges with one of `left` sum to
        at most q(budget), and `compose`, which returns the least double above a sum, returns at
        most the budget: `check_affordable` accepts it.
        """
        spent = self.spent
        return remaining(self.budget, spent) if spent else self.budget

    @property
    def epsilon_budget(self) -> float:
        """ε with (ε, δ)-DP for the budget, rounded up."""
        return epsilon_of(self.budget, self.delta)

    @property
    def epsilon_spent(self) -> float:
        """The same for what is spent, 0 for nothing; composition is not a sum in (ε, δ)."""
        return epsilon_of(self.spent, self.delta) if self.spent else 0.0

    @property
    def epsilon_left(self) -> float:
        """The same for what is left."""
        return epsilon_of(self.left, self.delta) if self.left else 0.0

    @property
    def releases(self) -> int:
        """Number of charges."""
        return len(self.costs)

    @property
    def latest(self) -> Budget | None:
        """The latest charge; None before the first."""
        return self.costs[-1] if self.costs else None

    @property
    def releases_left(self) -> int | None:
        """How many more charges like the latest fit; None before the first."""
        return self.lasts(self.costs[-1]) if self.costs else None

    def lasts(self, cost: Budget) -> int:
        """Return how many more releases at `cost` are accepted, one after the other.

        Raises
        ------
        LedgerError
            `cost` is in another definition than the account.
        """
        _check_kind(self, cost)
        return times_left(self.budget, self.costs, cost)


def check_affordable(account: Account, cost: Budget) -> None:
    """Raise `BudgetError` unless all charges with `cost` compose to at most the budget."""
    _check_kind(account, cost)
    try:
        costs = [*account.costs, cost]
        affordable = fits(compose(costs), account.budget) or fits_as_written(costs, account.budget)
    except PrivacyError:  # a sum that is no budget, such as δ of 1 or more
        affordable = False
    if not affordable:
        left = repr(account.left) if account.left else "nothing"  # every digit: it can be spent
        raise BudgetError(
            f"population {account.population!r} has {left} left of {account.budget!r}, and this "
            f"release costs {cost!r}; ask for less, or raise the total with "
            "`covdp ledger set-budget` if its people have agreed to less protection"
        )


def check_change(account: Account, budget: Budget) -> None:
    """Raise `LedgerError` unless `budget` may take the place of the account's total."""
    _check_kind(account, budget)
    if account.spent and not fits(account.spent, budget):
        raise LedgerError(
            f"population {account.population!r} has spent {account.spent!r} already, more than "
            f"{budget!r}; set at least that"
        )


def _check_kind(account: Account, budget: Budget) -> None:
    """Raise `LedgerError` unless `budget` is in the definition of the account."""
    own = account.budget
    same_order = not isinstance(own, RDP) or own.alpha == getattr(budget, "alpha", None)
    if type(budget) is not type(own) or not same_order:
        raise LedgerError(
            f"population {account.population!r} is accounted in the definition of {own!r}, found "
            f"{budget!r}; state it in that definition, which an account keeps for ever"
        )
