"""Patterns: where the files of a class lie, and what of a path names the person and the date.

A pattern is a path that goes down from the dataset's folder. ``*`` is any run of characters in one
name, ``?`` one character, ``[ab]`` one of these, ``**`` any number of folders. ``{class}`` and
``{split}`` stand for the names of the card, ``{person}`` and ``{date}`` for what a path says:

    {person}   the run of characters up to the first that the pattern goes on with, or to the end of
               the name: of ``{person}-*.png`` in ``17-3-1.png`` it is 17
    {date}     YYYY-MM-DD or YYYYMMDD

So that a path can be read in one way only, ``*`` before either of them in the same name is such a
run too. A file that fits the pattern with ``*`` in their places, but not so, is refused: it must
neither be passed by nor go to a wrong person.
"""

import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from glob import has_magic
from typing import NamedTuple

from pipeline.datasets.cards import goes_down
from pipeline.errors import ImageError

NAMES = ("class", "split", "person", "date")

LONGEST = 4096
"""Letters of a pattern; a path has no more bytes."""

_TOKEN = re.compile(r"\{[^{}/]*\}|\*\*|[*?]|\[!?\]?[^\]]*\]|.", re.DOTALL)

_READ = ("{person}", "{date}")

_DATE = "(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8})"


class Whose(NamedTuple):
    """What a path says: a person or "", a day or None."""

    person: str = ""
    day: date | None = None


@dataclass(frozen=True)
class Pattern:
    """One pattern with its classes and splits filled in.

    Attributes
    ----------
    parts : tuple of str
        The names on the way down, with ``{person}`` and ``{date}`` as they stand.
    """

    parts: tuple[str, ...]

    @property
    def descends(self) -> bool:
        """Whether it finds files in folders of any depth."""
        return "**" in self.parts

    @cached_property
    def names(self) -> tuple[Callable[[str], object] | str | None, ...]:
        """For each part what a name must be: a test, the name itself, or None for ``**``."""
        return tuple(None if part == "**" else _test(part) for part in self.parts)

    def read(self, path: str, where: str) -> Whose:
        """Return what a relative path says of person and date.

        Raises
        ------
        ImageError
            When it does not say what the pattern asks for; `where` names the file.
        """
        if self._reading is None:
            return Whose()
        match = self._reading.fullmatch(path)
        said = match.groupdict() if match else {}
        person = said.get("person", "")
        day = _day(said["date"]) if "date" in said else None
        asked = self._reading.groupindex
        if match is None or ("person" in asked and not person.strip()):
            wanted = " and ".join("{" + name + "}" for name in asked)
            raise ImageError(
                f"{where} does not say {wanted} as '{'/'.join(self.parts)}' asks; rename it, "
                "correct pattern in the card, or leave it out with exclude"
            )
        if "date" in asked and day is None:
            raise ImageError(
                f"{where} names a day that no calendar has; rename it, or leave it out with exclude"
            )
        return Whose(person, day)

    def letters(self, path: str) -> dict[str, str]:
        """Return the letters in which a relative path names person and date, where it does.

        And the folders that ``**`` stands for.
        """
        match = self._reading.fullmatch(path) if self._reading else None
        named = match.groupdict() if match else {}
        if self.descends:
            before = self.parts.index("**")
            named["**"] = "/".join(path.split("/")[before : before + 1 - len(self.parts)])
        return named

    @cached_property
    def _reading(self) -> re.Pattern[str] | None:
        """The expression that reads person and date from a path, None where there are none."""
        if not any(name in part for part in self.parts for name in _READ):
            return None
        above = "".join(
            "(?:[^/]+/)*" if p == "**" else _expression(p) + "/" for p in self.parts[:-1]
        )
        return re.compile(above + _expression(self.parts[-1]), re.DOTALL)


def fill(pattern: str, named: Mapping[str, str]) -> Pattern:
    """Return a card's pattern for one class and split, whatever letters their names have."""

    def filled(match: re.Match[str]) -> str:
        return re.sub(r"[*?\[{]", r"[\g<0>]", named.get(match[1], "")) or match[0]

    text = re.sub(r"\{([^{}/]*)\}", filled, pattern)
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    return Pattern((*parts, "*") if parts[-1] == "**" else parts)


def check_masks(masks: str, pattern: str, *, shared: bool = False) -> None:
    """Raise `ValueError` unless a card's `masks` lead from each image to a file of its own.

    Or to one of several images, where masks may be `shared`.
    """
    named = set(re.findall(r"\{[^{}/]*\}", masks))
    stars, deep = masks.replace("**", "").count("*"), masks.count("**")
    if stars > 1 or stars < (not shared) or re.search(r"[?\[]", masks) or not goes_down(masks):
        raise ValueError(
            f"masks must be relative, without '..', with {'at most ' * shared}one * for the name "
            f"of the image without its end, as in 'masks/{{class}}/*.png', found {masks!r}"
        )
    if deep > 1 or (deep and pattern.split("/").count("**") != 1):
        raise ValueError(
            "** in masks stands for the folders that ** in pattern stands for, which needs one in "
            f"each, found {masks!r} and {pattern!r}"
        )
    if strange := sorted(named - {"{class}", "{split}"} - set(re.findall(r"\{[^{}/]*\}", pattern))):
        raise ValueError(f"masks may name what pattern names, found {strange[0]} in {masks!r}")


