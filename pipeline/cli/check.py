"""The command that looks before anything is paid: images, odd files, account, predicted use.

What it prints is as private as the images. No service and no flow calls it: to release or not by
what images show would tell of them.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from covdp.cli.options import PLAIN, ConfigRoot, LedgerAddress, Out, Printing
from covdp.cli.output import new_table, numbers, print_line
from covdp.errors import ConfigError, one_line, printable

if TYPE_CHECKING:
    from covdp.datasets import Card
    from covdp.datasets.summary import OddFile
    from covdp.publish import ReleaseConfig
    from covdp.publish.preview import Preview
    from covdp.store import FileFault, Inspection, Place

EXCLUDED = "excluded.txt"
"""List of files that cannot be used, in a store or beside the page of a check."""
DECIDE = 3
"""Exit code where somebody must decide."""
PROPOSED = 0.5
"""μ of the release that is foreseen where there is no config."""


def check(
    *,
    config: Path | None = None,
    dataset: str | None = None,
    data_root: ConfigRoot = None,
    out: Out = None,
    ledger: LedgerAddress = None,
    output: Printing = PLAIN,
) -> None:
    """Look at all images before anything is paid: which are odd, and the predicted use.

    Every image is read. The range of values is counted on a part of the files if there are 2,000 or
    more. The command shows odd files, each with the reason and the lines to paste, the classes and
    persons, the account, the release that would follow and its predicted use. A page shows the
    images as they enter, too. Nothing is charged. Only OUT is written, for you alone. The page and
    all that is printed are as private as the images.

    The exit code is 3 if somebody must decide or mend something, else 0. Copies of images are a
    note, and do not change it. Let no schedule release or skip by this code: that would tell what
    the images show.

    ```
    covdp check --config ward.toml
    covdp check --dataset ward-card.toml --data-root /srv/images --out looked-at
    ```

    Parameters
    ----------
    config
        The release in TOML, as for `covdp release`.
    dataset
        In place of a config, a card of your own (a TOML file), or a name from `covdp datasets`. The
        images of a card may be beside it.
    """
    from covdp.files import default_out
    from covdp.publish import load_release

    if (config is None) == (dataset is None):
        raise ConfigError("give --config, or --dataset, and not both")
    made = config is not None
    settings = load_release(config, opened=True) if config else settings_of(str(dataset))
    root = data_root or (None if made else root_beside(settings.dataset, settings.card))
    folder = out or default_out(settings.name, "check")
    preview, paths = look(settings, root, folder, ledger, made=made)
    output.answer(_values(preview), *_items(preview), paths=paths)
    if preview.decisions:
        sys.stdout.flush()
        sys.exit(DECIDE)


def look(
    settings: "ReleaseConfig", root: Path | None, out: Path, ledger: str | None, *, made: bool
) -> tuple["Preview", dict[str, Path]]:
    """Return the preview of a release, and where its page and its list of exclusions are.

    Parameters
    ----------
    settings : ReleaseConfig
        Settings of the release.
    root : Path or None
        Data root.
    out : Path
        Folder of the page, readable by its owner alone.
    ledger : str or None
        Address of the ledger.
    made : bool
        False if there is no config yet, so that nothing can be paid.
    """
    from covdp.files import make_folder, owner_only, write_whole
    from covdp.jobs import preview_release
    from covdp.report import build_check

    make_folder(out.parent)  # which others may read, as the page and its folder not
    preview = preview_release(settings, ledger=ledger, root=root, made=made)
    paths = dict[str, Path]()
    if any(fault.listed for fault in preview.found.faults):
        content = exclusions(preview.found, settings.card)
        with owner_only(True):
            paths["list"] = write_whole(make_folder(out) / EXCLUDED, content)
        rows = paste_lines(settings.dataset, settings.card, paths["list"])
        preview = replace(preview, paste=tuple(rows))
    return preview, {"page": build_check(preview, out), **paths}


def settings_of(dataset: str, budget: float = PROPOSED) -> "ReleaseConfig":
    """Return the settings that a release of a card would have by default.

    Parameters
    ----------
    dataset : str
        Name of a dataset, or path of a card.
    budget : float
        Budget of the release, μ.
    """
    from covdp.datasets import find_card
    from covdp.publish import ReleaseConfig, plain_name

    card = find_card(dataset)
    name = plain_name(card.name.removesuffix("-card"))
    keys: Mapping[str, Any] = {"name": name, "population": name, "dataset": dataset}
    keys = {**keys, "descriptor": descriptor_of(card), "run_key": "none"}
    return ReleaseConfig(**keys, budget=budget).of_card(card)


def descriptor_of(card: "Card") -> str:
    """Return the descriptor of a card by default: that of releases, if it fits the images.

    Parameters
    ----------
    card : Card
        Card of the dataset.
    """
    from covdp.descriptors import descriptors_for
    from covdp.publish import ReleaseConfig

    fit = descriptors_for(channels=card.channels, volumes=card.volumes)
    default = str(ReleaseConfig.model_fields["descriptor"].default)
    return default if default in fit else fit[0]


def root_beside(dataset: str, card: "Card") -> Path | None:
    """Return the folder of a card if its images are there, too.

    Parameters
    ----------
    dataset : str
        Name of a dataset, or path of a card.
    card : Card
        Card of the dataset.
    """
    above = Path(dataset).parent
    return (
        above if dataset.endswith(".toml") and (above / (card.path or card.name)).exists() else None
    )


def exclusions(found: "Inspection", card: "Card") -> bytes:
    """Return the list that leaves out what cannot be used, and what the card leaves out already.

    Parameters
    ----------
    found : Inspection
        Result of an inspection of all files.
    card : Card
        Card of the dataset.
    """
    from covdp.datasets.cards import LocalFilesCard
    from covdp.datasets.listing import read_exclusions
    from covdp.store import exclusion_list

    before = frozenset[str]()
    if isinstance(card, LocalFilesCard):
        before = read_exclusions(card.exclude, card.folder, found.folder, there=False)
    return exclusion_list(found.faults, before)


def paste_lines(dataset: str, card: "Card", listed: Path | str) -> list[str]:
    """Return how a card is made to leave out the files of a list.

    Parameters
    ----------
    dataset : str
        Name of a dataset, or path of a card.
    card : Card
        Card of the dataset.
    listed : Path or str
        Place of the list of exclusions: a file, or an address in a store.
    """
    if not dataset.endswith(".toml"):
        return []
    file, before = Path(dataset), getattr(card, "exclude", None)
    above = file.absolute().parent
    name = before or f"{file.stem.removesuffix('-card')}-excluded.txt"
    if before is None and "://" not in str(listed):
        path = os.path.relpath(Path(listed).absolute(), above).replace(os.sep, "/")
        if not path.startswith("../"):
            return [f"to leave them out, add to {file}:", f"    exclude = {json.dumps(path)}"]
    target = shlex.join(["cp", str(listed), str(file.parent / name)])
    lines = ["to leave them out:", f"    {target}"]
    return lines if before else [*lines, f"and add to {file}:", f"    exclude = {json.dumps(name)}"]


def file_tables(found: "Inspection") -> list[Table]:
    """Return tables of odd files, those that a key cures apart, and of the kinds of all files.

    Parameters
    ----------
    found : Inspection
        Result of an inspection of all files.
    """
    from covdp.datasets.summary import in_words

    shown: dict[str, Sequence[FileFault | OddFile]] = {
        "Cannot be used": [x for x in found.faults if not x.curable],
        "Cured by a key of the card, and in no list": [x for x in found.faults if x.curable],
        "Can be used, and differ from nearly all others": found.odd,
        "Copies": found.copies,
    }
    tables = [
        new_table("file", "reason", rows=_cells(files), title=title)
        for title, files in shown.items()
        if files
    ]
    kinds = new_table("feature", "value", *numbers("files"), rows=in_words(found.counts))
    return [*tables, *([kinds] * bool(found.counts))]


def _cells(files: "Sequence[FileFault | OddFile]") -> Iterator[tuple[Text, Text]]:
    """Yield the cells of files: path and reason."""
    for file in files:
        yield Text(printable(file.file, lines=False)), Text(one_line(file.reason))


def _items(preview: "Preview") -> list[Table | str]:
    """Return what a person reads of a preview."""
    from covdp.report import table_of

    table = table_of("check", "classes", preview)
    heads, rows = (table["heads"], table["lines"]) if table else ((), ())
    shown = [[escape(printable(cell)) for cell in line] for line in rows]
    lines = [f" account: {preview.account}" * bool(preview.account)]
    lines += [f" a release would {preview.would}", *(f" {text}" for text in chain(*preview.use))]
    lines += [f" note: {text}" for text in preview.notes]
    if preview.decisions:
        lines += ["", " to decide or mend:", *(f"   {text}" for text in preview.decisions)]
    lines += [f" {text}" for text in preview.paste]
    return [
        preview.note,
        *file_tables(preview.found),
        new_table(*(head.lower() for head in heads), rows=shown),
        *(escape(line) for line in lines if line),
    ]


def _values(preview: "Preview") -> dict[str, Any]:
    """Return a preview under the names that programs may rely on."""
    classes = [
        {"name": row.name, "n": row.images, "persons": row.persons, "use": use}
        for row, use in zip(preview.classes, preview.uses, strict=True)
    ]
    return {
        "note": preview.note,
        "images": preview.images,
        "persons": preview.persons,
        "classes": classes,
        "gray": preview.gray,
        "odd": [{"file": x.file, "reason": x.reason, "kind": kind} for x, kind in preview.odd],
        "counts": [row._asdict() for row in preview.found.counts],
        "decide": preview.decisions,
        "notes": preview.notes,
        "paste": preview.paste,
        "would": preview.would,
        "account": preview.account or None,
        "use": " ".join(chain(*preview.use)),
    }


def check_files(dataset: str, root: Path | None, place: "Place", output: Printing) -> None:
    """List what cannot be used or is odd, and write the list that a card can name, in a store.

    Parameters
    ----------
    dataset : str
        Name of a dataset, or path of a card.
    root : Path or None
        Data root.
    place : Place
        Store that the list is written to.
    output : Printing
        Options of what is printed.
    """
    from covdp.datasets import fetch, find_card
    from covdp.errors import MismatchError
    from covdp.store import inspect

    card = find_card(dataset)
    path = fetch(card, root, progress=False)
    place.prepare()
    found = inspect(card, path)
    place.write(EXCLUDED, exclusions(found, card))
    listed = place.join(EXCLUDED)
    unusable = f"{len(found.faults)} of the files cannot be used"
    last = [*found.warnings, *found.layout]
    last.append(unusable if found.faults else "all files can be used")
    if any(fault.listed for fault in found.faults):
        last += paste_lines(dataset, card, listed)
    value = {
        "faults": [fault._asdict() for fault in found.faults],
        "odd": [file._asdict() for file in (*found.odd, *found.copies)],
        "counts": [count._asdict() for count in found.counts],
        "warnings": [*found.warnings, *found.layout],
        "list": listed,
    }
    output.answer(value, *file_tables(found), *map(escape, last))
    if not output.json:
        print_line(listed)
    if found.error is not None:
        raise found.error
    if found.layout and not all(found.class_sizes):
        raise MismatchError(found.layout[0])
