"""Noise as it was drawn, tested against the law that was promised: independent and normal.

In: residuals, the noise that a step added over the σ that was asked for. Out: p-values. If the
noise is what its mechanism says, all residuals of all draws are independent standard normals, so
each p-value below is exact or an upper bound, for any number of draws: no law is an asymptotic one.

==================  ===============================================================================
scale               χ² of each coordinate of each step, and of coordinates put together (`_pools`)
bias                the mean of the same
two coordinates     the correlation of any two, of one step or of two
two steps           that of two vectors, as far as the shorter one goes
sums, norms         scale, bias and correlations of what all coordinates of a step share: of their
                    sum, and of their norm, taken to a normal by its distribution function
law                 the distance of the distribution function from the normal one
directions          the least and the largest singular value of a step's draws
two draws           the correlation of a draw with each of the `LAGS` after it, step by step
used twice          the closest two vectors of all draws and steps, of either sign, by their first
                    coordinates
==================  ===============================================================================

Of each row the smallest p-value counts, times how many there are, times the number of rows
(Bonferroni). Where the result is below `SUSPICION` the one test that gave it is done once more,
on twice as many fresh draws: there it is the only one, so it sees much less.

References: Massart, "The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality" (1990).
Davidson and Szarek, "Local operator theory, random matrices and Banach spaces" (2001).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import betainc, gammainc, gammaincc, ndtr, ndtri

from covdp.addons.audit.bounds import Law
from covdp.arrays import FloatArray

SUSPICION = 0.02
"""Probability that sound noise is drawn and tested a second time."""
FRESH = 2
"""Draws of the second time, over those of the first."""
LAGS = 8
"""Draws after one that it is compared with, one by one."""
LEADING = 3
"""Coordinates by which two vectors are compared."""
LEAST_P = 1e-300
"""Smallest p-value that is distinguished from 0."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Noise over its σ: independent standard normals, if it is what is promised.

    Attributes
    ----------
    values : array, shape (n, m)
        Residuals of all steps of each draw, end to end.
    widths : tuple of int
        Length of each step; they sum to m.
    """

    values: FloatArray
    widths: tuple[int, ...]


def transcript_residuals(
    laws: Sequence[Law], rng: np.random.Generator, widths: tuple[int, ...] = ()
) -> Residuals:
    """Return the noise of transcripts, `left` of each law being what it was added to.

    Where vectors of a step differ in length, fresh normals fill the shorter ones up: so what is
    missing tells nothing. `widths` are the lengths of the longest when left out.

    Parameters
    ----------
    laws : sequence of Law
        Transcripts as arrays.
    rng : numpy.random.Generator
        Generator of the normals that fill shorter vectors up.
    widths : tuple of int
        Length of the longest vector of each step; those of the transcripts when left out.
    """
    widths = widths or tuple(np.concatenate([law.lengths for law in laws]).max(axis=0).tolist())
    starts, rows = np.cumsum(widths) - widths, list[FloatArray]()
    for law in laws:
        lengths = law.lengths.ravel()
        vector = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(vector)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        row, step = np.divmod(vector, len(widths))
        noise = (law.released - law.left) / law.sigmas[0].ravel()[vector]
        inside = place < np.array(widths)[step]
        values = rng.standard_normal((len(law.lengths), sum(widths)))
        values[row[inside], (starts[step] + place)[inside]] = noise[inside]
        rows.append(values)
    return Residuals(np.concatenate(rows), widths)


def noise_p_value(noise: Residuals, fresh: Callable[[int], Residuals], *, alpha: float) -> float:
    """Return a p-value of "the noise is independent, normal and as wide as was asked for".

    Parameters
    ----------
    noise : Residuals
        Standardised residuals of independent draws.
    fresh : callable
        Number of draws → residuals of so many more, of the same steps.
    alpha : float
        Level at which the p-value decides, and is valid.
    """
    found = p_values(noise)
    corrected = {name: len(found) * len(each) * float(each.min()) for name, each in found.items()}
    name = min(corrected, key=lambda kind: corrected[kind])
    least = corrected[name]
    if least > SUSPICION:
        return min(1.0, least)
    if least > alpha / 2.0:
        again = p_values(fresh(FRESH * len(noise.values)))[name]
        least = min(least, float(again[int(np.argmin(found[name]))]))
    return max(LEAST_P, 2.0 * least)


def p_values(noise: Residuals) -> dict[str, FloatArray]:
    """Return the p-values of each row of the table above, one-dimensional arrays.

    Parameters
    ----------
    noise : Residuals
        Standardised residuals, which are N(0, 1) where the law holds.
    """
    z, widths, n = noise.values, noise.widths, len(noise.values)
    ends = np.cumsum(widths)
    steps = [z[:, end - width : end] for end, width in zip(ends, widths, strict=True)]
    gram, sums = z.T @ z, z.sum(axis=0)
    squares, pools = np.diag(gram), _pools(widths)
    sizes = n * pools.sum(axis=1)
    parts = {
        "sums": [step.sum(axis=1) / math.sqrt(step.shape[1]) for step in steps],
        "norms": [_chi_scores(np.square(step).sum(axis=1), step.shape[1]) for step in steps],
    }
    shared = dict[str, FloatArray]()
    for name, columns in parts.items():
        own = np.stack(columns, axis=1)
        products = own.T @ own
        shared[f"scale of {name}"] = _chi_square(np.diag(products), n)
        shared[f"bias of {name}"] = _normal(own.sum(axis=0) / math.sqrt(n))
        shared[f"{name} of two steps"] = _correlation(*_pairs(products), n)
    return {
        "scale of a coordinate": _chi_square(squares, n),
        "scale of coordinates": _chi_square(pools @ squares, sizes),
        "bias of a coordinate": _normal(sums / math.sqrt(n)),
        "bias of coordinates": _normal(pools @ sums / np.sqrt(sizes)),
        "two coordinates": _correlation(*_pairs(gram), n),
        "two steps": _step_correlations(gram, widths, n),
        **shared,
        "directions": np.concatenate([_directions(step) for step in steps]),
        "two draws": np.concatenate([_draw_correlation(step) for step in steps]),
        "law": np.array([_law(step.ravel()) for step in steps]),
        "used twice": np.array([_closest(steps, dim) for dim in (1, LEADING)]),
    }


def _pools(widths: Sequence[int]) -> FloatArray:
    """Return which coordinates are put together, (pools, m), as 0 and 1.

    All; those of a step; those that have one place, counted from either end, in all steps, or in
    all steps of one length.
    """
    step = np.repeat(np.arange(len(widths)), widths)
    length = np.asarray(widths)[step]
    place = np.concatenate([np.arange(width) for width in widths])
    keys = [
        np.zeros_like(step),
        step,
        place,
        length - 1 - place,
        length * (max(widths) + 1) + place,
    ]
    rows = [key == value for key in keys for value in np.unique(key)]
    several = [row for row in rows if row.sum() > 1] or rows[:1]
    return np.array(several, dtype=np.float64)


def _two_sided(low: FloatArray, high: FloatArray) -> FloatArray:
    return np.asarray(np.minimum(1.0, 2.0 * np.minimum(low, high)))


def _normal(values: FloatArray) -> FloatArray:
    """Return the p-values of standard normals."""
    return _two_sided(ndtr(values), ndtr(-values))


def _chi_square(squares: FloatArray, counts: FloatArray | int) -> FloatArray:
    """Return the p-values of sums of so many squares, for too little and for too much."""
    half = np.asarray(counts) / 2.0
    return _two_sided(gammainc(half, squares / 2.0), gammaincc(half, squares / 2.0))


def _chi_scores(squares: FloatArray, count: int) -> FloatArray:
    """Return standard normals that rise with sums of `count` squares."""
    low, high = gammainc(count / 2.0, squares / 2.0), gammaincc(count / 2.0, squares / 2.0)
    scores = np.where(low < 0.5, ndtri(low), -ndtri(high))
    return np.asarray(np.clip(scores, -30.0, 30.0))


def _pairs(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the products of any two columns, and the products of their squares."""
    above = np.triu_indices(len(gram), 1)
    squares = np.diag(gram)
    return gram[above], squares[above[0]] * squares[above[1]]


