"""The page of a release, or of a night of a stream: from the committed document and nothing else.

A night has blocks of its own (the second half); what both promise, tell and cost is stated
identically.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.descriptors import DESCRIPTORS
from pipeline.figures import Figure, letter, matrices
from pipeline.inference import (
    NOTHING,
    is_usable,
    size_in_words,
    usual_difference,
    verdict_of,
    verdicts,
)
from pipeline.privacy import ZCDP, best_test, budget_from, main_parameter, protects, repeat
from pipeline.privacy.rounding import digits_down, digits_up
from pipeline.publish.document import read_stream
from pipeline.publish.history import read_alone
from pipeline.report.methods import methods, of_release
from pipeline.report.page import (
    Declaration,
    Finding,
    PageFrame,
    Section,
    statement_of,
    table,
    write_page,
)
from pipeline.report.readings import (
    errors_in_words,
    has_region,
    last,
    reaching,
    readings,
    regions_of,
)
from pipeline.report.templates import say_each, word
from pipeline.schema import (
    ClassEntry,
    ClassPart,
    Document,
    NightClassPart,
    NightDocument,
    SettingsPart,
    as_json,
    manifold_named,
)


def build_release_report(document: Document, target: Path) -> Path:
    """Write the page of a document that `pipeline.publish.read_document` returned to `target`.

    Raises
    ------
    OutputError
        When the page cannot be written.
    """
    name = "night" if isinstance(document, NightDocument) else "release"
    return write_page(target, name, document)


def release_page(document: Document, texts: Declaration) -> PageFrame:
    """Return the frame of the page of a release, or of a night: one section."""
    settings = document.settings
    section = Section(
        id=settings.name,
        title=document.title,
        subtitle=settings.population,
        key_numbers=key_numbers(document),
        headline=verdict(document),
        subject=document,
        unit=settings.unit,
    )
    return frame_of_documents(
        {settings.name: document},
        section,
        texts,
        title=f"{settings.name}, {settings.run_key}",
        more=word("analysis", "release") if any(map(has_region, document.classes)) else "",
        version=settings.version,
    )


def frame_of_documents(
    documents: Mapping[str, Document],
    section: Section,
    texts: Declaration,
    *,
    title: str,
    more: str,
    version: str = "",
) -> PageFrame:
    """Return the frame of a page of one section on documents: what all promise, and Methods.

    Parameters
    ----------
    documents : mapping of str to Document
        By what each is called.
    section : Section
    texts : Declaration
        Its text ``unsafe`` is the warning where the noise of one is not safe to publish.
    title : str
    more : str
        What Methods say of them all.
    version : str
        Of covdp that drew their noise, if one did.
    """
    is_safe = all(document.settings.is_safe for document in documents.values())
    sentences = {name: of_release(item.settings, item.classes) for name, item in documents.items()}
    return PageFrame(
        title=title,
        sections=[section],
        privacy=statement_of([(name, document.statement) for name, document in documents.items()]),
        methods=methods(sentences, more=more, version=version),
        texts={} if is_safe else {"warning": texts["unsafe"]},
    )


def verdict(document: Document) -> Finding:
    """Return what the means of a release, or of a night, are usable for."""
    settings = document.settings
    plan = read_stream(settings).plan if settings.stream else None
    judgements = verdicts(document.classes, plan)
    safe, protecting = settings.is_safe, protects(settings.promise, settings.is_safe)
    lines = say_each(
        "usable",
        found=judgements,
        unit=settings.unit,
        definition=None if settings.stream else settings.definition,  # it has one budget for ever
        budget=settings.budget,
        first_mean=plan and plan.first_mean,
        protects=protecting,
        is_safe=safe,
    )
    bad = not (safe and protecting) or any(row.use == NOTHING for row in judgements)
    return Finding(" ".join(lines), warning=bad)


def promise_of(settings: SettingsPart) -> str:
    """Return what is promised to one image or person in words: the letter and its value."""
    return f"{letter(settings.definition)} = {digits_up(main_parameter(settings.promise), 6)}"


def attack_numbers(document: Document) -> list[tuple[str, str]]:
    """Return how often the best attack succeeds at most: on a document, and on its account."""
    shown, is_safe = promised(document), document.settings.is_safe
    on_paper = "" if is_safe else ", on paper only"
    is_night = isinstance(document, NightDocument)
    paid = "had paid for when the stream was opened" if is_night else "paid for"
    noise = ", if all its noise was hardened" if is_safe else on_paper
    count = document.account.images_per_person
    if count != (None if document.settings.unit == "person" else 1):
        many = "all images" if count is None else f"{count:,} image{'s' * (count != 1)}"
        noise = f", of {many} of one person{noise}"
    return [
        (shown["here"], f"success of an attacker, at most{on_paper}; guessing has 50 %"),
        (shown["together"], f"with all that this account {paid}{noise}"),
    ]


def key_numbers(document: Document) -> list[tuple[str, str]]:
    """Return the numbers at the head of a release, or of a night."""
    settings, unit, rows = document.settings, document.settings.unit, document.classes
    if isinstance(document, NightDocument):
        left = document.horizon - document.night
        return [
            *attack_numbers(document),
            (promise_of(settings), f"for one {unit}, for ever"),
            (f"{document.night:,}", f"night{'s' * (document.night != 1)} so far"),
            (f"{left:,}", f"night{'s' * (left != 1)} left, at no further cost"),
            (f"{document.units_tonight:,}", f"{unit}s tonight"),
            (f"{document.units_so_far:,}", f"{unit}s so far"),
        ]
    count = document.account.releases_left
    return [
        *attack_numbers(document),
        (promise_of(settings), f"for one {unit}"),
        (f"{settings.total or sum(row.n for row in rows):,}", f"{unit}s"),
        (str(len(rows)), f"class{'es' * (len(rows) != 1)}"),
        (f"{count:,}", f"more release{'s' * (count != 1)} like this"),
    ]


def promised(document: Document) -> dict[str, Any]:
    """Return a document, and what its account and its source of noise come to.

    ``here`` and ``together`` are how often the best attack succeeds at most, on this document and
    on all that was ``spent``; ``rho`` is what the source certified for one record, None where a
    class does not say.
    """
    settings, account = document.settings, document.account
    spent = budget_from(account.definition, account.spent)
    here, together = (f"{best_test(x, settings.is_safe)} %" for x in (settings.promise, spent))
    rhos = [
        row.rho for row in document.classes if isinstance(row, ClassPart) and row.rho is not None
    ]
    certified = rhos and len(rhos) == len(document.classes)
    rho = repeat(ZCDP(max(rhos)), settings.classes_per_person or 1).rho if certified else None
    return {"document": document, "spent": spent, "rho": rho, "here": here, "together": together}


def exact(
    document: Document,
    *,
    pairs: Mapping[str, str],
    besides: str = "",
    secret: Mapping[str, str] = {},
) -> dict[str, str]:
    """Return what is noised, what follows from it, and what is exact.

    `besides` is what else is noised where the document says what it observed, and `secret` what is
    stated otherwise where it is secret in which class an image is.
    """
    first, *others = {**pairs, **(secret if document.settings.secret else {})}.items()
    if any(isinstance(row, ClassPart) and row.observed for row in document.classes):
        first = first[0], first[1] + besides
    unit = document.settings.unit
    return {title: text.format(record=unit) for title, text in (first, *others)}


def facts(document: Document, *, words: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings; `words` are those of mechanisms and noises."""
    config = dict(sorted(as_json(document.settings).items()))
    return {"settings": document.settings, "words": words, "config": config}


