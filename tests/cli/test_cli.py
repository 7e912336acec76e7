"""The command line: help with examples, tables, and one line with exit code 2 for bad input."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from covdp.cli import app, main
from covdp.experiments import MAIN
from tests.cli.failing import fails


def imported(tokens: list[str], names: list[str]) -> list[str]:
    """Return those modules of `names` that a process of the command has imported when it ends."""
    code = (
        "import json, sys; from covdp.cli import main; "
        "code = main(json.loads(sys.argv[1])); "
        "print(json.dumps([name for name in json.loads(sys.argv[2]) if name in sys.modules])); "
        "sys.exit(code)"
    )
    arguments = [sys.executable, "-c", code, json.dumps(tokens), json.dumps(names)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("command", ["", "run", "release"])
def test_help_comes_at_once(command: str) -> None:
    """Help imports nothing that computes, draws, reads or keeps: it says so within 0.3 s.

    The program's own looks which packages bring commands.
    """
    heavy = ["numpy", "scipy", "numba", "pydantic", "sqlalchemy", "PIL", "pyarrow", "vl_convert"]
    heavy += ["asyncio", "covdp.mean", "covdp.jobs"]
    heavy += ["importlib.metadata", "tempfile"] if command else []
    assert imported([*command.split(), "--help"], heavy) == []


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` of the program and of each command exits 0 and prints usage.

    The hint to `covdp run` ends the help of the program, and of none of its commands. Commands that
    write nothing without `--out` say so.
    """
    commands = [[name] for name in app if not name.startswith("-")]
    commands += [["ledger", name] for name in app["ledger"] if not name.startswith("-")]
    for tokens in ([], *commands):
        assert main([*tokens, "--help"]) == 0
        said = capsys.readouterr().out
        assert "Usage" in said
        assert ("Start with" in said) == (not tokens), tokens
        pages = [["compare"], ["combine"], ["match"]]
        assert ("[none is written]" in said) == (tokens in pages), tokens


@pytest.mark.parametrize(
    ("columns", "width"), [("", 200), ("90", 90), ("260", 260), ("0", 200), ("wide", 200)]
)
def test_tables_are_as_wide_as_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    """Written to a pipe, a table is at most as wide as COLUMNS says, else 200; nothing is cut."""
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["mechanisms"]) == 0
    printed = capsys.readouterr().out
    widest = max(map(len, printed.splitlines()))
    assert widest <= width
    assert (widest > 100) == (width > 100)
    assert "…" not in printed


def test_tables_list_every_member(capsys: pytest.CaptureFixture[str]) -> None:
    """`covdp datasets`, `descriptors` and `mechanisms` name each member, and manifolds too."""
    from covdp.datasets import DATASETS
    from covdp.descriptors import DESCRIPTORS
    from covdp.geometry import MANIFOLDS
    from covdp.mechanisms import MECHANISMS

    for command, registry in (
        ("datasets", DATASETS),
        ("descriptors", DESCRIPTORS),
        ("mechanisms", {**MECHANISMS, **MANIFOLDS}),
    ):
        assert main([command]) == 0
        printed = capsys.readouterr().out
        assert all(name in printed for name in registry)


