"""What the last round saw, before it was shrunk: all that regions, tests and classifiers read."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.geometry import Point
from pipeline.mean.choice import Clip
from pipeline.mean.clipping import mean_units
from pipeline.mean.frame import Frame
from pipeline.mean.second_moment import FACTOR, second_moment
from pipeline.mean.spread import Spread

CANCELLED = 0.6
"""Share of the clipped lengths that older versions took for the bias off the line."""


class Observed(NamedTuple):
    """What the last round saw of the records, nothing shrunk: noised, or a function of what is.

    A record lies at u = log(base, record) = middle + v @ axes, v its vector; one that is clipped
    has the vector of where it is clipped to. ‖v‖ ≤ ½ unless the whole region is covered.

    Attributes
    ----------
    n : int
        Number of records (public).
    base : array, shape (*space.point_shape)
        The private centre that they are seen from.
    middle, axes : array, shapes (d,), (d, d)
        Where the vector 0 lies, moved along the line by what is thought to be clipped above less
        what is below; and what one unit of each of its coordinates is.
    vector : array, shape (d,)
        Mean of the vectors, noised.
    moment : array, shape (d, d), or None
        Mean of v·vᵀ, noised; None where the whole region is covered, or it was not asked for.
    sigma : float
        Noise of each coordinate of `vector`. That of `moment` is σ/λ on the diagonal, λ just below
        √2 (``second_moment.py``), and by another √2 less off it.
    gain : float
        Newton's step off the line, 1 on a flat manifold.
    lines : {0, 1}
        Number of leading coordinates that are along the line.
    bias_line, bias_rest : float
        What clipping, and curvature, are predicted to do to the mean, in distance.
    variance_line, variance_rest : float
        Variance of a coordinate of v along the line and off it, as the histograms say.
    clipped : float
        Share of the records that are clipped off the line, as the histograms say.
    unnoticed : float
        How far clipping may move the mean when few records lie at the far end of the line, so few
        that the noise of the survey hides them; no part of the bias.
    lost_below, lost_above, lost_rest : float
        Mean length, in distance, by which records are clipped at the lower end of the interval, at
        its upper end, and off the line, as the histograms say, less what the mean is moved by;
        curvature counts off the line, too.
    unsure : float
        Standard deviation, given the histograms, of what is clipped above less what is below.
    swing : float
        Standard deviation of what the mean is moved by, as the noise of the histograms makes it.
    added : float
        What moving the mean adds to the variance of single records along the line.
    """

    n: int
    base: NDArray[Any]
    middle: FloatArray
    axes: FloatArray
    vector: FloatArray
    moment: FloatArray | None
    sigma: float
    gain: float
    lines: int
    bias_line: float
    bias_rest: float
    variance_line: float
    variance_rest: float
    clipped: float
    unnoticed: float
    lost_below: float
    lost_above: float
    lost_rest: float
    unsure: float = 0.0
    swing: float = 0.0
    added: float = 0.0

    @property
    def steps(self) -> FloatArray:
        """Newton's step in each coordinate of v, (d,)."""
        return np.where(np.arange(len(self.vector)) < self.lines, 1.0, self.gain)

    @property
    def offset(self) -> FloatArray:
        """The unshrunk mean, in coordinates at `base`, (d,)."""
        return np.asarray(self.middle + (self.steps * self.vector) @ self.axes)

    @property
    def noise(self) -> FloatArray:
        """The covariance of its noise, exactly, (d, d)."""
        return np.asarray((self.axes.T * (self.sigma * self.steps) ** 2) @ self.axes)

    @property
    def lengths(self) -> tuple[float, float]:
        """How far clipping moves the mean at most, along the line and off it, as histograms say.

        Records cut above move it down, and those cut below up: along the line by the longer of both
        at most, of which the square is on average larger by the variance of what is unsure. Off the
        line by all lengths, should they point one way.
        """
        return math.hypot(max(self.lost_below, self.lost_above), self.unsure), self.lost_rest

    @property
    def line(self) -> FloatArray:
        """The projection onto the line, (d, d); 0 without one."""
        axis = self.axes[: self.lines]
        return np.asarray(axis.T @ axis / max(float(np.sum(axis**2)), 1e-300))

    @property
    def lost(self) -> FloatArray:
        """The squares of both lengths, (d, d), those off the line spread evenly."""
        line, off = self.lengths
        d = len(self.axes)
        rest = off**2 / (d - self.lines)
        return np.asarray(rest * np.eye(d) + (line**2 - rest) * self.line)


