"""Axes of records: coordinates in which those of a class are about as wide in all directions.

Coordinates u ∈ R^d at any base (``manifold.log``) become y = u·A (`Frame.to_axes`): along the
contrast axis, if there is one, and in d − 1 (or d) scaled directions of the rest.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.geometry import Manifold, Point
from covdp.parallel import compiled

Scalar = TypeVar("Scalar", bound=np.generic)
CACHED = 512
"""Vectors that are multiplied with a matrix together."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Axes of R^d.

    Attributes
    ----------
    to_axes, from_axes : array, shape (d, d)
        y = u @ to_axes, u = y @ from_axes.
    lines : {0, 1}
        Number of leading coordinates of y that are along the contrast axis.
    """

    to_axes: FloatArray
    from_axes: FloatArray
    lines: int

    @property
    def line(self) -> FloatArray:
        """Contrast axis as a row of length 1, (1, d); without one (0, d)."""
        rows = self.from_axes[: self.lines]
        return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))

    @property
    def unit_length(self) -> float:
        """Distance of one unit off the contrast axis, in the mean over records as expected.

        That is the root mean square over directions, each weighed by its own length.
        """
        return float(unit_length(self.from_axes[self.lines :]))

    def covariance(self, line: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the covariances of u, given variances of y.

        Parameters
        ----------
        line, rest : array, shape (r,)
            Variance of y along the contrast axis, and of each coordinate off it.

        Returns
        -------
        array, shape (r, d, d)
            Covariances.
        """
        squares = np.repeat(rest[:, None], len(self.to_axes), axis=1)
        squares[:, : self.lines] = line[:, None]
        return np.asarray((self.from_axes.T * squares[:, None, :]) @ self.from_axes)


def unit_length(rows: FloatArray) -> FloatArray:
    """Return the distance of one unit off the contrast axis: see `Frame.unit_length`.

    Parameters
    ----------
    rows : array, shape (..., m, d)
        Axes off the contrast axis: rows of `Frame.from_axes`.

    Returns
    -------
    array, shape (...)
        Distances.
    """
    scales = np.linalg.eigvalsh(rows @ rows.swapaxes(-1, -2))
    return np.asarray(np.sqrt(np.sum(scales**2, axis=-1) / np.sum(scales, axis=-1)))


def build_frame(line: FloatArray | None, shape: FloatArray, length: float) -> Frame:
    """Return the axes of a contrast axis, where a step of 1 is `length`, and of scales off it.

    Parameters
    ----------
    line : array, shape (d,), or None
        Unit vector.
    shape : array, shape (d, d)
        Symmetric, positive definite off the contrast axis. Best is the fourth root of the
        covariance Σ of the records. For with scales A the clip has a radius near √tr(A⁻²Σ), and the
        noise of the mean is as large as twice that, times √tr(A²): by Cauchy and Schwarz 2·tr(Σ^½)
        or more, with equality for A² ∝ Σ^½.
    length : float
        Distance of a step of 1 along the contrast axis.

    Returns
    -------
    Frame
        Axes: the contrast axis first, if there is one.
    """
    d, lines = len(shape), 0 if line is None else 1
    basis = np.eye(d)
    if line is not None:
        basis = np.linalg.qr(np.column_stack([line, np.eye(d)]))[0]
        basis[:, 0] = line
    rest = basis[:, lines:]
    lengths, directions = np.linalg.eigh(rest.T @ shape @ rest)
    turned = rest @ directions
    to_axes, from_axes = basis / length, basis.T * length
    to_axes[:, lines:] = (turned / lengths) @ directions.T
    from_axes[lines:] = ((turned * lengths) @ directions.T).T
    return Frame(to_axes, from_axes, lines)


def to_frame(space: Manifold, frame: Frame, base: Point, points: Point) -> FloatArray:
    """Return points in the axes at a base.

    Parameters
    ----------
    space : Manifold
        Manifold that the points are on.
    frame : Frame
        Axes, of its dimension d.
    base : array, shape (*point_shape)
        Point whose coordinates are 0.
    points : array, shape (n, *point_shape)
        Records.

    Returns
    -------
    array, shape (n, d)
        Their coordinates y.
    """
    logs = space.log(base, points)
    out = np.empty(logs.shape[::-1])
    matmul_in_order(np.ascontiguousarray(logs.T), frame.to_axes, out)
    return out.T


def vectors_times(vectors: FloatArray, matrices: FloatArray) -> FloatArray:
    """Return v·M for each vector by itself.

    One product of a library for all may depend, in its last bits, on how many there are.

    Parameters
    ----------
    vectors : array, shape (..., i)
        Rows v.
    matrices : array, shape (..., i, j)
        Matrices M, one for each vector or one for all.

    Returns
    -------
    array, shape (..., j)
        Products v·M.
    """
    return np.asarray((vectors[..., None, :] @ matrices)[..., 0, :])


def in_shape(array: NDArray[Scalar], shape: tuple[int, ...]) -> NDArray[Scalar]:
    """Return an array broadcast to a shape; one that has it is returned itself.

    Parameters
    ----------
    array : array
        Values.
    shape : tuple of int
        Shape that they broadcast to.

    Returns
    -------
    array
        Values of that shape, not to be written into.
    """
    return array if array.shape == shape else np.broadcast_to(array, shape)


@compiled
def matmul_in_order(coordinates: FloatArray, matrix: FloatArray, out: FloatArray) -> None:
    """Write vectors @ matrix, as (d, n); a library's may depend on n in its last bits.

    The vectors are given as (d, n), too. Four products are added in a pass, one after the other, to
    as many vectors as the processor's cache has room for.

    Parameters
    ----------
    coordinates : array, shape (d, n)
        Vectors, one a column.
    matrix : array, shape (d, d)
        Factor on the right.
    out : array, shape (d, n)
        Result, overwritten.
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
