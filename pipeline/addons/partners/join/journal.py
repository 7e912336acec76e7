"""The journal of a study at one hospital: what was drawn and what was opened, its owner's alone.

A share is written before it leaves and an opened total before it is used. So a step that is done
again, after a break, has the same share, under new masks: noise is never drawn again.
"""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covdp.addons.partners.join.shares import Words
from covdp.errors import LedgerError


@dataclass
class Journal:
    """Journal of one study; make it with `open_journal`.

    Attributes
    ----------
    path : Path
        File, one JSON object a line.
    entries : dict
        Kind and step → content.
    """

    path: Path
    entries: dict[tuple[str, int], bytes] = field(default_factory=dict, repr=False)

    @property
    def steps(self) -> int:
        """Number of steps that were opened."""
        return sum(kind == "opened" for kind, _ in self.entries)

    def read(self, kind: str, step: int) -> bytes | None:
        """Return what was written of a step; None before.

        Parameters
        ----------
        kind : {"share", "opened", "agreed"}
            Kind of the entry.
        step : int
            Number of the step.
        """
        return self.entries.get((kind, step))

    def write(self, kind: str, step: int, content: bytes) -> bytes:
        """Write content, which is on disk when this returns; return it.

        Parameters
        ----------
        kind : {"share", "opened", "agreed"}
            Kind of the entry.
        step : int
            Number of the step.
        content : bytes
            Content of the entry.

        Raises
        ------
        LedgerError
            When the disk is full, or it has other content already.
        """
        if self.entries.setdefault((kind, step), content) != content:
            raise LedgerError(f"{self.path} has other content of step {step}; keep it, and ask us")
        line = {"kind": kind, "step": step, "content": base64.b64encode(content).decode()}
        try:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise LedgerError(f"cannot write {self.path} ({error.strerror}); make room") from error
        return content


def new_journal(path: Path) -> Journal:
    """Make the journal of a study, readable by its owner alone.

    Parameters
    ----------
    path : Path
        File that does not exist.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return Journal(path)


def open_journal(path: Path) -> Journal:
    """Read the journal of a study that was approved.

    Parameters
    ----------
    path : Path
        File of `new_journal`.

    Raises
    ------
    LedgerError
        When it is lost or damaged, but for a last line that a power cut left short.
    """
    try:
        *lines, last = path.read_text(encoding="utf-8").split("\n")
        entries = {}
        for line in lines:
            row = json.loads(line)
            entries[row["kind"], row["step"]] = base64.b64decode(row["content"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LedgerError(
            f"{path}, the journal of a study, is lost or damaged; the study has ended, as noise is "
            "never drawn again: agree on a new one"
        ) from error
    if last:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Journal(path, entries)


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays as bytes.

    Parameters
    ----------
    arrays : mapping of str to array
        Arrays of numbers or truth values.
    """
    stream = BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def unpacked(content: bytes) -> dict[str, NDArray[Any]]:
    """Return arrays that `packed` wrote; raise `ValueError` for other bytes.

    Parameters
    ----------
    content : bytes
        Bytes of arrays.
    """
    with np.load(BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def words_of(content: bytes, length: int) -> Words:
    """Return words, (d,); raise `ValueError` where they are not as many.

    Parameters
    ----------
    content : bytes
        Words of 8 bytes, little-endian.
    length : int
        Number d.
    """
    if len(content) != 8 * length:
        raise ValueError(f"{len(content)} bytes for {length} words")
    return np.frombuffer(content, dtype="<u8").astype(np.uint64)
