"""The experiment on classifiers: its rows, and how its claims are judged."""

from pathlib import Path

import numpy as np
import pytest

from covdp.addons.papers.verdicts import judge, verdicts
from covdp.addons.partners.classifiers import (
    Classes,
    against,
    area,
    read_classes,
    run_classifiers,
    score,
)
from covdp.config import ClaimConfig
from covdp.errors import ConfigError
from covdp.experiments import EXPERIMENTS, Run, all_cells, load_experiments, run_experiment
from covdp.experiments.populations import Population
from covdp.geometry import MANIFOLDS, FlatChart
from covdp.inference import discriminants_of_means
from covdp.mean import Ball, admit
from covdp.report import FinishedRun, load_runs, table_of
from covdp.report.run_page import measured
from covdp.results import Table, read_rows


def short(folder: Path) -> Path:
    """Write the experiment for two classes of tiles and two budgets."""
    text = EXPERIMENTS["ours-classify"].read_text(encoding="utf-8")
    head, rest = text.split("[[datasets]]", 1)
    head = head.replace('"ours-classify"', '"short"')
    head = head.replace("[0.1, 0.2, 0.5, 1.0, 2.0]", "[0.01, 2.0]")
    tiles = '[[datasets]]\nname = "tiles"\nclasses = [0, 2]\n\n'
    path = folder / "short.toml"
    series = "[[mechanisms]]" + rest.split("[[mechanisms]]", 1)[1]
    path.write_text(head + tiles + series, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, FinishedRun, Table]:
    """Return the experiment after three repetitions: the run, what is read back, and its rows."""
    folder = tmp_path_factory.mktemp("classifiers")
    (config,) = load_experiments(short(folder), repetitions=3)
    run = Run(config, None, folder / "out")
    rows = read_rows(run_experiment(run))
    (found,) = load_runs(folder / "out")
    return run, found, rows


def test_the_experiment_says_what_classifiers_tell_apart(
    done: tuple[Run, FinishedRun, Table],
) -> None:
    """Tissue and cells are told apart at n·μ of 1200, at 6 only without noise; one cell for all."""
    run, found, rows = done
    assert len(rows["n"]) == len(run.config.mechanisms) * 2 * 3
    assert set(rows["class_name"]) == {"all classes"}
    assert set(rows["n"]) == {610, 150}  # half of tissue
    loud = rows["budget"] < 1.0
    mean = {
        name: rows["auc"][(rows["series"] == name) & ~loud].mean()
        for name in dict.fromkeys(rows["series"])
    }
    assert min(mean["Nearest mean, all records"], mean["LDA, all records"]) > 0.99
    assert np.nanmean(rows["auc"][loud]) < rows["auc_plain"][loud].mean()
    assert (rows["auc_plain"] > 0.99).all()
    errors = {name: rows["error"][rows["series"] == name] for name in dict.fromkeys(rows["series"])}
    np.testing.assert_array_equal(errors["LDA, n = 150"], errors["Nearest mean, n = 150"])
    words = {verdict.says: verdict.word for verdict in verdicts(found)}
    key = "linear discriminants are never more than 0.02 below the nearest mean"
    assert words[key] == "Agrees"
    lines = table_of("run", "classified", found)
    assert lines is not None
    assert len(lines["lines"]) == 2 * len(run.config.mechanisms)
    figure = measured(found, shown="auc")
    assert figure is not None
    assert figure.alt.startswith("Area under the ROC curve against budget μ, in 2 panels")
    assert measured(found, shown="budget") is None


def test_without_noise_nearly_the_same(done: tuple[Run, FinishedRun, Table]) -> None:
    """At a budget of 10⁴ released classifiers are those without noise, but for the ridge."""
    run = done[0]
    classes, setting = read_classes(run, 0)
    config = setting.config.model_copy(update={"budgets": (1e4,), "repetitions": 2})
    cells = [
        cell
        for cell in all_cells(config, [0])
        if cell.series.series in ("LDA, all records", "Nearest mean, all records")
    ]
    done = run_classifiers(classes, setting._replace(config=config), cells)
    found = {cell.series.series: rows for cell, rows in done}
    assert len(found) == 2
    for rows in found.values():
        np.testing.assert_allclose(rows["auc"], rows["auc_plain"], atol=0.003)
        np.testing.assert_allclose(rows["balanced"], rows["balanced_plain"], atol=0.02)


