"""The public pictures that decoders are tried on: ``python -m tests.tools.public_pictures``.

Writes ``pipeline/datasets/public/``: details of pictures that scikit-image ships, in formats whose
pixels hang on a decoder, or on how colours and deep values are converted. Each new writing ends
streams of images, as other libraries encode other bytes: add files, and leave these.
"""

import numpy as np
import skimage.data
from PIL import Image

from covdp.datasets.pictures import PUBLIC_PICTURES


def main() -> None:
    """Write the pictures that are not there yet."""
    gray = Image.fromarray(skimage.data.camera()).resize((45, 39))
    colour = Image.fromarray(skimage.data.immunohistochemistry()).crop((0, 0, 90, 78))
    colour = colour.resize((45, 39))
    deep = Image.fromarray(np.asarray(gray).astype(np.uint16) ** 2)
    pictures = {
        "gray.jpg": (gray, {"quality": 60}),
        "halved.jpg": (colour, {"quality": 75, "subsampling": "4:2:0"}),
        "progressive.jpg": (colour, {"quality": 75, "subsampling": "4:2:2", "progressive": True}),
        "gray.tiff": (gray, {"compression": "jpeg", "quality": 60}),
        "colour.jp2": (colour, {"irreversible": True, "quality_layers": [12]}),
        "colour.webp": (colour, {"quality": 60}),
        "colour.png": (colour, {"optimize": True}),
        "palette.gif": (colour.quantize(32), {}),
        "deep.png": (deep, {"optimize": True}),
    }
    PUBLIC_PICTURES.mkdir(exist_ok=True)
    for name, (picture, options) in pictures.items():
        if not (file := PUBLIC_PICTURES / name).exists():
            picture.save(file, **options)
            print(f"{name}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
