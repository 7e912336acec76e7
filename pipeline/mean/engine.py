"""The heart: n records of one class go in, one private mean comes out.

    points ─► admit ─► plan ─┬► single: mean, Δ, noise
                             └► adaptive: mean ─► shells ─► mean ─► shells ─► clipped mean

Every private mean of this project is drawn here: in experiments with NumPy's noise, in a release
with hardened noise.
"""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import NamedTuple, get_args

import numpy as np

from covdp.arrays import FloatArray
from covdp.errors import ConfigError, DomainError, PrivacyError
from covdp.geometry import Manifold, Point, chart_of, find_manifold
from covdp.mean.plan import STEP_NAMES, AdaptivePlan, Plan, SinglePlan, choose_plan
from covdp.mean.public_model import Domain, default_prior
from covdp.mean.records import Records, admit
from covdp.mean.release import Drawing, LabelsWord, NonPrivate, Release, read_labels
from covdp.mean.rounds import default_shares, draw_rounds
from covdp.mean.single import (
    DrawnFootpoints,
    Footpoints,
    draw_footpoints,
    draw_single,
    footpoints,
    pays_footpoint,
)
from covdp.mean.sums import Batches, parts_of
from covdp.mechanisms.base import check_size
from covdp.mechanisms.noise import CollectiveNoise, FloatNoise, Noise
from covdp.privacy import Budget


class MeanSetup(NamedTuple):
    """Records and plan that all budgets and repetitions share; nothing of it may leave.

    Attributes
    ----------
    records : Records
        Records of one class.
    plan : SinglePlan or AdaptivePlan
        Plan of spending.
    footpoints : Footpoints or None
        Means behind the private footpoints of a single plan; None where it has none.
    """

    records: Records
    plan: Plan
    footpoints: Footpoints | None


def prepare(
    records: Records,
    plan: Plan,
    *,
    size: int = 1,
    rng: np.random.Generator | None,
    nonprivate: bool = False,
) -> MeanSetup:
    """Compute what does not depend on the budget.

    Parameters
    ----------
    records : Records
        Records of one class, of `admit`.
    plan : SinglePlan or AdaptivePlan
        Plan of spending.
    size : int
        Number of draws that will be made.
    rng : numpy.random.Generator or None
        Chooses the subsamples of a footpoint; None where the plan has none.
    nonprivate : bool
        True if all that is drawn stays in an experiment, whose plan need not be private.

    Returns
    -------
    MeanSetup
        Records and plan, for `draw`.

    Raises
    ------
    PrivacyError
        For a plan of one draw where labels are secret; for one that is not private.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp import MANIFOLDS
    >>> from covdp.mean import AdaptivePlan, Ball, admit, prepare
    >>> manifold = MANIFOLDS["spd-log-euclidean"](k=2)
    >>> points = np.array([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 2.0]]])
    >>> records = admit(points, domain=Ball(2.0, manifold.name), manifold=manifold)
    >>> prepare(records, AdaptivePlan(), rng=None).records.n
    2
    """
    if isinstance(plan, AdaptivePlan):
        _ = records.seen  # its own checks
        return MeanSetup(records, plan, None)
    if records.labels.secret:
        raise PrivacyError(
            "one draw of noise around a mean needs the size of the class, which is secret with "
            'labels = "secret"; take the adaptive mean (mechanism = "auto", in Python a budget of '
            'GDP or zCDP), or say that labels and class sizes are public (labels = "public", in '
            "Python no `total`)"
        )
    if not (plan.private or nonprivate):
        raise PrivacyError(
            f"footpoint {plan.footpoint!r} is taken from the true mean, and nothing that is drawn "
            'there is private: it is for experiments alone; choose "origin", "all" or "subsample"'
        )
    if pays_footpoint(plan) and rng is None:
        raise ConfigError("a private footpoint is drawn with NumPy's noise; give a generator")
    private = None if rng is None else footpoints(records, plan, size=size, rng=rng)
    return MeanSetup(records, plan, private)


def select_footpoints(
    prepared: MeanSetup, budget: Budget, *, noise: Noise, size: int = 1
) -> DrawnFootpoints | None:
    """Draw the private footpoints of `size` means, for their share of `budget`.

    `draw` does it by itself. Drawn before, from the same source of noise, they are the same.

    Parameters
    ----------
    prepared : MeanSetup
        Setup of `prepare`, for at least as many draws.
    budget : Budget
        Budget of each draw in all.
    noise : Noise
        Source of noise.
    size : int
        Number of draws.

    Returns
    -------
    DrawnFootpoints or None
        None where the plan pays for none.

    Raises
    ------
    ConfigError, PrivacyError
        As `draw`.
    """
    check_size(size)
    records, plan = prepared.records, prepared.plan
    if not isinstance(plan, SinglePlan):
        return None
    return draw_footpoints(
        records, budget, plan, noise=noise, size=size, footpoints=prepared.footpoints
    )


