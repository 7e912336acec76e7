"""A folder of images is hostile ground: nothing in it runs, hangs or leads out."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.EpsImagePlugin import EpsImageFile

from covdp.datasets import ImageSource, load_card, open_dataset
from covdp.datasets.cards import FORMATS
from covdp.datasets.listing import Fault, fill, find_files
from covdp.errors import DatasetError
from covdp.files import atomic_path, make_folder, owner_only, private_folder
from covdp.ledger import init_ledger
from covdp.privacy import GDP

CARD = 'kind = "folder"\nchannels = 1\nclasses = ["cat", "dog"]\n'
ALL = f"formats = {list(FORMATS)}\n"
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 5\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a data root with one picture a class; what lies beside it is not for reading."""
    pixels = np.random.default_rng(0).integers(0, 256, (6, 5), dtype=np.uint8)
    for name in ("root/ward/cat", "root/ward/dog", "root/store", "outside"):
        (tmp_path / name).mkdir(parents=True)
        Image.fromarray(pixels).save(tmp_path / name / "0.png")
    return tmp_path / "root"


def ward(root: Path, more: str = "") -> ImageSource:
    """Open the folder `ward` by a card."""
    (root / "ward.toml").write_text(CARD + more)
    return open_dataset(root / "ward.toml", root)


def refused(root: Path, words: str, more: str = "") -> None:
    """Assert that the folder is refused in one line."""
    with pytest.raises(DatasetError, match=words) as caught:
        list(ward(root, more).chunks())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["1.png", "1.jpg", "1.tiff", "1.gif"])
