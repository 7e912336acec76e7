"""Odd files: those that differ from nearly all others are named, and no key is for their sake."""

import itertools
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sample_dicom import write_dicom

from covdp.cli import main
from covdp.datasets import fetch, find_card
from covdp.datasets.draft import draft_card
from covdp.datasets.summary import FileCount, FileSummary, count_files, in_words, odd_files
from covdp.store import inspect

HEAD = 'path = "ward"\nchannels = 1\nclasses = ["a", "b"]\n'

Write = Callable[[Path, np.ndarray[Any, Any]], None]


def picture(file: Path, pixels: np.ndarray[Any, Any]) -> None:
    """Write a PNG."""
    Image.fromarray(pixels).save(file.with_suffix(".png"))


def scan(file: Path, pixels: np.ndarray[Any, Any]) -> None:
    """Write a DICOM file."""
    write_dicom(file, pixels)


def volume(file: Path, pixels: np.ndarray[Any, Any]) -> None:
    """Write a NIfTI file of two equal slices."""
    nibabel.save(nibabel.Nifti1Image(np.stack([pixels] * 2, axis=-1), np.eye(4)), f"{file}.nii")


KINDS = {"folder": (picture, ""), "dicom": (scan, ""), "nifti": (volume, "axis = 2\n")}


def ward(root: Path, write: Write, *, side: int = 12, depth: type = np.uint8) -> str:
    """Write 30 files of 8 bits and 9 x 9 pixels, and one of another side and depth; return it."""
    rng = np.random.default_rng(0)
    for label, number in itertools.product("ab", range(15)):
        (root / "ward" / label).mkdir(parents=True, exist_ok=True)
        write(root / "ward" / label / f"{number:02}", rng.integers(0, 256, (9, 9), np.uint8))
    pixels = rng.integers(0, np.iinfo(depth).max, (side, side), endpoint=True).astype(depth)
    write(root / "ward/b/90", pixels)
    (odd,) = (root / "ward/b").glob("90*")
    return f"b/{odd.name}"


@pytest.mark.addons
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("side", "depth"), [(12, np.uint8), (9, np.uint16), (12, np.uint16)], ids=str
)
def test_a_draft_has_no_key_for_the_sake_of_one_file(
    tmp_path: Path, kind: str, side: int, depth: type
) -> None:
    """One of another size or depth is named, and neither size nor window is drafted for it."""
    odd = ward(tmp_path, KINDS[kind][0], side=side, depth=depth)
    draft = draft_card(tmp_path / "ward")
    assert not {"size", "window"} & tomllib.loads(draft.card).keys()
    assert "window" not in draft.card
    assert [(x.file, x.curable) for x in draft.odd] == [(odd, False)]
    assert any(line.startswith(f"odd file {odd}: ") for line in draft.open)
    assert {x.files for x in draft.files if x.feature == "depth"} <= {30, 31, 1}


@pytest.mark.addons
@pytest.mark.parametrize("kind", KINDS)
def test_a_window_for_one_file_is_found_out(tmp_path: Path, kind: str) -> None:
    """Under a window made for one file of 12 bits all others are dark, and a check says so."""
    odd = ward(tmp_path, KINDS[kind][0], side=9, depth=np.uint16)
    card = tmp_path / "ward.toml"
    card.write_text(f'kind = "{kind}"\n{HEAD}{KINDS[kind][1]}window = [0, 65535]\n')
    found = inspect(find_card(card), fetch(find_card(card), tmp_path))
    (warning,) = found.warnings
    assert "images span fewer than 32 of 256 gray levels under window = [0, 65535]" in warning
    assert [x.file for x in found.odd] == [odd]
    assert sorted(np.ptp(found.pixels.levels, axis=1))[-1] > 128
    assert found.faults == ()


@pytest.mark.parametrize(("many", "named"), [(0, 0), (3, 3), (4, 0), (12, 0)])
def test_dark_files_are_odd_where_they_are_few(tmp_path: Path, many: int, named: int) -> None:
    """At most a tenth of the images: of a class of masks or of night scans nothing is said.

    Size and range of values are those of the other files: the images are dark as they enter.
    """
    rng = np.random.default_rng(0)
    (tmp_path / "ward/a").mkdir(parents=True)
    for number in range(30 + many):
        pixels = np.kron(rng.integers(0, 256, (9, 9)), np.ones((20, 20))).astype(np.uint8)
        pixels[0, :2] = 0, 255
        if number >= 30:
            pixels[1:] = 0
        picture(tmp_path / f"ward/a/{number}", pixels)
    card = tmp_path / "ward.toml"
    card.write_text(f'kind = "folder"\n{HEAD}size = 9\n'.replace('"a", "b"', '"a"'))
    found = inspect(find_card(card), fetch(find_card(card), tmp_path))
    assert all("its gray levels are 0 to" in x.reason for x in found.odd)
    assert [x.file for x in found.odd] == [f"a/{30 + number}.png" for number in range(named)]


