"""Names: which experiments there are, the papers' and ours; the loader of these and of files.

What means nothing is refused before anything is computed: names, and combinations of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from covdp.config import ExperimentConfig, SeriesConfig, TargetsConfig, series_keys
from covdp.datasets import beside, find_card
from covdp.descriptors import DESCRIPTORS, descriptors_for, require_descriptor_for
from covdp.errors import ConfigError, require_known
from covdp.experiments.driver import ExperimentKind
from covdp.experiments.images import require_public
from covdp.experiments.kinds import EXPERIMENT_KINDS, SOURCES, source_of
from covdp.geometry import MANIFOLDS
from covdp.geometry.covariances import covariances_of
from covdp.mean import SinglePlan, pays_footpoint
from covdp.mean.plan import NOT_PRIVATE
from covdp.mechanisms import MECHANISMS, no_footpoint, refusal
from covdp.mechanisms.base import SAMPLERS, small
from covdp.registry import Registry
from covdp.toml import parse, read_toml

QUICK = 10
"""Largest number of repetitions of a quick run."""

MAIN = Path(__file__).with_name("main.toml")
"""The experiment that `covdp run` runs when it is given none."""

EXPERIMENTS = Registry[Path]("experiments", {}, word="experiment")
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
    *sources : str or Path
        Names of `EXPERIMENTS`, ``all`` of them, or the path of a TOML file, anywhere.
    dataset : str, optional
        Dataset of the experiments on images, in place of their own.
    descriptor : str, optional
        Descriptor of the experiments on images, in place of their own.
    seed : int, optional
        Seed in place of the file's.
    repetitions : int, optional
        Number of repetitions in place of the file's; a series with a number of its own keeps it
        where it is smaller.
    quick : bool
        True for at most `QUICK` repetitions, and of timed images the least n; all else stays.
    chains : bool
        True to run the published Markov chains.

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
    changes = {key: value for key, value in asked.items() if value is not None}
    read = [_read(source, changes) for source in chosen]
    made = [config for group in read for config in group]
    for option, value in (("--dataset", dataset), ("--descriptor", descriptor)):
        own = option == "--dataset" and value in {config.dataset for config in made}
        if value is not None and not own and not any(config.on_images for config in made):
            names = ", ".join(configs[0].name for configs in read)
            raise ConfigError(f"{names} makes its own records and takes no {option}; leave it out")
    options = [*["--quick"] * quick, *["--no-chains"] * (not chains)]
    caps = [cap for cap in (QUICK if quick else None, repetitions) if cap is not None]
    result = [
        _limited(config, caps, chains=chains).loaded_by(*config.words, *options)
        for configs in read
        for config in _on(configs, dataset, fixed=descriptor is not None)
    ]
    runs = [config.run_name for config in result]
    for config in result:
        check(config)
        if runs.count(config.run_name) > 1:
            raise ConfigError(
                f"two runs are called {config.run_name} and would write the same files; change "
                "name in one of the files, or run them one by one"
            )
    return tuple(result)


def changed_words(
    *sources: str | Path, quick: bool = False, chains: bool = True, **asked: Any
) -> list[str]:
    """Return words for options that are given and differ from the files of experiments.

    The words name the folder of results: ``["grid11", "seed-7", "quick"]``.

    Parameters
    ----------
    *sources : str or Path
        Names or files of experiments, as in `load_experiments`.
    quick : bool
        True if `quick` is asked for.
    chains : bool
        False if Markov chains are left out.
    **asked : object
        Further arguments of `load_experiments`; the dataset has its place in the name of a run.
    """
    asked = {key: asked.get(key) for key in ("descriptor", "seed", "repetitions")}
    asked = {key: value for key, value in asked.items() if value is not None}
    files = load_experiments(*sources) if asked else ()
    differ = [key for key in asked if any(getattr(x, key) != asked[key] for x in files)]
    words = [f"{key}-{asked[key]}".removeprefix("descriptor-") for key in differ]
    return [*words, *["quick"] * quick, *["no-chains"] * (not chains)]


def _read(source: str | Path, asked: Mapping[str, Any]) -> list[ExperimentConfig]:
    """Return the configs in one file, one for each of its datasets, changed as `asked`."""
    if isinstance(source, Path) or source.endswith(".toml"):
        path = Path(source).absolute()
        words = ["run"] if path == MAIN else ["reproduce", str(path)]
    else:
        way = (
            "`covdp reproduce --list` lists them, and the path of a TOML file is an experiment too"
        )
        require_known("experiment", source, ["all", *EXPERIMENTS], way)
        path, words = EXPERIMENTS[source], ["reproduce", source]
    fields = read_toml(path, ConfigError, "experiment")
    name = str(fields.get("kind", ExperimentConfig.model_fields["kind"].default))
    kind = _kind(name, made="source" in fields)
    _refuse_keys_of_others(fields, name, path)
    own = "source" in fields or kind.table is not None
    changes = {key: value for key, value in asked.items() if not own or key != "descriptor"}
    options = [word for key, value in changes.items() for word in (f"--{key}", str(value))]
    targets = _targets(fields, path, own)
    spec = DESCRIPTORS.get(str(changes.get("descriptor")))
    moved = None if spec is None else spec.manifold
    if moved is not None:
        changes["manifold"] = moved
        if others := sorted({str(target.get("manifold", moved)) for target in targets} - {moved}):
            raise ConfigError(
                f"{path.stem} runs on {', '.join(others)}, and {changes['descriptor']} is taken on "
                f"{moved}; choose another descriptor"
            )
    configs = [
        parse(kind.config, {**fields, **target, **changes}, " ".join([str(path), *options]))
        for target in targets
    ]
    if moved is not None:
        configs = [_with_guarantee(config) for config in configs]
    return [
        config.meant.model_copy(update={"dataset": beside(config.dataset, path)}).loaded_by(
            *words, *options
        )
        for config in configs
    ]


def _kind(name: str, *, made: bool) -> ExperimentKind:
    """Return a kind of experiment by its name; `made` says that records are simulated."""
    kinds = [*EXPERIMENT_KINDS]
    require_known("kind of experiment", name, kinds, f"known are {', '.join(kinds)}")
    if EXPERIMENT_KINDS[name].on_images and made:
        raise ConfigError(f"kind {name} runs on images; name a dataset in place of [source]")
    return EXPERIMENT_KINDS[name]


def _refuse_keys_of_others(fields: Mapping[str, Any], name: str, path: Path) -> None:
    """Refuse keys that other kinds take, and name these; keys of no kind are refused later."""
    own = EXPERIMENT_KINDS[name]
    for key in sorted(fields.keys() - own.config.model_fields.keys() - {"datasets"}):
        if users := [x for x, row in EXPERIMENT_KINDS.items() if key in row.config.model_fields]:
            raise ConfigError(f"{path}: [{key}] is what kind {', '.join(users)} is, found {name!r}")
    given = fields.get("mechanisms")
    for series in given if isinstance(given, list) else ():
        for key in sorted(series_keys(series) - own.series.model_fields.keys()):
            if users := [
                x for x, row in EXPERIMENT_KINDS.items() if key in row.series.model_fields
            ]:
                raise ConfigError(
                    f"series {series.get('series')!r}: {key} is for kind {', '.join(users)}, and "
                    f"kind {name} does not use it; leave it out"
                )


def _with_guarantee(config: ExperimentConfig) -> ExperimentConfig:
    """Return a config, moved to the manifold of its descriptor, without refused series.

    What the report says of the choices of an experiment names them, each with its reason.
    """
    reasons = {
        series.series: refusal(
            series.mechanism,
            config.definition_of(series),
            config.manifold,
            series.sampler,
        )
        for series in config.mechanisms
        if series.mechanism in MECHANISMS
    }
    gone = {name: reason for name, reason in reasons.items() if reason is not None}
    kept = tuple(series for series in config.mechanisms if series.series not in gone)
    if not kept:
        raise ConfigError(
            f"{config.name} keeps no series on {config.manifold}: "
            f"{'; '.join(map(str, gone.values()))}; choose another descriptor"
        )
    notes = [f"“{name}” is left out: {reason}." for name, reason in gone.items()]
    baseline = "" if config.baseline in gone else config.baseline
    return config.model_copy(
        update={"mechanisms": kept, "baseline": baseline, "open": (*config.open, *notes)}
    )


def _targets(fields: dict[str, Any], path: Path, own: bool) -> list[dict[str, Any]]:
    """Take the datasets out of `fields` and return what is different on each."""
    if "datasets" not in fields:
        return [{"dataset": fields.get("dataset", "simulated")}] if own else [{}]
    if own or "dataset" in fields:
        raise ConfigError(
            f"{path}: [[datasets]] stands in place of dataset, [source] and [composition]; keep "
            "one of them"
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

    A dataset of the experiment's own list runs as published there, ``simulated`` among them.
    Another one takes the first variant whose descriptor is made for such images, or the first with
    the only descriptor that is, unless the descriptor is `fixed` or the paper's.
    """
    if own := [config for config in configs if config.dataset == dataset]:
        return own
    on_images = [config for config in configs if config.on_images]
    if dataset is None or not on_images:
        return list(configs)
    configs = on_images
    card = find_card(dataset)
    for config in configs:
        require_known("descriptor", config.descriptor, DESCRIPTORS)
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
    own = [config for config in fit if config.dataset == fit[0].dataset]
    return [config.model_copy(update={**changes, "beyond": bool(config.paper)}) for config in own]


