"""Every number of the adaptive mean that was set by hand, and other values to try.

Those of a descriptor are fields of its domain, which a trial replaces. All others are constants of
`covdp.mean.tuning`; a trial puts another value in their place. No compiled loop reads one of
them: it would keep the value that it was compiled with (a test changes each and sees the draws
change).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from covdp.descriptors import DESCRIPTORS
from covdp.mean import Shares, public_model, records, tuning
from covdp.mean.plan import STEP_NAMES

FACTORS = (0.5, 0.8, 1.25, 2.0)


class Number(NamedTuple):
    """One number that is tried.

    Attributes
    ----------
    title : str
        Constant, and which part of it.
    value : float
        What it is in the code.
    trials : tuple of float
        What else is tried.
    of_domain : bool
        Whether it is a field of the domain.
    put : callable
        The constant with a value for the number.
    case : {"images", "unlisted", "ball", "curved"}
        Where it matters: `oct5`; a descriptor without figures of its own; records of which only a
        ball is known; the affine-invariant metric.
    """

    title: str
    value: float
    trials: tuple[float, ...]
    put: Callable[[float], Any]
    case: str = "images"
    of_domain: bool = False

    @property
    def constant(self) -> str:
        """The constant's name."""
        return self.title.split()[0].removeprefix("oct5.")


@contextmanager
def changed(constant: str, value: object) -> Iterator[None]:
    """Let a constant have another value, and forget what followed from the one before."""
    old = getattr(tuning, constant)
    setattr(tuning, constant, value)
    forget()
    try:
        yield
    finally:
        setattr(tuning, constant, old)
        forget()


def forget() -> None:
    """Forget what was worked out of public numbers, and of the constants."""
    for room in (public_model, records):
        for kept in vars(room).values():
            if hasattr(kept, "cache_clear"):
                kept.cache_clear()


@contextmanager
def trying(number: Number, value: float, domain: Any) -> Iterator[Any]:
    """Let a number be `value`; yield the domain to use."""
    if number.of_domain:
        yield replace(domain, **{number.constant: number.put(value)})
        return
    with changed(number.constant, number.put(value)):
        yield domain


def _plain(constant: str, *trials: float, case: str = "images") -> Number:
    """Return a constant that is one number; by default tried at `FACTORS` of it."""
    value = getattr(tuning, constant)
    tried = trials or tuple(factor * value for factor in FACTORS)
    return Number(constant, value, tried, type(value), case)


def _typical(what: str, entries: tuple[int, ...]) -> Number:
    """Return a shift of the typical log-variances of some features."""
    usual = DESCRIPTORS["oct5"].typical

    def put(shift: float) -> tuple[float, ...]:
        return tuple(x + shift * (i in entries) for i, x in enumerate(usual))

    return Number(f"oct5.typical {what}, shift", 0.0, (-2.0, -1.0, 1.0, 2.0), put, of_domain=True)


def _part(constant: str, which: int, *trials: float, case: str = "images") -> Number:
    """Return one number of a constant that has several."""
    values: tuple[float, ...] = getattr(tuning, constant)

    def put(value: float) -> tuple[float, ...]:
        return tuple(value if i == which else x for i, x in enumerate(values))

    tried = trials or tuple(factor * values[which] for factor in FACTORS)
    return Number(f"{constant} {which + 1}", values[which], tried, put, case)


def _share(constant: str, which: int, *trials: float, case: str = "images") -> Number:
    """Return one share of the budget; the others keep their proportions."""
    shares: Shares = getattr(tuning, constant)
    value = shares.all[which]

    def put(share: float) -> Shares:
        rest = (1.0 - share) / (1.0 - value)
        new = [share if i == which else rest * x for i, x in enumerate(shares.all)]
        return Shares(*new)

    tried = trials or tuple(factor * value for factor in FACTORS)
    return Number(f"{constant} {STEP_NAMES[which]}", value, tried, put, case)


NUMBERS = (
    _typical("contrast", (0, 1, 2, 3, 4)),
    _typical("intensity", (0,)),
    _typical("slopes", (1, 2)),
    _typical("bends", (3, 4)),
    _plain("TYPICAL_LOG_VARIANCE", -7.0, -6.0, -4.0, -3.0, case="unlisted"),
    _plain("SCALE_LOG_VARIANCE", case="unlisted"),
    _plain("SCALE_OTHERS", case="unlisted"),
    _plain("LINE_SD"),
    _plain("FIRST_RADIUS"),
    _plain("FEW"),
    _plain("FEW_RADIUS"),
    _part("SHELLS", 0),
    _part("SHELLS", 1),
    _part("SHELLS", 2, 8, 12, 20, 24),
    _plain("BALL_LEAST", case="ball"),
    _plain("BALL_SHELLS", 6, 9, 16, 24, case="ball"),
    _plain("BALL_PRIOR_SD", case="ball"),
    _plain("OUTSIDE"),
    _plain("MOST_OUTSIDE", 0.2, 0.35, 0.6, 0.8),
    _plain("FAR_OFF"),
    _plain("NEARER"),
    _plain("TAIL_SHARE"),
    _plain("TAIL_NEARER"),
    _plain("PRIOR_SD_LINE"),
    _plain("PRIOR_SD"),
    _plain("SURPRISE"),
    _plain("FARTHEST_RECORD"),
    _plain("NEAR_RADII"),
    _plain("NEAR_TO"),
    _plain("FAR_UNITS"),
    *(_part("SURE", which) for which in range(4)),
    *(_share("SHARES_OF_MANY", which) for which in range(4)),
    *(_share("SHARES_OF_FEW", which) for which in range(4)),
    *(_share("SHARES_WITHOUT_LINE", which, case="ball") for which in range(4)),
)
"""All of them; shares of the last mean are what the others leave."""
