"""Malformed array files: refused in one line by what they claim, before anything is allocated."""

import io
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covdp.datasets import open_dataset
from covdp.errors import DatasetError

CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["a", "b"]\n'
MEMORY = 40 << 20
"""Bytes that refusing any file may take; the largest here would unpack to 3 GB and more."""
IMAGES = np.random.default_rng(0).integers(0, 256, (12, 6, 5), dtype=np.uint8)
LABELS = np.arange(12, dtype=np.uint8) % 2
HUGE = 3_000_000_000
Members = dict[str, bytes]


def npy(array: Any, **changes: Any) -> bytes:
    """Return an array as ``.npy``, with other words in its header."""
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": array.shape,
        **changes,
    }
    return raw(repr(header)) + array.tobytes()


def raw(header: str, version: tuple[int, int] = (1, 0), claimed: int | None = None) -> bytes:
    """Return the start of a ``.npy`` with this text for a header."""
    text = header.encode("latin1") + b"\n"
    length = len(text) if claimed is None else claimed
    width = "<H" if version == (1, 0) else "<I"
    return b"\x93NUMPY" + bytes(version) + struct.pack(width, length) + text


def members(**changes: bytes | None) -> Members:
    """Return the members of a good file, some of them changed or left out."""
    good = {"train_images": npy(IMAGES), "train_labels": npy(LABELS)}
    return {f"{k}.npy": v for k, v in {**good, **changes}.items() if v is not None}


def packed(found: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip of members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in found.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def labels(**changes: Any) -> bytes:
    """Return a file whose labels have another header."""
    return packed(members(train_labels=npy(LABELS, **changes)))


def images(**changes: Any) -> bytes:
    """Return a file whose images have another header."""
    return packed(members(train_images=npy(IMAGES, **changes)))


def bomb(name: str, header: str, size: int) -> bytes:
    """Return a good zip but for one member, which is zeros, packed to a thousandth of `size`."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = raw(header)
    first = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    zeros = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)  # the same each time
    rest = packer.compress(bytes(size % (1 << 20))) + packer.flush()
    content = packed(members(**{name: first + zeros * (size >> 20) + rest}), zipfile.ZIP_STORED)
    member = f"{name}.npy".encode()
    content = entry(content, 10, struct.pack("<H", zipfile.ZIP_DEFLATED), member)
    return entry(content, 24, struct.pack("<I", len(start) + size), member)


def entry(content: bytes, offset: int, value: bytes, member: bytes = b"train_labels.npy") -> bytes:
    """Return a zip with bytes changed in the entry of a member in the list at its end."""
    place = content.rindex(member) - 46
    assert content[place : place + 4] == b"PK\1\2"
    return content[: place + offset] + value + content[place + offset + len(value) :]


def renamed(old: str, new: str) -> bytes:
    """Return a file with a member of another name."""
    found = members()
    found[new] = found.pop(old)
    return packed(found)


def twice() -> bytes:
    """Return a file with two members of one name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members().items():
            archive.writestr(name, content)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("train_labels.npy", npy(1 - LABELS))
    return buffer.getvalue()


def zip64(size: int) -> bytes:
    """Return a file whose list says, in the fields of zip64, that the labels have `size` bytes."""
    content = packed(members())
    extra = struct.pack("<HHQ", 1, 8, size)
    found = entry(content, 24, b"\xff" * 4)
    found = entry(found, 30, struct.pack("<H", len(extra)))
    end = found.rindex(b"train_labels.npy") + len("train_labels.npy")
    tail = bytearray(found[end:])
    (length,) = struct.unpack_from("<I", tail, 12)
    struct.pack_into("<I", tail, 12, length + len(extra))
    return found[:end] + extra + bytes(tail)


def nested() -> bytes:
    """Return a file whose header is a tuple in a tuple, thousands deep."""
    return packed(members(train_labels=raw("(" * 4000 + ")" * 4000) + LABELS.tobytes()))


def many() -> bytes:
    """Return a file with a list of thousands of members."""
    found = packed(members())
    start, end = found.index(b"PK\1\2"), found.rindex(b"PK\5\6")
    listed = found[start:end] * 1_500
    tail = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 3_000, 3_000, len(listed), start, 0)
    return found[:start] + listed + tail


