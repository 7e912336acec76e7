"""Summaries of image files: what their headers and some of their pixels say, and which are odd.

All of it is as private as the files: it is for their owner, and no release states it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.datasets.cards import FORMATS
from covdp.datasets.encoded import stored_bits
from covdp.datasets.pictures import DEEP, opened
from covdp.errors import ImageError, MissingError
from covdp.registry import Registry

HEADERS, PIXELS_READ = 20_000, 1_000
"""Headers that a draft reads, and files whose pixels are read, evenly over all files."""

ODD_SHARE = 0.1
"""Share of the files that a value of a feature has at most, for them to be odd."""

RANGE_FACTOR = 8.0
"""Factor between the range of an odd file's values and the median range, at least."""


@dataclass(frozen=True)
class FileSummary:
    """Facts about one file.

    Attributes
    ----------
    sides : tuple of int
        Height and width of an image, or the two sides of a slice, in pixels.
    colour : bool or None
        True if there are three channels that differ; None if only pixels could say it.
    deep : bool
        True if values need a window.
    depth : str
        Bits of a stored value in use, and whether it is signed or floating: "12 bits, signed".
    values : (low, high) or None
        Range of the values, in the units of the file; None where pixels are not read. Of several
        frames or slices it is that of the middle one.
    modality : str
        Modality of a DICOM file and the class of its object; "" of others.
    person : str
        Person whom the file names; as private as the file.
    series : str
        Name shared by files that may be one volume: folder and SeriesInstanceUID of a DICOM file;
        a NIfTI file itself.
    slices : int
        Frames of a DICOM file, or slices of a NIfTI file.
    """

    sides: tuple[int, ...]
    colour: bool | None
    deep: bool
    depth: str
    values: tuple[float, float] | None = None
    modality: str = ""
    person: str = ""
    series: str = ""
    slices: int = 1


FileSummaries: TypeAlias = dict[str, FileSummary]
"""Summary of each file, by its path."""


class FileCount(NamedTuple):
    """Number of files that have one value of a feature.

    Attributes
    ----------
    feature, value : str
        A key of `FEATURES`, and what these files have: "depth", "8 bits".
    files : int
        Number of files.
    """

    feature: str
    value: str
    files: int


def in_words(counts: Iterable[FileCount]) -> Iterator[tuple[str, str, str]]:
    """Yield feature, value and number of files; of how many a feature is known, if not of all.

    Parameters
    ----------
    counts : iterable of FileCount
        Numbers of files.
    """
    rows, read = list(counts), Counter[str]()
    for row in rows:
        read[row.feature] += row.files
    for row in rows:
        known = read[row.feature]
        part = f", known of {known:,} files" * (known < max(read.values()))
        yield row.feature + part, row.value, f"{row.files:,}"


class OddFile(NamedTuple):
    """A file that differs from nearly all others.

    Attributes
    ----------
    file : str
        Its path.
    reason : str
        Feature in which it differs.
    curable : bool
        True if a card for the others reads it too; otherwise it is to be left out.
    """

    file: str
    reason: str
    curable: bool


