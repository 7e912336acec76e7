"""The axes that records are seen in: the line, and the rest scaled to the shape of the prior.

Coordinates u ∈ R^d at any base (``manifold.log``) become y = u·A (`Frame.to_axes`): y₀ = ⟨e, u⟩
along the line, if there is one, and m = d − 1 (or d) scaled coordinates z of the rest, so that ‖z‖
is about the same for records that are equally unusual.
"""

import math
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold, Point
from pipeline.parallel import compiled


@dataclass(frozen=True, eq=False)
class Frame:
    """Axes of R^d.

    Attributes
    ----------
    to_axes, from_axes : array, shape (d, d)
        y = u @ to_axes, u = y @ from_axes.
    lines : {0, 1}
        Number of leading coordinates of y that are the line.
    unit_length : float
        Distance of a record with ‖z‖ = 1, in the root mean square over records as the prior
        expects them.
    narrowest, widest : float
        Distance of a record with ‖z‖ = 1 in the direction of the smallest, the largest scale.
    basis : array, shape (d, d)
        Orthonormal columns, the line first.
    """

    to_axes: FloatArray
    from_axes: FloatArray
    lines: int
    unit_length: float
    narrowest: float
    widest: float
    basis: FloatArray

    @property
    def others(self) -> int:
        """m, the number of scaled coordinates."""
        return len(self.to_axes) - self.lines

    def isotropic(self, line: float, rest: float) -> FloatArray:
        """Return the covariance of u with variance `line` along the line, `rest` in all others."""
        axis = self.to_axes[:, : self.lines]
        return np.asarray(rest * np.eye(len(self.to_axes)) + (line - rest) * axis @ axis.T)

    def off_line(self, covariance: FloatArray) -> float:
        """Return the root mean square size, off the line, of u with this covariance."""
        axis = self.to_axes[:, : self.lines]
        return math.sqrt(max(0.0, np.trace(covariance) - np.trace(axis.T @ covariance @ axis)))

    def prior_cov(self, line: float, rest: float) -> FloatArray:
        """Return the covariance with `line` along the line, and off it `rest` times scale⁴."""
        axis = self.to_axes[:, : self.lines]
        shape = self.from_axes[self.lines :].T @ self.from_axes[self.lines :]
        return np.asarray(rest * shape @ shape + line * axis @ axis.T)


def build_frame(line: FloatArray | None, shape: FloatArray) -> Frame:
    """Return the axes of a line and of scales off it, of which the mean square is made 1.

    Parameters
    ----------
    line : array, shape (d,), or None
        Unit vector.
    shape : array, shape (d, d)
        Symmetric, positive definite off the line. Best is the fourth root of the covariance Σ of
        the records. For with scales A the clip has a radius near √tr(A⁻²Σ), and the noise of the
        mean is as large as twice that, times √tr(A²): by Cauchy and Schwarz 2·tr(Σ^½) or more,
        with equality for A² ∝ Σ^½.
    """
    d = len(shape)
    lines = 0 if line is None else 1
    basis = np.eye(d)
    if line is not None:
        basis = np.linalg.qr(np.column_stack([line, np.eye(d)]))[0]
        basis[:, 0] = line
    return scaled(basis, lines, shape)


def scaled(basis: FloatArray, lines: int, shape: FloatArray) -> Frame:
    """Return the axes of scales in an orthonormal basis whose first column is the line, if any."""
    d = len(shape)
    rest = basis[:, lines:]
    shape = rest.T @ shape @ rest
    shape *= math.sqrt((d - lines) / np.sum(shape**2))
    to_axes, from_axes = basis.copy(), basis.T.copy()
    to_axes[:, lines:] = rest @ np.linalg.inv(shape)
    from_axes[lines:] = shape @ rest.T
    squares = np.linalg.eigvalsh(shape) ** 2
    unit_length = math.sqrt(np.sum(squares**2) / np.sum(squares))
    narrowest, widest = math.sqrt(squares.min()), math.sqrt(squares.max())
    return Frame(to_axes, from_axes, lines, unit_length, narrowest, widest, basis)


def to_frame(space: Manifold, frame: Frame, base: Point, points: Point) -> FloatArray:
    """Return points in the axes of the frame at `base`, (n, d), along the line from the origin.

    Each by itself, in one order of operations: what is made of a record is the same to the last bit
    whatever the others are.
    """
    seen = matmul_in_order(np.ascontiguousarray(space.log(base, points)), frame.to_axes)
    if frame.lines:
        seen[:, 0] += line_coordinate(space, frame, base)
    return seen


def line_coordinate(space: Manifold, frame: Frame, point: Point) -> float:
    """Return ⟨e, log(origin, point)⟩, where on the line a point is; 0 without a line."""
    if not frame.lines:
        return 0.0
    return float(space.log(space.origin, point) @ frame.to_axes[:, 0])


@compiled
def matmul_in_order(vectors: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return vectors @ matrix, (n, d); a library's may depend on n in its last bits."""
    out = np.zeros(vectors.shape)
    for n in range(len(vectors)):
        for i in range(len(matrix)):
            for j in range(len(matrix)):
                out[n, j] += vectors[n, i] * matrix[i, j]
    return out
