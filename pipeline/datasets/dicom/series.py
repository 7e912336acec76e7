"""DICOM series as volumes: which slices belong together, and how they become one record.

A volume is the files of one series in one folder, or the frames of one file: (slices, rows,
columns), slices along their normal.
"""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.datasets.classed import ClassedFiles
from pipeline.datasets.dicom.card import DicomCard
from pipeline.datasets.dicom.files import FAULTY, HeaderSummary, ReferenceHeader, decode
from pipeline.datasets.dicom.geometry import WAY, slice_order
from pipeline.datasets.intensities import to_uint8
from pipeline.datasets.listing import Faults, no_usable_file
from pipeline.datasets.readers import FilesReader, Rows, StacksReader
from pipeline.errors import ImageError


class ImageRecords(NamedTuple):
    """The records of some files.

    Attributes
    ----------
    shape : tuple of int
        Of a record.
    read : Reader
        Where they come from.
    file : (n,) int64
        The file of each, or one of them.
    """

    shape: tuple[int, ...]
    read: FilesReader | StacksReader
    file: NDArray[np.int64]


Slices = list[tuple[int, int]]
"""Files and frames of them."""


def build_volumes(
    card: DicomCard,
    named: bool,
    files: ClassedFiles,
    indices: list[int],
    summaries: list[HeaderSummary],
    faults: Faults,
) -> ImageRecords:
    """Return every series as a volume.

    One whose slices do not fit, are more or fewer than the card or else the first has, or of
    another size than the first, is refused when it is its turn.
    """
    series: dict[tuple[str, str], list[int]] = {}
    for place, summary in enumerate(summaries):
        name = files.names[indices[place]]
        key = name, ""
        if summary.planes is not None and len(summary.frames) == 1:
            key = str(Path(name).parent), summary.planes.series
        series.setdefault(key, []).append(place)
    volumes: list[Slices] = []
    errors: dict[str, ImageError] = {}
    first: ReferenceHeader | None = None
    most = 1
    for places in series.values():
        name = files.names[indices[places[0]]]
        try:
            slices = _slices(
                files, [indices[place] for place in places], [summaries[p] for p in places]
            )
            if first is None and slices[0][1] != FAULTY:
                summary = summaries[places[0]]
                first = ReferenceHeader(Path(name).name, summary.sides, summary.photometric)
                most = card.slices[1] if card.slices else len(slices)
            if first is not None and slices[0][1] != FAULTY:
                _check_number(card, first, most, name, len(slices))
        except ImageError as error:
            errors[name], slices = error, [(indices[place], FAULTY) for place in places]
        volumes.append(slices)
    if first is None:
        raise no_usable_file(errors, faults)
    reasons = {name: str(error) for name, error in errors.items()}
    file, frame = np.array([slice_ for slices in volumes for slice_ in slices], np.int64).T
    starts = np.cumsum([0, *map(len, volumes)])
    slices_of = FilesReader(partial(_decode, card, named, first, reasons), files.names, file, frame)
    return ImageRecords(
        (most, *first.sides),
        StacksReader(slices_of, starts, partial(_shown, card.window, first.photometric)),
        file[starts[:-1]],
    )


def _check_number(
    card: DicomCard, first: ReferenceHeader, most: int, name: str, count: int
) -> None:
    """Raise unless a series has as many slices as the card says, or else the first series."""
    if card.slices is not None:
        card.check_depth(count, name)
    elif count != most:
        raise ImageError(
            f"{name}: volumes must have one size, found {most} slices in the series of "
            f"{first.name} and {count} here; {WAY}, or give slices = [fewest, most] in the card"
        )


def _slices(files: ClassedFiles, indices: list[int], summaries: list[HeaderSummary]) -> Slices:
    """Return the slices of one series in their order.

    Raises
    ------
    ImageError
        When they are no volume, or not of one class, person, meaning or window.
    """
    where = files.names[indices[0]]
    if summaries[0].planes is None:  # the file itself says why
        return [(indices[0], FAULTY)]
    assert files.people is not None
    for what, values in (
        ("class and split", [(files.label_of[i], files.split_of[i]) for i in indices]),
        ("person", [files.people[i] for i in indices]),
        ("size", [summary.sides for summary in summaries]),
        ("PhotometricInterpretation (0028,0004)", [summary.photometric for summary in summaries]),
        ("window", [summary.window for summary in summaries]),
    ):
        if any(value != values[0] for value in values):
            raise ImageError(f"{where}: a series must have one {what}, found several; {WAY}")
    order = slice_order([summary.planes for summary in summaries if summary.planes], where)
    pairs = zip(indices, summaries, strict=True)
    frames = [(index, frame) for index, summary in pairs for frame in summary.frames]
    return [frames[place] for place in order.tolist()]


def _decode(
    card: DicomCard,
    named: bool,
    first: ReferenceHeader,
    faults: dict[str, str],
    file: Path,
    frames: Rows,
) -> ImageArray:
    """Return some slices of a file; raise what was wrong with its series."""
    if str(file) in faults:
        raise ImageError(faults[str(file)])
    return decode(card, named, first, file, frames)


def _shown(window: Any, photometric: str, slices: NDArray[Any]) -> ImageArray:
    """Return the slices of a volume as 0..255: where it has a window of its own, by that."""
    if window != "image":
        return slices
    inverted = photometric == "MONOCHROME1"
    return to_uint8(slices, window="image", inverted=inverted, where="a series")