def _correlation(products: FloatArray, squares: FloatArray, count: FloatArray | int) -> FloatArray:
    """Return the p-values of ⟨x, y⟩²/(‖x‖²‖y‖²) of normal vectors: Beta(½, (count − 1)/2).

    Those above a hundredth are given as 1.
    """
    r2 = np.minimum(products**2, squares) / np.maximum(squares, LEAST_P)
    counts, p = np.broadcast_to(count, r2.shape), np.ones(len(r2) or 1)
    (large,) = np.nonzero(r2 * counts > 6.0)
    tails = betainc((counts[large] - 1) / 2.0, 0.5, 1.0 - r2[large])
    p[large] = np.where(tails < 0.01, tails, 1.0)
    return p


def _step_correlations(gram: FloatArray, widths: Sequence[int], n: int) -> FloatArray:
    """Return the p-values of the correlation of any two steps, coordinate by coordinate."""
    starts, squares = np.cumsum(widths) - widths, np.diag(gram)
    rows = list[tuple[float, float, int]]()
    for t, (end, length) in enumerate(zip(starts, widths, strict=True)):
        for start, other in zip(starts[:t], widths[:t], strict=True):
            size = min(length, other)
            a, b = np.arange(start, start + size), np.arange(end, end + size)
            both = squares[a].sum() * squares[b].sum()
            rows.append((float(gram[a, b].sum()), float(both), n * size))
    products, both, counts = np.array(rows).reshape(-1, 3).T
    return _correlation(products, both, counts)


