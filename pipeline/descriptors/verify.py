"""Does the proven bound hold on these descriptors, and how tight is it? Per class.

The bound is a theorem about images; checking it guards against everything a theorem does not see:
descriptors made elsewhere, a wrong η, a filter without gain 1. Its rows are computed from the data
without noise: they belong in experiments and never in a release.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray, LabelArray, check_square
from pipeline.descriptors.diameter import DescriptorDomain
from pipeline.errors import DatasetError, DomainError
from pipeline.geometry import MANIFOLDS


class Bound(NamedTuple):
    """The bound on one class; not private."""

    label: int
    name: str
    n: int
    largest: float
    """Largest dist(R, Id), 0 if the class is empty."""
    radius: float
    ratio: float
    """largest / radius: how tight the bound is, at most 1."""
    diameter: float
    least_eigenvalue: float
    largest_trace: float
    ok: bool
    """largest ≤ r, least eigenvalue ≥ η and trace ≤ T + kη, up to `DescriptorDomain.rounding`."""


def verify(
    descriptors: FloatArray,
    labels: LabelArray,
    domain: DescriptorDomain,
    classes: Sequence[str] | None = None,
) -> tuple[Bound, ...]:
    """Return, for each class, the largest distance to Id next to the proven radius.

    The exact figures obey the bounds exactly (a constant image has R = η·Id and reaches r), the
    computed ones up to ``domain.rounding``: that, and no more, is the tolerance.

    Parameters
    ----------
    descriptors : array, shape (n, k, k)
        As made by `describe` with the descriptor, size and η of `domain`.
    labels : int array, shape (n,)
        Class of each descriptor.
    domain : DescriptorDomain
        The bounds.
    classes : sequence of str, optional
        Names, one a label from 0 on. Left out: one row for each label that occurs.

    Returns
    -------
    tuple of Bound
        In the order of the labels. Nothing is raised for a violation: see `require`.

    Raises
    ------
    DomainError
        When the descriptors are not finite (n, k, k) matrices.
    DatasetError
        When labels and descriptors or class names do not match.
    """
    matrices = check_square(descriptors, k=domain.k)
    labels = np.asarray(labels)
    if matrices.ndim != 3 or labels.shape != matrices.shape[:1]:
        raise DatasetError(
            f"one label a descriptor is needed, found labels of shape {labels.shape} for "
            f"descriptors of shape {matrices.shape}"
        )
    if classes is None:
        names = {int(label): str(label) for label in np.unique(labels)}
    else:
        names = dict(enumerate(classes))
    if not np.isin(labels, list(names)).all():
        raise DatasetError(f"labels must be 0..{len(names) - 1}, the classes of the dataset")
    eigenvalues = np.asarray(np.linalg.eigvalsh(matrices), dtype=np.float64)
    distances = _distances(matrices, eigenvalues, domain)
    traces = np.trace(matrices, axis1=-2, axis2=-1)
    return tuple(
        _bound(label, name, distances[mine], eigenvalues[mine], traces[mine], domain)
        for label, name in names.items()
        for mine in [labels == label]
    )


def _distances(
    matrices: FloatArray, eigenvalues: FloatArray, domain: DescriptorDomain
) -> FloatArray:
    """Return dist(R, Id) of each matrix, infinite if floats cannot tell it positive definite."""
    out = np.full(len(matrices), np.inf)
    positive = eigenvalues[:, 0] > 1e-15 * domain.k * eigenvalues[:, -1]
    if positive.any():
        manifold = MANIFOLDS[domain.manifold](k=domain.k)
        out[positive] = manifold.dist(manifold.origin, matrices[positive])
    return out


def _bound(
    label: int,
    name: str,
    distances: FloatArray,
    eigenvalues: FloatArray,
    traces: FloatArray,
    domain: DescriptorDomain,
) -> Bound:
    largest = float(np.max(distances, initial=0.0))
    least = float(np.min(eigenvalues, initial=np.inf))
    trace = float(np.max(traces, initial=0.0))
    ok = (
        largest <= domain.radius + domain.rounding
        and least >= domain.eta / (1 + domain.rounding)
        and trace <= domain.trace + domain.k * domain.eta * (1 + domain.rounding)
    )
    return Bound(
        label=label,
        name=name,
        n=len(distances),
        largest=largest,
        radius=domain.radius,
        ratio=largest / domain.radius,
        diameter=domain.diameter,
        least_eigenvalue=least,
        largest_trace=trace,
        ok=ok,
    )


def merge_bounds(bounds: Sequence[Bound]) -> Bound:
    """Return the bound on one class from those on its parts, of which there is one or more."""
    first, largest = bounds[0], max(part.largest for part in bounds)
    return first._replace(
        n=sum(part.n for part in bounds),
        largest=largest,
        ratio=largest / first.radius,
        least_eigenvalue=min(part.least_eigenvalue for part in bounds),
        largest_trace=max(part.largest_trace for part in bounds),
        ok=all(part.ok for part in bounds),
    )


def require(bounds: Sequence[Bound]) -> None:
    """Raise `DomainError` naming the first class that is outside its bound, if there is one."""
    for row in bounds:
        if not row.ok:
            raise DomainError(
                f"class {row.name}: distance to the identity {row.largest:.6g} with radius "
                f"{row.radius:.6g}, least eigenvalue {row.least_eigenvalue:.3g}, trace "
                f"{row.largest_trace:.6g}: outside the proven domain; describe the images with "
                "the same descriptor, size and eta"
            )
