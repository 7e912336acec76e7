"""What Prefect does not hear: words about a file, which may name one, reach the terminal alone.

Prefect keeps what a task raises, and what a flow does. So a task returns such words, and what stops
the flow says nothing; who started it, on the same machine, has the words again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

from pipeline import errors

P = ParamSpec("P")
R = TypeVar("R")


class Refusal(NamedTuple):
    """What went wrong in a task: the kind of error, and its words."""

    kind: str
    words: str


class WithheldError(errors.ImageError):
    """What stops a flow in place of a refusal; `told` has its words."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(
            "the images are not all as their card says; which one and why is withheld, as it would "
            "stay in logs; the terminal says it, and so does `covdp describe --dataset CARD "
            "--store DIR --check`"
        )
        self.refusal = refusal


def refusing(
    work: Callable[P, R], kinds: type[errors.CovdpError] = errors.ImageError
) -> Callable[P, R | Refusal]:
    """Return `work` as a task does it: errors of some kind are returned, not raised."""

    @wraps(work)
    def done(*arguments: P.args, **options: P.kwargs) -> R | Refusal:
        try:
            return work(*arguments, **options)
        except kinds as error:
            return Refusal(type(error).__name__, str(error))

    return done


def accepted(found: R | Refusal) -> R:
    """Return what a task gave, or raise that it refused, without its words."""
    if isinstance(found, Refusal):
        raise WithheldError(found)
    return found


def words_of(error: errors.CovdpError) -> str:
    """Return the words of an error for the terminal."""
    return error.refusal.words if isinstance(error, WithheldError) else str(error)


@contextmanager
def told() -> Iterator[None]:
    """Raise what a flow in the block withholds with its words, outside of Prefect."""
    refusal = None
    try:
        yield
    except WithheldError as error:
        refusal = error.refusal
    if refusal is not None:
        raise getattr(errors, refusal.kind)(refusal.words)
