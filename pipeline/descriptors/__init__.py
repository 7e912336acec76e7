"""Descriptors: images in, symmetric positive definite matrices and a proven bound on them out.

Read `registry` (what there is), `describe` (images to matrices), `bounds` (how far apart two of
them can be, and whether that holds on these data), `terms` (what they say to a reader of
images); `kernels` and `volumes` are the engine room.
"""

from pipeline.descriptors.bounds import (
    Bound,
    DescriptorDomain,
    domain,
    domain_of,
    merge_bounds,
    require,
    verify,
)
from pipeline.descriptors.describe import describe
from pipeline.descriptors.registry import DESCRIPTORS, Descriptor, made_for, require_made_for

__all__ = [
    "DESCRIPTORS",
    "Bound",
    "Descriptor",
    "DescriptorDomain",
    "describe",
    "domain",
    "domain_of",
    "made_for",
    "merge_bounds",
    "require",
    "require_made_for",
    "verify",
]
