"""Every number of the adaptive mean that was set by hand, and other values to try.

Those of a descriptor are fields of its domain, which a trial replaces. All others are constants of
`pipeline.mean.tuning`; a trial puts another value in their place. No compiled loop reads one of
them: it would keep the value that it was compiled with (a test changes each and sees the draws
change).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from pipeline.descriptors import DESCRIPTORS
from pipeline.mean import Shares, public_model, records, tuning

CHAIN = ("p_fill", "p_refill", "p_empty", "level_decay")
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


def _chain(constant: str, field: str, *trials: float) -> Number:
    """Return one probability of a chain."""
    chain: tuning.HmmPrior = getattr(tuning, constant)
    value: float = getattr(chain, field)
    tried = trials or tuple(factor * value for factor in FACTORS)
    return Number(f"{constant} {field}", value, tried, lambda x: chain._replace(**{field: x}))


def _share(constant: str, which: int, *trials: float, case: str = "images") -> Number:
    """Return one share of the budget; the others keep their proportions."""
    shares: Shares = getattr(tuning, constant)
    value = shares.all[which]

    def put(share: float) -> Shares:
        rest = (1.0 - share) / (1.0 - value)
        new = [share if i == which else rest * x for i, x in enumerate(shares.all)]
        return Shares(new[0], tuple(new[1::2]), tuple(new[2::2]))

    tried = trials or tuple(factor * value for factor in FACTORS)
    return Number(f"{constant} {shares.names[which]}", value, tried, put, case)


def _number_of_rounds() -> Number:
    """Return the number of rounds, the whole for shells and for means being kept."""
    usual = tuning.SHARES_WITH_LINE
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

    return Number("SHARES_WITH_LINE rounds", 3.0, (1.0, 2.0, 4.0), put)


NUMBERS = (
    _typical("contrast", (0, 1, 2, 3, 4)),
    _typical("intensity", (0,)),
    _typical("slopes", (1, 2)),
    _typical("bends", (3, 4)),
    _plain("LINE_STEP"),
    _plain("LEAST_DISTANCE"),
    _plain("PRIOR_SD_RADIAL"),
    _plain("TYPICAL_LOG_VARIANCE", -7.0, -6.0, -4.0, -3.0, case="unlisted"),
    _plain("SCALE_LOG_VARIANCE", case="unlisted"),
    _plain("SCALE_OTHERS", case="unlisted"),
    _plain("BALL_LEAST", case="ball"),
    _plain("BALL_PRIOR_SD", case="ball"),
    _plain("LINE_RATIO", 1.3, 1.5, 2.2, 3.0),
    _plain("STEPS_BELOW", 5, 8, 12, 20),
    _plain("STEPS_ABOVE", 2, 3, 5, 8),
    _plain("CUTS_PER_STEP", 2, 3, 5, 8),
    _plain("SHELL_RATIO", 1.18, 1.25, 1.5, 1.8),
    _plain("RADIUS_RATIO", 1.05, 1.15, 1.2, 1.35),
    _plain("FAR_RATIO"),
    _plain("LINE_WEIGHT"),
    _plain("STABLE_RATIO", 1.0, 1.5, 3.0, 8.0),
    _plain("LOWEST_LEVEL"),
    _plain("LEVEL_RATIO", 1.22, 1.35, 1.75, 2.25),
    _plain("LEVEL_SD"),
    _plain("SUM_CORRECTION_SD"),
    *(_chain("LINE_PRIOR", field) for field in ("first", *CHAIN)),
    _chain("SHELL_PRIOR", "first", 0.25, 0.4, 0.625, 0.9),
    *(_chain("SHELL_PRIOR", field) for field in CHAIN),
    _plain("LENGTH_DISCOUNT"),
    _plain("CURVATURE_FRACTION", case="curved"),
    _plain("BIAS_AS_VARIANCE"),
    _plain("VARIANCE_RATIO", 1.5, 3.0, 30.0),
    _plain("DISAGREEMENT_SD"),
    _plain("PRIOR_SD_LINE"),
    _plain("FIRST_RADIUS"),
    *(_share("SHARES_WITH_LINE", which) for which in range(6)),
    _number_of_rounds(),
    *(_share("SHARES_WITHOUT_LINE", which, case="ball") for which in range(4)),
)
"""All of them; shares of the last mean are what the others leave."""
