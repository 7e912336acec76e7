"""Listing: the files of a folder that a pattern names, in order, links followed, none skipped.

Nothing outside the data root is read, and nothing but regular files. Files that cannot be used are
left out and added to a list of faults; a card may leave files out by a list of its own.

**Patterns** say where the files of a class are, and what of a path names the person and the date. A
pattern is a path that goes down from the dataset's folder. ``*`` is any run of characters in one
name, ``?`` one character, ``[ab]`` one of these, ``**`` any number of folders. ``{class}`` and
``{split}`` stand for the names of the card, ``{person}`` and ``{date}`` for what a path says:

    {person}   the run of characters up to the first that the pattern goes on with, or to the end of
               the name: of ``{person}-*.png`` in ``17-3-1.png`` it is 17
    {date}     YYYY-MM-DD or YYYYMMDD

So that a path can be read in one way only, ``*`` before either of them in the same name is such a
run too. A file that fits the pattern with ``*`` in their places, but not so, is refused: it must
neither be skipped nor go to a wrong person.

Accents may be written in two ways, é or e and ´, and systems differ in which: names are compared as
if all were written in one (NFC), and a path is followed as it is written on the disk.
"""

import errno
import itertools
import os
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from heapq import merge
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO, NamedTuple, TypeAlias

from covdp import files
from covdp.datasets.cards import goes_down
from covdp.errors import (
    SHORTAGES,
    CovdpError,
    DatasetError,
    ImageError,
    image_error,
    shortage,
)

PATTERN_NAMES = ("class", "split", "person", "date")

PATTERN_LETTERS = 4096
"""Letters of a pattern; a path has no more bytes."""

_TOKEN = re.compile(r"\{[^{}/]*\}|\*\*|[*?]|\[!?\]?[^\]]*\]|.", re.DOTALL)

_READ = ("{person}", "{date}")

_DATE = "(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8})"


def above_classes(folder: Path, pattern: str, key: str = "class") -> list[Path] | None:
    """Return the folders in which a pattern has one for each class; None where it has none.

    Parameters
    ----------
    folder : Path
        Folder of the dataset.
    pattern : str
        Pattern of the card.
    key : str
        Name of the part that stands for the class.
    """
    above, has_key, _ = f"/{pattern}".partition(f"/{{{key}}}/")
    if not has_key:
        return None
    above = re.sub(r"\{[a-z]+\}", "*", above).strip("/")
    return [place for place in folder.glob(above) if place.is_dir()] if above else [folder]


@dataclass(frozen=True)
class Pattern:
    """One pattern with its classes and splits filled in.

    Attributes
    ----------
    parts : tuple of str
        The names on the way down, with ``{person}`` and ``{date}`` as they stand.
    """

    parts: tuple[str, ...]

    @cached_property
    def steps(self) -> tuple[re.Pattern[str], ...]:
        """Patterns of a path down to each part, any run of characters for a person or a date."""
        loose = [part.replace("{person}", "*").replace("{date}", "*") for part in self.parts]
        return tuple(_down(loose[: end + 1]) for end in range(len(loose)))

    def read(self, path: str, where: str) -> tuple[str, date | None]:
        """Return the person and date that a relative path names, "" and None where it is not asked.

        Parameters
        ----------
        path : str
            Path relative to the folder of the pattern.
        where : str
            Name of the file, for the message.

        Raises
        ------
        ImageError
            When it does not say what the pattern asks for; `where` names the file.
        """
        asked = self._reading.groupindex
        said = self.letters(path) if asked else {}
        if not all(said.get(name, "").strip() for name in asked):
            wanted = " and ".join("{" + name + "}" for name in asked)
            raise image_error(
                f"{where} does not say {wanted} as '{'/'.join(self.parts)}' asks; rename it, "
                "correct pattern in the card"
            )
        day = day_of(said["date"]) if "date" in asked else None
        if "date" in asked and day is None:
            raise image_error(f"{where} names a day that no calendar has; rename it")
        return said.get("person", ""), day

    def letters(self, path: str) -> dict[str, str]:
        """Return the letters in which a relative path names person and date, where it does.

        And the folders that ``**`` stands for.

        Parameters
        ----------
        path : str
            Path relative to the folder of the pattern.
        """
        match = self._reading.fullmatch(composed(path))
        named = match.groupdict() if match else {}
        if "**" in self.parts:
            before = self.parts.index("**")
            named["**"] = "/".join(path.split("/")[before : before + 1 - len(self.parts)])
        return named

    @cached_property
    def _reading(self) -> re.Pattern[str]:
        """The expression that reads person and date from a path, where they are asked."""
        return _down(self.parts)