BIG = repr({"descr": "|u1", "fortran_order": False, "shape": (HUGE,)})
ROWS = repr({"descr": "|u1", "fortran_order": False, "shape": (HUGE, 1, 1)})
ONE = repr({"descr": "|u1", "fortran_order": False, "shape": (1, 50_000, 60_000)})

FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "labels claim 10^12 rows": (lambda: labels(shape=(10**12,)), "bytes for shape"),
    "images claim 10^12 rows": (lambda: images(shape=(10**12, 6, 5)), "bytes for shape"),
    "labels overflow": (lambda: labels(shape=(2**62, 8)), "bytes for shape"),
    "images overflow to their size": (lambda: images(shape=(2**64 + 12, 6, 5)), "bytes for"),
    "images overflow to zero": (lambda: images(shape=(2**32, 2**32, 2)), "bytes for shape"),
    "negative rows": (lambda: images(shape=(-12, 6, 5)), "has the shape"),
    "two negative sides": (lambda: images(shape=(12, -6, -5)), "has the shape"),
    "true for a side": (lambda: labels(shape=(12, True)), "has the shape"),
    "no pixel": (lambda: images(shape=(0, 0, 5)), "bytes for shape"),
    "images of no pixel": (
        lambda: packed(members(train_images=npy(np.zeros((12, 0, 5), np.uint8)))),
        "1 to .* bytes, found 0",
    ),
    "a side that is a float": (lambda: labels(shape=(12.0,)), "not a readable"),
    "no shape": (lambda: labels(shape=None), "not a readable"),
    "a scalar": (lambda: packed(members(train_labels=npy(np.uint8(1)))), "must be 12 integers"),
    "objects": (lambda: labels(descr="|O"), "Python objects"),
    "objects in fields": (lambda: labels(descr=[("x", "|O")]), "Python objects"),
    "fields": (lambda: labels(descr=[("x", "|u1")]), "must be 12 integers"),
    "giant items": (lambda: labels(descr="|V2000000000"), "bytes for shape"),
    "empty items": (lambda: labels(descr="|S0", shape=(10**12,)), "bytes for shape"),
    "text": (lambda: labels(descr="|S1"), "must be 12 integers"),
    "dates": (
        lambda: packed(members(train_labels=npy(np.zeros(12, "M8[s]")))),
        "must be 12 integers",
    ),
    "no dtype": (lambda: labels(descr="zebra"), "not a readable"),
    "column first": (lambda: images(fortran_order=True), "column first"),
    "a header that is code": (
        lambda: packed(members(train_labels=raw("__import__('os').getpid()"))),
        "not a readable",
    ),
    "a header thousands deep": (nested, "not a readable"),
    "a header of 4 GB": (
        lambda: packed(members(train_labels=raw("{}", (2, 0), claimed=2**32 - 1))),
        "header of 4294967295 bytes",
    ),
    "version 3": (
        lambda: packed(members(train_labels=npy(LABELS).replace(b"\x93NUMPY\1", b"\x93NUMPY\3"))),
        "version",
    ),
    "no magic": (lambda: packed(members(train_labels=b"nothing")), "not a readable"),
    "labels unpack to 3 GB": (
        lambda: bomb("train_labels", BIG, HUGE),
        "must be 12 integers",
    ),
    "images unpack to 3 GB": (
        lambda: bomb("train_images", ROWS, HUGE),
        "more than the file has bytes",
    ),
    "one image of 3 GB": (
        lambda: bomb("train_images", ONE, HUGE),
        "1 to 134,217,728 bytes",
    ),
    "images in a folder": (
        lambda: renamed("train_images.npy", "a/train_images.npy"),
        "has no array train_images; it holds a/train_images.npy, train_labels",
    ),
    "labels above": (
        lambda: renamed("train_labels.npy", "../train_labels.npy"),
        "has no array train_labels",
    ),
    "labels at the root": (
        lambda: renamed("train_labels.npy", "/train_labels.npy"),
        "has no array train_labels",
    ),
    "another end": (lambda: renamed("train_labels.npy", "train_labels"), "0 members are named"),
    "a name with a line": (
        lambda: renamed("train_labels.npy", "train_\nlabels\x1b[2J.npy"),
        "has no array train_labels",
    ),
    "two of one name": (twice, "2 members are named train_labels.npy"),
    "encrypted": (lambda: entry(packed(members()), 8, b"\1\0"), "train_labels is encrypted"),
    "packed by bzip2": (lambda: packed(members(), zipfile.ZIP_BZIP2), "does not write"),
    "packed by LZMA": (lambda: packed(members(), zipfile.ZIP_LZMA), "does not write"),
    "packed by nobody": (lambda: entry(packed(members()), 10, b"\x63\0"), "does not write"),
    "stored larger than its bytes": (
        lambda: entry(packed(members(), zipfile.ZIP_STORED), 24, struct.pack("<I", HUGE)),
        "the file cannot hold",
    ),
    "larger than deflate can make": (
        lambda: entry(packed(members()), 24, struct.pack("<I", HUGE)),
        "the file cannot hold",
    ),
    "compressed bytes beyond the end": (
        lambda: entry(packed(members()), 20, struct.pack("<I", HUGE)),
        "the file cannot hold",
    ),
    "zip64 of an exabyte": (lambda: zip64(2**60), "the file cannot hold"),
    "a member before the file": (
        lambda: entry(packed(members()), 42, struct.pack("<I", 2**31)),
        "the file cannot hold",
    ),
    "a list of thousands": (many, "not a readable"),
    "only the end of a zip": (lambda: packed(members())[-22:], "not a readable"),
    "a zip in a zip": (lambda: packed({"train.npz": packed(members())}), "has no array"),
}


