"""DICOM series as volumes: slices in the order in which they lie, or one clear line."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sample_dicom import item, write_dicom

from covdp.datasets import ImageSource, collect_faults, find_card, open_dataset
from covdp.descriptors import describe, domain
from covdp.errors import DatasetError
from covdp.ledger import init_ledger
from covdp.privacy import GDP
from covdp.publish import load_release, release_once
from covdp.store import check, fill, find_place, listing_faults
from covdp.store import make_plan as planned

CARD = 'kind = "dicom"\nchannels = 1\nclasses = ["well", "ill"]\nvolumes = true\n'
OBLIQUE = (0.8, 0.6, 0.0, 0.0, 0.0, -1.0)
NORMAL = np.cross(OBLIQUE[:3], OBLIQUE[3:])


def voxels(seed: int, depth: int = 5, kind: str = "u1") -> NDArray[Any]:
    """Return a random volume."""
    return np.random.default_rng(seed).integers(0, 200, (depth, 6, 7)).astype(kind)


def place(height: float, aside: float = 0.0) -> list[str]:
    """Return the position of a slice so high along the normal, as a file has it."""
    return [f"{x:.4f}" for x in (10, -20, 30) + height * NORMAL + aside * np.array(OBLIQUE[:3])]


def write_series(
    folder: Path, volume: NDArray[Any], step: float = 2.5, series: str = "1.2.3", **elements: Any
) -> list[Path]:
    """Write a file a slice, in names of an order of their own; return them as slices lie."""
    names = random.Random(str(folder)).sample(range(100), len(volume))
    found = []
    for index, (number, pixels) in enumerate(zip(names, volume, strict=True)):
        own = {key: value(index) if callable(value) else value for key, value in elements.items()}
        known = {"ImagePositionPatient": place(step * index), "PixelSpacing": [0.5, 0.5]}
        known |= {"ImageOrientationPatient": list(OBLIQUE), "SeriesInstanceUID": series} | own
        file = folder / f"IM{series[-1]}{number:03}"
        found.append(write_dicom(file, pixels, **{k: v for k, v in known.items() if v is not None}))
    return found


def ward(root: Path, more: str = "") -> ImageSource:
    """Open the folder `ward`."""
    (root / "ward.toml").write_text(CARD + more)
    return open_dataset(root / "ward.toml", root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a data root with three series of two classes."""
    for number, label in enumerate(("well", "well", "ill")):
        write_series(
            tmp_path / f"ward/{label}/s{number}", voxels(number), PatientID=f"P{number % 2}"
        )
    return tmp_path


def test_slices_lie_along_the_normal(root: Path) -> None:
    """Whatever files are called, a volume is (slices, rows, columns) along an oblique normal."""
    source = ward(root)
    assert (source.shape, source.counts()) == ((5, 6, 7), (2, 1))
    found = np.concatenate(list(ward(root).chunks(size=2)))
    np.testing.assert_array_equal(found, [voxels(0), voxels(1), voxels(2)])
    np.testing.assert_array_equal(next(ward(root).chunks(label=1)), [voxels(2)])


def test_a_person_may_have_several_series(root: Path) -> None:
    """PatientID is the person, also of volumes; a person in two classes is in the first."""
    source = ward(root, 'unit = "person"\n')
    assert (source.counts(), source.units()) == ((2, 0), (2, 0))


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize("window", ["[-10, 90]", '"header"', '"image"'])
def test_each_slice_is_rescaled_and_the_volume_windowed(
    tmp_path: Path, window: str, photometric: str
) -> None:
    """Slopes may differ from slice to slice, as PET has them; percentiles are of the volume."""
    stored = voxels(3, kind="i2")
    for label in ("well", "ill"):
        write_series(
            tmp_path / "ward" / label, stored, PhotometricInterpretation=photometric,
            RescaleSlope=lambda index: str(0.25 * (index + 1)), RescaleIntercept="-20",
            WindowCenter="40.5", WindowWidth="101",
        )  # fmt: skip
    meant = stored * (0.25 * np.arange(1, 6))[:, None, None] - 20
    low, high = np.percentile(meant, (1, 99)) if "image" in window else (-10, 90)
    share = np.clip((meant - low) / (high - low), 0, 1)
    wanted = np.rint(255 - 255 * share if photometric == "MONOCHROME1" else 255 * share)
    (volume,) = next(ward(tmp_path, f"window = {window}\n").chunks(label=1))
    np.testing.assert_array_equal(volume, wanted)


