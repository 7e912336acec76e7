"""The steps of a run on images, before noise: from a data root to descriptors in a proven domain.

fetch ─► describe ─► verify
"""

from itertools import chain

import numpy as np

from pipeline.datasets import ImageSource, find_card, open_dataset
from pipeline.descriptors import (
    DESCRIPTORS,
    DescriptorDomain,
    describe,
    domain_of,
    require,
    verify,
)
from pipeline.experiments.checks import require_public
from pipeline.experiments.montecarlo import Setting
from pipeline.experiments.run import Run
from pipeline.figures import montage
from pipeline.files import atomic_path, make_folder
from pipeline.geometry import MANIFOLDS
from pipeline.progress import passing
from pipeline.results import write_bound

SAMPLES = 24
"""Images in the montage of a class."""


def open_images(run: Run) -> ImageSource:
    """Open the images of a run; they are fetched and checked first if they must be."""
    require_public(find_card(run.config.dataset))
    return open_dataset(run.config.dataset, run.root, size=run.config.size)


def fetch_images(run: Run) -> None:
    """Have the images on disk with the right digest.

    Raises
    ------
    DatasetError
        When they cannot be had, or a class has none in the chosen splits.
    """
    source = open_images(run)
    for label in run.labels:
        source.chunks(run.config.splits, label)


def public_domain(run: Run) -> DescriptorDomain:
    """Return the bound on the descriptors: a function of the config and of the images' size."""
    config, source = run.config, open_images(run)
    return domain_of(
        config.descriptor,
        source.shape,
        eta=config.eta,
        manifold=config.manifold,
        masked=source.masks is not None,
    )


def image_setting(run: Run) -> Setting:
    """Return what is public of every class."""
    k = DESCRIPTORS[run.config.descriptor].k
    return Setting(run.config, public_domain(run), MANIFOLDS[run.config.manifold](k=k))


def describe_classes(run: Run) -> None:
    """Write the descriptors of each class, shape (n, k, k), and a montage of some of its images.

    The montages go to ``samples/<label>.png`` in the folder of the run. A volume is shown by the
    slice in the middle of its depth.
    """
    source, config = open_images(run), run.config
    samples = make_folder(run.folder / "samples")
    counts = source.counts(config.splits)
    for label in run.labels:
        images = source.chunks(split=config.splits, label=label)
        chunks = passing(images, source.classes[label], counts[label], "images")
        first = next(chunks)
        parts = [describe(chunk, config.descriptor, config.eta) for chunk in chain([first], chunks)]
        persons = source.select(config.splits, label).units if source.unit == "person" else None
        run.keep(label, np.concatenate(parts), persons)
        with atomic_path(samples / f"{label}.png") as temporary:
            spread = np.linspace(0, len(first) - 1, min(SAMPLES, len(first))).astype(int)
            shown = first[spread]
            if source.card.volumes:
                shown = shown[:, shown.shape[1] // 2]
            temporary.write_bytes(montage(shown, columns=8))


def verify_bound(run: Run) -> None:
    """Compare every descriptor with the proven radius and write ``bound.parquet``.

    Raises
    ------
    DomainError
        When a descriptor lies outside: nothing may be drawn from a wrong sensitivity.
    """
    points = [np.load(run.records(label)) for label in run.labels]
    of_record = np.repeat(run.labels, [len(part) for part in points])
    names = find_card(run.config.dataset).classes
    rows = verify(np.concatenate(points), of_record, public_domain(run), names)
    bounds = [row for row in rows if row.label in run.labels]
    write_bound(run.folder / "bound.parquet", bounds)
    require(bounds)
