"""Budgets, times and the key as text in the tables, and back to the last bit."""

import json
from dataclasses import asdict
from datetime import UTC, datetime

from pipeline.errors import LedgerError
from pipeline.privacy.definitions import DEFINITIONS, Budget


def damaged(what: str) -> LedgerError:
    """Return the error for a field that cannot be what the ledger wrote."""
    return LedgerError(f"the ledger is damaged: {what} cannot be read; restore it from a backup")


def budget_text(budget: Budget) -> str:
    """Return `budget` as JSON."""
    return json.dumps({"definition": budget.name, **asdict(budget)})


def read_budget(text: str) -> Budget:
    """Return the budget that `budget_text` wrote."""
    try:
        fields = json.loads(text)
        return DEFINITIONS[fields.pop("definition")](**fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise damaged("a budget") from None


def now() -> str:
    """Return the time in UTC, to the second; for people to read, nothing is decided by it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_time(text: str) -> datetime:
    """Return the time that `now` wrote, in UTC."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, TypeError):
        raise damaged("a time") from None


def read_key(text: str | None) -> bytes:
    """Return the 32 bytes of the key."""
    try:
        key = bytes.fromhex(text or "")
    except ValueError:
        key = b""
    if len(key) != 32:
        raise damaged("its key")
    return key
