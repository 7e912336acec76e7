"""Accuracy of the adaptive mean beside the papers' release, on real and on hostile data.

The papers spend a tenth of μ² on a footpoint and the rest on exponential-wrapped Gaussian noise of
scale σ = 2r/(n·√0.9·μ). Its mean error on a flat manifold is exactly σ·√2·Γ((d + 1)/2)/Γ(d/2).
Where curvature is negative it is larger, by how much depends on the footpoint: there it is sampled.

False alarms. All draws are seeded, so a run can be repeated. An error counts as worse only if its
mean is 4 standard errors above the papers'. Errors scatter by 1/√(2d) of their mean, and the ratios
found are 1.03 and more with the 6 to 20 draws of a cell on SPD(5): with other seeds Student's law
gives a false alarm less than once in 1e3 cells at the closest ratios, in 1e5 at a ratio of 2. On
hyperbolic space both are equal within 3 % where records lie all over the ball, which so few draws
do not tell. Most ratios are 4 and more: where a third of the draws is 4 standard errors below the
papers', the rest are not made. With 4 degrees of freedom and more a cell that is worse passes so
less than once in 100.
"""

import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.datasets import open_dataset
from covdp.descriptors import describe, domain
from covdp.errors import DomainError
from covdp.geometry import MANIFOLDS, FlatChart, Manifold, Point
from covdp.mean import (
    AdaptivePlan,
    Ball,
    Domain,
    MeanSetup,
    admit,
    prepare,
)
from covdp.mechanisms import MECHANISMS, FloatNoise, Noise
from covdp.privacy import GDP
from tests.sample_means import adaptive, drawn
from tests.tools.tuning.factors import published
from tests.tools.tuning.images import ImageClass, colour_tiles, records_of, some
from tests.tools.tuning.images import images_of as tuned

pytestmark = pytest.mark.slow

CLASSES = [
    ("pneumoniamnist", 0),
    ("pneumoniamnist", 1),
    ("breastmnist", 0),
    ("breastmnist", 1),
    ("tiles", 0),
    ("tiles", 1),
    ("tiles", 2),
]


class Trial(NamedTuple):
    """Mean error of the adaptive mean, of the papers, and the standard error of the difference."""

    error: float
    spread: float
    paper: float

    @property
    def worse(self) -> bool:
        """Whether the papers' release is better, beyond chance."""
        return self.error > self.paper + 4.0 * self.spread

    @property
    def better(self) -> bool:
        """Whether the papers' release is worse, beyond chance."""
        return self.error < self.paper - 4.0 * self.spread


def papers(ready: MeanSetup, radius: float, mu: float) -> tuple[float, float]:
    """Return E dist of the papers' release and its standard error, 0 where it is exact."""
    manifold, n, mean = ready.records.manifold, ready.records.n, ready.records.barycentre.point
    if manifold.flat:
        return published(radius, n, mu, manifold.dim), 0.0
    first, second = (
        MECHANISMS["ewg"].calibrate(
            GDP(math.sqrt(share) * mu), sensitivity=2.0 * radius / n, manifold=manifold
        )
        for share in (0.1, 0.9)
    )
    rng = np.random.default_rng(6)

    def sampled(size: int) -> FloatArray:
        base = first.sample(mean, size=size, rng=rng).points
        return manifold.dist(mean, second.sample(mean, base=base, size=size, rng=rng).points)

    try:
        errors = sampled(40).tolist()
    except DomainError:  # noise beyond what doubles hold: left out, which favours the papers
        errors = []
        for _ in range(40):
            try:
                errors += sampled(1).tolist()
            except DomainError:
                continue
    return float(np.mean(errors)), float(np.std(errors, ddof=1)) / math.sqrt(len(errors))


def errors_of(ready: MeanSetup, mu: float, noise: Noise | int, *, size: int) -> FloatArray:
    """Return how far `size` means are from the exact one."""
    draws = drawn(ready, GDP(mu), noise, size=size)
    return ready.records.space.dist(ready.records.barycentre.point, draws.outputs)


