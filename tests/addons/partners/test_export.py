"""Exports of documents, read back: what a page shows and a document has, and no more.

Noise is seeded; nothing here rests on a draw.
"""

import csv
import hashlib
import html
import json
import re
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from sample_nights import STREAM, Ward
from scipy.linalg import logm, sqrtm

import covdp
from covdp import MANIFOLDS
from covdp.addons.partners.coordinates import common_coordinates, coordinates_at
from covdp.addons.partners.export import coordinate_names
from covdp.cli import main
from covdp.inference import certainty_refusal
from covdp.publish import read_document
from covdp.report.page import signed
from covdp.report.release_page import build_release_report
from covdp.schema import ClassPart
from tests.addons.partners.pages import write
from tests.publish.documents import document

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

FEATURES = ["I", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|"]
PAGE = ["page_value", "page_interval", "page_direction", "page_clipping"]
ENDS = ["lower_95", "upper_95", "lower_95_clipping", "upper_95_clipping"]
TABLES = ["terms"] + [
    f"class-{name}_{kind}"
    for name in ("1btissueb", "2cells")
    for kind in ("mean", "noise", "spread")
]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the document of a release of two classes with regions."""
    return write(tmp_path_factory.mktemp("release") / "north.json", 0)


def changed(release: Path, path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Write a document in which something is changed."""
    values = json.loads(release.read_bytes())
    change(values)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values))
    return path


def no_region(values: dict[str, Any]) -> None:
    """Let the first class be too noisy for a region, and the second a mean of one draw."""
    first, second = values["classes"]
    first["observed"]["sigma"] = 0.03
    second |= {"observed": None, "costs": [{**COST, "step": "mean"}], "predicted_error": 0.05}


def useless(values: dict[str, Any]) -> None:
    """Let the error of the first mean be as large as differences between classes, or larger."""
    values["classes"][0] |= {"observed": None, "predicted_error": 30.0}


COST = {"sensitivity": 1.0, "sigma": 0.1, "rho": 0.1}


