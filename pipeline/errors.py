"""The errors of covdp, one tree.

    CovdpError                what every command turns into one line and exit code 2
    ├── ConfigError           an option, a TOML field or an argument that means nothing
    ├── DatasetError          unknown dataset, wrong digest, unusable images
    │   ├── MissingError      images that cannot be had: no file, no network, no extra
    │   ├── ImageError        a file that is not as it should be: in a release, not even named
    │   │   └── CurableError  one that another key of its card would read
    │   └── MismatchError     a card or setting that does not fit what is public of the images
    │       └── EmptyError    no image at all: on a night of a stream that is no fault
    ├── DomainError           a point outside its manifold, a record outside the proven bound
    ├── PrivacyError          a budget, scale or combination for which no guarantee exists
    │   └── UndefinedError    a scale at which the law has no density
    ├── ConvergenceError      an iteration that did not reach its certificate
    ├── MachineError          too few files, processes or threads are left to read images
    ├── LedgerError           ledger unreachable, damaged or not matching
    │   └── BudgetError       not enough is left in an account: asking again will not help
    └── OutputError           a folder or file that cannot be written or read back

A message gives the rule, the value and the way out. In a release it never quotes a value computed
from private data.
"""

import difflib
import errno
import re
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TypeVar

Fault = TypeVar("Fault", bound="CovdpError")


class CovdpError(Exception):
    """Base of all errors that a user can act on."""


class ConfigError(CovdpError, ValueError):
    """An option, a TOML field or an argument that means nothing."""


class DatasetError(CovdpError):
    """An unknown dataset, a wrong digest or unusable images."""


class MissingError(DatasetError):
    """Images that cannot be had: no file, no network or no extra.

    `passing` is True if asking again later may help.
    """

    passing = False


class ImageError(DatasetError):
    """A file that is not as its card says; the message names it, so a release withholds it."""


class CurableError(ImageError):
    """A file that is read where its card has another key, which is then for all its files."""


LEAVE_OUT = "leave the image out with exclude"
"""Way out of any file that cannot be used: a list that its card names."""


def image_error(text: str) -> ImageError:
    """Return the error of a file that may be left out.

    Where the way out, behind the last semicolon, names a key in the card, that cures it.

    Parameters
    ----------
    text : str
        Rule and value found, with the way out behind the last semicolon.
    """
    curable = "in the card" in text.rpartition(";")[2]
    return (CurableError if curable else ImageError)(f"{text}, or {LEAVE_OUT}")


class MismatchError(DatasetError):
    """A class without images, a split or a shape that does not fit the card."""


class EmptyError(MismatchError):
    """There is no image at all."""


class DomainError(CovdpError, ValueError):
    """A point outside its manifold, or a record outside the proven bound."""


class PrivacyError(CovdpError, ValueError):
    """A budget, a scale or a combination for which no guarantee exists."""


class UndefinedError(PrivacyError):
    """A scale at which the law of the mechanism has no density."""


class ConvergenceError(CovdpError, ArithmeticError):
    """An iteration that did not reach its certificate."""


class MachineError(CovdpError):
    """Too few open files, processes or threads, whatever the images are."""


SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
"""Failures of the system that say nothing about a file."""


def shortage(what: str, reason: object) -> MachineError:
    """Return the error of what cannot be done for now, as this machine is short of something.

    Parameters
    ----------
    what : str
        Work that failed, as a clause.
    reason : object
        Error of the system, or its text.
    """
    return MachineError(
        f"{what} ({reason}), as this machine has too little left for it; end other programs or "
        "raise what you may use (ulimit -a), and try again"
    )


class LedgerError(CovdpError):
    """A ledger that is unreachable, damaged or does not match, or a budget that is exhausted."""


class BudgetError(LedgerError):
    """An account with less left than a release costs: trying again later changes nothing."""


class OutputError(CovdpError, OSError):
    """A folder or file that cannot be written or read back."""


class MemberWarning(UserWarning):
    """A member of another package that cannot be imported and is left out."""


