"""The draft of a card: it opens as it is where all is plain, and says what is not."""

import itertools
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from PIL import Image
from pydicom import examples
from sample_dicom import write_dicom, write_segmentation

from covdp.cli import main
from covdp.datasets import ImageSource, open_dataset
from covdp.datasets import draft as draft_module
from covdp.datasets.draft import Draft, draft_card, scan
from covdp.datasets.listing import DEEPEST
from covdp.errors import DatasetError, ImageError


def save(path: Path, shape: tuple[int, ...] = (6, 5), kind: type = np.uint8) -> None:
    """Write an image of random values over all of a type, in new folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    top = np.iinfo(kind).max
    values = np.random.default_rng(len(str(path))).integers(0, top, shape, endpoint=True)
    Image.fromarray(values.astype(kind)).save(path)


def drafted(
    folder: Path, more: str = "", out: str = ""
) -> tuple[dict[str, Any], Draft, ImageSource]:
    """Return the keys of the draft, the draft, and the dataset that it opens but for `out`."""
    draft = draft_card(folder)
    if out:
        (folder / "out.txt").write_text(out)
    card = folder.parent / "drafted.toml"
    card.write_text(draft.card + more)
    return tomllib.loads(draft.card), draft, open_dataset(card, folder.parent)


def test_folders_of_classes_are_plain(tmp_path: Path) -> None:
    """One folder a class with images of one size leaves nothing open."""
    for name in ("well [1]", "ill"):
        for number in (1, 2):
            save(tmp_path / f"ward/images/{name}/scan {number}.png")
    (tmp_path / "ward/notes.txt").write_text("no image")
    keys, draft, source = drafted(tmp_path / "ward")
    assert draft.open == ()
    assert keys == {
        "kind": "folder",
        "path": "ward",
        "channels": 1,
        "classes": ["ill", "well [1]"],
        "pattern": "images/{class}/*",
    }
    assert (source.shape, source.counts()) == ((6, 5), (2, 2))
    assert len(next(source.chunks())) == 4


def test_splits_sizes_and_colour(tmp_path: Path) -> None:
    """Splits are seen; images of several sizes get one, and that is told; colour is seen."""
    for split in ("train", "test"):
        for name in ("a", "b"):
            save(tmp_path / f"ward/{split}/{name}/x/1.png", (90, 70, 3))
            save(tmp_path / f"ward/{split}/{name}/2.bmp", (80, 99, 3))
    keys, draft, source = drafted(tmp_path / "ward")
    assert (keys["pattern"], keys["channels"], keys["size"]) == ("{split}/{class}/**/*", 3, 64)
    assert keys["formats"] == ["PNG", "BMP"]
    (doubt,) = draft.open
    assert "images have 2 sizes, heights and widths from 80 x 70 to 90 x 99; size = 64" in doubt
    assert (source.shape, source.counts("test")) == ((64, 64, 3), (2, 2))
    assert len(next(source.chunks())) == 8


@pytest.mark.parametrize("stray", ["a/stray.png", "b/yb/deeper/stray.png"])
def test_an_image_that_hides_all_persons_is_named(tmp_path: Path, stray: str) -> None:
    """One that is in no person's folder, or below one, decides whom the budget protects."""
    for name, person, number in itertools.product("ab", "xyz", range(2)):
        save(tmp_path / f"ward/{name}/{person}{name}/{number}.png")
    keys, draft, _ = drafted(tmp_path / "ward")
    assert (keys["pattern"], keys["unit"]) == ("{class}/{person}/*", "person")
    save(tmp_path / f"ward/{stray}")
    keys, draft, _ = drafted(tmp_path / "ward")
    assert (keys["pattern"], "unit" in keys) == ("{class}/**/*", False)
    assert "1 image(s) are not in a folder of one person" in draft.open[0]


def test_a_draft_asks_for_no_size_that_a_card_refuses(tmp_path: Path) -> None:
    """Images of 2 pixels beside larger ones become as wide as images may be at least."""
    for number, side in enumerate((2, 60)):
        save(tmp_path / f"ward/a/{number}.png", (side, side))
    keys, _, source = drafted(tmp_path / "ward")
    assert (keys["size"], source.shape) == (3, (3, 3))


