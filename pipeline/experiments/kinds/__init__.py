"""The kinds of experiments: what is done in each. A new kind is a file and a row here."""

from pipeline.experiments.driver import ExperimentKind, draw_footpoints, run_cells
from pipeline.experiments.images import Run
from pipeline.experiments.kinds.classifiers import CLASSIFYING
from pipeline.experiments.kinds.comparisons import COMPARING, MATCHING
from pipeline.experiments.kinds.composition import COMPOSING
from pipeline.experiments.kinds.harmonising import HARMONISING
from pipeline.experiments.kinds.hospitals import COMBINING
from pipeline.experiments.kinds.nights import STREAMING
from pipeline.experiments.kinds.peers import COMPETING
from pipeline.experiments.kinds.regions import COVERING
from pipeline.experiments.kinds.timing import TIMING

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
