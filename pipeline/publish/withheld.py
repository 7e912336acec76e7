"""What is not said: the words of failures over private images, which stay in logs.

What card and settings decide is told when it is wrong. What the files decide, down to their names
and all that an image may make a library say or raise, is not.
"""

from collections.abc import Callable
from typing import TypeVar

from pipeline.errors import DatasetError, LedgerError, MismatchError, OutputError, PrivacyError
from pipeline.publish.config import ReleaseConfig

T = TypeVar("T")


def unless_told(config: ReleaseConfig, work: Callable[[], T]) -> T:
    """Return what `work` gives; its failures lose their words but for those of public things."""
    try:
        return work()
    except (MismatchError, LedgerError, OutputError):  # a full disk is no image's fault
        raise
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of a library in Rust is no Exception
        failure = withheld(config)
    raise failure  # outside the handler, so that not even a traceback holds the cause


def withheld(config: ReleaseConfig) -> DatasetError:
    """Return what is said of images that are not as they should be."""
    return DatasetError(
        f"the images of {config.dataset} are not all as its card says; which one and why is "
        "withheld, as it would stay in logs; `covdp describe --dataset CARD --store DIR --check` "
        "shows it to you. Nothing was charged"
    )


def withheld_if_it_fails(draw: Callable[[], bytes]) -> bytes:
    """Return the document; any failure in here loses its words, which might tell of an image."""
    try:
        content = draw()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        content = None
    if content is None:  # outside the handler, so that not even a traceback holds the cause
        raise PrivacyError(
            "the private part of the release failed; the reason is withheld because it may depend "
            "on an image. The charge stays and pays for the next attempt with the same run key; "
            "try the same config on public images with `covdp run`"
        )
    return content
