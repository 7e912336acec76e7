"""Descriptors: images in, symmetric positive definite matrices and a proven bound on them out.

Read `base` (what a descriptor is), `images`, `volumes` and `gauss` (what there is), `describe` (by
name, and images to matrices), `bounds` (how far apart two of them can be, and whether that holds on
these data), `terms` (what they say to a reader of images); `kernels` is the engine room.
"""

from pipeline.descriptors.base import Descriptor
from pipeline.descriptors.bounds import (
    Bound,
    DescriptorDomain,
    domain,
    domain_of,
    merge_bounds,
    require,
    verify,
)
from pipeline.descriptors.describe import (
    DESCRIPTORS,
    describe,
    descriptors_for,
    find_descriptor,
    require_descriptor_for,
)
from pipeline.descriptors.terms import Term, terms_of

__all__ = [
    "DESCRIPTORS",
    "Bound",
    "Descriptor",
    "DescriptorDomain",
    "Term",
    "describe",
    "descriptors_for",
    "domain",
    "domain_of",
    "find_descriptor",
    "merge_bounds",
    "require",
    "require_descriptor_for",
    "terms_of",
    "verify",
]
