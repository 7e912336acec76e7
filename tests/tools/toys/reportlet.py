"""A report section: the classes with so few images that noise hides them."""

from covdp.report import FinishedRun

FEW = 30


def quiet_classes(run: FinishedRun) -> list[str]:
    """Return one line a class of fewer than `FEW` records."""
    return [f"{item.name}: {item.n}" for item in run.record.classes if item.n < FEW]
