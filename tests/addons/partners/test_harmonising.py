"""The experiment on sites with scanners of their own: its rows, its scores, its claims."""

from pathlib import Path

import numpy as np
import pytest

from covdp.addons.papers.verdicts import verdicts
from covdp.addons.partners.harmonising import SCANNERS, discriminants, score
from covdp.errors import ConfigError
from covdp.experiments import EXPERIMENTS, Run, load_experiments, run_experiment
from covdp.report import load_runs, table_of
from covdp.results import read_rows


def short(folder: Path) -> Path:
    """Write the experiment for two classes of tiles, a large budget and small sites."""
    text = EXPERIMENTS["ours-harmonise"].read_text(encoding="utf-8")
    text = text.replace('"ours-harmonise"', '"short"').replace("[0.1, 0.5, 2.0]", "[20.0]")
    text = text.replace('"pneumoniamnist"', '"tiles"\nclasses = [0, 2]')
    path = folder / "short.toml"
    path.write_text(text.replace("n = 1000", "n = 400"), encoding="utf-8")
    return path


def test_maps_of_releases_put_sites_on_one_scale(tmp_path: Path) -> None:
    """At n·μ of 8,000 sites are told hardly more often than without noise, classes as well.

    By class less is gained here: scanners do to cells, which are dark and faint, what they do not
    do to tissue, and one map for both cannot undo it.
    """
    (config,) = load_experiments(short(tmp_path), repetitions=2)
    rows = read_rows(run_experiment(Run(config, None, tmp_path / "out")))
    assert set(rows["n"]) == {400}
    assert set(rows["status"]) == {"ok"}

    def mean(column: str, series: str) -> float:
        return float(rows[column][rows["series"] == series].mean())

    plain = mean("balanced_plain", "As they are")
    assert plain < mean("balanced", "As they are") - 0.1
    for series, gain in (("One scale, all images", 0.08), ("One scale, by class", 0.2)):
        assert mean("balanced", series) < plain + gain
        assert mean("auc", series) > mean("auc", "As they are") - 0.01
        assert mean("balanced_plain", series) == plain  # the same divisions
    (found,) = load_runs(tmp_path / "out")
    table = table_of("run", "classified", found)
    assert table is not None
    assert len(table["lines"]) == 3
    assert all(one.word for one in verdicts(found))


def test_scores_are_those_of_made_up_sites() -> None:
    """Sites far apart are all told, equal ones by guessing; classes by their distance."""
    rng, many, n = np.random.default_rng(4), len(SCANNERS), 2000
    truth = rng.integers(0, 2, (many, n))
    places = rng.standard_normal((many, n, 4))
    places[..., 0] += 2.0 * truth
    places[..., 3] = 7.0  # a constant, which says nothing
    order = rng.permutation(many * n)
    told, auc, _ = score(places, truth, order)
    assert abs(told - 1.0 / many) < 0.03  # six standard deviations of a share of 5,000
    assert auc == pytest.approx(0.921, abs=0.02)  # Φ(2/√2)
    away = places + 20.0 * np.arange(many)[:, np.newaxis, np.newaxis] * [0.0, 1.0, 0.0, 0.0]
    told, same, apart = score(away, truth, order)
    assert told == 1.0
    assert same == pytest.approx(auc, abs=0.02)
    assert apart == pytest.approx(20.0 * np.sqrt(2.0), rel=0.01)
    found = discriminants(places[0], truth[0], places[1])
    assert found.shape == (n, 2)


def test_unknown_scalings_are_refused(tmp_path: Path) -> None:
    """A name that is none is refused with those there are."""
    path = short(tmp_path)
    path.write_text(path.read_text().replace('"each class"', '"by hand"'))
    with pytest.raises(ConfigError, match="by hand"):
        load_experiments(path)
