"""The kinds of experiments: what is done in each. Add-ons bring more."""

from covdp.experiments.driver import ExperimentKind, draw_footpoints, run_cells
from covdp.experiments.images import Run
from covdp.registry import Registry

EXPERIMENT_KINDS = Registry[ExperimentKind](
    "experiment_kinds",
    {
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
    },
    word="kind of experiment",
)
"""Kind of an experiment → what is done."""


def drawn_labels(run: Run) -> tuple[int, ...]:
    """Return the labels that cells of a run have."""
    return run.labels[:1] if EXPERIMENT_KINDS[run.config.kind].together else run.labels
