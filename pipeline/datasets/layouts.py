"""What the paths of images say by themselves: classes, splits and persons, where that is plain."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.datasets.source import SPLITS

FEW = 50
"""Classes that names of folders or files may be taken for; more are rather persons."""
OTHER_SPLITS = ("training", "valid", "validation", "dev", "testing")


@dataclass(frozen=True)
class Layout:
    """A reading of paths.

    Attributes
    ----------
    classes : tuple of str
        Their names, sorted.
    pattern : str
        Where images lie, with ``{class}``.
    person : bool
        Whether the pattern names ``{person}``.
    open : tuple of str
        What is a guess, or could not be decided.
    from_above : bool
        Whether the pattern begins in the folder above, as the folder is the only class.
    """

    classes: tuple[str, ...]
    pattern: str
    person: bool
    open: tuple[str, ...] = ()
    from_above: bool = False


def read_layout(paths: Sequence[str], folder: str, *, persons: bool = True) -> Layout:
    """Return how the relative paths of images can be read; `folder` is the name of theirs.

    Folders that hold nothing but one folder are passed; then come splits, if all have such names;
    then classes. Where the images lie in one folder, the beginnings of their names are tried, and
    last all are one class. Persons are looked for only where `persons` says so.
    """
    parts = [path.split("/") for path in paths]
    before: list[str] = []
    while len({part[0] for part in parts}) == 1 and all(len(part) > 2 for part in parts):
        before.append(_escaped(parts[0][0]))
        parts = [part[1:] for part in parts]
    doubts = []
    first = {part[0] for part in parts}
    if first <= set(SPLITS) and all(len(part) > 2 for part in parts):
        before.append("{split}")
        parts = [part[1:] for part in parts]
    elif strange := first & set(OTHER_SPLITS):
        doubts.append(
            f"folder '{min(strange)}' may be a split; a card knows {', '.join(SPLITS)}: rename it"
        )
    names = {part[0] for part in parts}
    if all(len(part) > 1 for part in parts) and _are_classes(names):
        person, rest = _below([part[1:] for part in parts], [part[0] for part in parts], persons)
        doubts += [_PERSON] if person else []
        return _layout(names, [*before, "{class}", *rest], person, doubts)
    if (found := _by_beginning([part[-1] for part in parts], parts)) is not None:
        names, pattern = found
        doubts.append(
            f"classes are the beginnings of file names, {', '.join(sorted(names))}: correct "
            "classes and pattern if they are not"
        )
        return _layout(names, [*before, pattern], False, doubts)
    doubts.append(
        "no folders or names that look like classes: all images are one class; correct classes and "
        "pattern if they are not"
    )
    deeper = ["**"] if any(len(part) > 1 for part in parts) else []
    pattern = "/".join(["{class}", *before, *deeper, "*"])
    return Layout((folder,), pattern, False, tuple(doubts), from_above=True)


_PERSON = (
    "persons are a guess from the paths; correct pattern, or take unit and {person} out if every "
    "image is of another person"
)


def _layout(names: set[str], pattern: list[str], person: bool, doubts: list[str]) -> Layout:
    return Layout(tuple(sorted(names)), "/".join(pattern), person, tuple(doubts))


def _escaped(name: str) -> str:
    return re.sub(r"[*?\[{]", r"[\g<0>]", name)


def _are_classes(names: set[str]) -> bool:
    """Return whether folders may be classes: some, and each named as a class can be."""
    return 1 <= len(names) <= FEW and all(
        name.isprintable() and name == name.strip() for name in names
    )


def _below(parts: list[list[str]], labels: list[str], persons: bool) -> tuple[bool, list[str]]:
    """Return whether the paths below classes name persons, and the pattern of them."""
    depths = {len(part) for part in parts}
    if persons and depths == {2} and _repeats([part[0] for part in parts], labels):
        return True, ["{person}", "*"]
    if depths != {1}:
        return False, ["**", "*"]
    for between in "-_" if persons else "":
        fields = [part[0].rpartition(".")[0].split(between) for part in parts]
        plain = all(
            len(field) == 2 and field[0].strip() and field[1].isdecimal() for field in fields
        )
        if plain and _repeats([field[0] for field in fields], labels):
            return True, ["{person}" + between + "*"]
    return False, ["*"]


def _repeats(persons: list[str], labels: list[str]) -> bool:
    """Return whether names are persons': several a class, half of them with several images."""
    images: dict[str, Counter[str]] = defaultdict(Counter)
    for person, label in zip(persons, labels, strict=True):
        images[label][person] += 1
    return all(
        len(of) > 1 and 2 * sum(n > 1 for n in of.values()) >= len(of) for of in images.values()
    )


def _by_beginning(names: list[str], parts: list[list[str]]) -> tuple[set[str], str] | None:
    """Return classes that names of files in one folder begin with, and the pattern of them."""
    if any(len(part) > 1 for part in parts):
        return None
    for between in "-_":
        found = Counter(name.partition(between)[0] for name in names if between in name)
        words = all(word.isalpha() for word in found)
        if (
            2 <= len(found) <= 20
            and words
            and min(found.values()) > 1
            and found.total() == len(names)
        ):
            return set(found), "{class}" + between + "*"
    return None
