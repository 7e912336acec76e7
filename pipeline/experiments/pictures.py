"""Pictures of private outlines: six of each series, as coordinates that the report draws."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.config import ExperimentConfig
from pipeline.experiments.engine import Cell, ClassData, Setting, draw_cell, stream_seed
from pipeline.files import atomic_path, make_folder
from pipeline.geometry import frechet_mean
from pipeline.release import summarise

COUNT = 6
"""Private outlines of each series in the picture."""


def draw_outlines(
    config: ExperimentConfig, classes: Sequence[tuple[ClassData, Setting]], folder: Path
) -> Path:
    """Write ``outlines.json``: six private means of each exact series, ten records and the mean.

    The series are drawn at the first budget, on the first class, from streams of their own. Each
    outline is turned onto the mean, which is post-processing.
    """
    data, setting = classes[0]
    mean = frechet_mean(data.points, setting.manifold).point
    shapes = {"Records": data.points[:10], "True mean": mean[None]}
    for series in [item for item in config.mechanisms if item.sampler == "exact"]:
        few = series.model_copy(update={"repetitions": COUNT})
        seed = stream_seed(config, f"{series.series}/pictures")
        rng = np.random.default_rng(seed)
        found = summarise(
            data.points, manifold=setting.manifold, plan=few.plan, size=COUNT, rng=rng
        )
        cell = Cell(data.label, few, config.budgets[0])
        shapes[series.series] = draw_cell(found, cell, setting, rng=rng)[0].points
    listed = {}
    for name, points in shapes.items():
        inner = points @ mean.conj()
        turned = points * np.exp(-1j * np.angle(inner))[:, None]
        listed[name] = np.round(np.stack([turned.real, turned.imag], axis=-1), 5).tolist()
    path = make_folder(folder) / "outlines.json"
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(listed), encoding="utf-8")
    return path
