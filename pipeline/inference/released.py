"""Released classes read: what a private mean returned, or their entries in a document.

Here are several of them in one set of coordinates (`common_coordinates`), and the covariance of
their records, estimated from the noised second moment. All of it is post-processing.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.geometry import Manifold, Point, chart_of
from covdp.mean import NoisyMoments, Release
from covdp.mean.noisy_moments import WeighedParts, clipping_bound, congruent, covariance
from covdp.mean.release import NOT_ADAPTIVE
from covdp.schema import ReleasedEntry, StatedEntry, read_entry

Entry: TypeAlias = Release | ReleasedEntry | StatedEntry
"""Release that `private_mean` returned first, or an entry of ``classes`` of the document of a
release or of a night: then the mean of all records of the stream so far."""
Released: TypeAlias = Entry | Mapping[str, Any]
"""The same, or the entry as JSON gave it."""


def read_released(released: Released) -> Entry:
    """Return a released class; an entry of a document that JSON gave is read.

    Parameters
    ----------
    released : Released
        Release, or entry of a document.

    Raises
    ------
    ConfigError
        When it is none.
    """
    return read_entry(released) if isinstance(released, Mapping) else released


NOISY = 0.02
"""Largest σ of the released vectors with which one is: n·μ of 63 with the usual shares.

