"""The tables of a ledger. Next: ``database.py``."""

from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table, Text

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
