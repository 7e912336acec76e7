"""Every kind of page, and what every command prints, of tiny data; nothing is tested."""

import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sample_documents import document_of
from sample_history import draw_nights
from sample_nights import CONFIG as NIGHTLY
from sample_nights import PERSONS, Ward
from sample_runs import OURS, PAPER, SERIES, write_sample

from covdp.cli import main
from covdp.config import ClaimConfig
from covdp.report import build_release_report, build_report
from covdp.report.templates import templates
from covdp.results import read_record, write_record
from tests.addons.partners.local import document, put
from tests.tools.addons import addon

build_history = addon("nights.history_page:build_history")

CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["well", "ill"]\n'
CONFIG = 'population = "ward"\ndataset = "ward.toml"\nbudget = 0.5\nrun_key = "monday"\n'
PUBLIC = 'labels = "public"\nsmallest_class = 1\n'
RELEASES = {
    "release, public labels": CONFIG + PUBLIC,
    "release, secret labels": CONFIG,
    "release, several images a person": CONFIG + PUBLIC + "images_per_person = 3\n",
    "release, zCDP": CONFIG + PUBLIC + 'definition = "zcdp"\n',
    "release, in floats": CONFIG + PUBLIC + 'noise = "float"\n',
    "release, one draw": CONFIG + PUBLIC + 'mechanism = "ewg"\n',
}
"""Configs of releases by the kind of their page."""
Texts = Mapping[str, Sequence[str]]
"""What is read of each page, or of what a command prints, by its kind."""
BLOCKS = re.compile(r"h\d|p|li|td|th|dt|dd|figcaption|caption|summary|text|title|desc|div|button|a")
"""Elements whose text is read by itself."""
NO_NUMBER = "no number:"
"""How a text begins that stands for an attribute of a picture which is none."""
KINDS = ("rao-composition", "ew-timing")
"""Experiments without images, of kinds that no made-up run is of."""
UNREAD = {"script", "style", "pre", "ol.references"}
"""Elements whose text is not ours, or is for machines."""


class PageTexts(HTMLParser):
    """Collects the visible texts of a page: of each block, and of attributes that are read out."""

    def __init__(self) -> None:
        super().__init__()
        self.texts, self.within, self.words = list[str](), list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a block, and read out its attributes."""
        given = dict(attrs)
        self.texts += [given[name] or "" for name in ("alt", "aria-label") if name in given]
        wrong = [one for one in given.values() if one and ("NaN" in one or "Infinity" in one)]
        self.texts += [f"{NO_NUMBER} {value}" for value in wrong if not value.startswith("data:")]
        name = f"{tag}.{given.get('class')}"
        if name in UNREAD or tag in UNREAD:
            self.within.append(tag)
        elif BLOCKS.fullmatch(tag):
            self._end()
        self.words += [" "] * (tag == "span")

    def handle_endtag(self, tag: str) -> None:
        """End a block."""
        if self.within[-1:] == [tag]:
            self.within.pop()
        elif BLOCKS.fullmatch(tag):
            self._end()

    def handle_data(self, data: str) -> None:
        """Add to the words of a block."""
        if not self.within:
            self.words.append(data)

    def _end(self) -> None:
        text = " ".join("".join(self.words).split())
        self.texts += [text] if text else []
        self.words = []


def texts_of(page: Path) -> list[str]:
    """Return the visible texts of a page."""
    reader = PageTexts()
    reader.feed(page.read_text(encoding="utf-8"))
    reader.close()
    return reader.texts


def printed(*tokens: str | Path, code: int = 0) -> list[str]:
    """Run a command, which ends with this exit code, and return the lines of both its streams."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            ended = main([str(token) for token in tokens])
        except SystemExit as end:
            ended = int(str(end.code))
    assert ended == code, out.getvalue()
    return out.getvalue().splitlines()


