"""Released classes in one set of coordinates, and the covariance of their records.

It is estimated from the noised second moment. All of it is post-processing.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from covdp.addons.nights.schema import StreamEntry
from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.geometry import Manifold, Point, chart_of
from covdp.inference.released import (
    Entry,
    Released,
    chart_jacobian,
    is_offered,
    read_released,
    region_refusal,
)
from covdp.mean import NoisyMoments, Release
from covdp.mean.noisy_moments import WeighedParts, clipping_bound, congruent, covariance
from covdp.mean.release import NOT_ADAPTIVE
from covdp.schema import ReleasedEntry


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
        True if a region is available. Else noise is too wide to say what clipping did, or the
        count may be of no records, so that nothing can be tested.
    parts : sequence of (float, NoisyMoments)
        Parts of the mean, in its own coordinates, with the share of each: the last round of a
        release; the opening and the epochs of a stream.
    jacobian : array, shape (d, d)
        Row i: where a step along coordinate i of its own leads.
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
        """Moments of the last round of a release, or of the opening of a stream."""
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
            Covariance in its own coordinates.
        """
        return congruent(covariance, self.jacobian)


def common_coordinates(
    released: Sequence[Released],
) -> tuple[Manifold, Point, list[ClassCoordinates]]:
    """Return released classes in coordinates at the mean of the largest of them.

    The manifold is where they live, the base a point of `chart_of` it.

    Parameters
    ----------
    released : sequence of Released
        Classes of releases or nights.

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
    return manifold, base, [coordinates_at(entry, base) for entry in entries]


def coordinates_at(entry: Entry, base: Point) -> ClassCoordinates:
    """Return a released class in coordinates at a base.

    Parameters
    ----------
    entry : Entry
        Class of a release or a night, with an adaptive mean.
    base : array, shape (*space.point_shape)
        Point of `chart_of` its manifold.
    """
    if isinstance(entry, Release | ReleasedEntry):
        return _class_coordinates(entry, chart_of(entry.manifold), base)
    return _night_coordinates(entry, base)


def size_of(released: Entry) -> int:
    """Return the number of records of a released class.

    Parameters
    ----------
    released : Entry
        Class of a release or a night.
    """
    if isinstance(released, StreamEntry):
        return released.size
    return int(released.noisy_moments.n)


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


def _night_coordinates(night: Entry, base: Point) -> ClassCoordinates:
    """Return the mean of all records of a stream so far; its manifold is flat.

    What scatter adds, Σ̂/n, is what the error against the population has more than that against
    these records (``inference/confidence.py``).
    """
    assert isinstance(night, StreamEntry)
    certainty, place = night.certainty, night.place - base
    assert certainty is not None
    noise, parts = certainty.noise, certainty.weighed
    first = parts[0][1]
    along, off = np.sum([share * np.array(part.predicted_bias) for share, part in parts], axis=0)
    added = certainty.added if certainty.corrected else np.zeros_like(place)
    return ClassCoordinates(
        n=night.size,
        n_sd=night.n_sd,
        mean=place,
        unshrunk=place,
        clipped=place - added,
        noise=noise,
        bias=certainty.bias,
        predicted=noise + first.as_covariance(along / first.length, off / first.unit_length),
        single=certainty.single(night.size),
        offered=certainty.offered,
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
