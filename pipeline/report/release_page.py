"""The page of a release, or of a night of a stream: from the committed document and nothing else.

A night has blocks of its own (the second half); what both promise, tell and cost is said alike.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.descriptors import DESCRIPTORS
from pipeline.figures import Figure, letter, matrices
from pipeline.inference import NOTHING, in_words, is_usable, size_in_words, verdicts
from pipeline.privacy import (
    GDP,
    ZCDP,
    Budget,
    best_test,
    budget_from,
    certified,
    for_group,
    main_parameter,
    repeat,
    success,
)
from pipeline.privacy.rounding import digits_down, digits_up
from pipeline.privacy.statement import class_sentence, plainly
from pipeline.publish.history import read_alone
from pipeline.report.methods import Methods, methods, of_release
from pipeline.report.page import (
    Declaration,
    Finding,
    PageFrame,
    Section,
    statement_of,
    table,
    write_page,
)
from pipeline.report.readings import ERRORS, errors_in_words, readings, regions_of
from pipeline.report.templates import word
from pipeline.schema import (
    AccountPart,
    ClassEntry,
    ClassPart,
    Document,
    NightDocument,
    SettingsPart,
    WindowPart,
    as_json,
)

MOST_WINDOWS = 12
"""Most matrices of windows that are drawn; of more, those of the longest alone."""
ALL_NIGHTS = "all nights of this stream, for ever,"


def build_release_report(document: Document, target: Path) -> Path:
    """Write the page of a document that `pipeline.publish.read_document` returned to `target`.

    Raises
    ------
    OutputError
        When the page cannot be written.
    """
    return write_page(target, page_name(document), document)


def page_name(document: Document) -> str:
    """Return which page of the declaration is that of a document."""
    return "night" if isinstance(document, NightDocument) else "release"


def release_page(document: Document, texts: Declaration) -> PageFrame:
    """Return the frame of the page of a release, or of a night: one section."""
    settings = document.settings
    section = Section(
        id=settings.name,
        title=document.title,
        subtitle=settings.population,
        key_numbers=night_numbers(document)
        if isinstance(document, NightDocument)
        else release_numbers(document),
        headline=verdict(document),
        subject=document,
    )
    return PageFrame(
        title=f"{settings.population}, {settings.run_key}",
        sections=[section],
        privacy=statement_of([("", document.statement)]),
        methods=methods_of_release(document),
        texts={} if settings.is_safe else {"warning": texts["unsafe"]},
    )


def verdict(document: Document) -> Finding:
    """Return what the means of a release, or of a night, are usable for."""
    settings, found = document.settings, verdicts(document.classes)
    lines = in_words(
        found, unit=settings.unit, definition=settings.definition, budget=settings.budget
    )
    bad = not settings.is_safe or any(row.use == NOTHING for row in found)
    return Finding(" ".join(lines), warning=bad)


def methods_of_release(document: Document) -> Methods:
    """Return what a paper says of a release, or of a night."""
    settings = document.settings
    return methods(
        {settings.name: of_release(settings, document.classes)},
        more=word("analysis", "release") if _is_observed(document) else "",
        version=settings.version,
    )


def _is_observed(document: Document) -> bool:
    """Tell whether a document says what regions are made of, of a class of a release."""
    return any(isinstance(row, ClassPart) and row.observed for row in document.classes)


def promise_of(settings: SettingsPart) -> str:
    """Return what is promised to one image or person in words: the letter and its value."""
    return f"{letter(settings.definition)} = {digits_up(main_parameter(settings.promise), 6)}"


def release_numbers(document: Document) -> list[tuple[str, str]]:
    """Return the numbers at the head of a release."""
    settings, rows, unit = document.settings, document.classes, document.settings.unit
    count = document.account.releases_left
    return [
        *attack_numbers(document),
        (promise_of(settings), f"for one {unit}"),
        (f"{settings.total or sum(row.n for row in rows):,}", f"{unit}s"),
        (str(len(rows)), f"class{'es' * (len(rows) != 1)}"),
        (f"{count:,}", f"more release{'s' * (count != 1)} like this"),
    ]


def attack_numbers(document: Document) -> list[tuple[str, str]]:
    """Return how often the best attack succeeds at most: on this document, and on the account."""
    settings, account = document.settings, document.account
    spent = budget_from(account.definition, account.spent)
    here, together = (best_test(cost, settings.is_safe) for cost in (settings.promise, spent))
    on_paper = "" if settings.is_safe else ", on paper only"
    return [
        (f"{here} %", f"success of an attacker, at most{on_paper}; guessing has 50 %"),
        (f"{together} %", f"with all that this account paid for{on_paper}"),
    ]


def attacks(document: Document) -> dict[str, Any] | None:
    """Return a row per attack: what its attacker knows, wants and gains, and what is not covered.

    Figures are those of `attack_numbers`. Where labels are secret, another class is one of the
    changes that the guarantee covers, so one figure holds for an image and its class.
    """
    settings, unit = document.settings, document.settings.unit
    figures = [text for text, _ in attack_numbers(document)]
    others, public, none = f"all other {unit}s", ["all: it is public"] * 2, ["no figure"] * 2
    two, labels = f"{others}, and two candidates for one", "names of classes are public"
    lines = [[two, "which of the two was used", *figures, "people with access to the images"]]
    if settings.secret:
        total = f"the exact number of all {unit}s tells it"
        lines += [
            [two, f"the class of one {unit}, as a diagnosis", *figures, labels],
            [others, f"whether there is one more {unit}", *public, total],
        ]
    else:
        sizes = "classes and their sizes are exact and public"
        lines.append([others, f"the class of one {unit}, as a diagnosis", *public, sizes])
    if isinstance(document, NightDocument):
        visit = f"how many {unit}s come on a night is exact"
        lines.append([others, "the night of a visit", *public, visit])
    lines += [
        [two, "all images of one patient", *_of_patient(settings), "several names of one patient"],
        ["time, memory and disk of a run", "anything", *none, "side channels are not covered"],
    ]
    heads = ["Attacker knows", "Wants to know", "Gains at most", "With the account", "Not covered"]
    return table(heads, lines, text=len(heads), wrap=True, lead=_unprotected(document))


def _of_patient(settings: SettingsPart) -> list[str]:
    """Return what an attacker gains of all images of a patient: here, and with the account."""
    images = settings.images_per_person
    if settings.unit == "person":
        return ["as one person, above"] * 2
    if images is None:
        return ["no figure: their number has no limit"] * 2
    together = best_test(for_group(settings.promise, images), settings.is_safe)
    return [f"{together} %", "see below"]


def meaning(document: Document) -> list[str]:
    """Return what the release means to one person: alone, with all before it, for many images."""
    settings = document.settings
    cost, classes = settings.promise, settings.classes_per_person
    lines = [
        _plain_sentence(cost, 1 if classes is None else None, "this release", settings),
        *_of_class(settings),
    ]
    if (group := settings.images_per_person) and group > 1:
        lines.append(_plain_sentence(for_group(cost, group), group, "this release", settings))
    lines.append(_account_sentence(document.account, settings))
    rhos = [row.rho for row in document.classes if row.rho is not None]
    known = rhos and len(rhos) == len(document.classes)
    rho = repeat(ZCDP(max(rhos)), classes or 1).rho if known else None
    return [*lines, *_basis(settings, rho=rho)]


def _unprotected(document: Document) -> list[str]:
    """Return what is exact and not protected, as the statement of the document says it."""
    title = "Exact, not protected"
    return [f"{title}: {text}." for label, text in document.statement if label == title]


def _of_class(settings: SettingsPart) -> list[str]:
    """Return in words that the figure before it holds for a class that is secret."""
    return [f"{class_sentence(settings.unit)}."] if settings.secret else []


def _plain_sentence(cost: Budget, group: int | None, shown: str, settings: SettingsPart) -> str:
    """Return in words what an attacker gains of something that a budget protects."""
    text = plainly(cost, group=group, seen=shown, hardened=settings.is_safe)
    return f"{text[0].upper()}{text[1:]}."


def _account_sentence(account: AccountPart, settings: SettingsPart) -> str:
    """Return what all releases of the account mean, this one and those before it.

    Each was charged for the images of a person that it counted, or for whole persons. The total
    bounds what all tell of as many images as the release that counted fewest, and no more.
    """
    spent = budget_from(account.definition, account.spent)
    counted = account.images_per_person
    shown = "all that this account paid for so far"
    text = _plain_sentence(spent, counted, shown, settings)
    if settings.is_safe:
        text += " That counts on hardened noise in all of them."
    images = math.inf if settings.unit == "person" else settings.images_per_person or 1
    if counted is not None and images > counted:
        text += (
            f" Not all of them counted more than {counted} a person: of a person with more images "
            "they tell more."
        )
    return text


def _basis(settings: SettingsPart, *, rho: float | None) -> list[str]:
    """Return what figures of success rest on: what the noise is certified for, or that it is not.

    `rho` is what the source of noise certified, None where that is not known.
    """
    cost = settings.promise
    if not settings.is_safe:
        return ["All this holds on paper, for noise of real numbers: this noise was floats."]
    if not isinstance(cost, GDP):
        return []
    drawn = "" if rho is None else f" The sampler certified ρ = {digits_up(rho, 6)}."
    return [
        f"These figures are what noise on a lattice is certified for, in zCDP: ρ = μ²/2.{drawn} "
        f"Ideal noise of real numbers would allow at most {success(cost)} % for one "
        f"{settings.unit}."
    ]


def account(document: Document) -> dict[str, Any]:
    """Return the account as it stood when this release was paid."""
    account, settings = document.account, document.settings
    symbol = letter(account.definition)

    def both(value: float, epsilon: float, rounding: Callable[[float, int], str]) -> str:
        """Return a budget and the ε that goes with it."""
        at = f"(ε = {rounding(epsilon, 4)} at δ = {account.delta:g})"
        return f"{symbol} = {rounding(value, 6)} {at}" if value else "nothing"

    left = account.releases_left or 0
    lasts = f"for {left:,} more like this" if left > 1 else "for one more like this"
    return pairs_of(
        {
            "May be spent in all": both(account.total, account.epsilon_total, digits_up),
            "Paid for this release": f"{symbol} = {digits_up(account.charged, 6)}",
            "Spent, this one included": both(account.spent, account.epsilon_spent, digits_up),
            **_certified_total(account, settings),
            "Left": both(account.left, account.epsilon_left, digits_down),
            "Lasts": lasts if left >= 1 else "for no other release like this",
        }
    )


def _certified_total(account: AccountPart, settings: SettingsPart) -> dict[str, str]:
    """Return what all that was spent is certified for; nothing where this noise was floats."""
    if not settings.is_safe:
        return {}
    spent = certified(budget_from(account.definition, account.spent))
    rho = f"ρ = {digits_up(main_parameter(spent), 6)} in zCDP, if all noise was hardened"
    return {"Certified of that": f"{rho}: at most {success(spent)} % for the best test"}


def pairs_of(pairs: Mapping[str, str], config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the template of facts draws: pairs of label and text, and the settings."""
    written = json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True) if config else ""
    return {"pairs": pairs, "url": "", "classes": [], "series": [], "notes": [], "config": written}


