"""Records in chunks: the same mean to the last bit, one chunk in memory, checked doors."""

import subprocess
import sys
import textwrap
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covdp.descriptors import domain
from covdp.errors import ConfigError, DomainError, PrivacyError
from covdp.geometry import MANIFOLDS, Manifold, Point, frechet_mean
from covdp.mean import (
    AdaptivePlan,
    Ball,
    Batches,
    Domain,
    Plan,
    SinglePlan,
    admit,
    in_memory_if_few,
    mean,
    prepare,
    private_mean,
    release_plan,
    sums,
)
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP, PureDP

SPACES = ["spd-log-euclidean", "spd-log-cholesky", "spd-affine-invariant", "hyperbolic"]
FLAT = SPACES[:2]


@dataclass
class Cut:
    """Points cut at some places; counts passes, and the chunks that are alive."""

    points: Point
    cuts: tuple[int, ...] = ()
    passes: int = 0
    alive: int = 0
    most: int = 0

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.points)

    def __iter__(self) -> Iterator[Point]:
        """Yield copies of the pieces, empty ones too."""
        self.passes += 1
        for piece in np.split(self.points, sorted(self.cuts)):
            chunk = piece.copy()
            self.alive += 1
            self.most = max(self.most, self.alive)
            weakref.finalize(chunk, self._gone)
            yield chunk

    def _gone(self) -> None:
        self.alive -= 1


def setting(name: str) -> tuple[Manifold, Domain, Point]:
    """Return manifold, domain and 40 records, some of them outside of the domain."""
    rng = np.random.default_rng(1)
    if name == "hyperbolic":
        space, steps = MANIFOLDS[name](dim=3), 0.1 * rng.standard_normal((40, 3))
        steps[0] = 5.0
        return space, Ball(8.0, name), space.exp(space.origin, steps)
    space, facts = MANIFOLDS[name](k=5), domain("oct5", height=28, width=28, manifold=name)
    steps = 0.7 * rng.standard_normal((40, 15))
    steps[:, :5] += [7.0, 5.0, 5.0, 4.0, 4.0]
    steps[0, :5] = 14.0
    return space, facts, MANIFOLDS["spd-log-euclidean"](k=5).exp(np.eye(5), steps)


def released(
    points: Point | Batches, name: str, plan: Plan | str, mu: float = 2.0, seed: int = 7
) -> Point:
    """Return a private mean with noise that is always the same."""
    space, facts, _ = setting(name)
    noise = FloatNoise(np.random.default_rng(seed))
    return mean(points, GDP(mu), domain=facts, manifold=space, plan=plan, noise=noise).outputs


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
@given(data=st.data())
@settings(max_examples=12)
def test_chunks_and_order_do_not_change_a_bit(name: str, data: st.DataObject) -> None:
    """Adaptive means, and flat single ones, are the same bits however records are cut or ordered.

    Empty chunks included.
    """
    _, _, points = setting(name)
    cuts = tuple(data.draw(st.lists(st.integers(0, 40), max_size=6)))
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(40)
    single = release_plan("ewg", hardened=True)
    for plan in ("auto", single) if name in FLAT else ("auto",):
        expected = released(points, name, plan)
        assert np.array_equal(released(Cut(points[order], cuts), name, plan), expected)
        assert np.array_equal(released(points[order], name, plan), expected)


