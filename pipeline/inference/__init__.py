"""Inference: regions, tests and classifiers, from released values alone.

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
`covdp release`. Read in this order: ``released.py``, ``confidence.py``, ``verdict.py``; the rest is
the add-on `covdp.addons.partners`, whose functions this package shows.
"""

from covdp.inference.confidence import ConfidenceRegion as ConfidenceRegion
from covdp.inference.confidence import clipping_moves as clipping_moves
from covdp.inference.confidence import region as region
from covdp.inference.released import NOISY as NOISY
from covdp.inference.released import certainty_refusal as certainty_refusal
from covdp.inference.verdict import NOTHING as NOTHING
from covdp.inference.verdict import Verdict as Verdict
from covdp.inference.verdict import is_usable as is_usable
from covdp.inference.verdict import usual_difference as usual_difference
from covdp.inference.verdict import verdict_of as verdict_of
from covdp.inference.verdict import verdicts as verdicts
from covdp.mean.noisy_moments import covariance as covariance
from covdp.registry import face

__getattr__, __dir__ = face("inference")
