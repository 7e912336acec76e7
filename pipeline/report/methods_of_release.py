"""What the settings of a release say in the paragraph "Methods": one sentence a slot.

Every setting that a result depends on is in one of them: a test changes each and sees the text
change.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.figures import letter, listing, number
from pipeline.mean.plan import RELEASE_PLANS
from pipeline.privacy import budget_from, for_group_as_written, main_parameter, repeat
from pipeline.privacy.rounding import digits_up
from pipeline.privacy.statement import equivalent
from pipeline.report.methods import Said, listed, word, words

Settings = Mapping[str, Any]


def of_release(settings: Settings, rows: Sequence[Mapping[str, Any]] = ()) -> Said:
    """Return what the settings of a release, or of a night of a stream, say.

    Parameters
    ----------
    settings : mapping
        Of the document.
    rows : sequence of mapping
        Its ``classes``: of a night, how many came, and of which classes there is no mean yet.
    """
    unit = settings.get("unit", "image")
    sizes = {row["class_name"]: row["n"] for row in rows}
    sizes = sizes or {name: n for _, name, n in settings["classes"]}
    waiting = [row["class_name"] for row in rows if row["point"] is None]
    said = {
        "data": _released_data(settings, sizes, rows),
        "public": _public(settings, unit),
        "descriptor": described(settings),
        "metric": metric([settings["manifold"]]),
        "unit": _unit(settings),
        "mechanism": _mechanism(settings),
        "adaptive": word("sentence", "adaptive") if settings["mechanism"] in RELEASE_PLANS else "",
        "noise": word("noise", settings["noise"]),
        "stream": _stream(settings, unit),
        "waiting": f"no mean is released yet of {listing(waiting)}" if waiting else "",
        "privacy": _privacy(settings, unit, sum(sizes.values())),
    }
    if settings["mechanism"] in RELEASE_PLANS and not settings.get("stream"):
        said["moment"] = word("sentence", "moment")
    drawn = ("mechanism", "adaptive", "noise", "moment")
    left_out = drawn if waiting and len(waiting) == len(rows) else ()
    return {slot: text for slot, text in said.items() if text and slot not in left_out}


def _released_data(
    settings: Settings, classes: Mapping[str, int], rows: Sequence[Mapping[str, Any]]
) -> str:
    sides = [settings.get(f"image_{side}") for side in ("depth", "height", "width")]
    shape = " × ".join(str(side) for side in sides if side)
    new = {row["class_name"]: row["n_tonight"] for row in rows if "n_tonight" in row}
    sizes = ", ".join(
        f"{name} n = {n:,}" + (f" so far, {new[name]:,} of them new on this night" if new else "")
        for name, n in classes.items()
        if n
    )
    size = "as stored" if settings.get("size") is None else f"at size {settings['size']}"
    parts = [
        f"the release “{settings['name']}” of {settings['run_key']} is about the population "
        f"{settings['population']}, images of {dataset(settings['dataset'])}",
        splits(settings),
        f"{size}, {shape} pixels",
        "within their regions of interest" if settings.get("masked") else "",
        sizes,
    ]
    return ", ".join(filter(None, parts))


def dataset(name: str) -> str:
    """Return the name of a dataset, with what to cite for it."""
    stem, known = Path(name).stem, words()["dataset"]
    ending = "medmnist" if stem.rstrip("3d").endswith("mnist") else ""
    key = known.get(stem) or (known[ending] if ending else "")
    return f"{stem} [@{key}]" if key else stem


def splits(settings: Settings) -> str:
    """Return which parts of the set."""
    found = settings.get("splits")
    return f"splits {' and '.join(found)}" if found else "all splits"


def _public(settings: Settings, unit: str) -> str:
    least = settings.get("smallest_class", 2)
    if settings.get("stream"):
        return (
            f"labels, and how many {unit}s of each class come on which night, were declared "
            "public: they are exact, and not protected"
        )
    return (
        f"labels, and the number n of {unit}s of each class, were declared public: they are exact, "
        "and not protected; a class of "
        f"fewer than {least} would have been refused"
    )


def described(settings: Settings) -> str:
    """Return how an image became a matrix."""
    features = word("descriptor", settings["descriptor"])
    return (
        f"each image was described by the covariance of {features} [@tuzel2006], with η = "
        f"{number(settings['eta'])} added to its diagonal"
    )


def metric(names: Sequence[str]) -> str:
    """Return what lies between two of them."""
    return f"distances and means are those of {', '.join(word('manifold', name) for name in names)}"


def _unit(settings: Settings) -> str:
    classes = settings.get("classes_per_person")
    if classes is None:
        return "one record is one image"
    where = "a class" if classes == 1 else f"each of at most {classes} classes"
    return f"one record is one person, the mean of all images of that person in {where}"


def _mechanism(settings: Settings) -> str:
    name, shares = settings["mechanism"], settings.get("shares")
    spent = ""
    if name in RELEASE_PLANS and not settings.get("stream"):
        spent = ", the budget shared by a public rule"
        if shares:
            spent = f", with shares {listed(shares)} of the budget"
    return f"for each class the mean was released by {word('mechanism', name)}{spent}"


def _stream(settings: Settings, unit: str) -> str:
    told = settings.get("stream")
    if not told:
        return ""
    follows = f", and follows the stream “{told['follows']}”" if told.get("follows") else ""
    return (
        f"it is a night of a stream of at most {told['horizon']:,} nights, whose sums are noised "
        f"through the square root of their matrix [@fichtenberger2023]: each {unit} enters on one "
        "night and pays for all to come at once; a class opens when n times μ reaches "
        f"{told['opening']:g}{follows}"
    )


def _privacy(settings: Settings, unit: str, n: int) -> str:
    """Return what is promised to one record, and to all of a person."""
    cost = budget_from(settings["definition"], settings["budget"])
    classes, group = settings.get("classes_per_person"), settings.get("images_per_person")
    promise = repeat(cost, classes or 1)
    symbol, implied = letter(settings["definition"]), equivalent(promise, None, n)
    delta = number(implied.delta)
    paper = "" if settings["noise"] == "hardened" else "on paper "
    stream = settings.get("stream")
    whole = "all nights together satisfy" if stream else "the release satisfies"
    text = (
        f"{paper}{whole} {word('definition', settings['definition'])} at {symbol} = "
        f"{digits_up(main_parameter(promise), 6)} for one {unit}, and so (ε, δ)-differential "
        f"privacy [@dwork2014] at ε = {digits_up(implied.epsilon, 4)}, δ = {delta}; "
        f"neighbouring data sets replace one {unit} by any other of the same class"
    )
    if group and group > 1:
        together = digits_up(main_parameter(for_group_as_written(promise, group)), 6)
        text += (
            f", and for all images of a person with at most {group} of them {symbol} = {together}"
        )
    return text
