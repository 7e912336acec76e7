"""What is built to be given away: everything covdp reads, nothing of whoever builds it."""

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from covdp import __version__
from covdp.cli import version
from covdp.errors import EXTRAS, CovdpError
from covdp.ledger.database import locate
from covdp.parallel import check_runner
from covdp.store import find_place

VERSIONS = sys.modules["covdp.cli.commands"]
ROOT = Path(__file__).resolve().parents[1]
KEPT = ("pipeline", "flows", "data", "reports", "pyproject.toml", "README.md", "LICENSE")
PLANTED = (
    "data/cache/ward.csv",
    "data/cache/prefect/prefect.db",
    "reports/output/report.html",
    "reports/output/release/ward.json",
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project, without its git, where images and results are lying about."""
    root = tmp_path_factory.mktemp("checkout")
    ignore = shutil.ignore_patterns("cache", "output", "__pycache__")
    for name in KEPT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, root / name)
    for name in PLANTED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("private")
    return root


def files(root: Path, folder: str) -> set[str]:
    """Return the names of all files below a folder, but for what a build leaves there."""
    found = (path for path in (root / folder).rglob("*") if ".egg-info/" not in path.as_posix())
    return {path.relative_to(root).as_posix() for path in found if path.is_file()}


def test_the_folder_itself_says_what_to_import() -> None:
    """`import pipeline` in a checkout names `covdp`."""
    code = "import pipeline"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert told.returncode == 1
    assert "write `import covdp`" in told.stderr


def test_a_script_of_a_user_may_have_our_names(tmp_path: Path) -> None:
    """A `pipeline.py` and a `flows.py` beside a script are what the script imports."""
    for name in ("pipeline", "flows"):
        (tmp_path / f"{name}.py").write_text(f"own = {name!r}")
    script = tmp_path / "script.py"
    script.write_text(
        "import covdp, covdp.flows, pipeline, flows\n"
        "print(pipeline.own, flows.own, covdp.private_mean.__module__, covdp.flows.__name__)"
    )
    told = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["pipeline", "flows", "covdp.mean.engine", "covdp.flows"]


def build(root: Path, what: str, folder: Path) -> Path:
    """Return a wheel or an sdist of a project, built as pip has it built."""
    code = f"from setuptools.build_meta import build_{what} as build; build({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


def test_a_wheel_holds_what_is_read_and_nothing_private(checkout: Path, tmp_path: Path) -> None:
    """All modules and resources are in the wheel; downloads, results and caches are not."""
    with zipfile.ZipFile(build(checkout, "wheel", tmp_path)) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        assert b"private" not in [wheel.read(name) for name in names]
    expected = {f"covdp/{name.partition('/')[2]}" for name in files(checkout, "pipeline")}
    expected |= {f"covdp/{name}" for name in files(checkout, "flows")}
    for folder in ("data", "reports"):
        shipped = files(checkout, folder) - set(PLANTED)
        shipped -= files(checkout, "reports/site")  # of READMEs that only a checkout has
        expected |= {f"covdp/_resources/{name}" for name in shipped}
    assert names == expected


def test_an_sdist_holds_nothing_private(checkout: Path, tmp_path: Path) -> None:
    """The same of the archive of sources, which builds the same wheel."""
    with tarfile.open(build(checkout, "sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names.isdisjoint(PLANTED)
    assert {"pipeline/cli/__init__.py", "data/tiles.toml", "reports/style.css"} <= names


def imported(folder: Path) -> set[str]:
    """Return the packages that the modules below a folder import, also inside functions."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add(str(node.module).split(".")[0])
    return found - {"covdp", *sys.stdlib_module_names}


def test_a_plain_install_has_all_that_is_imported() -> None:
    """What `pipeline` and `flows` import is a plain dependency, or of an extra that is named."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    plain = {canonicalize_name(Requirement(item).name) for item in project["dependencies"]}
    extras = {
        name: {Requirement(item).name for item in project["optional-dependencies"][extra]}
        for name, extra in EXTRAS.items()
    }
    owners = packages_distributions()
    for name, packages in extras.items():
        assert packages & set(owners.get(name, [name])), name
    for package in (imported(ROOT / "pipeline") | imported(ROOT / "flows")) - extras.keys():
        assert plain & {canonicalize_name(owner) for owner in owners[package]}, package
    assert plain.isdisjoint({"torch", "torchvision", "medmnist", "pandas", "matplotlib"})
    extra = {Requirement(item).name for item in project["optional-dependencies"]["sets"]}
    assert extra == {"torch", "torchvision", "medmnist"}


def test_the_citation_is_of_this_version() -> None:
    """CITATION.cff names the version and the licence of the package."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["version"], cited["license"]) == (__version__, "Apache-2.0")
    assert cited["authors"]


def test_the_change_log_tells_of_this_version() -> None:
    """Its newest dated entry is of the version, on the day that is cited; each is half a page."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.findall(r"^## (\S+) \((\S+)\)$", text, flags=re.M)[0]
    assert newest == (__version__, str(cited["date-released"]))
    assert max(len(entry.split()) for entry in text.split("\n## ")) <= 350


def test_the_oldest_dependencies_are_the_lower_bounds() -> None:
    """tests/oldest.txt pins each dependency to the lower bound that pyproject.toml gives."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    pinned = {canonicalize_name(name): Version(at) for name, at in (x.split("==") for x in lines)}
    optional = project["optional-dependencies"]
    for item in map(Requirement, project["dependencies"] + optional["dask"] + optional["postgres"]):
        least = [Version(x.version) for x in item.specifier if x.operator == ">="]
        assert least == [pinned[canonicalize_name(item.name)]], item.name


def test_the_claimed_pythons_begin_with_the_least() -> None:
    """Classifiers name the Pythons that were tested, from the least that installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [x.rsplit(" ", 1)[1] for x in project["classifiers"] if ":: Python ::" in x]
    assert named == ["3.11", "3.12", "3.13"]
    assert project["requires-python"] == f">={named[0]}"
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))[
        "jobs"
    ]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == named
    assert jobs["linux"]["steps"][-1]["run"] == ".ci/run"


def test_the_lock_has_what_a_plain_install_gets_and_its_hashes() -> None:
    """Each dependency in the version that passed the tests, each file by a hash; no address."""
    text = (ROOT / ".ci" / "lock.txt").read_text(encoding="utf-8")
    assert "://" not in text
    entries = re.split(r"(?m)^(?=\S)", text)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
    locked = dict(re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", text))
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    passed = {canonicalize_name(name): at for name, at in (line.split("==") for line in lines)}
    names = {canonicalize_name(name): at for name, at in locked.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {canonicalize_name(Requirement(x).name) for x in project["dependencies"]} <= set(names)
    assert {name: at for name, at in names.items() if passed.get(name, at) != at} == {}


def test_a_version_without_git_is_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is git's in a checkout, pip's note elsewhere; without either nothing is said."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        monkeypatch.setenv("GIT_DIR", str(tmp_path))  # as in a hook of another repository
        assert re.fullmatch(rf"{re.escape(__version__)} \(commit [0-9a-f]{{12}}\)", version())
    (tmp_path / ".git").mkdir()
    checkout: list[Path | None] = [tmp_path]
    monkeypatch.setattr(VERSIONS, "project_root", lambda: checkout[0])
    assert version() == __version__  # an empty .git is no repository
    monkeypatch.setenv("PATH", str(tmp_path))
    assert version() == __version__  # there is no git
    checkout[0] = None
    for noted, said in (
        ('{"vcs_info": {"commit_id": "0123456789abcdef"}}', " (commit 0123456789ab)"),
        ('{"archive_info": {}}', ""),
        ("not JSON", ""),
        (None, ""),
    ):
        found = type("Distribution", (), {"read_text": lambda self, name, noted=noted: noted})
        monkeypatch.setattr("importlib.metadata.distribution", lambda name, one=found: one())
        assert version() == __version__ + said


@pytest.mark.parametrize(
    ("package", "extra", "work"),
    [
        ("distributed", "dask", lambda: check_runner("dask")),
        ("distributed", "dask", lambda: check_runner("tcp://127.0.0.1:1")),
        ("psycopg", "postgres", lambda: locate("postgresql://ward@localhost/privacy", 1.0)),
        ("fsspec", "s3", lambda: find_place("memory://ward")),
    ],
)
def test_a_missing_extra_is_one_line(
    package: str, extra: str, work: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a plain installation does not have is named when it is asked for, with its extra."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        CovdpError, match=rf"needs {package}, .*pip install 'covdp\[{extra}\]'"
    ) as told:
        work()
    assert "\n" not in str(told.value)
