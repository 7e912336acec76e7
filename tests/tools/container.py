"""The Dockerfile's steps, run without Docker: ``python -m tests.tools.container`` as root on Linux.

Each stage gets a copy of a Debian with Python (made by debootstrap, or an unpacked one: --base DIR)
and its COPY, RUN, ENV, USER and WORKDIR are done in it, in order, by chroot. In the last stage, as
its user and with its environment, a ledger is made in a real PostgreSQL, the health check runs, a
release is paid and written, and `covdp serve` starts, and ends by the stop signal.

Not checked: the real base image, the engine's own isolation (networks, capabilities, a read-only
root), compose, and volumes other than as folders. What the image would download comes through this
machine's pip settings and certificates, which are lent to it.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from tests.tools.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = "ca-certificates,python3,python3-venv"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LENT = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
RELEASE = """\
name = "night"
population = "ward"
dataset = "ward.toml"
labels = "public"
budget = 0.5
"""
CARD = 'kind = "folder"\nchannels = 1\nclasses = ["a", "b"]\npath = "ward"\n'
DEVICES = {"null": (1, 3), "zero": (1, 5), "random": (1, 8), "urandom": (1, 9)}


@dataclass
class Stage:
    """One stage: its root folder, and what its instructions have set so far."""

    root: Path
    env: dict[str, str] = field(default_factory=lambda: {"PATH": PATH, "HOME": "/root"})
    user: str = "root"
    folder: str = "/"
    told: dict[str, str] = field(default_factory=dict)

    def inside(self, path: str) -> Path:
        """Return where a path of the image is on this machine."""
        return self.root / os.path.normpath(f"{self.folder}/{path}" if path[0] != "/" else path)[1:]

    def start(self, command: list[str], **more: str) -> "subprocess.Popen[str]":
        """Start a command in the image, as its user, in its folder, with its environment."""
        env = [f"{key}={value}" for key, value in {**self.env, **more}.items()]
        step = ["chroot", f"--userspec={self.user}:{self.user}", self.root, "env", "-i", *env]
        run = ["sh", "-c", 'cd "$0" && exec "$@"', self.folder, *command]
        return subprocess.Popen([*step, *run], stdout=-1, stderr=-2, text=True)

    def run(self, command: list[str], **more: str) -> str:
        """Run a command to its end; a failure ends the check with what it printed."""
        process = self.start(command, **more)
        printed, _ = process.communicate()
        if process.returncode:
            sys.exit(f"{shlex.join(command)} ended with {process.returncode}:\n{printed[-3000:]}")
        return printed


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with what follows each, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


def ignored(folder: str, names: list[str]) -> set[str]:
    """Return what .dockerignore keeps out of the copies, and git's own folder."""
    patterns = ("cache", "output") if Path(folder).name in ("data", "reports") else ()
    return {name for name in names if name in ("__pycache__", ".git", *patterns)}


