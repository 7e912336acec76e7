"""The known descriptors. Next on the path: `describe`, then `bounds`.

To add your own, write one file with a kernel, and one entry of `DESCRIPTORS`:

- `kernel(images, masks, moments)` receives C-contiguous uint8 images (n, h, w, channels), or
  volumes (n, d, h, w, 1), and zeroed moments (n, k + 1, k + 1); it adds Σ_x (1, φ)(1, φ)ᵀ into
  their lower triangles (the corner, |S|, is known and may stay 0), image by image, in an order that
  depends on one image alone. Masks are uint8 of the images' shape without channels, or of length 0:
  the sum is over pixels where they are 1, or over all. Filters see the whole image. `kernels` holds
  the parts: padded strips, exact derivatives, exact and float sums; `oct5_moments` there is a model
  of forty lines. `describe` runs kernels on threads: ``kernels.compiled`` makes them fast
  and releases the interpreter lock, plain NumPy works too.
- `ranges` and `norm_bound` are what every privacy scale rests on: give them with their proof.
- `typical` and `correlations` may be left out. They say what public images look like, which makes
  the adaptive mean more accurate; no privacy rests on them.

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
from pipeline.descriptors import kernels, volumes
from pipeline.errors import ConfigError, DatasetError, MismatchError

Kernel: TypeAlias = Callable[[ImageArray, ImageArray, NDArray[Any]], None]


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
    dimensions : {2, 3}
        Images (h, w), or volumes (d, h, w).
    ranges : tuple of float
        b_j: the largest minus the smallest value that feature j can take at a pixel.
    norm_bound : float
        B ≥ max ‖φ‖², as the papers use it in their radius.
    units : callable
        (height, width) ↦ the k numbers by which the kernel's features exceed φ.
    kernel : callable
        Adds the moments Σ_x (1, φ)(1, φ)ᵀ of each image, see the top of this file.
    exact : bool
        True if the kernel works in int64, with every feature within ±`reach` of a fixed number.
    reach : int
        That bound, in the kernel's units.
    grid : int
        2 if x = column/(w − 1) and y = row/(h − 1) lead the features, else 0.
    typical : tuple of float
        ln of the typical variance of each feature over its largest possible one, on public images;
        empty where nobody has looked. Here set by hand, between those of `tiles`, up to 3.3 lower,
        and of X-rays and ultrasound, up to 1.5 higher; those of `grid11` are those of `grid9`.
    correlations : tuple of (int, int, float)
        Pairs of features that go together on public images, and how much. Here set by hand, within
        0.2 of those of the same sets; all other pairs are taken as uncorrelated.
    """

    name: str
    features: tuple[str, ...]
    channels: int
    ranges: tuple[float, ...]
    norm_bound: float
    units: Callable[[int, int], tuple[float, ...]]
    kernel: Kernel
    exact: bool
    reach: int = 4095
    dimensions: int = 2
    grid: int = 0
    typical: tuple[float, ...] = ()
    correlations: tuple[tuple[int, int, float], ...] = ()

    @property
    def k(self) -> int:
        """Order of the matrices."""
        return len(self.features)

    @property
    def dimension(self) -> int:
        """Dimension d = k(k + 1)/2 of the space of descriptors."""
        return self.k * (self.k + 1) // 2

    @property
    def widest(self) -> int:
        """Pixels up to which exact moments, and all made of them, fit int64.

        With every feature within ±F, F = `reach`, |S|·Σab, Σa·Σb and their difference
        |S|²·cov(a, b) are all at most |S|²·F². F = 4095: 741,636 pixels, F = 65280: 46,522.
        """
        return math.isqrt(2**63 - 1) // self.reach

    @property
    def takes(self) -> str:
        """Which images it describes, in words."""
        if self.dimensions == 3:
            return "volumes (n, d, h, w)"
        return "colour images (n, h, w, 3)" if self.channels == 3 else "gray images (n, h, w)"

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Tell whether it describes images of a shape, that of one image."""
        colours = (3,) if self.channels == 3 else ()
        return len(shape) == self.dimensions + len(colours) and shape[self.dimensions :] == colours

    def variances(self, height: int, width: int, masked: bool = False) -> FloatArray:
        """Return the k numbers v_j with R_jj − η ≤ v_j for every image of that size.

        A variable with values in an interval of length b has variance at most b²/4 (Popoviciu), on
        any non-empty set of pixels. The coordinates are the same for all images without a mask: x
        takes w equally spaced values in [0, 1] equally often, so its variance *is*
        (w + 1)/(12(w − 1)), and likewise y. A mask may be any set of pixels: then ¼ each.
        """
        bounds = np.square(self.ranges) / 4
        if self.grid and not masked:
            bounds[:2] = [(side + 1) / (12 * (side - 1)) for side in (width, height)]
        return bounds


def find_descriptor(name: str) -> Descriptor:
    """Return the descriptor called `name`, or raise `ConfigError` with the names there are."""
    if name not in DESCRIPTORS:
        raise ConfigError(f"unknown descriptor {name!r}; choose one of {', '.join(DESCRIPTORS)}")
    return DESCRIPTORS[name]


def made_for(*, channels: int, volumes: bool) -> list[str]:
    """Return the descriptors of gray or colour images, or of volumes."""
    wanted = (channels, 3 if volumes else 2)
    return [name for name, x in DESCRIPTORS.items() if (x.channels, x.dimensions) == wanted]


def require_made_for(name: str, *, channels: int, volumes: bool) -> None:
    """Raise `MismatchError` with the descriptors to choose when `name` is for other images."""
    names = made_for(channels=channels, volumes=volumes)
    if name not in names:
        raise MismatchError(
            f"{name} describes {find_descriptor(name).takes}, and the card has "
            f"{'volumes' if volumes else 'images'} of {channels} channel(s); choose descriptor "
            f"{' or '.join(names) or 'of your own'}, or correct the card"
        )


def check_sides(spec: Descriptor, sides: tuple[int, ...]) -> None:
    """Refuse images of (h, w), or volumes of (d, h, w), for which a descriptor does not exist.

    Raises
    ------
    DatasetError
        When they are too small: a coordinate needs two pixels to run from 0 to 1, all other
        features exist from one pixel on. When they are so large that exact moments leave int64.
    """
    least = 2 if spec.grid else 1
    found = "×".join(map(str, sides))
    if min(sides) < least:
        raise DatasetError(
            f"{spec.name} needs images of at least {'×'.join([str(least)] * len(sides))} pixels, "
            f"found {found}; leave smaller images out"
        )
    if spec.exact and math.prod(sides) * spec.reach**2 >= 2**63:
        raise DatasetError(
            f"{spec.name} is exact for up to {2**63 // spec.reach**2:,} pixels, found {found}; cut "
            "larger images to pieces"
        )


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


def _gradients(first: int) -> tuple[tuple[int, int, float], ...]:
    """Return the usual correlations of |Ix|, |Iy| at `first`, with magnitude and angle."""
    across, down, size, angle = first, first + 1, first + 4, first + 5
    gains = (across, size, 0.74), (down, size, 0.74)
    return (across, down, 0.15), *gains, (across, angle, 0.53), (down, angle, -0.53)


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
    ),
    "vol7": Descriptor(
        name="vol7",
        features=("I", "|Ix|", "|Iy|", "|Iz|", "|Ixx|", "|Iyy|", "|Izz|"),
        channels=1,
        dimensions=3,
        ranges=(255.0,) * 7,
        norm_bound=7 * 255.0**2,
        units=lambda height, width: (1, 16, 16, 16, 512, 512, 512),
        kernel=volumes.vol7_moments,
        exact=True,
        reach=65280,
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
        correlations=_gradients(3),
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
        correlations=(*_gradients(5), (2, 3, 0.93), (3, 4, 0.93), (2, 4, 0.87)),
    ),
}
"""Name → descriptor: raw gray intensities (`oct5`, of volumes `vol7`), gray and colour on a grid.

With gain 1 a derivative is a weighted mean of levels minus another one: b_j = 255 in `vol7` too."""
