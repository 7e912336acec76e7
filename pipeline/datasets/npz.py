"""Images in a ``.npz`` of MedMNIST's layout, streamed: memory does not grow with the file.

The file holds ``train_images``, ``train_labels`` and the same for ``val`` and ``test``; a file of
one's own may leave splits out. Nothing is allocated on the word of a header alone: a header may
claim any number of rows, and a few megabytes of a zip unpack to gigabytes. So the member that a
header stands in must have exactly the bytes that it claims; the archive must have the compressed
bytes that the member claims; and deflate expands at most 1032 times.

Python's own reader of zips lists the members; inflating, which is most of the work, is done by
ISA-L, in half the time of zlib, and so is the CRC, in a quarter.
"""

import io
import itertools
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple, Self, cast

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from pydantic import model_validator as check

from covdp.arrays import ImageArray, LabelArray
from covdp.datasets.cards import Card, no_path
from covdp.datasets.download import find_own, obtain
from covdp.datasets.kind import DatasetKind
from covdp.datasets.library import Download
from covdp.datasets.listing import Faults, check_count, open_regular, wrap_errors
from covdp.datasets.source import (
    SPLITS,
    ImageSource,
    Rows,
    StreamReader,
    changed,
    check_extent,
    check_label_shape,
    check_labels,
    check_shape,
    regroup,
    split_codes,
)
from covdp.errors import DatasetError, has_extra
from covdp.toml import Record

EXPANSION = 1032
"""Most bytes that one byte of deflate can become: 258 for every 2 bits."""

DIRECTORY = 1 << 17
"""Bytes of the largest list of members that is read; six arrays need less than a kilobyte."""

MEMBER_BYTES = 1 << 20
"""Bytes of one read of a member: after each it waits for the interpreter, which others hold."""

LONGEST_HEADER = 10_000
"""Bytes of the longest header of an array, as NumPy has it."""

_READERS = {
    (1, 0): (2, np.lib.format.read_array_header_1_0),
    (2, 0): (4, np.lib.format.read_array_header_2_0),
}
"""Versions of ``.npy`` with plain fields: bytes of the header's length, and its reader."""


class Array(NamedTuple):
    """Header of one array.

    Attributes
    ----------
    shape : tuple of int
        Shape of the array.
    fortran : bool
        True if the first axis varies fastest.
    dtype : numpy.dtype
        Type of the numbers.
    """

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]


