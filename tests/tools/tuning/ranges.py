"""How often the range of `covdp plan` holds the error that releases then have.

A cell is a set of images, a number of them, a descriptor, a manifold and a budget, or a night of a
stream of them. Its error is the mean over many draws; it is in the range or not. The radius is
looked at draw by draw.

The range was set on the sets of `SET_ON`. Thumbnails and tiles in black and white were put among
the pictures that it is made from after scans at 28 pixels and masks of `HELD_OUT` were found above
it, and volumes are put in black and white as volumes since those of AdrenalMNIST3D were found
there, so that these are not quite held out. `LATER` are: they were looked at once, afterwards.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from covdp.addons.nights.planning import stream_ends
from covdp.addons.nights.stream import (
    StreamMechanism,
    StreamPlan,
    cumulative_mean,
    empty_state,
    release_night,
)
from covdp.arrays import ImageArray
from covdp.datasets import open_dataset
from covdp.datasets.registry import data_root
from covdp.datasets.tiles import cut, opened, pictures_folder
from covdp.descriptors import DESCRIPTORS, domain
from covdp.errors import ConfigError
from covdp.geometry import FlatChart
from covdp.mean import AdaptivePlan, draw, prepare
from covdp.mechanisms import FloatNoise
from covdp.planning import ClassArrivals, Curve
from covdp.privacy import GDP
from tests.tools.tuning.images import (
    HELD_OUT,
    SET_ON,
    ImageClass,
    classes_of,
    gray,
    images_of,
    records_of,
    some,
)

BUDGETS = (0.1, 0.2, 0.5, 1.0, 2.0)
SIZES = (50, 200, 1000, 4000)
"""Images of a class, as many of these as it has; where it has fewer than the first, all."""
MANIFOLDS = ("spd-log-euclidean", "spd-log-cholesky", "spd-affine-invariant")
FEW = 200
"""Images of a class, at most, on the curved manifold, where draws are slow."""
STREAMS = ((0.5, 3650, 20), (1.0, 365, 5), (0.2, 1000, 100))
"""Budget, horizon and units a night of the streams; looked at are `NIGHTS` of each."""
NIGHTS = (40, 100, 200)
LATER = (
    "brick.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "grass.png",
    "gravel.png",
    "hubble_deep_field.jpg",
    "microaneurysms.png",
    "moon.png",
    "page.png",
)
"""Other pictures of scikit-image."""
SAMPLE = "pathmnist_64_subset.npz"
"""A sample of PathMNIST at 64 pixels, all classes as one, if it is in the data root."""
Load = Callable[[], ImageArray]


class RangeCell(NamedTuple):
    """One cell.

    Attributes
    ----------
    name, descriptor, manifold : str
    n : int
    mu : float
    night : int
        Of a stream; 0 of a release of its own.
    low, high : float
        The range.
    error : float
        Mean over the draws.
    within : float
        Share of the draws within the radius.
    """

    name: str
    descriptor: str
    manifold: str
    n: int
    mu: float
    night: int
    low: float
    high: float
    error: float
    within: float

    @property
    def holds(self) -> bool:
        """Whether the error is in the range."""
        return self.low <= self.error <= self.high


def of_classes(members: Iterable[ImageClass], root: Path | None) -> ImageArray:
    """Return the images of some classes as one."""
    return np.concatenate([images_of(one, root) for one in members])


def of_picture(name: str) -> ImageArray:
    """Return tiles of a picture, in colour where it has any."""
    tiles = cut(opened(pictures_folder() / name, "RGB"), 28)
    return tiles if np.ptp(tiles, axis=-1).any() else tiles[..., 0]


def of_sample(path: Path) -> ImageArray:
    """Return the test images of an archive."""
    with np.load(path) as archive:
        return np.asarray(archive["test_images"])


def of_volumes(label: int, root: Path | None) -> ImageArray:
    """Return volumes of AdrenalMNIST3D."""
    return some(np.concatenate(list(open_dataset("adrenalmnist3d", root).chunks(label=label))), FEW)


def groups_of(root: Path | None) -> dict[str, dict[str, Load]]:
    """Return what is looked at, by how well the range knows it; only what is there."""
    found = {}
    for title, cards in (("Set on these", SET_ON), ("Not on these", HELD_OUT)):
        classes, _ = classes_of(cards, root)
        sets = defaultdict[str, list[ImageClass]](list)
        loads = dict[str, Load]()
        for one in classes:
            sets[one.card].append(one)
            loads[one.name] = partial(of_classes, (one,), root)
        for card, group in sets.items():
            if len(group) > 1:
                loads[f"{Path(card).stem}, all"] = partial(of_classes, tuple(group), root)
        found[title] = loads
        if title != "Set on these" and "adrenalmnist3d" in sets:
            loads |= {f"adrenal volumes {i}": partial(of_volumes, i, root) for i in (0, 1)}
    later: dict[str, Load] = {name: partial(of_picture, name) for name in LATER}
    if (data_root(root) / SAMPLE).exists():
        later["pathmnist at 64"] = partial(of_sample, data_root(root) / SAMPLE)
    return {**found, "Looked at once": later}


def cells_of(name: str, load: Load, draws: int) -> list[RangeCell]:
    """Return the cells of some images."""
    images, found = load(), list[RangeCell]()
    for descriptor, known in DESCRIPTORS.items():
        seen = gray(images) if images.shape[-1] == 3 and known.channels == 1 else images
        if not known.fits(seen.shape[1:]):
            continue
        manifolds = [name for name in MANIFOLDS if takes_eta(descriptor, seen, name)]
        for manifold in manifolds:
            most = FEW if manifold == "spd-affine-invariant" else max(SIZES)
            for n in [size for size in SIZES if size <= min(len(seen), most)] or [len(seen)]:
                found += cells(name, some(seen, n), descriptor, manifold, draws)
        if known.dimensions == 2 and "spd-log-euclidean" in manifolds:
            found += nights(name, seen, descriptor, "spd-log-euclidean", max(2, draws // 4))
    return found


def takes_eta(descriptor: str, images: ImageArray, manifold: str) -> bool:
    """Return whether the usual eta is above rounding: that of gauss6 is in one metric alone."""
    height, width = images.shape[1:3]
    try:
        domain(descriptor, height=height, width=width, manifold=manifold)
    except ConfigError:
        return False
    return True


def cells(
    name: str, images: ImageArray, descriptor: str, manifold: str, draws: int
) -> Iterator[RangeCell]:
    """Yield the cells of one set of images, one for each budget."""
    records = records_of(images, descriptor=descriptor, manifold=manifold)
    ready = prepare(records, AdaptivePlan(), rng=None)
    said = Curve(records.domain, AdaptivePlan())
    for mu in BUDGETS:
        noise = FloatNoise(np.random.default_rng(1))
        outputs = draw(ready, GDP(mu), noise=noise, size=draws)[0].outputs
        errors = records.space.dist(records.frechet.point, outputs)
        told = said.ends(records.n * mu)
        within = float(np.mean(errors <= told.radius(records.space.dim)))
        error = float(errors.mean())
        yield RangeCell(name, descriptor, manifold, records.n, mu, 0, *told, error, within)


def nights(
    name: str, images: ImageArray, descriptor: str, manifold: str, draws: int
) -> Iterator[RangeCell]:
    """Yield cells of streams; when all images have come they come again, as units of their own."""
    records = records_of(images, descriptor=descriptor, manifold=manifold)
    later = Curve(records.domain, AdaptivePlan())
    for mu, horizon, nightly in STREAMS:
        plan = StreamPlan(GDP(mu), horizon)
        stream = StreamMechanism(plan, records.domain, FlatChart(records.manifold))
        runs = [_run(stream, records.placed, nightly, seed) for seed in range(draws)]
        for night, *errors in zip(NIGHTS, *runs, strict=True):
            told = stream_ends(plan, later, ClassArrivals(nightly, nightly), night)
            if told is None:
                continue
            within = float(np.mean(np.array(errors) <= told.radius(records.space.dim)))
            error = float(np.mean(errors))
            n = night * nightly
            yield RangeCell(name, descriptor, manifold, n, mu, night, *told, error, within)


def _run(stream: StreamMechanism, placed: ImageArray, nightly: int, seed: int) -> list[float]:
    """Return the errors of one stream at `NIGHTS`, NaN before it opens."""
    rng = np.random.default_rng(seed)
    rounds = range(-(-NIGHTS[-1] * nightly // len(placed)))
    units = placed[np.concatenate([rng.permutation(len(placed)) for _ in rounds])]
    history, private, errors = [], empty_state(stream.space.dim), []
    for night in range(1, NIGHTS[-1] + 1):
        batch = units[(night - 1) * nightly : night * nightly]
        told, private = release_night(stream, history, private, batch, noise=FloatNoise(rng))
        history.append(told)
        if night in NIGHTS:
            found = cumulative_mean(stream, history)
            true = units[: night * nightly].mean(axis=0)
            errors.append(np.nan if found is None else float(np.linalg.norm(found.offset - true)))
    return errors


def ranges(loads: dict[str, Load], *, draws: int, jobs: int) -> list[RangeCell]:
    """Measure all cells of a group."""
    with ProcessPoolExecutor(jobs) as pool:
        found = [pool.submit(cells_of, name, load, draws) for name, load in loads.items()]
        return [cell for job in found for cell in job.result()]
