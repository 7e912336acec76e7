"""How far a released mean errs, by n·μ: the very same procedure, on public pictures.

The noise of every step of a plan is 1/(n·μ) of what its records are clipped to, and all else that a
plan decides follows from n·μ too (`mean.view.default_shares`): one curve serves all class sizes and
budgets. The pictures stand for how records of a class lie, not for what is on them.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray, ImageArray
from pipeline.datasets.tiles import PICTURES, cut, opened, pictures_folder
from pipeline.descriptors import Descriptor, DescriptorDomain, describe, find_descriptor
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.mean import Plan, Prepared, SinglePlan, admit, draw, prepare
from pipeline.mechanisms.noise import FloatNoise
from pipeline.privacy import GDP

WIDENED = (0.7, 1.4)
"""How far a range reaches beyond the least and the largest error of the pictures.

By hand, so that it holds all of `tiles`, PneumoniaMNIST and BreastMNIST;
``python -m tests.tools.tuning --ranges`` measures how often it holds the errors of other sets.
"""
SURE = (0.9, 1.1)
"""The same for one draw of noise, which does not depend on how the records lie."""
DRAWS = 5
"""Draws at each point and set: their mean is uncertain by √(1/(2d))/√DRAWS, 8 % for `oct5`."""
STEP = 2.0
"""Ratio of neighbouring n·μ of a curve; what lies between is interpolated."""
SEED = 20261122
LEVEL = 0.95
"""Share of releases that lie within the radius."""
SIDE, DEEP = 28, 16
"""Pixels along a side of a tile, and of a volume; larger ones give the same errors within a few
parts in a hundred, but where n·μ is small."""
MOST_TILES = 100
"""Tiles of one set. How far a mean errs depends on n·μ and how records lie, hardly on n alone."""
COLOUR = ("ihc", "retina")
"""Those of the pictures that have colour."""
SMALLER = 4
"""Of so many pixels one is left in a thumbnail, across and down."""


class Ends(NamedTuple):
    """The range of the expected distance between the released mean and that of the class."""

    low: float
    high: float

    def radius(self, dim: int) -> float:
        """Return within what `LEVEL` of all releases lie, where their error is in the range.

        The upper end times √(q/d), q the quantile of χ² with d degrees of freedom: noise alike in
        all directions has such a ball.
        """
        from scipy.special import gammaincinv

        return self.high * math.sqrt(2.0 * float(gammaincinv(dim / 2.0, LEVEL)) / dim)


@dataclass(frozen=True, eq=False)
class Curve:
    """The range of the expected error by n·μ, for one plan in one domain.

    It is computed where it is asked for, on the points of a fixed grid, so that the same question
    has the same answer whatever was asked before.

    Attributes
    ----------
    domain : DescriptorDomain
        What is publicly known of the records.
    plan : Plan
        How a budget is spent.
    """

    domain: DescriptorDomain
    plan: Plan

    @property
    def widened(self) -> tuple[float, float]:
        """How far the range reaches beyond the least and the largest error."""
        return SURE if isinstance(self.plan, SinglePlan) else WIDENED

    @cached_property
    def sets(self) -> tuple[Prepared, ...]:
        """The pictures' records."""
        spec = find_descriptor(self.domain.descriptor)
        manifold: Manifold = MANIFOLDS[self.domain.manifold](k=spec.k)
        found = reference_points(spec, self.domain.eta)
        return tuple(
            prepare(admit(points, domain=self.domain, manifold=manifold), self.plan, rng=None)
            for points in found
        )

    @cached_property
    def _known(self) -> dict[int, Ends]:
        return {}

    def ends(self, information: float) -> Ends:
        """Return both ends of the range at n·μ, interpolated between the points of the grid."""
        place = math.log(information, STEP)
        left = math.floor(place)
        share = place - left
        points = zip(self._point(left), self._point(left + 1), strict=True)
        return Ends(*(a ** (1.0 - share) * b**share for a, b in points))

    def _point(self, power: int) -> Ends:
        """Return both ends at n·μ = STEP**power."""
        if power not in self._known:
            errors = [_error(ready, STEP**power, seed) for seed, ready in enumerate(self.sets)]
            below, above = self.widened
            self._known[power] = Ends(below * min(errors), above * max(errors))
        return self._known[power]


@lru_cache(maxsize=8)
def curve_of(domain: DescriptorDomain, plan: Plan) -> Curve:
    """Return the curve of a plan in a domain; what it knows already is kept."""
    return Curve(domain, plan)


def _error(ready: Prepared, information: float, seed: int) -> float:
    """Return the mean error of a set; noise is the same at all n·μ, so that curves are smooth."""
    records = ready.records
    noise = FloatNoise(np.random.default_rng((SEED, seed)))
    release, distance = draw(ready, GDP(information / records.n), noise=noise, size=DRAWS)
    if distance is None:
        distance = release.space.dist(records.frechet.point, release.outputs)
    return float(distance.mean())


@cache
def reference_points(spec: Descriptor, eta: float) -> tuple[FloatArray, ...]:
    """Return the descriptors of sets of tiles, (n, k, k): of each picture four.

    Tiles as they were taken, smooth and faint; stretched from black to white, as the window of most
    X-rays and scans does; of the picture made small, sharp as thumbnails are; and in black and
    white, as masks are.
    """
    sets = list[ImageArray]()
    for picture in _pictures(spec.channels):
        taken, small = _some(cut(picture, SIDE)), _some(cut(picture[::SMALLER, ::SMALLER], SIDE))
        if spec.dimensions == 3:
            taken, small = volumes(taken), volumes(small)
        sets += [taken, stretched(taken), stretched(small), parted(taken)]
    return tuple(describe(images, spec.name, eta) for images in sets)


def _pictures(channels: int) -> list[ImageArray]:
    folder = pictures_folder()
    if channels == 3:
        return [opened(folder / PICTURES[name], "RGB") for name in COLOUR]
    return [opened(folder / name) for name in PICTURES.values()]


def _some(tiles: ImageArray) -> ImageArray:
    """Return at most `MOST_TILES` tiles, from all over the picture."""
    rows = np.linspace(0, len(tiles) - 1, min(MOST_TILES, len(tiles))).astype(int)
    return np.ascontiguousarray(tiles[rows])


def parted(images: ImageArray) -> ImageArray:
    """Return images with all that is above their own median white, all else black."""
    middle = np.median(images, axis=tuple(range(1, images.ndim)), keepdims=True)
    white: ImageArray = np.where(images > middle, 255, 0).astype(np.uint8)
    return white


def stretched(images: ImageArray) -> ImageArray:
    """Return images each of which has its own 1st and 99th percentile at 0 and 255."""
    flat = images.reshape(len(images), -1).astype(np.float64)
    low, high = np.quantile(flat, [0.01, 0.99], axis=1)[..., np.newaxis]
    shares = np.clip((flat - low) / np.maximum(high - low, 1.0), 0.0, 1.0)
    found: ImageArray = np.rint(255.0 * shares).astype(np.uint8).reshape(images.shape)
    return found


def volumes(tiles: ImageArray) -> ImageArray:
    """Return volumes, (n, `DEEP`, `DEEP`, `DEEP`), each the mean of three tiles, one a side.

    There is no public volume at hand; this one varies along each axis as a picture does.
    """
    one = tiles[:, :DEEP, :DEEP].astype(np.uint16)
    other, third = np.roll(one, 1, axis=0), np.roll(one, 2, axis=0)
    total = one[:, np.newaxis] + other[:, :, np.newaxis] + third[:, :, :, np.newaxis]
    found: ImageArray = (total // 3).astype(np.uint8)
    return found
