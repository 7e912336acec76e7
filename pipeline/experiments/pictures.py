"""Pictures of private outlines: six of each series, as coordinates that the report draws."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.experiments.montecarlo import Cell, Setting, draw_cell, stream_seed
from pipeline.experiments.persons import ClassData
from pipeline.experiments.shapes import smooth
from pipeline.files import atomic_path, make_folder
from pipeline.mean import admit, prepare

COUNT = 6
"""Private outlines of each series in the picture."""


def draw_outlines(data: ClassData, setting: Setting, folder: Path) -> Path:
    """Write ``outlines.json``: six private means of each exact series, ten records and the mean.

    The series are drawn at the first budget, on one class, from streams of their own. Each
    outline is turned onto the mean, which is post-processing. So is smoothing: series that are
    aligned stand there once more, smoothed, where the source says over which span.
    """
    config = setting.config
    records = admit(data.points, domain=setting.domain, manifold=setting.manifold)
    mean = records.frechet.point
    span = config.source.smoothing if config.source else None
    shapes = {"Records": _turned(data.points[:10], mean), "True mean": mean[None]}
    for series in [item for item in config.mechanisms if item.sampler == "exact"]:
        few = series.model_copy(update={"repetitions": COUNT})
        seed = stream_seed(config, f"{series.series}/pictures")
        rng = np.random.default_rng(seed)
        found = prepare(records, few.plan, size=COUNT, rng=rng)
        cell = Cell(data.label, few, config.budgets[0])
        drawn = draw_cell(found, cell, setting, rng=rng).release.points
        shapes[series.series] = _turned(drawn, mean)
        if span is not None and series.aligned:
            shapes[f"{series.series}, smoothed"] = smooth(shapes[series.series], span)
    listed = {
        name: np.round(np.stack([points.real, points.imag], axis=-1), 5).tolist()
        for name, points in shapes.items()
    }
    path = make_folder(folder) / "outlines.json"
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(listed), encoding="utf-8")
    return path


def _turned(points: NDArray[Any], mean: NDArray[Any]) -> NDArray[Any]:
    """Return the outlines, each turned onto the mean."""
    return np.asarray(points * np.exp(-1j * np.angle(points @ mean.conj()))[:, None])
