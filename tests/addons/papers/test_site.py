"""Several experiments are an index and a page each; the index says which statement holds."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_runs import OURS, PAPER, SERIES, write_sample

from covdp.addons.papers import site as site_page
from covdp.addons.papers import verdicts as judges
from covdp.addons.papers.verdicts import verdicts
from covdp.config import ClaimConfig, PublishedConfig
from covdp.errors import OutputError
from covdp.report import build_report, load_runs
from covdp.report.page import load_pages
from covdp.report.templates import templates
from covdp.results import read_record, read_rows, write_record, write_rows

PAPER_NAME = "“A paper on means”, Figure 3"


def claim(says: str, left: str, right: str, **fields: Any) -> dict[str, Any]:
    """Return a statement as an experiment's record holds it."""
    told = ClaimConfig(says=says, place="section 1, Figure 4 (b)", left=left, right=right, **fields)
    return told.model_dump(mode="json")


def change(out: Path, run: str, *, config: dict[str, Any], **fields: Any) -> None:
    """Change the record of a run."""
    path = out / "runs" / run / "run.json"
    record = read_record(path)
    write_record(path, replace(record, config={**record.config, **config}, **fields))


@pytest.fixture(scope="module", autouse=True)
def plain() -> Iterator[None]:
    """Spare the library of charts, which takes seconds; tests in a browser have it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(templates().globals, "library", lambda: "")
        yield


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a paper's experiment on two datasets, one not at hand, and of ours."""
    out = tmp_path_factory.mktemp("site")
    for name, dataset in (("first", "a"), ("first", "gone"), ("own", "a"), ("plain", "a")):
        record = write_sample(out, experiment=name, dataset=dataset, budgets=2, images=False)
        (out / "runs" / record.run / "bound.parquet").unlink()  # each page has one chart
        change(out, record.run, config={}, steps=())
    claims = [
        claim("the wrapped one errs less", OURS, SERIES[2]),
        claim("the other one errs less", SERIES[2], OURS),
        claim("nobody errs less", "nobody", PAPER),
    ]
    first = {"paper": PAPER_NAME, "claims": claims}
    late = {"started": "2027-01-01T00:00:00Z"}  # run again last, and still the first to be read
    change(out, "first-a", config=first, **late)
    gone = {
        "started": "2026-01-01T00:00:00Z",  # asked for first, and still told last
        "status": "data not available",
        "title": "First",
        "command": "covdp reproduce first",
    }
    change(out, "first-gone", config=first, **gone)
    change(out, "own-a", config={"claims": claims[:1]}, title="Ours <b>")
    build_report(out)
    return out


def text_of(page: str) -> str:
    """Return the words of a page without its style and scripts, blanks put together."""
    body = re.sub(
        r"<(script|style).*?</\1>",
        "",
        page.partition("<body")[2].partition(">")[2],
        flags=re.DOTALL,
    )
    return " ".join(unescape(re.sub("<[^>]+>", " ", body)).split())


def test_index_tells_every_statement_apart(site: Path) -> None:
    """Held, refuted, not checked and not at hand have words of their own, counted at the top."""
    index = (site / "report.html").read_text(encoding="utf-8")
    words = text_of(index)
    verdicts_ = re.findall(r'<p class="verdict (\w+)">(.*?)</p>', index, re.DOTALL)
    page = '<a href="report-pages/first.html#first-a">PneumoniaMNIST</a>'
    assert [
        (mark, " ".join(re.sub("</?(strong|span)[^>]*>", "", x).split())) for mark, x in verdicts_
    ] == [
        ("holds", f"Agrees {page}"),
        ("gone", "Data not at hand 1 dataset"),
        ("fails", f"Does not agree {page}"),
        ("gone", "Data not at hand 1 dataset"),
        ("open", f"Not checked {page}"),
        ("gone", "Data not at hand 1 dataset"),
        ("holds", f"Agrees {page.replace('first', 'own')}"),
    ]
    counts = "3 statements to decide: 1 holds, 1 does not, or only in part, 1 is not decided"
    assert f"{counts}; each counts once a dataset." in words
    assert "1 statement to decide: 1 holds." in words
    papers = "Statements of the papers, on their own data: 2 of 3 decided; 1 agrees, 1 does not, or"
    assert papers in words
    assert "which count for no paper" not in words
    assert "Our own claims: 1 of 1 decided; 1 agrees, 0 do not, or only in part." in words
    assert "Data not at hand 3 not a failure" in words
    assert "1 run had no data at hand, which is no failure." in words
    (why,) = re.findall(r'<p class="why">([^<]+)</p>', index)  # it does not agree
    assert why.startswith("PneumoniaMNIST: True in 0 of 4 comparisons")
    assert "By exact expectations: “EWG, D/n, all data” has" in why
    assert "covdp reproduce first" in words
    assert "A paper on means" in words
    assert "Ours &lt;b&gt;" in index
    tally = re.findall(r'<dt>([^<]+) <.*?class="places">(.*?)</dd>', index, re.DOTALL)
    assert {word: re.findall(r'href="#(\w+)"', links) for word, links in tally} == {
        "Agrees": ["first", "own"],
        "Does not agree": ["first"],
        "Not checked": ["first"],
        "Data not at hand": ["first"],
    }