def _law(values: FloatArray) -> float:
    """Return a p-value of the largest distance of two distribution functions (Massart)."""
    n, steps = len(values), ndtr(np.sort(values))
    grid = np.arange(n + 1) / n
    apart = max(float((grid[1:] - steps).max()), float((steps - grid[:-1]).max()))
    return min(1.0, 2.0 * math.exp(-2.0 * n * apart**2))


def _directions(step: FloatArray) -> FloatArray:
    """Return bounds of the p-values of noise that is too narrow, or too wide, in any direction.

    P(s_min < √n − √d − t) and P(s_max > √n + √d + t) are at most exp(−t²/2) (Davidson and Szarek).
    """
    squares = np.linalg.eigvalsh(step.T @ step)
    n, d = map(math.sqrt, step.shape)
    t = np.array([n - d - math.sqrt(max(squares[0], 0.0)), math.sqrt(squares[-1]) - n - d])
    return np.asarray(np.exp(-(np.maximum(t, 0.0) ** 2) / 2.0))


def _draw_correlation(step: FloatArray) -> FloatArray:
    """Return the p-values of the correlation of draws with those `LAGS` after them at most.

    Of each distance half of the draws are compared with the others, so that all are independent.
    """
    found = list[FloatArray]()
    for lag in range(1, min(LAGS, len(step) // 2) + 1):
        pairs = step[: len(step) // (2 * lag) * 2 * lag].reshape(-1, 2, lag * step.shape[1])
        first, second = pairs[:, 0].ravel(), pairs[:, 1].ravel()
        squares = np.array([first @ first * (second @ second)])
        found.append(_correlation(np.array([first @ second]), squares, first.size))
    return np.concatenate(found)


def _closest(steps: Sequence[FloatArray], dim: int) -> float:
    """Return a p-value of the distance of the closest two vectors, or of one and another negated.

    Of steps of at least `LEADING` coordinates by so many, of others by one.
    """
    points = [step[:, :dim] for step in steps if (step.shape[1] >= LEADING) == (dim == LEADING)]
    if sum(map(len, points)) < 2:
        return 1.0
    every = np.concatenate(points)
    tree = cKDTree(every)
    least = min(tree.query(every, k=2)[0][:, 1].min(), tree.query(-every)[0].min())
    return min(1.0, len(every) ** 2 * float(gammainc(dim / 2.0, least**2 / 4.0)))
