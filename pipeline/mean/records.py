"""The door: the records of one class, checked and put into their public region.

Records come in one array or in chunks (`Chunks`), which are read, checked and put into the region
again in every pass: an adaptive mean, and a single one around the barycentre, hold one chunk at a
time, and give the same bits for any chunks and any order. What looks at all records at once refuses
chunks: K-norm gradients, footpoints from a subsample, outlines that are not aligned. Everything
here is computed without noise: none of it may leave.

**Nothing between reading and noise fails by one record's values**: an event that has probability 1
for a data set and 0 for its neighbour is no differential privacy, whatever the noise. Let λ be the
least eigenvalue that is possible, ℓ the largest, u = 2⁻⁵³, k the order of the matrices.

- *Reading.* A descriptor of images in bytes is R̂ = R + E, R ⪰ η·Id, and E and the rounding of a
  factorisation together are at most e. The domain refuses an η below 4e, before any image is
  read (``descriptors/diameter.py``). So R̂ is positive definite, Cholesky's factorisation of it
  succeeds (Higham, *Accuracy and Stability of Numerical Algorithms*, Theorem 10.7), and its
  correction, relative to R̂, is at most e/(η − e) ≤ 1/3, of the ½ that ``cholesky.py`` asks for.
- *Logarithms.* Rotations end after a fixed number of sweeps, settled or not (``jacobi.py``), and
  squares lie between λ/ℓ and ℓ/λ: nothing leaves the range of floats.
- *Persons.* Their images are averaged in the chart of a flat manifold, and the mean is put into the
  region there. It never becomes a matrix: doubles hold the coordinates of every point of the
  region, but a product L·Lᵀ of a factor in it may be indefinite in doubles. On a curved manifold
  the region is of spectra between η and T + kη, convex along geodesics, so a person's mean is a
  matrix such as those of images.
- *Region.* A projection in closed form, or on spectra by a fixed number of bisections.
- *Steps.* Centres and axes follow from released values. Coordinates that are no numbers count as 0
  (``sums.py``); counts have a bin for each. A barycentre ends after a public number of steps
  (``barycentre.py``).

What is left to fail follows from settings, n and released values, alike for neighbours.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pipeline.errors import DomainError, PrivacyError
from pipeline.geometry import (
    FrechetMean,
    Manifold,
    Point,
    frechet_mean,
    frechet_mean_of_parts,
)
from pipeline.mean.barycentre import Barycentre, barycentre
from pipeline.mean.domain import Domain, center_of, check_domain
from pipeline.mean.ground import centre_of, prior_of, region_of, space_of
from pipeline.mean.parts import Chunks, Parts, parts_of
from pipeline.mean.sums import UNIT, Clipping, clipped_mean, sizes

MEAN_TOLERANCE = 1e-9
"""Certificate τ of the Fréchet mean: the least gradient norm asked of `frechet_mean`."""


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """The records of one class, admitted by `admit`; what is computed of them is kept.

    Attributes
    ----------
    manifold : Manifold
        Where they live.
    domain : Domain
        What is publicly known of them.
    parts : Parts
        They as points of `space`, inside the region, in arrays of shape (m, *space.point_shape).

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension.
    """

    manifold: Manifold
    domain: Domain
    parts: Parts[Point]

    def __post_init__(self) -> None:
        check_domain(self.domain, self.manifold)

    @property
    def n(self) -> int:
        """Number of records (public)."""
        return self.parts.n

    @property
    def placed(self) -> Point:
        """All of them in one array.

        Raises
        ------
        DomainError
            When they came in chunks.
        """
        if self.parts.held is None:
            raise DomainError(
                "this needs all records at once, they come in chunks; give them as one array, or "
                'use plan "auto", or "ewg" without a footpoint from a subsample'
            )
        return self.parts.held

    space = cached_property(space_of)
    region = cached_property(region_of)
    prior = cached_property(prior_of)
    centre = cached_property(centre_of)

    @cached_property
    def stored(self) -> Point:
        """The records as points of the manifold, shape (n, *point_shape)."""
        return self.on_manifold(self.placed)

    @cached_property
    def frechet(self) -> FrechetMean:
        """The certified Fréchet mean, in `space`."""
        if self.parts.held is None:
            return frechet_mean_of_parts(self.parts, self.n, self.space, tolerance=MEAN_TOLERANCE)
        return frechet_mean(self.placed, self.space, tolerance=MEAN_TOLERANCE)

    @cached_property
    def barycentre(self) -> Barycentre:
        """The Fréchet mean, computed so that it moves by at most D/n with one record."""
        self.check_rounding()
        if self.space.flat:
            return self._flat_mean()
        return barycentre(
            self.parts,
            self.n,
            self.space,
            centre=self.centre,
            diameter=self.region.diameter,
            condition=self.region.condition,
        )

    def _flat_mean(self) -> Barycentre:
        """Return c + D·m, m the mean of (x − c)/D, which is summed in whole numbers.

        ‖m‖ is at most 1, since c, like x, lies in the region, of diameter D. D·m and its sum with c
        round the result by at most 2uD + u‖c‖, looking at it from 0 or from a point of the region
        by uD.
        """
        wide = self.region.diameter
        to = Clipping(self.centre, np.full(self.space.dim, wide), 0, 0.0, 0.0, 0.0, wide)
        sized = self.parts.map(lambda part: (part, sizes(part, self.centre, 0)))
        point = self.centre + wide * clipped_mean(sized, self.n, to)
        rounding = UNIT * (4.0 * wide + float(np.linalg.norm(self.centre)))
        return Barycentre(point, rounding)

    @property
    def span(self) -> float:
        """The diameter of what the n records add to the computed log(p, barycentre), for every p.

        One replaced record moves it by at most ``span``/n: on a Hadamard manifold log(p, ·) is a
        contraction, so by D/n, D the diameter of the region, and what rounding may add on both data
        sets. The region holds the records as they were computed, so what came before needs no
        margin.
        """
        return self.region.diameter + 2.0 * self.n * self.barycentre.rounding

    def check_rounding(self) -> None:
        """Raise `PrivacyError` unless the rounding of their barycentre has a bound.

        It was measured on some manifolds (``barycentre.py``), up to a distance.
        """
        if self.space.flat:
            return
        reach: float | None = getattr(self.space, "log_reach", None)
        centre = center_of(self.domain, self.space)
        farthest = self.domain.radius + float(self.space.dist(self.space.origin, centre))
        if reach is not None and farthest <= reach:
            return
        raise PrivacyError(
            f"the rounding of a barycentre is not bounded on {self.space.name} for records "
            f"within {farthest:g} of the origin; use the Fréchet mean, or measure it"
        )

    def on_manifold(self, points: Point) -> Point:
        """Return points of `space` as points of the manifold."""
        if self.space is self.manifold:
            return points
        return self.manifold.exp(self.manifold.origin, points)

    def __repr__(self) -> str:
        """Show no value."""
        return f"Records(n={self.n}, manifold={self.manifold.name!r})"


def admit(points: Point | Chunks, *, domain: Domain, manifold: Manifold) -> Records:
    """Return the records of one class, each inside the domain's region.

    Parameters
    ----------
    points : array, shape (n, *point_shape), or Chunks
        The records; chunks are checked as they are read. Of a flat manifold of matrices they may
        be points of its chart, (n, d), as `person_records` returns them. Those outside the region
        are moved to its nearest point, unreported: whether one was outside is private.
    domain : Domain
        What is publicly known of them, in the distance of `manifold`.
    manifold : Manifold

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension, there is no record, or a record
        has the wrong shape or is not finite.
    """
    given = Records(manifold, domain, parts_of(points))
    if given.n < 1:
        raise DomainError(
            f"a mean needs one record or more, found {given.n}; leave out empty classes"
        )
    space, inside = given.space, given.region.inside

    def place(part: Point) -> Point:
        if space is not manifold and part.shape[1:] == space.point_shape:
            return inside(_checked(part, space))
        part = _checked(part, manifold)
        return inside(part if space is manifold else manifold.log(manifold.origin, part))

    return replace(given, parts=given.parts.map(place))


def _checked(points: Point, manifold: Manifold) -> Point:
    """Return points if they have the shape of the manifold's and are finite."""
    if points.shape[1:] != manifold.point_shape:
        raise DomainError(
            f"records must have shape (n, {str(manifold.point_shape)[1:-1]}), found {points.shape}"
        )
    if not np.isfinite(points).all():
        raise DomainError("records must be finite, found NaN or infinity; check the images")
    return points
