"""What the settings of an experiment say in the paragraph "Methods": one sentence a slot.

Every setting that a result depends on is in one of them, and of each series all that is not at its
default.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from pipeline.config import ExperimentConfig, SeriesConfig
from pipeline.figures import letter, number
from pipeline.mean.plan import SERIES_PLANS
from pipeline.report.methods import Said, listed, word, words
from pipeline.report.methods_of_release import Settings, dataset, described, metric, splits

WITH_MOMENT = ("regions", "tests", "hospitals", "classifiers")
"""Kinds that look at what a release says besides its mean."""
OWN = {
    "freedom": "wishart",
    "sizes": "persons",
    "between": "persons",
    "within": "persons",
    "smoothing": "outlines",
}
"""Settings of a source that one kind alone reads."""
SIMULATED = "simulated"
"""What the dataset of an experiment is called that makes its own records, unless it says more."""


def of_experiment(
    config: Settings, *, title: str = "", classes: str = "", guarantees: Mapping[str, str] = {}
) -> Said:
    """Return what the settings of an experiment say.

    Parameters
    ----------
    config : mapping
        As the record of a run has it; what is absent is at its default.
    title : str
        Of the dataset, as its card has it.
    classes : str
        The classes with their sizes.
    guarantees : mapping of str to str
        What each series guarantees at its largest budget, or why nothing.
    """
    told = _complete(ExperimentConfig, config)
    differing = {} if _alike(guarantees) else guarantees
    made = told["source"] or told["composition"] or told["scale"]
    said = {
        "kind": f"“{told['name']}”: {word('kind', told['kind'])}",
        "paper": f"it follows {told['paper']}" if told["paper"] else "",
        "data": _made(told) if made else _images(told, title),
        "classes": f"sizes: {classes}" if classes else "",
        "descriptor": described(told) if told["scale"] or not made else "",
        "metric": "" if told["scale"] or told["composition"] else metric(_manifolds(told)),
        "budgets": _budgets(told),
        "nights": _nights(told["nights"]),
        "series": "; ".join(_series(one, told, differing) for one in told["mechanisms"]),
        "baseline": f"the others are compared with “{told['baseline']}”"
        if told["baseline"]
        else "",
        "guarantee": _alike(guarantees),
        "moment": word("sentence", "moment") if told["kind"] in WITH_MOMENT else "",
        "adaptive": _adaptive(told["mechanisms"]),
        "repetitions": f"everything was repeated {told['repetitions']} times, with random streams "
        f"from the seed {told['seed']}",
        "noise": "noise was drawn in double precision, as nothing here is released [@mironov2012]",
        "beyond": "the paper does not have this data set" if told["beyond"] else "",
    }
    left_out = {"noise", "repetitions"} if told["composition"] else set()
    left_out |= {"noise"} if told["scale"] else set()
    return {slot: text for slot, text in said.items() if text and slot not in left_out}


def _alike(guarantees: Mapping[str, str]) -> str:
    """Return what all series guarantee alike; "" where they differ."""
    promises = set(guarantees.values())
    if len(promises) != 1:
        return ""
    return f"guarantee of one draw at the largest budget, for every series: {promises.pop()}"


def _adaptive(series: Sequence[Settings]) -> str:
    found = any(one.get("footpoint") in SERIES_PLANS for one in series)
    return word("sentence", "adaptive") if found else ""


def _complete(model: type[BaseModel], given: Settings) -> dict[str, Any]:
    """Return settings, those that are absent at their defaults."""
    defaults = {
        name: None if field.is_required() else field.get_default()
        for name, field in model.model_fields.items()
    }
    return defaults | dict(given)


def _images(told: Settings, title: str) -> str:
    chosen = told["classes"]
    parts = [
        f"images are those of {dataset(told['dataset'])}" + (f", {title}" if title else ""),
        splits(told),
        "at their least size" if told["size"] is None else f"at size {told['size']}",
        "all classes" if chosen is None else f"classes {listed(chosen)}",
    ]
    return ", ".join(parts)


def _made(told: Settings) -> str:
    """Return what an experiment made for itself, with every number of it."""
    name = "" if told["dataset"] == SIMULATED else f" ({told['dataset']})"
    if source := told["source"]:
        kind = source["kind"]
        where = word("source", kind)
        used = {key: value for key, value in source.items() if OWN.get(key, kind) == kind}
        return f"records were simulated{name}, {where}: {_numbers(used)}"
    if told["composition"]:
        return f"no record stands behind it{name}: {_numbers(told['composition'])}"
    sets = "; ".join(_numbers(one) for one in told["scale"])
    return f"images were made{name}: {sets}"


def _numbers(told: Settings) -> str:
    """Return the settings of a table, but for those that are empty."""
    pairs = (
        (name.replace("_", " "), listed(value if isinstance(value, list | tuple) else [value]))
        for name, value in told.items()
        if name != "kind" and value not in (None, (), [])
    )
    return ", ".join(f"{name} {value}" for name, value in pairs)


def _manifolds(told: Settings) -> Sequence[str]:
    found: Sequence[str] = (told["source"] or {}).get("manifolds") or (told["manifold"],)
    return found


def _budgets(told: Settings) -> str:
    if not told["budgets"]:
        return ""
    name = told["definition"]
    letters = {"delta": "δ", "alpha": "order α"}
    fixed = [
        f"{sign} = {number(told[key])}" for key, sign in letters.items() if told[key] is not None
    ]
    at = f" at {' and '.join(fixed)}" if fixed else ""
    values = listed([float(value) for value in told["budgets"]])
    return f"budgets are {letter(name)} = {values}{at}, of {word('definition', name)}"


def _nights(told: Settings | None) -> str:
    return f"nights: {_numbers(told)} [@fichtenberger2023]" if told else ""


def _series(given: Settings, told: Settings, guarantees: Mapping[str, str]) -> str:
    """Return one series: how it draws, all that is not at its default, and what it guarantees."""
    one = _complete(SeriesConfig, given)
    parts = [part for part in _parts(one, told) if part]
    promise = guarantees.get(one["series"], "")
    return f"“{one['series']}” is {', '.join(parts)}" + (
        f" (guarantee: {promise})" if promise else ""
    )


def _parts(one: Settings, told: Settings) -> Iterator[str]:
    adaptive = one["footpoint"] in SERIES_PLANS
    yield word("mechanism", "auto" if adaptive else one["mechanism"])
    if told["composition"]:  # nothing is drawn, around no point
        return
    if not adaptive:
        yield word("footpoint", one["footpoint"])
        if one["footpoint"] != "origin":
            how = word("mechanism", one["footpoint_mechanism"])
            part = f"of {one['subsample']:g} of them " if one["footpoint"] == "subsample" else ""
            yield f"{part}drawn by {how} with {one['footpoint_share']:g} of the budget"
        yield word("sensitivity", one["sensitivity"])
    elif one["shares"]:
        yield f"with shares {listed(one['shares'])} of the budget"
    if one["sampler"] == "chain":
        yield f"drawn by the published Markov chain after {one['burn_in']:,} steps"
    definition = one["definition"] or told["definition"]
    if one["definition"]:
        yield f"in {word('definition', definition)}"
    if definition == "approx" and not adaptive:
        yield (
            "by the exact condition [@balle2018]" if one["analytic"] else "by the classical formula"
        )
    for name, text, default in OTHERS:
        value = list(one[name]) if isinstance(one[name], tuple) else one[name]
        if value is not None and value != default:
            yield text.format(listed(value) if isinstance(value, list) else value)
    for table in ("measure", "records", "nights", "of"):
        yield words()[table].get(one[table], f"“{one[table]}”")


OTHERS: tuple[tuple[str, str, Any], ...] = (
    ("delta", "δ = {:g}", None),
    ("repetitions", "drawn {:,} times", None),
    ("scale", "with {:g} times the noise of the calibration", 1.0),
    ("aligned", "outlines not rotated onto each other first", True),
    ("n", "n = {:,}", None),
    ("hospitals", "divided between hospitals as {}", [1]),
    ("n_other", "n = {:,} in the second release", None),
    ("budget_other", "a budget of {:g} for the second release", None),
    ("rare", "rare images among those of the class: {}", "none"),
    ("rare_share", "each image rare with probability {:g}", 0.0),
    ("change", "the second release differs by {}", "none"),
    ("amount", "by {:g}", 0.0),
    ("classifier", "told apart by {}", "nearest mean"),
    ("ridge", "with a ridge of {:g}", None),
    ("batch", "timed in calls of {:,} draws", 1),
)
"""What a series says besides where it is not at its default: name, words, default."""
