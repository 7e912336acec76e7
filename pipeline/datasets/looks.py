"""What lies in a folder, by a look at names and at some headers: for the draft of a card."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.datasets.decoding import DEEP, FORMATS, check_one, opened
from pipeline.datasets.doors import open_regular
from pipeline.datasets.listing import DEEPEST, too_deep
from pipeline.datasets.nifti_file import read_volume
from pipeline.errors import DatasetError, ImageError

SAMPLE = 1000
"""Headers that are looked at, evenly over all files."""
TABLES = (".csv", ".parquet")
_DICOM = (".dcm", ".dicom", ".ima")
_PICTURES = tuple(end for ends in FORMATS.values() for end in ends)


@dataclass(frozen=True)
class Look:
    """What one file is.

    Attributes
    ----------
    sides : tuple of int
        Height and width, or all three of a volume.
    colour : bool
        Whether it has three channels, and they differ.
    deep : bool
        Whether its values need a window.
    named : bool
        Whether it says itself whose it is, where such files do.
    image, series : str
        SOPInstanceUID of a DICOM file, and its folder and SeriesInstanceUID.
    slices : int
        Frames of a DICOM file.
    """

    sides: tuple[int, ...]
    colour: bool
    deep: bool
    named: bool = True
    image: str = ""
    series: str = ""
    slices: int = 1


def scan(folder: Path) -> dict[str, list[str]]:
    """Return the relative paths of files by the kind of card that reads them, in order.

    Hidden ones are left out, and tables in folders below.
    """
    found: dict[str, list[str]] = {"folder": [], "dicom": [], "nifti": [], "table": []}
    for place, folders, names in os.walk(folder, onerror=_refuse):
        if place.count(os.sep) - str(folder).count(os.sep) > DEEPEST:
            raise too_deep(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file, low = Path(place, name), name.lower()
            if low.startswith(".") or low == "dicomdir":
                continue
            kind = kind_of(file)
            if low.endswith(TABLES) and file.parent == folder:
                kind = "table"
            if kind is not None:
                found[kind].append(file.relative_to(folder).as_posix())
    return found


def kind_of(file: Path) -> str | None:
    """Return the kind of card that reads a file, by its name or its mark; None for no image."""
    low = file.name.lower()
    if low.endswith(_PICTURES):
        return "folder"
    if low.endswith((".nii", ".nii.gz")):
        return "nifti"
    if low.endswith(_DICOM) or (not any(map(str.isalpha, file.suffix)) and _marked(file)):
        return "dicom"
    return None


def _refuse(error: OSError) -> None:
    raise DatasetError(f"{error.filename} cannot be listed ({error.strerror})") from error


def _marked(file: Path) -> bool:
    """Return whether a file has the mark of DICOM."""
    try:
        with open_regular(file) as stream:
            return stream.read(132)[128:] == b"DICM"
    except (OSError, ImageError):
        return False


def look_at(kind: str, folder: Path, names: Sequence[str]) -> tuple[list[Look], list[str]]:
    """Return what some files are, evenly chosen, and what is wrong with those that say nothing."""
    looks, faults = [], []
    step = max(1, len(names) // SAMPLE)
    for name in names[::step]:
        try:
            looks.append(LOOKS[kind](folder / name))
        except ImageError as error:
            faults.append(str(error))
    return looks, faults


def _picture(file: Path) -> Look:
    with opened(file, tuple(FORMATS)) as image:
        check_one(image, file)
        colour = image.mode not in DEEP | {"1", "L", "LA"}
        if colour:
            pixels = np.asarray(image.convert("RGB"))
            colour = bool((pixels != pixels[..., :1]).any())
        return Look((image.height, image.width), colour, image.mode in DEEP)


def _nifti(file: Path) -> Look:
    volume = read_volume(file)
    plain = volume.dtype == np.uint8 and (volume.slope, volume.intercept) == (1.0, 0.0)
    return Look(volume.shape, False, not plain)


def _dicom(file: Path) -> Look:
    from pipeline.datasets.dicom_elements import text
    from pipeline.datasets.dicom_files import readable
    from pipeline.datasets.dicom_header import read_header

    with readable(file) as stream:
        header = read_header(stream, file)
        if header is None:
            raise ImageError(f"{file} is no DICOM file; leave it out by a narrower pattern")
        deep = header.stored != 8 or header.signed or "RescaleSlope" in header.elements
        return Look(
            (header.rows, header.columns),
            header.samples == 3,
            deep,
            bool(header.person),
            text(header.elements, "SOPInstanceUID"),
            f"{file.parent}/{text(header.elements, 'SeriesInstanceUID')}",
            header.frames,
        )


LOOKS: Mapping[str, Callable[[Path], Look]] = {
    "folder": _picture, "nifti": _nifti, "dicom": _dicom,
}  # fmt: skip
"""How a file of each kind is looked at."""
