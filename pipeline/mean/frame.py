"""The axes that records are seen in: the line, and the rest scaled to the shape of the prior.

Coordinates u ∈ R^d at any base (``manifold.log``) become y = u·into: y₀ = ⟨e, u⟩ along the line,
if there is one, and m = d − 1 (or d) scaled coordinates z of the rest, so that ‖z‖ is about the
same for records that are equally unusual.
"""

import math
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Frame:
    """Axes of R^d.

    Attributes
    ----------
    into, back : array, shape (d, d)
        y = u @ into, u = y @ back.
    lines : {0, 1}
        Number of leading coordinates of y that are the line.
    worth : float
        Distance of a record with ‖z‖ = 1, in the root mean square over records as the prior
        expects them.
    narrowest, widest : float
        Distance of a record with ‖z‖ = 1 in the direction of the smallest, the largest scale.
    basis : array, shape (d, d)
        Orthonormal columns, the line first.
    """

    into: FloatArray
    back: FloatArray
    lines: int
    worth: float
    narrowest: float
    widest: float
    basis: FloatArray

    @property
    def others(self) -> int:
        """m, the number of scaled coordinates."""
        return len(self.into) - self.lines

    def isotropic(self, line: float, rest: float) -> FloatArray:
        """Return the covariance of u with variance `line` along the line, `rest` in all others."""
        axis = self.into[:, : self.lines]
        return np.asarray(rest * np.eye(len(self.into)) + (line - rest) * axis @ axis.T)

    def off_line(self, covariance: FloatArray) -> float:
        """Return the root mean square size, off the line, of u with this covariance."""
        axis = self.into[:, : self.lines]
        return math.sqrt(max(0.0, np.trace(covariance) - np.trace(axis.T @ covariance @ axis)))

    def belief(self, line: float, rest: float) -> FloatArray:
        """Return the covariance with `line` along the line, and off it `rest` times scale⁴."""
        axis = self.into[:, : self.lines]
        shape = self.back[self.lines :].T @ self.back[self.lines :]
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
    into, back = basis.copy(), basis.T.copy()
    into[:, lines:] = rest @ np.linalg.inv(shape)
    back[lines:] = shape @ rest.T
    squares = np.linalg.eigvalsh(shape) ** 2
    worth = math.sqrt(np.sum(squares**2) / np.sum(squares))
    narrowest, widest = math.sqrt(squares.min()), math.sqrt(squares.max())
    return Frame(into, back, lines, worth, narrowest, widest, basis)
