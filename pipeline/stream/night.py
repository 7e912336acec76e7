"""One night of one class: units go in, one release and what the next night needs come out.

    before the opening   units are held back, nothing is released
    the opening          one adaptive mean of all that were held back, at the whole budget
    every later night    survey, shells and clipped vectors of all nights since, weighted, noised;
                         the vectors with their products, the second moment, which costs nothing

A night without units is released like any other. What is released of a night depends on the units
through whole numbers alone: their order is not in it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError, PrivacyError
from pipeline.geometry import Point
from pipeline.mean import draw, prepare
from pipeline.mean.clip import clipping, sizes_within
from pipeline.mean.histogram import shell_counts, survey_counts
from pipeline.mean.rounds import SQRT2
from pipeline.mean.sums import clipped_totals, sizes
from pipeline.mechanisms.noise import Noise
from pipeline.stream.epochs import begin_epoch, epoch_due
from pipeline.stream.factorisation import Limbs, to_limbs
from pipeline.stream.history import (
    Epoch,
    EpochHistory,
    Night,
    OpeningRelease,
    PrivateSums,
    split_epochs,
)
from pipeline.stream.mechanism import StreamMechanism
from pipeline.stream.plan import MOST_UNITS


def release_night(
    stream: StreamMechanism,
    history: Sequence[Night],
    private: PrivateSums,
    points: Point,
    *,
    noise: Noise,
) -> tuple[Night, PrivateSums]:
    """Return what the next night of a stream releases, and the private sums up to it.

    **Privacy.** As `StreamPlan` says, if each unit is among the `points` of one night only, the
    noise of each night is drawn afresh, and a night that was drawn is not drawn again with other
    units or published twice: that is for the caller to see to.

    Parameters
    ----------
    stream : StreamMechanism
    history : sequence of Night
        All nights before, as they were released.
    private : PrivateSums
        What the night before returned, `nothing` on the first.
    points : array, shape (m, *point_shape)
        This night's units; there may be none. Those outside the domain are moved to its region.
    noise : Noise
        `LATTICE`, or `FloatNoise` of a generator.

    Raises
    ------
    PrivacyError
        After the horizon.
    ConfigError
        When `private` is not of this history, or there are more than `MOST_UNITS` units.
    """
    after = add_units(stream, history, private, points)
    return draw_night(stream, history, after, len(points), noise=noise), after


def add_units(
    stream: StreamMechanism, history: Sequence[Night], private: PrivateSums, points: Point
) -> PrivateSums:
    """Return the private sums with one night more; nothing is drawn.

    Parameters and errors are those of `release_night`.
    """
    _check_going(stream, history, len(points))
    return add_placed(stream, history, private, stream.placed(points))


def add_placed(
    stream: StreamMechanism, history: Sequence[Night], private: PrivateSums, placed: FloatArray
) -> PrivateSums:
    """Return the same of units that `Stream.placed` gave."""
    past = split_epochs(history)
    if past.opened is not None and not past.segments:
        private = replace(private, held=private.held[:0])  # the opening has them
    _check(past, private)
    if past.opened is None:
        return replace(private, held=np.concatenate([private.held, placed]))
    fresh = _fresh(stream, history, past)
    return _add_row(stream, fresh, fresh or past.segments[-1].epoch, private, placed)


def draw_night(
    stream: StreamMechanism,
    history: Sequence[Night],
    after: PrivateSums,
    units: int,
    *,
    noise: Noise,
) -> Night:
    """Return what the next night releases; see `release_night` for its privacy.

    Parameters
    ----------
    stream, history, noise
        As in `release_night`.
    after : PrivateSums
        What `add_units` returned of the night.
    units : int
        How many came.
    """
    past, plan = split_epochs(history), stream.plan
    n = _check_going(stream, history, units)
    number = len(history) + 1
    if past.opened is None:
        if len(after.held) != n:
            raise _foreign_sums(past, after)
        if not plan.opens(n):
            return Night(number, units, n)
        return draw_openings(stream, number, after, units, noise=noise, size=1)[0]
    fresh = _fresh(stream, history, past)
    nights = len(past.survey) + 1, 1 if fresh else len(past.segments[-1].w) + 1
    if (len(after.survey), len(after.shells), len(after.means)) != (*nights, nights[1]):
        raise _foreign_sums(past, after)
    d, told = (
        stream.space.dim,
        [
            noise(vector, step.sigma, step.sensitivity)
            for vector, step in zip(after.vectors, stream.steps, strict=True)
        ],
    )
    survey, shells, both = (found.vector for found in told)
    rhos = tuple(found.rho for found in told)
    return Night(number, units, n, None, fresh, survey, shells, both[:d], both[d:], rhos)


def _fresh(stream: StreamMechanism, history: Sequence[Night], past: EpochHistory) -> Epoch | None:
    """Return the epoch that begins tonight, if one does."""
    return begin_epoch(stream, history) if epoch_due(history, past) else None


def _check_going(stream: StreamMechanism, history: Sequence[Night], units: int) -> int:
    """Return how many units there are with tonight's, or raise when there is no such night."""
    plan = stream.plan
    if len(history) >= plan.horizon:
        raise PrivacyError(
            f"the stream ends with night {plan.horizon}, its horizon, which its noise was made "
            "for; open a new stream for new units, and join what both released (`joined`)"
        )
    n = units + (history[-1].n_so_far if history else 0)
    if n > MOST_UNITS:
        raise ConfigError(
            f"a stream has at most {MOST_UNITS} units, found {n}; open a new one for these"
        )
    return n


