"""Standard streams in any encoding: what cannot be encoded is written in words or as its code.

A pipe or a file has cp1252 on many systems, and ASCII in a container without a locale. There the
signs of our own texts are words, as `WORDS` has them; letters of names have their code after a
backslash, since another letter would be another name. A stream that takes nothing, of a reader that
is gone or a disk that is full, never decides how a command ends that has done its work.
"""

import codecs
import os
import re
import sys
import unicodedata
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO

from covdp.errors import one_line, printable

IN_WORDS = "covdp-words"
"""Name of the error handler of encodings; see `spell`."""
WORDS = {
    "ε": "eps", "λ": "lambda", "µ": "mu", "√": "sqrt", "≤": "<=", "≥": ">=", "≈": "~", "∝": "~",
    "±": "+-", "−": "-", "–": "-", "—": "-", "×": "x", "·": "*", "…": "...", "→": "->", "←": "<-",
    "↦": "->", "►": ">", "◄": "<", "▲": "^", "‖": "||", "∥": "||", "∞": "inf", "∈": "in",
    "∫": "integral", "⟨": "<", "⟩": ">", "⌊": "floor(", "⌋": ")", "⌈": "ceil(", "⌉": ")",
    "°": " degrees", "⁄": "/", "′": "'", "″": '"', "“": '"', "”": '"', "‘": "'", "’": "'",
    "ℓ": "l", "⪰": ">=", "≼": "<=", "≫": ">>", "≅": "=", "□": "[]", "✓": "+", "✗": "x", "○": "o",
    "•": "*", "‑": "-",
}  # fmt: skip
"""Words of the signs whose name in Unicode does not say it."""
SCRIPTS = (("^", "<super> "), ("_", "<sub> "))
"""Sign before raised and lowered letters, and the mark of their decomposition."""


def open_streams() -> None:
    """Have standard output and standard error take every text; a missing one goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # where a service has none, no file may take its place
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif not takes_unicode(stream := getattr(sys, name)):
            stream.reconfigure(errors=IN_WORDS)


def takes_unicode(stream: TextIO) -> bool:
    """Return whether a stream has an encoding of all letters; one without any holds them itself.

    Parameters
    ----------
    stream : TextIO
        Open stream of text.
    """
    return (stream.encoding or "utf").lower().startswith("utf")


def spell(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of letters that cannot be encoded, and where they end.

    Parameters
    ----------
    error : UnicodeError
        Error that tells the text, and the letters that cannot be encoded.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    for sign, kind in SCRIPTS:
        one = "|".join(x for x in set(text) if unicodedata.decomposition(x).startswith(kind))
        if one:
            text = re.sub(f"(?:{one})+", partial(_script, sign), text)
    return "".join(map(_word, text)), error.end


def _script(sign: str, run: re.Match[str]) -> str:
    """Return raised or lowered letters as plain ones after a sign; a minus among them stays one."""
    return sign + _plain(run[0]).translate({ord("−"): "-"})


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKD", text)


def _word(letter: str) -> str:
    """Return one letter in ASCII: a word, or its code with a backslash."""
    name = unicodedata.name(letter, "")
    if letter in WORDS:
        return WORDS[letter]
    if match := re.fullmatch("GREEK (SMALL|CAPITAL) LETTER ([A-Z]+)", name):
        return match[2].lower() if match[1] == "SMALL" else match[2].capitalize()
    if name.startswith("BOX DRAWINGS"):
        ways = name.split(" ", 2)[2].split()
        across, along = "HORIZONTAL" in ways, "VERTICAL" in ways
        return "+" if across == along else "-" if across else "|"
    if name.startswith("BRAILLE PATTERN"):  # the spinner of a bar
        return "*"
    if name.startswith("VULGAR FRACTION"):
        return "".join(map(_word, _plain(letter)))
    return letter if letter.isascii() else letter.encode("ascii", "backslashreplace").decode()


codecs.register_error(IN_WORDS, spell)


def complain(about: BaseException | str) -> None:
    """Print a fault on standard error, if somebody still reads it.

    Parameters
    ----------
    about : BaseException or str
        Error, or the text of a fault.
    """
    with suppress(OSError):
        text = printable(about, lines=False) if isinstance(about, str) else one_line(about)
        print(f"covdp: {text}", file=sys.stderr, flush=True)


def settle_streams(probe: str = "") -> list[str]:
    """Flush both streams after a probe; return the names of those that take nothing.

    They go nowhere from here on, or Python would try once more at its end, and end with an exit
    code of its own. A write that fails may leave nothing to flush, so then it takes a probe.

    Parameters
    ----------
    probe : str
        Text that is written to the first stream before it is flushed.

    Returns
    -------
    list of str
        Names of streams that take nothing.
    """
    names = list[str]()
    for name in ("standard output", "standard error"):
        stream = sys.stdout if name == "standard output" else sys.stderr
        try:
            stream.write(probe * (not names))
            stream.flush()
        except OSError:
            names.append(name)
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return names
