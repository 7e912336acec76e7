"""Made-up results with the real laws: what an experiment on flat SPD(5) writes, in a moment."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special, stats

from covdp.descriptors import Bound
from covdp.figures import montage
from covdp.results import (
    ClassCount,
    DatasetNote,
    RunRecord,
    collect_versions,
    machine,
    write_bound,
    write_record,
    write_rows,
)

D, R, DIAMETER = 15, 30.892, 54.081
PAPER, OURS = "EWG, 2r/n, 5 % subsample", "EWG, D/n, all data"
SERIES = (PAPER, OURS, "RL, 2r/n, 5 % subsample", "RL, D/n, all data")


def sample_columns(
    classes: tuple[ClassCount, ...],
    *,
    experiment: str,
    dataset: str,
    budgets: np.ndarray,
    repetitions: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return rows of every class, series, budget and repetition, drawn from the flat laws."""
    blocks = [
        _cell(item, series, float(mu), repetitions, rng)
        for item in classes
        for series in SERIES
        for mu in budgets
    ]
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    shared = {
        "experiment": experiment,
        "dataset": dataset,
        "manifold": "spd-log-euclidean",
        "descriptor": "oct5",
        "sampler": "exact",
        "definition": "gdp",
        "acceptance": 1.0,
        "version": "0.1.0",
    }
    return columns | shared


def _cell(
    item: ClassCount, series: str, mu: float, repetitions: int, rng: np.random.Generator
) -> dict[str, Any]:
    sensitivity = (DIAMETER if "D/n" in series else 2 * R) / item.n
    share = np.sqrt(0.9) if "subsample" in series else 1.0
    if series.startswith("EWG"):
        sigma = sensitivity / (share * mu)
        error = sigma * np.sqrt(rng.chisquare(D, repetitions))
        expected = (
            sigma * np.sqrt(2) * np.exp(special.gammaln((D + 1) / 2) - special.gammaln(D / 2))
        )
    else:
        epsilon = stats.norm.logcdf(share * mu / 2) - stats.norm.logcdf(-share * mu / 2)
        sigma = sensitivity / epsilon
        error, expected = sigma * rng.gamma(D, size=repetitions), sigma * D
    return {
        "label": np.full(repetitions, item.label),
        "class_name": np.full(repetitions, item.name, dtype=object),
        "n": np.full(repetitions, item.n),
        "mechanism": np.full(repetitions, series[:3].strip(",").lower(), dtype=object),
        "series": np.full(repetitions, series, dtype=object),
        "footpoint": np.full(repetitions, series.split(", ")[-1], dtype=object),
        "budget": np.full(repetitions, mu),
        "sensitivity": np.full(repetitions, sensitivity),
        "sigma": np.full(repetitions, sigma),
        "repetition": np.arange(repetitions),
        "seed": np.full(repetitions, rng.integers(2**63), dtype=np.uint64),
        "error": error,
        "expected_error": np.full(repetitions, expected),
        "status": np.full(repetitions, "ok", dtype=object),
        "seconds": np.full(repetitions, 2e-6),
    }


versions = cache(collect_versions)
"""What is installed, which does not change meanwhile."""


def sample_record(experiment: str, dataset: str, classes: tuple[ClassCount, ...]) -> RunRecord:
    """Return the record of a run as the flow writes it."""
    return RunRecord(
        experiment=experiment,
        title="Private mean covariance descriptors, per class",
        dataset=DatasetNote(
            name=dataset,
            title="PneumoniaMNIST",
            licence="CC BY 4.0",
            url="https://medmnist.com/",
            origin="official file, digest checked",
        ),
        classes=classes,
        image_shape=(28, 28),
        config={
            "descriptor": "oct5",
            "eta": 1e-6,
            "manifold": "spd-log-euclidean",
            "definition": "gdp",
            "repetitions": 100,
            "mechanisms": [{"series": name, "mechanism": name[:3]} for name in SERIES],
        },
        command=f"covdp run --dataset {dataset} --seed 7",
        baseline=PAPER,
        seed=7,
        versions=versions(),
        machine=machine(),
        steps=(("fetch", 0.02), ("describe", 0.31), ("verify", 0.04), ("run", 1.92)),
        privacy={
            "Unit of privacy": "one image: MedMNIST drops patient identifiers.",
            "Adjacency": "replace-one; the number of images and the label of each are public.",
            "Definition": "Gaussian differential privacy, μ as printed beside each number.",
            "Composition": "the footpoint and the mean of a class share its μ; classes are "
            "disjoint, so a run costs the largest μ of a class.",
            "Not for release": "errors, bounds and sample images are computed from the data "
            "itself; this page is about public images.",
        },
        notes=("The derivatives repeat the edge pixel outwards.",),
        started="2026-03-01T12:00:00Z",
        finished="2026-03-01T12:00:03Z",
    )


def write_sample(
    out: Path,
    *,
    experiment: str = "main",
    dataset: str = "pneumoniamnist",
    names: tuple[str, ...] = ("normal", "pneumonia"),
    budgets: int = 5,
    repetitions: int = 20,
    images: bool = True,
) -> RunRecord:
    """Write everything one run leaves in `out`, and return its record."""
    rng = np.random.default_rng(20260301)
    classes = tuple(
        ClassCount(label, name, int(1583 * 2.7**label)) for label, name in enumerate(names)
    )
    record = sample_record(experiment, dataset, classes)
    grid = np.round(np.linspace(0.1, 2.0, budgets), 3)
    columns = sample_columns(
        classes,
        experiment=experiment,
        dataset=dataset,
        budgets=grid,
        repetitions=repetitions,
        rng=rng,
    )
    write_rows(out / "results" / f"{record.run}.parquet", columns, metadata={})
    folder = out / "runs" / record.run
    bounds = [
        Bound(c.label, c.name, c.n, norm, R, norm / R, DIAMETER, 1e-6, 8e4, True)
        for c, norm in zip(classes, 28.4 + np.arange(len(classes)) / 4, strict=True)
    ]
    write_bound(folder / "bound.parquet", bounds)
    write_record(folder / "run.json", record)
    if images:
        (folder / "samples").mkdir()
        for item in classes:
            (folder / "samples" / f"{item.label}.png").write_bytes(montage(tiles(rng), 12))
    return record


def tiles(rng: np.random.Generator, n: int = 24) -> np.ndarray:
    """Return smooth random gray images, (n, 28, 28) uint8."""
    coarse = rng.integers(40, 220, (n, 7, 7))
    fine = np.kron(coarse, np.ones((4, 4)))
    return fine.astype(np.uint8)
