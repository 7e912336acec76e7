"""What the numbers of the prior stand for, measured on the images: beside each what the code has.

Where the prior speaks of one class, the figure of a set is the average of its classes.
"""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from covdp.arrays import FloatArray, ImageArray
from covdp.descriptors import DESCRIPTORS, DescriptorDomain
from covdp.mean import Records, tuning
from tests.tools.tuning.images import ImageClass, colour_tiles, images_of, records_of


class MeasuredNumber(NamedTuple):
    """One number: what the code has, and what the sets say."""

    title: str
    value: float
    sets: dict[str, float]


def measured(classes: list[ImageClass], root: Path | None) -> list[MeasuredNumber]:
    """Measure all that can be, on classes of gray images and on tiles in colour."""
    groups: dict[str, list[ImageArray]] = defaultdict(list)
    for one in classes:
        groups[one.card].append(images_of(one, root))
    known = {
        name: [records_of(images, descriptor="oct5") for images in group]
        for name, group in groups.items()
    }
    colour = {"tiles in colour": list(colour_tiles())}
    return [
        *_typical("oct5", dict(groups)),
        *_typical("grid9", dict(groups)),
        *_typical("grid11", colour),
        *_correlations("grid9", dict(groups)),
        *_correlations("grid11", colour),
        *_place(known),
    ]


def _by_set(
    known: dict[str, list[Records]], measure: Callable[[Records], FloatArray]
) -> dict[str, FloatArray]:
    """Return the average over the classes of each set."""
    return {
        name: np.mean([measure(records) for records in group], axis=0)
        for name, group in known.items()
    }


def _typical(descriptor: str, groups: dict[str, list[ImageArray]]) -> list[MeasuredNumber]:
    """Return medians of ln(variance/largest possible variance), feature by feature."""

    def medians(records: Records) -> FloatArray:
        facts = records.domain
        assert isinstance(facts, DescriptorDomain)
        variances = np.diagonal(records.stored, axis1=1, axis2=2) - facts.eta
        shares = np.maximum(variances, 1e-12) / np.array(facts.variances)
        return np.asarray(np.median(np.log(shares), axis=0))

    known = {
        name: [records_of(images, descriptor=descriptor) for images in group]
        for name, group in groups.items()
    }
    found = _by_set(known, medians)
    return [
        MeasuredNumber(
            f"{descriptor}.typical {i + 1}",
            value,
            {name: float(values[i]) for name, values in found.items()},
        )
        for i, value in enumerate(DESCRIPTORS[descriptor].typical)
    ]


def _correlations(descriptor: str, groups: dict[str, list[ImageArray]]) -> list[MeasuredNumber]:
    """Return medians of the correlations that the prior knows."""
    pairs = DESCRIPTORS[descriptor].correlations
    rows, columns = ([pair[side] for pair in pairs] for side in (0, 1))

    def medians(records: Records) -> FloatArray:
        deviations = np.sqrt(np.diagonal(records.stored, axis1=1, axis2=2))
        found = records.stored[:, rows, columns]
        return np.asarray(np.median(found / deviations[:, rows] / deviations[:, columns], axis=0))

    known = {
        name: [records_of(images, descriptor=descriptor) for images in group]
        for name, group in groups.items()
    }
    found = _by_set(known, medians)
    names = DESCRIPTORS[descriptor].features
    return [
        MeasuredNumber(
            f"{descriptor}.correlations {names[i]}, {names[j]}",
            value,
            {name: float(values[at]) for name, values in found.items()},
        )
        for at, (i, j, value) in enumerate(pairs)
    ]


def _place(known: dict[str, list[Records]]) -> list[MeasuredNumber]:
    """Return where the means of classes are, along the contrast axis and off it, and how wide."""

    def squares(records: Records) -> FloatArray:
        usual, frame = records.prior, records.frame
        mean, way = records.frechet.point, records.in_axes(records.centre, records.frechet.point)
        spread = records.space.log(mean, records.placed) @ frame.to_axes
        length = float(np.linalg.norm(frame.from_axes[0]))
        return np.array(
            [
                (way[0] * length) ** 2,
                way[1:] @ way[1:] / usual.unit**2,
                spread[:, 0].var() * length**2,
            ]
        )

    found = {name: np.sqrt(values) for name, values in _by_set(known, squares).items()}
    names = ("PRIOR_SD_LINE", "PRIOR_SD", "LINE_SD")
    return [
        MeasuredNumber(
            title, getattr(tuning, title), {name: float(own[i]) for name, own in found.items()}
        )
        for i, title in enumerate(names)
    ]
