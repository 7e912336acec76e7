"""What is asked of a forecast, and what it tells: public numbers all of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.errors import ConfigError
from pipeline.privacy import Budget

MOST, LONGEST = 10**12, 100_000
"""Units of a class, in all and a night, and nights that are foreseen: as many as a document may
have, and a stream."""


@dataclass(frozen=True)
class Price:
    """One budget, what it costs and what it means.

    Attributes
    ----------
    value : float
        The config's ``budget``.
    charge : Budget
        What the account pays, and what one person is promised.
    epsilon, delta : float
        The (ε, δ) that the charge implies.
    advantage : float
        P(success) of the best membership test is ½ + this/2 at most.
    success : str
        The same in per cent, rounded up: guessing has 50.
    nights : int or None
        For how many nights the account lasts; None where it is not known.
    """

    value: float
    charge: Budget
    epsilon: float
    delta: float
    advantage: float
    success: str
    nights: int | None


@dataclass(frozen=True)
class Expected:
    """What the released mean of n units is expected to be off by.

    Attributes
    ----------
    n : int
        Units of the class, images or persons.
    low, high : float or None
        Range of the expected distance to the mean of the class; None before a stream opens.
    radius : float or None
        Within which 95 of 100 releases lie, where the error is in the range.
    """

    n: int
    low: float | None
    high: float | None
    radius: float | None


@dataclass(frozen=True)
class ClassForecast:
    """One class: by budget, as `Forecast.prices`; by night; and what `error` needs."""

    name: str
    by_budget: tuple[Expected, ...]
    by_night: tuple[Expected, ...]
    needed: float | None
    opening: int | None


@dataclass(frozen=True)
class Forecast:
    """All of it.

    Attributes
    ----------
    name, population, unit, descriptor, manifold, definition : str
        As the config says; the unit is that of the card.
    dimension : int
        Numbers of a released mean.
    diameter : float
        How far apart two records can be, which errors compare with.
    horizon : int or None
        Nights of a stream, else None.
    night : int
        The night that is foreseen.
    prices : tuple of Price
        By budget.
    nights : tuple of int
        Nights that are shown; none where only the first is asked for.
    totals : tuple of Budget
        What is charged up to each.
    error : float or None
        What was asked for, and ``needed`` the least budget with which no class has more.
    classes : tuple of ClassForecast
    meaning : tuple of str
        What the numbers mean and where that was measured.
    """

    name: str
    population: str
    unit: str
    descriptor: str
    manifold: str
    dimension: int
    diameter: float
    definition: str
    horizon: int | None
    night: int
    prices: tuple[Price, ...]
    nights: tuple[int, ...]
    totals: tuple[Budget, ...]
    error: float | None
    needed: float | None
    classes: tuple[ClassForecast, ...]
    meaning: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """What is asked besides the config: class sizes, arrivals, nights, an error to reach."""

    sizes: Mapping[str, int]
    per_night: int | None = None
    nights: int | None = None
    error: float | None = None

    def __post_init__(self) -> None:
        counts: dict[str, tuple[int | None, int]] = {
            **{f"--n {name}": (n, MOST) for name, n in self.sizes.items()},
            "--per-night": (self.per_night, MOST),
            "--nights": (self.nights, LONGEST),
        }
        for name, (count, most) in counts.items():
            if count is not None and not 1 <= count <= most:
                raise ConfigError(
                    f"{name} must be 1 to {most:,}, found {count}; correct it, or leave it out"
                )
        if self.error is not None and not 0.0 < self.error < math.inf:
            raise ConfigError(f"--error must be a distance above 0, found {self.error:g}")
