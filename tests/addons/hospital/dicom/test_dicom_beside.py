"""Masks of DICOM beside the images: pictures, and NIfTI that lies where its images do, any way."""

from collections.abc import Callable
from itertools import permutations, product
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.orientations import apply_orientation, inv_ornt_aff
from numpy.typing import NDArray
from PIL import Image
from sample_dicom import item, write_dicom

from covdp.addons.hospital import nifti
from covdp.datasets import ImageSource, collect_faults, find_card, open_dataset
from covdp.descriptors import describe
from covdp.errors import DatasetError
from covdp.store import check, fill, find_place, make_plan
from tests.tools.trace import Watcher

CARD = 'kind = "dicom"\nchannels = 1\nclasses = ["well", "ill"]\n'
PICTURES, NIFTI = 'masks = "masks/{class}/**/*.png"\n', 'masks = "masks/{class}/**.nii.gz"\n'
COUNT, SIDES = 4, (5, 7)
ROW, COLUMN = np.array([0.8, 0.6, 0.0]), np.array([0.0, 0.0, -1.0])
"""Where rows and columns run: to the left and back, and down, as no axis of a patient does."""
DOWN, ACROSS, STEP = 0.7, 0.5, 1.3
"""Sides of a pixel, and from slice to slice, in mm."""
FIRST = np.array([-31.5, 12.25, 40.0])
Volume = NDArray[np.uint8]


def drawn(label: str) -> Volume:
    """Return the regions of the slices of a series, none of them empty."""
    found = np.random.default_rng(len(label)).random((COUNT, *SIDES)) < 0.4
    found[:, 2, 3] = True
    return found.astype(np.uint8)


WHOLE = np.concatenate([drawn("well"), drawn("ill")])


def series(root: Path, label: str, **elements: Any) -> None:
    """Write a series of one folder, its slices not in the order in which they lie."""
    normal = np.cross(ROW, COLUMN)
    for number in range(COUNT):
        pixels = np.random.default_rng([len(label), number]).integers(0, 256, SIDES, dtype=np.uint8)
        position = FIRST + STEP * number * normal
        known = {
            "SOPInstanceUID": f"1.2.{len(label)}.{number}",
            "SeriesInstanceUID": f"1.2.{len(label)}",
            "ImagePositionPatient": [f"{x:.4f}" for x in position], "PatientID": f"P{label}",
            "ImageOrientationPatient": [f"{x:.6f}" for x in (*ROW, *COLUMN)],
            "PixelSpacing": [DOWN, ACROSS],
        }  # fmt: skip
        write_dicom(root / f"ward/{label}/p1/s.1/1.2.{number}", pixels, **known | elements)


def affine() -> NDArray[np.float64]:
    """Return what leads from slice, row and column to mm, to the right, to the front and up."""
    found = np.eye(4)
    steps = [STEP * np.cross(ROW, COLUMN), DOWN * COLUMN, ACROSS * ROW]
    found[:3] = np.column_stack([*steps, FIRST]) * [[-1], [-1], [1]]
    return found


ORIENTATIONS = [
    np.column_stack([order, signs])
    for order in permutations(range(3))
    for signs in product([1, -1], repeat=3)
]
PLAIN = np.array([[2, 1], [1, 1], [0, 1]])
"""As it is usually saved: columns, rows, slices."""


def save_nifti(
    file: Path,
    region: NDArray[Any],
    orientation: NDArray[Any] = PLAIN,
    lies: NDArray[Any] | None = None,
) -> None:
    """Write regions (slices, rows, columns), their axes in another order and direction."""
    file.parent.mkdir(parents=True, exist_ok=True)
    where = affine() if lies is None else lies
    turned = where @ inv_ornt_aff(orientation, region.shape)
    nibabel.save(nibabel.Nifti1Image(apply_orientation(region, orientation), turned), file)


def save_pictures(root: Path, label: str, region: NDArray[Any], end: str = "png") -> None:
    """Write a picture for each slice, 255 inside."""
    for number, plane in enumerate(region):
        file = root / f"ward/masks/{label}/p1/s.1/1.2.{number}.{end}"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(plane, np.uint8) * 255).save(file)


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data root with a series a class, each with its masks in both ways."""
    root = tmp_path_factory.mktemp("scans")
    for label in ("well", "ill"):
        series(root, label)
        save_pictures(root, label, drawn(label))
        save_nifti(root / f"ward/masks/{label}/p1/s.1.nii.gz", drawn(label))
    return root


@pytest.fixture
def root(scans: Path, tmp_path: Path) -> Path:
    """Return a copy of it, to spoil."""
    for file in scans.rglob("*"):
        if file.is_file():
            copy = tmp_path / file.relative_to(scans)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.hardlink_to(file)
    return tmp_path


def replaced(file: Path) -> Path:
    """Return a file, gone: what is written there is no other's."""
    file.unlink()
    return file


