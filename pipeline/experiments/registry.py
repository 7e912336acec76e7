"""Names: which experiments there are, the papers' and ours; the loader of these and of files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.config import ExperimentConfig, TargetsConfig
from pipeline.datasets import beside, find_card
from pipeline.descriptors import DESCRIPTORS, descriptors_for
from pipeline.errors import ConfigError, require_known
from pipeline.experiments.checks import check
from pipeline.toml import parse, read_toml

QUICK = 10
"""Most repetitions of a quick run."""

MAIN = Path(__file__).with_name("main.toml")
"""The experiment that `covdp run` runs when it is given none."""

EXPERIMENTS: Mapping[str, Path] = {
    path.stem: path for path in sorted(MAIN.parent.glob("*.toml")) if path != MAIN
}
"""Every experiment, the papers' and our own, and its file."""


def load_experiments(
    *sources: str | Path,
    dataset: str | None = None,
    descriptor: str | None = None,
    seed: int | None = None,
    repetitions: int | None = None,
    quick: bool = False,
    chains: bool = True,
) -> tuple[ExperimentConfig, ...]:
    """Return the configs to run: one for each experiment and dataset, in the order of `sources`.

    Parameters
    ----------
    sources : str or Path
        Names of `EXPERIMENTS`, ``all`` of them, or the path of a TOML file, anywhere.
    dataset, descriptor : str, optional
        Of the experiments on images, in place of their own.
    seed, repetitions : int, optional
        In place of the file's; a series with a number of its own keeps it where it is smaller.
    quick : bool
        At most `QUICK` repetitions, and of images that are timed the least n; all else stays.
    chains : bool
        Whether the published Markov chains are run.

    Raises
    ------
    ConfigError, DatasetError
        One line with the file, the key, the value and the way out: before anything is computed.
    """
    if not sources:
        names = ", ".join(EXPERIMENTS)
        raise ConfigError(f"give the name of an experiment, its file, or all: {names}")
    chosen = list(EXPERIMENTS) if "all" in sources else list(dict.fromkeys(sources))
    asked = {"descriptor": descriptor, "seed": seed, "repetitions": repetitions}
    given = {key: value for key, value in asked.items() if value is not None}
    read = [_read(source, given) for source in chosen]
    for option, value in (("--dataset", dataset), ("--descriptor", descriptor)):
        if value is not None and not any(config.on_images for group in read for config in group):
            names = ", ".join(configs[0].name for configs in read)
            raise ConfigError(f"{names} makes its own records and takes no {option}; leave it out")
    options = [*["--quick"] * quick, *["--no-chains"] * (not chains)]
    caps = [QUICK] if quick else []
    caps += [] if repetitions is None else [repetitions]
    found = [
        _limited(_least(config) if quick else config, caps, chains).loaded_by(
            *config.words, *options
        )
        for configs in read
        for config in _on(configs, dataset, fixed=descriptor is not None)
    ]
    runs = [config.run_name for config in found]
    for config in found:
        check(config)
        if runs.count(config.run_name) > 1:
            raise ConfigError(
                f"two runs are called {config.run_name} and would write the same files; change "
                "name in one of the files, or run them one by one"
            )
    return tuple(found)


def _read(source: str | Path, given: Mapping[str, Any]) -> list[ExperimentConfig]:
    """Return the configs in one file, one for each of its datasets, changed as is `given`."""
    if isinstance(source, Path) or source.endswith(".toml"):
        path = Path(source).absolute()
        words = ["run"] if path == MAIN else ["reproduce", str(path)]
    else:
        way = "`covdp reproduce` lists them, and the path of a TOML file is an experiment too"
        require_known("experiment", source, ["all", *EXPERIMENTS], way)
        path, words = EXPERIMENTS[source], ["reproduce", source]
    fields = read_toml(path, ConfigError, "experiment")
    own = bool({"source", "composition", "scale"} & fields.keys())
    changes = {key: value for key, value in given.items() if not own or key != "descriptor"}
    words += [word for key, value in changes.items() for word in (f"--{key}", str(value))]
    configs = [
        parse(ExperimentConfig, {**fields, **target, **changes}, path)
        for target in _targets(fields, path, own)
    ]
    return [
        config.model_copy(update={"dataset": beside(config.dataset, path)}).loaded_by(*words)
        for config in configs
    ]


def _targets(fields: dict[str, Any], path: Path, own: bool) -> list[dict[str, Any]]:
    """Take the datasets out of `fields` and return what is different on each."""
    if "datasets" not in fields:
        return [{"dataset": fields.get("dataset", "simulated")}] if own else [{}]
    if own or "dataset" in fields:
        raise ConfigError(
            f"{path}: [[datasets]] stands in place of dataset, [source], [composition] and "
            "[scale]; keep one of them"
        )
    targets = parse(TargetsConfig, {"datasets": fields.pop("datasets")}, path).datasets
    return [
        {**target.model_dump(exclude_unset=True, exclude={"name"}), "dataset": target.name}
        for target in targets
    ]


def _on(
    configs: Sequence[ExperimentConfig], dataset: str | None, *, fixed: bool
) -> list[ExperimentConfig]:
    """Return the configs of one experiment, moved to another dataset if one is named.

    A dataset of the experiment's own list runs as published there. Another one takes the first
    variant whose descriptor is made for such images, or the first with the only descriptor that is,
    unless the descriptor is `fixed` or the paper's.
    """
    on_images = [config for config in configs if config.on_images]
    if dataset is None or not on_images:
        return list(configs)
    configs = on_images
    if own := [config for config in configs if config.dataset == dataset]:
        return own
    card = find_card(dataset)
    for config in configs:
        require_known("descriptor", config.descriptor, DESCRIPTORS, "the README lists them")
    names = descriptors_for(channels=card.channels, volumes=card.volumes)
    fit = [config for config in configs if config.descriptor in names]
    if not fit and (fixed or configs[0].paper or len(names) != 1):
        raise ConfigError(
            f"{configs[0].name} takes {DESCRIPTORS[configs[0].descriptor].takes}, which {dataset} "
            f"has not; choose --descriptor {' or '.join(names)} or another dataset"
        )
    fit = fit or [configs[0].model_copy(update={"descriptor": names[0]})]
    classes = fit[0].classes
    if classes is not None:
        classes = tuple(label for label in classes if label < len(card.classes))
    changes = {"dataset": dataset, "classes": classes, "splits": None, "published": ()}
    return [fit[0].model_copy(update={**changes, "beyond": bool(fit[0].paper)})]


def _least(config: ExperimentConfig) -> ExperimentConfig:
    """Return the config with the least n of each set whose passes are timed."""
    sets = tuple(item.model_copy(update={"n": (min(item.n),)}) for item in config.scale)
    return config.model_copy(update={"scale": sets})


def _limited(config: ExperimentConfig, caps: Sequence[int], chains: bool) -> ExperimentConfig:
    """Return the config with at most as many repetitions as `caps` say, or without chains."""
    series = config.mechanisms
    if not chains:
        series = tuple(item for item in series if item.sampler != "chain")
    short = tuple(
        item.model_copy(update={"repetitions": min(item.repetitions, *caps)})
        if caps and item.repetitions
        else item
        for item in series
    )
    repetitions = min([config.repetitions, *caps])
    return config.model_copy(update={"mechanisms": short, "repetitions": repetitions})
