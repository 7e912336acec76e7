"""Records of one class: checked, put into their public region, and put into axes.

**The door.** Records come in one array or in chunks (`Batches`), which are read, checked and put
into the region again in every pass: an adaptive mean, and a single one around the barycentre, hold
one chunk at a time, and give the same bits for any chunks and any order. What looks at all records
at once refuses chunks: K-norm gradients, footpoints from a subsample, outlines that are not
aligned. Everything here is computed without noise: none of it may leave.

**Nothing between reading and noise fails by one record's values**: an event that has probability 1
for a data set and 0 for its neighbour is no differential privacy, whatever the noise. Let λ be the
least eigenvalue that is possible, ℓ the largest, u = 2⁻⁵³, k the order of the matrices.

- *Reading.* A descriptor of images in bytes is R̂ = R + E, R ⪰ η·Id, and E and the rounding of a
  factorisation together are at most e. The domain refuses an η below 4e, before any image is
  read (``descriptors/bounds.py``). So R̂ is positive definite, Cholesky's factorisation of it
  succeeds (Higham, *Accuracy and Stability of Numerical Algorithms*, Theorem 10.7), and its
  correction, relative to R̂, is at most e/(η − e) ≤ 1/3; ``geometry/linalg.py`` asks for ½.
- *Logarithms.* Rotations end after a fixed number of sweeps, converged or not (see
  ``geometry/jacobi.py``), and squares are between λ/ℓ and ℓ/λ: nothing leaves the range of floats.
- *Persons.* Their images are averaged in the chart of a flat manifold, and the mean is put into the
  region there. It never becomes a matrix: doubles hold the coordinates of every point of the
  region, but a product L·Lᵀ of a factor in it may be indefinite in doubles. On a curved manifold
  the region is of spectra between η and T + kη, convex along geodesics, so a person's mean is a
  matrix such as those of images.
- *Region.* A projection in closed form, or on spectra by a fixed number of bisections.
- *Steps.* Centres and radii follow from released values. Coordinates that are no numbers count as 0
  (``sums.py``); counts have a shell for each. A barycentre ends after a public number of steps.

What is left to fail follows from settings, n and released values, the same for neighbours.

**Adaptive means** see the records in the axes of the prior (`Records.seen`).

**A person** has one record: the mean of the images that the person has in a class
(`person_records`). It is a function of that person's images alone, rounding included, so that
however many images there are, replacing all of them replaces one record.

**The barycentre** is the Fréchet mean of a release on a curved Hadamard manifold, computed in steps
that cannot fail.

*Sensitivity.* The Fréchet mean x̄ is 1-Lipschitz for the Wasserstein-1 distance of the records'
empirical laws (Sturm 2003, Theorem 6.3). These laws know no order, so replacing one of n records
moves x̄ by at most D/n, wherever the file of the new record is sorted to: the places of all other
records may shift. An inductive mean, which walks through the records in an order, has no such
bound: shifted by one place, records of rank 1 move it by 18·D/n at n = 6,000.

*What is computed.* From a public centre on, x ← exp(x, t·g), g = (1/n) Σ log(x, x_i), −g the
gradient of F (``geometry/frechet.py``), t = 2/(1 + L), L = (1/n) Σ h_i + κ‖g‖, −κ² the least
curvature and h_i = √(1 + κ²·dist(x, x_i)²). A step shrinks ‖g‖ by (L − 1)/(L + 1) or better,
whatever the records are (there). As dist(x, x̄) ≤ ‖g‖ ≤ D at each x, L is at most √(1 + 4κ²D²) +
κD, a public number, and ln(D/τ)·(L + 1)/2 steps always reach ‖g‖ ≤ τ, so that dist(x, x̄) ≤ τ.
There is no test that could fail: it ends at τ, or after as many steps. As descriptors are less
curved than the bound, t = 1 is taken as long as it shrinks ‖g‖ by as much; the first that does not
is taken back, and from then on t is 2/(1 + L).

*Numerics.* Each log(x, x_i)/(2D), of norm at most 1, and h_i over its bound are rounded to the
lattice of ``sums.py``, and whole numbers are added: x is the same to the last bit for any order and
any chunks. That rounding moves g by at most √d·D·2⁻⁴⁰, 5e-10 for the descriptors here; a computed
logarithm has an error below 1e-10 where matrices, known by their factors, have condition numbers up
to 1e14, and on hyperbolic space up to 10 from the origin (measured, see the tests).
`GRADIENT_ROUNDING` covers both. Errors of g that small leave it below 24·2·`GRADIENT_ROUNDING` at
the end (1/(1 − rate) is (L + 1)/2), within `GRADIENT_TOLERANCE`. An affine-invariant x is its
factor C, x = C·Cᵀ, which holds the digits that its array has lost, so that the error of a released
log(p, x) is no larger.

References
----------
Sturm, "Probability measures on metric spaces of nonpositive curvature" (2003).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.descriptors.bounds import ROUNDOFF
from covdp.errors import DomainError, PrivacyError
from covdp.geometry import (
    FrechetMean,
    Manifold,
    Point,
    chart_of,
    frechet_mean,
    frechet_mean_of_parts,
    from_chart,
    to_chart,
)
from covdp.geometry.manifold import FactoredManifold
from covdp.mean.axes import Frame, build_frame, matmul_in_order, to_frame, vectors_times
from covdp.mean.public_model import (
    Domain,
    FeasibleSet,
    Prior,
    center_of,
    check_domain,
    default_prior,
    feasible_set,
    prior_frame,
)
from covdp.mean.release import PUBLIC_LABELS, Labels
from covdp.mean.sums import (
    Batches,
    Clip,
    InMemory,
    Parts,
    Sized,
    as_repetition,
    clipped_mean,
    parts_of,
    sizes,
    sizes_around,
)

GRADIENT_TOLERANCE = 1e-7
"""τ: the norm of the gradient at which steps end."""
GRADIENT_ROUNDING = 1e-9
"""Bound on what rounding does to a gradient, and to log(p, mean), up to `CONDITION`."""
CONDITION = 1e11
"""Condition number of matrices above which both grow with its root."""
WORST = 1e15
"""Condition number above which doubles hold no such matrix."""


class Barycentre(NamedTuple):
    """Fréchet mean that moves by at most D/n with one record.

    Attributes
    ----------
    point : array, shape (*point_shape)
        Mean as a point of the manifold.
    rounding : float
        Bound on the error of its computed logarithms, in distance.
    factor : array, shape (k, k), or None
        Factor of the mean, of a manifold that knows factors.
    """

    point: Point
    rounding: float
    factor: FloatArray | None = None

    def seen_from(self, base: Point, manifold: Manifold) -> FloatArray:
        """Return log(base, mean).

        Parameters
        ----------
        base : array, shape (*point_shape)
            Base of the coordinates.
        manifold : Manifold
            Manifold that the mean is on.

        Returns
        -------
        array, shape (d,)
            Coordinates at the base.
        """
        if self.factor is None:
            return manifold.log(base, self.point)
        assert isinstance(manifold, FactoredManifold)
        return np.asarray(manifold.factor_logs(base, self.factor))


def barycentre(
    parts: Parts[Point],
    n: int,
    manifold: Manifold,
    *,
    centre: Point,
    diameter: float,
    condition: float,
) -> Barycentre:
    """Return the Fréchet mean of n records, which moves by at most D/n with one of them.

    Parameters
    ----------
    parts : Parts
        Records, in a geodesically convex region.
    n : int
        Number of records.
    manifold : Manifold
        A Hadamard manifold.
    centre : array, shape (*point_shape)
        Public point of the region, where the steps begin.
    diameter : float
        Diameter D of the region.
    condition : float
        Public bound on the condition numbers of the records; 1 where they are no matrices.

    Returns
    -------
    Barycentre
        Mean, not private.

    Raises
    ------
    DomainError
        When the manifold is no Hadamard manifold, or `condition` too large: public facts.
    """
    if not manifold.hadamard:
        raise DomainError(
            f"a mean that moves by D/n needs a Hadamard manifold, found {manifold.name}; use a "
            "mechanism made for positive curvature"
        )
    if condition > WORST:
        raise DomainError(
            f"matrices of condition {condition:.1e} do not fit doubles, which end at {WORST:.0e}; "
            "take a larger eta, or a flat manifold"
        )
    scale = math.sqrt(max(1.0, condition / CONDITION))
    exp: Callable[[Point, FloatArray], Point] = manifold.exp
    on_factors = isinstance(manifold, FactoredManifold)
    if isinstance(manifold, FactoredManifold):
        parts, centre = parts.map(manifold.factors), manifold.factors(centre)
        exp = manifold.factor_exp
    pull, size, bound = gradient(parts, n, manifold, centre, diameter)
    full_step = True
    for _ in range(most_steps(diameter, GRADIENT_TOLERANCE * scale, manifold)):
        if size <= GRADIENT_TOLERANCE * scale:
            break
        place = exp(centre, pull * (1.0 if full_step else 2.0 / (1.0 + bound)))
        result = gradient(parts, n, manifold, place, diameter)
        if full_step and result[1] > size * (bound - 1.0) / (bound + 1.0):
            full_step = False
            continue
        centre, (pull, size, bound) = place, result
    rounding = (GRADIENT_TOLERANCE + 2.0 * GRADIENT_ROUNDING) * scale
    if on_factors:
        return Barycentre(centre @ centre.T, rounding, centre)
    return Barycentre(centre, rounding)


def most_steps(diameter: float, tolerance: float, manifold: Manifold) -> int:
    """Return the public number of steps that always suffices.

    Parameters
    ----------
    diameter : float
        Diameter D of the region.
    tolerance : float
        Norm τ of the gradient at which steps end.
    manifold : Manifold
        A Hadamard manifold.

    Returns
    -------
    int
        Number of steps.
    """
    bent = math.sqrt(-manifold.curvature[0]) * diameter
    largest = math.sqrt(1.0 + 4.0 * bent**2) + bent
    return 1 + math.ceil(math.log(max(diameter / tolerance, 1.0)) * (largest + 1.0) / 2.0)


def gradient(
    parts: Parts[Point], n: int, manifold: Manifold, at: Point, diameter: float
) -> tuple[FloatArray, float, float]:
    """Return the mean logarithm g of the records at a point, its norm, and the bound L.

    Parameters
    ----------
    parts : Parts
        Records, or their factors on a manifold that knows factors.
    n : int
        Number of records.
    manifold : Manifold
        A Hadamard manifold.
    at : array, shape (*point_shape)
        Point of the manifold, or its factor where the records are factors.
    diameter : float
        Diameter D of the region.

    Returns
    -------
    g : array, shape (d,)
        Mean logarithm.
    size : float
        Norm of g.
    bound : float
        Bound L on the Hessian.
    """
    own = manifold.logs_of_factors if isinstance(manifold, FactoredManifold) else manifold.log
    bent, reach = -manifold.curvature[0], 2.0 * diameter
    largest = math.sqrt(1.0 + bent * reach**2)

    def scaled(part: Point) -> Sized:
        logs = own(at, part)
        hessians = np.sqrt(1.0 + bent * np.sum(logs**2, axis=-1, keepdims=True))
        vectors = np.concatenate([logs / reach, hessians / largest], axis=-1)
        return as_repetition(vectors, sizes(vectors, np.zeros(vectors.shape[1])))

    no_clip = Clip(np.zeros(manifold.dim + 1), radius=2.0, unit=1.0)
    *pull, hessian = clipped_mean((scaled(part) for part in parts), n, no_clip)
    vector = np.array(pull) * reach
    size = float(np.linalg.norm(vector))
    return vector, size, float(hessian) * largest + math.sqrt(bent) * size


LOGARITHMS_AT_ONCE = 2**16
"""Records of several repetitions whose logarithms are taken in one call."""
MEAN_TOLERANCE = 1e-9
"""Certificate τ of the Fréchet mean: the least gradient norm asked of `frechet_mean`."""


@lru_cache(maxsize=64)  # of public numbers only: experiments ask for them with every sample
def _expected(domain: Domain, space: Manifold) -> tuple[FeasibleSet, Prior, Point]:
    region, prior = feasible_set(domain, space), default_prior(domain, space)
    centre = region.inside(space.exp(space.origin, prior.centre))
    centre.setflags(write=False)
    return region, prior, centre


class PublicModel:
    """Public facts of the records of a mean, or of a stream.

    Attributes
    ----------
    manifold : Manifold
        Manifold that the records are on.
    domain : Domain
        Public bound on the records.
    """

    manifold: Manifold
    domain: Domain

    @cached_property
    def space(self) -> Manifold:
        """Manifold that work is done on: the chart of a flat manifold, else the manifold itself."""
        return chart_of(self.manifold)

    @cached_property
    def feasible_set(self) -> FeasibleSet:
        """Public, convex region that holds every record, in `space`."""
        return _expected(self.domain, self.space)[0]

    @cached_property
    def prior(self) -> Prior:
        """Public expectation of the records."""
        return _expected(self.domain, self.space)[1]

    @cached_property
    def centre(self) -> Point:
        """Public centre of the records, in `space` and inside the region, (*point_shape)."""
        return _expected(self.domain, self.space)[2]

    @cached_property
    def frame(self) -> Frame:
        """Axes that the prior expects."""
        return prior_frame(self.prior)

    @cached_property
    def odd(self) -> Point:
        """Public pictures unlike those of any class, (m, *point_shape), in `space`."""
        return self.space.exp(self.space.origin, self.prior.odd)

    def in_axes(self, bases: Point, points: Point) -> FloatArray:
        """Return points in the axes: at the bases; on a flat manifold at the centre.

        Parameters
        ----------
        bases : array, shape (..., *point_shape)
            Bases of the coordinates.
        points : array, shape (..., *point_shape)
            Points of `space`.

        Returns
        -------
        array, shape (..., d)
            Coordinates y.
        """
        bases = self.centre if self.space.flat else bases
        return vectors_times(self.space.log(bases, points), self.frame.to_axes)


@dataclass(frozen=True, eq=False, repr=False)
class Records(PublicModel):
    """Records of one class, admitted by `admit`; results computed from them are cached.

    Attributes
    ----------
    manifold : Manifold
        Manifold that the records are on.
    domain : Domain
        Public bound on the records.
    parts : Parts
        Records as points of `space`, inside the region, in arrays of shape (m, *space.point_shape).
    labels : Labels
        Public facts of their labels.
    sample_of : (Records, array of int), optional
        Records in memory that these were drawn from, and their rows, (n,).
    shaped : bool
        True if their axes are scaled as the prior expects, False if all in the same way.

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension.
    """

    manifold: Manifold
    domain: Domain
    parts: Parts[Point]
    labels: Labels = PUBLIC_LABELS
    sample_of: "tuple[Records, NDArray[np.int64]] | None" = None
    shaped: bool = True

    def __post_init__(self) -> None:
        check_domain(self.domain, self.manifold)

    @property
    def n(self) -> int:
        """Number of records: public where labels are."""
        return self.parts.n

    @cached_property
    def frame(self) -> Frame:
        """Axes of the coordinates of the records."""
        plain = build_frame(self.prior.line, np.eye(self.space.dim), 1.0)
        return prior_frame(self.prior) if self.shaped else plain

    @cached_property
    def unshaped(self) -> "Records":
        """Records in axes that are turned, but not scaled."""
        sample_of = self.sample_of and (self.sample_of[0].unshaped, self.sample_of[1])
        return replace(self, sample_of=sample_of, shaped=False)

    @property
    def placed(self) -> Point:
        """Array of all records as points of `space`, (n, *space.point_shape).

        Raises
        ------
        DomainError
            When they came in chunks.
        """
        if self.parts.whole is None:
            raise DomainError(
                "this needs all records at once, they come in chunks; give them as one array, or "
                'use plan "auto", or "ewg" without a footpoint from a subsample'
            )
        return self.parts.whole

    @cached_property
    def stored(self) -> Point:
        """Array of all records as points of the manifold, (n, *point_shape)."""
        return self.on_manifold(self.placed)

    @cached_property
    def frechet(self) -> FrechetMean:
        """Certified Fréchet mean, in `space`."""
        if self.parts.whole is None:
            return frechet_mean_of_parts(self.parts, self.n, self.space, tolerance=MEAN_TOLERANCE)
        return frechet_mean(self.placed, self.space, tolerance=MEAN_TOLERANCE)

    @cached_property
    def barycentre(self) -> Barycentre:
        """Fréchet mean, computed so that it moves by at most D/n with one record."""
        self.check_rounding()
        if self.space.flat:
            return self._flat_mean()
        return barycentre(
            self.parts,
            self.n,
            self.space,
            centre=self.centre,
            diameter=self.feasible_set.diameter,
            condition=self.feasible_set.condition,
        )

    def _flat_mean(self) -> Barycentre:
        """Return c + D·m, m the mean of (x − c)/D, which is summed in whole numbers.

        ‖m‖ is at most 1, since c, like x, is in the region, of diameter D. D·m and its sum with c
        round the result by at most 2uD + u‖c‖, looking at it from 0 or from a point of the region
        by uD.
        """
        wide = self.feasible_set.diameter
        to = Clip(self.centre, radius=wide, unit=wide)
        sized = self.parts.map(lambda part: as_repetition(part, sizes(part, self.centre)))
        point = self.centre + wide * clipped_mean(sized, self.n, to)
        rounding = ROUNDOFF * (4.0 * wide + float(np.linalg.norm(self.centre)))
        return Barycentre(point, rounding)

    @property
    def span(self) -> float:
        """Diameter of what the n records add to the computed log(p, barycentre), for every p.

        One replaced record moves it by at most ``span``/n: on a Hadamard manifold log(p, ·) is a
        contraction, so by D/n, D the diameter of the region, and what rounding may add on both data
        sets. The region holds the records as they were computed, so what came before needs no
        margin.
        """
        return self.feasible_set.diameter + 2.0 * self.n * self.barycentre.rounding

    def check_rounding(self) -> None:
        """Refuse records whose barycentre has a rounding without a bound.

        It was measured on some manifolds (see the top of this file), up to a distance.

        Raises
        ------
        PrivacyError
            When the domain is farther from the origin than rounding was measured on the manifold.
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

    @cached_property
    def logarithms(self) -> tuple[Callable[[Point, Point], FloatArray], Parts[Point]]:
        """Function log(base, ·), and the records as it takes them: factors, if it takes these."""
        space = self.space
        if isinstance(space, FactoredManifold):
            return space.factor_logs, self.parts.map(space.factors)
        return space.log, self.parts.map(np.asfortranarray) if space.flat else self.parts

    def sample(self, rows: NDArray[np.int64]) -> "Records":
        """Return some of the records, held in memory; a row may come several times.

        Parameters
        ----------
        rows : array of int, shape (m,)
            Rows of `placed`.

        Returns
        -------
        Records
            Records in memory, of the same coordinates.
        """
        return replace(self, parts=InMemory(len(rows), self.placed[rows]), sample_of=(self, rows))

    @cached_property
    def seen(self) -> Parts[FloatArray]:
        """Record coordinates in `frame`, from the prior's centre, in arrays of shape (m, d).

        Those of a sample have the coordinates that they have among all.

        Raises
        ------
        PrivacyError
            When the manifold is not a Hadamard manifold.
        """
        if self.sample_of is not None:
            records, rows = self.sample_of
            return InMemory(len(rows), np.take(records._in_axes, rows, axis=1).T)
        if not self.space.hadamard:
            raise PrivacyError(
                f"the adaptive mean is private on Hadamard manifolds, found {self.space.name}, "
                "which has positive curvature; use a mechanism made for it"
            )
        return self.parts.map(partial(to_frame, self.space, self.frame, self.centre))

    @cached_property
    def _in_axes(self) -> FloatArray:
        """Coordinates of records in memory in the axes, (d, n)."""
        return np.ascontiguousarray(np.concatenate(list(self.seen)).T)

    def around(
        self, points: Point, centres: FloatArray, each: "Sequence[Records]" = ()
    ) -> Parts[Sized]:
        """Return the records in the axes of each of several repetitions, with their distances.

        Parameters
        ----------
        points : array, shape (r, *space.point_shape)
            Bases of the coordinates; on a flat manifold all have the prior's centre.
        centres : array, shape (r, d)
            Points c of the axes that distances ‖y − c‖ are from.
        each : sequence of Records
            Records of each repetition, in memory, where they are not these.

        Returns
        -------
        Parts of Sized
            Coordinates and distances.
        """
        if not self._last_view or self._last_view[0][0] is not points:
            self._last_view[:] = [(points, *self._view(points, each))]
        _, views, ends = self._last_view[0]

        def sized(coordinates: FloatArray) -> Sized:
            size = sizes_around(coordinates, centres)
            for own, end in zip(size, ends, strict=False):
                own[end:] = np.nan
            return coordinates, size

        return views.map(sized)

    @cached_property
    def _last_view(self) -> list[tuple[Point, Parts[FloatArray], Sequence[int]]]:
        """Last bases that records were seen from, with the view: two steps may share them."""
        return []

    def _view(
        self, points: Point, each: "Sequence[Records]"
    ) -> tuple[Parts[FloatArray], Sequence[int]]:
        """Return the records in the axes at bases, and how many each repetition has."""
        space, axes, many = self.space, self.frame.to_axes, len(points)

        def seen_from(points: Point, part: Point) -> FloatArray:
            logs = self.logarithms[0](points[:, None], part)
            out = np.empty((len(points), space.dim, logs.shape[1]))
            for own, place in zip(logs, out, strict=True):
                matmul_in_order(np.ascontiguousarray(own.T), axes, place)
            return out

        if not each:
            if space.flat:
                return self.seen.map(lambda part: np.ascontiguousarray(part.T)[None]), ()
            step = max(1, LOGARITHMS_AT_ONCE // max(1, self.n))
            blocks = [points[start : start + step] for start in range(0, many, step)]
            return self.logarithms[1].map(
                lambda part: np.concatenate([seen_from(few, part) for few in blocks])
            ), ()
        if space.flat:
            sets = [np.asarray(own.seen.whole).T for own in each]
        else:
            parts = (own.logarithms[1].whole for own in each)
            sets = [seen_from(points[[r]], np.asarray(part))[0] for r, part in enumerate(parts)]
        coordinates = np.zeros((many, space.dim, max(part.shape[1] for part in sets)))
        for own, part in zip(coordinates, sets, strict=True):
            own[:, : part.shape[1]] = part
        return InMemory(self.n, coordinates), [part.shape[1] for part in sets]

    def on_manifold(self, points: Point) -> Point:
        """Return points of `space` as points of the manifold.

        Parameters
        ----------
        points : array, shape (..., *space.point_shape)
            Points of `space`.

        Returns
        -------
        array, shape (..., *point_shape)
            Points of the manifold.
        """
        return from_chart(self.manifold, points)

    def __repr__(self) -> str:
        """Show no value."""
        size = "" if self.labels.secret else f"n={self.n}, "
        return f"Records({size}manifold={self.manifold.name!r})"


def admit(
    points: Point | Batches, *, domain: Domain, manifold: Manifold, labels: Labels = PUBLIC_LABELS
) -> Records:
    """Return the records of one class, each inside the domain's region.

    Parameters
    ----------
    points : array, shape (n, *point_shape), or Batches
        Records; batches are checked as they are read. Of a flat manifold of matrices they may be
        points of its chart, (n, d), as `person_records` returns them. Those outside the region are
        moved to its nearest point, unreported: whether one was outside is private.
    domain : Domain
        Public bound on the records, in the distance of `manifold`.
    manifold : Manifold
        Geometry of the mean.
    labels : Labels
        Public facts of the labels. Where they are secret a class may have no record: what is
        released of it is noise.

    Returns
    -------
    Records
        Records, checked, each inside the region.

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension, there is no record though the
        number is public, or a record has the wrong shape or is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp import MANIFOLDS
    >>> from covdp.mean import Ball, admit
    >>> manifold = MANIFOLDS["spd-log-euclidean"](k=2)
    >>> points = np.array([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 2.0]]])
    >>> admit(points, domain=Ball(2.0, manifold.name), manifold=manifold)
    Records(n=2, manifold='spd-log-euclidean')
    """
    records = Records(manifold, domain, parts_of(points), labels)
    if records.n < 1 and not labels.secret:
        raise DomainError(
            f"a mean needs one record or more, found {records.n}; leave out empty classes"
        )
    space, inside = records.space, records.feasible_set.inside

    def place(part: Point) -> Point:
        charted = part.shape[1:] == space.point_shape
        part = _checked(part, space if charted else manifold)
        return inside(part if charted else to_chart(manifold, part))

    return replace(records, parts=records.parts.map(place))


def _checked(points: Point, manifold: Manifold) -> Point:
    """Return points if they have the shape of the manifold's and are finite."""
    if points.shape[1:] != manifold.point_shape:
        raise DomainError(
            f"records must have shape (n, {str(manifold.point_shape)[1:-1]}), found {points.shape}"
        )
    if not np.isfinite(points).all():
        raise DomainError("records must be finite, found NaN or infinity; check the images")
    return points


def person_records(points: Point, persons: Point, manifold: Manifold) -> Point:
    """Return one record a person, in the order in which they come.

    On a flat manifold it is the mean of the images' coordinates, a point of the chart, (persons,
    d): as a matrix it might be none that doubles hold (``records.py``). On another Hadamard
    manifold it is their inductive mean in the given order, (persons, *point_shape), S_1 = x_1 and
    S_t on the geodesic from S_{t−1} to x_t at 1/t of the way. Both are in every convex set that
    holds the images (Sturm 2003, for the latter). Whoever has one image is that image, to the last
    bit.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        Points of the images; those of a person one after another.
    persons : array, shape (n,)
        Person of each image.
    manifold : Manifold
        Geometry of the mean.

    Returns
    -------
    array, shape (persons, d) or (persons, *point_shape)
        Points of the chart of a flat manifold, else of the manifold.

    Raises
    ------
    DomainError
        When somebody else's images come between those of a person, who would count twice; or a
        person has several images on a manifold of positive curvature.

    References
    ----------
    Sturm, "Probability measures on metric spaces of nonpositive curvature" (2003), section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp import MANIFOLDS
    >>> from covdp.mean import person_records
    >>> manifold = MANIFOLDS["spd-log-euclidean"](k=2)
    >>> points = np.array([np.eye(2), np.eye(2), 3.0 * np.eye(2)])
    >>> person_records(points, np.array(["a", "a", "b"]), manifold).shape
    (2, 3)
    """
    begins = np.flatnonzero(np.concatenate([[True], persons[1:] != persons[:-1]]))
    if len(np.unique(persons[begins])) < len(begins):
        raise DomainError(
            "all images of a person must come one after another, found some between those of "
            "another; sort points and persons by person"
        )
    counts = np.diff([*begins, len(points)])
    if manifold.flat:
        return np.add.reduceat(to_chart(manifold, points), begins, axis=0) / counts[:, np.newaxis]
    means = np.array(points[begins])
    if not (counts > 1).any():
        return means
    if not manifold.hadamard:
        raise DomainError(
            f"a person with several images has no record on {manifold.name}: no mean there is sure "
            "to stay in the region; choose a manifold without positive curvature"
        )
    for step in range(2, int(counts.max()) + 1):
        more = np.flatnonzero(counts >= step)
        towards = manifold.log(means[more], points[begins[more] + step - 1])
        means[more] = manifold.exp(means[more], towards / step)
    return means
