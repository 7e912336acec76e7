"""The page of a release, or of a night of a stream: from the committed document and nothing else.

A night has more blocks (`covdp.addons.nights.night_page`); what both promise, tell and cost is
stated identically.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from covdp.descriptors import DESCRIPTORS
from covdp.figures import Figure, digits, letter, matrices
from covdp.figures.pictures import png_address
from covdp.figures.style import size_in_words
from covdp.inference import NOTHING, Verdict, is_usable, verdicts
from covdp.privacy import ZCDP, best_test, budget_from, main_parameter, protects, repeat
from covdp.privacy.rounding import two_digits
from covdp.publish.readings import reader_of
from covdp.report.methods import Methods, methods, of_document
from covdp.report.page import Finding, table, write_page
from covdp.report.readings import (
    clipping_share,
    errors_in_words,
    has_region,
    nearest_in_words,
    readings,
    regions_of,
    sentences_of,
)
from covdp.report.templates import at_least, at_most, say, say_each, word
from covdp.schema import (
    ClassEntry,
    ClassPart,
    Document,
    SettingsPart,
    as_json,
)


def build_release_report(document: Document, target: Path) -> Path:
    """Write the page of a document that `covdp.publish.read_document` returned  to `target`.

    `write_page` says which errors there are.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    target : Path
        HTML file that is written.

    Returns
    -------
    Path
        The path `target`.
    """
    return write_page(target, document.page, document)


def promises(document: Document) -> list[tuple[str, Iterable[tuple[str, str]]]]:
    """Return what a document promises.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    return [(document.settings.name, document.statement)]


def release_methods(document: Document) -> Methods:
    """Return what a paper says of a release, or of a night.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    settings = document.settings
    more = word("analysis", "release") if any(map(has_region, document.classes)) else ""
    return methods({settings.name: of_document(document)}, more=more, version=settings.version)


def verdict(document: Document) -> Finding:
    """Return what the means of a release, or of a night, are usable for.

    Uses are judged by noise. What clipping may have done beyond it is stated apart.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    settings = document.settings
    plan = document.plan
    judgements = verdicts(document.classes, plan)
    safe, protecting = settings.is_safe, protects(settings.promise, settings.is_safe)
    lines = say_each(
        "usable",
        found=judgements,
        unit=settings.unit,
        definition=None if plan else settings.definition,  # a stream has one budget for ever
        budget=settings.budget,
        first_mean=plan and plan.first_mean,
        protects=protecting,
        is_safe=safe,
        clipped={
            row.class_name: share
            for row in document.classes
            if (share := clipping_share(row, beyond_noise=True)) != 0.0
        },
    )
    bad = not (safe and protecting) or any(row.use == NOTHING for row in judgements)
    return Finding(" ".join(lines), warning=bad)


def protected(document: Document) -> str:
    """Return who is protected, where anybody is, and that a joint release was simulated.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    return protected_by({document.settings.name: document})


def protected_by(documents: Mapping[str, Document], *, local: bool = False) -> str:
    """Return the same of several documents; who is protected only where each protects somebody.

    Parameters
    ----------
    documents : mapping of str to Document
        Documents of releases or nights, of one privacy unit, by what each is called.
    local : bool
        True if there are local images, which nothing protects.
    """
    settings = [document.settings for document in documents.values()]
    words = list[str]()
    if all(protects(one.promise, one.is_safe) for one in settings):
        in_theory = not all(one.is_safe for one in settings)
        words.append(say("protected", several=settings, in_theory=in_theory, local=local))
    made = [name for name, document in documents.items() if document.is_simulated]
    if made:
        some = made if len(made) < len(documents) else ()
        words.append(say("simulated", unit=settings[0].unit, some=some))
    return " ".join(words)


def in_sentences(document: Document) -> Sequence[str]:
    """Return what the usable means say, in at most three sentences.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    reader = reader_of(document.settings)
    rows = [reader.read(row) for row in document.classes if is_usable(row)] if reader else []
    return sentences_of(reader.terms, rows) if reader and rows else ()