def composed(text: str) -> str:
    """Return a name with accents in one letter each (NFC).

    Parameters
    ----------
    text : str
        Name of a file.
    """
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def as_written(path: str) -> str:
    """Return an absolute path with the accents of each name as they are on the disk.

    It stays as it is from the first name on that is not there.

    Parameters
    ----------
    path : str
        Absolute path.
    """
    if path.isascii() or os.path.lexists(path):
        return path
    found, *names = Path(path).parts
    for name in names:
        ways = dict.fromkeys((name, composed(name), unicodedata.normalize("NFD", name)))
        there = (os.path.join(found, way) for way in ways)  # noqa: PTH118 (as `path`)
        found = next(filter(os.path.lexists, there), os.path.join(found, name))  # noqa: PTH118
    return found


def fill(pattern: str, named: Mapping[str, str]) -> Pattern:
    """Return a card's pattern for one class and split, whatever letters their names have.

    Parameters
    ----------
    pattern : str
        Pattern of the card.
    named : mapping of str to str
        Name of the class and of the split, by the part of the pattern.
    """

    def filled(match: re.Match[str]) -> str:
        return re.sub(r"[*?\[{]", r"[\g<0>]", named.get(match[1], "")) or match[0]

    text = composed(re.sub(r"\{([^{}/]*)\}", filled, pattern))
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    return Pattern((*parts, "*") if parts[-1] == "**" else parts)


def check_masks(masks: str, pattern: str, *, shared: bool = False) -> None:
    """Raise `ValueError` unless a card's `masks` lead from each image to a file of its own.

    Or to one of several images, where masks may be `shared`.

    Parameters
    ----------
    masks : str
        Key ``masks`` of the card.
    pattern : str
        Pattern of the card.
    shared : bool
        True if several images may have one mask.
    """
    named = set(re.findall(r"\{[^{}/]*\}", masks))
    stars, deep = masks.replace("**", "").count("*"), masks.count("**")
    if stars > 1 or stars < (not shared) or re.search(r"[?\[]", masks) or not goes_down(masks):
        raise ValueError(
            "masks must be relative, printable, without '..', with "
            f"{'at most ' * shared}one * for the name of the image without its end, as in "
            f"'masks/{{class}}/*.png', found {masks!r}"
        )
    if deep > 1 or (deep and pattern.split("/").count("**") != 1):
        raise ValueError(
            "** in masks stands for the folders that ** in pattern stands for, which needs one in "
            f"each, found {masks!r} and {pattern!r}"
        )
    if strange := sorted(named - {"{class}", "{split}"} - set(re.findall(r"\{[^{}/]*\}", pattern))):
        raise ValueError(f"masks may name what pattern names, found {strange[0]} in {masks!r}")


def stem_of(file: str) -> str:
    """Return the name of a file without its end; what has no letter is none, as in 1.2.840.17.

    Parameters
    ----------
    file : str
        Name of the file.
    """
    return re.sub(r"(\.nii\.gz|\.[^.]*[^\W\d_][^.]*)$", "", file, flags=re.IGNORECASE)


def mask_of(masks: str, relative: str, names: Mapping[str, str]) -> str:
    """Return the path of an image's mask, from that of the image and what its path names.

    Parameters
    ----------
    masks : str
        Key ``masks`` of the card.
    relative : str
        Path of the image relative to the folder.
    names : mapping of str to str
        Letters by name, as of `Pattern.letters`.
    """
    named, below = {"*": stem_of(relative.rpartition("/")[2])}, names.get("**", "")
    named |= {"**": below, "**/": f"{below}/" if below else ""}
    named |= {"{" + name + "}": text for name, text in names.items()}
    return re.sub(r"\*\*/?|\*|\{[^{}/]*\}", lambda match: named.get(match[0], match[0]), masks)


