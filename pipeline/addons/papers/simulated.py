"""Records that are simulated: every class of an experiment that needs no images.

In: a config with a `SourceConfig`. Out: for each label its records, and the setting they live in.
Each class has a random stream of its own.

Outlines are like a corpus callosum, made up: the real ones of the paper are not public. A curved
band, thick at both ends and hooked at one, seen from the side, with landmarks along its edge. A
record bends and swells it a little and is turned by a small angle, as heads do in a scanner.
Pictures show six private outlines of each series, as coordinates that the report draws.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from covdp.addons.papers.kendall import preshape
from covdp.arrays import FloatArray
from covdp.config import ExperimentConfig, SourceConfig
from covdp.errors import ConfigError
from covdp.experiments.driver import ClassData, Setting, stream_seed
from covdp.experiments.kinds import SOURCES
from covdp.files import make_folder, write_whole
from covdp.geometry import MANIFOLDS, Manifold
from covdp.mean import Ball, Domain, admit, draw, prepare
from covdp.mean.public_model import center_of
from covdp.mechanisms.noise import FloatNoise
from covdp.mechanisms.radial import directions

SPREAD = 0.035
"""Size of a deformation: most records are within 0.1 of the template."""
TURN = 0.35
"""Largest angle, in radians, by which a record is turned."""


def template(landmarks: int) -> NDArray[Any]:
    """Return the public mean outline as a preshape, shape (landmarks,) complex.

    Parameters
    ----------
    landmarks : int
        Number of landmarks.
    """
    half = landmarks // 2
    along = np.concatenate([np.linspace(0, 1, half), np.linspace(1, 0, landmarks - half + 2)[1:-1]])
    side = np.concatenate([np.ones(half), -np.ones(landmarks - half)])
    angle = math.pi * (0.02 + 1.26 * along)
    bend = np.where(angle > math.pi, 1 - 0.45 * (angle / math.pi - 1) / 0.28, 1.0)
    spine = np.cos(angle) * bend + 0.2 * (1 - bend) + 0.62j * np.sin(angle) * np.sqrt(bend)
    width = 0.09 + 0.08 * np.exp(-(((along - 0.08) / 0.09) ** 2))
    width = width + 0.09 * np.exp(-(((along - 0.74) / 0.09) ** 2))
    width *= np.sqrt(np.clip(np.sin(math.pi * along), 0.02, 1))
    normal = np.exp(1j * np.arctan2(np.sin(angle), np.cos(angle)))
    return preshape(spine + side * width * normal)


def outlines(landmarks: int, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return n random outlines as preshapes, shape (n, landmarks) complex.

    Parameters
    ----------
    landmarks : int
        Number of landmarks.
    n : int
        Number of outlines.
    rng : numpy.random.Generator
        Source of the random numbers.
    """
    turns = 2j * math.pi * np.arange(landmarks) / landmarks
    modes = np.array([-5, -4, -3, -2, 2, 3, 4, 5])
    waves = np.exp(modes[:, None] * turns) / (np.abs(modes)[:, None] * math.sqrt(landmarks))
    weights = rng.standard_normal((n, len(modes), 2)) @ np.array([1.0, 1.0j])
    moved = template(landmarks) + SPREAD * weights @ waves
    angle = rng.uniform(-TURN, TURN, (n, 1))
    return preshape(moved * np.exp(1j * angle))


def smooth(shapes: NDArray[Any], span: float, *, points: int = 150) -> NDArray[Any]:
    """Return closed outlines smoothed by local linear regression, shape (..., points) complex.

    At each of `points` places, equally spaced along the outline, a straight line is fitted to both
    coordinates of the landmarks around it, as a function of their number, by least squares with
    Cleveland's tricube weights; its value there is the smoothed point. It uses the released outline
    alone, so it costs no privacy.

    Parameters
    ----------
    shapes : array, shape (..., landmarks)
        Outlines, complex, whose last landmark is followed by the first.
    span : float
        Share of the landmarks to which a straight line is fitted; they are fewer than all, and at
        least 4.
    points : int
        Number of places along the outline.

    References
    ----------
    Cleveland (1979), Robust locally weighted regression and smoothing scatterplots, degree 1.
    """
    count = shapes.shape[-1]
    if not 4 <= span * count < count:
        raise ConfigError(
            f"smoothing must span at least 4 and not all of the {count} landmarks, found {span}; "
            f"choose a share between {4 / count:.2g} and 1"
        )
    place = np.arange(points)[:, None] * count / points
    apart = (np.arange(count) - place + count / 2) % count - count / 2  # along the closed outline
    weight = np.clip(1.0 - np.abs(2.0 * apart / (span * count)) ** 3, 0.0, None) ** 3
    zeroth, first, second = ((weight * apart**power).sum(axis=1) for power in (0, 1, 2))
    rows = weight * (second[:, None] - first[:, None] * apart)
    rows /= (zeroth * second - first**2)[:, None]
    return np.asarray(shapes @ rows.T)


