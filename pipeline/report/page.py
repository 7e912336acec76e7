"""The page: declared in ``reports/report.toml``, drawn by templates into one file of its own.

A page of that file says what its texts are: expressions of its subject, named ``it``. A section is
about each of its parts, the subject itself by default; its expressions know the part as ``it``, the
subject as ``whole``, and what the function `values` says of the part. Its `numbers` are pairs of
label and expression; a number that is none is left out. The functions `headline`, `privacy` and
`methods` say what was found, what was promised by whom, and what a paper says of it; `protected`
who is protected, below what was found. The statement of privacy is last before the methods, or, of
a page with one section, after the last of the blocks in `privacy_after`.

Blocks say in which order, under which title and caption, and by which template a section shows what
their `content`, a function too, makes of the section's part, or of what the part has by the name
`of`. A block with nothing to show drops out, and one with a `when` is not asked where that
expression of the part, ``it``, is false. One whose `folded` is true is closed until a reader opens
it; in print it is open. Without a `content` the template draws the part
itself; without a template the content is a list of blocks. Of a block with `columns` the content is
a list of rows.
"""

import pkgutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from covdp.errors import ConfigError
from covdp.figures import digits, grouped, listing
from covdp.files import make_folder, resource, write_whole
from covdp.report.templates import draw, expression

Declaration = Mapping[str, Any]
"""A page of ``reports/report.toml``: what its texts are made of, its blocks, and its own texts."""
FUNCTIONS = ("values", "headline", "protected", "privacy", "methods", "content")
"""Keys of a page, or of a block, whose values name functions."""
PrivacyStatement = Mapping[str, Sequence[tuple[str, str]]]
"""Label → texts, each with what it is about ("" for all of the page)."""


class Finding(NamedTuple):
    """One sentence that was found true, unless it is a warning, left open or only stated.

    Attributes
    ----------
    text : str
        Sentence, or several.
    warning : bool
        True if it tells of something wrong.
    open : bool
        True if nothing is decided, or was run.
    stated : bool
        True if it is stated, and was not tested.
    result : bool
        True if it tells what was measured, and checks nothing.
    """

    text: str
    warning: bool = False
    open: bool = False
    stated: bool = False
    result: bool = False


@dataclass(frozen=True)
class Block:
    """One block of a section: name, heading, caption, template, and what the template draws.

    Attributes
    ----------
    name : str
        Name, by which links lead to it.
    title : str
        Heading.
    caption : str
        Text below the heading.
    template : str
        Name of the template that draws it.
    content : object
        Values that the template draws.
    folded : bool
        True if it is closed until a reader opens it.
    entry : str
        Its line in the table of contents; its heading where "".
    meanings : sequence of (str, str)
        Words that its content uses, each with its meaning, below the caption.
    """

    name: str
    title: str
    caption: str
    template: str
    content: Any
    folded: bool = False
    entry: str = ""
    meanings: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Section:
    """One section of a page, and the row that stands for it in the summary.

    Attributes
    ----------
    id, title, subtitle : str
        Anchor of the section, its heading, and the smaller heading beside it.
    key_numbers : sequence of (str, str)
        Text and label of the few numbers at its head.
    headline : Finding
        Most important finding.
    subject : object
        Thing that the contents of its blocks are made of.
    classes : sequence of str
        Classes of which a reader may choose those that are shown, if there are several.
    spans : sequence of str
        Spans of nights of which a reader chooses the one that is drawn.
    about : str
        Subject of its figures, in the caption of each.
    record : str
        Word for one record, as captions name it.
    protected : str
        Sentences on who is protected; "" where nothing is promised.
    """

    id: str
    title: str
    subtitle: str
    key_numbers: Sequence[tuple[str, str]]
    headline: Finding
    subject: Any
    classes: Sequence[str] = ()
    spans: Sequence[str] = ()
    about: str = ""
    record: str = "image"
    protected: str = ""


