"""TOML that somebody wrote: read, or one line that says where it is wrong and quotes none of it.

Any file may be named as a config or a card, and what a run raises may be kept in logs.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from pipeline.errors import CovdpError

LARGEST = 1 << 20
"""Bytes; a file of settings has a few thousand."""


def read_toml(path: Path, fault: type[CovdpError], what: str) -> dict[str, Any]:
    """Return the keys of a TOML file, or raise `fault`; `what` says what the file should be."""
    try:
        if path.exists() and not path.is_file():
            raise fault(f"{path} is no file, so no {what}; give the path of a TOML file")
        with path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except OSError as error:
        raise fault(f"cannot read the {what} {path} ({error.strerror}); check its path") from error
    if len(content) > LARGEST:
        raise fault(f"{path} has more than {LARGEST} bytes, so it is no {what}; check its path")
    place = ""
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        place = "it is not UTF-8"
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at (line \d+, column \d+|end of document)\)$", str(error))
        place = f"at {found[1]}" if found else "see https://toml.io"
    except (ValueError, RecursionError):  # a number of thousands of digits, brackets in brackets
        place = "no settings are as long or as deep"
    raise fault(f"the {what} {path} is not valid TOML: {place}")  # outside: no cause to quote
