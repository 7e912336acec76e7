"""The kinds of experiments: what is done in each. A new kind is a file and a row here."""

from covdp.experiments.driver import ExperimentKind, draw_footpoints, run_cells
from covdp.experiments.images import Run
from covdp.experiments.kinds.classifiers import CLASSIFYING
from covdp.experiments.kinds.comparisons import COMPARING, MATCHING
from covdp.experiments.kinds.composition import COMPOSING
from covdp.experiments.kinds.harmonising import HARMONISING
from covdp.experiments.kinds.hospitals import COMBINING
from covdp.experiments.kinds.nights import STREAMING
from covdp.experiments.kinds.peers import COMPETING
from covdp.experiments.kinds.regions import COVERING
from covdp.experiments.kinds.timing import TIMING

EXPERIMENT_KINDS: dict[str, ExperimentKind] = {
    "error": ExperimentKind(
        in_words=(
            "Each series released the mean of every class repeatedly, and its "
            "distance from the mean without noise was measured"
        ),
        cells=run_cells,
        footpoints=draw_footpoints,
        keys=("definition", "delta", "measure", "records", "footpoint_distance"),
        useful=True,
    ),
    "timing": TIMING,
    "nights": STREAMING,
    "regions": COVERING,
    "peers": COMPETING,
    "tests": COMPARING,
    "matches": MATCHING,
    "hospitals": COMBINING,
    "classifiers": CLASSIFYING,
    "harmonising": HARMONISING,
    "composition": COMPOSING,
}
"""Kind of an experiment → what is done."""


def drawn_labels(run: Run) -> tuple[int, ...]:
    """Return the labels that cells of a run have."""
    return run.labels[:1] if EXPERIMENT_KINDS[run.config.kind].together else run.labels
