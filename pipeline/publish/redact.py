"""Redaction: words of failures over private images, and what decoders print, are not stated.

What card and settings decide is stated when it is wrong. What the files decide, down to their names
and all that an image may make a library say or raise, is not.

Decoders in C (libjpeg, libpng, libtiff) write to file descriptor 2 past Python; Python's own
warnings and logs may quote a value or a file's name. All three are of the process, not of a thread:
the first who enters `silence` puts them off, the last who leaves puts them on again.
"""

import logging
import os
import shlex
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from covdp.errors import (
    CovdpError,
    DatasetError,
    EmptyError,
    LedgerError,
    OutputError,
    PrivacyError,
)

P = ParamSpec("P")
T = TypeVar("T")

PUBLIC = (EmptyError, LedgerError, OutputError)
"""Errors over images whose words are public: no image is there, the ledger refuses, a disk is full.
"""


def redact_errors(
    work: Callable[[], T], error: CovdpError, *, public: tuple[type[CovdpError], ...] = ()
) -> T:
    """Return what `work` gives; where it fails, raise `error`, but for errors that are `public`.

    It takes a function and is no context manager, since what a context manager raises holds the
    cause as its context.

    Parameters
    ----------
    work : callable
        Function over private images.
    error : CovdpError
        Error that is raised in place of any other.
    public : tuple of type
        Classes of errors that pass, as they tell nothing of an image.
    """
    try:
        return work()
    except (KeyboardInterrupt, SystemExit):
        raise
    except public:
        raise
    except BaseException:  # a panic of a library in Rust is no Exception
        failure = error
    raise failure  # outside the handler, so that not even a traceback holds the cause


def redact_images(
    config: Path | None, work: Callable[P, T], /, *args: P.args, **named: P.kwargs
) -> T:
    """Return the result of `work` on the images of the release in the file `config`.

    Parameters
    ----------
    config : Path or None
        File of the release; None of one without.
    work : callable
        Function over private images.
    *args : object
        Arguments of `work`.
    **named : object
        Named arguments of `work`.
    """
    return redact_errors(partial(work, *args, **named), images_error(config), public=PUBLIC)


def images_error(config: Path | None) -> DatasetError:
    """Return the one refusal over private images; it names no image, no class and no number.

    Parameters
    ----------
    config : Path or None
        File of the release; None of one without.
    """
    command = shlex.join(["covdp", "check", "--config", str(config or "FILE")])
    return DatasetError(
        "not all images are as the card says; which one and why is withheld, and "
        f"`{command}` shows it to you alone. Nothing was charged"
    )


def draw_error() -> PrivacyError:
    """Return what is stated where noise is drawn and something fails."""
    return PrivacyError(
        "the private part of the release failed; the reason is withheld because it may depend "
        "on an image. The charge stays and pays for the next attempt with the same run key; "
        "try the same config on public images with `covdp run`"
    )


STDERR = 2
_SILENCE_LOCK = threading.Lock()
_INSIDE: list[ExitStack] = []
"""Stack of active `silence` blocks; output is restored when the last one exits."""


@contextmanager
def silence() -> Iterator[None]:
    """Let nothing reach standard error, the warnings or the logs in the block, from any thread."""
    with _SILENCE_LOCK:
        _INSIDE.append(_INSIDE[0] if _INSIDE else _put_off())
    try:
        yield
    finally:
        with _SILENCE_LOCK:
            last = _INSIDE.pop()
            if not _INSIDE:
                last.close()


def _put_off() -> ExitStack:
    with ExitStack() as stack:
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        stack.enter_context(_descriptor_into_nothing())
        undo = stack.pop_all()
    return undo


@contextmanager
def _descriptor_into_nothing() -> Iterator[None]:
    """Point file descriptor 2 to the null device; one that is closed is closed again."""
    _flush()
    original: int | None = None
    with suppress(OSError):  # a service may run without
        original = os.dup(STDERR)
    nothing = os.open(os.devnull, os.O_WRONLY)
    if nothing != STDERR:
        os.dup2(nothing, STDERR)
        os.close(nothing)
    try:
        yield
    finally:
        _flush()  # what is still held back was printed inside
        if original is None:
            os.close(STDERR)
        else:
            os.dup2(original, STDERR)
            os.close(original)


def _flush() -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # closed
            sys.stderr.flush()