def means(document: Document) -> Figure | None:
    """Return the mean of each class that has a usable one, a square a class."""
    points = {row.class_name: row.point for row in _released(document) if is_usable(row)}
    return _squares(points, document.settings)


def _released(document: Document) -> list[ClassEntry]:
    """Return the classes that have a mean: of a stream those that were opened."""
    return [row for row in document.classes if row.point is not None]


def _squares(points: Mapping[str, Any], settings: SettingsPart) -> Figure | None:
    spec = DESCRIPTORS.get(settings.descriptor)
    return matrices(points, spec.features) if points and spec else None


def terms(document: Document) -> dict[str, Any] | None:
    """Return what the means say in words, and how each term follows from them."""
    if not any(map(is_usable, document.classes)):
        return None
    return readings(read_alone(document), formulas=True)


def errors(document: Document) -> list[dict[str, Any]]:
    """Return a row per class: how many images or persons, and how far the true mean may be.

    Of a night it is how many came, and how many so far.
    """
    rows: Sequence[ClassEntry] = document.classes
    settings = document.settings
    heads = {
        "records": f"{settings.unit.capitalize()}s",
        "counted": "with noise" if settings.secret else "exact",
    }
    return [
        {
            "name": row.class_name,
            "sizes": sizes_of(row),
            "errors": errors_in_words(row, judgement, rows),
            **heads,
        }
        for row, judgement in zip(rows, verdicts(rows), strict=True)
    ]


