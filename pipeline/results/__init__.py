"""Results on disk: tables whose columns state meaning and units of measurement; records of runs.

    columns.toml  the columns of every table, with unit of measurement and meaning
    tables        the way of a table to Parquet and back, and means of its groups
    record        what was run: run.json

Everything in a table of rows or of bounds was compared with the private data: it is *nonprivate*,
and belongs to experiments on public images, never to a release.
"""

from covdp.results.record import ClassCount as ClassCount
from covdp.results.record import DatasetNote as DatasetNote
from covdp.results.record import RunRecord as RunRecord
from covdp.results.record import collect_versions as collect_versions
from covdp.results.record import machine as machine
from covdp.results.record import read_record as read_record
from covdp.results.record import write_record as write_record
from covdp.results.tables import BOUND_SCHEMA as BOUND_SCHEMA
from covdp.results.tables import SCHEMA as SCHEMA
from covdp.results.tables import STATUSES as STATUSES
from covdp.results.tables import RowWriter as RowWriter
from covdp.results.tables import Table as Table
from covdp.results.tables import cells_of as cells_of
from covdp.results.tables import read_bound as read_bound
from covdp.results.tables import read_metadata as read_metadata
from covdp.results.tables import read_rows as read_rows
from covdp.results.tables import summarise as summarise
from covdp.results.tables import unique as unique
from covdp.results.tables import write_bound as write_bound
from covdp.results.tables import write_release as write_release
from covdp.results.tables import write_rows as write_rows
