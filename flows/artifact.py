"""What a release leaves in Prefect: what was released, and how long budget or horizon last.

Made from the committed document alone, so all of it is public.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect.artifacts import create_markdown_artifact

from pipeline.figures import letter
from pipeline.privacy.rounding import digits_down, digits_up
from pipeline.publish import read_document


def leave_artifact(document: Path) -> None:
    """Leave an artifact of a document; those of one config are versions of one key."""
    released = read_document(document)
    create_markdown_artifact(
        key=f"release-{released['settings']['name']}",
        markdown=in_markdown(released, document.with_suffix(".html")),
        description=f"{released['settings']['population']}, {released['settings']['run_key']}",
    )


def in_markdown(released: Mapping[str, Any], page: Path) -> str:
    """Return what a document says, in a few lines."""
    settings, account = released["settings"], released["account"]
    symbol = letter(account["definition"])
    paid = f"{symbol} = {digits_up(account['charged'], 6)}"
    left = f"{symbol} = {digits_down(account['left'], 6)}"
    if "night" in released:
        rest = released["horizon"] - released["night"]
        lines = [
            f"Night {released['night']} of {released['horizon']}, {rest} left at no further cost.",
            f"Paid: {paid}, once, when the stream was opened; left then: {left}.",
        ]
        heads = ["class", "tonight", "so far", "error, predicted"]
        rows = [_row(row, row["n_tonight"], row["n_so_far"]) for row in released["classes"]]
    else:
        lines = [f"Paid: {paid}. Left: {left}, {account['releases_left']} more like this."]
        heads = ["class", "n", "error, predicted"]
        rows = [_row(row, row["n"]) for row in released["classes"]]
    table = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join(
        [
            f"# {_plain(settings['title'])}",
            "",
            f"{_plain(settings['population'])}, {_plain(settings['run_key'])}",
            "",
            *("| " + " | ".join(cells) + " |" for cells in table),
            "",
            *(f"{line}  " for line in lines),
            f"Page: `{page}`",
            "",
        ]
    )


def _row(row: Mapping[str, Any], *counts: int) -> list[str]:
    error = row["predicted_error"]
    told = "no mean yet" if "w" in row and row["point"] is None else "not known"
    return [
        _plain(row["class_name"]),
        *(f"{count:,}" for count in counts),
        told if error is None else f"{error:.3g}",
    ]


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>()#+!|~" else letter for letter in text)
