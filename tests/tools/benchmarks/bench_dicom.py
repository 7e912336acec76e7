"""DICOM files read per second, against pydicom alone in as many threads."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom import examples

from covdp.datasets import open_dataset

COUNT, SIDE, ROUNDS = 200, 512, 5
CARD = 'kind = "dicom"\nchannels = 1\nclasses = ["scan"]\nwindow = [-160, 240]\n'


def write(folder: Path) -> list[Path]:
    """Write scans of 16 bits, with the header of a real one and noise for pixels."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    data = examples.ct
    data.Rows = data.Columns = SIDE
    files = [folder / f"{number:04}" for number in range(COUNT)]
    for file in files:
        data.PixelData = rng.integers(-1000, 2000, (SIDE, SIDE), dtype=np.int16).tobytes()
        data.save_as(file)
    return files


def rate(read: Callable[[], int]) -> float:
    """Return images a second of one call."""
    start = time.perf_counter()
    count = read()
    return count / (time.perf_counter() - start)


def run() -> list[dict[str, Any]]:
    """Measure in turns: opening and reading, reading what is open, and pydicom's pixel_array."""
    with tempfile.TemporaryDirectory() as root:
        files = write(Path(root) / "scans/scan")
        (Path(root) / "scans.toml").write_text(CARD)
        source = open_dataset(Path(root) / "scans.toml", root)

        def from_the_start() -> int:
            opened = open_dataset(Path(root) / "scans.toml", root)
            return sum(map(len, opened.chunks(size=32)))

        def peer() -> int:
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                return len(
                    list(pool.map(lambda file: pydicom.dcmread(file).pixel_array.shape, files))
                )

        ways = [lambda: sum(map(len, source.chunks(size=32))), from_the_start, peer]
        rates: list[list[float]] = [[rate(way) for way in ways] for _ in range(ROUNDS)]
    once, whole, alone = (statistics.median(column) for column in zip(*rates, strict=True))
    return [
        {
            "name": f"DICOM of {SIDE}×{SIDE} and 16 bits, {what}, against pydicom's pixel_array",
            "ours": ours,
            "peer": alone,
            "unit": "images/s",
            "ratio": ours / alone,
            "target": 0.8,
        }
        for what, ours in (("one pass", once), ("opened and read", whole))
    ]
