"""What is built to be given away: everything covdp reads, nothing of whoever builds it."""

import ast
import shutil
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipeline import __version__

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
    """Return the names of all files below a folder."""
    found = (root / folder).rglob("*")
    return {path.relative_to(root).as_posix() for path in found if path.is_file()}


def test_a_wheel_holds_what_is_read_and_nothing_private(checkout: Path, tmp_path: Path) -> None:
    """All modules and resources are in the wheel; downloads, results and caches are not."""
    (built,) = WheelBuilder(str(checkout)).build(directory=str(tmp_path))
    with zipfile.ZipFile(built) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        assert b"private" not in [wheel.read(name) for name in names]
    expected = {*files(checkout, "pipeline"), *files(checkout, "flows")}
    for folder in ("data", "reports"):
        shipped = files(checkout, folder) - set(PLANTED)
        expected |= {f"pipeline/_resources/{name}" for name in shipped}
    assert names == expected


def test_an_sdist_holds_nothing_private(checkout: Path, tmp_path: Path) -> None:
    """The same of the archive of sources, which builds the same wheel."""
    (built,) = SdistBuilder(str(checkout)).build(directory=str(tmp_path))
    with tarfile.open(built) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
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
    return found - {"pipeline", "flows", *sys.stdlib_module_names}


def test_a_plain_install_has_all_that_is_imported() -> None:
    """What `pipeline` and `flows` import is a plain dependency, and PyTorch is none of them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    plain = {canonicalize_name(Requirement(item).name) for item in project["dependencies"]}
    owners = packages_distributions()
    for package in imported(ROOT / "pipeline") | imported(ROOT / "flows"):
        assert plain & {canonicalize_name(owner) for owner in owners[package]}, package
    assert plain.isdisjoint({"torch", "torchvision", "medmnist", "pandas", "matplotlib"})
    extra = {Requirement(item).name for item in project["optional-dependencies"]["sets"]}
    assert extra == {"torch", "torchvision", "medmnist"}


def test_the_citation_is_of_this_version() -> None:
    """CITATION.cff names the version and the licence of the package."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["version"], cited["license"]) == (__version__, "Apache-2.0")
    assert cited["authors"]
