"""Budgets, times and the key as JSON and text, and back to the last bit."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from pipeline.errors import LedgerError
from pipeline.privacy.definitions import DEFINITIONS, Budget


def damaged(fault: str) -> LedgerError:
    """Return the error for what cannot be what the ledger wrote."""
    return LedgerError(
        f"the ledger is damaged: {fault}; restore it from a backup, a new one forgets"
    )


def budget_fields(budget: Budget) -> dict[str, Any]:
    """Return `budget` as JSON values."""
    return {"definition": budget.name, **asdict(budget)}


def read_budget(fields: Mapping[str, Any]) -> Budget:
    """Return the budget that `budget_fields` wrote."""
    try:
        rest = dict(fields)
        return DEFINITIONS[rest.pop("definition")](**rest)
    except (ValueError, KeyError, TypeError, OverflowError):
        raise damaged("a budget cannot be read") from None


def unit_fields(group: int | None, classes: int) -> dict[str, Any]:
    """Return what a charge says of the unit it paid for.

    Versions that know images only read ``group``, and understand less protection, not more.
    """
    if group is not None:
        return {"group": group} if classes == 1 else {"group": group, "classes": classes}
    return {"group": 1, "unit": "person", "classes": classes}


def read_group(event: Mapping[str, Any]) -> int | None:
    """Return the most records of one person that a charge paid for; None for whole persons."""
    return None if event.get("unit") == "person" else int(event["group"])


def now() -> str:
    """Return the time in UTC, to the second; for people to read, nothing is decided by it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_time(text: str) -> datetime:
    """Return the time that `now` wrote, in UTC."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        raise damaged("a time cannot be read") from None


def read_key(text: object) -> bytes:
    """Return the 32 bytes of the key."""
    try:
        key = bytes.fromhex(str(text))
    except ValueError:
        key = b""
    if len(key) != 32 or key.hex() != text:
        raise damaged("its key cannot be read")
    return key
