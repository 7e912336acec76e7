"""A folder of DICOM files, one class a folder or as the card's pattern says, of any suffix or none.

What a header decides is checked when a dataset is opened, and again with each file that is read;
only 0..255 leaves. Frames are images, or the slices of volumes.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.classed import ClassedFiles, make_source, sort_files
from pipeline.datasets.dicom.card import DicomCard, is_nifti
from pipeline.datasets.dicom.files import (
    FAULTY,
    HeaderSummary,
    ReferenceHeader,
    decode,
    scan_header,
    scan_headers,
)
from pipeline.datasets.dicom.masks import (
    keep_masked,
    mask_reader,
    segmentation_masks,
    sidecar_masks,
)
from pipeline.datasets.dicom.series import ImageRecords, build_volumes
from pipeline.datasets.listing import Faults
from pipeline.datasets.readers import FilesReader
from pipeline.datasets.source import ImageSource
from pipeline.errors import DatasetError


def open_dicom(card: DicomCard, path: Path, faults: Faults) -> ImageSource:
    """Open a folder of DICOM files: list them and read the header of each.

    Files that are not DICOM are passed by, if their names do not end as those of images do, and so
    is DICOMDIR. Images are ordered by class, path and frame. A file that is not what the card says,
    cannot be read, or leaves open what its pixels mean, is refused when it is its turn to be read.

    Raises
    ------
    DatasetError
        When a class has no image, or no file can be used, as the first says.
    """
    return open_dicom_files(
        card, sort_files(card, path, ("",), ("DICOM",), faults), path, faults=faults
    )


def open_dicom_files(
    card: DicomCard,
    files: ClassedFiles,
    path: Path,
    faults: Faults,
    *,
    others: bool = True,
) -> ImageSource:
    """Open some files, as `open_dicom`; whether there may be others than DICOM among them."""
    if card.frames == "masked" and files.masks is None and not card.objects:
        raise DatasetError(f'{card.name}: frames = "masked" needs masks, found none; name them')
    named = files.people is None and card.unit == "person"
    with_ids = card.objects is not None or any(map(is_nifti, files.masks or ()))
    indices, summaries = scan_headers(
        partial(scan_header, card, named, others, with_ids), files, faults
    )
    masks = segmentation_masks(card, path, summaries, faults) if card.objects else None
    if files.masks is not None:
        masks = sidecar_masks(files)
    if masks and card.frames == "masked":
        indices, summaries = keep_masked(masks, indices, summaries)
    _check_classes(card, path, files.label_of[indices])
    people, days = files.people, files.dates
    if people is None:
        people = np.zeros(
            len(files.names), f"U{max(len(summary.person) for summary in summaries) or 1}"
        )
        people[indices] = [summary.person for summary in summaries]
    if days is None:
        days = np.full(len(files.names), "NaT", "datetime64[D]")
        days[indices] = [summary.day for summary in summaries]
    files = replace(files, people=people, dates=days)
    records = (build_volumes if card.volumes else _frames)(
        card, named, files, indices, summaries, faults
    )
    regions = masks and mask_reader(card, files, indices, summaries, records, masks)
    return make_source(card, files, path, records.shape, records.read, records.file, regions)


def _frames(
    card: DicomCard,
    named: bool,
    files: ClassedFiles,
    indices: list[int],
    summaries: list[HeaderSummary],
    faults: Faults,
) -> ImageRecords:
    """Return every frame that is read as an image."""
    good = next(place for place, summary in enumerate(summaries) if summary.frames[0] != FAULTY)
    first = ReferenceHeader(
        Path(files.names[indices[good]]).name, summaries[good].sides, summaries[good].photometric
    )
    sides = (card.size, card.size) if card.size else first.sides
    shape = sides + ((3,) if card.channels == 3 else ())
    file = np.repeat(np.array(indices, np.int64), [len(summary.frames) for summary in summaries])
    frame = np.array([frame for summary in summaries for frame in summary.frames], np.int64)
    return ImageRecords(
        shape, FilesReader(partial(decode, card, named, first), files.names, file, frame), file
    )


def _check_classes(card: DicomCard, path: Path, labels: NDArray[np.int64]) -> None:
    """Raise when a class has no file that is to be read."""
    card.require_classes(
        np.bincount(labels, minlength=len(card.classes)).tolist(),
        lambda name: (
            f"{path}: class '{name}' has no DICOM image at '{card.pattern}'; correct "
            "classes, pattern or path in the card"
        ),
    )
