"""Images to coordinates, against what unpacking or decoding the same images alone reaches."""

import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import skimage.data
from PIL import Image

from covdp.arrays import ImageArray
from covdp.datasets import ImageSource, open_dataset
from covdp.geometry import MANIFOLDS
from covdp.parallel import cores
from covdp.store import fill, find_place, make_plan

ROUNDS = 5
SMALL, LARGE = 100_000, 400
"""Images of 28×28 pixels in an npz, and JPEGs of 512×512."""
CARD = 'channels = 1\nclasses = ["one", "two"]\n'


def patches(n: int, side: int, *, rng: np.random.Generator) -> ImageArray:
    """Return n gray pieces of a real picture of a retina, with the grain of a sensor.

    Without it they would unpack faster than any real set: PneumoniaMNIST has 0.9 of its bytes left.
    """
    picture = np.asarray(Image.fromarray(skimage.data.retina()).convert("L"))
    corners = rng.integers(200, 1200 - side, (n, 2))
    pieces = np.stack([picture[y : y + side, x : x + side] for y, x in corners])
    return pieces + rng.integers(0, 16, pieces.shape, dtype=np.uint8)


def small(root: Path, *, rng: np.random.Generator) -> Path:
    """Write an npz, compressed as MedMNIST's are, and return its card."""
    labels = np.arange(SMALL) % 2
    images = patches(SMALL, 28, rng=rng)
    np.savez_compressed(root / "small.npz", train_images=images, train_labels=labels)
    (root / "small.toml").write_text(f'kind = "npz"\nlocal = true\n{CARD}')
    return root / "small.toml"


def large(root: Path, *, rng: np.random.Generator) -> Path:
    """Write a folder of JPEGs, to be read at 224 pixels, and return its card."""
    for number, image in enumerate(patches(LARGE, 512, rng=rng)):
        place = root / "large" / ("one" if number % 2 else "two")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number}.jpg", quality=90)
    (root / "large.toml").write_text(f'kind = "folder"\nsize = 224\n{CARD}')
    return root / "large.toml"


def coordinates(source: ImageSource) -> None:
    """Describe all images into a new store, read them back and take logarithms."""
    manifold = MANIFOLDS["spd-log-euclidean"](k=5)
    with tempfile.TemporaryDirectory() as folder:
        place = find_place(Path(folder) / "store")
        stored = fill(make_plan(source, descriptor="oct5"), place).stored
        for label in range(len(source.classes)):
            for points in stored.records(label):
                manifold.log(manifold.origin, points)


def unpack(root: Path) -> None:
    """Unpack the images of the npz by NumPy alone."""
    with np.load(root / "small.npz") as arrays:
        arrays["train_images"]


def twice(root: Path) -> float:
    """Return how much more two threads unpack than one, with nothing between them."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    with ThreadPoolExecutor(2) as pool:
        for _ in range(ROUNDS):
            for count, taken in seconds.items():
                start = time.perf_counter()
                for done in [pool.submit(unpack, root) for _ in range(count)]:
                    done.result()
                taken.append((time.perf_counter() - start) / count)
    return statistics.median(seconds[1]) / statistics.median(seconds[2])


def read(source: ImageSource) -> None:
    """Unpack them by what we read them with, which inflates in half the time."""
    for _ in source.chunks():
        pass


def decode(files: list[Path]) -> None:
    """Decode and resize the JPEGs on all cores, by Pillow alone."""

    def one(file: Path) -> ImageArray:
        with Image.open(file) as image:
            return np.asarray(image.convert("L").resize((224, 224), Image.Resampling.BICUBIC))

    with ThreadPoolExecutor(cores()) as pool:
        for _ in pool.map(one, files):
            pass


def row(
    name: str, n: int, ours: Callable[[], None], peer: Callable[[], None], target: float
) -> dict[str, Any]:
    """Measure in turns, so that a busy moment of the machine meets both; medians of the rounds."""
    ours()
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(ROUNDS):
        for key, run_once in (("ours", ours), ("peer", peer)):
            start = time.perf_counter()
            run_once()
            seconds[key].append(time.perf_counter() - start)
    mine, theirs = (n / statistics.median(seconds[key]) for key in ("ours", "peer"))
    return {
        "name": name,
        "ours": mine,
        "peer": theirs,
        "unit": "images/s",
        "ratio": mine / theirs,
        "target": target,
    }


def run() -> list[dict[str, Any]]:
    """Return the rows; ratio = images a second of ours over those of reading alone."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        npz, jpeg = (open_dataset(make(root, rng=rng), root) for make in (small, large))
        files = sorted((root / "large").glob("*/*.jpg"))
        return [
            row(
                f"npz of {SMALL:,} images 28×28 to coordinates, against NumPy unpacking alone",
                SMALL,
                lambda: coordinates(npz),
                lambda: unpack(root),
                0.7,
            ),
            {
                "name": "NumPy unpacking it twice at once, and once: what a second core is worth",
                "ours": None,
                "peer": None,
                "unit": "",
                "ratio": twice(root),
            },
            row(
                f"npz of {SMALL:,} images 28×28 to coordinates, against our reader alone",
                SMALL,
                lambda: coordinates(npz),
                lambda: read(npz),
                0.7,
            ),
            row(
                f"{LARGE} JPEGs 512×512 at 224 to coordinates, against decoding alone",
                LARGE,
                lambda: coordinates(jpeg),
                lambda: decode(files),
                0.8,
            ),
        ]


if __name__ == "__main__":
    for line in run():
        print(line)
