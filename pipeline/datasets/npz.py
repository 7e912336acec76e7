"""Images in a ``.npz`` of MedMNIST's layout, streamed: memory does not grow with the file.

The file holds ``train_images``, ``train_labels`` and the same for ``val`` and ``test``; a file of
one's own may leave splits out. What a header claims is compared with what the file can hold before
anything of that size is allocated (`members`).
"""

import itertools
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar, Self
from zipfile import ZipExtFile

import numpy as np
from pydantic import Field, PositiveInt
from pydantic import model_validator as check

from pipeline.arrays import ImageArray, LabelArray
from pipeline.datasets.cards import LARGEST as LARGEST_FILE
from pipeline.datasets.cards import Card
from pipeline.datasets.download import Asking, find_own, obtain, present
from pipeline.datasets.members import PIECE, Array, Members, open_members
from pipeline.datasets.reading import InOneStream, Rows, regroup
from pipeline.datasets.shapes import check_extent, check_label_shape, check_labels, check_shape
from pipeline.datasets.source import SPLITS, ImageSource, split_codes
from pipeline.errors import DatasetError
from pipeline.toml import Record

BLOCK = 1 << 23
"""Bytes of images that are unpacked at a time."""
MANY = 1_000_000
"""Images that any file may have; a file of more has a byte or more for each, or it is no such."""


class RemoteFile(Record):
    """One downloadable ``.npz``: its images' side in pixels, its address, its digest."""

    size: PositiveInt
    url: str = Field(pattern=r"^https?://\S+$")
    md5: str = Field(pattern=r"^[0-9a-f]{32}$")


class NpzCard(Card):
    """What a card of kind ``npz`` says.

    Attributes
    ----------
    files : tuple of RemoteFile
        What can be downloaded, one file for each size; the first is the default.
    findings : tuple of str
        Several labels an image, as an ``(n, len(findings))`` array of 0 and 1: an image without any
        finding is in class 0, an image with at least one in class 1.
    """

    volumetric: ClassVar[bool] = True

    files: tuple[RemoteFile, ...] = ()
    findings: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that may be asked for, the default first."""
        return tuple(file.size for file in self.files)

    def most_bytes(self, side: int) -> int:
        """Return how many bytes a file of these images may have: twice what they have unpacked."""
        if self.images is None:
            return LARGEST_FILE
        an_image = side ** (3 if self.volumes else 2) * self.channels + 8 * max(
            1, len(self.findings)
        )
        return 2 * self.images.total * an_image + (1 << 20)

    def place(self, root: Path, size: int | None) -> Path:
        """Return where the file of a size lies: `path`, ``NAME.npz`` or ``NAME_SIZE.npz``."""
        suffix = f"_{size}" if size and size != self.sizes[0] else ""
        return root / (self.path or f"{self.name}{suffix}.npz")

    @property
    def own(self) -> bool:
        """Whether the files are the user's own."""
        return self.local

    @check(mode="after")
    def _keys_fit(self) -> Self:
        if self.local == bool(self.files):
            raise ValueError("kind 'npz' needs either local = true or [[files]] to download")
        if self.size:
            raise ValueError("key 'size' is not for kind 'npz': the file has the size")
        if self.path and self.files:
            raise ValueError("key 'path' is for a folder or for an npz with local = true")
        if self.findings and len(self.classes) != 2:
            raise ValueError("findings need two classes: without and with a finding")
        return self


def fetch_npz(card: NpzCard, root: Path, size: int | None, asking: Asking) -> Path:
    """Return the file of a size, downloaded unless it is the user's own."""
    target = card.place(root, size)
    for file in card.files:
        if file.size == size:
            most = card.most_bytes(file.size)
            return obtain(file.url, target, file.md5, most=most, **asking._asdict())
    return find_own(card.name, target, root)


def has_npz(card: NpzCard, root: Path, size: int | None) -> bool:
    """Tell whether the file of a size is on disk."""
    return present(card.place(root, size))


def origin_of_npz(card: NpzCard, ours: bool) -> str:
    """Say where the images come from."""
    if card.local:
        return "files of your own, no digest to check"
    if not ours:
        return "files from the addresses in your card, compared with its digests"
    return "official files, digest checked"


def open_npz(card: NpzCard, path: Path) -> ImageSource:
    """Open a ``.npz``: read all labels and the images' headers, no image.

    Raises
    ------
    DatasetError
        When the file is damaged or claims more than it can hold, an array is missing or has a
        wrong dtype, shape or label.
    """
    with open_members(path) as members:
        splits = _splits(members, path)
        shapes = {split: _shape(members, split, card, path) for split in splits}
        labels = {split: _labels(members, split, shapes[split][0], card, path) for split in splits}
    if len(different := {shape[1:] for shape in shapes.values()}) != 1:
        raise DatasetError(f"{path}: images of all splits must have one size, found {different}")
    shape = different.pop()
    counts = {split: len(labels[split]) for split in splits}
    return ImageSource(
        card,
        shape,
        np.concatenate(list(labels.values())),
        np.concatenate([split_codes(split, n) for split, n in counts.items()]),
        InOneStream(partial(read_npz, path, shape, counts), (path,)),
    )


