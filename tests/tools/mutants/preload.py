"""What the tests of the release path import that is not ours. Imported once, then forked."""

import covdp.flows  # noqa: F401  (its settings come before Prefect)

# isort: split
import logging

import dp_accounting  # noqa: F401
import numba  # noqa: F401
import opendp.prelude  # noqa: F401
import prefect.main  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest  # noqa: F401
import scipy.optimize
import scipy.stats  # noqa: F401
import sqlalchemy  # noqa: F401

logging.getLogger().handlers.clear()  # Prefect's would speak on the forks' standard error
