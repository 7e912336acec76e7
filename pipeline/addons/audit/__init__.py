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

**The noise itself.** A bound sees a fault that costs much; less noise in one coordinate, or noise
that is used twice, may cost the neighbours of the audit nothing. So where the law of the noise is
known, of transcripts and of wrapped and embedded mechanisms, what was added is compared with it:
scale and bias of each coordinate, correlations of coordinates, steps and draws, the shape of the
law (``noise.py``). Four cases draw from the source that releases draw from, OpenDP's lattice and
the system's entropy. What the scale costs is compared with the claim as well, by the proven
sensitivities, as a wrong factor in one step may be too small to be shown by outputs.

**False alarms.** Sound code fails an audit with probability 1e-6 at most, all values of a table
together (`FALSE_ALARM`), whatever the number of draws: no law that is used is an approximation.

**What is missed.** At 100,000 trials one coordinate × 0.95 is found in the noise of
mechanisms and, if it is there in every step, of adaptive means, labels and persons. In hardened
noise, of which there are 500 draws, one × 0.8 is. One coordinate of one step × 0.95 is found in
adaptive means alone, one × 0.8 in every plan. Of KNG, RL and landmarks, where no law of coordinates
is known, only the noise between the two neighbours is audited.

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
``noise.py`` (p-values of noise against its law), ``attacks.py`` (neighbouring data sets of the
adaptive mean, of secret labels, persons and streams; those of a mechanism stand in its own file),
``faults.py`` (noise that is broken on purpose), ``cases.py`` (what is audited, and the faults that
it must catch), ``trials.py``. ``calls.py`` spares replayed transcripts what is computed again.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"cases": ["all_cases"], "trials": ["audit", "run_audit"]}
)