def of_whole(n: int, base: Point, vector: FloatArray, span: float, sigma: float) -> Observed:
    """Return what a noised mean of the whole region says; `span` is what one unit is."""
    d = len(vector)
    return Observed(
        n=n,
        base=base,
        middle=np.zeros(d),
        axes=span * np.eye(d),
        vector=vector,
        moment=None,
        sigma=sigma,
        gain=1.0,
        lines=0,
        bias_line=0.0,
        bias_rest=0.0,
        variance_line=0.0,
        variance_rest=0.0,
        clipped=0.0,
        unnoticed=0.0,
        lost_below=0.0,
        lost_above=0.0,
        lost_rest=0.0,
    )


def of_clip(
    n: int,
    base: Point,
    noised: FloatArray,
    clip: Clip,
    frame: Frame,
    *,
    spot: float,
    spread: Spread,
    sigma: float,
) -> Observed:
    """Return what a noised mean of vectors, or of pairs, says; `spot` is where the base lies."""
    d, lines = len(frame.into), frame.lines
    units = mean_units(clip, frame)
    middle = (clip.low + clip.high) / 2.0 + spread.shift - spot
    off = (clip.gain * units * noised[:d])[lines:] @ frame.back[lines:]
    bent = clip.bend * float(np.linalg.norm(off))
    return Observed(
        n=n,
        base=base,
        middle=middle * frame.back[:lines].sum(axis=0),
        axes=units[:, np.newaxis] * frame.back,
        vector=noised[:d],
        moment=second_moment(noised[d:]) if len(noised) > d else None,
        sigma=sigma,
        gain=clip.gain,
        lines=lines,
        bias_line=clip.bias_line,
        bias_rest=math.hypot(clip.bias_rest, bent),
        variance_line=spread.line / float(units[0]) ** 2,
        variance_rest=spread.rest / float(units[-1]) ** 2,
        clipped=spread.clipped,
        unnoticed=spread.unnoticed,
        lost_below=spread.lost_below,
        lost_above=spread.lost_above,
        lost_rest=math.hypot(spread.lost_rest, bent),
        unsure=spread.unsure,
        swing=spread.swing,
        added=spread.added,
    )


def noisy_covariance(observed: Observed) -> FloatArray:
    """Return A = M − v·vᵀ + σ²·Id, (d, d), in units of the vectors: unbiased, not definite.

    v and M are released with noise, so v·vᵀ is on average too large by σ²·Id.

    Raises
    ------
    ConfigError
        Where no second moment was released.
    """
    if observed.moment is None:
        raise ConfigError(
            "this class was released without a second moment: n·μ being small, its noise covered "
            "the whole region; release with a larger budget, or more records"
        )
    d, v = len(observed.vector), observed.vector
    return np.asarray(observed.moment - np.outer(v, v) + observed.sigma**2 * np.eye(d))


def noise_edge(observed: Observed) -> float:
    """Return 2τ, where the spectrum of the noise of A ends.

    The noise is symmetric, of standard deviation s = σ/λ on the diagonal and s/√2 off it: its
    eigenvalues fill a semicircle of radius 2·√d·s/√2 (Wigner).
    """
    return math.sqrt(2.0 * len(observed.vector)) * observed.sigma / FACTOR


def as_values(observed: Observed) -> dict[str, Any]:
    """Return it as JSON values; of the moment the upper triangle, row by row."""
    values = observed._asdict()
    if observed.moment is not None:
        values["moment"] = upper(observed.moment)
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in values.items()
    }


def from_values(values: Mapping[str, Any]) -> Observed:
    """Return what `as_values` wrote."""
    # older versions told the predicted biases alone
    line, rest = values["bias_line"], values["bias_rest"] / CANCELLED
    lost = {"lost_below": line, "lost_above": line, "lost_rest": rest}
    known = lost | dict(values)
    found: dict[str, Any] = {
        name: np.array(value, dtype=np.float64) if isinstance(value, list) else value
        for name, value in known.items()
        if name in Observed._fields
    }
    if found["moment"] is not None:
        found["moment"] = from_upper(found["moment"], len(found["vector"]))
    return Observed(**found)


def upper(matrix: FloatArray) -> FloatArray:
    """Return the upper triangle of a symmetric matrix, row by row."""
    return np.asarray(matrix[np.triu_indices(len(matrix))])


def from_upper(values: FloatArray, d: int) -> FloatArray:
    """Return the symmetric matrix, (d, d), whose upper triangle `upper` gave."""
    found = np.zeros((d, d))
    found[np.triu_indices(d)] = values
    return np.asarray(found + np.triu(found, 1).T)
