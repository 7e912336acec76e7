"""Where the published statements stand: what the index of a report says of each experiment."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.figures import listing
from pipeline.report.claims import (
    AGAINST,
    AGREES,
    OPEN,
    PART,
    RATIO,
    UNRUN,
    VOID,
    Verdict,
    verdicts,
)
from pipeline.report.findings import findings
from pipeline.report.page import where
from pipeline.report.runs import FinishedRun

GONE = "Data not at hand"
PLACE = re.compile(r"^[;. ]*\((?:[^()]|\([^()]*\))*\)[;. ]*")
"""Where a paper makes a statement, as a verdict begins: a figure may have a part (b)."""
MARKS: Mapping[str, str] = {
    AGREES: "holds",
    PART: "fails",
    AGAINST: "fails",
    RATIO: "other",
    OPEN: "open",
    VOID: "open",
    UNRUN: "open",
    GONE: "gone",
}
"""What may become of a statement → how it is marked."""


class Chip(NamedTuple):
    """What became of a statement in one run, and where the run stands."""

    word: str
    mark: str
    where: str
    href: str


class Statement(NamedTuple):
    """One statement: in its words, what became of it in each run, and why where it is not held."""

    says: str
    chips: Sequence[Chip]
    why: Sequence[str]


class Place(NamedTuple):
    """One run: its name, where its page has it, and whether its data were not at hand."""

    id: str
    name: str
    href: str
    gone: bool


class Entry(NamedTuple):
    """One experiment of the index; `missing` are datasets, each with the command that gets it."""

    id: str
    title: str
    href: str
    paper: str
    where: str
    own: bool
    told: Sequence[str]
    warnings: Sequence[str]
    runs: Sequence[Place]
    statements: Sequence[Statement]
    missing: Sequence[tuple[str, str]]
    mark: str


class Group(NamedTuple):
    """The experiments of one paper, or our own."""

    id: str
    title: str
    own: bool
    entries: Sequence[Entry]


def entry_of(name: str, runs: Sequence[FinishedRun], href: str) -> Entry:
    """Return what the index says of the runs of one experiment, whose page is at `href`."""
    judged = {run.id: verdicts(run) or _gone(run) for run in runs}
    found = {run.id: findings(run) for run in runs}
    says = dict.fromkeys(item.says for items in judged.values() for item in items)
    stated = [_statement(text, runs, judged, href) for text in says]
    first = runs[0].record
    paper, _, figures = str(first.config.get("paper", "")).partition("”")
    shown = [one.text for items in found.values() for one in items if one.warning]
    gone = [run.record for run in runs if _is_gone(run)]
    words = {chip.word for line in stated for chip in line.chips}
    return Entry(
        id=name,
        title=first.title,
        href=href,
        paper=paper.strip("“ "),
        where=", ".join(filter(None, (name, figures.strip(", ")))),
        own=not paper,
        told=[items[0].text for items in found.values() if not says and not items[0].warning],
        warnings=list(dict.fromkeys(shown)),
        runs=[Place(run.id, _named(run), f"{href}#{run.id}", _is_gone(run)) for run in runs],
        statements=stated,
        missing=[(record.dataset.title, record.command) for record in gone],
        mark=_worst({MARKS[word] for word in words}, warned=bool(shown)),
    )


def _is_gone(run: FinishedRun) -> bool:
    return run.record.status != "ok"


def _gone(run: FinishedRun) -> list[Verdict]:
    """Return the statements of a run that had no data."""
    if not _is_gone(run):
        return []
    return [Verdict(GONE, claim["says"], "") for claim in run.record.config.get("claims", ())]


def _statement(
    says: str, runs: Sequence[FinishedRun], judged: Mapping[str, Sequence[Verdict]], href: str
) -> Statement:
    """Return one statement, what became of it in each run, and the reasons, each told once."""
    chips, why = [], dict[str, list[str]]()
    for run in runs:
        for item in judged[run.id]:
            if item.says != says:
                continue
            chips.append(Chip(item.word, MARKS[item.word], _where(run), f"{href}#{run.id}"))
            if reason := _reason(item):
                why.setdefault(reason, []).append(_where(run))
    told = [f"{listing(filter(None, names))}: {text}" for text, names in why.items()]
    return Statement(says, chips, [text.removeprefix(": ") for text in told])


def _where(run: FinishedRun) -> str:
    """Return the dataset of a run, the first words of its title; nothing of simulated records."""
    name, config = where(run).partition(":")[0], run.record.config
    if not config.get("beyond"):
        return name
    return f"{name} (not in the paper)" if config.get("paper") else f"{name} (held out)"


def _named(run: FinishedRun) -> str:
    return _where(run) or run.record.dataset.name


def _reason(item: Verdict) -> str:
    """Return why a statement is not held: the reason that is known, else what was found.

    What is left open needs none: the word says it.
    """
    if item.word in (AGREES, OPEN, UNRUN, GONE):
        return ""
    text = item.why or PLACE.sub("", item.found).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def _worst(marks: set[str], *, warned: bool) -> str:
    """Return the mark of an experiment: that of the statement a reader should look at first."""
    order = ("fails", "other", "open", "holds", "gone")
    return "fails" if warned else next((mark for mark in order if mark in marks), "told")


def groups_of(entries: Sequence[Entry], words: Mapping[str, Any]) -> list[Group]:
    """Return the experiments by paper, then our own claims, then what claims nothing.

    They are in the order of their names, whichever was run last.
    """
    titles: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda one: (not one.paper, not one.statements, one.id)):
        own = words["own_title"] if entry.statements else words["other_title"]
        titles.setdefault(entry.paper or own, []).append(entry)
    return [
        Group(f"group-{place}", title, items[0].own, items)
        for place, (title, items) in enumerate(titles.items(), 1)
    ]


def lead(groups: Sequence[Group]) -> list[str]:
    """Return the first sentences of the index: how many statements hold, theirs and ours."""
    out = []
    for own, name in ((False, "the papers' statements"), (True, "our own claims")):
        chosen = [entry for group in groups if group.own is own for entry in group.entries]
        words = _words(chosen)
        decided = [word for word in words if word in (AGREES, PART, AGAINST)]
        if words:
            text = f"Of {name} that these rows decide, {decided.count(AGREES)} of {len(decided)}"
            out.append(f"{text} agree." if decided else f"These rows decide none of {name}.")
    missing = sum(len(entry.missing) for group in groups for entry in group.entries)
    if missing:
        out.append(f"{missing} run{'s' * (missing > 1)} had no data at hand, which is no failure.")
    return out


def legend(entries: Sequence[Entry], meaning: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what each word means, how often it stands and where, for the words that occur."""
    words = _words(entries)
    return [
        {
            "word": word,
            "mark": MARKS[word],
            "count": words.count(word),
            "meaning": text,
            "entries": [entry.id for entry in entries if word in _words([entry])],
        }
        for word, text in meaning.items()
        if word in words
    ]


def _words(entries: Sequence[Entry]) -> list[str]:
    return [chip.word for entry in entries for line in entry.statements for chip in line.chips]
