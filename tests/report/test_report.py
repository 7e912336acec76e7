"""The page says what the rows say, survives whatever is missing, and calls nobody."""

import pkgutil
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from sample_documents import ACCOUNT, ROW, SETTINGS, document_of
from sample_runs import SERIES, write_sample

from covdp.descriptors import DESCRIPTORS
from covdp.errors import ConfigError, OutputError
from covdp.experiments import load_experiments
from covdp.figures import digits, matrices, number
from covdp.files import resource
from covdp.report import build_release_report, build_report, load_runs
from covdp.report.findings import findings
from covdp.report.page import Block, blocks_of, load_pages, sections_of
from covdp.report.run_page import SITES, machine_words, missing_results
from covdp.report.templates import draw
from covdp.results import (
    DatasetNote,
    RunRecord,
    Table,
    read_record,
    read_rows,
    write_record,
    write_rows,
)
from covdp.schema import Document

pytestmark = pytest.mark.usefixtures("pictures_once")

FOLDER = "runs/main-pneumoniamnist"
ALL = ["error", "summary", "facts", "samples", "bound", "numbers", "steps", "reproduction"]


class Page(HTMLParser):
    """The elements of a page: ids, links, whatever it loads, table cells and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.sections: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.means: list[float] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.headings: list[tuple[str, str]] = []
        self.heading = False
        self.cell = self.mute = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what the tag names, links to or loads."""
        values = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.mute = tag in ("script", "style")
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "section":
            self.sections.append(values["id"])
        if tag == "a":
            self.links.append(values["href"])
        for name in ("src", "srcset", "data", "href", "xlink:href", "poster", "action"):
            if name in values and tag != "a":
                self.loads.append(values[name])
        if tag == "data" and values.get("class") == "mean":
            self.means.append(float(values["value"]))
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.headings.append((tag, ""))
            self.heading = True
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.cell = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave a table's cell, a script or a style."""
        self.cell = self.cell and tag not in ("td", "th")
        self.mute = self.mute and tag not in ("script", "style")
        self.heading = self.heading and not tag.startswith("h")

    def handle_data(self, data: str) -> None:
        """Collect text; a blank at which no line breaks is a blank."""
        data = data.replace("\xa0", " ")
        if self.heading:
            tag, text = self.headings[-1]
            self.headings[-1] = (tag, text + data)
        if self.cell:
            self.rows[-1][-1] += data
        if not self.mute:
            self.text += data


def blocks(out: Path) -> list[Block]:
    """Return what the section of the first run under `out` shows."""
    declared = load_pages()["run"]
    (section,) = sections_of(declared, load_runs(out)[:1])
    return blocks_of(section, declared["block"])


def page_of(out: Path) -> Page:
    """Build the report of `out` and read it."""
    return Page(build_report(out).read_text(encoding="utf-8"))


def without_result(rows: Table) -> Table:
    """Make the first budgets of one series undefined."""
    gone = (rows["series"] == SERIES[3]) & (rows["budget"] < 1) & (rows["label"] == 1)
    blank = {
        name: np.where(gone, np.nan, rows[name]) for name in ("error", "expected_error", "sigma")
    }
    status = np.where(gone, "undefined", rows["status"]).astype(object)
    return {**rows, **blank, "status": status}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunRecord, str]:
    """Return a folder with one run, its record, and the HTML of its report."""
    out = tmp_path_factory.mktemp("sample")
    record = write_sample(out)
    return out, record, build_report(out).read_text(encoding="utf-8")


def test_page_has_its_sections(sample: tuple[Path, RunRecord, str]) -> None:
    """Title, one section for the run, one for each reportlet, one for privacy; ids are unique."""
    _, record, html = sample
    page = Page(html)
    assert page.tags.count("title") == page.tags.count("h1") == 1
    assert record.run == "main-pneumoniamnist"
    assert page.sections == [
        record.run,
        *[f"{record.run}-{name}" for name in ALL[:2]],
        "privacy",
        *[f"{record.run}-{name}" for name in ALL[2:]],
        "methods",
    ]
    assert len(set(page.ids)) == len(page.ids)
    formula = DESCRIPTORS[record.config["descriptor"]].formula
    for text in (*record.privacy, *record.privacy.values(), record.command, "28 × 28 pixels"):
        assert text in page.text
    assert formula in page.text
    for name, version in record.versions.items():
        assert f"{name}&nbsp;{version}" in html


