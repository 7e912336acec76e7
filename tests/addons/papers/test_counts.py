"""What the index counts is computed again, from the Parquet files and the TOML files alone.

Nothing of `covdp.report` is used: laws are written down here, tests are SciPy's. No chain is
run, so that all rows are of their law. The seeds are those of the files.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import special, stats

from covdp.experiments import EXPERIMENTS, Run, load_experiments, run_experiment
from covdp.report import build_report

Columns = dict[str, np.ndarray]
RATE = 1e-5
"""Of a t-test, over the comparisons of a statement: a hundredth of what pages state."""
GRID = 1e-3
"""Relative error of what is convolved on a grid."""


def chi(d: np.ndarray) -> np.ndarray:
    """Return the mean of χ_d."""
    gap = special.gammaln((d + 1) / 2) - special.gammaln(d / 2)
    return np.asarray(math.sqrt(2) * np.exp(gap))


def law(rows: Columns, power: int) -> float:
    """Return E error^p of a cell in a flat space by its σ and d; NaN of what has no law here."""
    name, sigma, d = (rows[key][0] for key in ("mechanism", "sigma", "dim"))
    flat = rows["manifold"][0] in ("spd-log-euclidean", "spd-log-cholesky")
    embedded = name == "extrinsic-gaussian"
    if not flat or (rows["distance"][0] == "Frobenius") != embedded:
        return math.nan
    if name in ("rl", "ewl"):
        return float(sigma * d if power == 1 else sigma**2 * d * (d + 1))
    if (
        name in ("ewg", "tangent-gaussian", "extrinsic-gaussian")
        and rows["footpoint"][0] != "adaptive"
    ):
        return float(sigma * chi(d) if power == 1 else sigma**2 * d)
    return math.nan


def cells(rows: Columns, series: str) -> dict[tuple[int, float], Columns]:
    """Return the rows of a series with a result, by class and budget."""
    mine = (rows["series"] == series) & (rows["status"] == "ok")
    keys = list(zip(rows["label"][mine].tolist(), rows["budget"][mine].tolist(), strict=True))
    inside = {key: np.flatnonzero([key == other for other in keys]) for key in dict.fromkeys(keys)}
    chosen = {name: column[mine] for name, column in rows.items()}
    return {key: {name: x[at] for name, x in chosen.items()} for key, at in inside.items()}


def holds(left: Columns, right: Columns, claim: Mapping[str, Any], tests: int) -> int:
    """Return 1 where factor·E(left) < E(right) is decided, −1 where the contrary is, else 0."""
    power = 2 if claim.get("column") == "squared" else 1
    factor, laws = claim.get("factor", 1.0), (law(left, power), law(right, power))
    errors = factor * left["error"] ** power, right["error"] ** power
    known = factor * laws[0], laws[1]
    means = [x if np.isfinite(x) else e.mean() for x, e in zip(known, errors, strict=True)]
    if np.isfinite(known).all():
        return 1 if known[0] < known[1] * (1 - 1e-9) else -1
    if np.isfinite(known[0]):
        p = stats.ttest_1samp(errors[1], known[0]).pvalue
    elif np.isfinite(known[1]):
        p = stats.ttest_1samp(errors[0], known[1]).pvalue
    else:
        p = stats.ttest_ind(*errors, equal_var=False).pvalue
    return int(np.sign(means[1] - means[0])) if p < RATE / tests else 0


def judged(claim: Mapping[str, Any], rows: Columns) -> str:
    """Return what became of a statement on errors."""
    if readings := claim.get("readings"):
        words = [judged({**claim, "readings": (), **reading}, rows) for reading in readings]
        if set(words) <= {"Agrees", "Agrees in part", "Does not agree"} and "Agrees" in words:
            return "Agrees" if set(words) == {"Agrees"} else "Depends on reading"
        return words[0] if len(set(words)) == 1 else "?"
    if claim.get("no_number") or claim.get("column") == "ratio":
        return "No number given"
    sides = cells(rows, claim["left"]), cells(rows, claim["right"])
    labels = claim.get("labels")
    keys = [key for key in sides[0] if key in sides[1] and (labels is None or key[0] in labels)]
    found = Counter(holds(*(side[key] for side in sides), claim, len(keys)) for key in keys)
    if not keys:
        return "Cannot be judged"
    if found[-1]:
        return "Agrees in part" if found[1] else "Does not agree"
    return "Not decided" if found[0] else "Agrees"


def composed(claims: list[Mapping[str, Any]], rows: Columns) -> Iterator[str]:
    """Yield what became of the statements on composition, and of each rule of Table 1."""
    first = rows["repetition"] == 0
    for claim in claims:
        mine = first & (rows["series"] == claim["left"])
        parts = [mine & (rows["definition"] == name) for name in ("gdp", "rao")]
        needed, rao = rows["attained"][parts[0]], rows["budget"][parts[1]]
        alike = np.abs(needed / rao - 1) <= GRID
        yield "Agrees" if alike.all() else "Agrees in part" if alike.any() else "Does not agree"
    for name in dict.fromkeys(rows["definition"].tolist()):
        rule = first & (rows["definition"] == name)
        needed, total = rows["attained"][rule], rows["budget"][rule]
        known = np.isfinite(needed)
        kept = needed[known] <= total[known] * (1 + GRID)
        yield "No verdict" if not known.any() else "Agrees" if kept.all() else "?"


def read(path: Path) -> Columns:
    """Return the columns of a Parquet file."""
    table = pq.read_table(path)
    return {
        name: np.array(
            [np.nan if x is None else x for x in table[name].to_pylist()],
            dtype=object if isinstance(table[name][0].as_py(), str) else None,
        )
        for name in table.column_names
    }


@pytest.mark.slow
def test_the_index_counts_what_the_files_hold(shared: Path, tmp_path: Path) -> None:
    """Decided, for, against and each word of the tally, of papers and of stand-ins apart."""
    runs = [
        *load_experiments(
            "tg-synthetic", "rao-composition", "kng-shapes", quick=True, chains=False
        ),
        *load_experiments(
            "ew-octmnist", "tg-medmnist", dataset="breastmnist", quick=True, chains=False
        ),
    ]
    words = {"papers": Counter[str](), "stand-ins": Counter[str]()}
    for config in runs:
        table = run_experiment(Run(config, shared if config.on_images else None, tmp_path))
        fields = tomllib.loads(EXPERIMENTS[config.name].read_text(encoding="utf-8"))
        claims, rows = fields["claims"], read(table)
        stands_in = fields.get("beyond") or config.on_images  # no set here is one of a paper
        found = words["stand-ins" if stands_in else "papers"]
        if config.name == "rao-composition":
            found.update(composed(claims, rows))
        else:
            found.update(judged(claim, rows) for claim in claims)
    index = unescape(re.sub("<[^>]+>", " ", build_report(tmp_path).read_text(encoding="utf-8")))
    flat = " ".join(index.split())
    leads = {
        "papers": "Statements of the papers, on their own data",
        "stand-ins": "papers, on other data or settings, which count for no paper",
    }
    for kind, lead in leads.items():
        (shown,) = re.findall(rf"{lead}: (\d+) of (\d+) decided; (\d+) agrees?, (\d+) do", flat)
        count = words[kind]
        assert "?" not in count
        against = count["Agrees in part"] + count["Does not agree"]
        told = (count["Agrees"] + against, count.total(), count["Agrees"], against)
        assert tuple(map(int, shown)) == told
        assert told[0] >= 2
    for word, count in (words["papers"] + words["stand-ins"]).items():  # as rows do
        assert re.search(rf"{word} {count} ", flat)
    assert words["papers"]["Depends on reading"] == 1
    assert words["papers"]["No verdict"] == 1
