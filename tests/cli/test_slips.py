"""A day of mistakes on the command line: nobody pays by slip, and whoever wants to pay can."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from covdp.cli import main
from covdp.ledger import open_ledger

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["a", "b"]\n'
STREAM = "\n[stream]\nhorizon = 9\nopening = 90\n"
DAY = "2026-11-20"


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder of 400 images with the config that `covdp start` makes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COVDP_LEDGER", str(tmp_path / "ledger.sqlite"))
    images = np.random.default_rng(0).integers(0, 256, (400, 12, 12), dtype=np.uint8)
    np.savez("ward-card.npz", train_images=images, train_labels=np.arange(400) % 2)
    Path("ward-card.toml").write_text(CARD)
    answers = "--population", "wardS", "--total", "2", "--budget", "0.5"
    assert main(["start", "ward-card.toml", "--data-root", ".", *answers]) == 0
    return tmp_path


def release(config: str, *more: str, run_key: str = DAY) -> int:
    """Release from a config."""
    return main(["release", "--config", config, "--run-key", run_key, "--out", "out", *more])


def edited(old: str, new: str, config: str = "edited.toml") -> str:
    """Return a config that is the ward's with one change."""
    text = Path("wardS.toml").read_text()
    assert old in text
    Path(config).write_text(text.replace(old, new))
    return config


def charges() -> int:
    """Return how often the account was charged."""
    (row,) = open_ledger("ledger.sqlite").show()
    return row.releases


def refused(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> None:
    """Check that a command was refused in one line with its price."""
    (line,) = capsys.readouterr().err.splitlines()
    assert code == 2
    for word in ("nothing was charged", "μ = 0.5", "--again", *words):
        assert word in line


def test_a_copied_config_is_the_same_release(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`start` writes the name, in the case of the population: under any file it is the same."""
    assert 'name = "wardS"' in Path("wardS.toml").read_text()
    assert release("wardS.toml") == 0
    assert (ward / "out" / "release" / f"wardS-{DAY}.json").is_file()
    shutil.copy("wardS.toml", "other.toml")
    capsys.readouterr()
    assert release("other.toml") == 0
    assert "already released, nothing charged" in capsys.readouterr().out
    assert charges() == 1


@pytest.mark.parametrize("name", ["", 'name = "another"'], ids=["of the file", "another"])
def test_a_renamed_config_is_not_paid_by_slip(
    ward: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The run was paid under another name: refused; the next day is its own; `--again` pays."""
    assert release("wardS.toml") == 0
    config = edited('name = "wardS"', name)
    capsys.readouterr()
    refused(capsys, release(config), "by the release 'wardS'", "set name = 'wardS'")
    assert charges() == 1
    assert release(config, "--again") == 0
    assert release(config, run_key="2026-11-21") == 0
    assert charges() == 3


@pytest.mark.addons
def test_a_stream_is_not_paid_beside_releases_nor_they_beside_it(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """[stream] added and taken away again, on the same day or later: refused, until `--again`."""
    assert release("wardS.toml") == 0
    config = edited("", "", "stream.toml")
    Path(config).write_text(Path(config).read_text() + STREAM)
    capsys.readouterr()
    for day in (DAY, "2026-11-21"):
        refused(capsys, release(config, run_key=day), "has paid for 1 release", "leave [stream]")
    assert charges() == 1
    assert release(config, "--again") == release(config, run_key="2026-11-21") == 0
    assert charges() == 2
    capsys.readouterr()
    assert release("wardS.toml") == 0  # it was paid before the stream
    assert "already released, nothing charged" in capsys.readouterr().out
    day = "2026-11-22"
    refused(capsys, release("wardS.toml", run_key=day), "the stream 'wardS' (2 of 9 nights)")
    assert charges() == 2
    assert release("wardS.toml", "--again", run_key=day) == 0
    assert charges() == 3


@pytest.mark.addons
@pytest.mark.parametrize("command", ["release", "serve"])
def test_a_renamed_stream_is_not_paid_by_slip(
    ward: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """By hand or on a schedule, before images are read; one that follows costs nothing."""
    Path("wardS.toml").write_text(Path("wardS.toml").read_text() + STREAM)
    assert release("wardS.toml") == 0
    config = edited('name = "wardS"', "", "release.toml")
    Path("ward-card.npz").rename("away.npz")
    capsys.readouterr()
    more = ["--run-key", "2026-11-21"] if command == "release" else []
    code = main([command, "--config", config, "--out", "out", *more])
    refused(capsys, code, "has the stream 'wardS'", "set name = 'wardS'", "follows = 'wardS'")
    Path("away.npz").rename("ward-card.npz")
    follows = STREAM + 'follows = "wardS"\n'
    Path(config).write_text(Path(config).read_text().replace(STREAM, follows))
    assert release(config, run_key="2026-11-21") == 0
    assert charges() == 1
    Path(config).write_text(Path(config).read_text().replace(follows, STREAM))
    second = edited('name = "wardS"', 'name = "second"', "second.toml")
    assert release(second, "--again", run_key="2026-11-21") == 0
    assert charges() == 2


@pytest.mark.addons
@pytest.mark.parametrize("command", ["release", "serve"])
def test_another_card_does_not_enter_a_stream_by_slip(
    ward: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """A config that was copied for a second ward, and has the first one's name, is refused."""
    Path("wardS.toml").write_text(Path("wardS.toml").read_text() + STREAM)
    assert release("wardS.toml") == 0
    shutil.copy("ward-card.toml", "east-card.toml")
    shutil.copy("ward-card.npz", "east-card.npz")
    config = edited("ward-card.toml", "east-card.toml")
    capsys.readouterr()
    more = ["--run-key", "2026-11-21"] if command == "release" else []
    assert main([command, "--config", config, "--out", "out", *more]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    for words in ("'wardS' has read card 'ward-card'", "names card 'east-card'", "--again"):
        assert words in line
    assert release(config, "--again", run_key="2026-11-21") == 0
    assert release(config, run_key="2026-11-22") == 0
    assert charges() == 1
