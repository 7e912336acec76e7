"""Names of populations and runs: what is easily taken for another name is refused.

Rule: a name is one line of ASCII characters, and of letters with their marks that compatibility
forms (NFKC) leave as they are; its letters are of one alphabet, beside which East Asian scripts may
stand. So zero-width and directional characters, blanks and dashes that are not the ASCII ones,
full-width letters, and a Cyrillic а among Latin letters are refused. Blanks around a name are
dropped, and the rest is composed (NFC).
"""

import re
import unicodedata
from collections.abc import Iterable

from pipeline.errors import LedgerError

LONGEST = 100
"""Most bytes of a run key in UTF-8: a file's name may have 255, with what is put around the key."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
"""Marks and letters that may show nothing; all others of that kind are unprintable or not NFKC."""
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "BOPOMOFO", "HANGUL"})
"""Scripts that may stand beside any alphabet."""
_DEVICE = re.compile(r"(?i:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:[. ].*)?")


def clean_name(what: str, value: str) -> str:
    """Return `value` without blanks around it, in NFC, or raise `LedgerError` by the rule above.

    Parameters
    ----------
    what : str
        What is named, for the message.
    value : str
        The name as it was typed.
    """
    fault = None
    name = unicodedata.normalize("NFC", value).strip() if isinstance(value, str) else ""
    if not name or not name.isprintable():
        fault = "must be text on one line without invisible characters"
    elif odd := next((letter for letter in name if not _plain(letter)), None):
        fault = f"takes letters and ASCII characters, not {odd!a}"
    elif len(_alphabets(name) - _EAST_ASIAN) > 1:
        fault = "takes letters of one alphabet"
    if fault:
        raise LedgerError(f"a {what} {fault}, found {value!a:.60}; name it in plain letters")
    return name


def check_unlike(population: str, others: Iterable[str]) -> None:
    """Raise `LedgerError` when a new name is another's but for the case of letters or blanks."""
    for other in others:
        if _spelt(other) == _spelt(population):
            raise LedgerError(
                f"the population {population!r} is easily taken for {other!r}, which has an "
                "account; use that one, or a name that differs in more than case and blanks"
            )


def clean_run_key(value: str) -> str:
    """Return a run key as `clean_name` does, or raise `LedgerError` when no file can have it."""
    key = clean_name("run key", value)
    size = len(key.encode())
    fault = None
    if size > LONGEST:
        fault = f"has at most {LONGEST} bytes in UTF-8, found {size}"
    elif re.search(r"[/\\]|\.\.", key) or key.endswith("."):
        fault = f"has no '/', '\\' or '..' and no dot at its end, found {key!r}"
    elif _DEVICE.fullmatch(key):
        fault = f"is not the name of a device on Windows, found {key!r}"
    if fault:
        raise LedgerError(f"a run key names files, so it {fault}; choose another")
    return key


def _spelt(name: str) -> str:
    return "".join(name.casefold().split())


def _plain(letter: str) -> bool:
    """Return whether a character is ASCII, or a letter or mark that stands for nothing else."""
    if letter.isascii():
        return True
    kind = unicodedata.category(letter)[0]
    stable = unicodedata.normalize("NFKC", letter) == letter
    return kind in "LM" and stable and not _UNSEEN.match(letter)


def _alphabets(name: str) -> set[str]:
    """Return the alphabets of the letters of a name, as Unicode calls them."""
    letters = [letter for letter in name if letter.isalpha()]
    return {unicodedata.name(letter, "NONE").split()[0] for letter in letters}