def test_gray_that_is_stored_in_colour_is_gray(tmp_path: Path) -> None:
    """Three equal channels are one."""
    for name in ("a", "b"):
        save(tmp_path / f"ward/{name}/1.png")
        Image.open(tmp_path / f"ward/{name}/1.png").convert("RGB").save(
            tmp_path / f"ward/{name}/1.png"
        )
    assert drafted(tmp_path / "ward")[0]["channels"] == 1


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (("P1-1", "P1-2", "P2-1", "P2-2"), "{class}/{person}-*"),
        (("P1_1", "P1_2", "P2_1", "P3_1"), "{class}/*"),
        (("P1_1", "P1_2", "P2_1"), "{class}/{person}_*"),
        (("P1/1", "P1/2", "P2/1", "P2/2"), "{class}/{person}/*"),
        (("IM-1", "IM-2", "IM-3"), "{class}/*"),
        (("P1-1-1", "P1-2-1", "P2-1-1"), "{class}/*"),
        (("P1-a", "P1-b", "P2-a"), "{class}/*"),
    ],
)
def test_persons_are_guessed_from_plain_names_alone(
    tmp_path: Path, names: tuple[str, ...], pattern: str
) -> None:
    """Names of two parts, of which the first repeats, may be persons; that is told as a guess."""
    for label in ("a", "b"):
        for name in names:
            save(tmp_path / f"ward/{label}/{label}{name}.png")
    keys, draft, source = drafted(tmp_path / "ward")
    assert keys["pattern"] == pattern
    guessed = "{person}" in pattern
    assert (source.unit, "unit" in keys) == (("person", True) if guessed else ("image", False))
    assert [doubt[:11] for doubt in draft.open] == (["persons are"] if guessed else [])


@pytest.mark.parametrize(
    ("folders", "images", "doubted"), [(6, 2, True), (5, 2, False), (6, 10, False)]
)
def test_many_folders_of_few_images_may_be_persons(
    tmp_path: Path, folders: int, images: int, doubted: bool
) -> None:
    """They are classes, and that is told as a guess, as a release publishes their names."""
    for folder, image in itertools.product(range(folders), range(images)):
        save(tmp_path / f"ward/p{folder}/{image}.png")
    keys, draft, _ = drafted(tmp_path / "ward")
    assert len(keys["classes"]) == folders
    doubts = [doubt for doubt in draft.open if "a release publishes the names" in doubt]
    assert [doubt[:28] for doubt in doubts] == ["6 classes of few images each"] * doubted


def test_real_scans_in_one_folder(samples: Path) -> None:
    """83 real scans in one folder are sorted by the beginnings of their names, as a guess."""
    draft = draft_card(samples / "oct2017_jpeg")
    keys = tomllib.loads(draft.card)
    assert keys["classes"] == ["CNV", "DME", "DRUSEN", "NORMAL"]
    assert (keys["pattern"], keys["channels"], keys["size"]) == ("{class}-*", 1, 224)
    assert "beginnings of file names" in draft.open[0]


def test_one_folder_of_images_is_one_class(tmp_path: Path) -> None:
    """Where nothing tells classes apart, the folder is the class."""
    for number in range(3):
        save(tmp_path / f"ward/{number}.png")
    keys, draft, source = drafted(tmp_path / "ward")
    assert (keys["path"], keys["classes"], source.counts()) == (".", ["ward"], (3,))
    assert "all images are one class" in draft.open[0]
    with pytest.raises(DatasetError, match="leads out of the data root"):
        draft_card(tmp_path / "ward", tmp_path / "ward")


def test_deep_values_want_a_window(tmp_path: Path) -> None:
    """A window is left to the user, as a comment; with it the draft is read."""
    for name in ("a", "b"):
        save(tmp_path / f"ward/{name}/1.tif", kind=np.uint16)
    keys, draft, source = drafted(tmp_path / "ward")
    assert (keys["formats"], "window" in keys) == (["TIFF"], False)
    assert "\n# window = " in draft.card
    assert "more than 8 bits" in draft.open[0]
    with pytest.raises(DatasetError, match="need a window"):
        list(source.chunks())
    assert len(list(drafted(tmp_path / "ward", 'window = "image"\n')[2].chunks())) == 1


def volumes(folder: Path) -> None:
    """Write a NIfTI file a class."""
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        voxels = np.random.default_rng(0).integers(0, 256, (6, 5, 4)).astype(np.uint8)
        nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), folder / name / "1.nii.gz")


