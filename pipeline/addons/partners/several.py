"""Documents of several releases and nights, read together: of different people, of one thing.

They may come from other hospitals, so nothing in them is taken for granted. Next on the path:
`covdp.inference`, which compares and combines their classes.
"""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from covdp.addons.nights.schema import NightClassPart, NightDocument
from covdp.addons.partners.foreign import check_sides, read_foreign
from covdp.arrays import FloatArray
from covdp.descriptors import DESCRIPTORS
from covdp.errors import ConfigError, PrivacyError
from covdp.mean.noisy_moments import clipping_bound
from covdp.privacy import Budget, compose
from covdp.schema import PIXEL_RULES, SAME_MEANS, ClassEntry, Document, SettingsPart, as_json


class CommittedDocument(NamedTuple):
    """Document as it was given.

    Attributes
    ----------
    path : Path
        Place of the file.
    content : bytes
        Bytes of the file, unchanged.
    document : Document
        Content of the bytes; of a night with the means of its last nights if these are asked for.
    window : int or None
        Number of these nights; None where it is the mean of all records.
    """

    path: Path
    content: bytes
    document: Document
    window: int | None = None

    @property
    def name(self) -> str:
        """Name of the release, and the nights that its mean is of."""
        return ", ".join(filter(None, (self.settings.name, self.nights)))

    @property
    def nights(self) -> str:
        """Nights that its mean is of; "" where it is of all records."""
        return {None: "", 1: "last night"}.get(self.window, f"last {self.window} nights")

    @property
    def settings(self) -> SettingsPart:
        """Settings of the release."""
        return self.document.settings

    @property
    def stream(self) -> tuple[str, str] | None:
        """Population and name of the stream that it is a night of; None of a release."""
        is_night = isinstance(self.document, NightDocument)
        return (self.settings.population, self.settings.name) if is_night else None

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes, hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


