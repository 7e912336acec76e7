"""NIfTI: slices and volumes of the values that a file means, or one clear error."""

import gzip
import math
import struct
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from covdp.addons.hospital import nifti as nifti_files
from covdp.datasets import ImageSource, load_card, open_dataset
from covdp.descriptors import describe
from covdp.errors import DatasetError, ImageError
from covdp.experiments import MAIN, Run, load_experiments
from covdp.experiments.images import _samples
from covdp.store import check

CARD = 'kind = "nifti"\nchannels = 1\nclasses = ["cat", "dog"]\n'
TYPES: dict[str, int] = {
    "u1": 2, "i2": 4, "i4": 8, "f4": 16, "f8": 64, "i1": 256, "u2": 512, "u4": 768, "i8": 1024,
}  # fmt: skip


def nifti(values: NDArray[Any], order: str = "<", version: int = 1, **fields: Any) -> bytes:
    """Return a NIfTI file, written by hand, byte by byte.

    `fields` are dim, slope, intercept, shown, datatype, magic, offset.
    """
    kind = values.dtype.newbyteorder("=").str[1:]
    dim = fields.get("dim", (values.ndim, *values.shape, *[1] * (7 - values.ndim)))
    low, high = fields.get("shown", (0.0, 0.0))
    slope, intercept = fields.get("slope", 0.0), fields.get("intercept", 0.0)
    code, bits = fields.get("datatype", TYPES[kind]), 8 * values.itemsize
    body = values.astype(values.dtype.newbyteorder(order)).tobytes(order="F")
    if version == 2:
        offset = fields.get("offset", 544)
        head = bytearray(540)
        struct.pack_into(f"{order}i8shh8q", head, 0, 540, b"n+2\0\r\n\x1a\n", code, bits, *dim)
        struct.pack_into(
            f"{order}8dqdddd", head, 104, *[1.0] * 8, offset, slope, intercept, high, low
        )
        return bytes(head).ljust(offset, b"\0") + body
    offset = fields.get("offset", 352)
    head = bytearray(348)
    struct.pack_into(f"{order}i", head, 0, 348)
    struct.pack_into(f"{order}8h", head, 40, *dim)
    struct.pack_into(f"{order}hh", head, 70, code, bits)
    struct.pack_into(f"{order}8ffffh", head, 76, *[1.0] * 8, offset, slope, intercept, 0)
    struct.pack_into(f"{order}ff", head, 124, high, low)
    head[344:348] = fields.get("magic", b"n+1\0")
    return bytes(head).ljust(int(offset), b"\0") + body


def values(kind: str = "u1", *shape: int) -> NDArray[Any]:
    """Return random values of a type, small ones."""
    found = np.random.default_rng(0).integers(0, 100, shape or (7, 6, 5))
    return found.astype(kind)


def put(root: Path, content: bytes, name: str = "0.nii") -> None:
    """Write the same file for both classes."""
    for label in ("cat", "dog"):
        path = root / "ward" / label / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


def ward(root: Path, more: str) -> ImageSource:
    """Open the folder `ward` by a card."""
    (root / "ward.toml").write_text(CARD + more)
    return open_dataset(root / "ward.toml", root)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("end", [".nii", ".nii.gz"])
