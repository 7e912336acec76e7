"""What leaves a release is made of noised vectors and public numbers: nothing else gets out.

OpenDP's measurements are the one place where a release draws noise. Here a script stands in for
them. It ignores the vectors it is given, so a document that is the same to the last byte for all
images of the same number was made without them. Random tests state their false-alarm rate.
"""
# ruff: noqa: F811  (fixtures that are imported)

import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from sample_manifolds import SPD
from scipy import stats

import covdp.mechanisms.noise as noise_module
from covdp.arrays import FloatArray
from covdp.descriptors import describe, domain
from covdp.errors import LedgerError
from covdp.geometry import MANIFOLDS
from covdp.ledger import Ledger, init_ledger, open_ledger
from covdp.mean import Batches, Release, mean, sums
from covdp.mean.plan import STEP_NAMES
from covdp.privacy import GDP, ZCDP
from covdp.publish import load_release, release_once
from tests.publish.scripted import (
    Answer,
    ScriptedSource,
    noised,
    replay,
    stand_in,  # noqa: F401  (fixtures)
    told,
)
from tests.sample_means import released

publish_module = sys.modules["covdp.publish.release"]

WIDTHS = ("spd-log-euclidean", "spd-log-cholesky", "spd-affine-invariant")
"""The metrics whose width `span` writes out from the formula, apart from the project's own."""
KINDS = [("auto", "gdp"), ("auto", "zcdp"), ("ewg", "gdp"), ("ewg", "zcdp")]
SIZES = (24, 17)
"""Images of each class; few, so that black and white images differ in every statistic."""
BUDGET = 40.0
"""Large, so that the noise does not hide what a script must."""
CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["well", "ill"]\n'
CONFIG = """\
name = "nightly"
population = "ward-7"
dataset = "{card}"
labels = "public"
budget = {budget}
definition = "{definition}"
manifold = "{manifold}"
mechanism = "{mechanism}"
run_key = "monday"
"""


def nothing(number: int, given: FloatArray, sigma: float) -> FloatArray:
    """Nothing seen, nothing moved."""
    return np.zeros(len(given))


def huge(number: int, given: FloatArray, sigma: float) -> FloatArray:
    """Numbers of no meaning, far outside of everything."""
    return 1e6 * np.random.default_rng(number).standard_normal(len(given))


def spread(number: int, given: FloatArray, sigma: float) -> FloatArray:
    """As many records in every shell, and a mean where the centre is."""
    is_mean = number % 5 in (0, 2, 4)  # mean, shells, mean, shells, mean of each class in turn
    return np.full(len(given), 0.0 if is_mean else 1.0 / (len(given) * math.sqrt(2.0)))