def few(values: dict[str, Any]) -> None:
    """Let labels be secret, and a count so small that noise made it negative."""
    values["settings"] |= {"labels": "secret", "total": 600}
    for row, n in zip(values["classes"], (-3, 300), strict=True):
        row |= {"n": n, "n_sd": 6.3}
    for item in values["settings"]["classes"]:
        item[2] = None


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write the documents of two nights: one class waits on the first, both have means later."""
    folder = tmp_path_factory.mktemp("nights")
    ward = Ward(folder)
    ward.write(stream=STREAM.replace("80.0", "300.0"))
    ward.pay()
    paths = []
    for day, (well, ill) in enumerate([(40, 3), (40, 40)], 1):
        ward.put(well=well, ill=ill)
        paths.append(folder / f"night-{day}.json")
        paths[-1].write_bytes(ward.settle(day)[-1])
    return paths


@pytest.fixture(
    params=["release", "no region", "useless", "few", "first night", "second night"],
)
def any_document(
    request: pytest.FixtureRequest, release: Path, nights: list[Path], tmp_path: Path
) -> Path:
    """Return the document of a release, or of a night, with and without what may be known."""
    changes = {"no region": no_region, "useless": useless, "few": few}
    if request.param in changes:
        return changed(release, tmp_path / "north.json", changes[request.param])
    return {"release": release, "first night": nights[0], "second night": nights[1]}[request.param]


def export(path: Path, form: str, out: Path) -> Path:
    """Export a document by the command, and return the folder."""
    assert main(["export", str(path), "--to", form, "--out", str(out), "--quiet"]) == 0
    return out


def read(path: Path, comma: str = ",") -> pd.DataFrame:
    """Read a table back, all digits of it."""
    return pd.read_csv(path, sep=comma, float_precision="round_trip", encoding="utf-8")


def shown(page: Path) -> list[list[str]]:
    """Return class, term, value, interval, direction and clipping of each cell of a page."""
    text = page.read_text(encoding="utf-8")
    tables = re.findall(r'(?s)<table class="readings">.*?</table>', text)
    rows = []
    for line in re.findall(r"(?s)<tr><th scope=\"row\".*?</tr>", "".join(tables)):
        term = html.unescape(re.findall(r'(?s)<th scope="row"[^>]*>(.*?)<', line)[0]).strip()
        for name, cell in re.findall(r'(?s)<td data-class="([^"]*)"[^>]*>(.*?)</td>', line):
            parts = [
                re.findall(rf"<{tag}>(.*?)</", cell)
                for tag in (
                    "strong",
                    'span class="where"',
                    'span class="word"',
                    'span class="whisker where"',
                )
            ]
            words = (html.unescape(found[0]) if found else "" for found in parts)
            rows.append([html.unescape(name), term, *words])
    return rows


def test_every_interval_is_that_of_the_page(any_document: Path, tmp_path: Path) -> None:
    """Value, band, direction and clipping of each class and term, as the page has them.

    The numbers beside them are the same before they were rounded; what the page does not state is
    empty. A class that is not usable is not in its table, and has no value here.
    """
    terms = read(export(any_document, "csv", tmp_path / "out") / "terms.csv")
    page = build_release_report(read_document(any_document), tmp_path / "page.html")
    told, expected = terms[["class", "term", *PAGE]].fillna("").values.tolist(), shown(page)
    usable = {name for name, *_ in expected}
    assert sorted(row for row in told if row[0] in usable) == sorted(expected)
    assert not any(value for name, _, value, *_ in told if name not in usable)
    assert len(told) == 10
    for _, row in terms.iterrows():
        ends = [row[name] for name in ENDS]
        if pd.isna(row["value"]):
            assert all(map(pd.isna, [*ends, row["page_value"]]))
            continue
        assert signed(row["value"]) == row["page_value"]
        assert ends[0] <= row["value"] <= ends[1]
        assert f"{signed(ends[0])} to {signed(ends[1])}" == row["page_interval"]
        if pd.isna(ends[2]):
            assert row["page_clipping"] == "clipping: not bounded"
        elif ends[2:] != ends[:2]:
            assert row["page_clipping"].endswith(f"{signed(ends[2])} to {signed(ends[3])}")


def test_all_forms_have_the_same_tables(any_document: Path, tmp_path: Path) -> None:
    """Cell by cell: of CSV, of TSV, and of sheets, which have 16 digits."""
    folder = export(any_document, "csv", tmp_path / "csv")
    book = pd.read_excel(
        export(any_document, "xlsx", tmp_path / "xlsx") / f"{any_document.stem}.xlsx",
        sheet_name=None,
    )
    bids = export(any_document, "bids", tmp_path / "bids")
    names = sorted(path.stem for path in folder.iterdir())
    assert sorted(book) == names
    assert sorted(path.stem for path in bids.glob("*.tsv")) == [
        f"group_{name}" for name in names if name != "about"
    ]
    for name in names:
        plain = read(folder / f"{name}.csv")
        pd.testing.assert_frame_equal(book[name], plain, check_dtype=False, rtol=1e-15, atol=0.0)
        if name != "about":
            found = read(bids / f"group_{name}.tsv", "\t")
            pd.testing.assert_frame_equal(found, plain, check_dtype=False, check_exact=True)


def matrix(table: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Return the numbers of a matrix whose rows are named as its columns."""
    assert list(table["row"]) == list(table.columns)[1:]
    return table.drop(columns="row").to_numpy(dtype=float)


def test_matrices_are_those_of_the_document(release: Path, tmp_path: Path) -> None:
    """Means bit for bit, the noise that intervals are of, and the spread of single records."""
    folder = export(release, "csv", tmp_path)
    assert sorted(path.stem for path in folder.glob("*.csv")) == sorted([*TABLES, "about"])
    rows = json.loads(release.read_bytes())["classes"]
    parts = [part for part in read_document(release).classes if isinstance(part, ClassPart)]
    _, _, common = common_coordinates(parts)
    for name, row, part, here in zip(("1btissueb", "2cells"), rows, parts, common, strict=True):
        mean, noise, spread = (
            read(folder / f"class-{name}_{kind}.csv") for kind in ("mean", "noise", "spread")
        )
        assert list(mean.columns) == ["row", *FEATURES]
        np.testing.assert_array_equal(matrix(mean), row["point"])
        np.testing.assert_array_equal(matrix(noise), part.noisy_moments.noise)
        np.testing.assert_allclose(matrix(spread), here.single, rtol=1e-12)


