"""Terms of several releases of one class, side by side: what a forest plot of them shows.

Here a band holds the value of the population that a release's people were drawn from: the noise of
its mean, what clipping may do to it in any direction (``readings.py``), and what a sample of n
differs by. Nothing is shrunk, as means of several releases are not alike in how much they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from scipy.special import ndtri

from pipeline.descriptors import DESCRIPTORS, Term, terms_of
from pipeline.geometry import Manifold
from pipeline.inference import ConfidenceRegion, covariance, read_released
from pipeline.publish.readings import Mean, Reading, of_bias, read_differences, read_terms

LEVEL = 0.95
"""Confidence of the bands, each for itself."""
WIDE = float(ndtri((1.0 + LEVEL) / 2.0))
"""Standard deviations on each side of them."""


class Forest(NamedTuple):
    """What some means say in each term.

    Attributes
    ----------
    terms : tuple of Term
    rows : mapping of str to tuple of Reading
        Name of a mean to what it says.
    """

    terms: tuple[Term, ...]
    rows: Mapping[str, tuple[Reading, ...]]


def forest(
    descriptor: str,
    names: Sequence[str],
    released: Sequence[Mapping[str, Any]],
    regions: Mapping[str, ConfidenceRegion] | None = None,
) -> Forest:
    """Return what releases of one class say, and what follows from all of them together."""
    terms = terms_of(DESCRIPTORS[descriptor])
    manifold = read_released(released[0]).manifold
    means = {name: population_mean(one) for name, one in zip(names, released, strict=True)}
    means |= {name: Mean(one.place, one.covariance) for name, one in (regions or {}).items()}
    found = {name: read_terms(terms, one, manifold, wide=WIDE) for name, one in means.items()}
    return Forest(terms, found)


def differences(
    descriptor: str, first: Mapping[str, Any], second: Mapping[str, Any]
) -> tuple[Reading, ...]:
    """Return by what the population of a second release differs from that of the first."""
    both = population_mean(first), population_mean(second)
    manifold: Manifold = read_released(first).manifold
    return read_differences(terms_of(DESCRIPTORS[descriptor]), *both, manifold, wide=WIDE)


def population_mean(released: Mapping[str, Any]) -> Mean:
    """Return a mean before it was shrunk, with its error as that of a population."""
    found = read_released(released)
    seen = found.observed
    point = found.space.exp(seen.base, seen.offset)
    if seen.moment is None:
        return Mean(point, None, seen.base)
    bias = of_bias(seen.bias_line, seen.bias_rest, seen.axes, seen.lines)
    return Mean(point, seen.noise + bias + covariance(seen) / seen.n, seen.base)