def write_page(
    path: Path, name: str, subject: Any, *, bar: Mapping[str, Any] | None = None
) -> Path:
    """Write a page of ``reports/report.toml`` about a subject to `path`, and return it.

    Parameters
    ----------
    path : Path
        HTML file that is written.
    name : str
        Name of the page in ``reports/report.toml``.
    subject : object
        Thing that the page is about.
    bar : mapping of str to object, optional
        Links to other pages, for the bar at the top.

    Returns
    -------
    Path
        The same path.

    Raises
    ------
    ConfigError
        When the declaration names a function that does not exist.
    OutputError
        When the page cannot be written.
    """
    html = build_page(name, subject, bar=bar)
    make_folder(path.parent)
    return write_whole(path, html)


def build_page(name: str, subject: Any, *, bar: Mapping[str, Any] | None = None) -> str:
    """Return the HTML of a page; every text is escaped, style and scripts stand inside.

    Parameters
    ----------
    name : str
        A page of ``reports/report.toml``.
    subject : object
        Thing that the page is about.
    bar : mapping, optional
        Other pages that the bar leads to, which stays in sight; of its own parts it always knows.
    """
    page = load_pages()[name]
    title, warning = (expression(page[key])(it=subject, page=page) for key in ("title", "warning"))
    sections = sections_of(page, subject)
    blocks = {section.id: blocks_of(section, page["block"]) for section in sections}
    nowhere = {"home": "", "pages": (), "before": None, "after": None, "title": title}
    methods = page["methods"](subject)
    ends = ["privacy", *["methods"] * (methods is not None)]
    after = _before_privacy(page, blocks)
    return draw(
        page["template"],
        title=title,
        warning=warning,
        page=page,
        subject=subject,
        sections=sections,
        blocks=blocks,
        privacy=statement_of(page["privacy"](subject)),
        methods=methods,
        privacy_after=after,
        nav={**nowhere, "parts": _parts(sections, blocks, page, ends, after), **(bar or {})},
    )


def sections_of(page: Declaration, subject: Any) -> list[Section]:
    """Return the sections of a page: one for each part of its subject.

    Parameters
    ----------
    page : Declaration
        Declared page with its functions.
    subject : object
        Thing that the page is about.
    """
    sections = []
    for part in expression(page["parts"])(it=subject):
        known = {"it": part, "whole": subject, "page": page, **page["values"](part)}
        known |= {name: expression(text)(**known) for name, text in page["section"].items()}
        texts = {name: known[name] for name in page["section"]}
        numbers = [(expression(text)(**known), label) for label, text in page["numbers"]]
        key_numbers = [
            (f"{value:,}" if isinstance(value, int) else value, _label(label, value, known))
            for value, label in numbers
            if value or value == 0
        ]
        headline = page["headline"](part)
        protected = page["protected"](part) if "protected" in page else ""
        found = {"key_numbers": key_numbers, "headline": headline, "protected": protected}
        sections.append(Section(**texts, **found, subject=part))
    return sections


def _label(label: str, value: Any, known: Mapping[str, Any]) -> str:
    """Return the label of a number: {s} and {es} are the ends of words for many."""
    ends = {"s": "", "es": ""} if value == 1 else {"s": "s", "es": "es"}
    return label.format_map({**known, **ends})


class DeclaredPages(Mapping[str, Declaration]):
    """Declared pages by name; the functions that one names are imported when it is asked for.

    Parameters
    ----------
    declared : mapping of str to Declaration
        Pages with the names of their functions.
    path : Path
        File that they were read from, for messages.
    """

    def __init__(self, declared: Mapping[str, Declaration], path: Path) -> None:
        self._declared, self._path = declared, path
        self._ready: dict[str, Declaration] = {}

    def __getitem__(self, name: str) -> Declaration:
        """Return a page with its functions.

        Raises
        ------
        ConfigError
            When one is named that does not exist.
        """
        if name not in self._ready:
            page, path = self._declared[name], self._path
            blocks = [_with_functions(block, path) for block in page["block"]]
            self._ready[name] = {**_with_functions(page, path), "block": blocks}
        return self._ready[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._declared)

    def __len__(self) -> int:
        """Return the number of pages."""
        return len(self._declared)