def scans(folder: Path) -> None:
    """Write a DICOM file a class, without a suffix."""
    for name in ("a", "b"):
        (folder / name / "series").mkdir(parents=True)
        examples.ct.save_as(folder / name / "series/IM1")
        (folder / name / "DICOMDIR").write_bytes(b"a list")


def listed(folder: Path) -> None:
    """Write images and a table of them."""
    rows = ["File,Label,Patient ID,note,Set"]
    for number in range(6):
        save(folder / f"images/{number}.png")
        label = "ab"[number % 2]
        rows.append(f"images/{number}.png,{label},{label}{number // 2 % 2},,train")
    (folder / "list.csv").write_text("\n".join(rows))


@pytest.mark.addons
@pytest.mark.parametrize(
    ("make", "kind", "more", "shape", "units"),
    [
        (volumes, "nifti", "", (6, 5), (1, 1)),
        (scans, "dicom", "window = [-160, 240]\n", (128, 128), (1, 0)),
        (listed, "table", "", (6, 5), (2, 2)),
    ],
)
def test_other_kinds(
    tmp_path: Path,
    make: Callable[[Path], None],
    kind: str,
    more: str,
    shape: tuple[int, ...],
    units: tuple[int, ...],
) -> None:
    """NIfTI, DICOM and tables are known by what lies there; persons are the files' own."""
    make(tmp_path / "ward")
    keys, draft, source = drafted(tmp_path / "ward", more)
    assert (keys["kind"], source.shape, source.units()) == (kind, shape, units)
    assert len(np.concatenate(list(source.chunks(label=0)))) >= 1
    assert bool(draft.open) == (kind != "table")


@pytest.mark.addons
def test_dicom_files_say_whose_they_are(tmp_path: Path) -> None:
    """Folders of series are not taken for persons: a patient may have two, in the same words."""
    scan = examples.ct
    for label, series, number in itertools.product("ab", "12", "34"):
        scan.PatientID = f"patient {label}"
        path = tmp_path / "ward" / label / f"series {series}" / number
        path.parent.mkdir(parents=True, exist_ok=True)
        scan.save_as(path)
    keys, _, source = drafted(tmp_path / "ward", "window = [-160, 240]\n")
    assert (keys["pattern"], keys["unit"]) == ("{class}/**/*", "person")
    assert (source.counts(), source.units()) == ((4, 4), (1, 1))


def test_links_are_followed_as_by_the_reader(tmp_path: Path) -> None:
    """Files that are links, and a class folder that is one, are drafted as they are read.

    A link out of the data root, or to no file, is told.
    """
    (tmp_path / "ward/a").mkdir(parents=True)
    for number in range(3):
        save(tmp_path / f"annex/{number}.png")
        (tmp_path / f"ward/a/{number}.png").symlink_to(f"../../annex/{number}.png")
        save(tmp_path / f"store/deep/{number}.png")
    (tmp_path / "ward/b").symlink_to("../store")
    keys, draft, source = drafted(tmp_path / "ward")
    assert (keys["pattern"], draft.open) == ("{class}/**/*", ())
    assert [count.images for count in draft.counts] == [3, 3] == list(source.counts())
    assert sum(map(len, source.chunks())) == 6
    (tmp_path / "ward/a/gone.png").symlink_to("nowhere.png")
    (tmp_path / "ward/c").symlink_to("/etc")
    assert [doubt.split(";")[0] for doubt in draft_card(tmp_path / "ward").open] == [
        "no image is in c",
        "files that cannot be read: 1",
        "files that ward-excluded.txt leaves out: 1",
    ]


@pytest.mark.addons
def test_links_without_a_suffix_are_known_by_their_files(tmp_path: Path) -> None:
    """DICOM that is stored elsewhere under another name is drafted as DICOM."""
    scans(tmp_path / "store")
    for name in ("a", "b"):
        (tmp_path / "ward" / name).mkdir(parents=True)
        (tmp_path / "ward" / name / "IM1").symlink_to(f"../../store/{name}/series/IM1")
    keys, _, source = drafted(tmp_path / "ward", "window = [-160, 240]\n")
    assert (keys["kind"], source.shape, source.counts()) == ("dicom", (128, 128), (1, 0))


