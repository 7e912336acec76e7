"""A run on images, before noise: from a data root to descriptors in a proven domain.

    fetch ─► describe ─► verify

A run (`Run`) is an experiment on one dataset, its images, which are opened and described once, and
its results.

What may happen to all images of a device (`CHANGES`) are functions of an image alone, but for
grain, so that whoever has the images can do the same. Rare images (`RARE`), which may be among
those of a class, are patterns of a broken device, empty ones, and crops of a photograph.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray, ImageArray, evenly
from covdp.config import ExperimentConfig, ExperimentTexts
from covdp.datasets import Card, ImageSource, find_card, open_dataset
from covdp.datasets.source import Splits, middle_slices
from covdp.descriptors import (
    DESCRIPTORS,
    Bound,
    DescriptorDomain,
    describe,
    domain_of,
    require,
    verify,
)
from covdp.errors import ConfigError, OutputError
from covdp.experiments.driver import ClassData, Setting, admitted
from covdp.figures import montage
from covdp.files import make_folder, write_whole
from covdp.geometry import MANIFOLDS, Point
from covdp.results import read_bound, read_record, write_bound
from covdp.store import (
    Place,
    StoredImages,
    fill,
    find_place,
    make_plan,
    private_stores,
)


@dataclass(frozen=True)
class Run:
    """One run: an experiment on one dataset, shared by all of its steps.

    The steps of a run share one object, so that its images are opened once, and described and
    digested once. A step in another process gets the settings alone.

    Attributes
    ----------
    config : ExperimentConfig
        One experiment on one dataset.
    root : Path, optional
        The data root; ``COVDP_DATA``, else the user's cache folder, when None.
    out : Path
        Folder of the results.
    started : datetime
        Time at which the run was set up.
    clock : mapping of str to (float, float)
        Begin and latest end of each step, in seconds of one clock.
    """

    config: ExperimentConfig
    root: Path | None
    out: Path
    started: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)
    clock: dict[str, tuple[float, float]] = field(default_factory=dict, compare=False)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Time a step; parts of it that are done side by side count once.

        Parameters
        ----------
        step : str
            Name of the step.
        """
        now = time.perf_counter()
        begun = self.clock.setdefault(step, (now, now))[0]
        try:
            yield
        finally:
            self.clock[step] = begun, time.perf_counter()

    @property
    def steps(self) -> tuple[tuple[str, float], ...]:
        """Each step with its wall-clock time in seconds, in order."""
        return tuple((name, end - begun) for name, (begun, end) in self.clock.items())

    @property
    def name(self) -> str:
        """Name of the run and of its files."""
        return self.config.run_name

    @property
    def folder(self) -> Path:
        """Folder of the run's record, bound and samples, ``OUT/runs/<run>``."""
        return self.out / "runs" / self.name

    @property
    def table(self) -> Path:
        """The table of results, ``OUT/results/<run>.parquet``."""
        return self.out / "results" / f"{self.name}.parquet"

    @property
    def log(self) -> Path:
        """The record of the run, ``OUT/runs/<run>/run.json``."""
        return self.folder / "run.json"

    @property
    def settings(self) -> Path:
        """Settings whose results these are, ``OUT/runs/<run>/settings.json``."""
        return self.folder / "settings.json"

    @property
    def labels(self) -> tuple[int, ...]:
        """The classes that are run."""
        config = self.config
        if not config.on_images:
            return tuple(range(len(config.simulated)))
        if config.classes is not None:
            return config.classes
        return tuple(range(len(find_card(config.dataset).classes)))

    @property
    def store(self) -> Place:
        """Folder of the descriptors of the images while the run works."""
        key = hashlib.sha256(str(self.folder.resolve()).encode(errors="surrogateescape"))
        return find_place(private_stores() / key.hexdigest()[:16])

    @cached_property
    def images(self) -> ImageSource:
        """The images, opened; they are fetched and checked first if they must be."""
        require_public(find_card(self.config.dataset))
        return open_dataset(self.config.dataset, self.root, size=self.config.size)

    @cached_property
    def stored(self) -> StoredImages:
        """The descriptors of the images; those that are not in the store are made."""
        config = self.config
        plan = make_plan(self.images, config.splits, descriptor=config.descriptor, eta=config.eta)
        return fill(plan, self.store).stored

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


TEXTS = set(ExperimentTexts.model_fields)
"""Keys of an experiment on which no number depends."""


