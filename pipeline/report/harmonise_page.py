"""The page of `covdp harmonise`: sites before and after, from documents of releases alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scipy.special import ndtr

from pipeline.figures import listing
from pipeline.inference import Harmonisation
from pipeline.publish.document import write_document
from pipeline.publish.several import Several
from pipeline.report.page import (
    Declaration,
    Finding,
    PageFrame,
    Section,
    table,
    write_page,
)
from pipeline.report.several_page import finite, frame_of, size_together, units_in_words


@dataclass(frozen=True, eq=False)
class HarmonisedSites:
    """Releases of several sites, and their maps.

    Attributes
    ----------
    several : Several
    found : Harmonisation
    files : sequence of Path
        The committed bytes of each release, beside the page once it is written.
    """

    several: Several
    found: Harmonisation
    files: Sequence[Path] = ()

    @property
    def unit(self) -> str:
        """What one record is."""
        return self.several.given[0].settings.unit


def build_harmonise(sites: HarmonisedSites, page: Path) -> Path:
    """Write the page, and the committed bytes beside it; return its path.

    Raises
    ------
    OutputError
        When something cannot be written.
    """
    contents = [given.content for given in sites.several.given]
    files = [write_document(content, page.parent).relative_to(page.parent) for content in contents]
    return write_page(page, "harmonise", replace(sites, files=files))


def harmonise_page(sites: HarmonisedSites, texts: Declaration) -> PageFrame:
    """Return the frame of the page: one section."""
    several, names = sites.several, listing(sites.several.names)
    section = Section(
        id="harmonise",
        title=texts["headline"],
        subtitle=names,
        key_numbers=[
            (str(len(several.given)), "sites"),
            (units_in_words(several.given), f"{sites.unit}s"),
            (str(len(several.classes)), "class" if len(several.classes) == 1 else "classes"),
        ],
        headline=_verdict(sites.found),
        subject=sites,
        classes=tuple(several.classes),
    )
    return frame_of(several, section, texts)


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


def scales(sites: HarmonisedSites) -> dict[str, Any] | None:
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
        for place, (name, site) in enumerate(sites.found.sites.items())
    ]
    heads = ["Site", "n", "Shift", "Apart before", "Expected after", "Mapped"]
    return table(heads, lines)


def kept(sites: HarmonisedSites) -> list[Finding]:
    """Return what is kept of the difference between classes, as an area under the ROC curve."""
    found = sites.found
    if not math.isfinite(found.classes_before):
        return []
    areas = (ndtr(d / math.sqrt(2.0)) for d in (found.classes_before, found.classes_after))
    before, after = (f"{area:.3f}" for area in areas)
    shares = zip(sites.several.classes, found.weights, strict=True)
    weights = ", ".join(f"{name} {100.0 * share:.2g} %" for name, share in shares)
    return [
        Finding(
            "Linear discriminants distinguish the two nearest classes, all sites together, with an "
            f"expected AUC of {before} before and {after} after. Each map moves all classes of a "
            "site in the same way."
        ),
        Finding(f"Weights of the classes, the same at all sites: {weights}.", told=True),
    ]