def test_times_and_machines_are_said_as_people_say_them(
    sample: tuple[Path, RunRecord, str],
) -> None:
    """To the second, in UTC; one core is no cores."""
    assert "<dd>2026-03-01 12:00:00 UTC</dd>" in sample[2]
    assert machine_words({"processor": "p", "cores": 1}) == ["p", "1 core used"]
    assert machine_words({"cores": 2}) == ["2 cores used"]


def test_numbers_are_the_means_of_the_rows(sample: tuple[Path, RunRecord, str]) -> None:
    """The table holds every class, series and budget with the mean of its rows, as printed."""
    out, record, html = sample
    rows = read_rows(out / "results" / f"{record.run}.parquet")
    page = Page(html)
    lines = [row for row in page.rows if len(row) == 7 and row[0] in SERIES]
    assert len(lines) == len(page.means) == 2 * 4 * 5
    position = 0
    for label in (0, 1):
        for series in SERIES:
            for budget in np.unique(rows["budget"]):
                mine = (rows["series"] == series) & (rows["budget"] == budget)
                errors = rows["error"][mine & (rows["label"] == label)]
                expected = rows["expected_error"][mine & (rows["label"] == label)][0]
                assert page.means[position] == pytest.approx(errors.mean(), rel=1e-12)
                assert lines[position] == [
                    series,
                    number(budget),
                    digits(rows["sigma"][mine & (rows["label"] == label)][0]),
                    digits(errors.mean()),
                    digits(errors.std(ddof=1) / np.sqrt(len(errors))),
                    digits(expected),
                    digits(errors.mean() / expected),
                ]
                position += 1


def test_text_is_escaped(tmp_path: Path, sample: tuple[Path, RunRecord, str]) -> None:
    """Names, titles and notes that look like markup come out as text."""
    evil = "<script>alert(1)</script>"
    record = write_sample(tmp_path, names=(evil, "b"))
    plain = Page(sample[2]).tags.count("script")
    write_record(
        tmp_path / "runs" / record.run / "run.json",
        replace(
            record,
            title=evil,
            dataset=DatasetNote("d", evil, evil, "javascript:alert(1)", evil),
            command=evil,
            notes=(evil,),
            config={evil: evil},
            privacy={evil: evil},
            versions={evil: evil},
            steps=((evil, 1.0),),
            machine={"processor": evil},
        ),
    )
    html = build_report(tmp_path).read_text(encoding="utf-8")
    page = Page(html)
    assert page.tags.count("script") == plain
    assert "<script>alert" not in html
    assert page.text.count(evil) > 10
    assert not [link for link in page.links if link.startswith("javascript")]


def test_page_calls_nobody(sample: tuple[Path, RunRecord, str]) -> None:
    """Nothing is loaded but data in the file; its addresses are links, tables and pictures."""
    out, _, html = sample
    page = Page(html)
    assert len(page.loads) == 2
    assert all(value.startswith("data:image/png;base64,") for value in page.loads)
    tables = [link for link in page.links if link.startswith("data:text/csv;charset=utf-8;base64,")]
    assert len(tables) == html.count('<figure class="chart"') == 3
    drawn = [x for x in page.links if x.startswith("data:image/svg+xml;charset=utf-8;base64,")]
    assert len(drawn) == len(tables)
    within = {*tables, *drawn}
    others = [link for link in page.links if link not in within and not link.startswith("#")]
    assert others == ["https://medmnist.com/"]
    styles = "".join(re.findall("<style>.*?</style>", html, re.DOTALL))
    assert "url(" not in styles
    assert "@import" not in styles
    assert "default-src 'none'" in html
    assert "link" not in page.tags
    assert str(out) not in html


@pytest.mark.parametrize(
    ("gone", "dropped"),
    [
        (["results"], {"error", "numbers", "summary"}),
        ([f"{FOLDER}/bound.parquet"], {"bound"}),
        ([f"{FOLDER}/samples"], {"samples"}),
        (["results", f"{FOLDER}/bound.parquet"], {"error", "numbers", "bound", "summary"}),
    ],
)
def test_missing_parts_drop_out(tmp_path: Path, gone: list[str], dropped: set[str]) -> None:
    """Without a file its reportlets are absent, and the rest of the page is there."""
    record = write_sample(tmp_path)
    for name in gone:
        (tmp_path / name).rename(tmp_path / f"away-{Path(name).name}")
    names = {block.name for block in blocks(tmp_path)}
    assert names ^ set(ALL) == dropped
    assert page_of(tmp_path).sections[0] == record.run