def check_pattern(pattern: str) -> None:
    """Raise `ValueError` unless a pattern goes down, knows its names and reads in one way.

    Parameters
    ----------
    pattern : str
        Pattern of the card.
    """
    if len(pattern) > PATTERN_LETTERS:
        raise ValueError(
            f"pattern must have up to {PATTERN_LETTERS:,} letters, found {len(pattern):,}"
        )
    if "{class}" not in pattern or not goes_down(pattern):
        raise ValueError(
            "pattern must be relative, printable, without '..', and contain {class}, as in "
            f"'{{class}}/*.png', found {pattern!r}"
        )
    parts = pattern.split("/")
    if any("**" in part and part != "**" for part in parts):
        raise ValueError("'**' in pattern must be a folder of its own, as in '{class}/**/*'")
    for name in re.findall(r"\{([^{}/]*)\}", pattern):
        if name not in PATTERN_NAMES:
            names = ", ".join("{" + each + "}" for each in PATTERN_NAMES)
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
            raise ValueError(f"{part!r} in pattern cannot be read: {error.msg}; mend it") from None


def _down(parts: Sequence[str]) -> re.Pattern[str]:
    """Return the expression of a path of some parts.

    After a folder that is a link the path may have two slashes: ``**`` is of no such folder.
    """
    *above, last = parts
    plain = "(?:[^/]+/(?!/))*"
    folders = (plain if part == "**" else _expression(part) + "//?(?!/)" for part in above)
    end = plain + "[^/]+" if last == "**" else _expression(last)
    return re.compile("".join(folders) + end, re.DOTALL)


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
    fixed = re.compile(r"[^*?]|\[[*?\[{]\]", re.DOTALL)
    letters = itertools.takewhile(fixed.fullmatch, tokens)
    return "".join(re.escape(token[1] if len(token) > 1 else token) for token in letters)


def day_of(text: str) -> date | None:
    """Return a day, or None where no calendar has it.

    Parameters
    ----------
    text : str
        Day as the path names it.
    """
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


class Fault(NamedTuple):
    """A file, or a row of a table, that cannot be used and is left out.

    Attributes
    ----------
    file : str
        Path of the file.
    error : DatasetError
        Reason and way out.
    listed : bool
        True if a list of exclusions can name it.
    raised : DatasetError, optional
        Error that is raised in place of this one, where it says the same of several files.
    """

    file: str
    error: DatasetError
    listed: bool = True
    raised: DatasetError | None = None


Faults: TypeAlias = list[Fault]
"""Faults so far, to which a function adds what it leaves out."""


def no_usable_file(errors: Mapping[str, DatasetError], faults: Faults) -> DatasetError:
    """Return the error to raise where no file can be used: that of the first.

    Parameters
    ----------
    errors : mapping of str to DatasetError
        Error of each file, by path.
    faults : Faults
        Faults found so far.
    """
    faults += [Fault(file, error) for file, error in errors.items()]
    return next(iter(errors.values()), ImageError("there is no image"))


MOVE = "move the images there, or name the folder they are in with --data-root or COVDP_DATA"


