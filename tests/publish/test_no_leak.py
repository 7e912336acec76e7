"""Nothing computed without noise leaves a release: what is searched for, and how.

``tests/flows/test_flows.py`` looks for it in all that releases write, on a server of Prefect's.
"""

import hashlib
from pathlib import Path

import numpy as np

from tests.publish.leaks import contents, needles, numbers, planted


def test_the_search_would_find_what_it_looks_for(tmp_path: Path) -> None:
    """A planted mean, row of pixels or hash is found in text, in binary and inside Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    images, labels = planted()
    np.savez(tmp_path / "ward.npz", train_images=images, train_labels=labels)
    value = numbers(images, labels)[0]
    leaks = tmp_path / "leaks"
    leaks.mkdir()
    pq.write_table(pa.table({"x": [value]}), leaks / "table.parquet", compression="zstd")
    (leaks / "note.txt").write_text(f"mean {value!r}")
    (leaks / "pixels.bin").write_bytes(b"xx" + images[137].tobytes())
    (leaks / "hash.txt").write_text(hashlib.sha256(images[labels == 1].tobytes()).hexdigest())
    found = set()
    for what, needle in needles(images, labels, tmp_path).items():
        found |= {
            (what, Path(name.split(",")[0]).name)
            for name, text in contents(leaks)
            if needle in text
        }
    files = {name for _, name in found}
    assert files == {"table.parquet", "note.txt", "pixels.bin", "hash.txt"}
