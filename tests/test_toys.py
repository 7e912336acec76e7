"""What a new member costs: one file and one line. Toys of every kind go through the whole house.

Draws here are compared with proven bounds or not at all: no false alarm.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, special, stats

from covdp.cli import main
from covdp.datasets import open_dataset
from covdp.descriptors import DESCRIPTORS, describe, domain, require, verify
from covdp.errors import PrivacyError
from covdp.experiments import Run, load_experiments, run_experiment
from covdp.experiments.registry import check
from covdp.files import resource
from covdp.geometry import MANIFOLDS, FlatChart
from covdp.ledger import init_ledger
from covdp.mean import Ball, SinglePlan, private_mean
from covdp.mechanisms import LATTICE, MECHANISMS
from covdp.privacy import GDP, PureDP
from covdp.publish import load_release, release_once
from covdp.report import load_runs
from covdp.report.page import blocks_of, load_pages, sections_of
from covdp.results import read_rows
from tests.tools import toys
from tests.tools.addons import addon

all_cases = addon("audit:all_cases")
audit = addon("audit:audit")

TESTS = Path(__file__).parent
LAWS = (
    *("laws_manifold", "laws_mechanism", "mean", "private_mean", "descriptors", "audit"),
    *("adaptive", "barycentre", "guards", "methods"),
)
CARD = 'kind = "raw"\nchannels = 1\nheight = 12\nwidth = 10\nclasses = ["well", "ill"]\n'
EXPERIMENT = """\
name = "toys"
title = "Toys"
dataset = "{card}"
descriptor = "edge2"
manifold = "spd-decibel"
budgets = [1.0]
repetitions = 3
seed = 1
[[mechanisms]]
series = "Huber"
mechanism = "huber"
[[mechanisms]]
series = "EWG, footpoint of Huber"
mechanism = "ewg"
footpoint = "all"
footpoint_mechanism = "huber"
[[mechanisms]]
series = "adaptive"
mechanism = "ewg"
footpoint = "adaptive"
"""
BLOCK = """
[[run.block]]
name = "quiet-classes"
title = "Few"
template = "lines.html.j2"
content = "tests.tools.toys.reportlet:quiet_classes"
"""
RELEASE = """\
name = "toys"
population = "ward"
dataset = "{card}"
labels = "public"
descriptor = "edge2"
manifold = "spd-decibel"
mechanism = "{mechanism}"
budget = 1.0
run_key = "one"
"""


@pytest.fixture(autouse=True)
def toys_are_members() -> Iterator[None]:
    """Register all of them, and nothing else."""
    with toys.registered():
        yield


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    """Return a folder with a card and images of the toy kind."""
    rng = np.random.default_rng(1)
    (tmp_path / "ward").mkdir()
    for name, n in (("well", 40), ("ill", 20)):
        rng.integers(0, 256, (n, 12, 10), dtype=np.uint8).tofile(tmp_path / "ward" / f"{name}.raw")
    (tmp_path / "ward.toml").write_text(CARD + "public = true\n")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *tokens: object) -> str:
    """Return the one line with which a command refuses."""
    assert main([str(token) for token in tokens]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line


PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "covdp-toys"
version = "0.1"

[project.entry-points."covdp.addons"]
"descriptors.edge2" = "toys.descriptor:EDGE2"
"manifolds.spd-decibel" = "toys.manifold:Decibel"
"manifolds.cylinder" = "toys.manifold:Cylinder"
"mechanisms.huber" = "toys.mechanism:HUBER"
"dataset_kinds.raw" = "toys.dataset_kind:RAW"
"experiment_kinds.halves" = "toys.experiment_kind:HALVES"
"commands.greet" = "toys.command:greet"
"""
BROKEN = PROJECT.partition('"descriptors')[0] + '"descriptors.broken" = "toys.descriptor:EDGE3"\n'


def install(folder: Path, project: str) -> Path:
    """Return a folder where a package with the toys is installed, as pip does it."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(project)
    left_out = shutil.ignore_patterns("__init__.py", "__pycache__")
    shutil.copytree(TESTS / "tools" / "toys", folder / "toys", ignore=left_out)
    (folder / "toys" / "__init__.py").touch()
    (folder / "toys" / "command.py").write_text(
        'def greet() -> None:\n    """Greet."""\n    print("a command of a toy")\n'
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    target = folder / "installed"
    subprocess.run([*pip, "--target", str(target), str(folder)], check=True, capture_output=True)
    return target


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder where a package with a member of each kind is installed."""
    return install(tmp_path_factory.mktemp("toys") / "package", PROJECT)