def wards() -> dict[str, NDArray[np.uint8]]:
    """Return data sets of one size: likely ones, extreme ones, and one in another order."""
    rng, n = np.random.default_rng(5), sum(SIZES)
    at = np.indices((28, 28)).sum(0)
    usual = np.clip(rng.normal(128, 25, (n, 28, 28)).cumsum(axis=1) / 9, 0, 255)
    boards = np.where((at[None] // rng.integers(1, 5, (n, 1, 1))) % 2, 255, 0)
    labels = np.repeat([0, 1], SIZES)
    order = np.concatenate([rng.permutation(np.flatnonzero(labels == label)) for label in (0, 1)])
    found = {
        "usual": usual,
        "other order": usual[order],
        "noise": rng.integers(0, 256, (n, 28, 28)),
        "black": np.zeros((n, 28, 28)),
        "white": np.full((n, 28, 28), 255),
        "boards": boards,
    }
    return {name: images.astype(np.uint8) for name, images in found.items()}


WARDS = wards()


class ReleasePlace:
    """A folder with a card and a config, and a new ledger for every release."""

    def __init__(self, folder: Path, manifold: str, mechanism: str, definition: str) -> None:
        self.folder, self.count = folder, 0
        book = init_ledger(folder / "ledger.sqlite")
        book.set_budget("ward-7", {"gdp": GDP, "zcdp": ZCDP}[definition](BUDGET))
        (folder / "ward.toml").write_text(CARD)
        text = CONFIG.format(
            card=folder / "ward.toml",
            budget=BUDGET,
            definition=definition,
            manifold=manifold,
            mechanism=mechanism,
        )
        (folder / "release.toml").write_text(text)

    def ledger(self) -> Ledger:
        """Return a ledger that nothing was charged to."""
        self.count += 1
        for ending in ("", ".marker"):
            file = self.folder / f"ledger-{self.count}.sqlite{ending}"
            shutil.copy(self.folder / f"ledger.sqlite{ending}", file)
        return open_ledger(self.folder / f"ledger-{self.count}.sqlite")

    def keep(self, ward: str) -> Any:
        """Put the images of a ward in the folder and return the config."""
        labels = np.repeat([0, 1], SIZES).astype(np.uint8)
        np.savez(self.folder / "ward.npz", train_images=WARDS[ward], train_labels=labels)
        return load_release(self.folder / "release.toml")

    def release(self, ward: str) -> bytes:
        """Release the means of a ward."""
        return release_once(self.keep(ward), self.ledger(), self.folder)


@pytest.mark.parametrize("manifold", SPD)
@pytest.mark.parametrize(("mechanism", "definition"), KINDS)
def test_under_a_script_every_ward_gives_the_same_document(
    tmp_path: Path,
    stand_in: Callable[..., ScriptedSource],
    manifold: str,
    mechanism: str,
    definition: str,
) -> None:
    """With the noised vectors of one ward, all others give its document, byte for byte."""
    place = ReleasePlace(tmp_path, manifold, mechanism, definition)
    first = stand_in(noised(1))
    expected = place.release("usual")
    for ward in WARDS:
        source = stand_in(replay(first.calls))
        assert place.release(ward) == expected
        same = [
            np.array_equal(a.given, b.given) for a, b in zip(source.calls, first.calls, strict=True)
        ]
        assert ward in ("usual", "other order") or not all(same)


@pytest.mark.parametrize("manifold", SPD)
def test_records_in_chunks_give_the_same_document(
    tmp_path: Path,
    stand_in: Callable[..., ScriptedSource],
    monkeypatch: pytest.MonkeyPatch,
    manifold: str,
) -> None:
    """A class that is too large to hold is read anew in every pass: byte for byte the same."""
    place, found = ReleasePlace(tmp_path, manifold, "auto", "gdp"), []
    for few in (sums.IN_MEMORY, 0):
        monkeypatch.setattr(sums, "IN_MEMORY", few)
        stand_in(noised(1))
        found.append(place.release("usual"))
    assert found[0] == found[1]


@pytest.mark.parametrize("manifold", SPD)
@pytest.mark.parametrize("script", [nothing, huge])
def test_scripts_of_no_meaning_give_the_same_document_too(
    tmp_path: Path, stand_in: Callable[..., ScriptedSource], manifold: str, script: Answer
) -> None:
    """Where noise drowns all, or nothing is seen, no choice falls back on the images."""
    place = ReleasePlace(tmp_path, manifold, "auto", "gdp")
    found = set()
    for ward in ("usual", "black", "boards"):
        stand_in(script)
        found.add(place.release(ward))
    assert len(found) == 1


@pytest.mark.parametrize("manifold", SPD)
def test_where_records_seem_to_be_anywhere_every_ward_gives_the_same_document(
    tmp_path: Path, stand_in: Callable[..., ScriptedSource], manifold: str
) -> None:
    """Also where as many seem to be far as near, so that balls are as wide as they get."""
    place, found = ReleasePlace(tmp_path, manifold, "auto", "gdp"), set()
    for ward in ("usual", "black", "boards"):
        stand_in(spread)
        found.add(place.release(ward))
    assert len(found) == 1


def moved(points: FloatArray, drawn: Release) -> Release:
    """Leak: the released point goes a little with the true mean."""
    return drawn._replace(outputs=drawn.outputs + 1e-9 * points.mean())


def scaled(points: FloatArray, drawn: Release) -> Release:
    """Leak: a stated scale is that of the data."""
    first, *rest = drawn.steps
    return drawn._replace(steps=(first._replace(sigma=float(points.std())), *rest))


@pytest.mark.parametrize("leak", [moved, told, scaled])
def test_the_script_shows_a_leak(
    tmp_path: Path,
    stand_in: Callable[..., ScriptedSource],
    monkeypatch: pytest.MonkeyPatch,
    leak: Callable[[FloatArray, Release], Release],
) -> None:
    """A release that lets one number out un-noised, however small, gives other documents."""
    place = ReleasePlace(tmp_path, SPD[0], "auto", "gdp")

    def leaking(chunks: Batches, *values: Any, **named: Any) -> Release:
        return leak(np.concatenate(list(chunks)), mean(chunks, *values, **named))

    monkeypatch.setattr(publish_module, "mean", leaking)
    found = set()
    for ward in ("usual", "noise"):
        stand_in(nothing)
        found.add(place.release(ward))
    assert len(found) == 2


@pytest.mark.usefixtures("prefect_imported")
def test_under_a_script_files_screen_and_log_are_the_same(
    tmp_path: Path,
    stand_in: Callable[..., ScriptedSource],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Names and bytes of JSON, page and table, and all that is printed: the same for all images."""
    from covdp.flows import release as flow

    place = ReleasePlace(tmp_path, SPD[0], "auto", "gdp")
    first, seen = stand_in(noised(2)), []
    for number, ward in enumerate(["usual", "usual", "black", "boards"]):
        place.keep(ward)
        monkeypatch.setenv("COVDP_LEDGER", str(place.ledger().database.file))
        out = tmp_path / f"out-{number}"
        document = flow.settle_release.fn(place.folder / "release.toml", out, place.folder, None)
        flow.publish.fn(document, out)
        files = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}
        assert {Path(name).suffix for name in files} == {".json", ".html", ".parquet"}
        seen.append((files, capfd.readouterr(), [record.getMessage() for record in caplog.records]))
        caplog.clear()
        stand_in(replay(first.calls))
    assert all(found == seen[0] for found in seen)


# --- the noise is OpenDP's ------------------------------------------------------------------------


@pytest.mark.parametrize("manifold", WIDTHS)
@pytest.mark.parametrize(("mechanism", "definition"), KINDS)
def test_what_a_document_states_is_what_was_drawn_and_pays(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    manifold: str,
    mechanism: str,
    definition: str,
) -> None:
    """Each step is one draw of OpenDP's Gaussian at its σ; Δ, ρ and μ come out when recomputed."""
    from opendp import domains, measurements, metrics  # its prelude imports scikit-learn

    made: list[tuple[Any, float, list[float]]] = []
    make = measurements.make_gaussian

    def spy(space: Any, metric: Any, scale: float) -> Any:
        true = make(space, metric, scale=scale)

        class WatchedMeasurement:
            def __call__(_, values: list[float]) -> Any:
                made.append((space, scale, values))
                return true(values)

            map = staticmethod(lambda distance: true.map(distance))

        return WatchedMeasurement()

    monkeypatch.setattr(measurements, "make_gaussian", spy)
    noise_module._measurement.cache_clear()
    document = json.loads(ReleasePlace(tmp_path, manifold, mechanism, definition).release("usual"))
    noise_module._measurement.cache_clear()
    stated = [step for row in document["classes"] for step in row["costs"]]
    for (space, scale, values), step in zip(made[-len(stated) :], stated, strict=True):
        atom = domains.atom_domain(T=float, nan=False)
        expected = domains.vector_domain(atom, size=len(values))
        assert space == expected
        assert scale == step["sigma"]
        true = make(space, metrics.l2_distance(T=float), scale=scale)
        assert step["rho"] == true.map(step["sensitivity"])
    for row in document["classes"]:
        check_costs(row, manifold, mechanism, definition)


MARGIN = Fraction(9, 10**13)
"""Most of the 1e-12 by which a diameter, and the mean of vectors of it, are raised for rounding."""


def mean_moves(n: int) -> Fraction:
    """Return what one of n vectors of a set of diameter 1 moves a mean by, rounding included.

    Each of 15 coordinates of a vector is rounded to a multiple of 2⁻⁴⁰, and the mean by 2⁻⁵³.
    """
    lattice = Fraction(math.isqrt(15 * 10**40), 10**20 * 2**40)
    return (1 + MARGIN + lattice) / n + Fraction(2) ** -52


def check_costs(row: Any, manifold: str, mechanism: str, definition: str) -> None:
    """Recompute Δ from n and the public bounds, then ρ and μ from Δ and σ, exactly."""
    n, steps = row["n"], row["costs"]
    least = mean_moves(n)
    if mechanism == "ewg":
        assert [step["step"] for step in steps] == ["mean"]
        least *= Fraction(span(manifold, n))
    else:
        assert len(steps) == len(STEP_NAMES)
    ratios = [(Fraction(step["sensitivity"]) / Fraction(step["sigma"])) ** 2 for step in steps]
    for step, ratio in zip(steps, ratios, strict=True):
        assert least <= Fraction(step["sensitivity"]) <= least * (1 + Fraction(1, 10**9))
        assert ratio / 2 <= Fraction(step["rho"]) <= ratio / 2 * (1 + Fraction(1, 10**9))
    budget = Fraction(BUDGET)
    whole = budget**2 if definition == "gdp" else 2 * budget
    assert (1 - Fraction(1, 10**9)) * whole <= sum(ratios) <= whole * (1 - Fraction(1, 10**12))
    assert sum(Fraction(step["rho"]) for step in steps) <= whole / 2
    assert Fraction(row["rho"]) <= whole / 2
    assert row["rho"] == pytest.approx(math.fsum(step["rho"] for step in steps), rel=1e-15)
    assert row["mu"] == (BUDGET if definition == "gdp" else None)


def span(manifold: str, n: int) -> float:
    """Return what n records of `oct5` at 28×28 add at most to the mean, rounding included."""
    eta, variance, k = mpmath.mpf(10) ** -6, mpmath.mpf(255) ** 2 / 4, 5
    flat = 1 + 8 * n * 2.0**-53  # place and look are rounded by 4u of the diameter, and a little
    if manifold == "spd-log-cholesky":
        square = 4 * 4 * variance + k * mpmath.log(1 + variance / eta) ** 2 / 4
        return float(mpmath.sqrt(square)) * float(1 + MARGIN) * flat
    trace = k * variance / eta
    terms = [sum(m * mpmath.log(1 + trace / m) ** 2 for m in (p, k - p) if m) for p in range(k + 1)]
    # logarithms up to 1e-6 outside of the region stay where they are (geometry/covariances.py)
    diameter = float(mpmath.sqrt(max(terms))) * float(1 + MARGIN) + 2e-6 * math.sqrt(k)
    if manifold == "spd-log-euclidean":
        return diameter * flat
    # a matrix of doubles is off by (4 + 16k)·u of its largest eigenvalue (descriptors/bounds.py),
    # steps end at 1e-7, and rounding adds 2e-9, up to condition 1e11 (mean/records.py)
    condition = float(trace) + k
    off = (4 + 16 * k) * 2.0**-53 * condition
    ended = (1e-7 + 2e-9) * math.sqrt(max(1.0, condition / 1e11))
    return diameter + 2 * off / (1 - off) + 2 * n * ended


@pytest.mark.parametrize("manifold", WIDTHS)
@pytest.mark.parametrize("mechanism", ["ewg", "ewl"])
def test_noise_in_floats_has_the_same_sensitivity(manifold: str, mechanism: str) -> None:
    """A release with noise in floats, accepted in writing, is as noisy as its Δ and budget ask."""
    points, mu = describe(WARDS["usual"][:9]), 20.0  # so that no float overflows
    facts, space = domain("oct5", height=28, width=28, manifold=manifold), MANIFOLDS[manifold](k=5)
    drawn = released(
        points, GDP(mu), mechanism=mechanism, noise="float", domain=facts, manifold=space
    )
    (step,) = drawn.steps
    least = Fraction(span(manifold, 9)) * mean_moves(9)
    assert least <= Fraction(step.sensitivity) <= least * (1 + Fraction(1, 10**9))
    assert np.isnan(drawn.rhos).all()
    pure = math.log(stats.norm.cdf(mu / 2) / stats.norm.cdf(-mu / 2))
    assert step.sensitivity / step.sigma == pytest.approx(mu if mechanism == "ewg" else pure)


@pytest.mark.parametrize("shares", [None, (0.3, 0.1, 0.2, 0.1, 0.3), (0.1, 0.1, 0.2, 0.1, 0.5)])
def test_shares_are_spent_as_asked(shares: tuple[float, ...] | None) -> None:
    """Each step's (Δ/σ)² is its share of μ²: the plan's own of few records, or the config's."""
    manifold = MANIFOLDS[SPD[0]](k=5)
    drawn = released(
        describe(WARDS["usual"][:9]),
        GDP(2.0),
        mechanism="auto",
        shares=shares,
        noise="hardened",
        domain=domain("oct5", height=28, width=28),
        manifold=manifold,
    )
    spent = [(step.sensitivity / step.sigma) ** 2 / 4.0 for step in drawn.steps]
    assert spent == pytest.approx(shares or (0.14, 0.01, 0.17, 0.07, 0.61), rel=1e-9)


class Poison:
    """A source of numbers that must not be used."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"NumPy's random {name} in a hardened release")


class Order:
    """NumPy's generator at a public seed: good for a public order and nothing else."""

    def __init__(self, seed: int) -> None:
        self.permutation = np.random.Generator(np.random.PCG64(seed)).permutation


@pytest.mark.parametrize("manifold", SPD)
@pytest.mark.parametrize("mechanism", ["auto", "ewg"])
def test_hardened_releases_take_no_number_from_numpy(
    monkeypatch: pytest.MonkeyPatch, manifold: str, mechanism: str
) -> None:
    """Every other source of random numbers in NumPy is poisoned, and the release passes."""
    points = describe(WARDS["usual"][:9])
    facts = domain("oct5", height=28, width=28, manifold=manifold)
    space = MANIFOLDS[manifold](k=5)

    def poisoned(seed: int | None = None) -> Any:
        return Poison() if seed is None else Order(seed)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("NumPy's random numbers in a hardened release")

    with monkeypatch.context() as patch:
        patch.setattr(np.random, "default_rng", poisoned)
        for name in ("normal", "standard_normal", "random", "rand", "randn", "RandomState"):
            patch.setattr(np.random, name, refuse)
        options: dict[str, Any] = {"domain": facts, "manifold": space, "mechanism": mechanism}
        released(points, GDP(1.0), noise="hardened", **options)
        if mechanism == "auto":  # the poison works
            with pytest.raises(AssertionError, match="standard_normal"):
                released(points, GDP(1.0), noise="float", **options)


P_VALUE = 1e-9


@pytest.mark.parametrize("manifold", SPD)
def test_committed_points_are_as_far_from_the_mean_as_stated(manifold: str) -> None:
    """(log point − log mean)/σ of 40 single releases is N(0, 1); false alarm 1e-9 a manifold."""
    points = describe(WARDS["noise"][:20])
    facts, space = domain("oct5", height=28, width=28, manifold=manifold), MANIFOLDS[manifold](k=5)
    true, found = centre(points, space), []
    for _ in range(40):
        drawn = released(
            points,
            GDP(1e4),
            mechanism="ewg",
            noise="hardened",
            domain=facts,
            manifold=space,
        )
        found.append((space.log(space.origin, drawn.point) - true) / drawn.steps[0].sigma)
    assert stats.kstest(np.ravel(found), stats.norm.cdf).pvalue > P_VALUE


def centre(points: FloatArray, space: Any) -> FloatArray:
    """Return log of the mean at the origin: exact where flat, the Fréchet mean elsewhere."""
    from covdp.geometry import frechet_mean

    return np.asarray(space.log(space.origin, frechet_mean(points, space).point))


@pytest.mark.parametrize("manifold", SPD)
def test_every_step_of_an_adaptive_release_is_as_noisy_as_stated(
    stand_in: Callable[..., ScriptedSource], manifold: str
) -> None:
    """(released − given)/σ of each step of 8 releases is N(0, 1); false alarm 5e-9 a manifold."""
    points = describe(WARDS["usual"])
    facts, space = domain("oct5", height=28, width=28, manifold=manifold), MANIFOLDS[manifold](k=5)
    by_step: dict[str, list[FloatArray]] = {}
    for _ in range(8):
        source = stand_in()
        drawn = released(
            points, GDP(2.0), mechanism="auto", noise="hardened", domain=facts, manifold=space
        )
        for call, step in zip(source.calls, drawn.steps, strict=True):
            by_step.setdefault(step.name, []).append((call.returned - call.given) / step.sigma)
    assert len(by_step) == len(STEP_NAMES)
    for found in by_step.values():
        assert stats.kstest(np.concatenate(found), stats.norm.cdf).pvalue > P_VALUE


# --- the order is the safety ----------------------------------------------------------------------


def watched(monkeypatch: pytest.MonkeyPatch, source: ScriptedSource) -> dict[str, int]:
    """Note how many draws were made when the ledger was asked to reserve and to commit."""
    at: dict[str, int] = {}
    for name in ("reserve", "commit"):
        real = getattr(Ledger, name)

        def inner(*values: Any, _real: Any = real, _name: str = name, **named: Any) -> Any:
            at[_name] = len(source.calls)
            return _real(*values, **named)

        monkeypatch.setattr(Ledger, name, inner)
    return at


@pytest.mark.parametrize("mechanism", ["auto", "ewg"])
def test_before_the_charge_nothing_is_drawn_about_an_image(
    tmp_path: Path, stand_in: Callable[..., ScriptedSource], mechanism: str
) -> None:
    """What is noised before the reservation is the same for all images, and after it is not."""
    place, seen = ReleasePlace(tmp_path, SPD[0], mechanism, "gdp"), []
    for ward in ("usual", "noise"):
        with pytest.MonkeyPatch.context() as patch:
            source = stand_in(nothing)
            at = watched(patch, source)
            place.release(ward)
        assert 0 < at["reserve"] < at["commit"] == len(source.calls)
        seen.append((at["reserve"], source.calls))
    (paid, one), (_, other) = seen
    same = [np.array_equal(a.given, b.given) for a, b in zip(one, other, strict=True)]
    assert all(same[:paid])
    for start in range(paid, len(same), paid):  # each class has as many steps as the rehearsal
        # without noise all images are soon at one end of the line: the later means are the same
        assert not any(same[start : start + 4])


def test_a_refused_charge_draws_nothing_about_an_image(
    tmp_path: Path, stand_in: Callable[..., ScriptedSource]
) -> None:
    """Out of budget, the only vectors that were noised are those of the rehearsal."""
    place, seen = ReleasePlace(tmp_path, SPD[0], "auto", "gdp"), []
    for ward in ("usual", "noise"):
        source = stand_in(nothing)
        book = init_ledger(tmp_path / f"{ward}.sqlite")
        book.set_budget("ward-7", GDP(1.0))
        with pytest.raises(LedgerError, match="left"):
            release_once(place.keep(ward), book, tmp_path)
        seen.append(source.calls)
    assert seen[0]
    assert all(np.array_equal(a.given, b.given) for a, b in zip(*seen, strict=True))


def flow_release(place: ReleasePlace, out: Path) -> Path:
    """Settle as the flow does and return the path of the document."""
    from covdp.flows import release as flow

    return flow.settle_release.fn(place.folder / "release.toml", out, place.folder, None)


def files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and of all below it."""
    return (path for path in folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("prefect_imported")
def test_files_hold_the_bytes_of_the_ledger_not_those_that_were_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt committed first: its document is written, and no byte of the loser's."""
    place, out = ReleasePlace(tmp_path, SPD[0], "ewg", "gdp"), tmp_path / "out"
    place.keep("usual")
    book = place.ledger()
    monkeypatch.setenv("COVDP_LEDGER", str(book.database.file))
    real, drawn = Ledger.commit, []

    def beaten(self: Ledger, held: Any, result: bytes) -> Any:
        assert not list(files(out))
        drawn.append(result)
        rival = json.loads(result)
        rival["title"] = "What the other attempt drew"
        real(self, held, json.dumps(rival).encode())
        return real(self, held, result)

    monkeypatch.setattr(Ledger, "commit", beaten)
    path = flow_release(place, out)
    assert json.loads(path.read_bytes())["title"] == "What the other attempt drew"
    assert all(result != path.read_bytes() for result in drawn)
    asked_again = release_once(load_release(place.folder / "release.toml"), book, place.folder)
    assert path.read_bytes() == asked_again
    assert len(drawn) == 1


@pytest.mark.usefixtures("prefect_imported")
def test_without_a_commit_there_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the ledger does not take the result, nothing that was drawn is written, anywhere."""
    place, out = ReleasePlace(tmp_path, SPD[0], "ewg", "gdp"), tmp_path / "out"
    place.keep("usual")
    monkeypatch.setenv("COVDP_LEDGER", str(place.ledger().database.file))

    def refuse(self: Ledger, held: Any, result: bytes) -> Any:
        raise LedgerError("the disk is full")

    monkeypatch.setattr(Ledger, "commit", refuse)
    before = set(files(tmp_path))
    with pytest.raises(LedgerError, match=r"is full; it is charged: .* --run-key monday"):
        flow_release(place, out)
    assert set(files(tmp_path)) == before


def test_the_ledger_knows_which_run_was_paid(tmp_path: Path) -> None:
    """The history of the account names the run key and the cost of the release."""
    place = ReleasePlace(tmp_path, SPD[0], "ewg", "gdp")
    book = place.ledger()
    release_once(place.keep("usual"), book, tmp_path)
    paid = book.history("ward-7")[-1]
    assert (paid.run_key, paid.cost) == ("monday", GDP(BUDGET))


@pytest.mark.parametrize(
    "change",
    [("eta = 1e-06", "eta = 1e-05"), ('"ewg"', '"tangent-gaussian"'), None],
    ids=["eta", "mechanism", "images"],
)
def test_another_question_or_other_images_are_another_release(
    tmp_path: Path, change: tuple[str, str] | None
) -> None:
    """Whatever the result depends on makes a release of its own under the same key, and is paid."""
    place, seen = ReleasePlace(tmp_path, SPD[0], "ewg", "gdp"), []
    path, book = tmp_path / "release.toml", place.ledger()
    book.set_budget("ward-7", GDP(2 * BUDGET))
    path.write_text(path.read_text() + "eta = 1e-06\n")
    for ward in ("usual", "noise" if change is None else "usual"):
        seen.append(release_once(place.keep(ward), book, tmp_path))
        path.write_text(path.read_text().replace(*(change or ("", ""))))
    assert book.show("ward-7")[0].releases == 2
    assert seen[0] != seen[1]
