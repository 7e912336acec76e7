"""Mean descriptors in words for readers of images: contrast, roughness, edges, corners and so on.

A term is a function of a descriptor R, the covariance of pixel features. It exists for descriptors
that have its features, and for no others. Sizes and ratios are geometric means of standard
deviations: a gain multiplies the first and leaves the second, and transposed images have the
inverse of what is upright, all exactly. A Gaussian embedding has the terms of its covariance, and
of its means besides. Next on the path: `describe`, which makes R.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.descriptors.base import Descriptor

LUMINANCE = {"R": 0.2125, "G": 0.7154, "B": 0.0721}
"""Weights of the luminance that derivatives of colour images are taken of."""
GRAYS = 255.0
"""Gray levels from black to white."""
GRAYS_A_UNIT = 32.0
"""Gray levels that are one unit on the scale of a mean: ln 10 of these, 74 levels to both sides, is
a band that says nothing (`readings.WIDEST`)."""


@dataclass(frozen=True, eq=False)
class Term:
    """One word for what a descriptor shows.

    Attributes
    ----------
    name, title : str
        What it is called, in code and on a page.
    low, high : str
        What small and what large values are called.
    unit : str
        Of the value; empty for a pure number.
    formula : str
        How it follows from standard deviations (sd) and correlations (corr) of the features.
    scaled : callable
        (..., k, k) ↦ (...): the value on a scale without ends, on which noise is nearly Gaussian.
    unscaled : callable
        From that scale to the value.
    middle : float or None
        The value between `low` and `high`, if there is one.
    limits : (float, float)
        Between which no image has another value: of 8 bits the contrast is 127.5 at most.
    """

    name: str
    title: str
    low: str
    high: str
    unit: str
    formula: str
    scaled: Callable[[FloatArray], FloatArray]
    unscaled: Callable[[FloatArray], FloatArray]
    middle: float | None = None
    limits: tuple[float, float] = (-math.inf, math.inf)

    def value(self, descriptors: FloatArray) -> FloatArray:
        """Return the term of descriptors, (..., k, k) ↦ (...)."""
        return self.unscaled(self.scaled(np.asarray(descriptors, dtype=np.float64)))


def terms_of(descriptor: Descriptor) -> tuple[Term, ...]:
    """Return the terms that the features of a descriptor allow, in reading order."""
    makers = (_contrast, _roughness, _upright, _edges, _corners)
    terms = [make(descriptor) for make in makers]
    terms.append(_lit(descriptor, "x", "sideways", "Brighter left or right", ("left", "right")))
    terms.append(_lit(descriptor, "y", "downwards", "Brighter above or below", ("above", "below")))
    found = tuple(term for term in terms if term is not None)
    if not descriptor.means:
        return found
    inner = (replace(term, scaled=partial(_of_block, scaled=term.scaled)) for term in found)
    return *_means(descriptor), *inner


def _means(kind: Descriptor) -> tuple[Term, ...]:
    """Return the terms of the means of a Gaussian embedding of features in gray levels."""
    wanted = (
        ("brightness", "Brightness", ("dark", "bright"), {"I": 1.0}, "mean(I)"),
        (
            *("edge-strength", "Mean edge strength", ("faint", "strong")),
            *({"|Ix|": 0.5, "|Iy|": 0.5}, "(mean(|Ix|) + mean(|Iy|))/2"),
        ),
    )
    return tuple(
        Term(
            *(name, title, *ends, "gray levels", formula),
            partial(_mean, weights=_of(kind, parts) / (kind.means * GRAYS_A_UNIT)),
            partial(np.multiply, GRAYS_A_UNIT),
            limits=(0.0, GRAYS),
        )
        for name, title, ends, parts, formula in wanted
        if _has(kind, *parts)
    )


def _contrast(kind: Descriptor) -> Term | None:
    light = _brightness(kind)
    if light is None:
        return None
    vector, symbol = light
    grays = GRAYS / max(kind.ranges[j] for j in np.flatnonzero(vector))
    levels = "" if grays == 1.0 else f"{grays:g} · "
    return _size(
        "contrast",
        "Contrast",
        ("low", "high"),
        f"{levels}sd({symbol})",
        [(vector * grays, 1.0)],
        unit="gray levels",
        limits=(0.0, GRAYS / 2.0),
    )


def _roughness(kind: Descriptor) -> Term | None:
    light, edges = _brightness(kind), [name for name in kind.features if name.startswith("|I")]
    if light is None or len(edges) < 4:
        return None
    vector, symbol = light
    product = " · ".join(f"sd({name})" for name in edges)
    parts = [(_of(kind, {name: 1.0}), 1.0 / len(edges)) for name in edges]
    return _size(
        "roughness",
        "Smooth or rough",
        ("smooth", "rough"),
        f"({product})^(1/{len(edges)}) / sd({symbol})",
        [*parts, (vector, -1.0)],
    )


def _upright(kind: Descriptor) -> Term | None:
    across, down = ("|Ix|", "|Ixx|"), ("|Iy|", "|Iyy|")
    if not _has(kind, *across, *down):
        return None
    parts = [(_of(kind, {name: 1.0}), 0.5) for name in across]
    parts += [(_of(kind, {name: 1.0}), -0.5) for name in down]
    formula = "√(sd(|Ix|) · sd(|Ixx|) / (sd(|Iy|) · sd(|Iyy|)))"
    return _size(
        "upright", "Upright or horizontal", ("horizontal", "upright"), formula, parts, middle=1.0
    )


def _edges(kind: Descriptor) -> Term | None:
    light = _brightness(kind)
    if light is None or not _has(kind, "|Ix|", "|Iy|"):
        return None
    vector, symbol = light
    both = _of(kind, {"|Ix|": 1.0, "|Iy|": 1.0})
    return _correlation(
        "edges",
        "Edges in dark or in bright areas",
        ("in dark areas", "in bright areas"),
        f"corr({symbol}, |Ix| + |Iy|)",
        vector,
        both,
    )


def _corners(kind: Descriptor) -> Term | None:
    if not _has(kind, "|Ix|", "|Iy|"):
        return None
    return _correlation(
        "corners",
        "Lines or corners",
        ("straight lines", "corners"),
        "corr(|Ix|, |Iy|)",
        _of(kind, {"|Ix|": 1.0}),
        _of(kind, {"|Iy|": 1.0}),
    )


def _lit(kind: Descriptor, axis: str, name: str, title: str, ends: tuple[str, str]) -> Term | None:
    light = _brightness(kind)
    if light is None or not kind.grid or not _has(kind, axis):
        return None
    vector, symbol = light
    formula = f"corr({axis}, {symbol})"
    return _correlation(name, title, ends, formula, _of(kind, {axis: 1.0}), vector)


def _brightness(kind: Descriptor) -> tuple[FloatArray, str] | None:
    """Return brightness as a combination of features, with its symbol; None where it is none."""
    if _has(kind, "I"):
        return _of(kind, {"I": 1.0}), "I"
    if _has(kind, *LUMINANCE):
        symbol = " + ".join(f"{weight:g} {name}" for name, weight in LUMINANCE.items())
        return _of(kind, LUMINANCE), symbol
    return None


def _has(kind: Descriptor, *names: str) -> bool:
    return set(names) <= set(kind.features)


def _of(kind: Descriptor, weights: dict[str, float]) -> FloatArray:
    """Return a combination of features as a vector, (k,)."""
    return np.array([weights.get(name, 0.0) for name in kind.features])


def _size(
    name: str,
    title: str,
    ends: tuple[str, str],
    formula: str,
    parts: list[tuple[FloatArray, float]],
    *,
    unit: str = "",
    middle: float | None = None,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Term:
    """Return the term Π sd(a·φ)^w over `parts` (a, w)."""
    vectors, powers = np.array([a for a, _ in parts]), np.array([w for _, w in parts])
    scaled = partial(_log_size, vectors=vectors, powers=powers)
    return Term(name, title, *ends, unit, formula, scaled, np.exp, middle, limits)


def _correlation(
    name: str, title: str, ends: tuple[str, str], formula: str, a: FloatArray, b: FloatArray
) -> Term:
    """Return the correlation of a·φ and b·φ as a term."""
    scaled = partial(_fisher, a=a, b=b)
    return Term(name, title, *ends, "", formula, scaled, np.tanh, 0.0)


def _mean(descriptors: FloatArray, *, weights: FloatArray) -> FloatArray:
    """Return a combination of the means: L_i1 of the Cholesky factor, whatever L_11 is."""
    first = descriptors[..., 0] / np.sqrt(descriptors[..., :1, 0])
    return np.asarray(first @ weights)


def _of_block(descriptors: FloatArray, *, scaled: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return a term of the covariance in Gaussian embeddings: what the first row leaves."""
    first = descriptors[..., 0] / np.sqrt(descriptors[..., :1, 0])
    return scaled(descriptors - first[..., :, np.newaxis] * first[..., np.newaxis, :])


def _log_size(descriptors: FloatArray, *, vectors: FloatArray, powers: FloatArray) -> FloatArray:
    variances = np.einsum("pi,...ij,pj->...p", vectors, descriptors, vectors)
    return np.asarray(np.log(variances) @ powers / 2.0)


def _fisher(descriptors: FloatArray, *, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return artanh of the correlation (Fisher's z)."""
    both = np.stack([a, b])
    found = np.einsum("pi,...ij,qj->...pq", both, descriptors, both)
    spread = np.sqrt(found[..., 0, 0] * found[..., 1, 1])
    return np.asarray(np.arctanh(found[..., 0, 1] / spread))