def ward(root: Path, masks: str, more: str = "", card: str = CARD) -> ImageSource:
    """Open the folder `ward`."""
    (root / "ward.toml").write_text(card + masks + more)
    return open_dataset(root / "ward.toml", root)


def regions(source: ImageSource, size: int = 3) -> NDArray[np.uint8]:
    """Return the masks of a source."""
    assert source.masks is not None
    return np.concatenate(list(source.masks(source.select().rows, size)))


@pytest.mark.parametrize("masks", [PICTURES, NIFTI])
def test_masks_beside_images_are_theirs(scans: Path, masks: str) -> None:
    """A mask is that of the image that the card leads from, to the pixel, in any order of rows."""
    source = ward(scans, masks)
    assert (source.shape, source.counts()) == (SIDES, (COUNT, COUNT))
    np.testing.assert_array_equal(regions(source), WHOLE)
    rows = np.array([6, 0, 7, 1])
    assert source.masks is not None
    np.testing.assert_array_equal(np.concatenate([*source.masks(rows, 3)]), WHOLE[rows])
    few = source.masks.only(rows)
    np.testing.assert_array_equal(np.concatenate([*few(np.array([3, 0]), 1)]), WHOLE[rows[[3, 0]]])
    assert check(source, scans / "ward") == []
    fit = regions(ward(scans, masks, "size = 3\n"))[0]
    plain = Image.fromarray(WHOLE[0]).crop((1, 0, 6, 5)).resize((3, 3), Image.Resampling.NEAREST)
    np.testing.assert_array_equal(fit, plain)


def test_nifti_lies_any_way(root: Path) -> None:
    """Whatever the order and the direction of its axes, slices, rows and columns are found."""
    mask = root / "ward/masks/ill/p1/s.1.nii.gz"
    assert len(ORIENTATIONS) == 48
    for orientation in ORIENTATIONS:
        save_nifti(replaced(mask), drawn("ill"), orientation)
        source = ward(root, NIFTI, card=CARD.replace('"well", ', ""))
        np.testing.assert_array_equal(regions(source), drawn("ill"), err_msg=str(orientation))


@pytest.mark.parametrize("masks", [PICTURES, NIFTI])
def test_series_as_volumes(root: Path, masks: str) -> None:
    """Of a volume some slices may be empty; a pass gives the bits of `describe`."""
    region = drawn("ill")
    region[1:] = 0
    save_nifti(replaced(root / "ward/masks/ill/p1/s.1.nii.gz"), region, ORIENTATIONS[29])
    for file in (root / "ward/masks/ill/p1/s.1").iterdir():
        file.unlink()
    save_pictures(root, "ill", region)
    source = ward(root, masks, "volumes = true\n")
    volumes, wanted = np.concatenate([*source.chunks()]), np.stack([drawn("well"), region])
    np.testing.assert_array_equal(regions(source), wanted)
    plan = make_plan(source, descriptor="vol7")
    assert plan.source.card.masked
    stored = fill(
        plan, find_place(root / "s"), lambda work, calls: (work(*call) for call in calls)
    ).stored
    points = np.concatenate([*stored.records(0), *stored.records(1)])
    np.testing.assert_array_equal(points, describe(volumes, "vol7", masks=wanted))
    with pytest.raises(DatasetError, match="a mask must have a pixel inside in every image"):
        regions(ward(root, masks))
    alone = ward(root, masks, 'frames = "masked"\n')
    assert alone.counts() == (COUNT, 1)
    np.testing.assert_array_equal(regions(alone), WHOLE[: COUNT + 1])


