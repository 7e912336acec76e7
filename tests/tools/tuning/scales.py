"""How wide descriptors lie in which direction, on tiles of the pictures that `covdp plan` looks at.

    python -m tests.tools.tuning --scales

writes `SCALES_FILE` of `covdp.mean.public_model`. Of each set of tiles comes the covariance off
the line, around the mean; tiles farther out than `FARTHEST` medians count as if they were there.
Sets are averaged in shape, and in size, so that faint pictures count as much as others; a `RIDGE`
keeps directions open in which no tile varies.
"""

import json

import numpy as np

from covdp.arrays import FloatArray
from covdp.descriptors import DESCRIPTORS, Descriptor, DescriptorDomain, domain_of
from covdp.files import atomic_path
from covdp.geometry import MANIFOLDS, Point, find_manifold
from covdp.geometry.covariances import covariances_of
from covdp.mean import admit
from covdp.mean.public_model import SCALES_FILE, default_prior, scales_name
from covdp.planning import TILE_SIDE, VOLUME_SIDE, reference_points

ETA, ETA_OF_MEANS = 1e-6, 1e-3
"""η; where there are means, one at which a bound is proven in all metrics."""
FARTHEST = 2.5
RIDGE = 0.05
"""Of the mean variance."""


def write_scales() -> None:
    """Write the file."""
    rows = [
        f"{json.dumps(name)}: [{', '.join(f'{value:.4g}' for value in upper)}]"
        for name, upper in scales().items()
    ]
    with atomic_path(SCALES_FILE) as temporary:
        temporary.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def scales() -> dict[str, FloatArray]:
    """Return the upper triangles, row by row, by descriptor and metric."""
    found = {}
    for spec in DESCRIPTORS.values():
        for name, make in MANIFOLDS.items():
            if covariances_of(make) is not None:
                shape = shape_of(spec, name)
                found[scales_name(spec.name, make.metric)] = shape[np.triu_indices(len(shape))]
    return found


def shape_of(spec: Descriptor, manifold: str) -> FloatArray:
    """Return the fourth root of the covariance, (d, d)."""
    line = default_prior(_facts(spec, manifold), MANIFOLDS[manifold](k=spec.k)).line
    assert line is not None
    off = np.eye(spec.dimension) - np.outer(line, line)
    found = [
        off @ _covariance(spec, points, manifold) @ off
        for points in reference_points(spec, _eta(spec))
    ]
    sizes = np.array([np.trace(one) for one in found])
    shape = np.mean(found / sizes[:, np.newaxis, np.newaxis], axis=0)
    shape += RIDGE / spec.dimension * np.eye(spec.dimension)
    shape *= np.exp(np.mean(np.log(sizes))) / np.trace(shape)
    values, vectors = np.linalg.eigh(shape)
    return np.asarray((vectors * values**0.25) @ vectors.T)


def _eta(spec: Descriptor) -> float:
    return ETA_OF_MEANS if spec.means else ETA


def _facts(spec: Descriptor, manifold: str) -> DescriptorDomain:
    sides = (
        (TILE_SIDE, TILE_SIDE) if spec.dimensions == 2 else (VOLUME_SIDE, VOLUME_SIDE, VOLUME_SIDE)
    )
    shape = sides if spec.channels == 1 else (*sides, spec.channels)
    return domain_of(spec.name, shape, eta=_eta(spec), manifold=manifold)


def _covariance(spec: Descriptor, points: Point, manifold: str) -> FloatArray:
    """Return the covariance of some descriptors around their mean, (d, d)."""
    facts = _facts(spec, manifold)
    records = admit(points, domain=facts, manifold=find_manifold(manifold, points))
    away = records.space.log(records.frechet.point, records.placed)
    far = np.linalg.norm(away, axis=1)
    away *= np.minimum(1.0, FARTHEST * np.median(far) / np.maximum(far, 1e-300))[:, np.newaxis]
    return np.asarray(away.T @ away / len(away))