def test_damaged_table_is_named(tmp_path: Path) -> None:
    """A table that cannot be read is a warning on the page, not the end of it."""
    record = write_sample(tmp_path)
    (tmp_path / "results" / f"{record.run}.parquet").write_bytes(b"PAR1 damaged PAR1")
    run = load_runs(tmp_path)[0]
    assert run.rows is None
    assert findings(run)[0].warning
    assert f"{record.run}.parquet" in page_of(tmp_path).text


def test_nothing_to_report_is_one_line(tmp_path: Path) -> None:
    """An empty folder and a damaged record raise `OutputError` with the way out, and no file."""
    with pytest.raises(OutputError, match="covdp run"):
        build_report(tmp_path)
    (tmp_path / "runs" / "x").mkdir(parents=True)
    (tmp_path / "runs" / "x" / "run.json").write_text('{"experiment": 1}')
    with pytest.raises(OutputError, match=r"run\.json"):
        build_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_undefined_rows_are_said_in_words(tmp_path: Path) -> None:
    """Where no density exists the page says which series, budgets and classes, and why."""
    record = write_sample(tmp_path, images=False)
    path = tmp_path / "results" / f"{record.run}.parquet"
    write_rows(path, without_result(read_rows(path)), metadata={})
    page = page_of(tmp_path)
    assert "main-pneumoniamnist-undefined" in page.ids
    assert (f"{SERIES[3]} has no result at μ = 0.1 and 0.575 (pneumonia).") in page.text
    assert "footpoint, has no density" in page.text
    assert sum("undefined" in row for row in page.rows) == 2
    assert len(page.means) == 2 * 4 * 5 - 2


LISTED = re.compile(r"at (?:any budget|μ = ([^(]*)) \(([^)]*)\)")


def listed(sentences: list[str], budgets: list[str]) -> set[tuple[str, str, str]]:
    """Return every series, class and budget that the sentences on gaps name."""
    out = set()
    for sentence in sentences:
        series, _, rest = sentence.partition(" has no result ")
        for values, names in LISTED.findall(rest):
            at = re.split(", | and ", values) if values else budgets
            out |= {(series, name, value) for name in re.split("; | and ", names) for value in at}
    return out


@pytest.mark.parametrize("seed", range(6))
def test_gaps_are_the_true_pairs(tmp_path: Path, seed: int) -> None:
    """What is said to have no result is what has none: no pair more, no pair less, by reason."""
    names = ("a", "b", "c")
    record = write_sample(tmp_path, names=names, repetitions=2, images=False)
    rows = read_rows(tmp_path / "results" / f"{record.run}.parquet")
    rng = np.random.default_rng(seed)
    cell = np.unique(
        [
            f"{a}{b}{c}"
            for a, b, c in zip(rows["label"], rows["series"], rows["budget"], strict=True)
        ],
        return_inverse=True,
    )[1]
    kinds = np.array(["ok", "undefined", "not representable"], dtype=object)
    status = kinds[rng.choice(3, cell.max() + 1, p=[[0.2, 0.7, 0.1], [0.8, 0.1, 0.1]][seed % 2])]
    rows["status"] = status[cell]
    rows["error"] = np.where(rows["status"] == "ok", rows["error"], np.nan)
    budgets = [number(value) for value in np.unique(rows["budget"])]
    for kind in kinds[1:]:
        mine = rows["status"] == kind
        columns = (rows["series"][mine], rows["class_name"][mine], rows["budget"][mine])
        true = {(a, b, number(c)) for a, b, c in zip(*columns, strict=True)}
        assert listed(missing_results(rows, kind), budgets) == true


def test_gaps_of_nights_name_the_nights() -> None:
    """A series that is held back on its first nights has no result on those, and has one later."""
    night = np.tile([1, 7, 30], 4)
    late = np.repeat([True, False], 6) & (night < 30)
    rows = {
        "label": np.tile(np.repeat([0, 1], 3), 2),
        "class_name": np.tile(np.repeat(np.array(["a", "b"], dtype=object), 3), 2),
        "series": np.repeat(np.array(["Stream", "Anew"], dtype=object), 6),
        "definition": np.full(12, "GDP", dtype=object),
        "budget": np.full(12, 0.5),
        "night": night,
        "status": np.where(late, np.array("held back", dtype=object), "ok").astype(object),
        "error": np.where(late, np.nan, 1.0),
    }
    assert missing_results(rows, "held back") == [
        "Stream has no result on nights 1 and 7 (a and b)."
    ]
    rows["error"][:6], rows["status"][:6] = np.nan, "held back"
    assert missing_results(rows, "held back") == ["Stream has no result on any night (a and b)."]


