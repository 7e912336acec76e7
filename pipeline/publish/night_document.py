"""The document of one night of a stream: what the ledger commits of it, and no more.

    tonight's rows (``transcript.py``) ─┬► what later nights and every estimate are made from
                                        └► the mean so far, windows: post-processing of all rows

Next on the path: ``night.py``, which draws it.
"""

import math
from collections.abc import Sequence
from typing import Any

from pipeline.inference import mean_certainty
from pipeline.ledger import NightReservation, StreamAccount
from pipeline.privacy import GDP, privacy_statement
from pipeline.publish.document import Public, account_part
from pipeline.publish.transcript import ClassHistory, estimate_row, night_row, stands_on
from pipeline.stream import WINDOWS, column_norm, cumulative_mean, join_streams, window_mean

ENTERED = (
    "equality of contents: an image that entered on an earlier night is left out, and of equal "
    "images all but the first, so whoever may submit images and sees how many entered can tell "
    "that; an image that cannot be read stops a night"
)
KNOWN = (
    "who entered: the later images of a person who entered on an earlier night are left out, so "
    "whoever may submit images of somebody and sees how many entered can tell that; an image that "
    "cannot be read stops a night"
)
"""What else may be seen from outside, of images and of persons."""


def make_night(
    public: Public, account: StreamAccount, held: NightReservation, classes: Sequence[ClassHistory]
) -> dict[str, Any]:
    """Return the document of the last night of some histories as JSON values."""
    stream = classes[0].stream
    plan = stream.plan
    return {
        "title": public.config.title,
        "settings": public.settings(),
        "night": held.night,
        "horizon": plan.horizon,
        "coefficient_norm": column_norm(plan.horizon),
        **stands_on(stream),
        "classes": [_row(public, found) for found in classes],
        "statement": _statement(public, account, held, classes),
        "account": account_part(account.account, account.cost),
    }


def _row(public: Public, found: ClassHistory) -> dict[str, Any]:
    """Return what is said of a class."""
    stream, night, budget = found.stream, found.nights[-1], public.config.cost
    estimate = cumulative_mean(stream, found.nights)
    row = night_row(stream, night)
    known = [step["rho"] for step in row["costs"]]
    both = [one for one in (found.before, estimate) if one is not None]
    return {
        "label": found.label,
        "class_name": found.name,
        "n": night.n_so_far,
        **row,
        "mu": budget.mu if isinstance(budget, GDP) else None,
        "rho": math.fsum(known) if known and None not in known else None,
        "point": None if estimate is None else estimate.point.tolist(),
        "coordinates": None if estimate is None else estimate.offset.tolist(),
        "no_point": _why_not(found) if estimate is None else None,
        "predicted_error": None if estimate is None else math.sqrt(estimate.covariance.trace()),
        "certainty": mean_certainty(stream, found.nights),
        "windows": [told for nights in WINDOWS if (told := _window(found, nights))],
        **({"before": estimate_row(found.before)} if found.before and night.night == 1 else {}),
        **({"joined": estimate_row(join_streams(stream, *both))} if found.before else {}),
    }


def _why_not(found: ClassHistory) -> str:
    """Say why there is no mean yet, and when there will be one."""
    plan = found.stream.plan
    return (
        f"no mean yet: the {found.nights[-1].n_so_far} so far are held back until there are "
        f"{math.ceil(plan.opening / plan.mu)}, as a mean of fewer would be noise, and what they "
        "pay for it they could not pay again"
    )


def _window(found: ClassHistory, nights: int) -> dict[str, Any] | None:
    """Return the mean of the last nights, and the exact variances of its noise along `axes`.

    With A the rows of `axes`, the covariance of `coordinates` is Aᵀ·diag(`variances`)·A.
    """
    seen = window_mean(found.stream, found.nights, nights)
    if seen is None:
        return None
    into = found.stream.frame.to_axes
    return {
        "nights": nights,
        "first": seen.first,
        "last": seen.last,
        "n": seen.n,
        "point": seen.point.tolist(),
        "coordinates": seen.offset.tolist(),
        "variances": (into.T @ seen.covariance @ into).diagonal().tolist(),
    }


def _statement(
    public: Public, account: StreamAccount, held: NightReservation, classes: Sequence[ClassHistory]
) -> list[list[str]]:
    """Return titles and texts: what one unit pays, for how long, and what everybody may know."""
    config, unit = public.config, public.config.unit
    last = {found.name: found.nights[-1] for found in classes}
    horizon, left = account.horizon, account.horizon - held.night
    follows = None if config.stream is None else config.stream.follows
    told = privacy_statement(
        config.promise,
        n_by_class={name: night.n_so_far for name, night in last.items()},
        classes_per_person=config.classes_per_person,
        group=config.images_per_person,
        composition=f"each {unit} enters on one night and pays there once, for that night and all "
        f"to come up to night {horizon} together; releases outside of this stream about the same "
        f"{unit}s add up",
        public=(
            f"on which night each {unit} entered",
            "horizon, opening, descriptor, domain and plan",
        ),
        hardened=config.hardened,
        not_covered=(ENTERED if config.classes_per_person is None else KNOWN,),
        seen="all nights of this stream, for ever,",
        so_far=True,
    )
    entered = ", ".join(f"{name}: {night.units}" for name, night in last.items())
    return [
        *map(list, told.items()),
        [f"{unit.capitalize()}s of this night (exact)", entered],
        ["Horizon", f"night {held.night} of {horizon}; {left} left"],
        [
            "Charged to the account",
            f"{account.cost}, once, when the stream was opened; this night cost nothing more"
            + (f", nor did the stream, as it follows {follows!r}" if follows else ""),
        ],
    ]
