"""Releases: paid once, hardened, and nothing un-noised leaves, whatever goes wrong."""

import json
import os
import resource
import signal
import subprocess
import sys
import traceback
import warnings
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.descriptors import describe, domain
from pipeline.errors import (
    ConfigError,
    CovdpError,
    DatasetError,
    LedgerError,
    OutputError,
    PrivacyError,
)
from pipeline.geometry import MANIFOLDS
from pipeline.privacy import GDP
from pipeline.privacy.ledger import Ledger, init_ledger
from pipeline.publish import (
    check_folder,
    load_release,
    read_document,
    settle,
    write_document,
)
from pipeline.publish import settle as settle_module  # noqa: F401
from pipeline.publish.draw import draw

CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["well", "ill"]\n'
CONFIG = """\
name = "nightly"
population = "ward-7"
dataset = "{card}"
labels_and_class_sizes_are_public = true
budget = 0.5
mechanism = "{mechanism}"
run_key = "monday"
"""
CANARY = 137


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    """Make a folder with images (one planted record), a card, a config and a ledger of μ = 1."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (400, 28, 28), dtype=np.uint8)
    images[CANARY] = np.arange(784, dtype=np.uint16).reshape(28, 28) % 251
    labels = (np.arange(400) % 2).astype(np.uint8)
    np.savez(tmp_path / "ward.npz", train_images=images, train_labels=labels)
    (tmp_path / "ward.toml").write_text(CARD)
    config = CONFIG.format(card=tmp_path / "ward.toml", mechanism="auto")
    (tmp_path / "release.toml").write_text(config)
    init_ledger(tmp_path / "ledger.sqlite").set_budget("ward-7", GDP(1.0))
    return tmp_path


def ledger(ward: Path) -> Ledger:
    """Open the ward's ledger."""
    return init_ledger(ward / "ledger.sqlite")


def told(ward: Path, old: str = "", new: str = "", **options: Any) -> Any:
    """Load the ward's config with one change."""
    path = ward / "changed.toml"
    text = (ward / "release.toml").read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1) if old else text)
    return load_release(path, **options)


def test_same_run_key_gives_the_same_bytes_and_costs_nothing(ward: Path) -> None:
    """A release asked for twice is drawn once, charged once, and byte for byte the same."""
    book = ledger(ward)
    first = settle(told(ward), book, ward)
    assert settle(told(ward), book, ward) == first
    row = book.show("ward-7")[0]
    assert (row.spent, row.releases) == (GDP(0.5), 1)


def test_budget_ends_with_a_refusal_that_says_what_is_left(ward: Path) -> None:
    """Four nights at μ = 0.5 compose to μ = 1; the fifth is refused and nothing is drawn."""
    book = ledger(ward)
    seen = {settle(told(ward, run_key=str(night)), book, ward) for night in range(4)}
    assert len(seen) == 4
    with pytest.raises(LedgerError, match=r"left|nothing"):
        settle(told(ward, run_key="5"), book, ward)
    assert book.show("ward-7")[0].spent == GDP(1.0)


def test_another_name_for_the_same_images_is_refused(ward: Path) -> None:
    """A content charged under one population cannot be released under another."""
    book = ledger(ward)
    book.set_budget("ward-8", GDP(1.0))
    settle(told(ward), book, ward)
    with pytest.raises(LedgerError, match="ward"):
        settle(told(ward, '"ward-7"', '"ward-8"'), book, ward)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("labels_and_class_sizes_are_public = true", "", "must be public"),
        ("budget = 0.5", "budget = 0.5\nseed = 1", "no seed"),
        ('"auto"', '"rl"', "no hardened noise"),
        ('"auto"', '"kng"', "no hardened noise"),
        ("budget = 0.5", "budget = -0.5", "greater than 0"),
        ("budget = 0.5", "budget = 0.5\nshares = [0.2, 0.1, 0.6]", "sum to 1"),
        ('"auto"', '"ewg"\nshares = [0.2, 0.1, 0.7]', "auto"),
        ("budget = 0.5", 'budget = 0.5\ndefinition = "pure"', "gdp"),
        ('population = "ward-7"', "", "population"),
        ('name = "nightly"', 'name = "../up"', "name"),
    ],
)
def test_unsafe_configs_are_refused(ward: Path, old: str, new: str, words: str) -> None:
    """Without a declaration, with a seed, or with float noise unasked, nothing is released."""
    with pytest.raises(ConfigError, match=words):
        told(ward, old, new)


