"""Array types and the shape guards used at the doors.

Batch axes lead everywhere: matrices are ``(..., k, k)``, coordinates ``(..., d)``, images
``(n, h, w)`` or ``(n, h, w, 3)``. A single matrix is the batch of shape ``()``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.errors import DatasetError, DomainError

FloatArray: TypeAlias = NDArray[np.float64]
"""Floats in, floats out."""
ImageArray: TypeAlias = NDArray[np.uint8]
"""Images, ``(n, h, w)`` gray or ``(n, h, w, 3)`` colour, intensities 0..255."""
LabelArray: TypeAlias = NDArray[np.signedinteger[Any]]
"""Class of each image, ``(n,)``."""


def facts_text(title: str, facts: Mapping[str, str]) -> str:
    """Return named facts in lines, as a terminal shows an object.

    Parameters
    ----------
    title : str
        Heading above the facts.
    facts : mapping of str to str
        Values as text, by name.
    """
    wide = max(map(len, facts), default=0)
    return "\n".join([title, *(f"  {name:{wide}}  {value}" for name, value in facts.items())])


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """Return named facts as a table, as a notebook shows an object.

    Parameters
    ----------
    title : str
        Heading above the facts.
    facts : mapping of str to str
        Values as text, by name.
    """
    rows = (
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts.items()
    )
    return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>"


def evenly(items: NDArray[Any], most: int) -> NDArray[Any]:
    """Return at most so many items, spread over all of them.

    Parameters
    ----------
    items : array, shape (n, ...)
        Items along the first axis.
    most : int
        Largest number of items returned.
    """
    places = np.linspace(0, len(items) - 1, min(most, len(items))).astype(int)
    return np.ascontiguousarray(items[places])


def counting(most: int) -> np.dtype[Any]:
    """Return the smallest type of integers, with a sign, that has 0 to `most`.

    Parameters
    ----------
    most : int
        Largest number that the type must hold.
    """
    return np.min_scalar_type(-most - 1)


def count_labels(labels: LabelArray, classes: int) -> NDArray[np.int64]:
    """Return the number of images of each class.

    Parameters
    ----------
    labels : array of int, shape (n,)
        Class of each image; labels from `classes` upwards are not counted.
    classes : int
        Number of classes.
    """
    return np.array([np.count_nonzero(labels == label) for label in range(classes)], np.int64)


def check_images(images: NDArray[Any]) -> ImageArray:
    """Return `images` if they are uint8 of shape (n, h, w) or (n, h, w, 3), else raise.

    Parameters
    ----------
    images : array, shape (n, h, w) or (n, h, w, 3)
        Candidate images.

    Raises
    ------
    DatasetError
        With the rule, the dtype or shape found, and the way out.
    """
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        dtype = getattr(images, "dtype", type(images).__name__)
        raise DatasetError(
            f"images must be uint8 with intensities 0..255, found {dtype}; "
            "rescale floats to 0..255 and convert with .astype('uint8')"
        )
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[-1] != 3):
        raise DatasetError(
            f"images must have shape (n, h, w) or (n, h, w, 3), found {images.shape}; "
            "drop or add axes so that the batch comes first"
        )
    return images


def check_square(matrices: FloatArray, *, k: int | None = None) -> FloatArray:
    """Return `matrices` as float64 if they are finite and (..., k, k), else raise `DomainError`.

    Parameters
    ----------
    matrices : array, shape (..., k, k)
        Candidate matrices.
    k : int, optional
        Size that the matrices must have; any when left out.
    """
    out = np.asarray(matrices, dtype=np.float64)
    if out.ndim < 2 or out.shape[-1] != out.shape[-2] or (k is not None and out.shape[-1] != k):
        wanted = "(..., k, k)" if k is None else f"(..., {k}, {k})"
        raise DomainError(f"matrices must have shape {wanted}, found {out.shape}")
    if not np.isfinite(out).all():
        raise DomainError("matrices must be finite, found NaN or infinity; check the images")
    return out


LARGEST = 1e12
"""Largest number: images of 8 bits have covariances below 10⁵ and logarithms below 40."""
FARTHEST = 1e6
"""Largest coordinate of a mean: √`LARGEST`, as factors have roots of what matrices have."""
SMALLEST = 1e-12
"""Smallest divisor that is accepted."""
WIDEST = 32
"""Side of a mean; those of `grid11` have 11. What is computed takes the sixth power of it."""
_D = WIDEST * (WIDEST + 1) // 2
UPPER = "upper triangle of a symmetric matrix, row by row"
"""Comment of the JSON Schema on an array that is one."""
UNCHECKED = True
"""Context in which pydantic reads a document of our own: noise of any size is in it."""


@dataclass(frozen=True)
class Limits:
    """Limits of a number of a document, or of each in an array; pydantic reads and writes by them.

    Attributes
    ----------
    low, high : float or None
        Least and largest value.
    sides : tuple of int
        Most entries along each axis of an array; () of a number.
    kind : {"float", "int", "bool"}
        Type of a number.
    triangle : bool
        True if a symmetric matrix is written as its upper triangle, row by row.
    """

    low: float | None = -LARGEST
    high: float | None = LARGEST
    sides: tuple[int, ...] = ()
    kind: str = "float"
    triangle: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the schema of pydantic."""
        from pydantic import Field, FiniteFloat, PlainSerializer, WrapValidator

        kinds = {"bool": bool, "int": int, "float": FiniteFloat}
        value: Any = Annotated[kinds[self.kind], Field(strict=True, ge=self.low, le=self.high)]
        for most in reversed(self.sides):
            noted: Any = {"$comment": UPPER} if self.triangle else None
            value = Annotated[list[value], Field(max_length=most, json_schema_extra=noted)]
        check = WrapValidator(
            lambda value, check, info: self._read(value if info.context else check(value))
        )
        return handler.generate_schema(Annotated[value, check, PlainSerializer(self._write)])

    def _read(self, value: Any) -> Any:
        if not self.sides:
            return value
        try:
            array = np.array(value, dtype=np.float64)
        except ValueError:
            raise ValueError("rows differ in length") from None
        return from_upper(array) if self.triangle else array

    def _write(self, value: Any) -> Any:
        value = upper(value) if self.triangle else value
        return value.tolist() if isinstance(value, np.ndarray) else value


