"""The tables of a ledger. Budgets are JSON, times ISO 8601 in UTC. Next: ``database.py``."""

from sqlalchemy import Column, Double, Integer, LargeBinary, MetaData, Table, Text

TABLES = MetaData()

meta = Table(
    "covdp_meta",
    TABLES,
    Column("name", Text, primary_key=True),  # "format", and "key" of all HMACs
    Column("value", Text, nullable=False),
)
populations = Table(
    "covdp_populations",
    TABLES,
    Column("name", Text, primary_key=True),
    Column("budget", Text, nullable=False),
    Column("delta", Double, nullable=False),
    Column("created", Text, nullable=False),
)
contents = Table(
    "covdp_contents",
    TABLES,
    Column("digest", Text, primary_key=True),  # HMAC of the content of one class
    Column("population", Text, nullable=False),
)
releases = Table(
    "covdp_releases",
    TABLES,
    Column(
        "identity", Text, primary_key=True
    ),  # HMAC of population, query, run key, cost, contents
    Column("population", Text, nullable=False, index=True),
    Column("query", Text, nullable=False),
    Column("run_key", Text, nullable=False),
    Column("contents", Text, nullable=False),  # JSON: class → HMAC
    Column("cost", Text, nullable=False),
    Column("reserved", Text, nullable=False),
    Column("result", LargeBinary),  # this and the next two are empty until the commit
    Column("result_digest", Text),
    Column("committed", Text),
)
changes = Table(
    "covdp_changes",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("at", Text, nullable=False),
    Column("population", Text, nullable=False),
    Column("text", Text, nullable=False),
)
