"""What a release says: regions, tests and classifiers, from released values alone.

    released ─► read ─► coordinates ─┬► region         where the true mean is
    (document)   │                   ├► two_sample     are two releases of one population?
                 └► covariance ──────┼► lda            which class is a new image of?
                                     ├► combine        what several hospitals say together
                                     ├► harmonise      maps that put scanners on one scale
                                     ├► verdict        what are the means usable for?
                                     ├► match          are local images like those of a release?
                                     └► principal_geodesics   along which images differ most

Everything here is post-processing of noised values: it costs no privacy, and needs no images. A
released class is what `private_mean` returned first, or an entry of ``classes`` in a document of
`covdp release`. Read in this order: ``released.py``, ``confidence.py``, ``tests.py``,
``verdict.py``,
``match.py``, ``classify.py``, ``combine.py``, ``harmonise.py``, ``geodesics.py``.
"""

from pipeline.inference.classify import Discriminants, discriminants_of_means, lda, nearest_mean
from pipeline.inference.combine import CombinedMean, combine
from pipeline.inference.confidence import (
    ConfidenceRegion,
    check_opening,
    least_opening,
    mean_certainty,
    region,
    stream_error,
)
from pipeline.inference.geodesics import PrincipalGeodesics, principal_geodesics
from pipeline.inference.harmonise import Harmonisation, HarmonisedSite, harmonise
from pipeline.inference.match import FLAGGED, Match, match, match_refusal
from pipeline.inference.released import (
    NOISY,
    clipping_bound,
    covariance,
    night_refusal,
    raw_covariance,
    read_released,
    region_refusal,
)
from pipeline.inference.tests import (
    ALPHA,
    Comparison,
    WindowTest,
    bonferroni,
    comparison_refusal,
    holm,
    two_sample,
    window_test,
)
from pipeline.inference.verdict import (
    NOTHING,
    USUAL_GAIN,
    Verdict,
    in_words,
    is_usable,
    most_noise,
    size_in_words,
    usual_difference,
    verdict_of,
    verdicts,
)

__all__ = [
    "ALPHA",
    "FLAGGED",
    "NOISY",
    "NOTHING",
    "USUAL_GAIN",
    "CombinedMean",
    "Comparison",
    "ConfidenceRegion",
    "Discriminants",
    "Harmonisation",
    "HarmonisedSite",
    "Match",
    "PrincipalGeodesics",
    "Verdict",
    "WindowTest",
    "bonferroni",
    "check_opening",
    "clipping_bound",
    "combine",
    "comparison_refusal",
    "covariance",
    "discriminants_of_means",
    "harmonise",
    "holm",
    "in_words",
    "is_usable",
    "lda",
    "least_opening",
    "match",
    "match_refusal",
    "mean_certainty",
    "most_noise",
    "nearest_mean",
    "night_refusal",
    "principal_geodesics",
    "raw_covariance",
    "read_released",
    "region",
    "region_refusal",
    "size_in_words",
    "stream_error",
    "two_sample",
    "usual_difference",
    "verdict_of",
    "verdicts",
    "window_test",
]
