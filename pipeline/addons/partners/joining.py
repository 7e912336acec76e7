"""Joint releases, measured: how far off one mean of several hospitals is, beside one of all.

In each repetition the records of a class are divided at random between hospitals of given sizes,
and released jointly with secret labels, or by each hospital and combined. A joint release is drawn
without masks and without a network, which cancel: the hospitals' sums and shares of noise are added
as they stand. Each share is rounded to a whole step of the lattice, from a generator that repeats.
Images of the last hospitals may have been seen by a scanner of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from covdp.addons.partners.hospitals import divided, noise_of, together
from covdp.addons.partners.join.shares import JointNoise, Share, Words
from covdp.config import Count, ExperimentConfig, SampledSeries
from covdp.experiments.driver import Cell, ExperimentKind, Setting, one_by_one, stream_seed
from covdp.experiments.images import CHANGES, Run, image_setting, placed_images
from covdp.experiments.populations import batches, population
from covdp.geometry import Point, chart_of, frechet_mean
from covdp.mean import Labels, MeanSetup, Release, draw_each
from covdp.mechanisms.noise import FloatNoise

GAIN = 0.85
"""Factor of the gray levels that the other scanner sees."""


class JoinSeries(SampledSeries):
    """A series of records that hospitals release jointly, or each by itself.

    Attributes
    ----------
    hospitals : tuple of int
        Sizes of hospitals, as ratios.
    colluders : int, optional
        Number of hospitals that may show their noise, of a joint release; none where each hospital
        releases its own, and releases are combined.
    scanned : float
        Share of the records that another scanner has seen: those of the last hospitals.
    """

    hospitals: tuple[Count, ...] = Field((1,), min_length=1)
    colluders: Annotated[int, Field(ge=0)] | None = None
    scanned: Annotated[float, Field(ge=0, lt=1)] = 0.0


class JoinExperiment(ExperimentConfig):
    """An experiment whose series are `JoinSeries`."""

    mechanisms: tuple[JoinSeries, ...] = ()


class ScannedClass(NamedTuple):
    """Records of a class as two scanners see them.

    Attributes
    ----------
    name : str
        Name of the class.
    placed : array, shape (2·n, d)
        Records in the chart: of the usual scanner, then of the other.
    total : int
        Number N of records of all classes.
    """

    name: str
    placed: Point
    total: int


@dataclass(frozen=True)
class Room:
    """Room in which hospitals add up their shares as they stand: the sums of all, and m noises.

    Attributes
    ----------
    many : int
        Number m of hospitals.
    rng : numpy.random.Generator
        Source of the random numbers.
    """

    many: int
    rng: np.random.Generator

    def opened(self, step: int, share: Share) -> Words:
        """Return the total of a step.

        Parameters
        ----------
        step : int
            Number of the step.
        share : Share
            Sums of all hospitals, and the parameter of the noise of each.
        """
        noise = self.rng.standard_normal((self.many, len(share.whole)))
        shares = np.rint(share.scale * noise).astype(np.int64)
        return np.asarray(share.whole + shares.sum(axis=0)).view(np.uint64)

    def agreed(self, step: int, parameters: Mapping[str, NDArray[Any]]) -> Mapping[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        step : int
            Number of the step.
        parameters : mapping of str to array
            Parameters as they were computed.
        """
        return parameters


def read_scanned(run: Run, label: int) -> tuple[ScannedClass, Setting]:
    """Return the images of a class as both scanners see them.

    Parameters
    ----------
    run : Run
        Experiment on one dataset.
    label : int
        Label of the class.
    """
    images, splits = run.images, run.config.splits
    rng = np.random.default_rng(stream_seed(run.config, f"{label}/scanner"))
    changes = None, partial(CHANGES["gain"], amount=GAIN, rng=rng)
    placed = [placed_images(run, label, splits, change) for change in changes]
    total = sum(len(images.select(splits, one).rows) for one in run.labels)
    return ScannedClass(images.classes[label], np.concatenate(placed), total), image_setting(run)


def join_parts(
    records: ScannedClass, setting: Setting, cell: Cell[JoinSeries], rng: np.random.Generator
) -> dict[str, Any]:
    """Return the columns of one cell: a release of all hospitals a repetition.

    Parameters
    ----------
    records : ScannedClass
        Records of a class.
    setting : Setting
        Config, manifold and public bound of the run.
    cell : Cell
        Series and budget.
    rng : np.random.Generator
        Random generator of the division and the noise.
    """
    series, results, own = cell.series, [], len(records.placed) // 2
    n, space = min(series.n or own, own), chart_of(setting.manifold)
    scanned = own * (np.arange(n) >= n - round(series.scanned * n))
    for batch in batches(setting.repetitions(series), n):
        samples = [records.placed[rng.permutation(own)[:n] + scanned] for _ in batch]
        released = _released(samples, records.total, setting, cell, rng)
        for sample, found in zip(samples, released, strict=True):
            true, point = frechet_mean(sample, space).point, together(found, "sample")[0]
            results.append((float(space.dist(true, point)), noise_of(found)))
    return {"n": n, **dict(zip(("error", "sigma"), np.array(results).T, strict=True))}


def _released(
    samples: Sequence[Point],
    total: int,
    setting: Setting,
    cell: Cell[JoinSeries],
    rng: np.random.Generator,
) -> list[tuple[Release, ...]]:
    """Return the releases of each sample: one of all hospitals, or one of each."""
    series, budget = cell.series, setting.config.budget(cell.value)

    def prepared(parts: Sequence[Point], labels: Labels) -> list[MeanSetup]:
        people = (population(part, setting, labels=labels) for part in parts)
        return [own.prepare(np.arange(own.own), series.plan, rng) for own in people]

    if series.colluders is not None:
        many = len(series.hospitals)
        noise = [JointNoise(many, series.colluders, total, Room(many, rng)) for _ in samples]
        budget = noise[0].budget_of_total(budget)
        drawn = draw_each(prepared(samples, Labels(total)), budget, noise=noise)
        return [(one,) for one in drawn.each]
    hospitals = zip(*(divided(sample, series.hospitals) for sample in samples), strict=True)
    each = list[Sequence[Release]]()
    for size, parts in zip(series.hospitals, hospitals, strict=True):
        labels = Labels(max(round(total * size / sum(series.hospitals)), len(parts[0])))
        each.append(draw_each(prepared(parts, labels), budget, noise=FloatNoise(rng)).each)
    return list(zip(*each, strict=True))


JOINING = ExperimentKind(
    in_words=(
        "Each repetition divided the records of a class at random between hospitals, none twice, "
        "with secret labels; they were released jointly, each hospital with its share of the "
        "noise, or by each with the whole budget and combined; the distance from the mean of all "
        "records was measured"
    ),
    cells=one_by_one(join_parts),
    read=read_scanned,
    config=JoinExperiment,
    on_images=True,
)