def test_a_person_counts_in_the_first_class(tmp_path: Path) -> None:
    """The draft counts images and persons as the card that it is, and says who is in several."""
    for label, persons in {"a": (1, 2, 3), "b": (2, 3), "c": (3, 4, 5)}.items():
        for person, number in itertools.product(persons, "12"):
            save(tmp_path / f"ward/{label}/p{person}-{number}.png")
    _, draft, source = drafted(tmp_path / "ward")
    assert [count.persons for count in draft.counts] == [3, 0, 2] == list(source.units())
    assert [count.images for count in draft.counts] == [6, 0, 4] == list(source.counts())
    assert "2 person(s) have images in several classes, and count in the first" in draft.open[-1]
    with pytest.raises(DatasetError, match="class 1 'b' has no person of its own; give a larger"):
        source.labels()
    _, _, source = drafted(tmp_path / "ward", "classes_per_person = 2\n")
    assert source.units() == (3, 2, 2)


@pytest.mark.addons
@pytest.mark.parametrize("odd", ["depth", "cut", "nobody"])
def test_a_draft_counts_what_it_leaves_in(tmp_path: Path, odd: str) -> None:
    """Files that its list leaves out are in no count; the card with the list opens as it is."""
    rows = ["file,class,patient"]
    for number in range(60):
        save(tmp_path / f"ward/{number}.png")
        rows.append(f"{number}.png,{'ab'[number % 2]},P{number}")
    if odd == "depth":
        Image.fromarray(np.full((6, 5), 4000, np.uint16)).save(tmp_path / "ward/7.png")
    elif odd == "cut":
        (tmp_path / "ward/7.png").write_bytes((tmp_path / "ward/7.png").read_bytes()[:-30])
    else:
        rows[8] = "7.png,b,NA"
    (tmp_path / "ward/list.csv").write_text("\n".join(rows))
    draft = draft_card(tmp_path / "ward/list.csv")
    assert [(count.images, count.persons) for count in draft.counts] == [(30, 30), (29, 29)]
    assert (draft.exclude, draft.exclusions) == ("list-excluded.txt", b"7.png\n")
    (tmp_path / draft.exclude).write_bytes(draft.exclusions)
    (tmp_path / "card.toml").write_text(draft.card)
    source = open_dataset(tmp_path / "card.toml", tmp_path / "ward")
    assert (source.counts(), source.units()) == ((30, 29), (30, 29))


@pytest.mark.addons
def test_a_table_is_named_itself(tmp_path: Path) -> None:
    """A draft of a table says which columns it takes for what, and which is left to say."""
    listed(tmp_path / "ward")
    keys, draft, _ = drafted(tmp_path / "ward" / "list.csv")
    assert draft.open == ()
    assert keys["columns"] == {
        "path": "File", "class": "Label", "split": "Set", "person": "Patient ID"
    }  # fmt: skip
    text = (tmp_path / "ward/list.csv").read_text()
    (tmp_path / "ward/list.csv").write_text(text.replace("Label", "x").replace("train", "dev"))
    draft = draft_card(tmp_path / "ward/list.csv")
    assert ["which column is the class" in doubt for doubt in draft.open] == [False, True]
    assert "a card knows train, val, test" in draft.open[0]


@pytest.mark.parametrize("mask", ["masks/{c}/{n}.png", "{c}/{n}_mask.bmp", "seg/{c}/{n}-seg.tif"])
def test_masks_beside_images_are_told(tmp_path: Path, mask: str) -> None:
    """Files in the words that masks are usually called by are no images, and no class."""
    for label in ("a [x]", "b"):
        for number in (1, 2):
            save(tmp_path / f"ward/{label}/{number}.png")
            save(tmp_path / "ward" / mask.format(c=label, n=number))
    draft = draft_card(tmp_path / "ward")
    keys = tomllib.loads(draft.card)
    assert (keys["classes"], "masks" in keys) == (["a [x]", "b"], False)
    assert "4 file(s) look like masks; say where they are by masks" in draft.open[0]


