"""Every command where standard output is no UTF-8: cp1252, latin-1, ASCII; a pipe, a file."""

import ast
import codecs
import io
import json
import os
import subprocess
import sys
import threading
import tomllib
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from covdp.cli import main, releases
from covdp.cli.streams import IN_WORDS, complain
from covdp.files import project_root
from covdp.ledger import open_ledger
from covdp.progress import Level, say
from tests.cli.wards import ARGUMENTS, prepare
from tests.cli.wards import ward as ward
from tests.tools.leaves import LEAVES
from tests.tools.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

CODINGS = ("cp1252", "latin-1", "ascii")
"""Encodings of pipes and files without all letters."""
PYTHON = [sys.executable, "-m"]
NO_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""Environment of a container without a locale."""


class Printed(NamedTuple):
    """How a command ended, and its standard output and standard error, in one encoding."""

    code: int
    output: str
    errors: str


def printed_in(
    monkeypatch: pytest.MonkeyPatch, coding: str, *tokens: str, file: Path | None = None
) -> Printed:
    """Run a command whose two streams have an encoding: pipes, or `file` as standard output."""
    kept, ends, readers = list[bytearray](), list[io.TextIOWrapper](), list[threading.Thread]()

    def read(end: int, into: bytearray) -> None:
        with os.fdopen(end, "rb") as pipe:
            into.extend(pipe.read())

    for _ in range(2):
        end, writer = os.pipe()
        kept.append(bytearray())
        readers.append(threading.Thread(target=read, args=(end, kept[-1])))
        ends.append(os.fdopen(writer, "w", encoding=coding))
    for reader in readers:
        reader.start()
    with monkeypatch.context() as patch:
        output = ends[0] if file is None else file.open("w", encoding=coding)
        patch.setattr(sys, "stdout", output)
        patch.setattr(sys, "stderr", ends[1])
        try:
            code = main(list(tokens))
        finally:
            say(Level.QUIET)
            for stream in (output, *ends):
                stream.close()
            for reader in readers:
                reader.join()
    shown = kept[0] if file is None else file.read_bytes()
    return Printed(code, bytes(shown).decode(coding), kept[1].decode(coding))


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("tokens", [[], *LEAVES], ids=" ".join)
def test_every_help_can_be_printed(
    monkeypatch: pytest.MonkeyPatch, tokens: list[str], coding: str
) -> None:
    """All its words are those of UTF-8, and no letter is a code."""
    found = printed_in(monkeypatch, coding, *tokens, "--help")
    assert (found.code, found.errors) == (0, "")
    assert found.output.startswith("Usage: covdp")
    assert "\\" not in found.output.replace("\\\n", "")


@pytest.mark.addons
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("tokens", LEAVES, ids=" ".join)
def test_every_command_works(
    ward: Path, monkeypatch: pytest.MonkeyPatch, tokens: list[str], coding: str
) -> None:
    """Exit code 0 in a pipe, and for one of the encodings in a file."""
    name = " ".join(tokens)
    prepare(monkeypatch, name)
    file = Path("shown.txt") if coding == "latin-1" else None
    found = printed_in(monkeypatch, coding, *tokens, *ARGUMENTS[name].split(), file=file)
    assert found.code == 0, found.errors
    assert "Traceback" not in found.errors


@pytest.mark.addons
@pytest.mark.parametrize("tokens", LEAVES, ids=" ".join)
def test_json_is_the_same_in_ascii(
    ward: Path, monkeypatch: pytest.MonkeyPatch, tokens: list[str]
) -> None:
    """A reader gets the value, whatever the encoding; commands without --json refuse it."""
    name = " ".join(tokens)
    prepare(monkeypatch, name)
    found = printed_in(monkeypatch, "ascii", *tokens, *ARGUMENTS[name].split(), "--json")
    if name in ("serve", "completion", "schema"):
        assert found.code == 2
    else:
        assert found.code == 0, found.errors
        assert json.loads(found.output) is not None


def test_names_in_json_and_in_cards_lose_nothing(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Populations and classes of any letters are read back as they are."""
    name = "Zürich-Łódź"
    set_budget = ["ledger", "set-budget", name, "--total", "2"]
    for side in "αü":
        folder = Path("Bilder") / f"{side}-klasse"
        folder.mkdir(parents=True)
        for number in range(3):
            (folder / f"{number}.pgm").write_bytes(Path("a.pgm").read_bytes())
    drafted = dict[str, object]()
    for coding in ("utf-8", *CODINGS):
        found = printed_in(monkeypatch, coding, *set_budget, "--json")
        assert json.loads(found.output)[0]["population"] == name, found.errors
        drafted[coding] = tomllib.loads(printed_in(monkeypatch, coding, "card", "Bilder").output)
    assert drafted["utf-8"]["classes"] == ["ü-klasse", "α-klasse"]  # type: ignore[index]
    assert all(card == drafted["utf-8"] for card in drafted.values())


