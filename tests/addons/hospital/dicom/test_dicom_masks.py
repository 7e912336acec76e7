"""Masks of DICOM: segmentations say of which images they are; what does not fit is one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from pydicom.uid import RLELossless
from sample_dicom import item, write_dicom, write_segmentation

from covdp.addons.hospital.dicom import files as image_files
from covdp.addons.hospital.dicom import header as header_file
from covdp.datasets import (
    ImageSource,
    collect_faults,
    find_card,
    open_dataset,
)
from covdp.descriptors import describe
from covdp.errors import DatasetError
from covdp.store import check, fill, find_place, make_plan
from tests.tools.trace import Watcher

CARD = 'kind = "dicom"\nchannels = 1\nclasses = ["well", "ill"]\nmasks = "masks/**/*"\n'
FLAT = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
SIDES = (5, 7)
"""35 pixels: no frame but the first begins with a byte."""


def uid(label: str, number: int) -> str:
    """Return what an image is known by."""
    return f"1.2.{len(label)}.{number}"


def drawn(seed: int, count: int = 1) -> NDArray[np.uint8]:
    """Return random regions, none of them empty."""
    found = np.random.default_rng(seed).random((count, *SIDES)) < 0.4
    found[:, 2, 3] = True
    return found.astype(np.uint8)


def at(height: float) -> list[float]:
    """Return the position of a slice."""
    return [-10.0, 20.0, height]


def scan(root: Path, label: str, number: int, **elements: Any) -> NDArray[np.uint8]:
    """Write an image of the first series of a class; return its pixels."""
    seed = [len(label), number]
    pixels = np.random.default_rng(seed).integers(0, 256, SIDES, dtype=np.uint8)
    known = {
        "SOPInstanceUID": uid(label, number), "SeriesInstanceUID": f"1.2.{len(label)}",
        "ImagePositionPatient": at(2.0 * number), "ImageOrientationPatient": FLAT,
        "PixelSpacing": [0.5, 0.5], "PatientID": f"P{label}",
    }  # fmt: skip
    write_dicom(root / f"ward/{label}/IM{number}", pixels, **known | elements)
    return pixels


def ward(root: Path, more: str = "", card: str = CARD) -> ImageSource:
    """Open the folder `ward`."""
    (root / "ward.toml").write_text(card + more)
    return open_dataset(root / "ward.toml", root)


def regions(source: ImageSource, size: int = 2) -> NDArray[np.uint8]:
    """Return the masks of a source."""
    assert source.masks is not None
    return np.concatenate(list(source.masks(source.select().rows, size)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a data root with three images a class, and a segmentation of each class."""
    for label, order in (("well", (2, 0, 1)), ("ill", (0, 1, 2))):
        for number in range(3):
            scan(tmp_path, label, number)
        write_segmentation(
            tmp_path / f"ward/masks/{label}/seg",
            drawn(len(label), 3)[list(order)],
            [(uid(label, number), None) for number in order],
            planes=[(at(2.0 * number), FLAT) for number in order],
        )
    return tmp_path


WHOLE = np.concatenate([drawn(4, 3), drawn(3, 3)])


def test_regions_are_those_of_their_images(root: Path) -> None:
    """Whatever the order of its frames, a mask is that of the image it names, to the pixel."""
    source = ward(root)
    assert (source.shape, source.counts()) == (SIDES, (3, 3))
    np.testing.assert_array_equal(regions(source), WHOLE)
    rows = np.array([4, 0, 5])
    assert source.masks is not None
    np.testing.assert_array_equal(np.concatenate([*source.masks(rows, 2)]), WHOLE[rows])
    np.testing.assert_array_equal(
        np.concatenate([*source.masks.only(rows)(np.array([2, 0]), 1)]), WHOLE[[5, 4]]
    )


def test_segmentations_may_lie_among_the_images(root: Path) -> None:
    """They are no images then, and images are no segmentations, wherever the card looks."""
    for label in ("well", "ill"):
        (root / f"ward/masks/{label}/seg").rename(root / f"ward/{label}/seg")
    source = ward(root, card=CARD.replace("masks/", ""))
    assert source.counts() == (3, 3)
    np.testing.assert_array_equal(regions(source), WHOLE)
    with pytest.raises(DatasetError, match="well/seg is no image but a segmentation"):
        list(ward(root, card=CARD.partition("masks")[0]).chunks())


def test_masks_are_made_to_fit_as_images_are(root: Path) -> None:
    """Cropped, then each pixel is its nearest."""
    plain = Image.fromarray(WHOLE[0]).crop((1, 0, 6, 5)).resize((3, 3), Image.Resampling.NEAREST)
    np.testing.assert_array_equal(regions(ward(root, "size = 3\n"))[0], plain)


