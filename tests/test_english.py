"""The English of what users read: short sentences, and the field's words in place of private ones.

What is measured: the README and the page of each room, the help of every command, the messages of
errors, and each kind of page. A sentence ends at a full stop, a question mark, a semicolon, or with
its paragraph, list item or cell. Code and tables are left out, a name in code type is one word.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pipeline.cli import main
from tests.cli.test_printing import LEAVES

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [ROOT / "README.md", *ROOT.glob("[!.]*/README.md"), *ROOT.glob("pipeline/*/README.md")]
)
MEAN, MOST = 25, 40
"""Words of a sentence: in the mean, and of the longest."""
BANNED: Mapping[str, str] = {
    r"errs?": "the error is",
    r"erred": "the error was",
    r"reckon(s|ed)?": "estimate",
    r"is told|are told|told apart|told of|nobody told": "is stated, distinguished",
    r"alike": "similar, identical",
    r"lies? about": "spread",
    r"strange(r|st)?": "unusual, outlier",
    r"hostile": "malicious",
    r"thrift(y|ily)?": "economical",
    r"dearest|dearer": "most costly",
    r"passes? by|passed by": "skips",
    r"for nothing": "free",
    r"unnoticed": "not detected",
    r"looks?(ed)? for": "search",
    r"foresees?|foresaw": "predict",
    r"of our making|of our own making": "simulated",
}
"""Private words, as expressions of whole words, and what the field says."""


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
    """Raise unless all texts have short sentences and none of the banned words."""
    found = [(where, one) for where, text in texts.items() for one in sentences(text)]
    lengths = [len(one.split()) for _, one in found]
    long = [(n, *item) for n, item in zip(lengths, found, strict=True) if n > MOST]
    assert not long, "\n".join(map(str, long))
    assert sum(lengths) <= MEAN * len(lengths)
    private = {
        (where, match[0], BANNED[word])
        for where, one in found
        for word in BANNED
        for match in re.finditer(rf"\b({word})\b", one, re.IGNORECASE)
    }
    assert private == set(), "\n".join(map(str, sorted(private)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
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


def messages() -> Iterator[tuple[str, str]]:
    """Yield where an error is raised, and its message, values being one word."""
    for file in sorted((ROOT / "pipeline").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            for value in node.exc.args[:1]:
                text = "".join(_parts(value))
                if text:
                    yield f"{file.name}:{node.lineno}", text


def _parts(value: ast.expr) -> Iterator[str]:
    """Yield the text of a string, a value in it as one word."""
    if isinstance(value, ast.Constant):
        yield str(value.value)
    elif isinstance(value, ast.JoinedStr):
        for part in value.values:
            yield from _parts(part)
    elif isinstance(value, ast.FormattedValue):
        yield "value"
    elif isinstance(value, ast.BinOp):
        yield from _parts(value.left)
        yield from _parts(value.right)


def test_messages_are_plain() -> None:
    """What errors say: the rule, the value, the way out."""
    check({where: text.replace(": ", "; ") for where, text in messages()})


def test_texts_of_pages_are_plain() -> None:
    """What stands on pages whatever they show: titles, captions and notes."""
    texts: dict[str, str] = {}

    def collect(where: str, value: object) -> None:
        if isinstance(value, str):
            texts[where] = value
        elif isinstance(value, Mapping):
            for name, part in value.items():
                collect(f"{where}.{name}", part)
        elif isinstance(value, list):
            for number, part in enumerate(value):
                collect(f"{where}[{number}]", part)

    collect("report", tomllib.loads((ROOT / "reports/report.toml").read_text(encoding="utf-8")))
    check(texts)