@pytest.mark.addons
@pytest.mark.parametrize(
    ("name", "ball"), [*((name, False) for name in SPACES[:3]), *((name, True) for name in SPACES)]
)
def test_a_record_alone_is_what_it_is_among_others(name: str, ball: bool) -> None:
    """In the axes, from the prior's centre and from elsewhere, to the last bit; in high dimension.

    Sums of eight terms and more are where a library's order of adding may depend on the layout.
    """
    rng, euclidean = np.random.default_rng(5), MANIFOLDS["spd-log-euclidean"](k=11)
    facts: Domain = Ball(6.0, name)
    if name == "hyperbolic":
        space: Manifold = MANIFOLDS[name](dim=12)
        points = space.exp(space.origin, 1.5 * rng.standard_normal((30, 12)))
    else:
        steps = 0.8 * rng.standard_normal((30, 66))  # many are outside of the ball
        steps[3, :11] = 9.0
        points = euclidean.exp(euclidean.origin, steps)
        space = MANIFOLDS[name](k=11)
        if not ball:
            facts = domain("grid11", height=28, width=28, manifold=name)
    together, alone = (
        admit(one, domain=facts, manifold=space)
        for one in (points, Cut(points, tuple(range(1, 30))))
    )
    centre, working = together.centre, together.space
    elsewhere = working.exp(centre, np.full(working.dim, 0.2))
    for place in (centre, elsewhere):
        middle = together.in_axes(place[None], elsewhere[None])
        (((seen,), (size,)),) = together.around(place[None], middle)
        found = list(alone.around(place[None], middle))
        assert np.array_equal(np.concatenate([part for (part,), _ in found], axis=1), seen)
        assert np.array_equal(np.concatenate([length for _, (length,) in found]), size)
        assert size.min() > 0.0


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES[2:])
def test_a_barycentre_does_not_depend_on_the_cuts(name: str) -> None:
    """The barycentre of chunks is that of an array, to the last bit."""
    space, facts, points = setting(name)
    found = [
        admit(Cut(points, cuts), domain=facts, manifold=space).barycentre.point
        for cuts in ((), (1,), (3, 3, 20, 39))
    ]
    assert all(np.array_equal(one, found[0]) for one in found)
    held = admit(points, domain=facts, manifold=space).barycentre.point
    assert np.array_equal(held, found[0])
    single = release_plan("ewg", hardened=True)
    assert np.array_equal(*(released(Cut(points, cut), name, single) for cut in ((), (9,))))


@pytest.mark.addons
@pytest.mark.parametrize("name", [*SPACES, "sphere"])
def test_private_means_of_chunks_know_their_error(name: str) -> None:
    """`private_mean` takes chunks and a name, and compares with the mean of all records."""
    if name == "sphere":
        space, facts, plan = MANIFOLDS[name](dim=2), Ball(0.3, name), SinglePlan("rl")
        spokes = 0.05 * np.random.default_rng(2).standard_normal((40, 2))
        points = space.exp(space.origin, spokes)
    else:
        (space, facts, points), plan = setting(name), SinglePlan()
        points = admit(points, domain=facts, manifold=space).stored  # the mean is of these
    budget = PureDP(9.0) if name == "sphere" else GDP(200.0)
    drawn, nonprivate = private_mean(
        Cut(points, (13, 30)),
        budget,
        domain=facts,
        manifold=name,
        plan=plan,
        rng=np.random.default_rng(3),
    )
    assert float(space.dist(nonprivate.mean, frechet_mean(points, space).point)) < 1e-6
    assert nonprivate.error == pytest.approx(float(space.dist(nonprivate.mean, drawn.point)))
    assert nonprivate.n == 40


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
def test_one_chunk_at_a_time_is_in_memory(name: str) -> None:
    """A pass a step, and while a chunk is read at most the one before is still there."""
    _, _, points = setting(name)
    cut = Cut(points, tuple(range(2, 40, 2)))
    released(cut, name, AdaptivePlan())
    assert cut.passes == 5  # three means, and shells before two of them
    assert cut.most <= 2
    assert cut.alive == 0


