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

from pipeline.store.fill import PassReport as PassReport
from pipeline.store.fill import fill as fill
from pipeline.store.inspection import FileFault as FileFault
from pipeline.store.inspection import Inspection as Inspection
from pipeline.store.inspection import check as check
from pipeline.store.inspection import exclusion_list as exclusion_list
from pipeline.store.inspection import image_names as image_names
from pipeline.store.inspection import inspect as inspect
from pipeline.store.inspection import listing_faults as listing_faults
from pipeline.store.inspection import middle_slices as middle_slices
from pipeline.store.inspection import relative_name as relative_name
from pipeline.store.place import Place as Place
from pipeline.store.place import find_place as find_place
from pipeline.store.place import lease as lease
from pipeline.store.place import private_stores as private_stores
from pipeline.store.place import temporary_store as temporary_store
from pipeline.store.plan import Plan as Plan
from pipeline.store.plan import make_plan as make_plan
from pipeline.store.stored import DIGEST as DIGEST
from pipeline.store.stored import Chunk as Chunk
from pipeline.store.stored import Form as Form
from pipeline.store.stored import StoredImages as StoredImages
from pipeline.store.stored import ascending as ascending
from pipeline.store.stored import digests_of_units as digests_of_units
