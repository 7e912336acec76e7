"""Errors of our mean beside the best of three others, of the same records and public prior."""

from typing import Any

import numpy as np

from covdp import describe, domain, open_dataset
from covdp.addons.papers.peers import PEERS
from covdp.geometry import MANIFOLDS
from covdp.mean import AdaptivePlan, Records, admit, draw, prepare
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP

CELLS = (("oct5", 100, 0.5), ("oct5", 500, 0.5), ("oct5", 1_700, 0.5), ("grid9", 500, 0.5))
"""Descriptor, records of the class of cells of `tiles`, and μ."""
DRAWS = 100


def records_of(descriptor: str, n: int) -> Records:
    """Return so many cells of `tiles` as records in the log-Euclidean metric."""
    images = np.concatenate(list(open_dataset("tiles").chunks(label=2)))[:n]
    name = "spd-log-euclidean"
    bounds = domain(descriptor, height=28, width=28, manifold=name)
    points = describe(images, descriptor)
    return admit(points, domain=bounds, manifold=MANIFOLDS[name](k=points.shape[-1]))


def run() -> list[dict[str, Any]]:
    """Draw each mean as often: the mean error of ours, and the least of the others."""
    rows = []
    for descriptor, n, mu in CELLS:
        records, rng = records_of(descriptor, n), np.random.default_rng(0)
        ready, true = prepare(records, AdaptivePlan(), rng=None), records.placed.mean(axis=0)
        released, _ = draw(ready, GDP(mu), noise=FloatNoise(rng), size=DRAWS)
        ours = float(np.linalg.norm(released.outputs - true, axis=1).mean())
        seen, back = np.asarray(records.seen.whole), records.frame.from_axes
        centre = seen.mean(axis=0)
        others = {
            name: np.mean(
                [
                    np.linalg.norm((peer(seen, records.prior.unit, mu, rng) - centre) @ back)
                    for _ in range(DRAWS)
                ]
            )
            for name, peer in PEERS.items()
        }
        best = min(others, key=others.__getitem__)
        rows.append(
            {
                "name": f"error of a mean of {n:,} {descriptor} at μ = {mu:g}: ours, {best}",
                "ours": ours,
                "peer": float(others[best]),
                "unit": "distance",
                "ratio": ours / float(others[best]),
                "target": 1.1,
            }
        )
    return rows


if __name__ == "__main__":
    for line in run():
        print(line)
