"""Downloads of tests: a file, its card and its server."""

import hashlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from covdp.datasets import DATASETS
from tests.sample_server import FileServer, npz_like_octmnist

BODY = npz_like_octmnist()
MD5 = hashlib.md5(BODY).hexdigest()
ROOT = Path(__file__).parents[2]


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Have the system refuse files of more bytes in the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_card(server: FileServer, folder: Path, md5: str = MD5, keys: str = "") -> Path:
    """Write the card of a set like OCTMNIST, whose file the server gives at /octmnist.npz."""
    path = folder / "octmnist.toml"
    path.write_text(
        'kind = "npz"\nchannels = 1\npublic = true\n'
        f"classes = {json.dumps(DATASETS['octmnist'].classes)}\n"
        f"images = {{ train = 120, val = 20, test = 16 }}\n{keys}\n"
        f'[[files]]\nsize = 28\nurl = "{server.address}/octmnist.npz"\nmd5 = "{md5}"\n'
    )
    server.files["/octmnist.npz"] = BODY
    return path


def start(*command: object) -> subprocess.Popen[str]:
    """Start Python with the project in its path."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