@pytest.mark.parametrize("name", ["spd-log-euclidean", "spd-log-cholesky", "spd-affine-invariant"])
def test_coordinates_are_what_they_are_called(name: str) -> None:
    """Logarithms and factors by NumPy and SciPy, in the order of the names."""
    manifold = MANIFOLDS[name](k=3)
    root = np.random.default_rng(0).normal(size=(2, 3, 5))
    mean, point = root @ root.transpose(0, 2, 1)
    words = manifold.coordinates_in_words
    if "Cholesky" in words:
        factors = np.linalg.cholesky(np.array([mean, point]))
        rows = [[*np.log(np.diag(x)), *x[np.tril_indices(3, -1)]] for x in factors]
        expected = np.subtract(*rows[::-1])
    else:
        scale = sqrtm(np.linalg.inv(mean))
        logs = logm(point) - logm(mean) if "mean" not in words else logm(scale @ point @ scale)
        off = np.sqrt(2.0) * logs[np.triu_indices(3, 1)]
        expected = np.concatenate([np.diag(logs), off])
    np.testing.assert_allclose(manifold.log(mean, point), expected, rtol=1e-9)


@pytest.mark.parametrize(("mu", "refused"), [(0.05, True), (0.5, False)])
def test_curved_noise_is_that_at_the_mean(mu: float, refused: bool, tmp_path: Path) -> None:
    """With a region and without: not that at the base of the last step, 0.2 % and 1 % off."""
    name = "spd-affine-invariant"
    images = next(covdp.open_dataset("tiles").chunks(label=0))
    limit = covdp.domain("oct5", height=28, width=28, manifold=name)
    release, _ = covdp.private_mean(
        covdp.describe(images, "oct5"),
        covdp.GDP(mu),
        domain=limit,
        manifold=name,
        rng=np.random.default_rng(0),
    )
    assert bool(certainty_refusal(release)) == refused
    path = tmp_path / "curved.json"
    path.write_text(json.dumps(release.to_document("tiles")))
    (table,) = export(path, "csv", tmp_path / "out").glob("class-1*_noise.csv")
    here = coordinates_at(release, release.place)
    np.testing.assert_allclose(matrix(read(table)), here.noise, rtol=1e-6, atol=1e-12)
    assert ((tmp_path / "out" / table.name.replace("noise", "spread")).is_file()) != refused


def test_a_value_follows_from_its_formula(release: Path, tmp_path: Path) -> None:
    """From the mean alone, by what stands in the table."""
    folder = export(release, "csv", tmp_path)
    mean, terms = matrix(read(folder / "class-2cells_mean.csv")), read(folder / "terms.csv")
    rows = terms[terms["class"] == "cells"].set_index("formula")["value"]
    sd = dict(zip(FEATURES, np.sqrt(np.diag(mean)), strict=True))
    assert rows["sd(I)"] == pytest.approx(sd["I"])
    assert rows["corr(|Ix|, |Iy|)"] == pytest.approx(mean[1, 2] / sd["|Ix|"] / sd["|Iy|"])
    upright = "√(sd(|Ix|) · sd(|Ixx|) / (sd(|Iy|) · sd(|Iyy|)))"
    ratio = sd["|Ix|"] * sd["|Ixx|"] / sd["|Iy|"] / sd["|Iyy|"]
    assert rows[upright] == pytest.approx(np.sqrt(ratio))


