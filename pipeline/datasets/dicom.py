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
from pipeline.datasets.dicom_pixels import COLOUR, GRAY, check_frames, read_frames
from pipeline.datasets.dicom_scaling import scaling
from pipeline.datasets.doors import open_regular
from pipeline.datasets.frames import Frames, chosen_frames
from pipeline.datasets.intensities import to_uint8
from pipeline.datasets.own import OwnCard
from pipeline.datasets.pictures import CROPPED
from pipeline.datasets.reading import InFiles, Rows
from pipeline.datasets.shapes import check_extent
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


def open_dicom(card: DicomCard, path: Path) -> ImageSource:
    """Open a folder of DICOM files: list them and read the header of each.

    Files that are not DICOM are passed by, if their names do not end as those of images do, and so
    is DICOMDIR. Images are ordered by class, path and frame.

    Raises
    ------
    DatasetError
        When a class has no image, or a file is not what the card says, cannot be read, or leaves
        open what its pixels mean.
    """
    return open_files(card, sort_files(card, path, ("",), ("DICOM",)), path)


def open_files(card: DicomCard, files: Classed, path: Path, *, others: bool = True) -> ImageSource:
    """Open some files, as `open_dicom`; whether there may be others than DICOM among them."""
    seen: list[_Seen] = []
    kept: list[int] = []
    for index, name in enumerate(files.names):
        if (one := _look(card, Path(name))) is not None:
            kept.append(index)
            seen.append(one)
        elif not others:
            raise ImageError(f"{name} is no DICOM file; correct the path, or leave it out")
    _check_alike(card, [files.names[index] for index in kept], seen)
    each = np.repeat(np.array(kept, np.int64), [len(one.frames) for one in seen])
    label_of = files.label_of[each]
    for label in np.setdiff1d(np.arange(len(card.classes)), label_of)[:1]:
        raise MismatchError(
            f"{path}: class '{card.classes[label]}' has no DICOM image at '{card.pattern}'; "
            "correct classes, pattern or path in the card"
        )
    sides = (card.size, card.size) if card.size else seen[0].sides
    shape = sides + ((3,) if card.channels == 3 else ())
    check_extent(shape, str(path))
    which = np.array([frame for one in seen for frame in one.frames], np.int64)
    return ImageSource(
        card,
        shape,
        label_of,
        files.split_of[each],
        InFiles(partial(_decode, card, shape), files.names, each, which),
        files.facts + ((CROPPED,) if card.size and card.fit == "crop" else ()),
        _people(card, files, kept, seen),
        _dates(files, kept, seen),
        classes_per_person=card.classes_per_person,
    )


def _look(card: DicomCard, file: Path) -> _Seen | None:
    """Return what the header of one file says; None when it is none of the images."""
    with _readable(file) as stream:
        header = read_header(stream, file)
        if header is None:
            if file.name == INDEX or not may_be_image(file.name):
                return None
            raise ImageError(
                f"{file} has no DICM after 128 bytes, so it is no DICOM file, though it may be "
                "taken for one; leave it out by a narrower pattern, as '{class}/**/*.dcm', or "
                "with exclude"
            )
        _check(card, header)
        frames = chosen_frames(card.frames, header.frames, str(file))
        if card.window is None:
            nothing = np.empty(0, f"{'i' if header.signed else 'u'}{header.allocated // 8}")
            _shown(card, header, frames[0], nothing)
        else:
            scaling(header, frames[0], card.window)
        return _Seen(
            frames,
            (header.rows, header.columns),
            header.photometric,
            header.person if card.unit == "person" else "",
            header.day,
        )


def _decode(card: DicomCard, shape: tuple[int, ...], file: Path, frames: Rows) -> ImageArray:
    """Return some frames of a file as 0..255, (m, *shape)."""
    wanted, place = np.unique(frames, return_inverse=True)
    with _readable(file) as stream:
        header = read_header(stream, file)
        if header is None or wanted[-1] >= header.frames:
            raise ImageError(f"{file} has changed since it was listed; read the images again")
        _check(card, header)
        if not card.size and (header.rows, header.columns) != shape[:2]:
            raise ImageError(f"{file} has changed its size since it was listed; read them again")
        stored = read_frames(stream, header, wanted.tolist())
        pairs = zip(wanted.tolist(), stored, strict=True)
        found = np.stack([_shown(card, header, frame, values) for frame, values in pairs])
    return found[place]


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
    gray = header.photometric in GRAY
    if not gray and header.photometric not in COLOUR:
        raise header.fault(
            "PhotometricInterpretation",
            f"must be one of {', '.join((*GRAY, *COLOUR))}, found {header.photometric!r}",
            "convert it, write the file anew, or leave it out",
        )
    if header.samples != (1 if gray else 3):
        raise header.fault("SamplesPerPixel", f"cannot be {header.samples} in such a file")
    if card.channels != header.samples:
        asked, found = ("gray", "colour") if card.channels == 1 else ("colour", "gray")
        raise header.fault(
            "PhotometricInterpretation",
            f"must be {asked} as channels = {card.channels} in the card says, found {found} "
            f"({header.photometric})",
            "correct the card or leave the file out",
        )
    for keyword in ("BurnedInAnnotation", "RecognizableVisualFeatures"):
        if text(header.elements, keyword).upper() == "YES" and card.burnt_in != "accept":
            raise header.fault(
                keyword, "is YES", 'leave the file out, or give burnt_in = "accept" in the card'
            )
    check_frames(header)


def _check_alike(card: DicomCard, names: Sequence[str], seen: Sequence[_Seen]) -> None:
    """Raise unless all files have one size and one meaning, where the card asks for that."""
    ways: list[tuple[Callable[[_Seen], Any], str, str]] = []
    if not card.size:
        ways += [(lambda one: one.sides, "size", "give size in the card to fit and resize them")]
    if card.mixed != "accept":
        way = 'leave some out, or give mixed = "accept" in the card'
        ways += [(lambda one: one.photometric, "PhotometricInterpretation (0028,0004)", way)]
    for value, what, way in ways:
        first = {
            value(one): name for one, name in zip(reversed(seen), reversed(names), strict=True)
        }
        if len(first) > 1:
            (one, at), (two, other) = sorted(first.items(), key=lambda pair: pair[1])[:2]
            raise ImageError(
                f"{other}: images must have one {what}, found {one} in {Path(at).name} and {two} "
                f"in {Path(other).name}; {way}"
            )


def _people(
    card: DicomCard, files: Classed, kept: list[int], seen: Sequence[_Seen]
) -> NDArray[np.str_] | None:
    """Return whose each image is, where the unit is the person."""
    if card.unit == "image":
        return None
    if files.people is not None:
        names = files.people[kept]
    else:
        for one, index in zip(seen, kept, strict=True):
            if not one.person:
                raise ImageError(
                    f"{files.names[index]}: PatientID (0010,0020) is empty, which unit = "
                    '"person" needs; name {person} in pattern, or leave the file out'
                )
        names = np.array([one.person for one in seen], np.str_)
    return np.repeat(names, [len(one.frames) for one in seen])


def _dates(files: Classed, kept: list[int], seen: Sequence[_Seen]) -> NDArray[np.datetime64]:
    """Return the day of each image, not-a-time where neither path nor file says one."""
    days = (
        np.array([one.day for one in seen], "datetime64[D]")
        if files.dates is None
        else files.dates[kept]
    )
    return np.repeat(days, [len(one.frames) for one in seen])
