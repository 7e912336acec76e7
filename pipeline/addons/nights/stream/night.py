"""One night of one class: records go in, one release and what the next night needs come out.

    before the opening   records are held back, nothing is released
                         (with secret labels but for a count, which tells when to open)
    an opening           one adaptive mean of all that were held back, at the whole budget, or
                         what the counts have left of it
    every later night    shells and clipped vectors of all nights since, weighted, noised; the
                         vectors with products and overshoots, which cost nothing

A night without records is released like any other. What is released of a night depends on the
records through whole numbers alone: their order is not in it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from covdp.addons.nights.stream.factorisation import Limbs, to_limbs, words_to_limbs
from covdp.addons.nights.stream.history import (
    Epoch,
    EpochHistory,
    Night,
    OpeningRelease,
    PrivateSums,
    begin_epoch,
    clipping_of,
    epoch_due,
    split_epochs,
    waiting_count,
)
from covdp.addons.nights.stream.plan import MOST_UNITS, StreamMechanism
from covdp.arrays import FloatArray
from covdp.errors import ConfigError, PrivacyError
from covdp.geometry import Point
from covdp.mean import draw_each, prepare
from covdp.mean.axes import to_frame
from covdp.mean.clip import SQRT2, shell_counts
from covdp.mean.release import COUNT_UNIT
from covdp.mean.sums import (
    as_repetition,
    clipped_totals,
    of_digits,
    sizes,
    sizes_beside_odd,
)
from covdp.mechanisms.noise import Noise
from covdp.recall import repeatable


def release_night(
    stream: StreamMechanism,
    history: Sequence[Night],
    private: PrivateSums,
    points: Point,
    *,
    noise: Noise,
    total: int | None = None,
) -> tuple[Night, PrivateSums]:
    """Return the release of the next night of a stream, and the private sums up to it.

    **Privacy.** As `StreamPlan` says, if each record is among the `points` of one night only, the
    noise of each night is drawn afresh, and a night that was drawn is not drawn again with other
    records or published twice: that is for the caller to see to.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : sequence of Night
        Nights before, as they were released.
    private : PrivateSums
        Private sums that the night before returned, `empty_state` on the first.
    points : array, shape (m, *point_shape)
        Records of this night; there may be none. Those outside the domain are moved to its region.
    noise : Noise
        Source of noise: `LATTICE`, or `FloatNoise` of a generator.
    total : int, optional
        Number of records of all classes, where labels are secret.

    Raises
    ------
    PrivacyError
        After the horizon.
    ConfigError
        When `private` is not of this history, there are more than `MOST_UNITS` records, or `total`
        is not given where labels are secret, or is where they are public.
    """
    after = add_units(stream, history, private, points, total=total)
    units = len(points) if total is None else total
    return draw_night(stream, history, after, units, noise=noise), after


def add_units(
    stream: StreamMechanism,
    history: Sequence[Night],
    private: PrivateSums,
    points: Point,
    *,
    total: int | None = None,
) -> PrivateSums:
    """Return the private sums with one night more; nothing is drawn.

    Errors are those of `release_night`.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : sequence of Night
        Nights so far, in order, as they were released.
    private : PrivateSums
        Private sums up to the night before.
    points : array, shape (m, *point_shape)
        Records of this night; there may be none.
    total : int, optional
        Number of records of all classes, where labels are secret.
    """
    if stream.plan.secret == (total is None):
        raise ConfigError(
            "where labels are secret a night needs the number of records of all classes, and "
            f"where they are public none; found total {total}"
        )
    _check_going(stream, history, len(points) if total is None else total)
    return add_placed(stream, history, private, stream.placed(points))


def add_placed(
    stream: StreamMechanism, history: Sequence[Night], private: PrivateSums, placed: FloatArray
) -> PrivateSums:
    """Return the private sums with one night more of placed records.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : sequence of Night
        Nights so far, in order, as they were released.
    private : PrivateSums
        Private sums up to the night before.
    placed : array, shape (m, d)
        Records in the chart, as `StreamMechanism.placed` gives them.
    """
    past = split_epochs(stream, history)
    if history and history[-1].opened is not None:  # the opening has them
        private = replace(private, waiting=private.waiting[:0], counts=private.counts[:0])
    _check(stream, past, private, len(history))
    if past.holds:
        counts = _counted(stream, private.counts, placed)
        return replace(private, waiting=np.concatenate([private.waiting, placed]), counts=counts)
    fresh = _fresh(stream, history, past)
    shells, means = _rows(stream, fresh or past.segments[-1].epoch, placed)
    went = 0 if fresh else len(private.means)  # those of an epoch begin with it
    return PrivateSums(
        waiting=private.waiting,
        shells=_with(private.shells[:went], shells),
        means=_with(private.means[:went], means),
        counts=_counted(stream, private.counts[:went], placed),
    )


def _counted(stream: StreamMechanism, counts: Limbs, placed: FloatArray) -> Limbs:
    """Return the counts with that of one night more, where labels are secret."""
    return _with(counts, to_limbs([len(placed)])) if stream.plan.secret else counts


def draw_night(
    stream: StreamMechanism,
    history: Sequence[Night],
    after: PrivateSums,
    units: int,
    *,
    noise: Noise,
) -> Night:
    """Return the release of the next night; see `release_night` for its privacy.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : sequence of Night
        Nights before, as they were released.
    after : PrivateSums
        Private sums with the night, as `add_units` returns them.
    units : int
        Number of records that came; of all classes, where labels are secret.
    noise : Noise
        Source of noise: `LATTICE`, or `FloatNoise` of a generator.
    """
    past, plan = split_epochs(stream, history), stream.plan
    n = _check_going(stream, history, units)
    number = len(history) + 1
    if past.holds:
        waits = Night(number, units, n)
        if plan.secret:
            waits, opens = draw_count(stream, history, after, waits, noise)
        else:
            opens = plan.opens(n, past.n)
            if len(after.waiting) != n - past.n:
                raise _foreign_sums(past, after)
        return draw_openings(stream, waits, after, noise=noise, size=1)[0] if opens else waits
    fresh = _fresh(stream, history, past)
    epoch = 1 if fresh else len(past.segments[-1].nights) + 1
    if (len(after.shells), len(after.means)) != (epoch, epoch):
        raise _foreign_sums(past, after)
    draws = [
        noise(vector, step.sigma, step.sensitivity)
        for vector, step in zip(after.vectors, stream.steps, strict=True)
    ]
    shells, both = (draw.vector for draw in draws)
    d, count, rhos = stream.space.dim, None, tuple(draw.rho for draw in draws)
    if plan.secret:
        both, count = both[:-1], float(both[-1]) / COUNT_UNIT
    return Night(number, units, n, None, fresh, shells, both[:d], both[d:], rhos, count)


def draw_count(
    stream: StreamMechanism,
    history: Sequence[Night],
    after: PrivateSums,
    night: Night,
    noise: Noise,
) -> tuple[Night, bool]:
    """Return a night before the opening with its count, and True if that is enough to open.

    No count is of more records than came in all classes, which is public.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : sequence of Night
        Nights so far, in order, as they were released.
    after : PrivateSums
        Private sums with the night.
    night : Night
        Night without its count.
    noise : Noise
        Source of noise.
    """
    past = split_epochs(stream, history)
    since = past.openings[-1].night if past.openings else 0
    if len(after.counts) != night.night - since:
        raise _foreign_sums(past, after)
    (step,) = stream.count_steps
    result = noise(after.count, step.sigma, step.sensitivity)
    counted = replace(night, count=float(result.vector[0]) * SQRT2, rhos=(result.rho,))
    most = night.n_so_far - (history[since - 1].n_so_far if since else 0)
    waiting = min(waiting_count(stream, [*history[since:], counted]).value[0], most)
    return counted, stream.plan.opens(past.n + waiting, past.n)


def _fresh(stream: StreamMechanism, history: Sequence[Night], past: EpochHistory) -> Epoch | None:
    """Return the epoch that begins tonight, if one does."""
    return begin_epoch(stream, tuple(history)) if epoch_due(past) else None


def _check_going(stream: StreamMechanism, history: Sequence[Night], units: int) -> int:
    """Return how many records there are with tonight's, or raise when there is no such night."""
    plan = stream.plan
    if len(history) >= plan.horizon:
        raise PrivacyError(
            f"the stream ends with night {plan.horizon}, its horizon, which its noise was made "
            "for; open a new stream for new images or persons, and join what both released "
            "(`joined`)"
        )
    n = units + (history[-1].n_so_far if history else 0)
    if n > MOST_UNITS:
        raise ConfigError(
            f"a stream has at most {MOST_UNITS} records, found {n}; open a new one for these"
        )
    return n


