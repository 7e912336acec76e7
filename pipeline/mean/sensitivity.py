"""Sensitivities: how far a statistic moves when one of n records is replaced, rounding included.

**The adaptive mean** has one private operation: the noisy mean of vectors of diameter 1.

*Privacy.* Replace-one, n public. Each record is mapped, by itself, to a vector of a set of
diameter at most 1: replacing one of n records moves their mean by at most Δ = 1/n. The map may
depend on what was released before (adaptive composition). Gaussian noise of scale σ(budget, Δ) on
the mean costs its share of the budget, and the shares compose to the whole.

*Numerics.* Let u = 2⁻⁵³. Before it is added a vector goes through fewer than 1000 + d roundings,
each of which moves it by at most u times its norm, which is at most 1: the computed vectors form a
set of diameter at most 1 + 2e-12 + 2du, and with products and overshoots, which move by at most
√3 times as much (``sums.py``). Rounding to the lattice 2⁻⁴⁰·Z (``sums.py``) moves two of
them apart by at most √d·2⁻³⁹ + 2⁻³⁷, as it says there. Counts
are whole numbers as they are. Sums are exact, so neighbours' sums differ by the one vector that was
replaced, whatever n is. Dividing by n rounds each coordinate of the mean, of norm at most 1, once:
by at most u in all, on each of the two data sets. Together

    Δ = (1 + 2e-12 + 2du + √d·2⁻³⁹ + 2⁻³⁷)/n + 2u.

What a record is mapped to is a function of that record and of released values alone, to the last
bit, so nothing else needs a margin. With the lattice's noise the account holds for the floats as
they are; with NumPy's it is idealised.

**A mechanism** protects a statistic of its own. Which rule holds follows from what the mechanism's
Δ bounds (`Family.moves`), from the manifold's curvature, and from which mean is taken.
"""

import math

from covdp.descriptors import DescriptorDomain
from covdp.descriptors.bounds import ROUNDOFF, UPWARDS
from covdp.errors import PrivacyError
from covdp.geometry import Manifold
from covdp.geometry.covariances import covariances_of
from covdp.geometry.manifold import EmbeddedManifold
from covdp.mean.plan import SinglePlan
from covdp.mean.public_model import Domain, check_domain
from covdp.mean.records import MEAN_TOLERANCE, Records
from covdp.mean.release import Labels
from covdp.mean.sums import PER_UNIT
from covdp.mechanisms import Family
from covdp.mechanisms.exponential import (
    chord,
    convexity,
    gradient_sensitivity,
    laplace_sensitivity,
)


def vector_diameter(dim: int) -> float:
    """Return the diameter of the set of computed vectors of length `dim`, on the lattice.

    Parameters
    ----------
    dim : int
        Length of a vector.

    Returns
    -------
    float
        Diameter, just above 1.
    """
    lattice = (2.0 * math.sqrt(dim) + 8.0) / PER_UNIT
    return 1.0 + 2e-12 + 2.0 * dim * ROUNDOFF + lattice


def mean_sensitivity(n: int, dim: int) -> float:
    """Return Δ of the mean of n vectors of length `dim`, see the top of this file.

    The roundings of this formula itself are among the 1000.

    Parameters
    ----------
    n : int
        Number of vectors.
    dim : int
        Length of a vector.

    Returns
    -------
    float
        Largest move Δ of the mean by one record.
    """
    return vector_diameter(dim) / n + 2.0 * ROUNDOFF


def step_sensitivity(labels: Labels, n: int, dim: int) -> float:
    """Return Δ of what one step releases of a class of n records: of their mean, or of their sum.

    With secret labels it is that of all classes' sums together, see ``release.py``.

    Parameters
    ----------
    labels : Labels
        Public facts of the labels.
    n : int
        Number of records of the class; of no effect with secret labels.
    dim : int
        Length of a vector.

    Returns
    -------
    float
        Largest move Δ by one record.
    """
    if labels.total is None:
        return mean_sensitivity(n, dim)
    return vector_diameter(dim) + 2.0 * labels.total * ROUNDOFF


def sensitivity(records: Records, plan: SinglePlan, family: Family) -> float:
    """Return Δ of the statistic that `plan` takes of the records, for the noise of `family`.

    **Barycentre** (releases; Hadamard). The computed log(origin, x̄) moves by at most ``span``/n
    (`Records.span`), tolerance and rounding of its steps included (``records.py``), and sums on
    a lattice add what ``sensitivity.py`` says.

    **Fréchet mean**: `frechet_sensitivity`.

    Parameters
    ----------
    records : Records
        Records of one class.
    plan : SinglePlan
        Plan of one draw.
    family : Family
        Mechanism of the plan.

    Returns
    -------
    float
        Largest move Δ of the statistic by one record, as `Family.moves` measures it.

    Raises
    ------
    PrivacyError
        Where no bound is known for the combination.
    """
    if plan.statistic == "barycentre":
        if not records.manifold.hadamard or family.moves == "embedding":
            raise PrivacyError(
                f"the barycentre has a bound on Hadamard manifolds and in their own distance, "
                f"found {family.name} on {records.manifold.name}; use the Fréchet mean"
            )
        if plan.sensitivity != "diameter":
            raise PrivacyError("the barycentre moves by D/n; leave sensitivity out")
        return records.span * mean_sensitivity(records.n, records.space.dim)
    return frechet_sensitivity(records.domain, records.n, plan, family, records.manifold)


