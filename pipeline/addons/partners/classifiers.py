"""Classifiers from released means, measured on images that they were not made of.

In each repetition every class is released once, by itself, and all series with the same release
judge by the same releases. Where the images have a test split, its images are classified and all
others released; elsewhere a random half of each class, another one each time. The same classifiers
made without noise, of the same records, show what the noise costs.
"""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from covdp.addons.partners.classify import Discriminants, discriminants_of_means, lda, nearest_mean
from covdp.arrays import FloatArray
from covdp.config import ExperimentConfig, SampledSeries
from covdp.errors import require_known
from covdp.experiments.driver import (
    AnyCell,
    Cell,
    CellRows,
    ExperimentKind,
    Setting,
    finished,
    stream_seed,
)
from covdp.experiments.images import Run, image_setting, placed_images
from covdp.experiments.populations import Population, batches, population
from covdp.geometry import Manifold, Point, chart_of
from covdp.mean import Records, Release
from covdp.report.run_page import lines_of
from covdp.report.runs import FinishedRun
from covdp.results import summarise

TEST = "test"
"""The split that is classified, where there is one."""


class ClassifierSeries(SampledSeries):
    """A series of classifiers from released means.

    Attributes
    ----------
    classifier : str
        ``nearest mean`` or ``lda``.
    ridge : float, optional
        Ridge of lda, in place of the usual one.
    """

    classifier: str = "nearest mean"
    ridge: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class ClassifierExperiment(ExperimentConfig):
    """An experiment whose series are `ClassifierSeries`."""

    mechanisms: tuple[ClassifierSeries, ...] = ()


class Classes(NamedTuple):
    """The records of all classes.

    Attributes
    ----------
    name : str
        Name of all classes together.
    populations : tuple of Population
        Records of each class that may be released.
    unseen : tuple of array, optional
        Records of each class that are classified; None where they are a half of `populations`.
    """

    name: str
    populations: tuple[Population, ...]
    unseen: tuple[Point, ...] | None

    def split(
        self, rng: np.random.Generator
    ) -> tuple[Sequence[NDArray[np.int64]], Sequence[Point]]:
        """Return rows of what is released in one repetition, and what is classified.

        Parameters
        ----------
        rng : np.random.Generator
            Random generator that halves the records of each class.
        """
        if self.unseen is not None:
            return [np.arange(c.own) for c in self.populations], self.unseen
        halves = [np.array_split(rng.permutation(c.own), 2) for c in self.populations]
        unseen = [
            c.records.placed[half[1]] for c, half in zip(self.populations, halves, strict=True)
        ]
        return [half[0] for half in halves], unseen


def read_classes(run: Run, label: int) -> tuple[Classes, Setting]:
    """Return the records of all classes of a run; `label` is that of the first.

    Parameters
    ----------
    run : Run
        Experiment on one dataset.
    label : int
        Label of the first class.
    """
    setting, source = image_setting(run), run.images

    def records(*splits: str) -> tuple[Point, ...]:
        return tuple(placed_images(run, index, splits or run.config.splits) for index in run.labels)

    def populations(*splits: str) -> tuple[Population, ...]:
        return tuple(population(points, setting) for points in records(*splits))

    others = tuple(name for name in ("train", "val") if any(source.counts(name)))
    has_test = run.config.splits is None and all(
        source.counts(TEST)[index] and source.counts(others)[index] for index in run.labels
    )
    if has_test:
        return Classes("all classes", populations(*others), records(TEST)), setting
    return Classes("all classes", populations(), None), setting


class Draw(NamedTuple):
    """One repetition: where means are, what was released, and what of.

    Attributes
    ----------
    space : Manifold
        Manifold, a chart where it is flat.
    released : sequence of Release
        Release of each class.
    samples : sequence of Records
        Records that each release is of.
    """

    space: Manifold
    released: Sequence[Release]
    samples: Sequence[Records]

    @property
    def ends(self) -> Point:
        """The released means."""
        return np.stack([release.point for release in self.released])

    @property
    def means(self) -> Point:
        """The means without noise."""
        return np.stack([sample.frechet.point for sample in self.samples])


