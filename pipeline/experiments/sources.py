"""Records that are simulated: every class of an experiment that needs no images.

In: a config with a `SourceConfig`. Out: for each label its records, and the setting they live in.
Each class has a random stream of its own. Next on the path: `montecarlo`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.config import ExperimentConfig, SourceConfig
from pipeline.errors import ConfigError
from pipeline.experiments.montecarlo import Setting, stream_seed
from pipeline.experiments.persons import ClassData
from pipeline.experiments.pictures import draw_outlines
from pipeline.experiments.shapes import outlines, template
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.mean import Ball, Domain
from pipeline.mean.public_model import center_of
from pipeline.mechanisms.radial import directions


def build_manifold(name: str, dimension: int) -> Manifold:
    """Return the manifold `name` of the given dimension d; raise `ConfigError` if none has it."""
    of_dimension = getattr(MANIFOLDS[name], "of_dimension", None)
    if of_dimension is None:
        raise ConfigError(f"{name} does not say how it is made for a dimension; simulate another")
    return cast(Manifold, of_dimension(dimension))


def simulated_setting(config: ExperimentConfig, label: int) -> Setting:
    """Return what is public of one simulated class: the ball its records lie in, its manifold."""
    source, (name, dimension, _) = source_of(config), config.simulated[label]
    manifold = build_manifold(name, dimension)
    return Setting(config, SOURCES[source.kind].ball(manifold, source.radius), manifold)


def simulate(config: ExperimentConfig, label: int) -> NDArray[Any]:
    """Return the records of one class, shape (n, *point_shape), from a stream of its own."""
    source, (_, _, n) = source_of(config), config.simulated[label]
    _, ball, manifold = simulated_setting(config, label)
    rng = np.random.default_rng(stream_seed(config, f"{label}/points"))
    return SOURCES[source.kind].draw(manifold, ball, source, n, rng)


def simulated_persons(config: ExperimentConfig, label: int) -> NDArray[np.int64] | None:
    """Return whose each point of one simulated class is, where its source makes persons."""
    source, (_, _, n) = source_of(config), config.simulated[label]
    persons = SOURCES[source.kind].persons
    return None if persons is None else persons(source, n)


def source_of(config: ExperimentConfig) -> SourceConfig:
    """Return what a simulated experiment simulates; raise `ConfigError` for another."""
    if config.source is None:
        raise ConfigError(f"{config.name} has no [source], so nothing is simulated; add one")
    return config.source


def class_title(config: ExperimentConfig, label: int) -> str:
    """Return what tells this class from the others of its experiment: by k where the paper does."""
    source, (name, dimension, n) = source_of(config), config.simulated[label]
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
        Makes n records of a manifold in a ball, as the config says.
    ball : callable
        Manifold and r of the config → the public ball that holds the records.
    unit : str
        What a record is called; "" where it is called as a point of its manifold.
    pictures : callable, optional
        Draws private means of a class into a folder, where they make a picture.
    persons : callable, optional
        Config and number of persons → whose each point is, where a person has several.
    """

    draw: Callable[[Manifold, Domain, SourceConfig, int, np.random.Generator], NDArray[Any]]
    ball: Callable[[Manifold, float], Ball] = _around_origin
    unit: str = ""
    pictures: Callable[[ClassData, Setting, Path], Path] | None = None
    persons: Callable[[SourceConfig, int], NDArray[np.int64]] | None = None


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
    kept: list[FloatArray] = []
    while len(kept) < n:
        x = rng.standard_normal(shape)
        matrix = x.T @ x / source.freedom
        if np.linalg.norm(np.log(np.maximum(np.linalg.eigvalsh(matrix), 1e-300))) <= ball.radius:
            kept.append(matrix)
    return _symmetric(np.array(kept))


def _outlines(
    manifold: Manifold, ball: Domain, source: SourceConfig, n: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Outlines like a corpus callosum, drawn again outside the ball of radius r."""
    kept: list[NDArray[Any]] = []
    while len(kept) < n:
        shape = outlines(manifold.point_shape[0], 1, rng)[0]
        if manifold.dist(center_of(ball, manifold), shape) <= ball.radius:
            kept.append(shape)
    return np.array(kept)


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


SOURCES = {
    "ball": Source(_ball),
    "spectrum": Source(
        _spectrum,
        lambda manifold, r: _around_origin(manifold, r * math.sqrt(manifold.point_shape[0])),
    ),
    "wishart": Source(_wishart),
    "outlines": Source(
        _outlines,
        lambda space, r: Ball(r, space.name, template(space.point_shape[0])),
        unit="outline",
        pictures=draw_outlines,
    ),
    "persons": Source(_persons, unit="person", persons=_whose),
}
"""How the records of a class are made."""
