"""Publishing: from a ledger's account to files that hold private values and nothing else.

    config     the settings of a release, all of them public, and where the account is
    release    digest ─► reserve ─► draw with hardened noise ─► commit: the bytes that may leave
               (redact: what is not stated of images)
    document   those bytes: what they say, and the file (their schema: `covdp.schema`)
    readings   what a document says in terms, with bands

    preview    images as they enter, and what a release would do: in the clear, for their owner

Between `release` and the rest only the committed bytes pass.
"""

from covdp.publish.config import ReleaseConfig as ReleaseConfig
from covdp.publish.config import ledger_address as ledger_address
from covdp.publish.config import load_release as load_release
from covdp.publish.config import plain_name as plain_name
from covdp.publish.document import DOCUMENT_SCHEMA as DOCUMENT_SCHEMA
from covdp.publish.document import check_folder as check_folder
from covdp.publish.document import read_document as read_document
from covdp.publish.document import write_document as write_document
from covdp.publish.document import write_parquet as write_parquet
from covdp.publish.readings import read_terms as read_terms
from covdp.publish.release import check_account as check_account
from covdp.publish.release import release_once as release_once
from covdp.publish.release import released_since as released_since
