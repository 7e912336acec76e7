"""The page of a release: made from the committed document and from nothing else."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.descriptors import DESCRIPTORS
from pipeline.figures import javascript, letter, matrices
from pipeline.files import atomic_path, make_folder, resource
from pipeline.privacy import (
    ZCDP,
    Budget,
    budget_from,
    for_group,
    main_parameter,
    repeat,
    success,
)
from pipeline.privacy.exact import digits_down, digits_up
from pipeline.privacy.statement import plainly
from pipeline.report.findings import Finding
from pipeline.report.page import Reportlet, Section, load_spec, render


def build_release_report(document: Mapping[str, Any], target: Path) -> Path:
    """Write the page of a document that `pipeline.publish.read_document` returned to `target`.

    Raises
    ------
    OutputError
        When the page cannot be written.
    """
    spec = load_spec(resource("reports", "report.toml"))
    section = _section(document, spec["release"])
    warning = {"warning": spec["release"]["unsafe"]} if section.headline.warning else {}
    page = render(
        title=document["title"],
        page=spec["page"] | spec["release"] | warning,
        sections=[section],
        privacy={label: [("", text)] for label, text in document["statement"]},
        script=javascript(),
    )
    make_folder(target.parent)
    with atomic_path(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def _section(document: Mapping[str, Any], words: Mapping[str, str]) -> Section:
    settings, rows = document["settings"], document["classes"]
    account = document.get("account")
    points = np.array([row["point"] for row in rows])
    figure = matrices(
        [row["class_name"] for row in rows], points, DESCRIPTORS[settings["descriptor"]].features
    )
    blocks = {
        "meaning": ("lines.html.j2", meaning(document)),
        "account": ("facts.html.j2", facts(account_facts(account)) if account else None),
        "means": ("figure.html.j2", figure),
        "errors": ("table.html.j2", _errors(rows, _unit(settings))),
        "facts": ("facts.html.j2", facts(_told(settings, words), settings)),
        "exact": ("facts.html.j2", facts({words[f"{x}_label"]: words[x] for x in _EXACT})),
        "costs": ("table.html.j2", _costs(rows)),
    }
    return Section(
        id=settings["name"],
        title=document["title"],
        subtitle=settings["population"],
        key_numbers=_key_numbers(document),
        headline=_headline(settings, words),
        reportlets=[
            Reportlet(name, words[f"{name}_title"], words[f"{name}_caption"], template, content)
            for name, (template, content) in blocks.items()
            if content
        ],
    )


_EXACT = ("noised", "derived", "exact")
"""What the page's numbers are, in `report.toml`: each with its label."""


def _headline(settings: Mapping[str, Any], words: Mapping[str, str]) -> Finding:
    """Say what is noised and what is exact, unless the noise was drawn in floats."""
    if settings["noise"] == "hardened":
        return Finding(words["lead"])
    return Finding(words["unsafe_lead"], warning=True)