class Member:
    """The content of one member of a zip, unpacked as it is read; at its end its CRC is compared.

    Parameters
    ----------
    file : BinaryIO
        Stream of the zip, at the content of the member.
    info : zipfile.ZipInfo
        Entry of the zip's directory.

    Attributes
    ----------
    left : int
        Bytes that are still to come.
    """

    def __init__(self, file: BinaryIO, info: zipfile.ZipInfo) -> None:
        file.seek(info.header_offset)
        head = file.read(30)
        if not head.startswith(b"PK\x03\x04"):
            raise zipfile.BadZipFile(f"{info.filename} does not begin where the list says")
        file.seek(sum(struct.unpack("<HH", head[26:])), io.SEEK_CUR)  # its name, and what follows
        self.file, self.info = file, info
        self.left, self.packed, self.crc = info.file_size, info.compress_size, 0
        deflated = info.compress_type == zipfile.ZIP_DEFLATED
        # as zlib's, without a header
        self.inflater = isal_zlib.decompressobj(-zlib.MAX_WBITS) if deflated else None

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, none at the end alone.

        Parameters
        ----------
        size : int
            Largest number of bytes to read.
        """
        size, piece = min(size, self.left), b""
        while size and not piece:
            packed = self.inflater.unconsumed_tail if self.inflater else b""
            if not packed:
                packed = self.file.read(min(MEMBER_BYTES if self.inflater else size, self.packed))
                self.packed -= len(packed)
            piece = self.inflater.decompress(packed, size) if self.inflater else packed
            if not packed and not piece:
                raise EOFError(f"{self.info.filename} ends early")
        self.left -= len(piece)
        self.crc = isal_zlib.crc32(piece, self.crc)
        if not self.left and self.crc != self.info.CRC:
            raise zipfile.BadZipFile(f"Bad CRC-32 for {self.info.filename}")
        return piece

    def fill(self, content: NDArray[Any]) -> None:
        """Read as much as an array has room for, in pieces.

        Parameters
        ----------
        content : array
            Array to fill.
        """
        filled, room = 0, content.reshape(-1).view(np.uint8)
        while filled < len(room):
            piece = self.read(min(MEMBER_BYTES, len(room) - filled))
            assert piece  # `Members.open` compares the shape with the bytes that are left
            room[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            filled += len(piece)

    def array(self, header: Array) -> NDArray[Any]:
        """Return all that follows a header.

        Parameters
        ----------
        header : Array
            Header of the array, already read.
        """
        flat = np.empty(math.prod(header.shape), header.dtype)
        self.fill(flat)
        return flat.reshape(header.shape, order="F" if header.fortran else "C")


@dataclass(frozen=True)
class Members:
    """The arrays of an open file of `size` bytes, by name.

    Attributes
    ----------
    file : BinaryIO
        Stream of the file.
    archive : zipfile.ZipFile
        Directory of the zip.
    size : int
        Size of the file, in bytes.
    """

    file: BinaryIO
    archive: zipfile.ZipFile
    size: int

    def open(self, name: str) -> tuple[Array, Member]:
        """Open an array at its content, its header checked against the file.

        Parameters
        ----------
        name : str
            Name of the array.

        Returns
        -------
        tuple of Array, object
            Header and content of the array.
        """
        info = self._info(name)
        member = Member(self.file, info)
        header = _header(member, name)
        if member.left != header.dtype.itemsize * math.prod(header.shape):
            raise EOFError(f"{name} has {member.left} bytes for shape {header.shape}")
        return header, member

    def _info(self, name: str) -> zipfile.ZipInfo:
        """Return the entry of an array if the file can hold what it claims."""
        entries = [x for x in self.archive.infolist() if x.filename == f"{name}.npy"]
        if len(entries) != 1:
            raise ValueError(f"{len(entries)} members are named {name}.npy")
        (info,) = entries
        if info.flag_bits & 1:
            raise ValueError(f"{name} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} is compressed in a way that NumPy does not write")
        most = EXPANSION if info.compress_type == zipfile.ZIP_DEFLATED else 1
        ends = info.header_offset + info.compress_size
        if ends > self.size or info.file_size > most * info.compress_size:
            raise EOFError(f"{name} claims {info.file_size} bytes, which the file cannot hold")
        return info


@contextmanager
def open_members(path: Path) -> Iterator[Members]:
    """Open a file; whatever a damaged one makes the readers raise becomes one `DatasetError`.

    Parameters
    ----------
    path : Path
        Path of the ``.npz``.

    Yields
    ------
    Members
        Members of the file.
    """
    way = "download or save it again"
    with wrap_errors(path, ".npz", way, DatasetError), open_regular(path.resolve()) as stream:
        size = stream.seek(0, io.SEEK_END)
        with zipfile.ZipFile(cast(BinaryIO, _Sipped(stream))) as archive:
            yield Members(stream, archive, size)


def _header(member: Member, name: str) -> Array:
    """Return the header at the start of a ``.npy`` stream, of up to `LONGEST_HEADER` bytes."""
    version = np.lib.format.read_magic(cast(BinaryIO, member))
    if version not in _READERS:
        raise ValueError(f"{name} has .npy version {version}, not 1.0 or 2.0")
    width, reader = _READERS[version]
    length = member.read(width)
    if (longest := int.from_bytes(length, "little")) > LONGEST_HEADER:
        raise ValueError(f"{name} has a header of {longest} bytes")
    shape, fortran, dtype = reader(io.BytesIO(length + member.read(longest)))
    if not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"{name} has the shape {shape}")
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are never opened")
    return Array(shape, fortran and len(shape) > 1, dtype)


@dataclass
class _Sipped:
    """A file that gives at most `DIRECTORY` bytes at a time while its members are listed."""

    stream: BinaryIO

    def read(self, size: int = -1) -> bytes:
        return self.stream.read(min(size, DIRECTORY) if size >= 0 else DIRECTORY)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


BYTES_AT_ONCE = 1 << 23
"""Bytes of images that are unpacked at a time."""


class RemoteFile(Record):
    """One downloadable ``.npz``: its images' side in pixels, its address, its digest.

    Attributes
    ----------
    size : int
        Side of the images, in pixels.
    url : str
        Address of the file.
    md5 : str
        Digest of the file, in hexadecimal.
    """

    size: PositiveInt
    url: str = Field(pattern=r"^https?://\S+$")
    md5: str = Field(pattern=r"^[0-9a-f]{32}$")


class NpzCard(Card):
    """A card of kind ``npz``.

    Attributes
    ----------
    files : tuple of RemoteFile
        Files that can be downloaded, one for each size; the first is the default.
    findings : tuple of str
        Several labels an image, as an ``(n, len(findings))`` array of 0 and 1: an image without any
        finding is in class 0, an image with at least one in class 1.
    medmnist : str, optional
        The name of the class of ``medmnist`` that downloads the files, where that is installed.
    """

    volumetric: ClassVar[bool] = True
    official: ClassVar[str] = "official files, digest checked"

    files: tuple[RemoteFile, ...] = ()
    findings: tuple[str, ...] = ()
    medmnist: str | None = Field(None, pattern=r"^[A-Za-z0-9]+$")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that may be asked for, the default first."""
        return tuple(file.size for file in self.files)

    def place(self, root: Path, size: int | None) -> Path:
        """Return the path of the file of a size: `path`, ``NAME.npz`` or ``NAME_SIZE.npz``.

        Parameters
        ----------
        root : Path
            Data root.
        size : int or None
            Side of the images in pixels, for sets that exist in several; the card's own when None.
        """
        suffix = f"_{size}" if size and size != self.sizes[0] else ""
        return root / (self.path or f"{self.name}{suffix}.npz")

    def origin(self, *, ours: bool) -> str:
        """Describe the origin of the images.

        Parameters
        ----------
        ours : bool
            True for a card in ``data/``, False for one of the user's own.

        Returns
        -------
        str
            Sentence without its full stop.
        """
        if ours or self.own:
            return super().origin(ours=ours)
        return "files from the addresses in your card, compared with its digests"

    @check(mode="after")
    def _keys_fit(self) -> Self:
        if self.local == bool(self.files):
            raise ValueError("kind 'npz' needs either local = true or [[files]] to download")
        if self.size:
            raise ValueError("key 'size' is not for kind 'npz': the file has the size")
        if self.findings and len(self.classes) != 2:
            raise ValueError("findings need two classes: without and with a finding")
        return no_path(self) if self.files else self