def test_slices_are_cut_across_an_axis(tmp_path: Path, axis: int, end: str) -> None:
    """A slice across an axis is (the other two axes); all, the middle one, or those named."""
    found = values()
    put(tmp_path, nifti(found), "0" + end)
    for frames, wanted in (
        ('"all"', list(range(found.shape[axis]))),
        ('"middle"', [found.shape[axis] // 2]),
        ("[3, 1]", [3, 1]),
    ):
        source = ward(tmp_path, f"axis = {axis}\nframes = {frames}\n")
        assert source.counts() == (len(wanted),) * 2
        slices = np.concatenate(list(source.chunks(label=0, size=2)))
        np.testing.assert_array_equal(slices, np.moveaxis(found, axis, 0)[wanted])


@pytest.mark.parametrize("end", [".nii", ".nii.gz"])
def test_whole_volumes(tmp_path: Path, end: str) -> None:
    """A volume is (i, j, k), as the file has its axes; an axis of one more is dropped."""
    found = values()
    put(tmp_path, nifti(found[..., np.newaxis]), "0" + end)
    source = ward(tmp_path, "volumes = true\n")
    assert (source.shape, source.counts()) == ((7, 6, 5), (1, 1))
    np.testing.assert_array_equal(next(source.chunks()), [found, found])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("order", "version"), [("<", 1), (">", 1), ("<", 2), (">", 2)])
def test_values_are_rescaled_then_windowed(
    tmp_path: Path, kind: str, order: str, version: int
) -> None:
    """A value is slope·stored + intercept, then the window, of every type and byte order."""
    found = values(kind)
    put(tmp_path, nifti(found, order, version, slope=0.5, intercept=-10.0, shown=(0.0, 30.0)))
    meant = found.astype(float) * 0.5 - 10
    wanted = np.rint(255 * np.clip(meant / 30, 0, 1))
    for window in ("[0, 30]", '"header"'):
        (volume, _) = next(ward(tmp_path, f"volumes = true\nwindow = {window}\n").chunks())
        np.testing.assert_array_equal(volume, wanted)
    (image,) = ward(tmp_path, 'axis = 2\nframes = [4]\nwindow = "image"\n').chunks(label=0)
    low, high = np.percentile(meant[..., 4], (1, 99))
    shown = np.rint(255 * np.clip((meant[..., 4] - low) / (high - low), 0, 1))
    np.testing.assert_array_equal(image[0], shown)


def test_a_volume_is_of_one_person(tmp_path: Path) -> None:
    """Slices of a file are of one person, the file's, unless the pattern says whose it is."""
    put(tmp_path, nifti(values()), "p1_a.nii")
    put(tmp_path, nifti(values()), "p1_b.nii")
    card = 'axis = 0\nunit = "person"\n'
    source = ward(tmp_path, card)
    assert (source.unit, source.counts(), source.units()) == ("person", (14, 14), (2, 2))
    source = ward(tmp_path, card + 'pattern = "{class}/{person}_*"\n')
    assert (source.counts(), source.units()) == ((14, 0), (1, 0))


def test_slices_are_made_to_fit(tmp_path: Path) -> None:
    """With a size, slices of volumes of different sizes are made square as pictures are."""
    put(tmp_path, nifti(values("u1", 20, 30, 4)))
    put(tmp_path, nifti(values("u1", 10, 10, 2)), "1.nii.gz")
    with pytest.raises(DatasetError, match=r"one size, found \(20, 30\) in 0.nii and \(10, 10\)"):
        list(ward(tmp_path, "axis = 2\n").chunks())
    source = ward(tmp_path, "axis = 2\nsize = 10\n")
    assert source.counts() == (6, 6)
    images = np.concatenate(list(source.chunks(label=0)))
    np.testing.assert_array_equal(images[4:], np.moveaxis(values("u1", 10, 10, 2), 2, 0))
    crop = Image.fromarray(values("u1", 20, 30, 4)[:, 5:25, 0])
    np.testing.assert_array_equal(images[0], crop.resize((10, 10), Image.Resampling.BICUBIC))


def test_the_same_pixels_through_every_door(tmp_path: Path) -> None:
    """Descriptors of an image are the same to the last bit as array, picture, row and slice."""
    pixels = np.random.default_rng(0).integers(0, 256, (2, 9, 8), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", train_images=pixels, train_labels=np.arange(2))
    (tmp_path / "b.csv").write_text("f,c\nc/cat/0.png,cat\nc/dog/0.png,dog\n")
    deep = "window = [0, 65535]\n"
    for label, name in enumerate(("cat", "dog")):
        for kind in "cde":
            (tmp_path / kind / name).mkdir(parents=True)
        Image.fromarray(pixels[label]).save(tmp_path / "c" / name / "0.png")
        sixteen = pixels[label].astype(np.uint16) * 257
        Image.fromarray(sixteen).save(tmp_path / "d" / name / "0.png")
        content = nifti(pixels[label][:, np.newaxis].astype("i2"), slope=257.0)
        (tmp_path / "e" / name / "0.nii.gz").write_bytes(gzip.compress(content))
    cards = {
        "a": 'kind = "npz"\nlocal = true\n',
        "b": 'kind = "table"\ncolumns = { path = "f", class = "c" }\n',
        "c": 'kind = "folder"\n',
        "d": 'kind = "folder"\n' + deep,
        "e": 'kind = "nifti"\naxis = 1\n' + deep,
    }
    wanted = describe(pixels, descriptor="oct5")
    for name, card in cards.items():
        (tmp_path / f"{name}.toml").write_text(f'{card}channels = 1\nclasses = ["cat", "dog"]\n')
        source = open_dataset(tmp_path / f"{name}.toml", tmp_path)
        images = np.concatenate(list(source.chunks()))
        assert describe(images, descriptor="oct5").tobytes() == wanted.tobytes(), name


U1, F4 = values(), values("f4")
NAN = F4.copy()
NAN[0, 0, 0] = np.nan
BAD: dict[str, tuple[bytes, str, str]] = {
    "colour": (
        nifti(values("u1"), datatype=128),
        "",
        r"values \(datatype\) must be whole or float",
    ),
    "complex": (
        nifti(values("f8"), datatype=32),
        "",
        r"values \(datatype\) must be whole or float",
    ),
    "series": (nifti(values("u1", 7, 6, 5, 2)), "", r"three axes \(dim\), found \(7, 6, 5, 2\)"),
    "plane": (nifti(values("u1", 7, 6)), "", r"three axes \(dim\), found \(7, 6\)"),
    "nan": (nifti(NAN), "window = [0, 1]", "values must be finite, found NaN"),
    "window": (nifti(values("i2")), "", r"signed values of 16 bits need a window"),
    "rescaled": (
        nifti(U1, slope=2.0),
        "",
        r"values of 8 bits that the file rescales need a window",
    ),
    "header": (nifti(U1), 'window = "header"', r"has no window \(cal_min, cal_max\)"),
    "bomb": (
        nifti(U1, dim=(3, 30000, 30000, 30000, 1, 1, 1, 1)),
        "",
        r"more than a file of .* can",
    ),
    "negative": (nifti(U1, dim=(3, -7, 6, 5, 1, 1, 1, 1)), "", r"axes of 1 or more"),
    "pair": (nifti(U1, magic=b"ni1\0"), "", "must be NIfTI in one file, found a pair of files"),
    "analyze": (nifti(U1, magic=b"\0\0\0\0"), "", "must be NIfTI in one file, found Analyze"),
    "cut": (nifti(U1)[:-1], "", r"more than a file of .* bytes can hold"),
    "empty": (b"", "", "is not a readable NIfTI file"),
    "text": (b"no volume" * 99, "", "must be NIfTI in one file|is not a readable"),
    "offset": (nifti(U1, offset=-352.0) + nifti(U1), "", "0.nii"),
}


@pytest.mark.parametrize("end", [".nii", ".nii.gz"])
@pytest.mark.parametrize(("content", "more", "reason"), BAD.values(), ids=BAD)
def test_a_bad_file_is_one_line(
    tmp_path: Path, content: bytes, more: str, reason: str, end: str
) -> None:
    """What is no volume of gray numbers is refused, with the field and the way out."""
    if end == ".nii.gz" and "can hold" in reason:
        reason = f"{reason}|is not a readable NIfTI file"
    put(tmp_path, content, "0" + end)
    with pytest.raises(DatasetError, match=reason) as caught:
        list(ward(tmp_path, f"axis = 2\n{more}\n").chunks())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spoil", ["sum", "more", "cut"])
def test_a_damaged_archive_is_found(tmp_path: Path, spoil: str) -> None:
    """A compressed file is read to its end, so that its sum is checked, whatever slice is asked."""
    put(tmp_path, nifti(U1) + bytes(3_000_000 if spoil == "more" else 0), "0.nii.gz")
    path = tmp_path / "ward/cat/0.nii.gz"
    content = bytearray(path.read_bytes())
    if spoil == "sum":
        content[-5] ^= 1
    path.write_bytes(content[:-9] if spoil == "cut" else content)
    with pytest.raises(
        DatasetError, match=r"cat/0.nii.gz is not a readable NIfTI file .*; bring it"
    ):
        list(ward(tmp_path, "axis = 2\nframes = [0]\n").chunks())


def test_each_file_at_fault_is_found(tmp_path: Path) -> None:
    """A file that cannot be used does not hide another; with a size, sizes may differ."""
    put(tmp_path, nifti(U1), "1.nii")
    put(tmp_path, nifti(values("u1", 9, 8, 7)), "2.nii")
    put(tmp_path, nifti(U1)[:-9], "3.nii")
    put(tmp_path, b"no header", "0.nii.gz")
    for more, wrong in (
        ("axis = 2\n", ("0.nii.gz", "2.nii", "3.nii")),
        ("axis = 2\nsize = 4\nframes = [6]\n", ("0.nii.gz", "1.nii", "3.nii")),
    ):
        faults = check(ward(tmp_path, more), tmp_path / "ward")
        assert [fault.file for fault in faults] == [
            f"{label}/{name}" for label in ("cat", "dog") for name in wrong
        ]


@pytest.mark.filterwarnings("error")
def test_what_a_header_is_extended_by_is_not_read(tmp_path: Path) -> None:
    """Extensions hold text of any kind, and damaged ones no pixels: neither is looked at."""
    plain = nifti(U1, offset=384.0)
    extended = bytearray(plain)
    extended[348:368] = b"\1\0\0\0" + struct.pack("<ii", 7, 6) + b"patient!"
    put(tmp_path, bytes(extended))
    (found, _) = next(ward(tmp_path, "volumes = true\n").chunks())
    np.testing.assert_array_equal(found, U1)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("", "needs either axis = 0, 1 or 2"),
        ("axis = 1\nvolumes = true", "needs either axis = 0, 1 or 2"),
        ("axis = 3", "axis"),
        ("volumes = true\nsize = 9", "are for slices"),
        ('volumes = true\nframes = "all"', "are for slices"),
        ("axis = 0\nframes = [9]", "has 7 frame"),
    ],
)
def test_a_card_says_what_an_image_is(tmp_path: Path, more: str, reason: str) -> None:
    """Slices or volumes is said by the card, never guessed."""
    put(tmp_path, nifti(U1))
    with pytest.raises(DatasetError, match=reason):
        ward(tmp_path, more)


