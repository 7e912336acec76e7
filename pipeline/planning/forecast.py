"""What a release would be like, before anything is spent: from its settings and public numbers.

No image is looked for, no account is charged. Read by: the command line.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.datasets import Card, find_card
from pipeline.descriptors import DESCRIPTORS, DescriptorDomain, domain_of, require_descriptor_for
from pipeline.errors import ConfigError, require_known
from pipeline.geometry import MANIFOLDS
from pipeline.mechanisms import MECHANISMS
from pipeline.planning.curves import Curve, Ends, curve_of
from pipeline.planning.meaning import meaning
from pipeline.planning.needed import least_budget
from pipeline.planning.nights import (
    Arrivals,
    StreamCurves,
    marks,
    opening_night,
    stream_curves,
)
from pipeline.planning.pictures import SIDE
from pipeline.planning.told import Asked, ClassForecast, Expected, Forecast, Price
from pipeline.privacy import (
    ApproxDP,
    Budget,
    advantage,
    certified,
    convert,
    gaussian_sigma,
    repeat_as_written,
    success,
)
from pipeline.publish import ReleaseConfig
from pipeline.publish.config import check_sizes

LADDER = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Budgets that are shown, as multiples of the config's."""
SIZES, NIGHTLY = (50, 200, 1000, 5000), (5, 20, 100)
"""Units of a class, and new ones a night, that are shown where none are given."""
Affords = Callable[[Budget], int]
"""How many releases at a charge an account pays for."""


def forecast(config: ReleaseConfig, asked: Asked, affords: Affords | None = None) -> Forecast:
    """Return what to expect of a release, or of a stream of them.

    Parameters
    ----------
    config : ReleaseConfig
        Its settings; the card must be found, images need not.
    asked : Asked
        What else is public.
    affords : callable, optional
        How many more releases at a charge the account pays for.

    Raises
    ------
    ConfigError, DatasetError
        Settings that a release refuses too, a class the card does not have, or a mechanism whose
        noise is not Gaussian.
    """
    card = find_card(config.dataset)
    ends, plan, last = _ends(config, card), config.nights, _last_night(config, asked)
    units = _arrivals(card, asked, streamed=plan is not None)
    if plan is None:
        check_sizes(config, {name: found.first for name, found in units.items()})
    configs = [_at(config, factor * config.budget) for factor in LADDER]
    opened = {name: _opened(config, found) for name, found in units.items()}
    nights = marks(last, *opened.values()) if last > 1 else ()
    classes = tuple(
        ClassForecast(
            name,
            tuple(ends.expected(at.budget, found, last) for at in configs),
            tuple(ends.expected(config.budget, found, night) for night in nights),
            ends.needed(asked.error, found, last),
            opened[name],
        )
        for name, found in units.items()
    )
    known = units.values() if asked.sizes or asked.per_night else ()
    delta = min(1e-5, 1 / (10 * max(1, sum(found.until(last) for found in known))))
    needed = [one.needed for one in classes if one.needed is not None]
    return Forecast(
        name=config.name,
        population=config.population,
        unit=config.unit,
        descriptor=config.descriptor,
        manifold=config.manifold,
        dimension=ends.curve.domain.dimension,
        diameter=ends.curve.domain.diameter,
        definition=config.definition,
        horizon=None if plan is None else plan.horizon,
        night=last,
        prices=tuple(_price(at, delta, affords) for at in configs),
        nights=nights,
        totals=tuple(_total(config, night) for night in nights),
        error=asked.error,
        needed=max(needed) if len(needed) == len(classes) else None,
        classes=classes,
        meaning=meaning(config, DESCRIPTORS[config.descriptor], ends.curve.widened),
    )


@dataclass(frozen=True)
class _Ends:
    """Ranges by budget, units and night."""

    config: ReleaseConfig
    curve: Curve
    streamed: StreamCurves | None

    def at(self, budget: float, units: Arrivals, night: int) -> Ends | None:
        config = _at(self.config, budget)
        if self.streamed is None or config.nights is None:
            return self.curve.ends(units.until(night) / gaussian_sigma(config.cost, 1.0))
        return self.streamed.ends(config.nights, units, night)

    def expected(self, budget: float, units: Arrivals, night: int) -> Expected:
        found, n = self.at(budget, units, night), units.until(night)
        if found is None:
            return Expected(n, None, None, None)
        return Expected(n, *found, found.radius(self.curve.domain.dimension))

    def needed(self, error: float | None, units: Arrivals, night: int) -> float | None:
        if error is None:
            return None

        def high(budget: float) -> float:
            found = self.at(budget, units, night)
            return math.inf if found is None else found.high

        return least_budget(high, error, self.config.budget)


