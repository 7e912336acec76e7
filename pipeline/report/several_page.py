"""The pages of `covdp compare` and `covdp combine`: made from documents of releases alone."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.descriptors import DESCRIPTORS
from pipeline.figures import javascript, listing
from pipeline.files import atomic_path, make_folder, resource
from pipeline.geometry import from_chart
from pipeline.inference import (
    CombinedMean,
    Comparison,
    bonferroni,
    comparison_refusal,
    read_released,
)
from pipeline.publish.forests import Forest, differences, forest
from pipeline.publish.several import Several
from pipeline.report.finding import Finding
from pipeline.report.methods import methods, word
from pipeline.report.methods_of_release import of_release
from pipeline.report.page import Section, load_spec, render
from pipeline.report.release_parts import unit_of
from pipeline.report.release_regions import as_gain
from pipeline.report.several_parts import (
    ALPHA,
    Block,
    basis,
    difference_figure,
    documents,
    equal,
    finite,
    forest_figure,
    is_float,
    means,
    probability,
    reportlets,
    statement,
)

ALL, COMMON = "mean of all", "common mean"
NOT_TESTED = "not tested"


def build_comparison(several: Several, found: Mapping[str, Comparison], out: Path) -> Path:
    """Write ``OUT/compare.html``, and the committed bytes beside it, and return the page.

    Parameters
    ----------
    several : Several
        Two documents.
    found : mapping of str to Comparison
        The test of each class.
    out : Path
        The folder.

    Raises
    ------
    OutputError
        When something cannot be written.
    """
    words = _words("compare")
    descriptor = several.given[0].settings["descriptor"]
    seen = _forests(several, {})
    moved = (
        {name: differences(descriptor, *rows) for name, rows in several.classes.items()}
        if seen
        else {}
    )
    reasons = {name: comparison_refusal(several.by_name(name)) for name in found}
    blocks: dict[str, Block] = {
        "tests": ("table.html.j2", _tests(several, found, reasons)),
        "differences": ("figure.html.j2", difference_figure(moved, words["differences_marks"])),
        "forest": ("figure.html.j2", forest_figure(seen, words["forest_marks"])),
        "means": ("figure.html.j2", means(several)),
        "basis": ("findings.html.j2", basis(several)),
    }
    tested = {name: one.p_value for name, one in found.items() if not reasons[name]}
    whole = bonferroni(list(tested.values()))
    key = [*([(probability(whole), _of_classes(tested))] if tested else []), *_sizes(several)]
    sound = all(found[name].offered for name in tested)
    verdict = _verdict(whole, tested, sound) if tested else _nothing(reasons)
    return _write(several, "compare", blocks, _and_not(verdict, reasons), key, words, out)


def build_combination(several: Several, found: Mapping[str, CombinedMean], out: Path) -> Path:
    """Write ``OUT/combine.html``, and the committed bytes beside it, and return the page.

    Arguments and errors as of `build_comparison`.
    """
    words = _words("combine")
    regions = {name: {ALL: one.all, COMMON: one.common} for name, one in found.items()}
    squares = {name: {ALL: one.all.centre} for name, one in found.items()}
    reasons = {
        name: "" if one.freedom else comparison_refusal(several.by_name(name))
        for name, one in found.items()
    }
    blocks: dict[str, Block] = {
        "tests": ("table.html.j2", _combined(found, reasons)),
        "forest": (
            "figure.html.j2",
            forest_figure(_forests(several, regions), words["forest_marks"]),
        ),
        "means": ("figure.html.j2", means(several, squares)),
        "basis": ("findings.html.j2", basis(several)),
    }
    tested = {name: one.p_value for name, one in found.items() if not reasons[name]}
    sound = all(found[name].all.offered for name in tested)
    whole = bonferroni(list(tested.values()))
    key = [(str(len(several.given)), "releases"), *_sizes(several)]
    verdict = _fits(whole, tested, sound) if tested else _nothing(reasons)
    return _write(several, "combine", blocks, _and_not(verdict, reasons), key, words, out)


def _words(name: str) -> dict[str, Any]:
    spec = load_spec(resource("reports", "report.toml"))
    return dict(spec["page"] | spec["release"] | spec[name])


def _forests(several: Several, regions: Mapping[str, Mapping[str, Any]]) -> dict[str, Forest]:
    """Return what all means of each class say; nothing where the descriptor is not known."""
    descriptor = several.given[0].settings["descriptor"]
    if descriptor not in DESCRIPTORS:
        return {}
    return {
        name: forest(descriptor, several.names, rows, regions.get(name))
        for name, rows in several.classes.items()
    }


def _nothing(reasons: Mapping[str, str]) -> Finding:
    """Say that no class was tested, and why."""
    alike = set(reasons.values())
    told = alike.pop() if len(alike) == 1 else f"noise is too wide {_listed(reasons)}"
    return Finding(f"Nothing could be tested, because {told}.", warning=True)


def _and_not(verdict: Finding, reasons: Mapping[str, str]) -> Finding:
    """Return a verdict on some classes, with those that could not be tested and why."""
    missing = {name: reason for name, reason in reasons.items() if reason}
    if not missing or len(missing) == len(reasons):
        return verdict
    text = f"{verdict.text} Not tested: {_listed(missing)}."
    return verdict._replace(text=text, warning=True)


def _listed(reasons: Mapping[str, str]) -> str:
    """Return why classes were not tested, those alike together."""
    alike: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        alike.setdefault(reason, []).append(name)
    return "; ".join(f"for {listing(names)}, as {reason}" for reason, names in alike.items())


def _verdict(together: float, tested: Mapping[str, float], sound: bool) -> Finding:
    """Say what the test found, and what that does not mean."""
    told = f"({equal(together)}, {_of_classes(tested)})"
    unsound = "" if sound else " Not every test is sound: see what it rests on."
    if together < ALPHA:
        least = min(tested, key=lambda name: tested[name])
        return Finding(
            f"The two releases differ {told}, most surely in {least}: two samples of one "
            f"population would seldom differ so much.{unsound}",
            warning=not sound,
        )
    return Finding(
        f"No difference is found {told}. That is no proof that there is none: the bands say what "
        f"would not have been noticed.{unsound}",
        warning=not sound,
    )


def _fits(together: float, tested: Mapping[str, float], sound: bool) -> Finding:
    """Say whether one population fits, and what that does not mean."""
    told = f"({equal(together)}, {_of_classes(tested)})"
    unsound = "" if sound else " Not every test is sound: see what it rests on."
    if together < ALPHA:
        return Finding(
            f"The releases are not of one population {told}: read the mean of all; a common mean "
            f"does not fit them.{unsound}",
            warning=True,
        )
    return Finding(
        f"One population fits all releases {told}, which is no proof that there is but one."
        f"{unsound}",
        warning=not sound,
    )


def _of_classes(tested: Mapping[str, float]) -> str:
    return "all tested classes together" if len(tested) > 1 else "one class"


def _sizes(several: Several) -> list[tuple[str, str]]:
    """Return the key numbers that both pages have."""
    unit = unit_of(several.given[0].settings)
    total = sum(int(row["n"]) for rows in several.classes.values() for row in rows)
    count = len(several.classes)
    return [(f"{total:,}", f"{unit}s"), (str(count), "class" if count == 1 else "classes")]


def _tests(
    several: Several, found: Mapping[str, Comparison], reasons: Mapping[str, str]
) -> dict[str, Any]:
    """Return a line a class: sizes, p-value, statistics, distance and how sure it is."""
    lines = [
        [
            name,
            listing([f"{int(row['n']):,}" for row in several.classes[name]]),
            *(
                (NOT_TESTED, "–", "–")
                if reasons[name]
                else (probability(one.p_value), finite(one.statistic), finite(one.line))
            ),
            finite(one.distance),
            finite(one.radius),
            _told(several.classes[name], one.least),
            _yes(one.offered),
        ]
        for name, one in found.items()
    ]
    heads = ["Class", "n", "p-value", "χ²", "z of contrast", "Distance", "95 % radius"]
    return {"heads": [*heads, "Contrast told", "Sound"], "lines": lines, "text": 1}


def _told(rows: Sequence[Mapping[str, Any]], least: float) -> str:
    """Return by how much contrast must differ to be told, in percent; a dash where not known."""
    if not math.isfinite(least):
        return "–"
    first = read_released(max(rows, key=lambda row: int(row["n"])))
    point = from_chart(first.manifold, first.point)
    return f"± {100.0 * (as_gain(first.manifold, point, least) - 1.0):.2g} %"


def _combined(found: Mapping[str, CombinedMean], reasons: Mapping[str, str]) -> dict[str, Any]:
    """Return a line a class: size, regions, and Cochran's Q with its degrees of freedom."""
    lines = [
        [
            name,
            f"{one.n:,}",
            finite(one.all.radius),
            finite(one.common.radius),
            *(
                ("–", "–", NOT_TESTED)
                if reasons[name]
                else (finite(one.statistic), str(one.freedom), probability(one.p_value))
            ),
            _yes(one.all.offered),
        ]
        for name, one in found.items()
    ]
    heads = ["Class", "n", "Radius, mean of all", "Radius, common mean", "Cochran's Q", "d.f."]
    return {"heads": [*heads, "p-value", "Sound"], "lines": lines, "text": 1}


def _yes(offered: bool) -> str:
    return "yes" if offered else "no"


def _write(
    several: Several,
    name: str,
    blocks: dict[str, Block],
    headline: Finding,
    key: Sequence[tuple[str, str]],
    words: Mapping[str, Any],
    out: Path,
) -> Path:
    """Write the committed bytes, then the page."""
    files = documents(several, make_folder(out))
    section = Section(
        id=name,
        title=words["headline"],
        subtitle=listing(several.names),
        key_numbers=key,
        headline=headline,
        reportlets=reportlets({**blocks, "documents": ("documents.html.j2", files)}, words),
        classes=tuple(several.classes),
    )
    warning = {"warning": words["unsafe"]} if is_float(several) else {}
    page = render(
        title=f"{words['headline']}: {section.subtitle}",
        page={**words, **warning},
        sections=[section],
        privacy=statement(several),
        methods=methods(
            {
                title: of_release(one.settings, one.document["classes"])
                for title, one in zip(several.names, several.given, strict=True)
            },
            more=word("analysis", name),
        ),
        script=javascript(),
    )
    with atomic_path(out / f"{name}.html") as temporary:
        temporary.write_text(page, encoding="utf-8")
    return out / f"{name}.html"