def test_volumes_are_gray(tmp_path: Path) -> None:
    """A card of colour volumes is refused."""
    card = CARD.replace("channels = 1", "channels = 3") + "axis = 0"
    (tmp_path / "rgb.toml").write_text(card)
    with pytest.raises(DatasetError, match="1 channel"):
        load_card(tmp_path / "rgb.toml")


def masked(root: Path, mask: bytes, name: str, image: bytes) -> None:
    """Write the same file and mask for both classes."""
    put(root, image, name)
    for label in ("cat", "dog"):
        path = root / "ward/masks" / label / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(mask))


MASKS = 'masks = "masks/{class}/*.nii.gz"\n'
REGION = (np.random.default_rng(5).random((7, 6, 5)) < 0.3).astype("f4")
REGION[:, :, 1] = 0
KEPT = [0, 2, 3, 4]


def regions(source: ImageSource) -> NDArray[np.uint8]:
    """Return the masks of a source."""
    assert source.masks is not None
    return np.concatenate(list(source.masks(source.select().rows, 3)))


def test_masks_of_volumes_and_slices(tmp_path: Path) -> None:
    """What is not 0 is inside, whatever it is rescaled by; slices are those of the image."""
    masked(tmp_path, nifti(REGION, slope=0.5), "0.nii.gz", nifti(U1))
    inside = (REGION != 0).transpose(2, 0, 1)
    source = ward(tmp_path, "volumes = true\n" + MASKS)
    np.testing.assert_array_equal(regions(source), [REGION != 0] * 2)
    source = ward(tmp_path, "axis = 2\nframes = [4, 0]\n" + MASKS)
    np.testing.assert_array_equal(regions(source)[:2], inside[[4, 0]])
    source = ward(tmp_path, 'axis = 2\nframes = "masked"\n' + MASKS)
    assert source.counts() == (4, 4)
    np.testing.assert_array_equal(regions(source)[4:], inside[KEPT])
    images = np.concatenate(list(source.chunks(label=1)))
    np.testing.assert_array_equal(images, U1.transpose(2, 0, 1)[KEPT])
    source = ward(tmp_path, "axis = 2\nsize = 3\nframes = [0]\n" + MASKS)
    plain = Image.fromarray(inside[0].astype(np.uint8))
    fit = plain.crop((0, 0, 6, 6)).resize((3, 3), Image.Resampling.NEAREST)
    np.testing.assert_array_equal(regions(source)[0], fit)