def copy(stage: Stage, rest: str, stages: dict[str, Stage]) -> None:
    """Do a COPY, from the checkout or from another stage."""
    *names, target = [part for part in rest.split() if not part.startswith("--")]
    source = re.match(r"--from=(\S+)", rest)
    for name in names:
        where = stages[source[1]].inside(name) if source else ROOT / name
        into = stage.inside(target)
        if where.is_dir():
            shutil.copytree(where, into, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        else:
            into = into / where.name if target.endswith("/") else into
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(where, into)


def new_stage(base: Path, work: Path, number: int, binds: list[Path]) -> Stage:
    """Return a stage on a copy of the base, with this machine's network, pip and devices."""
    stage = Stage(work / f"stage{number}")
    subprocess.run(["cp", "--archive", "--reflink=auto", base, stage.root], check=True)
    for lent in filter(os.path.exists, LENT):
        stage.inside(lent).unlink(missing_ok=True)
        shutil.copy(lent, stage.inside(lent))
    subprocess.run(["mount", "-t", "proc", "proc", stage.root / "proc"], check=True)
    for name, numbers in DEVICES.items():
        node = stage.root / "dev" / name
        node.unlink(missing_ok=True)
        os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
        node.chmod(0o666)
    for path in binds:
        stage.inside(str(path)).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--bind", path, stage.inside(str(path))], check=True)
    python = stage.inside("/usr/local/bin/python")
    if not python.exists():
        python.symlink_to("/usr/bin/python3")
    return stage


def build(base: Path, work: Path, binds: list[Path]) -> Stage:
    """Do every step of the Dockerfile; return the last stage."""
    stages: dict[str, Stage] = {}
    for name, rest in instructions((ROOT / "Dockerfile").read_text(encoding="utf-8")):
        print(f"{name} {rest[:90]}", flush=True)
        match name:
            case "FROM":
                stage = new_stage(base, work, len(stages), binds)
                stages[rest.split(" AS ")[-1]] = stage
            case "COPY":
                copy(stage, rest, stages)
            case "RUN":
                stage.run(["sh", "-c", rest])
            case "ENV":
                stage.env |= dict(part.split("=", 1) for part in shlex.split(rest))
            case "WORKDIR":
                stage.folder = rest
                stage.inside(rest).mkdir(parents=True, exist_ok=True)
            case "USER":
                stage.user = rest
            case "VOLUME" | "STOPSIGNAL" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                stage.told[name] = rest
            case _:
                sys.exit(f"this check does not know {name}")
    return stage


def ward(stage: Stage) -> None:
    """Put a release, its card and images where the image expects them."""
    stage.inside("/etc/covdp/release.toml").write_text(RELEASE)
    stage.inside("/etc/covdp/ward.toml").write_text(CARD)
    rng = np.random.default_rng(0)
    for label in "ab":
        folder = stage.inside(f"/images/ward/{label}")
        folder.mkdir(parents=True)
        for number in range(20):
            pixels = rng.integers(0, 256, (28, 28), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")


def use(stage: Stage, address: str) -> None:
    """Make a ledger, check the health, release once, and serve until the stop signal."""
    covdp, command = (json.loads(stage.told[name]) for name in ("ENTRYPOINT", "CMD"))
    health = stage.told["HEALTHCHECK"].split("CMD ")[1]
    for args in ("ledger init", "ledger set-budget ward --total 2"):
        print(stage.run([*covdp, *args.split()], COVDP_LEDGER=address))
    stage.run(["sh", "-c", health], COVDP_LEDGER=address)
    release = ["release" if part == "serve" else part for part in command]
    print(stage.run([*covdp, *release, "--even-if-useless"], COVDP_LEDGER=address))
    assert list(stage.inside("/released/release").glob("*.parquet"))
    process = stage.start([*covdp, *command], COVDP_LEDGER=address)
    assert process.stdout
    line = process.stdout.readline()
    assert line.startswith("serving night"), line
    process.send_signal(signal.Signals[stage.told["STOPSIGNAL"]])
    begun = time.monotonic()
    print(f"{line}{process.communicate(timeout=PATIENCE)[0]}", end="")
    print(f"ended with {process.returncode} after {time.monotonic() - begun:.1f} s")


def others(stage: Stage) -> list[str]:
    """Return what the image's user may write outside its volumes and the temporary folders."""
    volumes = [*json.loads(stage.told["VOLUME"]), "/tmp", "/var/tmp", "/run", "/proc", "/dev"]
    prune = " -o ".join(f"-path {volume}" for volume in volumes)
    found = stage.run(
        [
            "sh",
            "-c",
            f"find / \\( {prune} \\) -prune -o ! -type l -writable -print 2> /dev/null; true",
        ]
    )
    return found.split()


def check(base: Path, work: Path, binds: list[Path]) -> list[str]:
    """Build, use, and return what is writable that should not be."""
    from tests.tools.postgres import new_address, server

    socket = server()
    socket.chmod(0o711)
    stage = build(base, work, binds)
    stage.inside(str(socket)).mkdir(parents=True)
    subprocess.run(["mount", "--bind", socket, stage.inside(str(socket))], check=True)
    size = subprocess.run(["du", "-sm", stage.inside("/opt/covdp")], capture_output=True, text=True)
    print(f"installed: {size.stdout.split()[0]} MB")
    ward(stage)
    use(stage, new_address("postgresql", work))
    loose = others(stage)
    print(f"writable outside the volumes: {loose or 'nothing'}")
    return loose


def main() -> None:
    """Check the Dockerfile in a mount namespace of its own; what it leaves is removed outside."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--base", type=Path, help="root folder of a Debian with Python")
    parser.add_argument("--bind", type=Path, action="append", default=[], help="folder pip needs")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("chroot needs root")
    if given.work:
        sys.exit(bool(check(given.base, given.work, given.bind)))
    with tempfile.TemporaryDirectory(prefix="covdp-container-") as work:
        base = given.base or Path(work) / "base"
        if not given.base:
            make = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", base]
            subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        options = [part for path in given.bind for part in ("--bind", path)]
        again = ["-m", "tests.tools.container", "--base", base, "--work", work, *options]
        alone = ["unshare", "--mount", "--propagation=private", sys.executable, *again]
        done = subprocess.run(alone, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
