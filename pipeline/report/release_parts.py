"""What the pages of releases and of nights have in common: what is promised, told and paid."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.privacy import GDP, Budget, budget_from, certified, main_parameter, repeat, success
from pipeline.privacy.rounding import digits_up
from pipeline.report.findings import Finding
from pipeline.report.page import Reportlet, Section

EXACT = ("noised", "derived", "exact")
"""What the page's numbers are, in `report.toml`: each with its label."""


def of_blocks(
    document: Mapping[str, Any],
    words: Mapping[str, str],
    key_numbers: list[tuple[str, str]],
    blocks: Mapping[str, tuple[str, Any]],
) -> Section:
    """Return the section of a document: its blocks, each a template and content, but the empty."""
    settings = document["settings"]
    return Section(
        id=settings["name"],
        title=document["title"],
        subtitle=settings["population"],
        key_numbers=key_numbers,
        headline=headline(settings, words),
        reportlets=[
            Reportlet(name, words[f"{name}_title"], words[f"{name}_caption"], template, content)
            for name, (template, content) in blocks.items()
            if content
        ],
    )


def headline(settings: Mapping[str, Any], words: Mapping[str, str]) -> Finding:
    """Say what is noised and what is exact, unless the noise was drawn in floats."""
    if settings["noise"] == "hardened":
        return Finding(words["lead"])
    return Finding(words["unsafe_lead"], warning=True)


def unit_of(settings: Mapping[str, Any]) -> str:
    """Return what one record is; documents from before there were persons are of images."""
    return str(settings.get("unit", "image"))


def promise_of(settings: Mapping[str, Any]) -> Budget:
    """Return what is promised to one image or person, in all classes it may be in."""
    cost = budget_from(settings["definition"], settings["budget"])
    return repeat(cost, settings.get("classes_per_person") or 1)


def sentence(text: str) -> str:
    """Return `text` as a sentence of its own."""
    return f"{text[0].upper()}{text[1:]}."


def basis(cost: Budget, unit: str, *, hardened: bool, rho: float | None) -> list[str]:
    """Return what figures of success rest on: what the noise is certified for, or that it is not.

    `rho` is what the source of noise certified, None where that is not known.
    """
    if not hardened:
        return ["All this holds on paper, for noise of real numbers: this noise was floats."]
    if not isinstance(cost, GDP):
        return []
    drawn = "" if rho is None else f" The sampler certified ρ = {digits_up(rho, 6)}."
    return [
        f"These figures are what noise on a lattice is certified for, in zCDP: ρ = μ²/2.{drawn} "
        f"Ideal noise of real numbers would allow at most {success(cost)} % for one {unit}."
    ]


def certified_total(account: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, str]:
    """Return what all that was spent is certified for; nothing where this noise was floats."""
    if settings["noise"] != "hardened":
        return {}
    spent = certified(budget_from(account["definition"], account["spent"]))
    known = f"ρ = {digits_up(main_parameter(spent), 6)} in zCDP, if all noise was hardened"
    return {"Certified of that": f"{known}: at most {success(spent)} % for the best test"}


def facts(pairs: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the template of facts draws: pairs of label and text, and the settings."""
    config = json.dumps(settings, indent=2, ensure_ascii=False) if settings else ""
    return {"pairs": pairs, "url": "", "classes": [], "series": [], "notes": [], "config": config}


def told_exact(words: Mapping[str, str], rows: Sequence[Mapping[str, Any]] = ()) -> dict[str, str]:
    """Return what is noised, what follows from it, and what is exact."""
    told = {words[f"{name}_label"]: words[name] for name in EXACT}
    if any(row.get("observed") for row in rows):
        told[words["noised_label"]] += words["noised_besides"]
    return told


def told_facts(settings: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, str]:
    """Return what was released, and how."""
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


def cost_lines(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a line a draw: of what, how wide, and what is certified; and the sum of a class."""
    lines = []
    for row in rows:
        for step in row["costs"]:
            noise = [digits(step["sensitivity"], 6), digits(step["sigma"], 6)]
            lines.append([row["class_name"], step["step"], *noise, _rho(step)])
        if len(row["costs"]) > 1:
            lines.append([row["class_name"], "all together", "", "", _rho(row)])
    heads = ["Class", "Step", "Sensitivity", "Noise σ", "Certified ρ"]
    return {"heads": heads, "lines": lines, "text": 2}


def _rho(paid: Mapping[str, Any]) -> str:
    return digits(paid["rho"], 6, "none")


def digits(value: float | None, count: int, absent: str = "") -> str:
    """Return a number in `count` digits, or what stands for none."""
    return absent if value is None else f"{value:.{count}g}"