@pytest.mark.addons
@pytest.mark.parametrize(
    ("make", "files", "more", "formats", "units"),
    [
        (volumes, "{c}/1.nii.gz", "", "NIfTI", (4, 4)),
        (scans, "{c}/series/IM1", "window = [-160, 240]\n", "DICOM", (1, 0)),
    ],
)
def test_tables_of_other_files(
    tmp_path: Path,
    make: Callable[[Path], None],
    files: str,
    more: str,
    formats: str,
    units: tuple[int, ...],
) -> None:
    """A table may list DICOM or NIfTI; persons of DICOM are the files' own."""
    make(tmp_path / "ward")
    rows = [f"{files.format(c=label)},{label}" for label in "ab"]
    (tmp_path / "ward/list.csv").write_text("\n".join(["File,Label", *rows]))
    keys, _, source = drafted(tmp_path / "ward", more)
    assert (keys["kind"], keys["formats"], source.units()) == ("table", [formats], units)
    assert len(next(source.chunks(label=0))) >= 1


FLAT = {"ImageOrientationPatient": [1, 0, 0, 0, 1, 0], "PixelSpacing": [1, 1]}


def ward_of_series(folder: Path, depths: tuple[int, ...] = (3, 4)) -> None:
    """Write DICOM series of some depths in each class, of a person each."""
    for label, depth in itertools.product("ab", depths):
        for number in range(depth):
            write_dicom(
                *(
                    folder / label / f"P{depth}" / f"{number}.dcm",
                    np.full((6, 5), number, np.uint8),
                ),
                SOPInstanceUID=f"1.{'ab'.index(label)}.{depth}.{number}",
                SeriesInstanceUID="1.2",
                PatientID=f"{label}{depth}",
                ImagePositionPatient=[0, 0, number],
                **FLAT,
            )


@pytest.mark.addons
def test_series_are_drafted(tmp_path: Path) -> None:
    """How many slices series have is told, and that each may be a volume."""
    ward_of_series(tmp_path / "ward")
    _, draft, _ = drafted(tmp_path / "ward")
    assert "\n# volumes = true  # whole volumes" in draft.card
    assert "\n# slices = [3, 4]  # with it" in draft.card
    assert "volumes have 3 to 4 slices: with volumes = true" in draft.open[0]
    volumes = drafted(tmp_path / "ward", "volumes = true\nslices = [3, 4]\n")[2]
    assert (volumes.shape, volumes.counts()) == ((4, 6, 5), (2, 2))