def test_a_mean_that_is_not_usable_has_no_matrix(
    release: Path, nights: list[Path], tmp_path: Path
) -> None:
    """Nor has a class of a stream that has not opened; its row says why."""
    folder = export(changed(release, tmp_path / "a.json", useless), "csv", tmp_path / "useless")
    assert [path.stem for path in folder.glob("class-1*")] == []
    assert len([*folder.glob("class-2*")]) == 3
    folder = export(nights[0], "csv", tmp_path / "night")
    assert [path.stem for path in folder.glob("class-2*")] == []
    terms = read(folder / "terms.csv")
    assert set(terms[terms["class"] == "ill"]["page_interval"]) == {"no mean yet"}
    assert set(terms[terms["class"] == "ill"]["n"]) == {3}
    assert (export(nights[1], "csv", tmp_path / "later") / "class-2ill_mean.csv").is_file()


def test_means_of_the_last_nights_are_there(nights: list[Path], tmp_path: Path) -> None:
    """Each that the document has, bit for bit, of classes that have a usable mean."""
    found = 0
    for path in nights:
        folder = export(path, "csv", tmp_path / path.stem)
        for number, row in enumerate(json.loads(path.read_bytes())["classes"], 1):
            if not [*folder.glob(f"class-{number}*_mean.csv")]:
                assert not [*folder.glob(f"class-{number}*")]
                continue
            for part in row["windows"]:
                (table,) = folder.glob(f"class-{number}*_last{part['nights']}.csv")
                np.testing.assert_array_equal(matrix(read(table)), part["point"])
                found += 1
    assert found


def test_a_released_count_keeps_its_sign_and_its_noise(release: Path, tmp_path: Path) -> None:
    """With secret labels it may be below 0, and is a number still."""
    path = changed(release, tmp_path / "a.json", few)
    terms = read(export(path, "csv", tmp_path / "out") / "terms.csv")
    assert set(terms["n"]) == {-3, 300}
    assert set(terms["n_sd"]) == {6.3}


@pytest.mark.parametrize("name", ["spd-log-euclidean", "spd-affine-invariant", "spd-log-cholesky"])
def test_a_coordinate_is_named_by_what_it_moves(name: str) -> None:
    """A step along it moves the entry of both features most, or of one with itself."""
    manifold = MANIFOLDS[name](k=5)
    names = coordinate_names(manifold, FEATURES)
    assert len(set(names)) == 15
    assert names[:5] == FEATURES
    for step, told in zip(1e-3 * np.eye(15), names, strict=True):
        moved = np.abs(manifold.exp(manifold.origin, step) - np.eye(5))
        first, *rest = (FEATURES.index(each) for each in told.split(" × "))
        assert moved[first, rest[0] if rest else first] == moved.max()


FORMULAS = ('=HYPERLINK("http://x","y")', "+1+cmd|' /C calc'!A0", "@SUM(A1)", "-2+3", " =1")


@pytest.mark.parametrize("name", FORMULAS)
def test_no_name_is_a_formula_of_a_spreadsheet(release: Path, name: str, tmp_path: Path) -> None:
    """Of a class or of a title: an apostrophe comes before, in every form; numbers stay numbers."""

    def renamed(values: dict[str, Any]) -> None:
        values["title"] = values["classes"][0]["name"] = name
        values["statement"] = [[name, "text\x1b[2J\ttext"]]

    path = changed(release, tmp_path / "a.json", renamed)
    folder = export(path, "csv", tmp_path / "csv")
    bids = export(path, "bids", tmp_path / "bids")
    texts = [each.read_text(encoding="utf-8-sig") for each in folder.iterdir()]
    cells = [cell for text in texts for row in csv.reader(StringIO(text)) for cell in row]
    for each in bids.glob("*.tsv"):
        text = each.read_text(encoding="utf-8")
        cells += [cell for row in csv.reader(StringIO(text), delimiter="\t") for cell in row]
    assert f"'{name}" in cells
    starts = [cell for cell in cells if cell.lstrip()[:1] in {"=", "+", "-", "@"}]
    assert all(np.isfinite(float(cell)) for cell in starts)
    assert [cell for cell in cells if not cell.isprintable()] == []
    export(path, "xlsx", tmp_path / "xlsx")
    book = openpyxl.load_workbook(tmp_path / "xlsx" / "a.xlsx")
    every = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert {cell.data_type for cell in every} <= {"s", "inlineStr", "n"}
    assert f"'{name}" in [cell.value for cell in every]