@pytest.mark.parametrize(("make", "words"), FILES.values(), ids=FILES)
def test_malformed_files_are_refused_without_memory(
    tmp_path: Path, make: Callable[[], bytes], words: str
) -> None:
    """Each file is one line with the rule it breaks, and takes no memory to be refused."""
    (tmp_path / "toy.npz").write_bytes(make())
    (tmp_path / "toy.toml").write_text(CARD)
    tracemalloc.start()
    try:
        with pytest.raises(DatasetError, match=words) as caught:
            list(open_dataset(tmp_path / "toy.toml", tmp_path).chunks())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_good_files_of_any_writer_are_read(tmp_path: Path) -> None:
    """Black images, which deflate packs best, and any order and width of labels are no attack."""
    (tmp_path / "toy.toml").write_text(CARD)
    black = np.zeros((5000, 28, 28), np.uint8)
    for dtype in ("u1", "<i8", ">i4", "?"):
        for shape in ((-1,), (-1, 1)):
            wanted = (np.arange(5000) % 2).astype(dtype).reshape(shape)
            np.savez_compressed(tmp_path / "toy.npz", train_images=black, train_labels=wanted)
            source = open_dataset(tmp_path / "toy.toml", tmp_path)
            assert sum(map(len, source.chunks())) == 5000
            np.testing.assert_array_equal(source.labels(), wanted.ravel().astype(int))


def test_chunks_have_a_bound_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no number of images is asked for, large images come few at a time."""
    (tmp_path / "toy.toml").write_text(CARD)
    (tmp_path / "toy.npz").write_bytes(packed(members()))
    source = open_dataset(tmp_path / "toy.toml", tmp_path)
    assert [len(chunk) for chunk in source.chunks()] == [12]
    monkeypatch.setattr("covdp.datasets.source.CHUNK_BYTES", 5 * 30 + 29)
    assert [len(chunk) for chunk in source.chunks()] == [5, 5, 2]
    assert [len(chunk) for chunk in source.chunks(size=7)] == [7, 5]
