"""The command that reads images once: describe."""

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.options import (
    PLAIN,
    DataRoot,
    Printing,
    begin,
    new_table,
    print_json,
    print_line,
    show,
)

if TYPE_CHECKING:
    from pipeline.store import Place


EXCLUDED = "excluded.txt"


def describe(
    *,
    dataset: str,
    store: str,
    descriptor: str = "oct5",
    data_root: DataRoot = None,
    runner: str = "threads",
    check: bool = False,
    how: Printing = PLAIN,
) -> None:
    """Describe the images of a dataset once, and keep the descriptors in a store.

    A pass that was stopped goes on where it was; run again, there is nothing to do. The store is as
    private as the images: a folder that is yours alone, or an address that fsspec knows, whose
    credentials it finds in its own environment.

    ```
    covdp describe --dataset ward-card.toml --store ~/stores/ward
    covdp describe --dataset ward-card.toml --store ~/stores/ward --check
    covdp describe --dataset octmnist --store s3://bucket/octmnist --runner dask
    ```

    Parameters
    ----------
    dataset
        A name from `covdp datasets`, or a card of your own (a TOML file).
    store
        A folder, or an address such as s3://bucket/folder.
    descriptor
        A name from the README; it must fit the images: gray, colour or volumes.
    runner
        Who describes: threads of this process, dask on this machine, or the address of a Dask
        scheduler.
    check
        Read every file and describe none: list those that cannot be used, with the reason, and
        write excluded.txt into the store, which exclude in the card can name.
    """
    from pipeline.datasets import open_dataset
    from pipeline.descriptors import domain_of, require_descriptor_for
    from pipeline.parallel import check_runner, workers
    from pipeline.store import fill, find_place, make_plan

    begin(how)
    check_runner(runner)
    place = find_place(store)
    if check:
        _check(dataset, data_root, place, how)
        return
    source = open_dataset(dataset, data_root)
    card = source.card
    require_descriptor_for(descriptor, channels=card.channels, volumes=card.volumes)
    domain_of(descriptor, source.shape)  # refuses sizes for which there is none
    plan = make_plan(source, descriptor=descriptor)
    if runner == "threads":  # one stream keeps all cores busy
        found = fill(plan, place)
    else:
        with workers(runner) as unordered:
            found = fill(plan, place, unordered)
    images = sum(found.stored.counts)
    if how.json:
        print_json(
            {
                "images": images,
                "described": found.images,
                "seconds": found.seconds,
                "images_per_second": found.images / found.seconds,
                "peak_memory": found.peak,
                "store": place.shown,
            }
        )
        return
    if not how.quiet and found.images:
        print(f"images       {images:,}, of which {found.images:,} now")
        print(f"seconds      {found.seconds:.1f}")
        print(f"images/s     {found.images / found.seconds:,.0f}")
        print(f"peak memory  {found.peak / 2**20:,.0f} MiB, of the largest worker")
    elif not how.quiet:
        print(f"images       {images:,}: nothing to do, all are described")
    print_line(place.shown if how.quiet else f"store        {place.shown}")


def _check(dataset: str, root: Path | None, place: "Place", how: Printing) -> None:
    """List what cannot be used, and write the list that a card can name; then say what is left."""
    from rich.text import Text

    from pipeline.datasets import collect_faults, fetch, find_card
    from pipeline.datasets.listing import read_exclusions
    from pipeline.errors import one_line, printable
    from pipeline.store import check, exclusion_list, listing_faults

    card = find_card(dataset)
    path = fetch(card, root, progress=False)
    folder = path if path.is_dir() else path.parent
    place.prepare()
    found = collect_faults(card, path)
    faults = listing_faults(found.faults, folder)
    if found.source is not None:
        before = {fault.file for fault in faults}
        faults += [one for one in check(found.source, folder) if one.file not in before]
    left_out = read_exclusions(getattr(card, "exclude", None), folder, there=False)
    place.write(EXCLUDED, exclusion_list(faults, left_out))
    if how.json:
        print_json({"faults": [fault._asdict() for fault in faults], "list": place.join(EXCLUDED)})
    elif faults:
        table = new_table("file", "reason", title="Cannot be used")
        for fault in faults:
            name = printable(fault.file, lines=False)
            table.add_row(Text(name), Text(one_line(fault.reason)))
        show(table, how)
    if not how.json and not how.quiet:
        print(f"{len(faults)} of the files cannot be used")
    if not how.json:
        print_line(place.join(EXCLUDED))
    if found.error is not None:
        raise found.error