def test_a_sidecar_describes_every_column(release: Path, tmp_path: Path) -> None:
    """In BIDS's manner: CamelCase for what the table is of, no empty cell, n/a for what is absent.

    The dataset states what the specification requires of a derivative, and lists the names that it
    does not know. bids-validator 3.0.2 found no error in such a folder.
    """
    folder = export(changed(release, tmp_path / "north.json", no_region), "bids", tmp_path / "out")
    told = json.loads((folder / "dataset_description.json").read_text(encoding="utf-8"))
    assert {"Name", "BIDSVersion", "DatasetType", "GeneratedBy"} == set(told)
    assert (told["Name"], told["DatasetType"]) == ("Ward", "derivative")
    assert re.fullmatch(r"\d+\.\d+\.\d+", told["BIDSVersion"])
    assert [set(each) for each in told["GeneratedBy"]] == [{"Name", "Version"}] * 2
    assert (folder / ".bidsignore").read_text() == "group_*\n"
    assert "Unit of privacy" in (folder / "README.md").read_text(encoding="utf-8")
    known = {"dataset_description.json", "README.md", ".bidsignore"}
    rest = {path.name for path in folder.iterdir()} - known
    assert rest
    assert all(name.startswith("group_") for name in rest)
    for table in folder.glob("*.tsv"):
        sidecar = json.loads(table.with_suffix(".json").read_text(encoding="utf-8"))
        heads, *rows = csv.reader(StringIO(table.read_text(encoding="utf-8")), delimiter="\t")
        texts = [sidecar[head]["Description"] for head in heads]
        assert all(texts)
        assert len(set(texts)) == len(heads)
        assert all(re.fullmatch(r"[A-Z][A-Za-z0-9]+", key) for key in set(sidecar) - set(heads))
        assert sidecar["PrivacyStatement"] == {"Unit of privacy": "of 0"}
        assert (sidecar["Budget"], sidecar["Definition"]) == (2.0, "gdp")
        assert {len(row) for row in rows} == {len(heads)}
        assert "" not in [cell for row in rows for cell in row]
    assert "n/a" in (folder / "group_terms.tsv").read_text(encoding="utf-8")


def test_tables_say_what_they_are_of(release: Path, nights: list[Path], tmp_path: Path) -> None:
    """The settings, the whole statement, the digest of the document, and what columns mean."""
    for path in (release, nights[1]):
        table = read(export(path, "csv", tmp_path / path.stem) / "about.csv")
        told = dict(zip(table["fact"], table["value"], strict=True))
        values = json.loads(path.read_bytes())
        texts = {f"PrivacyStatement.{title}": text for title, text in values["statement"]}
        assert texts.items() <= told.items()
        assert "PrivacyStatement" not in told
        for key, value in (values["account"] or {}).items():
            assert json.loads(told[f"Account.{key}"].replace("gdp", '"gdp"')) == value
        assert told["Definition"] == values["settings"]["definition"]
        assert told["RunKey"] == values["settings"]["run_key"]
        assert float(told["Budget"]) == values["settings"]["budget"]
        assert re.fullmatch("[0-9a-f]{64}", told["SHA256"])
        assert "95 % confidence" in told["lower_95"]
        assert told["Filters"] == covdp.DESCRIPTORS["oct5"].formula
        assert "logarithm of the matrix, times √2 off the diagonal" in told["Coordinates"]
        assert "named under Coordinates" in told["noise"]
    assert told["Progress"].startswith("night 2 of 40")


