"""The page of one night of a stream: made from its committed document and from nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.descriptors import DESCRIPTORS
from pipeline.figures import Figure, letter, matrices
from pipeline.privacy import budget_from, main_parameter
from pipeline.privacy.rounding import digits_down, digits_up
from pipeline.privacy.statement import plainly
from pipeline.report.page import Section
from pipeline.report.release_parts import (
    basis,
    certified_total,
    cost_lines,
    digits,
    facts,
    of_blocks,
    promise_of,
    sentence,
    told_exact,
    told_facts,
    unit_of,
)
from pipeline.report.release_regions import regions

SQUARES = 12
"""Most matrices of windows that are drawn; of more, those of the longest alone."""
SEEN = "all nights of this stream, for ever,"


def night_section(document: Mapping[str, Any], words: Mapping[str, str]) -> Section:
    """Return the section of a night's document."""
    settings, rows = document["settings"], document["classes"]
    known = [row for row in rows if row["point"] is not None]
    blocks = {
        "meaning": ("lines.html.j2", _meaning(document)),
        "tonight": ("table.html.j2", _tonight(rows, unit_of(settings))),
        "waiting": (
            "lines.html.j2",
            [f"{row['class_name']}: {row['no_point']}." for row in rows if row["no_point"]],
        ),
        "means": ("figure.html.j2", _means(known, settings)),
        "regions": ("table.html.j2", regions(known, unit_of(settings))),
        "joined": ("figure.html.j2", _joined(rows, settings)),
        "windows": ("table.html.j2", _windows(document)),
        "lately": ("figure.html.j2", _lately(rows, settings)),
        "account": ("facts.html.j2", facts(_account(document))),
        "facts": ("facts.html.j2", facts(_told(document, words), settings)),
        "exact": ("facts.html.j2", facts(told_exact(words))),
        "costs": ("table.html.j2", cost_lines(rows) if any(r["costs"] for r in rows) else None),
    }
    return of_blocks(document, words, _key_numbers(document), blocks)


def _key_numbers(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    settings, rows, unit = document["settings"], document["classes"], unit_of(document["settings"])
    promised = digits_up(main_parameter(promise_of(settings)), 6)
    left = document["horizon"] - document["night"]
    return [
        (f"{document['night']:,}", f"nights so far, this one of {settings['run_key']}"),
        (f"{left:,}", f"night{'s' * (left != 1)} left, at no further cost"),
        (f"{sum(row['n_tonight'] for row in rows):,}", f"{unit}s tonight"),
        (f"{sum(row['n_so_far'] for row in rows):,}", f"{unit}s so far"),
        (f"{letter(settings['definition'])} = {promised}", f"for one {unit}, for ever"),
    ]


def _meaning(document: Mapping[str, Any]) -> list[str]:
    """Return what the stream means to one person, this night and all to come included."""
    settings, account = document["settings"], document["account"]
    cost, unit = promise_of(settings), unit_of(settings)
    whole, hardened = None if unit == "person" else 1, settings["noise"] == "hardened"
    spent = budget_from(account["definition"], account["spent"])
    lines = [
        sentence(plainly(cost, group=whole, seen=SEEN, hardened=hardened)),
        f"Each {unit} enters on one night, and pays for that night and all to come at once.",
        sentence(
            plainly(
                spent,
                group=account["images_per_person"],
                seen="this stream and all else that was paid from this account when it was opened",
                hardened=hardened,
            )
        ),
    ]
    return [*lines, *basis(cost, unit, hardened=hardened, rho=None)]


def _tonight(rows: Sequence[Mapping[str, Any]], unit: str) -> dict[str, Any]:
    """Return a line a class: who came, and how far the mean of all may be from the true one."""
    lines = [
        [
            row["class_name"],
            f"{row['n_tonight']:,}",
            f"{row['n_so_far']:,}",
            digits(row["predicted_error"], 3, "no mean yet"),
        ]
        for row in rows
    ]
    heads = ["Class", f"{unit.capitalize()}s tonight", "So far", "Error, predicted"]
    return {"heads": heads, "lines": lines, "text": 1}


def _means(rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> Figure | None:
    """Return the mean of all units so far, a square a class."""
    return _drawn([(row["class_name"], row["point"]) for row in rows], settings)


def _joined(rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> Figure | None:
    """Return the mean of this stream and of those that it follows."""
    found = [(row["class_name"], row["joined"]["point"]) for row in rows if row.get("joined")]
    return _drawn(found, settings)


def _lately(rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> Figure | None:
    """Return the means of windows, of the longest alone where there are many."""
    found = [(row["class_name"], seen) for row in rows for seen in _different(row["windows"])]
    if len(found) > SQUARES:
        longest = max(seen["nights"] for _, seen in found)
        found = [(name, seen) for name, seen in found if seen["nights"] == longest][:SQUARES]
    return _drawn([(f"{name}, {_span(seen)}", seen["point"]) for name, seen in found], settings)


def _drawn(found: Sequence[tuple[str, Any]], settings: Mapping[str, Any]) -> Figure | None:
    if not found:
        return None
    names, points = zip(*found, strict=True)
    return matrices(names, np.array(points), DESCRIPTORS[settings["descriptor"]].features)


def _windows(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a line a class and window: its nights, its units, and the size of its noise."""
    squares = np.sum(np.array(document["axes"]) ** 2, axis=1)
    lines = [
        [
            row["class_name"],
            _span(seen),
            f"{seen['first']} to {seen['last']}",
            f"{seen['n']:,}",
            digits(float(np.sqrt(np.array(seen["variances"]) @ squares)), 3),
        ]
        for row in document["classes"]
        for seen in _different(row["windows"])
    ]
    unit = unit_of(document["settings"]).capitalize()
    heads = ["Class", "Window", "Nights", f"{unit}s", "Noise, exactly"]
    return {"heads": heads, "lines": lines, "text": 2} if lines else None


def _different(windows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the windows that reach further back than those before them."""
    pairs = zip([None, *windows], windows, strict=False)
    return [seen for before, seen in pairs if before is None or seen["first"] < before["first"]]


def _span(seen: Mapping[str, Any]) -> str:
    return "last night" if seen["nights"] == 1 else f"last {seen['nights']} nights"


def _account(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the account as it stood when the stream was opened, and how long that lasts."""
    account, follows = document["account"], document["settings"]["stream"]["follows"]
    symbol, left = letter(account["definition"]), document["horizon"] - document["night"]
    paid = f"{symbol} = {digits_up(account['charged'], 6)}, once"
    return {
        "Paid for all nights": f"by {follows}, which it follows: {paid}" if follows else paid,
        "Paid for this night": "nothing more",
        "Nights left": f"{left:,} of {document['horizon']:,}, at no further cost",
        "May be spent in all": f"{symbol} = {digits_up(account['total'], 6)}",
        "Spent when it was opened": f"{symbol} = {digits_up(account['spent'], 6)}",
        **certified_total(account, document["settings"]),
        "Left then": f"{symbol} = {digits_down(account['left'], 6)}",
    }


def _told(document: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, str]:
    told = document["settings"]["stream"]
    return {
        **told_facts(document["settings"], words),
        "Horizon": f"{told['horizon']:,} nights",
        "Opening": f"when n·μ of a class reaches {told['opening']:g}",
    }