def _rows(index: str, word: str) -> str:
    """Return the rows of an index that have a verdict, put together."""
    rows = re.findall(r'<p class="verdict \w+">(.*?)</p>', index, re.DOTALL)
    return "".join(row for row in rows if f">{word}</" in row)


def test_the_tally_counts_what_rows_count(tmp_path: Path) -> None:
    """Of a stand-in that is not at hand as well: the rows sum to the number at the top."""
    said = [claim("the wrapped one errs less", OURS, SERIES[2])]
    for name, dataset, beyond in (("first", "a", 0), ("first", "gone", 1), ("own", "a", 0)):
        record = write_sample(tmp_path, experiment=name, dataset=dataset, images=False)
        config = {"claims": said, "beyond": bool(beyond), "paper": PAPER_NAME}
        away = {"status": "data not available"} if beyond else {}
        change(tmp_path, record.run, config=config, **away)
    index = build_report(tmp_path).read_text(encoding="utf-8")
    (tally,) = re.findall(r"<dt>Data not at hand .*?>(\d+)<", index)
    rows = re.findall(r">(\d+) dataset", _rows(index, "Data not at hand"))
    assert int(tally) == sum(map(int, rows)) == 1


def test_stand_ins_count_for_no_paper(tmp_path: Path) -> None:
    """Runs on data, or in a setting, that are not the paper's are counted apart; ours count."""
    said = [claim("the wrapped one errs less", OURS, SERIES[2])]
    for name, dataset, beyond in (("first", "a", False), ("first", "b", True), ("own", "b", True)):
        record = write_sample(tmp_path, experiment=name, dataset=dataset, budgets=2, images=False)
        paper = {"paper": PAPER_NAME} if name == "first" else {}
        variant = {"variant": "curved"} if beyond else {}
        config = {"claims": said, "beyond": beyond, **paper, **variant}
        change(tmp_path, record.run, config=config)
    index = build_report(tmp_path).read_text(encoding="utf-8")
    words = text_of(index)
    for lead in (
        "Statements of the papers, on their own data: 1 of 1 decided; 1 agrees, 0 do not, or",
        "papers, on other data or settings, which count for no paper: 1 of 1 decided",
        "Our own claims: 1 of 1 decided",
        "1 statement to decide: 1 holds; each counts once a dataset. Data or settings that are not "
        "the paper's do not count: 1 of 1 holds there.",
        "PneumoniaMNIST , PneumoniaMNIST, curved (not in the paper)",
        "PneumoniaMNIST, curved (held out)",
    ):
        assert lead in words
    (tally,) = re.findall(r"<dt>Agrees .*?>(\d+)<", index)
    assert int(tally) == len(re.findall(r">PneumoniaMNIST[^<]*</a>", _rows(index, "Agrees"))) == 3
    page = text_of((tmp_path / "report-pages" / "first.html").read_text(encoding="utf-8"))
    assert "On other data or settings than the paper's, 1 of 1 statement holds; this counts" in page


def test_every_page_is_there_and_leads_to_the_others(site: Path) -> None:
    """All relative links of index and pages lead to files and to ids that they hold."""
    pages = sorted((site / "report-pages").iterdir())
    assert [path.stem for path in pages] == ["errata", "first", "own", "plain"]
    files = [site / "report.html", *pages]
    ids = {path: set(re.findall(r' id="([^"]+)"', path.read_text("utf-8"))) for path in files}
    for path in files:
        html = path.read_text(encoding="utf-8")
        links = [x for x in re.findall(r'<a [^>]*href="([^"]+)"', html) if ":" not in x]
        assert len(links) > 8
        for link in links:
            name, _, place = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target in ids
            assert not place or place in ids[target]
        assert "default-src 'none'" in html
        assert html.count('id="privacy"') == (path.stem != "errata")
    menus = [
        re.findall(r'<li class="\w+"><a href="[^"]*?(\w+)\.html"', x.read_text()) for x in files
    ]
    assert menus == 5 * [["first", "own", "plain"]]
    assert {"first", "first-a", "first-gone", "own", "plain-a"} <= ids[site / "report.html"]