@pytest.mark.parametrize("form", ["csv", "bids"])
def test_no_title_of_a_statement_takes_the_place_of_a_fact(
    form: str, release: Path, tmp_path: Path
) -> None:
    """Facts, heads and meanings of columns are those without it, whatever a forger puts there."""
    honest = export(release, form, tmp_path / "honest")
    facts = dict(read(honest / "about.csv").fillna("").values) if form == "csv" else {}
    titles = [*facts, "SHA256", "Document", "Title", "Name", "GeneratedBy", "n", "mean", "class"]

    def forged(values: dict[str, Any]) -> None:
        values["statement"] = [[title, "forged\n# forged"] for title in dict.fromkeys(titles)]

    path = changed(release, tmp_path / "forged" / release.name, forged)
    folder = export(path, form, tmp_path / "out")
    own = {"SHA256", "PrivacyStatement"}
    if form == "csv":
        told = dict(read(folder / "about.csv").fillna("").values)
        assert [x for x in facts.keys() & told.keys() - own if told[x] != facts[x]] == []
        assert facts.keys() - told.keys() == {"PrivacyStatement.Unit of privacy"}
        assert told["SHA256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    for before in honest.glob("*.json"):
        was, now = (json.loads((each / before.name).read_text()) for each in (honest, folder))
        assert was.keys() == now.keys()
        assert {name for name in was if was[name] != now[name]} <= own
    for readme in folder.glob("README.md"):
        lines = readme.read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if line.startswith("#")] == ["# Ward"]


@pytest.mark.parametrize("form", ["csv", "xlsx", "bids"])
def test_no_file_is_replaced(
    form: str, release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One with other content, or a link to no file: one line, exit code 2, nothing is written.

    The same export again is no fault, and what is missing is written; a workbook has its time in
    it, so it is never the same.
    """
    folder = export(release, form, tmp_path / "out")
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    for path in kept:
        for other in set(kept) - {path}:
            other.unlink()
        for make in (lambda to: to.write_bytes(b"mine"), lambda to: to.symlink_to("nowhere")):
            path.unlink()
            make(path)
            assert main(["export", str(release), "--to", form, "--out", str(folder)]) == 2
            told = capsys.readouterr()
            assert told.out == ""
            assert told.err.count("\n") == 1
            way = "with other content; choose another folder with --out"
            assert f"{path} is there already {way}" in told.err
            assert [*folder.iterdir()] == [path]
            assert path.is_symlink() or path.read_bytes() == b"mine"
        assert not (folder / "nowhere").exists()
        path.unlink()
        if form != "xlsx":
            path.write_bytes(kept[path])
            export(release, form, folder)
            assert {each: each.read_bytes() for each in folder.iterdir()} == kept
            capsys.readouterr()
        for each, content in kept.items():
            each.write_bytes(content)


def cut(path: Path, release: Path) -> Path:
    """Write half of a document."""
    path.write_bytes(release.read_bytes()[:500])
    return path


def wrong(path: Path, release: Path) -> Path:
    """Write a document whose mean is not that of its coordinates."""
    return changed(release, path, lambda values: values["classes"][0].update(point=[[1.0]]))


def foreign(path: Path, release: Path) -> Path:
    """Write a document of a descriptor that is not known here."""
    return document(path, 1)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (cut, "is no JSON, so it is no document of a release"),
        (wrong, "coordinates has length 15, not 1"),
        (foreign, "has descriptor 'toy3' and manifold"),
        (lambda path, release: path, "cannot read"),
    ],
    ids=["cut", "wrong", "foreign", "missing"],
)
def test_what_is_no_document_is_one_line(
    made: Callable[[Path, Path], Path],
    words: str,
    release: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2, as of other commands on documents; no folder is made."""
    path = made(tmp_path / "a.json", release)
    assert main(["export", str(path), "--to", "csv", "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert words in told.err
    assert not (tmp_path / "out").exists()


def test_sheets_without_openpyxl_name_the_extra(release: Path, tmp_path: Path) -> None:
    """In one line with what to install, and no file; CSV needs nothing."""
    code = "import sys; sys.modules['openpyxl'] = None; from covdp.cli import main; "
    for form, expected in (("xlsx", 2), ("csv", 0)):
        tokens = ["export", str(release), "--to", form, "--out", str(tmp_path / form)]
        words = [sys.executable, "-c", f"{code}sys.exit(main(sys.argv[1:]))", *tokens]
        done = subprocess.run(words, capture_output=True, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (expected, expected // 2)
        if expected:
            assert "this needs openpyxl, which a plain installation does not have" in done.stderr
            assert "pip install 'covdp[partners]'" in done.stderr
    assert not (tmp_path / "xlsx").exists()
