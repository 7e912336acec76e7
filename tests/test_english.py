"""The English of what users read: short sentences.

Measured are the README, the page of each room and the guides, the help of every command, all
sentences in the code (messages, captions, notes), the declared texts of pages, every kind of page
and what commands print, as they are made of tiny data (``sample_pages.py``), and public docstrings.
A sentence ends at a full stop, a question mark, a semicolon, or with its paragraph, list item or
cell. Code is left out, a name in code type is one word. Of docstrings the first paragraph is read.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from sample_pages import (
    NO_NUMBER,
    RELEASES,
    Texts,
    of_nights,
    of_plans,
    of_releases,
    of_runs,
    of_several,
)

from covdp.cli import main
from tests.addons.partners.pages import hospitals  # noqa: F401  (a fixture)
from tests.addons.partners.sites import documents as sites  # noqa: F401  (a fixture)
from tests.tools.code import parsed, statements
from tests.tools.leaves import LEAVES

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *ROOT.glob("[!.]*/README.md"),
        *ROOT.glob("pipeline/*/README.md"),
        *ROOT.glob("reports/site/**/*.md"),
    ]
)
MEAN, MOST, MOST_OF_METHODS = 25, 40, 280
"""Words of a sentence, in the mean and of the longest; and of a paragraph of Methods."""
NAMES = {"name", "like", "of", "template", "content", "values", "headline", "privacy", "methods"}
"""Keys of declared pages whose values are names, not texts."""
CLAIMED = ("says", "place", "ours", "why")
"""Keys of the statements of an experiment whose values are texts."""
PRINTED = ("printed", "start", "show", "history", "card", "--list", "descriptors", "mechanisms")
"""How the name of a kind ends that is printed, not a page."""
QUERIES = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "WITH", "PRAGMA")
"""How a statement of SQL begins."""


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text in Markdown, or of plain text."""
    text = re.sub(r"```.*?(```|\Z)", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"(?m)^\s*[|│╭╰#].*$", "\n", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    for block in re.split(r"\n\s*\n|\n\s*[*-] ", text):
        flat = " ".join(block.split())
        for sentence in re.split(r"(?<=[.?!])\s+(?=[\"“(]?[A-Zμεδηa-z])|;\s", flat):
            if len(sentence.split()) > 2:
                yield sentence


def check(texts: Mapping[str, str]) -> None:
    """Raise unless all texts have short sentences."""
    found = [(where, one) for where, text in texts.items() for one in sentences(text)]
    lengths = [len(one.split()) for _, one in found]
    long = [(n, *item) for n, item in zip(lengths, found, strict=True) if n > MOST]
    assert not long, "\n".join(map(str, long))
    assert sum(lengths) <= MEAN * len(lengths)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_of_the_repository_are_plain(page: Path) -> None:
    """The README and the page of each room."""
    check({page.name: page.read_text(encoding="utf-8")})


def test_help_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    """The help of every command, options and examples apart."""
    texts = {}
    for tokens in ([], *LEAVES):
        assert main([*tokens, "--help"]) == 0
        said = capsys.readouterr().out
        rows = re.sub(r"(?m)^│\s?(.*?)\s*│$", r"\1", said)
        plain = re.sub(
            r"(?m)^.*(covdp|Usage).*$|[╭╰].*|\[(default|required|choices).*?\]", "\n", rows
        )
        texts[" ".join(tokens) or "covdp"] = re.sub(
            r"(?m)^\*? *(?=\S* ?--|[A-Z-]+ )", "\n\n", plain
        )
    check(texts)


def test_sentences_of_the_code_are_plain() -> None:
    """What errors, pages and commands say wherever it stands: the rule, the value, the way out."""
    check({where: text.replace(": ", "; ") for where, text in literals()})


def literals() -> Iterator[tuple[str, str]]:
    """Yield where sentences stand in the code, values in them being one word; no docstring."""
    for file in files_of_code():
        nodes = list(ast.walk(parsed(file)))
        bare = [node.value for node in nodes if isinstance(node, ast.Expr)]
        inside = [part for node in nodes for part in getattr(node, "values", ())]
        known = {id(node) for node in (*bare, *inside)}
        for node in nodes:
            if id(node) in known or not isinstance(node, ast.Constant | ast.JoinedStr):
                continue
            text = "".join(_parts(node))
            if (
                any(map(str.islower, text.split()[1:]))
                and "\\" not in text
                and not text.startswith(QUERIES)
            ):
                yield f"{file.relative_to(ROOT)}:{node.lineno}", text


def _parts(value: ast.expr) -> Iterator[str]:
    """Yield the text of a string, a value in it as one word."""
    if isinstance(value, ast.Constant):
        yield value.value if isinstance(value.value, str) else ""
    elif isinstance(value, ast.JoinedStr):
        for part in value.values:
            yield from _parts(part)
    elif isinstance(value, ast.FormattedValue):
        yield "value"


def files_of_code() -> list[Path]:
    """Return the files of the package and of its flows."""
    return sorted(file for room in ("pipeline", "flows") for file in (ROOT / room).rglob("*.py"))


def test_docstrings_are_plain() -> None:
    """The first paragraph of everything public is short."""
    check({where: text.split("\n\n")[0] for where, text in docstrings()})


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield the docstrings of all that is public, with where each is."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for file in files_of_code():
        for node in statements(file):
            name = getattr(node, "name", file.stem)
            if isinstance(node, kinds) and (name == "__init__" or not name.startswith("_")):
                yield f"{file.relative_to(ROOT)} {name}", ast.get_docstring(node) or ""


def test_declared_texts_are_plain() -> None:
    """What pages say whatever they show: titles, captions, notes, and the words of Methods.

    So are the titles, statements and differences of experiments.
    """
    texts: dict[str, str] = {}

    def collect(where: str, value: object) -> None:
        if isinstance(value, str):
            texts[where] = value
        elif isinstance(value, Mapping):
            made = {"title", "warning", "parts"} & value.keys() if "block" in value else set()
            for name in value.keys() - NAMES - {"columns", "numbers", "section", *made}:
                collect(f"{where}.{name}", value[name])
            cells = [*value.get("columns", ()), *value.get("numbers", ())]
            cells += [("", value[name]) for name in made]
            cells += [("", cell) for cell in value.get("section", {}).values()]
            for head, cell in cells:
                collect(f"{where}, {head}", [head, *re.findall("'(.*?)'", cell)])
        elif isinstance(value, list):
            for number, part in enumerate(value):
                collect(f"{where}[{number}]", part)

    for name in ("report", "methods", "errata"):
        collect(name, tomllib.loads((ROOT / f"reports/{name}.toml").read_text(encoding="utf-8")))
    for path in (ROOT / "pipeline/experiments").glob("*.toml"):
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
        words = [[claim.get(key) for key in CLAIMED] for claim in fields.get("claims", ())]
        collect(path.stem, [fields["title"], fields.get("open"), words])
    check(texts)


@pytest.fixture(scope="module")
def texts(
    tmp_path_factory: pytest.TempPathFactory,
    hospitals: list[Path],  # noqa: F811
    sites: list[Path],  # noqa: F811
) -> Texts:
    """Return what is read of every kind of page, and of what commands print."""
    folder = tmp_path_factory.mktemp("english")
    return {
        **of_runs(folder / "runs"),
        **of_releases(folder / "releases"),
        **of_nights(folder / "nights"),
        **of_several(folder / "several", hospitals, sites),
        **of_plans(folder / "plans"),
    }


def test_pages_are_plain(texts: Texts) -> None:
    """Every kind of page, with its tables, pictures and alternative texts; and what is printed."""
    faults = []
    for kind, blocks in texts.items():
        try:
            check({f"{kind} {place}": text for place, text in enumerate(blocks)})
        except AssertionError as fault:
            faults.append(str(fault).partition("\nassert")[0])
    assert faults == [], "\n".join(faults)


def test_paragraphs_of_methods_are_short(texts: Texts) -> None:
    """At most 280 words as printed, and 15 for each release beyond the first, or for a history.

    A word has a letter or a digit; what is cited counts.
    """
    found = [text for blocks in texts.values() for text in blocks if "Computed with covdp" in text]
    assert len(found) >= len(RELEASES)
    for text in found:
        words = len(re.findall(r"\S*\w\S*", text))
        releases = len(re.findall(r"[Rr]elease “|of \d+ releases", text))
        assert words <= MOST_OF_METHODS + 15 * max(releases - 1, 0), text


def test_pictures_of_all_pages_have_numbers(texts: Texts) -> None:
    """No attribute of any picture is NaN or infinite, on every kind of page."""
    wrong = [(kind, one) for kind, blocks in texts.items() for one in blocks if NO_NUMBER in one]
    assert wrong == []


def test_no_page_has_a_number_as_computers_write_it(texts: Texts) -> None:
    """10⁻⁵ in place of 1e-05; names that an experiment gives its series, and keys, apart."""
    named = re.compile(r"(TanG|Our release), δ = 1e-\d|([0-9a-f]{4}-){7}[0-9a-f]{4}")
    wrong = [
        (kind, text)
        for kind, blocks in texts.items()
        if not kind.endswith(PRINTED)
        for text in blocks
        if re.search(r"(?<![\w.])\d+(\.\d+)?e[-+]?\d{1,3}(?!\w)", named.sub("", text))
    ]
    assert wrong == []
