"""One refusal over private images, and with secret labels none that depends on a class.

Cards, trees and neighbours are generated. A source of noise stands in for the lattice that gives
the same numbers whatever it is asked to hide. So all that comes out of two folders whose images are
in other classes must be the same: exit code, both streams, names of files and their bytes.
"""

import io
import itertools
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

import nibabel
import numpy as np
import pytest
from PIL import Image
from sample_dicom import write_dicom

from covdp.cli import main
from covdp.ledger import init_ledger
from covdp.privacy import GDP
from tests.publish.fixed import fixed_noise, one_key

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

CLASSES = ("hiv", "well", "rare")
BEGIN = f"channels = 1\nclasses = {list(CLASSES)}\n"
CONFIG = 'name = "ward"\npopulation = "ward"\ndataset = "card.toml"\nbudget = 0.5\n'
STREAM = "[stream]\nhorizon = 9\nopening = 20.0\n"

ABOVE = ("", "{person}/", "{date}/", "*/", "**/", "{split}/", "{split}/{person}/", "{date}/*/")
BELOW = ("{class}/*", "{class}/x/*", "{class}-*")
PATTERNS = [above + below for above, below in itertools.product(ABOVE, BELOW)]

SEATS: Mapping[str, Sequence[int]] = {
    "all classes": (0, 1, 2, 0, 1, 2, 1),
    "one person moved": (0, 1, 1, 0, 1, 2, 1),
    "nobody has it": (1, 1, 2, 1, 1, 2, 1),
    "all in one": (2,) * 7,
}
"""The class of each of seven persons, or images."""


def picture(number: int) -> bytes:
    """Return a PNG of noise."""
    content = io.BytesIO()
    pixels = np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8)
    Image.fromarray(pixels).save(content, "png")
    return content.getvalue()


def place_of(pattern: str, number: int, name: str, end: str) -> str:
    """Return a path that a pattern fits."""
    path = pattern.replace("{class}", name).replace("{person}", f"p{number}")
    path = path.replace("{date}", f"2026-03-0{1 + number % 2}").replace("{split}", "train")
    path = path.removesuffix("*").replace("**/", "deep/er/" * (number % 2))
    return path.replace("*/", f"site{number % 3}/") + f"im{number}{end}"


def put_pictures(pattern: str, seats: Sequence[int], folder: Path) -> str:
    """Write pictures as a pattern names them; return the card."""
    for number, seat in enumerate(seats):
        file = folder / "images" / place_of(pattern, number, CLASSES[seat], ".png")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(number))
    unit = 'unit = "person"\n' if "{person}" in pattern else ""
    return f'kind = "folder"\npath = "images"\npattern = "{pattern}"\n{unit}{BEGIN}'


def put_scans(pattern: str, seats: Sequence[int], folder: Path) -> str:
    """Write DICOM files as a pattern names them; return the card."""
    for number, seat in enumerate(seats):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8)
        file = folder / "images" / place_of(pattern, number, CLASSES[seat], ".dcm")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_dicom(file, pixels, PatientID=f"p{number}", StudyDate="20260301")
    return f'kind = "dicom"\npath = "images"\npattern = "{pattern}"\nunit = "person"\n{BEGIN}'


def put_volumes(pattern: str, seats: Sequence[int], folder: Path) -> str:
    """Write NIfTI files as a pattern names them; return the card."""
    for number, seat in enumerate(seats):
        voxels = np.random.default_rng(number).integers(0, 256, (8, 8, 2)).astype(np.int16)
        file = folder / "images" / place_of(pattern, number, CLASSES[seat], ".nii")
        file.parent.mkdir(parents=True, exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), file)
    card = f'kind = "nifti"\npath = "images"\npattern = "{pattern}"\naxis = 2\n'
    return f"{card}window = [0, 255]\n{BEGIN}"


def put_table(pattern: str, seats: Sequence[int], folder: Path) -> str:
    """Write pictures and their table; return the card."""
    rows = ["file,finding,patient"]
    (folder / "images").mkdir(parents=True)
    for number, seat in enumerate(seats):
        (folder / "images" / f"{number}.png").write_bytes(picture(number))
        rows.append(f"{number}.png,{CLASSES[seat]},p{number}")
    (folder / "images" / "list.csv").write_text("\n".join(rows) + "\n")
    columns = f'columns = {{ path = "file", class = "finding"{pattern} }}\n'
    unit = 'unit = "person"\n' if pattern else ""
    return f'kind = "table"\npath = "images/list.csv"\n{columns}{unit}{BEGIN}'


