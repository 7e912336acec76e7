"""Files: where the project's own resources are, and writes that are whole or absent.

Files and folders have the modes that the user's umask gives them, never wider ones.
"""

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import OutputError

_UNFINISHED: set[Path] = set()
"""Temporary files that are being written."""


def project_root() -> Path | None:
    """Return the checkout this package runs from, or None when it was installed as a wheel."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "pyproject.toml").is_file() else None


def resource(*parts: str) -> Path:
    """Return the path of a file that covdp ships: ``resource("data")``, ``resource("reports")``."""
    base = project_root() or Path(__file__).resolve().parent / "_resources"
    return base.joinpath(*parts)


def home() -> Path:
    """Return the folder for downloads and service state: the checkout's, else the current one's."""
    return (project_root() or Path.cwd()) / "data" / "cache"


def make_folder(path: Path) -> Path:
    """Create `path` with its parents and prove that it can be written, or raise `OutputError`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OutputError(
            f"cannot write to {path} ({error.strerror}); choose another folder with --out"
        ) from error
    return path


@contextmanager
def owner_only(wanted: bool) -> Iterator[None]:
    """Let files be 0600 and folders 0700 in the block, if `wanted`; of the whole process."""
    before = os.umask(0o077) if wanted else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)


def private_folder(path: Path) -> Path:
    """Create `path`, the owner's alone (0700), and prove that it can be written.

    Raises
    ------
    OutputError
        When it cannot, or when others may read a folder that is there and holds something.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix" and path.stat().st_mode & 0o077:
            if any(path.iterdir()):
                raise OutputError(
                    f"{path} is open to others than you and holds files, but what is kept there is "
                    f"as private as the images; close it (chmod 700 {path}) or choose another"
                )
            path.chmod(0o700)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write to {path} ({error.strerror}); choose another") from error
    return path


@contextmanager
def atomic_path(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Give a temporary path beside `path`, which takes its place only when the block succeeds.

    It has `mode`, less what the umask takes. A file that is replaced may have been closed to others
    by its owner, and stays so.

    Raises
    ------
    OutputError
        When the file cannot be written or moved; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:  # made by the system with the umask: to ask for the umask is to change it for a moment
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        _UNFINISHED.add(temporary)
    except OSError as error:
        raise OutputError(f"cannot write {path} ({error.strerror})") from error
    try:
        yield temporary
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


@contextmanager
def synced(path: Path) -> Iterator[BinaryIO]:
    """Open a file that is there, to change it where it lies; what is written is on disk then.

    Raises
    ------
    OutputError
        When it cannot be opened or written.
    """
    try:
        with path.open("rb+") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise OutputError(f"cannot write {path} ({error.strerror})") from error


def discard_unfinished() -> None:
    """Remove the temporary files that are being written: for a process that ends at once."""
    for temporary in list(_UNFINISHED):
        with suppress(OSError):
            temporary.unlink()
