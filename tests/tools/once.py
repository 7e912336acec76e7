"""What every process of the suite needs is made once, before they start.

``python -m tests.tools.once`` makes it: on a fresh clone that is all modules as bytecode, the tests
as pytest rewrites them, and the machine code of descriptors and means. Where it was not made
before, one process makes it while others wait.
"""

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest
from filelock import FileLock


def compile_kernels() -> None:
    """Describe an image by every descriptor, as most tests do."""
    import numpy as np

    from covdp.descriptors import DESCRIPTORS, describe

    for spec in DESCRIPTORS.values():
        colours = (3,) * (spec.channels > 1)
        describe(np.zeros((1, *(8,) * spec.dimensions, *colours), np.uint8), spec.name)


def compile_means() -> None:
    """Draw private means of matrices, with noise that hides all and hardly any, and by chains."""
    import numpy as np

    from covdp.addons.papers.chains import ChainSettings
    from covdp.descriptors import domain
    from covdp.geometry import MANIFOLDS
    from covdp.mean import AdaptivePlan, private_mean
    from covdp.mechanisms import MECHANISMS
    from covdp.privacy import GDP, PureDP

    rng, few = np.random.default_rng(0), ChainSettings(burn_in=8, keep=4)
    for name in ("spd-affine-invariant", "spd-log-euclidean", "spd-log-cholesky"):
        known = domain("oct5", height=28, width=28, manifold=name)
        points = MANIFOLDS[name](k=5).exp(np.eye(5), rng.standard_normal((100, 15)))
        for budget, moment in ((1e-3, True), (100.0, True), (100.0, False)):
            plan = AdaptivePlan(moment=moment)
            private_mean(points, GDP(budget), domain=known, manifold=name, plan=plan, rng=rng)
    for name in ("spd-affine-invariant", "spd-log-euclidean", "hyperbolic"):
        space, family = MANIFOLDS[name].of_dimension(3), MECHANISMS["rl"]
        settings = {"sensitivity": 0.1, "manifold": space, "chain": few}
        law = family.calibrate(PureDP(4.0), **settings)
        law.sample(space.origin, size=2, rng=rng)


def rewritten() -> bool:
    """Tell whether the tests are there as pytest rewrites them, or are not to be kept."""
    tail = f".{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
    return sys.dont_write_bytecode or all(
        (path.parent / "__pycache__" / f"{path.stem}{tail}").exists()
        for path in Path(__file__).parents[1].rglob("test_*.py")
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect; where nothing was made before, in one process after the other.

    The second then compiles while the first collects.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or rewritten():
        with no_search_for_garbage():
            return (yield)
    if worker["workerid"] == "gw1":
        compile_kernels()
        compile_means()
    of_all = Path(session.config.option.basetemp).parent
    with FileLock(of_all / "collecting.lock"), no_search_for_garbage():
        return (yield)


LONGEST = {"test_toys.py", "test_flows.py", "test_english.py", "test_golden.py"}
"""Files with a test, or a fixture, of ten seconds and more."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest: one that is left for the end runs while other processes are idle."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """Take what is made in the block, modules and tests, for what stays, without looking."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


def aside(*arguments: str) -> AbstractContextManager[object]:
    """Start Python, which has ended when the block does."""
    return subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    with ExitStack() as others:
        if not rewritten():
            others.enter_context(aside("-m", "pytest", "--collect-only", "-qq"))
        others.enter_context(
            aside("-c", "from tests.tools.once import compile_means; compile_means()")
        )
        compile_kernels()