def check_results(run: Run, images: str = "") -> dict[str, Any]:
    """Return the settings of a run; refuse to write over the results of others.

    Parameters
    ----------
    run : Run
        Run that is to be started, or to go on.
    images : str
        Digest of its images, where they are known.

    Raises
    ------
    ConfigError
        When the folder has results, whole or begun, under the name of this run of other settings or
        images. The same run goes on there.
    """
    card, config = Path(run.config.dataset), run.config.model_dump(mode="json", exclude=TEXTS)
    settings = {**config, "dataset": str(card.resolve() if card.is_file() else card)}
    settings |= {"images": images} if images else {}
    before = _settings_before(run)
    others = [key for key in settings if not _alike(before.get(key, settings[key]), settings[key])]
    if others:
        pairs = ((key, before[key], settings[key]) for key in others)
        differ = (
            f"{key} {old} there, {new} here" if isinstance(new, str | int | None) else key
            for key, old, new in pairs
        )
        raise ConfigError(
            f"{run.out} has results of {run.name} with other settings ({'; '.join(differ)}), which "
            f"stay as they are; name another folder with --out, or delete {run.folder} and "
            f"{run.table}"
        )
    return settings


def _alike(before: Any, now: Any) -> bool:
    """Return True if settings are equal, but for keys that one of two versions does not have."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(_alike(before[key], now[key]) for key in before.keys() & now.keys())
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(_alike, before, now))
    return bool(before == now)


def _settings_before(run: Run) -> dict[str, Any]:
    """Return the settings of the results in the folder of a run; none where it has no results."""
    parts = run.table.parent.glob(f".{run.table.stem}.*.parts")
    if not run.table.is_file() and next(parts, None) is None:
        return {}
    try:
        settings: dict[str, Any] = json.loads(run.settings.read_bytes())
    except FileNotFoundError:  # written by an earlier version, or rows that say there are no data
        record = read_record(run.log) if run.log.is_file() else None
        known = record.config if record is not None and record.status == "ok" else {}
        return {key: value for key, value in known.items() if key != "dataset"}
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot read {run.settings} ({error}); delete it and {run.table}") from (
            error
        )
    return settings


def keep_settings(run: Run, images: str = "") -> None:
    """Write the settings of a run beside its results, after `check_results`.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    images : str
        Digest of its images, where they are known.
    """
    settings = check_results(run, images)
    make_folder(run.settings.parent)
    write_whole(run.settings, json.dumps(settings, indent=2))


def require_public(card: Card) -> None:
    """Refuse images that nobody has declared public: what a run writes tells of them.

    Parameters
    ----------
    card : Card
        Card of the dataset.
    """
    if not card.public:
        raise ConfigError(
            f"a run writes sample pictures of {card.name}, its true means and the errors against "
            "them, so its card must say public = true, if that is so; images that must not leak "
            "are for `covdp release`, which does not need it"
        )


SAMPLES = 24
AMONG = 4096
"""Number of images in the montage of a class, and of its first images that they are from."""


FETCHING = Lock()
"""Lock that allows one download at a time: the next run may want the same files."""


def fetch_images(run: Run) -> ImageSource:
    """Fetch the images, with the right digest, and open them.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.

    Returns
    -------
    ImageSource
        Opened images.

    Raises
    ------
    DatasetError
        When some are at fault, or a class has none in the chosen splits; a `MissingError` when they
        cannot be had.
    """
    with FETCHING, run.timed("images"):
        for label in run.labels:
            run.images.chunks(run.config.splits, label)
    return run.images


def public_domain(run: Run) -> DescriptorDomain:
    """Return the bound on the descriptors: a function of the config and of the images' size.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    """
    config, source = run.config, run.images
    return domain_of(
        config.descriptor,
        source.shape,
        eta=config.eta,
        manifold=config.manifold,
        masked=source.masks is not None,
    )


def image_setting(run: Run) -> Setting:
    """Return the setting of every class: config, public domain and manifold.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    """
    k = DESCRIPTORS[run.config.descriptor].k
    return Setting(run.config, public_domain(run), MANIFOLDS[run.config.manifold](k=k))


def class_images(run: Run, label: int) -> ClassData:
    """Return a class with its descriptors, and the person of each if persons are known.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    label : int
        Label of the class.
    """
    chunks = list(run.stored.chunks(label))
    points, units = (np.concatenate([chunk[i] for chunk in chunks]) for i in range(2))
    persons = units if run.images.unit == "person" else None
    return ClassData(label, run.images.classes[label], points, persons)


