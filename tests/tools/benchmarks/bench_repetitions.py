"""Private means drawn a second with repetitions as an axis, beside a loop over draws of one."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from covdp import describe, domain, open_dataset
from covdp.geometry import MANIFOLDS
from covdp.mean import AdaptivePlan, MeanSetup, Records, admit, draw, prepare
from covdp.mechanisms import FloatNoise
from covdp.parallel import limited_to
from covdp.privacy import GDP

METRICS = {"log-Euclidean": 8, "log-Cholesky": 8, "affine-invariant": 1.5}
"""Metrics, and by what factor means drawn together are wanted to be sooner."""
RECORDS, TOGETHER, ONE_BY_ONE, ROUNDS = 1_000, 1_000, 40, 3
BUDGET, PLAN = GDP(0.5), AdaptivePlan()


def records_of(metric: str) -> Records:
    """Return 1,000 retina tiles as records in a metric."""
    name = f"spd-{metric.lower()}"
    images = np.concatenate(list(open_dataset("tiles").chunks(label=1)))[:RECORDS]
    bounds = domain("oct5", height=28, width=28, eta=1e-6, manifold=name)
    points = describe(images, "oct5")
    return admit(points, domain=bounds, manifold=MANIFOLDS[name](k=5))


def draw_one_by_one(ready: MeanSetup, *, noise: FloatNoise, size: int) -> None:
    """Draw several means, each by itself."""
    for _ in range(size):
        draw(ready, BUDGET, noise=noise)


def rate(work: Callable[..., object], size: int) -> float:
    """Return draws a second, of the CPU time of one thread."""
    started = time.thread_time()
    work(size=size)
    return size / (time.thread_time() - started)


def run() -> list[dict[str, Any]]:
    """Measure in turns, so that a busy moment of the machine meets both; the best of each."""
    rows = []
    for metric, target in METRICS.items():
        records = records_of(metric)
        ready, rng = prepare(records, PLAN, rng=None), np.random.default_rng(0)
        several = partial(draw, ready, BUDGET, noise=FloatNoise(rng))
        single = partial(draw_one_by_one, ready, noise=FloatNoise(rng))
        with limited_to(1):
            several(size=2)
            single(size=2)
            turns = ((several, TOGETHER), (single, ONE_BY_ONE))
            found = [[rate(work, size) for work, size in turns] for _ in range(ROUNDS)]
        ours, peer = (max(rates) for rates in zip(*found, strict=True))
        rows.append(
            {
                "name": f"{TOGETHER:,} means of {RECORDS:,} oct5, {metric}: together, one by one",
                "ours": ours,
                "peer": peer,
                "unit": "draws/s",
                "ratio": ours / peer,
                "target": target,
            }
        )
    return rows


if __name__ == "__main__":
    for line in run():
        print(line)
