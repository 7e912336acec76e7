"""One picture: opened by the decoders its card names, in eight bits, square where asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from pipeline.arrays import ImageArray
from pipeline.datasets.doors import open_regular
from pipeline.errors import ImageError

if TYPE_CHECKING:
    from PIL import Image

    from pipeline.datasets.folder import FolderCard

Format: TypeAlias = Literal["PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP", "PPM", "JPEG2000"]

FORMATS: dict[Format, tuple[str, ...]] = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "TIFF": (".tif", ".tiff"),
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "WEBP": (".webp",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "JPEG2000": (".jp2", ".j2k", ".j2c", ".jpx"),
}
"""What a card may name, with the ends of file names. Pillow decodes all of it in this process; a
format for which it would start another program (EPS) must never stand here."""
EIGHT_BIT = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}
"""Pillow's modes with intensities 0..255; others would be clipped, not rescaled."""


def header(file: Path, card: "FolderCard") -> tuple[int, int]:
    """Return height and width of an image from its header alone."""
    with _opened(file, card) as image:
        if image.mode not in EIGHT_BIT:
            raise ImageError(
                f"{file}: images must have 8 bits a channel, found mode {image.mode}; rescale "
                "to 0..255 and save again"
            )
        pages = getattr(image, "n_frames", 1)
        if pages > 1 and image.format != "MPO":  # a JPEG with a preview is one image
            raise ImageError(
                f"{file}: one file must be one image, found {pages}; save each in a file of its own"
            )
        return image.height, image.width


def decode(file: Path, card: "FolderCard") -> ImageArray:
    """Return one image, (h, w) or (h, w, 3)."""
    with _opened(file, card) as image:
        plain = image.convert("L" if card.channels == 1 else "RGB")
        return np.asarray(fitted(plain, card.size, card.fit) if card.size else plain)


def fitted(image: "Image.Image", size: int, fit: str) -> "Image.Image":
    """Return an image of `size` pixels a side: cropped, padded with black, or stretched."""
    from PIL import Image

    if fit == "crop":
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        image = image.crop((left, top, left + side, top + side))
    if fit != "pad":
        return image.resize((size, size), Image.Resampling.BICUBIC)
    longest = max(image.size)
    width, height = (max(1, round(side * size / longest)) for side in image.size)
    black = Image.new(image.mode, (size, size))
    small = image.resize((width, height), Image.Resampling.BICUBIC)
    black.paste(small, ((size - width) // 2, (size - height) // 2))
    return black


@contextmanager
def _opened(file: Path, card: "FolderCard") -> Iterator["Image.Image"]:
    """Open an image; whatever a damaged file makes Pillow raise becomes one `ImageError`.

    Only the decoders of the card's formats look at it, whatever its name says.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with open_regular(file) as stream, Image.open(stream, formats=card.formats) as image:
            yield image
    except ImageError:
        raise
    except UnidentifiedImageError as error:
        raise ImageError(f"{file} is not a readable image ({either(card)} is asked)") from error
    except Exception as error:  # decoders raise whatever they stumble over
        said = " ".join(str(error).replace(str(file), "file").split())[:200]
        reason = said or type(error).__name__
        raise ImageError(f"{file} is not a readable image ({reason})") from error


def either(card: "FolderCard") -> str:
    """Return the formats a card names, as words."""
    return " or ".join(card.formats)