def exact(
    document: Document,
    *,
    pairs: Mapping[str, str],
    besides: str = "",
    secret: Mapping[str, str] = {},
) -> dict[str, Any]:
    """Return what is noised, what follows from it, and what is exact.

    `besides` is what else is noised where the document says what it observed, and `secret` what is
    said otherwise where it is secret in which class an image is.
    """
    first, *others = {**pairs, **(secret if document.settings.secret else {})}.items()
    if _is_observed(document):
        first = first[0], first[1] + besides
    return pairs_of(dict([first, *others]))


def facts(document: Document, *, words: Mapping[str, str]) -> dict[str, Any]:
    """Return what was released, and how; `words` are those of mechanisms and noises."""
    settings = document.settings
    sides = f"{settings.image_height} × {settings.image_width}"
    classes, stream = settings.classes_per_person, settings.stream
    where = "one class" if classes == 1 else f"each of at most {classes} classes"
    person = f"a person: the mean of that person's images in {where}"
    pairs = {
        "Population": settings.population,
        "One record is": "an image" if classes is None else person,
        "Run": settings.run_key,
        "Labels": "secret, and so is how many a class has" if settings.secret else "public",
        "Image size": f"{sides} pixels",
        "Descriptor": settings.descriptor,
        "Manifold": settings.manifold,
        "Mechanism": words.get(settings.mechanism, settings.mechanism),
        "Noise": words[settings.noise],
    }
    if stream:
        pairs["Horizon"] = f"{stream.horizon:,} nights"
        pairs["Opening"] = f"when n·μ of a class reaches {stream.opening:g}"
    return pairs_of(pairs, as_json(settings))


