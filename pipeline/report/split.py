"""Table of how the series of a run split their budget between footpoint and mean.

Shares stand in the record of the run, scales of noise in its rows. The steps of the adaptive mean
have the noise that `covdp.mean.rounds.step_costs` gives them, a function of public numbers.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from covdp.figures import letter, number
from covdp.mean.plan import STEP_NAMES, Shares
from covdp.mean.rounds import step_costs
from covdp.mechanisms import MECHANISMS
from covdp.privacy import Budget, budget_from, laplace_epsilon, main_parameter, split
from covdp.report.page import table
from covdp.report.runs import FinishedRun
from covdp.report.templates import at_least
from covdp.results import unique

CLASS_COLUMNS = 4
"""Classes that have a column of their own in the table."""
Row = Mapping[str, Any]
"""One row of the results, by column."""


class SplitStep(NamedTuple):
    """One step of a series: its name, its budget, who draws it, and σ on each class.

    Attributes
    ----------
    name : str
        Name of the step.
    budget : Budget
        Budget of the step.
    mechanism : str
        Name of the mechanism that draws it.
    sigmas : sequence of float
        Scale σ of the noise on each class; NaN where it is not drawn.
    """

    name: str
    budget: Budget
    mechanism: str
    sigmas: Sequence[float]


def split_of_budget(run: FinishedRun) -> dict[str, Any] | None:
    """Return the table of how each series splits its budget, at the budget in the middle.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    rows, shares = run.rows, run.record.shares
    if rows is None or not shares:
        return None
    values, names = unique(rows["budget"])[0], unique(rows["class_name"])[0]
    shown = rows["budget"] == values[len(values) // 2]
    several, lines = len(names) > CLASS_COLUMNS, list[list[str]]()
    for series, parts in shares.items():
        own = shown & (rows["series"] == series)
        places = {name: np.flatnonzero(own & (rows["class_name"] == name)) for name in names}
        cells = {name: {x: rows[x][at[0]] for x in rows} for name, at in places.items() if len(at)}
        few = run.record.few_shares.get(series, {})
        small = {name for name, cell in cells.items() if few and _looks_like(few, cell)}
        for title, own_parts, chosen in (
            (series, parts, [name for name in cells if name not in small]),
            (f"{series}, small n·μ", few, [name for name in cells if name in small]),
        ):
            steps = steps_of_series([cells[name] for name in chosen], own_parts) if chosen else []
            for step in steps:
                sigmas = dict(zip(chosen, step.sigmas, strict=True))
                step = step._replace(sigmas=[sigmas.get(name, np.nan) for name in names])
                lines.append([title, *_cells(step, own_parts[step.name], several=several)])
    heads = ["σ, over all classes"] if several else [f"σ, {name}" for name in names]
    value = number(values[len(values) // 2])
    first = ["Series", "Spent on", "Mechanism", f"Budget, of {value}", "As pure DP"]
    return table([*first, *heads], lines, text=5)


def _looks_like(parts: Mapping[str, float], cell: Row) -> bool:
    """Return whether shares leave to what is no mean what a row says that they do."""
    counts = sum(share for step, share in parts.items() if not step.startswith("mean"))
    return math.isclose(counts, float(cell["footpoint_share"]), rel_tol=1e-6)


def steps_of_series(cells: Sequence[Row], parts: Mapping[str, float]) -> list[SplitStep]:
    """Return the steps of a series: `cells` are a row of each class, `parts` its shares.

    Parameters
    ----------
    cells : sequence of Row
        Columns by name of one row of each class.
    parts : mapping of str to float
        Share of each step, by its name.
    """
    budgets = [
        budget_from(
            str(cell["definition"]),
            float(cell["budget"]),
            **{name: float(cell[name]) for name in ("delta", "alpha") if np.isfinite(cell[name])},
        )
        for cell in cells
    ]
    if tuple(parts) == STEP_NAMES:
        shares = Shares(*parts.values())
        each = [
            step_costs(budget, int(cell["n"]), shares, dim=int(cell["dim"]))
            for budget, cell in zip(budgets, cells, strict=True)
        ]
        return [
            SplitStep(same[0].name, same[0].budget, "ewg", [step.sigma for step in same])
            for same in zip(*each, strict=True)
        ]
    spent = split(budgets[0], [*parts.values()]) if len(parts) > 1 else budgets[:1]
    columns = {
        "footpoint": ("footpoint_mechanism", "footpoint_sigma"),
        "mean": ("mechanism", "sigma"),
    }
    return [
        SplitStep(
            name,
            budget,
            str(cells[0][columns[name][0]]),
            [float(cell[columns[name][1]]) for cell in cells],
        )
        for name, budget in zip(parts, spent, strict=True)
    ]


def _cells(step: SplitStep, share: float, *, several: bool) -> list[str]:
    """Return the cells of a step: what, by whom, its budget, the same as pure DP, σ by class."""
    pure = MECHANISMS[step.mechanism].pure and step.budget.name != "pure"
    epsilon = f"ε = {at_least(laplace_epsilon(step.budget), 3)}" if pure else "–"
    known = [sigma for sigma in step.sigmas if np.isfinite(sigma)]
    sigmas = [number(sigma) if np.isfinite(sigma) else "–" for sigma in step.sigmas]
    if several:
        ends = dict.fromkeys(map(number, (min(known), max(known)))) if known else ["–"]
        sigmas = ["–".join(ends)]
    return [step.name, step.mechanism, in_words(share, step.budget), epsilon, *sigmas]


def in_words(share: float, budget: Budget) -> str:
    """Return what a share of a budget is: "√0.1·μ = 0.158" of μ, "0.1·ε = 0.05" of ε.

    Parameters
    ----------
    share : float
        Share of the budget of the series.
    budget : Budget
        Budget of the step.
    """
    root = "√" if max(budget.powers) == 2 else ""
    times = "" if share == 1.0 else f"{root}{share:g}·"
    return f"{times}{letter(budget.name)} = {at_least(main_parameter(budget), 3)}"
