"""Files: the project's own resources, reads that end, and writes that are whole or absent.

Files and folders have the modes that the user's umask gives them, never wider ones. Every file that
somebody names is opened by `open_regular`.
"""

import errno
import logging
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from covdp.errors import OutputError

_UNFINISHED: set[Path] = set()
"""Temporary files and folders that are being written, and locks that are held."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link to no file",
}
NONBLOCK = getattr(os, "O_NONBLOCK", 0)
"""Opening a pipe with it does not wait for whoever writes."""
_FLAGS = os.O_RDONLY | NONBLOCK | getattr(os, "O_BINARY", 0)  # Windows


class IrregularFileError(OSError):
    """A pipe, a device, a socket or a folder in the place of a file; `strerror` says which."""


def project_root() -> Path | None:
    """Return the checkout this package runs from, or None when it was installed as a wheel."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "pyproject.toml").is_file() else None


def resource(*parts: str) -> Path:
    """Return the path of a file that covdp ships: ``resource("data")``, ``resource("reports")``.

    Parameters
    ----------
    *parts : str
        Folder and further names, below what covdp ships.
    """
    base = project_root() or Path(__file__).resolve().parent / "_resources"
    return base.joinpath(*parts)


def home() -> Path:
    """Return the folder for downloads and service state: the user's cache folder of covdp."""
    import platformdirs

    return platformdirs.user_cache_path("covdp")


def default_out(*words: str) -> Path:
    """Return where results go when nobody says: ``covdp-output/WORDS`` in the current folder.

    Parameters
    ----------
    *words : str
        Words that name the folder.
    """
    return Path.cwd() / "covdp-output" / "-".join(words)


def open_regular(path: Path, *, links: bool = True) -> BinaryIO:
    """Open a regular file for reading: a pipe keeps its reader waiting, a device need not end.

    Parameters
    ----------
    path : Path
        Path of the file.
    links : bool
        True if a symbolic link is followed.

    Returns
    -------
    BinaryIO
        Opened file.

    Raises
    ------
    IrregularFileError
        For anything else than a regular file, which is never opened.
    OSError
        When the file cannot be opened.
    """
    try:
        mode = os.stat(path, follow_symlinks=links).st_mode  # noqa: PTH116 (of a million images)
    except ValueError as error:  # a NUL in its name
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    _check_regular(path, mode)
    handle = os.open(path, _FLAGS | (0 if links else getattr(os, "O_NOFOLLOW", 0)))
    stream = os.fdopen(handle, "rb")
    try:
        _check_regular(path, os.fstat(handle).st_mode)
    except IrregularFileError:
        stream.close()
        raise
    return stream


def _check_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise IrregularFileError(errno.EINVAL, _KINDS.get(stat.S_IFMT(mode), "no file"), str(path))


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    Parameters
    ----------
    path : Path
        Path of the file.
    most : int
        Largest size, in bytes.

    Raises
    ------
    OSError
        As `open_regular`; with ``errno.EFBIG`` when it has more bytes.
    """
    with open_regular(path) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than {most:,} bytes", str(path))
    return content


def _write_nothing(folder: Path) -> None:
    """Raise `OSError` where no file can be made in a folder."""
    from tempfile import TemporaryFile

    with TemporaryFile(dir=folder):
        pass


def make_folder(path: Path, way: str = "choose another folder with --out") -> Path:
    """Create `path` with its parents and prove that it can be written.

    Otherwise raise `OutputError`, which states a `way` out.

    Parameters
    ----------
    path : Path
        Folder to create.
    way : str
        Way out, the last part of the message.

    Returns
    -------
    Path
        The path.
    """
    try:
        make_folders(path)
        _write_nothing(path)
    except OSError as error:
        raise OutputError(f"cannot write to {path} ({error.strerror}); {way}") from error
    return path


def make_folders(path: Path, mode: int = 0o777) -> None:
    """Create `path` with its parents where they are missing; `mode` is that of the last.

    What root creates is the parent's owner's, as in `leave_to_owner`.

    Parameters
    ----------
    path : Path
        Folder to create.
    mode : int
        Permissions of the last folder, less those that the umask takes.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    for folder in missing[::-1] if is_root() else ():
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        leave_to_owner(handle, folder.parent)
        os.close(handle)


@contextmanager
def results_folder(path: Path) -> Iterator[Path]:
    """Give a folder for results; if it is new and an error leaves it empty, it goes again.

    Parameters
    ----------
    path : Path
        Folder of the results.
    """
    new = [folder for folder in (path, path.parent) if not folder.exists()]
    folder = make_folder(path).resolve()
    try:
        yield folder
    except BaseException:
        with suppress(OSError):  # it holds something
            for empty in new:
                empty.rmdir()
        raise


@contextmanager
def owner_only(wanted: bool) -> Iterator[None]:
    """Let files be 0600 and folders 0700 in the block, if `wanted`; of the whole process.

    Parameters
    ----------
    wanted : bool
        True if new files are to be closed to others.
    """
    before = os.umask(0o077) if wanted else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)


def private_folder(path: Path) -> Path:
    """Create `path`, the owner's alone (0700), and prove that it can be written.

    Parameters
    ----------
    path : Path
        Folder to create.

    Returns
    -------
    Path
        The path.

    Raises
    ------
    OutputError
        When it cannot, or when others may read a folder that is there and holds something.
    """
    try:
        make_folders(path, mode=0o700)
        if os.name == "posix" and path.stat().st_mode & 0o077:
            if any(path.iterdir()):
                raise OutputError(
                    f"{path} is open to others than you and holds files, but what is stored there "
                    f"is as private as the images; close it (chmod 700 {path}) or choose another"
                )
            path.chmod(0o700)
        _write_nothing(path)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write to {path} ({error.strerror}); choose another") from error
    return path