def test_float_noise_is_possible_in_writing_and_never_certified(ward: Path) -> None:
    """`noise = "float"` runs any mechanism, and its document certifies no ρ."""
    config = told(ward, '"auto"', '"ewl"\nnoise = "float"')
    document = json.loads(settle(config, ledger(ward), ward))
    assert all(row["rho"] is None for row in document["classes"])
    assert "floating point" in dict(document["statement"])["Not covered"]


@pytest.mark.parametrize("mechanism", ["auto", "ewg", "tangent-gaussian"])
@pytest.mark.parametrize("definition", ["gdp", "zcdp"])
def test_certified_cost_is_within_the_charge(ward: Path, mechanism: str, definition: str) -> None:
    """The ρ that OpenDP certifies for all steps together is at most what the ledger charged."""
    changed = f'"{mechanism}"\ndefinition = "{definition}"'
    book = ledger(ward)
    book.set_budget("zone", {"gdp": GDP(9.0), "zcdp": zcdp(9.0)}[definition])
    config = told(ward, '"auto"', changed).model_copy(update={"population": "zone"})
    document = json.loads(settle(config, book, ward))
    charged = 0.5 if definition == "zcdp" else 0.5**2 / 2
    for row in document["classes"]:
        assert 0.9 * charged < row["rho"] <= charged * (1 + 1e-9)


def zcdp(rho: float) -> Any:
    """Return a zCDP budget."""
    from pipeline.privacy import ZCDP

    return ZCDP(rho)