def test_postscript_in_disguise_starts_no_program(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """PostScript under an image's name is refused by every card; its decoder never sees it."""
    asked: list[object] = []

    def look(self: object) -> None:
        asked.append(self)
        raise SyntaxError("not here")

    monkeypatch.setattr(EpsImageFile, "_open", look)
    (root / "ward/cat" / name).write_bytes(EPS)
    with pytest.raises(OSError, match="cannot identify"):
        Image.open(root / "ward/cat" / name)
    assert len(asked) == 1  # the trap is where Pillow goes by itself
    refused(root, "not a readable image", ALL)
    refused(root, "not a readable image|format that the card does not name")
    assert len(asked) == 1


def test_no_format_that_runs_programs_can_be_named(tmp_path: Path) -> None:
    """EPS and whatever else is not on the list is refused by the card."""
    (tmp_path / "ward.toml").write_text(CARD + 'formats = ["PNG", "EPS"]\n')
    with pytest.raises(DatasetError, match=r"formats.*'PNG', 'JPEG'.*EPS"):
        load_card(tmp_path / "ward.toml")


@pytest.mark.parametrize("kind", FORMATS)
def test_named_formats_are_read_and_others_are_not(root: Path, kind: str) -> None:
    """An image of each format is read where the card names it, and refused with a count if not."""
    pixels = np.tile(np.arange(0, 256, 16, dtype=np.uint8), (16, 1))
    for name in ("cat", "dog"):
        (root / "ward" / name / "0.png").unlink()
        for number in range(2):
            file = root / "ward" / name / f"{number}{FORMATS[kind][0].upper()}"  # type: ignore[index]
            Image.fromarray(pixels).save(file, kind)
    source = ward(root, f'formats = ["{kind}"]\n')
    assert source.counts() == (2, 2)
    found = next(source.chunks()).astype(int)
    assert np.abs(found - pixels).max() <= (0 if kind not in ("JPEG", "WEBP") else 12)
    if kind not in ("PNG", "JPEG"):
        refused(
            root, rf"class 'cat' has 2 image\(s\) .* is of a format .*PNG, JPEG.*; add {kind} to"
        )


def test_images_that_no_card_can_name_are_not_passed_by(root: Path) -> None:
    """A DICOM file beside the pictures is counted and refused; a narrower pattern leaves it out."""
    (root / "ward/dog/1.DCM").write_bytes(b"DICM")
    refused(root, r"class 'dog' has 1 image\(s\) .* dog/1.DCM is of a format")
    assert ward(root, 'pattern = "{class}/*.png"\n').counts() == (1, 1)


@pytest.mark.parametrize("name", ["IM0001", "1.2.840.113619.2.5", "README"])
def test_files_without_a_suffix_are_not_passed_by(root: Path, name: str) -> None:
    """DICOM files often have none: refused, unless the pattern leaves them out."""
    (root / "ward/dog" / name).write_bytes(bytes(128) + b"DICM")
    refused(root, rf"class 'dog' has 1 .*dog/{name} has no suffix.*narrow the pattern")
    assert ward(root, 'pattern = "{class}/*.png"\n').counts() == (1, 1)
    (root / "ward/dog" / name).unlink()
    (root / "ward/dog/notes.txt").write_text("told apart by its name")
    assert ward(root).counts() == (1, 1)


def test_folders_in_a_class_are_not_passed_by(root: Path) -> None:
    """A folder among the images may hold others: refused, or read by a pattern that goes down."""
    (root / "ward/dog/patient.a").mkdir()
    os.link(root / "store/0.png", root / "ward/dog/patient.a/1.png")
    refused(root, r"class 'dog' has 1 .*dog/patient.a is a folder, into .*; go down by")
    assert ward(root, 'pattern = "{class}/**/*"\n').counts() == (1, 2)


def test_links_to_folders_end(root: Path) -> None:
    """A pattern of any depth follows no link to a folder, which may be a loop, nor passes it by."""
    (root / "ward/dog/again").symlink_to("../dog")
    refused(
        root, r"class 'dog' has 1 .*dog/again is a link to a folder", 'pattern = "{class}/**/*"\n'
    )


def test_nothing_goes_down_below_a_link(root: Path) -> None:
    """What names a link itself reads the images in it; two links to one folder lead no further."""
    for name in ("again", "more"):
        (root / "ward/dog" / name).symlink_to("../dog")
    pattern, faults = fill("{class}/**/*/*.png", {"class": "dog"}), list[Fault]()
    found = [entry.relative for entry in find_files(root / "ward", pattern, root, faults)]
    assert found == [f"dog/{name}/0.png" for name in ("again", "more")]
    assert not faults


@pytest.mark.parametrize(
    ("pattern", "closed"),
    [
        ("{class}/*.png", "dog"),
        ("{class}/**/*.png", "dog/deeper"),
        ("**/{class}/*.png", "dog"),
        ("{split}/{class}/*", "train/cat"),
    ],
)
def test_a_folder_that_cannot_be_listed_is_not_passed_by(
    root: Path, pattern: str, closed: str
) -> None:
    """Glob says nothing of a folder without permission, so its images would be missing."""
    (root / "ward" / closed).mkdir(parents=True, exist_ok=True)
    scan = os.scandir

    def listed(path: str) -> object:
        if Path(path) == root / "ward" / closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", listed)
        refused(root, r"cannot be listed \(Permission denied\)", f'pattern = "{pattern}"\n')


def test_a_size_that_no_image_has_is_one_line(root: Path) -> None:
    """More pixels than any detector has are refused before memory is asked for."""
    refused(root, "less than or equal to 8192, found 1000000000", "size = 1_000_000_000\n")
    refused(root, "size", "size = true\n")


@pytest.mark.parametrize("name", ["cat\n", "c\u200bat", " cat", "\u202ecat", "c\x1b[2Jat"])
def test_names_of_classes_are_plain(root: Path, name: str) -> None:
    """A class that would break a line, or is not what it looks like, is refused with its escape."""
    text = CARD.replace('"cat"', json.dumps(name))
    (root / "ward.toml").write_text(text)
    with pytest.raises(DatasetError, match=r"class is named on one line|would lead") as caught:
        load_card(root / "ward.toml")
    assert str(caught.value).isprintable()


def test_pages_are_not_dropped(root: Path) -> None:
    """A file of several pages is refused with their number, not read by its first page."""
    pages = [Image.fromarray(np.full((6, 5), value, np.uint8)) for value in (1, 2, 3)]
    pages[0].save(root / "ward/cat/1.tif", save_all=True, append_images=pages[1:])
    refused(root, "one file must be one image, found 3", ALL)


@contextmanager
def bound(path: Path) -> Iterator[None]:
    """Put a socket at `path`, whose name may be longer than the system allows."""
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)
        yield


