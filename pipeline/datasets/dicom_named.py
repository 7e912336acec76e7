"""Segmentation objects (DICOM SEG) as masks: found by the images that they name.

A region must have the size of its image and lie where that lies. Next on the path:
`dicom_regions`, which reads one segmentation.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.arrays import ImageArray
from pipeline.datasets.classed import root_of
from pipeline.datasets.dicom_files import Seen, readable
from pipeline.datasets.dicom_masks import Drawn, Place, changed
from pipeline.datasets.dicom_planes import FLOOR, UNIT
from pipeline.datasets.dicom_regions import Regions, read_regions, union
from pipeline.datasets.excluded import excluded, is_left_out
from pipeline.datasets.frames import Segments
from pipeline.datasets.listing import find_files, packed
from pipeline.datasets.patterns import fill
from pipeline.datasets.sifting import Sift, tell
from pipeline.errors import ImageError

if TYPE_CHECKING:
    from pipeline.datasets.dicom import DicomCard

NEAR = 0.05
"""By how much, in pixels, a region may lie beside its image: positions are rounded."""
SCALED = 0.01
"""By how much the sides of their pixels may differ, a share of them: they are rounded too."""


class Found(NamedTuple):
    """The segmentations of a dataset: files, what they say, and for each image which they are.

    And how often images are known by the same: more than once, none is known.
    """

    names: list[str]
    regions: list[Regions]
    of: dict[tuple[str, int], list[Place]]
    known: Counter[tuple[str, int]]


def find_named(card: "DicomCard", path: Path, seen: Sequence[Seen], sift: Sift | None) -> Drawn:
    """Return the masks at the card's `masks`; files there that are no segmentations are passed by.

    Raises
    ------
    ImageError
        When there is none, or one cannot be read (told to `sift` instead if there is one).
    """
    assert card.masks is not None
    known = Counter((mark.uid, mark.frame) for one in seen for mark in one.marks)
    skip, found = excluded(card.exclude, path), Found([], [], {}, known)
    for one in find_files(path, fill(card.masks, {}), root_of(card, path), sift):
        if one.folder or is_left_out(skip, one.relative, one.path, path):
            continue
        try:
            if one.fault is not None:
                raise one.fault
            regions = read_regions(Path(one.path), card.segments)
        except ImageError as error:
            tell(sift, one.path, error)
            continue
        if regions is not None:
            for place, mark in enumerate(regions.marks):
                found.of.setdefault((mark.uid, mark.frame), []).append((len(found.names), place))
            found.names.append(one.path)
            found.regions.append(regions)
    if not found.names:
        raise ImageError(
            f"{path}: no segmentation (DICOM SEG) is at '{card.masks}'; correct masks in the card"
        )
    return Drawn(
        packed(found.names),
        partial(_find, found),
        lambda file, places: "",
        partial(_read, card.segments),
        f": no segmentation at '{card.masks}' is of it; bring it, or leave the image out with "
        "exclude",
    )


def _find(found: Found, index: int, one: Seen, frame: int) -> Place | str | None:
    """Return where the region of an image is, or what is wrong with it; see `Drawn`."""
    mark = one.marks[frame]
    there = found.of.get((mark.uid, mark.frame), [])
    if len(there) > 1:
        both = " and ".join(Path(found.names[file]).name for file, _ in there[:2])
        return f" is in several segmentations, {both}; leave some out, by masks or with exclude"
    if not there:
        return None
    if found.known[mark.uid, mark.frame] > 1:
        return (
            ": another image has its SOPInstanceUID (0008,0018) too, so which one was drawn on is "
            "not known; give each its own, or leave one out with exclude"
        )
    file, place = there[0]
    regions, name = found.regions[file], Path(found.names[file]).name
    if regions.sides != one.sides:
        return f": a mask must have its image's size, {one.sides}, found {regions.sides} in {name}"
    other = regions.marks[place]
    if mark.spacing and other.spacing and abs(other.spacing / mark.spacing - 1.0) > SCALED:
        return (
            f": a mask must have its image's PixelSpacing, {mark.spacing:g} mm, found "
            f"{other.spacing:g} in {name}; draw it anew, or leave the image out with exclude"
        )
    if mark.plane and other.plane:
        slack = max(FLOOR, NEAR * mark.spacing)
        apart = np.abs(np.subtract(mark.plane, other.plane))
        if not (apart[:3].max() <= slack and apart[3:].max() <= UNIT):
            return (
                f": a mask must lie where its image does, found another place or direction in "
                f"{name}; draw it on the image, or leave the image out with exclude"
            )
    return there[0]


def _read(segments: Segments | None, file: Path, places: Sequence[int]) -> list[ImageArray]:
    """Return some masks of a segmentation; see `Drawn`."""
    regions = read_regions(file, segments)
    if regions is None or max(places, default=0) >= len(regions.marks):
        raise changed(file)
    with readable(file) as stream:
        return [union(stream, regions, regions.frames[place]) for place in places]
