"""Every number of the adaptive mean that was set by hand, and other values to try.

Those of a descriptor are fields of its domain, which a trial replaces. All others are constants of
modules of `pipeline.mean`; a trial puts another value in the place of the
constant, in its module and in those that import it by name. No compiled loop reads one of them: it
would keep the value that it was compiled with (a test changes each and sees the draws change).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NamedTuple

import pipeline.mean
from pipeline.descriptors import DESCRIPTORS
from pipeline.mean import (
    Shares,
    bins,
    choice,
    prior,
    reshaping,
    rounds,
    smoothing,
    survey,
    view,
)

MODULES = tuple(
    import_module(f"pipeline.mean.{found.name}") for found in iter_modules(pipeline.mean.__path__)
)
FACTORS = (0.5, 0.8, 1.25, 2.0)


class Number(NamedTuple):
    """One number that is tried.

    Attributes
    ----------
    title : str
        Module, constant, and which part of it.
    value : float
        What it is in the code.
    trials : tuple of float
        What else is tried.
    home : module or None
        Where the constant stands; None for a field of the domain.
    put : callable
        The constant with a value for the number.
    case : {"images", "unlisted", "ball", "curved"}
        Where it matters: `oct5`; a descriptor without figures of its own; records of which only a
        ball is known; the affine-invariant metric.
    """

    title: str
    value: float
    trials: tuple[float, ...]
    home: Any
    put: Callable[[float], Any]
    case: str = "images"

    @property
    def constant(self) -> str:
        """The constant's name in its module."""
        return self.title.split()[0].split(".")[1]


@contextmanager
def changed(home: Any, constant: str, value: object) -> Iterator[None]:
    """Let a constant have another value, in its module and wherever it is imported by name."""
    old = getattr(home, constant)
    places = [home, *(m for m in MODULES if m is not home and vars(m).get(constant) is old)]
    try:
        for place in places:
            setattr(place, constant, value)
        yield
    finally:
        for place in places:
            setattr(place, constant, old)


@contextmanager
def trying(number: Number, value: float, domain: Any) -> Iterator[Any]:
    """Let a number be `value`; yield the domain to use."""
    if number.home is None:
        yield replace(domain, **{number.constant: number.put(value)})
        return
    with changed(number.home, number.constant, number.put(value)):
        yield domain


def _plain(home: Any, constant: str, *trials: float, case: str = "images") -> Number:
    """Return a constant that is one number; by default tried at `FACTORS` of it."""
    value = getattr(home, constant)
    tried = trials or tuple(factor * value for factor in FACTORS)
    title = f"{home.__name__.rsplit('.', 1)[1]}.{constant}"
    return Number(title, value, tried, home, type(value), case)


def _typical(what: str, entries: tuple[int, ...]) -> Number:
    """Return a shift of the typical log-variances of some features."""
    usual = DESCRIPTORS["oct5"].typical

    def put(shift: float) -> tuple[float, ...]:
        return tuple(x + shift * (i in entries) for i, x in enumerate(usual))

    return Number(f"oct5.typical {what}, shift", 0.0, (-2.0, -1.0, 1.0, 2.0), None, put)


def _chain(constant: str, field: str, *trials: float) -> Number:
    """Return one probability of a chain."""
    chain: smoothing.Chain = getattr(smoothing, constant)
    value: float = getattr(chain, field)
    tried = trials or tuple(factor * value for factor in FACTORS)
    title = f"smoothing.{constant} {field}"
    return Number(title, value, tried, smoothing, lambda x: chain._replace(**{field: x}))


def _share(constant: str, which: int, *trials: float, case: str = "images") -> Number:
    """Return one share of the budget; the others keep their proportions."""
    shares: Shares = getattr(view, constant)
    value = shares.all[which]

    def put(share: float) -> Shares:
        rest = (1.0 - share) / (1.0 - value)
        new = [share if i == which else rest * x for i, x in enumerate(shares.all)]
        return Shares(new[0], tuple(new[1::2]), tuple(new[2::2]))

    tried = trials or tuple(factor * value for factor in FACTORS)
    return Number(f"view.{constant} {shares.names[which]}", value, tried, view, put, case)


def _number_of_rounds() -> Number:
    """Return the number of rounds, the whole for shells and for means being kept."""
    usual = view.SURVEYED
    shells, means = sum(usual.shells), sum(usual.means)
    last = {
        1: (means,),
        2: (0.13 * means, 0.87 * means),
        3: usual.means,
        4: (0.03 * means, 0.06 * means, 0.15 * means, 0.76 * means),
    }

    def put(count: float) -> Shares:
        few = round(count)
        return Shares(usual.survey, (shells / few,) * few, last[few])

    return Number("view.SURVEYED rounds", 3.0, (1.0, 2.0, 4.0), view, put)


NUMBERS = (
    _typical("contrast", (0, 1, 2, 3, 4)),
    _typical("intensity", (0,)),
    _typical("slopes", (1, 2)),
    _typical("bends", (3, 4)),
    _plain(prior, "STEP"),
    _plain(prior, "LEAST"),
    _plain(prior, "DOUBT"),
    _plain(prior, "USUAL", -7.0, -6.0, -4.0, -3.0, case="unlisted"),
    _plain(prior, "DIAGONAL", case="unlisted"),
    _plain(prior, "OTHERS", case="unlisted"),
    _plain(prior, "BALL_LEAST", case="ball"),
    _plain(prior, "BALL_DOUBT", case="ball"),
    _plain(bins, "WIDENING", 1.3, 1.5, 2.2, 3.0),
    _plain(bins, "BELOW", 5, 8, 12, 20),
    _plain(bins, "ABOVE", 2, 3, 5, 8),
    _plain(bins, "CUTS", 2, 3, 5, 8),
    _plain(bins, "RATIO", 1.18, 1.25, 1.5, 1.8),
    _plain(bins, "FINE", 1.05, 1.15, 1.2, 1.35),
    _plain(bins, "FAR"),
    _plain(bins, "AHEAD"),
    _plain(bins, "STEADY", 1.0, 1.5, 3.0, 8.0),
    _plain(smoothing, "LEAST"),
    _plain(smoothing, "LADDER", 1.22, 1.35, 1.75, 2.25),
    _plain(smoothing, "WIDTH"),
    _plain(smoothing, "DOUBT"),
    *(_chain("LINE", field) for field in ("first", "rise", "again", "drop", "kinship")),
    _chain("SHELLS", "first", 0.25, 0.4, 0.625, 0.9),
    *(_chain("SHELLS", field) for field in ("rise", "again", "drop", "kinship")),
    _plain(choice, "ENDS"),
    _plain(choice, "TYPICAL", case="curved"),
    _plain(rounds, "CAUTION"),
    _plain(reshaping, "REACH", 1.5, 3.0, 30.0),
    _plain(survey, "SURPRISE"),
    _plain(rounds, "ALONG"),
    _plain(rounds, "EXPECTED"),
    *(_share("SURVEYED", which) for which in range(6)),
    _number_of_rounds(),
    *(_share("UNSURVEYED", which, case="ball") for which in range(4)),
)
"""All of them; shares of the last mean are what the others leave."""
