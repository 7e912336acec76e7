"""The page of `covdp harmonise`: sites before and after, from documents of releases alone."""

import math
from pathlib import Path
from typing import Any

from scipy.special import ndtr

from pipeline.figures import listing
from pipeline.inference import Harmonisation
from pipeline.report.page import Declaration, Finding, PageFrame, table
from pipeline.report.several_page import (
    Together,
    finite,
    frame_of,
    size_numbers,
    size_together,
    write_together,
)


def build_harmonise(sites: Together, page: Path) -> Path:
    """Write the page, and the committed bytes beside it; return its path.

    Raises
    ------
    OutputError
        When something cannot be written.
    """
    return write_together("harmonise", sites, page)


def harmonise_page(sites: Together, texts: Declaration) -> PageFrame:
    """Return the frame of the page."""
    numbers = [(str(len(sites.several.given)), "sites"), *size_numbers(sites)]
    headline = _verdict(sites.results)
    return frame_of("harmonise", sites, texts, numbers=numbers, headline=headline)


def _verdict(found: Harmonisation) -> Finding:
    """Say which sites are mapped, and which stay as they are."""
    mapped = [name for name, site in found.sites.items() if not site.reason]
    stay = [name for name, site in found.sites.items() if site.reason]
    farthest = max(mapped, key=lambda name: found.sites[name].apart)
    site = found.sites[farthest]
    text = f"{len(mapped)} of {len(found.sites)} sites are mapped to the common scale. Farthest is "
    text += f"{farthest}, {site.apart:.2g} standard deviations of single images from the common "
    text += f"mean; after its map {site.left:.2g} are expected."
    text += f" Left as they are: {listing(stay)}, whose maps would be noise." if stay else ""
    return Finding(text, warning=bool(stay))


def scales(sites: Together) -> dict[str, Any] | None:
    """Return a row per site: its shift with its standard error, how far apart before and after."""
    lines = [
        [
            name,
            size_together([rows[place] for rows in sites.several.classes.values()]),
            f"{site.effect:.3g} ± {site.standard_error:.2g}",
            finite(site.apart),
            finite(site.left),
            "as it is" if site.reason else "means, covariances" if site.spread else "means",
        ]
        for place, (name, site) in enumerate(sites.results.sites.items())
    ]
    heads = ["Site", "n", "Shift", "Apart before", "Expected after", "Mapped"]
    return table(heads, lines)


def kept(sites: Together) -> dict[str, Any] | None:
    """Return expected areas under the ROC curve before and after, and the weights of classes."""
    found: Harmonisation = sites.results
    if not math.isfinite(found.classes_before):
        return None
    distances = (found.classes_before, found.classes_after)
    before, after = (float(ndtr(distance / math.sqrt(2.0))) for distance in distances)
    weights = dict(zip(sites.several.classes, found.weights, strict=True))
    return {"before": before, "after": after, "weights": weights}
