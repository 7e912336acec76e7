"""What deployments print."""

from pathlib import Path

from tests.tools.container import instructions

ROOT = Path(__file__).resolve().parents[2]
STEPS = instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))
LAST = STEPS[max(i for i, (name, _) in enumerate(STEPS) if name == "FROM") :]


def told(name: str) -> str:
    """Return what follows the one instruction of this name in the last stage."""
    (rest,) = [rest for step, rest in LAST if step == name]
    return rest
