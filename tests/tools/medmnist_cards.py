"""The cards of MedMNIST, written from the installed ``medmnist``, which knows URLs and digests.

``python -m tests.tools.medmnist_cards`` writes them again, after an upgrade of that package.
"""

import json
import runpy
import sys
import textwrap
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from covdp.errors import DatasetError, one_line, require_extra
from covdp.files import resource

SIZES = (28, 64, 128, 224)
"""Sides in pixels of MedMNIST+; sets of volumes have the first two."""

_MULTI = """\
# Records must lie in disjoint classes, but an image here may have several of 14 findings. Rule:
# class 0 has no finding, class 1 at least one; the labels in the file are the 14 flags below.
"""


def cards() -> dict[str, str]:
    """Return the TOML of each set of ``medmnist.INFO``, by name.

    Raises
    ------
    DatasetError
        As `information`.
    """
    known = information()
    return {name: card_text(info, known["HOMEPAGE"]) for name, info in known["INFO"].items()}


def information() -> dict[str, Any]:
    """Return the names of ``medmnist.info``, without torch, which the rest of medmnist imports.

    Raises
    ------
    DatasetError
        When medmnist is not installed, with the extra that brings it.
    """
    require_extra("medmnist", fault=DatasetError)
    package = find_spec("medmnist")
    assert package is not None
    assert package.origin is not None
    return runpy.run_path(str(Path(package.origin).with_name("info.py")))


def card_text(info: Mapping[str, Any], homepage: str) -> str:
    """Return one entry of ``medmnist.INFO`` as the TOML of a card."""
    labels = [info["label"][str(index)] for index in range(len(info["label"]))]
    multi, volumes = "multi-label" in info["task"], info["python_class"].endswith("3D")
    lines = [
        f"title = {_text(info['python_class'])}",
        'kind = "npz"',
        f"medmnist = {_text(info['python_class'])}",
        "public = true",
        f"licence = {_text(info['license'])}",
        f"url = {_text(homepage)}",
        f"description = {_paragraph(info['description'])}",
        f"channels = {info['n_channels']}",
        "volumes = true" if volumes else "",
        f"{_MULTI}classes = {_list(['no finding', 'finding'])}" if multi else "",
        f"{'findings' if multi else 'classes'} = {_list(labels)}",
        "images = {{ train = {train}, val = {val}, test = {test} }}".format(**info["n_samples"]),
    ]
    for size in SIZES:
        suffix = "" if size == SIZES[0] else f"_{size}"
        if f"url{suffix}" not in info:
            continue
        url, md5 = info[f"url{suffix}"], info[f"MD5{suffix}"]
        lines.append(f'\n[[files]]\nsize = {size}\nurl = {_text(url)}\nmd5 = "{md5}"')
    return "\n".join(line for line in lines if line) + "\n"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: list[str]) -> str:
    line = f"[{', '.join(map(_text, values))}]"
    return line if len(line) < 88 else "[\n" + "".join(f"    {_text(v)},\n" for v in values) + "]"


def _paragraph(value: str) -> str:
    """Return a long string in short lines, which TOML joins again."""
    escaped = _text(" ".join(value.split()))[1:-1]
    body = " \\\n".join(textwrap.wrap(escaped, 96, break_long_words=False, break_on_hyphens=False))
    return f'"""\\\n{body}"""'


def main() -> int:
    """Write the cards into ``data/``, or say what is missing and return 2."""
    try:
        written = cards()
    except DatasetError as error:
        print(f"covdp: {one_line(error)}", file=sys.stderr)
        return 2
    for name, text in written.items():
        (resource("data") / f"{name}.toml").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
