"""What the pipeline computes is what it computed, bit for bit, under whatever names."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.golden import OTHER_ROUNDING, differences, digest, leaves, names_alone

ROOT = Path(__file__).parents[1]


def test_nothing_is_computed_otherwise() -> None:
    """Experiments, releases, nights, persons and inference, in a process of their own."""
    command = [sys.executable, "-m", "tests.tools.golden"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    if OTHER_ROUNDING in done.stdout:
        pytest.skip(OTHER_ROUNDING)


def test_a_new_name_is_told_from_a_new_number() -> None:
    """Of the same digest it is renamed; else one has gone and the other is new."""
    golden = {"part": {"a": digest(1.0), "b": digest([1, 2]), "c": digest("x")}}
    assert differences(golden, golden) == ([], [])
    renamed = {"part": {"a": digest(1.0), "z": digest([1, 2]), "c": digest("x")}}
    assert differences(golden, renamed) == (["part: b has gone, z has the same digest"], [])
    changed = {"part": {"a": digest(1.0 + 2**-52), "z": digest([1, 3]), "c": digest("x")}}
    wrong = ["part: a differs", "part: b has gone", "part: z is new"]
    assert differences(golden, changed) == ([], wrong)
    assert differences(golden, {}) == ([], ["part: has gone"])
    assert differences(names_alone(golden), names_alone(changed))[1] == wrong[1:]


def test_leaves_of_records_in_a_list_are_columns() -> None:
    """Paths name keys, not places; of a statement the numbers count; versions do not."""
    document = {"version": 1, "rows": [{"n": 1}, {"n": 2}], "title": "at most 1,000 of 1e-5."}
    paths = [("rows[].n", 1), ("rows[].n", 2), ("title", ["1,000", "1e-5"])]
    assert list(leaves(document, "")) == paths


@pytest.mark.parametrize("value", [float("nan"), [0.1, None], "text", True])
def test_digests_are_of_values(value: object) -> None:
    """The same value, the same digest; another value, another."""
    assert digest(value) == digest(value) != digest([value, value])
