"""A release that is not worth its price: refused before it is paid, by public numbers alone.

===================  ==============================  ==========================================
what is asked for    records of a class, at best     refused where
===================  ==============================  ==========================================
a release, secret    all that are there, evenly      the lower end of the range that `covdp plan`
labels               split over the classes          states is not usable for anything
a release, public    those of the largest class      the same
labels
the first night of   all that are there; with        they are fewer than its first mean needs
a stream             public labels the largest class
===================  ==============================  ==========================================

A single class may have more than an even share where labels are secret, and images of a class may
be more similar than on any of the pictures behind the range. So a refusal can be overruled. It
depends on how many images or persons there are, which is public, and on no image or secret label.
"""

import math
from collections.abc import Sequence

from covdp.errors import ConfigError
from covdp.inference import NOTHING
from covdp.planning import is_foreseen, likely_verdict
from covdp.privacy.rounding import two_digits
from covdp.publish import ReleaseConfig

OVERRULE = "nothing was charged, and --even-if-useless overrules this"
"""The end of each refusal."""


def check_worth(config: ReleaseConfig, sizes: Sequence[int]) -> None:
    """Raise `ConfigError` where public numbers say that nothing will be usable.

    Parameters
    ----------
    config : ReleaseConfig
        A release, or a stream that is to be opened.
    sizes : sequence of int
        Records of each class; with secret labels one number, that of all classes together.
    """
    most, unit = max(sizes), config.unit
    where = "in all classes together" if config.secret else "in the largest class"
    if config.stream is not None:
        config.stream.check_worth(config, most, where)
        return
    if not is_foreseen(config.plan):
        return
    classes = len(config.card.classes) if config.secret else 1
    share = min(config.classes_per_person or 1, classes) / classes
    n = max(1, math.ceil(most * share))
    if likely_verdict(config, n, best=True).use != NOTHING:
        return
    even = max(1, math.floor(most * share))  # as `covdp plan` counts them
    likely = likely_verdict(config, even)
    factor = likely.factor ** (1 if config.definition == "gdp" else 2)  # error depends on n·μ
    evenly = f", about {even:,} a class," if classes > 1 else ""
    raise ConfigError(
        f"prediction: no mean is usable, as {most:,} {unit}s {where}{evenly} are too few at budget "
        f"= {config.budget:g}; about {two_digits(likely.needed)} a class are needed, or budget = "
        f"{two_digits(config.budget * factor)}; {OVERRULE}"
    )
