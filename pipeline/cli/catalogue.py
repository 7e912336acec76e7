"""Commands on what there is: lists of datasets and mechanisms, and the audit of their claims."""

import sys
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from pipeline.cli.options import (
    NARROW,
    PLAIN,
    DataRoot,
    Out,
    Printing,
    begin,
    new_table,
    print_json,
    print_paths,
    show,
    width,
)
from pipeline.errors import one_line


def datasets(*, data_root: DataRoot = None, how: Printing = PLAIN) -> None:
    """List the known datasets: images, classes, licence, and whether they are on disk.

    ```
    covdp datasets
    covdp datasets --data-root ~/medmnist --json
    ```
    """
    from pipeline.datasets import DATASETS, overview

    begin(how)
    rows = overview(data_root)
    if how.json:
        print_json([_dataset(row, DATASETS[row.name]) for row in rows])
        return
    table = new_table(Column("name", no_wrap=True), title="Datasets", padding=(0, 1, 0, 0))
    for head in ("images", "classes"):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("sizes", "licence", "on disk"):
        table.add_column(head, no_wrap=head != "licence")
    for row in rows:
        table.add_row(*row)
    show(table, how)


def card(folder: Path, /, *, data_root: DataRoot = None, how: Printing = PLAIN) -> None:
    """Draft a card for a folder of images: PNG, JPEG, TIFF, DICOM, NIfTI, or a table of them.

    The card goes to standard output, what is a guess or could not be decided to standard error.

    ```
    covdp card ~/images/ward > ward.toml
    covdp describe --dataset ward.toml --data-root ~/images --store ~/stores/ward
    ```

    Parameters
    ----------
    folder
        The folder of the images, or a table of them (.csv, .parquet).
    data_root
        Folder in which it lies, to which path in the card is relative [the folder above].
    """
    from pipeline.datasets.draft import draft_card

    begin(how)
    draft = draft_card(folder, data_root)
    if how.json:
        print_json(draft)
        return
    print(draft.card, end="")
    for doubt in draft.open:
        print(f"covdp: {one_line(doubt)}", file=sys.stderr)


def _dataset(row: Any, card: Any) -> dict[str, Any]:
    """Return one dataset as JSON has it: numbers as numbers."""
    here = row.on_disk
    return {
        "name": row.name,
        "images": card.images.total if card.images else None,
        "classes": list(card.classes),
        "sizes": list(card.sizes),
        "licence": card.licence,
        "on_disk": here != "no",
        "sizes_on_disk": [int(size) for size in here.split(", ") if size.isdecimal()],
    }


def mechanisms(name: str | None = None, /, *, how: Printing = PLAIN) -> None:
    """List the mechanisms: definitions, manifolds, exact or chain, fit for release or not.

    ```
    covdp mechanisms
    covdp mechanisms ewg
    covdp mechanisms --json
    ```

    Parameters
    ----------
    name
        One mechanism, with all that is known of it.
    """
    from pipeline.errors import require_known
    from pipeline.geometry import MANIFOLDS
    from pipeline.mechanisms import MECHANISMS

    begin(how)
    if name is not None:
        require_known("mechanism", name, MECHANISMS, "`covdp mechanisms` lists them")
    chosen = [family for key, family in MECHANISMS.items() if name in (None, key)]
    facts = [_mechanism(family) for family in chosen]
    if how.json:
        print_json(facts)
    elif name is not None or how.verbose:
        for fact in facts:
            show(_details(fact), how)
    else:
        wide = width() >= NARROW
        show(_mechanisms(facts, wide, len(MANIFOLDS)), how)


def _mechanism(family: Any) -> dict[str, Any]:
    names = ("name", "title", "definitions", "manifolds", "samplers", "pure", "release", "note")
    return {name: getattr(family, name) for name in names}


def _details(fact: dict[str, Any]) -> Table:
    """Return one mechanism as a table of two columns."""
    table = new_table(Column(no_wrap=True), "", title=fact["title"], show_header=False)
    for label, value in fact.items():
        match value:
            case bool():
                table.add_row(label, "yes" if value else "no")
            case str():
                table.add_row(label, value)
            case _:
                table.add_row(label, ", ".join(value))
    return table


def _mechanisms(facts: list[dict[str, Any]], wide: bool, manifolds: int) -> Table:
    """Return one line a mechanism; where there is little room, what stands in few words."""
    caption = (
        'Releases use "auto" by default, the adaptive mean: ewg with a private footpoint and '
        "radii. `covdp mechanisms NAME` has all about one."
    )
    table = new_table(title="Mechanisms", caption=caption, show_lines=wide)
    for head in ("name", "mechanism", "definitions", "manifolds", "drawn", "pure DP", "release"):
        if wide or head not in ("mechanism", "definitions"):
            table.add_column(head, no_wrap=not wide or head == "name")
    for fact in facts:
        lists = (", ".join(fact["definitions"]), ", ".join(fact["manifolds"]))
        table.add_row(
            fact["name"],
            *((fact["title"], *lists) if wide else (f"{len(fact['manifolds'])} of {manifolds}",)),
            ", ".join(fact["samplers"]),
            "yes" if fact["pure"] else "no",
            "yes" if fact["release"] else "no",
        )
    return table


def audit(
    *,
    mechanism: str | None = None,
    trials: int = 100_000,
    out: Out = None,
    seed: int = 0,
    controls: bool = False,
    how: Printing = PLAIN,
) -> None:
    """Bound what every mechanism leaks from below, beside what it claims; write Parquet.

    Exit code 1 means that a claim is violated (or, with `--controls`, that a fault was missed).

    ```
    covdp audit
    covdp audit --mechanism ewg --trials 1000000
    ```

    Parameters
    ----------
    mechanism
        One name from `covdp mechanisms`, or adaptive; all of them when left out.
    trials
        Draws on each of the two neighbouring data sets.
    seed
        Seed of all random streams.
    controls
        Also audit mechanisms broken on purpose, which must be caught.
    """
    from pipeline.audit import run_audit

    begin(how)
    done = run_audit(mechanism, trials=trials, out=out, seed=seed, controls=controls)
    if how.json:
        print_json({"results": done.path, "good": done.good, "claims": done.claims})
    else:
        show(done.every if how.verbose else done.table, how)
        print_paths({"results": done.path}, how)
    if not done.good:
        sys.exit(1)
