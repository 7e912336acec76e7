"""Frames of files that hold several: which are read, and the seconds until each comes."""

from collections.abc import Iterator

from covdp.datasets.cards import Frames
from covdp.errors import image_error
from covdp.progress import T, spending


def chosen_frames(frames: Frames, count: int, where: str) -> range | tuple[int, ...]:
    """Return the indices of the frames that are read of `count`; all, where masks choose.

    Parameters
    ----------
    frames : Frames
        Choice of the card.
    count : int
        Number of frames of the file.
    where : str
        Name of the file, for the message.

    Raises
    ------
    ImageError
        When a named frame is not there; `where` names the file.
    """
    if frames == "middle":
        return (count // 2,)
    if not isinstance(frames, tuple):
        return range(count)
    if max(frames) >= count:
        raise image_error(
            f"{where} has {count} frame(s), and no frame {max(frames)}; name others in frames, "
            '"middle" or "all" in the card'
        )
    return frames


def each_spending(items: Iterator[T], on: str) -> Iterator[T]:
    """Yield the items, and count the seconds until each comes, as `spending` does.

    Parameters
    ----------
    items : iterator of object
        Items to hand on.
    on : str
        Name of the work in `seconds_spent`.
    """
    while True:
        with spending(on):
            item = next(items, None)
        if item is None:
            return
        yield item
