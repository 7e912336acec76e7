"""Archives in torchvision's layout, unpacked within bounds: known names, into one folder."""

import gzip
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

LARGEST = 1 << 30
"""Bytes of all that one archive unpacks to: five times the largest there is (CIFAR-10)."""


@dataclass
class _Bounded:
    """A stream that ends in an error after `left` bytes."""

    stream: BinaryIO
    left: int

    def read(self, size: int = -1) -> bytes:
        piece = self.stream.read(min(size, self.left + 1) if size >= 0 else self.left + 1)
        self.left -= len(piece)
        if self.left < 0:
            raise OSError(f"it unpacks to more than {LARGEST:,} bytes")
        return piece


def unpack(stream: BinaryIO, folder: Path, name: str, wanted: set[str]) -> None:
    """Write the wanted files of the archive `name`, a ``.gz`` or ``.tar.gz``, below `folder`.

    Parameters
    ----------
    stream : binary stream
        The archive.
    folder : Path
        Where the files go; the archive's own folders and links are not followed.
    name : str
        Its name relative to the data root; a plain ``.gz`` holds the file of its name without it.
    wanted : set of str
        Names of the files relative to the data root; what else is inside is left there.

    Raises
    ------
    OSError, EOFError, tarfile.TarError, zlib.error
        When it is damaged or unpacks to more than `LARGEST` bytes.
    """
    with gzip.GzipFile(fileobj=stream) as unzipped:
        bounded = _Bounded(cast(BinaryIO, unzipped), LARGEST)
        if not name.endswith(".tar.gz"):
            with (folder / name.removesuffix(".gz")).open("wb") as target:
                shutil.copyfileobj(bounded, target)
            return
        with tarfile.open(fileobj=cast(IO[bytes], bounded), mode="r|") as archive:
            for member in archive:
                plain = member.isreg() and not member.issparse()  # holes have bytes out of nothing
                content = archive.extractfile(member) if plain else None
                if content is not None and member.name in wanted:
                    (folder / member.name).parent.mkdir(parents=True, exist_ok=True)
                    with (folder / member.name).open("wb") as target:
                        shutil.copyfileobj(content, target)
