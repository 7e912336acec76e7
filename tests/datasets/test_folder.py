"""Folders of PNG and JPEG: the pixels of the files, in disjoint classes, or one clear error."""

import os
import re
import struct
import tracemalloc
from collections.abc import Callable
from datetime import date
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import compress, crc32

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from openjpeg.utils import encode_array
from PIL import Image

from covdp.arrays import ImageArray
from covdp.datasets import ImageSource, listing, load_card, open_dataset
from covdp.datasets.cards import FORMATS, MASKS
from covdp.datasets.classed import COPIES, FileRow, collect
from covdp.datasets.listing import Pattern, fill, find_files, packed
from covdp.datasets.pictures import FolderCard
from covdp.errors import DatasetError
from tests.tools.trace import Watcher

CARD = 'kind = "folder"\nchannels = 1\nclasses = ["cat", "dog"]\n'


def picture(seed: int, *shape: int) -> ImageArray:
    """Return random pixels."""
    return np.random.default_rng(seed).integers(0, 256, shape or (6, 5), dtype=np.uint8)


def save(path: Path, pixels: NDArray[Any], **options: Any) -> None:
    """Write an image file in new folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def ward(root: Path, card: str = CARD) -> ImageSource:
    """Open the folder `ward` by a card."""
    (root / "ward.toml").write_text(card)
    return open_dataset(root / "ward.toml", root)


def test_one_folder_a_class(tmp_path: Path) -> None:
    """Images come in the order class, path; all in train; other files do not disturb."""
    for name, seeds in (("cat", (0, 1, 2)), ("dog", (3, 4))):
        for seed in seeds:
            save(
                tmp_path / "ward" / name / f"{seed}.{'PNG' if seed == 1 else 'png'}", picture(seed)
            )
    (tmp_path / "ward/cat/notes.txt").write_text("no image")
    (tmp_path / "ward/cat/.hidden.png").write_text("no image")
    save(tmp_path / "ward/bird/0.png", picture(9))
    source = ward(tmp_path)
    assert (source.shape, source.counts(), source.counts("test")) == ((6, 5), (3, 2), (0, 0))
    np.testing.assert_array_equal(source.labels("train"), [0, 0, 0, 1, 1])
    chunks = list(source.chunks(size=2))
    assert [len(chunk) for chunk in chunks] == [2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(chunks), [picture(seed) for seed in range(5)])
    np.testing.assert_array_equal(next(source.chunks(label=1)), [picture(3), picture(4)])


def test_splits_and_flat_names(tmp_path: Path) -> None:
    """A pattern may name splits, and the class may be any part of the path."""
    save(tmp_path / "ward/train/cat-0.png", picture(0))
    save(tmp_path / "ward/test/cat-1.png", picture(1))
    save(tmp_path / "ward/test/dog-2.png", picture(2))
    source = ward(tmp_path, CARD + 'pattern = "{split}/{class}-*.png"\n')
    assert (source.counts("train"), source.counts("test")) == ((1, 0), (1, 1))
    np.testing.assert_array_equal(next(source.chunks("test")), [picture(1), picture(2)])


def test_gray_and_colour(tmp_path: Path) -> None:
    """3 channels keep the colour; 1 channel is Rec. 601 luma, 0.299 R + 0.587 G + 0.114 B."""
    colour = picture(0, 6, 5, 3)
    for name in ("cat", "dog"):
        save(tmp_path / "ward" / name / "0.png", colour)
    (found,) = ward(tmp_path, CARD.replace("channels = 1", "channels = 3")).chunks(label=0)
    np.testing.assert_array_equal(found, [colour])
    (found,) = ward(tmp_path).chunks(label=0)
    np.testing.assert_allclose(found[0], colour @ np.array([0.299, 0.587, 0.114]), atol=0.51)


def test_resize_is_the_central_square(tmp_path: Path) -> None:
    """With a size, a picture of blocks keeps its central square, whatever its borders are."""
    blocks = np.kron(np.array([[50, 200], [120, 90]], np.uint8), np.ones((32, 32), np.uint8))
    save(tmp_path / "ward/cat/wide.png", np.pad(blocks, ((0, 0), (9, 9)), constant_values=255))
    save(tmp_path / "ward/dog/high.png", np.pad(blocks, ((20, 20), (0, 0))))
    source = ward(tmp_path, CARD + "size = 16\n")
    assert source.shape == (16, 16)
    for image in np.concatenate(list(source.chunks())):
        np.testing.assert_array_equal(image[3::8, 3::8], [[50, 200], [120, 90]])


def test_pad_and_stretch_keep_the_whole_image(tmp_path: Path) -> None:
    """Padded, an image is whole and centred on black; stretched, it fills the square."""
    left, right = np.full((30, 30), 60, np.uint8), np.full((30, 30), 220, np.uint8)
    wide = np.hstack([left, right])
    save(tmp_path / "ward/cat/0.png", wide)
    save(tmp_path / "ward/dog/0.png", np.rot90(wide, -1))
    pad, turned = next(ward(tmp_path, CARD + 'size = 20\nfit = "pad"\n').chunks())
    np.testing.assert_array_equal(pad, np.rot90(turned))
    wanted = np.zeros((20, 20))
    wanted[5:15, :10], wanted[5:15, 10:] = 60, 220
    np.testing.assert_array_equal(
        np.delete(pad, range(7, 13), 1), np.delete(wanted, range(7, 13), 1)
    )
    stretched, _ = next(ward(tmp_path, CARD + 'size = 20\nfit = "stretch"\n').chunks())
    assert set(stretched[:, :7].flat) == {60}
    assert set(stretched[:, 13:].flat) == {220}
    save(tmp_path / "ward/cat/0.png", np.full((1, 60), 9, np.uint8))
    thin, _ = next(ward(tmp_path, CARD + 'size = 20\nfit = "pad"\n').chunks())
    assert thin.sum() == 20 * 9


def test_how_images_became_square_is_said(tmp_path: Path) -> None:
    """That images are cropped or padded, and to which size, is a fact of the source."""
    for name in ("cat", "dog"):
        save(tmp_path / "ward" / name / "0.png", picture(0, 10, 20))
    for keys, done in (("", "cropped to their central square"), ('fit = "pad"\n', "padded")):
        fact, _ = ward(tmp_path, f"{CARD}size = 5\n{keys}").facts
        assert fact == f"Images are {done} and resized to 5 × 5 pixels."
    assert ward(tmp_path).facts == (COPIES,)
    with pytest.raises(DatasetError, match="'fit' needs size"):
        ward(tmp_path, CARD + 'fit = "pad"\n')


def test_real_scans(samples: Path, tmp_path: Path) -> None:
    """83 real OCT scans in one flat folder, read by a card, are the 28 px set made from them."""
    (tmp_path / "oct.toml").write_text(
        'kind = "folder"\nchannels = 1\npath = "oct2017_jpeg"\nsize = 28\n'
        'classes = ["CNV", "DME", "DRUSEN", "NORMAL"]\npattern = "{class}-*.jpeg"\n'
    )
    source = open_dataset(tmp_path / "oct.toml", samples)
    assert source.counts() == (23, 20, 20, 20)
    rows = [line.split(",") for line in (samples / "oct2017_manifest.csv").read_text().split()[1:]]
    found = dict(zip(sorted(row[0] for row in rows), next(source.chunks()), strict=True))
    with np.load(samples / "oct2017_28_subset.npz") as made:
        for row in rows:
            wanted = made[f"{row[4]}_images"][int(row[5])]
            assert np.abs(found[row[0]].astype(int) - wanted).max() <= 1, row[0]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("size", r"one size, found \(6, 5\) in cat/0.png and \(5, 6\) in dog/1.png; give"),
        ("sixteen", r"1.png \(PNG\): unsigned values of 16 bits need a window, found none; give"),
        ("text", r"1.png is not a readable image .*; save it anew, or leave the image out"),
        ("cut", r"1.png is not a readable image .*; bring it whole, or leave the image out"),
        ("class", "class 'dog' has no PNG or JPEG image at '{class}/\\*'"),
        ("two", "0.png is in two classes or splits"),
        ("absent", "ward does not exist.*--data-root"),
    ],
)
def test_bad_folder_is_one_line(tmp_path: Path, spoil: str, reason: str) -> None:
    """An image or folder that cannot be used is one line naming it, the rule and the way out."""
    root = tmp_path / "ward"
    card = CARD
    if spoil != "absent":
        save(root / "cat/0.png", picture(0))
    if spoil not in ("absent", "class"):
        save(root / "dog/1.png", picture(1, 5, 6) if spoil == "size" else picture(1))
    if spoil == "sixteen":
        save(root / "dog/1.png", picture(1).astype(np.uint16) * 256)
    if spoil == "text":
        (root / "dog/1.png").write_text("no image")
    if spoil == "cut":
        save(root / "cat/0.png", picture(0, 90, 90))
        save(root / "dog/1.png", picture(1, 90, 90))
        (root / "dog/1.png").write_bytes((root / "dog/1.png").read_bytes()[:4000])
    if spoil == "two":
        card = CARD.replace('["cat", "dog"]', '["c", "ca"]') + 'pattern = "{class}*/*"\n'
    with pytest.raises(DatasetError, match=reason) as caught:
        list(ward(tmp_path, card).chunks())
    assert "\n" not in str(caught.value)


PERSONS = CARD + 'unit = "person"\npattern = "{class}/{person}-{date}-*.png"\n'


def test_persons_and_dates_are_read_from_paths(tmp_path: Path) -> None:
    """A person ends where the text after it begins; days come in two forms; names do not stay."""
    paths = {
        "cat/tom-20240229-1.png": ("tom", "2024-02-29"),
        "cat/tom-2024-03-01-2-b.png": ("tom", "2024-03-01"),
        "cat/viv-20240101-.png": ("viv", "2024-01-01"),
        "dog/tom-20240101-1.png": ("tom", "2024-01-01"),
        "dog/zoy-20231231-1.png": ("zoy", "2023-12-31"),
    }
    for seed, path in enumerate(paths):
        save(tmp_path / "ward" / path, picture(seed))
    source = ward(tmp_path, PERSONS)
    order = sorted(range(5), key=lambda index: list(paths)[index])
    assert source.dates is not None
    assert source.dates.tolist() == [
        date.fromisoformat(list(paths.values())[index][1]) for index in order
    ]
    assert (source.unit, source.counts(), source.units()) == ("person", (3, 1), (2, 1))
    keys = source.persons()
    assert keys is not None
    assert len(set(keys.tolist())) == 3
    assert not any(name in repr(source.people) for name in ("tom", "viv", "zoy"))
    plain = ward(tmp_path, PERSONS.replace('"person"', '"image"'))
    assert (plain.unit, plain.persons(), plain.units()) == ("image", None, (3, 2))


def test_one_person_has_one_digest_however_the_name_is_written(tmp_path: Path) -> None:
    """An accent in its letter or beside it is the same person; bytes of no encoding are a name."""
    names = ["Jos\u00e9-1", "Jose\u0301-2", "Jose-3", os.fsdecode(b"Jos\xe9-4")]
    for name in names:
        save(tmp_path / "ward/cat" / f"{name}.png", picture(0))
        save(tmp_path / "ward/dog" / f"{name}.png", picture(0))
    card = CARD + 'unit = "person"\nclasses_per_person = 2\npattern = "{class}/{person}-*"\n'
    assert ward(tmp_path, card).units() == (3, 3)


@pytest.mark.parametrize(
    ("pattern", "path", "said"),
    [
        ("{class}/{person}/*.png", "cat/17-3/1.png", "17-3"),
        ("{class}/{person}-*.png", "cat/17-3-1.png", "17"),
        ("{class}/*_{person}.png", "cat/a_17_3.png", "17_3"),
        ("{class}/{person}.png", "cat/17.a.png", "17.a"),
        ("{class}/**/{person}/*", "cat/x/y/17/1.png", "17"),
        ("{person}/**/{class}-*", "17/x/cat-1.png", "17"),
        ("{class}/scan[0-9]?-{person}__*", "cat/scan1a-p_1__2.png", "p_1"),
        ("{class}/{person}-*.png", "cat/-1.png", None),
        ("{class}/{person}-{date}*.png", "cat/17-3-20240101.png", None),
        ("{class}/{person}-*.png", "cat/ -1.png", None),
    ],
)
def test_a_path_names_one_person(pattern: str, path: str, said: str | None) -> None:
    """Each path is read in one way; one that does not say whose it is is refused by its name."""
    if said is not None:
        assert fill(pattern, {"class": "cat"}).read(path, path)[0] == said
        return
    with pytest.raises(DatasetError, match=f"{re.escape(path)} does not say.*exclude"):
        fill(pattern, {"class": "cat"}).read(path, path)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ('unit = "person"', 'unit = "person" needs {person} in pattern'),
        ('pattern = "{class}/{person}*.png"', "{person} in pattern must be followed by fixed text"),
        ('pattern = "{class}/*{person}.png"', r"\* in pattern must be followed by fixed text"),
        ('pattern = "{class}/{person}{date}.png"', "{person} in pattern must be followed"),
        ('pattern = "{class}/{person}/{person}-*.png"', "may name {person} once"),
        ('pattern = "{class}/**/{person}/**/*"', r"one '\*\*' where it names {person}"),
        ('pattern = "{class}/{patient}-*.png"', "{patient} in pattern is not known; it may name"),
        ('window = "header"', "pictures have no window of their own"),
    ],
)
def test_a_pattern_is_read_in_one_way(tmp_path: Path, more: str, reason: str) -> None:
    """A pattern that two readers could take in two ways is refused with the card."""
    (tmp_path / "ward.toml").write_text(f"{CARD}{more}\n")
    with pytest.raises(DatasetError, match=reason) as caught:
        load_card(tmp_path / "ward.toml")
    assert "\n" not in str(caught.value)


def test_a_path_that_names_nobody_is_refused(tmp_path: Path) -> None:
    """A file that fits but for person or day is one line; the list of exclusions is a way out."""
    for name in ("cat/tom-20240101-1.png", "dog/zoy-20240101-1.png", "dog/zoy-2024-1-a.png"):
        save(tmp_path / "ward" / name, picture(0))
    with pytest.raises(DatasetError, match=r"zoy-2024-1-a.png does not say {person} and {date}"):
        ward(tmp_path, PERSONS)
    (tmp_path / "ward/dog/zoy-2024-1-a.png").rename(tmp_path / "ward/dog/zoy-20240231-1.png")
    with pytest.raises(DatasetError, match="a day that no calendar has"):
        ward(tmp_path, PERSONS)
    (tmp_path / "ward/out.txt").write_text("\ufeffdog/zoy-20240231-1.png\r\n\n")
    source = ward(tmp_path, PERSONS + 'exclude = "out.txt"\n')
    assert (source.counts(), source.facts[0][:23]) == ((1, 1), "1 file(s) are left out,")
    (tmp_path / "ward/out.txt").write_text("dog/nobody.png\n")
    with pytest.raises(DatasetError, match=r"leaves out 'dog/nobody.png', which is not in"):
        ward(tmp_path, PERSONS + 'exclude = "out.txt"\n')
    for row in ("dog/../dog/zoy-20240231-1.png", ".", "..", "../ward/cat", str(tmp_path)):
        (tmp_path / "ward/out.txt").write_text(f"{row}\n")
        with pytest.raises(DatasetError, match=rf"leaves out '{row}', which is no plain path"):
            ward(tmp_path, PERSONS + 'exclude = "out.txt"\n')
    with pytest.raises(DatasetError, match=r"cannot read .*absent.txt.*exclude in the card"):
        ward(tmp_path, PERSONS + 'exclude = "absent.txt"\n')


def test_a_link_is_left_out_by_either_name(tmp_path: Path) -> None:
    """A list of exclusions may name a link, or where it leads to, as a check of images does."""
    pair(tmp_path, ".png", picture(0))
    save(tmp_path / "store/bad.png", picture(1))
    (tmp_path / "ward/cat/1.png").symlink_to("../../store/bad.png")
    assert ward(tmp_path).counts() == (2, 1)
    for line in ("cat/1.png", "../store/bad.png"):
        (tmp_path / "ward/out.txt").write_text(f"{line}\n")
        assert ward(tmp_path, CARD + 'exclude = "out.txt"\n').counts() == (1, 1)


def test_opening_opens_no_image_where_the_card_has_a_size(tmp_path: Path, watch: Watcher) -> None:
    """With a size a dataset is opened by names alone, without one by the first header that is."""
    for name in ("cat/0", "cat/1", "dog/0"):
        save(tmp_path / f"ward/{name}.png", picture(0))
    (tmp_path / "ward/cat/0.png").write_bytes(b"no image")
    opened = watch(Image.open)
    assert ward(tmp_path, CARD + "size = 4\n").shape == (4, 4)
    assert opened == []
    source = ward(tmp_path)
    assert (source.shape, sum(call.result is not None for call in opened)) == ((6, 5), 1)
    with pytest.raises(DatasetError, match=r"cat/0.png is not a readable image"):
        list(source.chunks())


def turned(path: Path, orientation: int, late: bool = False) -> None:
    """Say in an image file how it is to be turned; `late`, at the end of a PNG."""
    exif = Image.Exif()
    exif[274] = orientation
    with Image.open(path) as image:
        image.load()
    image.save(path, exif=exif)
    if late:
        content = path.read_bytes()
        start = content.index(b"eXIf") - 4
        chunk = content[start : start + int.from_bytes(content[start : start + 4]) + 12]
        path.write_bytes(content.replace(chunk, b"")[:-12] + chunk + content[-12:])


@pytest.mark.parametrize("more", ["", "size = 4\n"])
@pytest.mark.parametrize("place", ["cat/0", "masks/cat/0"])
@pytest.mark.parametrize("kind", ["PNG", "late PNG", "JPEG", "WEBP", "TIFF"])
def test_what_is_to_be_turned_is_refused(tmp_path: Path, kind: Any, place: str, more: str) -> None:
    """In each format, images and masks: a viewer would turn them, and of readers some do."""
    late, kind = kind.startswith("late"), kind.removeprefix("late ")
    end = FORMATS[kind][0]
    pair(tmp_path, end, picture(0))
    card = f'{CARD}formats = ["{kind}"]\n{more}'
    if "masks" in place:
        end = end if kind in MASKS else ".png"
        card += f'masks = "masks/{{class}}/*{end}"\n'
        for name in ("cat", "dog"):
            save(tmp_path / f"ward/masks/{name}/0{end}", np.ones((6, 5), np.uint8))
    file = tmp_path / f"ward/{place}{end}"
    turned(file, 1)

    def read() -> int:
        source = ward(tmp_path, card)
        masks = source.masks(source.select().rows, 9) if source.masks else ()
        return sum(map(len, source.chunks())) + sum(map(len, masks))

    assert read() == (4 if "masks" in place else 2)
    turned(file, 6, late)
    reason = r"0\.\w+: images must be upright.*Orientation 6"
    with pytest.raises(DatasetError, match=reason) as caught:
        read()
    assert "\n" not in str(caught.value)


def test_exif_that_cannot_be_read_turns_nothing(tmp_path: Path) -> None:
    """An image with a damaged block beside it is read as every viewer shows it."""
    for end in (".png", ".jpg"):
        pair(tmp_path, end, picture(0), exif=b"no Exif")
    assert sum(map(len, ward(tmp_path).chunks())) == 4


def deep(kind: type = np.uint16) -> NDArray[Any]:
    """Return values over all of the range of an integer type of 16 or 32 bits."""
    span = np.iinfo(kind)
    values = np.random.default_rng(0).integers(span.min, span.max, (6, 5), endpoint=True)
    values[0, :2] = span.min, span.max
    return values.astype(kind)


def pair(root: Path, end: str, pixels: NDArray[Any], **options: Any) -> None:
    """Write the same image for both classes."""
    for name in ("cat", "dog"):
        save(root / f"ward/{name}/0{end}", pixels, **options)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("TIFF", {"tiffinfo": {262: 0}}),
        ("PPM", {}),
        ("JPEG2000", {}),
    ],
)
def test_sixteen_bits_need_a_window(tmp_path: Path, kind: Any, options: Any) -> None:
    """Gray of 16 bits is 255·(x − low)/(high − low), rounded; where low is white, from 255 down."""
    pair(tmp_path, FORMATS[kind][0], deep(), format=kind, **options)
    card = f'{CARD}formats = ["{kind}"]\n'
    with pytest.raises(DatasetError, match="values of 16 bits need a window"):
        list(ward(tmp_path, card).chunks())
    wanted = np.clip((deep() - 1000.0) / 49_000, 0, 1) * 255
    white_is_low = "tiffinfo" in options
    (found,) = ward(tmp_path, card + "window = [1000, 50000]\n").chunks(label=0)
    np.testing.assert_array_equal(found[0], np.rint(255 - wanted if white_is_low else wanted))
    (found,) = ward(tmp_path, card + 'window = "image"\nsize = 8\n').chunks(label=0)
    assert found.shape == (1, 8, 8)


@pytest.mark.parametrize(
    ("kind", "order", "deflated"),
    [(kind, "<", False) for kind in (np.int16, np.int32, np.uint32, np.float32)]
    + [(kind, ">", True) for kind in (np.uint16, np.int16, np.int32, np.float32)],
)
def test_deep_tiff_is_read_by_its_own_values(
    tmp_path: Path, kind: Any, order: str, deflated: bool
) -> None:
    """Values with a sign, of 32 bits or floating are those that the file holds."""
    values = deep(np.int16) / np.float32(7) if kind == np.float32 else deep(kind)
    low, high = np.percentile(values.astype(float), (10, 80))
    sample = {np.uint16: 1, np.uint32: 1, np.float32: 3}.get(kind, 2)
    for name in ("cat", "dog"):
        (tmp_path / "ward" / name).mkdir(parents=True)
        write_tiff(tmp_path / "ward" / name / "0.tif", values, sample, order, deflated)
    card = f'{CARD}formats = ["TIFF"]\nwindow = [{low}, {high}]\n'
    (found,) = ward(tmp_path, card).chunks(label=0)
    wanted = np.clip((values.astype(float) - low) / (high - low), 0, 1) * 255
    np.testing.assert_array_equal(found[0], np.rint(wanted))


def write_tiff(
    path: Path, values: NDArray[Any], sample: int, order: str = "<", deflated: bool = False
) -> None:
    """Write a TIFF by hand: one strip, in either order of bytes, deflated or not."""
    height, width = values.shape
    pixels = np.ascontiguousarray(values.astype(values.dtype.newbyteorder(order))).tobytes()
    if deflated:
        pixels = compress(pixels)
    pixels += bytes(len(pixels) % 2)
    tags = {
        256: width, 257: height, 258: 8 * values.itemsize, 259: 8 if deflated else 1, 262: 1,
        273: 8, 277: 1, 278: height, 279: len(pixels), 339: sample,
    }  # fmt: skip
    entries = b"".join(struct.pack(f"{order}HHII", tag, 4, 1, value) for tag, value in tags.items())
    path.write_bytes(
        struct.pack(f"{order}2sHI", b"II" if order == "<" else b"MM", 42, 8 + len(pixels))
        + pixels
        + struct.pack(f"{order}H", len(tags))
        + entries
        + bytes(4)
    )


def test_twelve_bits_are_those_of_the_file(tmp_path: Path) -> None:
    """Values of 12 bits keep their units, though Pillow stretches them to 16."""
    values = deep() >> 4
    head = b"P5 5 6 4095\n"
    for name in ("cat", "dog"):
        (tmp_path / "ward" / name).mkdir(parents=True)
        (tmp_path / "ward" / name / "0.pgm").write_bytes(head + values.astype(">u2").tobytes())
    (found,) = ward(tmp_path, CARD + 'formats = ["PPM"]\nwindow = [0, 4095]\n').chunks(label=0)
    np.testing.assert_array_equal(found[0], np.rint(values * (255 / 4095)))


def test_twelve_bits_of_jpeg_2000_are_those_of_the_file(tmp_path: Path) -> None:
    """The same of JPEG 2000, whose values Pillow shifts."""
    values = np.kron(deep() >> 4, np.ones((16, 16), np.uint16))
    content = encode_array(values, bits_stored=12, photometric_interpretation=2, codec_format=1)
    for name in ("cat", "dog"):
        (tmp_path / "ward" / name).mkdir(parents=True)
        (tmp_path / "ward" / name / "0.jp2").write_bytes(content)
    card = CARD + 'formats = ["JPEG2000"]\nwindow = [0, 4095]\n'
    (found,) = ward(tmp_path, card).chunks(label=0)
    np.testing.assert_array_equal(found[0], np.rint(values * (255 / 4095)))


def test_eight_bits_with_a_sign_are_refused(tmp_path: Path) -> None:
    """A TIFF of signed bytes, which Pillow reads as if they had none, is one line."""
    for name in ("cat", "dog"):
        (tmp_path / "ward" / name).mkdir(parents=True)
        write_tiff(tmp_path / "ward" / name / "0.tif", picture(0).view(np.int8), 2)
    with pytest.raises(DatasetError, match="values of 8 bits must not have a sign"):
        list(ward(tmp_path, CARD + 'formats = ["TIFF"]\n').chunks())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_deep_colour_is_refused(tmp_path: Path, kind: Any, channels: int) -> None:
    """Colour of 16 bits, which Pillow would cut to 8 in silence, is one line, windowed or not."""
    colour = np.stack([deep()] * 3, axis=-1)
    for name in ("cat", "dog"):
        path = tmp_path / "ward" / name / f"0{FORMATS[kind][0]}"
        path.parent.mkdir(parents=True)
        path.write_bytes(ENCODED[kind](colour))
    card = CARD.replace("channels = 1", f"channels = {channels}") + f'formats = ["{kind}"]\n'
    for window in ("", 'window = "image"\n'):
        with pytest.raises(DatasetError, match="in colour must have 8 bits a channel, found 16"):
            list(ward(tmp_path, card + window).chunks())


def png(colour: NDArray[np.uint16]) -> bytes:
    """Return a PNG of 16 bits a channel, written by hand."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", crc32(name + body))

    height, width, _ = colour.shape
    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in colour)
    head = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def tiff(colour: NDArray[np.uint16]) -> bytes:
    """Return a TIFF of 16 bits a channel, written by scikit-image's reader of TIFF."""
    stream = BytesIO()
    tifffile.imwrite(stream, colour, photometric="rgb")
    return stream.getvalue()