@pytest.mark.parametrize(
    ("put", "words"),
    [
        (os.mkfifo, "1.png is not a file but a named pipe"),
        (Path.mkdir, "1.png is not a file but a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "1.png is a link that leads out"),
        (lambda path: path.symlink_to("../../../outside/0.png"), "1.png is a link that leads out"),
        (lambda path: path.symlink_to(path), "1.png is not a file but a link to no file"),
        (
            lambda path: path.symlink_to("no.png"),
            "1.png is not a file but a link to no",
        ),
        (lambda path: path.symlink_to("0.png"), "0.png is in two classes .*link repeats"),
    ],
    ids=["pipe", "folder", "device", "out", "loop", "nowhere", "twice"],
)
def test_what_is_no_file_of_the_root_is_one_line(
    root: Path, put: Callable[[Path], object], words: str
) -> None:
    """A pipe, a folder, a device or a link out of the root is refused at once, and never read."""
    put(root / "ward/cat/1.png")
    refused(root, words)


def test_a_socket_is_one_line(root: Path) -> None:
    """A socket under an image's name is refused."""
    with bound(root / "ward/cat/1.png"):
        refused(root, "1.png is not a file but a socket")


def test_an_array_file_that_is_a_pipe_does_not_hang(root: Path) -> None:
    """A named pipe in the place of an array file is refused."""
    os.mkfifo(root / "toy.npz")
    card = root / "toy.toml"
    card.write_text('kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["a"]\n')
    with pytest.raises(DatasetError, match=r"toy.npz is not a file but a named pipe"):
        open_dataset(card, root)


def test_links_inside_the_root_are_followed(root: Path) -> None:
    """A link to an image elsewhere in the data root is that image, as is a link to the root."""
    (root / "ward/cat/1.png").symlink_to("../../store/0.png")
    assert ward(root).counts() == (2, 1)
    (root.parent / "mounted").symlink_to(root)
    assert open_dataset(root / "ward.toml", root.parent / "mounted").counts() == (2, 1)
    flat = CARD + 'path = "."\npattern = "ward/{class}/*"\n'
    (root / "flat.toml").write_text(flat)
    assert open_dataset(root / "flat.toml", root).counts() == (2, 1)


@pytest.mark.parametrize(
    "line",
    [
        'path = "../outside"',
        'path = "ward/../../outside"',
        'path = "/etc"',
        'path = "~/images"',
        "path = '..\\outside'",
        'path = "ward\\u0000"',
        'pattern = "../{class}/*"',
        'pattern = "/{class}/*"',
        'pattern = "{class}/../*"',
        'pattern = "a**/{class}"',
        'classes = ["..", "dog"]',
        'classes = ["a/../..", "dog"]',
    ],
)
def test_a_card_cannot_leave_the_data_root(root: Path, line: str) -> None:
    """A path, pattern or class that leads up or elsewhere is refused when the card is read."""
    card = CARD.replace('classes = ["cat", "dog"]\n', "") if line.startswith("classes") else CARD
    (root / "ward.toml").write_text(f"{card}{line}\n")
    with pytest.raises(DatasetError, match=r"must|would lead out") as caught:
        load_card(root / "ward.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["folder", "npz"])
def test_a_link_in_place_of_the_dataset_cannot_leave_the_root(root: Path, kind: str) -> None:
    """The dataset's own folder or file may be a link inside the root, not out of it."""
    more = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["a"]\n'
    (root / "odd.toml").write_text((CARD if kind == "folder" else more) + 'path = "odd"\n')
    (root / "odd").symlink_to(root.parent / "outside")
    with pytest.raises(DatasetError, match=r"odd leads out of .*--data-root") as caught:
        open_dataset(root / "odd.toml", root)
    assert "outside" not in str(caught.value)
    (root / "odd").unlink()
    (root / "odd").symlink_to(root / "ward")
    if kind == "folder":
        assert open_dataset(root / "odd.toml", root).counts() == (1, 1)


def test_what_root_writes_stays_its_owners(tmp_path: Path) -> None:
    """A service reads its files after root ran a command for it: new ones, and those replaced."""
    service = (12345, 12345) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    place, other = tmp_path / "state", tmp_path / "other"
    place.mkdir()
    other.mkdir()
    (other / "theirs").touch()
    for path in (place, other / "theirs"):
        os.chown(path, *service)
    for path in (place / "new", place / "new", other / "theirs"):
        with atomic_path(path) as temporary:
            temporary.write_text("x")
        assert (path.stat().st_uid, path.stat().st_gid) == service
    with atomic_path(other / "ours") as temporary:
        temporary.write_text("x")
    assert (other / "ours").stat().st_uid == os.geteuid()
    make_folder(place / "deep" / "released")
    private_folder(place / "deep" / "nights")
    init_ledger(place / "lost" / "ledger.sqlite").set_budget("ward", GDP(1.0))
    made = {path: (path.stat().st_uid, path.stat().st_gid) for path in place.rglob("*")}
    assert {path.name for path in made} >= {"released", "nights", "lost", "ledger.sqlite"}
    assert set(made.values()) == {service}, made


@pytest.mark.parametrize(
    ("umask", "folder", "file"),
    [(0o022, 0o755, 0o644), (0o077, 0o700, 0o600), (0o027, 0o750, 0o640), (0o002, 0o775, 0o664)],
)
def test_files_have_the_modes_of_the_umask(
    tmp_path: Path, umask: int, folder: int, file: int
) -> None:
    """Folders and files get what the umask leaves, and a closed file is not opened by a rewrite."""
    before = os.umask(umask)
    try:
        place = make_folder(tmp_path / "a" / "b")
        for _ in range(2):
            with atomic_path(place / "x") as temporary:
                temporary.write_text("x")
        closed = place / "closed"
        closed.touch(0o600)
        with atomic_path(closed) as temporary:
            temporary.write_text("x")
        with owner_only(True), atomic_path(make_folder(place / "own") / "x") as temporary:
            temporary.write_text("x")
        with owner_only(False), atomic_path(place / "y") as temporary:
            temporary.write_text("x")
    finally:
        assert os.umask(before) == umask
    modes = {str(p.relative_to(tmp_path)): p.stat().st_mode & 0o777 for p in tmp_path.rglob("*")}
    assert modes == {
        "a": folder,
        "a/b": folder,
        "a/b/x": file,
        "a/b/y": file,
        "a/b/closed": 0o600,
        "a/b/own": 0o700,
        "a/b/own/x": 0o600,
    }