def frechet_sensitivity(
    domain: Domain, n: int, plan: SinglePlan, family: Family, manifold: Manifold
) -> float:
    """Return Δ of the certified Fréchet mean of n records of `domain`.

    **Hadamard.** The barycentre is 1-Lipschitz for the Wasserstein-1 distance (Sturm 2003), so one
    replaced record moves it by at most dist(x, x')/n ≤ D/n; the papers bound the same by 2r/n. The
    computed mean is within τ of the exact one on both data sets, since F is 1-strongly convex and
    its gradient there is at most τ: add 2τ. The gradient of F moves by at most D/n at every point.

    **Embedded** mechanisms add noise to the matrix itself, so its own move counts, in Frobenius
    norm: at most `Manifold.stretch` of the largest eigenvalue times the distance.

    **Positive curvature** κ, records in B_r: the gradient moves by 2r(2 − h)/n, the Fréchet mean by
    2r(2 − h)/(n·h), and as a vector by the chord of that. The papers' 2r/n ("radius") is too small
    for the embedded Fréchet mean, and is retained to repeat their figure. The mean of outlines that
    were not aligned moves by at most 2/n, as no landmark is farther than 1 from the centre. The
    computed mean has an error of at most τ/h on both data sets.

    Parameters
    ----------
    domain : Domain
        Public bound on the records.
    n : int
        Public number of records.
    plan : SinglePlan
        Plan of one draw.
    family : Family
        Mechanism of the plan.
    manifold : Manifold
        Geometry of the mean.

    Returns
    -------
    float
        Largest move Δ of the mean by one record, as `Family.moves` measures it.

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension.

    Examples
    --------
    >>> from covdp import MANIFOLDS
    >>> from covdp.mean import Ball, SinglePlan
    >>> from covdp.mean.sensitivity import frechet_sensitivity
    >>> from covdp.mechanisms import MECHANISMS
    >>> manifold = MANIFOLDS["spd-log-euclidean"](k=2)
    >>> ball = Ball(1.0, manifold.name)
    >>> round(frechet_sensitivity(ball, 100, SinglePlan(), MECHANISMS["ewg"], manifold), 6)
    0.02
    """
    check_domain(domain, manifold)
    if manifold.curvature[1] > 0.0:
        return _on_positive_curvature(domain, n, plan, family, manifold.curvature[1])
    width = domain.diameter if plan.sensitivity == "diameter" else 2 * domain.radius
    bound = width / n + 2 * MEAN_TOLERANCE
    if family.moves == "embedding":
        bound *= stretch(domain, manifold)
    return bound * UPWARDS


def stretch(domain: Domain, manifold: Manifold) -> float:
    """Return the largest move of a mean, in Frobenius norm, for each unit of distance.

    Parameters
    ----------
    domain : Domain
        Public bound on the records.
    manifold : Manifold
        Geometry of the mean, embedded.

    Returns
    -------
    float
        Factor, in Frobenius norm a unit of distance.

    Raises
    ------
    PrivacyError
        Where the manifold has no embedding, or nothing bounds its matrices.
    """
    covariances = covariances_of(manifold)
    if not isinstance(manifold, EmbeddedManifold) or covariances is None:
        raise PrivacyError(
            f"no bound on matrices of {manifold.name} is known, which noise on the matrix itself "
            "needs; use a mechanism of the tangent space, such as ewg"
        )
    if isinstance(domain, DescriptorDomain):
        return manifold.stretch(domain.largest_eigenvalue)
    return manifold.stretch(covariances.largest(domain.radius, manifold.point_shape[0]))


def _on_positive_curvature(
    domain: Domain, n: int, plan: SinglePlan, family: Family, curvature: float
) -> float:
    radius = domain.radius
    if family.moves == "gradient":
        return gradient_sensitivity(n, radius, curvature) * UPWARDS
    if family.embedded and plan.sensitivity == "radius":
        return 2.0 * radius / n
    if not plan.aligned:
        return 2.0 / n
    move = laplace_sensitivity(n, radius, curvature)
    move = (move + 2.0 * MEAN_TOLERANCE / convexity(radius, curvature)) * UPWARDS
    return chord(move) if family.moves == "embedding" else move
