"""What somebody may hand in at a door: one line, in little time and memory, whatever it is."""

import errno
import fnmatch
import gzip
import json
import os
import random
import re
import struct
import subprocess
import tracemalloc
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np
import pytest
from PIL import Image
from pydicom import uid
from sample_dicom import write_dicom

from covdp.arrays import WIDEST
from covdp.cli import main
from covdp.cli.options import PLAIN
from covdp.cli.output import new_table
from covdp.datasets import open_dataset, pictures
from covdp.datasets.listing import DEEPEST, PATTERN_LETTERS, check_pattern, fill
from covdp.errors import CovdpError, DatasetError, ImageError, LedgerError, printable
from covdp.files import IrregularFileError, open_regular, read_regular
from covdp.ledger import init_ledger, open_ledger
from covdp.planning import least_budget
from covdp.privacy import GDP
from covdp.progress import Level, say
from covdp.publish.redact import draw_error, redact_errors, redact_images
from tests.cli.failing import fails
from tests.publish.documents import document
from tests.tools.addons import addon
from tests.tools.trace import Watcher

nifti = addon("hospital.nifti")
foreign = addon("partners.foreign")

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

CARD = 'kind = "{}"\npath = "ward"\nchannels = 1\nclasses = ["a"]\npattern = "{{class}}/*"\n'


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: os.mkfifo(path), "a named pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.mkdir(), "a folder"),
    ],
    ids=["pipe", "device", "folder"],
)
def test_only_regular_files_are_opened(
    make: Callable[[Path], object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing waits for a pipe or reads a device: as document, config, card, record or marker."""
    odd = tmp_path / "odd"
    make(odd)
    with pytest.raises(IrregularFileError, match=words):
        open_regular(odd)
    assert words in fails(capsys, "compare", str(odd), str(odd))
    assert words in fails(capsys, "plan", "--config", str(odd))
    card = tmp_path / "card.toml"
    odd.rename(card)
    assert words in fails(
        capsys, "describe", "--dataset", str(card), "--store", str(tmp_path / "s")
    )
    run = tmp_path / "results/runs/one/run.json"
    run.parent.mkdir(parents=True)
    card.rename(run)
    assert "run.json" in fails(capsys, "report", str(tmp_path / "results"))
    place = tmp_path / "ledger.sqlite"
    init_ledger(place).set_budget("ward", GDP(1.0))
    marker = tmp_path / "ledger.sqlite.marker"
    marker.unlink()
    run.rename(marker)
    with pytest.raises(LedgerError, match=words):
        open_ledger(place)


def test_no_ledger_is_made_of_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line; nobody waits for a writer."""
    os.mkfifo(tmp_path / "ledger.sqlite")
    fails(capsys, "ledger", "init", "--ledger", str(tmp_path / "ledger.sqlite"))
    fails(capsys, "ledger", "show", "--ledger", str(tmp_path / "ledger.sqlite"))


def test_files_are_read_up_to_a_size(tmp_path: Path) -> None:
    """All of a file that is small enough, nothing of one that is not, or has no name."""
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_regular(file, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes") as caught:
        read_regular(file, 4)
    assert caught.value.errno == errno.EFBIG
    with pytest.raises(OSError, match="null"):
        read_regular(tmp_path / "a\0b", 4)


def wide(document: Path) -> str:
    """Return a document with a mean of one row too many."""
    found = json.loads(document.read_text())
    side = WIDEST + 1
    found["classes"][0]["point"] = [[0] * side] * side
    return json.dumps(found, separators=(",", ":"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0" * (foreign.DOCUMENT_BYTES + 1), "more than 67,108,864 bytes"),
        ("[" + "0," * foreign.MOST + "0]", "has 4,194,305 values"),
        ("", r"classes\.0\.point: List should have at most 32 items"),
        ("[" * 100_000, "is no JSON"),
        ("\ud800", "is no JSON"),
    ],
    ids=["long", "many", "wide", "deep", "odd"],
)
def test_documents_are_measured_before_they_are_read(
    text: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    watch: Watcher,
) -> None:
    """One that is longer or wider than any release is refused before anything is computed."""
    big, small = tmp_path / "big.json", document(tmp_path / "small.json", 1)
    big.write_text(text or wide(small), errors="surrogatepass")
    computed, parsed = watch(np.linalg.cond), watch(json.loads)
    assert re.search(words, fails(capsys, "compare", str(big), str(small)))
    assert computed == []
    if "JSON" not in words and "List" not in words:
        assert parsed == []
    other = document(tmp_path / "other.json", 2)
    assert main(["compare", str(other), str(small)]) == 0
    assert computed  # where a document is read, both are seen
    assert parsed


def put_before_samples(file: Path, element: bytes) -> None:
    """Put an element before SamplesPerPixel."""
    content = file.read_bytes()
    at = content.find(struct.pack("<HH", 0x0028, 0x0002))
    file.write_bytes(content[:at] + element + content[at:])


SEQUENCE = struct.pack("<HH2sHI", 0x0027, 0x1010, b"SQ", 0, 0xFFFFFFFF)
SEQUENCE += struct.pack("<HHI", 0xFFFE, 0xE000, 0xFFFFFFFF)
"""A sequence and an item, both without an end."""
GRAY = np.arange(64, dtype=np.uint16).reshape(8, 8)


@pytest.mark.parametrize(
    "element",
    [SEQUENCE * 1000, SEQUENCE, struct.pack("<HH2sHI", 0x0028, 1, b"ZZ", 0, 0xFFFFFFFF) + b"abc"],
    ids=["deep", "endless", "unknown"],
)
def test_damaged_headers_are_one_line_for_a_draft(
    element: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What pydicom stumbles over is said of the file, by `card` as by `describe --check`."""
    put_before_samples(write_dicom(tmp_path / "ward/a/0.dcm", GRAY, PatientID="1"), element)
    line = fails(capsys, "card", str(tmp_path / "ward"))
    assert re.search(r"0\.dcm( is not a readable DICOM file|: PixelData .* is missing)", line)
    write_dicom(tmp_path / "ward/a/1.dcm", GRAY, PatientID="1")
    assert main(["card", str(tmp_path / "ward")]) == 0
    assert "files that cannot be read: 1; the first: " in capsys.readouterr().err


def test_a_decoder_that_panics_is_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RLE whose segments are a byte too long: the decoder's panic is no Exception; here it is."""
    segments = struct.pack("<16I", 2, 64, 66, *[0] * 13) + bytes([257 - 65, 7]) * 2
    write_dicom(tmp_path / "ward/a/0.dcm", GRAY, syntax=uid.RLELossless, encoded=[segments])
    write_dicom(tmp_path / "ward/a/1.dcm", GRAY)
    (tmp_path / "ward.toml").write_text(CARD.format("dicom") + "window = [0, 63]\n")
    tokens = ["--dataset", str(tmp_path / "ward.toml"), "--data-root", str(tmp_path)]
    assert main(["describe", *tokens, "--store", str(tmp_path / "s"), "--check", "--json"]) == 0
    captured = capsys.readouterr()
    (fault,) = json.loads(captured.out)["faults"]
    assert fault["file"] == "a/0.dcm"
    assert "index out of bounds" in fault["reason"]
    assert captured.err == ""


class Panic(BaseException):
    """What is no Exception, as a panic in Rust."""


def test_a_panic_keeps_its_words_in_a_release() -> None:
    """Neither over images nor in the private part does a word of it get out."""

    def work() -> Any:
        raise Panic("benengeli")

    for call in (
        lambda: redact_images("ward", work),
        lambda: redact_errors(work, draw_error()),
    ):
        with pytest.raises(CovdpError, match="withheld") as caught:
            call()
        assert caught.value.__context__ is None
        assert "benengeli" not in str(caught.value)


class DoorCase(NamedTuple):
    """Options, and what of an error nobody foresaw is shown."""

    tokens: list[str]
    shown: set[str]


@pytest.mark.parametrize("error", [RuntimeError, Panic])
@pytest.mark.parametrize(
    "case",
    [
        DoorCase(["card", "{}"], {"place", "file"}),
        DoorCase(["card", "{}", "-v"], {"place", "file", "words", "traceback"}),
        DoorCase(["release", "--config", "{}"], set()),
        DoorCase(["release", "--config", "{}", "-v"], set()),
    ],
    ids=lambda case: " ".join(case.tokens),
)
def test_what_nobody_foresaw_is_one_line_and_70(
    error: type[BaseException],
    case: DoorCase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Which file and where, and a traceback if asked; of a release nothing at all."""

    def stumble(file: Path, *_: object, **__: object) -> None:
        raise error("benengeli \x1b[2J")

    monkeypatch.setattr("covdp.datasets.draft.read_layout", stumble)
    monkeypatch.setattr("covdp.jobs.load_release", stumble)
    Image.new("L", (4, 4)).save(tmp_path / "0.png")
    try:
        assert main([token.format(tmp_path) for token in case.tokens]) == 70
    finally:
        say(Level.QUIET)
    captured = capsys.readouterr()
    *more, line = captured.err.strip().split("\n")
    assert line.startswith("covdp: failed in a way that was not foreseen: ")
    assert line.endswith("please report it")
    shown = {
        "place": "pipeline/datasets/draft.py, line " in line,
        "file": f"over {tmp_path}" in line,
        "words": "benengeli" in captured.err,
        "traceback": "Traceback" in captured.err,
    }
    assert {name for name, is_shown in shown.items() if is_shown} == case.shown
    assert bool(more) == ("traceback" in case.shown)
    assert "\x1b" not in captured.err
    assert captured.out == ""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a new folder: a card writes its list of exclusions where it is drafted."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def clean_path(tmp_path: Path) -> Iterator[Path]:
    """Give a folder that is removed by `rm`: pytest would meet the recursion limit itself."""
    yield tmp_path
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True)


def test_deep_folders_are_one_line(clean_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As deep as is allowed they are read; 1,000 deep they are refused, and never a traceback."""
    tmp_path, top = clean_path, clean_path / "ward"
    (tmp_path / "ward.toml").write_text(CARD.format("folder").replace("/*", "/**/*"))
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for depth, name in enumerate(["ward", "a", *["d"] * 998]):
            os.mkdir(name, dir_fd=here)
            inner = os.open(name, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
            if depth == DEEPEST:
                Image.new("L", (4, 4)).save(top.joinpath("a", *["d"] * (depth - 1), "0.png"))
                before = open_dataset(tmp_path / "ward.toml", tmp_path).counts()
                assert main(["card", str(top)]) == 0
    finally:
        os.close(here)
    assert before == (1,)
    capsys.readouterr()
    assert f"under more than {DEEPEST} folders" in fails(capsys, "card", str(top))
    with pytest.raises(ImageError, match=f"under more than {DEEPEST} folders"):
        open_dataset(tmp_path / "ward.toml", tmp_path)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """Return the values of a volume, 16 MiB, and the folder of the classes with its one file."""
    values = np.random.default_rng(0).integers(0, 99, (256, 256, 256), dtype=np.uint8)
    ward = tmp_path_factory.mktemp("large") / "ward"
    (ward / "a").mkdir(parents=True)
    content = nibabel.Nifti1Image(values, np.eye(4)).to_bytes()
    (ward / "a/0.nii.gz").write_bytes(gzip.compress(content, 0))
    return values, ward


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slices_that_are_made_small_are_read_one_by_one(
    axis: int, large: tuple[Any, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that unpacks to 16 MiB takes a fraction of it, and gives what all at once would."""
    monkeypatch.setattr(nifti, "BYTES_ACROSS", 1 << 20)
    values, ward = large
    keys = f"axis = {axis}\nsize = 8\nframes = {list(range(0, 256, 4))}\n"
    (tmp_path / "ward.toml").write_text(CARD.format("nifti") + keys)
    source = open_dataset(tmp_path / "ward.toml", ward.parent)
    tracemalloc.start()
    found = np.concatenate([*source.chunks()])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3.5 * 2**20
    slices = np.moveaxis(values, axis, 0)[::4]
    wanted = [Image.fromarray(np.ascontiguousarray(x)).resize((8, 8), 3) for x in slices]
    np.testing.assert_array_equal(found, np.stack([*map(np.asarray, wanted)]))


@pytest.mark.parametrize("window", [(-1.0, 0.5), "image"])
def test_values_are_shown_piece_by_piece(window: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many values are worked on at a time changes no bit."""
    values = np.random.default_rng(0).normal(size=(40, 30, 2))
    whole = pictures.to_uint8(values, pictures.Scaling(window), where="here")
    monkeypatch.setattr(pictures, "WINDOWED_VALUES", 100)
    found = pictures.to_uint8(values, pictures.Scaling(window), where="here")
    np.testing.assert_array_equal(found, whole)
    assert len(np.unique(whole)) > 100
    values[-1, -1, -1] = np.nan
    with pytest.raises(ImageError, match="finite"):
        pictures.to_uint8(values, pictures.Scaling(window), where="here")


ODD = ("\x1b[2J", "\x07", "\u202e", "\u2066", "\x9b", "\x7f", "\u2028", "\udcff", "\U000e0041")
"""What terminals obey or hide: escapes, marks that turn letters around, bytes that are none."""


def is_tame(text: str) -> bool:
    """Return whether a terminal shows every letter of a text as it is."""
    return all(
        letter == "\n" or unicodedata.category(letter)[0] not in "CZ" or letter == " "
        for letter in text
    )


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_names_of_files_are_escaped_wherever_they_are_printed(
    odd: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In tables, JSON, drafts, doubts, paths and errors."""
    folder = tmp_path / f"ward{odd}s"
    for name in ("a", "b", f"c{odd}"):
        (folder / name).mkdir(parents=True)
        (folder / name / f"0{odd}.png").write_bytes(b"no image")
        Image.new("L", (4 + (name == "a"), 4)).save(folder / name / f"1{odd}.png")
    (tmp_path / "ward.toml").write_text(
        'kind = "folder"\nchannels = 1\nclasses = ["a", "b"]\npattern = "s/{class}/*"\npath="."\n'
    )
    (tmp_path / "s").symlink_to(folder)
    check = ["describe", "--dataset", str(tmp_path / "ward.toml"), "--data-root", str(tmp_path)]
    check += ["--store", str(tmp_path / f"store{odd}"), "--check"]
    for tokens, code in (
        (["card", str(folder)], {0, 2}),
        (["card", str(folder / "a"), "--json"], {0, 2}),
        (["card", str(folder / f"1{odd}")], {2}),
        (check, {0}),
        ([*check, "--json"], {0}),
        (["report", str(folder)], {2}),
        (["compare", f"1{odd}", f"2{odd}"], {2}),
        (["history", "--ledger", str(folder / odd), "--out", str(tmp_path / "h")], {2}),
    ):
        assert main(tokens) in code, tokens
        captured = capsys.readouterr()
        assert is_tame(captured.out + captured.err), (tokens, captured)
        if tokens == check:
            assert printable(f"a/0{odd}.png")[:-4] in captured.out


@pytest.mark.parametrize("odd", ODD[:6], ids=ascii)
def test_a_draft_says_odd_names_as_toml(
    odd: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The path in a draft is that of the folder, and its comment ends where its line does."""
    import tomllib

    folder = tmp_path / f"ward{odd}\n[s]"
    for name in "ab":
        (folder / name).mkdir(parents=True)
        Image.new("L", (4, 4)).save(folder / name / "0.png")
    assert main(["card", str(folder)]) == 0
    drafted = capsys.readouterr().out
    assert is_tame(drafted)
    assert tomllib.loads(drafted)["path"] == folder.name


def test_a_space_that_breaks_no_line_is_a_space() -> None:
    """Percentages have one before their sign; what turns letters around or moves a cursor goes."""
    assert printable("2.8\u00a0% of") == printable("2.8\u00a0% of", lines=False) == "2.8\u00a0% of"
    assert printable("a\u202eb\x1b[2J", lines=False) == "a\\u202eb\\x1b[2J"


def test_cells_and_titles_of_tables_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a command puts there."""
    table = new_table("a", title="\u202etitle\x07")
    table.add_row("x\x1b[2Jy\nz")
    PLAIN.show(table)
    printed = capsys.readouterr().out
    assert is_tame(printed)
    assert "\\u202etitle" in printed
    assert "\\x07" in printed
    assert "x\\x1b[2Jy" in printed


@pytest.mark.parametrize("head", ["", "{person}-"])
def test_patterns_take_time_that_grows_with_the_name_alone(head: str) -> None:
    """However many * there are, with a person or without: trying all of twenty never ends."""
    for stars in (20, 500):
        pattern = "{class}/" + head + "a*" * stars + "z"
        check_pattern(pattern)
        filled, name = fill(pattern, {"class": "w"}), head.replace("{person}", "17") + "a" * 200
        name += "a" * 300 * (stars > 20)
        test = filled.steps[-1].fullmatch
        assert not test(f"w/{name}")
        assert test(f"w/{name}z")
        if head:
            with pytest.raises(ImageError):
                filled.read(f"w/{name}", "here")
            assert filled.read(f"w/{name}z", "here")[0] == "17"


def test_patterns_fit_as_in_a_shell() -> None:
    """Against `fnmatch`: runs of several * after a person end where something fits."""
    rng = random.Random(0)
    fitted = 0
    for _ in range(3000):
        tokens = rng.choices(["a", "b", "*", "?", "[ab]", "[!a]"], k=rng.randint(1, 8))
        part = re.sub(r"\*+", "*", "".join(tokens))
        name = "".join(rng.choices("abc", k=rng.randint(0, 9)))
        filled = fill("{class}/{person}-" + part, {"class": "w"})
        try:
            found = filled.read(f"w/7-{name}", "here")[0] == "7"
        except ImageError:
            found = False
        assert found == fnmatch.fnmatchcase(name, part), (name, part)
        fitted += found
    assert 300 < fitted < 2700


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("{class}/" + "a*" * (PATTERN_LETTERS // 2), "up to 4,096 letters"),
        ("{class}/{person}-[z-a]", "cannot be read: bad character range"),
    ],
)
def test_patterns_that_cannot_be_are_refused(pattern: str, words: str) -> None:
    """A card says so before a file is looked at."""
    with pytest.raises(ValueError, match=words):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("card", "words"),
    [
        (CARD.format("folder") + "size = 8193\n", "less than or equal to 8192"),
        (CARD.format("folder") + "size = 2\n", "greater than or equal to 3"),
        ('kind = "tiles"\nchannels = 1\nclasses = ["ihc"]\nsize = 8000\n', "shortest side"),
        (CARD.format("dicom") + "frames = [[[1]]]\n", "indices are whole numbers"),
    ],
)
def test_odd_values_of_cards_are_refused(card: str, words: str, tmp_path: Path) -> None:
    """What a card may ask for is what memory has, and lists in lists are no numbers."""
    (tmp_path / "ward.toml").write_text(card)
    with pytest.raises(DatasetError, match=words):
        open_dataset(tmp_path / "ward.toml", tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--n", f"a={10**29}"), "--n a must be 1 to 1,000,000,000,000"),
        (("--n", "a=1" + "0" * 5000), "--n must be CLASS=N"),
        (("--n", "a=²"), "--n must be CLASS=N"),
        (("--n", "a=0"), "--n a must be 1 to"),
        (("--per-night", f"{10**13}"), "--per-night must be 1 to"),
        (("--nights", "100001"), "--nights must be 1 to 100,000"),
    ],
)
def test_numbers_of_a_forecast_are_bounded(
    options: tuple[str, str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No more units than a document may have, and no more nights than a stream."""
    (tmp_path / "ward.toml").write_text(CARD.format("folder"))
    (tmp_path / "nightly.toml").write_text(
        'name = "nightly"\npopulation = "ward-7"\ndataset = "ward.toml"\nbudget = 0.5\n'
        'labels = "public"\n'
    )
    assert words in fails(capsys, "plan", "--config", str(tmp_path / "nightly.toml"), *options)


def test_an_error_that_no_budget_reaches_is_not_looked_for() -> None:
    """The largest budget is tried first: where that is not enough, no other is."""
    tried: list[float] = []

    def high(budget: float) -> float:
        tried.append(budget)
        return 1.0 / budget

    assert least_budget(high, 1e-300, 1.0) is None
    assert tried == [2048.0]
    assert least_budget(high, 0.25, 1.0) == pytest.approx(4.0, rel=1e-3)