NUMBER, SIZE, DIVISOR, SHARE = Limits(), Limits(0), Limits(SMALLEST), Limits(0, 1)
COUNT, LABEL, WHOLE = (Limits(low, kind="int") for low in (1, 0, -LARGEST))
FLAG = Limits(None, None, kind="bool")
NUMBERS, MATRIX = Limits(sides=(_D * (_D + 1) // 2,)), Limits(sides=(WIDEST, WIDEST))
BASIS, COORDINATES = Limits(sides=(_D, _D)), Limits(-FARTHEST, FARTHEST, (_D,))
TRIANGLE = Limits(sides=NUMBERS.sides, triangle=True)
"""Limits of numbers and arrays: `COORDINATES` of a position in space, `BASIS` of a basis of it."""


_upper = lru_cache(maxsize=8)(np.triu_indices)
"""Rows and columns of the entries of a d × d matrix on its diagonal and above."""


def upper(matrix: FloatArray) -> FloatArray:
    """Return the upper triangle of a symmetric matrix, row by row.

    Parameters
    ----------
    matrix : array, shape (d, d)
        Symmetric matrix.
    """
    return np.asarray(matrix[_upper(len(matrix))])


def from_upper(values: FloatArray) -> FloatArray:
    """Return the symmetric matrix, (d, d), whose upper triangle `upper` gave; d may be 0.

    Parameters
    ----------
    values : array, shape (d(d + 1)/2,)
        Upper triangle, row by row.

    Raises
    ------
    ValueError
        When no matrix has so many.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp.arrays import from_upper
    >>> from_upper(np.array([1.0, 2.0, 3.0]))
    array([[1., 2.],
           [2., 3.]])
    """
    d = (math.isqrt(8 * len(values) + 1) - 1) // 2
    if d * (d + 1) // 2 != len(values):
        raise ValueError(f"{len(values)} numbers are no upper triangle of a matrix")
    matrix, (rows, columns) = np.empty((d, d)), _upper(d)
    matrix[rows, columns] = matrix[columns, rows] = values + 0.0  # no −0
    return matrix
