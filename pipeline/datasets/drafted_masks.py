"""Regions of interest in a folder of images, for the draft of a card: known by words and sizes."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pipeline.datasets.layouts import Layout
from pipeline.datasets.patterns import mask_of, stem_of
from pipeline.datasets.source import SPLITS

FOLDERS = frozenset(
    {"mask", "masks", "seg", "segs", "segmentation", "segmentations", "roi", "rois", "regions"}
)
"""What folders of masks are usually called."""
_ENDS = re.compile(r"[-_. ](mask|seg|segmentation|roi)([-_. ]?[0-9]+)?$", re.IGNORECASE)
TRIED = 20
"""Pairs of image and mask whose sizes are compared."""


class Sorted(NamedTuple):
    """Paths of images, and of what looks like masks of them."""

    images: list[str]
    masks: list[str]


def sort_masks(names: Sequence[str]) -> Sorted:
    """Return which paths look like masks: by the name of a folder, or the end of their own."""
    masks = [name for name in names if _is_mask(name)]
    if len(masks) == len(names):
        return Sorted(masks, [])
    return Sorted([name for name in names if not _is_mask(name)], masks)


def _is_mask(name: str) -> bool:
    *folders, file = name.lower().split("/")
    return bool(FOLDERS & set(folders) or _ENDS.search(stem_of(file)))


class Drafted(NamedTuple):
    """Where the mask of each image lies, if every image has one, and what is to be told of it."""

    masks: str | None
    doubt: str


def draft_masks(
    found: Sorted, layout: Layout, above: str, alike: Callable[[str, str], bool]
) -> Drafted | None:
    """Return where the masks of images lie, None where what looks like masks is of no image.

    Parameters
    ----------
    found : Sorted
        Paths of images and masks.
    layout : Layout
        How those of the images are read.
    above : str
        What stands before a path in the pattern's folder, "" or "FOLDER/".
    alike : callable
        Whether an image and a mask, by their paths, have one size.
    """
    read = _reading(layout)
    images = {name: match.groupdict() for name in found.images if (match := read(above + name))}
    many = len(found.masks)
    for mask in found.masks:
        for image in (each for each in images if stem_of(each.rpartition("/")[2]) in mask):
            pattern = _pattern(above + mask, above + image, images[image])
            pairs = {name: mask_of(pattern, above + name, images[name]) for name in images}
            there = {above + each for each in found.masks}
            missing = [name for name, wanted in pairs.items() if wanted not in there]
            if len(missing) == len(images) or pattern.count("*") != 1:
                continue
            if missing:
                return Drafted(
                    None,
                    f"{many} file(s) look like masks, and {len(missing)} image(s) have none at "
                    f"'{pattern}', as {missing[0]}; masks in a card needs one of each image",
                )
            tried = list(pairs.items())[:: max(1, len(pairs) // TRIED)]
            if all(alike(name, wanted.removeprefix(above)) for name, wanted in tried):
                return Drafted(pattern, f"masks is a guess: {many} file(s) are taken for masks")
            return Drafted(None, f"{many} file(s) look like masks, of other sizes than the images")
    return None


def _pattern(mask: str, image: str, names: Mapping[str, str]) -> str:
    """Return the path of a mask with what of it names its image in braces, or as ``*``."""
    *folders, file = mask.split("/")
    said = {text: "{" + name + "}" for name, text in names.items()}
    stem = stem_of(image.rpartition("/")[2])
    before, _, after = file.partition(stem)
    return "/".join([*(said.get(folder, folder) for folder in folders), f"{before}*{after}"])


def _reading(layout: Layout) -> Callable[[str], re.Match[str] | None]:
    """Return what reads class, split and person from the path of an image."""
    known = {
        "{class}": "(?P<class>" + "|".join(map(re.escape, layout.classes)) + ")",
        "{split}": "(?P<split>" + "|".join(SPLITS) + ")",
        "{person}": "(?P<person>[^/]+?)",
        "**/": "(?:.*/)?",
        "*": "[^/]*",
    }
    tokens = re.findall(r"\{[a-z]+\}|\*\*/|\*|\[.\]|.", layout.pattern, re.DOTALL)
    text = "".join(known.get(token) or re.escape(token.strip("[]") or token) for token in tokens)
    return re.compile(text, re.DOTALL).fullmatch
