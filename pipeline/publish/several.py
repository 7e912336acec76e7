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
from pipeline.privacy import Budget, budget_from, compose, repeat
from pipeline.publish.document import check, check_sides, read_foreign

ALIKE = ("descriptor", "eta", "manifold", "image_height", "image_width", "image_depth", "masked")
"""Settings without which means of two releases are of different things."""


class Given(NamedTuple):
    """A document as it was given.

    Attributes
    ----------
    path : Path
    content : bytes
        Its very bytes.
    document : mapping
        What they say.
    """

    path: Path
    content: bytes
    document: Mapping[str, Any]

    @property
    def settings(self) -> Mapping[str, Any]:
        """What was released, and how."""
        found: Mapping[str, Any] = self.document["settings"]
        return found

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes, hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def promise(self) -> Budget:
        """What it promises to one image or person, in all classes it may be in."""
        settings = self.settings
        cost = budget_from(settings["definition"], settings["budget"])
        return repeat(cost, settings.get("classes_per_person") or 1)


class Several(NamedTuple):
    """Documents that can be compared, and the classes that all of them have.

    Attributes
    ----------
    given : tuple of Given
    names : tuple of str
        What each is called, no two alike.
    classes : mapping of str to sequence of mapping
        Name of a class to its entry in each document, in the order of the first.
    """

    given: tuple[Given, ...]
    names: tuple[str, ...]
    classes: Mapping[str, Sequence[Mapping[str, Any]]]

    def by_name(self, title: str) -> dict[str, Mapping[str, Any]]:
        """Return the entry of a class in each document, by what the document is called."""
        return dict(zip(self.names, self.classes[title], strict=True))

    @property
    def together(self) -> Budget | None:
        """What they promise to a person who is in all; None where definitions differ."""
        try:
            return compose([one.promise for one in self.given])
        except PrivacyError:
            return None

    @property
    def shared(self) -> tuple[str, ...]:
        """Populations that more than one of them is about."""
        found = [str(one.settings.get("population")) for one in self.given]
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
        if any(row in other.document["classes"] for row in one.document["classes"]):
            raise ConfigError(
                f"{one.path} and {other.path} are one release, whose people would count "
                "twice; give each once"
            )
    for one in given[1:]:
        for name, ours, theirs in _differences(first.settings, one.settings):
            raise ConfigError(
                f"{first.path} has {name} = {ours!r}, {one.path} has {theirs!r}; release both "
                "with the same settings"
            )
    if (kind := DESCRIPTORS.get(first.settings["descriptor"])) is not None:
        for one in given:
            check_sides(one.path, one.document, kind.k)
    rows = [{row["class_name"]: row for row in one.document["classes"]} for one in given]
    names = [name for name in rows[0] if all(name in one for one in rows)]
    if not names:
        raise ConfigError(
            f"no class stands in all documents: {', '.join(map(repr, rows[0]))} in {first.path}"
        )
    return Several(given, _names(given), {name: [one[name] for one in rows] for name in names})


def _given(path: Path) -> Given:
    """Return a document; raise where it is none of a release, or of a night of a stream."""
    content, document = read_foreign(path)
    if isinstance(document, dict) and "night" in document:
        raise ConfigError(
            f"{path} is a night of a stream, which has its units in common with other nights; "
            "give releases of their own, or see the windows of a stream in `covdp history`"
        )
    check(path, document)
    return Given(path, content, document)


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the settings of two releases that should be the same, and are not."""
    pairs = [(name, one.get(name), other.get(name)) for name in ALIKE]
    pairs.append(("unit", one.get("unit", "image"), other.get("unit", "image")))
    return [pair for pair in pairs if pair[1] != pair[2]]


def _names(given: Sequence[Given]) -> tuple[str, ...]:
    """Return what each release is called: by its name, its run too or its number if it must."""
    short = [str(one.settings["name"]) for one in given]
    long = [f"{name}, {one.settings['run_key']}" for name, one in zip(short, given, strict=True)]
    numbered = [f"{number}: {name}" for number, name in enumerate(long, 1)]
    return tuple(next(names for names in (short, long, numbered) if _differ(names)))


def _differ(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)
