"""Why our rows differ from a statement of a paper: sentences computed from the rows.

Each returns "" where its reason does not hold in the rows at hand, so that nothing is printed that
is not so. A claim of an experiment's TOML names one in `why`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pipeline.descriptors import DESCRIPTORS
from pipeline.experiments.simulated import build_manifold
from pipeline.figures import number
from pipeline.mechanisms.base import chi_mean
from pipeline.mechanisms.riemannian_laplace import largest_sigma
from pipeline.report.evidence import smaller
from pipeline.report.runs import FinishedRun
from pipeline.results import Table

Claim = Mapping[str, Any]


def printed(item: Claim, run: FinishedRun) -> float:
    """Return our value of one number that the paper prints, NaN where it was not run."""
    if item["column"] == "radius":
        return float(run.bound["radius"].max()) if run.bound is not None else np.nan
    if run.rows is None:
        return np.nan
    rows = run.rows
    mine = np.ones(len(rows["n"]), dtype=bool)
    if item["series"] is not None:
        mine &= rows["series"] == item["series"]
    if item["label"] is not None:
        mine &= rows["label"] == item["label"]
    values = np.asarray(rows[item["column"]][mine], dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(getattr(np, item["statistic"])(values)) if len(values) else np.nan


def clock(run: FinishedRun, claim: Claim, table: Table) -> str:
    """Say how both series of a ratio of times compare with the seconds that the paper prints."""
    theirs: dict[str, dict[int, float]] = {}
    ours: dict[str, dict[int, float]] = {}
    for item in run.record.config.get("published", ()):
        if item["column"] == "seconds" and np.isfinite(mine := printed(item, run)):
            theirs.setdefault(item["series"], {})[item["label"]] = item["value"]
            ours.setdefault(item["series"], {})[item["label"]] = mine
    left, right = claim["left"], claim["right"]
    labels = sorted(set(theirs.get(left, ())) & set(theirs.get(right, ())))
    if not labels:
        return ""
    ratios = [theirs[right][x] / theirs[left][x] for x in labels]
    told = [
        _speed(name, [theirs[name][x] / ours[name][x] for x in labels]) for name in (right, left)
    ]
    return (
        f"the seconds that the paper prints have the ratio {_span(ratios)}; here "
        f"{told[0]} than there, {told[1]}, so the ratio is another"
    )


def outrun(run: FinishedRun, claim: Claim) -> bool:
    """Tell whether what a paper finds slow takes less time here than it prints, in every class.

    A ratio of times that is smaller here then says that ours is faster, not that theirs is wrong.
    """
    found = [
        (printed(item, run), item["value"])
        for item in run.record.config.get("published", ())
        if claim["column"] == item["column"] == "seconds" and item["series"] == claim["right"]
        if None in (claim["labels"], item["label"]) or item["label"] in claim["labels"]
    ]
    return bool(found) and all(ours < theirs for ours, theirs in found)


def _speed(name: str, factors: list[float]) -> str:
    if min(factors) >= 1:
        return f"“{name}” takes {_span(factors)} times less time"
    if max(factors) <= 1:
        return f"“{name}” takes {_span([1 / x for x in factors])} times more time"
    return f"“{name}” takes {_span([1 / x for x in factors])} times the time"


def footpoint(run: FinishedRun, claim: Claim, table: Table) -> str:
    """Say how little curvature adds to the error of the wrapped noise, where that decides it."""
    grown, needed = [], []
    for a, b in rows_of(claim, table):
        flat = chi_mean(int(table["dim"][b]), float(table["sigma"][b]))
        grown.append(float(table["mean"][b]) / flat)
        needed.append(float(table["mean"][a] / table["mean"][b]))
    if not grown or max(grown) >= min(needed):
        return ""
    return (
        f"curvature could turn the order only by making the error of “{claim['right']}” "
        f"{_span(needed)} times as large; around this footpoint it is {_span(grown)} times that "
        "of flat space. What made it larger in the paper its notes do not say"
    )


def scale(run: FinishedRun, claim: Claim, table: Table) -> str:
    """Say where the order rests on a factor that the other series need not have."""
    pairs = rows_of({**claim, "right": claim["beside"]}, table)
    found = [smaller(table, b, a, 1.0, len(pairs)) for a, b in pairs]
    won, lost = found.count(1), found.count(-1)
    if won <= lost:
        return ""
    ratios = [float(table["mean"][a] / table["mean"][b]) for a, b in pairs]
    mean = number(float(np.exp(np.log(ratios).mean())))
    return (
        "that order rests on the factor 2 in the noise of the others: with the least noise that is "
        f"proven for it, “{claim['beside']}” has the smaller error in {won} of {len(found)} "
        f"comparisons, “{claim['left']}” in {lost} (on average {mean} times that of the former)"
    )


def grid(run: FinishedRun, claim: Claim, table: Table) -> str:
    """Say how much of the bound any image can fill, where two features are fixed coordinates."""
    config, shape = run.record.config, run.record.image_shape
    descriptor = DESCRIPTORS.get(str(config.get("descriptor")))
    if descriptor is None or not descriptor.grid or not shape or run.bound is None:
        return ""
    eta, k = float(config["eta"]), descriptor.k
    # Cauchy: as many eigenvalues as there are coordinates are at least the least of their variances
    least = float(descriptor.variances(shape[0], shape[1])[: descriptor.grid].min()) + eta
    wide = max(abs(np.log(least)), np.log(descriptor.norm_bound + eta))
    reach = np.sqrt((k - descriptor.grid) * np.log(eta) ** 2 + descriptor.grid * wide**2)
    share = reach / float(run.bound["radius"].max())
    if share >= 1:
        return ""
    return (
        "the bound is that of an image whose features are all constant, but the coordinates of "
        f"its pixels never are: no image at all fills more than {number(100 * share)} % of it"
    )


def law(run: FinishedRun, claim: Claim, table: Table) -> str:
    """Say which ratio the exact expectations have, where it is not the one that was asked for."""
    expected = table["expected_error"]
    ratios = [float(expected[b] / expected[a]) for a, b in rows_of(claim, table)]
    if not ratios or not max(ratios) < claim["factor"]:
        return ""
    squared = [ratio**2 for ratio in ratios]
    return (
        f"the expectations of the two laws have the ratio {_span(ratios)} ({_span(squared)} for "
        "squared distances), which no number of repetitions changes"
    )


def limit(run: FinishedRun, claim: Claim, table: Table) -> str:
    """Say that a law is at the limit of its existence wherever a statement on it fails."""
    pairs = rows_of(claim, table)
    good, bad = list[float](), list[float]()
    for a, b in pairs:
        manifold = build_manifold(str(table["manifold"][a]), int(table["dim"][a]))
        share = float(table["sigma"][a]) / largest_sigma(manifold)
        decided = smaller(table, a, b, claim["factor"], len(pairs))
        if decided:
            (good if decided > 0 else bad).append(100 * share)
    if not bad or min(bad) <= max(good, default=0.0):
        return ""
    elsewhere = f"; where it is as stated σ is {_span(good)} % of it" if good else ""
    return (
        f"“{claim['left']}” has a density only for σ below a limit, and towards it no bounded "
        f"error: where the order is the other one, its σ is {_span(bad)} % of that limit{elsewhere}"
    )


def parts(run: FinishedRun, claim: Claim, table: Table) -> str:
    """Say how much of the ratio of two errors is noise, exactly known, and why it is so much."""
    pairs = rows_of(claim, table)
    noises = [float(table["sigma"][a] / table["sigma"][b]) for a, b in pairs]
    errors = [float(table["mean"][a] / table["mean"][b]) for a, b in pairs]
    if not noises or not np.isfinite(noises).all():
        return ""
    return (
        f"the noise alone, exactly known, is {_span(noises)} times as large, and the error "
        f"{_span(errors)} times: five noises, each of a fifth of the records, make √5 = 2.24; the "
        "rest of the noise comes of the clips, which each hospital chooses from a fifth of the "
        "records, and the rest of the error of clipping and shrinkage"
    )


def rows_of(claim: Claim, table: Table) -> list[tuple[int, int]]:
    """Return the rows of both series of a claim, in every class and budget it is about."""
    out = []
    night = table.get("night", np.zeros(len(table["label"]), dtype=np.int64))
    for label, budget, when in dict.fromkeys(
        zip(table["label"], table["budget"], night, strict=True)
    ):
        within = claim["above"] <= budget <= claim["below"]
        if not within or (claim["labels"] is not None and label not in claim["labels"]):
            continue
        if claim.get("nights") is not None and when not in claim["nights"]:
            continue
        at = (table["label"] == label) & (table["budget"] == budget) & (night == when)
        both = [
            np.flatnonzero(at & (table["series"] == claim[side]) & (table["count"] > 0))
            for side in ("left", "right")
        ]
        if all(len(rows) for rows in both):
            out.append((int(both[0][0]), int(both[1][0])))
    return out


def _span(values: list[float]) -> str:
    """Return the range of some numbers, or the number they all print as."""
    return " to ".join(dict.fromkeys([number(min(values)), number(max(values))]))


REASONS: Mapping[str, Callable[[FinishedRun, Claim, Table], str]] = {
    "clock": clock,
    "footpoint": footpoint,
    "grid": grid,
    "law": law,
    "limit": limit,
    "parts": parts,
    "scale": scale,
}
"""What `why` of a claim may be."""