def test_halves_are_apart_and_a_test_split_is_kept() -> None:
    """No record is released and classified; where there is a split it is that, every time."""
    space = FlatChart(MANIFOLDS["spd-log-euclidean"](k=1))
    points = tuple(np.arange(many, dtype=np.float64)[:, None] for many in (10, 7))
    records = [admit(whole, domain=Ball(10.0, space.name), manifold=space) for whole in points]
    classes = tuple(Population(own, own.n) for own in records)
    seen, unseen = Classes("all", classes, None).split(np.random.default_rng(0))
    for whole, rows, other in zip(points, seen, unseen, strict=True):
        one = whole[rows]
        assert sorted([*one[:, 0], *other[:, 0]]) == list(whole[:, 0])
        assert 0 <= len(one) - len(other) <= 1
    rows, again = Classes("all", classes, points[::-1]).split(np.random.default_rng(0))
    for whole, mine in zip(points, rows, strict=True):
        np.testing.assert_array_equal(whole[mine], whole)
    assert again == points[::-1]


def test_scores_are_areas_and_recalls() -> None:
    """By hand; of three classes each against the others, of two the same either way."""
    assert area(np.array([1.0, 2.0, 3.0, 2.0]), np.array([False, True, True, False])) == 0.875
    space = FlatChart(MANIFOLDS["spd-log-euclidean"](k=1))
    points = np.array([[0.0], [0.9], [1.2], [2.0]])
    two = discriminants_of_means(space, np.array([[0.0], [2.0]]))
    assert score(two, points, np.array([0, 1, 0, 1])) == (0.75, 0.5)
    found = two.discriminants(points)
    np.testing.assert_allclose(against(found, 0), -against(found, 1))
    three = discriminants_of_means(space, np.array([[0.0], [1.0], [2.0]]))
    assert score(three, points, np.array([0, 1, 1, 2])) == (1.0, 1.0)
    assert np.isnan(score(None, points, np.array([0, 1, 0, 1]))).all()


def test_claims_on_classifiers_are_judged() -> None:
    """A mean area is reached or not; a difference is that of releases that both judge by."""
    auc = np.array([0.9, 0.9, np.nan, 0.95, 0.91, 0.8])
    rows: Table = {
        "auc": auc,
        "n": np.full(6, 100),
        "budget": np.full(6, 1.0),
        "label": np.zeros(6, dtype=int),
        "series": np.array(["LDA, n = 9"] * 3 + ["Near, n = 9"] * 3, dtype=object),
        "class_name": np.array(["all"] * 6, dtype=object),
        "definition": np.array(["gdp"] * 6, dtype=object),
    }

    def judged(**fields: object) -> str:
        known = {"says": "so", "place": "here", **fields}
        return judge(ClaimConfig(**known).model_dump(), rows)[2]  # type: ignore[arg-type]

    assert "in 1 of 1 cells" in judged(left="LDA", column="auc", factor=0.9)
    assert "μ = 1: 0.9" in judged(left="LDA", column="auc", factor=0.91)
    near = {"left": "LDA", "right": "Near", "column": "behind"}
    assert "in 1 of 1 cells" in judged(**near, factor=0.031)
    assert "μ = 1: 0.03" in judged(**near, factor=0.029)
    assert "This run has no cell" in judged(left="LDA", right="None", column="behind", factor=0.1)


def test_unknown_classifiers_are_refused(tmp_path: Path) -> None:
    """One line before anything is computed."""
    path = short(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('classifier = "lda"', 'classifier = "ldaa"', 1), encoding="utf-8")
    with pytest.raises(ConfigError, match="unknown classifier 'ldaa'; did you mean 'lda'"):
        load_experiments(path)