def test_frames_of_one_file(tmp_path: Path) -> None:
    """Frames of an Enhanced object are found where they lie; a picture is of one frame alone."""
    pixels = np.random.default_rng(1).integers(0, 256, (COUNT, *SIDES), dtype=np.uint8)
    groups = [
        item(
            PlanePositionSequence=[
                item(ImagePositionPatient=[*map(float, FIRST + STEP * n * np.cross(ROW, COLUMN))])
            ]
        )
        for n in range(COUNT)
    ]
    shared = item(
        PlaneOrientationSequence=[item(ImageOrientationPatient=[*ROW, *COLUMN])],
        PixelMeasuresSequence=[item(PixelSpacing=[DOWN, ACROSS])],
    )
    for label in ("well", "ill"):
        write_dicom(
            *(tmp_path / f"ward/{label}/one", pixels),
            NumberOfFrames=COUNT,
            PerFrameFunctionalGroupsSequence=groups,
            SharedFunctionalGroupsSequence=[shared],
        )
        save_nifti(tmp_path / f"ward/masks/{label}/one.nii", drawn(label), ORIENTATIONS[13])
        Image.fromarray(drawn(label)[2]).save(tmp_path / f"ward/masks/{label}/one.png")
    beside = 'masks = "masks/{class}/*.nii"\n'
    np.testing.assert_array_equal(regions(ward(tmp_path, beside)), WHOLE)
    wanted = WHOLE.reshape(2, COUNT, *SIDES)
    np.testing.assert_array_equal(regions(ward(tmp_path, beside, "volumes = true\n")), wanted)
    picture = 'masks = "masks/{class}/*.png"\n'
    found = regions(ward(tmp_path, picture, 'frames = "middle"\n'))
    np.testing.assert_array_equal(found, wanted[:, 2])
    with pytest.raises(DatasetError, match="a picture is the mask of one image, found 4 frames"):
        regions(ward(tmp_path, picture))


def test_a_table_names_masks_of_dicom(scans: Path) -> None:
    """A column names the mask of each image, a picture or NIfTI; other files are refused."""
    rows = ["file,label,region"]
    for label, number in product(("well", "ill"), range(COUNT)):
        image = f"ward/{label}/p1/s.1/1.2.{number}"
        mask = ("s.1.nii.gz", f"s.1/1.2.{number}.png")[number % 2]
        rows.append(f"{image},{label},ward/masks/{label}/p1/{mask}")
    (scans / "list.csv").write_text("\n".join(rows))
    card = CARD.replace('"dicom"', '"table"\nformats = ["DICOM"]')
    card += 'path = "list.csv"\ncolumns = { path = "file", class = "label", mask = "region" }\n'
    (scans / "list.toml").write_text(card)
    source = open_dataset(scans / "list.toml", scans)
    assert source.card.masked
    np.testing.assert_array_equal(regions(source), WHOLE)
    (scans / "list.toml").write_text(card + 'frames = "masked"\n')
    np.testing.assert_array_equal(regions(open_dataset(scans / "list.toml", scans)), WHOLE)
    (scans / "list.csv").write_text("\n".join([*rows[:-1], rows[-1].replace("png", "dcm")]))
    with pytest.raises(DatasetError, match=r"1.2.3: a mask must be a picture .* found 1.2.3.dcm"):
        regions(open_dataset(scans / "list.toml", scans))


def test_a_mask_of_a_series_is_read_once(root: Path, watch: Watcher) -> None:
    """To choose slices, to read them one by one, and to check them, it is unpacked once."""
    for number, label in enumerate(("well", "ill")):
        mask = replaced(root / f"ward/masks/{label}/p1/s.1.nii.gz")
        save_nifti(mask, drawn(label), ORIENTATIONS[17 * number])
    unpacked = watch(nifti.each_plane)
    source = ward(root, NIFTI, 'frames = "masked"\n')
    np.testing.assert_array_equal(regions(source, 1), WHOLE)
    assert check(source, root / "ward") == []
    assert len(unpacked) == 2


Spoil = Callable[[Path], object]
"""Spoils the mask of the series ill, in NIfTI."""


def moved(*, across: float = 0.0, down: float = 0.0, along: float = 0.0) -> Spoil:
    """Move a mask, in voxels."""
    shift = np.eye(4)
    shift[:3, 3] = along, down, across
    return lambda file: save_nifti(file, drawn("ill"), lies=affine() @ shift)


def scaled(*factors: float) -> Spoil:
    """Have voxels of other sides, by factors along slices, rows and columns."""
    return lambda file: save_nifti(file, drawn("ill"), lies=affine() @ np.diag([*factors, 1.0]))