def placed_images(
    run: Run, label: int, splits: Splits, change: Callable[[ImageArray], ImageArray] | None = None
) -> Point:
    """Return the placed records of a class in some splits; persons where they are known.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    label : int
        Label of the class.
    splits : Splits
        Splits that are read.
    change : callable, optional
        Function that changes the images first.
    """
    source, config = run.images, run.config
    chosen = source.select(splits, label)
    size = min(AMONG, len(chosen.rows))
    points = [
        describe(images if change is None else change(images), config.descriptor, config.eta, mask)
        for images, mask in source.with_masks(chosen.rows, size)
    ]
    persons = chosen.units.astype(np.int64) if source.unit == "person" else None
    data = ClassData(label, "", np.concatenate(points), persons)
    return admitted(data, image_setting(run)).placed


def describe_classes(run: Run, images: ImageSource) -> StoredImages:
    """Describe all images once, into the store of the run, and draw some of each class.

    Montages go to ``samples/<label>.png`` in the folder of the run. A volume is shown by the
    slice in the middle of its depth.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    images : ImageSource
        Opened images.

    Returns
    -------
    StoredImages
        Descriptors of all images.
    """
    with run.timed("descriptors"):
        stored = run.stored  # all shards are made
        keep_settings(run, hashlib.sha256(stored.fingerprint.encode()).hexdigest())
        samples = make_folder(run.folder / "samples")
        for label, some in _samples(images, run).items():
            write_whole(samples / f"{label}.png", montage(some, columns=8))
    return stored


def _samples(source: ImageSource, run: Run) -> dict[int, ImageArray]:
    """Return some of the first images of each class, or slices of volumes, read in one stream."""
    wanted = dict[int, int]()
    for label in run.labels:
        rows = source.select(run.config.splits, label).rows[:AMONG]
        wanted |= dict.fromkeys(evenly(rows, SAMPLES).tolist(), label)
    samples = dict[int, list[ImageArray]]()
    order = sorted(wanted)
    for row, image in zip(order, middle_slices(source, np.array(order)), strict=False):
        samples.setdefault(wanted[row], []).append(image)
    return {label: np.concatenate(images) for label, images in samples.items()}


class VerifiedBound(NamedTuple):
    """Proven bound of the descriptors of a run, and the reach of each class in it: not private.

    Attributes
    ----------
    domain : DescriptorDomain
        Proven domain of the descriptors.
    classes : tuple of Bound
        Largest norm of each class, and its place in the domain.
    """

    domain: DescriptorDomain
    classes: tuple[Bound, ...]


def verify_bound(run: Run, stored: StoredImages) -> VerifiedBound:
    """Compare every descriptor with the proven radius.

    Results go to ``bound.parquet`` in the folder of the run, pictures of the farthest image of each
    class to ``farthest/<label>.png`` there.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    stored : StoredImages
        Descriptors of the images.

    Returns
    -------
    VerifiedBound
        Proven bound, and the reach of each class in it.

    Raises
    ------
    DomainError
        When a descriptor is outside: nothing may be drawn from a wrong sensitivity.
    """
    domain, source = public_domain(run), run.images
    with run.timed("bound"):
        bounds = [
            verify(stored.records(label), domain, label, source.classes[label])
            for label in run.labels
        ]
        write_bound(run.folder / "bound.parquet", bounds, domain.in_words)
        _draw_farthest(run, bounds)
        require(bounds)
    return VerifiedBound(domain, tuple(bounds))


def _draw_farthest(run: Run, bounds: Sequence[Bound]) -> None:
    """Write the farthest image of each class, of volumes the slice in the middle."""
    folder, splits = make_folder(run.folder / "farthest"), run.config.splits
    row_of = {x.label: int(run.images.select(splits, x.label).rows[x.farthest]) for x in bounds}
    ordered = sorted(row_of, key=row_of.__getitem__)
    rows = np.array([row_of[label] for label in ordered])
    for label, image in zip(ordered, middle_slices(run.images, rows), strict=True):
        write_whole(folder / f"{label}.png", montage(image, columns=1))


def farthest_of(run: Run, label: int | None) -> float:
    """Return the largest distance of a descriptor of a class, or of all, from the identity.

    Read from what `verify_bound` has written; NaN where records are simulated.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    label : int or None
        Label of the class; None for all.
    """
    if not run.config.on_images:
        return np.nan
    bound = read_bound(run.folder / "bound.parquet")
    own = bound["largest_norm"][(bound["label"] == label) | (label is None)]
    return float(own.max())


def gain(images: ImageArray, amount: float, rng: np.random.Generator) -> ImageArray:
    """Multiply gray levels with a factor; levels above 255 are cut off.

    Parameters
    ----------
    images : array, shape (n, height, width[, 3])
        Gray levels, 0 to 255.
    amount : float
        Factor.
    rng : numpy.random.Generator
        Source of random numbers, unused.

    Returns
    -------
    array, shape of `images`
        Changed gray levels.
    """
    return _bytes(images.astype(np.float64) * amount)


