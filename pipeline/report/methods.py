"""The paragraph "Methods" of every page: what a paper says of the settings of a run, and cites.

It is made from settings alone, those in the document of a release or in the record of an
experiment, so it is true for every run that has them. What it says stands in
``reports/templates/methods_*.txt.j2``, a block a sentence; the words for each name in
``reports/methods.toml``; what it cites in ``reports/references.bib``. Every setting that a result
depends on is in a sentence: a test changes each and sees the text change.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from covdp import __version__
from covdp.config import ExperimentConfig, SeriesConfig
from covdp.figures import grouped, words
from covdp.figures.style import size_in_words
from covdp.files import resource
from covdp.mean.plan import RELEASE_PLANS, SERIES_PLANS
from covdp.mechanisms import MECHANISMS
from covdp.privacy import for_group_as_written, main_parameter
from covdp.privacy.statement import equivalent
from covdp.report.templates import at_most, templates, word

if TYPE_CHECKING:
    from covdp.schema import ClassEntry, Document, SettingsPart

NAMED = 3
"""Most releases that are named with what is true of them alone; of more, how many there are."""
CITED = re.compile(r"\[(@\w+(?:; @\w+)*)\]")
"""Citations in a text."""
KEY = re.compile(r"@\w+\{(\w+),")
FIELD = re.compile(r"(\w+) = \{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
"""The key of an entry of BibTeX; a name and what stands in its braces, which nest thrice."""
WITH_MOMENT = ("regions", "tests", "matches", "hospitals", "joining", "classifiers", "harmonising")
"""Kinds of experiments that look at what a release says besides its mean."""
HEADING = "Settings of the series"
"""Heading of the table of what is special to each of several series."""

Settings = Mapping[str, Any]
Sentences = Mapping[str, str]
"""Sentences on settings: slot → sentence without its full stop."""
SeriesSettings = Mapping[str, str]
"""Sentences on the settings of each of several series, by its name."""


class BibEntry(NamedTuple):
    """Entry of the list of references.

    Attributes
    ----------
    key : str
        Key, by which a text cites it.
    fields : dict of str to str
        Fields as they stand in the file, by their names.
    bibtex : str
        The whole entry.
    """

    key: str
    fields: dict[str, str]
    bibtex: str

    @property
    def label(self) -> str:
        """Citation of it in a text: “Dong et al. 2022”."""
        authors = self.fields["author"].split(" and ") if "author" in self.fields else []
        names = [_plain(author.split(",")[0]) for author in authors]  # organisations stay whole
        who = names[0] if names else self.fields["key"]
        if len(names) == 2 and names[1] != "others":
            who = " and ".join(names)
        elif len(names) > 1:
            who = f"{who} et al."
        return f"{who} {self.fields['year']}"

    @property
    def text(self) -> str:
        """Line of it in a list of references."""
        fields = {name: _plain(value) for name, value in self.fields.items()}
        names = fields.get("author", "").replace(" and others", " et al.").replace(" and ", "; ")
        places = ("journal", "booktitle", "howpublished", "institution")
        where = [fields[name] for name in places if name in fields]
        if "volume" in fields:
            issue = f"({fields['number']})" if "number" in fields else ""
            where.append(f"{fields['volume']}{issue}")
        marks = {"pages": "", "eprint": "arXiv:", "version": "version "}
        where += [mark + fields[name] for name, mark in marks.items() if name in fields]
        address = f"https://doi.org/{fields['doi']}" if "doi" in fields else fields.get("url", "")
        parts = (names, fields["title"], ", ".join(where), address)
        return f"{'. '.join(part.rstrip('.') for part in parts if part)} ({fields['year']})."


class Methods(NamedTuple):
    """End of a page: paragraphs "Methods", tables of series, and references.

    Attributes
    ----------
    paragraphs : tuple of (str, str)
        Heading, "" where there is but one, and text of each paragraph.
    tables : tuple of (str, SeriesSettings)
        Heading of each table, and what is special to each series.
    references : tuple of BibEntry
        Entries that are cited, in order.
    """

    paragraphs: tuple[tuple[str, str], ...]
    tables: tuple[tuple[str, SeriesSettings], ...]
    references: tuple[BibEntry, ...]

    @property
    def bibtex(self) -> str:
        """The references as BibTeX."""
        return "\n\n".join(entry.bibtex for entry in self.references)


def methods(
    runs: Mapping[str, Sentences],
    *,
    series: Mapping[str, SeriesSettings] = {},
    more: str = "",
    version: str = "",
) -> Methods:
    """Return the paragraphs on some releases or runs, and what they cite.

    Parameters
    ----------
    runs : mapping of str to mapping
        Name of a release or run to what its settings say.
    series : mapping of str to SeriesSettings
        Sentences on the series of each run, by its name: a run has a paragraph of its own, and one
        of several series a table. Empty of releases: what all have in common is stated once.
    more : str
        Sentence on what was made of them, the last.
    version : str
        Version of covdp that drew the noise; "" where it is this one.
    """
    several = bool(series) and len(runs) > 1
    if several:
        texts = [(name, list(sentences.values())) for name, sentences in runs.items()]
    else:
        texts = [("", _together(runs))]
    own = version or __version__
    closing = [f"Computed with covdp {own} [@covdp]"]
    if own != __version__:
        closing.append(f"This page was made with covdp {__version__}")
    texts[-1][1].extend([*filter(None, [more]), *closing])
    entries, cited = references(own), dict[str, BibEntry]()

    def label(match: re.Match[str]) -> str:
        keys = re.findall(r"\w+", match[1])
        if not entries.keys() >= set(keys):  # the name of a release, or of a class, may look so
            return match[0]
        cited.update((key, entries[key]) for key in keys)
        return f"({'; '.join(entries[key].label for key in keys)})"

    paragraphs = tuple(
        (name, CITED.sub(label, f"{'. '.join(part[:1].upper() + part[1:] for part in parts)}."))
        for name, parts in texts
    )
    tables = tuple(
        (
            f"{name}: {HEADING.lower()}" if several else HEADING,
            {key: CITED.sub(label, text) for key, text in rows.items()},
        )
        for name, rows in series.items()
        if len(rows) > 1
    )
    return Methods(paragraphs, tables, tuple(cited.values()))


def _together(runs: Mapping[str, Sentences]) -> list[str]:
    """Return each slot's sentence once; where they differ, each with whose it is."""
    lines = list[str]()
    for slot in dict.fromkeys(slot for sentences in runs.values() for slot in sentences):
        owners = grouped((sentences.get(slot, ""), name) for name, sentences in runs.items())
        if len(owners) == 1:
            lines.extend(owners)
            continue
        parts = [
            text
            if [f"“{name}”" in text for name in names] == [True]
            else f"for {' and '.join(names)}: {text}"
            if len(names) <= NAMED
            else f"for {len(names)} of {len(runs)} releases: {text}"
            for text, names in owners.items()
            if text
        ]
        lines.append("; ".join(parts))
    return lines


