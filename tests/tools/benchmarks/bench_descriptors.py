"""Images described per second, against a loop over images and against SciPy on whole stacks."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image
from scipy import ndimage
from skimage import filters

from covdp.arrays import FloatArray, ImageArray
from covdp.descriptors import describe
from covdp.parallel import limited_to

ETA = 1e-6
ROUNDS = 7


def loop(images: ImageArray) -> FloatArray:
    """Describe image by image: scikit-image's Sobel filters, SciPy's 5×5 filters, np.cov."""
    second = np.outer([1, 4, 6, 4, 1], [1, 0, -2, 0, 1]) / 32
    out = np.empty((len(images), 5, 5))
    for image, matrix in zip(images.astype(np.float64), out, strict=True):
        maps = [image, filters.sobel_v(image), filters.sobel_h(image)]
        maps += [ndimage.correlate(image, shape, mode="reflect") for shape in (second, second.T)]
        matrix[:] = np.cov(np.abs(np.reshape(maps, (5, -1))), bias=True) + ETA * np.eye(5)
    return out


def stack(images: ImageArray) -> FloatArray:
    """Describe all at once: separable SciPy filters over the stack, one einsum."""
    values = images.astype(np.float64)

    def filtered(down: list[int], across: list[int], scale: int) -> FloatArray:
        part = ndimage.correlate1d(values, np.array(down) / scale, axis=1, mode="reflect")
        return np.asarray(np.abs(ndimage.correlate1d(part, across, axis=2, mode="reflect")))

    smooth, slope = [1, 2, 1], [1, 0, -1]
    broad, bend = [1, 4, 6, 4, 1], [1, 0, -2, 0, 1]
    maps = [values, filtered(smooth, slope, 4), filtered(slope, smooth, 4)]
    maps += [filtered(broad, bend, 32), filtered(bend, broad, 32)]
    phi = np.stack(maps, axis=1).reshape(len(images), 5, -1)
    phi -= phi.mean(axis=2, keepdims=True)
    return np.einsum("nap,nbp->nab", phi, phi, optimize=True) / phi.shape[2] + ETA * np.eye(5)


def rate(function: Callable[[ImageArray], FloatArray], images: ImageArray) -> float:
    """Return images a second of one call."""
    start = time.perf_counter()
    function(images)
    return len(images) / (time.perf_counter() - start)


def volumes() -> list[dict[str, Any]]:
    """Return voxels a second of `vol7` beside pixels a second of `oct5`: one thread, then two."""
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (80, 224, 224), dtype=np.uint8)
    rows = []
    for count in (1, 2):
        for side, n in ((28, 160), (64, 14)):
            deep = rng.integers(0, 256, (n, side, side, side), dtype=np.uint8)
            found: dict[str, list[float]] = {"oct5": [], "vol7": []}
            with limited_to(count):
                for _ in range(ROUNDS):
                    for name, images in (("oct5", pictures), ("vol7", deep)):
                        start = time.perf_counter()
                        describe(images, name)
                        found[name].append(images.size / (time.perf_counter() - start))
            ours, peer = (statistics.median(found[name]) for name in ("vol7", "oct5"))
            rows.append(
                {
                    "name": f"vol7 at {side}³ a voxel, oct5 at 224² a pixel, threads: {count}",
                    "ours": ours,
                    "peer": peer,
                    "unit": "a second",
                    "ratio": ours / peer,
                    "target": 0.25,
                }
            )
    return rows


def grids() -> list[dict[str, Any]]:
    """Return pixels a second of grids, in CPU time of one thread, beside `oct5` and a decoder.

    The decoder is Pillow's, of smooth pictures as JPEG of quality 90.
    """
    rng, rows = np.random.default_rng(0), []
    for side, n in ((28, 1280), (224, 20)):
        rough = rng.normal(128.0, 300.0, (n, side, side, 3))
        colour = np.clip(ndimage.gaussian_filter(rough, (0, 2, 2, 0)), 0, 255).astype(np.uint8)
        gray = np.ascontiguousarray(colour[..., 0])
        works: dict[str, Callable[[], Any]] = {
            name: partial(describe, images, name)
            for name, images in (("oct5", gray), ("grid9", gray), ("grid11", colour))
        }
        works["JPEG"] = partial(decode, [packed(image) for image in gray])
        works["JPEG in colour"] = partial(decode, [packed(image) for image in colour])
        found: dict[str, list[float]] = {name: [] for name in works}
        with limited_to(1):
            for _ in range(ROUNDS):
                for name, work in works.items():
                    start = time.thread_time()
                    work()
                    found[name].append(gray.size / (time.thread_time() - start))
        speed = {name: statistics.median(rates) for name, rates in found.items()}
        rows += [
            {
                "name": f"{name} at {side}² a pixel, {peer} a pixel, one thread's CPU",
                "ours": speed[name],
                "peer": speed[peer],
                "unit": "a second",
                "ratio": speed[name] / speed[peer],
                **({"target": 1.0} if peer != "oct5" else {}),
            }
            for name, image in (("grid9", "JPEG"), ("grid11", "JPEG in colour"))
            for peer in ("oct5", image)
        ]
    return rows


def packed(image: ImageArray) -> bytes:
    """Return an image as JPEG."""
    stream = BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def decode(files: list[bytes]) -> None:
    """Decode images."""
    for file in files:
        Image.open(BytesIO(file)).load()


def run() -> list[dict[str, Any]]:
    """Measure in turns, so that a busy moment of the machine meets all; medians of the rounds."""
    images = np.random.default_rng(0).integers(0, 256, (100_000, 28, 28), dtype=np.uint8)
    peers: dict[str, tuple[Callable[[ImageArray], FloatArray], int, int]] = {
        "a scikit-image loop": (loop, 1000, 75),
        "SciPy on stacks of 1,000": (stack, 1000, 25),
    }
    for function, count, _ in peers.values():
        wanted = describe(images[:count])
        np.testing.assert_allclose(function(images[:count]), wanted, rtol=1e-9, atol=1e-9)
    ours: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(ROUNDS):
        ours.append(rate(describe, images))
        for name, (function, count, _) in peers.items():
            theirs[name].append(rate(function, images[:count]))
    mine = statistics.median(ours)
    return [*volumes(), *grids()] + [
        {
            "name": f"oct5 of 28×28 images, against {name}",
            "ours": mine,
            "peer": statistics.median(theirs[name]),
            "unit": "images/s",
            "ratio": mine / statistics.median(theirs[name]),
            "target": target,
        }
        for name, (_, _, target) in peers.items()
    ]
