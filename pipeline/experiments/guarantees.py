"""What each series of an experiment guarantees, in words: the statement of privacy of a run.

A guarantee is printed only for a series that has one: drawn exactly, with the noise that its
calibration asks for, from a sensitivity that is proven, in a definition that can be certified. All
others are printed with the reason why they have none.
"""

from collections.abc import Mapping

from pipeline.config import ExperimentConfig, SeriesConfig
from pipeline.datasets import classes_per_person, find_card
from pipeline.experiments.driver import UNITS
from pipeline.experiments.simulated import SOURCES, build_manifold
from pipeline.mechanisms import MECHANISMS
from pipeline.privacy import Budget, PrivacyStatement, advantage, privacy_statement, repeat
from pipeline.privacy.definitions import KLDP, MCDP, ApproxDP, PureDP, RaoDP
from pipeline.privacy.statement import classes_rule

CLASSICAL = 1.0
"""The classical formula of the Gaussian mechanism is proven for ε below this."""


def guarantees(config: ExperimentConfig, n_by_class: Mapping[str, int]) -> dict[str, str]:
    """Return, for each series, what one draw at its largest budget guarantees, or why nothing."""
    out = {}
    for series in config.mechanisms:
        budget = _largest(config, series)
        reason = uncertified(config, series)
        promise = reason or _with_equivalent(_of(budget, config, n_by_class))
        if not reason and persons_of(config) is not None and UNITS[series.records].group:
            promise += ", for persons with at most as many images as the one with most here has"
        out[series.series] = promise
    return out


def uncertified(config: ExperimentConfig, series: SeriesConfig) -> str:
    """Return why nothing is certified for a series, "" if something is."""
    budget = _largest(config, series)
    if isinstance(budget, RaoDP | KLDP | MCDP):
        return f"never certified: {budget} is a label that bounds no (ε, δ)"
    if persons_of(config) is not None and not UNITS[series.records].protects:
        return f"none for persons: {budget} protects one image, and a person may have many"
    if series.sampler == "chain":
        return (
            f"approximate only: {series.burn_in:,} steps of a Markov chain approach the law that "
            f"would give {budget}; no guarantee is proven for the chain itself"
        )
    if series.scale != 1.0:
        return (
            f"not certified: the noise is {series.scale:g} times that of the calibration to "
            f"{budget}, as published"
        )
    if not series.analytic and isinstance(budget, ApproxDP) and budget.epsilon >= CLASSICAL:
        return f"not certified: the classical formula is proven for ε < 1, found {budget}"
    embedded = MECHANISMS[series.mechanism].embedded
    if embedded and series.sensitivity == "radius" and _positive(config):
        return f"not certified: 2r/n does not bound the move of a mean on a sphere, for {budget}"
    return ""


def statement(config: ExperimentConfig, n_by_class: Mapping[str, int]) -> dict[str, str]:
    """Return the statement of privacy of a run: title and text, each series with its own promise.

    Unit, neighbours and the like are the same for all series that are certified. What an attacker
    can tell is that of the series which gives away most.
    """
    promises = guarantees(config, n_by_class)
    text = "; ".join(f"{name}: {promise}" for name, promise in promises.items())
    certified = [series for series in config.mechanisms if not uncertified(config, series)]
    if not certified:
        return {"Guarantee": f"none is certified. {text}"}
    budgets = sorted((_largest(config, series) for series in certified), key=advantage)
    statements = [_of(budget, config, n_by_class) for budget in reversed(budgets)]
    several = "image" if persons_of(config) is not None else unit(config)
    pairs = {
        title.replace("image", several): words
        for title, words in statements[0].items()
        if title not in ("Definition", "Implies")
    }
    groups = [title for title, words in pairs.items() if words == statements[0].group]
    rules = dict.fromkeys(item.group for item in statements)
    pairs |= dict.fromkeys(groups, " — or ".join(rules))
    return pairs | {"Guarantee": f"one draw at the largest budget. {text}"}


def unit(config: ExperimentConfig) -> str:
    """Return what one record is, as the statement calls it."""
    if persons_of(config) is not None:
        return "person"
    return "image" if config.source is None else "record"


def persons_of(config: ExperimentConfig) -> int | None:
    """Return in how many classes a person may be; None where the unit is not the person."""
    if config.source is not None:
        return None if SOURCES[config.source.kind].persons is None else 1
    return classes_per_person(find_card(config.dataset)) if config.on_images else None


def _positive(config: ExperimentConfig) -> bool:
    """Tell whether an experiment runs on a manifold of positive curvature."""
    return any(
        build_manifold(name, dimension).curvature[1] > 0 for name, dimension, _ in config.simulated
    )


def _largest(config: ExperimentConfig, series: SeriesConfig) -> Budget:
    """Return what one draw costs at most, in all classes that a person may be in."""
    return repeat(config.budget(max(config.budgets), series), persons_of(config) or 1)


def _of(
    budget: Budget, config: ExperimentConfig, n_by_class: Mapping[str, int]
) -> PrivacyStatement:
    word, classes = unit(config), persons_of(config)
    return privacy_statement(
        budget,
        n_by_class=n_by_class,
        unit=word,
        classes_per_person=classes,
        composition=f"{classes_rule(word, classes)}; every repetition and every series draws again "
        f"from the same {word}s and adds up",
    )


def _with_equivalent(found: PrivacyStatement) -> str:
    """Return the guarantee, with the (ε, δ) it implies where it is of another kind."""
    if isinstance(found.budget, PureDP):
        return f"{found.budget}, pure: δ = 0"
    if found.equivalent == found.budget:
        return str(found.budget)
    return f"{found.budget}, which implies {found.equivalent}"