def trial(ready: MeanSetup, radius: float, mu: float, *, size: int, least: int = 0) -> Trial:
    """Draw `size` means and measure how far they are from the exact one.

    Where `least` of them show that the papers' release is worse, these alone.
    """
    noise, errors = FloatNoise(np.random.default_rng(1)), np.empty(0)
    paper, spread = papers(ready, radius, mu)
    for many in (least, size - least) if least else (size,):
        errors = np.append(errors, errors_of(ready, mu, noise, size=many))
        own = float(errors.std(ddof=1)) / math.sqrt(len(errors))
        found = Trial(float(errors.mean()), math.hypot(own, spread), paper)
        if found.better:
            break
    return found


def never_worse(ready: MeanSetup, radius: float, mu: float, *, size: int) -> None:
    """Draw as many of `size` means as show that the papers' are no better."""
    found = trial(ready, radius, mu, size=size, least=max(5, size // 3))
    assert not found.worse, (ready.records.n, mu, found)


def at_most(times: float, ready: MeanSetup, radius: float, mu: float, *, size: int) -> None:
    """Draw `size` means, which may err so many times as much as the papers', beyond chance."""
    found = trial(ready, radius, mu, size=size)
    assert found.error <= times * found.paper + 4.0 * found.spread, (ready.records.n, mu, found)


def of_tiles(descriptor: str, manifold: str, label: int) -> tuple[MeanSetup, float]:
    """Return 300 tiles prepared, and the papers' radius; `grid11` in the pictures' colours."""
    tiles = (
        colour_tiles()[label] if descriptor == "grid11" else tuned(ImageClass("tiles", label), None)
    )
    records = records_of(some(tiles, 300), descriptor=descriptor, manifold=manifold)
    return prepare(records, AdaptivePlan(moment=False), rng=None), records.domain.radius


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize(
    ("descriptor", "manifold", "times"),
    [
        ("grid9", "spd-log-euclidean", 6.0),
        ("grid9", "spd-log-cholesky", 6.0),
        ("grid11", "spd-log-euclidean", 6.0),
        ("grid11", "spd-log-cholesky", 6.0),
        ("oct5", "spd-affine-invariant", 4.0),
        ("grid9", "spd-affine-invariant", 4.0),
        ("grid11", "spd-affine-invariant", 4.0),
    ],
)
def test_times_nearer_with_every_descriptor(
    descriptor: str, manifold: str, times: float, label: int
) -> None:
    """At n·μ = 1000 the error is so many times smaller than the papers'.

    False alarms: the ratios found are 8.7 and more on flat manifolds, their standard errors up to
    7 %, and 6.1 and more on the curved one, up to 10 %: below one run in 1000 with other seeds.
    """
    ready, radius = of_tiles(descriptor, manifold, label)
    curved = manifold == "spd-affine-invariant"
    found = trial(ready, radius, 1000 / ready.records.n, size=8 if curved else 40)
    assert times * found.error + 2.0 * found.spread <= found.paper


def images_of(name: str, label: int, request: pytest.FixtureRequest) -> NDArray[np.uint8]:
    """Return the images of a class; `tiles` needs no file."""
    return read(name, label, None if name == "tiles" else request.getfixturevalue("shared"))


@cache
def read(name: str, label: int, root: Path | None) -> NDArray[np.uint8]:
    """Return the same, read once."""
    return np.concatenate(list(open_dataset(name, root).chunks(label=label)))


def spd(name: str) -> tuple[Manifold, Domain]:
    """Return SPD(5) with a metric, a flat one by its chart, and the public facts of `oct5`."""
    full = MANIFOLDS[name](k=5)
    facts = domain("oct5", height=28, width=28, manifold=name)
    return FlatChart(full) if full.flat else full, facts


def points_of(images: NDArray[np.uint8], manifold: Manifold) -> Point:
    """Return the descriptors of images as points of the manifold."""
    matrices = describe(images)
    if isinstance(manifold, FlatChart):
        return manifold.manifold.log(manifold.manifold.origin, matrices)
    return matrices


@pytest.mark.parametrize(("name", "label"), [c for c in CLASSES if c[0] != "breastmnist"])
def test_six_times_nearer_on_real_classes(
    name: str, label: int, request: pytest.FixtureRequest
) -> None:
    """At n·μ ≥ 300 and μ ≤ 0.5 the error is at most a sixth of the papers', 3.5 deviations off.

    Deviations of the mean error. BreastMNIST has too few images for n·μ = 300 at μ ≤ 0.5. Draws are
    added until that is shown, 25 at first and 3200 at most, twice as many or more each time. False
    alarms: the closest ratio, 6.26 at 4000 of `retina` by 300 draws, is 7 deviations from 6 in the
    end: one run in 1000 with another seed. A ratio of 6 would pass one of the seven looks in less
    than one run in 400.
    """
    manifold, facts = spd("spd-log-euclidean")
    points = points_of(images_of(name, label, request), manifold)
    records = admit(points, domain=facts, manifold=manifold)
    ready = prepare(records, AdaptivePlan(moment=False), rng=None)
    cells = [information for information in (300, 1000, 2000, 4000) if information <= records.n / 2]
    assert cells
    for information in cells:
        mu, errors = information / records.n, np.empty(0)
        paper, _ = papers(ready, facts.radius, mu)
        for seed, size in enumerate((25, 75, 100, 200, 400, 800, 1600)):
            errors = np.append(errors, errors_of(ready, mu, seed, size=size))
            surely = errors.mean() + 3.5 * errors.std(ddof=1) / math.sqrt(len(errors))
            if 6.0 * surely <= paper:
                break
        assert 6.0 * surely <= paper, information


@pytest.mark.parametrize(("name", "label"), CLASSES)
def test_never_worse_on_real_classes(name: str, label: int, request: pytest.FixtureRequest) -> None:
    """For 50 to 50,000 records drawn from a class and μ from 0.05 to 5 no cell is worse.

    Every other cell, as on a chessboard: each n meets three μ, each μ two n or three.
    """
    manifold, facts = spd("spd-log-euclidean")
    points = points_of(images_of(name, label, request), manifold)
    rng = np.random.default_rng(2)
    sizes = [(50, 16), (200, 16), (1000, 16), (5000, 16), (50_000, 6)]
    for row, (n, size) in enumerate(sizes):
        chosen = points[rng.integers(0, len(points), n)]
        ready = adaptive(chosen, domain=facts, manifold=manifold)
        for mu in (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)[row % 2 :: 2]:
            never_worse(ready, facts.radius, mu, size=size)


def patterns() -> NDArray[np.uint8]:
    """Return images unlike any scan, (10, 28, 28): constants, stripes, checks, dots, a diagonal."""
    rng = np.random.default_rng(3)
    at = np.arange(28)
    rows, columns = np.meshgrid(at, at, indexing="ij")
    found = [
        np.full((28, 28), 7),
        np.where(columns % 4 < 2, 40, 200),
        np.where(columns < 14, 0, 255),
        np.where((rows == 5) & (columns == 9), 3, 0),
        np.where((rows + columns) % 2, 0, 255),
        rng.integers(0, 256, (28, 28)),
        columns * 9,
        rng.integers(100, 102, (28, 28)),
        255 * (rng.random((28, 28)) < 0.02),
        np.where((rows + columns) % 6 < 3, 0, 255),
    ]
    return np.stack(found).astype(np.uint8)


def scans(request: pytest.FixtureRequest) -> NDArray[np.uint8]:
    """Return a thousand chest X-rays."""
    return images_of("pneumoniamnist", 1, request)[:1000]


@pytest.mark.parametrize(
    ("name", "cells", "size"),
    [
        ("spd-log-euclidean", (5, 30, 100, 300, 3000, 30_000), 16),
        ("spd-log-cholesky", (5, 30, 100, 300, 3000), 12),
        ("spd-affine-invariant", (100, 300, 1000), 6),
    ],
)
@pytest.mark.parametrize("turn", range(3))
def test_never_worse_with_a_few_strange_images(
    name: str, cells: tuple[int, ...], size: int, turn: int, request: pytest.FixtureRequest
) -> None:
    """Copies of one strange image among chest X-rays, as many as barely show: never worse.

    `weight` is n·μ times their share: how many standard deviations of the noise they stand out.
    A Latin square: every image meets every weight, and every n·μ.
    """
    manifold, facts = spd(name)
    usual, strange = points_of(scans(request), manifold), points_of(patterns(), manifold)
    for row, image in enumerate(strange):
        for column, information in enumerate(cells):
            weight = (6.0, 16.0, 40.0)[(row + column) % 3]
            if column % 3 != turn or weight > 0.6 * information:
                continue
            points = usual.copy()
            points[: max(1, round(weight / information * len(points)))] = image
            ready = adaptive(points, domain=facts, manifold=manifold)
            never_worse(ready, facts.radius, information / len(points), size=size)


@pytest.mark.parametrize("name", ["spd-log-euclidean", "spd-log-cholesky", "spd-affine-invariant"])
@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_never_worse_with_constant_images(
    name: str, share: float, request: pytest.FixtureRequest
) -> None:
    """A hundredth, half or all of the images are constant: never worse."""
    manifold, facts = spd(name)
    points = points_of(scans(request), manifold)
    points[: round(share * len(points))] = points_of(patterns()[:1], manifold)[0]
    ready = adaptive(points, domain=facts, manifold=manifold)
    for information in (2, 10, 50, 300, 1000, 10_000)[0 if manifold.flat else 2 :]:
        never_worse(ready, facts.radius, information / len(points), size=10)


def hostile(kind: str, rng: np.random.Generator) -> FloatArray:
    """Return coordinates of log R, (800, 15), of a law that no images have."""
    wide = rng.standard_normal((800, 15))
    if kind == "heavy":
        return np.asarray(rng.standard_t(1.2, (800, 15)) - 2.0)
    if kind == "edge":
        return 40.0 * wide
    if kind == "ends":
        return np.asarray(30.0 * np.sign(wide[:, :1]) * (np.arange(15) < 5) + 0.01 * wide)
    if kind == "point":
        return np.asarray(1e-9 * wide - 9.0 * (np.arange(15) < 5))
    return np.asarray(wide * np.geomspace(10.0, 1e-3, 15))


@pytest.mark.parametrize("name", ["spd-log-euclidean", "spd-log-cholesky", "spd-affine-invariant"])
@pytest.mark.parametrize("kind", ["heavy", "edge", "ends", "point", "uneven"])
def test_never_worse_on_hostile_laws(name: str, kind: str) -> None:
    """Heavy tails, records on the edge, two clusters at the ends, one point: never worse.

    But on the affine-invariant metric at n·μ = 10,000, by half where records are farthest apart:
    there Newton's steps leave more of the way to the mean than noise is.
    """
    manifold, facts = spd(name)
    points = hostile(kind, np.random.default_rng(4))
    if not manifold.flat:  # what doubles can hold
        points = manifold.exp(manifold.origin, np.clip(points, -4.0, 4.0))
    ready = adaptive(points, domain=facts, manifold=manifold)
    for information in (2, 10, 50, 300, 1000, 10_000)[0 if manifold.flat else 2 :]:
        mu = information / len(points)
        if not manifold.flat and kind in ("edge", "heavy") and information == 10_000:
            at_most(1.5, ready, facts.radius, mu, size=10)
        else:
            never_worse(ready, facts.radius, mu, size=10)


def hyperbolic(kind: str, rng: np.random.Generator) -> Point:
    """Return 600 points of the ball of radius 2 in hyperbolic space of dimension 3."""
    manifold = MANIFOLDS["hyperbolic"](dim=3)
    spokes = rng.standard_normal((600, 3))
    spokes /= np.linalg.norm(spokes, axis=1, keepdims=True)
    if kind == "edge":
        spokes *= 2.0
    elif kind == "ends":
        spokes = 2.0 * np.sign(spokes[:, :1]) * np.array([1.0, 0.0, 0.0])
    elif kind == "cluster":
        spokes = 0.1 * spokes + np.array([1.5, 0.0, 0.0])
    elif kind == "outliers":
        spokes *= np.where(np.arange(600) < 6, 2.0, 0.05)[:, None]
    else:
        spokes *= 2.0 * rng.random((600, 1))
    return manifold.exp(manifold.origin, spokes)


@pytest.mark.parametrize("kind", ["edge", "ends", "cluster", "outliers", "ball"])
def test_never_worse_on_hyperbolic_space(kind: str) -> None:
    """Where nothing is known but a ball: never worse, whatever lies in it."""
    manifold, ball = MANIFOLDS["hyperbolic"](dim=3), Ball(2.0, "hyperbolic")
    points = hyperbolic(kind, np.random.default_rng(5))
    ready = adaptive(points, domain=ball, manifold=manifold)
    for information in (2, 10, 50, 300, 1000, 10_000):
        never_worse(ready, ball.radius, information / len(points), size=60)
