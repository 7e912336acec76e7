"""Commands on what there is: datasets, cards, descriptors, mechanisms, schema of documents."""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.table import Column, Table

from covdp.cli.check import check_files
from covdp.cli.options import NARROW, PLAIN, DataRoot, Printing
from covdp.cli.output import new_table, numbers, print_json, print_line, width
from covdp.cli.streams import complain, takes_unicode
from covdp.errors import one_line, printable
from covdp.registry import Registry

if TYPE_CHECKING:
    from covdp.datasets.draft import Draft
    from covdp.datasets.registry import DatasetRow
    from covdp.descriptors import DescriptorDomain
    from covdp.geometry import AffineMap
    from covdp.store import PassReport, Place

MapsFile = Annotated[
    Path | None,
    Parameter("--map", help="Maps of `covdp harmonise`: store descriptors on the common scale."),
]
READERS = Registry[Callable[[Path], Any]]("readers", {})
"""Files that add-ons read: ``maps``, of `covdp harmonise`."""
FACTS = ("name", "title", "definitions", "manifolds", "samplers", "pure", "release", "note")
"""Facts about a mechanism, as programs read them."""


def datasets(*, data_root: DataRoot = None, output: Printing = PLAIN) -> None:
    """List the known datasets: images, classes, licence, and whether they are on disk.

    A config takes the smallest size of a dataset unless its `size` names another.

    ```
    covdp datasets
    covdp datasets --data-root ~/medmnist --json
    ```
    """
    from covdp.datasets import overview

    rows = overview(data_root)
    name, sizes, here = (Column(head, no_wrap=True) for head in ("name", "sizes", "on disk"))
    heads = (name, *numbers("images", "classes"), sizes, Column("licence"), here)
    table = new_table(*heads, rows=map(_dataset, rows), title="Datasets", padding=(0, 1, 0, 0))
    output.answer([row._asdict() for row in rows], table)


def card(
    folder: Path,
    /,
    *,
    data_root: Annotated[
        DataRoot,
        Parameter(help="Folder in which the path of the card begins [the folder above FOLDER]."),
    ] = None,
    output: Printing = PLAIN,
) -> None:
    """Draft a card for a folder of images: PNG, JPEG, TIFF, DICOM, NIfTI, or a table of them.

    The card goes to standard output. If files cannot be used, the card leaves them out by a list,
    which is written to NAME-excluded.txt in the current folder. Standard error has the numbers of
    images and persons of each class, who is protected, what was guessed, what you must decide, and
    the next command. What is printed there is as private as the images.

    ```
    covdp card ~/images/ward > ward-card.toml
    covdp start ward-card.toml --data-root ~/images
    ```

    Parameters
    ----------
    folder
        The folder of the images, or a table of them (.csv, .parquet).
    """
    from covdp.datasets.draft import draft_card

    draft = draft_card(folder, data_root)
    if draft.exclude:
        _write_exclusions(draft, Path(draft.exclude))
    if output.json:
        print_json(draft)
        return
    print(draft.card if takes_unicode(sys.stdout) else _escaped(draft.card), end="")
    root = (data_root or folder.resolve().parent).resolve()
    for line in (*draft.open, *(() if output.quiet else _counted(draft))):
        complain(line)
    if not output.quiet:
        name = printable(f"{folder.resolve().stem}-card.toml", lines=False)
        command = shlex.join(["covdp", "start", name, "--data-root", str(root)])
        complain(f"next: read the card, save it as {name}, and run")
        print(f"    {one_line(command)}", file=sys.stderr)


def _write_exclusions(draft: "Draft", file: Path) -> None:
    """Write the list that a draft leaves out, where the card is saved; another one there stays."""
    from covdp.files import write_whole

    try:
        there = file.read_bytes() if file.exists() else draft.exclusions
        if there == draft.exclusions:
            write_whole(file, draft.exclusions, mode=0o600)
            return
        fault = "it is there with other rows, and stays"
    except OSError as error:
        fault = f"cannot write it ({error.strerror})"
    out = ", ".join(printable(x.file, lines=False) for x in draft.odd if not x.curable)
    complain(f"{file}: {fault}; the card needs it beside itself, with a row for each of {out}")


def _escaped(text: str) -> str:
    """Return TOML in ASCII, whose strings have other letters by their code."""
    return re.sub(r"[^\0-\x7f]", lambda match: f"\\U{ord(match[0]):08x}", text)