def draw(
    prepared: MeanSetup,
    budget: Budget,
    *,
    noise: Noise,
    size: int = 1,
    footpoint: DrawnFootpoints | None = None,
) -> tuple[Release, FloatArray | None]:
    """Draw `size` private means, each of which alone costs `budget`.

    Parameters
    ----------
    prepared : MeanSetup
        Setup of `prepare`, for at least as many draws.
    budget : Budget
        Budget of each draw in all.
    noise : Noise
        `FloatNoise` of a generator for experiments, `LATTICE` for releases.
    size : int
        Number of independent draws.
    footpoint : DrawnFootpoints, optional
        Footpoints that `select_footpoints` drew for them, from the same budget; drawn first when
        left out.

    Returns
    -------
    Release
        Private means and their noise, free to leave.
    array, shape (size,), or None
        Distances of the outputs to the mean where the points cannot tell: not private.

    Raises
    ------
    ConfigError
        When `size` is below 1.
    PrivacyError
        When the mechanism has no density, no guarantee or no hardened noise at this budget.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp import GDP, MANIFOLDS, describe, domain, open_dataset
    >>> from covdp.mean import AdaptivePlan, admit, draw, prepare
    >>> from covdp.mechanisms import FloatNoise
    >>> manifold = MANIFOLDS["spd-log-euclidean"](k=5)
    >>> points = describe(next(open_dataset("tiles").chunks(label=0)), "oct5")
    >>> records = admit(points, domain=domain("oct5", height=28, width=28), manifold=manifold)
    >>> prepared = prepare(records, AdaptivePlan(), rng=None)
    >>> noise = FloatNoise(np.random.default_rng(0))
    >>> release, _ = draw(prepared, GDP(1.0), noise=noise, size=3)
    >>> release.points.shape
    (3, 5, 5)
    """
    check_size(size)
    records, plan = prepared.records, prepared.plan
    if isinstance(plan, SinglePlan):
        if footpoint is None:
            footpoint = select_footpoints(prepared, budget, noise=noise, size=size)
        return draw_single(records, budget, plan, noise=noise, size=size, footpoint=footpoint)
    return draw_rounds([records], budget, plan, noise=[noise], size=size), None


def draw_each(
    prepared: Sequence[MeanSetup],
    budget: Budget,
    *,
    noise: Noise | Sequence[Noise],
    size: int | None = None,
) -> Release:
    """Draw one adaptive mean of each of several data sets, each of which costs `budget`.

    Each is what `draw` would have drawn of its data set alone, in a fraction of the time.

    Parameters
    ----------
    prepared : sequence of MeanSetup
        Setups of one adaptive plan: as many records in each, of one domain, in memory. With secret
        labels the total is the same, and each may have any number.
    budget : Budget
        Budget of each mean in all.
    noise : Noise, or sequence of Noise
        Source of noise of all, or one of each.
    size : int, optional
        Number of means, where there is one data set, or one for each of them.

    Returns
    -------
    Release
        One output of each data set, in order.

    Raises
    ------
    ConfigError
        When they have not as many records, or are not of one adaptive plan and domain.
    PrivacyError
        As `draw`.
    """
    plan, records = prepared[0].plan, prepared[0].records
    alike = all(
        (item.plan, item.records.manifold, item.records.domain, item.records.labels)
        == (plan, records.manifold, records.domain, records.labels)
        and item.records.labels.size(item.records.n) == records.labels.size(records.n)
        for item in prepared
    )
    if not isinstance(plan, AdaptivePlan) or not alike:
        raise ConfigError(
            f"means are drawn together of one adaptive plan, one domain and {records.n} records "
            "each, found others too; draw those one by one"
        )
    noises = noise if isinstance(noise, Sequence) else [noise]
    classes = [item.records for item in prepared]
    return draw_rounds(classes, budget, plan, noise=noises, size=size or len(classes))