def _limited(config: ExperimentConfig, caps: Sequence[int], *, chains: bool) -> ExperimentConfig:
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
    changes = {"mechanisms": short, "repetitions": min([config.repetitions, *caps])}
    return config.model_copy(update=changes)


def check(config: ExperimentConfig) -> None:
    """Refuse, before anything is computed, names and combinations that mean nothing.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.

    Raises
    ------
    ConfigError, DatasetError
        One line: what was asked, why it means nothing, what to choose.
    """
    kind = _kind(config.kind, made=config.source is not None)
    for series in config.mechanisms:
        _check_series(series)
    if kind.table is None:
        _check_records(config)
    kind.check(config)


def _check_records(config: ExperimentConfig) -> None:
    if config.source is not None:
        require_known("source", config.source.kind, SOURCES)
    for manifold in config.manifolds:
        require_known("manifold", manifold, MANIFOLDS)
    if (source := source_of(config)) is not None:
        source.check(config)
    if config.on_images:
        _check_images(config)
    for manifold in config.manifolds:
        _check_combinations(config, manifold)


def _check_series(series: SeriesConfig) -> None:
    for name in (series.mechanism, series.footpoint_mechanism):
        require_known("mechanism", name, MECHANISMS, "`covdp mechanisms` lists them")
    if series.footpoint == NOT_PRIVATE and not MECHANISMS[series.mechanism].wrapped:
        able = ", ".join(name for name, family in MECHANISMS.items() if family.wrapped)
        raise ConfigError(
            f"series {series.series!r}: {series.mechanism} reads no footpoint, so that it can be "
            f"at no distance; use one of {able}"
        )
    if not MECHANISMS[series.footpoint_mechanism].footpoint:
        raise ConfigError(f"series {series.series!r}: {no_footpoint(series.footpoint_mechanism)}")
    if series.sampler != "exact":
        require_known("sampler", series.sampler, ["exact", *SAMPLERS])
        SAMPLERS[series.sampler](burn_in=series.burn_in)  # its own checks


