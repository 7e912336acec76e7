"""Segmentations and series in a folder of DICOM, for the draft of a card."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.datasets.drafted_masks import Sorted
from pipeline.datasets.looks import SAMPLE, Look
from pipeline.errors import ImageError


class Drafted(NamedTuple):
    """Keys of a card, lines that say what else it may have, and what is a guess or open."""

    keys: dict[str, object]
    lines: list[str]
    open: list[str]


def sort_segmentations(folder: Path, names: Sequence[str]) -> Sorted:
    """Return which DICOM files are images, and which are segmentations (DICOM SEG)."""
    from pipeline.datasets.dicom_regions import is_segmentation

    found = Sorted([], [])
    for name in names:
        try:
            is_mask = is_segmentation(folder / name)
        except ImageError:  # said when it is looked at
            is_mask = False
        (found.masks if is_mask else found.images).append(name)
    return found if found.images else Sorted(found.masks, [])


def draft_segmentations(folder: Path, masks: Sequence[str], looks: Sequence[Look]) -> Drafted:
    """Return where segmentations lie, which segments they have, and which images they leave out.

    Parameters
    ----------
    folder : Path
    masks : sequence of str
        Paths of segmentations in it.
    looks : sequence of Look
        Some images.
    """
    from pipeline.datasets.dicom_regions import read_regions

    above = os.path.commonpath([os.path.dirname(name) for name in masks])  # noqa: PTH120
    pattern = f"{above}/**/*" if above else "**/*"
    drafted = Drafted({"masks": pattern}, [], [f"masks: {len(masks)} file(s) are segmentations"])
    known, several = set[str](), False
    for name in masks[:: max(1, len(masks) // SAMPLE)]:
        try:
            found = read_regions(folder / name, "all")
        except ImageError as error:
            drafted.open.append(f"a segmentation cannot be read: {error}")
            continue
        known |= {mark.uid for mark in found.marks} if found else set()
        several |= found is not None and found.segments > 1
    if several:
        drafted.lines.append('# segments = [1]  # or "all": which of them are inside')
        drafted.open.append("some have several segments: which of them are inside, say by segments")
    missing = sum(look.image not in known for look in looks)
    if missing and len(masks) <= SAMPLE:
        drafted.keys["frames"] = "masked"
        drafted.open.append(
            f'{missing} of {len(looks)} images are in no segmentation, and frames = "masked" '
            "passes them by"
        )
    return drafted


def draft_slices(looks: Sequence[Look], names: Sequence[str]) -> Drafted:
    """Return how many slices series have, if each may be a volume.

    Where there are more files than are looked at, all files of a folder are taken for one series.
    """
    found = Counter[str]()
    for look in looks:
        found[look.series] += look.slices
    if len(looks) < len(names) and max(look.slices for look in looks) == 1:
        found = Counter(name.rpartition("/")[0] for name in names)
    return of_depths([*found.values()], "")


def of_depths(depths: Sequence[int], instead: str) -> Drafted:
    """Return what a card may say of volumes with so many slices; `instead` of which key."""
    fewest, most = min(depths), max(depths)
    if fewest < 2:
        return Drafted({}, [], [])
    lines = [f"# volumes = true  # {instead}whole volumes, for descriptor vol7"]
    if fewest == most:
        return Drafted({}, lines, [])
    lines.append(f"# slices = [{fewest}, {most}]  # with it, how many slices they may have")
    return Drafted(
        {},
        lines,
        [
            f"volumes have {fewest} to {most} slices: with volumes = true say by slices how many "
            "they may have; that range is public"
        ],
    )
