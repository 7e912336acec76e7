"""Sets of images of our making, written as a hospital would have them: an npz, or a folder of JPEG.

Images are pieces of one smooth random picture with the grain of a sensor, a few thousand at a time.
"""

import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from pipeline.arrays import ImageArray

HELD = 1 << 24
"""Bytes of pixels that are made at a time."""
ROAM = 512
"""Pixels over which the corners of pieces lie."""
GRAIN = 16
"""Levels of gray of the grain."""


def patches(n: int, side: int, *, rng: np.random.Generator) -> Iterator[ImageArray]:
    """Yield n gray images, (m, side, side) at a time."""
    from PIL import Image

    coarse = Image.fromarray(rng.integers(0, 200, (32, 32), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((ROAM + side, ROAM + side), Image.Resampling.BICUBIC))
    scene = np.minimum(smooth, 256 - GRAIN)  # with the grain on top it still is a byte
    pieces = np.lib.stride_tricks.sliding_window_view(scene, (side, side))
    most = max(1, HELD // side**2)
    for start in range(0, n, most):
        y, x = rng.integers(0, ROAM, (2, min(most, n - start)))
        chosen = pieces[y, x]
        yield chosen + rng.integers(0, GRAIN, chosen.shape, dtype=np.uint8)


def write_npz(root: Path, n: int, side: int, *, rng: np.random.Generator) -> Path:
    """Write an uncompressed npz that need not fit in memory, and return its card."""
    header = {"descr": "|u1", "fortran_order": False, "shape": (n, side, side)}
    with zipfile.ZipFile(root / "set.npz", "w") as archive:
        with archive.open("train_images.npy", "w", force_zip64=True) as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for images in patches(n, side, rng=rng):
                stream.write(images.tobytes())
        with archive.open("train_labels.npy", "w") as stream:
            np.lib.format.write_array(stream, np.zeros(n, np.uint8))
    return _card(root, 'kind = "npz"\nlocal = true\n')


def write_jpeg(root: Path, n: int, side: int, *, rng: np.random.Generator) -> Path:
    """Write a folder of JPEG, and return its card."""
    from PIL import Image

    folder = root / "set" / "all"
    folder.mkdir(parents=True)
    number = 0
    for images in patches(n, side, rng=rng):
        for image in images:
            Image.fromarray(image).save(folder / f"{number}.jpg", quality=90)
            number += 1
    return _card(root, f'kind = "folder"\nsize = {side}\n')


def _card(root: Path, keys: str) -> Path:
    card = root / "set.toml"
    card.write_text(f'{keys}channels = 1\nclasses = ["all"]\n', encoding="utf-8")
    return card


FORMS: Mapping[str, Callable[..., Path]] = {"npz": write_npz, "JPEG": write_jpeg}
"""Name of a form → its writer; called with the folder, n, the side and `rng`."""
