"""What a piece of work does when it runs: where an object goes, which records it makes, its calls.

Python tells of every function that is called and left. Only what is in `pipeline` counts.
"""

import functools
import inspect
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from tests.tools.code import ROOT

Work = Callable[[], object]
DEPTH = 2
"""How deep an object may lie in what a function is given: in a record, in a record of that."""
LEAST = 5
"""Numbers of an array that are compared; fewer may be equal by chance."""


class Walk(NamedTuple):
    """The files through which an object went, in order, one for each stay."""

    stays: tuple[str, ...]

    @property
    def rooms(self) -> int:
        """How many files were entered."""
        return len(set(self.stays))

    @property
    def returns(self) -> int:
        """How often a file was entered that had been left."""
        return len(self.stays) - self.rooms


@contextmanager
def profiled(see: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Call `see` for each function that is called or left in the block, here or in a new thread."""
    before = sys.getprofile()
    threading.setprofile(see)
    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(before)


@dataclass
class SeenCall:
    """A call of a function that is watched: what it was given, by name, and what it returned."""

    given: dict[str, Any]
    result: Any = None


class Watcher:
    """Notes of the calls of functions, which run as they are: nothing is put in their place.

    Threads that were started before are not seen. Of a call that has not ended, or that raised, and
    of a generator the result is None.
    """

    def __init__(self) -> None:
        self._seen = dict[Any, list[SeenCall]]()
        self._open = dict[int, SeenCall]()
        self._begun = dict[int, FrameType]()

    def __call__(self, function: Any) -> list[SeenCall]:
        """Return the calls of a function from now on, a list that grows."""
        return self._seen.setdefault(inspect.unwrap(function).__code__, [])

    def see(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call, or its end."""
        if event == "call" and frame.f_code in self._seen:
            if frame.f_code.co_flags & inspect.CO_GENERATOR:
                if id(frame) not in self._begun:  # else it goes on
                    self._begun[id(frame)] = frame
                    self._seen[frame.f_code].append(SeenCall(dict(frame.f_locals)))
                return
            self._open[id(frame)] = call = SeenCall(dict(frame.f_locals))
            self._seen[frame.f_code].append(call)
        elif event == "return" and (ended := self._open.pop(id(frame), None)) is not None:
            ended.result = argument


def walk(work: Work, kind: type) -> Walk:
    """Follow the objects of a class: which files have functions that are given one.

    One is given itself, or in a record, a partial function or a closure that holds it; its own
    methods do not count.
    """
    entered = list[str]()

    def see(frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or frame.f_code.co_name.startswith("<"):
            return
        file = _relative(frame.f_code.co_filename)
        if not file:
            return
        given = frame.f_locals  # a copy, of functions of ours alone
        if isinstance(given.get("self"), kind):  # it stays where it is
            return
        if any(_holds(value, kind, DEPTH) for value in given.values()):
            entered.append(file)

    with profiled(see):
        work()
    return Walk(tuple(file for file, _ in groupby(entered)))


@functools.cache
def _relative(file: str) -> str:
    """Return the path of a file of ours below the repository; nothing of others."""
    path = Path(file)
    ours = path.is_relative_to(ROOT / "pipeline") or path.is_relative_to(ROOT / "flows")
    return path.relative_to(ROOT).as_posix() if ours else ""


def _holds(value: object, kind: type, depth: int) -> bool:
    """Tell whether a value is of a class, or holds what is."""
    if isinstance(value, kind):
        return True
    if depth == 0 or isinstance(value, type):
        return False
    return any(_holds(part, kind, depth - 1) for part in _parts(value))


def _parts(value: Any) -> Iterator[object]:
    """Yield what a record, a tuple, a partial function or a closure holds."""
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, tuple):
        yield from value
    elif is_dataclass(value) or hasattr(type(value), "model_fields"):
        yield from vars(value).values() if hasattr(value, "__dict__") else ()
    elif getattr(value, "__closure__", None):
        for cell in value.__closure__:
            try:
                yield cell.cell_contents
            except ValueError:  # it is not set yet
                continue


def calls(work: Work, *functions: Any, text: str = "") -> list[int]:
    """Count the calls of some functions, of those that are given a text with `text`."""
    called = dict.fromkeys((function.__code__ for function in functions), 0)

    def see(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code in called:
            given = [value for value in frame.f_locals.values() if isinstance(value, str)]
            called[frame.f_code] += not text or any(text in value for value in given)

    with profiled(see):
        work()
    return list(called.values())


def records_made(work: Callable[[Callable[[], None]], object]) -> list[str]:
    """Return the record types that hand the same values on, in the order they are first made.

    `work` is given a function to call when counting begins. A type counts when it is made from then
    on and holds an array, or a record, that one of another type holds as well.
    """
    made, counting = list[Any](), False

    def see(frame: FrameType, event: str, argument: object) -> None:
        if not counting or event != "return":
            return
        code, record = frame.f_code, None
        if code.co_name == "__init__" and code.co_filename == "<string>":  # of a dataclass
            record = frame.f_locals.get("self")
        elif "_cls" in code.co_varnames:  # of a named tuple
            record = argument
        if record is not None and type(record).__module__.startswith("covdp."):
            made.append(record)

    def begin() -> None:
        nonlocal counting
        counting = True

    with profiled(see):
        work(begin)
    holders = defaultdict[object, set[str]](set)
    for record in made:
        for value in _values(record):
            holders[value].add(f"{type(record).__module__}.{type(record).__name__}")
    shared = set[str]().union(*(names for names in holders.values() if len(names) > 1))
    order = [f"{type(record).__module__}.{type(record).__name__}" for record in made]
    return [name for name in dict.fromkeys(order) if name in shared]


def _values(record: Any) -> Iterator[object]:
    """Yield what tells the arrays and the records that one holds."""
    held = (
        record if isinstance(record, tuple) else [getattr(record, f.name) for f in fields(record)]
    )
    for value in held:
        if isinstance(value, np.ndarray) and value.size >= LEAST:
            yield value.tobytes()
        elif isinstance(value, tuple) or is_dataclass(value):
            if type(value).__module__.startswith("covdp."):
                yield id(value)
            yield from _values(value)