@contextmanager
def at_home(folder: Path) -> Iterator[Path]:
    """Be in a new folder, which is the data root too, with a ledger that is not there yet."""
    folder.mkdir()
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "1000")  # no sentence is broken
        patch.setenv("COVDP_DATA", str(folder))
        patch.setenv("COVDP_LEDGER", str(folder / "ledger.sqlite"))
        patch.setitem(templates().globals, "library", lambda: "")  # is not read
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def of_runs(folder: Path) -> Texts:
    """Read an experiment of our own, one of a paper that lacks a dataset, and their index."""
    with at_home(folder):
        for name, dataset in (("paper", "a"), ("paper", "gone"), ("ours", "a")):
            record = write_sample(folder, experiment=name, dataset=dataset, budgets=3)
            claims = [
                ClaimConfig(says=says, place="Figure 4 (b)", left=left, right=right)
                for says, left, right in (
                    ("the wrapped noise has the smaller error", OURS, SERIES[2]),
                    ("the Laplace noise has the smaller error", SERIES[2], OURS),
                    ("another noise has the smaller error", "another", PAPER),
                )
            ]
            config = {**record.config, "claims": [one.model_dump(mode="json") for one in claims]}
            if name == "paper":
                config["paper"] = "“A paper on means”, Figure 3"
            status = "data not available" if dataset == "gone" else record.status
            path = folder / "runs" / record.run / "run.json"
            write_record(path, replace(read_record(path), config=config, status=status))
        pages = {"index": build_report(folder)}
        pages |= {
            f"run, {name}": folder / "report-pages" / f"{name}.html" for name in ("paper", "ours")
        }
        found: dict[str, Sequence[str]] = {}
        for name in KINDS:
            shown = printed("reproduce", name, "--repetitions", "2", "--out", name)
            found[f"reproduce {name}, printed"] = shown
            pages[f"reproduce {name}"] = Path(name) / "report.html"
        return found | {kind: texts_of(page) for kind, page in pages.items()}


def of_releases(folder: Path) -> Texts:
    """Read releases of few images, of persons, and of enough for regions; and the way to them."""
    found: dict[str, Sequence[str]] = {}
    with at_home(folder):
        images = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)
        np.savez("ward.npz", train_images=images, train_labels=np.arange(40, dtype=np.uint8) % 2)
        Path("ward.toml").write_text(CARD)
        answers = ("--population", "start", "--total", "2", "--budget", "0.5")
        found["start"] = printed("start", "ward.toml", *answers)
        found["ledger show"] = printed("ledger", "show", "--verbose")
        found["ledger history"] = printed("ledger", "history", "start")
        for place, (kind, config) in enumerate(RELEASES.items()):
            address = f"{place}.sqlite"
            definition = "zcdp" if "zcdp" in config else "gdp"
            printed("ledger", "init", "--ledger", address)
            total = ("--definition", definition, "--total", "90", "--ledger", address)
            printed("ledger", "set-budget", "ward", *total)
            Path("release.toml").write_text(config + f'name = "release-{place}"\n')
            found |= _released(kind, "release.toml", f"{place}", "--ledger", address)
        ward = Ward(folder / "persons")
        ward.write(PERSONS.replace('"ward"', '"persons/ward"', 1), NIGHTLY + 'run_key = "a"\n', "")
        ward.put(well=4, ill=4)
        printed("ledger", "set-budget", "ward-7", "--total", "90")
        Path("ward.toml").write_text((ward.folder / "ward.toml").read_text())
        found |= _released("release, persons", "persons/night.toml", "of-persons")
        for mu in (0.5, 2.0):
            content = json.loads(document(folder / f"{mu:g}.json", mu).read_text())
            page = build_release_report(document_of(content), folder / f"{mu:g}.html")
            found[f"release with regions, μ = {mu:g}"] = texts_of(page)
    return found


def _released(kind: str, config: str, out: str, *more: str) -> Texts:
    """Release, and read the page and what is printed."""
    shown = printed("release", "--config", config, "--out", out, "--even-if-useless", *more)
    pages = sorted(Path(out).rglob("*.html"))
    return {f"{kind}, {page.name}": texts_of(page) for page in pages} | {f"{kind}, printed": shown}