def means(document: Document) -> Figure | None:
    """Return the mean of each class that has a usable one, a square a class."""
    points = [(row.class_name, row.point) for row in _released(document) if is_usable(row)]
    return _squares(points, document.settings)


def _released(document: Document) -> list[ClassEntry]:
    """Return the classes that have a mean: of a stream those that were opened."""
    return [row for row in document.classes if row.point is not None]


def _squares(points: Sequence[tuple[str, Any]], settings: SettingsPart) -> Figure | None:
    spec = DESCRIPTORS.get(settings.descriptor)
    if not points or spec is None:
        return None
    names, squares = zip(*points, strict=True)
    return matrices(names, np.array(squares), spec.features)


def terms(document: Document) -> dict[str, Any] | None:
    """Return what the means say in words, and how each term follows from them."""
    if not any(map(is_usable, document.classes)):
        return None
    return readings(read_alone(document), formulas=True)


def errors(document: Document) -> dict[str, Any] | None:
    """Return a row per class: how many images or persons, and how far the true mean may be."""
    rows: Sequence[ClassEntry] = document.classes
    lines = [
        [found.name, size_of(row), *errors_in_words(row, found, rows)]
        for row, found in zip(rows, verdicts(rows), strict=True)
    ]
    unit, settings = document.settings.unit.capitalize(), document.settings
    how = "with noise" if settings.secret else "exact"
    return table(["Class", f"{unit}s, {how}", *ERRORS], lines)