def test_gaps_of_a_run_without_any_result(tmp_path: Path) -> None:
    """Where nothing has a result one sentence says so, under a heading that gives the reason."""
    record = write_sample(tmp_path, images=False)
    rows = read_rows(tmp_path / "results" / f"{record.run}.parquet")
    rows["error"] = np.full(len(rows["n"]), np.nan)
    for kind, heading in (("undefined", "nothing to draw"), ("data not available", "not run")):
        rows["status"] = np.full(len(rows["n"]), kind, dtype=object)
        (sentence,) = missing_results(rows, kind)
        assert all(series in sentence for series in SERIES)
        write_rows(tmp_path / "results" / f"{record.run}.parquet", rows, metadata={})
        page = page_of(tmp_path)
        assert [title for title in page.headings if heading in title[1]]
        assert ("density" in page.text) == (kind == "undefined")


def simulated(out: Path, **figure: str) -> RunRecord:
    """Write a run on simulated matrices of two sizes, with the layout of its figure."""
    record = write_sample(out, experiment="simulation", names=("k = 2", "k = 5"), images=False)
    (out / "runs" / record.run / "bound.parquet").unlink()
    path = out / "results" / f"{record.run}.parquet"
    rows = read_rows(path)
    rows["dim"] = np.array([3, 15])[rows["label"]]
    rows["descriptor"] = np.full(len(rows["n"]), "none", dtype=object)
    write_rows(path, rows, metadata={})
    config = {**record.config, "source": {"kind": "ball"}, "figure": {"panels": [], **figure}}
    note = DatasetNote("simulated", "made by the experiment itself", origin="simulated")
    changed = replace(record, config=config, dataset=note, image_shape=(), unit="matrix")
    write_record(out / "runs" / record.run / "run.json", replace(changed, privacy={}))
    return record


def test_simulated_records_are_not_called_images(tmp_path: Path) -> None:
    """A run without images speaks of its records, and of no image, descriptor or dataset."""
    record = simulated(tmp_path)
    page = page_of(tmp_path)
    told = page.text.rpartition("Methods")[0]
    assert "matrices5,857" in told  # label and number, side by side
    assert "Matrices n" in told
    assert "settings2" in told
    assert not re.search("[Ii]mages(?! stand)|Descriptor|Dataset|made by", told)
    assert page.headings[0] == ("h1", record.title)
    assert "is measured every time" in told
    path = tmp_path / "runs" / record.run / "run.json"
    changed = read_record(path)
    write_record(path, replace(changed, config={**changed.config, "kind": "timing"}))
    told = page_of(tmp_path).text
    assert "every draw is timed" in told
    assert "is measured every time" not in told


@pytest.mark.parametrize(
    ("x", "value", "name"),
    [
        ("budget", "error", "error"),
        ("n", "error", "error-n"),
        ("dim", "error", "error-d"),
        ("k", "error", "error-k"),
        ("k", "seconds", "seconds"),
    ],
)
def test_a_figure_is_headed_by_its_axis(tmp_path: Path, x: str, value: str, name: str) -> None:
    """One figure of the rows is on the page; without an axis of budgets its words say none."""
    simulated(tmp_path, x=x, value=value)
    drawn = [item for item in blocks(tmp_path) if item.name.startswith(("error", "seconds"))]
    assert [item.name for item in drawn] == [name]
    words = f"{drawn[0].title} {drawn[0].caption} {drawn[0].content.title}"
    assert ("udget" in words) == (x == "budget")
    assert ("rror" in f"{drawn[0].title} {drawn[0].caption}") == (value == "error")


@pytest.mark.parametrize(("shape", "sides"), [((28, 28, 3), "28 × 28"), ((9, 7, 5), "9 × 7 × 5")])
def test_channels_are_no_side(tmp_path: Path, shape: tuple[int, ...], sides: str) -> None:
    """A colour image has two sides, a volume three: in captions of figures, and in the facts."""
    record = write_sample(tmp_path, images=False)
    path = tmp_path / "runs" / record.run / "run.json"
    write_record(path, replace(record, image_shape=shape))
    html = build_report(tmp_path).read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert f", {sides} pixels" in html
    assert f"<dd>{sides} pixels</dd>" in html


