"""Sample tiles of a class as one picture, for experiments on public images only."""

import io

import numpy as np

from pipeline.arrays import ImageArray, check_images

GAP = 2
"""Pixels between two tiles, transparent."""


def montage(images: ImageArray, columns: int) -> bytes:
    """Return a PNG with n ≥ 1 images side by side, row by row, `columns` in a row.

    They are uint8 of shape (n, h, w) or (n, h, w, 3), and copied pixel by pixel into an RGBA
    picture that is transparent between them.
    """
    from PIL import Image

    images = check_images(images)
    n, h, w = images.shape[:3]
    columns = min(columns, n)
    lines = -(-n // columns)
    sheet = np.zeros((lines * (h + GAP) - GAP, columns * (w + GAP) - GAP, 4), dtype=np.uint8)
    for index, image in enumerate(images):
        row, column = divmod(index, columns)
        top, left = row * (h + GAP), column * (w + GAP)
        tile = sheet[top : top + h, left : left + w]
        tile[..., :3] = image if image.ndim == 3 else image[..., None]
        tile[..., 3] = 255
    stream = io.BytesIO()
    Image.fromarray(sheet).save(stream, format="PNG", optimize=True)
    return stream.getvalue()
