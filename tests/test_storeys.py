"""The two storeys: without its add-ons the ground floor does all that everybody needs."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.tools.count import imports_of_addons
from tests.tools.ground import OWN, environment, plant

CONFIG = """\
name = "ward"
population = "ward"
dataset = "card.toml"
labels = "public"
budget = 0.5
"""
CARD = 'kind = "folder"\npath = "ward"\nchannels = 1\nclasses = ["ill", "well"]\n'


def test_the_ground_floor_imports_no_addon() -> None:
    """Neither at the top of a file nor in a function; an add-on imports those it may."""
    assert imports_of_addons() == []


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tree without add-ons and their tests, with an install of its own."""
    root = tmp_path_factory.mktemp("ground") / "covdp"
    plant(root)
    return root


def run(ground: Path, *tokens: str, cwd: Path | None = None) -> str:
    """Return what a Python of the copy prints."""
    done = subprocess.run(
        [ground / ".venv" / "bin" / "python", *tokens],
        cwd=cwd or ground,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def test_the_copy_has_no_addon(ground: Path) -> None:
    """The control: there covdp is the copy's, and an import of an add-on fails."""
    assert run(ground, "-c", "import covdp; print(covdp.__file__)").strip() == (
        f"{ground}/pipeline/__init__.py"
    )
    with pytest.raises(AssertionError, match=r"No module named 'covdp\.addons'"):
        run(ground, "-c", "import covdp.addons.nights")


@pytest.mark.slow
def test_the_main_job_and_a_release_run(ground: Path, tmp_path: Path) -> None:
    """`python -m flows`, which `make run` starts; then a folder of PNG, released with its page."""
    printed = run(ground, "-m", "flows", "--quick", "--out", str(tmp_path / "out"))
    assert list((tmp_path / "out").rglob("*.parquet"))
    assert (tmp_path / "out" / "report.html").is_file()
    assert "report.html" in printed
    rng = np.random.default_rng(5)
    for name, n in (("ill", 150), ("well", 200)):
        (tmp_path / "ward" / name).mkdir(parents=True)
        for number in range(n):
            pixels = rng.integers(0, 256, (16, 16), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "ward" / name / f"{number}.png")
    (tmp_path / "card.toml").write_text(CARD)
    (tmp_path / "ward.toml").write_text(CONFIG)
    ledger = str(tmp_path / "ledger.sqlite")
    command = ("-m", "covdp")
    run(ground, *command, "ledger", "init", "--ledger", ledger, cwd=tmp_path)
    budget = ("set-budget", "ward", "--total", "2.0", "--ledger", ledger)
    run(ground, *command, "ledger", *budget, cwd=tmp_path)
    options = ("--config", "ward.toml", "--ledger", ledger, "--data-root", ".", "--out", "released")
    run(ground, *command, "release", *options, cwd=tmp_path)
    (document,) = (tmp_path / "released").rglob("*.json")
    assert [row["name"] for row in json.loads(document.read_bytes())["classes"]] == ["ill", "well"]
    assert list((tmp_path / "released").rglob("*.html"))


@pytest.mark.slow
def test_its_own_tests_pass(ground: Path) -> None:
    """Those of two rooms; ``python -m tests.tools.ground`` runs those of all."""
    run(ground, "-m", "pytest", *OWN, "tests/results", "tests/inference")