def _key_numbers(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    settings, rows, unit = document["settings"], document["classes"], _unit(document["settings"])
    promised = digits_up(main_parameter(_promise(settings)), 6)
    numbers = [
        (f"{sum(row['n'] for row in rows):,}", f"{unit}s"),
        (str(len(rows)), "classes"),
        (f"{letter(settings['definition'])} = {promised}", f"for one {unit}"),
    ]
    if account := document.get("account"):
        count = account["releases_left"]
        numbers.append((f"{count:,}", f"more release{'s' * (count != 1)} like this"))
    return numbers


def _unit(settings: Mapping[str, Any]) -> str:
    """Return what one record is; documents from before there were persons are of images."""
    return str(settings.get("unit", "image"))


def _promise(settings: Mapping[str, Any]) -> Budget:
    """Return what is promised to one image or person, in all classes it may be in."""
    cost = budget_from(settings["definition"], settings["budget"])
    return repeat(cost, settings.get("classes_per_person") or 1)


def meaning(document: Mapping[str, Any]) -> list[str]:
    """Return what the release means to one person: alone, with all before it, for many images."""
    settings = document["settings"]
    cost, classes = _promise(settings), settings.get("classes_per_person")
    whole = 1 if classes is None else None
    lines = [_sentence(plainly(cost, group=whole, seen="this release"))]
    if (group := settings.get("images_per_person")) and group > 1:
        together = for_group(cost, group)
        lines.append(_sentence(plainly(together, group=group, seen="this release")))
    if account := document.get("account"):
        lines.append(_so_far(account, settings))
    certified = [row.get("rho") for row in document["classes"]]
    if settings["definition"] != "zcdp" and None not in certified and certified:
        together = repeat(ZCDP(max(certified)), classes or 1)
        lines.append(
            f"μ is exact for noise of real numbers. Noise on a lattice is certified in zCDP, at "
            f"ρ = {together.rho:.6g}, which by itself allows at most "
            f"{success(together)} % for one {_unit(settings)}."
        )
    if settings["noise"] != "hardened":
        lines.append("All this holds on paper, for noise of real numbers: this noise was floats.")
    return lines


def account_facts(account: Mapping[str, Any]) -> dict[str, str]:
    """Return the account as it stood when this release was paid."""
    symbol = letter(account["definition"])

    def both(name: str, rounding: Callable[[float, int], str]) -> str:
        """Return a budget and the ε that goes with it."""
        if not account[name]:
            return "nothing"
        epsilon = rounding(account[f"epsilon_{name}"], 4)
        at = f"(ε = {epsilon} at δ = {account['delta']:g})"
        return f"{symbol} = {rounding(account[name], 6)} {at}"

    return {
        "May be spent in all": both("total", digits_up),
        "Paid for this release": f"{symbol} = {digits_up(account['charged'], 6)}",
        "Spent, this one included": both("spent", digits_up),
        "Left": both("left", digits_down),
        "Lasts": _releases(account["releases_left"]),
    }


def _releases(count: int) -> str:
    """Return for how many more releases an account lasts, in words."""
    if count < 1:
        return "for no other release like this"
    return f"for {count:,} more like this" if count > 1 else "for one more like this"


def _so_far(account: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return what all releases of the account mean, this one and those before it.

    Each was charged for the images of a person that it counted, or for whole persons. The total
    bounds what all tell of as many images as the release that counted fewest, and no more.
    """
    spent = budget_from(account["definition"], account["spent"])
    counted = account.get("images_per_person", 1)
    seen = "this release and all before it from this account"
    text = _sentence(plainly(spent, group=counted, seen=seen))
    mine = math.inf if _unit(settings) == "person" else settings.get("images_per_person") or 1
    if counted is not None and mine > counted:
        text += (
            f" Not all of them counted more than {counted} a person: of a person with more images "
            "they tell more."
        )
    return text


def _sentence(text: str) -> str:
    """Return `text` as a sentence of its own."""
    return f"{text[0].upper()}{text[1:]}."


def facts(pairs: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the template of facts draws: pairs of label and text, and the settings."""
    config = json.dumps(settings, indent=2, ensure_ascii=False) if settings else ""
    return {"pairs": pairs, "url": "", "classes": [], "series": [], "notes": [], "config": config}


def _told(settings: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, str]:
    return {
        "Population": settings["population"],
        "One record is": _record(settings),
        "Run": settings["run_key"],
        "Image size": f"{settings['image_height']} × {settings['image_width']} pixels",
        "Descriptor": settings["descriptor"],
        "Manifold": settings["manifold"],
        "Mechanism": words.get(settings["mechanism"], settings["mechanism"]),
        "Noise": words[settings["noise"]],
    }


def _record(settings: Mapping[str, Any]) -> str:
    if (classes := settings.get("classes_per_person")) is None:
        return "an image"
    where = "one class" if classes == 1 else f"each of at most {classes} classes"
    return f"a person: the mean of that person's images in {where}"


def _errors(rows: Sequence[Mapping[str, Any]], unit: str) -> dict[str, Any]:
    """Return a line a class: how many images or persons, and how far the true mean may be."""
    return {
        "heads": ["Class", f"{unit.capitalize()}s n, exact", "Error, predicted"],
        "lines": [
            [row["class_name"], f"{row['n']:,}", _digits(row["predicted_error"], 3, "not known")]
            for row in rows
        ],
        "text": 1,
    }


def _costs(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a line a draw: of what, how wide, and what is certified; and the sum of a class."""
    lines = []
    for row in rows:
        for step in row["costs"]:
            noise = [_digits(step["sensitivity"], 6), _digits(step["sigma"], 6)]
            lines.append([row["class_name"], step["step"], *noise, _rho(step)])
        if len(row["costs"]) > 1:
            lines.append([row["class_name"], "all together", "", "", _rho(row)])
    heads = ["Class", "Step", "Sensitivity", "Noise σ", "Certified ρ"]
    return {"heads": heads, "lines": lines, "text": 2}


def _rho(paid: Mapping[str, Any]) -> str:
    return _digits(paid["rho"], 6, "none")


def _digits(value: float | None, count: int, absent: str = "") -> str:
    """Return a number in `count` digits, or what stands for none."""
    return absent if value is None else f"{value:.{count}g}"
