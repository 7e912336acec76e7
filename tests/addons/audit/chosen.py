"""An audit of some cases and controls alone."""

from collections.abc import Sequence

import pytest

from covdp.addons.audit import trials
from covdp.addons.audit.cases import CONTROLS, Case, all_cases


def audit_only(
    monkeypatch: pytest.MonkeyPatch,
    cases: Sequence[Case] | None = None,
    controls: Sequence[Case] = CONTROLS,
) -> None:
    """Have audits attack these cases, all of what is asked for when left out, and controls."""
    some = all_cases if cases is None else lambda _: tuple(cases)
    monkeypatch.setattr(trials, "all_cases", some)
    monkeypatch.setattr(trials, "CONTROLS", tuple(controls))
