"""What the manifolds whose points are vectors share: their sizes, and helpers."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError, DomainError

Vectors = TypeVar("Vectors", NDArray[np.float64], NDArray[np.complex128])
"""Real or complex vectors, one on each row of the last axis."""

ROUNDING = 1e-8
"""Largest distance from the equation of a manifold that its door takes for rounding."""


def of_length(kind: type[Any], shape: tuple[int, ...]) -> Any:
    """Return the member of a kind whose points are vectors of length d + 1."""
    return kind(shape[-1] - 1)


def of_dim(kind: type[Any], dim: int) -> Any:
    """Return the member of dimension d of a kind that is made for a dimension."""
    return kind(dim)


def check_size(name: str, value: int, least: int) -> None:
    """Raise `ConfigError` unless `value` is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(f"{name} must be an integer of at least {least}, found {value!r}")


def check_vectors(points: NDArray[Any], length: int, dtype: type[Any]) -> NDArray[Any]:
    """Return `points` as a finite ``(..., length)`` array of `dtype`, else raise `DomainError`."""
    if np.iscomplexobj(points) and not issubclass(dtype, np.complexfloating):
        raise DomainError("points must be real, found complex numbers")
    points = np.asarray(points, dtype=dtype)
    if points.ndim < 1 or points.shape[-1] != length:
        raise DomainError(f"points must have shape (..., {length}), found {points.shape}")
    if not np.isfinite(points).all():
        raise DomainError("points must be finite, found NaN or infinity")
    return points


def norm(vectors: NDArray[Any]) -> FloatArray:
    """Return ‖v‖₂ along the last axis, which is kept."""
    return np.asarray(np.linalg.norm(vectors, axis=-1, keepdims=True))


def dot(v: Vectors, w: Vectors) -> Vectors:
    """Return v* w along the last axis, which is kept (v conjugated when complex)."""
    total: Vectors = (np.conj(v) * w).sum(axis=-1, keepdims=True)
    return total


def direction(vectors: Vectors, length: FloatArray | None = None) -> Vectors:
    """Return v/‖v‖, and the first axis when v = 0; `length` is ‖v‖ where it is known."""
    length = norm(vectors) if length is None else length
    turned: Vectors = vectors / np.where(length > 0.0, length, 1.0)
    turned[..., 0] += length[..., 0] == 0.0
    return turned


def superscript(number: int) -> str:
    """Return a number in raised digits."""
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
