"""Names: which published experiments there are, and the configs each one comes to."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from pipeline.config import MAIN, ExperimentConfig, TargetConfig, known, parse
from pipeline.datasets import find_card
from pipeline.descriptors import DESCRIPTORS
from pipeline.errors import ConfigError
from pipeline.toml import read_toml

QUICK = 10
"""Most repetitions of a quick run."""


def load_experiment(path: Path) -> tuple[ExperimentConfig, ...]:
    """Return the configs in one TOML file: one for each of its `datasets`.

    Raises
    ------
    ConfigError
        One line with the file, the key, the value and the way out.
    """
    fields = read_toml(path, ConfigError, "experiment")
    given = fields.pop("datasets", [{"name": "simulated"}])
    targets = [parse(TargetConfig, target, str(path)) for target in given]
    return tuple(parse(ExperimentConfig, fields | _changes(x), str(path)) for x in targets)


def _changes(target: TargetConfig) -> dict[str, Any]:
    fields = target.model_dump(exclude_unset=True, exclude={"name"})
    return {**fields, "dataset": target.name}


EXPERIMENTS: Mapping[str, tuple[ExperimentConfig, ...]] = {
    path.stem: load_experiment(path)
    for path in sorted(MAIN.parent.glob("*.toml"))
    if path.name != MAIN.name
}
"""Every published experiment: its configs, one a dataset."""


def choose(
    names: Sequence[str],
    *,
    quick: bool = False,
    chains: bool = True,
    dataset: str | None = None,
) -> list[ExperimentConfig]:
    """Return the configs to run, in the order of the names.

    Parameters
    ----------
    names : sequence of str
        Keys of `EXPERIMENTS`, or ``all``.
    quick : bool
        At most `QUICK` repetitions; everything else stays.
    chains : bool
        Whether the published Markov chains are run.
    dataset : str, optional
        The dataset of the experiments on images, in place of their own.

    Raises
    ------
    ConfigError, DatasetError
        For a name that is not known, or a dataset where no experiment takes images.
    """
    if not names:
        raise ConfigError(f"give the name of an experiment, or all: {', '.join(EXPERIMENTS)}")
    chosen = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    for name in chosen:
        known("experiment", name, EXPERIMENTS, "`covdp reproduce` without a name")
    configs = [config for name in chosen for config in _on(EXPERIMENTS[name], dataset)]
    if dataset is not None and all(_own_data(config) for config in configs):
        raise ConfigError(
            f"{', '.join(chosen)} makes its own records and takes no --dataset; leave it out"
        )
    return [_limited(config, quick, chains) for config in configs]


def _own_data(config: ExperimentConfig) -> bool:
    return config.source is not None or config.composition is not None


def _on(configs: Sequence[ExperimentConfig], dataset: str | None) -> list[ExperimentConfig]:
    """Return the configs of one experiment, moved to another dataset if one is named.

    A dataset of the experiment's own list runs as published there. Another one takes the first
    variant whose descriptor is made for images of that many channels.
    """
    if dataset is None or _own_data(configs[0]):
        return list(configs)
    if own := [config for config in configs if config.dataset == dataset]:
        return own
    card = find_card(dataset)
    fit = [c for c in configs if DESCRIPTORS[c.descriptor].channels == card.channels]
    if not fit:
        raise ConfigError(
            f"{configs[0].name} takes {DESCRIPTORS[configs[0].descriptor].channels}-channel images,"
            f" {dataset} has {card.channels}; choose another dataset"
        )
    classes = fit[0].classes
    if classes is not None:
        classes = tuple(label for label in classes if label < len(card.classes))
    changes = {"dataset": dataset, "classes": classes, "splits": None, "published": ()}
    return [fit[0].model_copy(update={**changes, "beyond": True})]


def made_by(config: ExperimentConfig) -> list[str]:
    """Return the options of `covdp reproduce` that made `config` from the published experiment."""
    for quick, chains in product((False, True), (True, False)):
        for published in EXPERIMENTS.get(config.name, ()):
            made = _limited(published, quick, chains)
            if (made.mechanisms, made.repetitions) == (config.mechanisms, config.repetitions):
                return [*["--quick"] * quick, *["--no-chains"] * (not chains)]
    return []


def _limited(config: ExperimentConfig, quick: bool, chains: bool) -> ExperimentConfig:
    """Return the config with fewer repetitions, or without chains, as asked."""
    series = config.mechanisms
    if not chains:
        series = tuple(item for item in series if item.sampler != "chain")
    if not quick:
        return config.model_copy(update={"mechanisms": series})
    short = tuple(
        item.model_copy(update={"repetitions": item.repetitions and min(item.repetitions, QUICK)})
        for item in series
    )
    repetitions = min(config.repetitions, QUICK)
    return config.model_copy(update={"mechanisms": short, "repetitions": repetitions})
