"""The paragraph "Methods" of every page: what a paper says of the settings of a run.

It is made from settings alone, those in the document of a release or in the record of an
experiment, so it is true for every run that has them. The words for each name stand in
``reports/methods.toml``.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from pipeline import __version__
from pipeline.files import resource
from pipeline.report.references import OWN, Reference, reference, references

NAMED = 3
"""Most releases that are named with what is true of them alone; of more, how many there are."""
CITED = re.compile(r"\[(@\w+(?:; @\w+)*)\]")
"""What a text cites."""

Said = Mapping[str, str]
"""What settings say: slot → sentence without its full stop."""


class Methods(NamedTuple):
    """What a page ends with.

    Attributes
    ----------
    paragraphs : tuple of (str, str)
        Heading, "" where there is but one, and text.
    references : tuple of Reference
        What the texts cite, in order.
    """

    paragraphs: tuple[tuple[str, str], ...]
    references: tuple[Reference, ...]

    @property
    def bibtex(self) -> str:
        """The references as BibTeX."""
        return "\n\n".join(one.bibtex for one in self.references)


@cache
def words() -> Mapping[str, Mapping[str, str]]:
    """Return the words for each name, by the table of the setting that has it."""
    with resource("reports", "methods.toml").open("rb") as stream:
        found: Mapping[str, Mapping[str, str]] = tomllib.load(stream)
    return found


def word(table: str, name: str) -> str:
    """Return the words for a name; one that is not known stands for itself."""
    return words()[table].get(name, f"“{name}”")


def methods(
    told: Mapping[str, Said], *, apart: bool = False, more: str = "", version: str = ""
) -> Methods:
    """Return the paragraphs on what was told, and what they cite.

    Parameters
    ----------
    told : mapping of str to mapping
        Name of a release or run to what its settings say (``methods_of_release.py``).
    apart : bool
        Whether each has a paragraph of its own; else what all have in common is said once.
    more : str
        A sentence on what was made of them, the last.
    version : str
        Of covdp that drew the noise, where that was another than this.
    """
    if apart and len(told) > 1:
        texts = [(name, list(said.values())) for name, said in told.items()]
    else:
        texts = [("", _together(told))]
    own = version or __version__
    closing = [f"All was computed with covdp {own} [@{OWN}]"]
    if version and version != __version__:
        closing.append(f"This page was made with covdp {__version__}")
    texts[-1][1].extend([*filter(None, [more]), *closing])
    paragraphs = [(name, f"{'. '.join(map(_capital, parts))}.") for name, parts in texts]
    keys = [
        key.strip().removeprefix("@")
        for _, text in paragraphs
        for found in CITED.findall(text)
        for key in found.split(";")
        if key.strip().removeprefix("@") in references()
    ]
    cited = {key: reference(key, own) for key in dict.fromkeys(keys)}

    def label(found: re.Match[str]) -> str:
        keys = [key.strip().removeprefix("@") for key in found[1].split(";")]
        if not cited.keys() >= set(keys):  # the name of a release, or of a class, may look so
            return found[0]
        return f"({'; '.join(cited[key].label for key in keys)})"

    return Methods(
        tuple((name, CITED.sub(label, text)) for name, text in paragraphs), tuple(cited.values())
    )


def _together(told: Mapping[str, Said]) -> list[str]:
    """Return each slot's sentence once; where they differ, each with whose it is."""
    slots = dict.fromkeys(slot for said in told.values() for slot in said)
    sentences = list[str]()
    for slot in slots:
        texts: dict[str, list[str]] = {}
        for name, said in told.items():
            texts.setdefault(said.get(slot, ""), []).append(name)
        if len(texts) == 1:
            sentences.extend(texts)
        else:
            parts = [f"{_whose(who, len(told))}: {text}" for text, who in texts.items() if text]
            sentences.append("; ".join(parts))
    return sentences


def _whose(names: Sequence[str], count: int) -> str:
    if len(names) <= NAMED:
        return f"for {' and '.join(names)}"
    return f"for {len(names)} of {count} releases"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def listed(values: Sequence[Any]) -> str:
    """Return numbers or names, one after another."""
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
