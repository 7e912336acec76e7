"""Commands that a test runs for what they print."""

from covdp.cli import app

BOOKS = [name for name in ("ledger", "join") if name in app]
"""Names that several commands stand below."""
LEAVES = [
    *([name] for name in app if not name.startswith("-") and name not in BOOKS),
    *([book, name] for book in BOOKS for name in app[book] if not name.startswith("-")),
]
