"""Members that nobody needs, each in a file of its own: what a new one costs.

One file here, one line in `TOYS`: in a package of one's own that line is an entry point.
`python -m pytest -p tests.tools.toys` runs any test with them registered. The
registry of a page's blocks is ``reports/report.toml``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from covdp.datasets import DATASET_KINDS
from covdp.descriptors import DESCRIPTORS
from covdp.experiments import EXPERIMENT_KINDS
from covdp.geometry import MANIFOLDS
from covdp.mechanisms import MECHANISMS
from tests.tools.toys.dataset_kind import RAW
from tests.tools.toys.descriptor import EDGE2
from tests.tools.toys.experiment_kind import HALVES
from tests.tools.toys.manifold import Cylinder, Decibel
from tests.tools.toys.mechanism import HUBER

TOYS: tuple[tuple[dict[str, Any], str, Any], ...] = (
    (MANIFOLDS, "spd-decibel", Decibel),
    (MANIFOLDS, "cylinder", Cylinder),
    (DESCRIPTORS, "edge2", EDGE2),
    (MECHANISMS, "huber", HUBER),
    (DATASET_KINDS, "raw", RAW),
    (EXPERIMENT_KINDS, "halves", HALVES),
)
"""Registry, name and member."""


@contextmanager
def registered() -> Iterator[None]:
    """Register all of them, and take them out again."""
    for registry, name, member in TOYS:
        assert name not in registry
        registry[name] = member
    try:
        yield
    finally:
        for registry, name, _ in TOYS:
            del registry[name]


def pytest_configure() -> None:
    """Register them for a whole run, before any test is collected."""
    for registry, name, member in TOYS:
        registry[name] = member
