"""Values that must leave no release, and where they are looked for."""

import base64
import hashlib
import re
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
from sample_dicom import write_dicom

from covdp.descriptors import describe
from covdp.geometry import MANIFOLDS, frechet_mean

CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["well", "ill"]\n'
SCANS = CARD.replace("npz", "dicom").replace("local", 'unit = "person"\npublic')
CONFIG = """\
name = "nightly"
population = "ward-7"
dataset = "ward.toml"
labels = "public"
budget = 0.5
run_key = "monday"
"""


def planted() -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels; image 137 is one that no other source can produce."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (400, 28, 28), dtype=np.uint8)
    images[137] = (np.arange(784) * 7919 % 251).reshape(28, 28)
    return images, (np.arange(400) % 2).astype(np.uint8)


def header(number: int) -> dict[str, str]:
    """Return what the header of an image says of a person, unlike anything else."""
    return {
        "PatientName": f"Benengeli^Cide{number}",
        "PatientID": f"toboso-{number}",
        "IssuerOfPatientID": "La Mancha",
        "StudyDate": f"16050{1 + number % 9}17",
        "InstitutionName": "Rocinante Hospital",
        "AccessionNumber": f"molino{number}",
    }


def write_scans(folder: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """Write each image as a DICOM file of a person of its own."""
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        file = folder / ("well", "ill")[label] / "barataria" / f"IM{number:04}"
        write_dicom(file, image, **header(number))


def numbers(images: np.ndarray, labels: np.ndarray) -> list[float]:
    """Return non-private numbers: true means, their logarithms, norms, extremes and counts."""
    manifold = MANIFOLDS["spd-log-euclidean"](k=5)
    found: list[float] = []
    for label in (0, 1):
        points = describe(images[labels == label])
        mean = frechet_mean(points, manifold).point
        norms = manifold.dist(np.eye(5), points)
        spread = manifold.dist(mean, points)
        found += [*mean.ravel(), *manifold.log(np.eye(5), mean), norms.max(), norms.min()]
        found += [spread.max(), spread.mean(), norms.mean()]
    canary = describe(images[137:138])[0]
    return [float(x) for x in (*found, *canary.ravel())]


def written(value: float) -> bytes:
    """Return seven digits and the point, or eight digits.

    A release prints some thousand numbers: that one agrees with one of a hundred by chance, where
    all are of one size, has a probability below 0.01.
    """
    text = repr(value)
    first = re.search("[1-9]", text)
    return text[: (first.start() if first else 0) + 8].encode()


def needles(images: np.ndarray, labels: np.ndarray, folder: Path) -> dict[str, bytes]:
    """Return every form in which private content could be lying in a file."""
    raw = images[137].tobytes()
    out = {"row of pixels": raw[:28], "row in text": repr(images[137, 0].tolist())[1:-1].encode()}
    out["row in base64"] = base64.b64encode(raw)[4:40]
    for value in numbers(images, labels):
        out[f"{value} in binary"] = struct.pack("<d", value)
        out[f"{value} in text"] = written(value)
    for word in ("Benengeli", "toboso", "La Mancha", "Rocinante", "molino", "barataria"):
        out[word] = word.encode()
    for number in range(9):
        out[f"date {number}"] = header(number)["StudyDate"].encode()
        out[f"day {number}"] = f"1605-0{1 + number}-17".encode()
    for kind in ("md5", "sha1", "sha256"):
        parts = [images[labels == label].tobytes() for label in (0, 1)]
        for content in (raw, *parts, (folder / "ward.npz").read_bytes()):
            digest = hashlib.new(kind, content)
            out[f"{kind} of {len(content)} bytes"] = digest.hexdigest().encode()
            out[f"{kind} of {len(content)} bytes, binary"] = digest.digest()
    return out


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of every file, and what is compressed inside Parquet and SQL."""
    import pyarrow.parquet as pq

    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        yield str(path), str(path).encode()
        yield str(path), path.read_bytes()
        if path.suffix == ".parquet":
            table = pq.ParquetFile(path).read()  # what reads folders imports pandas
            yield f"{path}, decoded", repr((table.to_pydict(), table.schema.metadata)).encode()
        if path.read_bytes().startswith(b"SQLite format 3"):
            with closing(sqlite3.connect(path)) as connection:
                yield f"{path}, decoded", "\n".join(connection.iterdump()).encode()
