"""Doors of Python: an argument of another type is one line, with what was found."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import covdp
from covdp.errors import CovdpError
from covdp.inference import region
from tests.tools.addons import addon

TILES = covdp.open_dataset("tiles")
two_sample, lda = addon("partners.tests:two_sample"), addon("partners.classify:lda")
SLIPS: dict[str, tuple[Callable[[], Any], str]] = {
    "label": (lambda: next(TILES.chunks(label="ihc")), "found 'ihc'; classes are 0 ihc, 1 retina"),
    "label that is none": (lambda: next(TILES.chunks(label=7)), "found 7"),
    "height": (lambda: covdp.domain("oct5", height="28", width=28), "whole numbers of pixels"),
    "width": (lambda: covdp.domain("oct5", height=28, width=28.5), "whole numbers of pixels"),
    "eta": (lambda: covdp.domain("oct5", height=28, width=28, eta="1"), "found '1'"),
    "region": (lambda: region(np.eye(5)), "found ndarray"),
    "nothing": (lambda: region(None), "found NoneType"),
    "pair": (lambda: two_sample(np.eye(5), 3), "found ndarray"),
    "classifier": (lambda: lda([1, np.eye(5)]), "found int"),
    "classifier of one": (lambda: lda(np.eye(5)), "found ndarray"),
}


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_one_line(name: str) -> None:
    """It says what was found."""
    slip, told = SLIPS[name]
    with pytest.raises(CovdpError) as caught:
        slip()
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