def summarise_files(
    kind: str, find: Callable[[str], Path], names: Sequence[str], *, most: int | None = None
) -> tuple[FileSummaries, dict[str, ImageError]]:
    """Return the summaries of files, and what is wrong with those that have none.

    Parameters
    ----------
    kind : str
        A key of `FILE_KINDS`.
    find : callable
        Function of a path that returns the file, links followed.
    names : sequence of str
        Their paths.
    most : int, optional
        Largest number of files to read, evenly chosen; all when left out.
    """
    chosen = names[:: max(1, len(names) // (most or len(names) or 1))]
    every = max(1, len(chosen) // PIXELS_READ)
    summaries, faults = FileSummaries(), dict[str, ImageError]()
    for place, name in enumerate(chosen):
        try:
            summaries[name] = FILE_KINDS[kind].summarise(find(name), place % every == 0)
        except ImageError as error:
            faults[name] = error
    return summaries, faults


def _picture(file: Path, pixels: bool) -> FileSummary:
    with opened(file, tuple(FORMATS)) as image:
        bits, signed = stored_bits(image)
        depth = "32 bits, floating" if image.mode == "F" else depth_in_words(bits, signed)
        gray = image.mode in DEEP | {"1", "L", "LA"}
        colour, values = (False if gray else None), None
        if pixels:
            array = np.asarray(
                image if image.mode in DEEP else image.convert("L" if gray else "RGB")
            )
            values = range_of(array)
            colour = not gray and bool((array != array[..., :1]).any())
        return FileSummary((image.height, image.width), colour, image.mode in DEEP, depth, values)


def depth_in_words(bits: int, signed: bool) -> str:
    """Return the depth of stored values: "12 bits, signed".

    Parameters
    ----------
    bits : int
        Number of bits of a value.
    signed : bool
        True if values have a sign.
    """
    return f"{bits} bit{'s' * (bits != 1)}{', signed' * signed}"


def range_of(values: NDArray[np.generic]) -> tuple[float, float] | None:
    """Return the least and the largest value; None where one is not finite.

    Parameters
    ----------
    values : array, shape (...)
        Stored values.
    """
    low, high = float(values.min()), float(values.max())
    return (low, high) if np.isfinite([low, high]).all() else None


@dataclass(frozen=True)
class FileKind:
    """One kind of image file, as far as drafts and looks at files go.

    Attributes
    ----------
    ends : tuple of str
        Ends of the names of such files, in small letters.
    words : str
        Noun for some of them: "picture(s)".
    summarise : callable
        ``summarise(file, pixels)`` → `FileSummary`; the flag asks for the pixels.
    format : str
        Their name in ``formats`` of a table's card; "" where these are read from the names.
    mark : (int, bytes)
        Place and bytes by which a file without a suffix is known; no bytes where there are none.
    is_mask : callable, optional
        ``is_mask(file)``: True if a file says itself that it is a mask.
    says_person : bool
        True if files say themselves whose they are.
    alone : bool
        True if a file is taken for a person where no path names one.
    axis : int, optional
        Key of a card whose files hold several images.
    """

    ends: tuple[str, ...]
    words: str
    summarise: Callable[[Path, bool], FileSummary]
    format: str = ""
    mark: tuple[int, bytes] = (0, b"")
    is_mask: Callable[[Path], bool] | None = None
    says_person: bool = False
    alone: bool = False
    axis: int | None = None


FILE_KINDS = Registry[FileKind](
    "file_kinds",
    {"folder": FileKind(tuple(chain.from_iterable(FORMATS.values())), "picture(s)", _picture)},
    word="kind of file",
    fault=MissingError,
)
"""Kind of card → the files that it reads."""


def by(sides: Sequence[int]) -> str:
    """Return sides as they are written: "28 x 28".

    Parameters
    ----------
    sides : sequence of int
        Sides in pixels.
    """
    return " x ".join(map(str, sides))


def _values(summary: FileSummary) -> str:
    """Return the least usual range that holds all values of a file."""
    if summary.values is None:
        return ""
    low, high = summary.values
    bits = next((x for x in (8, 12, 16, 32) if max(high, -low - 1) < 2**x), 64)
    return f"values from {-(2**bits):,} to {2**bits - 1:,}" if low < 0 else f"up to {2**bits - 1:,}"


FEATURES: Mapping[str, tuple[Callable[[FileSummary], str], bool]] = {
    "depth": (lambda summary: summary.depth, False),
    "size": (lambda summary: f"{by(summary.sides)} pixels", False),
    "colour": (lambda summary: {True: "colour", False: "gray", None: ""}[summary.colour], False),
    "modality": (lambda summary: summary.modality, True),
    "values": (_values, True),
}
"""Features by which files are counted: value of a file ("" if it has none), and whether a card for
the others reads an odd file too."""


def count_files(summaries: FileSummaries) -> tuple[FileCount, ...]:
    """Return the number of files with each value of each feature, the largest first.

    Parameters
    ----------
    summaries : FileSummaries
        Summary of each file, by feature.
    """
    return tuple(
        FileCount(feature, value, files)
        for feature, (value_of, _) in FEATURES.items()
        for value, files in Counter(map(value_of, summaries.values())).most_common()
        if value
    )


def odd_files(summaries: FileSummaries) -> list[OddFile]:
    """Return the files that differ from nearly all others, in the order of their paths.

    A file differs in a feature if at most `ODD_SHARE` of the files have its value and another value
    has more than half. In the range of its values it differs from files of its own depth, if it is
    `RANGE_FACTOR` times as wide or as narrow as their median.

    Parameters
    ----------
    summaries : FileSummaries
        Summary of each file, by feature.
    """
    reasons: dict[str, list[tuple[str, bool]]] = {name: [] for name in summaries}
    for value_of, curable in (FEATURES[name] for name in ("depth", "size", "colour", "modality")):
        values = {name: value for name, x in summaries.items() if (value := value_of(x))}
        counts = Counter(values.values())
        usual, most = (counts.most_common(1) or [("", 0)])[0]
        for name, value in values.items() if 2 * most > len(values) else ():
            if value != usual and counts[value] <= ODD_SHARE * len(values):
                share = f"{most:,} of {len(values):,} files"
                reasons[name].append((f"{value}, where {share} have {usual}", curable))
    for depth in {summary.depth for summary in summaries.values()}:
        ranges = {
            name: summary.values
            for name, summary in summaries.items()
            if summary.depth == depth and summary.values
        }
        widths = {name: high - low for name, (low, high) in ranges.items()}
        usual_width = float(np.median([*widths.values()])) if widths else 0.0
        off = {
            name
            for name, width in widths.items()
            if not usual_width <= RANGE_FACTOR * width <= RANGE_FACTOR**2 * usual_width
        }
        for name in off if len(off) <= ODD_SHARE * len(widths) else ():
            low, high = ranges[name]
            middle = f"the median range of files of {depth} is {usual_width:,.6g}"
            reasons[name].append((f"values {low:,.6g} to {high:,.6g}, where {middle}", True))
    return [
        OddFile(name, "; ".join(text for text, _ in found), all(curable for _, curable in found))
        for name, found in sorted(reasons.items())
        if found
    ]
