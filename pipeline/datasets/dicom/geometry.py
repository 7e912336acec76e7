"""Where the frames of a DICOM series lie in space, and the order in which they are a volume.

A frame lies at ImagePositionPatient, its rows and columns run as ImageOrientationPatient says, and
the normal is their cross product. Enhanced objects say it in functional groups.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.dicom.header import Header, numbers, text
from pipeline.datasets.dicom.pixels import places
from pipeline.errors import ImageError

Vectors = NDArray[np.float64]

SLACK, FLOOR = 0.01, 0.01
"""By how much steps from slice to slice may differ: a share of them, but no less than this in mm,
to which positions are often rounded."""

UNIT = 1e-3
"""By how much the components of directions may differ, which have length 1."""

WAY = "bring the series whole, or leave it out with exclude"


class Planes(NamedTuple):
    """Where the frames of one file lie.

    Attributes
    ----------
    series : str
        SeriesInstanceUID.
    positions : (m, 3) float64
        In mm.
    directions : (m, 6) float64
        Of rows and of columns.
    spacings : (m, 2) float64
        PixelSpacing; NaN where the file says none.
    """

    series: str
    positions: Vectors
    directions: Vectors
    spacings: Vectors


def read_planes(header: Header, frames: Sequence[int]) -> Planes:
    """Return where some frames of a file lie.

    Raises
    ------
    ImageError
        When the file does not say it, or directions are no right angle of length 1.
    """
    positions = [_numbers(header, frame, "ImagePositionPatient", 3) for frame in frames]
    directions = [_numbers(header, frame, "ImageOrientationPatient", 6) for frame in frames]
    spacings = [_numbers(header, frame, "PixelSpacing", 2) for frame in frames]
    for direction in directions:
        rows, columns = np.reshape(direction, (2, 3))
        products = [rows @ rows - 1, columns @ columns - 1, rows @ columns]
        if not np.abs(products).max() <= 2 * UNIT:
            raise header.fault(
                "ImageOrientationPatient", f"must be two directions at a right angle, {direction}"
            )
    return Planes(
        text(header.elements, "SeriesInstanceUID"),
        np.array(positions),
        np.array(directions),
        np.array(spacings),
    )


class FrameId(NamedTuple):
    """What an image is known by: its SOPInstanceUID, which frame it is, where it lies.

    Attributes
    ----------
    uid : str
    frame : int
    plane : tuple of float
        Its position, and the directions of its rows and columns; empty where the file says none.
    sides : tuple of float
        PixelSpacing, from row to row and from column to column in mm; empty likewise.
    """

    uid: str
    frame: int
    plane: tuple[float, ...]
    sides: tuple[float, ...]

    @property
    def spacing(self) -> float:
        """The smaller side of a pixel in mm, 0 where the file says none."""
        return min(self.sides, default=0.0)


def read_frame_id(header: Header, frame: int) -> FrameId:
    """Return what a frame of a file is known by."""
    position = _said(header, frame, "ImagePositionPatient", 3)
    direction = _said(header, frame, "ImageOrientationPatient", 6)
    plane = (*position, *direction) if position and direction else ()
    sides = tuple(_said(header, frame, "PixelSpacing", 2))
    return FrameId(text(header.elements, "SOPInstanceUID"), frame, plane, sides)


_GROUPS = {
    "ImagePositionPatient": "PlanePositionSequence",
    "ImageOrientationPatient": "PlaneOrientationSequence",
    "PixelSpacing": "PixelMeasuresSequence",
}


def _numbers(header: Header, frame: int, keyword: str, count: int) -> list[float]:
    """Return what must be said of one frame, as numbers."""
    values = _said(header, frame, keyword, count)
    if values:
        return values
    if keyword == "PixelSpacing":
        return [math.nan] * count
    raise header.fault(
        keyword, "must be there for volumes = true", "leave the file out, or read slices"
    )


def _said(header: Header, frame: int, keyword: str, count: int) -> list[float]:
    """Return what is said of one frame, as numbers; none where nothing is."""
    for place in places(header, frame, _GROUPS[keyword]):
        values = numbers(place, keyword)
        if len(values) == count and all(map(math.isfinite, values)):
            return values
        if values:
            raise header.fault(keyword, f"must be {count} numbers, found {len(values)}")
    return []


def slice_order(planes: Sequence[Planes], where: str) -> NDArray[np.int64]:
    """Return the order of frames along their normal, ascending; `where` names the series.

    Raises
    ------
    ImageError
        When there is one alone, two lie in one place, one is missing between two, or they are not
        of one orientation, or of one size of pixels, or do not lie straight behind one another.
    """
    positions, directions, spacings = (
        np.concatenate([getattr(each, name) for each in planes])
        for name in ("positions", "directions", "spacings")
    )
    if len(positions) < 2:
        raise ImageError(f"{where}: a volume needs 2 slices or more, found 1; {WAY}")
    if np.ptp(directions, axis=0).max() > UNIT:
        raise ImageError(
            f"{where}: ImageOrientationPatient (0020,0037) must be one in a series, found several; "
            f"{WAY}"
        )
    if len({*map(tuple, np.nan_to_num(spacings).round(4).tolist())}) > 1:
        raise ImageError(
            f"{where}: PixelSpacing (0028,0030) must be one in a series, found several; {WAY}"
        )
    rows, columns = directions[0].reshape(2, 3)
    normal = np.cross(rows, columns)
    normal /= np.linalg.norm(normal)
    heights = positions @ normal
    order = np.argsort(heights, kind="stable")
    _check_steps(positions[order], normal, np.diff(heights[order]), where)
    return order


def _check_steps(positions: Vectors, normal: Vectors, steps: Vectors, where: str) -> None:
    """Raise unless slices lie at equal steps along the normal, and straight behind one another."""
    step = float(np.median(steps))
    slack = max(SLACK * step, FLOOR)
    low, high = float(steps.min()), float(steps.max())
    place = f"{where}: slices, by ImagePositionPatient (0020,0032),"
    if low <= slack / 2:
        raise ImageError(f"{place} must lie in different places, found two in one; {WAY}")
    if high - low > slack:
        raise ImageError(
            f"{place} must lie at equal steps, found {low:.4g} to {high:.4g} mm; {WAY}"
        )
    moves = np.diff(positions, axis=0)
    aside = np.linalg.norm(moves - np.outer(moves @ normal, normal), axis=1).max()
    if aside > slack:
        raise ImageError(
            f"{place} must lie straight behind one another, found {aside:.4g} mm aside (a tilted "
            f"gantry?); {WAY}"
        )
