"""The journal of a study at one hospital: what was drawn and what was opened, its owner's alone.

A share is written before it leaves and an opened total before it is used. So a step that is done
again, after a break, has the same share, under new masks: noise is never drawn again. The file is
written whole each time, so a power cut leaves all that it held; the ledger notices one lost.
"""

from pathlib import Path
from typing import Self

from pydantic import Base64Bytes, Field

from covdp.errors import LedgerError
from covdp.files import write_whole
from covdp.toml import Record


class StudyJournal(Record):
    """Journal of one study.

    Attributes
    ----------
    path : Path
        File, JSON.
    entries : dict of str to bytes
        Content by what it is: the "total" of records, "share 1", "opened 1", "share 2" and so on.
    """

    path: Path = Field(Path(), exclude=True)
    entries: dict[str, Base64Bytes] = Field({}, repr=False)

    @property
    def opened(self) -> list[bytes]:
        """Totals that were opened, in an order that is the same at all hospitals."""
        return [self.entries[key] for key in sorted(self.entries) if key.startswith("opened")]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the journal in a file.

        Parameters
        ----------
        path : Path
            File of the journal.

        Raises
        ------
        LedgerError
            When it is damaged.
        """
        try:
            found = cls.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise LedgerError(
                f"{path}, the journal of a study, is damaged; the study has ended, as noise is "
                "never drawn again: put a copy back, or agree on a new one"
            ) from error
        return found.model_copy(update={"path": path})

    def save(self) -> None:
        """Write the file, for its owner alone."""
        write_whole(self.path, self.model_dump_json(), mode=0o600)

    def write(self, entry: str, content: bytes) -> bytes:
        """Return what was first written of an entry, once it is on disk: this, where nothing was.

        Parameters
        ----------
        entry : str
            Name of the entry.
        content : bytes
            Content of the entry.

        Returns
        -------
        bytes
            Content of the entry, which is never written over.

        Raises
        ------
        OutputError
            When the disk is full.
        """
        if entry not in self.entries:
            self.model_copy(update={"entries": {**self.entries, entry: content}}).save()
            self.entries[entry] = content
        return self.entries[entry]
