"""What is foreseen of a release: without images, and such that releases then do as was said.

All draws are seeded. The cells of real classes were found to lie in their ranges with room; each is
a mean of 8 draws that scatters by a fifteenth, so another seed changes the verdict of those within
a fifteenth of an end only, of which fewer than 1 in 10 may be missed.
"""

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covdp.cli import main
from covdp.cli.releases import sizes_of
from covdp.descriptors import domain
from covdp.errors import ConfigError
from covdp.geometry import MANIFOLDS, FlatChart
from covdp.inference import usual_difference
from covdp.ledger import init_ledger
from covdp.mean import AdaptivePlan, draw, release_plan
from covdp.mean.rounds import default_shares
from covdp.mechanisms import FloatNoise
from covdp.planning import (
    GAUSSIAN_RANGE,
    ClassArrivals,
    Curve,
    ErrorRange,
    _point,
    least_budget,
    marks,
    picture_records,
)
from covdp.privacy import GDP, ApproxDP, advantage, certified, convert, repeat
from covdp.privacy.rounding import two_digits
from covdp.report.templates import percent
from tests.tools.addons import addon
from tests.tools.tuning.images import CARDS, ImageClass, gray, images_of, records_of
from tests.tools.tuning.ranges import cells

opening_nights = addon("nights.planning:opening_nights")
stream_ends = addon("nights.planning:stream_ends")
StreamMechanism = addon("nights.stream:StreamMechanism")
StreamPlan = addon("nights.stream:StreamPlan")
cumulative_mean = addon("nights.stream:cumulative_mean")
empty_state = addon("nights.stream:empty_state")
later_openings = addon("nights.stream:later_openings")
release_night = addon("nights.stream:release_night")
SERIES_SHARES = addon("nights.stream.plan:SERIES_SHARES")

CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["well", "ill"]\n'
CONFIG = """\
name = "nightly"
population = "ward-7"
dataset = "ward.toml"
labels = "public"
budget = 0.5
"""
STREAM = "[stream]\nhorizon = 365\n"