def test_descriptors_say_how_they_are_computed(capsys: pytest.CaptureFixture[str]) -> None:
    """`covdp descriptors` has the filters and the normalisation of each, as text and as JSON."""
    from covdp.descriptors import DESCRIPTORS

    assert main(["descriptors"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert main(["descriptors", "--json"]) == 0
    facts = {item["name"]: item["formula"] for item in json.loads(capsys.readouterr().out)}
    assert facts == {name: spec.formula for name, spec in DESCRIPTORS.items()}
    assert all(f": {spec.formula}." in printed for spec in DESCRIPTORS.values())
    assert "Sobel" in printed


@pytest.mark.addons
@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (("run", "--dataset", "pneumonia"), "pneumoniamnist"),
        (("run", "--config", "nowhere.toml"), "nowhere.toml"),
        (("run", "--runner", "theads"), "threads"),
        (("run", "--sed", "1"), "--sed"),
        (("run", "--seed", "one"), "one"),
        (("run", "--seed", "-1"), "seed"),
        (("rum",), "rum"),
        (("report", "nowhere"), "nowhere"),
        (("history", "ward", "--out", "out"), "ward has no place here; give it with an option"),
        (
            ("ledger", "set-budget", "x"),
            "ledger set-budget needs --total; covdp ledger set-budget --help",
        ),
        (
            ("reproduce", "rao-composition", "--out", "s3://b/x"),
            "s3://b/x is an address; name a fol",
        ),
        (("release",), "release needs --config; covdp release --help shows examples"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], tokens: tuple[str, ...], words: str
) -> None:
    """A wrong name, option or value is refused before Prefect starts, with the way out."""
    assert words in fails(capsys, *tokens)


@pytest.mark.addons
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('descriptor = "oct5"', 'descriptor = "oct55"', "did you mean 'oct5'"),
        ('manifold = "spd-log-euclidean"', 'manifold = "sphere"', "SPD"),
        ('manifold = "spd-log-euclidean"', 'manifold = "spd-log-euclid"', "spd-log-euclidean"),
        ('mechanism = "ewg"', 'mechanism = "ewgg"', "did you mean 'ewg'"),
        ('definition = "gdp"', 'definition = "pure"', "pure"),
        ('mechanism = "ewg"', 'mechanism = "ewg"\nsampler = "chain"', "exact"),
    ],
)
def test_meaningless_configs_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, old: str, new: str, words: str
) -> None:
    """A combination that has no guarantee is refused with one line saying why."""
    path = tmp_path / "bad.toml"
    path.write_text(MAIN.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    assert words in fails(capsys, "run", "--config", str(path), "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_terminal_obeys_no_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What a name would make a terminal do is shown as its escape."""
    assert r"\x1b[2J" in fails(capsys, "report", str(tmp_path / "\x1b[2J\n"))


def test_a_home_that_no_shell_has_put_in_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quoted ``~/x`` is a folder at home, not one of the name ``~``."""
    monkeypatch.setenv("HOME", "/home/me")
    _, bound, _ = app.parse_args(["run", "--out", "~/x", "--data-root", "~/y"])
    options = bound.arguments["overrides"]
    assert (options.out, options.data_root) == (Path("/home/me/x"), Path("/home/me/y"))


def test_unwritable_folder_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A result folder that cannot be made is refused, and names --out."""
    blocked = tmp_path / "file"
    blocked.write_text("here")
    assert "--out" in fails(capsys, "run", "--out", str(blocked / "results"))


FAULTS = {
    "truncated": "mine.npz",
    "float": "uint8",
    "nan": "uint8",
    "shape": "shape",
    "empty class": "no image",
    "one": None,
}
"""What is wrong with an array file, and a word of the line that says so; n = 1 is valid."""


def array_file(path: Path, fault: str) -> Path:
    """Write a small array file with one fault."""
    images = np.random.default_rng(0).integers(0, 256, (12, 28, 28), dtype=np.uint8)
    labels = np.repeat([0, 1], 6).astype(np.uint8)
    match fault:
        case "float":
            images = images / 255.0
        case "nan":
            images = np.full(images.shape, np.nan)
        case "shape":
            images = images[:, 0]
        case "empty class":
            labels[:] = 0
        case "one":
            images, labels = images[5:7], labels[5:7]
    np.savez(path, train_images=images, train_labels=labels)
    if fault == "truncated":
        path.write_bytes(path.read_bytes()[:-500])
    return path


OWN = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["a", "b"]\n'


@pytest.mark.addons
@pytest.mark.parametrize("command", ["run", "reproduce ew-octmnist"])
@pytest.mark.parametrize("line", ["", "public = false\n"])
def test_images_of_ones_own_are_run_only_if_declared_public(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, line: str
) -> None:
    """Without public = true nothing is written, and the line says what would be and the way out."""
    array_file(tmp_path / "mine.npz", "one")
    card = tmp_path / "mine.toml"
    card.write_text(OWN + line)
    out = tmp_path / "out"
    tokens = [*command.split(), "--dataset", str(card), "--data-root", str(tmp_path)]
    said = fails(capsys, *tokens, "--out", str(out))
    for words in ("sample pictures of mine", "true means", "errors", "public = true"):
        assert words in said
    assert "`covdp release`, which does not need it" in said
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("pictures_once")
@pytest.mark.parametrize("fault", FAULTS)
def test_unusable_images_end_in_one_line_and_leave_no_half_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, fault: str
) -> None:
    """A damaged or unsuitable array file is one typed line; n = 1 is a valid, very noisy mean."""
    array_file(tmp_path / "mine.npz", fault)
    card = tmp_path / "mine.toml"
    card.write_text(OWN + "public = true\n")
    out = tmp_path / "out"
    tokens = ["run", "--dataset", str(card), "--data-root", str(tmp_path), "--out", str(out)]
    word = FAULTS[fault]
    if word is None:
        assert main([*tokens, "--repetitions", "2"]) == 0
        assert (out / "report.html").is_file()
        modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in [out, *out.rglob("*")]}
        assert modes == {(True, 0o700), (False, 0o600)}
        elsewhere = tmp_path / "pages" / "mine.html"
        assert main(["report", str(out), "--out", str(elsewhere)]) == 0
        assert elsewhere.stat().st_mode & 0o777 == 0o600
        assert elsewhere.parent.stat().st_mode & 0o777 == 0o700
    else:
        assert word in fails(capsys, *tokens)
        halves = (".parquet", ".part", ".html", ".npy")
        assert not [path for path in out.rglob("*") if path.suffix in halves]