def test_a_failure_in_the_private_part_keeps_its_words(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception that quotes data is replaced, its chain too, and the charge serves the rerun."""
    from pipeline.publish import settle as module_function

    module = sys.modules[module_function.__module__]

    def leak(images: Any, *options: Any) -> Any:
        if not images.any():  # the rehearsal
            return describe(images, *options)
        raise ValueError("secret 251 250 249")

    book = ledger(ward)
    with monkeypatch.context() as patch:
        patch.setattr(module, "describe", leak)
        with pytest.raises(PrivacyError) as caught:
            settle(told(ward), book, ward)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    settle(told(ward), book, ward)
    assert book.show("ward-7")[0].spent == GDP(0.5)


KILLER = """
import os, signal, sys
from pathlib import Path
from pipeline.privacy.ledger import Ledger, open_ledger
import pipeline.publish.settle, pipeline.publish.files
from pipeline.publish import load_release, write_document
from pipeline.publish.draw import draw
module = sys.modules["pipeline.publish.settle"]
ward, point = Path(sys.argv[1]), sys.argv[2]
die = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
def after(function):
    def inner(*args, **kwargs):
        function(*args, **kwargs)
        die()
    return inner
if point == "before reserve": Ledger.reserve = die
if point == "after reserve": Ledger.reserve = after(Ledger.reserve)
if point == "before the draw": module._document = die
if point == "after the draw": module._document = after(module._document)
if point == "before commit": Ledger.commit = die
if point == "after commit": Ledger.commit = after(Ledger.commit)
config = load_release(ward / "release.toml")
content = module.settle(config, open_ledger(ward / "ledger.sqlite"), ward)
if point == "while writing": os.replace = die; Path.replace = die
write_document(content, ward / "out")
"""
POINTS = (
    "before reserve",
    "after reserve",
    "before the draw",
    "after the draw",
    "before commit",
    "after commit",
    "while writing",
)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_step_it_pays_once_and_leaves_no_half_file(ward: Path, point: str) -> None:
    """After kill -9 at any step, the rerun publishes, one charge stands, and no file is partial."""
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(ward), point],
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == -signal.SIGKILL
    assert not list(ward.glob("out/release/*.json"))
    book = ledger(ward)
    path = write_document(settle(told(ward), book, ward), ward / "out")
    assert read_document(path)["settings"]["run_key"] == "monday"
    row = book.show("ward-7")[0]
    assert (row.spent, row.releases, row.unfinished) == (GDP(0.5), 1, 0)


def test_a_full_disk_leaves_nothing_and_the_rerun_is_free(ward: Path) -> None:
    """When the file cannot be written there is no half of one; asking again writes it, unpaid."""
    book = ledger(ward)
    content = settle(told(ward), book, ward)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            write_document(content, ward / "out")
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert not [path for path in (ward / "out").rglob("*") if path.is_file()]
    assert write_document(settle(told(ward), book, ward), ward / "out").read_bytes() == content
    assert book.show("ward-7")[0].spent == GDP(0.5)


def test_a_corrupt_result_file_is_restored_from_the_ledger(ward: Path) -> None:
    """A damaged document is a clear error, and the same run key writes the very bytes again."""
    book = ledger(ward)
    path = write_document(settle(told(ward), book, ward), ward / "out")
    good = path.read_bytes()
    path.write_bytes(good[:50])
    with pytest.raises(OSError, match="same run key"):
        read_document(path)
    assert write_document(settle(told(ward), book, ward), ward / "out").read_bytes() == good
    assert book.show("ward-7")[0].releases == 1


@pytest.mark.parametrize("mechanism", ["auto", "ewg"])
def test_a_release_does_not_fail_for_some_images(mechanism: str) -> None:
    """Two copies of a checkerboard, whose iterated mean misses 1e-9, and a neighbour: both pass."""
    board = np.where(np.indices((28, 28)).sum(0) % 2, 230, 29).astype(np.uint8)
    manifold = MANIFOLDS["spd-affine-invariant"](k=5)
    known = domain("oct5", height=28, width=28, manifold=manifold.name)
    for other in (board, np.zeros_like(board)):
        points = describe(np.stack([board, other]), "oct5")
        drawn = draw(
            points,
            GDP(1.0),
            mechanism=mechanism,
            noise="hardened",
            domain=known,
            manifold=manifold,
        )
        assert np.isfinite(manifold.check(drawn.point)).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("channels = 1", "channels = 3"), "3 channel"),
        (("budget = 0.5", "budget = 1e-300"), "usual size"),
        (('"auto"', '"auto"\neta = 1e-12'), "eta"),
        (('"auto"', '"auto"\ndescriptor = "grid11"'), "colour"),
    ],
)
def test_what_is_wrong_in_public_is_said_and_costs_nothing(
    ward: Path, change: tuple[str, str], words: str
) -> None:
    """Settings that do not fit images of this kind end in their own words, before any charge."""
    book = ledger(ward)
    for path in (ward / "ward.toml", ward / "release.toml"):
        path.write_text(path.read_text().replace(*change))
    with pytest.raises(CovdpError, match=words):
        settle(told(ward), book, ward)
    assert book.show("ward-7")[0].releases == 0


def test_an_image_that_cannot_be_used_is_not_named(tmp_path: Path) -> None:
    """In a release a damaged picture costs nothing and neither its name nor its fault is shown."""
    rng = np.random.default_rng(1)
    for label in ("well", "ill"):
        (tmp_path / "ward" / label).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 256, (28, 28), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "ward" / label / f"miller-{number}.png")
    broken = tmp_path / "ward" / "ill" / "miller-1.png"
    broken.write_bytes(broken.read_bytes()[:200])
    card = 'kind = "folder"\nlocal = true\nchannels = 1\nclasses = ["well", "ill"]\n'
    (tmp_path / "ward.toml").write_text(card)
    config = CONFIG.format(card=tmp_path / "ward.toml", mechanism="auto")
    (tmp_path / "release.toml").write_text(config)
    book = init_ledger(tmp_path / "ledger.sqlite")
    book.set_budget("ward-7", GDP(1.0))
    with pytest.raises(DatasetError, match="withheld") as caught:
        settle(told(tmp_path), book, tmp_path)
    assert "miller" not in "".join(traceback.format_exception(caught.value))
    assert book.show("ward-7")[0].releases == 0


def test_warnings_about_an_image_are_not_shown(
    ward: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """What a library says about a record, such as its size, reaches no screen."""
    from pipeline.publish import settle as module_function

    module = sys.modules[module_function.__module__]

    def talk(images: Any, *options: Any) -> Any:
        warnings.warn(f"image of {images.sum()}", UserWarning, stacklevel=1)
        return describe(images, *options)

    monkeypatch.setattr(module, "describe", talk)
    settle(told(ward), ledger(ward), ward)
    assert not recwarn.list


def test_title_and_place_do_not_make_another_release(ward: Path) -> None:
    """The same key and images under another title, or another path of the card, are paid."""
    book = ledger(ward)
    first = settle(told(ward), book, ward)
    assert settle(told(ward, "budget", 'title = "Another"\nbudget'), book, ward) == first
    other = str(ward) + "/./ward.toml"
    assert settle(told(ward, str(ward / "ward.toml"), other), book, ward) == first
    assert book.show("ward-7")[0].releases == 1


def test_another_release_is_never_written_over(ward: Path) -> None:
    """Two releases whose files would have one name get two; each asked for again keeps its own."""
    book = ledger(ward)
    book.set_budget("ward-7", GDP(5.0))
    contents = [settle(told(ward, run_key=key), book, ward) for key in ("a_b", "a b", "a-b")]
    paths = [write_document(content, ward / "out") for content in contents * 2]
    assert [path.name for path in paths[:3]] == [
        "nightly-a-b.json",
        "nightly-a-b-2.json",
        "nightly-a-b-3.json",
    ]
    assert paths[:3] == paths[3:]
    assert [path.read_bytes() for path in paths[:3]] == contents


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("budget = 0.5", "budget = true", "budget"),
        ("budget = 0.5", 'budget = "0.5"', "budget"),
        ("are_public = true", 'are_public = "yes"', "public"),
        ('"monday"', f'"{"m" * 101}"', "run_key"),
        ('"nightly"', f'"{"n" * 61}"', "name"),
        ('"auto"', '"extrinsic-gaussian"\nnoise = "float"', "need not be covariances"),
    ],
)
def test_types_lengths_and_mechanisms_are_strict(
    ward: Path, old: str, new: str, words: str
) -> None:
    """What is not what it should be is refused in one line, not read as something else."""
    with pytest.raises(ConfigError, match=words):
        told(ward, old, new)


def test_the_date_of_a_scheduled_run_is_that_of_its_plan(ward: Path) -> None:
    """A run that starts a moment early, or late, keeps the key of the night it was planned for."""
    planned = datetime(2026, 3, 1, tzinfo=UTC)
    config = told(ward, 'run_key = "monday"', "", at=planned)
    assert config.run_key == "2026-03-01"
    assert told(ward, at=planned).run_key == "monday"


def test_a_card_is_found_beside_the_config(ward: Path) -> None:
    """A card named without a folder is looked for where the config lies."""
    config = told(ward, str(ward / "ward.toml"), "ward.toml")
    assert Path(config.dataset) == ward / "ward.toml"


def test_a_folder_that_cannot_take_the_files_is_refused(tmp_path: Path) -> None:
    """Where a file stands for the folder, or a folder for the page, nothing is paid for."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "release").write_text("")
    (tmp_path / "b" / "report.html").mkdir(parents=True)
    for name in ("a", "b"):
        with pytest.raises(OutputError, match="--out"):
            check_folder(tmp_path / name)


@pytest.mark.parametrize(("mechanism", "mu"), [("auto", 10.0), ("ewg", 1.0)])
def test_releases_are_positive_definite(mechanism: str, mu: float) -> None:
    """What noise makes of blank images, mostly indefinite in doubles, log-Cholesky takes."""
    manifold = MANIFOLDS["spd-log-cholesky"](k=5)
    known = domain("oct5", height=28, width=28, manifold=manifold.name)
    points = describe(np.zeros((2, 28, 28), dtype=np.uint8), "oct5")
    for _ in range(20):
        drawn = draw(
            points, GDP(mu), mechanism=mechanism, noise="hardened", domain=known, manifold=manifold
        )
        assert np.isfinite(manifold.check(drawn.point)).all()


def test_the_flow_checks_the_folder_first_and_keeps_the_planned_date(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduled run is named by its planned date; a folder of no use is refused unpaid."""
    import flows.release as flow

    config = ward / "release.toml"
    config.write_text(config.read_text().replace('run_key = "monday"', ""))
    planned = SimpleNamespace(scheduled_start_time=datetime(2026, 3, 1, tzinfo=UTC))
    monkeypatch.setattr(flow, "flow_run", planned)
    monkeypatch.setenv("COVDP_LEDGER", str(ward / "ledger.sqlite"))
    (ward / "bad" / "report.html").mkdir(parents=True)
    with pytest.raises(OutputError, match="--out"):
        flow.settle_release.fn(config, ward / "bad", ward, None)
    assert ledger(ward).show("ward-7")[0].releases == 0
    path = flow.settle_release.fn(config, ward / "out", ward, None)
    assert path.name == "nightly-2026-03-01.json"