@cache
def curve(manifold: str = "spd-log-euclidean", descriptor: str = "oct5") -> Curve:
    """Return the range of the adaptive mean of small images."""
    return Curve(domain(descriptor, height=28, width=28, manifold=manifold), AdaptivePlan())


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with a card and a config: no images, no ledger, no data root."""
    (tmp_path / "ward.toml").write_text(CARD)
    (tmp_path / "release.toml").write_text(CONFIG)
    (tmp_path / "stream.toml").write_text(CONFIG + STREAM)
    monkeypatch.setenv("COVDP_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("COVDP_LEDGER", str(tmp_path / "ledger.sqlite"))
    return tmp_path


def planned(ward: Path, capsys: pytest.CaptureFixture[str], *tokens: str) -> Any:
    """Return what `covdp plan --json` prints."""
    file = "stream.toml" if "stream" in tokens else "release.toml"
    rest = [token for token in tokens if token != "stream"]
    assert main(["plan", "--config", str(ward / file), "--json", *rest]) == 0
    return json.loads(capsys.readouterr().out)


def test_realised_errors_of_other_images_lie_in_the_range(samples: Path) -> None:
    """Of classes that no range was set on, at least 9 in 10 cells err as was foreseen."""
    found = []
    for label in (3, 8):
        images = gray(images_of(ImageClass(str(CARDS / "pathmnist-sample.toml"), label), samples))
        for descriptor, manifold in (
            ("oct5", "spd-log-euclidean"),
            ("oct5", "spd-log-cholesky"),
            ("grid9", "spd-log-euclidean"),
        ):
            found += list(cells("colon", images, descriptor, manifold, 8))
    assert len(found) == 30
    assert np.mean([cell.holds for cell in found]) >= 0.9
    assert np.mean([cell.within for cell in found]) >= 0.95
    assert np.median([cell.high / cell.low for cell in found]) < 8.0


def test_noise_alone_is_foreseen_within_a_tenth() -> None:
    """One draw of Gaussian noise errs by σ·E‖N(0, Id)‖ wherever the records lie."""
    known = replace(curve(), plan=release_plan("ewg", hardened=False))
    d = known.domain.dimension
    chi = math.sqrt(2.0) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
    for information in (300.0, 1000.0, 12345.0):
        exact = known.domain.diameter / information * chi
        low, high = known.ends(information)
        assert low < exact < high < 1.6 * low * GAUSSIAN_RANGE[1] / GAUSSIAN_RANGE[0]


def test_a_range_holds_the_pictures_that_it_is_made_from_with_room() -> None:
    """Drawn anew, the largest error of a set is well below the upper end, the least above the low.

    Means of 20 draws scatter by 4 %: by chance it fails less than once in a million seeds.
    """
    for information in (64.0, 512.0):
        errors = []
        for ready in picture_records(curve()):
            noise, budget = FloatNoise(np.random.default_rng(8)), GDP(information / ready.records.n)
            release, distance = draw(ready, budget, noise=noise, size=20)
            if distance is None:
                distance = release.space.dist(ready.records.frechet.point, release.outputs)
            errors.append(float(distance.mean()))
        low, high = curve().ends(information)
        assert 1.15 * low < min(errors)
        assert 1.15 * max(errors) < high


def test_of_a_hundred_releases_95_lie_within_the_radius() -> None:
    """Where the error is the upper end; 20,000 draws of noise scatter by 0.15 %."""
    rng = np.random.default_rng(9)
    distances = 2.0 * np.linalg.norm(rng.normal(size=(20_000, 15)), axis=1) / math.sqrt(15)
    assert np.mean(distances < ErrorRange(1.0, 2.0).radius(15)) == pytest.approx(0.95, abs=0.01)


def opening_curve(plan: StreamPlan) -> Curve:
    """Return the curve of the opening of a stream."""
    domain = curve().domain
    return Curve(domain, StreamMechanism(plan, domain, curve().manifold).opening)


def test_a_night_errs_by_the_norm_of_its_weights() -> None:
    """After a small opening it is one release of what came since, at ‖c‖_H·‖c‖_k times the noise.

    The norm is that of exact fractions.
    """
    plan, units = StreamPlan(GDP(1.0), 365, opening=10.0), ClassArrivals(1000, 1000)
    c, squares = Fraction(1), [Fraction(0)]
    for k in range(1, 366):
        squares.append(squares[-1] + c * c)
        c *= Fraction(2 * k - 1, 2 * k)
    for night in (2, 100):
        norm = math.sqrt(squares[365] * squares[night - 1])
        signal = 1000.0 * (night - 1) / norm
        own = default_shares(picture_records(curve())[0].records.prior, few=False).last
        later = signal * math.sqrt(SERIES_SHARES[-1] / own)
        a, b = opening_curve(plan).ends(1000.0).high / night, curve().ends(later).high
        found = stream_ends(plan, curve(), units, night)
        assert found
        assert found.high == pytest.approx(1.2 * math.hypot(a, b * (1 - 1 / night)), rel=1e-9)


def test_a_range_depends_on_the_product_alone_and_not_on_what_was_asked_before() -> None:
    """A curve that is asked once, with nothing cached, gives the same numbers, to the bit."""
    first = [curve().ends(information) for information in (37.0, 900.0, 60.0)]
    _point.cache_clear()
    picture_records.cache_clear()
    assert Curve(curve().domain, AdaptivePlan()).ends(60.0) == first[2]
    assert all(low < high for low, high in first)
    assert first[0].high > first[2].high > first[1].high


def test_ranges_fall_with_the_number_of_records() -> None:
    """Both ends are smaller for more records, and for a larger budget."""
    ranges = [curve().ends(place) for place in np.geomspace(5.0, 5e4, 20)]
    for before, after in pairwise(ranges):
        assert after.low < before.low
        assert after.high < before.high


def test_the_plan_works_without_images_and_without_a_ledger(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prices are those of the privacy room; errors fall as n or the budget grow."""
    told = planned(ward, capsys, "--n", "well=300", "--n", "ill=2000")
    found = told["forecast"]
    assert "ledger.sqlite" in told["account"]
    assert not (ward / "ledger.sqlite").exists()
    for row in found["prices"]:
        charge = GDP(row["charge"]["mu"])
        assert row["advantage"] == advantage(certified(charge))
        implied = convert(charge, ApproxDP, delta=row["delta"])
        assert isinstance(implied, ApproxDP)
        assert row["epsilon"] == implied.epsilon
        assert row["nights"] is None
    assert row["delta"] == 1e-5
    assert [one["name"] for one in found["classes"]] == ["well", "ill"]
    for end in ("low", "high", "radius"):
        well, ill = ([row[end] for row in one["by_budget"]] for one in found["classes"])
        assert well == sorted(well, reverse=True)
        assert well[0] > 2 * well[-1]  # the last budget is sixteen times the first
        assert all(a > b for a, b in zip(well, ill, strict=True))


