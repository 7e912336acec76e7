"""The page of a release: made from the committed document and from nothing else."""

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
    budget_from,
    for_group,
    main_parameter,
    repeat,
)
from pipeline.privacy.rounding import digits_down, digits_up
from pipeline.privacy.statement import plainly
from pipeline.publish.history import read_alone
from pipeline.report.history_parts import in_terms
from pipeline.report.methods import Methods, methods, words
from pipeline.report.methods_of_release import of_release
from pipeline.report.night_page import night_section
from pipeline.report.page import Section, load_spec, render
from pipeline.report.release_parts import (
    basis,
    certified_total,
    cost_lines,
    digits,
    facts,
    of_blocks,
    promise_of,
    sentence,
    told_exact,
    told_facts,
    unit_of,
)
from pipeline.report.release_regions import regions


def build_release_report(document: Mapping[str, Any], target: Path) -> Path:
    """Write the page of a document that `pipeline.publish.read_document` returned to `target`.

    Raises
    ------
    OutputError
        When the page cannot be written.
    """
    spec = load_spec(resource("reports", "report.toml"))
    texts = words_of(document, spec)
    section = section_of(document, texts)
    warning = {"warning": texts["unsafe"]} if section.headline.warning else {}
    page = render(
        title=document["title"],
        page=spec["page"] | texts | warning,
        sections=[section],
        privacy={label: [("", text)] for label, text in document["statement"]},
        methods=methods_of_release(document),
        script=javascript(),
    )
    make_folder(target.parent)
    with atomic_path(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def methods_of_release(document: Mapping[str, Any]) -> Methods:
    """Return what a paper says of a release, or of a night."""
    settings = document["settings"]
    observed = any(row.get("observed") for row in document["classes"])
    return methods(
        {settings["name"]: of_release(settings, document["classes"])},
        more=words()["analysis"]["release"] if observed else "",
        version=settings.get("version", ""),
    )


def words_of(document: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts for a document, of the tables of `report.toml`."""
    return dict(spec["release"] | spec["night"] if "night" in document else spec["release"])


def section_of(document: Mapping[str, Any], words: Mapping[str, str]) -> Section:
    """Return the section of a document: of a release, or of a night of a stream."""
    return (night_section if "night" in document else _section)(document, words)


def _section(document: Mapping[str, Any], words: Mapping[str, str]) -> Section:
    settings, rows = document["settings"], document["classes"]
    account = document.get("account")
    points = np.array([row["point"] for row in rows])
    figure = matrices(
        [row["class_name"] for row in rows], points, DESCRIPTORS[settings["descriptor"]].features
    )
    blocks = {
        "meaning": ("lines.html.j2", meaning(document)),
        "account": ("facts.html.j2", facts(account_facts(account, settings)) if account else None),
        "means": ("figure.html.j2", figure),
        "terms": ("readings.html.j2", in_terms(read_alone(document), formulas=True)),
        "errors": ("table.html.j2", _errors(rows, unit_of(settings))),
        "regions": ("table.html.j2", regions(rows, unit_of(settings))),
        "facts": ("facts.html.j2", facts(told_facts(settings, words), settings)),
        "exact": ("facts.html.j2", facts(told_exact(words, rows))),
        "costs": ("table.html.j2", cost_lines(rows)),
    }
    return of_blocks(document, words, _key_numbers(document), blocks)


def _key_numbers(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    settings, rows, unit = document["settings"], document["classes"], unit_of(document["settings"])
    promised = digits_up(main_parameter(promise_of(settings)), 6)
    numbers = [
        (settings["run_key"], "run"),
        (f"{sum(row['n'] for row in rows):,}", f"{unit}s"),
        (str(len(rows)), f"class{'es' * (len(rows) != 1)}"),
        (f"{letter(settings['definition'])} = {promised}", f"for one {unit}"),
    ]
    if account := document.get("account"):
        count = account["releases_left"]
        numbers.append((f"{count:,}", f"more release{'s' * (count != 1)} like this"))
    return numbers


def meaning(document: Mapping[str, Any]) -> list[str]:
    """Return what the release means to one person: alone, with all before it, for many images."""
    settings = document["settings"]
    cost, classes = promise_of(settings), settings.get("classes_per_person")
    whole, hardened = 1 if classes is None else None, settings["noise"] == "hardened"
    lines = [sentence(plainly(cost, group=whole, seen="this release", hardened=hardened))]
    if (group := settings.get("images_per_person")) and group > 1:
        together = for_group(cost, group)
        lines.append(
            sentence(plainly(together, group=group, seen="this release", hardened=hardened))
        )
    if account := document.get("account"):
        lines.append(_so_far(account, settings))
    known = [row.get("rho") for row in document["classes"]]
    rho = None if None in known or not known else repeat(ZCDP(max(known)), classes or 1).rho
    return [*lines, *basis(cost, unit_of(settings), hardened=hardened, rho=rho)]


def account_facts(account: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, str]:
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
        **certified_total(account, settings),
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
    hardened = settings["noise"] == "hardened"
    text = sentence(plainly(spent, group=counted, seen=seen, hardened=hardened))
    if hardened:
        text += " That counts on hardened noise in all of them."
    mine = math.inf if unit_of(settings) == "person" else settings.get("images_per_person") or 1
    if counted is not None and mine > counted:
        text += (
            f" Not all of them counted more than {counted} a person: of a person with more images "
            "they tell more."
        )
    return text


def _errors(rows: Sequence[Mapping[str, Any]], unit: str) -> dict[str, Any]:
    """Return a line a class: how many images or persons, and how far the true mean may be."""
    return {
        "heads": ["Class", f"{unit.capitalize()}s n, exact", "Error, predicted"],
        "lines": [
            [row["class_name"], f"{row['n']:,}", digits(row["predicted_error"], 3, "not known")]
            for row in rows
        ],
        "text": 1,
    }
