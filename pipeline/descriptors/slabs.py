"""A volume that is too large to be held: described some slices at a time, with the same bits.

Slabs of slices overlap by those that features look at; of each the moments are summed over its own
slices alone. A volume is the disjoint union of these, and its moments are sums of integers: of
slabs they are added in any order, and each partial sum is the sum over a part of the voxels. With
every feature within ±F, F = `reach`, it is at most N·F² for N voxels, so that N·F² < 2⁶³ (which
`check_sides` asks) keeps all of them in int64, N = 2,164,359,682 for F = 65280. What follows, made
of all moments, is computed in Python's integers as for any volume of more than `widest` voxels.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray, ImageArray
from pipeline.descriptors.describe import covariances_of_moments
from pipeline.descriptors.registry import Descriptor, check_eta, check_sides, find_descriptor
from pipeline.errors import ConfigError, ImageError
from pipeline.threads import side_by_side, threads

Slab: TypeAlias = tuple[ImageArray, ImageArray | None]
"""Slices (m, h, w), and their mask if there is one."""


class _Window(NamedTuple):
    """Slices, of which all but some at the ends are summed over where `inside` is 1."""

    slices: ImageArray
    inside: ImageArray


def describe_slabs(
    slabs: Iterable[Slab],
    descriptor: str = "vol7",
    eta: float = 1e-6,
    axes: tuple[int, int, int] = (0, 1, 2),
) -> FloatArray:
    """Return the descriptor of one volume, (k, k), as `describe` would of all of it.

    Parameters
    ----------
    slabs : iterable of (uint8 array (m, h, w), mask or None)
        Its slices in their order, some at a time.
    descriptor, eta
        As in `describe`.
    axes : tuple of int
        Which axes of the volume those of a slab are: slices may be cut across any of them.

    Raises
    ------
    DatasetError
        When the volume is empty, or so large that its moments leave int64; when no voxel is inside.
    """
    spec = find_descriptor(descriptor)
    check_eta(eta)
    if spec.slabs is None:
        raise ConfigError(f"{spec.name} describes whole images, not some slices at a time")
    order, total = spec.k + 1, np.zeros((1, spec.k + 1, spec.k + 1), np.int64)
    count, sides = 0, [0, 0, 0]
    running: deque[Future[NDArray[np.int64]]] = deque()
    with side_by_side() as submit:
        for window in _windows(slabs, spec.slabs.reach, sides):
            check_sides(spec, tuple(sides))
            count += int(np.count_nonzero(window.inside))
            running.append(submit(_moments, spec, order, window))
            if len(running) > threads():
                total += running.popleft().result()
        for job in running:
            total += job.result()
    if not count:
        raise ImageError("a mask must have at least 1 voxel, found none; leave the volume out")
    out = np.empty((1, spec.k, spec.k))
    covariances_of_moments(total, np.array([count]), tuple(sides), spec, eta, out)
    kept = spec.slabs.turned(axes)
    turned: FloatArray = out[0][np.ix_(kept, kept)]
    return turned


def _windows(slabs: Iterable[Slab], reach: int, sides: list[int]) -> Iterator[_Window]:
    """Yield slabs with `reach` slices beside them, where there are; `sides` are those so far."""
    slices, inside, summed = None, None, 0
    for images, mask in slabs:
        there = np.ones_like(images) if mask is None else (mask != 0).astype(np.uint8)
        slices = images if slices is None else np.concatenate([slices, images])
        inside = there if inside is None else np.concatenate([inside, there])
        sides[:] = sides[0] + len(images), *images.shape[1:]
        if len(slices) - reach > summed:
            yield _Window(slices, _between(inside, summed, len(slices) - reach))
            slices, inside = slices[-2 * reach :], inside[-2 * reach :]
            summed = len(slices) - reach
    if slices is not None and inside is not None:
        yield _Window(slices, _between(inside, summed, len(slices)))


def _between(inside: ImageArray, start: int, stop: int) -> ImageArray:
    """Return a mask of some of the slices alone."""
    found = np.zeros(inside.shape, np.uint8)
    found[start:stop] = inside[start:stop]
    return found


def _moments(spec: Descriptor, order: int, window: _Window) -> NDArray[np.int64]:
    """Return the moments of the slices of a window that are summed over."""
    found: NDArray[Any] = np.zeros((1, order, order), np.int64)
    slices = np.ascontiguousarray(window.slices)[np.newaxis, ..., np.newaxis]
    slices.flags.writeable = False  # as in `describe`
    spec.kernel(slices, window.inside[np.newaxis], found)
    return found
