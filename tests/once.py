"""What every process of the suite needs is made once: ``python -m tests.once``, before they start.

On a fresh clone that is all modules as bytecode, the tests as pytest rewrites them, and the machine
code of the descriptors. Where it was not made before, one process makes it while the others wait.
"""

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock


def compile_kernels() -> None:
    """Describe an image by every descriptor, as most tests do."""
    import numpy as np

    from pipeline.descriptors import DESCRIPTORS, describe

    for spec in DESCRIPTORS.values():
        colours = (3,) * (spec.channels > 1)
        describe(np.zeros((1, *(8,) * spec.dimensions, *colours), np.uint8), spec.name)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect in one process after the other; the second compiles while the first collects."""
    told = getattr(session.config, "workerinput", None)
    if told is None:
        with no_search_for_garbage():
            return (yield)
    if told["workerid"] == "gw1":
        compile_kernels()
    of_all = Path(session.config.option.basetemp).parent
    with FileLock(of_all / "collecting.lock"), no_search_for_garbage():
        return (yield)


@contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """Take what is made in the block, modules and tests, for what stays, without looking."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


if __name__ == "__main__":
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq"], stdout=subprocess.DEVNULL
    ):
        compile_kernels()
