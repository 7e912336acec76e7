"""Publishing: from a ledger's account to files that hold private values and nothing else.

    config   what a release is told, all of it public
    document what the ledger commits: noised values and public facts
    settle   digest ─► reserve ─► draw with hardened noise ─► commit: the bytes that may leave
    ledgers  where the account is
    files    those bytes as Parquet; `pipeline.report` makes the page from the same bytes

Between `settle` and the rest only the committed bytes pass.
"""

from pipeline.publish.committed import check_folder, read_document, write_document
from pipeline.publish.config import ReleaseConfig, load_release
from pipeline.publish.ledgers import ledger_address
from pipeline.publish.settle import released_since, settle
from pipeline.results import write_release as write_parquet

__all__ = [
    "ReleaseConfig",
    "check_folder",
    "ledger_address",
    "load_release",
    "read_document",
    "released_since",
    "settle",
    "write_document",
    "write_parquet",
]
