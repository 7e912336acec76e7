"""Blocks of the page of a night besides those of a release: from its document and nothing else."""

import math
from collections.abc import Sequence
from typing import Any

from covdp.addons.nights.schema import NightClassPart, NightDocument, WindowPart
from covdp.figures import Figure
from covdp.inference import NOTHING, usual_difference, verdict_of
from covdp.report.release_page import squares
from covdp.schema import Document, manifold_named


def reaching(windows: Sequence[WindowPart]) -> list[WindowPart]:
    """Return the windows that reach further back than those before them.

    Parameters
    ----------
    windows : sequence of WindowPart
        Windows of a class, in order.
    """
    before = [None, *windows]
    return [x for x, y in zip(windows, before, strict=False) if y is None or x.first < y.first]


def last(nights: int) -> str:
    """Return the name of a window.

    Parameters
    ----------
    nights : int
        Number of the nights.
    """
    return f"last {nights} nights" if nights > 1 else "last night"


def waiting(document: Document) -> list[str]:
    """Return the reason of each class of a night without a mean.

    Parameters
    ----------
    document : Document
        Document of the night.
    """
    rows = [row for row in document.classes if isinstance(row, NightClassPart)]
    return [f"{row.class_name}: {row.no_point}." for row in rows if row.no_point]


def joined(document: NightDocument) -> Figure | None:
    """Return the mean of this stream and of those that it follows, where it is usable.

    Parameters
    ----------
    document : NightDocument
        Document of the night.
    """
    points = {}
    for name, mean in ((row.class_name, row.joined) for row in document.classes if row.joined):
        manifold = manifold_named(document.settings.manifold, len(mean.coordinates))
        usual = usual_difference(manifold, len(mean.point))
        share = math.sqrt(mean.covariance.trace()) / usual
        if verdict_of(name, mean.n, share, None, offered=False).use != NOTHING:
            points[name] = mean.point
    return squares(points, document.settings)


def windows(document: NightDocument) -> list[dict[str, Any]]:
    """Return a row per class and window: its nights, its records, and the size of its noise.

    Only windows that reach further back than those before them.

    Parameters
    ----------
    document : NightDocument
        Document of the night.
    """
    return [
        {
            "name": row.class_name,
            "title": last(window.nights),
            "window": window,
            "noise": math.sqrt(window.noise(document.axes).trace()),
        }
        for row in document.classes
        for window in reaching(row.windows)
    ]
