"""Pictures in files of their own, decoded in eight bits, square where asked; folders of them.

**Intensities.** What a file stores becomes 0..255, by a constant or by one image alone. A window
computed over a data set would let one record move all others, and no sensitivity would hold; so
each rule here looks at one image and at what its card and its file say.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic import model_validator as check

from covdp.arrays import ImageArray, counting
from covdp.datasets.cards import ASK_WINDOW, FORMATS, MASKS, Format, LocalFilesCard
from covdp.datasets.classed import ClassedFiles, PatternCard, in_folder, make_source, require_alike
from covdp.datasets.encoded import check_single, check_whole, format_of, stored_bits
from covdp.datasets.kind import DatasetKind
from covdp.datasets.listing import Faults, no_usable_file, open_regular, wrap_errors
from covdp.datasets.source import FilesReader, ImageSource, Rows
from covdp.errors import ImageError, image_error
from covdp.progress import spending

if TYPE_CHECKING:
    from PIL import Image

Values: TypeAlias = NDArray[np.float64]

PERCENTILES = (1.0, 99.0)
"""Percentiles that become 0 and 255 under ``window = "image"``; between two order statistics
linearly, as `numpy.percentile` does when nothing else is asked (Hyndman and Fan's type 7)."""

PUBLIC_PICTURES = Path(__file__).with_name("public")
"""Public pictures, by which the images that libraries make of files are told from others."""

WINDOWED_VALUES = 1 << 22
"""Values that are in float64 at a time where a window is given; it changes no bit."""


class Sigmoid(NamedTuple):
    """The window that DICOM calls SIGMOID (PS3.3, C.11.2.1.3.1): 1/(1 + exp(−4(x − c)/w)).

    Attributes
    ----------
    center : float
        Value c in the middle of the window.
    width : float
        Width w of the window.
    """

    center: float
    width: float


Window: TypeAlias = tuple[float, float] | Sigmoid | Literal["image"] | None


class Scaling(NamedTuple):
    """Map from stored values to 0..255.

    Attributes
    ----------
    window : (low, high), Sigmoid, "image" or None
        Values that become 0 and 255; "image" is that image's own `PERCENTILES`. The meaning of
        "header" depends on the kind of file.
    slope, intercept : float
        Map from stored values to the units of the window.
    inverted : bool
        True if low is white (MONOCHROME1).
    padding : (low, high), optional
        Stored values that are no part of the image: black, and of no percentile.
    """

    window: Window
    slope: float = 1.0
    intercept: float = 0.0
    inverted: bool = False
    padding: tuple[float, float] | None = None


PADDED = (-math.inf, -math.inf)
"""Padding of values that are in units of the window already: these stand in its place."""


def is_padding(stored: NDArray[Any], padding: tuple[float, float]) -> NDArray[np.bool_]:
    """Return True where stored values are no part of the image.

    Parameters
    ----------
    stored : array, shape (h, w)
        Values as the file has them.
    padding : tuple of float
        Least and largest value of pixels that are no part of the image.
    """
    inside: NDArray[np.bool_] = (stored >= padding[0]) & (stored <= padding[1])
    return inside


def to_uint8(
    stored: NDArray[Any],
    scale: Scaling,
    *,
    bits: int | None = None,
    where: str,
    ask: str = ASK_WINDOW,
) -> ImageArray:
    """Return one image, or one volume, as 0..255.

    In float64: x = slope·stored + intercept; p = (x − low)/(high − low), cut to [0, 1]; y = 255·p,
    or 255 − 255·p when `inverted`; y rounded, halves to even. Where low = high, what is above is
    1 and the rest 0, so that a constant image is black under "image".

    Unsigned values of 8 bits that are neither rescaled nor windowed stay as they are.

    Parameters
    ----------
    stored : array of int or float, shape (...)
        One image, whatever its shape: percentiles are taken over all of it.
    scale : Scaling
        Values that become 0 and 255.
    bits : int, optional
        Bits in use of each stored value; all of its type when left out.
    where : str
        The file, and what of it says how many bits there are; for errors.
    ask : str
        Way out where it needs a window and has none.

    Raises
    ------
    ImageError
        When a value is not finite, or values need a window and there is none.
    """
    if scale.window is None:
        bits = 8 * stored.dtype.itemsize if bits is None else bits
        rescaled = (scale.slope, scale.intercept) != (1.0, 0.0)
        if stored.dtype.kind != "u" or bits != 8 or rescaled:
            kind = {"u": "unsigned ", "i": "signed ", "f": "floating "}.get(stored.dtype.kind, "")
            scaled = " that the file rescales" if rescaled else ""
            raise image_error(
                f"{where}: {kind}values of {bits} bits{scaled} need a window, found none; {ask}"
            )
        plain = stored.astype(np.uint8, copy=False)
        plain = ~plain if scale.inverted else plain
        return plain if scale.padding is None else _blackened(plain, stored, scale.padding)
    _check_window(scale.window, where)
    if stored.dtype.kind in "iu" and stored.dtype.itemsize <= 2:
        native = stored.astype(stored.dtype.newbyteorder("="), copy=False)
        ends = np.iinfo(native.dtype)
        _check_finite(_rescaled(np.array([ends.min, ends.max]), scale), where)
        if scale.window != "image":
            shown: ImageArray = _table(native.dtype.str, scale).take(
                native.view(f"u{native.itemsize}")
            )
            return shown
    if scale.window == "image":
        part = stored if scale.padding is None else stored[~is_padding(stored, scale.padding)]
        values = _rescaled(part, scale)
        _check_finite(values, where)
        low, high = np.percentile(values, PERCENTILES).tolist() if values.size else (0.0, 0.0)
        scale = scale._replace(window=(low, high))
    shown = np.empty(stored.shape, np.uint8)
    rows = max(1, WINDOWED_VALUES // max(1, math.prod(stored.shape[1:])))
    for start in range(0, len(stored), rows):
        part = stored[start : start + rows]
        values = _rescaled(part, scale)
        if scale.padding is not None:
            values[is_padding(part, scale.padding)] = 0.0
        _check_finite(values, where)
        shown[start : start + rows] = _shown(values, scale)
    return shown if scale.padding is None else _blackened(shown, stored, scale.padding)


def _blackened(shown: ImageArray, stored: NDArray[Any], padding: tuple[float, float]) -> ImageArray:
    """Return an image with black in place of its padding."""
    return np.where(is_padding(stored, padding), np.uint8(0), shown)


def _rescaled(stored: NDArray[Any], scale: Scaling) -> Values:
    with np.errstate(over="ignore", invalid="ignore"):
        values: Values = stored.astype(np.float64) * scale.slope + scale.intercept
    return values


def _shown(values: Values, scale: Scaling) -> ImageArray:
    """Return finite values as 0..255."""
    window = scale.window
    assert isinstance(window, tuple)  # "image" is replaced by its ends
    low, high = window
    with np.errstate(over="ignore"):
        if isinstance(window, Sigmoid):
            shares = 1 / (1 + np.exp(-4 * (values - window.center) / window.width))
        elif low == high:
            shares = (values > low).astype(np.float64)
        else:
            shares = (values - low) / (high - low)
        levels = 255 * np.clip(shares, 0, 1)
    return np.rint(255 - levels if scale.inverted else levels).astype(np.uint8)


@lru_cache(maxsize=64)
def _table(kind: str, scale: Scaling) -> ImageArray:
    """Return what each value of an integer type becomes, by its bits read as unsigned.

    Files of one series share it; looking values up is several times faster than computing them.
    """
    ends = np.iinfo(kind)
    values = np.arange(ends.min, ends.max + 1, dtype=kind)
    table = np.empty(len(values), np.uint8)
    shown = _shown(_rescaled(values, scale), scale)
    if scale.padding is not None:
        shown = _blackened(shown, values, scale.padding)
    table[values.view(f"u{values.itemsize}")] = shown
    return table


def _check_finite(values: Values, where: str) -> None:
    if not np.isfinite(values).all():
        raise image_error(f"{where}: values must be finite, found NaN or infinity; repair the file")


def _check_window(window: Window, where: str) -> None:
    """Raise when a window is none: its ends out of order, or not finite."""
    if isinstance(window, Sigmoid):
        fine = math.isfinite(window.center) and 0 < window.width < math.inf
    else:
        fine = not isinstance(window, tuple) or (
            window[0] <= window[1] and math.isfinite(window[1] - window[0])
        )
    if not fine:
        raise image_error(
            f"{where}: a window must have finite ends, low to high, found {window}; {ASK_WINDOW}"
        )


EIGHT_BIT = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}
"""Pillow's modes with intensities 0..255."""

DEEP = {"I;16", "I;16L", "I;16B", "I", "F"}
"""Pillow's modes of gray with more than 8 bits: they need a window."""

_PHOTOMETRIC, _ORIENTATION = 262, 274
"""Tags of TIFF, and of Exif in any format."""


class PictureCard(LocalFilesCard):
    """Card of pictures in files that Pillow reads.

    Attributes
    ----------
    formats : tuple of str
        The formats that are read, out of `FORMATS`.
    """

    formats: tuple[Format, ...] = Field(("PNG", "JPEG"), min_length=1)

    @property
    def decoding(self) -> str:
        """Digest of the images that are made of `PUBLIC_PICTURES`, in every format."""
        return _digest_pictures()

    @check(mode="after")
    def _pictures_have_no_window(self) -> Self:
        if self.window == "header" and not {"DICOM", "NIfTI"} & set(self.formats):
            raise ValueError('pictures have no window of their own; give [low, high] or "image"')
        return self


def read_extent(file: Path, card: PictureCard) -> tuple[int, int]:
    """Return height and width of an image from its header alone.

    Parameters
    ----------
    file : Path
        Path of the file.
    card : PictureCard
        Card of the dataset.
    """
    with opened(file, card.formats) as image:
        return image.height, image.width


def read_mask(file: Path, wanted: tuple[int, int]) -> ImageArray:
    """Return a mask as it was drawn, (h, w) of 0 and 1: 1 where a pixel is not black.

    It must have its image's height and width.

    Parameters
    ----------
    file : Path
        Path of the file.
    wanted : tuple of int
        Height and width of the image, in pixels.
    """
    with opened(file, MASKS) as image:
        if (sides := (image.height, image.width)) != wanted:
            raise image_error(
                f"{file}: a mask must have its image's size, {wanted}, found {sides}; draw it anew"
            )
        pixels = np.asarray(image if image.mode in DEEP | {"1", "L"} else image.convert("RGB"))
    inside = pixels.any(axis=-1) if pixels.ndim == 3 else pixels != 0
    return np.asarray(inside, np.uint8)


def made_to_fit(pixels: ImageArray, card: LocalFilesCard, *, smooth: bool = True) -> ImageArray:
    """Return pixels made to fit, where the card has a size; of a mask, not `smooth`, as its image.

    An image is cropped, padded with black, or stretched. Each pixel of a mask is its nearest; what
    an image is padded with is outside.

    Parameters
    ----------
    pixels : uint8 array, shape (h, w) or (h, w, 3)
        Pixels as the file has them.
    card : LocalFilesCard
        Card of the dataset.
    smooth : bool
        True for an image, False for a mask.
    """
    from PIL import Image

    if not card.size or not pixels.size or pixels.shape[:2] == (card.size, card.size):
        return pixels
    image, size = Image.fromarray(np.ascontiguousarray(pixels)), card.size
    method = Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST
    if card.fit == "crop":
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        image = image.crop((left, top, left + side, top + side))
    if card.fit != "pad":
        return np.asarray(image.resize((size, size), method))
    longest = max(image.size)
    width, height = (max(1, round(side * size / longest)) for side in image.size)
    black = Image.new(image.mode, (size, size))
    black.paste(image.resize((width, height), method), ((size - width) // 2, (size - height) // 2))
    return np.asarray(black)


def masks_made_to_fit(
    masks: Iterable[ImageArray], card: LocalFilesCard, file: Path, way: str
) -> ImageArray:
    """Return masks of a file made to fit as their images are, (m, *sides).

    None may be empty; `way` is one way out, beside leaving the image out.

    Parameters
    ----------
    masks : iterable of uint8 array, shape (h, w)
        Masks as they were drawn.
    card : LocalFilesCard
        Card of the dataset.
    file : Path
        Path of the file.
    way : str
        Way out, the last part of the message.
    """
    drawn = list(masks)
    fitted = [made_to_fit(mask, card, smooth=False) for mask in drawn]
    if not all(mask.any() for mask in fitted):
        if all(mask.any() for mask in drawn):
            way = 'give fit = "pad" in the card, or a larger size'
        raise image_error(
            f"{file}: a mask must have a {'voxel' if card.volumes else 'pixel'} inside in every "
            f"image that is read, one that is not 0, found none of {fitted[0].size}; {way}"
        )
    return np.stack(fitted)


def _check_one(image: "Image.Image", file: Path) -> None:
    """Raise unless a file is one image in a mode whose values are known, before any is decoded."""
    check_single(image, file)
    if image.mode not in EIGHT_BIT and image.mode not in DEEP:
        raise image_error(
            f"{file}: images must be gray or colour, found mode {image.mode}; save it as PNG"
        )
    if image.format != "PNG" or "exif" in image.info:  # PNG may say it last
        _check_upright(image, file)
    if image.mode in DEEP:
        return
    bits, signed = stored_bits(image)
    if bits > 8:  # Pillow would cut them to 8
        raise image_error(
            f"{file}: images in colour must have 8 bits a channel, found {bits}; rescale to "
            "0..255, or make it gray"
        )
    if signed:
        raise image_error(f"{file}: values of 8 bits must not have a sign; save it as TIFF with 16")


def _check_upright(image: "Image.Image", file: Path) -> None:
    """Raise where a file says that it is to be turned: some of its readers would, and some not.

    None turns it by Exif that cannot be read.
    """
    from PIL import Image

    turned = None
    with suppress(Exception):
        turned = Image.Image.getexif(image).get(_ORIENTATION)  # PNG's own would decode it
    if turned not in (None, 0, 1):
        raise image_error(
            f"{file}: images must be upright, found one that is to be turned (Orientation "
            f"{turned}); turn its pixels, and its mask if that was drawn on them"
        )


def _windowed(image: Any, window: Window, file: Path) -> ImageArray:
    """Return a gray image of more than 8 bits as 0..255; values are those that the file holds."""
    (bits, signed), highest, white_is_low = stored_bits(image), 65535, False
    if image.format == "TIFF":
        white_is_low = image.tag_v2.get(_PHOTOMETRIC) == 0
        _take_as_turned(image)
    elif image.format == "JPEG2000" and signed:
        raise image_error(f"{file}: values in JPEG 2000 must not have a sign; save it as TIFF")
    elif image.format == "PPM" and image.tile[0][0] != "raw":
        highest = image.tile[0][3][1]
    values: NDArray[Any] = np.asarray(image)
    if image.format == "PPM" and image.mode == "I":  # Pillow stretches them to 16 bits
        values = np.rint(values * (highest / 65535)).astype(np.uint16)
    if image.format == "JPEG2000":  # and shifts these there
        values = values >> (16 - bits)
    if image.mode == "I" and bits == 32 and not signed:  # and reads these as if signed
        values = values.view(np.uint32)
    where = f"{file} ({image.format})"
    return to_uint8(values, Scaling(window, inverted=white_is_low), bits=bits, where=where)


def _take_as_turned(image: Any) -> None:
    """Have a compressed TIFF read in this machine's order of bytes, into which libtiff turns it.

    Pillow knows that of unsigned values alone; signed and floating ones it would turn once more.
    """
    turned = {"I;16BS": "I;16NS", "I;32BS": "I;32NS", "F;32BF": "F;32NF"}
    image.tile = [
        tile._replace(args=(turned.get(tile.args[0], tile.args[0]), *tile.args[1:]))
        if tile.codec_name == "libtiff"
        else tile
        for tile in image.tile
    ]


@contextmanager
def opened(file: Path, formats: tuple[Format, ...]) -> Iterator["Image.Image"]:
    """Open a file of one image, not decoded; what a damaged one raises becomes one `ImageError`.

    Only the decoders of the card's formats look at it, whatever its name says.

    Parameters
    ----------
    file : Path
        Path of the file.
    formats : tuple of Format
        Formats whose decoders may look at the file.

    Yields
    ------
    PIL.Image.Image
        Picture, not decoded.
    """
    from PIL import Image, UnidentifiedImageError

    with wrap_errors(file, "image", "bring it whole"), open_regular(file) as stream:
        try:
            image = Image.open(stream, formats=formats)
        except UnidentifiedImageError as error:
            stream.seek(0)
            raise _not_readable(file, format_of(stream.read(16)), formats) from error
        except Image.DecompressionBombError as error:
            raise image_error(
                f"{file} has more pixels than are read; cut it to tiles, make it smaller"
            ) from error
        read = stream.tell()
        way = "bring it whole" + ", save it anew" * (image.format == "TIFF")  # maybe compressed
        with wrap_errors(file, "image", way), image, spending(image.format or ""):
            _check_one(image, file)
            yield image
            _check_upright(image, file)
            if not image.tile:  # it was decoded
                check_whole(image, stream, read, file)


def _not_readable(file: Path, found: str, formats: tuple[Format, ...]) -> ImageError:
    """Return the error of a file that no decoder takes, of the format `found` by its start."""
    asked = " or ".join(formats)
    reason, way = f"{asked} is asked", "save it anew"
    if found in formats:
        reason = f"it begins as {found}, but is damaged, or has a compression or values of a type "
        reason += "that is not read"
    elif found in FORMATS and formats is not MASKS:
        reason, way = f"it is {found}, not {asked}", f"add {found} to formats in the card"
    elif found:
        reason, way = f"it is {found}, not {asked}", f"save it as {formats[0]}"
    return image_error(f"{file} is not a readable image ({reason}); {way}")


def open_pictures(
    card: PictureCard, files: ClassedFiles, path: Path, faults: Faults
) -> ImageSource:
    """Open some files, each one image; what they hold is known when they are read.

    Gray is Rec. 601 luma, as Pillow computes it. With `size` in the card none is opened. Without,
    the first that can be read gives the shape, and every other is compared with it before it is
    decoded.

    Parameters
    ----------
    card : PictureCard
        Card of the dataset.
    files : ClassedFiles
        Files by class.
    path : Path
        Path of the files, as `fetch` returns it.
    faults : Faults
        Faults found so far, to which others are added.

    Returns
    -------
    ImageSource
        Opened dataset.

    Raises
    ------
    ImageError
        When no file can be read, as the first says.
    """
    first = None if card.size else _first(card, files.names, faults)
    sides = first[0] if first else (card.size or 1, card.size or 1)
    each = np.arange(len(files.names), dtype=counting(len(files.names)))
    none = np.zeros(len(files.names), np.int8)
    masks = None
    if files.masks is not None:
        beside = files.names if card.size else None
        masks = FilesReader(partial(_decode_mask, card, sides), files.masks, each, none, beside)
    read = FilesReader(partial(_decode, card, first), files.names, each, none)
    shape = sides + ((3,) if card.channels == 3 else ())
    return make_source(card, files, path, shape, read, masks=masks)


def _first(card: PictureCard, names: Sequence[str], faults: Faults) -> tuple[tuple[int, int], str]:
    """Return height and width of the first image that has them, and its name.

    One before it that cannot be read is refused when it is its turn.
    """
    errors: dict[str, ImageError] = {}
    for index in range(len(names)):
        try:
            return read_extent(Path(names[index]), card), names[index]
        except ImageError as error:
            errors[names[index]] = error
    raise no_usable_file(errors, faults)


def _decode(
    card: PictureCard, first: tuple[tuple[int, int], str] | None, file: Path, frames: Rows
) -> ImageArray:
    """Return the image of a file, (1, *shape): in eight bits first, then made to fit.

    Where it is not made to fit, its size is compared with that of the `first` before it is decoded.
    """
    from PIL import Image

    window = None if card.window == "header" else card.window
    with opened(file, card.formats) as image:
        if first:
            require_alike(file, "size", (image.height, image.width), *first)
        if image.mode in DEEP:
            plain = Image.fromarray(_windowed(image, window, file))
        else:
            plain = image.convert("L" if card.channels == 1 else "RGB")
            if window is not None:
                pixels = to_uint8(np.asarray(plain), Scaling(window), where=str(file))
                plain = Image.fromarray(pixels)
    if card.channels == 3:
        plain = plain.convert("RGB")
    return made_to_fit(np.asarray(plain), card)[np.newaxis]


def _public_card(**keys: Any) -> PictureCard:
    """Return a card of public pictures with some keys."""
    return PictureCard.model_construct(**keys, formats=tuple(FORMATS))


@cache
def _digest_pictures() -> str:
    """Return the digest of the public pictures as any card may ask for them."""
    cards = [
        _public_card(channels=channels, size=size, window=window)
        for channels in (1, 3)
        for size in (None, 24)
        for window in (None, "image")
    ]
    files = sorted(PUBLIC_PICTURES.iterdir())
    return digest_images(_decoded(card, file) for file in files for card in cards)


def _decoded(card: PictureCard, file: Path) -> ImageArray:
    """Return the image of a public picture; an empty one where the card or Pillow refuses it."""
    with suppress(ImageError):
        return _decode(card, None, file, np.zeros(1, np.int8))
    return np.empty(0, np.uint8)


def digest_images(decoded: Iterable[NDArray[Any]]) -> str:
    """Return a digest of decoded public images, and of public values under every rule of pixels.

    Another digest is another version of a library, or another machine, on which the same file may
    become another image. The same digest is no proof that every file becomes the same image.

    Parameters
    ----------
    decoded : iterable of array
        Images that decoders make of public files.
    """
    values = (np.arange(61 * 67, dtype=np.uint32) * 40503 >> 4).astype(np.uint16).reshape(61, 67)
    windows: tuple[Window, ...] = ((900.5, 51000.25), Sigmoid(30000.0, 9000.5), "image")
    scales = (Scaling(window, 1.37, -70.25) for window in windows)
    gray = [to_uint8(values, scale, where="public values") for scale in scales]
    fits = get_args(LocalFilesCard.model_fields["fit"].annotation)
    cards = [_public_card(size=24, fit=fit) for fit in fits]
    fitted = [made_to_fit(image, card) for image in gray for card in cards]
    digest = hashlib.sha256()
    for image in (*decoded, *gray, *fitted):
        digest.update(f"{image.dtype.str} {image.shape}".encode() + image.tobytes())
    return digest.hexdigest()[:32]


def _decode_mask(
    card: PictureCard, sides: tuple[int, int], file: Path, frames: Rows, image: Path | None = None
) -> ImageArray:
    """Return the mask in a file, (1, h, w); of an image that was made to fit, as that was."""
    mask = read_mask(file, read_extent(image, card) if image else sides)
    return masks_made_to_fit([mask], card, file, "draw one")


class FolderCard(PatternCard, PictureCard):
    """A card of kind ``folder``.

    With `size`, images are made square as `fit` says and resized; without, they are taken as they
    are.
    """

    stored_as: ClassVar[str] = "a folder of your own"

    @property
    def ends(self) -> Mapping[Any, tuple[str, ...]]:
        """Ends of names of the formats that are read."""
        return {name: FORMATS[name] for name in self.formats}

    @check(mode="after")
    def _pattern_names_persons(self) -> Self:
        if self.unit == "person" and "{person}" not in self.pattern:
            raise ValueError(
                'unit = "person" needs {person} in pattern, as in "{class}/{person}-*.png", found '
                f"{self.pattern!r}"
            )
        return self


FOLDER = DatasetKind(FolderCard, in_folder(open_pictures))
"""Kind of dataset of pictures in folders."""
