"""Commands on what there is: lists of datasets and mechanisms, and the audit of their claims."""

import sys

from rich.table import Column, Table

from pipeline.cli.options import DataRoot, Out, print_paths, show


def datasets(*, data_root: DataRoot = None) -> None:
    """List the known datasets: images, classes, licence, and whether they are on disk."""
    from pipeline.datasets import overview

    table = Table(
        Column("name", no_wrap=True),
        "images",
        "classes",
        "sizes",
        "licence",
        "on disk",
        title="Datasets",
    )
    for row in overview(data_root):
        table.add_row(*row)
    show(table)


def mechanisms() -> None:
    """List the mechanisms: definitions, manifolds, exact or chain, fit for release or not."""
    from pipeline.mechanisms import MECHANISMS

    heads = (
        Column("name", no_wrap=True),
        "mechanism",
        "definitions",
        "manifolds",
        "drawn",
        "pure",
        "release",
        "note",
    )
    caption = (
        'Releases use "auto" by default, the adaptive mean: ewg with a private footpoint and radii.'
    )
    table = Table(*heads, title="Mechanisms", caption=caption, show_lines=True)
    for family in MECHANISMS.values():
        table.add_row(
            family.name,
            family.title,
            ", ".join(family.definitions),
            ", ".join(family.manifolds),
            " or ".join(family.samplers),
            "pure" if family.pure else "approximate",
            "yes" if family.release else "no",
            family.note,
        )
    show(table)


def audit(
    *,
    mechanism: str | None = None,
    trials: int = 100_000,
    out: Out = None,
    seed: int = 0,
    controls: bool = False,
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

    done = run_audit(mechanism, trials=trials, out=out, seed=seed, controls=controls)
    show(done.table)
    print_paths({"results": done.path})
    if not done.good:
        sys.exit(1)
