"""Descriptors: images in, symmetric positive definite matrices and a proven bound on them out.

Read `base` (what a descriptor is), `images`, `volumes` and `gauss` (what there is), `describe` (by
name, and images to matrices), `bounds` (how far apart two of them can be, and whether that holds on
these data), `terms` (what they say to a reader of images); `kernels` is the engine room.
"""

from covdp.descriptors.base import Descriptor as Descriptor
from covdp.descriptors.bounds import Bound as Bound
from covdp.descriptors.bounds import DescriptorDomain as DescriptorDomain
from covdp.descriptors.bounds import domain as domain
from covdp.descriptors.bounds import domain_of as domain_of
from covdp.descriptors.bounds import require as require
from covdp.descriptors.bounds import verify as verify
from covdp.descriptors.describe import DESCRIPTORS as DESCRIPTORS
from covdp.descriptors.describe import describe as describe
from covdp.descriptors.describe import descriptors_for as descriptors_for
from covdp.descriptors.describe import find_descriptor as find_descriptor
from covdp.descriptors.describe import require_descriptor_for as require_descriptor_for
from covdp.descriptors.terms import Term as Term
from covdp.descriptors.terms import terms_of as terms_of
