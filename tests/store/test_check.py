"""What cannot be used is listed to the last file, and what is left out stated if it is public."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sample_dicom import write_dicom

from covdp.cli import main
from covdp.datasets import open_dataset
from covdp.errors import DatasetError, LedgerError
from covdp.ledger import init_ledger
from covdp.privacy import GDP
from covdp.publish import load_release, release_once

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

HEAD = 'channels = 1\nclasses = ["well", "ill"]\n'
FOLDER = 'kind = "folder"\n' + HEAD
TABLE = 'kind = "table"\ncolumns = { path = "f", class = "c", date = "d" }\n' + HEAD


def save(path: Path, side: int = 8, seed: int = 0) -> None:
    """Write a picture, in new folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def checked(
    root: Path, card: str, capsys: pytest.CaptureFixture[str], code: int = 0
) -> dict[str, str]:
    """Check the ward by a card; return the reasons by file, and put the list beside the images."""
    (root / "ward.toml").write_text(card)
    call = ["describe", "--check", "--dataset", str(root / "ward.toml"), "--data-root", str(root)]
    assert main([*call, "--store", str(root / "store"), "--json"]) == code
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == (code != 0)
    faults: list[dict[str, Any]] = json.loads(said.out)["faults"]
    listed = (root / "store/excluded.txt").read_text().splitlines()
    assert listed == sorted(fault["file"] for fault in faults if fault["listed"])
    (root / "ward").mkdir(exist_ok=True)
    for place in (root, root / "ward"):
        (place / "excluded.txt").write_text("\n".join(listed))
    return {fault["file"]: fault["reason"] for fault in faults}


def test_a_folder_is_checked_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that say nobody, other formats, links out and damage are told; left out, all opens."""
    ward = tmp_path / "ward"
    for label in ("well", "ill"):
        for number in range(3):
            save(ward / label / f"P{number}-2024-05-0{number + 1}-1.png", seed=number)
    (ward / "ill" / "nobody.png").write_bytes(b"")
    save(ward / "ill" / "P7-2024-13-01-1.png")
    save(ward / "ill" / "P8-2024-02-30-1.png")
    (ward / "well" / "scan.dcm").write_bytes(b"another format")
    (ward / "well" / "P5-2024-01-01-1.png").symlink_to("/etc/hostname")
    (ward / "ill" / "P0-2024-05-01-0.png").write_bytes(b"damaged, and the first that is read")
    save(ward / "well" / "P9-2024-01-01-1.png", side=9)
    card = FOLDER + 'pattern = "{class}/{person}-{date}-*"\nunit = "person"\n'
    found = checked(tmp_path, card, capsys)
    assert set(found) == {
        "ill/P0-2024-05-01-0.png",
        "ill/P7-2024-13-01-1.png",
        "ill/P8-2024-02-30-1.png",
        "well/P5-2024-01-01-1.png",
        "well/P9-2024-01-01-1.png",
    }
    found = checked(tmp_path, FOLDER + 'pattern = "{class}/*"\n', capsys)
    assert set(found) == {
        "ill/P0-2024-05-01-0.png",
        "ill/nobody.png",
        "well/P5-2024-01-01-1.png",
        "well/P9-2024-01-01-1.png",
        "well/scan.dcm",
    }
    (tmp_path / "ward.toml").write_text(FOLDER + 'exclude = "excluded.txt"\n')
    source = open_dataset(tmp_path / "ward.toml", tmp_path)
    assert source.counts() == (3, 5)
    assert sum(map(len, source.chunks())) == 8


def test_a_list_names_what_a_card_can_leave_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link to no file is named itself; a name of two lines is to be changed, as a row is one."""
    for name in ("well/0", "well/1", "ill/0", "ill/1"):
        save(tmp_path / f"ward/{name}.png")
    (tmp_path / "ward/well/1.png").rename(tmp_path / "1.png")
    (tmp_path / "ward/well/1.png").symlink_to("../../1.png")
    (tmp_path / "1.png").write_bytes(b"damaged")
    (tmp_path / "ward/ill/gone.png").symlink_to("nowhere.png")
    (tmp_path / "ward/ill/absent.png").symlink_to("../../absent.png")
    bad = tmp_path / "ward/ill/a\nb.png"
    bad.write_bytes(b"damaged")
    found = checked(tmp_path, FOLDER, capsys)
    assert set(found) == {"../1.png", "ill/gone.png", "ill/absent.png", "ill/a\nb.png"}
    assert "rename it, as a list has one name a row" in found["ill/a\nb.png"]
    bad.unlink()
    (tmp_path / "ward.toml").write_text(FOLDER + 'exclude = "excluded.txt"\n')
    source = open_dataset(tmp_path / "ward.toml", tmp_path)
    assert sum(map(len, source.chunks())) == 3


