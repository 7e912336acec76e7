"""A card of kind ``dicom``, and the facts that opening a dataset keeps of each of its files."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

from pydantic import BeforeValidator
from pydantic import model_validator as check

from covdp.addons.hospital.dicom.header import FrameId
from covdp.addons.hospital.dicom.plugins import DECODERS_VARIABLE, asked_decoders
from covdp.datasets.cards import FORMATS, MASKS, Frames, goes_down
from covdp.datasets.classed import PatternCard
from covdp.datasets.pictures import Window


def _numbered(segments: Any) -> Any:
    """Return what a card says if it names segments, which are numbered from 1."""
    numbers = segments if isinstance(segments, list | tuple) else []
    if segments == "all":
        return segments
    if not numbers or not all(type(number) is int and number > 0 for number in numbers):
        raise ValueError(f'must be "all" or a list of numbers from 1 on, found {segments}')
    return tuple(numbers)


Segments: TypeAlias = Annotated[Literal["all"] | tuple[int, ...], BeforeValidator(_numbered)]
"""Segments of a segmentation that are inside."""

NIFTI = (".nii", ".nii.gz")

PICTURE_ENDS = tuple(end for kind in MASKS for end in FORMATS[kind])


def is_nifti(mask: str) -> bool:
    """Return True if a file is of masks in space, which several images may share.

    Parameters
    ----------
    mask : str
        Name of the file.
    """
    return mask.lower().endswith(NIFTI)


class DicomCard(PatternCard):
    """A card of kind ``dicom``.

    Attributes
    ----------
    pattern : str
        Paths of the files, as in a folder of pictures. Person and day are PatientID and StudyDate,
        unless it names them.
    frames : {"all", "middle"} or tuple of int
        Images that are read of a file with several.
    volumes : bool
        A series is one volume, its slices ordered by where they are.
    burnt_in : "accept", optional
        Consent to files that say of themselves that names are burnt into their pixels, or that a
        face can be known.
    masks : str, optional
        Path of the mask of an image, as in a folder of pictures, if it ends as names of pictures or
        of NIfTI do; one in NIfTI may be of several images. Else paths of segmentation objects,
        which say of which images they are: a pattern with ``*`` and ``**`` alone. Files there that
        are none are skipped.
    segments : "all" or tuple of int, optional
        Segments that are inside; needed where a segmentation has several.
    mixed : "accept", optional
        Consent to several photometric interpretations; MONOCHROME1 is inverted in any case, and
        YBR_* becomes RGB.
    """

    pattern: str = "{class}/**/*"
    frames: Frames = "all"
    burnt_in: Literal["refuse", "accept"] = "refuse"
    mixed: Literal["refuse", "accept"] = "refuse"

    volumetric: ClassVar[bool] = True
    stored_as: ClassVar[str] = "DICOM files of your own"
    ends: ClassVar[Mapping[Any, tuple[str, ...]]] = {"DICOM": ("",)}
    """Endings of files: any, as DICOM is often named by a number."""

    segments: Segments | None = None

    @property
    def beside(self) -> str | None:
        """The pattern of masks that are found by the names of images: pictures, and NIfTI."""
        return self.masks if (self.masks or "").lower().endswith(PICTURE_ENDS + NIFTI) else None

    @property
    def shared(self) -> bool:
        """True if several images may have their masks in one file."""
        return is_nifti(self.masks or "")

    @property
    def objects(self) -> str | None:
        """The pattern of segmentation objects."""
        return None if self.beside else self.masks

    @property
    def rendering_settings(self) -> dict[str, Any]:
        """The settings of how files become images, and the decoders that are asked for."""
        asked = asked_decoders()
        return super().rendering_settings | ({DECODERS_VARIABLE: asked} if asked else {})

    @property
    def decoding(self) -> str:
        """Digest of the images that the pinned decoders make of their public frames."""
        from covdp.addons.hospital.dicom.pixels import digest_public_frames

        return digest_public_frames()

    @property
    def person_from(self) -> str | None:
        """The pattern, where it names persons; else the header."""
        return super().person_from or "PatientID"

    @check(mode="after")
    def _dicom_keys_fit(self) -> Self:
        masks = self.objects
        if masks is not None and (not goes_down(masks) or "{" in masks):
            raise ValueError(
                "masks of DICOM must be relative, printable, without '..', as in "
                "'masks/**/*.dcm', and name no class: segmentations say of which images they are; "
                f"or end as in 'masks/{{class}}/*.png' or '*.nii.gz'; found {masks!r}"
            )
        if self.segments is not None and masks is None:
            raise ValueError("segments needs masks, where segmentations are")
        return self


FAULTY = -1
"""The frame of a file that cannot be used: asked for it, a file says why."""


class HeaderSummary(NamedTuple):
    """Facts of a file that an open dataset keeps; of volumes also its series and window.

    Of volumes, and where there are masks, also where each frame is. `file` says which it is; it has
    no frames where it is none of the images.

    Attributes
    ----------
    file : int
        Number of the file.
    frames : sequence of int
        Frames that are images; none where the file is none of them.
    sides : tuple of int
        Height and width, in pixels.
    photometric : str
        Photometric interpretation.
    person : str
        PatientID, where the card asks for persons.
    day : datetime.date, optional
        Day of the study, where the card asks for days.
    series : str
        UID of a volume's series.
    window : Window
        Window of a volume's slices.
    frame_ids : tuple of FrameId
        Identity and place of each frame, of volumes and where there are masks.
    """

    file: int
    frames: Sequence[int]
    sides: tuple[int, int] = (0, 0)
    photometric: str = ""
    person: str = ""
    day: Any = None
    series: str = ""
    window: Window = None
    frame_ids: tuple[FrameId, ...] = ()

    @property
    def usable(self) -> bool:
        """True if the file has images that can be used."""
        return len(self.frames) > 0 and self.frames[0] != FAULTY
