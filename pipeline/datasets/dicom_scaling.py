"""From the stored values of a DICOM frame to those of its window: what the header says of both.

Enhanced objects say it in functional groups, of one frame or of all; older ones in the root. The
frame's own group is asked first, then the shared one, then the root.
"""

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from pipeline.datasets.dicom_elements import items, text
from pipeline.datasets.dicom_header import Header
from pipeline.datasets.intensities import Sigmoid, Window

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

WAY = 'give window = [low, high] or "image" in the card'


class Scaling(NamedTuple):
    """What `pipeline.datasets.intensities.to_uint8` is told of one frame."""

    slope: float
    intercept: float
    window: Window


def scaling(
    header: Header, frame: int, window: tuple[float, float] | Literal["image", "header"] | None
) -> Scaling:
    """Return how the values of one frame are rescaled, and the window that a card asks for.

    Raises
    ------
    ImageError
        When the header maps values by a table, does not say all of it, or says no numbers.
    """
    if items(header.elements, "ModalityLUTSequence"):
        raise header.fault(
            "ModalityLUTSequence",
            "maps values by a table, which is not read",
            "apply it and write the file anew, or leave it out",
        )
    slope, intercept = _rescale(header, frame)
    if window == "header":
        window = _header_window(header, frame, plain=(slope, intercept) == (1.0, 0.0))
    return Scaling(slope, intercept, window)


def _rescale(header: Header, frame: int) -> tuple[float, float]:
    for place in places(header, frame, "PixelValueTransformationSequence"):
        if text(place, "RescaleSlope") or text(place, "RescaleIntercept"):
            slope = _real(header, place, "RescaleSlope")
            return slope, _real(header, place, "RescaleIntercept")
    return 1.0, 0.0


def _header_window(header: Header, frame: int, plain: bool) -> Window:
    """Return the first window of a frame (PS3.3, C.11.2.1.2 and C.11.2.1.3).

    LINEAR is a window from c − ½ − (w − 1)/2 to c − ½ + (w − 1)/2, LINEAR_EXACT one of c ± w/2.
    """
    if items(header.elements, "VOILUTSequence"):
        raise header.fault(
            "VOILUTSequence", 'is a table, which window = "header" does not read', WAY
        )
    for place in places(header, frame, "FrameVOILUTSequence"):
        if not text(place, "WindowCenter"):
            continue
        center = _real(header, place, "WindowCenter")
        width = _real(header, place, "WindowWidth")
        function = text(place, "VOILUTFunction") or "LINEAR"
        if function not in ("LINEAR", "LINEAR_EXACT", "SIGMOID"):
            raise header.fault(
                "VOILUTFunction", f"must be LINEAR, LINEAR_EXACT or SIGMOID, found {function}", WAY
            )
        if width < 1 if function == "LINEAR" else width <= 0:
            raise header.fault("WindowWidth", f"is too small for {function}, found {width}", WAY)
        if function == "SIGMOID":
            return Sigmoid(center, width)
        if function == "LINEAR":
            center, width = center - 0.5, width - 1
        return center - width / 2, center + width / 2
    if header.stored == 8 and not header.signed and plain:
        return None
    raise header.fault("WindowCenter", 'must be there for window = "header", found none', WAY)


def places(header: Header, frame: int, group: str) -> list["Dataset"]:
    """Return where to look for what is said of one frame, the nearest first."""
    each, shared = header.groups
    of_frame = (item for one in each[frame : frame + 1] + shared for item in items(one, group)[:1])
    return [*of_frame, header.elements]


def _real(header: Header, place: "Dataset", keyword: str) -> float:
    """Return a decimal string as a number; that it is finite is checked where it is used."""
    said = text(place, keyword)
    try:
        found = float(said)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise header.fault(keyword, f"must be a number, found {said!r}")
    return found
