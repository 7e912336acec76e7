"""Folders of PNG and JPEG: the pixels of the files, in disjoint classes, or one clear error."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.arrays import ImageArray
from pipeline.datasets import ImageSource, open_dataset
from pipeline.errors import DatasetError

CARD = 'kind = "folder"\nchannels = 1\nclasses = ["cat", "dog"]\n'


def picture(seed: int, *shape: int) -> ImageArray:
    """Return random pixels."""
    return np.random.default_rng(seed).integers(0, 256, shape or (6, 5), dtype=np.uint8)


def save(path: Path, pixels: ImageArray) -> None:
    """Write an image file in new folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


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


def test_what_a_crop_leaves_is_said(tmp_path: Path) -> None:
    """The share of pixels that central squares keep is a fact of the source, if it is not all."""
    save(tmp_path / "ward/cat/0.png", picture(0, 10, 20))
    save(tmp_path / "ward/dog/0.png", picture(1, 30, 10))
    (fact,) = ward(tmp_path, CARD + "size = 5\n").facts
    assert "central square, which keeps 40% of their pixels" in fact
    assert ward(tmp_path, CARD + 'size = 5\nfit = "pad"\n').facts == ()
    with pytest.raises(DatasetError, match="'fit' needs size"):
        ward(tmp_path, CARD + 'fit = "pad"\n')
    save(tmp_path / "ward/cat/0.png", picture(0, 5, 5))
    save(tmp_path / "ward/dog/0.png", picture(1, 7, 7))
    assert ward(tmp_path, CARD + "size = 5\n").facts == ()


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
        ("size", r"images must have one size, found \(6, 5\) in 0.png and \(5, 6\) in 1.png; give"),
        ("sixteen", "1.png: images must have 8 bits a channel, found mode I;16"),
        ("text", "1.png is not a readable image"),
        ("cut", "1.png is not a readable image"),
        ("class", "class 'dog' has no PNG or JPEG image at '{class}/\\*'"),
        ("two", "0.png lies in two classes or splits"),
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
        save(root / "dog/1.png", picture(1).astype(np.uint16) * 256)  # type: ignore[arg-type]
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