def test_empty_masks_of_slices_that_masks_choose(tmp_path: Path) -> None:
    """They are refused when they are read, with no way out that the card has taken."""
    masked(tmp_path, nifti(0 * REGION), "0.nii.gz", nifti(U1))
    with pytest.raises(DatasetError, match="none of 42; draw one, or leave"):
        regions(ward(tmp_path, 'axis = 2\nframes = "masked"\n' + MASKS))


@pytest.mark.parametrize("more", ["volumes = true\n", "axis = 1\n"])
def test_a_mask_is_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """While its slices are read, other threads may take its place among those that are cached."""
    masked(tmp_path, nifti(U1 | 1), "0.nii.gz", nifti(U1))
    source, looked = ward(tmp_path, more + MASKS), list[Path]()
    assert source.masks is not None
    monkeypatch.setattr(nifti_files, "file_state", lambda file: looked.append(file) or bytes(1))
    assert sum(map(len, source.masks(source.select().rows, 6))) == sum(source.counts())
    assert sorted(looked) == [tmp_path / f"ward/masks/{label}/0.nii.gz" for label in ("cat", "dog")]


def test_volumes_may_differ_along_the_last_axis(tmp_path: Path) -> None:
    """With `slices` in the card each volume comes alone, with its mask; the others are refused."""
    for number, depth in enumerate((5, 3, 4)):
        content = nifti(U1[:, :, :depth])
        masked(tmp_path, nifti(REGION[:, :, :depth]), f"{number}.nii.gz", content)
    source = ward(tmp_path, "volumes = true\npublic = true\nslices = [3, 6]\n" + MASKS)
    assert source.shape == (7, 6, 6)
    assert source.masks is not None
    rows = source.select(label=0).rows
    for images, masks, depth in zip(
        source.chunks(label=0), source.masks(rows, 8), (5, 3, 4), strict=True
    ):
        np.testing.assert_array_equal(images, [U1[:, :, :depth]])
        np.testing.assert_array_equal(masks, [REGION[:, :, :depth] != 0])
    (config,) = load_experiments(MAIN, dataset=str(tmp_path / "ward.toml"))
    shown = _samples(source, Run(config, tmp_path, tmp_path / "out"))[1]
    assert shown.shape == (3, 6, 6)
    np.testing.assert_array_equal(shown[1], np.pad(U1[3, :, :3], [(0, 0), (0, 3)]))
    source = ward(tmp_path, "volumes = true\nslices = [4, 6]\n" + MASKS)
    assert {fault.file for fault in check(source, tmp_path / "ward")} == {
        "cat/1.nii.gz",
        "dog/1.nii.gz",
    }
    with pytest.raises(DatasetError, match="must have 4 to 6 slices, as the card says, found 3"):
        list(source.chunks())
    put(tmp_path, nifti(U1[:5]), "3.nii.gz")
    with pytest.raises(DatasetError, match=r"one size, found \(7, 6, 5\) in 0.nii.gz and \(5"):
        list(ward(tmp_path, "volumes = true\nslices = [3, 6]\n").chunks())