def _nearest(draw: Draw, series: ClassifierSeries) -> Discriminants | None:
    if all(release.moments for release in draw.released):
        return nearest_mean(draw.released)
    return discriminants_of_means(draw.space, draw.ends)


def _lda(draw: Draw, series: ClassifierSeries) -> Discriminants | None:
    moments = [each for release in draw.released for each in release.moments]
    if all(item.moment is None for item in moments):
        return None
    return lda(draw.released, **({} if series.ridge is None else {"ridge": series.ridge}))


def _plain_lda(draw: Draw) -> Discriminants:
    means = draw.means
    places = [draw.space.log(means[0], sample.placed) for sample in draw.samples]
    spreads = [np.cov(points, rowvar=False, bias=True) for points in places]
    within = np.average(spreads, axis=0, weights=[len(points) for points in places])
    return discriminants_of_means(draw.space, means, within)


class Classifier(NamedTuple):
    """A classifier of released means, None where they do not allow it, and of the true ones.

    Attributes
    ----------
    private : callable
        Discriminants of a draw from its released means; None where these do not allow it.
    plain : callable
        Discriminants of the same draw from its means without noise.
    """

    private: Callable[[Draw, ClassifierSeries], Discriminants | None]
    plain: Callable[[Draw], Discriminants]


CLASSIFIERS: Mapping[str, Classifier] = {
    "nearest mean": Classifier(
        _nearest, lambda draw: discriminants_of_means(draw.space, draw.means)
    ),
    "lda": Classifier(_lda, _plain_lda),
}
"""Classifiers by their names, the values of `classifier` of a series."""


def run_classifiers(
    classes: Classes, setting: Setting, pending: Sequence[Cell[ClassifierSeries]]
) -> CellRows:
    """Compute the `pending` cells and yield each one's columns.

    Parameters
    ----------
    classes : Classes
        Records of all classes.
    setting : Setting
        Config, manifold and public bound of the run.
    pending : sequence of Cell
        Cells, each a series and a budget, that have no rows yet.

    Returns
    -------
    iterator of (Cell, dict of str to object)
        Each cell, and its columns by name.
    """
    groups = dict[tuple[str, float], list[Cell[ClassifierSeries]]]()
    for cell in pending:
        groups.setdefault((_first(cell.series, setting), cell.value), []).append(cell)
    for (first, _), cells in groups.items():
        yield from columns(classes, first, cells, setting)


def _first(series: ClassifierSeries, setting: Setting) -> str:
    """Return the first series that releases as `series` does: it names the stream of both."""
    assert isinstance(setting.config, ClassifierExperiment)
    same = (series.plan, series.n)
    return next(x.series for x in setting.config.mechanisms if (x.plan, x.n) == same)


def columns(
    classes: Classes, first: str, cells: Sequence[Cell[ClassifierSeries]], setting: Setting
) -> list[tuple[AnyCell, dict[str, Any]]]:
    """Return the rows of some cells that judge by the same releases.

    Parameters
    ----------
    classes : Classes
        Records of all classes.
    first : str
        Series of which the stream of random numbers is taken.
    cells : sequence of Cell
        Cells of one budget that judge by the same releases.
    setting : Setting
        Config, manifold and public bound of the run.
    """
    config, series, value = setting.config, cells[0].series, cells[0].value
    seed, budget = stream_seed(config, f"{first}/{value!r}"), config.budget(value)
    rng, started, space = np.random.default_rng(seed), perf_counter(), chart_of(setting.manifold)
    rows: list[list[tuple[float, ...]]] = [[] for _ in cells]
    errors, n = list[float](), 0
    times = max(setting.repetitions(cell.series) for cell in cells)
    for batch in batches(times, sum(class_.own for class_ in classes.populations)):
        splits = [classes.split(rng) for _ in batch]
        samples = [[rng.permutation(rows)[: series.n] for rows in each] for each, _ in splits]
        each = [
            class_.release_each(own, budget, series.plan, rng)
            for class_, own in zip(classes.populations, zip(*samples, strict=True), strict=True)
        ]
        for (_, unseen), sample, *released in zip(splits, samples, *each, strict=True):
            pairs = zip(classes.populations, sample, strict=True)
            drawn = [class_.records.sample(own) for class_, own in pairs]
            n = min(part.n for part in drawn)
            draw = Draw(space, released, drawn)
            errors.append(float(np.sqrt(np.mean(space.dist(draw.ends, draw.means) ** 2))))
            truth = np.repeat(np.arange(len(unseen)), list(map(len, unseen)))
            points = np.concatenate(unseen)
            names = dict.fromkeys(cell.series.classifier for cell in cells)
            plain = {name: score(CLASSIFIERS[name].plain(draw), points, truth) for name in names}
            for entries, cell in zip(rows, cells, strict=True):
                key = cell.series.classifier
                made = CLASSIFIERS[key].private(draw, cell.series)
                entries.append((*score(made, points, truth), *plain[key]))
    same = {"n": n, "seed": seed, "error": errors}
    seconds = perf_counter() - started
    return [
        (
            cell,
            finished(
                classes.name, setting, cell, same | dict(zip(SCORES, scores, strict=True)), seconds
            ),
        )
        for cell, scores in zip(cells, (np.array(row).T for row in rows), strict=True)
    ]


