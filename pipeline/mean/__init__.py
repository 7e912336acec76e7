"""Private means: where every mean of this project is planned, bounded and drawn.

    points ─► records ─► plan ─┬► single: statistic, sensitivity, noise ─┐
              (the door)       └► adaptive: means and counts ────────────┴► Release

``engine.py`` is the whole in one page; ``release.py`` is what comes out, and what is secret of
classes. In reading order, on to them: ``plan.py``; ``public_model.py``, what is publicly known of
records; ``records.py``, the door and the barycentre, and ``sums.py``, sums of what comes in batches
and never overflow or round; ``sensitivity.py`` and ``single.py``. The adaptive mean, noise as wide
as the records of a class are and not as any two images could: ``axes.py``,
``clip.py``, ``noisy_moments.py``, ``rounds.py``. Its numbers that were set by hand stand in
``tuning.py``.
"""

from covdp.mean.engine import MeanSetup as MeanSetup
from covdp.mean.engine import draw as draw
from covdp.mean.engine import draw_each as draw_each
from covdp.mean.engine import mean as mean
from covdp.mean.engine import prepare as prepare
from covdp.mean.engine import private_mean as private_mean
from covdp.mean.engine import select_footpoints as select_footpoints
from covdp.mean.engine import shares_of as shares_of
from covdp.mean.noisy_moments import NoisyMoments as NoisyMoments
from covdp.mean.plan import AdaptivePlan as AdaptivePlan
from covdp.mean.plan import Plan as Plan
from covdp.mean.plan import Shares as Shares
from covdp.mean.plan import SinglePlan as SinglePlan
from covdp.mean.plan import release_plan as release_plan
from covdp.mean.plan import shared_plan as shared_plan
from covdp.mean.public_model import Ball as Ball
from covdp.mean.public_model import Domain as Domain
from covdp.mean.public_model import Prior as Prior
from covdp.mean.public_model import default_prior as default_prior
from covdp.mean.public_model import feasible_set as feasible_set
from covdp.mean.records import Records as Records
from covdp.mean.records import admit as admit
from covdp.mean.records import person_records as person_records
from covdp.mean.release import PUBLIC_LABELS as PUBLIC_LABELS
from covdp.mean.release import Labels as Labels
from covdp.mean.release import Release as Release
from covdp.mean.release import Step as Step
from covdp.mean.single import DrawnFootpoints as DrawnFootpoints
from covdp.mean.single import calibrate as calibrate
from covdp.mean.single import pays_footpoint as pays_footpoint
from covdp.mean.single import split_budget as split_budget
from covdp.mean.sums import Batches as Batches
from covdp.mean.sums import in_memory_if_few as in_memory_if_few
