"""What each image is known by to a night, which looks at all files, however many were there before.

Next on the path: `pipeline.publish.seen`.
"""

import hashlib
import itertools
from collections.abc import Iterator

import numpy as np

from pipeline.datasets.reading import InFiles, Reader, Rows, state


def stamps_of(read: Reader, rows: Rows) -> Iterator[bytes]:
    """Yield the stamp of each of some rows alone; names of files are unpacked once, in turn."""
    if not isinstance(read, InFiles):
        yield from map(read.stamp, rows[:, np.newaxis])
        return
    frames, last, known = read.frame[rows].astype(np.int64).tobytes(), -1, b""
    ahead, start = iter(read.names), 0
    for place, index in enumerate(read.file[rows].tolist()):
        if index != last:
            later = index >= start
            name = next(itertools.islice(ahead, index - start, None)) if later else None
            beside = () if read.beside is None else (read.beside[index],)
            known = b"".join(map(state, (name or read.names[index], *beside)))
            last, start = index, max(start, index + 1)
        yield hashlib.sha256(known + frames[8 * place : 8 * place + 8]).digest()
