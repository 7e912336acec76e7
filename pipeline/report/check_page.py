"""The page of `covdp check`: images as they enter, odd files, classes, and the account.

It is as private as the images, of which it shows some.
"""

import base64
import math
from itertools import chain
from pathlib import Path
from typing import Any

from covdp.datasets.summary import in_words
from covdp.figures import montage
from covdp.files import make_folder, owner_only
from covdp.privacy import best_test, protected_unit
from covdp.publish.preview import Preview, PreviewedClass
from covdp.report.page import Finding, write_page

SHOWN_SIDE = 160
"""Largest side of a picture, in pixels; larger images are shown by some of their rows."""


def build_check(preview: Preview, out: Path) -> Path:
    """Write ``OUT/check.html``, for its owner alone, and return it.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    out : Path
        Folder that is written, for its owner alone.

    Returns
    -------
    Path
        Path of the page.

    Raises
    ------
    OutputError
        When it cannot be written.
    """
    with owner_only(True):
        return write_page(make_folder(out) / "check.html", "check", preview)


def headline(preview: Preview) -> Finding:
    """Say whether somebody must decide, and what the means are likely usable for.

    Parameters
    ----------
    preview : Preview
        Result of a check.

    Returns
    -------
    Finding
        Sentences at the head of the page; a warning if something is to be decided.
    """
    many = len(preview.decisions)
    mend = f"{many} thing{'s' * (many != 1)} to decide or mend before a release is paid."
    text = mend if many else "Nothing to mend."
    known = [lines if len(preview.use) == 1 else lines[:1] for lines in preview.use]
    return Finding(" ".join([text, *preview.notes, *chain(*known)]), warning=bool(many))


def predictions(preview: Preview) -> list[Finding]:
    """Return what is predicted of classes of one use, together; nothing of a single group.

    The headline has all of a single group.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    """
    if len(preview.use) < 2:
        return []
    return [Finding(" ".join(lines), stated=True) for lines in preview.use]


def decisions(preview: Preview) -> list[Finding]:
    """Return what is to be decided, a warning each.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    """
    return [Finding(text, warning=True) for text in preview.decisions]


def paste(preview: Preview) -> tuple[str, ...]:
    """Return the rows to paste, so that the card leaves out what cannot be used.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    """
    return preview.paste


def classes(preview: Preview) -> list[dict[str, Any]]:
    """Return a row per class.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    """
    uses = preview.uses or ("",) * len(preview.classes)
    return [
        {
            "name": row.name,
            "images": f"{row.images:,}",
            "persons": "" if row.persons is None else f"{row.persons:,}",
            "gray": "–" if math.isnan(row.low) else f"{row.low:.0f} to {row.high:.0f}",
            "use": use,
        }
        for row, use in zip(preview.classes, uses, strict=True)
    ]


def pictures(preview: Preview) -> list[dict[str, Any]]:
    """Return some images of each class, in one picture, as data URIs.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    """
    return [
        {"name": row.name, "n": row.images, "uri": _uri(preview, row)}
        for row in preview.classes
        if len(row.rows)
    ]


def _uri(preview: Preview, row: PreviewedClass) -> str:
    images = preview.pictures(row)
    step = -(-max(images.shape[1:3]) // SHOWN_SIDE)
    content = base64.b64encode(montage(images[:, ::step, ::step], columns=6)).decode()
    return f"data:image/png;base64,{content}"


def gray(preview: Preview) -> dict[str, str]:
    """Return the gray levels of all pixels, in words.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    """
    levels = preview.gray
    if levels["median"] is None:
        return {}
    black, white = (f"{100 * float(levels[name] or 0):.2g} %" for name in ("black", "white"))
    return {
        "1st percentile": f"{levels['low']:g}",
        "Median": f"{levels['median']:g}",
        "99th percentile": f"{levels['high']:g}",
        "Black (0)": f"{black} of the pixels",
        "White (255)": f"{white} of the pixels",
    }


def odd(preview: Preview) -> list[dict[str, Any]]:
    """Return a row per odd file.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    """
    return [{"file": x.file, "what": what, "reason": x.reason} for x, what in preview.odd]


def counts(preview: Preview) -> list[dict[str, Any]]:
    """Return how many files have each depth, size, colour, modality and range of values, in words.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    """
    heads = ("feature", "value", "files")
    return [dict(zip(heads, row, strict=True)) for row in in_words(preview.found.counts)]


def account(preview: Preview) -> dict[str, str]:
    """Return the effect of a release, and what its account has.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    """
    config, who = preview.config, protected_unit(preview.config.unit)
    most = best_test(config.promise, config.hardened)
    lines = {
        "Release": f"It would {preview.would}.",
        "Protected": f"{who[0].upper()}{who[1:]}; the best attack is right in at most {most} %.",
        "Account": preview.account,
    }
    return {label: text for label, text in lines.items() if text}


def no_promise(preview: Preview) -> tuple[()]:
    """Return nothing: a check releases nothing.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    """
    return ()


def no_methods(preview: Preview) -> None:
    """Return nothing: no paper says anything of a check.

    Parameters
    ----------
    preview : Preview
        Result of a check.
    """
