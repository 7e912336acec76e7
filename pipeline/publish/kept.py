"""Where the descriptors of a release are kept while it works: its images are read once.

Unless a store is named, they are kept for the owner alone, and go with the release. Killed before,
they stay, and the next start goes on with them.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.errors import LedgerError
from pipeline.publish.config import ReleaseConfig
from pipeline.store import Place, find_place, private_stores


@contextmanager
def kept(config: ReleaseConfig, images: Path, store: Place | None) -> Iterator[Place]:
    """Give the store of a release in the block; a private one is emptied once the block succeeds.

    A refusal by the ledger empties it too: what it refuses is not asked for again. Of two releases
    of the same images one waits for the other, lest it lose its store.
    """
    if store is not None:
        yield store
        return
    from filelock import FileLock

    settings = [config.dataset, config.splits, config.descriptor, config.eta]
    known = json.dumps([str(images.resolve()), *settings]).encode(errors="surrogateescape")
    folder = private_stores() / hashlib.sha256(known).hexdigest()[:16]
    with FileLock(folder.with_suffix(".lock"), mode=0o600) as lock:
        own = find_place(folder)
        try:
            yield own
        except LedgerError:
            own.clear()
            raise
        else:
            own.clear()
        finally:
            with suppress(OSError):
                Path(lock.lock_file).unlink()  # whoever waits for it sees that and asks anew
