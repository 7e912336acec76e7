"""The experiment on joint releases: what is drawn, of which records, at what price."""

import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from covdp.addons.papers.verdicts import verdicts
from covdp.addons.partners.hospitals import divided
from covdp.addons.partners.join.shares import JointNoise
from covdp.addons.partners.joining import GAIN, Room, read_scanned
from covdp.experiments import EXPERIMENTS, Run, load_experiments, run_experiment
from covdp.mean.sums import PER_UNIT
from covdp.report import load_runs
from covdp.results import read_rows


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the experiment on one class of tiles at one budget, five repetitions."""
    folder = tmp_path_factory.mktemp("joining")
    text = EXPERIMENTS["ours-join"].read_text(encoding="utf-8")
    begin, end = text.index("[[datasets]]"), text.index("[[mechanisms]]")
    tiles = '[[datasets]]\nname = "tiles"\nclasses = [2]\n\n'
    text = text[:begin] + tiles + text[end:]
    text = text.replace('"ours-join"', '"short"').replace("[0.1, 0.5, 2.0]", "[2.0]")
    text = re.sub(r"(?m)^repetitions = \d+\n", "", text)
    (folder / "short.toml").write_text(text, encoding="utf-8")
    (config,) = load_experiments(folder / "short.toml", repetitions=5)
    return Run(config, None, folder / "out")


def test_the_experiment_says_how_far_joint_releases_are_off(run: Run) -> None:
    """Ten joint err about as one, combined more than twice as much; the noise says the same."""
    rows = read_rows(run_experiment(run))
    error, sigma = (
        {
            name: rows[column][rows["series"] == name].mean()
            for name in dict.fromkeys(rows["series"])
        }
        for column in ("error", "sigma")
    )
    joint, one = "Joint, ten, none colludes", "One release"
    assert 0.8 < sigma[joint] / sigma[one] < 1.25
    assert sigma["Combined, ten"] > 1.5 * sigma[joint]
    assert error["Combined, ten"] > error[joint]  # of 5 each, seeded
    assert sigma["Joint, two, one may collude"] > 1.1 * sigma["Joint, two, none colludes"]
    assert set(rows["n"]) == {1500}
    (found,) = load_runs(run.out)
    assert len(verdicts(found)) == len(found.record.config["claims"])


def test_the_last_hospital_has_the_other_scanner(run: Run) -> None:
    """The images are the same, with a gain: the variance of the intensity has its square."""
    data, _ = read_scanned(run, 2)
    usual, other = np.split(data.placed, 2)
    moved = other - usual
    assert data.total == len(usual) == 1746
    intensity = np.median(moved[:, 0])
    assert intensity == pytest.approx(2.0 * np.log(GAIN), rel=0.1)  # levels are whole
    parts = divided(np.arange(1746), (1, 1, 1, 1, 1))
    assert len(parts[-1]) == 1746 - round(0.8 * 1746)


def test_shares_add_up_to_the_noise_of_all() -> None:
    """Whole steps of the lattice, σ as asked for, ρ of the hidden shares, the same rows again.

    Kolmogorov and Smirnov's test has p above 1e-6; σ is within 5 standard errors.
    """
    vector, sigma, many = np.linspace(-3.0, 3.0, 4000), 2.0, 5

    def drawn() -> Any:
        room = Room(many, np.random.default_rng(0))
        return JointNoise(many, 1, 1000, room)(vector, sigma, 1.0)

    found = drawn()
    noise = found.vector - np.rint(vector * PER_UNIT) / PER_UNIT
    np.testing.assert_array_equal(found.vector * PER_UNIT, np.rint(found.vector * PER_UNIT))
    assert abs(noise.std() / sigma - 1.0) < 5.0 / np.sqrt(2.0 * len(noise))
    assert stats.kstest(noise / sigma, "norm").pvalue > 1e-6
    assert found.rho == pytest.approx(many / (many - 1) / (2.0 * sigma**2), rel=1e-9)
    np.testing.assert_array_equal(drawn().vector, found.vector)