ENCODED: dict[str, Callable[[NDArray[np.uint16]], bytes]] = {
    "PNG": png,
    "TIFF": tiff,
    "PPM": lambda colour: b"P6 5 6 65535\n" + colour.astype(">u2").tobytes(),
}


def test_a_window_is_obeyed_by_eight_bits(tmp_path: Path) -> None:
    """A window applies to 8 bits, gray and in colour, as to any."""
    values = picture(0, 6, 5, 3)
    wanted = np.rint(np.clip((values - 50.0) / 100, 0, 1) * 255)
    pair(tmp_path, ".png", values)
    card = CARD.replace("channels = 1", "channels = 3") + "window = [50, 150]\n"
    (found,) = ward(tmp_path, card).chunks(label=0)
    np.testing.assert_array_equal(found[0], wanted)
    pair(tmp_path, ".png", values[..., 0])
    (found,) = ward(tmp_path, CARD + "window = [50, 150]\n").chunks(label=0)
    np.testing.assert_array_equal(found[0], wanted[..., 0])
    (found,) = ward(tmp_path, card).chunks(label=0)
    np.testing.assert_array_equal(found[0], np.stack([wanted[..., 0]] * 3, axis=-1))


def memory(work: Callable[[], Any]) -> tuple[int, int]:
    """Return what a result takes, and what its making does at most: threads of others add to it."""
    tried = []
    for _ in range(3):
        tracemalloc.start()
        held = work()
        tried.append(tracemalloc.get_traced_memory())
        tracemalloc.stop()
        del held
    return min(kept for kept, _ in tried), min(peak for _, peak in tried)


