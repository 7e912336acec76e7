"""Names in two spellings, and names that are none: one class, one file, one person, or nobody."""

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from covdp.cli import main
from covdp.datasets import find_card, open_dataset
from covdp.datasets.listing import as_written, composed
from covdp.datasets.source import NO_PERSON
from covdp.errors import DatasetError
from covdp.store.inspection import layout_faults

FORMS = ("NFC", "NFD")
PIXELS = np.arange(64, dtype=np.uint8).reshape(8, 8)


def save(path: Path) -> None:
    """Write a picture, in new folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(PIXELS).save(path)


def spelled(form: Any, text: str) -> str:
    """Return a text with its accents written in one way."""
    return unicodedata.normalize(form, text)


@pytest.mark.parametrize("disk", FORMS)
@pytest.mark.parametrize("typed", FORMS)
def test_a_folder_is_found_in_either_spelling(disk: str, typed: str, tmp_path: Path) -> None:
    """Its class, the dataset's own folder, masks, persons and the list of exclusions."""
    ward, label = spelled(disk, "stätion"), spelled(disk, "bénin")
    for number, person in enumerate(("Łucja-ó", "Ole-å")):
        for shot in range(2):
            name = spelled(disk, f"{person}_{shot}.png")
            save(tmp_path / ward / label / name)
            save(tmp_path / ward / spelled(disk, "måsks") / label / name)
        save(tmp_path / ward / "b" / f"P{number}_0.png")
        save(tmp_path / ward / spelled(disk, "måsks") / "b" / f"P{number}_0.png")
    left_out = spelled(typed, "bénin/Ole-å_1.png")
    (tmp_path / ward / "out.txt").write_text(left_out + "\n", encoding="utf-8")
    card = (
        'kind = "folder"\nchannels = 1\nunit = "person"\nexclude = "out.txt"\n'
        f'path = "{spelled(typed, "stätion")}"\nclasses = ["{spelled(typed, "bénin")}", "b"]\n'
        f'pattern = "{{class}}/{{person}}_*"\nmasks = "{spelled(typed, "måsks")}/{{class}}/*.png"\n'
    )
    (tmp_path / "ward.toml").write_text(card, encoding="utf-8")
    source = open_dataset(tmp_path / "ward.toml", tmp_path)
    assert (source.counts(), source.units()) == ((3, 2), (2, 2))
    rows = source.select().rows
    assert all(mask is not None for _, mask in source.with_masks(rows, 9))
    assert [*layout_faults(find_card(tmp_path / "ward.toml"), tmp_path / ward, (3, 2))] == []


@pytest.mark.addons
@pytest.mark.parametrize("disk", FORMS)
@pytest.mark.parametrize("typed", FORMS)
def test_a_table_finds_its_files_in_either_spelling(disk: str, typed: str, tmp_path: Path) -> None:
    """Paths, classes and the list of exclusions."""
    rows = ["file,class"]
    for number in range(4):
        save(tmp_path / spelled(disk, f"bildér/ä{number}.png"))
        rows.append(spelled(typed, f"bildér/ä{number}.png,{('bénin', 'b')[number % 2]}"))
    (tmp_path / "ward.csv").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "out.txt").write_text(spelled(disk, "bildér/ä2.png"), encoding="utf-8")
    card = (
        'kind = "table"\nchannels = 1\nexclude = "out.txt"\n'
        f'classes = ["{spelled(disk, "bénin")}", "b"]\n'
        'columns = { path = "file", class = "class" }\n'
    )
    (tmp_path / "ward.toml").write_text(card, encoding="utf-8")
    source = open_dataset(tmp_path / "ward.toml", tmp_path)
    assert source.counts() == (1, 2)
    assert sum(map(len, source.chunks())) == 3