def stem_of(file: str) -> str:
    """Return the name of a file without its end; what has no letter is none, as in 1.2.840.17."""
    return re.sub(r"(\.nii\.gz|\.[^.]*[^\W\d_][^.]*)$", "", file, flags=re.IGNORECASE)


def mask_of(masks: str, relative: str, names: Mapping[str, str]) -> str:
    """Return the path of an image's mask, from that of the image and what its path names."""
    named, below = {"*": stem_of(relative.rpartition("/")[2])}, names.get("**", "")
    named |= {"**": below, "**/": f"{below}/" if below else ""}
    named |= {"{" + name + "}": text for name, text in names.items()}
    return re.sub(r"\*\*/?|\*|\{[^{}/]*\}", lambda match: named.get(match[0], match[0]), masks)


def check_pattern(pattern: str) -> None:
    """Raise `ValueError` unless a pattern goes down, knows its names and reads in one way."""
    if len(pattern) > LONGEST:
        raise ValueError(f"pattern must have up to {LONGEST:,} letters, found {len(pattern):,}")
    if "{class}" not in pattern or not goes_down(pattern):
        raise ValueError(
            "pattern must be relative, without '..', and contain {class}, as in "
            f"'{{class}}/*.png', found {pattern!r}"
        )
    parts = pattern.split("/")
    if any("**" in part and part != "**" for part in parts):
        raise ValueError("'**' in pattern must be a folder of its own, as in '{class}/**/*'")
    for name in re.findall(r"\{([^{}/]*)\}", pattern):
        if name not in NAMES:
            names = ", ".join("{" + each + "}" for each in NAMES)
            raise ValueError(f"{{{name}}} in pattern is not known; it may name {names}")
    for name in _READ:
        if pattern.count(name) > 1:
            raise ValueError(f"pattern may name {name} once, found {pattern!r}; put * elsewhere")
        if name in pattern and parts.count("**") > 1:
            raise ValueError(f"pattern may have one '**' where it names {name}, found {pattern!r}")
    for part in parts:
        expression = _expression(part)
        try:
            re.compile(expression)
        except re.error as error:
            raise ValueError(f"{part!r} in pattern cannot be read: {error}") from None


def _test(part: str) -> Callable[[str], object] | str:
    """Return the name that a part is, or the test of it."""
    loose = part.replace("{person}", "*").replace("{date}", "*")
    return re.compile(fnmatch.translate(loose)).match if has_magic(loose) else loose


def _expression(part: str) -> str:
    """Return the regular expression of one part; a `ValueError` where it reads in several ways."""
    tokens = _TOKEN.findall(part)
    last = max((place for place, token in enumerate(tokens) if token in _READ), default=-1)
    stars, within, pieces = tokens[last + 1 :].count("*"), False, []
    for place, token in enumerate(tokens):
        if token in ("{person}", "*") and place <= last:
            text = _fixed(tokens[place + 1 :])
            run = f"(?!{text})[^/]" if text else "[^/]"
            if place + 1 < len(tokens) and not text:
                raise ValueError(
                    f"{token} in pattern must be followed by fixed text or the end of the name, so "
                    f"that it is read in one way only, found {part!r}"
                )
            pieces.append(f"(?P<person>(?:{run})+)" if token == "{person}" else f"(?:{run})*")
        elif token == "{date}":
            pieces.append(_DATE)
        elif token == "*":
            # with what follows up to the next *, it ends where that fits first: a later place
            # leaves less to the rest, so none is tried, and time grows with the name alone
            stars -= 1
            pieces.append(")" * within + ("(?>[^/]*?" if stars else "[^/]*"))
            within = stars > 0
        else:
            pieces.append(_plain(token))
    return "".join(pieces)


def _plain(token: str) -> str:
    """Return the expression of one token that names nothing."""
    if token == "?":
        return "[^/]"
    if len(token) > 2 and token.startswith("["):
        inside = re.sub(r"[\\\[^&~|]", r"\\\g<0>", token[1:-1])
        return f"(?!/)[{'^' + inside[1:] if inside.startswith('!') else inside}]"
    return re.escape(token)


def _fixed(tokens: list[str]) -> str:
    """Return the expression of the fixed text with which tokens begin."""
    text = ""
    for token in tokens:
        if re.fullmatch(r"\[[*?\[{]\]", token):
            text += re.escape(token[1])
        elif len(token) == 1 and token not in "*?":
            text += re.escape(token)
        else:
            break
    return text


def _day(text: str) -> date | None:
    """Return a day, or None where no calendar has it."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
