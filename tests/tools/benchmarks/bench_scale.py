"""Passes over sets of any size: images described a second, and the memory that a pass takes.

A set is pieces of a picture with the grain of a sensor, in an npz that is not compressed. Each pass
has a process of its own, so that the most memory it ever had is that of the pass.
``python -m tests.tools.benchmarks.bench_scale CARD`` is that process: it imports no library of
images before it has measured itself.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from covdp.parallel import peak_memory

SIZES = (10_000, 1_000_000)
AT_ONCE, SIDE = 20_000, 28
MOST = 500e6
"""Bytes that a pass may take above an idle interpreter, however many images there are."""


def write_set(root: Path, n: int, *, rng: np.random.Generator) -> Path:
    """Write an npz that need not fit in memory, and return its card."""
    from tests.tools.benchmarks.bench_store import patches

    header = {"descr": "|u1", "fortran_order": False, "shape": (n, SIDE, SIDE)}
    with zipfile.ZipFile(root / "set.npz", "w") as archive:
        with archive.open("train_images.npy", "w", force_zip64=True) as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for start in range(0, n, AT_ONCE):
                images = patches(min(AT_ONCE, n - start), SIDE, rng=rng)
                stream.write(images.tobytes())
        with archive.open("train_labels.npy", "w") as stream:
            np.lib.format.write_array(stream, np.zeros(n, np.uint8))
    card = root / "set.toml"
    card.write_text('kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["all"]\n')
    return card


def one_pass(card: Path) -> tuple[float, int]:
    """Describe a set once; return the seconds that took, and the memory above an idle process."""
    idle = peak_memory()
    from covdp.datasets import open_dataset
    from covdp.store import fill, find_place, make_plan

    with tempfile.TemporaryDirectory() as folder:
        plan = make_plan(open_dataset(card, card.parent), descriptor="oct5")
        filled = fill(plan, find_place(Path(folder) / "store"), shown=False)
    return filled.seconds, filled.peak - idle


def run() -> list[dict[str, Any]]:
    """Return the rows: images a second of two workers and of one, and memory beside its limit."""
    rows = []
    for n in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            card, found = write_set(Path(folder), n, rng=np.random.default_rng(0)), {}
            for workers in (1, 2):
                command = [sys.executable, "-m", "tests.tools.benchmarks.bench_scale", str(card)]
                environment = {**os.environ, "NUMBA_NUM_THREADS": str(workers)}
                ended = subprocess.run(command, env=environment, capture_output=True, check=True)
                found[workers] = json.loads(ended.stdout)
        one, two = (n / found[workers][0] for workers in (1, 2))
        rows += [
            {
                "name": f"a pass over {n:,} images of 28×28, two workers beside one",
                "ours": two,
                "peer": one,
                "unit": "images/s",
                "ratio": two / one,
            },
            {
                "name": f"{MOST / 1e6:g} MB beside the memory of two workers, {n:,} images",
                "ours": found[2][1] / 1e6,
                "peer": MOST / 1e6,
                "unit": "MB",
                "ratio": MOST / found[2][1],
                "target": 1.0,
            },
        ]
    return rows


if __name__ == "__main__":
    print(json.dumps(one_pass(Path(sys.argv[1]))))
