"""Descriptors: their contract. Next on the path: `images` and `volumes`, then `describe`.

To add your own, write one file with its kernel and its `Descriptor`, and register it by an entry
point (`covdp.registry`):

- `kernel(images, masks, moments)` receives C-contiguous uint8 images (n, h, w, channels), or
  volumes (n, d, h, w, 1), and zeroed moments (n, k + 1, k + 1); it adds Σ_x (1, φ)(1, φ)ᵀ into
  their lower triangles (the corner, |S|, is known and may stay 0), image by image, in an order that
  depends on one image alone. Masks are uint8 of the images' shape without channels, or of length 0:
  the sum is over pixels where they are 1, or over all. Filters see the whole image. `kernels` holds
  the parts: padded strips, exact derivatives, exact and float sums; `oct5_moments` there is a model
  of forty lines of code. `describe` runs kernels on threads: `covdp.parallel.compiled` makes them
  fast and releases the interpreter lock, plain NumPy works too.
- `ranges` and `norm_bound` are what every privacy scale rests on: give them with their proof.
- `meanings` are for readers, `reference` for the tests, which compare the kernel with it.
- `filters` says for readers how derivatives are computed; leave it out where there are none.
- `means` makes a Gaussian embedding of the covariance: `gauss` is a model.
- `typical` and `correlations` may be left out. They say what public images look like, which makes
  the adaptive mean more accurate; no privacy rests on them.

`describe`, `domain`, `verify`, releases, pages and the tests that loop over `DESCRIPTORS` need
nothing else.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray, ImageArray
from covdp.errors import ConfigError, DatasetError

Kernel: TypeAlias = Callable[[ImageArray, ImageArray, NDArray[Any]], None]

NORMALISATION = "Sums over the pixels S of image or mask are normalised by 1/|S|"
"""Normalisation of every covariance, and of every mean, in words."""


@dataclass(frozen=True)
class Descriptor:
    """A covariance descriptor: which features, what is publicly known of them, how to add them up.

    Attributes
    ----------
    name : str
        Key in `DESCRIPTORS`.
    in_words : str
        Features in the words of a paper.
    features : tuple of str
        The k features φ_j in order. The first `grid` of them are the pixel coordinates.
    meanings : tuple of str
        Meaning of each feature, in words, for the pages.
    channels : {1, 3}
        Gray or colour images.
    dimensions : {2, 3}
        Images (h, w), or volumes (d, h, w).
    ranges : tuple of float
        b_j: the largest minus the smallest value that feature j can take at a pixel.
    norm_bound : float
        B ≥ max ‖φ‖², as the papers use it in their radius.
    units : callable
        (height, width) ↦ k factors: feature j of the kernel is units[j]·φ_j, minus its centre.
    kernel : callable
        Adds the moments Σ_x (1, φ)(1, φ)ᵀ of each image, see the top of this file.
    reference : callable
        φ of every pixel, (k, h·w) or (k, d·h·w), of one image in plain NumPy: what the tests
        compare the kernel with.
    exact : bool
        True if the kernel works in int64, with every feature, less its centre, within ±`reach`.
    reach : int
        Bound on every feature, in the kernel's units of measurement.
    grid : int
        2 if x = column/(w − 1) and y = row/(h − 1) lead the features, else 0.
    filters : str
        Kernels, gains and border rule of the derivatives, in words; empty where there are none.
    typical : tuple of float
        ln of the typical variance of each feature over its largest possible one, on public images;
        may be left empty. Ours were set by hand: those of `tiles` are up to 3.3 lower, those of
        X-rays and ultrasound up to 1.5 higher; `grid11` has those of `grid9`.
    correlations : tuple of (int, int, float)
        Pairs of features that go together on public images, and how much; may be left empty. Ours
        were set by hand, within 0.2 of those of the same sets; all other pairs are taken as
        uncorrelated.
    manifold : str, optional
        The one to take where none is named; its bound is proven at every usual η.
    means : float
        c of the Gaussian embedding [[1, c·mᵀ], [c·m, Σ + c²·m·mᵀ]] of means m and covariance Σ, of
        which the first feature is the constant 1; 0 of a covariance alone.
    centres : tuple of int
        Numbers that the kernel takes off each feature, in its units. Needed where there are means.
    typical_means : tuple of float
        The mean of each feature on public images, as `typical`. Needed where there are means.
    """

    name: str
    in_words: str
    features: tuple[str, ...]
    meanings: tuple[str, ...]
    channels: int
    ranges: tuple[float, ...]
    norm_bound: float
    units: Callable[[int, int], tuple[float, ...]]
    kernel: Kernel
    reference: Callable[[ImageArray], FloatArray]
    exact: bool
    reach: int = 4095
    dimensions: int = 2
    grid: int = 0
    filters: str = ""
    typical: tuple[float, ...] = ()
    correlations: tuple[tuple[int, int, float], ...] = ()
    manifold: str | None = None
    means: float = 0.0
    centres: tuple[int, ...] = ()
    typical_means: tuple[float, ...] = ()

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
    def formula(self) -> str:
        """Filters and normalisation in words, as commands and pages have them."""
        return ". ".join(filter(None, (self.filters, NORMALISATION)))

    @property
    def takes(self) -> str:
        """Images that it describes, in words."""
        if self.dimensions == 3:
            return "volumes (n, d, h, w)"
        return "colour images (n, h, w, 3)" if self.channels == 3 else "gray images (n, h, w)"

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return True if it describes images of a shape, that of one image.

        Parameters
        ----------
        shape : tuple of int
            Shape of one image, (h, w), (h, w, 3) or (d, h, w).
        """
        colours = (3,) if self.channels == 3 else ()
        return len(shape) == self.dimensions + len(colours) and shape[self.dimensions :] == colours

    def variances(self, height: int, width: int, masked: bool = False) -> FloatArray:
        """Return the k numbers v_j with R_jj − η ≤ v_j for every image of that size.

        A variable with values in an interval of length b has variance at most b²/4 (Popoviciu), on
        any non-empty set of pixels. The coordinates are the same for all images without a mask: x
        takes w equally spaced values in [0, 1] equally often, so its variance *is*
        (w + 1)/(12(w − 1)), and likewise y. A mask may be any set of pixels: then ¼ each.

        Values in [0, b] of mean m have variance at most m·(b − m) (Bhatia and Davis), so that of a
        Gaussian embedding R_jj − η ≤ m·(b − m) + c²m² ≤ b²/(4(1 − c²)) for c² ≤ ½; R_11 is 1.

        Parameters
        ----------
        height : int
            Height h of an image, in pixels.
        width : int
            Width w of an image, in pixels.
        masked : bool
            True if descriptors are of pixels inside masks.
        """
        bounds = np.square(self.ranges) / (4 * (1 - self.means**2))
        if self.means:
            bounds[0] = 1.0
        if self.grid and not masked:
            bounds[:2] = [(side + 1) / (12 * (side - 1)) for side in (width, height)]
        return bounds


