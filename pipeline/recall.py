"""Pure functions whose results may be recorded, and given again for the same arguments.

An audit replays a transcript on a neighbouring data set (`covdp.addons.audit.calls`), where these
have the same arguments again. Everywhere else they are computed.
"""

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])


class Recorder(Protocol):
    """Memory of calls."""

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return what a function gives, of its arguments and last its keywords."""


RECORDER: ContextVar[Recorder | None] = ContextVar("RECORDER", default=None)
"""Recorder of this context, if there is one."""


def repeatable(function: Function) -> Function:
    """Let a pure function give again what it gave, while a recorder is set.

    What it returns is a function of its arguments alone, and nobody writes into either.
    """

    @wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        recorder = RECORDER.get()
        if recorder is None:
            return fixed(function(*arguments, **keywords))
        return recorder.call(function, (*arguments, keywords))

    return cast(Function, called)


def fixed(result: Any) -> Any:
    """Return what a function gave; the arrays that it consists of may not be written into."""
    parts = result if isinstance(result, tuple) else getattr(result, "__dict__", {}).values()
    for part in (result, *parts):
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
    return result
