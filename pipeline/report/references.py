"""What a paper cites: entries of ``reports/references.bib``, in words and as BibTeX."""

import re
from functools import cache
from typing import NamedTuple

from pipeline.errors import ConfigError
from pipeline.files import resource

OWN = "covdp"
"""Key of the entry of this project, in the version that was used."""


class Reference(NamedTuple):
    """One entry.

    Attributes
    ----------
    key : str
    fields : dict of str to str
        As they stand in the file.
    bibtex : str
        The whole entry.
    """

    key: str
    fields: dict[str, str]
    bibtex: str

    @property
    def label(self) -> str:
        """How a text cites it: “Dong et al. 2022”."""
        names = _surnames(self.fields)
        who = names[0] if names else self.fields["key"]
        if len(names) == 2 and names[1] != "others":
            who = " and ".join(names)
        elif len(names) > 1:
            who = f"{who} et al."
        version = self.fields.get("version")
        return f"{who}, version {version}" if version else f"{who} {self.fields['year']}"

    @property
    def text(self) -> str:
        """How a list of references has it."""
        fields = {name: _plain(value) for name, value in self.fields.items()}
        names = fields.get("author", "").replace(" and others", " et al.").replace(" and ", "; ")
        where = [fields[name] for name in _PLACES if name in fields]
        if "volume" in fields:
            number = f"({fields['number']})" if "number" in fields else ""
            where.append(f"{fields['volume']}{number}")
        if "pages" in fields:
            where.append(fields["pages"])
        if "eprint" in fields:
            where.append(f"arXiv:{fields['eprint']}")
        if "version" in fields:
            where.append(f"version {fields['version']}")
        address = f"https://doi.org/{fields['doi']}" if "doi" in fields else fields.get("url", "")
        parts = (names, fields["title"], ", ".join(where), address)
        return f"{'. '.join(part.rstrip('.') for part in parts if part)} ({fields['year']})."


_LETTERS = {"{\\'e}": "é", "{\\'c}": "ć", '{\\"o}': "ö", "{\\c c}": "ç", "--": "–"}
_PLACES = ("journal", "booktitle", "howpublished", "institution")


@cache
def references() -> dict[str, Reference]:
    """Return all entries by key."""
    text = resource("reports", "references.bib").read_text(encoding="utf-8")
    _, *blocks = re.split(r"\n\s*\n(?=@)", text.strip())  # what comes first is about the file
    found = map(_entry, blocks)
    return {one.key: one for one in found}


def reference(key: str, version: str) -> Reference:
    """Return an entry; that of this project in the version that was used."""
    found = references()[key]
    if key != OWN:
        return found
    old = found.fields["version"]
    told = found.bibtex.replace(f"version = {{{old}}}", f"version = {{{version}}}")
    return found._replace(fields=found.fields | {"version": version}, bibtex=told)


def _entry(block: str) -> Reference:
    found = re.match(r"@\w+\{(\w+),", block)
    if found is None:
        raise ConfigError(f"references.bib: no entry begins with {block[:40]!r}")
    fields = re.findall(r"(\w+) = \{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}", block)
    return Reference(found[1], dict(fields), block.strip())


def _surnames(fields: dict[str, str]) -> list[str]:
    """Return the surnames of the authors; organisations, in braces, stay whole."""
    names = fields.get("author", "").split(" and ") if "author" in fields else []
    return [_plain(name.split(",")[0]) for name in names]


def _plain(text: str) -> str:
    """Return a field without BibTeX's marks."""
    for mark, letter in _LETTERS.items():
        text = text.replace(mark, letter)
    return text.replace("{", "").replace("}", "")