@cache
def load_pages(path: Path | None = None) -> DeclaredPages:
    """Return the declared pages.

    A page that is ``like`` an earlier one has its texts, a block that is ``like`` a page the texts
    of that page's block of the same name, but for their own.

    Parameters
    ----------
    path : Path, optional
        File of declared pages; ``reports/report.toml`` by default.
    """
    path = path or resource("reports", "report.toml")
    with path.open("rb") as stream:
        declared = tomllib.load(stream)
    shared = declared.pop("all")
    pages: dict[str, Declaration] = {}
    for name, page in declared.items():
        page = {**pages.get(page.get("like"), shared), **page}
        pages[name] = {**page, "block": [_declared_block(block, pages) for block in page["block"]]}
    return DeclaredPages(pages, path)


def _declared_block(block: Mapping[str, Any], pages: Mapping[str, Declaration]) -> dict[str, Any]:
    like = pages[block["like"]]["block"] if "like" in block else ()
    others = next((dict(item) for item in like if item["name"] == block["name"]), {})
    return {**others, **block}


def _with_functions(declared: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a page, or a block, with its functions."""
    return {
        key: _function(value, path) if key in FUNCTIONS else value
        for key, value in declared.items()
    }


def _function(name: str, path: Path) -> Callable[..., Any]:
    """Return a function by its name; an add-on's is imported when it is called.

    Where there are no add-ons it returns None, and its block drops out.
    """
    if not name.startswith("covdp.addons."):
        return _resolved(name, path)
    if find_spec("covdp.addons") is None:
        return lambda *given, **named: None
    return lambda *given, **named: _resolved(name, path)(*given, **named)


def _resolved(name: str, path: Path) -> Callable[..., Any]:
    try:
        function: Callable[..., Any] = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{path}: there is no function {name!r}; name one as module:function"
        ) from error
    return function


def blocks_of(section: Section, declared: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Return the blocks of a section that have something to show, in the declared order.

    Parameters
    ----------
    section : Section
        Section of a page.
    declared : sequence of mapping of str to object
        Blocks as the page declares them.
    """
    blocks: list[Block] = []
    for item in declared:
        if "when" in item and not expression(item["when"])(it=section.subject):
            continue
        content = _content(item, section.subject, section.record)
        if content and "template" in item:
            caption = item.get("caption", "").replace("{record}", section.record)
            heading = getattr(content, "finding", "") or item["title"]
            texts = (item["name"], heading, caption, item["template"])
            folded = "folded" in item and expression(item["folded"])(it=section.subject)
            known = {"it": section.subject, "content": content}
            meanings = [
                (word, meaning)
                for word, meaning, *when in item.get("meanings", ())
                if all(expression(text)(**known) for text in when)
            ]
            more = {"entry": item["title"], "meanings": meanings}
            blocks.append(Block(*texts, content, bool(folded), **more))
        else:
            blocks += content or []
    return blocks


def _content(item: Mapping[str, Any], subject: Any, record: str) -> Any:
    """Return what the template of a block draws of a subject, made of such records."""
    subject = getattr(subject, item["of"]) if "of" in item else subject
    if subject is None or "content" not in item:
        return subject
    content = item["content"](subject, **item.get("options", {}))
    if "columns" not in item or not content:
        return content
    known = {"records": f"{record}s".capitalize(), **content[0]}
    heads = [head.format_map(known) for head, _ in item["columns"]]
    cells = [expression(text) for _, text in item["columns"]]
    lines = [[cell(**row) for cell in cells] for row in content]
    remark = expression(item.get("remark", "''"))
    remarks = [remark(**row) for row in content]
    shape = item.get("shape", {})
    words = shape.get("text", 1)
    kept = [at for at in range(len(heads)) if at < words or any(line[at] != "" for line in lines)]
    heads, lines = [heads[at] for at in kept], [[line[at] for at in kept] for line in lines]
    return table(heads, lines, remarks=remarks, **shape)


def table_of(page: str, block: str, subject: Any) -> dict[str, Any] | None:
    """Return the table that a block of a page of ``reports/report.toml`` shows of a subject.

    Parameters
    ----------
    page : str
        Name of a page.
    block : str
        Name of one of its blocks.
    subject : object
        Thing that the block is about.
    """
    declared = {item["name"]: item for item in load_pages()[page]["block"]}
    content: dict[str, Any] | None = _content(declared[block], subject, "image") or None
    return content


def _parts(
    sections: Sequence[Section],
    blocks: Mapping[str, Sequence[Block]],
    texts: Mapping[str, Any],
    ends: Iterable[str],
    after: str,
) -> list[tuple[str, str, bool]]:
    """Return what the bar lists of a page: text, id, and whether it is part of the one before."""
    several, parts = len(sections) > 1, list[tuple[str, str, bool]]()
    for section in sections:
        if several:
            name = ": ".join(filter(None, (section.title, section.subtitle)))
            parts.append((name, section.id, False))
        parts += [
            (block.entry or block.title, f"{section.id}-{block.name}", several)
            for block in blocks[section.id]
        ]
    last = [(texts[f"{name}_title"], name, False) for name in ends]
    place = next((place for place, part in enumerate(parts, 1) if part[1] == after), len(parts))
    return [*parts[:place], last[0], *parts[place:], *last[1:]]


def _before_privacy(page: Declaration, blocks: Mapping[str, Sequence[Block]]) -> str:
    """Return the id of the block that the statement of privacy follows; "" where it is last."""
    places = [
        f"{section}-{block.name}"
        for section, shown in blocks.items()
        for block in shown
        if block.name in page.get("privacy_after", ())
    ]
    return places[-1] if places and len(blocks) == 1 else ""


def table(
    heads: Sequence[str], lines: Sequence[Sequence[str]], *, text: int = 1, **more: Any
) -> dict[str, Any] | None:
    """Return what the template of tables draws; None without a row.

    The first `text` columns are words, the others numbers; `long` is a column of sentences, a table
    that is `tall` scrolls, and `remarks` stand below the rows.

    Parameters
    ----------
    heads : sequence of str
        Heads of the columns.
    lines : sequence of sequence of str
        Cells of each row.
    text : int
        Number of columns of words, which come first.
    **more : object
        Options of the template, such as `long` and `tall`.
    """
    shown = {"heads": heads, "lines": lines, "text": text, "remarks": [""] * len(lines)}
    return {**shown, **more} if lines else None


def statement_of(owners: Sequence[tuple[str, Iterable[tuple[str, str]]]]) -> PrivacyStatement:
    """Return the statements of several, each a name and its pairs of label and text.

    A text that all of them have is about none in particular.

    Parameters
    ----------
    owners : sequence of (str, iterable of (str, str))
        Name of each owner, with its pairs of label and text.
    """
    said = grouped(
        (str(label), (str(text), name)) for name, pairs in owners for label, text in pairs
    )
    return {
        label: [
            ("" if len(names) == len(owners) else listing(names), text)
            for text, names in grouped(texts).items()
        ]
        for label, texts in said.items()
    }


def cell(value: str, band: str, word: str = "", whisker: str = "") -> dict[str, str]:
    """Return what the template of readings draws in one place.

    Parameters
    ----------
    value : str
        Value of a term, as text.
    band : str
        Band of the value, or what stands below it.
    word : str
        Word that the value stands for.
    whisker : str
        Most that clipping may have made of the value, in words.
    """
    return {"value": value, "band": band, "word": word, "whisker": whisker}


def signed(value: float) -> str:
    """Return three digits with a true minus sign.

    Parameters
    ----------
    value : float
        Number.
    """
    return digits(value).replace("-", "−")
