"""Packages that only some datasets need, and that most installations do without."""

from importlib import import_module
from typing import Any

from pipeline.errors import DatasetError


def from_sets(name: str) -> Any:
    """Return a module that comes with the extra ``covdp[sets]``.

    Raises
    ------
    DatasetError
        When its package is not installed, with the extra that brings it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in ("torch", "torchvision", "medmnist"):
            raise
        raise DatasetError(
            f"this needs {package}, which a plain installation does not have; install the extra "
            "covdp[sets]: pip install 'covdp[sets]', in a checkout pip install --editable '.[sets]'"
        ) from error