SCORES = ("auc", "balanced", "auc_plain", "balanced_plain")
"""Columns: of what was released, and of the same without noise."""


def score(
    classifier: Discriminants | None, points: Point, truth: NDArray[np.int64]
) -> tuple[float, float]:
    """Return the area under the ROC curve and the balanced accuracy; NaN without a classifier.

    Of several classes the area is the mean of those of each class against all others.

    Parameters
    ----------
    classifier : Discriminants or None
        Discriminants of the classes.
    points : array, shape (m, *point_shape)
        Records to classify.
    truth : array of int, shape (m,)
        Number of the class of each.
    """
    if classifier is None:
        return np.nan, np.nan
    discriminants = classifier.discriminants(points)
    many = discriminants.shape[1]
    areas = [area(against(discriminants, c), truth == c) for c in range(1 if many == 2 else many)]
    right = np.argmax(discriminants, axis=1) == truth
    recalls = [right[truth == c].mean() for c in range(many)]
    return float(np.mean(areas)), float(np.mean(recalls))


def against(discriminants: FloatArray, label: int) -> FloatArray:
    """Return the log-odds of a class against all others, of equal priors, by discriminants.

    Parameters
    ----------
    discriminants : array, shape (m, classes)
        Log-odds of each class, up to a common term.
    label : int
        Number of the class.
    """
    others = np.delete(discriminants, label, axis=1)
    return np.asarray(discriminants[:, label] - np.logaddexp.reduce(others, axis=1))


def area(scores: FloatArray, positive: NDArray[np.bool_]) -> float:
    """Return how often a positive scores above a negative, ties by half (Mann and Whitney).

    Parameters
    ----------
    scores : array, shape (m,)
        Score of each record.
    positive : array of bool, shape (m,)
        True for the positives, of which there is one or more, as of the negatives.
    """
    above, below = np.sort(scores[positive]), np.sort(scores[~positive])
    wins = (np.searchsorted(below, above, side).sum() for side in ("left", "right"))
    return float(sum(wins)) / (2.0 * len(above) * len(below))


def check_classifiers(config: ClassifierExperiment) -> None:
    """Refuse a classifier that is not known.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment whose series are checked.
    """
    for series in config.mechanisms:
        require_known("classifier", series.classifier, CLASSIFIERS, "ours-classify.toml has all")


def classified(run: FinishedRun) -> list[dict[str, Any]]:
    """Return what each classifier tells apart, with noise and without, by series and budget.

    Parameters
    ----------
    run : FinishedRun
        Finished experiment with its rows.
    """
    if run.rows is None or not np.isfinite(run.rows["auc_plain"]).any():
        return []
    means = {name: summarise(run.rows, value=name)["mean"] for name in SCORES}
    return list(lines_of({**summarise(run.rows, value="auc"), **means}))


CLASSIFYING = ExperimentKind(
    in_words=(
        "Each repetition released the mean of every class, and classified new images by the "
        "releases alone"
    ),
    cells=run_classifiers,
    read=read_classes,
    check=check_classifiers,
    config=ClassifierExperiment,
    on_images=True,
    together=True,
)
