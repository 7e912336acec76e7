"""Texture: a picture of a mean, random, with the contrast, smoothness and direction of a release.

Gaussian noise of one public seed is filtered and quantised to 8 bits. Three numbers of the filter
are solved for, so that the texture, described as images are, has the three terms. Nothing enters
but these terms, the side of the images and η, all of them released: a texture costs no privacy.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray, ImageArray
from covdp.descriptors import describe, terms_of
from covdp.descriptors.base import Descriptor

SHOWN = ("contrast", "roughness", "upright")
"""Terms that a texture has; descriptors without one of them have no texture."""
TEXTURE_SEED = 20260313
"""Seed of the noise behind all textures: public, and the same for every release and class."""
TEXTURE_SIDES = (4, 128)
"""Smallest side that has a texture, and largest side of a texture, in pixels."""
MIDDLE_GRAY = 127.5
"""Mean gray level of a texture if the descriptor has no brightness."""
LARGEST_ERROR = 0.05
"""Largest relative error of a term that is shown."""
FILTER_STEP = 0.05
"""Step of the differences that stand for slopes: quantised pixels do not see a small one."""
FIRST_SLOPES = (1.0, -2.0, 3.0)
"""Slopes from which the search starts, until one leads to a texture."""
FARTHEST_ERROR = 9.0
"""Logarithmic error of a term that is no number, as that of an even gray may be."""
FILTER_LIMITS = np.array([[-5.0, -8.0, -6.0], [12.0, 8.0, 6.0]])
"""Ends of the search, of each number of the filter."""


def texture(
    kind: Descriptor, values: Mapping[str, float | None], sides: tuple[int, int], eta: float
) -> ImageArray | None:
    """Return a random texture whose contrast, roughness and direction are within 5 % of `values`.

    The terms of the quantised texture itself are fitted, by least squares.

    Parameters
    ----------
    kind : Descriptor
        Descriptor of gray or colour images.
    values : mapping of str to float or None
        Values of terms by their names, None where not known; the brightness, if any, is its mean.
    sides : tuple of int
        Height and width of the images in pixels; of each at most 128 are drawn.
    eta : float
        Regularisation η of the descriptor.

    Returns
    -------
    uint8 array, shape (h, w), or None
        Texture; None where there is none, as of volumes, or of values that no texture has.
    """
    from scipy.optimize import least_squares  # takes 0.2 s

    terms = {term.name: term for term in terms_of(kind)}
    wanted = np.array([values.get(name) or 0.0 for name in SHOWN])
    height, width = (min(side, TEXTURE_SIDES[1]) for side in sides)
    possible = (
        terms.keys() >= set(SHOWN) and kind.dimensions == 2 and min(sides) >= TEXTURE_SIDES[0]
    )
    if not possible or not np.all((wanted > 0.0) & (wanted < np.inf)):
        return None
    noise = np.fft.rfft2(np.random.default_rng(TEXTURE_SEED).standard_normal((height, width)))
    level = values.get("brightness") or MIDDLE_GRAY

    def errors(filtered: FloatArray) -> FloatArray:
        image = _drawn(filtered, noise, (height, width), level)
        drawn = np.repeat(image[..., None], 3, axis=-1) if kind.channels == 3 else image
        with np.errstate(all="ignore"):
            found = [terms[name].value(describe(drawn[None], kind.name, eta)[0]) for name in SHOWN]
            off = np.log(found / wanted)
        return np.asarray(np.where(np.isfinite(off), off, FARTHEST_ERROR))

    def slopes(place: FloatArray) -> FloatArray:
        here = errors(place)
        ahead = [errors(place + step) for step in FILTER_STEP * np.eye(3)]
        return np.transpose([there - here for there in ahead]) / FILTER_STEP

    for slope in FIRST_SLOPES:
        start = np.clip([np.log(wanted[0]), slope, np.log(wanted[2])], *FILTER_LIMITS)
        fit = least_squares(errors, start, slopes, FILTER_LIMITS, ftol=1e-4, max_nfev=40)
        if np.abs(np.expm1(errors(fit.x))).max() <= LARGEST_ERROR:
            return _drawn(fit.x, noise, (height, width), level)
    return None


def _drawn(
    filtered: FloatArray, noise: NDArray[np.complex128], sides: tuple[int, int], level: float
) -> ImageArray:
    """Return noise, (h, w/2 + 1) in frequencies, of a power spectrum |f|^(−2·slope), blurred.

    It is averaged over 2 × 2 pixels: most filters of derivatives do not see the finest grain.
    `filtered` are ln amplitude in gray levels, slope, and direction: f is (f_x·e^d, f_y·e^−d).
    """
    log_amplitude, slope, direction = filtered
    down, across = np.fft.fftfreq(sides[0])[:, np.newaxis], np.fft.rfftfreq(sides[1])
    square = (down * np.exp(-direction)) ** 2 + (across * np.exp(direction)) ** 2
    square[0, 0] = 1.0
    gains = square ** (-slope / 2.0) * np.cos(np.pi * down) * np.cos(np.pi * across)
    gains[0, 0] = 0.0
    field = np.fft.irfft2(noise * gains, s=sides)
    gray = level + np.exp(log_amplitude) * field / field.std()
    return np.asarray(np.clip(np.rint(gray), 0, 255), dtype=np.uint8)