def promised(document: Document) -> dict[str, Any]:
    """Return a document, and what its account and its source of noise come to.

    ``here`` and ``together`` are how often the best attack succeeds at most, on this document and
    on all that was ``spent``; ``rho`` is what the source certified for one record, None where a
    class does not say. The rest is how the numbers at the head of its page are labelled.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    settings, account, is_safe = document.settings, document.paid, document.settings.is_safe
    spent = budget_from(account.definition, account.spent)
    here, together = (f"{best_test(x, is_safe)} %" for x in (settings.promise, spent))
    rhos = [
        row.rho for row in document.classes if isinstance(row, ClassPart) and row.rho is not None
    ]
    certified = rhos and len(rhos) == len(document.classes)
    rho = repeat(ZCDP(max(rhos)), settings.classes_per_person or 1).rho if certified else None
    in_theory = "" if is_safe else ", in theory only"
    noise = ", if all had certified noise" if is_safe else in_theory
    count = account.images_per_person
    if count != (None if settings.unit == "person" else 1):
        many = "all images" if count is None else f"{count:,} image{'s' * (count != 1)}"
        noise = f", of {many} of one person{noise}"
    promise = at_most(main_parameter(settings.promise), 6)
    return {
        "document": document,
        "spent": spent,
        "rho": rho,
        "here": here,
        "together": together,
        "promise": f"{letter(settings.definition)} = {promise}",
        "is_night": document.page == "night",
        "in_theory": in_theory,
        "protects": protects(settings.promise, is_safe),
        "noise": noise,
        "fingerprint": _fingerprint(document),
    }


def _fingerprint(document: Document) -> str:
    """Return the fingerprint of the key that signed a document; "" without a signature."""
    if document.signature is None:
        return ""
    from covdp.ledger.keys import fingerprint  # loads a library of ciphers

    return fingerprint(bytes.fromhex(document.signature.public_key))


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

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    pairs : mapping of str to str
        Titles and texts; ``{record}`` in a text is the privacy unit.
    besides : str
        Text that the first one ends with if the document says what it observed.
    secret : mapping of str to str
        Titles and texts in place of those of the same title, if labels are secret.
    """
    first, *others = {**pairs, **(secret if document.settings.secret else {})}.items()
    if any(isinstance(row, ClassPart) and row.observed for row in document.classes):
        first = first[0], first[1] + besides
    unit = document.settings.unit
    return {title: text.format(record=unit) for title, text in (first, *others)}


