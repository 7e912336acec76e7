"""Files as torchvision keeps them."""

import gzip
import struct
from pathlib import Path

import numpy as np

from covdp.arrays import ImageArray

COUNTS = {"train": 30, "t10k": 20}


def digits(part: str) -> ImageArray:
    """Return small random images of one part."""
    rng = np.random.default_rng(COUNTS[part])
    return rng.integers(0, 256, (COUNTS[part], 28, 28), dtype=np.uint8)


def idx(array: ImageArray) -> bytes:
    """Return an array in MNIST's format: magic number, sizes, bytes."""
    return struct.pack(f">{1 + array.ndim}I", 2048 + array.ndim, *array.shape) + array.tobytes()


def mnist(root: Path, name: str = "MNIST", *, packed: bool = False) -> dict[str, Path]:
    """Write the four files of a small MNIST; return their paths."""
    raw = root / name / "raw"
    raw.mkdir(parents=True)
    paths = {}
    for part, n in COUNTS.items():
        labels = np.arange(n, dtype=np.uint8) % 10
        for stem, array in (("images-idx3", digits(part)), ("labels-idx1", labels)):
            path = raw / f"{part}-{stem}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
            paths[f"{part}-{stem}"] = path
    return paths
