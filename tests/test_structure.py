"""How the code is laid out: a class name exists once, and no files import in a circle."""

from pathlib import Path

import pytest

from tests.tools.code import (
    PACKAGES,
    ROOT,
    classes_named_twice,
    constants_named_twice,
    files,
    import_circles,
)
from tests.tools.count import in_files, in_runs, installed, required, weights


def test_a_class_name_exists_once() -> None:
    """No class of `pipeline`, `flows` or the tests has the name of another."""
    assert classes_named_twice(files(*PACKAGES, "tests")) == {}


def test_a_constant_has_one_meaning() -> None:
    """No two modules of `pipeline` and `flows` give the same name in capitals a value."""
    assert constants_named_twice(files(*PACKAGES)) == {}


def test_no_files_import_each_other() -> None:
    """Not in functions or under TYPE_CHECKING either."""
    assert import_circles(files(*PACKAGES)) == []


def test_what_is_counted_in_files_is_there() -> None:
    """Every row has its number, and a plain install has what it requires."""
    rows = {name: now for name, now, _ in in_files()}
    assert rows["lines of code in pipeline"] > 10_000
    assert set(map(str.lower, required())) <= {name.lower() for name in installed()}


def test_a_plain_install_says_what_it_is_for() -> None:
    """Each package that is required has its purpose beside it, and a size where it is installed."""
    assert {name for name, size, purpose in weights() if not size or not purpose} == set()


MOST = {
    "rooms of a walk: budget": 4,
    "returns of a walk: budget": 0,
    "rooms of a walk: release": 2,
    "returns of a walk: release": 5,
    "rooms of a walk: night": 3,
    "returns of a walk: night": 6,
    "rooms of a walk: DICOM": 3,
    "returns of a walk: DICOM": 1,
    "record types from noise to region": 5,
    "openings of a dataset in a run of 3 classes": 1,
    "passes of digests in a run of 3 classes": 1,
    "parses of a config in a release": 1,
    "modules of ours in a run on the tiles": 96,
}
"""How much there may be at most; a number that has fallen is lowered here."""


@pytest.mark.slow
def test_nothing_is_done_more_often_than_it_was(tmp_path: Path) -> None:
    """Of walks every one has its rooms; what is counted in tiny runs has not grown."""
    rows = {name: now for name, now, _ in in_runs(tmp_path)}
    assert {name for name, now in rows.items() if name not in MOST and not now} == set()
    kept = {name: min(1, most) <= rows[name] <= most for name, most in MOST.items()}
    assert {name: rows[name] for name in MOST if not kept[name]} == {}


def test_no_two_test_files_have_one_name() -> None:
    """Pytest cannot collect the second of them."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