def test_names_keep_their_letters_as_codes() -> None:
    """A sign of ours is a word; a letter of a name is not taken for another."""
    words = {
        "μ = 0.5, √(μ₁² + μ₂²) ≤ 2": "mu = 0.5, sqrt(mu_1^2 + mu_2^2) <= 2",
        "δ = 10⁻⁵; 5 ± 6.3 × ½": "delta = 10^-5; 5 +- 6.3 x 1/2",
        "─ │ ┼ ╭ ━ ⠋ – — … “a” → b": '- | + + - * - - ... "a" -> b',
        "Müller, 田": "M\\xfcller, \\u7530",
    }
    for text, spelled in words.items():
        assert text.encode("ascii", IN_WORDS).decode() == spelled
    assert "Müller ± μ".encode("cp1252", IN_WORDS).decode("cp1252") == "Müller ± mu"
    assert codecs.lookup_error(IN_WORDS) is not None


def test_every_sign_of_our_texts_has_a_word() -> None:
    """No text of the package, however rare, shows a code for what is no letter of a name."""
    root = project_root()
    assert root is not None
    texts = [path.read_text(encoding="utf-8") for path in (root / "pipeline").rglob("*.toml")]
    for path in (root / "pipeline").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = (x.value for x in ast.walk(tree) if isinstance(x, ast.Constant))
        texts += [text for text in constants if isinstance(text, str)]
    signs = {letter for text in texts for letter in text if not letter.isascii()}
    ours = {x for x in signs if x.isprintable() and unicodedata.category(x)[0] in "SPN"}
    coded = {x for x in ours if "\\" in x.encode("ascii", IN_WORDS).decode()}
    assert coded == {"´"}  # in a docstring about accents


def shown(code: str, *, stdout: str, stderr: str, env: dict[str, str]) -> int:
    """Run a command line in a process of its own, its streams places; return its exit code."""
    with Path(stdout).open("w") as output, Path(stderr).open("w") as errors:
        done = subprocess.run(
            [*PYTHON, *code.split()],
            stdout=output,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": str(project_root()), **env},
            timeout=PATIENCE,
            check=False,
        )
    return done.returncode


@pytest.mark.parametrize("first", ["/dev/full", "output.txt"])
def test_a_release_that_nobody_can_read_is_paid_once_and_there(ward: Path, first: str) -> None:
    """Without a locale and with a full disk: its files are whole, and asking again is free."""
    command, spent = f"covdp.cli release {ARGUMENTS['release']} --verbose", set[object]()
    second = "output.txt" if first == "/dev/full" else "/dev/full"
    for stdout, stderr in ((first, "/dev/full"), (second, "errors.txt")):
        code = 2 if stdout == "/dev/full" else 0
        assert shown(command, stdout=stdout, stderr=stderr, env=NO_LOCALE) == code
        assert len([*Path("released/release").iterdir()]) == 3
        (account,) = open_ledger("ledger.sqlite").show("ward-7")
        spent.add(account.spent)
        if stdout == "output.txt":
            said = Path(stdout).read_text(encoding="ascii")
            assert "can pay 15 more at mu = 0.5" in said
        elif stderr == "errors.txt":
            said = Path(stderr).read_text(encoding="ascii")
            assert "cannot write to standard output" in said
    assert len(spent) == 1
    assert spent != {None}


@pytest.mark.addons
def test_a_night_goes_on_where_the_log_is_full(
    ward: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Serving says so on standard error; a word of it cannot be heard either, and it goes on."""
    full = Path("/dev/full").open("w")  # noqa: SIM115 (closing it fails)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        releases._log("a night")
        patch.setattr(sys, "stderr", full)
        releases._log("another night")
        complain("a fault")
    with suppress(OSError):
        full.close()
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert "a night" in error


def test_notifying_takes_any_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The line that a command reads is written in its encoding, too."""
    heard = tmp_path / "heard"
    script = f"import sys; open({str(heard)!r}, 'wb').write(sys.stdin.buffer.read())"
    code = (
        "from covdp.cli.releases import notify_failure; import sys; "
        f"notify_failure({'Łódź: μ = 0.5'!a}, [sys.executable, '-c', {script!r}])"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **NO_LOCALE},
        check=True,
        timeout=PATIENCE,
        cwd=project_root(),
    )
    assert heard.read_bytes() == b"\\u0141\\xf3d\\u017a: mu = 0.5\n"


@pytest.mark.parametrize("coding", CODINGS)
def test_flows_print_in_any_encoding(coding: str, tmp_path: Path) -> None:
    """Their door is another one; where it has letters for it, --help is what is read elsewhere."""
    asked = {"--help": 0, "main --dataset nöwhere": 2}
    for tokens, code in [*asked.items()][0 if coding == "ascii" else 1 :]:
        done = subprocess.run(
            [*PYTHON, "flows", *tokens.split()],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": coding},
            timeout=PATIENCE,
            cwd=project_root(),
            check=False,
        )
        assert done.returncode == code, done.stderr.decode(coding)
        assert "Traceback" not in done.stderr.decode(coding)
