"""What is refused before anything is computed: names and combinations that mean nothing."""

from pipeline.config import ExperimentConfig, SeriesConfig
from pipeline.datasets import find_card
from pipeline.descriptors import DESCRIPTORS, domain_of, require_descriptor_for
from pipeline.errors import ConfigError, require_known
from pipeline.experiments.changes import CHANGES, RARE
from pipeline.experiments.classifiers import CLASSIFIERS
from pipeline.experiments.comparisons import OTHER, SAME
from pipeline.experiments.kinds import WITHOUT, WORK
from pipeline.experiments.patches import FORMS
from pipeline.experiments.persons import UNITS
from pipeline.experiments.run import require_public
from pipeline.experiments.sources import SOURCES, build_manifold
from pipeline.geometry import MANIFOLDS
from pipeline.geometry.covariances import covariances_of
from pipeline.mechanisms import MECHANISMS, refusal
from pipeline.privacy import DEFINITIONS


def check(config: ExperimentConfig) -> None:
    """Refuse, before anything is computed, names and combinations that mean nothing.

    Raises
    ------
    ConfigError, DatasetError
        One line: what was asked, why it means nothing, what to choose.
    """
    kinds = [*WORK, *WITHOUT]
    require_known("kind of experiment", config.kind, kinds, f"known are {', '.join(kinds)}")
    if config.kind in WORK and WORK[config.kind].on_images and not config.on_images:
        raise ConfigError(f"kind {config.kind} runs on images; name a dataset in place of [source]")
    for series in config.mechanisms:
        _check_series(series)
    if config.composition is not None:
        for definition in config.composition.definitions:
            require_known("definition", definition, DEFINITIONS, "the README lists them")
        return
    if config.scale:
        _check_scale(config)
        return
    if config.source is not None:
        require_known("source", config.source.kind, SOURCES, f"known are {', '.join(SOURCES)}")
    for manifold in config.manifolds:
        require_known("manifold", manifold, MANIFOLDS, "the README lists them")
    for manifold, dimension, _ in config.simulated:
        build_manifold(manifold, dimension)
    if config.on_images:
        _check_images(config)
    for manifold in config.manifolds:
        _check_combinations(config, manifold)


def _check_series(series: SeriesConfig) -> None:
    require_known("change", series.change, [SAME, OTHER, *CHANGES], "ours-tests.toml has some")
    require_known("kind of rare images", series.rare, [SAME, *RARE], "ours-regions.toml has all")
    if series.rare_share and series.of != "sample":
        raise ConfigError(
            f"series {series.series!r}: where rare images lie among those of a class only the mean "
            f'of the sample is known, found of = "{series.of}"; write of = "sample"'
        )
    require_known("classifier", series.classifier, CLASSIFIERS, "ours-classify.toml has all")
    require_known("kind of records", series.records, UNITS, "ours-persons.toml has one of each")
    for name in (series.mechanism, series.footpoint_mechanism):
        require_known("mechanism", name, MECHANISMS, "`covdp mechanisms` lists them")


def _check_scale(config: ExperimentConfig) -> None:
    require_known("descriptor", config.descriptor, DESCRIPTORS, "the README lists them")
    require_descriptor_for(config.descriptor, channels=1, volumes=False)
    for images in config.scale:
        require_known("form", images.form, FORMS, f"known are {', '.join(FORMS)}")
        domain_of(config.descriptor, (images.side, images.side))  # refuses sides without one
    grid = [(one.form, one.side, n, w) for one in config.scale for n in one.n for w in one.workers]
    if twice := [cell for cell in grid if grid.count(cell) > 1]:
        raise ConfigError(
            "form, side, n and workers of [[scale]] must make cells that differ, found twice "
            f"{twice[0]}; leave one out"
        )


def _check_images(config: ExperimentConfig) -> None:
    card = find_card(config.dataset)
    require_public(card)
    require_known("descriptor", config.descriptor, DESCRIPTORS, "the README lists them")
    require_descriptor_for(config.descriptor, channels=card.channels, volumes=card.volumes)
    classes = len(card.classes if config.classes is None else config.classes)
    if classes < 2 and any(series.change == OTHER for series in config.mechanisms):
        raise ConfigError(
            f"{config.name} compares a class with the next, and has {classes}; give two or more"
        )
    if covariances_of(MANIFOLDS[config.manifold]) is None:
        spd = ", ".join(name for name, kind in MANIFOLDS.items() if covariances_of(kind))
        raise ConfigError(
            f"covariance descriptors are SPD matrices and do not lie on {config.manifold!r}; "
            f"choose one of {spd}"
        )


def _check_combinations(config: ExperimentConfig, manifold: str) -> None:
    for series in config.mechanisms:
        names = [(series.mechanism, series.sampler)]
        if series.footpoint != "origin":
            names.append((series.footpoint_mechanism, "exact"))
        for name, sampler in names:
            reason = refusal(name, series.definition or config.definition, manifold, sampler)
            if reason is not None:
                raise ConfigError(f"series {series.series!r}: {reason}")