def test_masks_may_lie_among_the_images_and_in_tables(tmp_path: Path) -> None:
    """A mask is no image; a table names volumes, slices and masks as it names pictures."""
    put(tmp_path, nifti(U1), "0.nii.gz")
    put(tmp_path, nifti(REGION), "0_mask.nii.gz")
    source = ward(tmp_path, 'volumes = true\nmasks = "{class}/*_mask.nii.gz"\n')
    assert source.counts() == (1, 1)
    np.testing.assert_array_equal(regions(source), [REGION != 0] * 2)
    rows = [f"ward/{c}/0.nii.gz,{c},ward/{c}/0_mask.nii.gz" for c in ("cat", "dog")]
    (tmp_path / "list.csv").write_text("\n".join(["f,c,m", *rows]))
    table = 'kind = "table"\nchannels = 1\nclasses = ["cat", "dog"]\nformats = ["NIfTI"]\n'
    table += 'columns = { path = "f", class = "c", mask = "m" }\n'
    for more, shape, counts in (
        ("volumes = true", (7, 6, 5), (1, 1)),
        ('axis = 2\nframes = "masked"', (7, 6), (4, 4)),
        ('axis = 0\nframes = "middle"\nunit = "person"', (6, 5), (1, 1)),
    ):
        (tmp_path / "list.toml").write_text(table + more)
        source = open_dataset(tmp_path / "list.toml", tmp_path)
        assert (source.shape, source.counts()) == (shape, counts)
        assert len(np.concatenate(list(source.chunks()))) == len(regions(source)) == sum(counts)
    for more, reason in (
        ("", "NIfTI needs either axis"),
        ("volumes = true\nsize = 4", "are for slices"),
    ):
        (tmp_path / "list.toml").write_text(table + more)
        with pytest.raises(DatasetError, match=reason):
            open_dataset(tmp_path / "list.toml", tmp_path)


