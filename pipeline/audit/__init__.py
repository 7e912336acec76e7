"""Does a mechanism leak more than it claims: lower bounds against claims.

An audit plays the attacker. It takes two neighbouring data sets that are as bad as the sensitivity
allows, runs the mechanism many times on each, and searches for an event that happens much more
often on one than on the other. Privacy limits how much more often it may; so the event gives a
*lower bound* on the true ε or μ, with a stated probability of error, without trusting any formula
of the mechanism.

**What it can show.** A lower bound above the claim proves a fault, whatever its cause: noise too
small, a wrong constant, a wrong law, a chain stopped too early, a bug in the code. And where the
bound comes near the claim, the claim cannot be improved much.

**What it cannot show.** That a mechanism is private. A bound below the claim proves nothing: the
data sets, the events or the number of draws may not have been the worst. Rare events stay unseen:
what fewer than about 50 of the draws show leaves no trace. Nor does an audit look at floating
point, at running time, or at how the data became a statistic: the sensitivity is taken as given,
but for the adaptive mean, which is audited from the records on.

**What is exact.** A private mean of several steps, or of many nights, is audited by its transcript.
There counts show little: a thousand transcripts would let noise of 0.7 times its scale pass, and
2,000 of secret labels show 0.64 of a μ that is true. That is what their number allows, no sign that
less is lost. But a transcript can be replayed on both data sets, and says exactly what its steps
cost: the largest μ² stands beside the bound (``bounds.py``). The most costly transcript is replayed
on many more data sets, which differ by a record at the edges of its clips: there a sound mean costs
all but a thousandth of its budget. Other data sets, and paths that were not drawn, may cost more,
as in any audit.

    covdp audit --mechanism ewg --trials 100000

Read in this order: ``bounds.py`` (from counts to bounds, and from transcripts to what they cost),
``attacks.py`` (neighbouring data sets of the adaptive mean, of secret labels, persons and streams;
those of a mechanism stand in its own file), ``cases.py`` (what is audited, and what is broken on
purpose, which it must catch), ``trials.py``.
"""

from pipeline.audit.cases import all_cases as all_cases
from pipeline.audit.trials import audit as audit
from pipeline.audit.trials import run_audit as run_audit
