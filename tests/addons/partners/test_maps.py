"""A file of maps from anybody maps descriptors to finite ones, or is refused in one line."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covdp.addons.partners.maps import read_maps
from covdp.cli import main
from covdp.descriptors import describe
from covdp.errors import CovdpError

MANIFOLDS = ("spd-log-euclidean", "spd-log-cholesky", "spd-affine-invariant")
POINTS = describe(np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8))
WILD = st.sampled_from(
    [0.0, 1.0, -1.0, 60.0, -60.0, 700.0, -700.0, 1e5, -1e9, 1e150, 1e308, 1e-320, np.nan, np.inf]
)


def maps(manifold: str, d: int = 15) -> dict[str, Any]:
    """Return the values of a file of maps that change nothing."""
    numbers = {"effect": 0.0, "standard_error": 0.0, "apart": 0.0, "left": 0.0, "reason": ""}
    site = {"digest": "0", "shift": [0.0] * d, "matrix": np.eye(d).tolist(), **numbers}
    sizes = {"image_height": 28, "image_width": 28, "image_depth": 0, "masked": False}
    return {
        "descriptor": "oct5", "eta": 1e-6, "manifold": manifold, **sizes, "classes": ["a"],
        "weights": [1.0], "base": [0.0] * d, "common": [0.0] * d,
        "sites": [{"name": "x", **site}, {"name": "y", **site, "matrix": None}],
    }  # fmt: skip


def tried(path: Path, site: str) -> tuple[str | None, Any]:
    """Return what is said of a file of maps, or what it makes of descriptors."""
    try:
        return None, read_maps(path).map_of(site)(POINTS)
    except CovdpError as error:
        return str(error), None


@pytest.mark.parametrize("manifold", MANIFOLDS)
def test_maps_that_change_nothing_keep_descriptors(manifold: str, tmp_path: Path) -> None:
    """What the next tests change is a file that is read."""
    (tmp_path / "maps.json").write_text(json.dumps(maps(manifold)))
    found = read_maps(tmp_path / "maps.json")
    for name in "xy":
        np.testing.assert_allclose(found.map_of(name)(POINTS), POINTS, rtol=1e-6)


@settings(max_examples=300)
@given(
    manifold=st.sampled_from(MANIFOLDS),
    place=st.sampled_from(["base", "common", "shift", "matrix"]),
    value=WILD,
    everywhere=st.booleans(),
    site=st.sampled_from("xy"),
)
def test_wild_numbers_are_refused_or_mapped(
    tmp_path_factory: pytest.TempPathFactory,
    manifold: str,
    place: str,
    value: float,
    everywhere: bool,
    site: str,
) -> None:
    """In every array: one error of covdp's own, or finite descriptors."""
    values = maps(manifold)
    owner = values if place in values else values["sites"][0]
    array = np.array(owner[place])
    array[(...,) if everywhere else (0,) * array.ndim] = value
    owner[place] = array.tolist()
    path = tmp_path_factory.mktemp("maps") / "maps.json"
    path.write_text(json.dumps(values))
    said, mapped = tried(path, site)
    assert (mapped is None) != (said is None)
    assert mapped is None or np.isfinite(mapped).all()
    assert "\n" not in (said or "")


@pytest.mark.parametrize("d", [1, 3, 10, 21, 120])
@pytest.mark.parametrize("manifold", MANIFOLDS)
def test_maps_of_another_size_are_refused(
    d: int, manifold: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All arrays fit together, and none fits the descriptor that the file names: exit code 2."""
    path = tmp_path / "maps.json"
    path.write_text(json.dumps(maps(manifold, d)))
    tokens = ["describe", "--dataset", "tiles", "--store", str(tmp_path / "st"), "--map", str(path)]
    assert main([*tokens, "--site", "x"]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"base has length {d}, which is not that of oct5" in line
    assert not (tmp_path / "st").exists()


@pytest.mark.parametrize(
    ("key", "value"), [("eta", 1e-3), ("image_height", 30), ("image_depth", 4), ("masked", True)]
)
def test_maps_of_other_descriptors_are_refused(
    key: str, value: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Maps of another eta, size or kind of images than is described say both: exit code 2."""
    path, given = tmp_path / "maps.json", maps("spd-log-euclidean")
    path.write_text(json.dumps({**given, key: value}))
    tokens = ["describe", "--dataset", "tiles", "--store", str(tmp_path / "st"), "--map", str(path)]
    assert main([*tokens, "--site", "x"]) == 2
    found = f"was made of releases with {key} = {value!r}, found {given[key]!r} here; take maps"
    assert found in capsys.readouterr().err
    assert not (tmp_path / "st").exists()


@pytest.mark.parametrize(
    "content", [[], 3, None, "maps", {**maps("spd-log-cholesky"), "sites": [3]}]
)
def test_what_is_no_object_is_told_so(content: Any, tmp_path: Path) -> None:
    """Where JSON has a list or a number in place of an object, that is said in words of JSON."""
    (tmp_path / "maps.json").write_text(json.dumps(content))
    said, _ = tried(tmp_path / "maps.json", "x")
    place = "sites.0: " * isinstance(content, dict)
    assert f"is no file of maps ({place}it must be an object, " in str(said)
    assert "; give what `covdp harmonise` wrote, unchanged" in str(said)


@settings(max_examples=200)
@given(st.data())
def test_any_other_value_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Of each key, a value of any kind: one error of covdp's own, or maps that work."""
    values = copy.deepcopy(maps(data.draw(st.sampled_from(MANIFOLDS))))
    owner = data.draw(st.sampled_from([values, values["sites"][0]]))
    owner[data.draw(st.sampled_from(sorted(owner)))] = data.draw(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2)
            ),
            max_leaves=5,
        )
    )
    path = tmp_path_factory.mktemp("maps") / "maps.json"
    path.write_text(json.dumps(values))
    said, mapped = tried(path, "x")
    assert (mapped is None) != (said is None)
    assert mapped is None or np.isfinite(mapped).all()
    assert "\n" not in (said or "")
