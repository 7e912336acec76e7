"""Documents of several releases, read together: of different people, about the same things.

They may come from other hospitals, so nothing in them is taken for granted. Next on the path:
`pipeline.inference`, which compares and combines their classes.
"""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.descriptors import DESCRIPTORS
from pipeline.errors import ConfigError, PrivacyError
from pipeline.privacy import Budget, compose
from pipeline.publish.document import check_sides, read_foreign
from pipeline.schema import (
    SAME_MEANS,
    ClassPart,
    NightDocument,
    ReleaseDocument,
    SettingsPart,
    as_json,
)


class Given(NamedTuple):
    """A document as it was given.

    Attributes
    ----------
    path : Path
    content : bytes
        Its very bytes.
    document : ReleaseDocument
        What they say.
    """

    path: Path
    content: bytes
    document: ReleaseDocument

    @property
    def settings(self) -> SettingsPart:
        """What was released, and how."""
        return self.document.settings

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes, hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


class Several(NamedTuple):
    """Documents that can be compared, and the classes that all of them have.

    Attributes
    ----------
    given : tuple of Given
    names : tuple of str
        What each is called, no two alike.
    classes : mapping of str to sequence of ClassPart
        Name of a class to its entry in each document, in the order of the first.
    """

    given: tuple[Given, ...]
    names: tuple[str, ...]
    classes: Mapping[str, Sequence[ClassPart]]

    def by_name(self, title: str) -> dict[str, ClassPart]:
        """Return the entry of a class in each document, by what the document is called."""
        return dict(zip(self.names, self.classes[title], strict=True))

    @property
    def together(self) -> Budget | None:
        """What they promise to a person who is in all; None where definitions differ."""
        try:
            return compose([one.settings.promise for one in self.given])
        except PrivacyError:
            return None

    @property
    def shared(self) -> tuple[str, ...]:
        """Populations that more than one of them is about."""
        found = [one.settings.population for one in self.given]
        return tuple(name for name in dict.fromkeys(found) if found.count(name) > 1)

    @property
    def doubt(self) -> str:
        """What is wrong where people may be in more than one of them; "" where none need be."""
        if not self.shared:
            return ""
        names = ", ".join(self.shared)
        return (
            f"More than one of them is about the population {names}. Where the same people are in "
            "both, differences are smaller than is reckoned here, and p-values too large."
        )


def read_several(paths: Sequence[Path], *, distinct: bool = False) -> Several:
    """Read documents of two releases or more; with `distinct`, none twice.

    Raises
    ------
    ConfigError
        When there are fewer, one is no release or is given twice, or they are of different things.
    OutputError
        When one cannot be read.
    """
    if len(paths) < 2:
        raise ConfigError(f"give two documents of releases or more, found {len(paths)}")
    given = tuple(_given(path) for path in paths)
    first = given[0]
    for one, other in combinations(given, 2) if distinct else ():
        if any(row in _rows(other) for row in _rows(one)):
            raise ConfigError(
                f"{one.path} and {other.path} are one release, whose people would count "
                "twice; give each once"
            )
    for one in given[1:]:
        for name in (*SAME_MEANS, "unit"):
            ours, theirs = getattr(first.settings, name), getattr(one.settings, name)
            if ours != theirs:
                raise ConfigError(
                    f"{first.path} has {name} = {ours!r}, {one.path} has {theirs!r}; release both "
                    "with the same settings"
                )
    if (kind := DESCRIPTORS.get(first.settings.descriptor)) is not None:
        for one in given:
            check_sides(one.path, one.document, kind.k)
    rows = [{row.class_name: row for row in one.document.classes} for one in given]
    names = [name for name in rows[0] if all(name in one for one in rows)]
    if not names:
        raise ConfigError(
            f"no class stands in all documents: {', '.join(map(repr, rows[0]))} in {first.path}"
        )
    return Several(given, _names(given), {name: [one[name] for one in rows] for name in names})


def _given(path: Path) -> Given:
    """Return a document; raise where it is none of a release, or of a night of a stream."""
    content, document = read_foreign(path)
    if isinstance(document, NightDocument):
        raise ConfigError(
            f"{path} is a night of a stream, which has its units in common with other nights; "
            "give releases of their own, or see the windows of a stream in `covdp history`"
        )
    return Given(path, content, document)


def _rows(given: Given) -> list[dict[str, Any]]:
    return [as_json(row) for row in given.document.classes]


def _names(given: Sequence[Given]) -> tuple[str, ...]:
    """Return what each release is called: by its name, its run too or its number if it must."""
    short = [one.settings.name for one in given]
    long = [f"{name}, {one.settings.run_key}" for name, one in zip(short, given, strict=True)]
    numbered = [f"{number}: {name}" for number, name in enumerate(long, 1)]
    return tuple(next(names for names in (short, long, numbered) if len({*names}) == len(names)))