def test_what_no_row_says_takes_nothing(tmp_path: Path, watch: Watcher) -> None:
    """Where no path says person, date or mask, none is looked for, and a file takes 40 bytes."""
    (tmp_path / "ward.toml").write_text(CARD)
    count, card = 20_000, load_card(tmp_path / "ward.toml")
    assert isinstance(card, FolderCard)
    looked_for = watch(Pattern.letters)
    read = fill("{class}/*.png", {"class": "cat"}).read

    def collected() -> Any:
        paths = (f"cat/{number:09}.png" for number in range(count))
        rows = (FileRow(path, 0, 0, *read(path, path)) for path in paths)
        return collect(card, rows, np.zeros((3, 2), np.int64))

    files, (_, peak) = collected(), memory(collected)
    assert (len(files.names), files.people, files.dates, files.masks) == (count, None, None, None)
    assert peak < 40 * count
    assert looked_for == []


def test_names_take_less_than_their_letters(tmp_path: Path) -> None:
    """A listing of n files is packed, and any name can be asked for: 10⁶ are under 12 MB."""
    (tmp_path / "cat").mkdir()
    for number in range(3000):
        (tmp_path / "cat" / f"{number:09}.png").touch()

    def listed() -> Any:
        files = find_files(tmp_path, fill("{class}/*.png", {"class": "cat"}), tmp_path, [])
        return packed(found.path for found in files)

    names, (kept, peak) = listed(), memory(listed)
    wanted = [str(tmp_path / f"cat/{number:09}.png") for number in range(3000)]
    assert (len(names), list(names)) == (3000, wanted)
    assert [names[index] for index in (2999, -1, 64, 63, 0)] == [
        wanted[index] for index in (2999, -1, 64, 63, 0)
    ]
    with pytest.raises(IndexError):
        names[3000]
    assert kept < 3000 * 12 + 20_000
    assert peak < 3000 * 200 + 200_000