def require_inside(
    path: Path, root: Path, name: str, place: str = "the data root", way: str = MOVE
) -> Path:
    """Return `path` if it is in `root` after all symbolic links are followed, else raise.

    Parameters
    ----------
    path : Path
        Path to check.
    root : Path
        Folder that may not be left.
    name : str
        Name of the dataset, for the message.
    place : str
        Name of the folder `root`, for the message.
    way : str
        Way out, the last part of the message.
    """
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        raise DatasetError(f"the path of {name} leads out of {place} {root}; {way}")
    return path


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, without following a link.

    Parameters
    ----------
    path : Path
        Path of the file.

    Returns
    -------
    BinaryIO
        Opened file.

    Raises
    ------
    files.IrregularFileError
        For a pipe, a device, a socket or a folder, which are never opened, and for a link that
        leads to no file.
    OSError
        When the file cannot be opened.
    EOFError
        When it is empty.
    """
    stream = files.open_regular(path, links=False)
    if os.fstat(stream.fileno()).st_size:
        return stream
    stream.close()
    raise EOFError("it is empty")


def way_to(error: OSError) -> str:
    """Return the way out where a file cannot be opened.

    Parameters
    ----------
    error : OSError
        Error of the system.
    """
    return "bring it" if isinstance(error, FileNotFoundError) else "make it readable"


@contextmanager
def wrap_errors(
    file: Path | str, kind: str, way: str, error: Callable[[str], DatasetError] = image_error
) -> Iterator[None]:
    """Have whatever a damaged file makes its readers raise become one error.

    Parameters
    ----------
    file : Path or str
        The file, or what is read of it.
    kind : str
        Noun for a sound file: "NIfTI file".
    way : str
        The way out of a damaged one.
    error : callable
        Function of words that returns the error to raise; errors of covdp's own pass as they are.
    """
    try:
        yield
    except CovdpError:
        raise
    except Exception as caught:  # readers raise whatever they stumble over
        text = " ".join(str(caught).replace(str(file), "file").split())[:200]
        if isinstance(caught, OSError) and caught.errno:
            if caught.errno in SHORTAGES:
                raise shortage(f"cannot read {file}", caught.strerror) from caught
            text, way = str(caught.strerror), way_to(caught)
        if isinstance(caught, MemoryError):
            text, way = "it takes more memory than there is", f"{way}, read it with more memory"
        reason = f"is not a readable {kind} ({text or type(caught).__name__})"
        if isinstance(caught, files.IrregularFileError):
            reason, way = f"is not a file but {text}", "bring the file itself"
        raise error(f"{file} {reason}; {way}") from caught


MOST_ROWS = 1_000_000
"""Rows or images that any file may have; a file of more has a byte or more for each."""


def check_count(count: int, size: int, what: str, real: str) -> None:
    """Raise unless a file of `size` bytes may unpack to so many rows or images.

    Parameters
    ----------
    count : int
        Number of rows or images that the file claims.
    size : int
        Size of the file, in bytes.
    what : str
        Content that the file claims, for the message.
    real : str
        Plural noun for sound content, for the message.
    """
    if count > max(MOST_ROWS, size):
        raise DatasetError(
            f"{what} are more than the file has bytes ({size:,}), so it unpacks to nothing but "
            f"repeats; save {real}"
        )


LARGEST_LIST = 1 << 28
"""Bytes that such a list may have."""


def list_of_exclusions(listed: str, beside: Path | None, folder: Path) -> Path:
    """Return the file that `exclude` names: `beside` the card, or else in `folder`.

    Parameters
    ----------
    listed : str
        Key ``exclude`` of the card.
    beside : Path or None
        Folder of the card; None for a card that covdp ships.
    folder : Path
        Folder of the images.
    """
    for place in (beside, folder):
        if place is not None and os.path.lexists(place / listed):
            way = "put the list itself there"
            return require_inside(place / listed, place, f"exclude = {listed!r}", "the folder", way)
    return (beside or folder) / listed


def read_exclusions(
    listed: str | None, beside: Path | None, folder: Path, *, there: bool = True
) -> frozenset[str]:
    """Return the paths that the file `listed` names, relative to `folder`, with ``/``.

    The file is `beside` the card, or else in `folder`, which is that of the images. One path in
    each row, of files or of folders with all that is in them, in UTF-8; blank lines do not count.
    An image to which a link leads may be named by either path. Each must be `there`, unless the
    caller checks it.

    Parameters
    ----------
    listed : str or None
        Key ``exclude`` of the card; None where there is none.
    beside : Path or None
        Folder of the card; None for a card that covdp ships.
    folder : Path
        Folder of the images.
    there : bool
        True to refuse paths that are not there.

    Raises
    ------
    DatasetError
        When there is no such file, or it names what is not in the folder.
    """
    if listed is None:
        return frozenset()
    file = list_of_exclusions(listed, beside, folder)
    try:
        content = files.read_regular(file, LARGEST_LIST)
    except OSError as error:
        closed = isinstance(error, PermissionError)
        way = "make it readable" if closed else "put it there, beside the card"
        raise DatasetError(
            f"cannot read {file} ({error.strerror}), which exclude in the card names; {way}, or "
            "take the key out"
        ) from error
    if b"\0" in content:
        raise DatasetError(f"{file} must be text in UTF-8, found bytes of 0; save it so")
    lines = content.decode("utf-8-sig", errors="surrogateescape").replace("\r\n", "\n")
    rows = filter(str.strip, lines.split("\n"))
    paths = frozenset(composed(str(PurePosixPath(row))) for row in rows)
    if there:
        check_exclusions(file, folder, paths)
    return paths


def check_exclusions(file: Path, folder: Path, paths: Iterable[str]) -> None:
    """Raise unless each of the paths that a list names is there, and named as its files are.

    Parameters
    ----------
    file : Path
        Path of the list.
    folder : Path
        Folder of the images.
    paths : iterable of str
        Paths relative to the folder, with ``/``.
    """
    for path in sorted(paths):
        plain = path.strip("./") and os.path.relpath(folder / path, folder) == path
        if not plain or not os.path.lexists(as_written(f"{folder.absolute()}/{path}")):
            what = "is not in" if plain else "is no plain path from"
            raise ImageError(
                f"{file} leaves out {path!r}, which {what} {folder}; correct that path, "
                "or take it out"
            )


def is_excluded(skip: frozenset[str], relative: str, path: str, folder: Path) -> bool:
    """Return True if a file, or a folder that it is in, is named.

    By its path in the dataset, or by where links lead to.

    Parameters
    ----------
    skip : frozenset of str
        Paths to leave out.
    relative : str
        Path relative to the folder.
    path : str
        Absolute path to which links lead.
    folder : Path
        Folder of the images.
    """
    if not skip:
        return False
    real = PurePath(os.path.relpath(path, os.path.realpath(folder))).as_posix()
    return any(
        each in skip
        for name in {composed(relative), composed(real)}
        for each in (name, *map(str, PurePosixPath(name).parents[:-1]))
    )


PACKED = 64
"""Paths that are packed together: to look one up, so many are unpacked."""

DEEPEST = 100
"""Folders that may be nested below a dataset's; a path ends at 4,096 bytes."""