class DocumentSet(NamedTuple):
    """Documents that can be compared, and the classes that all of them have.

    Attributes
    ----------
    documents : tuple of CommittedDocument
        Documents in the order they were given.
    names : tuple of str
        Name of each document, no two identical.
    classes : mapping of str to sequence of ClassEntry
        Name of a class to its entry in each document, in the order of the first.
    alone : tuple of str
        Classes that some document has not.
    waiting : tuple of str
        Classes that some stream has no mean of yet, or none of its last nights.
    """

    documents: tuple[CommittedDocument, ...]
    names: tuple[str, ...]
    classes: Mapping[str, Sequence[ClassEntry]]
    alone: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Classes that some document has, and which are left out."""
        return self.alone + self.waiting

    def by_name(self, title: str) -> dict[str, ClassEntry]:
        """Return the entry of a class in each document, by what the document is called.

        Parameters
        ----------
        title : str
            Name of the class.
        """
        return dict(zip(self.names, self.classes[title], strict=True))

    @property
    def together(self) -> Budget | None:
        """Promise to a person who is in all of them; None where definitions differ."""
        try:
            return compose([part.settings.promise for part in self.documents])
        except PrivacyError:
            return None

    @property
    def shared(self) -> tuple[str, ...]:
        """Populations that more than one of them is about."""
        names = [part.settings.population for part in self.documents]
        return tuple(name for name in dict.fromkeys(names) if names.count(name) > 1)

    @property
    def doubt(self) -> str:
        """Classes left out, documents unpaid, and error of people in several; "" if none."""
        nights = next(filter(None, (part.nights for part in self.documents)), "")
        reasons = {
            "not all of them have such a class": self.alone,
            f"a stream has no mean of {f'its {nights}' if nights else 'it yet'}": self.waiting,
        }
        doubts = [
            f"Left out, as {reason}: {', '.join(names)}."
            for reason, names in reasons.items()
            if names
        ]
        if unpaid := [part.name for part in self.documents if part.document.account is None]:
            doubts.append(f"Drawn in Python, and paid by no ledger: {', '.join(unpaid)}.")
        if self.shared:
            doubts.append(
                f"More than one release is about the population {', '.join(self.shared)}. If the "
                "same people are in both, p-values are too large: real differences are found less "
                "often."
            )
        return " ".join(doubts)


def read_several(paths: Sequence[Path], *, window: int | None = None) -> DocumentSet:
    """Read documents of two releases or nights, or more, none twice.

    Of a night the mean of all privacy units so far is taken, or that of its last `window` nights.

    Parameters
    ----------
    paths : sequence of Path
        Documents of releases or nights.
    window : int, optional
        Number of last nights whose mean is taken of each night.

    Returns
    -------
    DocumentSet
        Documents, and the classes that all of them have.

    Raises
    ------
    ConfigError
        When there are fewer, one is no document or is given twice, two are nights of one stream,
        they are of different things, or none is a night with such a window.
    OutputError
        When one cannot be read.
    """
    if len(paths) < 2:
        raise ConfigError(f"give two documents of releases or more, found {len(paths)}")
    documents = tuple(open_document(path, window) for path in paths)
    first = documents[0]
    if window is not None and all(part.window is None for part in documents):
        raise ConfigError(
            f"{first.path} and the others are releases, which have no nights; leave --window out"
        )
    for item, other in combinations(documents, 2):
        if item.stream and item.stream == other.stream:
            raise ConfigError(
                f"{item.path} and {other.path} are nights of one stream, which share their images; "
                "`covdp history` tests the last nights of a stream against those before"
            )
    for item, other in combinations(documents, 2):
        if any(row in _rows(other) for row in _rows(item)):
            raise ConfigError(
                f"{item.path} and {other.path} are one release, whose people would count "
                "twice; give each once"
            )
    for name in (*SAME_MEANS, "unit", *PIXEL_RULES):
        values = [(part.path, getattr(part.settings, name)) for part in documents]
        stated = [(path, value) for path, value in values if value is not None]
        for path, value in stated[1:]:
            if value != stated[0][1]:
                raise ConfigError(
                    f"{stated[0][0]} has {name} = {stated[0][1]!r}, {path} has {value!r}; release "
                    "both with the same settings"
                )
    if (kind := DESCRIPTORS.get(first.settings.descriptor)) is not None:
        for item in documents:
            check_sides(item.path, item.document, kind.k)
    return DocumentSet(documents, _names(documents), *_common_classes(documents))


def _common_classes(
    documents: Sequence[CommittedDocument],
) -> tuple[dict[str, list[ClassEntry | NightClassPart]], tuple[str, ...], tuple[str, ...]]:
    """Return the classes with a mean in all, those that some have not, and those without a mean."""
    rows = [{row.class_name: row for row in part.document.classes} for part in documents]
    both = [name for name in rows[0] if all(name in table for table in rows)]
    names = [name for name in both if all(table[name].coordinates is not None for table in rows)]
    if not both:
        raise ConfigError(
            f"no class stands in all documents: {', '.join(map(repr, rows[0]))} in "
            f"{documents[0].path}; give releases of the same classes"
        )
    if not names:
        without = [
            f"{part.path} has none of {', '.join(map(repr, missing))}"
            for part, row in zip(documents, rows, strict=True)
            if (missing := [name for name in both if row[name].coordinates is None])
        ]
        raise ConfigError(
            f"no class has a mean in all documents: {'; '.join(without)}; give a later night, or a "
            "release of more images"
        )
    every = dict.fromkeys(name for table in rows for name in table)
    alone = tuple(name for name in every if name not in both)
    waiting = tuple(name for name in both if name not in names)
    return {name: [table[name] for table in rows] for name in names}, alone, waiting


def open_document(path: Path, window: int | None) -> CommittedDocument:
    """Return a document, a night with the means of its last nights where these are asked for.

    Parameters
    ----------
    path : Path
        Document of a release or a night.
    window : int or None
        Number of last nights whose mean is taken of a night.

    Raises
    ------
    ConfigError
        When it is none, or a night without such a window.
    OutputError
        When it cannot be read.
    """
    content, document = read_foreign(path)
    if isinstance(document, NightDocument) and window is not None:
        rows = [_of_window(row, document.axes, window) for row in document.classes]
        if not any(row.coordinates is not None for row in rows):
            lengths = {str(part.nights): None for row in document.classes for part in row.windows}
            raise ConfigError(
                f"{path} has no window of {window} nights, found {', '.join(lengths) or 'none'}; "
                "choose one of these, or leave --window out for all nights so far"
            )
        settings = document.settings.model_copy(update={"total": None})  # of nights before, too
        document = document.model_copy(update={"classes": rows, "settings": settings})
        return CommittedDocument(path, content, document, window)
    return CommittedDocument(path, content, document)


def _of_window(row: NightClassPart, axes: FloatArray, nights: int) -> NightClassPart:
    """Return a class with the mean of its last nights in the place of that of all nights.

    Its parts are the epochs that its nights are of, each counted by how many of them it has.
    """
    part = next((part for part in row.windows if part.nights == nights), None)
    certainty, mean = row.certainty, ("coordinates", "certainty", "point")
    nothing = {"n": 0, "n_sd": 0.0, **dict.fromkeys(mean)}
    if part is None or certainty is None or not part.n:
        return row.model_copy(update=nothing)
    epochs = certainty.parts[1:]
    ends = [*(epoch.first for epoch in epochs[1:]), part.last + 1]
    counts = [end - max(epoch.first, part.first) for epoch, end in zip(epochs, ends, strict=True)]
    several = sum(max(count, 0) for count in counts)
    parts = [
        epoch.model_copy(update={"share": count / several})
        for epoch, count in zip(epochs, counts, strict=True)
        if count > 0
    ]
    single = certainty.single(row.size)
    certainty = certainty.model_copy(update={"parts": parts})
    sample, clipping = part.noise(axes) + certainty.bias, clipping_bound(certainty.weighed)
    sample += np.outer(certainty.added, certainty.added)  # which is missing in last nights
    population = None if single is None else sample + single / part.n
    both = {"sample": sample, "population": population, "clipping": clipping}
    both |= {"size": part.n, "corrected": False}
    own = {name: getattr(part, name) for name in ("n", "n_sd", "point", "coordinates")}
    return row.model_copy(update={**own, "certainty": certainty.model_copy(update=both)})


def _rows(part: CommittedDocument) -> list[dict[str, Any]]:
    rows = as_json(part.document)["classes"]
    return [row for row in rows if row["coordinates"] is not None]


def _names(documents: Sequence[CommittedDocument]) -> tuple[str, ...]:
    """Return what each release is called: by its name, its run too or its number if it must."""
    short = [part.name for part in documents]
    long = [f"{name}, {part.settings.run_key}" for name, part in zip(short, documents, strict=True)]
    numbered = [f"{number}: {name}" for number, name in enumerate(long, 1)]
    return tuple(next(names for names in (short, long, numbered) if len({*names}) == len(names)))