@cache
def references(version: str = __version__) -> Mapping[str, BibEntry]:
    """Return all entries by key; that of this project in the version that was used.

    Parameters
    ----------
    version : str
        Version of covdp that was used.
    """
    text = resource("reports", "references.bib").read_text(encoding="utf-8")
    text = text.replace(f"version = {{{__version__}}}", f"version = {{{version}}}")
    _, *blocks = re.split(r"\n\s*\n(?=@)", text.strip())  # what comes first is about the file
    entries = (BibEntry(KEY.findall(item)[0], dict(FIELD.findall(item)), item) for item in blocks)
    return {entry.key: entry for entry in entries}


def _plain(text: str) -> str:
    """Return a field without BibTeX's marks."""
    marks = {"{\\'e}": "é", "{\\'c}": "ć", '{\\"o}': "ö", "{\\c c}": "ç", "--": "–"}
    for mark, sign in marks.items():
        text = text.replace(mark, sign)
    return text.replace("{", "").replace("}", "")


def of_release(
    settings: "SettingsPart",
    rows: "Sequence[ClassEntry]" = (),
    others: Sequence[str] = (),
    *,
    simulated: bool = False,
) -> Sentences:
    """Return what the settings of a release, or of a night of a stream, say.

    Parameters
    ----------
    settings : SettingsPart
        Settings of the document.
    rows : sequence of ClassEntry
        Entries of its ``classes``: of a night, how many came, and of which classes there is no
        mean yet.
    others : sequence of str
        Names of other hospitals that released together with this one.
    simulated : bool
        True if one machine stood for all of these hospitals.
    """
    from covdp.schema import ClassPart

    sizes = {row.class_name: (row.n, row.n_sd) for row in rows}
    sizes = sizes or {name: (n or 0, 0.0) for _, name, n in settings.classes}
    waiting = [row.class_name for row in rows if row.point is None]
    group, promise = settings.images_per_person or 1, settings.promise
    implied = equivalent(promise, None, settings.total or sum(n for n, _ in sizes.values()))
    return _sentences(
        "methods_release.txt.j2",
        settings=settings,
        others=others,
        simulated=simulated,
        group=group,
        sizes={name: size_in_words(*size) for name, size in sizes.items() if any(size)},
        many=len(sizes),
        tonight={
            row.class_name: row.n_tonight
            for row in rows
            if not isinstance(row, ClassPart) and row.n_tonight is not None
        },
        waiting=waiting,
        drawn=not waiting or len(waiting) < len(rows),
        adaptive=settings.mechanism in RELEASE_PLANS,
        promise=at_most(main_parameter(promise), 6),
        epsilon=at_most(implied.epsilon, 6),
        delta=implied.delta,
        together=at_most(main_parameter(for_group_as_written(promise, group)), 6),
    )