def build_manifold(name: str, dimension: int) -> Manifold:
    """Return the manifold `name` of the given dimension d; raise `ConfigError` if none has it.

    Parameters
    ----------
    name : str
        Name of the manifold.
    dimension : int
        Dimension d.
    """
    of_dimension = getattr(MANIFOLDS[name], "of_dimension", None)
    if of_dimension is None:
        raise ConfigError(f"{name} does not say how it is made for a dimension; simulate another")
    return cast(Manifold, of_dimension(dimension))


def simulate(config: ExperimentConfig, label: int) -> tuple[ClassData, Setting]:
    """Return the records of one class, from a stream of its own, and their setting.

    The setting has the ball that they are in, and its manifold.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    label : int
        Label of the class.
    """
    source, (name, dimension, n) = config.source, config.simulated[label]
    assert source is not None  # or it would have no such class
    manifold, kind = build_manifold(name, dimension), cast(Source, SOURCES[source.kind])
    setting = Setting(config, kind.ball(manifold, source.radius), manifold)
    rng = np.random.default_rng(stream_seed(config, f"{label}/points"))
    points = kind.draw(manifold, setting.domain, source, n, rng)
    persons = kind.persons(source, n) if kind.persons else None
    return ClassData(label, class_title(config, label), points, persons), setting


def class_title(config: ExperimentConfig, label: int) -> str:
    """Return the title that tells this class from the others of its experiment.

    The title is by k where the paper's figure is.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    label : int
        Label of the class.
    """
    source, (name, dimension, n) = config.source, config.simulated[label]
    assert source is not None  # or it would have no such class
    manifold = build_manifold(name, dimension)
    if config.figure.x == "k":
        return f"k = {manifold.point_shape[0]}"
    parts = [manifold.title]
    if len(source.manifolds) > 1:
        parts = [manifold.metric]
    if len(source.dimensions) > 1:
        parts.append(f"d = {manifold.dim}")
    if len(source.n) > 1:
        parts.append(f"n = {n}")
    return ", ".join(parts)


def _around_origin(manifold: Manifold, radius: float) -> Ball:
    return Ball(radius, manifold.name, manifold.origin)


@dataclass(frozen=True)
class Source:
    """One way to make the records of a class.

    Attributes
    ----------
    draw : callable
        Function that makes n records of a manifold in a ball, as the config says.
    ball : callable
        Function of the manifold and r of the config to the public ball that holds the records.
    unit : str
        Noun for a record; "" where it is called as a point of its manifold.
    pictures : callable, optional
        Function that draws private means of a class into a folder, where they make a picture.
    persons : callable, optional
        Function of the config and a number of persons to the person of each point, where a person
        has several.
    """

    draw: Callable[[Manifold, Domain, SourceConfig, int, np.random.Generator], NDArray[Any]]
    ball: Callable[[Manifold, float], Ball] = _around_origin
    unit: str = ""
    pictures: Callable[[ClassData, Setting, Path], Path] | None = None
    persons: Callable[[SourceConfig, int], NDArray[np.int64]] | None = None

    @property
    def by_person(self) -> bool:
        """True if a person may have several points."""
        return self.persons is not None

    def check(self, config: ExperimentConfig) -> None:
        """Refuse a manifold that is not made for its dimension.

        Parameters
        ----------
        config : ExperimentConfig
            Experiment on one dataset.
        """
        for manifold, dimension, _ in config.simulated:
            build_manifold(manifold, dimension)

    def title(self, config: ExperimentConfig, label: int) -> str:
        """Return the title of a class, `class_title`.

        Parameters
        ----------
        config : ExperimentConfig
            Experiment on one dataset.
        label : int
            Label of the class.
        """
        return class_title(config, label)

    def read(self, config: ExperimentConfig, label: int) -> tuple[ClassData, Setting]:
        """Return the records of a class, as `simulate` makes them.

        Parameters
        ----------
        config : ExperimentConfig
            Experiment on one dataset.
        label : int
            Label of the class.
        """
        return simulate(config, label)


def _ball(
    manifold: Manifold, ball: Domain, source: SourceConfig, n: int, rng: np.random.Generator
) -> NDArray[Any]:
    """exp(origin, r·U^{1/d}·v): uniform direction v, radius r·U^{1/d}; a cap on the sphere."""
    radius = ball.radius * rng.random(n) ** (1.0 / manifold.dim)
    return manifold.exp(
        center_of(ball, manifold), radius[:, None] * directions(n, manifold.dim, rng)
    )


def _spectrum(
    manifold: Manifold, ball: Domain, source: SourceConfig, n: int, rng: np.random.Generator
) -> FloatArray:
    """Eigenvalues uniform in [e^−r, e^r], Haar eigenvectors; in the ball of radius √k·r."""
    k = manifold.point_shape[0]
    eigenvalues = rng.uniform(math.exp(-source.radius), math.exp(source.radius), (n, k))
    q = np.linalg.qr(rng.standard_normal((n, k, k))).Q
    return _symmetric((q * eigenvalues[:, None, :]) @ q.mT)


