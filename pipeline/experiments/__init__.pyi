from .driver import all_cells as all_cells
from .images import Run as Run
from .kinds import EXPERIMENT_KINDS as EXPERIMENT_KINDS
from .registry import EXPERIMENTS as EXPERIMENTS
from .registry import MAIN as MAIN
from .registry import load_experiments as load_experiments
from .steps import ExperimentStep as ExperimentStep
from .steps import run_experiment as run_experiment