def test_frames_of_one_file_are_a_volume(tmp_path: Path) -> None:
    """Of an Enhanced object frames lie as their groups say; such files may share a folder."""
    order = [3, 0, 4, 1, 2]
    groups = [
        item(PlanePositionSequence=[item(ImagePositionPatient=place(3.0 * height))])
        for height in order
    ]
    shared = [
        item(
            PlaneOrientationSequence=[item(ImageOrientationPatient=list(OBLIQUE))],
            PixelMeasuresSequence=[item(PixelSpacing=[1, 1])],
        )
    ]
    for number, label in enumerate(("well", "well", "ill")):
        write_dicom(
            tmp_path / f"ward/{label}/{number}", voxels(number)[order], NumberOfFrames=5,
            PerFrameFunctionalGroupsSequence=groups, SharedFunctionalGroupsSequence=shared,
        )  # fmt: skip
    found = np.concatenate(list(ward(tmp_path).chunks()))
    np.testing.assert_array_equal(found, [voxels(0), voxels(1), voxels(2)])


def test_two_series_of_one_folder_are_two_volumes(tmp_path: Path) -> None:
    """Exports put all series of a patient into one folder: SeriesInstanceUID tells them apart."""
    for series in "12":
        for label in ("well", "ill"):
            write_series(tmp_path / "ward" / label, voxels(int(series)), series=f"1.2.{series}")
    source = ward(tmp_path)
    assert source.counts() == (2, 2)
    volumes = {volume.tobytes() for volume in np.concatenate(list(source.chunks(label=0)))}
    assert volumes == {voxels(1).tobytes(), voxels(2).tobytes()}


def heights(*found: float) -> Callable[[int], list[str]]:
    """Return what puts slices so high."""
    return lambda index: place(found[index])


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "missing": (
        {"ImagePositionPatient": heights(0, 1, 2, 4, 5)},
        r"ImagePositionPatient \(0020,0032\), must be at equal steps, found 1 to 2 mm; bring",
    ),
    "uneven": ({"ImagePositionPatient": heights(0, 1, 2, 3.05, 4)}, "found 0.95 to 1.05 mm"),
    "twice": ({"ImagePositionPatient": heights(0, 1, 1, 2, 3)}, "different places, found two in"),
    "all in one": ({"ImagePositionPatient": heights(*[0] * 5)}, "different places, found two in"),
    "tilt": ({"ImagePositionPatient": lambda i: place(i, 0.3 * i)}, "found 0.3 mm aside"),
    "nowhere": ({"ImagePositionPatient": None}, r"\(0020,0032\) must be there for volumes"),
    "words": ({"ImagePositionPatient": ["0", "1"]}, r"\(0020,0032\) must be 3 numbers, found 2"),
    "no direction": ({"ImageOrientationPatient": None}, r"\(0020,0037\) must be there"),
    "no angle": (
        {"ImageOrientationPatient": [1, 0, 0, 1, 0, 0]}, r"\(0020,0037\) must be two directions"
    ),
    "turned": (
        {"ImageOrientationPatient": lambda i: [1, 0, 0, 0, 1, 0] if i == 2 else list(OBLIQUE)},
        r"\(0020,0037\) must be one in a series, found several",
    ),
    "spacing": (
        {"PixelSpacing": lambda i: [0.5, 0.5 + 0.1 * (i == 4)]}, r"\(0028,0030\) must be one in"
    ),
    "persons": ({"PatientID": lambda i: f"P{i == 1}"}, "must have one person, found several"),
    "inverted": (
        {"PhotometricInterpretation": lambda i: f"MONOCHROME{1 + (i > 1)}"},
        r"one PhotometricInterpretation \(0028,0004\), found several",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("elements", "reason"), BAD.values(), ids=BAD)