def test_two_classes_of_one_name_are_refused(tmp_path: Path) -> None:
    """A card cannot have a class in two spellings."""
    names = [spelled(form, "bénin") for form in FORMS]
    text = f'kind = "folder"\nchannels = 1\nclasses = ["{names[0]}", "{names[1]}"]\n'
    (tmp_path / "ward.toml").write_text(text, encoding="utf-8")
    with pytest.raises(DatasetError, match="classes must have different, non-empty names"):
        find_card(tmp_path / "ward.toml")


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["é", "å", "x", "ö1", "한"]), min_size=1, max_size=4), st.data())
def test_a_path_is_followed_as_it_is_written(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], data: st.DataObject
) -> None:
    """Each name of a path may be in another spelling; what is not there stays as it is."""
    root = tmp_path_factory.mktemp("names")
    forms = st.sampled_from(FORMS)
    path = root.joinpath(*(spelled(data.draw(forms), name) for name in names))
    path.mkdir(parents=True)
    asked = root.joinpath(*(spelled(data.draw(forms), name) for name in names))
    assert as_written(str(asked)) == str(path)
    assert as_written(f"{asked}/gone-é") == f"{path}/gone-é"
    assert composed(str(asked)) == composed(str(path))


TABLE = (
    'kind = "table"\nchannels = 1\nunit = "person"\nclasses = ["a", "b"]\n'
    'columns = { path = "file", class = "class", person = "patient" }\n'
)


@pytest.mark.addons
@pytest.mark.parametrize("name", [*NO_PERSON.split(), "NA", "NaN", "NULL", "None", " n/a "])
def test_nobody_is_no_person(name: str, tmp_path: Path) -> None:
    """In a table, a column of Parquet, and a path: refused, as an empty value is."""
    for number in range(4):
        save(tmp_path / f"{number}.png")
    people = ["P1", "P1", "P2", name]
    rows = [f"{number}.png,{'ab'[number // 2]},{person}" for number, person in enumerate(people)]
    (tmp_path / "ward.csv").write_text("\n".join(["file,class,patient", *rows]))
    (tmp_path / "ward.toml").write_text(TABLE)
    with pytest.raises(DatasetError, match=r"line 5: column 'patient' .* not known"):
        open_dataset(tmp_path / "ward.toml", tmp_path)
    columns = {"file": [f"{n}.png" for n in range(4)], "class": [*"aabb"], "patient": people}
    pq.write_table(pa.table(columns), tmp_path / "ward.parquet")
    (tmp_path / "ward.toml").write_text(TABLE + 'path = "ward.parquet"\n')
    with pytest.raises(DatasetError, match=r"row 4: column 'patient' .* not known"):
        open_dataset(tmp_path / "ward.toml", tmp_path)
    if {"/", "."} & {*name}:
        return
    save(tmp_path / "ward/a/P1_0.png")
    save(tmp_path / f"ward/b/{name}_0.png")
    (tmp_path / "ward.toml").write_text(
        'kind = "folder"\nchannels = 1\nunit = "person"\nclasses = ["a", "b"]\n'
        'pattern = "{class}/{person}_*"\n'
    )
    with pytest.raises(DatasetError, match="names a person that is not known"):
        open_dataset(tmp_path / "ward.toml", tmp_path)


@pytest.mark.addons
def test_people_with_such_letters_are_people(tmp_path: Path) -> None:
    """Only the whole name counts."""
    for number, name in enumerate(("Nana", "NA-1", "Null, K.", "1.5")):
        save(tmp_path / f"{number}.png")
        with (tmp_path / "ward.csv").open("a") as stream:
            stream.write("file,class,patient\n" * (number == 0))
            stream.write(f'{number}.png,{"ab"[number % 2]},"{name}"\n')
    (tmp_path / "ward.toml").write_text(TABLE)
    assert open_dataset(tmp_path / "ward.toml", tmp_path).units() == (2, 2)


def test_the_check_lists_files_without_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They can be left out by a list, as they are named."""
    for name in ("P1_0", "P2_0", "NA_0"):
        save(tmp_path / f"ward/a/{name}.png")
    card = tmp_path / "ward.toml"
    card.write_text(
        'kind = "folder"\nchannels = 1\nunit = "person"\nclasses = ["a"]\n'
        'pattern = "{class}/{person}_*"\n'
    )
    call = ["describe", "--check", "--dataset", str(card), "--data-root", str(tmp_path)]
    assert main([*call, "--store", str(tmp_path / "store"), "--quiet"]) == 0
    assert (tmp_path / "store/excluded.txt").read_text() == "a/NA_0.png\n"
    capsys.readouterr()
