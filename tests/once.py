"""What every process of the suite needs is made once: ``python -m tests.once``, before they start.

On a fresh clone that is all modules as bytecode, the tests as pytest rewrites them, and the machine
code of the descriptors. Where it was not made before, one process makes it while the others wait.
"""

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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


def rewritten() -> bool:
    """Tell whether the tests are there as pytest rewrites them, or are not to be kept."""
    tail = f".{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
    tests = Path(__file__).parent
    kept = {path.name for path in (tests / "__pycache__").glob(f"*{tail}")}
    return sys.dont_write_bytecode or {path.stem + tail for path in tests.glob("test_*.py")} <= kept


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
    collecting = [sys.executable, "-m", "pytest", "--collect-only", "-qq"]
    with nullcontext() if rewritten() else subprocess.Popen(collecting, stdout=subprocess.DEVNULL):
        compile_kernels()
