"""The known descriptors. Next on the path: `describe`, then `diameter`.

To add your own, write one file with a kernel, and one entry of `DESCRIPTORS`:

- `kernel(images, moments)` receives C-contiguous uint8 images (n, h, w, channels) and zeroed
  moments (n, k + 1, k + 1); it adds Σ_x (1, φ)(1, φ)ᵀ into their lower triangles (the corner, |S|,
  is known and may stay 0), image by image, in an order that depends on one image alone. `kernels`
  holds the parts: padded strips, exact derivatives, exact and float sums; `oct5_moments` there is a
  model of thirty lines. `describe` runs kernels on threads: ``kernels.compiled`` makes them fast
  and releases the interpreter lock, plain NumPy works too.
- `ranges` and `norm_bound` are what every privacy scale rests on: give them with their proof.
- `typical` and `contrasts` may be left out. They say what public images look like, which makes the
  adaptive mean more accurate; no privacy rests on them.

`describe`, `domain`, `verify`, releases and the tests that loop over `DESCRIPTORS` need nothing
else.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray, ImageArray
from pipeline.descriptors import kernels
from pipeline.errors import ConfigError, DatasetError

Kernel: TypeAlias = Callable[[ImageArray, NDArray[Any]], None]


@dataclass(frozen=True)
class Descriptor:
    """A covariance descriptor: which features, what is publicly known of them, how to add them up.

    Attributes
    ----------
    name : str
        Key in `DESCRIPTORS`.
    features : tuple of str
        The k features φ_j in order. The first `grid` of them are the pixel coordinates.
    channels : {1, 3}
        Gray or colour images.
    ranges : tuple of float
        b_j: the largest minus the smallest value that feature j can take at a pixel.
    norm_bound : float
        B ≥ max ‖φ‖², as the papers use it in their radius.
    units : callable
        (height, width) ↦ the k numbers by which the kernel's features exceed φ.
    kernel : callable
        Adds the moments Σ_x (1, φ)(1, φ)ᵀ of each image, see the top of this file.
    exact : bool
        True if the kernel works in int64, with every feature within ±4095 of a fixed number.
    grid : int
        2 if x = column/(w − 1) and y = row/(h − 1) lead the features, else 0.
    typical : tuple of float
        ln of the typical variance of each feature over its largest possible one, on public images;
        empty where nobody has looked. Here set by hand, between those of `tiles`, up to 3.3 lower,
        and of X-rays and ultrasound, up to 1.5 higher; those of `grid11` are those of `grid9`.
    contrasts : tuple of (tuple of float, float)
        Contrasts between the log-variances, orthogonal, and the scale of each, of which only ratios
        matter. Here the same on `tiles`, PneumoniaMNIST and BreastMNIST within a fifth.
    """

    name: str
    features: tuple[str, ...]
    channels: int
    ranges: tuple[float, ...]
    norm_bound: float
    units: Callable[[int, int], tuple[float, ...]]
    kernel: Kernel
    exact: bool
    grid: int = 0
    typical: tuple[float, ...] = ()
    contrasts: tuple[tuple[tuple[float, ...], float], ...] = ()

    @property
    def k(self) -> int:
        """Order of the matrices."""
        return len(self.features)

    @property
    def dimension(self) -> int:
        """Dimension d = k(k + 1)/2 of the space of descriptors."""
        return self.k * (self.k + 1) // 2

    def variances(self, height: int, width: int) -> FloatArray:
        """Return the k numbers v_j with R_jj − η ≤ v_j for every image of that size.

        A variable with values in an interval of length b has variance at most b²/4 (Popoviciu).
        The coordinates are the same for all images: x takes w equally spaced values in [0, 1]
        equally often, so its variance *is* (w + 1)/(12(w − 1)), and likewise y.
        """
        bounds = np.square(self.ranges) / 4
        if self.grid:
            bounds[:2] = [(side + 1) / (12 * (side - 1)) for side in (width, height)]
        return bounds


def find_descriptor(name: str, *, height: int, width: int) -> Descriptor:
    """Return the descriptor called `name` if it exists for images of that size.

    Raises
    ------
    ConfigError
        When no descriptor has that name.
    DatasetError
        When the images are too small: a coordinate needs two pixels to run from 0 to 1, all other
        features exist from one pixel on.
    """
    if name not in DESCRIPTORS:
        raise ConfigError(f"unknown descriptor {name!r}; choose one of {', '.join(DESCRIPTORS)}")
    least = 2 if DESCRIPTORS[name].grid else 1
    if min(height, width) < least:
        raise DatasetError(
            f"{name} needs images of at least {least}×{least} pixels, found {height}×{width}; "
            "leave smaller images out"
        )
    return DESCRIPTORS[name]


def check_eta(eta: float) -> float:
    """Return `eta` if it is positive and at most 1e6, else raise `ConfigError`."""
    if not 0 < eta <= 1e6:
        raise ConfigError(f"eta must be positive and at most 1e6, found {eta}; the papers use 1e-6")
    return float(eta)


MAGNITUDE = math.sqrt(5) / 2
"""Largest √(Ix² + Iy²) for intensities in [0, 1]; less than the √2 of two separate bounds.

