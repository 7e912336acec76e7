"""The journal of a study at one hospital: what was drawn and what was opened, its owner's alone.

A share is written before it leaves and an opened total before it is used. So a step that is done
again, after a break, has the same share, under new masks: noise is never drawn again.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from covdp.errors import LedgerError
from covdp.files import write_whole

KINDS = ("share", "opened", "agreed")
"""Kinds of entries."""


@dataclass
class StudyJournal:
    """Journal of one study; `open_journal` reads it.

    Attributes
    ----------
    path : Path
        File, one entry a line: kind, step, content in hexadecimal.
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
        """Write content that is not there yet, and return it once it is on disk.

        Parameters
        ----------
        kind : {"share", "opened", "agreed"}
            Kind of the entry.
        step : int
            Number of the step.
        content : bytes
            Content of the entry.

        Returns
        -------
        bytes
            The same content.

        Raises
        ------
        LedgerError
            When the disk is full, or the journal is gone.
        """
        if (kind, step) not in self.entries:
            try:
                with self.path.open("r+b") as stream:  # none is made where it is lost
                    stream.seek(0, os.SEEK_END)
                    stream.write(f"{kind} {step} {content.hex()}\n".encode())
                    stream.flush()
                    os.fsync(stream.fileno())
            except OSError as error:
                raise LedgerError(f"cannot write {self.path} ({error.strerror})") from error
            self.entries[kind, step] = content
        return content


def open_journal(path: Path) -> StudyJournal:
    """Read the journal of a study, or make it, for its owner alone; the ledger notices one lost.

    Parameters
    ----------
    path : Path
        File of the journal.

    Returns
    -------
    StudyJournal
        Journal with all entries.

    Raises
    ------
    LedgerError
        When it is damaged, but for a last line that a power cut left short.
    """
    entries = dict[tuple[str, int], bytes]()
    try:
        *lines, last = path.read_text("ascii").split("\n") if path.exists() else ["short"]
        for kind, step, *content in map(str.split, lines):
            entries[KINDS[KINDS.index(kind)], int(step)] = bytes.fromhex("".join(content))
    except (OSError, ValueError) as error:
        raise LedgerError(
            f"{path}, the journal of a study, is damaged; the study has ended, as noise is never "
            "drawn again: agree on a new one"
        ) from error
    if last:
        write_whole(path, "".join(f"{line}\n" for line in lines), mode=0o600)
    return StudyJournal(path, entries)
