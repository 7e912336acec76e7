"""Where there is no result: the true pairs of class and budget, series by series."""

from collections.abc import Sequence

import numpy as np

from pipeline.figures import letter, listing, number
from pipeline.results import Table, summarise, unique


def gaps(rows: Table, status: str) -> list[str]:
    """Return one sentence for each series on the pairs of class and budget it has no result at.

    Where nights are counted, nights stand for budgets. Classes with the same ones stand together.
    Where nothing has a result, one sentence says so.
    `status` is why, one of `pipeline.results.STATUSES`.
    """
    table = summarise(rows)
    nights = bool(np.any(table.get("night", 0)))
    axis = table["night" if nights else "budget"]
    lost = (table["count"] == 0) & (table["status"] == status)
    if lost.any() and lost.all():
        return [f"No result of any series: {listing(unique(table['series'])[0], '; ')}."]
    out = []
    for series in unique(table["series"][lost])[0]:
        mine = table["series"] == series
        budgets = {
            label: tuple(sorted(set(axis[mine & lost & (table["label"] == label)].tolist())))
            for label in unique(table["label"][mine])[0]
        }
        names = dict(zip(table["label"].tolist(), table["class_name"].tolist(), strict=True))
        symbol = "" if nights else letter(str(table["definition"][mine][0]))
        every = len(set(axis[mine].tolist()))
        where: dict[tuple[float, ...], list[str]] = {}
        for label, values in budgets.items():
            where.setdefault(values, []).append(names[label])
        parts = [
            f"{_at(symbol, values, every)} ({listing(classes, '; ')})"
            for values, classes in where.items()
            if values
        ]
        out.append(f"{series} has no result {'; '.join(parts)}.")
    return out


def _at(symbol: str, values: Sequence[float], every: int) -> str:
    """Return budgets, or nights where there is no `symbol`, in words; or that there is no other."""
    if len(values) == every > 1:
        return "at any budget" if symbol else "on any night"
    shown = listing(map(number, values))
    return f"at {symbol} = {shown}" if symbol else f"on night{'s' * (len(values) > 1)} {shown}"
