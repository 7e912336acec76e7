"""Sentences below a chart of means: what its marks stand for, computed from what it shows."""

from collections.abc import Mapping

import numpy as np

from pipeline.figures.style import DEFINITIONS, listing, number
from pipeline.privacy import letter
from pipeline.results import Table, unique

BANDS: Mapping[str, str] = {
    "se": "one standard error",
    "2se": "two standard errors",
    "2sd": "two standard deviations",
}
GROWING = ("n", "night")
"""Where they lie along x, the number of records is another at each point."""
FOOT = 1 / 20
"""A band ends at this share of its mean: a logarithmic axis has no zero."""


def caption(table: Table, *, band: str, x: str, panels: tuple[str, ...], value: str) -> str:
    """Return the caption of a chart of `table`, which has the columns of `curves`."""
    alone = is_alone(table, x)
    spread = listing([number(count) for count in sorted(set(table["count"]))])
    sentences = [
        f"{'Mark' if alone else 'Line'}: mean of {spread} repetitions.",
        _band(table, band, "Line" if alone else "Band"),
        _theory(table, "Upright stroke" if alone else "Thin dashes"),
        "" if alone or x == "budget" or "budget" in panels else f"Budget: {budgets(table)}.",
        _definitions(table),
        _distances(table) if value == "error" else "",
        _sizes(table) if x not in GROWING else "",
    ]
    return " ".join(filter(None, sentences))


def is_alone(table: Table, x: str) -> bool:
    """Tell whether there is one budget only, so that nothing lies along the axis of budgets."""
    return x == "budget" and len(set(table["budget"])) == 1


def budgets(table: Table) -> str:
    """Return the budgets of a table with their letters: "ε = 1 and μ = 1"."""
    pairs = zip(table["definition"], table["budget"], strict=True)
    return listing([f"{letter(name)} = {number(value)}" for name, value in pairs])


def letters(table: Table) -> str:
    """Return the letters of a table's budgets: "ε or μ"."""
    return " or ".join(dict.fromkeys(map(letter, table["definition"])))


def _band(table: Table, band: str, mark: str) -> str:
    if not np.isfinite(table["se"]).any():
        return ""
    cut = bool((table["low"] <= table["mean"] * FOOT).any())
    return f"{mark}: ± {BANDS[band]}{', cut at a twentieth of the mean' if cut else ''}."


def _theory(table: Table, mark: str) -> str:
    known = np.isfinite(table["expected_error"])
    if not known.any():
        return ""
    return f"{mark}: exact expectation{'' if known.all() else ', where it is known'}."


def _definitions(table: Table) -> str:
    """Say which definition each letter stands for."""
    words: dict[str, list[str]] = {}
    for name in unique(table["definition"])[0]:
        if name in DEFINITIONS:
            symbol, text = letter(name), DEFINITIONS[name]
            words.setdefault(symbol, []).append(text.removesuffix(" differential privacy"))
    parts = [f"{key}: {listing(texts)} differential privacy" for key, texts in words.items()]
    return "; ".join(parts) + "." if parts else ""


def distances(table: Table) -> list[str]:
    """Return the distances that the errors of a table are measured in; none where none is said."""
    return [name for name in unique(table["distance"])[0] if name] if "distance" in table else []


def _distances(table: Table) -> str:
    """Say which series is measured in which distance, where they differ."""
    names = distances(table)
    if len(names) < 2:
        return ""
    series = {name: unique(table["series"][table["distance"] == name])[0] for name in names}
    once = len({word for words in series.values() for word in words}) == sum(
        map(len, series.values())
    )
    if not once:
        return f"Distance: {listing(names)}, that of each panel."
    return f"Distance: {'; '.join(f'{name} ({listing(series[name])})' for name in names)}."


def _sizes(table: Table) -> str:
    """Say how many records each class has, where it is one number and no title says it."""
    sizes = set(table["n"])
    told = len(unique(table["label"])[0]) == 1 and any(" n = " in name for name in table["panel"])
    return "" if len(sizes) > 1 or told else f"n = {sizes.pop():,.0f}."
