"""Where the true mean of each class lies: regions of releases and nights, their radius in words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.figures import number
from pipeline.geometry import Manifold, Point
from pipeline.inference import ConfidenceRegion, read_released, region, region_refusal

LEVEL = 0.95
"""Confidence of the regions."""


def regions(rows: Sequence[Mapping[str, Any]], unit: str) -> dict[str, Any] | None:
    """Return a line a class of a release or a night; None where none says what they are made of."""
    if not any(map(is_told, rows)):
        return None
    found = {row["class_name"]: radius_of(row) for row in rows if is_told(row)}
    apart = _nearest({name: where for name, (_, where) in found.items() if where is not None})
    lines = [
        [row["class_name"], *_cells(row, *found[row["class_name"]], apart)]
        if row["class_name"] in found
        else [row["class_name"], "Not known.", "", "", ""]
        for row in rows
    ]
    heads = ["Class", "In words", f"These {unit}s", "Population", "Clipping, at most"]
    return {"heads": heads, "lines": lines, "text": 2, "long": 1}


def is_told(row: Mapping[str, Any]) -> bool:
    """Tell whether a class says what its region is made of."""
    return bool(row.get("certainty") or row.get("observed"))


def _cells(
    row: Mapping[str, Any],
    words: str,
    here: ConfidenceRegion | None,
    apart: Mapping[str, tuple[str, float]],
) -> list[str]:
    """Return the radii for the sample and the population, and the former in words."""
    if here is None:
        return [words, "–", "–", "–"]
    if row["class_name"] in apart:
        name, distance = apart[row["class_name"]]
        words += f"; {_share(here.radius / distance)} of the distance to {name}, the nearest class"
    beyond = region(row, LEVEL, of="population")
    return [f"{words}.", *map(number, (here.radius, beyond.radius, here.clipping))]


def radius_of(row: Mapping[str, Any]) -> tuple[str, ConfidenceRegion | None]:
    """Return the region for the mean of the records of a class, and its radius in words."""
    if reason := _withheld(row):
        return f"Not offered: {reason}.", None
    where = region(row, LEVEL, of="sample")
    gain = as_gain(where.manifold, where.centre, where.radius)
    return f"As far as a gain that makes all standard deviations {larger(gain)}", where


def larger(gain: float) -> str:
    """Return how much larger a gain makes what it multiplies: in percent, or as a factor."""
    if gain < 1.995:
        return f"{100.0 * (gain - 1.0):.2g}\u00a0% larger"
    return f"{number(gain)} times as large"


def _withheld(row: Mapping[str, Any]) -> str:
    """Return why a class has no region; "" where it has one.

    That is asked first: a mean without one may be noise of any size, which has no logarithm in
    double precision.
    """
    told = row.get("certainty")
    if told is None:
        return region_refusal(read_released(row).observed)
    opened = "the mean of its opening was too noisy for one"
    return "" if told["offered"] else f"{opened}, and all later ones lean on it"


def as_gain(manifold: Manifold, point: Point, distance: float) -> float:
    """Return the gain of all standard deviations that moves a descriptor by a distance."""
    from scipy.optimize import brentq

    def beyond(log_gain: float) -> float:
        return float(manifold.dist(point, math.exp(2.0 * log_gain) * point)) - distance

    most = 1.0
    while beyond(most) < 0.0:
        most *= 2.0
    return math.exp(brentq(beyond, 0.0, most, xtol=1e-9))


def _share(share: float) -> str:
    return f"{100 * share:.2g}\u00a0%" if share < 1 else f"{share:.2g} times"


def _nearest(regions: Mapping[str, ConfidenceRegion]) -> dict[str, tuple[str, float]]:
    """Return for each of several means which lies nearest to it, and how far."""
    found = {}
    for name, here in regions.items():
        apart = {
            other: float(here.space.dist(here.place, where.place))
            for other, where in regions.items()
            if other != name
        }
        if apart:
            nearest = min(apart, key=lambda other: apart[other])
            found[name] = nearest, apart[nearest]
    return found