def run_with(
    installed: Path, *tokens: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m …`` where that package is installed beside covdp."""
    return subprocess.run(
        [sys.executable, "-m", *tokens],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=cwd or TESTS.parent,
        capture_output=True,
        text=True,
    )


def test_members_of_a_package_are_used_by_name(installed: Path, ward: Path) -> None:
    """A run on images of its kind, with its descriptor; a command of its own, in the help too."""
    words = ("--dataset", "ward.toml", "--descriptor", "edge2", "--data-root", ".", "--out", "out")
    done = run_with(installed, "covdp", "run", *words, "--repetitions", "2", cwd=ward)
    assert done.returncode == 0, done.stderr
    done = run_with(installed, "covdp", "greet", cwd=ward)
    assert (done.returncode, done.stdout) == (0, "a command of a toy\n")
    assert "greet" in run_with(installed, "covdp", "--help", cwd=ward).stdout


def test_a_member_that_cannot_be_imported_is_named_and_left_out(ward: Path) -> None:
    """A table goes on without it; asked for by name it is refused: one line each."""
    installed = install(ward / "package", BROKEN)
    done = run_with(installed, "covdp", "descriptors", "--json", cwd=ward)
    assert done.returncode == 0
    names = [row["name"] for row in json.loads(done.stdout)]
    assert names == [name for name in DESCRIPTORS if name != "edge2"]
    fault = "descriptor 'broken' of package covdp-toys 0.1 cannot be imported (AttributeError: "
    assert done.stderr.startswith(f"covdp: {fault}")
    assert done.stderr.endswith("mend or uninstall the package; it is left out\n")
    done = run_with(installed, "covdp", "run", "--descriptor", "broken", cwd=ward)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert fault in done.stderr


@pytest.mark.slow
def test_a_member_is_one_file_and_one_line(installed: Path) -> None:
    """With a package of such members beside covdp, whose tree nobody edits, all laws hold for them.

    Every test that loops over members runs there: laws, guards, methods, tables of commands.
    """
    names = ["decibel", "cylinder", "huber", "edge2"]
    options = ["-p", "no:cacheprovider", "-q", "-rA"]
    chosen = ["-k", f"({' or '.join(names)} or every_name or listed) and not parts"]
    files = [str(path) for name in LAWS for path in TESTS.glob(f"**/test_{name}.py")]
    deselected = ("--deselect", "tests/test_toys.py")
    done = run_with(installed, "pytest", *options, *chosen, *deselected, *files)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    passed = [line for line in done.stdout.splitlines() if line.startswith("PASSED")]
    for name, least in (("decibel", 60), ("cylinder", 60), ("huber", 20), ("edge2", 10)):
        assert sum(name in line for line in passed) >= least, name
    assert any("test_every_name_has_words" in line for line in passed)


def test_an_experiment_runs_on_toys(ward: Path) -> None:
    """Kind, descriptor, manifold and mechanism of toys: rows of every series, and a section."""
    (ward / "toys.toml").write_text(EXPERIMENT.format(card=ward / "ward.toml"))
    (config,) = load_experiments(ward / "toys.toml")
    rows = read_rows(run_experiment(Run(config, ward, ward / "out")))
    assert set(rows["series"]) == {"Huber", "EWG, footpoint of Huber", "adaptive"}
    assert set(rows["distance"]) == {"decibel"}
    assert set(rows["status"]) == {"ok"}
    assert len(rows["error"]) == 3 * 2 * 3
    assert np.isfinite(rows["error"]).all()
    half = config.model_copy(update={"kind": "halves"})
    check(half)
    fewer = read_rows(run_experiment(Run(half, ward, ward / "half")))
    np.testing.assert_array_equal(fewer["n"], rows["n"] // 2)
    assert np.isfinite(fewer["error"]).all()
    (run,) = load_runs(ward / "out")
    text = resource("reports", "report.toml").read_text(encoding="utf-8")
    (ward / "report.toml").write_text(text + BLOCK, encoding="utf-8")
    page = load_pages(ward / "report.toml")["run"]
    (section,) = sections_of(page, [run])
    assert blocks_of(section, page["block"])[-1].content == ["ill: 20"]


@pytest.mark.parametrize("mechanism", ["auto", "ewg"])
def test_a_hardened_release_runs_on_toys(ward: Path, mechanism: str) -> None:
    """A release on the toys pays once, certifies ρ, and lies in the toys' region."""
    text = RELEASE.format(card=ward / "ward.toml", mechanism=mechanism)
    (ward / "release.toml").write_text(text)
    book = init_ledger(ward / "ledger.sqlite")
    book.set_budget("ward", GDP(1.0))
    released = json.loads(release_once(load_release(ward / "release.toml"), book, ward))
    facts = domain("edge2", height=12, width=10, manifold="spd-decibel")
    space = MANIFOLDS["spd-decibel"](k=2)
    for row in released["classes"]:
        assert row["rho"] <= 0.5
        far = float(space.dist(space.origin, np.array(row["point"])))
        assert far <= facts.radius + 1e-3
    (row,) = book.show("ward")
    assert row.spent == GDP(1.0)


def test_toys_are_refused_where_they_offer_nothing(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an area no law of distances, without `hardened` no release: one line each."""
    space, rng = MANIFOLDS["cylinder"](3), np.random.default_rng(2)
    points = space.exp(space.origin, 0.1 * rng.standard_normal((9, 3)))
    args = {"domain": Ball(1.0, "cylinder"), "manifold": "cylinder"}
    for name in ("rl", "kng"):
        assert "cylinder" not in MECHANISMS[name].manifolds
        with pytest.raises(PrivacyError, match=f"{name} has no privacy guarantee on cylinder"):
            private_mean(points, PureDP(5.0), plan=SinglePlan(name), rng=rng, **args)
    for name, noise in (("ewl", rng), ("huber", rng), ("ewg", LATTICE)):
        budget = GDP(1.0) if name == "ewg" else PureDP(5.0)
        release, nonprivate = private_mean(points, budget, plan=SinglePlan(name), rng=noise, **args)
        assert space.check(release.point).shape == (4,)
        assert np.isfinite(nonprivate.error)
    text = RELEASE.format(card=ward / "ward.toml", mechanism="huber")
    (ward / "release.toml").write_text(text)
    line = refused(capsys, "release", "--config", ward / "release.toml", "--out", ward / "out")
    assert "huber has no hardened noise" in line
    (ward / "release.toml").write_text(text.replace("spd-decibel", "cylinder"))
    line = refused(capsys, "release", "--config", ward / "release.toml")
    assert "unknown manifold 'cylinder'; known are " in line
    assert "cylinder" not in line.partition("known are ")[2]
    (ward / "ward.toml").write_text(CARD.replace("height", "hieght"))
    line = refused(capsys, "run", "--dataset", ward / "ward.toml")
    assert "key 'hieght' is not known; did you mean 'height'" in line
    (ward / "ward.toml").write_text(CARD.replace('"raw"', '"npz"'))
    line = refused(capsys, "run", "--dataset", ward / "ward.toml")
    assert "key 'height' belongs to kind 'raw', not to 'npz'" in line


def test_toys_are_listed_and_audited(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`covdp mechanisms` has a row of the toy; the audit has its cases, and finds them sound."""
    assert main(["mechanisms", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"cylinder", "spd-decibel"} <= set(rows["huber"]["manifolds"])
    assert "cylinder" in rows["ewg"]["manifolds"]
    cases = [case for case in all_cases("huber") if case.manifold.name == "cylinder"]
    assert {case.budget.name for case in cases} == set(MECHANISMS["huber"].definitions)
    found = [finding for group in audit(cases, trials=20_000, seed=1) for finding in group]
    assert all(finding.good for finding in found)
    assert max(finding.tightness for finding in found) > 0.5


def test_the_bound_of_toys_holds_on_toys(ward: Path) -> None:
    """Descriptors of the toy kind's images, black ones among them, lie within the toy's radius."""
    source = open_dataset(ward / "ward.toml", ward)
    images = np.concatenate([*source.chunks(), np.zeros((1, 12, 10), np.uint8)])
    facts = domain("edge2", height=12, width=10, manifold="spd-decibel")
    row = verify([describe(images, "edge2")], facts, 0, "all")
    require([row])
    assert row.ratio > 0.5


@pytest.mark.parametrize("dim", [1, 3, 15])
def test_the_toy_draws_its_law(dim: int) -> None:
    """Radii have density ∝ t^{d−1}·e^{−H(t)} (Kolmogorov-Smirnov at p > 1e-8), and its mean."""
    space = FlatChart(MANIFOLDS["spd-log-euclidean"].of_dimension(dim))
    noise = MECHANISMS["huber"].calibrate(PureDP(2.0), sensitivity=1.0, manifold=space)
    drawn = noise.sample(space.origin, size=20_000, rng=np.random.default_rng(dim)).points
    t = np.linspace(0.0, dim + 60.0, 200_001)
    density = t ** (dim - 1) * np.exp(-special.huber(1.0, t))
    law = integrate.cumulative_trapezoid(density, t, initial=0.0)
    radii = np.linalg.norm(drawn, axis=1) / noise.sigma
    assert stats.kstest(radii, lambda x: np.interp(x, t, law / law[-1])).pvalue > 1e-8
    for power in (1, 2):
        moment = noise.sigma**power * integrate.trapezoid(t**power * density, t) / law[-1]
        assert noise.expected_error(power) == pytest.approx(moment, rel=1e-6)


def test_the_guide_shows_the_toy_as_it_is() -> None:
    """CONTRIBUTING.md holds the toy mechanism's code, and its links lead to files."""
    guide = (TESTS.parent / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```python\n(.*?)```", guide, flags=re.S)
    assert (TESTS / "tools" / "toys" / "mechanism.py").read_text(encoding="utf-8").endswith(shown)
    assert "class WrappedHuber" in shown
    links = re.findall(r"\]\(([^)#:]+)\)", guide)
    toy_files = {path.name for path in (TESTS / "tools" / "toys").glob("[!_]*.py")}
    assert toy_files == {Path(link).name for link in links if "/toys/" in link}
    assert all((TESTS.parent / ".github" / link).is_file() for link in links)


def test_nothing_of_the_toys_stays() -> None:
    """They leave as they came: a registry that had one of them already would be an error."""
    with pytest.raises(AssertionError), toys.registered():
        pass
    assert all(name in registry for registry, name, _ in toys.TOYS)