def _check_images(config: ExperimentConfig) -> None:
    card = find_card(config.dataset)
    require_public(card)
    require_descriptor_for(config.descriptor, channels=card.channels, volumes=card.volumes)
    known = range(len(card.classes))
    labels = known if config.classes is None else config.classes
    if not labels or sorted(labels) != sorted({*labels} & {*known}):
        raise ConfigError(
            f"{config.name}: classes of {config.dataset} must be labels from 0 to {known[-1]}, at "
            f"least one and each once, found {list(labels)}"
        )
    if covariances_of(MANIFOLDS[config.manifold]) is None:
        spd = ", ".join(name for name, kind in MANIFOLDS.items() if covariances_of(kind))
        raise ConfigError(
            f"covariance descriptors are SPD matrices and no points of {config.manifold!r}; "
            f"choose one of {spd}"
        )


def _check_combinations(config: ExperimentConfig, manifold: str) -> None:
    for series in config.mechanisms:
        if series.start is not None and not (
            series.sampler == "chain" and small(MANIFOLDS[manifold]).flat
        ):
            raise ConfigError(
                f"series {series.series!r}: start is where a chain starts on a flat manifold, "
                f"found sampler {series.sampler!r} on {manifold}; leave it out"
            )
        names = [(series.mechanism, series.sampler)]
        if isinstance(series.plan, SinglePlan) and pays_footpoint(series.plan):
            names.append((series.footpoint_mechanism, "exact"))
        for name, sampler in names:
            reason = refusal(name, config.definition_of(series), manifold, sampler)
            if reason is not None:
                raise ConfigError(f"series {series.series!r}: {reason}")