def _counted(draft: "Draft") -> Iterator[str]:
    """Yield what each class has, and whom the card protects."""
    from covdp.privacy.statement import protected_unit

    for name, images, persons in draft.counts:
        line = f"class {printable(name, lines=False)}: {images:,} image{'s' * (images != 1)}"
        if persons is not None:
            least = "at least " * draft.sampled
            line += f" of {least}{persons:,} person{'s' * (persons != 1)}"
        yield line
    way = " (data/README.md: persons)" if draft.unit == "image" else ""
    yield f"protected: {protected_unit(draft.unit)}{way}"


def _dataset(row: "DatasetRow") -> list[str]:
    """Return the cells of one dataset; of several sizes those that are on disk are named."""
    sizes, here = (", ".join(map(str, each)) for each in (row.sizes, row.sizes_on_disk))
    if len(row.sizes) < 2:
        here = "yes" if row.on_disk else ""
    images = "" if row.images is None else f"{row.images:,}"
    return [row.name, images, str(len(row.classes)), sizes, row.licence, here or "no"]


def describe(
    *,
    dataset: str,
    store: str,
    descriptor: str = "oct5",
    data_root: DataRoot = None,
    runner: str = "threads",
    check: bool = False,
    maps: MapsFile = None,
    site: str | None = None,
    output: Printing = PLAIN,
) -> None:
    """Describe the images of a dataset once, and keep the descriptors in a store.

    A pass that was stopped goes on where it stopped. A pass over a complete store does nothing. The
    store is as private as the images: a folder that is yours alone, or an address of fsspec, which
    finds credentials in its own environment.

    ```
    covdp describe --dataset ward-card.toml --store ~/stores/ward
    covdp describe --dataset ward-card.toml --store ~/stores/ward --check
    covdp describe --dataset octmnist --store s3://bucket/octmnist --runner dask
    covdp describe --dataset ward-card.toml --store ~/stores/common --map maps.json --site ward-7
    ```

    Parameters
    ----------
    dataset
        A name from `covdp datasets`, or a card of your own (a TOML file).
    store
        A folder, or an address such as s3://bucket/folder.
    descriptor
        A name from `covdp descriptors`; it must fit the images: gray, colour or volumes.
    runner
        Kind of workers: threads of this process, dask on this machine, or the address of a Dask
        scheduler.
    check
        Read every file and describe none. Files that cannot be used are listed with the reason, and
        in excluded.txt in the store. The card may name this file: exclude = ...
    site
        Site whose map of `--map` is applied: the name of its release.
    """
    from covdp.parallel import check_runner, workers

    check_runner(runner)  # before imports that take seconds on a busy machine
    from covdp.datasets import open_dataset
    from covdp.descriptors import DESCRIPTORS, domain_of, require_descriptor_for
    from covdp.store import fill, find_place, make_plan

    place = find_place(store)
    if check:
        check_files(dataset, data_root, place, output)
        return
    source = open_dataset(dataset, data_root)
    card = source.card
    require_descriptor_for(descriptor, channels=card.channels, volumes=card.volumes)
    manifold = DESCRIPTORS[descriptor].manifold or "spd-log-euclidean"
    masked = source.masks is not None
    domain = domain_of(descriptor, source.shape, manifold=manifold, masked=masked)
    plan = make_plan(source, descriptor=descriptor, scale=_scale(domain, maps, site))
    # of threads one stream keeps all cores busy
    with nullcontext() if runner == "threads" else workers(runner) as unordered:
        report = fill(plan, place, unordered)
    _print_pass(report, place, output)


def _scale(domain: "DescriptorDomain", path: Path | None, site: str | None) -> "AffineMap | None":
    """Return the map of a site for images of a domain; None where there is no file of maps."""
    from covdp.errors import ConfigError, require_known

    if (path is None) != (site is None):
        raise ConfigError("--map says which maps and --site which of them; give both, or neither")
    if path is None or site is None:
        return None
    require_known("reader", "maps", READERS, "files of maps are read by the add-on partners")
    maps = READERS["maps"](path)
    maps.require_same(path, descriptor=domain.descriptor, eta=domain.eta, **domain.images)
    found: AffineMap = maps.map_of(site)
    return found