def mean(
    points: Point | Batches,
    budget: Budget,
    *,
    domain: Domain,
    manifold: Manifold | str,
    plan: Plan | str,
    noise: Noise,
    labels: LabelsWord | None = None,
    total: int | None = None,
) -> Release:
    """Return one private mean of `points`.

    Parameters
    ----------
    points : array, shape (n, *point_shape), or Batches
        Records of one class; those outside the domain are moved to its nearest point. Batches are
        read once for each step of the plan and never held together.
    budget : Budget
        Budget in all.
    domain : Domain
        Public bound on the records, in the distance of `manifold`.
    manifold : Manifold or str
        Geometry, or its name in `MANIFOLDS`.
    plan : SinglePlan, AdaptivePlan, "auto" or "single"
        Plan of spending; see `choose_plan`.
    noise : Noise
        `LATTICE`, or `FloatNoise` of a generator.
    labels : {"public", "secret"}, optional
        "secret" if classes are secret; implied by `total`. Then one draw of each class costs
        `budget` for all classes together, see ``release.py``; `points` may be none.
    total : int, optional
        Public number of records of all classes together, with secret labels.

    Returns
    -------
    Release
        Private mean and its noise, free to leave.

    Raises
    ------
    DomainError
        As `admit`, or when there are more records than `total`, unless the noise is collective.
    PrivacyError
        As `draw`.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp import GDP, describe, domain, open_dataset
    >>> from covdp.mean import mean
    >>> from covdp.mechanisms import FloatNoise
    >>> release = mean(
    ...     describe(next(open_dataset("tiles").chunks(label=0)), "oct5"),
    ...     GDP(1.0),
    ...     domain=domain("oct5", height=28, width=28),
    ...     manifold="spd-log-euclidean",
    ...     plan="auto",
    ...     noise=FloatNoise(np.random.default_rng(0)),
    ... )
    >>> [step.name for step in release.steps]
    ['mean 1', 'shells 1', 'mean 2', 'shells 2', 'mean 3']
    """
    space = _space(manifold, points)
    class_labels = read_labels(labels, total)
    records = admit(points, domain=domain, manifold=space, labels=class_labels)
    if not isinstance(noise, CollectiveNoise):  # of which others state N, and would learn n
        _check_total(records)
    prepared = prepare(records, choose_plan(plan, budget.name), rng=noise.rng)
    return draw(prepared, budget, noise=noise)[0]


def shares_of(
    plan: Plan, domain: Domain, manifold: Manifold, *, few: bool = False
) -> dict[str, float]:
    """Return the share of the budget of each step of a plan, by name, in order: public.

    Shares are of what adds up: share s of μ is √s·μ.

    Parameters
    ----------
    plan : SinglePlan or AdaptivePlan
        Plan of spending.
    domain : Domain
        Public bound on the records.
    manifold : Manifold
        Geometry of the mean.
    few : bool
        True if n·μ is so small that noise alone decides: `rounds.is_few`.

    Returns
    -------
    dict of str to float
        Shares, which sum to 1.

    Examples
    --------
    >>> from covdp import MANIFOLDS, domain
    >>> from covdp.mean import SinglePlan, shares_of
    >>> bound = domain("oct5", height=28, width=28)
    >>> shares_of(SinglePlan(footpoint="all"), bound, MANIFOLDS["spd-log-euclidean"](k=5))
    {'footpoint': 0.1, 'mean': 0.9}
    """
    if isinstance(plan, SinglePlan):
        if not pays_footpoint(plan):
            return {"mean": 1.0}
        return {"footpoint": plan.footpoint_share, "mean": 1.0 - plan.footpoint_share}
    shares = plan.shares or default_shares(default_prior(domain, manifold), few=few)
    return dict(zip(STEP_NAMES, shares.all, strict=True))


