"""Clipping by count: which ball the next mean clips records to, from a noisy count of distances.

A mean of records clipped to a ball of radius R has noise that goes with R, and a bias by what is
cut off. How much a record outside of the ball adds to the bias is never known; but noise in a sum,
σ, and k records outside add to the error in one proportion where k goes with √d·σ, in every class.
So the ball is the one that leaves `OUTSIDE`·√d·σ records outside, as a noisy count of records by
their distance says, and at most half of them. Noise in the outer shells makes balls too wide rather
than too narrow, most where n·μ is small or shells go far out: there the counts nearest to the noisy
ones are taken that have one peak (`one_peak`). What is cut off is released with the mean
(overshoots, ``sums.py``), and where noise cannot explain it, it is added to the mean again
(``noisy_moments.py``).
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.geometry import Manifold
from covdp.mean import tuning
from covdp.mean.axes import vectors_times
from covdp.mean.public_model import Prior
from covdp.mean.sums import Clipping
from covdp.parallel import compiled
from covdp.recall import repeatable

SQRT2 = math.sqrt(2.0)
"""Indicators over √2 form a set of diameter 1: two corners of a simplex are √2 apart."""


@compiled
def shell_counts(size: FloatArray, edges: FloatArray) -> NDArray[np.int64]:
    """Return the number of records in each shell, by their size.

    They are counted up to each edge from the one before, and above all. What is no number is no
    record.

    Parameters
    ----------
    size : array, shape (r, n)
        Distances from the centre, as each repetition sees them; NaN of no record.
    edges : array, shape (b - 1,)
        Increasing radii between shells.

    Returns
    -------
    array of int, shape (r, b)
        Counts, from the centre outwards.
    """
    repetitions, many = size.shape
    out = np.zeros((repetitions, len(edges) + 1), np.int64)
    for r in range(repetitions):
        own, above = size[r], 0
        for n in range(many):
            above += 1 if own[n] == own[n] else 0
        for i in range(len(edges)):
            before, above = above, 0
            for n in range(many):
                above += 1 if own[n] > edges[i] else 0
            out[r, i] = before - above
        out[r, len(edges)] = above
    return out


def records_outside(sigma: float, dim: int, n: FloatArray) -> FloatArray:
    """Return the number of n records that a ball leaves outside.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise in the sum of their vectors.
    dim : int
        Length d of a vector.
    n : array, shape (r,)
        Number of records.

    Returns
    -------
    array, shape (r,)
        Number of records, at most `MOST_OUTSIDE` of n.
    """
    wanted = tuning.OUTSIDE * math.sqrt(dim) * sigma
    return np.minimum(wanted, tuning.MOST_OUTSIDE * n)


def likely_counts(shells: FloatArray, n: FloatArray) -> FloatArray:
    """Return the counts nearest to noised ones of which none is negative and n the sum.

    So empty shells, which are many, add hardly any noise: less of it than the smallest ones have.

    Parameters
    ----------
    shells : array, shape (r, b)
        Noised counts.
    n : array, shape (r,) or (1,)
        Number of records.

    Returns
    -------
    array, shape (r, b)
        Counts, none negative.
    """
    falling = -np.sort(-shells, axis=1)
    many = np.arange(1, shells.shape[1] + 1)
    excess = (np.cumsum(falling, axis=1) - n[:, None]) / many
    last = np.count_nonzero(falling > excess, axis=1, keepdims=True) - 1
    return np.asarray(np.maximum(shells - np.take_along_axis(excess, last, axis=1), 0.0))


@compiled
def falling(counts: FloatArray) -> FloatArray:
    """Return the nearest numbers of which none is larger than the one before it.

    Parameters
    ----------
    counts : array, shape (b,)
        Noised counts.

    Returns
    -------
    array, shape (b,)
        Counts that fall.
    """
    out = counts.copy()
    for i in range(len(out)):
        start, level = i, out[i]
        while start > 0 and out[start - 1] < level:
            start -= 1
            level = np.mean(out[start : i + 1])
        out[start : i + 1] = level
    return out


@compiled
def one_peak(shells: FloatArray) -> FloatArray:
    """Return the counts nearest to noised ones that rise to one peak and fall beyond it.

    So noise in outer shells, which are empty or hold few records, is not taken for records far out.
    A function of released counts alone, so it costs no privacy.

    Parameters
    ----------
    shells : array, shape (r, b)
        Noised counts.

    Returns
    -------
    array, shape (r, b)
        Counts of one peak.
    """
    out = shells.copy()
    for r in range(len(shells)):
        own, least = shells[r], np.inf
        for peak in range(len(own)):
            found = np.concatenate((falling(own[:peak][::-1])[::-1], falling(own[peak:])))
            error = np.sum((found - own) ** 2)
            if error < least:
                least, out[r] = error, found
    return out


@repeatable
def choose_radius(shells: FloatArray, edges: FloatArray, outside: FloatArray) -> FloatArray:
    """Return the radius that so many records are outside of: from outside in, the first.

    Parameters
    ----------
    shells : array, shape (r, b)
        Noised counts.
    edges : array, shape (b - 1,)
        Radii between shells.
    outside : array, shape (r,)
        Number of records outside; between edges a radius is found as if they were even in its
        logarithm.

    Returns
    -------
    array, shape (r,)
        Radii, from the first edge to the last.
    """
    beyond = np.cumsum(shells[:, ::-1], axis=1)[:, -2::-1]  # each edge
    many = np.asarray(outside)[..., None]
    last = len(edges) - 1 - np.argmax((beyond > many)[:, ::-1], axis=1)  # the outermost with more
    rows = np.arange(len(shells))
    none, next_one = ~(beyond > many).any(axis=1), np.minimum(last + 1, len(edges) - 1)
    inner, outer = beyond[rows, last], beyond[rows, next_one]
    share = (inner - many[..., 0]) / np.maximum(inner - outer, 1e-9)
    logs = np.log(edges)
    radius = np.exp(logs[last] + np.clip(share, 0.0, 1.0) * (logs[next_one] - logs[last]))
    return np.asarray(np.where(none, edges[0], radius))


def clipping(
    radius: FloatArray, centre: FloatArray, odd: FloatArray, lines: int, prior: Prior
) -> Clipping:
    """Return the maps of records to vectors in the last mean, with the reach of overshoots.

    Parameters
    ----------
    radius : array, shape (r,)
        Radii of the balls.
    centre : array, shape (r, d)
        Centres of the balls, in the axes.
    odd : array, shape (r, m, d)
        Odd pictures, relative to each centre.
    lines : {0, 1}
        Number of leading coordinates along the contrast axis.
    prior : Prior
        Public expectation, whose unit and farthest record set the reach.

    Returns
    -------
    Clipping
        Maps, one a repetition.
    """
    near = np.minimum(
        tuning.NEAR_RADII * radius, np.maximum(radius, tuning.NEAR_TO * prior.unit - radius)
    )
    far = np.maximum(2.0 * near, tuning.FAR_UNITS * prior.unit)
    farthest = np.maximum(2.0 * radius, prior.farthest)
    return Clipping(centre, radius, 2.0 * radius, lines, near, far, farthest, odd)


def ball(radius: FloatArray, centre: FloatArray) -> Clipping:
    """Return the maps of records to vectors in a mean that measures no overshoots.

    Parameters
    ----------
    radius : array, shape (r,)
        Radii of the balls.
    centre : array, shape (r, d)
        Centres of the balls, in the axes.

    Returns
    -------
    Clipping
        Maps, one a repetition.
    """
    many, nothing = len(radius), np.zeros(len(radius))
    none = np.zeros((many, 0, centre.shape[1]))
    return Clipping(centre, radius, 2.0 * radius, 0, nothing, nothing, nothing, none)


def newton_step(space: Manifold, moment: FloatArray) -> FloatArray:
    """Return the factor of the mean of log(p, x) that leads from p to the Fréchet mean.

    The Hessian of ½·dist(·, x)² at p is √A·coth √A, A = −R(·, u)u, u = log(p, x) (Karcher 1977). It
    is concave in A, as a sum of t/(t + π²m²), and A is linear in u·uᵀ. So the mean Hessian is at
    most that of the mean of A, and the step that a second moment says is seldom too long. No
    privacy hangs on it.

    Parameters
    ----------
    space : Manifold
        Not positively curved. One that has no `jacobi_operator` is taken to be as bent everywhere
        as it may be.
    moment : array, shape (d, d)
        Second moment of u.

    Returns
    -------
    array, shape (d, d)
        Symmetric, of eigenvalues 0 to 1.
    """
    own, least = getattr(space, "jacobi_operator", None), space.curvature[0]
    bent = least * (np.trace(moment) * np.eye(len(moment)) - moment) if own is None else own(moment)
    values, vectors = np.linalg.eigh(-bent)
    roots = np.sqrt(np.maximum(values, 1e-12))
    step = (vectors * (np.tanh(roots) / roots)) @ vectors.T
    return np.asarray((step + step.T) / 2.0)


def lengths(vectors: FloatArray) -> FloatArray:
    """Return the norms of vectors, each by itself.

    Parameters
    ----------
    vectors : array, shape (..., d)
        Vectors, one on each row of the last axis.

    Returns
    -------
    array, shape (...)
        Norms.
    """
    return np.asarray(np.sqrt(vectors_times(vectors, vectors[..., None])[..., 0]))


LEAST_SENT, MOST_SENT = 1e-30, 1e30
"""Least length and largest number of parameters that somebody else has computed."""


def fault_of(found: Mapping[str, FloatArray], own: Mapping[str, FloatArray]) -> str:
    """Return why parameters of a step may not take the place of one's own; "" where they may.

    A vector is (y − centre)/unit, cut off at the radius: of norm at most ½ where the unit is twice
    the radius or more. Overshoots are lengths over reaches: none is measured where they are 0 here,
    and all are where they are not. Counts are of norm 1 in any shells. That is so in doubles, whose
    squares and quotients neither overflow nor lose digits between `LEAST_SENT` and `MOST_SENT`. So
    a record moves no more, whatever the parameters are.

    Parameters
    ----------
    found : mapping of str to array
        Parameters that somebody else has computed, each in the shape of one's own.
    own : mapping of str to array
        Parameters as they were computed here.
    """
    if found.keys() != own.keys():
        return "of other shapes"
    if not all((np.abs(x) <= MOST_SENT).all() for x in found.values()):  # NaN is not
        return "that are not finite, or too large"
    if "axes" in own and not np.allclose(found["axes"], own["axes"], rtol=1e-9, atol=1e-9):
        return "in other axes: its machine computes otherwise"
    sizes = {"radius", "unit", "near", "far", "farthest"} & own.keys()
    if not all(
        np.where(own[x] > 0.0, found[x] >= LEAST_SENT, found[x] == 0.0).all() for x in sizes
    ):
        return "of reaches that are not positive, or too small"
    if "unit" in own and not (found["unit"] >= 2.0 * found["radius"]).all():
        return "of a unit below twice the radius"
    return ""