@pytest.mark.addons
@pytest.mark.parametrize("kind", KINDS)
def test_a_cure_is_one_only_where_most_files_need_it(tmp_path: Path, kind: str) -> None:
    """A file that needs a window alone is to be left out; where all need one, none is."""
    odd = ward(tmp_path, KINDS[kind][0], side=9, depth=np.uint16)
    card = tmp_path / "ward.toml"
    card.write_text(f'kind = "{kind}"\n{HEAD}{KINDS[kind][1]}')
    found = inspect(find_card(card), fetch(find_card(card), tmp_path))
    assert [(x.file, x.listed, x.curable) for x in found.faults] == [(odd, True, False)]
    for place in (tmp_path / "ward").glob("*/*"):
        if f"b/{place.name}" != odd:
            place.unlink()
    KINDS[kind][0](tmp_path / "ward/a/91", np.full((9, 9), 999, np.uint16))
    found = inspect(find_card(card), fetch(find_card(card), tmp_path))
    assert [(x.listed, x.curable) for x in found.faults] == [(False, True)] * 2


@pytest.mark.addons
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_file_may_be_the_odd_one(tmp_path: Path, kind: str) -> None:
    """Where the first has another size than most, it is at fault and not they."""
    write, more = KINDS[kind]
    ward(tmp_path, write, side=9)
    write(tmp_path / "ward/a/00", np.zeros((12, 12), np.uint8))
    card = tmp_path / "ward.toml"
    card.write_text(f'kind = "{kind}"\n{HEAD}{more}')
    found = inspect(find_card(card), fetch(find_card(card), tmp_path))
    assert [x.file.partition(".")[0] for x in found.faults] == ["a/00"]
    assert found.faults[0].listed


def test_the_check_prints_what_it_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counts, odd files and warnings are printed, and are in its JSON; the list has no odd file."""
    odd = ward(tmp_path, picture, side=9, depth=np.uint16)
    card = tmp_path / "ward.toml"
    card.write_text(f'kind = "folder"\n{HEAD}window = [0, 65535]\n')
    call = ["describe", "--check", "--dataset", str(card), "--data-root", str(tmp_path)]
    assert main([*call, "--store", str(tmp_path / "store"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [entry["file"] for entry in said["odd"]] == [odd]
    assert {"feature": "depth", "value": "8 bits", "files": 30} in said["counts"]
    assert (len(said["warnings"]), said["faults"]) == (1, [])
    assert (tmp_path / "store/excluded.txt").read_bytes() == b""
    assert main([*call, "--store", str(tmp_path / "store")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "so little is left of them" in text
    assert odd in text
    assert "depth 8 bits 30 depth 16 bits 1" in text


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([(9, 9), (9, 12)]),
            st.sampled_from(["8 bits", "12 bits", "16 bits, signed"]),
            st.sampled_from([None, (0.0, 255.0), (0.0, 1.0), (-1024.0, 3071.0)]),
            st.sampled_from(["", "CT (CT Image Storage)"]),
        ),
        max_size=60,
    )
)
def test_odd_files_are_few(rows: list[Any]) -> None:
    """Of one depth, size and modality at most a tenth is odd each, and counts add up."""
    summaries = {
        f"{number:02}": FileSummary(sides, False, False, depth, values, modality)
        for number, (sides, depth, values, modality) in enumerate(rows)
    }
    odd = {x.file: x for x in odd_files(summaries)}
    assert list(odd) == sorted(odd)
    by_header = [x for x in odd.values() if "where most" not in x.reason]
    assert len(by_header) <= 3 * len(rows) / 10
    counts = count_files(summaries)
    for feature in ("depth", "size", "colour"):
        assert sum(x.files for x in counts if x.feature == feature) == len(rows)
    for name, summary in summaries.items():
        few = sum(x.depth == summary.depth for x in summaries.values()) <= len(rows) / 10
        most = max((x.files for x in counts if x.feature == "depth"), default=0)
        if few and 2 * most > len(rows):
            assert not odd[name].curable


def test_a_feature_that_is_not_known_of_all_files_says_so() -> None:
    """Ranges of values, for which a part of many files is read; a modality, which few may have."""
    counts = [FileCount("depth", "8 bits", 2600), FileCount("values", "up to 255", 1200)]
    counts.append(FileCount("values", "up to 127", 100))
    assert list(in_words(counts)) == [
        ("depth", "8 bits", "2,600"),
        ("values, known of 1,300 files", "up to 255", "1,200"),
        ("values, known of 1,300 files", "up to 127", "100"),
    ]
    assert list(in_words([])) == []