def private_mean(
    points: Point | Batches,
    budget: Budget,
    *,
    domain: Domain,
    manifold: Manifold | str,
    plan: Plan | str = "auto",
    rng: np.random.Generator | Noise,
    labels: LabelsWord | None = None,
    total: int | None = None,
) -> tuple[Release, NonPrivate]:
    """Return one private mean of the records of a class, and how far it is from the true one.

    For experiments: the second part is computed without noise, and nothing is paid from a ledger.
    ``covdp release`` releases images of persons.

    Parameters
    ----------
    points : array, shape (n, *point_shape), or Batches
        Records, as points of the manifold: of `describe`, covariance matrices (n, k, k). Those
        outside the domain are moved to its nearest point.
    budget : Budget
        Budget in all, such as ``GDP(0.5)`` or ``ApproxDP(1.0, 1e-6)``.
    domain : Domain
        Public bound on the records, in the distance of the manifold: `covdp.domain` proves that
        of a descriptor.
    manifold : Manifold or str
        Geometry, or its name in `MANIFOLDS`.
    plan : {"auto", "single"}, SinglePlan or AdaptivePlan
        Plan of spending; "auto" is the most accurate plan there is.
    rng : numpy.random.Generator or Noise
        Source of noise: a generator, or `LATTICE` for hardened noise.
    labels : {"public", "secret"}, optional
        "secret" if classes are secret; implied by `total`.
    total : int, optional
        Public number of records of all classes together, with secret labels.

    Returns
    -------
    Release
        Private mean, free to leave: ``release.point``, (*point_shape).
    NonPrivate
        Exact mean, and the error of the private one: not to leave.

    Raises
    ------
    ConfigError
        When an argument is of another type, or a word is not known.
    DomainError
        When records have another shape, or the domain is of another manifold.
    PrivacyError
        When the plan cannot keep a budget of this definition.

    See Also
    --------
    covdp.describe : covariance descriptors of images.
    covdp.domain : the proven bound on them.
    covdp.frechet_mean : the mean without noise.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp import GDP, describe, domain, open_dataset, private_mean
    >>> images = next(open_dataset("tiles").chunks(label=0))
    >>> release, truth = private_mean(
    ...     describe(images, "oct5"),
    ...     GDP(1.0),
    ...     domain=domain("oct5", height=28, width=28),
    ...     manifold="spd-log-euclidean",
    ...     rng=np.random.default_rng(0),
    ... )
    >>> release.point.shape
    (5, 5)
    >>> bool(truth.error < 0.1)
    True
    """
    _check_types(points, budget, domain, manifold, plan, rng, total)
    noise: Noise = FloatNoise(rng) if isinstance(rng, np.random.Generator) else rng
    space = _space(manifold, points)
    chart = chart_of(space)

    def check(part: Point) -> Point:
        return (chart if part.shape[1:] == chart.point_shape else space).check(part)

    class_labels = read_labels(labels, total)
    records = admit(parts_of(points).map(check), domain=domain, manifold=space, labels=class_labels)
    _check_total(records)
    prepared = prepare(records, choose_plan(plan, budget.name), rng=noise.rng)
    release, distance = draw(prepared, budget, noise=noise)
    truth = _nonprivate(records, release, distance, space)
    n = None if class_labels.secret else records.n
    drawing = Drawing(budget, domain, prepared.plan, class_labels, n, hardened=noise.rng is None)
    return release._replace(drawing=drawing), truth


def _check_total(records: Records) -> None:
    """Raise `DomainError` where a class has more records than are stated of all classes."""
    if records.n > records.labels.size(records.n):
        raise DomainError(
            "a class has more records than the total of all classes; total is the public number "
            "of all of them together"
        )


def _nonprivate(
    records: Records, release: Release, distance: FloatArray | None, space: Manifold
) -> NonPrivate:
    """Return the exact mean, and the error of the first private one."""
    if records.n == 0:
        return NonPrivate(np.full(space.point_shape, math.nan), math.nan, math.nan, 0)
    true = records.frechet
    point = records.on_manifold(true.point)
    if distance is None:
        distance = space.dist(point, release.points)
    error = float(distance[0]) if np.isfinite(distance[0]) else math.nan
    return NonPrivate(point, true.gradient_norm, error, records.n)


def _check_types(
    points: object,
    budget: object,
    domain: object,
    manifold: object,
    plan: object,
    rng: object,
    total: object,
) -> None:
    """Refuse an argument of another type, with what is meant."""
    number = budget if isinstance(budget, int | float) else 0.5
    listed = isinstance(points, np.ndarray | list | tuple | Batches)
    drawing = isinstance(rng, np.random.Generator) or (callable(rng) and hasattr(rng, "rng"))
    spaced = isinstance(manifold, str) or hasattr(manifold, "point_shape")
    whole = total is None or (isinstance(total, Integral) and not isinstance(total, bool))
    bounding = hasattr(domain, "radius") and hasattr(domain, "manifold")
    for name, value, fits, way in (
        ("points", points, listed, "an array of records, as describe(images) makes one"),
        ("budget", budget, isinstance(budget, get_args(Budget)), f"GDP({number}) or the like"),
        ("domain", domain, bounding, 'a bound, as domain("oct5", height=28, width=28) makes one'),
        ("manifold", manifold, spaced, 'a manifold or its name, as "spd-log-euclidean"'),
        ("plan", plan, isinstance(plan, str | Plan), '"auto", "single" or a Plan'),
        ("rng", rng, drawing, "a generator, such as numpy.random.default_rng(0), or LATTICE"),
        ("total", total, whole, "a whole number or left out"),
    ):
        if not fits:
            raise ConfigError(f"{name} must be {way}; found {_shown(value)}")


def _shown(value: object) -> str:
    """Return a value as an error shows it: a number or a word itself, of all else the type."""
    plain = value is None or isinstance(value, int | float | str)
    return repr(value)[:40] if plain else type(value).__name__


def _space(manifold: Manifold | str, points: Point | Batches) -> Manifold:
    """Return the manifold that is meant; of a name, that of the first chunk's shape."""
    if not isinstance(manifold, str):
        return manifold
    return find_manifold(manifold, next(iter(parts_of(points)), np.empty(0)))
