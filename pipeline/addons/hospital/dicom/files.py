"""DICOM files as images, or as volumes of their slices: headers when opened, frames when read.

What a header decides is checked when a dataset is opened, and again with each file that is read;
only 0..255 leaves. A volume is the files of one series in one folder, or the frames of one file:
(slices, rows, columns), slices along their normal.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from covdp.addons.hospital.dicom.card import FAULTY, DicomCard, HeaderSummary, is_nifti
from covdp.addons.hospital.dicom.header import (
    APART,
    BRING,
    SEGMENTATION,
    Header,
    check_image,
    check_slice,
    is_marked,
    kept_header,
    read_frame_id,
    read_header,
    readable,
    scaling,
    slice_order,
    text,
)
from covdp.addons.hospital.dicom.masks import find_masks, keep_masked, mask_reader
from covdp.addons.hospital.dicom.pixels import check_frames, decoder_of, read_frames
from covdp.addons.hospital.dicom.plugins import asked_decoders
from covdp.addons.hospital.frames import chosen_frames, each_spending
from covdp.arrays import ImageArray
from covdp.datasets.cards import ASK_ANY_WINDOW, ASK_WINDOW
from covdp.datasets.classed import ClassedFiles, in_folder, make_source, may_be_image, require_alike
from covdp.datasets.kind import DatasetKind
from covdp.datasets.listing import Faults, no_usable_file
from covdp.datasets.pictures import PADDED, Scaling, is_padding, made_to_fit, to_uint8
from covdp.datasets.source import (
    FilesReader,
    ImageSource,
    Rows,
    StacksReader,
    changed,
    check_person,
)
from covdp.errors import ImageError, image_error

INDEX = "DICOMDIR"
"""A list of the files beside it, of no use here."""

PHOTOMETRIC = "PhotometricInterpretation (0028,0004)"


def open_dicom(
    card: DicomCard, files: ClassedFiles, path: Path, faults: Faults, *, others: bool = True
) -> ImageSource:
    """Open DICOM files: read the header of each.

    Where there may be `others` among them, files that are not DICOM are skipped, if their names
    do not end as those of images do, and so is DICOMDIR. Images are ordered by class, path and
    frame. A file that is not what the card says, cannot be read, or leaves open what its pixels
    mean, is refused when it is its turn to be read.

    Parameters
    ----------
    card : DicomCard
        Card of the dataset.
    files : ClassedFiles
        Files by class.
    path : Path
        Folder of the images.
    faults : Faults
        Faults found so far, to which others are added.
    others : bool
        True if files of other kinds may be among them.

    Returns
    -------
    ImageSource
        Opened dataset.

    Raises
    ------
    DatasetError
        When a class has no image, or no file can be used, as the first says.
    """
    named = files.people is None and card.unit == "person"
    placed = card.volumes or card.objects is not None or any(map(is_nifti, files.masks or ()))
    rules = Rules(card, named, placed, others, tuple(asked_decoders()))
    summaries = _scan_headers(rules, files, faults)
    masks = None
    if card.objects or files.masks is not None:
        masks = find_masks(card, files, path, summaries, faults)
    images = [len(summary.frames) > 0 for summary in summaries]
    if masks and card.frames == "masked":
        summaries = keep_masked(masks, summaries)
    there = [len(summary.frames) > 0 for summary in summaries]
    unmasked = masks is not None and card.frames == "masked"
    card.require_classes(
        files.label_of[there],
        lambda name: (
            f"{path}: class '{name}' has no DICOM image "
            + (
                f"that a mask at '{card.masks}' is of, or none with a pixel inside; bring the "
                "masks of these images, or correct masks in the card"
                if unmasked and card.classes.index(name) in files.label_of[images]
                else f"at '{card.pattern}'; correct classes, pattern or path in the card"
            )
        ),
    )
    if files.people is None:
        files = replace(files, people=np.array([x.person for x in summaries], np.str_))
    if files.dates is None:
        files = replace(files, dates=np.array([x.day for x in summaries], "datetime64[D]"))
    shape, read, file = (_volumes if card.volumes else _images)(rules, files, summaries, faults)
    regions = masks and mask_reader(card, files, shape, read, masks)
    return make_source(card, files, path, shape, read, file, regions)


class Rules(NamedTuple):
    """Rules by which each file is read.

    Attributes
    ----------
    card : DicomCard
    named : bool
        True if a header must name a person.
    placed : bool
        True if positions and identities of frames are needed.
    others : bool
        True if there may be files among them that are not DICOM.
    decoders : tuple of str
        Decoders that are asked for, also of workers elsewhere.
    """

    card: DicomCard
    named: bool
    placed: bool
    others: bool
    decoders: tuple[str, ...] = ()


class ReferenceHeader(NamedTuple):
    """The first file that can be used, or the first series, which all others must be like.

    Attributes
    ----------
    name : str
        Path of the file.
    sides : tuple of int
        Height and width, in pixels.
    photometric : str
        Photometric interpretation.
    slices : int
        Number of slices.
    """

    name: str
    sides: tuple[int, int]
    photometric: str
    slices: int = 1


def _scan_headers(rules: Rules, files: ClassedFiles, faults: Faults) -> list[HeaderSummary]:
    """Return what the header of each file says; raise when no image can be used."""
    summaries: list[HeaderSummary] = []
    errors: dict[str, ImageError] = {}
    for index, name in enumerate(files.names):
        try:
            summaries.append(_scan_header(rules, index, Path(name)))
        except ImageError as error:
            nobody = f"\\{index}"  # no PatientID begins so: not taken for another's
            summaries.append(HeaderSummary(index, (FAULTY,), person=nobody))
            errors[name] = error
    if errors and not any(summary.usable for summary in summaries):
        raise no_usable_file(errors, faults)
    return summaries


def _scan_header(rules: Rules, index: int, file: Path) -> HeaderSummary:
    """Return what the header of one file says; without frames where it is none of the images."""
    with readable(file) as stream:
        image = file.name != INDEX and (may_be_image(file.name) or is_marked(stream))
        if rules.others and not image:
            return HeaderSummary(index, ())
        header = read_header(stream, file)
        if rules.card.objects and text(header.elements, "SOPClassUID") == SEGMENTATION:
            return HeaderSummary(index, ())
        return _summary(rules, header, index)


def _summary(rules: Rules, header: Header, index: int) -> HeaderSummary:
    """Return what a header says that the card can use, and which frames of its file are read."""
    card = rules.card
    check_image(header.file, header.elements)
    for keyword in ("BurnedInAnnotation", "RecognizableVisualFeatures"):
        if text(header.elements, keyword).upper() == "YES" and card.burnt_in != "accept":
            raise header.fault(keyword, "is YES", 'give burnt_in = "accept" in the card')
    check_frames(header, card.channels)
    if rules.named and not header.person:
        raise header.fault(
            "PatientID",
            'is empty, which unit = "person" needs',
            "name {person} in pattern" if rules.others else "name the person in columns",
        )
    if rules.named:
        check_person(header.person, f"{header.file}: PatientID (0010,0020)")
    frames = chosen_frames(card.frames, header.frames, str(header.file))
    slices = frames if card.volumes else frames[:1]
    windows = {scaling(header, frame, card.window).window for frame in slices}
    if len(windows) > 1:
        raise header.fault("WindowCenter", "must be one for all slices of a volume", ASK_WINDOW)
    if card.window is None:  # what needs one is refused
        kind = f"{'i' if header.signed else 'u'}{header.allocated // 8}"
        _shown(card, header, frames[0], np.empty(0, kind))
    frame_ids = tuple(read_frame_id(header, frame) for frame in frames if rules.placed)
    for frame_id in frame_ids if card.volumes else ():
        check_slice(header, frame_id)
    return HeaderSummary(
        index,
        frames,
        (header.rows, header.columns),
        header.photometric,
        header.person if rules.named else "",
        header.day,
        text(header.elements, "SeriesInstanceUID"),
        windows.pop(),
        frame_ids,
    )


def _images(
    rules: Rules, files: ClassedFiles, summaries: Sequence[HeaderSummary], faults: Faults
) -> tuple[tuple[int, ...], FilesReader, NDArray[np.int64]]:
    """Return every frame that is read as an image: the shape of one, their reader, their files."""
    good = next((summary for summary in summaries if summary.usable), None)
    if good is None:
        raise ImageError(
            f"{rules.card.name}: no image that can be read has a pixel inside its mask; draw one, "
            "or correct masks in the card"
        )
    first = ReferenceHeader(files.names[good.file], good.sides, good.photometric)
    card, size = rules.card, rules.card.size
    sides = (size, size) if size else first.sides
    file = np.repeat([summary.file for summary in summaries], [len(s.frames) for s in summaries])
    frame = np.array([frame for summary in summaries for frame in summary.frames], np.int64)
    read = FilesReader(partial(_decode, rules, first, {}), files.names, file, frame)
    return sides + ((3,) if card.channels == 3 else ()), read, file


def _volumes(
    rules: Rules, files: ClassedFiles, summaries: Sequence[HeaderSummary], faults: Faults
) -> tuple[tuple[int, ...], StacksReader, NDArray[np.int64]]:
    """Return every series as a volume: the shape of one, their reader, a file of each.

    One whose slices do not fit, are more or fewer than the card or else the first has, or of
    another size than the first, is refused when it is its turn.
    """
    card, series = rules.card, dict[tuple[str, str], list[HeaderSummary]]()
    for summary in summaries:
        name = files.names[summary.file]
        alone = not summary.usable or len(summary.frames) > 1
        key = (name, "") if alone else (str(Path(name).parent), summary.series)
        if summary.frames:
            series.setdefault(key, []).append(summary)
    volumes: list[list[tuple[int, int]]] = []
    errors: dict[str, ImageError] = {}
    first: ReferenceHeader | None = None
    unusable = [files.names[x.file] for x in summaries if x.frames and not x.usable]
    faulty = {str(Path(name).parent): name for name in unusable}
    for members in series.values():
        name = files.names[members[0].file]
        try:
            slices = _slices(files, members)
            if members[0].usable:
                sides, photometric = members[0].sides, members[0].photometric
                first = first or ReferenceHeader(name, sides, photometric, len(slices))
                _check_number(card, first, Path(name), len(slices))
        except ImageError as error:
            errors[name], slices = error, [(summary.file, FAULTY) for summary in members]
            if bad := faulty.get(str(Path(name).parent)):
                errors[name] = image_error(
                    f"{name}: {Path(bad).name} beside it, perhaps a slice of its series, cannot be "
                    "used; mend that"
                )
        volumes.append(slices)
    if first is None:
        raise no_usable_file(errors, faults)
    file, frame = np.array([slice_ for slices in volumes for slice_ in slices], np.int64).T
    starts = np.cumsum([0, *map(len, volumes)])
    read = FilesReader(partial(_decode, rules, first, errors), files.names, file, frame)
    shown: Callable[[NDArray[Any]], ImageArray] = np.asarray
    if card.window == "image":
        scale = Scaling("image", inverted=first.photometric == "MONOCHROME1", padding=PADDED)
        shown = partial(to_uint8, scale=scale, where="a series")
    most = card.slices[1] if card.slices else first.slices
    return (most, *first.sides), StacksReader(read, starts, shown), file[starts[:-1]]


def _check_number(card: DicomCard, first: ReferenceHeader, file: Path, count: int) -> None:
    """Raise unless a series has as many slices as the card says, or else the first series."""
    card.check_depth(count, str(file))
    if not card.slices:
        way = f"{BRING}, or give slices = [fewest, most] in the card"
        require_alike(file, "number of slices", count, first.slices, first.name, way)


def _slices(files: ClassedFiles, members: Sequence[HeaderSummary]) -> list[tuple[int, int]]:
    """Return the slices of one series in their order: files and frames of them.

    Raises
    ------
    ImageError
        When they are no volume, or not of one class, person, meaning or window.
    """
    where = files.names[members[0].file]
    frames = [(summary.file, frame) for summary in members for frame in summary.frames]
    if not members[0].usable:  # the file itself says why
        return frames
    assert files.people is not None
    for what, values in (
        ("class and split", [(files.label_of[m.file], files.split_of[m.file]) for m in members]),
        ("person", [files.people[summary.file] for summary in members]),
        ("size", [summary.sides for summary in members]),
        (PHOTOMETRIC, [summary.photometric for summary in members]),
        ("window", [summary.window for summary in members]),
    ):
        if any(value != values[0] for value in values):
            raise image_error(f"{where}: a series must have one {what}, found several; {APART}")
    order = slice_order([frame for summary in members for frame in summary.frame_ids], where)
    return [frames[place] for place in order.tolist()]


def _decode(
    rules: Rules, first: ReferenceHeader, errors: dict[str, ImageError], file: Path, frames: Rows
) -> ImageArray:
    """Return some frames of a file as 0..255, (m, *shape); raise what was wrong with its series.

    Slices of a volume that has a window of its own are returned in the units of the file.
    """
    if error := errors.get(str(file)):
        raise type(error)(*error.args)  # anew, as threads may raise it at once
    card = rules.card
    with readable(file) as stream:
        header = kept_header(stream, file)
        readable_frames = _summary(rules._replace(placed=card.volumes), header, 0).frames
        _check_alike(card, first, header)
        if not set(frames.tolist()) <= set(readable_frames):
            raise changed(file)
        plugin, words = decoder_of(header, rules.decoders)
        stored = each_spending(read_frames(stream, header, frames.tolist(), plugin), words)
        pairs = zip(frames.tolist(), stored, strict=True)
        return np.stack([_shown(card, header, frame, values) for frame, values in pairs])


def _check_alike(card: DicomCard, first: ReferenceHeader, header: Header) -> None:
    """Raise unless a file has the size and the meaning of the first, where the card asks it."""
    if not card.size:
        way = "save volumes of one size" * card.volumes
        sides = header.rows, header.columns
        require_alike(header.file, "size", sides, first.sides, first.name, way)
    if card.mixed != "accept":
        what, way = PHOTOMETRIC, 'give mixed = "accept" in the card'
        require_alike(header.file, what, header.photometric, first.photometric, first.name, way)


def _shown(card: DicomCard, header: Header, frame: int, stored: NDArray[Any]) -> ImageArray:
    """Return one frame as 0..255, made to fit where the card has a size."""
    scale = scaling(header, frame, card.window)
    if card.volumes and scale.window == "image":  # that of the volume, not of the slice
        values: ImageArray = (stored * np.float64(scale.slope) + scale.intercept).view(np.ndarray)
        if scale.padding:
            values[is_padding(stored, scale.padding)] = PADDED[0]
        return values
    where = f"{header.file}: BitsStored (0028,0101)"
    return made_to_fit(
        to_uint8(stored, scale, bits=header.stored, where=where, ask=ASK_ANY_WINDOW), card
    )


DICOM = DatasetKind(DicomCard, in_folder(open_dicom))
"""Kind of dataset of DICOM files in folders."""
