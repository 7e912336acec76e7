"""Face of the estimators for scikit-learn, which are imported on first use."""

from covdp.registry import face

__getattr__, __dir__ = face("estimators")
