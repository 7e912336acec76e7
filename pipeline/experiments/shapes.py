"""Outlines like a corpus callosum, made up: the real ones of the paper are not public.

A curved band, thick at both ends and hooked at one, seen from the side, with landmarks along its
edge. A record bends and swells it a little and lies turned by a small angle, as heads do in a
scanner.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigError
from pipeline.geometry import preshape

SPREAD = 0.035
"""Size of a deformation: most records lie within 0.1 of the template."""
TURN = 0.35
"""Largest angle, in radians, by which a record lies turned."""


def template(landmarks: int) -> NDArray[Any]:
    """Return the public mean outline as a preshape, shape (landmarks,) complex."""
    half = landmarks // 2
    along = np.concatenate([np.linspace(0, 1, half), np.linspace(1, 0, landmarks - half + 2)[1:-1]])
    side = np.concatenate([np.ones(half), -np.ones(landmarks - half)])
    angle = math.pi * (0.02 + 1.26 * along)
    bend = np.where(angle > math.pi, 1 - 0.45 * (angle / math.pi - 1) / 0.28, 1.0)
    spine = np.cos(angle) * bend + 0.2 * (1 - bend) + 0.62j * np.sin(angle) * np.sqrt(bend)
    width = 0.09 + 0.08 * np.exp(-(((along - 0.08) / 0.09) ** 2))
    width = width + 0.09 * np.exp(-(((along - 0.74) / 0.09) ** 2))
    width *= np.sqrt(np.clip(np.sin(math.pi * along), 0.02, 1))
    normal = np.exp(1j * np.arctan2(np.sin(angle), np.cos(angle)))
    return preshape(spine + side * width * normal)


def outlines(landmarks: int, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return n random outlines as preshapes, shape (n, landmarks) complex."""
    turns = 2j * math.pi * np.arange(landmarks) / landmarks
    modes = np.array([-5, -4, -3, -2, 2, 3, 4, 5])
    waves = np.exp(modes[:, None] * turns) / (np.abs(modes)[:, None] * math.sqrt(landmarks))
    weights = rng.standard_normal((n, len(modes), 2)) @ np.array([1.0, 1.0j])
    moved = template(landmarks) + SPREAD * weights @ waves
    angle = rng.uniform(-TURN, TURN, (n, 1))
    return preshape(moved * np.exp(1j * angle))


def smooth(shapes: NDArray[Any], span: float, *, points: int = 150) -> NDArray[Any]:
    """Return closed outlines smoothed by local linear regression, shape (..., points) complex.

    At each of `points` places, equally spaced along the outline, a line is fitted to both
    coordinates of the landmarks around it, as a function of their number, by least squares with
    Cleveland's tricube weights; its value there is the smoothed point. It uses the released outline
    alone, so it costs no privacy.

    Parameters
    ----------
    shapes : complex array, shape (..., landmarks)
        The outlines, whose last landmark is followed by the first.
    span : float
        Share of the landmarks that a line is fitted to; they are fewer than all, and at least 4.

    References
    ----------
    Cleveland (1979), Robust locally weighted regression and smoothing scatterplots, degree 1.
    """
    count = shapes.shape[-1]
    if not 4 <= span * count < count:
        raise ConfigError(
            f"smoothing must span at least 4 and not all of the {count} landmarks, found {span}; "
            f"choose a share between {4 / count:.2g} and 1"
        )
    place = np.arange(points)[:, None] * count / points
    apart = (np.arange(count) - place + count / 2) % count - count / 2  # along the closed outline
    weight = np.clip(1.0 - np.abs(2.0 * apart / (span * count)) ** 3, 0.0, None) ** 3
    zeroth, first, second = ((weight * apart**power).sum(axis=1) for power in (0, 1, 2))
    rows = weight * (second[:, None] - first[:, None] * apart)
    rows /= (zeroth * second - first**2)[:, None]
    return np.asarray(shapes @ rows.T)
