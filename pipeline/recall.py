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
        """Return the result of a function, of its arguments and last its keywords.

        Parameters
        ----------
        function : callable
            Pure function.
        arguments : tuple of object
            Positional arguments, and a dict of keywords last.
        """


RECORDER: ContextVar[Recorder | None] = ContextVar("RECORDER", default=None)
"""Recorder of this context, if there is one."""


def repeatable(function: Function) -> Function:
    """Let a pure function give again what it gave, while a recorder is set.

    What it returns is a function of its arguments alone, and nobody writes into either.

    Parameters
    ----------
    function : callable
        Pure function: its result depends on its arguments alone.

    Returns
    -------
    callable
        Function with the same arguments.
    """

    @wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        recorder = RECORDER.get()
        if recorder is None:
            return fixed(function(*arguments, **keywords))
        return recorder.call(function, (*arguments, keywords))

    return cast(Function, called)


def fixed(result: Any) -> Any:
    """Return the result of a function; the arrays that it consists of may not be written into.

    Parameters
    ----------
    result : object
        Array, tuple of arrays, or object with arrays as attributes.
    """
    parts = result if isinstance(result, tuple) else getattr(result, "__dict__", {}).values()
    for part in (result, *parts):
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
    return result
