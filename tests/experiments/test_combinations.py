"""Every mechanism on every manifold, with every footpoint: it runs to its page, or is refused."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from covdp import open_dataset
from covdp.cli import main
from covdp.config import ExperimentConfig
from covdp.errors import ConfigError
from covdp.experiments import Run, load_experiments
from covdp.experiments.usefulness import judged, measure_usefulness
from covdp.files import make_folder
from covdp.geometry import MANIFOLDS
from covdp.geometry.covariances import covariances_of
from covdp.mean import AdaptivePlan
from covdp.mechanisms import MECHANISMS, Family
from covdp.results import read_rows

CARD = """\
kind = "npz"
local = true
public = true
channels = 1
classes = ["tissue", "cells"]
"""
BUDGETS = (0.001, 1000.0)
"""At the first, noise may be wider than doubles hold; at the last every law has a density."""
FOOTPOINTS = ("origin", "all", "subsample", "adaptive")
PRIVATE = ("all", "subsample")
"""Footpoints that a mechanism of their own draws."""
BOTH = ("ewg", "rl")
"""Of these, as published and ours."""
SIMULATED = {
    "hyperbolic": ("ball", 3, 0.5),
    "sphere": ("ball", 2, 0.3),
    "kendall": ("outlines", 8, 0.2),
}
"""Records that are no covariances: source, dimension and radius."""

Combination = tuple[str, str, str, str]
"""Mechanism, sampler, footpoint and the mechanism of the footpoint."""


def combinations(own: Iterable[str] = MECHANISMS) -> list[Combination]:
    """Return all that a series can say of them, with these mechanisms of private footpoints."""
    return [
        (name, sampler, footpoint, by)
        for name in MECHANISMS
        for sampler in ("exact", "chain")
        for footpoint in FOOTPOINTS
        for by in (own if footpoint in PRIVATE else ["ewg"])
    ]


def definition(name: str) -> str:
    """Return a definition in which the mechanism has a guarantee."""
    known = MECHANISMS[name].definitions
    return "gdp" if "gdp" in known else known[0]


def label(combination: Combination) -> str:
    """Return what the series is called."""
    return ", ".join(combination)


def sound(manifold: str, combination: Combination) -> bool:
    """Return whether the table of mechanisms has it: the oracle of what is refused.

    A footpoint is drawn around one mean, to a point of the manifold, at the same definition.
    """
    name, sampler, footpoint, own = combination
    family, other = MECHANISMS[name], MECHANISMS[own]

    def there(it: Family) -> bool:
        return manifold in it.manifolds and definition(name) in it.definitions

    if sampler not in family.samplers or not there(family):
        return False
    if footpoint == "adaptive":
        return (name, sampler) == ("ewg", "exact")
    mean = other.statistic == "mean" and not other.embedded and other.moves == "distance"
    return footpoint == "origin" or (there(other) and mean)


def write(manifold: str, chosen: list[Combination], folder: Path) -> Path:
    """Write an experiment with these series."""
    lines = [
        'name = "combinations"\ntitle = "Combinations"\nrepetitions = 2\nseed = 5',
        f'manifold = "{manifold}"\nbudgets = {list(BUDGETS)}',
    ]
    if manifold in SIMULATED:
        kind, dimension, radius = SIMULATED[manifold]
        source = f'kind = "{kind}"\ndimensions = [{dimension}]\nn = [12]\nradius = {radius}'
        lines.append(f"[source]\n{source}")
    else:
        lines[0] += '\ndataset = "ward.toml"'
    for name, sampler, footpoint, own in chosen:
        lines.append(
            f'[[mechanisms]]\nseries = "{label((name, sampler, footpoint, own))}"\n'
            f'mechanism = "{name}"\nsampler = "{sampler}"\nfootpoint = "{footpoint}"\n'
            f'footpoint_mechanism = "{own}"\nburn_in = 500\ndefinition = "{definition(name)}"'
        )
    path = folder / "combinations.toml"
    path.write_text("\n\n".join(lines))
    return path


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with forty real pictures of two classes."""
    folder = tmp_path_factory.mktemp("ward")
    images = [next(iter(open_dataset("tiles").chunks(label=label)))[:400:20] for label in (0, 2)]
    labels = np.repeat(np.arange(2, dtype=np.uint8), 20)
    np.savez(folder / "ward.npz", train_images=np.concatenate(images), train_labels=labels)
    (folder / "ward.toml").write_text(CARD)
    return folder