def _print_pass(report: "PassReport", place: "Place", output: Printing) -> None:
    """Say how many images a pass described, how fast, and where their descriptors are."""
    images, rate = sum(report.stored.counts), report.images / report.seconds
    if output.json:
        numbers = {"images": images, "described": report.images, "seconds": report.seconds}
        numbers |= {"images_per_second": rate, "peak_memory": report.peak}
        print_json({**numbers, "decoding": report.decoding, "store": place.shown})
        return
    if not output.quiet and report.images:
        print(f"images       {images:,}, of which {report.images:,} now")
        print(f"seconds      {report.seconds:.1f}")
        print(f"images/s     {rate:,.0f}")
        print(f"peak memory  {report.peak / 2**20:,.0f} MiB, of the largest worker")
        if report.decoding:
            parts = [f"{what} {100 * part:.0f} %" for what, part in report.decoding.items()]
            all_of = 100 * sum(report.decoding.values())
            print(f"decoding     {all_of:.0f} % of the work: {', '.join(parts)}")
    elif not output.quiet:
        print(f"images       {images:,}: nothing to do, all are described")
    print_line(place.shown if output.quiet else f"store        {place.shown}")


def descriptors(*, output: Printing = PLAIN) -> None:
    """List the descriptors: images they take, features of a pixel in order, filters.

    ```
    covdp descriptors
    covdp descriptors --json
    ```
    """
    from covdp.descriptors import DESCRIPTORS

    entries = [(x.name, x.takes, x.features, x.formula) for x in DESCRIPTORS.values()]
    heads = "name", "images", "features", "formula"
    rows = ((name, takes, ", ".join(features)) for name, takes, features, _ in entries)
    first = Column(heads[0], no_wrap=True)
    table = new_table(first, *heads[1:3], rows=rows, title="Descriptors")
    alike = dict[str, list[str]]()
    for name, _, _, formula in entries:
        alike.setdefault(formula, []).append(name)
    lines = [f"{', '.join(names)}: {formula}." for formula, names in alike.items()]
    output.answer([dict(zip(heads, entry, strict=True)) for entry in entries], table, *lines)


def mechanisms(name: str | None = None, /, *, output: Printing = PLAIN) -> None:
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
    from covdp.errors import require_known
    from covdp.geometry import MANIFOLDS
    from covdp.mechanisms import MECHANISMS

    if name is not None:
        require_known("mechanism", name, MECHANISMS, "`covdp mechanisms` lists them")
    chosen = [family for key, family in MECHANISMS.items() if name in (None, key)]
    facts = [{key: getattr(family, key) for key in FACTS} for family in chosen]
    if name is not None or output.verbose:
        output.answer(facts, *map(_details, facts))
    else:
        output.answer(facts, _mechanisms(facts, width() >= NARROW, len(MANIFOLDS)))


def _details(fact: dict[str, Any]) -> Table:
    """Return one mechanism as a table of two columns."""
    rows = ((label, _cell(value)) for label, value in fact.items())
    first = Column(no_wrap=True)
    return new_table(first, "", rows=rows, title=fact["title"], show_header=False)


def _cell(value: bool | str | Sequence[str]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else ", ".join(value)


def _mechanisms(facts: list[dict[str, Any]], wide: bool, manifolds: int) -> Table:
    """Return one line a mechanism; where there is little room, what stands in few words."""
    caption = (
        'Releases use "auto" by default, the adaptive mean: ewg with a private footpoint and '
        "radii. `covdp mechanisms NAME` shows one."
    )
    table = new_table(title="Mechanisms", caption=caption, show_lines=wide)
    for head in ("name", "mechanism", "definitions", "manifolds", "drawn", "pure DP", "release"):
        if wide or head not in ("mechanism", "definitions"):
            table.add_column(head, no_wrap=not wide or head == "name")
    for fact in facts:
        shown = [fact["title"], fact["definitions"], fact["manifolds"]]
        if not wide:
            shown = [f"{len(fact['manifolds'])} of {manifolds}"]
        cells = (fact["name"], *shown, fact["samplers"], fact["pure"], fact["release"])
        table.add_row(*map(_cell, cells))
    return table


def schema() -> None:
    """Print the JSON Schema of the document that a release, or a night of a stream, commits.

    ```
    covdp schema > document.schema.json
    ```
    """
    from covdp.publish import DOCUMENT_SCHEMA

    print_json(json.loads(DOCUMENT_SCHEMA.read_text(encoding="utf-8")))
