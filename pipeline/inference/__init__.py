"""What a release says: regions, tests and classifiers, from released values alone.

    released ─► read ─► coordinates ─┬► region         where the true mean lies
    (document)   │                   ├► two_sample     are two releases of one population?
                 └► covariance ──────┼► lda            which class is a new image of?
                                     ├► combine        what several hospitals say together
                                     └► principal_geodesics   along which images differ most

Everything here is post-processing of noised values: it costs no privacy, and needs no images. A
released class is what `private_mean` returned first, or an entry of ``classes`` in a document of
`covdp release`. Read in this order: ``released.py``, ``covariance.py``, ``coordinates.py``,
``ellipsoids.py``, ``regions.py``, ``streams.py``, ``changes.py``, ``comparing.py``,
``classifying.py``, ``pooling.py``, ``geodesics.py``.
"""

from pipeline.inference.classifying import Discriminants, lda, nearest_mean, of_means
from pipeline.inference.comparing import Comparison, together, two_sample, untested
from pipeline.inference.covariance import covariance, raw_covariance
from pipeline.inference.geodesics import Geodesics, principal_geodesics
from pipeline.inference.pooling import Combined, combine
from pipeline.inference.regions import Region, region

__all__ = [
    "Combined",
    "Comparison",
    "Discriminants",
    "Geodesics",
    "Region",
    "combine",
    "covariance",
    "lda",
    "nearest_mean",
    "of_means",
    "principal_geodesics",
    "raw_covariance",
    "region",
    "together",
    "two_sample",
    "untested",
]