RUN = 1 << 16
"""Names of one folder that are sorted at a time: of more, sorted runs are packed, then merged."""


class FileEntry(NamedTuple):
    """One file, or whatever else a pattern names.

    Attributes
    ----------
    relative : str
        Its path from the dataset's folder, with ``/``.
    path : str
        Absolute path, every link on the way followed.
    folder : bool
        True for a folder, into which the pattern does not go.
    fault : ImageError, optional
        Reason why it cannot be used: it is a link that leads out of the data root.
    """

    relative: str
    path: str
    folder: bool
    fault: ImageError | None = None


@dataclass(frozen=True, eq=False)
class Paths(Sequence[str]):
    """Paths, packed a few at a time: a million need some megabytes, as they are similar.

    Attributes
    ----------
    blocks : tuple of bytes
        `PACKED` paths each, one after another; fewer in the last.
    total : int
        Number of paths.
    """

    blocks: tuple[bytes, ...]
    total: int

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[str]:
        return (path for block in self.blocks for path in _unpack(block))

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        block, place = divmod(range(self.total)[index], PACKED)  # negative ones, IndexError, too
        return _unpacked(self.blocks[block])[place]


def _unpack(block: bytes) -> tuple[str, ...]:
    return tuple(map(os.fsdecode, zlib.decompress(block).split(b"\0")))


_unpacked = lru_cache(maxsize=256)(_unpack)


def packed(paths: Iterable[str]) -> Paths:
    """Return paths as they are held.

    Parameters
    ----------
    paths : iterable of str
        Paths relative to one folder, with ``/``.
    """
    rest, blocks, total = iter(paths), list[bytes](), 0
    while few := list(itertools.islice(rest, PACKED)):
        blocks.append(zlib.compress(b"\0".join(map(os.fsencode, few)), 1))
        total += len(few)
    return Paths(tuple(blocks), total)


def find_files(folder: Path, pattern: Pattern, root: Path, faults: Faults) -> Iterator[FileEntry]:
    """Yield the files that `pattern` names in `folder`, ordered by path, but for hidden ones.

    A link to a file or, where the pattern names it, to a folder is followed, inside the data root
    alone; ``**`` follows none.

    Parameters
    ----------
    folder : Path
        Folder of the images.
    pattern : Pattern
        Pattern of the card.
    root : Path
        Data root.
    faults : Faults
        Faults found so far, to which others are added.

    Raises
    ------
    ImageError
        When the folder leads out of the data root by a link. To `faults` go folders on the way that
        cannot be listed, or lead there.
    """
    inside = os.path.realpath(root)
    start = _followed(str(folder), inside)
    for entry in _below(start, "", pattern, inside, faults):
        if not entry.relative.rpartition("/")[2].startswith("."):
            yield entry


