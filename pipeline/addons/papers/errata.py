"""The page of errata: where a paper is wrong, or we were, with a number that tells both apart.

They stand in ``reports/errata.toml``. A test computes every number again.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from covdp.errors import require_known
from covdp.files import resource
from covdp.report.methods import Methods, methods
from covdp.report.page import load_pages, write_page
from covdp.toml import Record, parse

PAGE = "errata.html"
"""The file of the page, among those of experiments."""
OUR_OWN = "covdp"
"""Key in place of a paper where the fault is ours."""


class Erratum(Record):
    """One fault of a printed text.

    Attributes
    ----------
    id : str
        Name of the test that computes it.
    paper : str
        Key of ``references.bib``, or `OUR_OWN`.
    place : str
        Place in the text.
    printed : str
        Text as it is printed.
    right : str
        Text as it should be.
    why : str
        Reason.
    counterexample : str
        Setting in which both differ.
    quantity : str
        Quantity that is computed there.
    as_printed : float
        Value by the printed text.
    as_right : float
        True value.
    used : str
        Place of the right one in this project, as ``module:name``.
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    paper: str
    place: str
    printed: str
    right: str
    why: str
    counterexample: str
    quantity: str
    as_printed: float
    as_right: float
    used: str


class Errata(Record):
    """All that ``reports/errata.toml`` has.

    Attributes
    ----------
    papers : mapping of str to str
        Key of each paper to its title, in the order of the page; `OUR_OWN` stands for ours.
    erratum : tuple of Erratum
        Faults of printed texts.
    """

    papers: Mapping[str, str]
    erratum: tuple[Erratum, ...]

    @model_validator(mode="after")
    def _papers_are_known(self) -> Self:
        for item in self.erratum:
            require_known("paper", item.paper, self.papers)
        return self

    @property
    def groups(self) -> Mapping[str, Sequence[Erratum]]:
        """The errata by the title of their paper."""
        return {
            title: [item for item in self.erratum if item.paper == key]
            for key, title in self.papers.items()
        }

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of errata of papers, and of ours."""
        ours = sum(item.paper == OUR_OWN for item in self.erratum)
        return len(self.erratum) - ours, ours


@cache
def load_errata() -> Errata:
    """Return the errata as they stand in the file.

    Raises
    ------
    ConfigError
        When a key is missing or unknown, or a paper has no title.
    """
    path = resource("reports", "errata.toml")
    return parse(Errata, tomllib.loads(path.read_text(encoding="utf-8")), path)


def write_errata(folder: Path, bar: Mapping[str, Any]) -> Path:
    """Write the page of the errata into a folder.

    Parameters
    ----------
    folder : Path
        Folder of the page.
    bar : mapping of str to object
        Values of the bar that leads to the other pages.

    Returns
    -------
    Path
        Path of the page.

    Raises
    ------
    OutputError
        When the page cannot be written.
    """
    errata = load_errata()
    parts = [(title, f"paper-{place}", False) for place, title in enumerate(errata.groups, 1)]
    parts.append((load_pages()["errata"]["methods_title"], "methods", False))
    return write_page(folder / PAGE, "errata", errata, bar={**bar, "title": "", "parts": parts})


def promises(errata: Errata) -> list[tuple[str, Iterable[tuple[str, str]]]]:
    """Return the promises of the page: none.

    Parameters
    ----------
    errata : Errata
        Errata of the page.
    """
    return []


def methods_of_errata(errata: Errata) -> Methods:
    """Return the Methods of the errata, with their references.

    Parameters
    ----------
    errata : Errata
        Errata of the page.
    """
    papers = [key for key in errata.papers if key != OUR_OWN]
    cited = "; ".join(f"@{key}" for key in papers)
    text = load_pages()["errata"]["methods_how"].format(papers=len(papers), cited=cited)
    return methods({"": {"errata": text}})
