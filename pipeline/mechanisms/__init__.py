"""Mechanisms: from a budget and a sensitivity to private points of a manifold.

    mechanism = MECHANISMS["ewg"].calibrate(budget, sensitivity=…, manifold=…)
    draws = mechanism.sample(statistic, base=footpoint, size=1, rng=rng)

Read in this order: ``base.py`` (what a mechanism is), ``noise.py`` (the Gaussian noise of a
release), ``wrapping.py`` (how accurate wrapped noise is, and what a footpoint changes),
``additive.py`` (the simplest), ``exponential.py`` with its exact laws ``radial.py``. Baselines and
Markov chains of the papers are in the add-on `covdp.addons.papers`.
"""

from covdp.mechanisms import additive, exponential
from covdp.mechanisms.base import Diagnostics as Diagnostics
from covdp.mechanisms.base import Draws as Draws
from covdp.mechanisms.base import Family as Family
from covdp.mechanisms.base import Mechanism as Mechanism
from covdp.mechanisms.noise import LATTICE as LATTICE
from covdp.mechanisms.noise import NOISES as NOISES
from covdp.mechanisms.noise import FloatNoise as FloatNoise
from covdp.mechanisms.noise import Noise as Noise
from covdp.mechanisms.noise import NoisyVector as NoisyVector
from covdp.registry import Registry

MECHANISMS = Registry[Family](
    "mechanisms",
    {
        family.name: family
        for family in (
            additive.EWL,
            additive.EWG,
            additive.TANGENT_GAUSSIAN,
            exponential.RL,
            exponential.KNG,
        )
    },
    word="mechanism",
)
"""Name → family."""


def refusal(name: str, definition: str, manifold: str, sampler: str = "exact") -> str | None:
    """Return one line saying why a combination of names means nothing, or None if it is sound.

    Whether the density exists at a given scale is decided later, by `Family.calibrate`.

    Parameters
    ----------
    name : str
        Name in `MECHANISMS`.
    definition : str
        Name in `covdp.privacy.DEFINITIONS`.
    manifold : str
        Name in `covdp.geometry.MANIFOLDS`.
    sampler : str
        "exact", or "chain" for the published Markov chain.

    Examples
    --------
    >>> from covdp.mechanisms import refusal
    >>> print(refusal("ewg", "pure", "spd-log-euclidean").partition(";")[0])
    Gaussian noise has no bounded density ratio, so it is not pure DP at any scale
    >>> refusal("ewl", "pure", "spd-log-euclidean") is None
    True
    """
    if name not in MECHANISMS:
        return f"a mechanism must be one of {', '.join(MECHANISMS)}; found {name!r}; choose one"
    return MECHANISMS[name].refusal(definition, manifold, sampler)


def no_footpoint(name: str) -> str:
    """Return one line saying why a mechanism draws no footpoint.

    Parameters
    ----------
    name : str
        Name in `MECHANISMS`.
    """
    able = ", ".join(name for name, family in MECHANISMS.items() if family.footpoint)
    return (
        f"a footpoint is a point of the manifold, drawn around one mean; {name} takes the records "
        f"or leaves the manifold; use one of {able}"
    )