def tilted(file: Path) -> None:
    """Turn it about its first slices' first row, by 5 degrees."""
    sine, cosine = np.sin(np.pi / 36), np.cos(np.pi / 36)
    turn = np.array([[cosine, -sine, 0, 0], [sine, cosine, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    save_nifti(file, drawn("ill"), lies=affine() @ turn)


def left_for_right(file: Path) -> None:
    """Write where it lies as DICOM does, with x to the left and y to the back."""
    save_nifti(file, drawn("ill"), lies=np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine())


def nowhere(file: Path) -> None:
    """Say nothing of where it lies."""
    image = nibabel.Nifti1Image(drawn("ill").transpose(2, 1, 0), None)
    nibabel.save(image, file)


def two_places(file: Path) -> None:
    """Say two things of where it lies."""
    save_nifti(file, drawn("ill"))
    image = nibabel.load(file)
    other = image.affine.copy()
    other[0, 3] += 3 * ACROSS
    image.set_qform(other, 1)
    again = nibabel.Nifti1Image(np.asarray(image.dataobj), image.affine, image.header)
    again.header.set_qform(other, 1)
    nibabel.save(again, replaced(file))


def flat(file: Path) -> None:
    """Have an affine without an inverse."""
    image = nibabel.Nifti1Image(drawn("ill").transpose(2, 1, 0), None)
    image.header.set_sform(np.diag([1.0, 0.0, 1.0, 1.0]), 2)
    image.header["sform_code"] = 2
    nibabel.save(image, file)


ELSEWHERE = "a mask must be where its image is, found its voxels"
MISFITS: dict[str, tuple[Spoil, str]] = {
    "across": (
        moved(across=1),
        ELSEWHERE + " 1.00 pixels beside and 0.00 slices off in s.1.nii.gz; ",
    ),
    "half a pixel": (moved(down=0.5), ELSEWHERE + " 0.50 pixels"),
    "a tenth": (moved(across=-0.1), ELSEWHERE + " 0.10 pixels"),
    "between slices": (moved(along=0.5), ELSEWHERE),
    "a slice": (
        moved(along=1),
        "must have a slice where its image has one, found s.1.nii.gz with 4",
    ),
    "wider": (scaled(1, 1, 1.1), ELSEWHERE),
    "higher": (scaled(1, 0.5, 1), ELSEWHERE),
    "thicker": (scaled(2, 1, 1), ELSEWHERE),
    "tilted": (tilted, ELSEWHERE),
    "left for right": (left_for_right, "a mask must be where its image is, found"),
    "size": (
        lambda file: save_nifti(file, np.ones((COUNT, 5, 8), np.uint8)),
        r"a mask must have its image's size, \(5, 7\), found \(5, 8\) in s.1.nii.gz; draw it on",
    ),
    "fewer": (lambda file: save_nifti(file, drawn("ill")[:3]), "must have a slice where its image"),
    "nowhere": (nowhere, r"s.1.nii.gz: a mask of DICOM must say where it is \(sform or qform\)"),
    "two places": (two_places, "sform and qform must say the same, found voxels 2.40 apart"),
    "flat": (flat, r"its affine \(sform, qform\) has no inverse"),
    "huge": (
        lambda file: save_nifti(file, drawn("ill"), lies=affine() * 1e30),
        "a mask must be|must have",
    ),
    "no number": (
        lambda file: save_nifti(file, np.where(drawn("ill"), np.nan, 1.0).astype(np.float32)),
        "s.1.nii.gz: a mask must have numbers, found NaN",
    ),
    "no volume": (lambda file: file.write_bytes(b"mask" * 99), "s.1.nii.gz is not a readable"),
    "none": (lambda file: None, "s.1.nii.gz is not a readable NIfTI file .*No such file"),
    "empty": (lambda file: save_nifti(file, 0 * drawn("ill")), "must have a (pixel|voxel) inside"),
}


@pytest.mark.parametrize(("spoil", "reason"), MISFITS.values(), ids=MISFITS)
def test_nifti_that_does_not_fit_is_one_line(root: Path, spoil: Spoil, reason: str) -> None:
    """It is refused when it is its image's turn, as slice or volume, and its images are listed."""
    mask = replaced(root / "ward/masks/ill/p1/s.1.nii.gz")
    spoil(mask)
    for more, names in (
        ("", {f"ill/p1/s.1/1.2.{n}" for n in range(COUNT)}),
        ("volumes = true\n", {"ill/p1/s.1"}),
    ):
        source = ward(root, NIFTI, more)
        with pytest.raises(DatasetError, match=reason) as caught:
            regions(source)
        assert "\n" not in str(caught.value)
        found = {fault.file for fault in check(source, root / "ward")}
        assert found <= names
        assert found


def test_more_slices_than_a_series_has(root: Path) -> None:
    """They do not matter for slices; a volume must have the size of its mask."""
    more = np.concatenate([drawn("ill"), drawn("ill")])
    save_nifti(replaced(root / "ward/masks/ill/p1/s.1.nii.gz"), more, ORIENTATIONS[5])
    np.testing.assert_array_equal(regions(ward(root, NIFTI)), WHOLE)
    with pytest.raises(DatasetError, match="must have its series' size, 4 slices, found 8 in s"):
        regions(ward(root, NIFTI, "volumes = true\n"))


def test_images_that_lie_nowhere(tmp_path: Path) -> None:
    """X-rays do not say where they lie: NIfTI could lie any way round, and pictures do not."""
    for label in ("well", "ill"):
        write_dicom(tmp_path / f"ward/{label}/p1/x", np.zeros(SIDES, np.uint8))
        save_nifti(tmp_path / f"ward/masks/{label}/p1.nii.gz", drawn(label))
        Image.fromarray(drawn(label)[0]).save(tmp_path / f"ward/{label}/p1/x_mask.png")
    with pytest.raises(DatasetError, match=r"in NIfTI needs ImagePositionPatient \(0020,0032\)"):
        regions(ward(tmp_path, NIFTI))
    beside = ward(tmp_path, 'masks = "{class}/**/*_mask.png"\n')
    assert beside.counts() == (1, 1)
    np.testing.assert_array_equal(regions(beside), WHOLE[[0, COUNT]])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (Path.unlink, r"1.2.1.png is not a readable image .*No such file"),
        (lambda file: Image.new("L", (8, 5), 1).save(file), r"size, \(5, 7\), found \(5, 8\)"),
        (lambda file: Image.new("L", (7, 5)).save(file), "must have a pixel inside in every image"),
        (lambda file: file.write_bytes(b"x"), "1.2.1.png is not a readable image"),
    ],
)
@pytest.mark.parametrize("more", ["", 'frames = "masked"\n'])
def test_a_picture_that_does_not_fit_is_one_line(
    root: Path, spoil: Spoil, reason: str, more: str
) -> None:
    """Its image is listed, and left out the rest is read; an empty one may be meant so."""
    mask = root / "ward/masks/ill/p1/s.1/1.2.1.png"
    replaced(mask).write_bytes(b"")
    spoil(mask)
    source, kept = ward(root, PICTURES, more), np.delete(np.arange(2 * COUNT), COUNT + 1)
    if more and reason.startswith("must have a pixel"):
        np.testing.assert_array_equal(regions(source), WHOLE[kept])
        return
    with pytest.raises(DatasetError, match=reason):
        regions(source)
    assert [fault.file for fault in check(source, root / "ward")] == ["ill/p1/s.1/1.2.1"]
    (root / "ward/out.txt").write_text("ill/p1/s.1/1.2.1\n")
    np.testing.assert_array_equal(
        regions(ward(root, PICTURES, 'exclude = "out.txt"\n')), WHOLE[kept]
    )


def test_a_link_out_of_the_root_is_no_mask(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What lies elsewhere is not read, as with images."""
    mask = replaced(root / "ward/masks/ill/p1/s.1.nii.gz")
    outside = tmp_path_factory.mktemp("outside") / "mask.nii.gz"
    save_nifti(outside, drawn("ill"))
    mask.symlink_to(outside)
    with pytest.raises(DatasetError, match="is a link that leads out of the data root"):
        ward(root, NIFTI)
    assert len(collect_faults(find_card(root / "ward.toml"), root / "ward").faults) == COUNT


@pytest.mark.parametrize(
    ("masks", "reason"),
    [
        ("../{class}/*.png", "without '..'"),
        ("masks/{class}.png", "with one [*] for the name"),
        ("masks/*/*.nii", "with at most one [*] for the name"),
        ("masks/**/**/*.png", "which needs one in each"),
        ("masks/{person}/*.png", "may name what pattern names, found {person}"),
        ("masks/{class}/*.png", "1.2.1.png is the mask of two images"),
    ],
)
def test_a_card_leads_to_the_masks(root: Path, masks: str, reason: str) -> None:
    """What leads to no mask, or from two images to one picture, is refused."""
    if "two" in reason:
        (root / "ward/ill/p2").mkdir()
        (root / "ward/ill/p2/1.2.1").hardlink_to(root / "ward/ill/p1/s.1/1.2.1")
    with pytest.raises(DatasetError, match=reason):
        ward(root, f'masks = "{masks}"\n')
    with pytest.raises(DatasetError, match="segments needs masks, where segmentations are"):
        ward(root, PICTURES, "segments = [1]\n")