def test_frames_of_one_file(tmp_path: Path) -> None:
    """Of a file with several images each is named by its number; masked ones alone are read."""
    pixels = np.random.default_rng(1).integers(0, 256, (4, *SIDES), dtype=np.uint8)
    for label in ("well", "ill"):
        write_dicom(
            tmp_path / f"ward/{label}/0", pixels, NumberOfFrames=4, SOPInstanceUID=uid(label, 0)
        )
        region = drawn(len(label), 3)
        region[1] = 0
        of = [(uid(label, 0), number) for number in (4, 1, 2)]
        write_segmentation(tmp_path / f"ward/masks/{label}", region, of)
    source = ward(tmp_path, 'frames = "masked"\n')
    assert source.counts() == (2, 2)
    np.testing.assert_array_equal(next(source.chunks(label=1)), pixels[[1, 3]])
    kept = [drawn(4, 3)[2], drawn(4, 3)[0], drawn(3, 3)[2], drawn(3, 3)[0]]
    np.testing.assert_array_equal(regions(source), kept)
    with pytest.raises(DatasetError, match=r"ward/well/0: no segmentation at 'masks"):
        regions(ward(tmp_path, "frames = [2]\n"))


def test_no_image_is_masked(root: Path) -> None:
    """Where a file that cannot be read is all that is left, one line says so."""
    for label in ("well", "ill"):
        (root / f"ward/{label}/IM9").write_bytes(bytes(200))
        write_segmentation(root / f"ward/masks/{label}/seg", drawn(1) * 0, _of(label)[:1])
    with pytest.raises(DatasetError, match="no image that can be read has a pixel inside its mask"):
        ward(root, 'frames = "masked"\n')


def test_segments_are_chosen(root: Path) -> None:
    """Of several segments the card says which are inside; without, it is not guessed."""
    first, second = drawn(8, 3), drawn(9, 3)
    of = [(uid("ill", number), None) for number in range(3)] * 2
    write_segmentation(
        root / "ward/masks/ill/seg", np.concatenate([first, second]), of, segments=[2] * 3 + [5] * 3
    )
    write_segmentation(root / "ward/masks/well/seg", first, [*_of("well")], segments=[5] * 3)
    with pytest.raises(DatasetError, match=r"seg: SegmentSequence \(0062,0002\) has 2 segments"):
        ward(root)
    with pytest.raises(DatasetError, match="has no segment 2, found 5; name others"):
        ward(root, "segments = [2]\n")
    np.testing.assert_array_equal(regions(ward(root, "segments = [5]\n"))[3:], second)
    np.testing.assert_array_equal(regions(ward(root, 'segments = "all"\n'))[3:], first | second)


def _of(label: str) -> list[tuple[str, None]]:
    return [(uid(label, number), None) for number in range(3)]


Spoil = Callable[[Path, Path], object]
"""Spoils the image ill/IM1 or its segmentation."""


def wider(file: Path, image: Path) -> None:
    """Draw regions of another size."""
    write_segmentation(file, np.ones((3, 5, 8)), _of("ill"))


def moved(file: Path, image: Path) -> None:
    """Draw the second region on another place."""
    planes = [(at(2.0 * n + 0.3 * (n == 1)), FLAT) for n in range(3)]
    write_segmentation(file, drawn(3, 3), _of("ill"), planes=planes)


def turned(file: Path, image: Path) -> None:
    """Draw the second region in another direction."""
    planes = [(at(2.0 * n), [0, 1, 0, 1, 0, 0] if n == 1 else FLAT) for n in range(3)]
    write_segmentation(file, drawn(3, 3), _of("ill"), planes=planes)


def scaled(file: Path, image: Path) -> None:
    """Draw regions of the same size on pixels twice as wide."""
    measured = item(PixelMeasuresSequence=[item(PixelSpacing=[1.0, 1.0])])
    planes = [(at(2.0 * n), FLAT) for n in range(3)]
    write_segmentation(
        *(file, drawn(3, 3), _of("ill")),
        planes=planes,
        SharedFunctionalGroupsSequence=[measured],
    )


def empty(file: Path, image: Path) -> None:
    """Draw nothing on the second image."""
    write_segmentation(file, drawn(3, 3) * [[[1]], [[0]], [[1]]], _of("ill"))


def without(file: Path, image: Path) -> None:
    """Leave the second image out."""
    write_segmentation(file, drawn(3, 2), [_of("ill")[0], _of("ill")[2]])


def twice(file: Path, image: Path) -> None:
    """Draw the second image in another segmentation too."""
    write_segmentation(file.parent / "other", drawn(3, 1), _of("ill")[1:2])


