"""Private means drawn a second with repetitions as an axis, beside the loop that was before."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pipeline import describe, domain, open_dataset
from pipeline.geometry import MANIFOLDS
from pipeline.mean import AdaptivePlan, Records, admit, draw, prepare
from pipeline.mechanisms import FloatNoise
from pipeline.parallel import limited_to
from pipeline.privacy import GDP
from tests.tools.benchmarks.one_by_one import draw_one_by_one

METRICS = ("log-Euclidean", "log-Cholesky", "affine-invariant")
RECORDS, TOGETHER, ONE_BY_ONE, ROUNDS = 1_000, 1_000, 40, 3
BUDGET, PLAN = GDP(0.5), AdaptivePlan()


def records_of(metric: str) -> Records:
    """Return 1,000 retina tiles as records in a metric."""
    name = f"spd-{metric.lower()}"
    images = np.concatenate(list(open_dataset("tiles").chunks(label=1)))[:RECORDS]
    bounds = domain("oct5", height=28, width=28, eta=1e-6, manifold=name)
    points = describe(images, "oct5")
    return admit(points, domain=bounds, manifold=MANIFOLDS[name](k=5))


def rate(work: Callable[..., object], size: int) -> float:
    """Return draws a second, of the CPU time of one thread."""
    started = time.thread_time()
    work(size=size)
    return size / (time.thread_time() - started)


def run() -> list[dict[str, Any]]:
    """Measure in turns, so that a busy moment of the machine meets both; the best of each."""
    rows = []
    for metric in METRICS:
        records = records_of(metric)
        ready, rng = prepare(records, PLAN, rng=None), np.random.default_rng(0)
        several = partial(draw, ready, BUDGET, noise=FloatNoise(rng))
        single = partial(draw_one_by_one, records, BUDGET, PLAN, noise=FloatNoise(rng))
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
                "target": 8,
            }
        )
    return rows


if __name__ == "__main__":
    for line in run():
        print(line)