def size_of(row: ClassEntry) -> str:
    """Return how many records a class has: exactly, or as the noise says, with its deviation."""
    deviation = row.n_sd
    few = f"; too few to count, at most about {row.n + 2.0 * deviation:,.0f}"
    return size_in_words(row.n, deviation) + (few if row.n < 2.0 * deviation else "")


def regions(document: Document) -> dict[str, Any] | None:
    """Return where the true mean of each class is."""
    return regions_of(_released(document), document.settings.unit)


def costs(document: Document) -> dict[str, Any] | None:
    """Return a row per draw: of what, how wide, and what is certified; and the sum of a class."""
    lines = []
    for row in document.classes:
        for step in row.costs:
            noise = [rounded(step.sensitivity, 6), rounded(step.sigma, 6)]
            lines.append([row.class_name, step.step, *noise, rounded(step.rho, 6, "none")])
        if len(row.costs) > 1:
            total = rounded(row.rho, 6, "none")
            lines.append([row.class_name, "all together", "", "", total])
    return table(["Class", "Step", "Sensitivity", "Noise σ", "Certified ρ"], lines, text=2)


def rounded(value: float | None, count: int, absent: str = "") -> str:
    """Return a number in `count` digits, or what stands for none."""
    return absent if value is None else f"{value:.{count}g}"


def night_numbers(document: NightDocument) -> list[tuple[str, str]]:
    """Return the numbers at the head of a night."""
    settings, unit = document.settings, document.settings.unit
    left = document.horizon - document.night
    return [
        *attack_numbers(document),
        (promise_of(settings), f"for one {unit}, for ever"),
        (f"{document.night:,}", f"night{'s' * (document.night != 1)} so far"),
        (f"{left:,}", f"night{'s' * (left != 1)} left, at no further cost"),
        (f"{document.units_tonight:,}", f"{unit}s tonight"),
        (f"{document.units_so_far:,}", f"{unit}s so far"),
    ]


