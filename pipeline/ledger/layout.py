"""The layout of a ledger, as a number in its table ``covdp_meta``, and the steps up to ours.

======  ==========================================================================================
layout  what is new in it
======  ==========================================================================================
2       written by covdp 0.3 and 0.4
3       charges and nights declare card and folder; a program of layout 2 would charge without
        comparing them, so it is refused. Rows of layout 2 declare nothing, and stay as they are
======  ==========================================================================================

A ledger of an older layout is migrated as it is opened. All steps are one transaction, alone: the
ledger is of the one layout or of the other, whatever is killed. Rows of the journal are chained, so
no step changes one: what an older row does not say is missing where it is read (``state.py``).
"""

from collections.abc import Mapping

from sqlalchemy import text, update

from covdp.errors import LedgerError
from covdp.ledger.database import META, Database, connect

LAYOUT = "3"
"""The layout that this version reads and writes."""
MIGRATIONS: Mapping[str, tuple[str, ...]] = {"2": ()}
"""Statements, for SQLite and PostgreSQL, that make the next layout of one."""


def migrate(database: Database) -> None:
    """Bring a ledger of an older layout to the present one; one that has it stays as it is.

    Parameters
    ----------
    database : Database
        Place of the ledger.

    Raises
    ------
    LedgerError
        The layout is of a later version, or too old; nothing is changed.
    """
    with connect(database) as connection:
        query = text("SELECT value FROM covdp_meta WHERE name = 'format'")
        found = before = connection.scalar(query)  # again, as another process may have come first
        while found != LAYOUT:
            if found not in MIGRATIONS:
                raise LedgerError(
                    f"{database.place} has layout {before!r}, this version reads {LAYOUT!r} and "
                    f"migrates {', '.join(map(repr, MIGRATIONS))}; open it with the version that "
                    "wrote it"
                )
            for statement in MIGRATIONS[found]:
                connection.exec_driver_sql(statement)
            found = str(int(found) + 1)
        if found != before:
            connection.execute(update(META).where(META.c.name == "format").values(value=found))