def gamma(images: ImageArray, amount: float, rng: np.random.Generator) -> ImageArray:
    """Raise gray levels, between 0 and 1, to a power.

    Parameters
    ----------
    images : array, shape (n, height, width[, 3])
        Gray levels, 0 to 255.
    amount : float
        Exponent.
    rng : numpy.random.Generator
        Source of random numbers, unused.

    Returns
    -------
    array, shape of `images`
        Changed gray levels.
    """
    return _bytes(255.0 * (images / 255.0) ** amount)


def grain(images: ImageArray, amount: float, rng: np.random.Generator) -> ImageArray:
    """Add independent Gaussian noise to each pixel.

    Parameters
    ----------
    images : array, shape (n, height, width[, 3])
        Gray levels, 0 to 255.
    amount : float
        Standard deviation of the noise, in gray levels.
    rng : numpy.random.Generator
        Source of the random numbers.

    Returns
    -------
    array, shape of `images`
        Changed gray levels.
    """
    return _bytes(images + amount * rng.standard_normal(images.shape))


def blur(images: ImageArray, amount: float, rng: np.random.Generator) -> ImageArray:
    """Mix each pixel with its neighbours on both sides, up and down.

    Parameters
    ----------
    images : array, shape (n, height, width[, 3])
        Gray levels, 0 to 255.
    amount : float
        Share of each of the two neighbours, along each axis.
    rng : numpy.random.Generator
        Source of random numbers, unused.

    Returns
    -------
    array, shape of `images`
        Changed gray levels.
    """
    soft: FloatArray = images.astype(np.float64)
    for axis in (1, 2):
        width = [(int(here == axis),) * 2 for here in range(soft.ndim)]
        padded = np.pad(soft, width, mode="symmetric")
        sides = np.stack(
            [padded.take(range(start, start + soft.shape[axis]), axis) for start in (0, 2)]
        )
        soft = (1.0 - amount) * soft + amount * sides.mean(axis=0)
    return _bytes(soft)


def _bytes(levels: FloatArray) -> ImageArray:
    return np.clip(np.rint(levels), 0, 255).astype(np.uint8)


CHANGES: Mapping[str, Callable[..., ImageArray]] = {
    change.__name__: change for change in (gain, gamma, grain, blur)
}
"""Values of `change` of a series, beside none and another class, and their functions."""


def _still(levels: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]) -> "RareImages":
    """Return what makes one image again and again: the levels at row y and column x."""

    def images(height: int, width: int, count: int, rng: np.random.Generator) -> FloatArray:
        y, x = np.mgrid[:height, :width]
        return np.tile(levels(y, x).astype(np.float64), (count, 1, 1))

    return images


def _dots(height: int, width: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Return black images with one faint pixel each."""
    images = np.zeros((count, height, width))
    places = np.arange(count), rng.integers(height, size=count), rng.integers(width, size=count)
    images[places] = rng.integers(1, 6, size=count)
    return images


def _photograph(height: int, width: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Return crops of the cameraman of scikit-image, at its full resolution."""
    from skimage.data import camera

    picture = camera()  # type: ignore[no-untyped-call]
    corners = zip(*(rng.integers(512 - side, size=count) for side in (height, width)), strict=True)
    return np.stack([picture[y : y + height, x : x + width] for y, x in corners]).astype(np.float64)


RareImages: TypeAlias = Callable[[int, int, int, np.random.Generator], FloatArray]
"""Height, width, count and a stream → images, (count, height, width), of 256 gray levels."""
RARE: Mapping[str, RareImages] = {
    "stripes": _still(lambda y, x: 255 * (x // 2 % 2)),
    "checkerboard": _still(lambda y, x: 255 * ((x + y) % 2)),
    "ramp": _still(lambda y, x: np.linspace(0.0, 255.0, x.shape[1])[x]),
    "black": _still(lambda y, x: 0 * x),
    "faint dots": _dots,
    "photograph": _photograph,
}
"""Values of `rare` of a series, beside none, and their images."""
RARE_IMAGES = 200
"""Rare images that are drawn from."""


def rare_images(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> ImageArray:
    """Return rare images of a kind, (`RARE_IMAGES`, *shape); in colour all channels are equal.

    Parameters
    ----------
    kind : str
        Name of the pattern, in `RARE`.
    shape : tuple of int
        Shape of an image, (height, width[, 3]).
    rng : numpy.random.Generator
        Source of the random numbers.
    """
    images = _bytes(RARE[kind](shape[0], shape[1], RARE_IMAGES, rng))
    if len(shape) == 3:
        images = np.repeat(images[..., np.newaxis], shape[2], axis=-1)
    return images
