"""One release a night, which each record pays for once: the mean of all so far, every night.

    night's images ─► held back ─► opening ─► epoch ─► w = Σ c_{t−j}·x_j + noise ─► estimates
                                                ▲                                     │
                                                └──────── centre and clip ◄───────────┘

Every privacy unit comes on one night. A release anew each night would spend its whole budget again;
here what a privacy unit pays is spread over all nights to come, up to a public horizon, and the
noise is only ‖c‖_H·‖c‖_t times that of one release of everything: 3.2 times at night 200 of ten
years, where anew every night costs 60. Read in this order: ``factorisation.py``, ``plan.py`` (the
guarantee), ``pool.py``, ``history.py``, ``night.py``.
"""

from covdp.addons.nights.stream.factorisation import coefficients as coefficients
from covdp.addons.nights.stream.factorisation import column_norm as column_norm
from covdp.addons.nights.stream.history import WINDOWS as WINDOWS
from covdp.addons.nights.stream.history import CumulativeMean as CumulativeMean
from covdp.addons.nights.stream.history import Epoch as Epoch
from covdp.addons.nights.stream.history import Night as Night
from covdp.addons.nights.stream.history import OpeningRelease as OpeningRelease
from covdp.addons.nights.stream.history import PrivateSums as PrivateSums
from covdp.addons.nights.stream.history import covariance_of as covariance_of
from covdp.addons.nights.stream.history import cumulative_mean as cumulative_mean
from covdp.addons.nights.stream.history import empty_state as empty_state
from covdp.addons.nights.stream.history import join_streams as join_streams
from covdp.addons.nights.stream.history import split_epochs as split_epochs
from covdp.addons.nights.stream.history import window_between as window_between
from covdp.addons.nights.stream.history import window_mean as window_mean
from covdp.addons.nights.stream.night import add_placed as add_placed
from covdp.addons.nights.stream.night import add_units as add_units
from covdp.addons.nights.stream.night import draw_night as draw_night
from covdp.addons.nights.stream.night import release_night as release_night
from covdp.addons.nights.stream.plan import StreamMechanism as StreamMechanism
from covdp.addons.nights.stream.plan import StreamPlan as StreamPlan
from covdp.addons.nights.stream.plan import later_openings as later_openings