WHOLLY = (wider, scaled)
"""What spoils all masks of a class."""
MISFITS: dict[str, tuple[Spoil, str]] = {
    "size": (wider, r"ill/IM0: a mask must have its image's size, \(5, 7\), found \(5, 8\) in seg"),
    "moved": (moved, "ill/IM1: a mask must be where its image is, found another place"),
    "turned": (turned, "ill/IM1: a mask must be where its image is, found another place"),
    "scaled": (
        scaled,
        "ill/IM0: a mask must have its image's PixelSpacing, 0.5 mm, found 1 in seg",
    ),
    "empty": (empty, "a mask must have a pixel inside in every image"),
    "none": (without, r"ill/IM1: no segmentation at 'masks/\*\*/\*' is of it; bring it"),
    "twice": (twice, "ill/IM1 is in several segmentations, other and seg; leave some out"),
}


@pytest.mark.parametrize(("spoil", "reason"), MISFITS.values(), ids=MISFITS)
def test_a_mask_that_does_not_fit_is_one_line(root: Path, spoil: Spoil, reason: str) -> None:
    """It is refused when it is its turn, its image is listed, and left out the rest is read."""
    spoil(root / "ward/masks/ill/seg", root / "ward/ill/IM1")
    source = ward(root)
    with pytest.raises(DatasetError, match=reason) as caught:
        regions(source)
    assert "\n" not in str(caught.value)
    images = [f"ill/IM{number}" for number in ((0, 1, 2) if spoil in WHOLLY else (1,))]
    assert [fault.file for fault in check(source, root / "ward")] == images
    if spoil not in WHOLLY:
        (root / "ward/out.txt").write_text("ill/IM1\n")
        kept = regions(ward(root, 'exclude = "out.txt"\n'))
        np.testing.assert_array_equal(kept[:3], WHOLE[:3])
        assert len(kept) == 5


def test_images_that_are_known_alike(root: Path) -> None:
    """Of two with one SOPInstanceUID none is known to be drawn on: both are refused, and listed."""
    scan(root, "ill", 1, SOPInstanceUID=uid("ill", 2))
    source = ward(root)
    with pytest.raises(DatasetError, match=r"another image has its SOPInstanceUID \(0008,0018\)"):
        regions(source)
    assert [fault.file for fault in check(source, root / "ward")] == ["ill/IM1", "ill/IM2"]
    (root / "ward/out.txt").write_text("ill/IM1\n")
    kept = regions(ward(root, 'exclude = "out.txt"\n'))
    np.testing.assert_array_equal(kept, WHOLE[[0, 1, 2, 3, 5]])


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "fractional": (
        {"SegmentationType": "FRACTIONAL"}, r"\(0062,0001\) must be BINARY, .* found 'FRACTIONAL'"
    ),
    "compressed": ({"syntax": RLELossless, "encoded": [b"12"]}, "must not be compressed"),
    "long": ({"NumberOfFrames": 9}, r"\(0028,0008\) is 9, for which the file is too short"),
    "groups": ({"PerFrameFunctionalGroupsSequence": [item()]}, r"\(5200,9230\) must have 3 item"),
    "nobody": (
        {"PerFrameFunctionalGroupsSequence": [item()] * 3}, r"\(0062,000B\) is missing in frame 0"
    ),
    "of what": (
        {
            "PerFrameFunctionalGroupsSequence": [
                item(SegmentIdentificationSequence=[item(ReferencedSegmentNumber=1)])
            ] * 3
        },
        r"\(0008,9124\) does not say which image frame 0 was drawn on",
    ),
    "of two": (
        {
            "PerFrameFunctionalGroupsSequence": [
                item(
                    SegmentIdentificationSequence=[item(ReferencedSegmentNumber=1)],
                    DerivationImageSequence=[item(SourceImageSequence=[
                        item(ReferencedSOPInstanceUID=uid("ill", number)) for number in range(2)
                    ])],
                )
            ] * 3
        },
        r"\(0008,2112\) names 2 images for frame 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("elements", "reason"), BAD.values(), ids=BAD)
def test_a_bad_segmentation_is_one_line(root: Path, elements: dict[str, Any], reason: str) -> None:
    """It is refused when the dataset is opened, listed, and may be left out."""
    write_segmentation(root / "ward/masks/ill/bad", drawn(3, 3), _of("ill"), **elements)
    with pytest.raises(DatasetError, match=f"masks/ill/bad.*{reason}") as caught:
        ward(root)
    assert "\n" not in str(caught.value)
    faults = collect_faults(find_card(root / "ward.toml"), root / "ward").faults
    assert [fault.file for fault in faults] == [str(root / "ward/masks/ill/bad")]
    (root / "ward/out.txt").write_text("masks/ill/bad\n")
    np.testing.assert_array_equal(regions(ward(root, 'exclude = "out.txt"\n')), WHOLE)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ('masks = "../x"', "masks of DICOM must be relative"),
        ('masks = "masks/{class}/*"', "name no class"),
        ("segments = [1]", "segments needs masks"),
        ('frames = "masked"', '"masked" needs masks'),
        ('masks = "m/*"\nsegments = [0]', "numbers from 1 on"),
        ('masks = "m/*"\nsegments = []', "numbers from 1 on"),
    ],
)
def test_a_card_says_where_segmentations_lie(root: Path, more: str, reason: str) -> None:
    """What says nothing, or names what segmentations say themselves, is refused."""
    with pytest.raises(DatasetError, match=reason):
        ward(root, more, CARD.partition("masks")[0])


