"""The shares of a stream's opening: each of a grid, on pictures that `ours-stream` does not report.

A stream runs over its first nights with the shares in question, and errs by so much on each night
that is looked at. Noise, images and their order are the same for all shares. The rule: the shares
whose error is least in the geometric mean over all pictures, nights and draws.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray, ImageArray
from pipeline.config import NightsConfig
from pipeline.experiments.kinds.nights import arrivals
from pipeline.geometry import FlatChart
from pipeline.mean import Shares
from pipeline.privacy import GDP
from pipeline.stream import (
    Night,
    StreamMechanism,
    StreamPlan,
    cumulative_mean,
    empty_state,
    release_night,
)
from pipeline.stream import plan as place
from tests.tools.tuning.flatness import Paired
from tests.tools.tuning.images import classes_of, gray, images_of, records_of
from tests.tools.tuning.ranges import LATER, of_picture

NIGHTS = NightsConfig(horizon=3650, units=(7, 40), shown=(40, 100))
FIRST, MIDDLE, SHELLS = (0.05, 0.08, 0.12), (0.02, 0.05, 0.12), (0.05, 0.10, 0.15, 0.20)
GRID = tuple(
    Shares(first, 0.02, middle, shells, round(0.98 - first - middle - shells, 2))
    for first, middle, shells in itertools.product(FIRST, MIDDLE, SHELLS)
)
"""Two means and the last shells have a share each; the last mean has the rest."""
REPORTED = ("tiles, retina",)
"""What `ours-stream` reports of sets that others are chosen from here."""


class Opening(NamedTuple):
    """How much shares err.

    Attributes
    ----------
    shares : Shares
    change, error : float
        Of the geometric mean of errors, against those in the code, and its standard error over the
        sets.
    """

    shares: Shares
    change: float
    error: float


def loads(root: Path | None) -> dict[str, Callable[[], ImageArray]]:
    """Return what it is tried on: classes of `tiles` and BreastMNIST, and other pictures."""
    known, _ = classes_of(("tiles", "breastmnist"), root)
    found: dict[str, Callable[[], ImageArray]] = {
        one.name: (lambda one=one: images_of(one, root))  # type: ignore[misc]
        for one in known
        if one.name not in REPORTED
    }
    return found | {name: (lambda name=name: of_gray(name)) for name in LATER}  # type: ignore[misc]


def of_gray(name: str) -> ImageArray:
    """Return tiles of a picture in gray."""
    tiles = of_picture(name)
    return tiles if tiles.ndim == 3 else gray(tiles)


def logs(name: str, root: Path | None, draws: int) -> FloatArray:
    """Return logarithms of errors on one set, (shares, draws, nights); the code's come last."""
    known = records_of(loads(root)[name](), descriptor="oct5")
    chart, out = FlatChart(known.manifold), []
    old = place.OPENING_SHARES
    for shares in (*GRID, old):
        place.OPENING_SHARES = shares
        stream = StreamMechanism(StreamPlan(GDP(0.5), NIGHTS.horizon), known.domain, chart)
        out.append([_errors(stream, known.placed, draw) for draw in range(draws)])
    place.OPENING_SHARES = old
    return np.log(out)


def _errors(stream: StreamMechanism, placed: FloatArray, draw: int) -> list[float]:
    history, private = list[Night](), empty_state(stream.space.dim)
    found, units = [], arrivals(placed, NIGHTS, np.random.default_rng(draw))
    for number, batch in enumerate(units, 1):
        noise = Paired(draw, number)
        night, private = release_night(stream, history, private, batch, noise=noise)
        history.append(night)
        if number in NIGHTS.shown:
            mean = cumulative_mean(stream, history)
            assert mean is not None
            found.append(float(np.linalg.norm(mean.offset - _mean(units[:number]))))
    return found


def _mean(batches: tuple[FloatArray, ...]) -> FloatArray:
    return np.asarray(np.concatenate(batches).mean(axis=0))


def openings(root: Path | None, *, draws: int, jobs: int) -> Iterator[Opening]:
    """Try all shares; the best comes first, and those of the code among them."""
    names = list(loads(root))
    with ProcessPoolExecutor(jobs) as pool:
        tried = [pool.submit(logs, name, root, draws) for name in names]
        means = np.array([job.result().mean(axis=(1, 2)) for job in tried])  # (sets, shares)
    against = means - means[:, -1:]
    change = np.expm1(against.mean(axis=0))
    error = against.std(axis=0, ddof=1) / math.sqrt(len(names))
    rows = [Opening(*row) for row in zip((*GRID, place.OPENING_SHARES), change, error, strict=True)]
    yield from sorted(rows, key=lambda row: row.change)
