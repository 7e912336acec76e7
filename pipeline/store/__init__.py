"""The store: images are read once, and what is needed of them is kept in shards.

    ImageSource ─► plan ─► fill ─► StoredImages ─► chunks of descriptors, by class
                   shards  one pass          as often as wanted

A shard is one Parquet file: the descriptors of some thousand images, written whole or not at all. A
pass that was killed goes on with the missing ones, and a damaged one is made again. The store is as
private as the images are.

A reader's order: ``plan`` (which images go into which shard, and what a shard is known by),
``place`` (folders of one's own, addresses elsewhere, and who is at work there), ``fill`` (the
pass), ``stored`` (a shard and all of them, read back; what cannot be used).
"""

from pipeline.store.fill import PassReport, ShardReport, fill, make_shards
from pipeline.store.place import Place, find_place, lease, private_stores
from pipeline.store.plan import Plan, make_plan
from pipeline.store.stored import (
    FileFault,
    Form,
    StoredImages,
    StoredRecords,
    check,
    exclusion_list,
    listing_faults,
    relative_name,
)

__all__ = [
    "FileFault",
    "Form",
    "PassReport",
    "Place",
    "Plan",
    "ShardReport",
    "StoredImages",
    "StoredRecords",
    "check",
    "exclusion_list",
    "fill",
    "find_place",
    "lease",
    "listing_faults",
    "make_plan",
    "make_shards",
    "private_stores",
    "relative_name",
]