def test_what_is_no_volume_is_one_line(root: Path, elements: dict[str, Any], reason: str) -> None:
    """It is refused when it is its turn; the check names its folder, and left out all is read."""
    write_series(root / "ward/ill/bad", voxels(9), **{"PatientID": "P9", **elements})
    with pytest.raises(DatasetError, match=rf"ward/ill/bad/IM.*{reason}") as caught:
        list(ward(root, 'unit = "person"\n').chunks())
    assert "\n" not in str(caught.value)
    faults = check(ward(root, 'unit = "person"\n'), root / "ward")
    (root / "ward/excluded.txt").write_text("\n".join(fault.file for fault in faults))
    files = sorted(f"ill/bad/{file.name}" for file in (root / "ward/ill/bad").iterdir())
    assert sorted(fault.file for fault in faults) in (["ill/bad"], files)
    assert len(list(ward(root, 'exclude = "excluded.txt"\n').chunks())) == 1


def test_volumes_have_one_size_and_slices_in_number(root: Path) -> None:
    """A series with a slice more, with wider ones, and one slice alone, are refused and listed."""
    write_series(root / "ward/ill/long", voxels(4, depth=6))
    write_series(root / "ward/ill/scout", voxels(4, depth=1))
    write_series(root / "ward/ill/wide", np.zeros((5, 6, 8), np.uint8))
    (file,) = (root / "ward/ill/scout").iterdir()
    found = collect_faults(find_card(root / "ward.toml"), root / "ward") if ward(root) else None
    assert found is not None
    assert found.source is not None
    assert listing_faults(found.faults, root / "ward") == []
    faults = {fault.file: fault.reason for fault in check(found.source, root / "ward")}
    assert list(faults) == ["ill/long", f"ill/scout/{file.name}", "ill/wide"]
    assert "number of slices, found 5 in " in faults["ill/long"]
    assert "2 slices or more, found 1" in faults[f"ill/scout/{file.name}"]
    assert "images must have one size, found (6, 7)" in faults["ill/wide"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("size = 9\n", "'size' is for images"),
        ('frames = "middle"\n', "'frames' is for images"),
        ('mixed = "accept"\n', "'mixed' is for images"),
    ],
)
def test_keys_of_images_are_not_for_volumes(root: Path, more: str, reason: str) -> None:
    """A card of volumes neither resizes nor chooses frames."""
    with pytest.raises(DatasetError, match=reason):
        ward(root, more)


