"""Intensities: what a file stores becomes 0..255, by a constant or by one image alone.

A window computed over a data set would let one record move all others, and no sensitivity would
hold; so each rule here looks at one image and at what its card and its file say.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.errors import ImageError

Values: TypeAlias = NDArray[np.float64]

PERCENTILES = (1.0, 99.0)
"""What becomes 0 and 255 under ``window = "image"``; between two order statistics on a line, as
`numpy.percentile` does when nothing else is asked (Hyndman and Fan's type 7)."""

PIECE = 1 << 22
"""Values that are in float64 at a time where a window is given; it changes no bit."""


class Sigmoid(NamedTuple):
    """The window that DICOM calls SIGMOID (PS3.3, C.11.2.1.3.1): 1/(1 + exp(−4(x − c)/w))."""

    center: float
    width: float


Window: TypeAlias = tuple[float, float] | Sigmoid | Literal["image"] | None


def to_uint8(
    stored: NDArray[Any],
    *,
    slope: float = 1.0,
    intercept: float = 0.0,
    window: Window = None,
    inverted: bool = False,
    bits: int | None = None,
    where: str,
) -> ImageArray:
    """Return one image, or one volume, as 0..255.

    In float64: x = slope·stored + intercept; p = (x − low)/(high − low), cut to [0, 1]; y = 255·p,
    or 255 − 255·p when `inverted`; y rounded, halves to even. Where low = high, what lies above is
    1 and the rest 0, so that a constant image is black under "image".

    Unsigned values of 8 bits that are neither rescaled nor windowed stay as they are.

    Parameters
    ----------
    stored : (...) integers or floats
        One image, whatever its shape: percentiles are taken over all of it.
    slope, intercept : float
        From stored values to the units of the window.
    window : (low, high), Sigmoid, "image" or None
        What becomes 0 and 255; "image" is that image's own `PERCENTILES`. What "header" means, the
        kind of file says.
    inverted : bool
        Whether low is white (MONOCHROME1).
    bits : int, optional
        Bits in use of each stored value; all of its type when left out.
    where : str
        The file, and what of it says how many bits there are; for errors.

    Raises
    ------
    ImageError
        When a value is not finite, or values need a window and there is none.
    """
    if window is None:
        bits = 8 * stored.dtype.itemsize if bits is None else bits
        if stored.dtype.kind != "u" or bits != 8 or (slope, intercept) != (1.0, 0.0):
            raise ImageError(
                f"{where}: {_described(stored, bits, (slope, intercept))} need a window, found "
                'none; give window = [low, high], "image" or "header" in the card'
            )
        plain = stored.astype(np.uint8, copy=False)
        return ~plain if inverted else plain
    scale = _Rescaling(slope, intercept, window, inverted)
    _check_window(window, where)
    if stored.dtype.kind in "iu" and stored.dtype.itemsize <= 2:
        native = stored.astype(stored.dtype.newbyteorder("="), copy=False)
        _check_finite(_rescaled(_every(native.dtype)[[0, -1]], scale), where)
        if window != "image":
            shown: ImageArray = _table(native.dtype.str, scale).take(
                native.view(f"u{native.itemsize}")
            )
            return shown
    if scale.window == "image":
        scale = scale._replace(window=_ends(_rescaled(stored, scale), where))
    shown = np.empty(stored.shape, np.uint8)
    rows = max(1, PIECE // max(1, math.prod(stored.shape[1:])))
    for start in range(0, len(stored), rows):
        values = _rescaled(stored[start : start + rows], scale)
        _check_finite(values, where)
        shown[start : start + rows] = _shown(values, scale)
    return shown


def _ends(values: Values, where: str) -> tuple[float, float]:
    """Return the window of one image: its own percentiles."""
    _check_finite(values, where)
    low, high = np.percentile(values, PERCENTILES).tolist()
    return low, high


class _Rescaling(NamedTuple):
    slope: float
    intercept: float
    window: tuple[float, float] | Sigmoid | Literal["image"]
    inverted: bool


def _rescaled(stored: NDArray[Any], scale: _Rescaling) -> Values:
    with np.errstate(over="ignore", invalid="ignore"):
        values: Values = stored.astype(np.float64) * scale.slope + scale.intercept
    return values


def _shown(values: Values, scale: _Rescaling) -> ImageArray:
    """Return finite values as 0..255."""
    with np.errstate(over="ignore"):
        levels = 255 * np.clip(_curve(scale.window)(values), 0, 1)
    return np.rint(255 - levels if scale.inverted else levels).astype(np.uint8)


def _curve(
    window: tuple[float, float] | Sigmoid | Literal["image"],
) -> Callable[[Values], Values]:
    """Return the function from values to shares of 255, still to be cut to [0, 1]."""
    if isinstance(window, Sigmoid):
        center, width = window
        return lambda x: 1 / (1 + np.exp(-4 * (x - center) / width))
    assert window != "image"  # which is replaced by its ends
    low, high = window
    if low == high:
        return lambda x: (x > low).astype(np.float64)
    return lambda x: (x - low) / (high - low)


@lru_cache(maxsize=64)
def _table(kind: str, scale: _Rescaling) -> ImageArray:
    """Return what each value of an integer type becomes, by its bits read as unsigned.

    Files of one series share it; looking values up is several times faster than computing them.
    """
    values = _every(np.dtype(kind))
    table = np.empty(len(values), np.uint8)
    table[values.view(f"u{values.itemsize}")] = _shown(_rescaled(values, scale), scale)
    return table


@lru_cache
def _every(kind: np.dtype[Any]) -> NDArray[Any]:
    """Return all values of an integer type, ascending."""
    return np.arange(np.iinfo(kind).min, np.iinfo(kind).max + 1, dtype=kind)


def _check_finite(values: Values, where: str) -> None:
    if not np.isfinite(values).all():
        raise ImageError(
            f"{where}: values must be finite, found NaN or infinity; repair the file or leave it "
            "out"
        )


def _check_window(window: Window, where: str) -> None:
    """Raise when a window is none: its ends out of order, or not finite."""
    if isinstance(window, Sigmoid):
        fine = math.isfinite(window.center) and 0 < window.width < math.inf
    else:
        fine = not isinstance(window, tuple) or (
            window[0] <= window[1] and math.isfinite(window[1] - window[0])
        )
    if not fine:
        raise ImageError(
            f"{where}: a window must have finite ends, low to high, found {window}; correct it, or "
            "give window = [low, high] in the card"
        )


def _described(stored: NDArray[Any], bits: int, rescale: tuple[float, float]) -> str:
    """Say why values are not 0..255 by themselves."""
    kind = {"u": "unsigned ", "i": "signed ", "f": "floating "}.get(stored.dtype.kind, "")
    scaled = "" if rescale == (1.0, 0.0) else " that the file rescales"
    return f"{kind}values of {bits} bits{scaled}"
