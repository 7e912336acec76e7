"""Frames: which images of a file that holds several are read, and which segments of a mask."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator

from pipeline.errors import ImageError


def _known(frames: Any) -> Any:
    """Return what a card says if it names frames, each once."""
    if frames in ("all", "middle", "masked"):
        return frames
    indices = list(frames) if isinstance(frames, list | tuple) else []
    if not all(type(index) is int and index >= 0 for index in indices):
        raise ValueError(f"indices are whole numbers from 0 on, found {frames}")
    if not indices or len(set(indices)) < len(indices):
        raise ValueError(
            f'must be "all", "middle", "masked" or a list of different indices, found {frames}'
        )
    return tuple(indices)


Frames: TypeAlias = Annotated[
    Literal["all", "middle", "masked"] | tuple[int, ...], BeforeValidator(_known)
]
"""All, the middle one (of an even number the later of the two), those with a pixel inside their
mask, or those of these indices."""


def _numbered(segments: Any) -> Any:
    """Return what a card says if it names segments, which are numbered from 1."""
    numbers = segments if isinstance(segments, list | tuple) else []
    if segments == "all":
        return segments
    if not numbers or not all(type(number) is int and number > 0 for number in numbers):
        raise ValueError(f'must be "all" or a list of numbers from 1 on, found {segments}')
    return tuple(numbers)


Segments: TypeAlias = Annotated[Literal["all"] | tuple[int, ...], BeforeValidator(_numbered)]
"""Which segments of a segmentation are inside."""


def chosen_frames(frames: Frames, count: int, where: str) -> range | tuple[int, ...]:
    """Return the indices of the frames that are read of `count`.

    Raises
    ------
    ImageError
        When a named frame is not there; `where` names the file.
    """
    if frames == "all":
        return range(count)
    if frames == "middle":
        return (count // 2,)
    if frames == "masked":
        raise ImageError(f'{where} has no mask, which frames = "masked" asks; choose others')
    if max(frames) >= count:
        raise ImageError(
            f"{where} has {count} frame(s), and no frame {max(frames)}; name others in frames, or "
            'give "middle" or "all"'
        )
    return frames
