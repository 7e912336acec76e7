"""Descriptors: images in, symmetric positive definite matrices and a proven bound on them out.

Read `registry` (what there is), `describe` (images to matrices), `diameter` (how far apart two of
them can be), `verify` (does that hold on these data), `terms` (what they say to a reader of
images); `kernels` and `volumes` are the engine room.
"""

from pipeline.descriptors.describe import describe
from pipeline.descriptors.diameter import DescriptorDomain, domain, domain_of
from pipeline.descriptors.registry import DESCRIPTORS, Descriptor, made_for, require_made_for
from pipeline.descriptors.verify import Bound, merge_bounds, require, verify

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
