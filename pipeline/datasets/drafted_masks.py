"""Regions of interest in a folder of images, for the draft of a card: known by words and sizes."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

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
    found: Sorted,
    layout: Layout,
    above: str,
    alike: Callable[[str, str], bool],
    *,
    shared: bool = False,
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
        Whether an image and a mask, by their paths, have one size, and lie in one place.
    shared : bool
        Whether one mask may be of all images in a folder.
    """
    images = _read_images(found.images, layout, above)
    there, many = {above + mask for mask in found.masks}, len(found.masks)
    for mask in found.masks:
        for pattern in _patterns(above + mask, images, shared=shared):
            pairs = {name: mask_of(pattern, above + name, images[name]) for name in images}
            missing = [name for name, wanted in pairs.items() if wanted not in there]
            if len(missing) == len(images):
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
            other = "of other sizes than the images" + shared * ", or lying elsewhere"
            return Drafted(None, f"{many} file(s) look like masks, {other}")
    return None


Named: TypeAlias = Mapping[str, str]
"""What the path of an image says: class, split, person, and the folders of ``**``."""


def _read_images(names: Sequence[str], layout: Layout, above: str) -> dict[str, Named]:
    """Return what the paths of images say, of those that the layout reads."""
    read, found = _reading(layout), dict[str, Named]()
    for name in names:
        if match := read(above + name):
            said = {key: text or "" for key, text in match.groupdict().items()}
            below = said.pop("below", None)
            found[name] = said if below is None else said | {"**": below}
    return found


def _patterns(mask: str, images: Mapping[str, Named], *, shared: bool) -> Iterator[str]:
    """Yield how the path of a mask may follow from those of images, likely ways first."""
    end = mask.removeprefix(stem_of(mask))
    seen = set()
    for image, names in images.items():
        stem, found = stem_of(image.rpartition("/")[2]), []
        if stem in mask.rpartition("/")[2]:
            found.append(_pattern(mask, stem, names))
        if shared and names.get("**") and end.lower().startswith(".nii"):
            found.append(_with_names(mask.removesuffix(end), names) + end)
        for pattern in found:
            stars = pattern.replace("**", "").count("*")
            if pattern not in seen and (stars == 1 or ("**" in pattern and not stars)):
                yield pattern
            seen.add(pattern)


def _pattern(mask: str, stem: str, names: Named) -> str:
    """Return the path of a mask with what of it names its image in braces, or as ``*``."""
    folder, between, file = mask.rpartition("/")
    before, _, after = file.partition(stem)
    return f"{_with_names(folder, names)}{between}{before}*{after}"


def _with_names(path: str, names: Named) -> str:
    """Return a path with what of it an image's path says in braces, or as ``**``."""
    for name, text in sorted(names.items(), key=lambda item: -len(item[1])):
        token = name if name == "**" else "{" + name + "}"
        whole = rf"(?<![^/]){re.escape(text)}(?![^/])"
        path = re.sub(whole, token, path, count=1) if text else path
    return path


def _reading(layout: Layout) -> Callable[[str], re.Match[str] | None]:
    """Return what reads class, split and person from the path of an image."""
    known = {
        "{class}": "(?P<class>" + "|".join(map(re.escape, layout.classes)) + ")",
        "{split}": "(?P<split>" + "|".join(SPLITS) + ")",
        "{person}": "(?P<person>[^/]+?)",
        "**/": "(?:(?P<below>.*)/)?",
        "*": "[^/]*",
    }
    tokens = re.findall(r"\{[a-z]+\}|\*\*/|\*|\[.\]|.", layout.pattern, re.DOTALL)
    text = "".join(known.get(token) or re.escape(token.strip("[]") or token) for token in tokens)
    return re.compile(text, re.DOTALL).fullmatch