def facts(document: Document, *, words: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings; `words` are those of mechanisms and noises.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    words : mapping of str to str
        Words for mechanisms and noises, by their names.
    """
    config = dict(sorted(as_json(document.settings).items()))
    return {"settings": document.settings, "words": words, "config": config}


def means(document: Document) -> Figure | None:
    """Return the mean of each class that has a usable one, a square a class.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    points = {row.class_name: row.point for row in _released(document) if is_usable(row)}
    figure = squares(points, document.settings)
    return figure and replace(figure, finding=_contrasts(document))


def _contrasts(document: Document) -> str:
    """Return the largest and the smallest contrast, "" where their intervals meet."""
    if (reader := reader_of(document.settings)) is None:
        return ""
    rows = [reader.read(row) for row in document.classes if is_usable(row)]
    found = sorted(
        (x.value, row.name, x.ends)
        for row in rows
        for x in row.readings
        if x.term.name == "contrast" and x.value is not None
    )
    if len(found) < 2 or found[0][2][1] >= found[-1][2][0]:
        return ""
    low, high = (f"{digits(value)} in {name}" for value, name, _ in (found[0], found[-1]))
    return f"Contrast: {high}, {low}"


def _released(document: Document) -> list[ClassEntry]:
    """Return the classes that have a mean: of a stream those that were opened."""
    return [row for row in document.classes if row.point is not None]


def squares(points: Mapping[str, Any], settings: SettingsPart) -> Figure | None:
    """Return some means, a square each; None without any, or where the descriptor is not known.

    Parameters
    ----------
    points : mapping of str to object
        Mean of each class, by its name.
    settings : SettingsPart
        Settings of the document.
    """
    spec = DESCRIPTORS.get(settings.descriptor)
    return matrices(points, spec.features) if points and spec else None


def terms(document: Document) -> dict[str, Any] | None:
    """Return what the means say in words, and how each term follows from them.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    if not any(map(is_usable, document.classes)):
        return None
    if (reader := reader_of(document.settings)) is None:
        return None
    classes = [reader.read(row) for row in document.classes if is_usable(row)]
    return readings(document, reader.terms, classes)


def textures(document: Document) -> list[dict[str, Any]]:
    """Return a random texture of each mean, and its numbers.

    They are made from what is released alone. A class without one is left out.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    settings = document.settings
    kind, reader = DESCRIPTORS.get(settings.descriptor), reader_of(settings)
    if kind is None or reader is None:
        return []
    from covdp.figures.texture import SHOWN, texture  # loads compiled code

    sides, found = (settings.image_height, settings.image_width), list[dict[str, Any]]()
    for row in map(reader.read, document.classes):
        values: dict[str, Any] = {reading.term.name: reading.value for reading in row.readings}
        if (image := texture(kind, values, sides, settings.eta)) is not None:
            shown = {x.title: digits(values[x.name]) for x in reader.terms if x.name in SHOWN}
            found.append({"name": row.name, "terms": shown, "uri": png_address(image[None])})
    return found


def errors(document: Document) -> list[dict[str, Any]]:
    """Return a row per class: how many images or persons, and how far the true mean may be.

    Of a night it is how many came, and how many so far.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    rows = document.classes
    counted = "with noise" if document.settings.secret else "exact"
    return [
        {
            "name": row.class_name,
            "sizes": sizes_of(row),
            "counted": counted,
            "errors": errors_in_words(row, judgement),
            "remark": " ".join(
                filter(
                    None,
                    [
                        needed_in_words(row, judgement, document.settings.unit),
                        nearest_in_words(row, rows),
                    ],
                )
            ),
        }
        for row, judgement in zip(rows, verdicts(rows), strict=True)
    ]


def sizes_of(row: ClassEntry) -> Sequence[str]:
    """Return how many records a class has: exactly, or as the noise says, with its deviation.

    Parameters
    ----------
    row : ClassEntry
        Entry of the class.
    """
    if not isinstance(row, ClassPart):
        return row.counts
    return [size_in_words(row.n, row.n_sd)]


def needed_in_words(row: ClassEntry, judgement: Verdict, unit: str) -> str:
    """Return why a mean is not usable, and what it needs; "" of one that is, or is none yet.

    Parameters
    ----------
    row : ClassEntry
        Entry of the class.
    judgement : Verdict
        Judgement on the use of its mean.
    unit : str
        Privacy unit: "image" or "person".
    """
    if row.point is None or judgement.use != NOTHING:
        return ""
    if judgement.uncounted:
        most = max(row.n + 2.0 * row.n_sd, 0.0)
        return f"Not usable: too few to count, at most about {most:,.0f}."
    return f"Not usable: about {two_digits(judgement.needed)} {unit}s are needed."


def regions(document: Document) -> dict[str, Any] | None:
    """Return where the true mean of each class is.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    return regions_of(_released(document), document.settings.unit)


def costs(document: Document) -> dict[str, Any] | None:
    """Return a row per draw: of what, how wide, and what is certified; and the sum of a class.

    All are rounded to the private side: σ down, sensitivities and ρ up.

    Parameters
    ----------
    document : Document
        Document of a release.
    """
    lines = []
    for row in document.classes:
        for step in row.costs:
            noise = [at_most(step.sensitivity, 6), at_least(step.sigma, 6)]
            lines.append([row.class_name, step.step, *noise, certified(step.rho)])
        if len(row.costs) > 1:
            lines.append([row.class_name, "all together", "", "", certified(row.rho)])
    return table(["Class", "Step", "Sensitivity", "Noise σ", "Certified ρ"], lines, text=2)


def certified(rho: float | None) -> str:
    """Return ρ in six digits, rounded up; "none" where nothing is certified.

    Parameters
    ----------
    rho : float or None
        Parameter ρ of zCDP.
    """
    return "none" if rho is None else at_most(rho, 6)