def put_arrays(pattern: str, seats: Sequence[int], folder: Path) -> str:
    """Write an npz; return the card."""
    images = np.random.default_rng(0).integers(0, 256, (len(seats), 8, 8), np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{pattern}.npz", train_images=images, train_labels=np.array(seats))
    return f'kind = "npz"\nlocal = true\npath = "{pattern}.npz"\n{BEGIN}'


Put = Callable[[str, Sequence[int], Path], str]
SOME = ("{class}/*", "*/{class}/*", "{date}/{class}/*", "**/{class}/*", "{person}/{class}/*")
CARDS: list[tuple[Put, str]] = [
    *((put_pictures, pattern) for pattern in PATTERNS),
    *((put_scans, pattern) for pattern in SOME),
    *((put_volumes, pattern) for pattern in SOME[:4]),
    *((put_table, columns) for columns in ("", ', person = "patient"')),
    (put_arrays, "ward"),
]


def alike(put: Put, pattern: str) -> bool:
    """Tell whether a card of pictures is much like one of `SOME`."""
    return put is put_pictures and pattern not in SOME


def outcome(
    folder: Path,
    put: Put,
    pattern: str,
    seats: Sequence[int],
    stream: str,
    careful: bool = False,
    **spoilt: Any,
) -> tuple[object, ...]:
    """Return all that comes out of a release: exit code, streams, files with their bytes."""
    rmtree(folder, ignore_errors=True)
    card = put(pattern, seats, folder)
    spoil(folder, **spoilt)
    (folder / "card.toml").write_text(card)
    (folder / "ward.toml").write_text(CONFIG + stream)
    with pytest.MonkeyPatch.context() as patch:
        one_key(patch)
        init_ledger(folder / "ledger.sqlite").set_budget("ward", GDP(9.0))
    out = folder / "out"
    tokens = ["release", "--config", "ward.toml", "--ledger", "ledger.sqlite", "--out", str(out)]
    tokens += [] if careful else ["--even-if-useless"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        fixed_noise(patch)
        code = main([*tokens, "--data-root", ".", "--run-key", "2026-03-04"])
    files = {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }
    return code, files


def spoil(folder: Path, file: bytes | None = None, which: int = 0) -> None:
    """Replace one of the images by other bytes."""
    if file is not None:
        paths = sorted((folder / "images").rglob("im*"))
        paths[which].write_bytes(file)


@pytest.mark.addons
@pytest.mark.parametrize(
    ("put", "pattern", "stream"),
    [
        *((*card, "") for card in CARDS),
        *((put, pattern, STREAM) for put, pattern in CARDS if not alike(put, pattern)),
    ],
)
def test_nothing_that_comes_out_depends_on_classes(
    put: Put, pattern: str, stream: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In any kind of card, plain or nightly, whoever has a class, and whoever has none.

    Of patterns that are like another one plain, where all classes are had and one is not.
    """
    found = []
    for seats in [*SEATS.values()][:: 2 if alike(put, pattern) else 1]:
        came = outcome(tmp_path / "ward", put, pattern, seats, stream)
        found.append((*came, *capfd.readouterr()))
    assert found[0][0] == 0, found[0][2:]
    assert all(one == found[0] for one in found)


def large(side: int) -> bytes:
    """Return the begin of a PNG whose header says that it is large."""
    head = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


def flat(side: int) -> bytes:
    """Return a PNG of one gray."""
    content = io.BytesIO()
    Image.new("L", (side, side)).save(content, "png")
    return content.getvalue()


FILES = {"broken": b"no image", "large": large(12_000), "tiny": flat(1), "other size": flat(9)}


@pytest.mark.addons
@pytest.mark.parametrize("stream", ["", 'descriptor = "grid9"\n', STREAM])
@pytest.mark.parametrize("pattern", ["{class}/*", "{person}/{class}/*"])
def test_one_refusal_says_no_more_than_that(
    pattern: str, stream: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever is wrong with whichever image of whatever class, all refusals are one sentence."""
    said, seats = set(), SEATS.values()
    for one, (which, file) in zip(
        itertools.cycle(seats), itertools.product((0, -1), FILES.values()), strict=False
    ):
        code, files = outcome(
            tmp_path / "ward", put_pictures, pattern, one, stream, file=file, which=which
        )
        assert (code, files) == (2, {})
        said.add(tuple(capfd.readouterr()))
    ((out, err),) = said
    assert out == ""
    assert "not all images are as the card says" in err
    assert "\n" not in err.strip()
    assert not re.search(r"\d", err)
    assert not any(name in err for name in CLASSES)


def test_the_statement_names_the_refusal(tmp_path: Path) -> None:
    """What is not covered says that one refusal over images stays."""
    _, files = outcome(tmp_path / "ward", put_pictures, "{class}/*", SEATS["all in one"], "")
    (document,) = [content for name, content in files.items() if name.endswith(".json")]
    assert rb"the refusal \u201cnot all images are as the card says\u201d" in document


@pytest.mark.parametrize("stream", ["", STREAM], ids=["release", "night"])
def test_a_useless_release_is_refused_by_public_numbers_alone(
    stream: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Seven persons are too few, whoever has a class: the same words, and nothing is written."""
    found = []
    for seats in SEATS.values():
        came = outcome(tmp_path / "ward", put_pictures, "*/{class}/*", seats, stream, careful=True)
        found.append((*came, *capfd.readouterr()))
    assert found[0][:2] == (2, {})
    assert all(one == found[0] for one in found)