def test_nights_are_those_that_the_account_pays_for(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each budget of the ladder is asked of the ledger; a person's images count."""
    book = init_ledger(ward / "ledger.sqlite")
    book.set_budget("ward-7", GDP(2.0))
    config = ward / "release.toml"
    config.write_text(CONFIG + "images_per_person = 2\n")
    found = planned(ward, capsys, "--per-night", "30", "--nights", "12")["forecast"]
    assert [row["charge"]["mu"] for row in found["prices"]] == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert [row["nights"] for row in found["prices"]] == [64, 16, 4, 1, 0]
    assert found["nights"] == [1, 2, 5, 10, 12]
    assert [row["n"] for row in found["classes"][0]["by_night"]] == [30, 60, 150, 300, 360]
    assert found["totals"][3]["mu"] == pytest.approx(repeat(GDP(1.0), 10).mu, rel=1e-12)
    for nights, named in ((12, True), (4, False)):
        told = ["--per-night", "30", "--nights", str(nights)]
        assert main(["plan", "--config", str(config), *told]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert ("The account pays 4 of these 12 nights" in said) == named
        assert f"Night {nights}. Prediction: " in said


def test_a_stream_is_charged_once_and_opens_when_it_says(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is foreseen before the opening; with the horizon paid, all nights are."""
    init_ledger(ward / "ledger.sqlite").set_budget("ward-7", GDP(0.6))
    found = planned(ward, capsys, "stream", "--per-night", "20")["forecast"]
    assert (found["horizon"], found["night"]) == (365, 365)
    one = found["classes"][0]
    assert one["opening"] == 30  # 20·30·0.5 = 300
    assert [row["low"] is None for row in one["by_night"]] == [
        night < 30 for night in found["nights"]
    ]
    assert {row["mu"] for row in found["totals"]} == {0.5}
    assert [row["nights"] for row in found["prices"]] == [365, 365, 365, 0, 0]


def test_a_real_stream_errs_as_foreseen() -> None:
    """At the opening, ten nights and 40 nights later, on tiles of one picture."""
    records = records_of(images_of(ImageClass("tiles", 0), None), descriptor="oct5")
    plan = StreamPlan(GDP(1.0), 365)
    stream = StreamMechanism(plan, records.domain, FlatChart(records.manifold))
    nightly, history, private = 20, [], empty_state(stream.space.dim)
    noise = FloatNoise(np.random.default_rng(5))
    rows = np.random.default_rng(6).permutation(records.n)
    for night in range(1, 56):
        batch = records.placed[rows[(night - 1) * nightly : night * nightly]]
        told, private = release_night(stream, history, private, batch, noise=noise)
        history.append(told)
        ends = stream_ends(plan, curve(), ClassArrivals(nightly, nightly), night)
        found = cumulative_mean(stream, history)
        assert (found is None) == (ends is None) == (night < 15)
        if night in (15, 25, 55) and found is not None and ends is not None:
            true = records.placed[rows[: night * nightly]].mean(axis=0)
            assert ends.low < np.linalg.norm(found.offset - true) < ends.high


def test_what_counts_cost_is_foreseen() -> None:
    """Of secret labels the opening has 0.95 of the squared budget; later nights have all of it."""
    units = ClassArrivals(300, 300)
    public, secret = (StreamPlan(GDP(1.0), 365, secret=labels) for labels in (False, True))
    opening = opening_curve(secret)
    assert stream_ends(secret, curve(), units, 1) == opening.ends(300.0 * secret.opening_mu(15))
    assert secret.opening_mu(15) == pytest.approx(math.sqrt(0.95), rel=1e-9)
    assert public.opening_mu(15) == public.mu
    assert stream_ends(public, curve(), units, 1) == opening.ends(300.0)
    for night, least in ((1, 1.005), (9, 1.0)):
        one, other = (stream_ends(plan, curve(), units, night) for plan in (public, secret))
        assert one
        assert other
        assert least < other.high / one.high < 1.05


def test_streams_of_secret_labels_err_as_foreseen() -> None:
    """At the opening, and on nights 25 and 55, the median of twelve streams is in the range."""
    records = records_of(images_of(ImageClass("tiles", 0), None), descriptor="oct5")
    plan, nightly = StreamPlan(GDP(1.0), 365, secret=True), 20
    stream = StreamMechanism(plan, records.domain, FlatChart(records.manifold))
    errors: dict[int, list[float]] = {0: [], 25: [], 55: []}
    for seed in range(12):
        history, private = [], empty_state(stream.space.dim)
        noise, rows = (
            FloatNoise(np.random.default_rng([5, seed])),
            np.random.default_rng([6, seed]).permutation(records.n),
        )
        for night in range(1, 56):
            batch = records.placed[rows[(night - 1) * nightly : night * nightly]]
            told, private = release_night(
                stream, history, private, batch, noise=noise, total=2 * nightly
            )
            history.append(told)
            place = 0 if told.opened else night
            if place in errors:
                found = cumulative_mean(stream, history)
                assert found
                true = records.placed[rows[: night * nightly]].mean(axis=0)
                errors[place].append(float(np.linalg.norm(found.offset - true)))
    for night, several in errors.items():
        ends = stream_ends(plan, curve(), ClassArrivals(nightly, nightly), night or 15)
        assert ends
        assert len(several) == 12
        assert ends.low < np.median(several) < ends.high


def test_a_class_without_images_is_planned_where_labels_are_secret(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no error, in a release and in a stream, and what is released of it is said."""
    secret = CONFIG.replace('labels = "public"\n', "")
    (ward / "release.toml").write_text(secret)
    (ward / "stream.toml").write_text(secret + STREAM)
    for tokens in ((), ("stream",)):
        found = planned(ward, capsys, *tokens, "--n", "well=900", "--n", "ill=0")["forecast"]
        well, ill = found["classes"]
        assert (ill["name"], ill["opening"], ill["needed"]) == ("ill", None, None)
        assert all(row["low"] is row["high"] is None for row in ill["by_budget"])
        assert well["by_budget"][2]["low"] > 0.0
        assert (
            "A class without images is released as all others are: its count is near 0, its mean "
            "is noise, and it has no region."
        ) in found["meaning"]
        assert "ill" not in " ".join(found["verdict"])
    assert main(["plan", "--config", str(ward / "release.toml"), "--n", "ill=0"]) == 0
    assert "no mean" in capsys.readouterr().out


def test_the_least_budget_suffices_and_no_smaller_one(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--error` is solved for: at what is found the range ends below, 1 % under it above."""
    found = planned(ward, capsys, "--n", "well=300", "--n", "ill=2000", "--error", "0.1")[
        "forecast"
    ]
    needed = {one["name"]: one["needed"] for one in found["classes"]}
    for name, n in (("well", 300), ("ill", 2000)):
        assert (
            curve().ends(n * needed[name]).high <= 0.1 < curve().ends(0.99 * n * needed[name]).high
        )
    assert found["needed"] == needed["well"] > needed["ill"]


def test_what_a_mean_is_likely_usable_for_is_asked_of_the_larger_end(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is the whole range, as a share of a usual difference."""
    found = planned(ward, capsys, "--n", "well=300", "--n", "ill=300")["forecast"]
    estimate = found["classes"][0]["by_budget"][2]  # at the budget of the config
    usual = usual_difference(MANIFOLDS["spd-log-euclidean"](k=5), 5)
    least, most = (percent(estimate[end] / usual) for end in ("low", "high"))
    assert least != most
    assert found["verdict"][1] == (
        f"Error: {least} to {most} of a usual difference between classes (well, 300 images)."
    )


def test_after_a_first_look_the_next_opening_is_needed(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At n·μ of 55 a stream opens, and of 300 again: at 600 images, or now with that much more μ.

    What came since the first look is not in its mean, which has no region.
    """
    (ward / "stream.toml").write_text(CONFIG + STREAM + "opening = 40\n")
    asked = "stream", "--n", "well=110", "--per-night", "110", "--nights"
    for night, arrived in ((1, 110), (5, 550)):
        said = planned(ward, capsys, *asked, str(night))["forecast"]["verdict"]
        mu = two_digits(0.5 * 600 / arrived)
        assert "not usable" in said[0] or "perhaps usable" in said[0]
        assert f"({arrived} images)" in said[1]
        assert said[-1] == (
            f"At the upper end of this range any use needs about 600 images a class, or μ = {mu}."
        )
    assert "comparisons" in planned(ward, capsys, *asked, "6")["forecast"]["verdict"][0]


def test_budgets_that_jump_or_never_suffice() -> None:
    """Where nothing is released below a budget the jump is found; where none suffices, None."""
    opened = least_budget(lambda x: 0.1 / x if x >= 0.7 else math.inf, 0.5, 10.0)
    assert opened == pytest.approx(0.7, rel=1e-3)
    assert opened >= 0.7
    assert least_budget(lambda x: 0.1 / x, 0.5, 1e-3) == pytest.approx(0.2, rel=1e-3)
    assert least_budget(lambda x: 1.0, 0.5, 1.0) is None
    assert least_budget(lambda x: 0.1, 0.5, 1.0) == 2.0**-11


def test_the_opening_is_the_first_night_with_enough() -> None:
    """It is where N·μ reaches the opening, or never within the horizon."""
    plan = StreamPlan(GDP(0.5), 100)
    assert opening_nights(plan, ClassArrivals(600)) == (1,)
    assert opening_nights(plan, ClassArrivals(599)) == ()
    assert opening_nights(plan, ClassArrivals(7, 7)) == (86,)
    assert opening_nights(plan, ClassArrivals(5, 5)) == ()
    assert marks(40, None, 33) == (1, 2, 5, 10, 30, 33, 40)


def test_records_that_are_held_back_are_enough_at_an_opening() -> None:
    """After a first look the mean is of more at 300 alone; an opening of 80 or more holds none."""
    plan = StreamPlan(GDP(0.5), 100, 70.0, again=later_openings(70.0))
    assert [plan.enough(units, 158) for units in (200, 600, 601)] == [600, 600, 601]
    assert plan.enough(200, 160) == 200


def test_tables_say_what_a_range_is(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without sizes some usual ones are shown, with what error and radius mean."""
    told = ["plan", "--config", str(ward / "release.toml"), "--error", "1e-9", "--verbose"]
    assert main(told) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for words in ("any class of 1,000", "error: expected distance", "radius:", "0.5", "62.4"):
        assert words in printed
    assert "no budget looked at suffices" in printed


@pytest.mark.parametrize("labels", ["secret", "public"])
def test_one_table_is_of_the_folder_that_the_config_names(
    ward: Path, capsys: pytest.CaptureFixture[str], labels: str
) -> None:
    """Its public number in equal classes, or the sizes of classes; budgets are rows, uses a column.

    Where the folder is not there some usual sizes are shown.
    """
    config = CONFIG.replace(
        'labels = "public"\n', "" if labels == "secret" else 'labels = "public"\n'
    )
    (ward / "release.toml").write_text(f'{config}data_root = "{ward}"\n')
    told = ["plan", "--config", str(ward / "release.toml")]
    assert main(told) == 0
    assert "any class of 1,000" in " ".join(capsys.readouterr().out.split())
    images = np.zeros((1500, 28, 28), np.uint8)
    truth = np.array([0] * 1400 + [1] * 100, np.uint8)
    np.savez(ward / "ward.npz", train_images=images, train_labels=truth)
    assert main(told) == 0
    printed = capsys.readouterr().out
    sizes = ("1,400", "100") if labels == "public" else ("each of 2 classes, 750",)
    assert all(size in " ".join(printed.split()) for size in sizes)
    assert ("1,500 images in all, here divided evenly" in printed) == (labels == "secret")
    head, _, table = printed.partition("budget μ")
    assert "Error: " in head
    assert "error" not in table.replace("shows errors", "")
    found = planned(ward, capsys)["forecast"]["classes"]
    for row in found:
        uses = [each["use"] for each in row["by_budget"]]
        assert uses == sorted(uses)
        assert uses[-1] > uses[0]


@pytest.mark.parametrize(
    ("labels", "stored", "sizes"),
    [
        ("secret", (1400, 101), [[750, 770, 790]]),
        ("public", (1400, 0), [[1400, 1420, 1440], [0, 20, 40]]),
        ("public", (0, 0), [[20, 40, 60], [20, 40, 60]]),
    ],
)
def test_images_that_are_there_come_on_the_first_of_the_nights(
    ward: Path,
    capsys: pytest.CaptureFixture[str],
    labels: str,
    stored: tuple[int, int],
    sizes: list[list[int]],
) -> None:
    """Those of each class, empty or not, or of all together; δ is below one over all that come."""
    truth = np.repeat(np.arange(2, dtype=np.uint8), stored)
    images = np.zeros((truth.size, 28, 28), np.uint8)
    np.savez(ward / "ward.npz", train_images=images, train_labels=truth)
    config = CONFIG.replace('"public"', f'"{labels}"') + f'data_root = "{ward}"\n{STREAM}'
    (ward / "stream.toml").write_text(config.replace("365", "100_000"))
    found = planned(ward, capsys, "stream", "--per-night", "20", "--nights", "3")["forecast"]
    assert [[row["n"] for row in one["by_night"]] for one in found["classes"]] == sizes
    assert found["classes"][0]["opening"] == (1 if sum(stored) else 30)
    last = planned(ward, capsys, "stream", "--per-night", "20", "--nights", "9999")["forecast"]
    come = sum(stored) + 2 * 20 * (9998 if sum(stored) else 9999)
    assert {row["delta"] for row in last["prices"]} == {1 / (10 * come)}


def test_what_is_said_of_a_range_is_true_of_this_one(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Noise alone, a stream, persons and volumes have sentences of their own."""
    alone = "A mean without clipping has the error of its noise alone, whatever the images are."
    usual = planned(ward, capsys)["forecast"]["meaning"]
    stream = planned(ward, capsys, "stream")["forecast"]["meaning"]
    (ward / "release.toml").write_text(CONFIG + 'mechanism = "ewg"\n')
    noise = planned(ward, capsys)["forecast"]["meaning"]
    assert "0.75 times their smallest" in usual[0]
    assert "0.9 times their smallest" in noise[0]
    assert [line for line in stream if line not in usual] == [stream[1]]
    assert "opening" in stream[1]
    assert alone in noise
    assert alone not in usual


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["--n", "well"], "CLASS=N"),
        (["--n", "well=many"], "CLASS=N"),
        (["--n", "wel=30"], "did you mean 'well'"),
        (["--n", "well=1"], "smallest_class"),
        (["--n", "well=0"], "--n well must be 1 to 1,000,000,000,000, found 0"),
        (["--per-night", "0"], "--per-night must be 1 to 1,000,000,000,000, found 0"),
        (["--error", "0"], "above 0"),
        (["stream", "--nights", "400"], "365"),
        (["--ledger", "nowhere/ledger.sqlite"], "nowhere"),
    ],
)
def test_bad_input_is_one_line(
    ward: Path, capsys: pytest.CaptureFixture[str], tokens: list[str], words: str
) -> None:
    """The rule, what was found, and the way out."""
    file = "stream.toml" if "stream" in tokens else "release.toml"
    rest = [token for token in tokens if token != "stream"]
    assert main(["plan", "--config", str(ward / file), *rest]) == 2
    line = capsys.readouterr().err.strip()
    assert line.startswith("covdp: ")
    assert "\n" not in line
    assert words in line


def test_noise_that_is_not_gaussian_is_not_foreseen(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """n·μ alone does not say how Laplace noise errs."""
    text = CONFIG + 'mechanism = "ewl"\nnoise = "float"\n'
    (ward / "release.toml").write_text(text)
    assert main(["plan", "--config", str(ward / "release.toml")]) == 2
    assert "ewl is not foreseen" in capsys.readouterr().err


def test_a_class_may_have_an_equals_sign_in_its_name() -> None:
    """The last one counts; a class is named once."""
    assert sizes_of(["a=b=12", "c=3"]) == {"a=b": 12, "c": 3}
    with pytest.raises(ConfigError, match="twice"):
        sizes_of(["c=3", "c=4"])