def _wishart(
    manifold: Manifold, ball: Domain, source: SourceConfig, n: int, rng: np.random.Generator
) -> FloatArray:
    """Wishart matrices over their degrees of freedom, drawn again outside the ball of radius r."""
    shape = (source.freedom, manifold.point_shape[0])
    matrices: list[FloatArray] = []
    while len(matrices) < n:
        x = rng.standard_normal(shape)
        matrix = x.T @ x / source.freedom
        if np.linalg.norm(np.log(np.maximum(np.linalg.eigvalsh(matrix), 1e-300))) <= ball.radius:
            matrices.append(matrix)
    return _symmetric(np.array(matrices))


def _outlines(
    manifold: Manifold, ball: Domain, source: SourceConfig, n: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Outlines like a corpus callosum, drawn again outside the ball of radius r."""
    centre = center_of(ball, manifold)
    drawn = (outlines(manifold.point_shape[0], 1, rng)[0] for _ in count())
    inside = (shape for shape in drawn if manifold.dist(centre, shape) <= ball.radius)
    return np.array(list(islice(inside, n)))


def _whose(source: SourceConfig, n: int) -> NDArray[np.int64]:
    """Return whose each image of n persons is; how many each has goes round and round."""
    if not source.sizes:
        raise ConfigError("a source of kind persons needs sizes, the images of a person: [1, 2, 5]")
    return np.repeat(np.arange(n), np.resize(source.sizes, n))


def _persons(
    manifold: Manifold, ball: Domain, source: SourceConfig, n: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Images around a mean of their person, persons around one that is half a radius off centre.

    Both normal; what falls out of the ball is drawn back to its edge.
    """
    centre, d = center_of(ball, manifold), manifold.dim
    middle = manifold.exp(centre, ball.radius / 2.0 * directions(1, d, rng)[0])
    means = manifold.exp(middle, source.between / math.sqrt(d) * rng.standard_normal((n, d)))
    whose = _whose(source, n)
    away = source.within / math.sqrt(d) * rng.standard_normal((len(whose), d))
    out = manifold.log(centre, manifold.exp(means[whose], away))
    reach = np.linalg.norm(out, axis=-1, keepdims=True)
    return manifold.exp(centre, out * np.minimum(1.0, ball.radius / reach))


def _symmetric(matrices: FloatArray) -> FloatArray:
    return (matrices + matrices.mT) / 2.0


OUTLINES = 6
"""Private outlines of each series in the picture."""


def draw_outlines(data: ClassData, setting: Setting, folder: Path) -> Path:
    """Write ``outlines.json``: six private means of each exact series, ten records and the mean.

    The series are drawn at the first budget, on one class, from streams of their own. Each
    outline is turned onto the mean, which is post-processing. So is smoothing: series that are
    aligned stand there once more, smoothed, where the source says over which span.

    Parameters
    ----------
    data : ClassData
        Simulated records of the class.
    setting : Setting
        Config, public domain and geometry of the class.
    folder : Path
        Folder of the file.

    Returns
    -------
    Path
        Path of the file.
    """
    config = setting.config
    records = admit(data.points, domain=setting.domain, manifold=setting.manifold)
    mean = records.frechet.point
    span = config.source.smoothing if config.source else None
    shapes = {"Records": _turned(data.points[:10], mean), "True mean": mean[None]}
    for series in [item for item in config.mechanisms if item.sampler == "exact"]:
        seed = stream_seed(config, f"{series.series}/pictures")
        rng = np.random.default_rng(seed)
        inputs = prepare(records, series.plan, size=OUTLINES, rng=rng)
        budget = config.budget(config.budgets[0], series)
        drawn = draw(inputs, budget, noise=FloatNoise(rng), size=OUTLINES)[0].points
        shapes[series.series] = _turned(drawn, mean)
        if span is not None and getattr(series, "aligned", True):
            shapes[f"{series.series}, smoothed"] = smooth(shapes[series.series], span)
    listed = {
        name: np.round(np.stack([points.real, points.imag], axis=-1), 5).tolist()
        for name, points in shapes.items()
    }
    return write_whole(make_folder(folder) / "outlines.json", json.dumps(listed))


def _turned(points: NDArray[Any], mean: NDArray[Any]) -> NDArray[Any]:
    """Return the outlines, each turned onto the mean."""
    return np.asarray(points * np.exp(-1j * np.angle(points @ mean.conj()))[:, None])


BALL_SOURCE = Source(_ball)
SPECTRUM_SOURCE = Source(
    _spectrum,
    lambda manifold, r: _around_origin(manifold, r * math.sqrt(manifold.point_shape[0])),
)
WISHART_SOURCE = Source(_wishart)
OUTLINE_SOURCE = Source(
    _outlines,
    lambda space, r: Ball(r, space.name, template(space.point_shape[0])),
    unit="outline",
    pictures=draw_outlines,
)
PERSON_SOURCE = Source(_persons, unit="person", persons=_whose)