MOVED = bytearray(nifti(REGION))
struct.pack_into("<hh", MOVED, 252, 0, 1)
struct.pack_into("<12f", MOVED, 280, 1, 0, 0, 9, 0, 1, 0, 0, 0, 0, 1, 0)
NO_NUMBER = REGION.copy()
NO_NUMBER[2, 2, 2] = np.nan
BAD_MASKS: dict[str, tuple[bytes, str]] = {
    "empty": (
        nifti(np.zeros_like(U1)),
        r"masks/cat/0.nii.gz: a mask must have a (pix|vox)el inside",
    ),
    "size": (nifti(REGION[:, :5]), r"its image's size, \(7, 6, 5\), found \(7, 5, 5\)"),
    "elsewhere": (bytes(MOVED), r"must be where its image is, found another affine"),
    "nan": (nifti(NO_NUMBER), "must have numbers, found NaN"),
    "text": (b"no volume" * 99, "must be NIfTI in one file|is not a readable NIfTI file"),
}


@pytest.mark.parametrize("how", ["volumes = true", "axis = 2", 'axis = 2\nframes = "masked"'])
@pytest.mark.parametrize(("mask", "reason"), BAD_MASKS.values(), ids=BAD_MASKS)
def test_a_bad_mask_is_one_line(tmp_path: Path, mask: bytes, reason: str, how: str) -> None:
    """Of other voxels, without any inside, or no volume: told, and its image is listed."""
    masked(tmp_path, nifti(np.ones_like(U1)), "1.nii.gz", nifti(U1))
    masked(tmp_path, mask, "0.nii.gz", nifti(U1))
    source = ward(tmp_path, f"{how}\n{MASKS}")
    with pytest.raises(DatasetError, match=reason) as caught:
        regions(source)
    assert "\n" not in str(caught.value)
    faults = check(source, tmp_path / "ward")
    assert [fault.file for fault in faults] == ["cat/0.nii.gz", "dog/0.nii.gz"]


TURNED = (
    (math.cos(0.1745), -math.sin(0.1745), 0, 0),
    (math.sin(0.1745), math.cos(0.1745), 0, 0),
    (0, 0, 5, 0),
)
PLACES: dict[str, tuple[ArrayLike, str]] = {
    "same": (np.diag([1, 1, 5, 1])[:3], ""),
    "rounded": (np.diag([1.005, 1, 5.005, 1])[:3], ""),
    "wider": (np.diag([1.2, 1.2, 5, 1])[:3], "a corner 1.562 mm off"),
    "turned": (TURNED, "a corner 1.361 mm off"),
    "one side wider": (np.diag([1.03, 1, 5, 1])[:3], "a corner 0.18 mm off"),
    "infinite": (np.diag([np.inf, 1, 5, 1])[:3], "a corner nan mm off"),
}


@pytest.mark.parametrize(("affine", "off"), PLACES.values(), ids=PLACES)
def test_a_mask_is_where_its_image_is_at_all_corners(
    tmp_path: Path, affine: ArrayLike, off: str
) -> None:
    """No corner is off by 0.05 of the shortest side of a voxel, however long the others are."""

    def placed(values: NDArray[Any], affine: ArrayLike) -> bytes:
        content = bytearray(nifti(values))
        struct.pack_into("<hh", content, 252, 0, 1)
        struct.pack_into("<12f", content, 280, *np.ravel(affine))
        return bytes(content)

    masked(tmp_path, placed(REGION, affine), "0.nii.gz", placed(U1, np.diag([1, 1, 5, 1])[:3]))
    source = ward(tmp_path, "volumes = true\n" + MASKS)
    with pytest.raises(ImageError, match=off) if off else nullcontext():
        regions(source)


def test_masked_slices_need_masks(tmp_path: Path) -> None:
    """Which slices a mask chooses cannot be known without one."""
    put(tmp_path, nifti(U1))
    with pytest.raises(DatasetError, match='"masked" needs masks'):
        ward(tmp_path, 'axis = 0\nframes = "masked"\n')
