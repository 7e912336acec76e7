"""Members of add-ons in tests of the ground floor, which run without add-ons too."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

HERE = find_spec("covdp.addons") is not None
"""True if covdp has its add-ons."""


class Missing:
    """Stand-in for a member whose add-on is not there: the test that uses it is skipped."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __getattr__(self, name: str) -> Any:
        """Skip the test; pytest itself looks for marks and private names."""
        if name.startswith("_") or name == "pytestmark":
            raise AttributeError(name)
        pytest.skip(f"needs the add-on of {self._address}")

    def __call__(self, *_: object, **__: object) -> Any:
        """Skip the test."""
        pytest.skip(f"needs the add-on of {self._address}")

    def __or__(self, other: object) -> Any:
        """Return a type of annotations."""
        return Any

    __ror__ = __or__


def addon(address: str) -> Any:
    """Return a member of an add-on by its address, ``module:name`` or ``module``."""
    module, _, name = address.partition(":")
    if not HERE:
        return Missing(address)
    found = import_module(f"covdp.addons.{module}")
    return getattr(found, name) if name else found