DEPTHS = (5, 3, 3, 8)


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Return a data root with four series of different lengths, the last of another class."""
    for number, depth in enumerate(DEPTHS):
        label = "ill" if depth == max(DEPTHS) else "well"
        write_series(tmp_path / f"ward/{label}/s{number}", voxels(number, depth))
    return tmp_path


def test_volumes_of_several_depths(several: Path, shard_images: Callable[[int], None]) -> None:
    """As many slices as the card allows: each is described as it is alone, by whatever worker."""
    source = ward(several, "slices = [3, 9]\n")
    assert source.shape == (9, 6, 7)
    assert "Volumes have 3 to 9 slices" in " ".join(source.facts)
    chunks = list(source.chunks(size=2))
    assert [chunk.shape[:2] for chunk in chunks] == [(1, 5), (2, 3), (1, 8)]
    volumes = [volume for chunk in chunks for volume in chunk]
    for number, (volume, depth) in enumerate(zip(volumes, DEPTHS, strict=True)):
        np.testing.assert_array_equal(volume, voxels(number, depth))
    alone = np.concatenate([describe(volume[np.newaxis], "vol7") for volume in volumes[:3]])
    made = planned(source, descriptor="vol7")
    stored = fill(made, find_place(several / "one")).stored
    np.testing.assert_array_equal(np.concatenate(list(stored.records(0))), alone)
    shard_images(2)
    there = find_place(several / "two")
    fill(
        planned(source, descriptor="vol7"),
        there,
        lambda work, calls: (work(*call) for call in calls),
    )
    points = np.concatenate(list(fill(planned(source, descriptor="vol7"), there).stored.records(0)))
    np.testing.assert_array_equal(points, alone)


@pytest.mark.parametrize(
    ("slices", "reason"),
    [
        ("[4, 8]", "a volume must have 4 to 8 slices, as the card says, found 3; widen"),
        ("[2, 7]", "a volume must have 2 to 7 slices, as the card says, found 8; widen"),
    ],
)
def test_fewer_or_more_slices_are_one_line(several: Path, slices: str, reason: str) -> None:
    """A series out of the public range is refused at its turn and listed, the others are read."""
    source = ward(several, f"slices = {slices}\n")
    with pytest.raises(DatasetError, match=reason) as caught:
        list(source.chunks())
    assert "\n" not in str(caught.value)
    listed = [fault.file for fault in check(source, several / "ward")]
    assert listed == (["well/s1", "well/s2"] if "4" in slices else ["ill/s3"])


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("slices = [3, 2]", r"slices must be \[fewest, most\], found \(3, 2\)"),
        ("slices = [0, 2]", "greater than or equal to 1"),
        ("slices = [2, 2.5]", "valid integer"),
        ("slices = 3", "slices"),
        ("volumes = false\nslices = [2, 3]", "slices needs volumes = true"),
    ],
)
def test_slices_of_a_card(tmp_path: Path, more: str, reason: str) -> None:
    """What says nothing, or is said of images, is refused."""
    card = CARD.replace("volumes = true\n", "" if "volumes" in more else "volumes = true\n")
    (tmp_path / "ward.toml").write_text(card + more)
    with pytest.raises(DatasetError, match=reason):
        find_card(tmp_path / "ward.toml")


def test_a_release_states_the_public_depth(several: Path) -> None:
    """Not what was found: the document of a release has the largest depth that the card allows."""
    ward(several, "slices = [3, 9]\n")
    (several / "release.toml").write_text(
        f'name = "r"\npopulation = "p"\ndataset = "{several / "ward.toml"}"\nbudget = 1.0\n'
        'labels = "public"\ndescriptor = "vol7"\nmechanism = "ewg"\n'
        "smallest_class = 1\n"
    )
    ledger = init_ledger(several / "ledger.sqlite")
    ledger.set_budget("p", GDP(1.0))
    document = json.loads(release_once(load_release(several / "release.toml"), ledger, several))
    assert document["settings"]["image_depth"] == 9
    widest = domain("vol7", height=6, width=7, depth=9).diameter
    for depth in (3, 8):
        assert domain("vol7", height=6, width=7, depth=depth).diameter == widest
    steps = [step["sensitivity"] for row in document["classes"] for step in row["costs"]]
    assert [step >= widest / n for step, n in zip(steps, (3, 1), strict=True)] == [True, True]


def test_workers_read_volumes_of_their_own(root: Path, shard_images: Callable[[int], None]) -> None:
    """A shard each, sent to others, gives the bits of one pass, and `vol7` of the voxels."""
    shard_images(1)
    here, there = find_place(root / "here"), find_place(root / "there")
    made = planned(ward(root), descriptor="vol7")

    def in_turn(work: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        return (work(*call) for call in reversed(calls))

    stored = fill(made, here).stored
    fill(made, there, in_turn)
    assert sorted(here.names()) == sorted(there.names())
    assert len(here.names()) == 3
    points = np.concatenate(list(stored.records(0)))
    np.testing.assert_array_equal(points, describe(np.stack([voxels(0), voxels(1)]), "vol7"))
