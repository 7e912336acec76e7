"""A real PostgreSQL server for the tests, one a session, and addresses of fresh ledgers."""

import atexit
import functools
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest

from tests.tools.components import NO_POSTGRES, postgres_programs
from tests.tools.patience import PATIENCE, until

PASSWORD = "pass-word-of-the-ledger"
"""In every address; the server asks only the user "stranger" for one, and knows none for it."""
_NUMBERS = itertools.count()


def new_address(backend: str, folder: Path) -> str:
    """Return the address of a ledger that is not there yet: a file, or a schema of its own."""
    if backend == "sqlite":
        return str(folder / "ledger.sqlite")
    name = f"ledger{next(_NUMBERS)}"
    with direct() as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    options = f"host={server()}&options=-csearch_path%3D{name}"
    return f"postgresql+psycopg://covdp:{PASSWORD}@/postgres?{options}"


def direct(options: str = "") -> psycopg.Connection:
    """Return a connection to the server without the ledger in between."""
    info = f"host={server()} user=covdp password={PASSWORD} dbname=postgres {options}"
    return psycopg.connect(info, autocommit=True)


@functools.cache
def server() -> Path:
    """Start a server on a socket in a temporary folder, which is returned; stop it at the end."""
    programs = postgres_programs() or pytest.skip(NO_POSTGRES)
    folder = Path(tempfile.mkdtemp(prefix="covdp-pg-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    user = _other() if os.geteuid() == 0 else None  # initdb refuses root
    if user:
        shutil.chown(folder, user, user)
    data = folder / "data"
    make: list[str | Path] = [
        programs / "initdb",
        "--pgdata",
        data,
        "--username",
        "covdp",
        "--no-sync",
    ]
    make += ["--auth", "trust", "--encoding", "UTF8", "--no-locale"]
    subprocess.run(make, user=user, cwd=folder, check=True, capture_output=True)
    rules = data / "pg_hba.conf"  # the first that applies counts
    rules.write_text("local all stranger scram-sha-256\n" + rules.read_text())
    settings = {"listen_addresses": "", "unix_socket_directories": folder, "fsync": "off"}
    run: list[str | Path] = [programs / "postgres", "-D", data]
    run += [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    follow = ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*follow, *run], user=user, cwd=folder, stdout=log, stderr=log)
    atexit.register(process.wait, PATIENCE)
    atexit.register(process.send_signal, 2)  # fast shutdown; handlers run last in, first out

    def answers() -> bool:
        if process.poll() is not None:
            pytest.fail(f"PostgreSQL does not start: {(folder / 'log').read_text()[-500:]}")
        try:
            psycopg.connect(f"host={folder} user=covdp password={PASSWORD} dbname=postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    until(answers)
    return folder


def _other() -> str:
    """Return a user without rights: the server's own where there is one."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "_postgres", "nobody") if name in names)