def _check(stream: StreamMechanism, past: EpochHistory, private: PrivateSums, many: int) -> None:
    """Raise `ConfigError` unless private sums are of the `many` nights of a history."""
    epoch = len(past.segments[-1].nights) if past.segments else 0
    found = len(private.shells), len(private.means)
    waiting = len(private.waiting), past.waiting
    if stream.plan.secret:  # a secret number is not compared
        since = past.openings[-1].night if past.openings else 0
        waiting = len(private.counts), many - since if past.holds else epoch
    if (*found, waiting[0]) != (epoch, epoch, waiting[1]):
        raise _foreign_sums(past, private)


def _foreign_sums(past: EpochHistory, private: PrivateSums) -> ConfigError:
    return ConfigError(
        f"the private sums of {len(private.means)} nights do not belong to a history of "
        f"{len(past.nights)} nights since its opening, or other records wait; make them again from "
        "the images"
    )


def draw_openings(
    stream: StreamMechanism,
    night: Night,
    *afters: PrivateSums,
    noise: Noise,
    size: int,
) -> list[Night]:
    """Return `size` openings of a stream, each of which costs the budget.

    The order of the records held back is not in them.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    night : Night
        Night of the opening, with all that is known of it before.
    *afters : PrivateSums
        Private sums, as `after` in `draw_night`: of all, or of each opening its own.
    noise : Noise
        Source of noise.
    size : int
        Number of openings.
    """
    plan = stream.plan
    budget = plan.opening_budget(stream.manifold.dim)
    prepared = [
        prepare(stream.records(after.waiting, night.n_so_far), stream.opening, rng=None)
        for after in afters
    ]
    release = draw_each(prepared, budget, noise=noise, size=size)
    shells_noise = release.steps[-2].sigma * SQRT2
    each = (float(moments.n) if plan.secret else 1.0 for moments in release.moments)
    sizes = release.class_size
    counts = [None] * size if sizes is None else sizes.shown.tolist()
    return [
        replace(
            night,
            opened=OpeningRelease(output, moments, shells_noise / n, count),
            rhos=(*night.rhos, *rhos.tolist()),
        )
        for output, moments, rhos, n, count in zip(
            release.outputs, release.moments, release.rhos, each, counts, strict=True
        )
    ]


@repeatable
def _rows(stream: StreamMechanism, epoch: Epoch, placed: FloatArray) -> tuple[Limbs, Limbs]:
    """Return what one night's records add to the shells and the means, (m, `LIMBS`)."""
    to = clipping_of(stream, epoch)
    coordinates = to_frame(stream.space, stream.frame, stream.centre, placed)
    records, size = part = as_repetition(coordinates, sizes(coordinates, to.centre[0]))
    if stream.frame.lines:
        size = sizes_beside_odd(records, size, to.centre, to.odd, stream.prior.edges[-1])
    (counts,) = shell_counts(size, stream.prior.edges)
    (sums,), (digits,) = clipped_totals([part], to)
    means = np.concatenate([to_limbs(sums), words_to_limbs(*of_digits(digits))])
    return words_to_limbs(counts), means


def _with(rows: Limbs, night: Limbs) -> Limbs:
    """Return the rows of a series with that of one night more."""
    return np.concatenate([rows, night[np.newaxis]]) if len(rows) else night[np.newaxis]
