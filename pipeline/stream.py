"""Face of the mechanism of nights, whose functions are imported on first use."""

from covdp.registry import face

__getattr__, __dir__ = face("stream")