def follower(root: Path) -> Callable[[str], str]:
    """Return a function that follows the links of a path, and raises out of the data root.

    Parameters
    ----------
    root : Path
        Data root.
    """
    inside = os.path.realpath(root)
    folders: dict[str, str] = {}  # of a million images in few folders

    def follow(path: str) -> str:
        folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100
        if folder not in folders:
            folders[folder] = _followed(path, inside, through=folder)
        real = os.path.join(folders[folder], name)  # noqa: PTH118
        return _followed(real, inside) if os.path.islink(real) else real  # noqa: PTH114

    return follow


def _below(
    folder: str, relative: str, pattern: Pattern, root: str, faults: Faults
) -> Iterator[FileEntry]:
    """Yield what is named below a folder; `relative` has two slashes after each link."""
    names, odd = _listed(folder, faults)
    for name in names:
        path, below = os.path.join(folder, name), relative + name  # noqa: PTH118 (a million times)
        linked = name in odd and os.path.islink(path)  # noqa: PTH114
        plain = composed(below)
        fits = pattern.steps[-1].fullmatch(plain) is not None
        leads = name in odd and _leads(pattern, plain, linked)
        try:
            if linked and (fits or leads):
                path = _followed(path, root)
            within = name in odd and os.path.isdir(path)  # noqa: PTH112
            if within and leads and below.count("/") - below.count("//") >= DEEPEST:
                raise ImageError(
                    f"{path} is under more than {DEEPEST} folders; move the images up, or leave it "
                    "out by a narrower pattern"
                )
        except ImageError as error:
            if linked and fits:
                yield FileEntry(below.replace("//", "/"), path, False, error)
            else:
                faults.append(Fault(path, error, listed=False))
            continue
        if within and leads:
            yield from _below(path, f"{below}//" if linked else f"{below}/", pattern, root, faults)
        elif fits:
            yield FileEntry(below.replace("//", "/"), path, within)


def _leads(pattern: Pattern, path: str, linked: bool) -> bool:
    """Return whether what is named may be below a folder; ``**`` follows no link."""
    return any(
        step.fullmatch(path) and not (linked and part == "**")
        for part, step in zip(pattern.parts[:-1], pattern.steps, strict=False)
    )


def _listed(folder: str, faults: Faults) -> tuple[Iterable[str], frozenset[str]]:
    """Return the names in a folder, in order, and which of them are not plain files.

    There are none where the folder is not there, or cannot be listed and goes to `faults`.
    """
    names, odd, runs = list[str](), set[str](), list[Paths]()
    try:
        with os.scandir(folder) as entries:
            if not os.access(folder, os.X_OK):  # names alone can be read
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            for entry in entries:
                names.append(entry.name)
                if not entry.is_file(follow_symlinks=False):
                    odd.add(entry.name)
                if len(names) == RUN:
                    runs.append(packed(sorted(names)))
                    names.clear()
    except OSError as error:
        if error.errno in SHORTAGES:
            raise shortage(f"cannot list {folder}", error.strerror) from error
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            fault = ImageError(
                f"{folder} cannot be listed ({error.strerror}); make it readable, or leave it "
                "out by pattern, masks or classes in the card"
            )
            faults.append(Fault(folder, fault, listed=False))
        return [], frozenset()
    names.sort()
    return merge(*runs, names) if runs else names, frozenset(odd)


def _followed(path: str, root: str, through: str | None = None) -> str:
    """Return where a path, or a folder `through` which it goes, is without links, in the root.

    A link to no file is where it is itself: there a list of exclusions can name it.
    """
    real = os.path.realpath(through or path)  # Path.resolve raises on a loop
    if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
        how = "is a link that leads" if os.path.islink(path) else "leads"  # noqa: PTH114
        raise image_error(f"{path} {how} out of the data root; put the image there")
    return real if through or os.path.exists(real) else path  # noqa: PTH110
