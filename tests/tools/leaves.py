"""Commands that a test runs for what they print."""

from covdp.cli import app

LEAVES = [
    *([name] for name in app if not name.startswith("-") and name != "ledger"),
    *(["ledger", name] for name in app["ledger"] if not name.startswith("-")),
]
