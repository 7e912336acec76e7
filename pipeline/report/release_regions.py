"""Where the true mean of each class lies: the regions of a release, with their radius in words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.figures import number
from pipeline.geometry import Manifold, Point
from pipeline.inference import Region, region
from pipeline.inference.coordinates import placed
from pipeline.inference.regions import withheld
from pipeline.inference.released import read

LEVEL = 0.95
"""Confidence of the regions."""


def regions(rows: Sequence[Mapping[str, Any]], unit: str) -> dict[str, Any] | None:
    """Return a line a class; None where no class says what regions are made of."""
    known = [row for row in rows if row.get("observed")]
    if not known:
        return None
    apart = _nearest([row for row in known if not withheld(read(row).observed)])
    lines = [
        [row["class_name"], *_cells(row, apart.get(row["class_name"]))]
        if row.get("observed")
        else [row["class_name"], "Not known.", "", "", ""]
        for row in rows
    ]
    heads = ["Class", "In words", f"These {unit}s", "Population", "Besides, unnoticed"]
    return {"heads": heads, "lines": lines, "text": 2, "long": 1}


def _cells(row: Mapping[str, Any], nearest: tuple[str, float] | None) -> list[str]:
    """Return the radii for the sample and the population, and the former in words."""
    words, here = radius_of(row)
    if here is None:
        return [words, "–", "–", "–"]
    if nearest is not None:
        name, distance = nearest
        words += f"; {_share(here.radius / distance)} of the distance to {name}, the nearest class"
    beyond = region(row, LEVEL, of="population")
    return [f"{words}.", *map(number, (here.radius, beyond.radius, here.unnoticed))]


def radius_of(row: Mapping[str, Any]) -> tuple[str, Region | None]:
    """Return the region for the mean of the records of a class, and its radius in words."""
    found = read(row)
    if reason := withheld(found.observed):
        return f"Not offered: {reason}.", None
    where = region(row, LEVEL, of="sample")
    percent = 100.0 * (as_gain(found.manifold, found.point, where.radius) - 1.0)
    return f"As far as a gain that makes all standard deviations {percent:.2g}\u00a0% larger", where


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


def _nearest(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, float]]:
    """Return for each class with a region whose mean lies nearest to its own, and how far.

    Means without a region may be noise of any size, which has no logarithm in double precision.
    """
    if len(rows) < 2:
        return {}
    _, _, classes = placed(rows, least=2)
    means = np.stack([one.mean for one in classes])
    apart = np.linalg.norm(means[:, np.newaxis] - means, axis=-1)
    np.fill_diagonal(apart, np.inf)
    names = [str(row["class_name"]) for row in rows]
    return {
        name: (names[int(np.argmin(line))], float(line.min()))
        for name, line in zip(names, apart, strict=True)
    }
