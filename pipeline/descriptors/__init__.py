"""Descriptors: images in, symmetric positive definite matrices and a proven bound on them out.

Read `registry` (what there is), `describe` (images to matrices), `diameter` (how far apart two of
them can be), `verify` (does that hold on these data); `kernels` is the engine room.
"""

from pipeline.descriptors.describe import describe
from pipeline.descriptors.diameter import DescriptorDomain, domain
from pipeline.descriptors.registry import DESCRIPTORS, Descriptor
from pipeline.descriptors.verify import Bound, merge_bounds, require, verify

__all__ = [
    "DESCRIPTORS",
    "Bound",
    "Descriptor",
    "DescriptorDomain",
    "describe",
    "domain",
    "merge_bounds",
    "require",
    "verify",
]
