"""Measure what can be measured, try every other number, and print tables."""

import argparse
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from covdp.files import atomic_path
from tests.tools.tuning import __doc__ as usage
from tests.tools.tuning.factors import BUDGETS, LEAST, FactorCell, Factors, factors, in_every_metric
from tests.tools.tuning.flatness import Tried, flatness
from tests.tools.tuning.images import HELD_OUT, SET_ON, ImageClass, classes_of
from tests.tools.tuning.measured import MeasuredNumber, measured
from tests.tools.tuning.numbers import NUMBERS
from tests.tools.tuning.ranges import RangeCell, groups_of, ranges
from tests.tools.tuning.scales import write_scales

SCREEN = Console(width=150)


def arguments() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(
        "python -m tests.tools.tuning",
        description=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "words", nargs="*", metavar="word", help="only numbers with a word of these"
    )
    parser.add_argument("--quick", action="store_true", help="coarse, in less than a minute")
    parser.add_argument("--factors", action="store_true", help="the table of errors instead")
    parser.add_argument("--scales", action="store_true", help="make the file of the prior's scales")
    parser.add_argument("--ranges", action="store_true", help="how often a plan's range holds")
    parser.add_argument("--data-root", type=Path, help="folder of image files; none is downloaded")
    parser.add_argument("--json", type=Path, help="write all figures there as well")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    return parser.parse_args()


def show_measured(found: list[MeasuredNumber]) -> Table:
    """Return the table of what was measured."""
    names = list(dict.fromkeys(name for row in found for name in row.sets))
    table = Table("number", "in the code", *names, title="Measured")
    for row in found:
        cells = [f"{row.sets[name]:.3g}" if name in row.sets else "" for name in names]
        table.add_row(row.title, f"{row.value:.3g}", *cells)
    return table


def show_tried(found: list[Tried]) -> Table:
    """Return the table of trials: relative change of the mean error ± its standard error."""
    table = Table(
        "number", "in the code", "tried: change of the error, %", "verdict", title="Tried"
    )
    for row in found:
        cells = [
            f"{effect.value:.3g}: {100 * effect.change:+.1f} ± {100 * effect.error:.1f}".replace(
                " ", "\u00a0"
            )
            for effect in row.effects
        ]
        table.add_row(row.number.title, f"{row.number.value:.3g}", "   ".join(cells), row.verdict)
    return table


def show_factors(title: str, found: list[Factors]) -> Table:
    """Return the table of errors: published over ours."""
    table = Table("images", "descriptor", "n", *(f"μ = {mu:g}" for mu in BUDGETS), title=title)
    for row in found:
        cells = [
            f"{factor:.3g} ± {factor * error:.1g}"
            for factor, error in zip(row.factors, row.errors, strict=True)
        ]
        table.add_row(row.name, row.descriptor, f"{row.n:,}", *cells)
    return table


def show_ranges(title: str, found: list[RangeCell]) -> Table:
    """Return the table of ranges: how many cells err as was foreseen."""
    table = Table("", "cells", "in", "below", "above", "within radius", "high/low", title=title)
    groups = defaultdict[str, list[RangeCell]](list)
    for cell in found:
        kind = "stream" if cell.night else cell.manifold
        for name in (f"{cell.descriptor}, {kind}", cell.name.split(",")[0], "all"):
            groups[name].append(cell)
    for name, cells in sorted(groups.items()):
        shares = (
            np.mean([cell.holds for cell in cells]),
            np.mean([cell.error < cell.low for cell in cells]),
            np.mean([cell.error > cell.high for cell in cells]),
            np.mean([cell.within for cell in cells]),
        )
        wide = np.median([cell.high / cell.low for cell in cells])
        table.add_row(name, str(len(cells)), *(f"{x:.1%}" for x in shares), f"{wide:.1f}")
    return table


def make_ranges(asked: argparse.Namespace) -> dict[str, Any]:
    """Print how often ranges hold, group by group; with words only sets that hold one of them."""
    out = {}
    for title, loads in groups_of(asked.data_root).items():
        chosen = {
            name: load
            for name, load in loads.items()
            if not asked.words or any(word in name for word in asked.words)
        }
        found = ranges(chosen, draws=4 if asked.quick else 12, jobs=asked.jobs)
        SCREEN.print(show_ranges(title, found))
        out[title] = [cell._asdict() for cell in found]
    return out


def make_factors(asked: argparse.Namespace, known: list[ImageClass]) -> dict[str, Any]:
    """Print both groups of the README's tables of errors."""
    others, missing = classes_of(HELD_OUT, asked.data_root)
    draws, out = 30 if asked.quick else 300, {}
    for title, group in (("The numbers were set on these", known), ("Not on these", others)):
        found = list(factors(group, asked.data_root, draws=draws, jobs=asked.jobs))
        SCREEN.print(show_factors(f"{title}; {draws} draws", found))
        each = list(in_every_metric(group, asked.data_root, draws=draws // 3, jobs=asked.jobs))
        SCREEN.print(show_cells(f"n·μ of {LEAST:g} and more; {draws // 3} draws", each))
        out[title] = [row._asdict() for row in (*found, *each)]
    SCREEN.print(f"Not in the data root: {', '.join(missing)}")
    return out


def show_cells(title: str, found: list[FactorCell]) -> Table:
    """Return the table of metrics: errors published over ours, on average and at the least."""
    table = Table("metric", "cells", "geometric mean", "least", "which is of", title=title)
    for metric in dict.fromkeys(cell.metric for cell in found):
        mine = sorted((one for one in found if one.metric == metric), key=lambda one: one.factor)
        mean, least = np.exp(np.mean(np.log([one.factor for one in mine]))), mine[0]
        which = f"{least.name}, {least.descriptor}, n = {least.n:,}, μ = {least.mu:g}"
        factor = f"{least.factor:.3g} ± {least.factor * least.error:.1g}"
        table.add_row(metric, str(len(mine)), f"{mean:.3g}", factor, which)
    return table


def make_numbers(asked: argparse.Namespace, known: list[ImageClass]) -> dict[str, Any]:
    """Print what is measured and what is tried."""
    chosen = tuple(
        number
        for number in NUMBERS
        if not asked.words or any(word in number.title for word in asked.words)
    )
    direct = measured(known, asked.data_root)
    SCREEN.print(show_measured(direct))
    tried = []
    with SCREEN.status("") as status:
        for row in flatness(chosen, known, asked.data_root, quick=asked.quick, jobs=asked.jobs):
            tried.append(row)
            status.update(f"{len(tried)} of {len(chosen)}")
    SCREEN.print(show_tried(tried))
    return {
        "measured": [row._asdict() for row in direct],
        "tried": [
            {
                "number": row.number.title,
                "value": row.number.value,
                "verdict": row.verdict,
                "effects": [effect._asdict() for effect in row.effects],
            }
            for row in tried
        ],
    }


def main() -> None:
    """Do what was asked."""
    asked = arguments()
    if asked.scales:
        write_scales()
        return
    if asked.ranges:
        write(asked, make_ranges(asked))
        return
    known, missing = classes_of(SET_ON, asked.data_root)
    if missing:
        SCREEN.print(f"Without {', '.join(missing)}: not in the data root")
    write(asked, (make_factors if asked.factors else make_numbers)(asked, known))


def write(asked: argparse.Namespace, out: dict[str, Any]) -> None:
    """Write all figures, if that is asked for."""
    if asked.json:
        with atomic_path(asked.json) as temporary:
            temporary.write_text(json.dumps(out, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
