"""What is claimed of regions, judged: how often they hold the truth, how wide they are, when."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from pipeline.figures import letter, listing, number
from pipeline.results import Table

FEWEST = 20
"""Regions of a cell that say something of its coverage."""
RARE = 0.0228
"""How rare a coverage must be to count against its level: as two standard errors below it."""


class Held(NamedTuple):
    """What became of a claim in one cell: whether it holds, and the cell with its value."""

    holds: bool
    text: str


def cells(claim: Mapping[str, Any], rows: Table) -> Iterator[tuple[str, Table]]:
    """Yield the cells that a claim is about, named: one class, series and budget each."""
    many = rows["n"] * rows["budget"]
    for label, series, budget in dict.fromkeys(
        zip(rows["label"], rows["series"], rows["budget"], strict=True)
    ):
        mine = (rows["label"] == label) & (rows["series"] == series) & (rows["budget"] == budget)
        if claim["least"] <= float(many[mine][0]) <= claim["most"]:
            cell = {name: column[mine] for name, column in rows.items()}
            symbol = letter(str(cell["definition"][0]))
            yield f"{cell['class_name'][0]}, {series}, {symbol} = {number(float(budget))}", cell


def _covers(level: float, name: str, cell: Table) -> Held | None:
    from scipy.stats import binom

    reach = cell["reach"][cell["offered"] > 0]
    if len(reach) < FEWEST:
        return None
    inside = int((reach <= level).sum())
    text = f"{name}: {number(100 * inside / len(reach))} % of {len(reach)}"
    return Held(bool(binom.cdf(inside, len(reach), level) > RARE), text)


def _fits(most: float, name: str, cell: Table) -> Held | None:
    offered = cell["offered"] > 0
    if not offered.any():
        return None
    ratio = float(np.median(cell["radius"][offered]) / np.median(cell["error"][offered]))
    return Held(ratio <= most, f"{name}: {number(ratio)} times")


def _offers(share: float, name: str, cell: Table) -> Held:
    found = float(cell["offered"].mean())
    text = f"{name}: {number(100 * found)} %"
    return Held(found >= share if share else found == 0.0, text)


JUDGED: Mapping[str, Callable[[float, str, Table], Held | None]] = {
    "coverage": _covers,
    "radius": _fits,
    "offered": _offers,
}
"""Column of a claim → what it says of a cell; None where too little was offered."""


def judge(claim: Mapping[str, Any], rows: Table) -> tuple[int, list[str], str]:
    """Return in how many cells a claim holds, where it does not, and the sentence that says so."""
    test = JUDGED[claim["column"]]
    found = [
        held
        for name, cell in cells(claim, rows)
        if (held := test(claim["factor"], name, cell)) is not None
    ]
    fails = [held.text for held in found if not held.holds]
    text = f" ({claim['place']}). {claim['ours']}" + " " * bool(claim["ours"])
    text += f"So in {len(found) - len(fails)} of {len(found)} cells"
    text += f"; not so for {listing(fails[:3], '; ')}" if fails else ""
    text += f" and {len(fails) - 3} more" if len(fails) > 3 else ""
    return len(found) - len(fails), fails, text + "."
