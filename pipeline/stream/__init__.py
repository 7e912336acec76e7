"""One release a night, which each record pays for once: the mean of all so far, every night.

    night's images ─► held back ─► opening ─► epoch ─► w = Σ c_{t−j}·x_j + noise ─► estimates
                                                ▲                                     │
                                                └──────── centre and clip ◄───────────┘

Every privacy unit comes on one night. A release anew each night would spend its whole budget again;
here what a privacy unit pays is spread over all nights to come, up to a public horizon, and the
noise is only ‖c‖_H·‖c‖_t times that of one release of everything: 3.2 times at night 200 of ten
years, where anew every night costs 60. Read in this order: ``factorisation.py``, ``plan.py`` (the
guarantee), ``mechanism.py``, ``history.py``, ``estimates.py``, ``epochs.py``, ``night.py``.
"""

from pipeline.stream.epochs import latest_moments
from pipeline.stream.estimates import (
    WINDOWS,
    CumulativeMean,
    WindowMean,
    covariance_of,
    cumulative_mean,
    join_streams,
    window_between,
    window_mean,
)
from pipeline.stream.factorisation import coefficients, column_norm
from pipeline.stream.history import (
    Epoch,
    Night,
    NoisyShares,
    OpeningRelease,
    PrivateSums,
    empty_state,
    split_epochs,
)
from pipeline.stream.mechanism import StreamMechanism
from pipeline.stream.night import add_placed, add_units, draw_night, release_night
from pipeline.stream.plan import StreamPlan, later_openings

__all__ = [
    "WINDOWS",
    "CumulativeMean",
    "Epoch",
    "Night",
    "NoisyShares",
    "OpeningRelease",
    "PrivateSums",
    "StreamMechanism",
    "StreamPlan",
    "WindowMean",
    "add_placed",
    "add_units",
    "coefficients",
    "column_norm",
    "covariance_of",
    "cumulative_mean",
    "draw_night",
    "empty_state",
    "join_streams",
    "later_openings",
    "latest_moments",
    "release_night",
    "split_epochs",
    "window_between",
    "window_mean",
]
