# %% [markdown]
# # Are these the images my model was trained on?
#
# A hospital trained a model and released the private mean of its training images. Elsewhere the
# model is about to be used on DICOM files. Are they of the same population? And which of them are
# like no image that the model ever saw? The files are read in the clear and never leave.

# %%
from pathlib import Path

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

import covdp
from covdp.addons.nights.timelines import comparison
from covdp.descriptors import terms_of
from covdp.geometry import to_chart
from covdp.inference import match, region
from covdp.publish.readings import Mean, read_terms

# %% [markdown]
# The training images are tiles of one picture; their mean is released once, at μ = 0.5.

# %%
source = covdp.open_dataset("tiles")
tiles = np.concatenate(list(source.chunks(label=1)))
trained, elsewhere = np.split(np.random.default_rng(20260301).permutation(tiles), [-300])
release, _ = covdp.private_mean(
    covdp.describe(trained, descriptor="oct5"),
    covdp.GDP(0.5),
    domain=covdp.domain("oct5", height=tiles.shape[1], width=tiles.shape[2]),
    manifold="spd-log-euclidean",
    rng=covdp.LATTICE,
)

# %% [markdown]
# Two folders of DICOM files: one of a scanner like that of the training, one of a scanner with a
# gain of 1.2. In each, three exposures failed and are black.


# %%
def write_dicom(path: Path, pixels: np.ndarray) -> None:
    """Write an image as a DICOM file."""
    scan = Dataset()
    scan.file_meta = FileMetaDataset()
    scan.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    scan.SOPClassUID = SecondaryCaptureImageStorage
    scan.SOPInstanceUID = generate_uid()
    scan.file_meta.MediaStorageSOPClassUID = scan.SOPClassUID
    scan.file_meta.MediaStorageSOPInstanceUID = scan.SOPInstanceUID
    scan.Rows, scan.Columns = pixels.shape
    scan.SamplesPerPixel, scan.PhotometricInterpretation = 1, "MONOCHROME2"
    scan.BitsAllocated, scan.BitsStored, scan.HighBit = 8, 8, 7
    scan.PixelRepresentation, scan.PixelData = 0, pixels.tobytes()
    scan.save_as(path, enforce_file_format=True)


CARD = """
kind = "dicom"
path = "{name}"
channels = 1
classes = ["scans"]
pattern = "{{class}}/*.dcm"
"""
gains = {"same-scanner": 1.0, "gain-1.2": 1.2}
for name, gain in gains.items():
    folder = Path(name) / "scans"
    folder.mkdir(parents=True, exist_ok=True)
    for number, tile in enumerate(elsewhere):
        pixels = np.clip(np.rint(gain * tile.astype(float)), 0, 255).astype(np.uint8)
        write_dicom(folder / f"{number:03d}.dcm", np.zeros_like(pixels) if number < 3 else pixels)
    Path(f"{name}.toml").write_text(CARD.format(name=name), encoding="utf-8")

# %% [markdown]
# The document of `covdp release` serves as well: `covdp match RELEASE.json --dataset CARD.toml`
# does the same with a page, ends with exit code 3 where images differ, and names single files.

# %%
described, matches = {}, {}
for name in gains:
    folder = covdp.open_dataset(f"{name}.toml", Path.cwd())
    images = np.concatenate(list(folder.chunks()))
    described[name] = covdp.describe(images, descriptor="oct5")
    matches[name] = match(release, described[name])
    found = matches[name]
    print(f"{name}: p = {found.p_value:.2g}, {found.outside:.1%} outside, 1 % is expected")
    print(f"  failed exposures that lie outside: {np.sum(found.is_outside[:3])} of 3")

# %% [markdown]
# What differs, in terms that readers of images use: the second scanner has a fifth more contrast.

# %%
where = region(release, of="population")
means = {"released": Mean(where.place, where.covariance)}
for name, points in described.items():
    place = to_chart(where.manifold, points)
    means[name] = Mean(place.mean(axis=0), np.cov(place.T) / len(place))
records = [
    {"term": one.term.title, "side": name, "class": "retina"}
    | {"value": one.value, "low": one.low, "high": one.high}
    for name, mean in means.items()
    for one in read_terms(terms_of(covdp.DESCRIPTORS["oct5"]), mean, where.manifold)
]
picture = comparison(
    records,
    name="sides",
    title="Training and two scanners",
    along="side",
    classes=["retina"],
    caption="Values with their bands of 95 %.",
)
assert picture is not None
picture.save(Path("match_my_model.svg"))