def _ends(config: ReleaseConfig, card: Card) -> _Ends:
    """Return the ranges of a release, or of a stream."""
    curve = curve_of(_domain(config, card), _gaussian(config).plan)
    if config.nights is None:
        return _Ends(config, curve, None)
    manifold = MANIFOLDS[config.manifold](k=DESCRIPTORS[config.descriptor].k)
    return _Ends(config, curve, stream_curves(config.nights, curve, manifold))


def _at(config: ReleaseConfig, budget: float) -> ReleaseConfig:
    """Return the config with another budget."""
    return config.model_copy(update={"budget": budget})


def _gaussian(config: ReleaseConfig) -> ReleaseConfig:
    """Return the config, if all its noise is Gaussian: else n·μ alone does not say the error."""
    for name in config.plan.mechanisms:
        if MECHANISMS[name].hardened is None:
            raise ConfigError(
                f"the error of {name} is not foreseen, only that of what releases draw with "
                'hardened noise; choose mechanism = "auto" or "ewg", or try it on public images '
                "with `covdp run`"
            )
    return config


def _domain(config: ReleaseConfig, card: Card) -> DescriptorDomain:
    """Return the domain; where neither config nor card says the size, that of small images.

    `oct5` and `vol7` do not depend on it; the bound of the others changes by less than 0.1 %.
    """
    require_descriptor_for(config.descriptor, channels=card.channels, volumes=card.volumes)
    side = config.size or card.size or SIDE
    shape = (side,) * (3 if card.volumes else 2) + ((3,) if card.channels == 3 else ())
    return domain_of(
        config.descriptor, shape, eta=config.eta, manifold=config.manifold, masked=card.masked
    )


def _last_night(config: ReleaseConfig, asked: Asked) -> int:
    """Return the night that is asked for: of a stream its horizon where none is."""
    plan = config.nights
    if plan is None:
        return asked.nights or 1
    if asked.nights is not None and asked.nights > plan.horizon:
        raise ConfigError(
            f"the stream has {plan.horizon} nights, found --nights {asked.nights}; raise horizon "
            "in the config, or ask for fewer"
        )
    return asked.nights or plan.horizon


def _arrivals(card: Card, asked: Asked, *, streamed: bool) -> dict[str, Arrivals]:
    """Return the units of each class that is asked for; of any class, where no size is given."""
    more = asked.per_night
    for name in asked.sizes:
        require_known("class", name, card.classes, f"the card has {', '.join(card.classes)}")
    if asked.sizes:
        return {name: Arrivals(n, more or 0) for name, n in asked.sizes.items()}
    if more is not None:
        return {name: Arrivals(more, more) for name in card.classes}
    if streamed:
        return {f"any class, {n} a night": Arrivals(n, n) for n in NIGHTLY}
    return {f"any class of {n:,}": Arrivals(n) for n in SIZES}


def _opened(config: ReleaseConfig, units: Arrivals) -> int | None:
    """Return the night on which a stream opens."""
    return None if config.nights is None else opening_night(config.nights, units)


def _total(config: ReleaseConfig, night: int) -> Budget:
    """Return what is charged up to a night."""
    return config.charge if config.nights else repeat_as_written(config.charge, night)


def _price(config: ReleaseConfig, delta: float, affords: Affords | None) -> Price:
    """Return what a budget costs and means."""
    charge, plan = config.charge, config.nights
    implied = convert(charge, ApproxDP, delta=delta)
    assert isinstance(implied, ApproxDP)
    nights = None if affords is None else affords(charge)
    if nights and plan is not None:
        nights = plan.horizon
    sure = certified(charge) if config.hardened else charge
    return Price(
        config.budget, charge, implied.epsilon, delta, advantage(sure), success(sure), nights
    )