@pytest.mark.addons
@pytest.mark.parametrize("own", [{}, {"SeriesInstanceUID": True}])
def test_radiographs_are_no_volumes(
    own: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many files in a folder are not the slices of one volume, if no two are of one series."""
    monkeypatch.setattr(draft_module, "HEADERS", 3)
    for label, number in itertools.product("ab", range(6)):
        uid = f"1.{'ab'.index(label)}.{number}"
        write_dicom(
            tmp_path / "ward" / label / f"{number}.dcm",
            np.full((6, 5), number, np.uint8),
            SOPInstanceUID=uid,
            PatientID=f"{label}{number}",
            **dict.fromkeys(own, uid),
            **FLAT,
        )
    _, draft, _ = drafted(tmp_path / "ward")
    assert "volumes" not in draft.card
    assert not draft.open


@pytest.mark.addons
def test_segmentations_are_drafted(tmp_path: Path) -> None:
    """Where they lie is said, and which keys say what is inside and which images are read."""
    ward_of_series(tmp_path / "ward", (3,))
    for label, beside in itertools.product("ab", ("", "masks/")):
        of = [(f"1.{'ab'.index(label)}.3.{number}", None) for number in range(3)]
        for old in (tmp_path / "ward").rglob(f"{label}/*/seg"):
            old.unlink()
        write_segmentation(tmp_path / f"ward/{beside}{label}/P3/seg", np.ones((3, 6, 5)), of)
    keys, draft, source = drafted(tmp_path / "ward")
    assert (keys["classes"], keys["masks"], "frames" in keys) == (["a", "b"], "masks/**/*", False)
    assert draft.open == ("masks: 2 file(s) are segmentations",)
    assert "# volumes = true" in draft.card
    assert "slices" not in draft.card
    assert source.masks is not None
    assert len(np.concatenate([*source.masks(np.arange(6), 6)])) == 6
    of = [("1.0.3.1", None), ("1.0.3.1", None)]
    file = tmp_path / "ward/masks/a/P3/seg"
    write_segmentation(file, np.ones((2, 6, 5)), of, segments=[1, 4])
    file.rename(tmp_path / "ward/a/P3/seg")
    keys, draft, source = drafted(tmp_path / "ward", 'segments = [1]\nframes = "masked"\n')
    assert keys["masks"] == "**/*"
    assert '\n# frames = "masked"' in draft.card
    assert "\n# segments = [1]" in draft.card
    assert source.counts() == (1, 3)


@pytest.mark.addons
def test_what_beside_dicom_is_no_mask(tmp_path: Path) -> None:
    """Pictures beside DICOM are told."""
    ward_of_series(tmp_path / "ward", (3,))
    save(tmp_path / "ward/a/P3/report.png")
    _, draft, _ = drafted(tmp_path / "ward", 'exclude = "out.txt"\n', out="a/P3/report.png")
    assert "1 picture(s) beside 6 DICOM file(s) are not of this card" in draft.open[0]


@pytest.mark.addons
def test_slices_of_nifti_are_drafted(tmp_path: Path) -> None:
    """Volumes of several depths: how many slices they may have is left to say, as it is public."""
    volumes(tmp_path / "ward")
    voxels = np.zeros((6, 5, 9), np.uint8)
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), tmp_path / "ward/a/2.nii.gz")
    draft = draft_card(tmp_path / "ward")
    assert "\n# volumes = true  # in place of axis, whole volumes" in draft.card
    assert "\n# slices = [4, 9]" in draft.card
    assert "volumes have 4 to 9 slices" in draft.open[-1]
    card = draft.card.replace("# volumes", "volumes").replace("# slices", "slices")
    (tmp_path / "deep.toml").write_text(card.replace("axis = 2\n", ""))
    assert open_dataset(tmp_path / "deep.toml", tmp_path).shape == (6, 5, 9)


@pytest.mark.addons
def test_what_lies_beside_is_told(tmp_path: Path) -> None:
    """Images of another kind and images that cannot be read are told, not passed by."""
    volumes(tmp_path / "ward")
    for number in range(3):
        save(tmp_path / f"ward/a/{number}.png")
        save(tmp_path / f"ward/b/{number}.png")
    (tmp_path / "ward/b/3.png").write_bytes(b"no image")
    (tmp_path / "ward/c").mkdir()
    draft = draft_card(tmp_path / "ward")
    assert "2 NIfTI file(s) beside 7 picture(s) are not of this card" in draft.open[0]
    assert draft.open[1] == "no image is in c; add it to classes if it is one"
    assert "files that cannot be read: 1; the first: " in draft.open[2]
    assert [(count.name, count.images) for count in draft.counts] == [("a", 3), ("b", 3)]


def test_a_hidden_folder_is_left_out_whatever_it_holds(tmp_path: Path) -> None:
    """A snapshot that is too deep changes nothing; of another such folder the draft is refused."""
    save(tmp_path / "well" / "a.png")
    for name in (".snapshot", "deep"):
        tmp_path.joinpath(name, *["d"] * (DEEPEST + 1)).mkdir(parents=True)
        if name == ".snapshot":
            assert scan(tmp_path, tmp_path)["folder"] == ["well/a.png"]
    with pytest.raises(ImageError, match="more than 100 folders"):
        scan(tmp_path, tmp_path)


@pytest.mark.addons
def test_nothing_to_draft_is_one_line(tmp_path: Path) -> None:
    """A folder without images, a file that is none of these, and nothing at all are refused."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "lost.csv").write_text("file,class\nnone/a.PNG,well\n")
    (tmp_path / "long.csv").write_text(f"file,class\n{'x' * 400}.png,well\n")
    (tmp_path / "all.npz").write_bytes(b"")
    for name, reason in (
        ("empty", "holds no image that can be read"),
        ("notes.txt", "is no folder, nor a table"),
        ("other.csv", "no column of paths to images, out of a, b; add one"),
        ("lost.csv", "column file of .*lost.csv names none/a.PNG, which is not in "),
        ("long.csv", "column file of .*long.csv names x+.png, which is not in "),
        ("all.npz", "is an array file: write its card by hand"),
        ("none", "does not exist"),
    ):
        with pytest.raises(DatasetError, match=reason):
            draft_card(tmp_path / name)


def test_the_command_prints_the_card_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output is TOML, doubts go to standard error, and bad input is exit code 2."""
    for number in range(3):
        save(tmp_path / f"ward/{number}.png")
    assert main(["card", str(tmp_path / "ward")]) == 0
    said = capsys.readouterr()
    assert tomllib.loads(said.out)["kind"] == "folder"
    assert said.err.startswith("covdp: no folders or names")
    assert main(["card", str(tmp_path / "none")]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
