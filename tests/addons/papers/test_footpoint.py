"""The footpoint studied: shares and distances in the rows, no release at a stated distance."""

import math
from pathlib import Path

import numpy as np
import pytest

from covdp.addons.papers.blocks import bounds
from covdp.addons.papers.verdicts import verdicts
from covdp.config import ExperimentConfig
from covdp.errors import ConfigError, PrivacyError, UndefinedError
from covdp.experiments import Run, load_experiments, run_experiment
from covdp.experiments.record import guarantees, uncertified
from covdp.experiments.usefulness import judged
from covdp.geometry import MANIFOLDS
from covdp.mean import Ball, SinglePlan, admit, mean, prepare, private_mean
from covdp.mechanisms import LATTICE, MECHANISMS, FloatNoise
from covdp.mechanisms.wrapping import error_bound
from covdp.privacy import GDP, split
from covdp.report import build_report, load_runs
from covdp.report.run_page import measured
from covdp.results import Table, read_rows

CURVED = MANIFOLDS["spd-affine-invariant"](k=3)
AT = SinglePlan(footpoint="at", footpoint_distance=2.0)


@pytest.fixture(scope="module")
def config() -> ExperimentConfig:
    """Return the simulated part of the experiment, at fewer dimensions and repetitions."""
    found = next(one for one in load_experiments("ew-footpoint") if one.source is not None)
    assert found.source is not None
    source = found.source.model_copy(update={"dimensions": (6,)})
    few = [one.model_copy(update={"repetitions": None}) for one in found.mechanisms]
    names = ("Public origin", "EWG footpoint, all records", "At a distance")
    chosen = tuple(one for one in few if one.series.startswith(names))
    flat = ("spd-log-euclidean", "spd-affine-invariant")
    changes = {"source": source.model_copy(update={"manifolds": flat}), "repetitions": 200}
    return found.model_copy(update={**changes, "mechanisms": chosen, "budgets": (0.5,)}).meant