def of_document(document: "Document") -> Sentences:
    """Return what the settings of a document say, with its hospitals and whether it was simulated.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    """
    others, simulated = document.others, document.is_simulated
    return of_release(document.settings, document.classes, others, simulated=simulated)


def of_experiment(
    config: Settings,
    *,
    title: str = "",
    classes: str = "",
    facts: Sequence[str] = (),
    classified: int = 0,
    guarantees: Mapping[str, str] = {},
) -> tuple[Sentences, SeriesSettings]:
    """Return what the settings of an experiment say, and those of each series of it.

    Parameters
    ----------
    config : mapping
        As the record of a run has it; what is absent is at its default.
    title : str
        Title of the dataset, as its card has it.
    classes : str
        The classes with their sizes.
    facts : sequence of str
        Sentences on the images.
    classified : int
        Repetitions in which images are classified; 0 where none are.
    guarantees : mapping of str to str
        Guarantee of each series at its largest budget, or the reason why there is none.
    """
    model, series_model = _models_of(config.get("kind"))
    settings: Any = model.model_construct(**config)
    series = [series_model.model_construct(**item) for item in settings.mechanisms]
    defaults = series_model.model_construct(series="", mechanism="")
    source, promises = settings.source or {}, set(guarantees.values())
    guarantee = promises.pop() if len(promises) == 1 else ""
    kind = source.get("kind")
    sentences = _sentences(
        "methods_experiment.txt.j2",
        settings=settings,
        series=series,
        source={x: y for x, y in source.items() if words()["source_of"].get(x, kind) == kind},
        manifolds=source.get("manifolds") or (settings.manifold,),
        made=settings.source or getattr(settings, "composition", None),
        title=title,
        classes=classes,
        facts=[fact.removesuffix(".") for fact in facts],
        classified=classified,
        apart=any(getattr(x, key, None) for x in series for key in ("delta", "definition")),
        guarantee=guarantee,
        moment=settings.kind in WITH_MOMENT,
        plans=SERIES_PLANS,
        defaults=defaults,
    )
    own = {} if guarantee else guarantees
    say: Any = _environment().get_template("methods_series.txt.j2").module.series_settings
    texts = {
        item.series: say(item, settings, SERIES_PLANS, defaults, own.get(item.series))
        for item in series
    }
    return sentences, {name: " ".join(text.split()) for name, text in texts.items()}


def _models_of(kind: str | None) -> tuple[type[ExperimentConfig], type[SeriesConfig]]:
    """Return the settings of a kind of experiment, and of its series; of one that has gone, few."""
    from covdp.experiments.kinds import EXPERIMENT_KINDS  # a release has no kind

    name = kind or str(ExperimentConfig.model_fields["kind"].default)
    if name not in EXPERIMENT_KINDS:
        return ExperimentConfig, SeriesConfig
    return EXPERIMENT_KINDS[name].config, EXPERIMENT_KINDS[name].series


def _sentences(template: str, **values: Any) -> Sentences:
    """Return what each block of a template says; those that say nothing are left out."""
    source = _environment().get_template(template)
    texts = {
        slot: "".join(block(source.new_context(values))) for slot, block in source.blocks.items()
    }
    return {slot: " ".join(text.split()) for slot, text in texts.items() if text.strip()}


@cache
def _environment() -> Any:
    """Return the templates of plain text, which know the words for names."""
    environment = templates().overlay(autoescape=False)
    environment.filters = {
        **environment.filters,
        "word": lambda name, table: word(table, name),
        "listed": _listed,
        "numbers": _numbers,
        "dataset": _dataset,
        "shown": lambda value: _listed(value) if isinstance(value, list | tuple) else value,
    }
    own = {"words": words(), "reads_footpoint": _reads_footpoint}
    environment.globals = {**environment.globals, **own}
    return environment


def _reads_footpoint(mechanism: str) -> bool:
    """Return True if the output of a mechanism depends on a footpoint."""
    return mechanism in MECHANISMS and MECHANISMS[mechanism].wrapped


def _listed(values: Any) -> str:
    """Return numbers or names, one after another; of many equal ones in a row how many."""
    values = values if isinstance(values, list | tuple) else [values]
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    runs = [(text, len(list(group))) for text, group in groupby(texts)]
    return ", ".join(
        f"{text} ({count} times)" if count > 3 else ", ".join([text] * count)
        for text, count in runs
    )


def _numbers(table: Settings) -> str:
    """Return the settings of a table, but for its kind and those that are empty."""
    return ", ".join(
        words()["setting"][name].format(_listed(value))
        for name, value in table.items()
        if name != "kind" and value not in (None, (), [])
    )


def _dataset(name: str) -> str:
    """Return the name of a dataset, with what to cite for it."""
    stem, cited = Path(name).name.removesuffix(".toml"), words()["dataset"]
    ending = "medmnist" if stem.rstrip("3d").endswith("mnist") else ""
    key = cited.get(stem) or (cited[ending] if ending else "")
    return f"{stem} [@{key}]" if key else stem
