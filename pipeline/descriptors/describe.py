"""The known descriptors by name, and from images to matrices. Next: `bounds`, which bounds them."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray, ImageArray, check_images
from covdp.descriptors import kernels
from covdp.descriptors.base import Descriptor, check_eta, check_sides
from covdp.descriptors.images import GRID9, GRID11, OCT5
from covdp.errors import DatasetError, ImageError, MismatchError, require_known
from covdp.parallel import side_by_side
from covdp.registry import Registry, at

DESCRIPTORS = Registry[Descriptor](
    "descriptors",
    {descriptor.name: descriptor for descriptor in (OCT5, GRID9, GRID11)}
    | {"gauss6": at("covdp.descriptors.gauss:GAUSS6")},
    word="descriptor",
)
"""Name → descriptor."""


def find_descriptor(name: str) -> Descriptor:
    """Return the descriptor called `name`, or raise `ConfigError` with the names there are.

    Parameters
    ----------
    name : str
        Name in `DESCRIPTORS`.

    Examples
    --------
    >>> from covdp.descriptors import find_descriptor
    >>> find_descriptor("oct5").features
    ('I', '|Ix|', '|Iy|', '|Ixx|', '|Iyy|')
    """
    require_known("descriptor", name, DESCRIPTORS, f"choose one of {', '.join(DESCRIPTORS)}")
    return DESCRIPTORS[name]


def descriptors_for(*, channels: int, volumes: bool) -> list[str]:
    """Return the descriptors of gray or colour images, or of volumes.

    Parameters
    ----------
    channels : int
        Number of channels, 1 for gray and 3 for colour.
    volumes : bool
        True for volumes.

    Examples
    --------
    >>> from covdp.descriptors import descriptors_for
    >>> descriptors_for(channels=3, volumes=False)
    ['grid11']
    """
    wanted = (channels, 3 if volumes else 2)
    return [name for name, x in DESCRIPTORS.items() if (x.channels, x.dimensions) == wanted]


def require_descriptor_for(name: str, *, channels: int, volumes: bool) -> None:
    """Raise `MismatchError` with the descriptors to choose when `name` is for other images.

    Parameters
    ----------
    name : str
        Name in `DESCRIPTORS`.
    channels : int
        Number of channels, 1 for gray and 3 for colour.
    volumes : bool
        True for volumes.
    """
    spec = find_descriptor(name)
    if (spec.channels, spec.dimensions) != (channels, 3 if volumes else 2):
        names = descriptors_for(channels=channels, volumes=volumes)
        raise MismatchError(
            f"{name} describes {spec.takes}, and the card has "
            f"{'volumes' if volumes else 'images'} of {channels} channel(s); choose descriptor "
            f"{' or '.join(names) or 'of your own'}, or correct the card"
        )


BLOCK_BYTES = 1 << 20
"""Images are worked on in blocks of about this size."""


def describe(
    images: ImageArray,
    descriptor: str = "oct5",
    eta: float = 1e-6,
    masks: NDArray[np.bool_] | NDArray[np.uint8] | None = None,
) -> FloatArray:
    """Return the covariance descriptor of each image.

    R = (1/|S|) Σ_x (φ(x) − μ)(φ(x) − μ)ᵀ + η·Id over the pixels x of S, μ the mean of φ there. S is
    the whole image, or where its mask is not 0; `gauss6` holds μ beside it (``gauss.py``). First
    derivatives use Sobel kernels of 3 pixels a side, second derivatives those of 5
    (`Descriptor.filters`), all of gain 1 (intensities in [0, b] give absolute derivatives in
    [0, b]), with the border mirrored; they see the whole image, whatever the mask.

    The result depends on the images alone, not on how many come at once, on their memory layout or
    on the number of threads (`covdp.parallel`). `oct5` and `vol7` are computed in integers
    and rounded to 53 bits twice, by the division and by adding η; sums of `grid9` and
    `grid11` have one order: all are the same on all machines.

    Parameters
    ----------
    images : uint8 array, shape (n, h, w), (n, h, w, 3) or (n, d, h, w)
        Intensities 0..255, gray, in colour or of volumes as the descriptor wants; never modified.
        Any size from 1×1 (`grid9`, `grid11`: 2×2) upwards.
    descriptor : str
        A key of `DESCRIPTORS`.
    eta : float
        Least eigenvalue η > 0 of every exact R. It must be far above 1e-15 times the largest
        variance; `domain` states the error (``.rounding``).
    masks : bool or uint8 array, optional
        One mask an image, of its size, (n, h, w) or (n, d, h, w). Its `domain` must be `masked`.

    Returns
    -------
    array, shape (n, k, k)
        Symmetric positive definite matrices, float64.

    Raises
    ------
    DatasetError
        When images are not uint8, too small, or gray where colour is needed (or the reverse); when
        masks do not fit them or one is 0 everywhere.
    ConfigError
        When the descriptor is unknown or η not positive and finite.

    References
    ----------
    Tuzel, Porikli and Meer, "Region covariance: a fast descriptor for detection and
    classification", ECCV 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp import describe
    >>> images = np.random.default_rng(0).integers(0, 256, (10, 28, 28), dtype=np.uint8)
    >>> describe(images, descriptor="oct5").shape
    (10, 5, 5)
    """
    spec = find_descriptor(descriptor)
    check_eta(eta)
    _check_fit(images, spec)
    sides = images.shape[1 : 1 + spec.dimensions]
    check_sides(spec, sides)
    n = len(images)
    _check_masks(masks, (n, *sides))
    out = np.empty((n, spec.k, spec.k))
    block = max(1, BLOCK_BYTES // (math.prod(sides) * spec.channels))

    def work(start: int) -> None:
        part = np.ascontiguousarray(images[start : start + block])
        part = part.reshape(-1, *sides, spec.channels)
        part.flags.writeable = False  # as of files: numba compiles for either
        inside = np.zeros((0, *sides), np.uint8)
        if masks is not None:
            inside = np.ascontiguousarray(masks[start : start + block] != 0).view(np.uint8)
        _covariances(part, inside, spec, eta, out[start : start + block])

    if n <= block:
        work(0)
    else:
        with side_by_side() as submit:
            for job in [submit(work, start) for start in range(0, n, block)]:
                job.result()
    return out


def _check_fit(images: ImageArray, spec: Descriptor) -> None:
    """Refuse gray images where colour is needed, images where volumes are, and the reverses."""
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim < 3:
        check_images(images)
    if not spec.fits(images.shape[1:]):
        fitting = [name for name, other in DESCRIPTORS.items() if other.fits(images.shape[1:])]
        way = f"for these choose {' or '.join(fitting)}" if fitting else "drop or add axes"
        found = f"images of shape {images.shape[1:]}"
        raise DatasetError(f"{spec.name} describes {spec.takes}, found {found}; {way}")


def _check_masks(masks: NDArray[Any] | None, shape: tuple[int, ...]) -> None:
    """Refuse masks of another shape or type than images of `shape` want, and empty ones."""
    if masks is None:
        return
    if not isinstance(masks, np.ndarray) or masks.dtype not in (np.bool_, np.uint8):
        dtype = getattr(masks, "dtype", type(masks).__name__)
        raise DatasetError(f"masks must be bool or uint8, found {dtype}; convert with != 0")
    if masks.shape != shape:
        raise DatasetError(
            f"masks must have the images' size, one for each: shape {shape}, found {masks.shape}; "
            "make them of the same images"
        )
    empty = np.flatnonzero(~masks.any(axis=tuple(range(1, masks.ndim))))
    if len(empty):
        raise ImageError(
            f"a mask must have at least 1 pixel, found {len(empty)} without, first of image "
            f"{empty[0]}; leave these images out or describe them whole"
        )


def _covariances(
    images: ImageArray, masks: ImageArray, spec: Descriptor, eta: float, out: FloatArray
) -> None:
    """Write the descriptor of each image (n, *sides, channels) into `out` (n, k, k)."""
    n, sides, order = len(images), images.shape[1:-1], spec.k + 1
    moments: NDArray[Any] = np.zeros((n, order, order), np.int64 if spec.exact else np.float64)
    spec.kernel(images, masks, moments)
    counts = np.full(n, math.prod(sides), np.int64)
    if len(masks):
        counts = np.count_nonzero(masks.reshape(n, -1), axis=1).astype(np.int64)
    units = np.array(spec.units(*sides[-2:]), dtype=np.float64)
    if spec.exact and math.prod(sides) > spec.widest:
        _wide_covariances(moments, counts, units, eta, out)
    else:
        kernels.covariances(moments, counts, units, eta, out)
    if spec.means:
        _embed_means(moments, counts, units, spec, out)


def _embed_means(
    moments: NDArray[np.int64],
    counts: NDArray[np.int64],
    units: FloatArray,
    spec: Descriptor,
    out: FloatArray,
) -> None:
    """Turn covariances of (1, φ), of which the first row is 0, into Gaussian embeddings."""
    sums = moments[:, 2:, 0] + counts[:, np.newaxis] * np.array(spec.centres[1:])
    means = spec.means * (sums / (counts[:, np.newaxis] * units[1:]))
    out[:, 0, 0] = 1.0
    out[:, 0, 1:] = out[:, 1:, 0] = means
    out[:, 1:, 1:] += means[:, :, np.newaxis] * means[:, np.newaxis, :]


def _wide_covariances(
    moments: NDArray[np.int64],
    counts: NDArray[np.int64],
    units: FloatArray,
    eta: float,
    out: FloatArray,
) -> None:
    """Do as `kernels.covariances` in Python's integers, which have no largest value."""
    a, b = np.tril_indices(units.size)
    sums, pixels = moments.astype(object), counts.astype(object)[:, np.newaxis]
    numerators = pixels * sums[:, a + 1, b + 1] - sums[:, a + 1, 0] * sums[:, b + 1, 0]
    scales = (units[a] * units[b]).astype(np.int64).astype(object)
    out[:, a, b] = out[:, b, a] = numerators / (pixels**2 * scales)
    out[:, range(units.size), range(units.size)] += eta
