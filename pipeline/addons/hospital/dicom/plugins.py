"""Decoders that the owner asks for in ``COVDP_DECODERS``, tried before they are used.

A decoder reads a transfer syntax once it makes the pixels of the pinned one of every public frame
of that syntax (``frames.json.gz``). So the choice depends on no file of a dataset, and the pixels
of a file depend on that file and on public settings alone. A trial is no proof: of another frame a
decoder may make other pixels, and then only the same decoders repeat a pass.
"""

import base64
import functools
import gzip
import hashlib
import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

from covdp.addons.hospital.dicom.decoder import decode_in_subprocess
from covdp.errors import one_line

PUBLIC_FRAMES = Path(__file__).with_name("frames.json.gz")
"""Encoded pictures of scikit-image by transfer syntax, some of them cut off, made by
``tests.tools.decoder_frames``; and the digest of the pixels that the pinned decoder makes of each,
null where it fails."""

DECODERS_VARIABLE = "COVDP_DECODERS"
"""The environment variable that asks for decoders, the first choice first."""

_TRIAL_LOCK = threading.Lock()


def asked_decoders() -> list[str]:
    """Return the decoders that are asked for, in order: pydicom's names, or ``module:function``."""
    return os.environ.get(DECODERS_VARIABLE, "").replace(",", " ").split()


def choose_decoder(syntax: str, pinned: str, asked: tuple[str, ...]) -> str:
    """Return the first decoder asked for whose pixels are the pinned one's, else the pinned one.

    Each that is passed over is named in a warning, once a process and transfer syntax.

    Parameters
    ----------
    syntax : str
        UID of the transfer syntax.
    pinned : str
        Name of the decoder that decides.
    asked : tuple of str
        Names of decoders, the preferred one first.
    """
    with _TRIAL_LOCK:
        return _choose_decoder(syntax, pinned, asked)


@functools.cache
def _choose_decoder(syntax: str, pinned: str, asked: tuple[str, ...]) -> str:
    from pydicom.uid import UID

    faults = dict[str, str]()
    for chosen in (*asked, pinned):
        if chosen == pinned or not (fault := find_fault(syntax, chosen)):
            break
        faults[chosen] = fault
    for plugin, fault in faults.items():
        words = DECODERS_VARIABLE, plugin, UID(syntax).name, fault, chosen
        line = "%s: %s is not used for %s, as it %s; %s goes on"
        logging.getLogger(__name__).warning(line, *map(one_line, words))
    return chosen


def find_fault(syntax: str, plugin: str) -> str:
    """Return the difference of a decoder from the pinned one on public frames, "" if it has none.

    On a frame that is cut off it may fail, as then the pinned one decides.

    Parameters
    ----------
    syntax : str
        UID of the transfer syntax.
    plugin : str
        Name of the decoder, as pydicom calls it.
    """
    for frame in public_frames()[syntax]:
        encoded, cut = base64.b85decode(frame["encoded"]), frame["cut"]
        try:
            made = digest_pixels(*decode_in_subprocess(syntax, plugin, encoded, frame["options"]))
        except ValueError as error:
            if not cut:
                reason = str(error).strip().removeprefix(f"{plugin}: ")
                return f"fails on a public frame, {frame['name']} ({reason})"
        else:
            if made != frame["digest"]:
                return f"makes other pixels of a public frame, {frame['name']}"
    return ""


def public_frames() -> dict[str, list[dict[str, Any]]]:
    """Return the public frames of each transfer syntax, as they are stored."""
    frames: dict[str, Any] = json.loads(gzip.decompress(PUBLIC_FRAMES.read_bytes()))
    return frames


def digest_pixels(pixels: Any, meaning: dict[str, Any]) -> str:
    """Return a digest of a frame: its values, type and shape, and what its colours mean.

    Parameters
    ----------
    pixels : object
        Pixels of a decoded frame.
    meaning : dict of str to object
        Photometric interpretation and further facts that the decoder tells.
    """
    facts = [pixels.dtype.name, pixels.shape, meaning["photometric_interpretation"]]
    return hashlib.sha256(json.dumps(facts).encode() + pixels.tobytes()).hexdigest()[:32]