def check_sides(spec: Descriptor, sides: tuple[int, ...]) -> None:
    """Refuse images of (h, w), or volumes of (d, h, w), for which a descriptor does not exist.

    Parameters
    ----------
    spec : Descriptor
        Descriptor of the images.
    sides : tuple of int
        Sides in pixels, (h, w) or (d, h, w).

    Raises
    ------
    ConfigError
        When one is no whole number.
    DatasetError
        When they are too small: a coordinate needs two pixels to run from 0 to 1, all other
        features exist from one pixel on. When they are so large that exact moments leave int64.
    """
    least = 2 if spec.grid else 1
    size = "×".join(map(str, sides))
    if not all(isinstance(side, Integral) for side in sides):
        raise ConfigError(f"sides must be whole numbers of pixels, found {sides!r}; give 28, say")
    if min(sides) < least:
        raise DatasetError(
            f"{spec.name} needs images of at least {'×'.join([str(least)] * len(sides))} pixels, "
            f"found {size}; leave smaller images out"
        )
    if spec.exact and math.prod(sides) * spec.reach**2 >= 2**63:
        raise DatasetError(
            f"{spec.name} is exact for up to {2**63 // spec.reach**2:,} pixels, found {size}; cut "
            "larger images to pieces"
        )


def check_eta(eta: float) -> None:
    """Raise `ConfigError` unless `eta` is positive and at most 1e6.

    Parameters
    ----------
    eta : float
        Candidate η.
    """
    if not (isinstance(eta, Real) and 0 < eta <= 1e6):
        raise ConfigError(
            f"eta must be positive and at most 1e6, found {eta!r}; the papers use 1e-6"
        )
