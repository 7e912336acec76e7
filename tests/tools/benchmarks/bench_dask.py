"""A pass by two single-threaded workers of Dask, against one."""

import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from distributed import LocalCluster
from PIL import Image

from covdp.datasets import ImageSource, open_dataset
from covdp.descriptors import describe
from covdp.parallel import limited_to, workers
from covdp.store import fill, find_place, make_plan, plan
from tests.tools.benchmarks.bench_store import CARD, patches

ROUNDS = 2
SHARDS, SIDE = 8, 896
"""Whole shards of a pass, and the side of its images: some seconds of work a shard."""
IMAGES = SHARDS * (plan.PIXELS // SIDE**2)
DIFFERENT = 40
"""Files that differ; all others are links to them."""


def ward(root: Path, count: int) -> ImageSource:
    """Write a folder of `count` JPEGs and open it."""
    root.mkdir()
    for number, image in enumerate(patches(DIFFERENT, SIDE, rng=np.random.default_rng(0))):
        Image.fromarray(image).save(root / f"{number}.jpg", quality=90)
    for number in range(count):
        place = root / "ward" / ("one" if number % 2 else "two")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.jpg").hardlink_to(root / f"{number % DIFFERENT}.jpg")
    (root / "ward.toml").write_text(f'kind = "folder"\n{CARD}')
    return open_dataset(root / "ward.toml", root)


def decode(files: list[Path], rounds: int) -> None:
    """Decode and describe some JPEGs again and again, with one thread."""
    with limited_to(1):
        for _ in range(rounds):
            describe(np.stack([np.asarray(Image.open(file)) for file in files]))


def bare(root: Path) -> float:
    """Return how much more two processes decode and describe than one, nothing between them."""
    files, rounds, taken = sorted(root.glob("*.jpg")), 20, []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for count in (2, 1, 2, 1, 2):  # the first time to import and compile
            start = time.perf_counter()
            for done in [pool.submit(decode, files, rounds) for _ in range(count)]:
                done.result()
            taken.append(count * rounds * len(files) / (time.perf_counter() - start))
    return max(taken[2::2]) / max(taken[1::2])


def run() -> list[dict[str, Any]]:
    """Measure in turns, all workers and schedulers being there: medians."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    with ExitStack() as stack:
        clusters = {
            count: stack.enter_context(
                LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address="127.0.0.1:0")
            )
            for count in seconds
        }
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with patch.object(plan, "SHARD_IMAGES", 1):  # shards for all workers, to import and compile
            few = make_plan(ward(root / "few", 8), descriptor="oct5")
        many = make_plan(ward(root / "many", IMAGES), descriptor="oct5")
        for turn, made in enumerate([few, *[many] * ROUNDS]):
            for count, cluster in clusters.items():
                place = find_place(root / f"store {turn} {count}")
                with workers(cluster.scheduler_address) as unordered:
                    start = time.perf_counter()
                    fill(made, place, unordered)
                    if turn:
                        seconds[count].append(time.perf_counter() - start)
        ceiling = bare(root / "many")
    one, two = (IMAGES / statistics.median(taken) for taken in seconds.values())
    return [
        {
            "name": f"{IMAGES:,} JPEGs {SIDE}×{SIDE} in {SHARDS} shards: two Dask workers, and one",
            "ours": two,
            "peer": one,
            "unit": "images/s",
            "ratio": two / one,
            "target": 1.8,
        },
        {
            "name": "the same by two bare processes, and one: what this machine has",
            "ours": None,
            "peer": None,
            "unit": "",
            "ratio": ceiling,
        },
    ]


if __name__ == "__main__":
    for line in run():
        print(line)