@pytest.fixture(scope="module")
def out(config: ExperimentConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run it and return the folder of its results."""
    folder = tmp_path_factory.mktemp("footpoint")
    run_experiment(Run(config, None, folder))
    return folder


@pytest.fixture(scope="module")
def rows(config: ExperimentConfig, out: Path) -> Table:
    """Return the rows of the experiment."""
    return read_rows(Run(config, None, out).table)


def cell(rows: Table, label: int, series: str) -> Table:
    """Return the rows of a class and series."""
    mine = (rows["label"] == label) & (rows["series"] == series)
    assert mine.sum() == 200
    return {name: column[mine] for name, column in rows.items()}


def test_footpoints_are_where_they_are_said_to_be(rows: Table) -> None:
    """At a stated distance, in directions that differ; private ones nearer for a larger share."""
    for label in (0, 1):
        for distance in (0, 1, 16):
            found = cell(rows, label, f"At a distance, {distance}")["footpoint_distance"]
            np.testing.assert_allclose(found, distance, atol=1e-7)
        origin = cell(rows, label, "Public origin")["footpoint_distance"]
        assert len(set(origin)) == 1
        near = [
            cell(rows, label, f"EWG footpoint, all records, {share}")["footpoint_distance"]
            for share in ("0.02", "0.1", "0.4")
        ]
        assert len(set(near[0])) == 200
        means = [part.mean() for part in near]
        assert means == sorted(means, reverse=True)


def test_flat_a_footpoint_changes_nothing_and_costs_its_share(rows: Table) -> None:
    """Noise is 1/√(1 − share) as wide as the public origin's, and errors have that law.

    A mean of 200 errors in 6 dimensions is within 5 standard errors of it: 6e-7 a cell, 12 cells.
    """
    origin = cell(rows, 0, "Public origin")
    for share in (0.02, 0.05, 0.1, 0.2, 0.4):
        paid = cell(rows, 0, f"EWG footpoint, all records, {share:g}")
        ratio = paid["sigma"][0] / origin["sigma"][0]
        assert ratio == pytest.approx(1.0 / math.sqrt(1.0 - share), rel=1e-12)
        np.testing.assert_allclose(paid["error_bound"], paid["expected_error"], rtol=1e-9)
    for name in set(rows["series"]):
        found = cell(rows, 0, name)
        slack = 5.0 * found["error"].std(ddof=1) / math.sqrt(200)
        assert found["error"].mean() == pytest.approx(found["expected_error"][0], abs=slack)


def test_curved_errors_grow_with_the_distance_and_stay_below_the_bound(rows: Table) -> None:
    """At 16 more than 5 times the error at 0; bounds are the theorem's at each draw's distance.

    Mean errors are below mean bounds but for 5 standard errors: 3e-7 a cell, 12 cells.
    """
    space = MANIFOLDS["spd-affine-invariant"](k=3)
    for name in set(rows["series"]):
        found = cell(rows, 1, name)
        law = MECHANISMS["ewg"].noise_norms
        bound = error_bound(law(found["sigma"][0], 6), found["footpoint_distance"], space)
        np.testing.assert_allclose(found["error_bound"], bound, rtol=1e-9)
        slack = 5.0 * (found["error"] - bound).std(ddof=1) / math.sqrt(200)
        assert (found["error"] - bound).mean() <= slack
    near, far = (cell(rows, 1, f"At a distance, {x}")["error"].mean() for x in (0, 16))
    assert far > 5.0 * near


def test_the_page_draws_share_and_distance(config: ExperimentConfig, out: Path) -> None:
    """Two figures of one curve a mechanism; the origin from end to end; the table of bounds."""
    (run,) = load_runs(out)
    shares, distances = (measured(run, shown=f"footpoint_{x}") for x in ("share", "distance"))
    assert shares is not None
    assert distances is not None
    assert shares.id != distances.id
    points = [row for rows in shares.spec["datasets"].values() for row in rows]
    drawn = {(row["series"], row["x"]) for row in points}
    paid = {("EWG footpoint, all records", share) for share in (0.02, 0.05, 0.1, 0.2, 0.4)}
    assert drawn == paid | {("Public origin", 0.02), ("Public origin", 0.4)}
    points = [row for rows in distances.spec["datasets"].values() for row in rows]
    at = {round(row["x"], 6) for row in points if row["series"] == "At a distance"}
    assert at == {0, 1, 2, 4, 8, 16}
    assert all(row["expected"] is not None for row in points)
    assert "at most" in distances.caption
    table = bounds(run)
    assert len(table) == 2 * 7
    for line in table:
        assert line["least"] * (1 - 1e-9) <= line["curved"] <= line["corrected"] * (1 + 1e-9)
    page = build_report(out).read_text(encoding="utf-8")
    for text in ("Theorem 4.1, as printed", "share of the footpoint", "distance of the footpoint"):
        assert text in page
    assert "none: its footpoint is 16 from the true mean" in page
    assert {item.word for item in verdicts(run)} == {"Agrees"}


def test_a_stated_distance_is_never_private(config: ExperimentConfig) -> None:
    """No door but an experiment's takes such a plan; nothing is promised of it, nor judged."""
    rng = np.random.default_rng(1)
    points = CURVED.exp(CURVED.origin, 0.2 * rng.standard_normal((20, 6)))
    domain = Ball(5.0, CURVED.name, CURVED.origin)
    for noise in (FloatNoise(rng), LATTICE):
        with pytest.raises(PrivacyError, match="nothing that is drawn there is private"):
            mean(points, GDP(1.0), domain=domain, manifold=CURVED, plan=AT, noise=noise)
    with pytest.raises(PrivacyError, match="for experiments alone"):
        private_mean(points, GDP(1.0), domain=domain, manifold=CURVED, plan=AT, rng=rng)
    records = admit(points, domain=domain, manifold=CURVED)
    with pytest.raises(PrivacyError, match='choose "origin", "all" or "subsample"'):
        prepare(records, AT, rng=rng)
    assert prepare(records, AT, rng=rng, nonprivate=True, size=3).footpoints is not None
    for series in config.mechanisms:
        promised = guarantees(config, {"all": 40})[series.series]
        assert bool(uncertified(config, series)) == (series.footpoint_distance is not None)
        assert promised.startswith("none: its footpoint") == (series.footpoint == "at")
    mine = config.model_copy(update={"paper": "", "source": None, "dataset": "tiles"})
    assert all(series.footpoint_distance is None for series in judged(mine))
    assert judged(mine)


@pytest.mark.parametrize(
    ("series", "words"),
    [
        ('mechanism = "ewg"\nfootpoint = "at"', "needs footpoint_distance"),
        ('mechanism = "ewg"\nfootpoint_distance = 1.0', "no other has one"),
        ('mechanism = "rl"\nfootpoint = "at"\nfootpoint_distance = 1.0', "reads no footpoint"),
        ('mechanism = "ewg"\nfootpoint = "at"\nfootpoint_distance = -1.0', "greater than"),
        ('mechanism = "ewg"\nfootpoint = "all"\nfootpoint_mechanism = "kng"', "takes the records"),
        ('mechanism = "ewg"\n[[figures]]\nseries = ["on"]', "did you mean 'one'"),
    ],
)
def test_footpoints_that_mean_nothing_are_refused(tmp_path: Path, series: str, words: str) -> None:
    """One line, before anything is computed; other kinds than errors take no distance at all."""
    head = 'name = "few"\ntitle = "Few"\ndataset = "tiles"\nbudgets = [1.0]\nseed = 1\n'
    path = tmp_path / "few.toml"
    path.write_text(f'{head}[[mechanisms]]\nseries = "one"\n{series}\n')
    with pytest.raises(ConfigError, match=words):
        load_experiments(path)
    if words == "needs footpoint_distance":
        text = f'{head}kind = "regions"\n[[mechanisms]]\nseries = "one"\n{series}\n'
        path.write_text(f"{text}footpoint_distance = 1.0\n")
        with pytest.raises(ConfigError, match="footpoint_distance is for kind error"):
            load_experiments(path)


def test_the_published_footpoint_has_no_density_for_the_classes_of_octmnist() -> None:
    """5 % of a class, a share of 0.1, RL, affine-invariant: refused up to μ between 0.3 and 1.8.

    By σ = Δ/ε < 1/c_5 alone, from the sizes of the classes, which are public.
    """
    radius = math.sqrt(5) * math.log(5 * 255**2 + 1e-6)
    space = MANIFOLDS["spd-affine-invariant"](k=5)
    least = {37_455: 0.41, 11_598: 1.33, 8_866: 1.74, 51_390: 0.30}
    for n, mu in least.items():
        few = round(0.05 * n)
        for budget, exists in ((mu - 0.02, False), (mu + 0.02, True)):
            share, _ = split(GDP(budget), (0.1, 0.9))
            wide = 2.0 * max(radius, math.sqrt(5) * abs(math.log(1e-6))) / few
            if exists:
                MECHANISMS["rl"].calibrate(share, sensitivity=wide, manifold=space)
                continue
            with pytest.raises(UndefinedError, match="exists on spd-affine-invariant"):
                MECHANISMS["rl"].calibrate(share, sensitivity=wide, manifold=space)


def test_every_set_is_run_on_both_metrics_and_claims_are_of_their_manifold() -> None:
    """Runs of one set differ in their variant; another set that is named takes both as well."""
    configs = load_experiments("ew-footpoint")
    images = [one for one in configs if one.on_images]
    assert len({one.run_name for one in configs}) == len(configs)
    for name in {one.dataset for one in images}:
        found = {one.manifold for one in images if one.dataset == name}
        assert found == {"spd-log-euclidean", "spd-affine-invariant"}
    moved = load_experiments("ew-footpoint", dataset="organamnist")
    assert [one.variant for one in moved] == ["log-euclidean", "affine-invariant"]
    assert all(one.dataset == "organamnist" and one.beyond for one in moved)
    for one in configs:
        for claim in one.claims:
            if claim.manifolds is not None:
                assert set(claim.manifolds) & set(one.manifolds)
    simulated = next(one for one in configs if one.source is not None)
    labels = {claim.manifolds: claim.labels for claim in simulated.claims}
    assert labels[("spd-affine-invariant", "hyperbolic")] == (1, 2)
    assert labels[("spd-log-euclidean",)] == (0,)
