"""Released classes read: what a private mean returned, or their entries in a document.

All of it is post-processing. Several of them in one set of coordinates are
`covdp.addons.partners.coordinates`.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.geometry import Manifold, Point
from covdp.mean import NoisyMoments, Release
from covdp.privacy.rounding import two_digits
from covdp.schema import Refusal, ReleasedEntry, StatedEntry, read_entry

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
    if isinstance(released, Mapping):
        return read_entry(released)
    if not hasattr(type(released), "noisy_moments"):
        raise ConfigError(
            "a released class is what covdp.private_mean returns first, or an entry of classes in "
            f"a document; found {type(released).__name__}"
        )
    return released


NOISY = 0.02
"""Largest σ of the released vectors with which one is: n·μ of 63 with the usual shares.

By hand: at n·μ = 25 of normal scans of OCT2017 only 8 in 10 of the regions held the mean.
"""
COUNT_SDS = 5.0
"""Least count of a class whose label is secret, in standard deviations of its noise, with which one
is: the count of no images is as large in one release of three million."""

COORDINATE_STEP = 1e-5
"""Distance over which coordinates are differentiated."""


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


def is_offered(observed: NoisyMoments) -> bool:
    """Return whether the rule for offering a region is met.

    Parameters
    ----------
    observed : NoisyMoments
        Released numbers of the class.
    """
    return not region_refusal(observed)


def region_refusal(observed: NoisyMoments) -> Refusal:
    """Return why no region is available, in words; "" where one is.

    Parameters
    ----------
    observed : NoisyMoments
        Released numbers of the class.
    """
    if observed.n < COUNT_SDS * observed.n_sd:
        fact = f"its count is less than {COUNT_SDS:g} standard deviations of its noise"
        return Refusal(f"{fact}, so there may be no records", short=fact)
    times = observed.sigma / NOISY
    shown = two_digits(times)
    if observed.moment is None:
        return Refusal('there is no second moment: release with mechanism = "auto", or plan="auto"')
    if times > 1.0:
        fact = f"{shown} times too wide"
        return Refusal(
            f"the noise is {fact} to bound the error of clipping; a region needs about "
            f"{shown} times as many records",
            short=fact,
        )
    return Refusal()


def certainty_refusal(released: Entry) -> Refusal:
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
