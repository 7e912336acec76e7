"""Summaries of DICOM and NIfTI files, for drafts of cards and looks at files."""

from pathlib import Path

import numpy as np

from covdp.addons.hospital.dicom.header import (
    check_image,
    object_name,
    read_header,
    readable,
    scaling,
    text,
)
from covdp.addons.hospital.dicom.masks import is_segmentation
from covdp.addons.hospital.dicom.pixels import check_frames, read_frames
from covdp.addons.hospital.nifti import check_intensities, each_plane, read_volume
from covdp.datasets.summary import FileKind, FileSummary, depth_in_words, range_of


def summarise_nifti(file: Path, pixels: bool) -> FileSummary:
    """Return the summary of a NIfTI file.

    Parameters
    ----------
    file : Path
        Path of the file.
    pixels : bool
        True to read the voxels too.
    """
    volume = read_volume(file)
    check_intensities(volume)
    dtype, values = volume.dtype, None
    plain = dtype == np.uint8 and (volume.slope, volume.intercept) == (1.0, 0.0)
    if pixels:
        (plane,) = each_plane(volume, [volume.shape[2] // 2])
        values = range_of(plane * np.float64(volume.slope) + volume.intercept)
    depth = depth_in_words(8 * dtype.itemsize, dtype.kind == "i") + ", floating" * (
        dtype.kind == "f"
    )
    return FileSummary(
        volume.shape[:2], False, not plain, depth, values, "", "", str(file), volume.shape[2]
    )


def summarise_dicom(file: Path, pixels: bool) -> FileSummary:
    """Return the summary of a DICOM file.

    Parameters
    ----------
    file : Path
        Path of the file.
    pixels : bool
        True to read the pixels too.
    """
    with readable(file) as stream:
        header = read_header(stream, file)
        check_image(file, header.elements)
        check_frames(header, header.samples)
        deep = header.stored != 8 or header.signed or "RescaleSlope" in header.elements
        values, middle = None, header.frames // 2
        if pixels:
            scale = scaling(header, middle, None)
            (frame,) = read_frames(stream, header, [middle])
            values = range_of(frame * np.float64(scale.slope) + scale.intercept)
        return FileSummary(
            (header.rows, header.columns),
            header.samples == 3,
            deep,
            depth_in_words(header.stored, header.signed),
            values,
            f"{text(header.elements, 'Modality')} ({object_name(header.elements)})".strip(),
            header.person,
            f"{file.parent}/{text(header.elements, 'SeriesInstanceUID') or file.name}",
            header.frames,
        )


NIFTI_FILES = FileKind(
    (".nii", ".nii.gz"), "NIfTI file(s)", summarise_nifti, format="NIfTI", alone=True, axis=2
)
"""NIfTI: a file is one volume, of slices."""
DICOM_FILES = FileKind(
    (".dcm", ".dicom", ".ima"),
    "DICOM file(s)",
    summarise_dicom,
    format="DICOM",
    mark=(128, b"DICM"),
    is_mask=is_segmentation,
    says_person=True,
)
"""DICOM: may have no suffix, and says whose it is and what is a segmentation."""