By hand: at n·μ = 25 of normal scans of OCT2017 only 8 in 10 of the regions held the mean.
"""
COUNT_SDS = 5.0
"""Least count of a class whose label is secret, in standard deviations of its noise, with which one
is: the count of no images is as large in one release of three million."""

COORDINATE_STEP = 1e-5
"""Distance over which coordinates are differentiated."""


class ClassCoordinates(NamedTuple):
    """A released class, in coordinates at a common base.

    Attributes
    ----------
    n : int
        Number of records.
    n_sd : float
        Standard deviation of the noise of `n`; 0 where it is public.
    mean, unshrunk, clipped : array, shape (d,)
        The released mean; the one before it was shrunk; and that of clipped records, nothing added.
    noise, bias, predicted : array, shape (d, d)
        Covariance of the noise of `unshrunk`; what clipping may do to it at most; and what both are
        predicted to do.
    single : array, shape (d, d), or None
        Covariance of single records; None without a second moment.
    offered : bool
        True if a region is available. Without, noise is too wide to say what clipping did, or the
        count may be of no records, so that nothing can be tested.
    parts : sequence of (float, NoisyMoments)
        Parts it is made of, in its own coordinates, with the share of each: the last round of a
        release; the opening and the epochs of a stream.
    jacobian : array, shape (d, d)
        Steps in the common coordinates: row i has that along coordinate i of its own.
    """

    n: int
    n_sd: float
    mean: FloatArray
    unshrunk: FloatArray
    clipped: FloatArray
    noise: FloatArray
    bias: FloatArray
    predicted: FloatArray
    single: FloatArray | None
    offered: bool
    parts: WeighedParts
    jacobian: FloatArray

    @property
    def clipping(self) -> float:
        """Largest distance by which clipping may have moved the mean."""
        return clipping_bound(self.parts)

    @property
    def moments(self) -> NoisyMoments:
        """Numbers that the last round of a release released, or the opening of a stream."""
        return self.parts[0][1]

    @property
    def line(self) -> FloatArray | None:
        """The contrast axis, where a change of contrast leads, (d,); None without."""
        return self.moments.axes[0] @ self.jacobian if self.moments.lines else None

    @property
    def belief(self) -> FloatArray:
        """Covariance of the error of the mean of a release, in its own coordinates.

        Raises
        ------
        ConfigError
            Of a night, whose parts are not shrunk.
        """
        if self.moments.belief is None:
            raise ConfigError(NOT_ADAPTIVE)
        return self.moments.belief

    def there(self, covariance: FloatArray) -> FloatArray:
        """Return a covariance of its own coordinates in the common ones.

        Parameters
        ----------
        covariance : array, shape (d, d)
            Covariance in coordinates of its own.
        """
        return congruent(covariance, self.jacobian)


def chart_jacobian(manifold: Manifold, base: Point, place: FloatArray, target: Point) -> FloatArray:
    """Return how coordinates at `base`, near `place`, become those at `target`, (d, d).

    Parameters
    ----------
    manifold : Manifold
        Manifold of the mean.
    base : array, shape (*space.point_shape)
        Point at which the coordinates are.
    place : array, shape (d,)
        Coordinates of the point near which they change.
    target : array, shape (*space.point_shape)
        Point at which the new coordinates are.
    """
    if manifold.flat:
        return np.eye(manifold.dim)
    steps = COORDINATE_STEP * np.eye(manifold.dim)
    ahead, behind = (
        manifold.log(target, manifold.exp(base, place + step)) for step in (steps, -steps)
    )
    return np.asarray((ahead - behind) / (2.0 * COORDINATE_STEP))


def common_coordinates(
    released: Sequence[Released],
) -> tuple[Manifold, Point, list[ClassCoordinates]]:
    """Return released classes in coordinates at the mean of the largest of them.

    The manifold is where they live, the base a point of `chart_of` it.

    Parameters
    ----------
    released : sequence of Released
        Releases, or entries of documents.

    Raises
    ------
    ConfigError
        When there are fewer than two, or they are of different geometries.
    """
    entries = [read_released(item) for item in released]
    if len(entries) < 2:
        raise ConfigError(f"give 2 released classes or more, found {len(entries)}")
    spaces = {(entry.manifold.name, entry.manifold.dim) for entry in entries}
    if len(spaces) > 1:
        listing = ", ".join(sorted(f"{name} of dimension {dim}" for name, dim in spaces))
        raise ConfigError(
            f"classes are compared in one geometry, found {listing}; release them with the same "
            "descriptor and manifold"
        )
    manifold = entries[0].manifold
    base = max(entries, key=size_of).place
    space = chart_of(manifold)
    classes = [
        _class_coordinates(entry, space, base)
        if isinstance(entry, Release | ReleasedEntry)
        else _stated_coordinates(entry, base)
        for entry in entries
    ]
    return manifold, base, classes


def size_of(released: Entry) -> int:
    """Return the number of records of a released class.

    Parameters
    ----------
    released : Entry
        Release, or entry of a document that was read.
    """
    if isinstance(released, Release | ReleasedEntry):
        return int(released.noisy_moments.n)
    return released.size


def _class_coordinates(
    released: Release | ReleasedEntry, space: Manifold, base: Point
) -> ClassCoordinates:
    moments = released.noisy_moments
    own = chart_jacobian(space, moments.base, moments.offset, base)
    there = partial(congruent, rows=own)
    return ClassCoordinates(
        n=moments.n,
        n_sd=moments.n_sd,
        mean=space.log(base, released.place),
        unshrunk=space.log(base, space.exp(moments.base, moments.offset)),
        clipped=space.log(base, space.exp(moments.base, moments.clipped_offset)),
        noise=there(moments.noise),
        bias=there(moments.as_covariance(*moments.bounds)),
        predicted=there(moments.predicted),
        single=None if moments.moment is None else there(covariance(moments)),
        offered=is_offered(moments),
        parts=[(1.0, moments)],
        jacobian=own,
    )


def _stated_coordinates(entry: StatedEntry, base: Point) -> ClassCoordinates:
    """Return a mean that states its error itself; its manifold is flat."""
    place, noise, parts = entry.place - base, entry.noise, entry.weighed
    first = parts[0][1]
    along, off = np.sum([share * np.array(part.predicted_bias) for share, part in parts], axis=0)
    return ClassCoordinates(
        n=entry.size,
        n_sd=entry.n_sd,
        mean=place,
        unshrunk=place,
        clipped=place - entry.added,
        noise=noise,
        bias=entry.bias,
        predicted=noise + first.as_covariance(along / first.length, off / first.unit_length),
        single=entry.single,
        offered=entry.offered,
        parts=parts,
        jacobian=np.eye(len(place)),
    )


def mean_covariance(classes: Sequence[ClassCoordinates]) -> FloatArray:
    """Return the covariance of single records, (d, d): the mean by size over all that say one.

    Parameters
    ----------
    classes : sequence of ClassCoordinates
        Classes in common coordinates.

    Raises
    ------
    ConfigError
        When none does: nothing else tells how much of a difference is chance.
    """
    wide = [row for row in classes if row.single is not None]
    if not wide:
        least = min((row.moments for row in classes), key=lambda moments: moments.sigma)
        reason = region_refusal(least).removeprefix("there is no second moment: ")
        raise ConfigError(
            "means are combined, and put on one scale, by the spread of records, and none holds a "
            f"second moment: {reason}. Release with a larger budget or more records; of a stream, "
            "give a night after it has opened again"
        )
    singles = np.array([row.single for row in wide])
    return np.asarray(np.average(singles, axis=0, weights=[row.n for row in wide]))


def is_offered(observed: NoisyMoments) -> bool:
    """Return whether the rule for offering a region is met.

    Parameters
    ----------
    observed : NoisyMoments
        Released numbers of the class.
    """
    return not region_refusal(observed)


def region_refusal(observed: NoisyMoments) -> str:
    """Return why no region is available, in words; "" where one is.

    Parameters
    ----------
    observed : NoisyMoments
        Released numbers of the class.
    """
    if observed.n < COUNT_SDS * observed.n_sd:
        return (
            f"its count is less than {COUNT_SDS:g} standard deviations of its noise, so there may "
            "be no records"
        )
    times = observed.sigma / NOISY
    shown = two_digits(times)
    if observed.moment is None:
        return 'there is no second moment: release with mechanism = "auto", or plan="auto"'
    if times > 1.0:
        return (
            f"the noise is {shown} times too wide to bound the error of clipping; about {shown} "
            "times as many records, or as large a μ, are enough"
        )
    return ""


def two_digits(value: float) -> str:
    """Return a number rounded up to two digits.

    Parameters
    ----------
    value : float
        Number, above 0.
    """
    step = 10.0 ** (math.floor(math.log10(max(value, 1e-9))) - 1)
    return f"{math.ceil(value / step - 1e-9) * step:,.10g}"


def certainty_refusal(released: Entry) -> str:
    """Return why a released class has no region and no test, in words; "" where it has.

    That is asked first: a mean without one may be noise of any size, which has no logarithm in
    double precision.

    Parameters
    ----------
    released : Entry
        Release, or entry of a document that was read.
    """
    if isinstance(released, Release | ReleasedEntry):
        return region_refusal(released.noisy_moments)
    return released.refusal