def fetch_npz(card: NpzCard, root: Path, size: int | None, progress: bool) -> Path:
    """Return the file of a size, downloaded unless it is the user's own.

    MedMNIST's own class downloads it where ``covdp[sets]`` is installed, else pooch does. The class
    also reads a split, the smallest.

    Parameters
    ----------
    card : NpzCard
        Card of the dataset.
    root : Path
        Data root.
    size : int or None
        Side of the images in pixels, for sets that exist in several; the card's own when None.
    progress : bool
        True to show the progress of downloads.
    """
    target = card.place(root, size)
    for file in card.files:
        if file.size == size:
            options: dict[str, Any] = {"url": file.url, "known_hash": f"md5:{file.md5}"}
            options |= {"fname": target.name, "progressbar": True}
            download = Download("pooch", "retrieve", "path", options)
            if card.medmnist and has_extra("medmnist", "torch", "torchvision"):
                split = min(SPLITS, key=lambda name: getattr(card.images, name, 0))
                options = {"split": split, "size": size, "download": True}
                download = Download("medmnist", card.medmnist, "root", options)
            obtain(root, {target.name: file.md5}, download, file.url, progress=progress)
            return target
    return find_own(card.name, target, root)


def open_npz(card: NpzCard, path: Path, faults: Faults) -> ImageSource:
    """Open a ``.npz``: read all labels and the images' headers, no image.

    Parameters
    ----------
    card : NpzCard
        Card of the dataset.
    path : Path
        Path of the ``.npz``.
    faults : Faults
        Faults found so far, to which others are added.

    Returns
    -------
    ImageSource
        Opened dataset.

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
        raise DatasetError(
            f"{path}: images of all splits must have one size, found {sorted(different)}; save "
            "them so"
        )
    shape = different.pop()
    counts = {split: len(labels[split]) for split in splits}
    return ImageSource(
        card,
        shape,
        np.concatenate(list(labels.values())),
        np.concatenate([split_codes(split, n) for split, n in counts.items()]),
        StreamReader(partial(read_npz, path, shape, counts), (path,)),
    )


def read_npz(
    path: Path, shape: tuple[int, ...], counts: dict[str, int], rows: Rows, size: int
) -> Iterator[ImageArray]:
    """Read rows of the splits, one after another, each as many as it has.

    The whole member of a split is unpacked, so that its CRC is checked.

    Parameters
    ----------
    path : Path
        Path of the ``.npz``.
    shape : tuple of int
        Shape of one image.
    counts : dict of str to int
        Number of images of each split, in order.
    rows : Rows
        Rows of the images in the source.
    size : int
        Number of images of a block.

    Yields
    ------
    uint8 array, shape (m, *shape)
        Images, at most `size` at a time.
    """
    ends = list(itertools.accumulate(counts.values(), initial=0))
    cuts = itertools.pairwise(np.searchsorted(rows, np.array(ends, rows.dtype)).tolist())
    blocks = (
        block
        for (split, count), first, (low, high) in zip(counts.items(), ends, cuts, strict=False)
        if low < high
        for block in _blocks(path, (count, *shape), split, rows[low:high], first)
    )
    return regroup(blocks, size)


def _blocks(
    path: Path, shape: tuple[int, ...], split: str, rows: Rows, first: int
) -> Iterator[ImageArray]:
    """Yield the wanted rows of each block of the member; `first` is the first that it has."""
    total, *sides = shape
    step = max(1, BYTES_AT_ONCE // math.prod(sides))
    with open_members(path) as members:
        header, member = members.open(f"{split}_images")
        if header.shape != shape:
            raise changed(path)
        for start in range(0, total, step):
            block = np.empty((min(step, total - start), *sides), np.uint8)
            member.fill(block)
            ends = np.array((start, start + len(block)), np.int64) + first
            low, high = np.searchsorted(rows, ends.astype(rows.dtype))
            complete = high - low == len(block)
            yield block if complete else block[rows[low:high] - (first + start)]


def _splits(members: Members, path: Path) -> list[str]:
    """Return the splits that the file has, none beside them; images and labels come together."""
    files = (info.filename for info in members.archive.infolist())
    arrays = {name if "/" in name else name.removesuffix(".npy") for name in files}
    splits = [s for s in SPLITS if {f"{s}_images", f"{s}_labels"} & arrays]
    wanted = {f"{s}_{part}" for s in splits or ["train"] for part in ("images", "labels")}
    missing = wanted - arrays
    if missing or any(name.endswith(("_images", "_labels")) for name in arrays - wanted):
        fault = f"no array {', '.join(sorted(missing))}" if missing else "arrays of no split"
        names = [name if name.isprintable() else repr(name) for name in sorted(arrays)]
        more = f" and {len(names) - 9} more" if len(names) > 9 else ""
        raise DatasetError(
            f"{path} has {fault}; it holds "
            f"{', '.join(names[:9]) or 'nothing'}{more}: name them SPLIT_images and SPLIT_labels, "
            f"with SPLIT one of {', '.join(SPLITS)}"
        )
    return splits


def _shape(members: Members, split: str, card: NpzCard, path: Path) -> tuple[int, ...]:
    """Return the shape of a split's images, as many as the file can hold."""
    where = f"{path}, {split}_images"
    header, _ = members.open(f"{split}_images")
    check_shape(header.shape, header.dtype, card.channels, where, volumes=card.volumes)
    if header.fortran:
        raise DatasetError(f"{where}: stored column first; save np.ascontiguousarray(images)")
    check_extent(header.shape[1:], where)
    n = header.shape[0]
    check_count(n, members.size, f"{where}: {n:,} images", "real images")
    return header.shape


def _labels(members: Members, split: str, n: int, card: NpzCard, path: Path) -> LabelArray:
    """Return a split's labels; with findings, 1 where an image has at least one."""
    where = f"{path}, {split}_labels"
    header, member = members.open(f"{split}_labels")
    if not card.findings:
        check_label_shape(header.shape, header.dtype, n, where)
        return check_labels(member.array(header), n, len(card.classes), where)
    wanted = (n, len(card.findings))
    flags = None
    if header.shape == wanted and header.dtype.kind in "biuf":
        flags = member.array(header)
    if flags is None or not np.isin(flags, (0, 1)).all():
        raise DatasetError(
            f"{where}: findings must be 0 or 1 of shape {wanted}, found {header.dtype} of shape "
            f"{header.shape}{'' if flags is None else f', up to {flags.max()}'}; save them so"
        )
    return check_labels((flags != 0).any(axis=1), n, len(card.classes), where)


NPZ = DatasetKind(NpzCard, open_npz, fetch_npz)
"""Kind of dataset of MedMNIST's files, and of one's own like them."""
