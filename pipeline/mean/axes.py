"""The axes of records: the contrast axis, and the rest scaled to the shape of the prior.

Coordinates u ∈ R^d at any base (``manifold.log``) become y = u·A (`Frame.to_axes`): y₀ = ⟨e, u⟩
along the contrast axis, if there is one, and m = d − 1 (or d) scaled coordinates z of the rest, so
that ‖z‖ is about the same for records that are equally unusual.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold, Point
from pipeline.parallel import compiled

Numbers: TypeAlias = Any
"""A number, or an array of one for each repetition."""
CACHED = 512
"""Vectors that are multiplied with a matrix together."""
OF_REPETITIONS = ("to_axes", "from_axes", "unit_length", "narrowest", "widest")
"""What of a `Frame` may differ from repetition to repetition."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Axes of R^d.

    Axes of several repetitions are one object, arrays of which the repetition is the first axis.

    Attributes
    ----------
    to_axes, from_axes : array, shape (..., d, d)
        y = u @ to_axes, u = y @ from_axes.
    lines : {0, 1}
        Number of leading coordinates of y that are the contrast axis.
    unit_length : float
        Distance of a record with ‖z‖ = 1, in the root mean square over records as the prior
        expects them.
    narrowest, widest : float
        Distance of a record with ‖z‖ = 1 in the direction of the smallest, the largest scale.
    basis : array, shape (d, d)
        Orthonormal columns, the contrast axis first.
    """

    to_axes: FloatArray
    from_axes: FloatArray
    lines: int
    unit_length: Numbers
    narrowest: Numbers
    widest: Numbers
    basis: FloatArray

    @property
    def others(self) -> int:
        """m, the number of scaled coordinates."""
        return int(self.to_axes.shape[-1]) - self.lines

    @property
    def axis(self) -> FloatArray:
        """The contrast axis as a column, (..., d, lines)."""
        return self.to_axes[..., : self.lines]

    def at(self, which: NDArray[np.intp] | int) -> "Frame":
        """Return the axes of some of the repetitions; where all have the same, these."""
        if self.to_axes.ndim == 2:
            return self
        return replace(self, **{name: getattr(self, name)[which] for name in OF_REPETITIONS})

    def put(self, rows: NDArray[np.intp], axes: "Frame", size: int) -> "Frame":
        """Return these axes of `size` repetitions, other ones in the place of some of them."""
        if not len(rows) or axes is self:
            return self
        if len(rows) == size and axes.to_axes.ndim == 3:
            return axes
        filled = dict[str, Any]()
        for name in OF_REPETITIONS:
            old = np.asarray(getattr(self, name))
            filled[name] = in_shape(old, (size, *old.shape[self.to_axes.ndim - 2 :])).copy()
            filled[name][rows] = getattr(axes, name)
        return replace(self, **filled)

    def isotropic(self, line: Numbers, rest: Numbers) -> FloatArray:
        """Return the covariance of u with variance `line` on the contrast axis, `rest` off it."""
        wide, narrow = (np.asarray(part)[..., None, None] for part in (rest, line))
        axis, d = self.axis, self.to_axes.shape[-1]
        return np.asarray(wide * np.eye(d) + (narrow - wide) * axis @ axis.swapaxes(-1, -2))

    def off_line(self, covariance: FloatArray) -> FloatArray:
        """Return the root mean square size off the contrast axis of u with this covariance."""
        along = self.axis.swapaxes(-1, -2) @ covariance @ self.axis
        square, line = (np.trace(part, axis1=-2, axis2=-1) for part in (covariance, along))
        return np.asarray(np.sqrt(np.maximum(0.0, square - line)))

    def prior_cov(self, line: float, rest: float) -> FloatArray:
        """Return the covariance of `line` on the contrast axis, and off it `rest` times scale⁴."""
        shape = self.from_axes[self.lines :].T @ self.from_axes[self.lines :]
        return np.asarray(rest * shape @ shape + line * self.axis @ self.axis.T)


def build_frame(line: FloatArray | None, shape: FloatArray) -> Frame:
    """Return the axes of a contrast axis and of scales off it, of which the mean square is made 1.

    Parameters
    ----------
    line : array, shape (d,), or None
        Unit vector.
    shape : array, shape (d, d)
        Symmetric, positive definite off the contrast axis. Best is the fourth root of the
        covariance Σ of the records. For with scales A the clip has a radius near √tr(A⁻²Σ), and the
        noise of the mean is as large as twice that, times √tr(A²): by Cauchy and Schwarz 2·tr(Σ^½)
        or more, with equality for A² ∝ Σ^½.
    """
    d = len(shape)
    lines = 0 if line is None else 1
    basis = np.eye(d)
    if line is not None:
        basis = np.linalg.qr(np.column_stack([line, np.eye(d)]))[0]
        basis[:, 0] = line
    rest = basis[:, lines:]
    lengths, directions = np.linalg.eigh(rest.T @ shape @ rest)
    return scaled(basis, lines, lengths, rest @ directions)


def scaled(basis: FloatArray, lines: int, lengths: FloatArray, directions: FloatArray) -> Frame:
    """Return the axes of scales in an orthonormal basis, the contrast axis, if any, first.

    Parameters
    ----------
    lengths : array, shape (..., m)
        Eigenvalues of the shape off the contrast axis, m of them, increasing; they are scaled.
    directions : array, shape (..., d, m)
        Its eigenvectors, orthogonal to the contrast axis, in columns.
    """
    lengths = lengths / np.sqrt(np.mean(lengths**2, axis=-1, keepdims=True))
    turned, squares = directions.swapaxes(-1, -2) @ basis[:, lines:], lengths**2
    matrices = (*directions.shape[:-2], *basis.shape)
    to_axes, from_axes = (np.broadcast_to(part, matrices).copy() for part in (basis, basis.T))
    to_axes[..., lines:] = (directions / lengths[..., None, :]) @ turned
    longer = (directions * lengths[..., None, :]) @ turned
    from_axes[..., lines:, :] = longer.swapaxes(-1, -2)
    unit_length = np.sqrt(np.sum(squares**2, axis=-1) / np.sum(squares, axis=-1))
    return Frame(to_axes, from_axes, lines, unit_length, lengths[..., 0], lengths[..., -1], basis)


def to_frame(space: Manifold, frame: Frame, base: Point, points: Point) -> FloatArray:
    """Return points in the axes at `base`, (n, d), along the contrast axis from the origin."""
    logs, place = space.log(base, points), line_coordinate(space, frame, base)
    out = np.empty(logs.shape[::-1])
    in_frame(logs, frame.to_axes, place, frame.lines, out)
    return out.T


def in_frame(
    logs: FloatArray, to_axes: FloatArray, place: Numbers, lines: int, out: FloatArray
) -> None:
    """Write coordinates at a base, (n, d), which has a place on the contrast axis, in the axes.

    They are written as (d, n), each by itself, in one order of operations: what is made of a record
    is the same to the last bit whatever the others are.
    """
    matmul_in_order(np.ascontiguousarray(logs.T), to_axes, out)
    if lines:
        out[0] += place


def line_coordinate(space: Manifold, frame: Frame, points: Point) -> FloatArray:
    """Return ⟨e, log(origin, point)⟩, the place on the contrast axis, (...); 0 without one."""
    coordinates = space.log(space.origin, points)
    if not frame.lines:
        return np.zeros(coordinates.shape[:-1])[()]
    return vectors_times(coordinates, frame.axis)[..., 0]


def vectors_times(vectors: FloatArray, matrices: FloatArray) -> FloatArray:
    """Return v·M for each vector by itself, (..., j), of vectors (..., i), matrices (..., i, j).

    One product of a library for all may depend, in its last bits, on how many there are.
    """
    return np.asarray((vectors[..., None, :] @ matrices)[..., 0, :])


def column(numbers: Numbers) -> Numbers:
    """Return numbers of several repetitions, (r,), as a column; one number as it is."""
    return numbers[..., None] if isinstance(numbers, np.ndarray) else numbers


def in_shape(numbers: Numbers, shape: tuple[int, ...]) -> FloatArray:
    """Return numbers broadcast to a shape; an array that has it is returned itself."""
    array = np.asarray(numbers)
    return array if array.shape == shape else np.broadcast_to(array, shape)


@compiled
def matmul_in_order(coordinates: FloatArray, matrix: FloatArray, out: FloatArray) -> None:
    """Write vectors @ matrix, as (d, n); a library's may depend on n in its last bits.

    The vectors are given as (d, n), too. Four products are added in a pass, one after the other, to
    as many vectors as the processor's cache has room for.
    """
    d, n = coordinates.shape
    out[:] = 0.0
    for start in range(0, n, CACHED):
        some = slice(start, min(start + CACHED, n))
        for i in range(0, d - 3, 4):
            w, x = coordinates[i, some], coordinates[i + 1, some]
            y, z = coordinates[i + 2, some], coordinates[i + 3, some]
            for j in range(d):
                sums, (a, b, c, e) = out[j, some], matrix[i : i + 4, j]
                for r in range(len(sums)):
                    first = sums[r] + w[r] * a + x[r] * b
                    sums[r] = first + y[r] * c + z[r] * e
        for i in range(d - d % 4, d):
            w = coordinates[i, some]
            for j in range(d):
                sums = out[j, some]
                for r in range(len(sums)):
                    sums[r] += w[r] * matrix[i, j]


@compiled
def moved_in_order(
    coordinates: FloatArray,
    rows: NDArray[np.int64],
    bases: FloatArray,
    matrices: FloatArray,
    out: FloatArray,
) -> None:
    """Write the vectors less each base, times its matrix, of some rows; see `matmul_in_order`.

    The vectors are (d, r, n), of each of these rows, or of all: then r is 1, as may be the number
    of bases and of matrices.
    """
    moved = np.empty((len(coordinates), coordinates.shape[2]))
    for place, r in enumerate(rows):
        own, base = place % coordinates.shape[1], bases[r % len(bases)]
        for i in range(len(coordinates)):
            moved[i] = coordinates[i, own] - base[i]
        matmul_in_order(moved, matrices[r % len(matrices)], out[r])
