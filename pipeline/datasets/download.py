"""Files of known datasets: there with the right digest, or downloaded whole, or one clear error.

A library downloads into a temporary folder beside the place of the files. They are moved there once
all have their digests.
"""

import glob
import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from covdp.datasets.library import Download, LibraryError, first_cause, run
from covdp.datasets.listing import as_written, require_inside, wrap_errors
from covdp.errors import DatasetError, ImageError, MissingError
from covdp.files import atomic_path, locked, open_regular, temporary_folder, without_password
from covdp.progress import counted


def find_own(name: str, target: Path, root: Path) -> Path:
    """Return `target`, a file or folder of the user's own, if it is there and inside `root`.

    Parameters
    ----------
    name : str
        Name of the dataset, for the message.
    target : Path
        File or folder of the dataset.
    root : Path
        Data root.

    Raises
    ------
    MissingError
        When it is not there, with the way out.
    DatasetError
        When it is outside.
    """
    target = Path(as_written(str(target.absolute())))
    require_inside(target, root, name)
    if not present(target):
        raise MissingError(
            f"{name} is your own dataset but {target} does not exist, or you may not see it; put "
            "it there, correct the card, or name the data root with --data-root or COVDP_DATA"
        )
    return target


def obtain(
    root: Path, files: Mapping[str, str], download: Download, address: str, *, progress: bool
) -> None:
    """Have `files` in `root`, downloaded if one is not there.

    A file that is there is used when its MD5 is right and refused when it is not; it is never
    overwritten. Two processes that ask at once download once: the second waits for the first.

    Parameters
    ----------
    root : Path
        The data root; made when missing.
    files : mapping of str to str
        Paths relative to it, each with its MD5 in hexadecimal.
    download : Download
        Call that puts them into a folder, where they have the same paths.
    address : str
        Address of the files, to be shown.
    progress : bool
        Show a bar on standard error, on a terminal.

    Raises
    ------
    MissingError
        When they cannot be had, naming the address, the target, the cause and the way out.
    ImageError
        When a file that is there has another digest.
    """
    targets = {root / name: md5 for name, md5 in files.items()}
    first = next(iter(targets))
    alone = len(targets) == 1
    target = first if alone else first.parent
    made = [folder for folder in first.parents if not folder.exists()]
    try:
        if not all(map(present, targets)):
            root.mkdir(parents=True, exist_ok=True)
            with locked(root / f".{first.name}.lock", f"downloads {target}"):
                for stale in root.glob(f".{glob.escape(first.name)}.*.part"):
                    shutil.rmtree(stale)  # of a run that was killed: no one else has the lock
                if not all(map(present, targets)):
                    _download(root, targets, download, progress)
                    return
    except OSError as error:
        for folder in made:  # innermost first; one that another run has filled stays
            with suppress(OSError):
                folder.rmdir()
        missing = MissingError(
            f"cannot download {without_password(address)} to {target} "
            f"({_reason(error, address)}); put {'the file' if alone else 'the files'} there "
            f"yourself, or name the folder that has {'it' if alone else 'them'} with --data-root "
            "or COVDP_DATA"
        )
        missing.passing = error.passing if isinstance(error, LibraryError) else not error.errno
        raise missing from error
    for path, md5 in targets.items():
        verify(path, md5)


def _download(root: Path, targets: Mapping[Path, str], download: Download, progress: bool) -> None:
    """Download all files into a temporary folder, and move those that are not there yet."""
    for path in filter(present, targets):
        verify(path, targets[path])
    bar = counted("download", 100 * len(targets), "%", shown=progress)
    with temporary_folder(root, next(iter(targets)).name) as folder, bar as tick:
        for percent in run(download, folder):
            tick(percent)
        for target, md5 in targets.items():
            received = folder / target.relative_to(root)
            if not present(received):
                raise OSError(f"received no {received.name}")
            if (actual := digest(received)) != md5:
                raise OSError(f"received MD5 {actual}, expected {md5}")
        for target in [path for path in targets if not present(path)]:
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(target) as temporary:
                mode = temporary.stat().st_mode  # as the umask has it
                (folder / target.relative_to(root)).replace(temporary)
                temporary.chmod(mode)


def _reason(error: OSError, address: str) -> str:
    """Return the cause of a failure, and the proxy if one was asked, without passwords."""
    cause = first_cause(error).partition(" for url")[0]
    with suppress(ValueError):  # an address that is none
        parts = urlsplit(address)
        proxy = getproxies().get(parts.scheme)
        if proxy and not proxy_bypass(parts.netloc.rpartition("@")[2]):
            cause += f", by the proxy {proxy}"
    return re.sub(r"[^\s/'\"(]*@|\?[^\s'\")]*", "", " ".join(cause.split()))


def present(path: Path) -> bool:
    """Return True if something is at `path`, as far as this user can see.

    Parameters
    ----------
    path : Path
        Path to look at.
    """
    return os.access(path, os.F_OK)


def verify(path: Path, md5: str) -> Path:
    """Return `path` if its MD5 is `md5`, else raise `ImageError`; the file stays as it is.

    Parameters
    ----------
    path : Path
        Path of the file.
    md5 : str
        Digest, in hexadecimal.
    """
    actual = digest(path)
    if actual != md5:
        raise ImageError(
            f"{path} has MD5 {actual}, the official file has {md5}; move it away to download the "
            "official one, or describe your own by a card with local = true (data/README.md)"
        )
    return path


def digest(path: Path) -> str:
    """Return the MD5 of a file, computed once a process while its size and time do not change.

    Parameters
    ----------
    path : Path
        Path of the file.
    """
    with wrap_errors(path, "file", "make it readable", DatasetError):
        state = path.stat()
        return _digest(path.resolve(), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()  # type: ignore[arg-type]
