"""The ledger: the account of privacy that outlives every process, so that no budget is spent twice.

    reserve ─► draw ─► commit ─► publish
    charged    noise   result    files, from the bytes that ``commit`` or ``reserve`` gave back
               in      stored    and from nothing else
               memory

**One charge, one result.** ``reserve`` checks and charges in one transaction, before any noise is
drawn. ``commit`` stores the result in the ledger, in one transaction, before any file is written;
the first commit of a release wins, and every other attempt gets the winner's bytes. So the ledger
holds at most one result for a charge, and only what it holds may leave. What a crash, a power cut
or kill -9 leaves, and what asking again (same data, query, cost and run key) then does:

=======================  ==========================  =========================================
crash                    leaves                      asking again
=======================  ==========================  =========================================
before or in `reserve`   nothing, or as next row     charges, draws
before or in `commit`    a charge, nothing is out    draws again under the same charge
after `commit`           a charge and its result     gives the stored bytes, charges nothing
=======================  ==========================  =========================================

*Why one charge pays for several draws.* Every attempt sees the same data and draws, independently,
from the same law M. Draws that are not committed reach nobody. Which attempt commits first depends
on crashes and scheduling, not on the values drawn, so what leaves has the law M, once. This holds
for attempts in a row (killed, restarted) and for those side by side; no lease, heartbeat or clock
is needed. It asks two things of the caller: the query names all that the law depends on, the
version of the code included, and nothing between draw and commit fails or decides by the values
drawn (timing is not covered).

*Why budgets cannot be overspent.* A ledger has one writer at a time: ``BEGIN IMMEDIATE`` in SQLite,
an advisory lock taken first in PostgreSQL, at an isolation level where statements after it see all
that was committed. Under it, a charge is inserted only when the exact composition of all charges
with the new one, rounded up, fits the total. Nothing is given back, but for a joint study that is
withdrawn before a word of it has left (`covdp.addons.partners.join.account`).

**Populations.** A budget belongs to people, hence to a name that the owner of the data declares:
images added tomorrow spend the same budget. The ledger also keeps, as HMACs, of which card and
folder the images are declared to be, and refuses these under another name, for releases and
streams (``declared.py``). That depends on no image: a ledger that refused images it knows
would tell anyone who may submit one whether it is in a population, which is just what the noise is
there to mask. So digests of contents are stored for the owner to look up (`Ledger.charges_of`),
and refuse nothing. What is declared catches a copied config or a slip of the
name, not an owner who goes round it.

**Streams.** A release every night is one charge, as each privacy unit enters on one night only;
privacy units are claimed by keyed digest, once, in the transaction that reserves their night
(`covdp.addons.nights.ledger`). Here single records are refused, or left out, unlike above: the sum
over nights would count a privacy unit twice. Who may submit images to a stream can thus ask whether
one of them is in it.

**One journal.** All that happens is a row of a journal, chained by HMAC (``journal.py``), and
accounts are what the journal adds up to, in the transaction that decides. So a row that is changed,
lost, repeated, moved or rolled back, and a result that is not the one committed, is noticed before
anything is decided by it.

**Digests.** A digest is HMAC-SHA256 under a random key that never leaves the ledger, since a plain
hash lets anyone confirm a guess of the data. Digests are not private either: two equal ones tell
that nothing changed in between. They stay in the ledger: no message, row or result shows one.

**Joint releases.** The sums of a hospital in a study, with its own noise alone, stay in the ledger,
so that this noise is never drawn again (`covdp.addons.partners.join.account`).

**Backups.** A copy that was put back would give back what was spent since. A marker outside the
database holds the last row that was stored (``journal.py``), and a ledger that is behind it is
refused until someone confirms.

Not covered: whoever can write to the database can forge it, since the key is in it, and a marker
that is restored with its ledger. SQLite's locks need a local disk; several machines need
PostgreSQL.

Read in this order: ``records.py`` (what goes in and out: names, accounts with their sums and
refusals), ``api.py`` (the protocol, in one transaction), ``declared.py`` (what may be charged
beside what), ``keys.py`` (the key that signs), ``state.py`` and ``journal.py`` (where it is
written, and its marker), ``database.py`` (tables, connections, locks, time limits, errors),
``layout.py`` (ledgers of earlier versions).
"""

from covdp.ledger.api import Ledger as Ledger
from covdp.ledger.api import charge_for as charge_for
from covdp.ledger.api import charge_of as charge_of
from covdp.ledger.api import confirm_restored as confirm_restored
from covdp.ledger.api import init_ledger as init_ledger
from covdp.ledger.api import open_ledger as open_ledger
from covdp.ledger.records import Account as Account
from covdp.ledger.records import Charge as Charge
from covdp.ledger.records import HistoryLine as HistoryLine
from covdp.ledger.records import PaidStream as PaidStream
from covdp.ledger.records import Reservation as Reservation
from covdp.ledger.records import StoredRelease as StoredRelease
from covdp.ledger.records import clean_name as clean_name
from covdp.ledger.records import clean_run_key as clean_run_key
