"""What is claimed of released values, judged cell by cell: regions, tests, classifiers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from pipeline.figures import letter, listing, number
from pipeline.results import Table

FEWEST = 20
"""Regions of a cell that say something of its coverage."""
RARE = 0.0228
"""How rare a coverage must be to count against its level: as two standard errors below it."""
LEVEL = 0.05
"""Level of the tests whose power is claimed."""
CONFIDENCE = 0.95
"""Of the regions that are said to hold a mean."""

Claim = Mapping[str, Any]


class Held(NamedTuple):
    """What became of a claim in one cell.

    Attributes
    ----------
    holds : bool
    value : str
        What was measured there.
    order : float
        The same as a number.
    chance : float
        How often chance alone breaks it in a cell that is at its level exactly; 0 where a share is
        taken as it is.
    """

    holds: bool
    value: str
    order: float
    chance: float = 0.0


def cells(claim: Claim, rows: Table) -> Iterator[tuple[str, Table]]:
    """Yield the cells that a claim is about, named: one class, series, budget and night each."""
    many, left = rows["n"] * rows["budget"], claim["left"]
    nights = rows.get("night", np.zeros(len(many), dtype=np.int64))
    for label, series, budget, night in dict.fromkeys(
        zip(rows["label"], rows["series"], rows["budget"], nights, strict=True)
    ):
        if claim["nights"] is not None and night not in claim["nights"]:
            continue
        meant = not left or series == left or series.startswith(f"{left},")
        if not meant or not claim["above"] <= budget <= claim["below"]:
            continue
        if claim["labels"] is not None and label not in claim["labels"]:
            continue
        mine = (rows["label"] == label) & (rows["series"] == series) & (rows["budget"] == budget)
        mine &= nights == night
        if claim["least"] <= float(many[mine][0]) <= claim["most"]:
            cell = {name: column[mine] for name, column in rows.items()}
            if claim["right"]:
                other = claim["right"] + series.removeprefix(left)
                beside = (rows["label"] == label) & (rows["budget"] == budget)
                beside &= rows["series"] == other
                if beside.sum() != mine.sum():
                    continue
                cell["right"] = rows["auc"][beside]
            symbol = letter(str(cell["definition"][0]))
            name = f"{cell['class_name'][0]}, {series}, {symbol} = {number(float(budget))}"
            yield name + (f", night {night}" if night else ""), cell


def _covers(level: float, cell: Table) -> Held | None:
    return _holds(level, cell, level)


def _holds(least: float, cell: Table, level: float = CONFIDENCE) -> Held | None:
    """Say whether regions of a level hold the mean at least as often as `least`."""
    from scipy.stats import binom

    reach = cell["reach"][cell["offered"] > 0]
    if len(reach) < FEWEST:
        return None
    inside = int((reach <= level).sum())
    share = inside / len(reach)
    holds = bool(binom.cdf(inside, len(reach), least) > RARE)
    return Held(holds, f"{number(100 * share)} % of {len(reach)}", share, RARE)


def _fits(most: float, cell: Table) -> Held | None:
    offered = cell["offered"] > 0
    if not offered.any():
        return None
    ratio = float(np.median(cell["radius"][offered]) / np.median(cell["error"][offered]))
    return Held(ratio <= most, f"{number(ratio)} times", ratio)


def _offers(share: float, cell: Table) -> Held:
    found = float(cell["offered"].mean())
    return Held(found >= share if share else found == 0.0, f"{number(100 * found)} %", found)


def _is_seldom_false(level: float, cell: Table) -> Held | None:
    return _is_seldom_alarmed(level, cell, level)


def _is_seldom_alarmed(share: float, cell: Table, level: float = LEVEL) -> Held | None:
    """Say whether p-values at or below a level are no more than a share and two standard errors."""
    from scipy.stats import binom

    values = cell["p_value"][np.isfinite(cell["p_value"])]
    many = len(values)
    if not many:
        return None
    most = share * many + 2.0 * (many * share * (1.0 - share)) ** 0.5
    found = int((values <= level).sum())
    chance = float(binom.sf(int(most), many, share))
    return Held(found <= most, f"{number(100 * found / many)} %", found / many, chance)


def _finds(share: float, cell: Table) -> Held:
    found = float((cell["p_value"] <= LEVEL).mean())
    return Held(found >= share, f"{number(100 * found)} %", found)


def _ranks(least: float, cell: Table) -> Held | None:
    if not np.isfinite(cell["auc"]).any():
        return None
    found = float(np.nanmean(cell["auc"]))
    return Held(found >= least, number(found), found)


def _is_near(most: float, cell: Table) -> Held | None:
    """Say whether a series lies at most so far below the one it is compared with."""
    far = cell["right"] - cell["auc"]
    if not np.isfinite(far).any():
        return None
    found = float(np.nanmean(far))
    return Held(found <= most, number(found), found)


JUDGED: Mapping[str, Callable[[float, Table], Held | None]] = {
    "coverage": _covers,
    "held": _holds,
    "alarms": _is_seldom_alarmed,
    "radius": _fits,
    "offered": _offers,
    "false": _is_seldom_false,
    "power": _finds,
    "auc": _ranks,
    "behind": _is_near,
}
"""Column of a claim → what it says of a cell; None where too little was offered."""
NEEDED = {
    "false": "p_value",
    "alarms": "p_value",
    "power": "p_value",
    "auc": "auc",
    "behind": "auc",
}
"""Column of a claim → the column of the rows that it rests on, where that is not ``offered``."""


def judge(claim: Claim, rows: Table) -> tuple[int, list[str], str]:
    """Return in how many cells a claim holds, where it does not, and the sentence that says so."""
    test = JUDGED[claim["column"]]
    found = [
        (name, held)
        for name, cell in cells(claim, rows)
        if (held := test(claim["factor"], cell)) is not None
    ]
    fails = [f"{name}: {held.value}" for name, held in found if not held.holds]
    text = f" ({claim['place']}). {claim['ours']}" + " " * bool(claim["ours"])
    if not found:
        return 0, fails, f"{text}This run has no cell to judge it by."
    text += f"So in {len(found) - len(fails)} of {len(found)} cells"
    text += f"; not so for {listing(fails[:3], '; ')}" if fails else ""
    text += f" and {len(fails) - 3} more" if len(fails) > 3 else ""
    chance = sum(held.chance for _, held in found)
    if chance:
        text += f"; at its level exactly, chance alone would break it in {number(chance)} of them"
    order = sorted((held for _, held in found), key=lambda held: held.order)
    ends = dict.fromkeys([order[0].value, order[-1].value])
    return len(found) - len(fails), fails, f"{text}. Measured: {' to '.join(ends)}."
