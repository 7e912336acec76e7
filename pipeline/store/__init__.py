"""The store: images are read once, and what is needed of them is stored in shards.

    ImageSource ─► plan ─► fill ─► StoredImages ─► chunks of descriptors, by class
                   shards  one pass          as often as wanted

A shard is one Parquet file: the descriptors of some thousand images, written whole or not at all. A
pass that was killed goes on with the missing ones, and a damaged one is made again. The store is as
private as the images are.

A reader's order: ``plan`` (which images go into which shard, and what a shard is known by),
``place`` (folders of one's own, addresses elsewhere, and who is at work there), ``fill`` (the
pass), ``stored`` (a shard and all of them, read back), ``inspection`` (files that cannot be used).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