def test_every_word_of_a_verdict_has_a_mark_and_a_meaning() -> None:
    """An index is of all experiments: a word that it does not know would end it."""
    made = "".join(map(inspect.getsource, (judges, site_page)))
    given = set(re.findall(r"ClaimVerdict\(\s*([A-Z_]+),", made))
    words = {getattr(site_page, name, None) or getattr(judges, name) for name in given}
    declared = load_pages()["reproduction"]
    assert {"Price", "Not checked", "Data not at hand"} <= words <= set(declared["marks"])
    assert set(declared["meaning"]) == set(declared["marks"])


def test_the_index_ends_with_what_all_pages_cite(site: Path) -> None:
    """How statements were decided is said once, and BibTeX is that of all pages together."""
    index, *pages = [
        path.read_text(encoding="utf-8")
        for path in (site / "report.html", *(site / "report-pages").iterdir())
    ]
    keys = [set(re.findall(r"@\w+\{(\w+),", unescape(page))) for page in pages]
    assert set(re.findall(r"@\w+\{(\w+),", unescape(index))) == set.union(*keys)
    words = text_of(index)
    assert "3 runs of 3 experiments" in words
    assert words.count("Each statement on errors is decided by exact expectations") == 1


def test_one_experiment_alone_is_its_page(site: Path, tmp_path: Path) -> None:
    """Alone its page has the same sections, and no folder of pages beside it."""
    for folder in ("runs", "results"):
        for path in (site / folder).glob("own*"):
            (tmp_path / folder).mkdir(exist_ok=True)
            path.rename(tmp_path / folder / path.name)
    try:
        alone = build_report(tmp_path).read_text(encoding="utf-8")
    finally:
        for path in [*tmp_path.glob("runs/own*"), *tmp_path.glob("results/own*")]:
            path.rename(site / path.parent.name / path.name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "results", "runs"]
    among = (site / "report-pages" / "own.html").read_text(encoding="utf-8")
    assert alone.partition("<header")[2] == among.partition("<header")[2]
    assert 'href="../report.html">Index<' in among
    assert "report.html" not in alone


def test_an_index_leads_to_pages_that_are_whole(site: Path) -> None:
    """A page that cannot be written ends it before the index; pages of other folders stay.

    Where the folder is closed to others, so are the pages.
    """
    pages, index = site / "report-pages", site / "report.html"
    kept = pages / "elsewhere.html"
    kept.write_text("of another folder")
    before = index.read_bytes()
    (pages / "own.html").unlink()
    (pages / "own.html").mkdir()
    site.chmod(0o700)  # as of images of one's own
    try:
        with pytest.raises(OutputError, match=r"own\.html"):
            build_report(site)
    finally:
        (pages / "own.html").rmdir()
    assert index.read_bytes() == before
    assert kept.read_text() == "of another folder"
    assert (pages / "first.html").stat().st_mode & 0o077 == 0
    left = {"elsewhere", "errata", "first", "plain"}
    assert {path.stem for path in pages.iterdir()} == left
    kept.unlink()


@pytest.mark.parametrize(
    ("slow", "printed", "word"),
    [
        (1.0, 100.0, "Another ratio"),  # the paper's slow series is 100 times faster here
        (1.0, 0.5, "Does not agree"),  # it is not, so nothing but the ratio can be wrong
        (0.001, 100.0, "Does not agree"),  # here it is the faster of both
        (100.0, 100.0, "Agrees"),
    ],
)
def test_a_faster_chain_is_no_disagreement(
    tmp_path: Path, slow: float, printed: float, word: str
) -> None:
    """A ratio of times that is smaller as ours is faster than printed counts neither way.

    Times are 20 a series, one unlike the other by 1 %: no test of theirs can err.
    """
    record = write_sample(tmp_path, names=("a",), budgets=1, images=False)
    path = tmp_path / "results" / f"{record.run}.parquet"
    rows = read_rows(path)
    times = {PAPER: slow, OURS: 0.01}
    seconds = np.array([times.get(name, 1.0) for name in rows["series"]])
    write_rows(path, {**rows, "seconds": seconds * (1 + rows["repetition"] / 1000)}, metadata={})
    number = PublishedConfig(quantity="s", value=printed, column="seconds", series=PAPER)
    said = claim("5,000 times faster", OURS, PAPER, factor=5000.0, column="seconds")
    config = {"claims": [said], "published": [number.model_dump(mode="json")], "paper": PAPER_NAME}
    change(tmp_path, record.run, config={**config, "kind": "timing"})
    (run,) = load_runs(tmp_path)
    (found,) = verdicts(run)
    assert found.word == word
    assert found.finding.warning == (word == "Does not agree")
    assert SERIES[2] not in found.found
