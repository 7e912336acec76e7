"""The images of single DICOM files: what headers say of them, and their frames as 0..255.

What a header decides is checked when a dataset is opened, and again with each file that is read;
whatever a damaged one makes a library raise becomes one line.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.datasets.cards import chosen_frames
from pipeline.datasets.classed import ClassedFiles, may_be_image
from pipeline.datasets.dicom.card import DicomCard
from pipeline.datasets.dicom.geometry import FrameId, Planes, read_frame_id, read_planes
from pipeline.datasets.dicom.header import Header, kept_header, read_header, text
from pipeline.datasets.dicom.pixels import WAY, check_frames, read_frames, scaling
from pipeline.datasets.intensities import Window, to_uint8
from pipeline.datasets.listing import Faults, no_usable_file, open_regular
from pipeline.datasets.pictures import fitted
from pipeline.datasets.readers import Rows
from pipeline.errors import ImageError, MismatchError

INDEX = "DICOMDIR"
"""A list of the files beside it, of no use here."""

SEGMENTATION = "1.2.840.10008.5.1.4.1.1.66.4"
"""The class of objects that hold masks."""


class HeaderSummary(NamedTuple):
    """What opening a dataset keeps of a file; of volumes also where frames lie, and what window.

    Where there are masks, also what each frame is known by.
    """

    frames: Sequence[int]
    sides: tuple[int, int]
    photometric: str
    person: str
    day: Any
    planes: Planes | None = None
    window: Window = None
    frame_ids: tuple[FrameId, ...] = ()


FAULTY = -1
"""The frame of a file that cannot be used: asked for it, a file says why."""


class ReferenceHeader(NamedTuple):
    """The first file that can be used, which all others must be like."""

    name: str
    sides: tuple[int, int]
    photometric: str


def scan_headers(
    scan_header: Callable[[Path], HeaderSummary | None], files: ClassedFiles, faults: Faults
) -> tuple[list[int], list[HeaderSummary]]:
    """Return which files are images, and what their headers say; raise when none can be used."""
    indices: list[int] = []
    summaries: list[HeaderSummary] = []
    errors: dict[str, ImageError] = {}
    for index, name in enumerate(files.names):
        try:
            summary = scan_header(Path(name))
        except ImageError as error:
            nobody = f"\\{index}"  # no PatientID begins so: not taken for another's
            summary = HeaderSummary((FAULTY,), (0, 0), "", nobody, None)
            errors[name] = error
        if summary is not None:
            indices.append(index)
            summaries.append(summary)
    if errors and all(summary.frames[0] == FAULTY for summary in summaries):
        raise no_usable_file(errors, faults)
    return indices, summaries


def scan_header(
    card: DicomCard, named: bool, others: bool, with_ids: bool, file: Path
) -> HeaderSummary | None:
    """Return what the header of one file says; None when it is none of the images.

    Where they are `with_ids`, also what its frames are known by.
    """
    with readable(file) as stream:
        header = read_header(stream, file)
        if header is None and others and (file.name == INDEX or not may_be_image(file.name)):
            return None
        if card.objects and header and text(header.elements, "SOPClassUID") == SEGMENTATION:
            return None
        header, frames = _checked(card, named, header, file)
        person = header.person if named else ""
        sides = header.rows, header.columns
        frame_ids = tuple(read_frame_id(header, frame) for frame in frames) if with_ids else ()
        summary = HeaderSummary(
            frames, sides, header.photometric, person, header.day, frame_ids=frame_ids
        )
        if not card.volumes:
            return summary
        window = _one_window(card, header, frames)
        return summary._replace(planes=read_planes(header, frames), window=window)


def _one_window(card: DicomCard, header: Header, frames: Sequence[int]) -> Window:
    """Return the window of all frames of a file, which are slices of one volume."""
    if card.window != "header":
        return card.window
    windows = {scaling(header, frame, card.window).window for frame in frames}
    if len(windows) > 1:
        raise header.fault("WindowCenter", "must be one for all slices of a volume", WAY)
    return windows.pop()


def _checked(
    card: DicomCard, named: bool, header: Header | None, file: Path
) -> tuple[Header, Sequence[int]]:
    """Return a header that a card can use, and which frames of its file are read.

    `named` says that it must name a person.
    """
    if header is None:
        raise ImageError(
            f"{file} has no DICM after 128 bytes, so it is no DICOM file, though it may be taken "
            "for one; leave it out by a narrower pattern, as '{class}/**/*.dcm', or with exclude"
        )
    _check(card, header)
    if named and not header.person:
        raise header.fault(
            "PatientID",
            'is empty, which unit = "person" needs',
            "name {person} in pattern, or leave the file out",
        )
    wanted = "all" if card.frames == "masked" else card.frames  # of which masks choose
    frames = chosen_frames(wanted, header.frames, str(file))
    if card.window is None:  # what needs one is refused
        kind = f"{'i' if header.signed else 'u'}{header.allocated // 8}"
        _shown(card, header, frames[0], np.empty(0, kind))
    else:
        scaling(header, frames[0], card.window)
    return header, frames


def decode(
    card: DicomCard, named: bool, first: ReferenceHeader, file: Path, frames: Rows
) -> ImageArray:
    """Return some frames of a file as 0..255, (m, *shape).

    Slices of a volume that has a window of its own are returned in the units of the file.
    """
    wanted, place = np.unique(frames, return_inverse=True)
    with readable(file) as stream:
        header, readable_frames = _checked(card, named, kept_header(stream, file), file)
        _check_alike(card, first, header)
        if card.volumes:
            _one_window(card, header, readable_frames)
            read_planes(header, readable_frames)
        if not set(wanted.tolist()) <= set(readable_frames):
            raise ImageError(f"{file} has changed since it was listed; read the images again")
        stored = read_frames(stream, header, wanted.tolist())
        pairs = zip(wanted.tolist(), stored, strict=True)
        images = np.stack([_shown(card, header, frame, values) for frame, values in pairs])
    return images[place]


def _check_alike(card: DicomCard, first: ReferenceHeader, header: Header) -> None:
    """Raise unless a file has the size and the meaning of the first, where the card asks it."""
    sides = header.rows, header.columns
    fit = "give size in the card to fit and resize them"
    if card.volumes:
        fit = "leave the series out with exclude"
    for what, first_value, other, asked, way in (
        ("size", first.sides, sides, not card.size, fit),
        (
            "PhotometricInterpretation (0028,0004)",
            first.photometric,
            header.photometric,
            card.mixed != "accept",
            'leave some out, or give mixed = "accept" in the card',
        ),
    ):
        if asked and first_value != other:
            raise ImageError(
                f"{header.file}: images must have one {what}, found {first_value} in {first.name} "
                f"and {other} in {header.file.name}; {way}"
            )


def _shown(card: DicomCard, header: Header, frame: int, stored: NDArray[Any]) -> ImageArray:
    """Return one frame as 0..255, made to fit where the card has a size."""
    from PIL import Image

    slope, intercept, window = scaling(header, frame, card.window)
    if card.volumes and window == "image":  # that of the volume, not of the slice
        values: ImageArray = (stored * np.float64(slope) + intercept).view(np.ndarray)
        if not np.isfinite(values).all():
            raise header.fault("RescaleSlope", f"must leave values finite, found {slope}")
        return values
    pixels = to_uint8(
        stored,
        slope=slope,
        intercept=intercept,
        window=window,
        inverted=header.photometric == "MONOCHROME1",
        bits=header.stored,
        where=f"{header.file}: BitsStored (0028,0101)",
    )
    if not card.size or not pixels.size:
        return pixels
    return np.asarray(fitted(Image.fromarray(pixels), card.size, card.fit))


@contextmanager
def readable(file: Path) -> Iterator[Any]:
    """Open a file; whatever a damaged one makes pydicom raise becomes one `ImageError`."""
    try:
        with open_regular(file) as stream:
            yield stream
    except (ImageError, MismatchError):
        raise
    except Exception as error:  # pydicom and decoders raise whatever they stumble over
        said = " ".join(str(error).replace(str(file), "file").split())[:200]
        raise ImageError(
            f"{file} is not a readable DICOM file ({said or type(error).__name__}); repair it or "
            "leave it out"
        ) from error


def _check(card: DicomCard, header: Header) -> None:
    """Raise unless a file is what the card says, and says what its pixels mean."""
    if text(header.elements, "SOPClassUID") == SEGMENTATION:
        raise ImageError(
            f"{header.file} is no image but a segmentation (DICOM SEG); say where they lie by "
            "masks in the card, or leave it out with exclude"
        )
    for keyword in ("BurnedInAnnotation", "RecognizableVisualFeatures"):
        if text(header.elements, keyword).upper() == "YES" and card.burnt_in != "accept":
            raise header.fault(
                keyword, "is YES", 'leave the file out, or give burnt_in = "accept" in the card'
            )
    check_frames(header, card.channels)