def of_nights(folder: Path) -> Texts:
    """Read nights of streams with public and with secret labels, of persons, and a history."""
    found: dict[str, Sequence[str]] = {}
    with at_home(folder):
        days = [f"2026-03-{day:02d}" for day in range(1, 6)]
        (folder / "drawn").mkdir()
        nights = draw_nights(folder / "drawn", days, np.random.default_rng(20260322))
        for place, kind in ((0, "night before the opening"), (4, "night")):
            content = document_of(nights[place])
            found[kind] = texts_of(build_release_report(content, folder / f"{place}.html"))
        found["history"] = texts_of(build_history("ward", nights, folder / "history"))
        secret = NIGHTLY.replace('labels = "public"\n', "")
        for kind, card, config, opening in (
            ("night, secret labels", "", secret, 300.0),
            ("night, persons", PERSONS, NIGHTLY, 300.0),
            ("night, first look", "", NIGHTLY, 40.0),
        ):
            ward = Ward(folder / kind.partition(", ")[2].replace(" ", "-"))
            ward.write(card, config, f"[stream]\nhorizon = 40\nopening = {opening}\n")
            ward.pay()
            contents = list[bytes]()
            for day in (1, 2):
                ward.put(well=20, ill=2)
                contents += ward.settle(day)
                document = document_of(contents[-1])
                page = build_release_report(document, ward.folder / f"{day}.html")
                found[f"{kind} {day}"] = texts_of(page)
            page = build_history("ward-7", contents, ward.folder / "history")
            found[f"history of {kind}"] = texts_of(page)
    return found


def of_several(folder: Path, hospitals: Sequence[Path], sites: Sequence[Path]) -> Texts:
    """Read releases compared, combined, put on one scale, and local images matched."""
    found: dict[str, Sequence[str]] = {}
    with at_home(folder):
        few = [document(folder / f"few-{place}.json", 0.2, per_person=place) for place in (1, 2)]
        for command, given in (
            ("compare", hospitals[:2]),
            ("combine", hospitals),
            ("harmonise", sites),
            ("compare", few),
            ("combine", few),
        ):
            kind = f"{command}{', too noisy' if given is few else ''}"
            out = Path(kind.replace(", ", "-").replace(" ", "-"))
            target = out / "maps.json" if command == "harmonise" else out
            found[f"{kind}, printed"] = printed(command, *given, "--out", target)
            (page,) = [*out.glob("*.html"), *out.glob("maps-page/*.html")]
            found[kind] = texts_of(page)
        document(folder / "partner.json")
        put(folder)
        match = ("match", "partner.json", "--dataset", "ward.toml", "--out", "matched")
        found["match, printed"] = printed(*match)
        found["match"] = texts_of(Path("matched/match.html"))
    return found


def of_plans(folder: Path) -> Texts:
    """Read what is printed of a card, a plan, and of what there is."""
    found: dict[str, Sequence[str]] = {}
    with at_home(folder):
        put(folder)
        found["card"] = printed("card", "ward")
        spoiled = [Path(f"ward/cells/{name}.png") for name in ("copy", "broken")]
        spoiled[0].write_bytes(Path("ward/cells/000.png").read_bytes())
        spoiled[1].write_bytes(b"broken")
        looked = ("check", "--dataset", "ward.toml", "--out", "looked")
        found["check, printed"] = printed(*looked, code=3)
        found["check"] = texts_of(Path("looked/check.html"))
        for path in spoiled:
            path.unlink()
        Path("release.toml").write_text(CONFIG)
        Path("stream.toml").write_text(CONFIG + "[stream]\nhorizon = 365\nopening = 20\n")
        sizes = ("--n", "tissue=300", "--n", "cells=3000")
        found["plan"] = printed("plan", "--config", "release.toml")
        found["plan of classes"] = printed(
            "plan", "--config", "release.toml", *sizes, "--error", "0.5"
        )
        found["plan of a stream"] = printed("plan", "--config", "stream.toml", "--per-night", "5")
        for command in ("datasets", "descriptors", "mechanisms"):
            found[command] = printed(command, "--verbose")
        found["reproduce --list"] = printed("reproduce", "--list")
    return found