def test_no_segmentation_at_all(root: Path) -> None:
    """Where the card looks there is none: one line, and not images without masks."""
    with pytest.raises(DatasetError, match=r"no segmentation \(DICOM SEG\) is at 'well/\*'"):
        ward(root, card=CARD.replace("masks/**/*", "well/*"))


def test_series_with_masks(root: Path, shard_images: Callable[[int], None]) -> None:
    """Of volumes slices that no frame names lie outside; workers give the bits of `describe`."""
    shard_images(1)
    write_segmentation(root / "ward/masks/ill/seg", drawn(5), [(uid("ill", 1), None)])
    source = ward(root, "volumes = true\n")
    volumes = np.concatenate([*source.chunks()])
    wanted = np.stack([WHOLE[:3], np.zeros_like(WHOLE[:3])])
    wanted[1, 1] = drawn(5)[0]
    np.testing.assert_array_equal(regions(source), wanted)
    assert make_plan(source, descriptor="vol7").source.card.masked
    made = make_plan(source, descriptor="vol7")
    stored = fill(
        made, find_place(root / "s"), lambda work, calls: (work(*call) for call in calls)
    ).stored
    points = np.concatenate([*stored.records(0), *stored.records(1)])
    np.testing.assert_array_equal(points, describe(volumes, "vol7", masks=wanted))


def test_series_whose_masks_do_not_fit(root: Path) -> None:
    """A series without any region, or with empty ones, is refused and listed."""
    file = root / "ward/masks/ill/seg"
    write_segmentation(file, drawn(3, 3) * 0, _of("ill"))
    source = ward(root, "volumes = true\n")
    with pytest.raises(DatasetError, match="mask of a series must have a voxel inside"):
        regions(source)
    assert [fault.file for fault in check(source, root / "ward")] == ["ill"]
    file.unlink()
    source = ward(root, "volumes = true\n")
    with pytest.raises(DatasetError, match="ill/IM0: no segmentation at"):
        regions(source)
    assert [fault.file for fault in check(source, root / "ward")] == ["ill"]


def test_a_long_segmentation_is_read_once(tmp_path: Path, watch: Watcher) -> None:
    """What it says is kept while its images are read one by one, and each frame looked at once.

    Where frames are is not read again with each image.
    """
    count = 60
    pixels = np.random.default_rng(2).integers(0, 256, (count, *SIDES), dtype=np.uint8)
    for label in ("well", "ill"):
        known = {"SOPInstanceUID": uid(label, 0), "NumberOfFrames": count}
        write_dicom(tmp_path / f"ward/{label}/0", pixels, **known)
        of = [(uid(label, 0), number + 1) for number in range(count)]
        write_segmentation(tmp_path / f"ward/masks/{label}", drawn(len(label), count), of)
    read, items = watch(header_file.read_header), watch(header_file.items)
    placed = watch(image_files.read_frame_id)
    source = ward(tmp_path)
    images = sum(1 for _ in source.read(source.select().rows, 1))
    masks = tmp_path / "ward/masks"
    looked = [call for call in placed if masks not in call.given["header"].file.parents]
    assert images == len(looked) == 2 * count
    np.testing.assert_array_equal(regions(source, 1), [*drawn(4, count), *drawn(3, count)])
    assert check(source, tmp_path / "ward") == []
    files = [call.given["file"] for call in read]
    assert sorted(file for file in files if masks in file.parents) == [
        masks / "ill",
        masks / "well",
    ]
    groups = [call.given["keyword"] for call in items]
    assert groups.count("PerFrameFunctionalGroupsSequence") < 20  # not one for each frame


def test_what_changes_after_it_was_listed(root: Path) -> None:
    """A segmentation that became another is refused; a pass knows another file by its stamp."""
    source = ward(root)
    assert source.masks is not None
    before = source.masks.stamp(np.array([4]))
    write_segmentation(root / "ward/masks/ill/seg", drawn(3, 1), _of("ill")[:1])
    assert source.masks.stamp(np.array([4])) != before
    with pytest.raises(DatasetError, match="has changed since it was listed"):
        regions(source)