@pytest.mark.addons
def test_where_nothing_can_be_used_all_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every file is told with its reason, and one line says why there is nothing to read."""
    for label in ("well", "ill"):
        for number in range(2):
            path = tmp_path / "ward" / label / f"{number}.dcm"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"no picture")
    for kind in ("folder", "dicom", "nifti"):
        card = FOLDER.replace("folder", kind) + ("axis = 0\n" if kind == "nifti" else "")
        assert len(checked(tmp_path, card, capsys, 2)) == 4


@pytest.mark.addons
def test_a_table_is_checked_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that mean nothing are told by image, or by line; left out, the others are read."""
    rows = ["f,c,d"]
    for number in range(6):
        save(tmp_path / f"images/{number}.png", seed=number)
        rows.append(f"images/{number}.png,{('well', 'ill')[number % 2]},2024-05-0{number + 1}")
    good = "\n".join(rows)
    for number in (6, 7, 9):
        save(tmp_path / f"images/{number}.png")
    rows += [
        "images/6.png,sick,2024-05-01",
        "images/7.png,well,yesterday",
        "images/8.png,well,2024-05-01",
        "images/9.png,,2024-05-01",
        "/etc/hostname,well,2024-05-01",
        "images/0.png",
    ]
    (tmp_path / "ward.csv").write_text("\n".join(rows))
    found = checked(tmp_path, TABLE, capsys)
    assert {name: reason.split(";")[0] for name, reason in found.items()} == {
        "images/6.png": f"{tmp_path}/ward.csv, line 8: the class must be one of well, ill, "
        "found 'sick'",
        "images/7.png": f"{tmp_path}/ward.csv, line 9: a date must be YYYY-MM-DD or YYYYMMDD, "
        "found 'yesterday'",
        "images/8.png": "is not a readable image (No such file or directory)",
        "ward.csv, line 11": "column 'c' must have a value on one line, found ''",
        "ward.csv, line 12": "a path must be relative to the folder of the table, with / between "
        "folders, found '/etc/hostname'",
        "ward.csv, line 13": "a row must have 3 values, found 1",
    }
    (tmp_path / "ward.csv").write_text("\n".join([good, *rows[7:10]]))
    (tmp_path / "ward.toml").write_text(TABLE + 'exclude = "excluded.txt"\n')
    source = open_dataset(tmp_path / "ward.toml", tmp_path)
    assert sum(map(len, source.chunks())) == 6
    (tmp_path / "ward.csv").write_text(good)
    (tmp_path / "excluded.txt").write_text("images/66.png\n")
    with pytest.raises(DatasetError, match=r"leaves out 'images/66.png', which is not in"):
        open_dataset(tmp_path / "ward.toml", tmp_path)


@pytest.mark.addons
def test_nobody_hears_what_a_library_says_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Libraries warn of damage in words that may be a header's: none of them are told."""
    for label in ("well", "ill"):
        write_dicom(tmp_path / f"ward/{label}/1", np.zeros((5, 4), np.uint8))
    broken = b"\0" * 128 + b"DICM\x02\0\x10\0" + b"miller 17" * 30
    (tmp_path / "ward/ill/2").write_bytes(broken)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = checked(tmp_path, FOLDER.replace("folder", "dicom"), capsys)
    assert set(found) == {"ill/2"}
    assert ([str(one.message) for one in heard], caplog.text) == ([], "")


RELEASE = """\
name = "nightly"
population = "{population}"
dataset = "{card}"
labels = "public"
budget = 0.5
run_key = "monday"
splits = ["train"]
"""


def released(root: Path, card: str, population: str) -> dict[str, Any]:
    """Release about the ward and return the document."""
    (root / "ward.toml").write_text(card)
    path = root / "release.toml"
    path.write_text(RELEASE.format(population=population, card=root / "ward.toml"))
    book = init_ledger(root / "ledger.sqlite")
    book.set_budget(population, GDP(1.0))
    document: dict[str, Any] = json.loads(release_once(load_release(path), book, root))
    return document


def test_what_is_left_out_is_stated_only_where_that_is_public(tmp_path: Path) -> None:
    """By class, of the splits that are released, in document and statement; else nowhere."""
    for split in ("train", "test"):
        for label in ("well", "ill"):
            for number in range(4):
                save(tmp_path / f"ward/{split}/{label}/{number}.png", seed=number)
    left = ["train/ill/0.png", "train/ill/1.png", "test/well/2.png"]
    (tmp_path / "ward/excluded.txt").write_text("\n".join(left))
    card = FOLDER + 'pattern = "{split}/{class}/*"\nexclude = "excluded.txt"\n'
    silent = released(tmp_path, card, "ward-7")
    assert "left out" not in json.dumps(silent).replace("their other images are left out", "")
    assert "excluded" not in silent
    with pytest.raises(LedgerError, match="ward-7"):
        released(tmp_path, card + "excluded_public = true\n", "ward-8")
    for file in tmp_path.glob("ledger.sqlite*"):
        file.unlink()
    told = released(tmp_path, card + "excluded_public = true\n", "ward-8")
    assert told["excluded"] == [0, 2]
    statement = dict(told["statement"])
    assert statement["Files left out of each class"] == "well: 0, ill: 2"
    assert statement["Assumed to be known, not protected"].endswith("files left out of each class")
    (tmp_path / "ward.toml").write_text(FOLDER + "excluded_public = true\n")
    with pytest.raises(DatasetError, match="excluded_public needs exclude"):
        open_dataset(tmp_path / "ward.toml", tmp_path)


def test_a_damaged_array_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of images in one file that file is told, not the folder that it is in."""
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "ward.npz", train_images=pixels, train_labels=np.arange(40) % 2)
    content = bytearray((tmp_path / "ward.npz").read_bytes())
    content[len(content) // 3] ^= 1
    (tmp_path / "ward.npz").write_bytes(content)
    card = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["well", "ill"]\n'
    found = checked(tmp_path, card, capsys)
    assert list(found) == ["ward.npz"]
    assert "is not a readable .npz (Bad CRC-32" in found["ward.npz"]


@pytest.mark.addons
def test_in_a_series_every_fault_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Headers and pixels of DICOM alike."""
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    for label in ("well", "ill"):
        for number in range(2):
            write_dicom(tmp_path / f"ward/{label}/{number}", pixels)
    write_dicom(tmp_path / "ward/ill/2", pixels, BurnedInAnnotation="YES")
    write_dicom(tmp_path / "ward/ill/3", pixels[:4])
    found = checked(tmp_path, FOLDER.replace("folder", "dicom"), capsys)
    assert set(found) == {"ill/2", "ill/3"}
