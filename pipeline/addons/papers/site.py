"""The report of several experiments: an index, and one page an experiment.

Every page is one file that needs no other. The index says what became of each statement.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from covdp.addons.papers.errata import PAGE, load_errata, methods_of_errata, write_errata
from covdp.addons.papers.verdicts import NO_DATA, UNRUN, ClaimVerdict, how_judged, verdicts
from covdp.figures import grouped, listing
from covdp.report.findings import findings
from covdp.report.methods import Methods, methods
from covdp.report.page import load_pages, write_page
from covdp.report.run_page import methods_of_runs, promises_of_runs, version_of
from covdp.report.runs import FinishedRun

Drawn: TypeAlias = dict[str, Any]
"""A group, an experiment or a statement as ``index.html.j2`` draws it."""


class Index(NamedTuple):
    """Content of the index.

    Attributes
    ----------
    groups : sequence of Drawn
        Groups of experiments.
    runs : sequence of FinishedRun
        Runs of all experiments.
    errata : Drawn
        Place of the errata, and their numbers.
    """

    groups: Sequence[Drawn]
    runs: Sequence[FinishedRun]
    errata: Drawn

    @property
    def counted(self) -> dict[str, list[str]]:
        """Marks of statements at hand: the papers' on their own data, on others, and ours.

        Statements without a verdict are counted among all, and among none that are decided.
        """
        entries = [entry for group in self.groups for entry in group["entries"]]
        kinds = {
            "papers": ("marks", False),
            "stand_ins": ("apart", False),
            "claims": ("marks", True),
        }
        return {
            kind: [x for item in entries if item["own"] == own for x in item[marks] if x != "gone"]
            for kind, (marks, own) in kinds.items()
        }


def write_site(path: Path, experiments: Mapping[str, Sequence[FinishedRun]]) -> Path:
    """Write the pages, and last the index, so that no link of it leads nowhere.

    Pages stand in the folder ``…-pages`` beside the index, with the errata of the papers. Those
    that are there of other experiments stay.

    Parameters
    ----------
    path : Path
        Path of the index.
    experiments : mapping of str to sequence of FinishedRun
        Runs of each experiment, by its name.

    Returns
    -------
    Path
        Path of the index.
    """
    folder = path.with_name(f"{path.stem}-pages")
    texts = load_pages()["reproduction"]
    every = [entry_of(name, runs, quote(folder.name)) for name, runs in experiments.items()]
    groups = groups_of(every, texts)
    entries = [entry for group in groups for entry in group["entries"]]
    bar = {name: texts[name] for name in ("pages_title", "footnotes")} | {"pages": entries}
    for place, entry in enumerate(entries):
        beside = {
            "home": quote(f"../{path.name}"),
            "here": entry["id"],
            "before": entries[place - 1] if place else None,
            "after": entries[place + 1] if place + 1 < len(entries) else None,
        }
        page = folder / f"{entry['id']}.html"
        write_page(page, "run", experiments[entry["id"]], bar=bar | beside)
    write_errata(folder, {**bar, "home": quote(f"../{path.name}"), "here": PAGE})
    ends = [(texts[f"{name}_title"], name, False) for name in ("privacy", "methods")]
    parts = [*((group["title"], group["id"], False) for group in groups), *ends]
    errata = {"href": f"{quote(folder.name)}/{PAGE}", "counts": load_errata().counts}
    index = Index(groups, [run for runs in experiments.values() for run in runs], errata)
    return write_page(path, "reproduction", index, bar={**bar, "title": "", "parts": parts})


def promises(index: Index) -> list[tuple[str, Iterable[tuple[str, str]]]]:
    """Return the promises of all runs.

    Parameters
    ----------
    index : Index
        Content of the index.
    """
    return promises_of_runs(index.runs)


def methods_of_site(index: Index) -> Methods:
    """Return the Methods of all runs: the rules of verdicts, and all references of their pages.

    Parameters
    ----------
    index : Index
        Content of the index.
    """
    runs, texts = index.runs, load_pages()["reproduction"]
    judged = [run for run in runs if any(item.word != UNRUN for item in verdicts(run))]
    columns = [claim["column"] for run in judged for claim in run.record.config.get("claims", ())]
    done = [run for run in runs if run.record.status == "ok"]
    experiments = len({run.record.experiment for run in done})
    how = [(how_judged(column) or texts["methods_else"]).rstrip(".") for column in columns]
    lines = [texts["methods_how"].format(experiments=experiments, runs=len(done)), *how]
    sentences = {line: line for line in lines}
    pages = methods_of_runs(runs), methods_of_errata(load_errata())
    entries = {entry.key: entry for page in reversed(pages) for entry in page.references}
    cited = sorted(entries.values(), key=lambda entry: entry.text.casefold())
    own = methods({"": sentences}, version=version_of(runs))
    return own._replace(references=tuple(cited))


def entry_of(name: str, runs: Sequence[FinishedRun], folder: str) -> Drawn:
    """Return the entry of the index on the runs of one experiment.

    ``words`` are the verdicts on the statements in all runs, ``marks`` the marks of those in runs
    that count for them, and ``mark`` is the worst; ``apart`` are the marks of stand-ins, which do
    not count; ``missing`` are datasets, each with the command that gets it.

    Parameters
    ----------
    name : str
        Name of the experiment.
    runs : sequence of FinishedRun
        Runs of the experiment.
    folder : str
        Folder of its page, as part of an address.
    """
    judged = {run.id: verdicts(run) or _gone(run) for run in runs}
    notes = {run.id: findings(run) for run in runs}
    says = dict.fromkeys(item.says for items in judged.values() for item in items)
    stated = [_statement(text, runs, judged) for text in says]
    first, file = runs[0].record, quote(f"{name}.html")
    paper, _, figures = str(first.config.get("paper", "")).partition("”")
    shown = [note.text for items in notes.values() for note in items if note.warning]
    gone = [run.record for run in runs if run.record.status != "ok"]
    mark_of = load_pages()["reproduction"]["marks"]
    own = [run for run in runs if counts(run)]
    marks = [mark_of[item.word] for run in own for item in judged[run.id]]
    rest = [item.word for run in runs if run not in own for item in judged[run.id]]
    return {
        "id": name,
        "title": first.title,
        "file": file,
        "href": f"{folder}/{file}",
        "paper": paper.strip("“ "),
        "where": ", ".join(filter(None, (name, figures.strip(", ")))),
        "own": not paper,
        "words": [item.word for items in judged.values() for item in items],
        "marks": marks,
        "apart": [mark_of[word] for word in rest],
        "notes": [items[0].text for items in notes.values() if not says and not items[0].warning],
        "warnings": list(dict.fromkeys(shown)),
        "runs": [(run, _where(run) or run.record.dataset.name) for run in runs],
        "statements": stated,
        "runs_missing": len(gone),
        "missing": list(dict.fromkeys((record.dataset.title, record.command) for record in gone)),
        "mark": _worst(set(marks), warned=bool(shown)),
    }


def counts(run: FinishedRun) -> bool:
    """Return True if a run counts for its statements, or against them.

    Statements of a paper are on its own data and setting. Our own claims are on held-out data as
    well.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
    """
    config = run.record.config
    return not (config.get("paper") and config.get("beyond"))


def _gone(run: FinishedRun) -> list[ClaimVerdict]:
    """Return the statements of a run that had no data."""
    if run.record.status == "ok":
        return []
    return [
        ClaimVerdict(NO_DATA, claim["says"], "") for claim in run.record.config.get("claims", ())
    ]


def _statement(
    says: str, runs: Sequence[FinishedRun], judged: Mapping[str, Sequence[ClaimVerdict]]
) -> Drawn:
    """Return one statement, what became of it in each run, and the reasons, each stated once.

    Of ``verdicts`` each word has the runs that it is true of: dataset, and the section of its page.
    """
    found = [(item, run) for run in runs for item in judged[run.id] if item.says == says]
    places = grouped((item.word, (_where(run), run.id)) for item, run in found)
    why = grouped((item.reason, _where(run)) for item, run in found if item.reason)
    reasons = [f"{listing(filter(None, names))}: {text}" for text, names in why.items()]
    return {"says": says, "verdicts": places, "why": [text.removeprefix(": ") for text in reasons]}


def _where(run: FinishedRun) -> str:
    """Return the dataset of a run, the first words of its title; nothing where records are made."""
    config, title = run.record.config, run.where and run.record.dataset.title.partition(":")[0]
    name = ", ".join(filter(None, (title, config.get("variant"))))
    if not config.get("beyond"):
        return name
    return f"{name or 'simulated'} ({'not in the paper' if config.get('paper') else 'held out'})"


def _worst(marks: set[str], *, warned: bool) -> str:
    """Return the mark of an experiment: that of the statement a reader should look at first."""
    order = ("fails", "other", "open", "holds", "gone")
    return "fails" if warned else next((mark for mark in order if mark in marks), "stated")


def groups_of(entries: Sequence[Drawn], words: Mapping[str, Any]) -> list[Drawn]:
    """Return the experiments by paper, then our own claims, then those that claim nothing.

    Groups are in the order of their names, whichever was run last.

    Parameters
    ----------
    entries : sequence of Drawn
        Entry of each experiment.
    words : mapping of str to object
        Texts of the page.
    """
    ordered = sorted(entries, key=lambda x: (not x["paper"], not x["statements"], x["id"]))
    own = {True: words["own_title"], False: words["other_title"]}
    titles = grouped((item["paper"] or own[bool(item["statements"])], item) for item in ordered)
    return [
        {"id": f"group-{place}", "title": title, "own": items[0]["own"], "entries": items}
        for place, (title, items) in enumerate(titles.items(), 1)
    ]
