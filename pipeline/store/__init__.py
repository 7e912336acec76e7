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

from covdp.store.fill import PassReport as PassReport
from covdp.store.fill import fill as fill
from covdp.store.inspection import FileFault as FileFault
from covdp.store.inspection import Inspection as Inspection
from covdp.store.inspection import check as check
from covdp.store.inspection import exclusion_list as exclusion_list
from covdp.store.inspection import image_names as image_names
from covdp.store.inspection import inspect as inspect
from covdp.store.inspection import listing_faults as listing_faults
from covdp.store.inspection import middle_slices as middle_slices
from covdp.store.inspection import relative_name as relative_name
from covdp.store.place import Place as Place
from covdp.store.place import find_place as find_place
from covdp.store.place import lease as lease
from covdp.store.place import private_stores as private_stores
from covdp.store.place import temporary_store as temporary_store
from covdp.store.plan import Plan as Plan
from covdp.store.plan import make_plan as make_plan
from covdp.store.stored import DIGEST as DIGEST
from covdp.store.stored import Chunk as Chunk
from covdp.store.stored import Form as Form
from covdp.store.stored import StoredImages as StoredImages
from covdp.store.stored import ascending as ascending
from covdp.store.stored import digests_of_units as digests_of_units