@pytest.mark.addons
def test_what_is_open_has_no_tick(tmp_path: Path) -> None:
    """What is not decided is marked as open, what is only told as told, neither as found true."""
    record = write_sample(tmp_path, images=False)
    claim = load_experiments("ew-simulation")[0].claims[0].model_copy(update={"left": "absent"})
    path = tmp_path / "runs" / record.run / "run.json"
    fields = claim.model_dump(mode="json")
    write_record(path, replace(record, config={**record.config, "claims": [fields]}))
    html = build_report(tmp_path).read_text(encoding="utf-8")
    (line,) = re.findall(r"<li([^>]*)>Not checked: “", html)
    assert line == ' class="open"'
    assert re.search(
        r"<li>All 40 mean errors that have an exact expectation agree with it\. "
        r"The least likely is [0-9.]+ times its expectation: ",
        html,
    )
    (line,) = re.findall(r"<li([^>]*)>Each statement on errors is decided by", html)
    assert line == ' class="stated"'


@pytest.mark.parametrize("runs", [1, 2])
def test_headings_are_in_order(tmp_path: Path, runs: int) -> None:
    """One first heading, and none is more than one level below the one before."""
    write_sample(tmp_path)
    if runs == 2:
        write_sample(tmp_path, dataset="again", images=False)
    levels = [int(tag[1]) for tag, _ in page_of(tmp_path).headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert max(np.diff(levels)) == 1


def test_numbers_have_columns_for_what_is_known(tmp_path: Path) -> None:
    """Without any exact expectation there is no column of dashes, nor a word on it."""
    record = write_sample(tmp_path, images=False)
    path = tmp_path / "results" / f"{record.run}.parquet"
    rows = read_rows(path)
    assert "Ratio" in page_of(tmp_path).text
    rows["expected_error"] = np.full(len(rows["n"]), np.nan)
    rows["definition"] = np.where(rows["series"] == SERIES[0], "pure", "gdp").astype(object)
    write_rows(path, rows, metadata={})
    page = page_of(tmp_path)
    assert "Ratio" not in page.text
    assert "known exactly" not in page.text
    lines = [row for row in page.rows if len(row) == 5 and row[0] in SERIES and "=" in row[1]]
    assert len(lines) == 2 * 4 * 5
    assert {line[1][0] for line in lines if line[0] == SERIES[0]} == {"ε"}
    assert {line[1][0] for line in lines if line[0] != SERIES[0]} == {"μ"}


def test_missing_data_shows_the_command(tmp_path: Path) -> None:
    """A run without data has a section that says so and gives the command."""
    record = RunRecord(
        experiment="main",
        title="Standard images",
        dataset=DatasetNote("kmnist", "KMNIST"),
        command="covdp reproduce main --dataset kmnist",
        status="data not available",
        notes=("no network",),
    )
    write_record(tmp_path / "runs" / record.run / "run.json", record)
    write_sample(tmp_path)
    page = page_of(tmp_path)
    assert {"main-kmnist", "main-pneumoniamnist", "privacy"} <= set(page.ids)
    assert (
        page.text.count(f"Not run: KMNIST is not at hand. This gets it and runs: {record.command}")
        == 2
    )


def test_several_runs_have_a_table_of_contents(tmp_path: Path) -> None:
    """With two datasets every link of the contents leads to one, in the order of starting."""
    first = write_sample(tmp_path)
    other = write_sample(tmp_path, dataset="again", images=False)
    later = replace(
        other,
        started="2026-04-01T00:00:00Z",
        privacy={**other.privacy, "Definition": "none is certified"},
    )
    write_record(tmp_path / "runs" / other.run / "run.json", later)
    page = page_of(tmp_path)
    anchors = [link[1:] for link in page.links if link.startswith("#")]
    ends = [first.run, other.run, "privacy", "methods"]
    assert anchors[:2] == ["main", "top"]
    assert anchors[2:-4] == page.sections  # the bar has them all, the contents the four of these
    assert anchors[-4:] == ends == [name for name in page.sections if name in ends]
    assert set(anchors) <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    assert page.text.count("one image: MedMNIST drops patient identifiers.") == 1
    assert f"{first.run}: {first.privacy['Definition']}" in page.text
    assert f"{other.run}: none is certified" in page.text


def test_plan_of_the_page_is_checked(tmp_path: Path) -> None:
    """A block of a function that nobody wrote is refused, and named with the file."""
    path = tmp_path / "report.toml"
    text = resource("reports", "report.toml").read_text(encoding="utf-8")
    path.write_text(text.replace("run_page:samples", "run_page:absent"), encoding="utf-8")
    absent = "report.toml: there is no function 'covdp.report.run_page:absent'; name one as"
    with pytest.raises(ConfigError, match=absent):
        load_pages(path)["run"]


@pytest.mark.addons
def test_functions_of_add_ons_are_there() -> None:
    """What a page names in an add-on is found only when it is called."""
    text = resource("reports", "report.toml").read_text(encoding="utf-8")
    names = set(re.findall(r'"(covdp\.addons\.[\w.]+:\w+)"', text))
    assert len(names) >= 10
    assert all(callable(pkgutil.resolve_name(name)) for name in names)


@pytest.mark.addons
def test_several_experiments_are_one_page_where_nothing_writes_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a section of its own."""
    record = write_sample(tmp_path)
    other = replace(record, experiment="other")
    write_record(tmp_path / "runs" / "other" / "run.json", other)
    monkeypatch.delitem(SITES, "index")
    page = page_of(tmp_path)
    assert {record.run, "other"} <= set(page.sections)


def test_target_and_nothing_else_is_written(tmp_path: Path, pictures_once: dict[Any, Any]) -> None:
    """The page is the only new file, at the place asked for, and the same every time."""
    write_sample(tmp_path / "out")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    target = build_report(tmp_path / "out", target=tmp_path / "pages" / "mine.html")
    assert target == tmp_path / "pages" / "mine.html"
    after = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert after - before == {target}
    first = target.read_bytes()
    pictures_once.clear()
    assert build_report(tmp_path / "out", target=target).read_bytes() == first


def released(noise: str) -> Document:
    """Return a document as a release commits it, of one class."""
    cost = {"step": "mean", "sensitivity": 0.1, "sigma": 0.2, "rho": None}
    settings = {
        **SETTINGS,
        "population": "ward-7",
        "dataset": "ward.toml",
        "classes": [[0, "well", 9]],
        "descriptor": "oct5",
        "mechanism": "ewg",
        "noise": noise,
    }
    row = {
        **ROW,
        "manifold": settings["manifold"],
        "n": 9,
        "point": np.eye(5).tolist(),
        "coordinates": [0.0] * 15,
        "predicted_error": None,
        "rho": None,
        "observed": None,
        "costs": [cost],
    }
    head = {"title": "Means", "statement": [], "account": ACCOUNT}
    return cast(Document, document_of({**head, "settings": settings, "classes": [row]}))


def test_release_in_floats_is_marked_unsafe_at_the_top(tmp_path: Path) -> None:
    """Noise in floats: a warning is the first text of the page, and stays in sight in its bar.

    Nothing claims that all is private. With hardened noise it is the other way round.
    """
    claim, warning = "exact Gaussian on a lattice", "Not safe to publish"
    pages = {
        noise: build_release_report(released(noise), tmp_path / f"{noise}.html").read_text("utf-8")
        for noise in ("float", "hardened")
    }
    bar, body = (Page(part).text for part in re.split("<body[^>]*>|</nav>", pages["float"])[1:3])
    assert bar.removeprefix("\nSkip to the content").strip().startswith(warning)
    assert body.strip().startswith(warning)
    assert "doubles" in body
    assert "in theory only" in body
    assert "The figures are certified" not in body
    assert claim not in body
    assert 'class="lead warning"' in pages["float"]
    assert claim in pages["hardened"]
    assert warning not in pages["hardened"]
    assert 'role="alert"' not in pages["hardened"]


@pytest.mark.parametrize(("count", "folded"), [(2, False), (18, True)])
def test_a_picture_higher_than_a_screen_is_shown_on_demand(count: int, folded: bool) -> None:
    """Eighteen large matrices are folded, two are not; what is said of them is in sight."""
    means = {f"<b>{place}</b>": np.eye(11) for place in range(count)}
    figure = matrices(means, [f"f{place}" for place in range(11)], across=2)
    about, block = SimpleNamespace(id="main", about=""), SimpleNamespace(name="means")
    page = draw("figure.html.j2", content=figure, section=about, block=block)
    head, _, caption = page.partition("<figcaption>")
    assert ("<details><summary>Show the released means</summary>" in head) == folded
    assert head.count("<details>") == head.count("</details>")
    assert "Diagonal: standard deviation" in caption
    assert "<b>0" not in page
