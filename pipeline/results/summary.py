"""From rows to the numbers that are drawn and judged: means and standard errors per group."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.results.tables import Table

GROUP = ("label", "series", "budget", "night")
"""What one point of a curve, and one line of the table of numbers, stands for; absent columns do
not tell anything apart."""


def summarise(rows: Table, by: Sequence[str] = GROUP, *, value: str = "error") -> Table:
    """Return mean and spread of `value` over the rows that agree in all columns of `by`.

    Parameters
    ----------
    rows : table with N rows
        As `read_rows` returns it. Only rows with a number in `value` enter the means.
    by : sequence of str
        The columns that make a group.
    value : str
        The column that is averaged.

    Returns
    -------
    table with one row a group, in the order of appearance of `by`'s values
        Every text column and every column of `by` with the group's first value, and:
        ``count`` (values averaged), ``mean``, ``sd`` (divisor count − 1), ``se`` = sd/√count,
        ``rows`` (rows of the group), and the means of ``n``, ``dim``, ``sigma`` and
        ``expected_error`` where the table has them. What cannot be computed is NaN.
    """
    by = [name for name in by if name in rows]
    group, first = _groups(rows, by)
    size = len(first)
    out = {name: rows[name][first] for name in rows if name in by or rows[name].dtype == object}
    values = np.asarray(rows[value], dtype=np.float64)
    count, mean = _mean(values, group, size)
    squares = _mean((values - mean[group]) ** 2, group, size)[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.sqrt(squares * count / np.where(count > 1, count - 1, np.nan))
        se = sd / np.sqrt(count)
    out |= {"count": count, "mean": mean, "sd": sd, "se": se}
    out["rows"] = np.bincount(group, minlength=size)
    for name in ("n", "dim", "sigma", "expected_error"):
        if name in rows and name not in by:
            out[name] = _mean(np.asarray(rows[name], dtype=np.float64), group, size)[1]
    return out


def unique(column: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct values in order of appearance, and each row's index among them."""
    if column.dtype != object and not np.isnan(np.asarray(column, dtype=np.float64)).any():
        values, first, inverse = np.unique(column, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return values[order].tolist(), np.argsort(order)[inverse]
    index: dict[Any, int] = {}
    codes = [index.setdefault(value, len(index)) for value in column.tolist()]
    return list(index), np.array(codes, dtype=np.int64)


def _groups(rows: Table, by: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each row, and the first row of each group."""
    code = np.zeros(len(rows[by[0]]), dtype=np.int64)
    for name in by:
        values, codes = unique(rows[name])
        code = code * max(len(values), 1) + codes
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return group, first


def _mean(
    values: NDArray[np.float64], group: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return how many finite values each group has, and their mean (NaN where there is none)."""
    good = np.isfinite(values)
    count = np.bincount(group[good], minlength=size)
    total = np.bincount(group[good], weights=values[good], minlength=size)
    with np.errstate(invalid="ignore"):
        return count, total / np.where(count > 0, count, np.nan)
