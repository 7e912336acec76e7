"""The text of a draft, with what the images themselves say of its keys."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets.looks import Look
from pipeline.errors import DatasetError, printable

SIZES = (224, 128, 64, 28)
"""Sides that a draft chooses from where images have different sizes."""
ORDER = (
    "kind",
    "path",
    "channels",
    "classes",
    "pattern",
    "masks",
    "frames",
    "columns",
    "unit",
    "axis",
    "size",
    "formats",
)
"""In which keys are written."""


@dataclass(frozen=True)
class Draft:
    """A card that could be.

    Attributes
    ----------
    card : str
        TOML.
    open : tuple of str
        What is a guess, or could not be decided; empty when the card can be used as it is.
    """

    card: str
    open: tuple[str, ...]


def write_draft(
    path: Path,
    keys: dict[str, object],
    looks: Sequence[Look],
    faults: Sequence[str],
    doubts: list[str],
    *,
    own: bool = False,
    lines: Sequence[str] = (),
) -> Draft:
    """Return a draft with what the images themselves say, `own` ones of persons, and more lines."""
    if not looks:
        raise DatasetError(f"none of the images can be read; the first: {faults[0]}")
    if (own or keys["kind"] == "dicom") and not all(look.named for look in looks):
        keys["unit"] = None
        doubts.append(
            'some files have no PatientID; unit = "person" needs {person} in pattern, or a column'
        )
    doubts += [f"{len(faults)} cannot be read; the first: {faults[0]}"] if faults else []
    colours = {look.colour for look in looks}
    if len(colours) > 1:
        doubts.append("some images are gray and some in colour; choose channels, and what is left")
    keys["channels"] = 3 if True in colours else 1
    sides = {look.sides[:2] for look in looks}
    shortest = min(min(each) for each in sides)
    if len(sides) > 1:
        size = next((size for size in SIZES if size <= shortest), shortest)
        keys["size"] = size
        doubts.append(
            f"images have {len(sides)} sizes, from {_by(min(sides))} to {_by(max(sides))}; size = "
            f"{size} makes them square by cropping, fit says otherwise"
        )
    named = printable(path.name, lines=False)
    written = [f"# drafted from {len(looks)} of the files of {named}; keys: data/README.md"]
    written += [f"{key} = {_toml(keys[key])}" for key in ORDER if keys.get(key) is not None]
    if len(sides) == 1:
        written.append(f"# all images have {_by(min(sides))} pixels")
    if any(look.deep for look in looks):
        written.append('# window = [low, high]  # or "image", for values of more than 8 bits')
        doubts.append("values have more than 8 bits: which of them become 0 and 255, say by window")
    written += lines
    return Draft("\n".join(written) + "\n", tuple(doubts))


def _by(sides: tuple[int, ...]) -> str:
    return " x ".join(map(str, sides))


def _toml(value: object) -> str:
    """Return a value as TOML: text, numbers, lists of them, and a flat table.

    Raises
    ------
    DatasetError
        When a name is bytes that are no letters.
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    text = json.dumps(value, ensure_ascii=False)
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DatasetError(f"{value!r} is a name that is no text, as TOML must be; rename it")
    return "".join(x if x.isprintable() else f"\\U{ord(x):08X}" for x in text)