@pytest.mark.addons
@pytest.mark.parametrize("manifold", MANIFOLDS)
def test_every_sound_combination_runs_to_its_page(
    manifold: str, ward: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All series of a manifold: a finite error, or a status that says why there is none; a page."""
    chosen = [one for one in combinations(BOTH) if sound(manifold, one)]
    assert len(chosen) > 5
    path, out = write(manifold, chosen, ward), tmp_path / "out"
    options = ["--config", str(path), "--data-root", str(ward), "--out", str(out)]
    assert main(["run", *options, "--json"]) == 0
    paths = json.loads(capsys.readouterr().out)
    rows = read_rows(Path(paths["results"]))
    page = Path(paths["report"]).read_text()
    for one in chosen:
        name, _, footpoint, own = one
        mine = rows["series"] == label(one)
        assert mine.sum() == len(BUDGETS) * 2 * len(np.unique(rows["label"]))
        assert label(one) in page
        drawn = rows["status"][mine] == "ok"
        assert (np.isfinite(rows["error"][mine]) == drawn).all()
        laplace = name in ("rl", "kng") or (footpoint in PRIVATE and own == "rl")
        lacking = {"undefined"} if laplace else set()
        if not MANIFOLDS[manifold].flat:
            lacking |= {"not representable"}
        assert set(rows["status"][mine]) <= {"ok"} | lacking, one
        assert (rows["status"][mine & (rows["budget"] == BUDGETS[-1])] == "ok").all(), one


@pytest.mark.parametrize("manifold", [name for name in MANIFOLDS if name not in SIMULATED])
def test_what_private_means_are_good_for_is_measured_of_every_series(
    manifold: str, ward: Path, tmp_path: Path
) -> None:
    """Whichever series is judged, in whatever chart it was drawn: shares between 0 and 1.

    Means with hardly any noise, of μ = 1e6, tell twenty images of each class as true ones do, but
    for two of them.
    """
    chosen = [one for one in combinations(BOTH) if sound(manifold, one) and one[1] == "exact"]
    chosen = [one for one in chosen if not MECHANISMS[one[0]].embedded]
    assert covariances_of(MANIFOLDS[manifold])
    (config,) = load_experiments(write(manifold, chosen, ward))
    budgets = (*BUDGETS, 1.0, 1e6)
    for series in config.mechanisms:
        alone = config.model_copy(update={"mechanisms": (series,), "budgets": budgets})
        assert judged(alone) == (series,)
        found = measured(alone, ward, tmp_path)
        shares = {item["budget"]: item["kept"] for item in found["kept"]}
        assert all(0.0 <= share <= 1.0 for kept in shares.values() for share in kept)
        if not isinstance(series.plan, AdaptivePlan):
            expected = pytest.approx([found["plain"]] * 10, abs=0.05 + 1e-9)
            assert shares[1e6] == expected, series.series


def measured(config: ExperimentConfig, root: Path, out: Path) -> dict:
    """Return what the private means of an experiment are good for."""
    run = Run(config, root, out)
    make_folder(run.folder)
    measure_usefulness(run, config.mechanisms[0].series)
    return json.loads((run.folder / "use.json").read_bytes())


@pytest.mark.addons
@pytest.mark.parametrize("manifold", MANIFOLDS)
def test_what_is_refused_is_refused_in_one_line(manifold: str, ward: Path) -> None:
    """All else of the table: one line before anything is read; and a chain that is too short.

    A mechanism that reads no footpoint may be told of any.
    """
    refused = [
        one
        for one in combinations()
        if not sound(manifold, one)
        and (MECHANISMS[one[0]].wrapped or not sound(manifold, (*one[:2], "origin", one[3])))
    ]
    assert refused
    for one in refused:
        with pytest.raises(ConfigError) as found:
            load_experiments(write(manifold, [one], ward))
        assert "\n" not in str(found.value)
    path = write(manifold, [("rl", "chain", "origin", "ewg")], ward)
    path.write_text(path.read_text().replace("burn_in = 500", "burn_in = 199"))
    with pytest.raises(ConfigError, match="burn_in = 199; raise burn_in"):
        load_experiments(path)