def test_a_flat_folder_is_listed_in_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many names are sorted at a time, files come in one order, folders among them."""
    (tmp_path / "cat").mkdir()
    names = [f"{number * 7919 % 997:03}-é.png" for number in range(300)]
    for name in names:
        (tmp_path / "cat" / name).touch()
    (tmp_path / "cat/500").mkdir()

    def listed() -> list[str]:
        found = find_files(tmp_path, fill("{class}/*", {"class": "cat"}), tmp_path, [])
        return [each.relative for each in found]

    whole = listed()
    assert whole == sorted(f"cat/{name}" for name in [*names, "500"])

    def in_runs(run: int) -> None:
        monkeypatch.setattr(listing, "RUN", run)

    for run in (1, 7, 301):
        in_runs(run)
        assert listed() == whole
    (tmp_path / "many").mkdir()
    for number in range(12_000):
        os.close(os.open(f"{tmp_path}/many/{number:09}.png", os.O_CREAT))
    many = fill("{class}/*", {"class": "many"})

    def read(names: int) -> int:
        """Return how many there are of so many names that are asked for."""
        return sum(1 for _ in islice(find_files(tmp_path, many, tmp_path, []), names))

    def peak(run: int, names: int) -> int:
        """Return the most memory that this takes in runs of some length."""
        in_runs(run)
        return memory(lambda: read(names))[1]

    assert read(20_000) == 12_000
    # all names are listed for the first of them
    assert peak(257, 12_000) < 0.6 * peak(12_001, 1)


@pytest.mark.parametrize(
    ("masks", "place"),
    [
        ("masks/{class}/*.png", "masks/{}/{}.png"),
        ("{class}/*_mask.png", "{}/{}_mask.png"),
        ("{person}/*.png", "{1:.2}/{1}.png"),
    ],
)
def test_masks_lie_where_the_card_says(tmp_path: Path, masks: str, place: str) -> None:
    """The mask of an image is found by its name; it is 1 where the file is not black.

    Its image, not made to fit, is not opened for it.
    """
    region = (picture(5) > 99).astype(np.uint8)
    coloured = np.zeros((6, 5, 3), np.uint8)
    coloured[2, 3, 2] = 1
    for name, stem, mask in (("cat", "p1-a.b", region * 7), ("dog", "p2-c", coloured)):
        save(tmp_path / f"ward/{name}/{stem}.png", picture(0))
        save(tmp_path / "ward" / place.format(name, stem), mask)
    card = CARD + f'masks = "{masks}"\npattern = "{{class}}/{{person}}-*"\n'
    source = ward(tmp_path, card)
    assert source.counts() == (1, 1)
    assert source.masks is not None
    rows = source.select().rows
    np.testing.assert_array_equal(
        next(source.masks(rows, 9)), np.stack([region, coloured.any(axis=-1)])
    )
    (alone,) = source.masks.only(rows[1:])(np.array([0]), 1)
    np.testing.assert_array_equal(alone[0], coloured.any(axis=-1))
    before = source.masks.stamp(rows)
    (tmp_path / "ward/dog/p2-c.png").write_bytes(b"")
    assert source.masks.stamp(rows) == before
    assert len(next(source.masks(rows, 9))) == 2


def test_masks_are_made_to_fit_as_their_images(tmp_path: Path) -> None:
    """Cropped, padded and stretched alike; what is padded lies outside, and no value is blended."""
    wide = np.zeros((10, 20), np.uint8)
    wide[:, 8:] = 255
    pair(tmp_path, ".png", wide)
    for name in ("cat", "dog"):
        save(tmp_path / f"ward/masks/{name}/0.png", wide)
    for fit in ("crop", "pad", "stretch"):
        card = CARD + f'masks = "masks/{{class}}/*.png"\nsize = 5\nfit = "{fit}"\n'
        source = ward(tmp_path, card)
        assert source.masks is not None
        (mask,) = source.masks(np.array([0]), 1)
        assert set(np.unique(mask)) == {0, 1}
        (image,) = source.chunks(label=0)
        assert mask.shape == image.shape
        np.testing.assert_array_equal(mask[image > 250], 1)
        np.testing.assert_array_equal(mask[image < 5], 0)
        before = source.masks.stamp(np.array([0]))
        (tmp_path / "ward/cat/0.png").touch()
        assert source.masks.stamp(np.array([0])) != before


@pytest.mark.parametrize(
    ("mask", "more", "reason"),
    [
        (np.zeros((6, 5), np.uint8), "", "a mask must have a pixel inside.*found none of 30"),
        (np.ones((5, 6), np.uint8), "", r"its image's size, \(6, 5\), found \(5, 6\)"),
        (np.ones((5, 6), np.uint8), "size = 4", r"its image's size, \(6, 5\), found \(5, 6\)"),
        (None, "", r"masks/cat/0.png is not a readable image .*No such file"),
    ],
)
def test_a_bad_mask_is_one_line(
    tmp_path: Path, mask: ImageArray | None, more: str, reason: str
) -> None:
    """An empty mask, one of another size, and none at all are refused by name when read."""
    pair(tmp_path, ".png", picture(0))
    if mask is not None:
        save(tmp_path / "ward/masks/cat/0.png", mask)
    source = ward(tmp_path, f'{CARD}masks = "masks/{{class}}/*.png"\n{more}\n')
    assert source.masks is not None
    with pytest.raises(DatasetError, match=reason) as caught:
        next(source.masks(np.array([0]), 1))
    assert "\n" not in str(caught.value)


def test_masks_are_told_apart(tmp_path: Path) -> None:
    """A card whose masks would be one file for two images, or no pattern of masks, is refused."""
    pair(tmp_path, ".png", picture(0))
    with pytest.raises(DatasetError, match="is the mask of two images"):
        ward(tmp_path, CARD + 'masks = "masks/*.png"\n')
    for masks, reason in (
        ("masks/{class}.png", "with one [*] for the name"),
        ("../*.png", "must be relative"),
        ("{person}/*.png", "may name what pattern names, found {person}"),
    ):
        with pytest.raises(DatasetError, match=reason):
            ward(tmp_path, f'{CARD}masks = "{masks}"\n')