def read_npz(
    path: Path, shape: tuple[int, ...], counts: dict[str, int], rows: Rows, size: int
) -> Iterator[ImageArray]:
    """Read rows of the splits, one after another, each as many as it has.

    The whole member of a split is unpacked, so that its CRC is checked.
    """
    ends = list(itertools.accumulate(counts.values(), initial=0))
    cuts = itertools.pairwise(np.searchsorted(rows, np.array(ends, rows.dtype)).tolist())
    blocks = (
        block
        for split, first, (low, high) in zip(counts, ends, cuts, strict=False)
        if low < high
        for block in _blocks(path, shape, split, rows[low:high], first)
    )
    return regroup(blocks, size)


def _blocks(
    path: Path, shape: tuple[int, ...], split: str, rows: Rows, first: int
) -> Iterator[ImageArray]:
    """Yield the wanted rows of each block of the member; `first` is the first that it has."""
    step = max(1, BLOCK // math.prod(shape))
    with open_members(path) as members, members.opened(f"{split}_images") as (found, stream):
        if found.shape[1:] != shape:
            raise EOFError(f"{split}_images changed while it was read")
        total = found.shape[0]
        for start in range(0, total, step):
            block = np.empty((min(step, total - start), *shape), np.uint8)
            _fill(block.data.cast("B"), stream, f"{split}_images")
            ends = np.array((start, start + len(block)), np.int64) + first
            low, high = np.searchsorted(rows, ends.astype(rows.dtype))
            whole = high - low == len(block)
            yield block if whole else block[rows[low:high] - (first + start)]


def _fill(content: memoryview, stream: ZipExtFile, name: str) -> None:
    """Read as much as there is room for, in pieces: a zip joins long reads at twice the cost."""
    filled = 0
    while filled < len(content):
        piece = stream.read1(min(PIECE, len(content) - filled))
        if not piece:
            raise EOFError(f"{name} ends early")
        content[filled : filled + len(piece)] = piece
        filled += len(piece)


def _splits(members: Members, path: Path) -> list[str]:
    """Return the splits that the file has; images and labels come together."""
    found = set(members.names)
    splits = [s for s in SPLITS if {f"{s}_images", f"{s}_labels"} & found]
    missing = {f"{s}_{part}" for s in splits or ["train"] for part in ("images", "labels")} - found
    if missing:
        held = [name if name.isprintable() else repr(name) for name in sorted(found)]
        more = f" and {len(held) - 9} more" if len(held) > 9 else ""
        raise DatasetError(
            f"{path} has no array {', '.join(sorted(missing))}; it holds "
            f"{', '.join(held[:9]) or 'nothing'}{more}: name them SPLIT_images and SPLIT_labels, "
            f"with SPLIT one of {', '.join(SPLITS)}"
        )
    return splits


def _shape(members: Members, split: str, card: NpzCard, path: Path) -> tuple[int, ...]:
    """Return the shape of a split's images, as many as the file can hold."""
    where = f"{path}, {split}_images"
    found = members.header(f"{split}_images")
    check_shape(found.shape, found.dtype, card.channels, where, volumes=card.volumes)
    if found.fortran:
        raise DatasetError(f"{where}: stored column first; save np.ascontiguousarray(images)")
    check_extent(found.shape[1:], where)
    n = found.shape[0]
    if n > max(MANY, members.size):
        raise DatasetError(
            f"{where}: {n:,} images are more than the file has bytes ({members.size:,}), so it "
            "unpacks to nothing but repeats; save real images"
        )
    return found.shape


def _labels(members: Members, split: str, n: int, card: NpzCard, path: Path) -> LabelArray:
    """Return a split's labels; with findings, 1 where an image has at least one."""
    where = f"{path}, {split}_labels"
    found = members.header(f"{split}_labels")
    wanted = (n, len(card.findings))
    if card.findings and (found.shape != wanted or found.dtype.kind not in "biuf"):
        raise DatasetError(_not_findings(where, wanted, found))
    if not card.findings:
        check_label_shape(found.shape, found.dtype, n, where)
    labels = members.read(f"{split}_labels")
    if card.findings:
        if not np.isin(labels, (0, 1)).all():
            raise DatasetError(_not_findings(where, wanted, found))
        labels = (labels != 0).any(axis=1, keepdims=True)
    return check_labels(labels, n, len(card.classes), where)


def _not_findings(where: str, wanted: tuple[int, ...], found: Array) -> str:
    return (
        f"{where}: findings must be 0 or 1 of shape {wanted}, found {found.dtype} of shape "
        f"{found.shape}"
    )
