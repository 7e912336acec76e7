"""DICOM files, one class a folder or as the card's pattern says, with any suffix or none.

What a header decides is checked when a dataset is opened (`dicom_header`), and again with each file
that is read (`dicom_files`); its frames (`dicom_pixels`) are rescaled and windowed as header and
card say (`dicom_scaling`, `intensities`), and only 0..255 leaves. Frames are images, or the slices
of volumes (`dicom_planes`, `dicom_volumes`).
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator as check

from pipeline.datasets.cards import goes_down, require_classes
from pipeline.datasets.classed import Classed, check_card, sort_files
from pipeline.datasets.dicom_beside import NIFTI, PICTURES, drawn_beside, of_slices
from pipeline.datasets.dicom_files import FAULTY, First, Seen, decode, look, look_at_all
from pipeline.datasets.dicom_masks import inside_alone, regions_of
from pipeline.datasets.dicom_named import find_named
from pipeline.datasets.dicom_volumes import Found, stack_up
from pipeline.datasets.frames import Frames, Segments
from pipeline.datasets.own import OwnCard, of_several_depths
from pipeline.datasets.pictures import CROPPED
from pipeline.datasets.reading import InFiles
from pipeline.datasets.shapes import check_extent, check_volume
from pipeline.datasets.sifting import Sift
from pipeline.datasets.source import ImageSource
from pipeline.errors import DatasetError


class DicomCard(OwnCard):
    """What a card of kind ``dicom`` says.

    Attributes
    ----------
    pattern : str
        Where files lie, as in a folder of pictures. Person and day are PatientID and StudyDate,
        unless it names them.
    frames : "all", "middle" or indices
        Which images of a file with several are read.
    volumes : bool
        A series is one volume, its slices ordered by where they lie.
    burnt_in : "accept", optional
        Whether files are read that say of themselves that names are burnt into their pixels, or
        that a face can be known.
    masks : str, optional
        Where the mask of an image lies, as in a folder of pictures, if it ends as names of pictures
        or of NIfTI do; one in NIfTI may be of several images. Else where segmentation objects lie,
        which say of which images they are: a pattern with ``*`` and ``**`` alone. Files there that
        are none are passed by.
    segments : "all" or numbers, optional
        Which segments are inside; needed where a segmentation has several.
    mixed : "accept", optional
        Whether photometric interpretations may differ; MONOCHROME1 is inverted in any case, and
        YBR_* becomes RGB.
    """

    pattern: str = "{class}/**/*"
    frames: Frames = "all"
    burnt_in: Literal["refuse", "accept"] = "refuse"
    mixed: Literal["refuse", "accept"] = "refuse"

    volumetric: ClassVar[bool] = True

    masks: str | None = None
    segments: Segments | None = None

    @property
    def beside(self) -> str | None:
        """Where masks lie that are found by the names of images: pictures, and NIfTI."""
        return self.masks if (self.masks or "").lower().endswith(PICTURES + NIFTI) else None

    @property
    def shared(self) -> bool:
        """Whether several images may have their masks in one file."""
        return of_slices(self.masks or "")

    @property
    def objects(self) -> str | None:
        """Where segmentation objects lie."""
        return None if self.beside else self.masks

    @check(mode="after")
    def _dicom_keys_fit(self) -> Self:
        check_card(self)
        check_keys(self)
        return self


def check_keys(card: OwnCard) -> None:
    """Raise `ValueError` where keys of a card of DICOM do not go together."""
    if card.window == "header" and card.channels == 3:
        raise ValueError('colour has no window of its own; give [low, high] or "image"')
    masks = getattr(card, "objects", None)
    if masks is not None and (not goes_down(masks) or "{" in masks):
        raise ValueError(
            "masks of DICOM must be relative, without '..', as in 'masks/**/*.dcm', and name no "
            "class: segmentations say of which images they are; or end as in "
            f"'masks/{{class}}/*.png' or '*.nii.gz'; found {masks!r}"
        )
    if getattr(card, "segments", None) is not None and masks is None:
        raise ValueError("segments needs masks, where segmentations lie")
    if card.volumes and (strange := {"size", "frames", "mixed"} & card.model_fields_set):
        raise ValueError(f"key '{min(strange)}' is for images, not for whole volumes")


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
    if card.frames == "masked" and files.masks is None and not card.objects:
        raise DatasetError(f'{card.name}: frames = "masked" needs masks, found none; name them')
    named = files.people is None and card.unit == "person"
    marked = card.objects is not None or any(map(of_slices, files.masks or ()))
    kept, seen = look_at_all(partial(look, card, named, others, marked), files, sift)
    drawn = find_named(card, path, seen, sift) if card.objects else None
    if files.masks is not None:
        drawn = drawn_beside(files)
    if drawn and card.frames == "masked":
        kept, seen = inside_alone(drawn, kept, seen)
    _check_classes(card, path, files.label_of[kept])
    people, days = files.people, files.dates
    if people is None:
        people = np.zeros(len(files.names), f"U{max(len(one.person) for one in seen) or 1}")
        people[kept] = [one.person for one in seen]
    if days is None:
        days = np.full(len(files.names), "NaT", "datetime64[D]")
        days[kept] = [one.day for one in seen]
    files = replace(files, people=people, dates=days)
    found = (stack_up if card.volumes else _frames)(card, named, files, kept, seen, sift)
    if card.volumes:
        check_volume(found.shape, str(path), card.window)
    else:
        check_extent(found.shape, str(path))
    return ImageSource(
        card,
        found.shape,
        files.label_of[found.file],
        files.split_of[found.file],
        found.read,
        files.facts(card.exclude)
        + of_several_depths(card)
        + ((CROPPED,) if card.size and card.fit == "crop" else ()),
        people[found.file] if card.unit == "person" else None,
        days[found.file],
        drawn and regions_of(card, files, kept, seen, found, drawn),
        classes_per_person=card.classes_per_person,
        left_out=files.left_out,
    )


def _frames(
    card: DicomCard,
    named: bool,
    files: Classed,
    kept: list[int],
    seen: list[Seen],
    sift: Sift | None,
) -> Found:
    """Return every frame that is read as an image."""
    good = next(place for place, one in enumerate(seen) if one.frames[0] != FAULTY)
    first = First(Path(files.names[kept[good]]).name, seen[good].sides, seen[good].photometric)
    sides = (card.size, card.size) if card.size else first.sides
    shape = sides + ((3,) if card.channels == 3 else ())
    file = np.repeat(np.array(kept, np.int64), [len(one.frames) for one in seen])
    frame = np.array([frame for one in seen for frame in one.frames], np.int64)
    return Found(
        shape, InFiles(partial(decode, card, named, first), files.names, file, frame), file
    )


def _check_classes(card: DicomCard, path: Path, labels: NDArray[np.int64]) -> None:
    """Raise when a class has no file that is to be read."""
    require_classes(
        card,
        np.bincount(labels, minlength=len(card.classes)).tolist(),
        lambda name: (
            f"{path}: class '{name}' has no DICOM image at '{card.pattern}'; correct "
            "classes, pattern or path in the card"
        ),
    )
