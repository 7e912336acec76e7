"""The tables of a ledger. Next: ``database.py``."""

from sqlalchemy import Column, Index, Integer, LargeBinary, MetaData, Table, Text

TABLES = MetaData()

meta = Table(
    "covdp_meta",
    TABLES,
    Column("name", Text, primary_key=True),  # "format", "key" of all HMACs, "seal" of the journal
    Column("value", Text, nullable=False),
)
journal = Table(
    "covdp_journal",
    TABLES,
    Column("number", Integer, primary_key=True, autoincrement=False),  # 1, 2, 3 …
    Column("event", Text, nullable=False),  # JSON
    Column("mac", Text, nullable=False),  # HMAC of the number, the event and the mac before
)
results = Table(
    "covdp_results",
    TABLES,
    Column("identity", Text, primary_key=True),  # as in the event of the charge
    Column("result", LargeBinary, nullable=False),  # its SHA-256 is in an event
)
claims = Table(
    "covdp_claims",
    TABLES,
    Column("scope", Integer, primary_key=True, autoincrement=False),  # row of the stream's charge
    Column("unit", LargeBinary, primary_key=True),  # HMAC of what the unit is known by
    Column("next", LargeBinary, nullable=False),  # the unit after it
    Column("night", Integer, nullable=False),  # row of the night in the journal
    Column("label", Text, nullable=False),  # its class
    Column("mac", LargeBinary, nullable=False),  # HMAC of all these
    Index("covdp_claims_night", "night"),
    sqlite_with_rowid=False,
)
