"""DICOM files, one class a folder or as the card's pattern says, with any suffix or none.

What a header decides is checked when a dataset is opened (`dicom_header`), and again with each file
that is read; its frames (`dicom_pixels`) are rescaled and windowed as header and card say
(`dicom_scaling`, `intensities`), and only 0..255 leaves.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator as check

from pipeline.arrays import ImageArray
from pipeline.datasets.classed import Classed, check_card, may_be_image, sort_files
from pipeline.datasets.decoding import fitted
from pipeline.datasets.dicom_elements import text
from pipeline.datasets.dicom_header import Header, read_header
from pipeline.datasets.dicom_pixels import check_frames, read_frames
from pipeline.datasets.dicom_scaling import scaling
from pipeline.datasets.doors import open_regular
from pipeline.datasets.frames import Frames, chosen_frames
from pipeline.datasets.intensities import to_uint8
from pipeline.datasets.own import OwnCard
from pipeline.datasets.pictures import CROPPED
from pipeline.datasets.reading import InFiles, Rows
from pipeline.datasets.shapes import check_extent
from pipeline.datasets.sifting import Sift, none_left
from pipeline.datasets.source import ImageSource
from pipeline.errors import ImageError, MismatchError

INDEX = "DICOMDIR"
"""A list of the files beside it, of no use here."""


class DicomCard(OwnCard):
    """What a card of kind ``dicom`` says.

    Attributes
    ----------
    pattern : str
        Where files lie, as in a folder of pictures. Person and day are PatientID and StudyDate,
        unless it names them.
    frames : "all", "middle" or indices
        Which images of a file with several are read.
    burnt_in : "accept", optional
        Whether files are read that say of themselves that names are burnt into their pixels, or
        that a face can be known.
    mixed : "accept", optional
        Whether photometric interpretations may differ; MONOCHROME1 is inverted in any case, and
        YBR_* becomes RGB.
    """

    pattern: str = "{class}/**/*"
    frames: Frames = "all"
    burnt_in: Literal["refuse", "accept"] = "refuse"
    mixed: Literal["refuse", "accept"] = "refuse"

    @property
    def masks(self) -> None:
        """None: no masks beside DICOM files are read."""

    @check(mode="after")
    def _dicom_keys_fit(self) -> Self:
        check_card(self)
        if self.window == "header" and self.channels == 3:
            raise ValueError('colour has no window of its own; give [low, high] or "image"')
        return self


class _Seen(NamedTuple):
    """What opening a dataset keeps of one file."""

    frames: Sequence[int]
    sides: tuple[int, int]
    photometric: str
    person: str
    day: Any


_FAULTY = -1
"""The frame of a file that cannot be used: asked for it, a file says why."""


def open_dicom(card: DicomCard, path: Path, sift: Sift | None = None) -> ImageSource:
    """Open a folder of DICOM files: list them and read the header of each.

    Files that are not DICOM are passed by, if their names do not end as those of images do, and so
    is DICOMDIR. Images are ordered by class, path and frame. A file that is not what the card says,
    cannot be read, or leaves open what its pixels mean, is refused when it is its turn to be read.

    Raises
    ------
    DatasetError
        When a class has no image, or no file can be used, as the first says.
    """
    return open_files(card, sort_files(card, path, ("",), ("DICOM",), sift), path, sift=sift)


def open_files(
    card: DicomCard, files: Classed, path: Path, *, others: bool = True, sift: Sift | None = None
) -> ImageSource:
    """Open some files, as `open_dicom`; whether there may be others than DICOM among them."""
    named = files.people is None and card.unit == "person"
    kept, seen = _look_at_all(partial(_look, card, named, others), files, sift)
    _check_classes(card, path, files.label_of[kept])
    good = next(place for place, one in enumerate(seen) if one.frames[0] != _FAULTY)
    first = _First(Path(files.names[kept[good]]).name, seen[good].sides, seen[good].photometric)
    sides = (card.size, card.size) if card.size else first.sides
    shape = sides + ((3,) if card.channels == 3 else ())
    check_extent(shape, str(path))
    many = [len(one.frames) for one in seen]
    file = np.repeat(np.array(kept, np.int64), many)
    frame = np.array([frame for one in seen for frame in one.frames], np.int64)
    people, days = files.people, files.dates
    if people is None:
        people = np.zeros(len(files.names), f"U{max(len(one.person) for one in seen) or 1}")
        people[kept] = [one.person for one in seen]
    if days is None:
        days = np.full(len(files.names), "NaT", "datetime64[D]")
        days[kept] = [one.day for one in seen]
    return ImageSource(
        card,
        shape,
        files.label_of[file],
        files.split_of[file],
        InFiles(partial(_decode, card, named, first), files.names, file, frame),
        files.facts(card.exclude) + ((CROPPED,) if card.size and card.fit == "crop" else ()),
        people[file] if card.unit == "person" else None,
        days[file],
        classes_per_person=card.classes_per_person,
        left_out=files.left_out,
    )


def _look_at_all(
    look: Callable[[Path], _Seen | None], files: Classed, sift: Sift | None
) -> tuple[list[int], list[_Seen]]:
    """Return which files are images, and what their headers say; raise when none can be used."""
    kept: list[int] = []
    seen: list[_Seen] = []
    faults: dict[str, ImageError] = {}
    for index, name in enumerate(files.names):
        try:
            one = look(Path(name))
        except ImageError as error:
            nobody = f"\\{index}"  # no PatientID begins so: not taken for another's
            one = _Seen((_FAULTY,), (0, 0), "", nobody, None)
            faults[name] = error
        if one is not None:
            kept.append(index)
            seen.append(one)
    if faults and all(one.frames[0] == _FAULTY for one in seen):
        raise none_left(faults, sift)
    return kept, seen


class _First(NamedTuple):
    """The first file that can be used, which all others must be like."""

    name: str
    sides: tuple[int, int]
    photometric: str


def _check_classes(card: DicomCard, path: Path, labels: NDArray[np.int64]) -> None:
    """Raise when a class has no file that is to be read."""
    for label in np.setdiff1d(np.arange(len(card.classes)), labels)[:1]:
        raise MismatchError(
            f"{path}: class '{card.classes[label]}' has no DICOM image at '{card.pattern}'; "
            "correct classes, pattern or path in the card"
        )


def _look(card: DicomCard, named: bool, others: bool, file: Path) -> _Seen | None:
    """Return what the header of one file says; None when it is none of the images."""
    with _readable(file) as stream:
        header = read_header(stream, file)
        if header is None and others and (file.name == INDEX or not may_be_image(file.name)):
            return None
        header, frames = _checked(card, named, header, file)
        person = header.person if named else ""
        sides = header.rows, header.columns
        return _Seen(frames, sides, header.photometric, person, header.day)


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
    frames = chosen_frames(card.frames, header.frames, str(file))
    if card.window is None:  # what needs one is refused
        kind = f"{'i' if header.signed else 'u'}{header.allocated // 8}"
        _shown(card, header, frames[0], np.empty(0, kind))
    else:
        scaling(header, frames[0], card.window)
    return header, frames


def _decode(card: DicomCard, named: bool, first: _First, file: Path, frames: Rows) -> ImageArray:
    """Return some frames of a file as 0..255, (m, *shape)."""
    wanted, place = np.unique(frames, return_inverse=True)
    with _readable(file) as stream:
        header, known = _checked(card, named, read_header(stream, file), file)
        _check_alike(card, first, header)
        if not set(wanted.tolist()) <= set(known):
            raise ImageError(f"{file} has changed since it was listed; read the images again")
        stored = read_frames(stream, header, wanted.tolist())
        pairs = zip(wanted.tolist(), stored, strict=True)
        found = np.stack([_shown(card, header, frame, values) for frame, values in pairs])
    return found[place]


def _check_alike(card: DicomCard, first: _First, header: Header) -> None:
    """Raise unless a file has the size and the meaning of the first, where the card asks it."""
    sides = header.rows, header.columns
    for what, one, other, asked, way in (
        ("size", first.sides, sides, not card.size, "give size in the card to fit and resize them"),
        (
            "PhotometricInterpretation (0028,0004)",
            first.photometric,
            header.photometric,
            card.mixed != "accept",
            'leave some out, or give mixed = "accept" in the card',
        ),
    ):
        if asked and one != other:
            raise ImageError(
                f"{header.file}: images must have one {what}, found {one} in {first.name} and "
                f"{other} in {header.file.name}; {way}"
            )


def _shown(card: DicomCard, header: Header, frame: int, stored: NDArray[Any]) -> ImageArray:
    """Return one frame as 0..255, made to fit where the card has a size."""
    from PIL import Image

    slope, intercept, window = scaling(header, frame, card.window)
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
def _readable(file: Path) -> Iterator[Any]:
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
    for keyword in ("BurnedInAnnotation", "RecognizableVisualFeatures"):
        if text(header.elements, keyword).upper() == "YES" and card.burnt_in != "accept":
            raise header.fault(
                keyword, "is YES", 'leave the file out, or give burnt_in = "accept" in the card'
            )
    check_frames(header, card.channels)