def _check(past: EpochHistory, private: PrivateSums) -> None:
    """Raise `ConfigError` unless the private sums have as many nights and units as the history."""
    waiting = 0 if past.opened else past.held
    epoch = len(past.segments[-1].w) if past.segments else 0
    found = len(private.held), len(private.survey), len(private.shells), len(private.means)
    if found != (waiting, len(past.survey), epoch, epoch):
        raise _foreign_sums(past, private)


def _foreign_sums(past: EpochHistory, private: PrivateSums) -> ConfigError:
    waiting = 0 if past.opened else past.held
    return ConfigError(
        f"the private sums of {len(private.survey)} nights, with {len(private.held)} units that "
        f"wait, do not belong to a history of {len(past.survey)} nights since its opening and "
        f"{waiting} units that wait; make them again from the images"
    )


def draw_openings(
    stream: StreamMechanism,
    number: int,
    after: PrivateSums,
    units: int,
    *,
    noise: Noise,
    size: int,
) -> list[Night]:
    """Return `size` openings of a stream on its night `number`, each of which costs the budget.

    The order of the units held back is not in them. See `draw_night` for `after` and `units`.
    """
    prepared = prepare(stream.records(after.held), stream.opening, rng=None)
    release = draw(prepared, stream.plan.budget, noise=noise, size=size)[0]
    survey, shells = (release.steps[step].sigma * SQRT2 for step in (0, -2))
    return [
        Night(
            number,
            units,
            len(after.held),
            opened=OpeningRelease(output, moments, survey, shells),
            rhos=tuple(rhos.tolist()),
        )
        for output, moments, rhos in zip(
            release.outputs, release.moments, release.rhos, strict=True
        )
    ]


def _add_row(
    stream: StreamMechanism,
    fresh: Epoch | None,
    epoch: Epoch,
    private: PrivateSums,
    placed: FloatArray,
) -> PrivateSums:
    """Return the private sums with one night more; those of an epoch begin with it."""
    frame, (line, shells) = stream.frame, stream.bins
    seen = stream.seen(placed)
    to = clipping(epoch.clip, frame, stream.in_axes(epoch.centre), stream.prior)
    part = seen, sizes(seen, to.centre, frame.lines)
    within = sizes_within(part, epoch.clip, frame)
    bins = survey_counts(seen, stream.spot(stream.centre), frame, line, shells)
    first, second = clipped_totals([part], to)
    went = 0 if fresh else len(private.means)
    return PrivateSums(
        held=private.held,
        survey=_with(private.survey, bins.tolist()),
        shells=_with(private.shells[:went], shell_counts(within, shells).tolist()),
        means=_with(private.means[:went], [*first, *second]),
    )


def _with(rows: Limbs, numbers: Sequence[int]) -> Limbs:
    """Return the rows of a series with that of one night more."""
    new = to_limbs(numbers)[np.newaxis]
    return np.concatenate([rows, new]) if len(rows) else new
