"""Mean descriptors in words for readers of images: contrast, roughness, edges, corners and so on.

A term is a function of a descriptor R, the covariance of pixel features. It exists for descriptors
that have its features, and for no others. Sizes and ratios are geometric means of standard
deviations: a gain multiplies the first and leaves the second, and transposed images have the
inverse of what is upright, all exactly. A Gaussian embedding has the terms of its covariance, and
of its means besides. What terms there are stands in ``terms.toml``. Next on the path: `describe`,
which makes R.
"""

import itertools
import math
import tomllib
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from covdp.arrays import FloatArray
from covdp.descriptors.base import Descriptor

LUMINANCE = {"R": 0.2125, "G": 0.7154, "B": 0.0721}
"""Weights of the luminance that derivatives of colour images are taken of."""
GRAYS = 255.0
"""Gray levels from black to white."""
GRAYS_A_UNIT = 32.0
"""Gray levels that are 1 on the scale of a mean: ln 10 of these, 74 levels to both sides, is
a band that says nothing (`readings.WIDEST_BAND`)."""


@dataclass(frozen=True, eq=False)
class Term:
    """One word for what a descriptor shows.

    Attributes
    ----------
    name, title : str
        Name in code, and on a page.
    low, high : str
        Words for small and for large values.
    meaning : str
        Property of an image that a value states, in one line.
    formula : str
        Formula in standard deviations (sd) and correlations (corr) of the features.
    scaled : callable
        (..., k, k) ↦ (...): the value on a scale without ends, on which noise is nearly Gaussian.
    unscaled : callable
        Map from that scale to the value.
    unit : str
        Unit of the value; empty for a pure number.
    middle : float or None
        The value between `low` and `high`, if there is one.
    least, most : float
        Between which the values of all images are: of 8 bits the contrast is 127.5 at most.
    """

    name: str
    title: str
    low: str
    high: str
    meaning: str
    formula: str
    scaled: Callable[[FloatArray], FloatArray]
    unscaled: Callable[[FloatArray], FloatArray]
    unit: str = ""
    middle: float | None = None
    least: float = -math.inf
    most: float = math.inf

    def value(self, descriptors: FloatArray) -> FloatArray:
        """Return the term of descriptors, (..., k, k) ↦ (...).

        Parameters
        ----------
        descriptors : array, shape (..., k, k)
            Descriptors of the images.
        """
        return self.unscaled(self.scaled(np.asarray(descriptors, dtype=np.float64)))


_TERMS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)["terms"]
SAID = ("name", "title", "low", "high", "meaning", "unit", "middle", "least", "most")
"""Fields copied verbatim from terms.toml."""


def terms_of(descriptor: Descriptor) -> tuple[Term, ...]:
    """Return the terms that the features of a descriptor allow, in reading order.

    Parameters
    ----------
    descriptor : Descriptor
        Descriptor from `DESCRIPTORS`.

    Examples
    --------
    >>> from covdp.descriptors import DESCRIPTORS, terms_of
    >>> [term.name for term in terms_of(DESCRIPTORS["oct5"])]
    ['contrast', 'roughness', 'upright', 'edges', 'corners']
    """
    terms = (_term(descriptor, row) for row in _TERMS)
    return tuple(term for term in terms if term is not None)


def _term(descriptor: Descriptor, row: dict[str, Any]) -> Term | None:
    """Return the term of a row of ``terms.toml``, None where the features do not allow it."""
    kind, groups, powers = row["kind"], row["of"], row.get("powers", [])
    edges = [name for name in descriptor.features if name.startswith("|I")]
    if ["edges"] in groups:
        if len(edges) < 4:
            return None
        groups = [[name] for name in edges] + groups[1:]
        powers = [1.0 / len(edges)] * len(edges) + powers[1:]
    light, symbol = _brightness(descriptor)
    vectors = _sums(descriptor, groups, light)
    if vectors is None or (kind == "mean" and not descriptor.means):
        return None
    grays = GRAYS / max((descriptor.ranges[descriptor.features.index(x)] for x in light), default=1)
    formula = row["formula"].format(
        light=symbol,
        edges=" · ".join(f"sd({name})" for name in edges),
        count=len(edges),
        levels="" if grays == 1.0 else f"{grays:g} · ",
    )
    if kind == "mean":
        vectors = vectors / len(groups[0]) / (descriptor.means * GRAYS_A_UNIT)
    elif "unit" in row:
        vectors = vectors * grays
    scaled, unscaled = _SCALES[kind]
    scaled = partial(scaled, vectors=vectors, powers=np.array(powers))
    if descriptor.means and kind != "mean":
        scaled = partial(_of_block, scaled=scaled)
    said = {key: row[key] for key in SAID if key in row}
    return Term(**said, formula=formula, scaled=scaled, unscaled=unscaled)


def _sums(
    descriptor: Descriptor, groups: list[list[str]], light: dict[str, float]
) -> FloatArray | None:
    """Return sums of features as vectors, (p, k); None where the descriptor has not all of them."""
    vectors = {name: {name: 1.0} for name in descriptor.features} | {"light": light}
    if not descriptor.grid:
        vectors |= {"x": {}, "y": {}}
    parts = [[vectors.get(name, {}) for name in group] for group in groups]
    if not all(itertools.chain(*parts)):
        return None
    sums = [dict(ChainMap(*group)) for group in parts]
    return np.array([[each.get(name, 0.0) for name in descriptor.features] for each in sums])


def _brightness(descriptor: Descriptor) -> tuple[dict[str, float], str]:
    """Return brightness as a sum of features, with its symbol; empty where it is none."""
    if "I" in descriptor.features:
        return {"I": 1.0}, "I"
    if set(LUMINANCE) <= set(descriptor.features):
        return LUMINANCE, " + ".join(f"{weight:g} {name}" for name, weight in LUMINANCE.items())
    return {}, ""


def _mean(descriptors: FloatArray, *, vectors: FloatArray, powers: FloatArray) -> FloatArray:
    """Return a combination of the means: L_i1 of the Cholesky factor, whatever L_11 is."""
    first = descriptors[..., 0] / np.sqrt(descriptors[..., :1, 0])
    return np.asarray(first @ vectors[0])


def _of_block(descriptors: FloatArray, *, scaled: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return a term of the covariance in Gaussian embeddings: what the first row leaves."""
    first = descriptors[..., 0] / np.sqrt(descriptors[..., :1, 0])
    return scaled(descriptors - first[..., :, np.newaxis] * first[..., np.newaxis, :])


def _log_size(descriptors: FloatArray, *, vectors: FloatArray, powers: FloatArray) -> FloatArray:
    variances = np.einsum("pi,...ij,pj->...p", vectors, descriptors, vectors)
    return np.asarray(np.log(variances) @ powers / 2.0)


def _fisher(descriptors: FloatArray, *, vectors: FloatArray, powers: FloatArray) -> FloatArray:
    """Return artanh of the correlation (Fisher's z)."""
    sums = np.einsum("pi,...ij,qj->...pq", vectors, descriptors, vectors)
    spread = np.sqrt(sums[..., 0, 0] * sums[..., 1, 1])
    return np.asarray(np.arctanh(sums[..., 0, 1] / spread))


_SCALES: dict[str, tuple[Callable[..., FloatArray], Callable[..., FloatArray]]] = {
    "mean": (_mean, partial(np.multiply, GRAYS_A_UNIT)),
    "size": (_log_size, np.exp),
    "correlation": (_fisher, np.tanh),
}
"""Kind of a term → from descriptors to its scale, and from there to its value."""