def write_whole(
    path: Path, content: str | bytes, *, mode: int = 0o666, durable: bool = True
) -> Path:
    """Write a file, whole or not at all, as `atomic_path` does; text is UTF-8.

    Parameters
    ----------
    path : Path
        Path of the file.
    content : str or bytes
        Whole content of the file.
    mode : int
        Permissions of a new file, less those that the umask takes.
    durable : bool
        True if the file must survive a crash of the machine.

    Returns
    -------
    Path
        The path.
    """
    with atomic_path(path, mode=mode, durable=durable) as temporary:
        if isinstance(content, str):
            content = content.encode(errors="backslashreplace")  # a name may be no text
        temporary.write_bytes(content)
    return path  # where it stands only now


@contextmanager
def atomic_path(path: Path, *, mode: int = 0o666, durable: bool = True) -> Iterator[Path]:
    """Give a temporary path beside `path`, which takes its place only when the block succeeds.

    It has `mode`, less what the umask takes. A file that is replaced may have been closed to others
    by its owner, and stays so; what root writes stays with the owner of the file, or of its
    folder. One that need not be `durable` is whole after a crash of the
    program, perhaps not of the machine; it takes some milliseconds less.

    Parameters
    ----------
    path : Path
        Path of the file.
    mode : int
        Permissions of a new file, less those that the umask takes.
    durable : bool
        True if the file must survive a crash of the machine.

    Raises
    ------
    OutputError
        When the file cannot be written or moved; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:  # made by the system with the umask: to ask for the umask is to change it for a moment
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
        _UNFINISHED.add(temporary)
        leave_to_owner(handle, path if path.exists() else path.parent)
        os.close(handle)
    except OSError as error:
        raise OutputError(f"cannot write {path} ({error.strerror})") from error
    try:
        yield temporary
        if durable:
            with temporary.open("rb+") as stream:
                os.fsync(stream.fileno())
        with suppress(FileNotFoundError):
            temporary.chmod(temporary.stat().st_mode & path.stat().st_mode | 0o600)
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {path} ({error.strerror})") from error
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
        _UNFINISHED.discard(temporary)


def write_new(folder: Path, files: Mapping[str, bytes]) -> dict[str, Path]:
    """Write files into a folder, of which none takes the place of another one.

    Parameters
    ----------
    folder : Path
        Folder of the files; created where it is missing.
    files : mapping of str to bytes
        Contents by name.

    Returns
    -------
    dict of str to Path
        Files by their names.

    Raises
    ------
    OutputError
        When one is there with other content, before any is written; when one cannot be written.
    """
    paths = {name: folder / name for name in files}
    missing = {name: path for name, path in paths.items() if not os.path.lexists(path)}
    for name, path in paths.items():
        with suppress(OSError):  # no regular file, or a longer one
            if name in missing or read_regular(path, len(files[name])) == files[name]:
                continue
        raise OutputError(
            f"{path} is there already with other content; choose another folder with --out"
        )
    make_folder(folder)
    for name, path in missing.items():
        write_whole(path, files[name])
    return paths


def is_root() -> bool:
    """Return True if this process may do everything, where there is such a user."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def leave_to_owner(handle: int, like: Path) -> None:
    """Give an open file or folder that root has just created to the owner of another, `like`.

    Else a service could not open its own files once root had run a command for it. By its handle,
    as whoever owns the folder may put something else in its place.

    Parameters
    ----------
    handle : int
        Descriptor of the open file or folder.
    like : Path
        File or folder whose owner becomes the owner.
    """
    if is_root():
        with suppress(OSError):  # a file system that knows no owners
            owner = like.stat()
            os.fchown(handle, owner.st_uid, owner.st_gid)


@contextmanager
def temporary_folder(parent: Path, name: str) -> Iterator[Path]:
    """Give a new folder ``.NAME.*.part`` in `parent`, which is removed with what it holds.

    Parameters
    ----------
    parent : Path
        Folder in which the new one is made.
    name : str
        Second part of the folder's name.
    """
    folder = parent / f".{name}.{os.urandom(4).hex()}.part"
    folder.mkdir()
    _UNFINISHED.add(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _UNFINISHED.discard(folder)


@contextmanager
def locked(file: Path, does: str, **options: Any) -> Iterator[None]:
    """Keep other runs that want the same lock waiting; their logs say what this one `does`.

    Parameters
    ----------
    file : Path
        Lock file; created where it is missing.
    does : str
        Verb and object in the third person, for the log of those who wait.
    **options : object
        Options of ``filelock.FileLock``.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(file, **options)
    try:
        acquired = lock.acquire(timeout=0.5)
    except Timeout:
        logging.getLogger(__name__).warning("waiting for another run that %s", does)
        acquired = lock.acquire()
    with acquired:
        _UNFINISHED.add(file)
        try:
            yield
        finally:
            with suppress(OSError):
                file.unlink()  # whoever waits for it sees that and asks anew
            _UNFINISHED.discard(file)


def discard_unfinished() -> None:
    """Remove what is not finished: for a process that ends at once."""
    for temporary in list(_UNFINISHED):
        shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):
            temporary.unlink()


def without_password(url: str) -> str:
    """Return a URL as it may be shown: no user, no password, no query.

    Parameters
    ----------
    url : str
        Address of a file.
    """
    return re.sub(r"//[^/?#]*@", "//", url).partition("?")[0]  # also of a URL that is none
