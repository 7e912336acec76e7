"""The experiment on several hospitals: who has which records, what is made of their releases."""

from dataclasses import replace

import numpy as np
import pytest

from covdp.addons.papers.verdicts import verdicts
from covdp.addons.partners.hospitals import divided, noise_of, together
from covdp.experiments import EXPERIMENTS, Run, load_experiments, run_experiment
from covdp.experiments.populations import place, population
from covdp.experiments.steps import read_class
from covdp.mean import AdaptivePlan
from covdp.privacy import GDP
from covdp.report import load_runs
from covdp.results import read_rows


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the experiment on one class of tiles at one budget, five repetitions."""
    folder = tmp_path_factory.mktemp("hospitals")
    text = EXPERIMENTS["ours-combine"].read_text(encoding="utf-8")
    begin, end = text.index("[[datasets]]"), text.index("[[mechanisms]]")
    tiles = '[[datasets]]\nname = "tiles"\nclasses = [2]\n\n'
    text = text[:begin] + tiles + text[end:]
    text = text.replace('"ours-combine"', '"short"').replace("[0.1, 0.5, 2.0]", "[2.0]")
    (folder / "short.toml").write_text(text, encoding="utf-8")
    (config,) = load_experiments(folder / "short.toml", repetitions=5)
    return Run(config, None, folder / "out")


def test_the_experiment_says_how_far_hospitals_are_off(run: Run) -> None:
    """Five err more than one and less than five times as much; one has no p-value."""
    rows = read_rows(run_experiment(run))
    error = {
        name: rows["error"][rows["series"] == name].mean() for name in dict.fromkeys(rows["series"])
    }
    for name in ("Common mean, five alike", "Mean of all, five alike"):
        assert 1.0 < error[name] / error["One release"] < 5.0
    alone = rows["series"] == "One release"
    assert np.isnan(rows["p_value"][alone]).all()
    assert ((rows["p_value"] >= 0.0) & (rows["p_value"] <= 1.0))[~alone].all()
    assert rows["rejected"][~alone].mean() < 0.3  # 30 of them: a false alarm in 10⁵ at 5 %
    assert set(rows["n"]) == {1746, 400, 1000}
    five, one = (
        rows["sigma"][rows["series"] == name].min()
        for name in ("Mean of all, five alike", "One release")
    )
    assert 1.0 < five / one < 1.1 * np.sqrt(5)  # the wider the noise, the narrower is the clip
    (found,) = load_runs(run.out)
    words = {verdict.says: verdict.why for verdict in verdicts(found)}
    says = "the common mean of five hospitals has an error of less than 1.3·√5 times that of "
    says += "one release"
    assert says in words


def test_records_are_divided_in_the_ratio_of_sizes() -> None:
    """Each record goes to one hospital; sizes are met as far as whole records allow."""
    records = np.arange(100.0)[:, None]
    for sizes, found in (
        ((1,), [100]),
        ((1, 1, 1, 1, 1), [20] * 5),
        ((1, 9), [10, 90]),
        ((1, 2, 4, 8, 16), [3, 7, 13, 25, 52]),
    ):
        parts = divided(records, sizes)
        assert [len(part) for part in parts] == found
        np.testing.assert_array_equal(np.concatenate(parts), records)


def test_one_release_is_taken_as_it_is_and_small_ones_by_size(run: Run) -> None:
    """Without second moments the mean of all is that of means by size; noise adds up by shares."""
    data, setting = read_class(run, 2)
    placed, rng = place(data.points, setting), np.random.default_rng(0)
    records, plan = population(placed, setting), AdaptivePlan()
    parts = np.arange(10), np.arange(30)
    few = [records.release_each([rows], GDP(0.5), plan, rng)[0] for rows in parts]
    assert np.isfinite(together(few, "sample")[1])
    few = [one._replace(moments=(replace(one.moments[0], moment=None),)) for one in few]
    point, p, offered = together(few, "sample")
    np.testing.assert_allclose(point, 0.25 * few[0].point + 0.75 * few[1].point)  # in the chart
    assert np.isnan(p)
    assert not offered
    np.testing.assert_array_equal(together(few[:1], "sample")[0], few[0].point)
    noises = [np.trace(one.noisy_moments.noise) / 15 for one in few]
    expected = np.sqrt(noises[0] / 16 + 9 * noises[1] / 16)
    assert noise_of(few) == pytest.approx(expected)