(Ix, Iy) is (1/4) Σ p g over the eight neighbours: g = (±2, 0), (0, ±2), (±1, ±1), p in [0, 1]. Its
component along (cos t, sin t), by symmetry 0 ≤ t ≤ π/4, is largest when p is 1 exactly where that
component of g is positive: E (2, 0), S (0, 2), SE (1, 1), NE (1, −1). It is then
(4 cos t + 2 sin t)/4 ≤ √(1 + 1/4), and this is reached where tan t = 1/2.
"""
ANGLE = math.pi / 2
DERIVATIVES = ("|Ix|", "|Iy|", "|Ixx|", "|Iyy|")


def _grid_units(height: int, width: int) -> tuple[float, ...]:
    return (width - 1, height - 1, 255, 1020, 1020, 8160, 8160, 1020, 1)


def _colour_grid_units(height: int, width: int) -> tuple[float, ...]:
    first, second = 1020e4, 8160e4  # the luminance is kept in steps of 10⁻⁴
    return (width - 1, height - 1, 255, 255, 255, first, first, second, second, first, 1)


DESCRIPTORS: dict[str, Descriptor] = {
    "oct5": Descriptor(
        name="oct5",
        features=("I", *DERIVATIVES),
        channels=1,
        ranges=(255.0,) * 5,
        norm_bound=5 * 255.0**2,
        units=lambda height, width: (1, 4, 4, 32, 32),
        kernel=kernels.oct5_moments,
        exact=True,
        typical=(-3.4, -5.2, -5.2, -6.1, -6.1),
        contrasts=(
            ((4, -1, -1, -1, -1), 0.72),  # smooth or rough
            ((0, 1, -1, 1, -1), 0.78),  # upright or lying
            ((0, 1, 1, -1, -1), 0.42),
            ((0, 1, -1, -1, 1), 0.36),
        ),
    ),
    "grid9": Descriptor(
        name="grid9",
        features=("x", "y", "I", *DERIVATIVES, "magnitude", "angle"),
        channels=1,
        ranges=(1.0,) * 7 + (MAGNITUDE, ANGLE),
        norm_bound=12.0,
        units=_grid_units,
        kernel=kernels.grid_moments,
        exact=False,
        grid=2,
        typical=(0.0, 0.0, -3.4, -5.2, -5.2, -6.1, -6.1, -4.9, -1.1),
    ),
    "grid11": Descriptor(
        name="grid11",
        features=("x", "y", "R", "G", "B", *DERIVATIVES, "magnitude", "angle"),
        channels=3,
        ranges=(1.0,) * 9 + (MAGNITUDE, ANGLE),
        norm_bound=14.0,
        units=_colour_grid_units,
        kernel=kernels.grid_moments,
        exact=False,
        grid=2,
        typical=(0.0, 0.0, -3.4, -3.4, -3.4, -5.2, -5.2, -6.1, -6.1, -4.9, -1.1),
    ),
}
"""Name → descriptor: raw gray intensities (`oct5`), gray on a grid, colour on a grid."""