def test_few_records_are_held_and_many_come_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are read once, whatever the plan, and counted then; one more, or none, stay as given."""
    _, _, points = setting("spd-log-euclidean")
    monkeypatch.setattr(sums, "IN_MEMORY", 40)
    cut = Cut(points, (5, 5, 20))
    few = in_memory_if_few(cut)
    assert np.array_equal(released(few, SPACES[0], "auto"), released(points, SPACES[0], "auto"))
    assert (few.n, cut.passes) == (40, 1)
    for other in (np.concatenate([points, points[:1]]), points[:0]):
        assert isinstance(in_memory_if_few(Cut(other)), Cut)

    class MiscountedCut(Cut):
        n = 39

    with pytest.raises(DomainError, match="give all 39 of them, found 40; chunks must"):
        in_memory_if_few(MiscountedCut(points))


@pytest.mark.addons
@pytest.mark.parametrize("plan", [AdaptivePlan(), SinglePlan(statistic="barycentre")])
@pytest.mark.parametrize("name", ["spd-log-euclidean", "hyperbolic"])
def test_passes_that_differ_are_refused(name: str, plan: Plan) -> None:
    """One record more or less than announced, now or in a later pass, or a generator: one line."""

    class Wrong(Cut):
        def __iter__(self) -> Iterator[Point]:
            pieces = list(super().__iter__())
            return iter(pieces if self.passes == right else self.of(pieces))

        def of(self, pieces: list[Point]) -> list[Point]:
            return pieces[:-1]

    class More(Wrong):
        def of(self, pieces: list[Point]) -> list[Point]:
            return [*pieces, pieces[0]]

    _, _, points = setting(name)
    for kind in (Wrong, More):
        for right in (0, 1):
            if right and isinstance(plan, SinglePlan) and name != "hyperbolic":
                continue  # it takes one pass
            with pytest.raises(DomainError, match=r"give all 40 of them, found \d+; chunks must"):
                released(kind(points, (5, 20)), name, plan)


@pytest.mark.addons
def test_an_iterator_is_refused() -> None:
    """What can be iterated over once gives nothing in the second pass."""

    class Once(Cut):
        def __iter__(self) -> Iterator[Point]:
            return self.__dict__.setdefault("only", super().__iter__())

    _, _, points = setting("hyperbolic")
    with pytest.raises(DomainError, match="no generator will do"):
        released(Once(points, (5, 20)), "hyperbolic", "auto")


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("fault", ["nan", "shape", "none"])
def test_chunks_are_checked_as_they_are_read(name: str, fault: str) -> None:
    """NaN or a wrong shape in the last chunk, or no record at all, is one line."""
    _, _, points = setting(name)
    broken, words = points.copy(), "finite"
    if fault == "nan":
        broken[-1, ..., -1] = np.nan
    elif fault == "shape":
        broken, words = points[..., :-1], "must have shape"
    else:
        broken, words = points[:0], "one record or more, found 0"
    with pytest.raises(DomainError, match=words):
        released(Cut(broken, () if fault == "none" else (30,)), name, "auto")


def test_what_needs_all_records_at_once_says_so() -> None:
    """K-norm gradients and footpoints from a subsample refuse chunks, with the way out."""
    space, facts, points = setting("spd-log-euclidean")
    cut, rng = Cut(points, (20,)), np.random.default_rng(4)
    kng = SinglePlan("kng")
    with pytest.raises(DomainError, match="all records at once, they come in chunks"):
        private_mean(cut, PureDP(5.0), domain=facts, manifold=space, plan=kng, rng=rng)
    records = admit(cut, domain=facts, manifold=space)
    with pytest.raises(DomainError, match='use plan "auto"'):
        prepare(records, SinglePlan(footpoint="subsample"), rng=rng)
    assert prepare(records, SinglePlan(footpoint="all"), rng=rng).footpoints is not None
    assert "." not in repr(records)
    with pytest.raises((ConfigError, PrivacyError, DomainError), match="plan"):
        released(cut, "spd-log-euclidean", "nonsense")


def test_memory_does_not_grow_with_the_records() -> None:
    """Ten times as many records, 80,000, need no more memory; an array of them would be 9.6 MB."""
    code = """
    import resource

    import numpy as np

    from covdp.descriptors import domain
    from covdp.geometry import MANIFOLDS, FlatChart
    from covdp.mean import mean
    from covdp.mechanisms.noise import FloatNoise
    from covdp.privacy import GDP

    class Made:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            for start in range(0, self.n, 4000):
                points = 0.5 * np.random.default_rng(start).standard_normal((4000, 15))
                yield points + np.append([7.0, 5.0, 5.0, 4.0, 4.0], np.zeros(10))

    def peak(n):
        facts = domain("oct5", height=28, width=28)
        space = FlatChart(MANIFOLDS["spd-log-euclidean"](k=5))
        noise = FloatNoise(np.random.default_rng(1))
        drawn = mean(
            Made(n), GDP(0.5), domain=facts, manifold=space, plan="auto", noise=noise
        )
        assert drawn.predicted_error[0] < 1.0
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    few, many = peak(8000), peak(80_000)
    print(many - few)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    unit = 1024 if sys.platform == "linux" else 1  # of ru_maxrss, in bytes
    assert int(done.stdout) * unit < 2.4e6