def night_meaning(document: NightDocument) -> list[str]:
    """Return what the stream means to one person, this night and all to come included."""
    settings, account = document.settings, document.account
    cost, unit = settings.promise, settings.unit
    spent = budget_from(account.definition, account.spent)
    shown = "this stream, all else that this account paid for"
    return [
        _plain_sentence(cost, None if unit == "person" else 1, ALL_NIGHTS, settings),
        *_of_class(settings),
        f"Each {unit} enters on one night, and pays for that night and all to come at once.",
        _plain_sentence(spent, account.images_per_person, shown, settings),
        *_basis(settings, rho=None),
    ]


def tonight(document: NightDocument) -> dict[str, Any] | None:
    """Return a row per class: who came, how many so far, and how far the true mean may be."""
    rows = document.classes
    lines = [
        [row.class_name, *row.counts, *errors_in_words(row, found, rows)]
        for row, found in zip(rows, verdicts(rows), strict=True)
    ]
    unit = document.settings.unit.capitalize()
    return table(["Class", f"{unit}s tonight", "So far", *ERRORS], lines)


def waiting(document: NightDocument) -> list[str]:
    """Return of each class without a mean why there is none."""
    rows = document.classes
    return [f"{row.class_name}: {row.no_point}." for row in rows if row.no_point]


def joined(document: NightDocument) -> Figure | None:
    """Return the mean of this stream and of those that it follows."""
    points = [(row.class_name, row.joined.point) for row in document.classes if row.joined]
    return _squares(points, document.settings)


def lately(document: NightDocument) -> Figure | None:
    """Return the means of windows, of the longest alone where there are many."""
    names = {row.class_name for row in document.classes if is_usable(row)}
    windows = [(name, window) for name, window in _windows(document) if name in names]
    if len(windows) > MOST_WINDOWS:
        longest = max(window.nights for _, window in windows)
        windows = [pair for pair in windows if pair[1].nights == longest][:MOST_WINDOWS]
    points = [(f"{name}, {_span(window)}", window.point) for name, window in windows]
    return _squares(points, document.settings)


def windows(document: NightDocument) -> dict[str, Any] | None:
    """Return a row per class and window: its nights, its records, and the size of its noise."""
    lines = [
        [
            name,
            _span(window),
            f"{window.first} to {window.last}",
            size_in_words(window.n, window.n_sd),
            rounded(math.sqrt(window.noise(document.axes).trace()), 3),
        ]
        for name, window in _windows(document)
    ]
    unit = document.settings.unit.capitalize()
    return table(["Class", "Window", "Nights", f"{unit}s", "Noise, exactly"], lines, text=2)


def _windows(document: NightDocument) -> list[tuple[str, WindowPart]]:
    """Return the windows of all classes that reach further back than those before them."""
    return [
        (row.class_name, window)
        for row in document.classes
        for before, window in zip([None, *row.windows], row.windows, strict=False)
        if before is None or window.first < before.first
    ]


def _span(window: WindowPart) -> str:
    return "last night" if window.nights == 1 else f"last {window.nights} nights"


def night_account(document: NightDocument) -> dict[str, Any]:
    """Return the account as it stood when the stream was opened, and how long that lasts."""
    account, stream = document.account, document.settings.stream
    follows = stream.follows if stream else None
    symbol, left = letter(account.definition), document.horizon - document.night
    paid = f"{symbol} = {digits_up(account.charged, 6)}, once"
    return pairs_of(
        {
            "Paid for all nights": f"by {follows}, which it follows: {paid}" if follows else paid,
            "Paid for this night": "nothing more",
            "Nights left": f"{left:,} of {document.horizon:,}, at no further cost",
            "May be spent in all": f"{symbol} = {digits_up(account.total, 6)}",
            "Spent when it was opened": f"{symbol} = {digits_up(account.spent, 6)}",
            **_certified_total(account, document.settings),
            "Left then": f"{symbol} = {digits_down(account.left, 6)}",
        }
    )
