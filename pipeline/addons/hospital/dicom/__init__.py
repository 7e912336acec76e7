"""DICOM: files of one's own as images, or as volumes of their slices, with masks.

A reader's order: ``card`` (what a card may say), ``files`` (a folder becomes a source: what headers
say, frames and series as 0..255), ``header`` (elements up to the pixels; how values are rescaled
and windowed, where frames are, and the order of slices), ``pixels`` (stored values) with
``decoder`` (compressed frames, in a process of their own) and ``plugins`` (decoders that are asked
for), ``masks``.
"""

from covdp.errors import MissingError, require_extra

require_extra("pydicom", fault=MissingError)