def sizes_of(row: ClassEntry) -> Sequence[str]:
    """Return how many records a class has: exactly, or as the noise says, with its deviation."""
    if isinstance(row, NightClassPart):
        return row.counts
    deviation = row.n_sd
    few = f"; too few to count, at most about {row.n + 2.0 * deviation:,.0f}"
    return [size_in_words(row.n, deviation) + (few if row.n < 2.0 * deviation else "")]


def regions(document: Document) -> dict[str, Any] | None:
    """Return where the true mean of each class is."""
    return regions_of(_released(document), document.settings.unit)


def costs(document: Document) -> dict[str, Any] | None:
    """Return a row per draw: of what, how wide, and what is certified; and the sum of a class.

    All are rounded to the private side: σ down, sensitivities and ρ up.
    """
    lines = []
    for row in document.classes:
        for step in row.costs:
            noise = [digits_up(step.sensitivity, 6), digits_down(step.sigma, 6)]
            lines.append([row.class_name, step.step, *noise, certified(step.rho)])
        if len(row.costs) > 1:
            lines.append([row.class_name, "all together", "", "", certified(row.rho)])
    return table(["Class", "Step", "Sensitivity", "Noise σ", "Certified ρ"], lines, text=2)


def certified(rho: float | None) -> str:
    """Return ρ in six digits, rounded up; "none" where nothing is certified."""
    return "none" if rho is None else digits_up(rho, 6)


def waiting(document: Document) -> list[str]:
    """Return of each class of a night without a mean why there is none."""
    rows = [row for row in document.classes if isinstance(row, NightClassPart)]
    return [f"{row.class_name}: {row.no_point}." for row in rows if row.no_point]


def joined(document: NightDocument) -> Figure | None:
    """Return the mean of this stream and of those that it follows, where it is usable."""
    points = {}
    for name, mean in ((row.class_name, row.joined) for row in document.classes if row.joined):
        manifold = manifold_named(document.settings.manifold, len(mean.coordinates))
        usual = usual_difference(manifold, len(mean.point))
        share = math.sqrt(mean.covariance.trace()) / usual
        if verdict_of(name, mean.n, share, None, offered=False).use != NOTHING:
            points[name] = mean.point
    return _squares(points, document.settings)


def windows(document: NightDocument) -> list[dict[str, Any]]:
    """Return a row per class and window: its nights, its records, and the size of its noise.

    Only windows that reach further back than those before them.
    """
    records = f"{document.settings.unit.capitalize()}s"
    return [
        {
            "name": row.class_name,
            "title": last(window.nights),
            "window": window,
            "noise": math.sqrt(window.noise(document.axes).trace()),
            "records": records,
        }
        for row in document.classes
        for window in reaching(row.windows)
    ]
