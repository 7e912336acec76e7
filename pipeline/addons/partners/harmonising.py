"""Sites put on one scale, measured: how well classifiers find site and class of an image.

In each repetition the images are divided at random between as many sites as there are scanners,
none twice, and taken by the scanner of their site (`SCANNERS`, simulated). What each site releases
of its images makes the maps, which are then applied to all of them. Linear discriminants of single
images, made without noise, tell the site of one half by the other half, and the class of the images
of each site by those of all others. Nothing of this is private but the releases.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from covdp.addons.partners.classifiers import area
from covdp.addons.partners.harmonise import harmonise
from covdp.arrays import FloatArray
from covdp.config import ExperimentConfig, SampledSeries
from covdp.errors import ConfigError, require_known
from covdp.experiments.driver import Cell, ExperimentKind, Setting, one_by_one, stream_seed
from covdp.experiments.images import CHANGES, Run, image_setting, placed_images
from covdp.experiments.populations import Population, population

SCANNERS: tuple[tuple[str, float], ...] = (
    ("none", 0.0),
    ("gain", 0.85),
    ("gamma", 0.8),
    ("grain", 5.0),
    ("blur", 0.33),
)
"""Change that the scanner of each site makes to images, one of `CHANGES`, and its amount."""


class ScalingSeries(SampledSeries):
    """A series of sites that are put on one scale.

    Attributes
    ----------
    scaling : str
        Means of what put sites on one scale: as they are (none), all images, or each class.
    """

    scaling: str = "as they are"


class HarmonisingExperiment(ExperimentConfig):
    """An experiment whose series are `ScalingSeries`."""

    mechanisms: tuple[ScalingSeries, ...] = ()


class Sites(NamedTuple):
    """All images as each of the scanners sees them.

    Attributes
    ----------
    name : str
        Name of all classes together.
    populations : tuple of Population
        Images of each scanner, in one order.
    truth : array, shape (n,)
        Class of each.
    """

    name: str
    populations: tuple[Population, ...]
    truth: NDArray[np.int64]


def read_sites(run: Run, label: int) -> tuple[Sites, Setting]:
    """Return the images of all classes of a run; `label` is that of the first.

    Parameters
    ----------
    run : Run
        Experiment on one dataset.
    label : int
        Label of the first class.
    """
    setting, splits, populations = image_setting(run), run.config.splits, []
    for number, (name, amount) in enumerate(SCANNERS):
        rng = np.random.default_rng(stream_seed(run.config, f"scanner {number}"))
        change = partial(CHANGES[name], amount=amount, rng=rng) if name in CHANGES else None
        places = [placed_images(run, site, splits, change) for site in run.labels]
        populations.append(population(np.concatenate(places), setting))
    truth = np.repeat(np.arange(len(places)), [len(part) for part in places])
    return Sites("all classes", tuple(populations), truth), setting


class Division(NamedTuple):
    """One repetition: which images are at each site, (s, n), and the noise of its releases.

    Attributes
    ----------
    sites : Sites
        Images as each of the scanners sees them.
    setting : Setting
        Config, manifold and public bound of the run.
    rows : array of int, shape (s, n)
        Numbers of the images at each site.
    budget : float
        Budget of each release, in the parameter of the config's definition.
    rng : np.random.Generator
        Random generator of the noise.
    """

    sites: Sites
    setting: Setting
    rows: NDArray[np.int64]
    budget: float
    rng: np.random.Generator

    @property
    def coordinates(self) -> FloatArray:
        """The images of all sites in coordinates at the origin, (s, n, d)."""
        space = self.sites.populations[0].records.space
        every = zip(self.sites.populations, self.rows, strict=True)
        return np.stack([space.log(space.origin, s.records.placed[rows]) for s, rows in every])


def _released(
    division: Division, series: ScalingSeries, parts: list[list[NDArray[np.int64]]]
) -> FloatArray:
    """Return the images on the scale of the maps that releases of parts of each site make."""
    places, populations = division.coordinates, division.sites.populations
    budget, rng = division.setting.config.budget(division.budget), division.rng
    released = {
        str(site): [pool.release_each([part], budget, series.plan, rng)[0] for part in own]
        for site, (pool, own) in enumerate(zip(populations, parts, strict=True))
    }
    try:
        result = harmonise(released)
    except ConfigError:  # all maps would be noise: they stay as they are
        return places
    space = populations[0].records.space
    origin = space.log(space.origin, result.base)
    maps = [result.map_of(str(site)) for site in range(len(places))]
    return np.stack(
        [origin + site_map.move(own - origin) for site_map, own in zip(maps, places, strict=True)]
    )


def _of_classes(division: Division, series: ScalingSeries) -> FloatArray:
    truth = division.sites.truth
    parts = [[rows[truth[rows] == label] for label in np.unique(truth)] for rows in division.rows]
    return _released(division, series, parts)


def without_noise(division: Division) -> FloatArray:
    """Return the images of all sites with their true means on one another, classes as often.

    Parameters
    ----------
    division : Division
        Images at each site.
    """
    places, truth = division.coordinates, division.sites.truth[division.rows]
    classes = range(int(truth.max()) + 1)
    weights = np.bincount(truth.ravel()) / truth.size
    means = [
        sum(weights[label] * own[labels == label].mean(axis=0) for label in classes)
        for own, labels in zip(places, truth, strict=True)
    ]
    return np.asarray(places - np.array(means)[:, np.newaxis])


SCALINGS: Mapping[str, Callable[[Division, ScalingSeries], FloatArray]] = {
    "as they are": lambda division, _: division.coordinates,
    "all images": lambda division, series: _released(
        division, series, [[x] for x in division.rows]
    ),
    "each class": _of_classes,
}
"""Scalings by their names, the values of `scaling` of a series: images of all sites on one scale,
shape (s, n, d)."""


def harmonise_sites(
    sites: Sites, setting: Setting, cell: Cell[ScalingSeries], noise: np.random.Generator
) -> dict[str, Any]:
    """Return the columns of one cell: one division between sites a repetition, as in all cells.

    Parameters
    ----------
    sites : Sites
        Images as each of the scanners sees them.
    setting : Setting
        Config, manifold and public bound of the run.
    cell : Cell
        Series and budget.
    noise : np.random.Generator
        Random generator of the noise; the division has a generator of its own.
    """
    many, total, scores = len(sites.populations), len(sites.truth), []
    n = min(cell.series.n or total // many, total // many)
    for repetition in range(setting.repetitions(cell.series)):
        rng = np.random.default_rng([stream_seed(setting.config, "sites"), repetition])
        rows = rng.permutation(total)[: many * n].reshape(many, n)
        division = Division(sites, setting, rows, cell.value, noise)
        order, truth = rng.permutation(many * n), sites.truth[rows]
        both = SCALINGS[cell.series.scaling](division, cell.series), without_noise(division)
        scores.append([number for places in both for number in score(places, truth, order)])
    names = ("balanced", "auc", "error", "balanced_plain", "auc_plain")
    return {"n": n, **dict(zip(names, np.array(scores).T, strict=False))}


def score(
    places: FloatArray, truth: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[float, float, float]:
    """Return how often the site is found, the area by which classes are, how far sites are apart.

    The first is that of a half of the images, by discriminants of the others; the second the mean
    over sites, of classes distinguished by those of all other sites; the third the root mean square
    distance of the mean of a site from that of all.

    Parameters
    ----------
    places : array, shape (s, n, d)
        Images of all sites on one scale, in coordinates.
    truth : array of int, shape (s, n)
        Class of each.
    order : array of int, shape (s·n,)
        Permutation of all images; sites are learnt on its first half.
    """
    many, n, d = places.shape
    flat, label = places.reshape(-1, d), truth.ravel()
    site, (first, second) = np.repeat(np.arange(many), n), np.array_split(order, 2)
    right = discriminants(flat[first], site[first], flat[second]).argmax(axis=1) == site[second]
    areas = []
    for index in range(many):
        here = site == index
        values = discriminants(flat[~here], label[~here], flat[here])
        classes = range(values.shape[1])
        odds = [values[:, c] - np.delete(values, c, axis=1).max(axis=1) for c in classes]
        chosen = classes[1:] if len(classes) == 2 else classes
        areas += [area(odds[c], label[here] == c) for c in chosen]
    away = places.mean(axis=1) - flat.mean(axis=0)
    apart = float(np.sqrt(np.mean(np.sum(away**2, axis=1))))
    return float(np.mean(right)), float(np.mean(areas)), apart


def discriminants(points: FloatArray, labels: NDArray[np.int64], others: FloatArray) -> FloatArray:
    """Return the linear discriminants of points for other points, (m, classes).

    Parameters
    ----------
    points : array, shape (n, d)
        Images to learn from.
    labels : array of int, shape (n,)
        Class of each, from 0.
    others : array, shape (m, d)
        Images to classify.
    """
    vary = np.ptp(points, axis=0) > 0.0  # a constant says nothing
    points, others = points[:, vary], others[:, vary]
    means = np.array([points[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    away = points - means[labels]
    weights = np.linalg.solve(away.T @ away / len(away), means.T)
    return np.asarray(others @ weights - 0.5 * np.sum(means.T * weights, axis=0))


def check_scalings(config: HarmonisingExperiment) -> None:
    """Refuse a scaling that is not known.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment whose series are checked.
    """
    for series in config.mechanisms:
        require_known("scaling", series.scaling, SCALINGS, "ours-harmonise.toml has all")


HARMONISING = ExperimentKind(
    in_words=(
        "Each repetition divided the images at random between sites with simulated scanners, none "
        "twice, released the means of each site, and put the images on one scale by the releases "
        "alone; linear discriminants of single images then predicted their site and their class"
    ),
    cells=one_by_one(harmonise_sites),
    read=read_sites,
    check=check_scalings,
    config=HarmonisingExperiment,
    on_images=True,
    together=True,
)
