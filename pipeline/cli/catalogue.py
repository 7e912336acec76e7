"""Commands that list what there is: datasets, mechanisms."""

from rich.table import Column, Table

from pipeline.cli.options import DataRoot, show


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
    table = Table(*heads, title="Mechanisms", show_lines=True)
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