def closest(name: str, names: Iterable[str]) -> str:
    """Return ``did you mean 'x'? `` with the nearest of `names`, "" when none is near.

    Parameters
    ----------
    name : str
        Name as it was written.
    names : iterable of str
        Names that exist.

    Examples
    --------
    >>> from covdp.errors import closest
    >>> closest("otc5", ["oct5", "grid9"])
    "did you mean 'oct5'? "
    """
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def require_known(
    kind: str, name: str, names: Iterable[str], way: str = "", fault: type[CovdpError] = ConfigError
) -> None:
    """Raise `fault` when `name` is not among `names`: the nearest, and a `way` out or all.

    Parameters
    ----------
    kind : str
        Noun for one of them, such as "manifold".
    name : str
        Name as it was written.
    names : iterable of str
        Names that exist.
    way : str
        Way out; the list of all names when left out.
    fault : type of CovdpError
        Class of the error to raise.
    """
    names = list(names)
    if name not in names:
        way = way or f"known are {', '.join(names)}"
        raise fault(f"unknown {kind} {name!r}; {closest(str(name), names)}{way}")


EXTRAS = {
    "arviz_stats": "papers",
    "cronsim": "nights",
    "distributed": "dask",
    "fsspec": "s3",
    "gdcm": "hospital",
    "medmnist": "sets",
    "nibabel": "hospital",
    "nvflare": "join",
    "openpyxl": "partners",
    "psycopg": "postgres",
    "pydicom": "hospital",
    "pylibjpeg": "hospital",
    "sklearn": "sklearn",
    "torch": "sets",
    "torchvision": "sets",
}
"""Packages that a plain installation does not have, with the extra that brings each."""


def has_extra(*packages: str) -> bool:
    """Return True if packages that an extra brings are installed.

    Parameters
    ----------
    *packages : str
        Names as they are imported.
    """
    return all(find_spec(package) is not None for package in packages)


def require_extra(*packages: str, fault: type[CovdpError]) -> None:
    """Raise `fault` with the way to install it when a package of an extra is missing.

    Parameters
    ----------
    *packages : str
        Names as they are imported.
    fault : type of CovdpError
        Class of the error to raise.
    """
    for package in packages:
        if not has_extra(package):
            raise _wants(package, fault)


def missing_extra(error: ImportError) -> ConfigError:
    """Return the error that names the extra whose package is missing, or raise `error` again.

    Parameters
    ----------
    error : ImportError
        Error of an import.
    """
    for cause in (error, error.__cause__):
        package = str(getattr(cause, "name", None) or "").partition(".")[0]
        if package in EXTRAS and not has_extra(package):
            return _wants(package, ConfigError)
    raise error


def _wants(package: str, fault: type[Fault]) -> Fault:
    """Return the error of a package that a plain installation does not have."""
    extra = EXTRAS[package]
    return fault(
        f"this needs {package}, which a plain installation does not have; install the "
        f"extra covdp[{extra}]: pip install 'covdp[{extra}]', in a checkout pip install "
        f"--editable '.[{extra}]'"
    )


def one_line(error: BaseException | str) -> str:
    """Return an error's text as one line, as `printable` has it.

    Parameters
    ----------
    error : BaseException or str
        Error or text to print.
    """
    return printable(re.sub(r"[ \t\r\n]+", " ", str(error)).strip(" "))


def printable(text: str, *, lines: bool = True) -> str:
    """Return a text with the escape of what a terminal would obey in it.

    Names of files may hold control characters, marks that turn the order of letters around, and
    bytes that are no letters.

    Parameters
    ----------
    text : str
        Text to print.
    lines : bool
        True if line breaks stay as they are, which a name may not have.
    """
    if text.isprintable():
        return text
    spaces = "\u00a0\n" if lines else "\u00a0"  # a no-break space is a space
    return "".join(x if x.isprintable() or x in spaces else ascii(x)[1:-1] for x in text)
