"""Passes over simulated images: how fast they are described, and in how much memory.

A set is written into a temporary folder as a hospital would have it, an npz or a folder of JPEG:
pieces of one smooth random picture with the grain of a sensor, a few thousand at a time. Each
number of workers, threads here, gets a process of its own, so that the most memory it ever had is
that of its passes (``passes.py``). A row is one pass; nothing is released.
"""

import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.arrays import ImageArray
from pipeline.config import ExperimentConfig, ScaleConfig
from pipeline.experiments.driver import ExperimentKind, named_columns
from pipeline.experiments.passes import measured_apart
from pipeline.parallel import side_by_side

PIXEL_BYTES = 1 << 24
"""Bytes of pixels that are made at a time."""
ROAM = 512
"""Pixels over which the corners of pieces are spread."""
GRAIN = 16
"""Levels of gray of the grain."""


def patches(n: int, side: int, *, rng: np.random.Generator) -> Iterator[ImageArray]:
    """Yield n gray images, (m, side, side) at a time."""
    from PIL import Image

    coarse = Image.fromarray(rng.integers(0, 200, (32, 32), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((ROAM + side, ROAM + side), Image.Resampling.BICUBIC))
    scene = np.minimum(smooth, 256 - GRAIN)  # with the grain on top it still is a byte
    pieces = np.lib.stride_tricks.sliding_window_view(scene, (side, side))
    most = max(1, PIXEL_BYTES // side**2)
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
    written = 0
    with side_by_side() as submit:
        for images in patches(n, side, rng=rng):
            jobs = [
                submit(partial(Image.fromarray(image).save, folder / f"{number}.jpg", quality=90))
                for number, image in enumerate(images, written)
            ]
            for job in jobs:
                job.result()
            written += len(images)
    return _card(root, f'kind = "folder"\nsize = {side}\n')


def _card(root: Path, keys: str) -> Path:
    card = root / "set.toml"
    card.write_text(f'{keys}channels = 1\nclasses = ["all"]\n', encoding="utf-8")
    return card


FORMS: Mapping[str, Callable[..., Path]] = {"npz": write_npz, "JPEG": write_jpeg}
"""Name of a form → its writer; called with the folder, n, the side and `rng`."""


MEGABYTE = 1e6


def scale_cells(config: ExperimentConfig) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return what measures each set with all its numbers of workers, by its number."""
    grid = [(made, n) for made in config.scale for n in made.n]
    return {
        str(label): partial(columns, config, label, made, n) for label, (made, n) in enumerate(grid)
    }


def columns(config: ExperimentConfig, label: int, made: ScaleConfig, n: int) -> dict[str, Any]:
    """Return the rows of a set of n images: its passes with each number of workers."""
    title = f"{n:,} images of {made.side} × {made.side}, {made.form}"
    named, workers = named_columns(config, label, title, title), made.workers
    with tempfile.TemporaryDirectory() as folder:
        write, rng = FORMS[made.form], np.random.default_rng(named["seed"])
        card = write(Path(folder), n, made.side, rng=rng)
        task = card, config.descriptor, config.eta, config.repetitions
        passes = [measured_apart(title, *task, workers=count) for count in workers]
    above = [(np.array(each.peaks, np.float64) - each.idle) / MEGABYTE for each in passes]
    return named | {
        "n": n,
        "descriptor": config.descriptor,
        "series": np.repeat(
            [f"{count} worker" + "s" * (count > 1) for count in workers], config.repetitions
        ),
        **dict.fromkeys(("manifold", "mechanism", "sampler", "definition", "footpoint"), "none"),
        "budget": 0.0,
        "sensitivity": np.inf,
        "repetition": np.tile(np.arange(config.repetitions), len(workers)),
        "status": "no release",
        "seconds": np.concatenate([each.seconds for each in passes]),
        "memory": np.concatenate(above) if all(each.idle for each in passes) else np.nan,
    }


SCALING = ExperimentKind(
    in_words=(
        "Sets of images were made and each was described into a store, some times over, while "
        "time and memory were measured"
    ),
    table=("passes", scale_cells),
    parallel=False,
)
