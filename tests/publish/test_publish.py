"""Releases: paid once, hardened, and nothing un-noised leaves, whatever goes wrong."""

import json
import os
import re
import resource
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from covdp import jobs
from covdp.cli.ledger import charge_json, charge_line
from covdp.cli.options import Printing
from covdp.descriptors import describe, domain
from covdp.errors import (
    BudgetError,
    ConfigError,
    CovdpError,
    DatasetError,
    LedgerError,
    OutputError,
    PrivacyError,
)
from covdp.geometry import MANIFOLDS
from covdp.ledger import Charge, Ledger, charge_of, init_ledger, open_ledger
from covdp.privacy import GDP, ZCDP, Budget
from covdp.publish import (
    check_folder,
    load_release,
    read_document,
    release_once,
    write_document,
    write_parquet,
)
from tests.sample_means import released
from tests.tools.addons import addon
from tests.tools.children import in_child

read_foreign = addon("partners.foreign:read_foreign")

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

settling = sys.modules["covdp.publish.release"]

CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["well", "ill"]\n'
CONFIG = """\
name = "nightly"
population = "ward-7"
dataset = "{card}"
labels = "public"
budget = 0.5
mechanism = "{mechanism}"
run_key = "monday"
"""
CANARY = 137


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with images (one planted record), their card and a ledger of μ = 1."""
    folder = tmp_path_factory.mktemp("template")
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (400, 28, 28), dtype=np.uint8)
    images[CANARY] = np.arange(784, dtype=np.uint16).reshape(28, 28) % 251
    labels = (np.arange(400) % 2).astype(np.uint8)
    np.savez(folder / "ward.npz", train_images=images, train_labels=labels)
    (folder / "ward.toml").write_text(CARD)
    init_ledger(folder / "ledger.sqlite").set_budget("ward-7", GDP(1.0))
    return folder


@pytest.fixture
def ward(template: Path, tmp_path: Path) -> Path:
    """Return a copy of `template`, with a config."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    config = CONFIG.format(card=tmp_path / "ward.toml", mechanism="auto")
    (tmp_path / "release.toml").write_text(config)
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
    first = release_once(told(ward), book, ward)
    assert release_once(told(ward), book, ward) == first
    row = book.show("ward-7")[0]
    assert (row.spent, row.releases) == (GDP(0.5), 1)


def test_budget_ends_with_a_refusal_that_says_what_is_left(ward: Path) -> None:
    """Four nights at μ = 0.5 compose to μ = 1; the fifth is refused and nothing is drawn."""
    book = ledger(ward)
    seen = {release_once(told(ward, run_key=str(night)), book, ward) for night in range(4)}
    assert len(seen) == 4
    with pytest.raises(LedgerError, match=r"left|nothing"):
        release_once(told(ward, run_key="5"), book, ward)
    assert book.show("ward-7")[0].spent == GDP(1.0)


def test_what_a_release_cost_is_said(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Charged, already released, paid by an attempt before: told by the journal's rows.

    Other images under the same run key are another release, and are charged.
    """
    book, plain, whole = ledger(ward), Printing(), Printing(verbose=True)

    def cost(config: Any) -> Charge:
        opened = open_ledger(ward / "ledger.sqlite")
        return charge_of(opened, release_once(config, opened, ward))

    first, again = cost(told(ward)), cost(told(ward))
    assert charge_line(first, plain) == "charged μ = 0.5; left 0.866025"
    assert charge_line(first, whole) == "charged μ = 0.5; left 0.8660254037844386"
    assert charge_json(first) == {
        "charged": GDP(0.5),
        "already_released": False,
        "left": GDP(0.8660254037844386),
    }
    assert charge_line(again, plain) == "already released, nothing charged"
    assert charge_json(again) == charge_json(first) | {"charged": None, "already_released": True}
    with np.load(ward / "ward.npz") as file:
        images = dict(file)
    np.savez(ward / "ward.npz", **{**images, "train_images": 255 - images["train_images"]})
    assert charge_line(cost(told(ward)), plain) == "charged μ = 0.5; left 0.707106"
    with monkeypatch.context() as patch:
        patch.setattr(settling, "make_document", None)
        with pytest.raises(PrivacyError):
            release_once(told(ward, run_key="tuesday"), book, ward)
    late = charge_line(cost(told(ward, run_key="tuesday")), plain)
    assert late == "nothing charged: μ = 0.5 was paid by an attempt before, which did not finish"
    assert charge_line(cost(told(ward, run_key="friday")), plain) == "charged μ = 0.5; left nothing"
    with pytest.raises(LedgerError, match="not in it"):
        charge_of(book, b"{}")


def test_another_name_for_the_same_images_is_refused(ward: Path) -> None:
    """A content charged under one population cannot be released under another."""
    book = ledger(ward)
    book.set_budget("ward-8", GDP(1.0))
    release_once(told(ward), book, ward)
    with pytest.raises(LedgerError, match="ward"):
        release_once(told(ward, '"ward-7"', '"ward-8"'), book, ward)


@pytest.mark.addons
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('labels = "public"', 'labels = "known"', "labels"),
        ("budget = 0.5", "budget = 0.5\nseed = 1", "no seed"),
        ('"auto"', '"rl"', "no hardened noise"),
        ('"auto"', '"kng"', "no hardened noise"),
        ('"auto"', '"adaptive"', "unknown mechanism 'adaptive'"),
        ('"auto"', '"extrinsic-gaussian"', "need not be covariances"),
        ("budget = 0.5", "budget = -0.5", "greater than 0"),
        ("budget = 0.5", "budget = 1e-7", "a million times as wide"),
        ("budget = 0.5", 'budget = 1e-14\ndefinition = "zcdp"', "a million times as wide"),
        ("budget = 0.5", "budget = 0.5\nshares = [0.2, 0.1, 0.2, 0.1, 0.3]", "sum to 1"),
        ('"auto"', '"ewg"\nshares = [0.2, 0.1, 0.7]', "auto"),
        ("budget = 0.5", 'budget = 0.5\ndefinition = "pure"', "gdp"),
        ('population = "ward-7"', "", "population"),
        ('name = "nightly"', 'name = "../up"', "name"),
        ("budget = 0.5", "budget = 0.5\nimages_per_person = true", "valid integer"),
        ("budget = 0.5", "budget = 0.5\nsmallest_class = true", "valid integer"),
        ("budget = 0.5", "budget = 0.5\nsize = 0", "greater than or equal to 1"),
        ("budget = 0.5", 'budget = "0.5"', "'budget': must be a valid number without quotes, f"),
        ("budget = 0.5", 'budget = 0.5\nsplits = "test"', "must be a list in square brackets"),
        ("budget = 0.5", "budget = 0.5\nstream = 5", "must be a table: its name in square br"),
        ('population = "ward-7"', "population = 2026-11-20", "in quotes, found 2026-11-20"),
        ('"ward-7"', '" "', "'population': a .*, found ' '; name it in plain letters$"),
        ('run_key = "monday"', 'run_key = "a/b"', "'run_key': a .*, found 'a/b'; choose another$"),
        ('name = "nightly"', 'name = "x/y"', "letters, digits and hyphens only"),
        ("budget = 0.5", "budget = 0.5\nbudget = 0.4", "a key or table is given twice, at line"),
    ],
)
def test_unsafe_configs_are_refused(ward: Path, old: str, new: str, words: str) -> None:
    """Without a declaration, with a seed, or with float noise unasked, nothing is released."""
    with pytest.raises(ConfigError, match=words):
        told(ward, old, new)


def test_float_noise_is_possible_in_writing_and_never_certified(ward: Path) -> None:
    """`noise = "float"` runs any mechanism, and its document certifies no ρ."""
    config = told(ward, '"auto"', '"ewl"\nnoise = "float"')
    document = json.loads(release_once(config, ledger(ward), ward))
    stated = [row["rho"] for row in document["classes"]]
    stated += [step["rho"] for row in document["classes"] for step in row["costs"]]
    assert stated == [None] * len(stated)
    assert "floating point" in dict(document["statement"])["Not covered"]


@pytest.mark.parametrize("mechanism", ["auto", "ewg", "tangent-gaussian"])
@pytest.mark.parametrize("definition", ["gdp", "zcdp"])
def test_certified_cost_is_within_the_charge(ward: Path, mechanism: str, definition: str) -> None:
    """The ρ that OpenDP certifies for all steps together is at most what the ledger charged."""
    changed = f'"{mechanism}"\ndefinition = "{definition}"'
    book = ledger(ward)
    book.set_budget("zone", {"gdp": GDP(9.0), "zcdp": zcdp(9.0)}[definition])
    config = told(ward, '"auto"', changed).model_copy(update={"population": "zone"})
    document = json.loads(release_once(config, book, ward))
    charged = 0.5 if definition == "zcdp" else 0.5**2 / 2
    for row in document["classes"]:
        assert 0.9 * charged < row["rho"] <= charged * (1 + 1e-9)


def zcdp(rho: float) -> Any:
    """Return a zCDP budget."""
    from covdp.privacy import ZCDP

    return ZCDP(rho)


def test_a_failure_in_the_private_part_keeps_its_words(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception that quotes data is replaced, its chain too, and the charge serves the rerun."""
    from covdp.publish import release as module

    def leak(*_: Any) -> Any:
        raise ValueError("secret 251 250 249")

    book = ledger(ward)
    with monkeypatch.context() as patch:
        patch.setattr(module, "make_document", leak)
        with pytest.raises(PrivacyError) as caught:
            release_once(told(ward), book, ward)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    release_once(told(ward), book, ward)
    assert book.show("ward-7")[0].spent == GDP(0.5)


def die(*_: Any, **__: Any) -> None:
    """End this process as power cuts do."""
    os.kill(os.getpid(), signal.SIGKILL)


def then_die(work: Callable[..., Any]) -> Callable[..., None]:
    """Return what does some work and ends this process."""

    def work_and_die(*arguments: Any, **options: Any) -> None:
        work(*arguments, **options)
        die()

    return work_and_die


POINTS: dict[str, tuple[Any, str, Callable[..., None]]] = {
    "before reserve": (Ledger, "reserve", die),
    "after reserve": (Ledger, "reserve", then_die(Ledger.reserve)),
    "before the draw": (settling, "make_document", die),
    "after the draw": (settling, "make_document", then_die(settling.make_document)),
    "before commit": (Ledger, "commit", die),
    "after commit": (Ledger, "commit", then_die(Ledger.commit)),
    "while writing": (Path, "replace", die),
}
"""Of a release: the function that is replaced in the process that is killed, and by what."""


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_step_it_pays_once_and_leaves_no_half_file(ward: Path, point: str) -> None:
    """After kill -9 at any step, the rerun publishes, one charge stands, and no file is partial."""

    def release() -> None:
        if point != "while writing":
            setattr(*POINTS[point])
        content = release_once(told(ward), ledger(ward), ward)
        setattr(*POINTS[point])
        write_document(content, ward / "out")

    assert in_child(release) == -signal.SIGKILL
    assert not list(ward.glob("out/release/*.json"))
    book = ledger(ward)
    path = write_document(release_once(told(ward), book, ward), ward / "out")
    assert read_document(path).settings.run_key == "monday"
    row = book.show("ward-7")[0]
    assert (row.spent, row.releases, row.unfinished) == (GDP(0.5), 1, 0)


def test_a_full_disk_leaves_nothing_and_the_rerun_is_free(ward: Path) -> None:
    """When the file cannot be written there is no half of one; asking again writes it, unpaid."""
    book = ledger(ward)
    content = release_once(told(ward), book, ward)
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
    assert (
        write_document(release_once(told(ward), book, ward), ward / "out").read_bytes() == content
    )
    assert book.show("ward-7")[0].spent == GDP(0.5)


def test_a_corrupt_result_file_is_restored_from_the_ledger(ward: Path) -> None:
    """A damaged document is a clear error, and the same run key writes the very bytes again."""
    book = ledger(ward)
    path = write_document(release_once(told(ward), book, ward), ward / "out")
    good = path.read_bytes()
    path.write_bytes(good[:50])
    with pytest.raises(OSError, match="same run key"):
        read_document(path)
    assert write_document(release_once(told(ward), book, ward), ward / "out").read_bytes() == good
    assert book.show("ward-7")[0].releases == 1


@pytest.mark.parametrize("mechanism", ["auto", "ewg"])
def test_a_release_does_not_fail_for_some_images(mechanism: str) -> None:
    """Two copies of a checkerboard, whose iterated mean misses 1e-9, and a neighbour: both pass."""
    board = np.where(np.indices((28, 28)).sum(0) % 2, 230, 29).astype(np.uint8)
    manifold = MANIFOLDS["spd-affine-invariant"](k=5)
    known = domain("oct5", height=28, width=28, manifold=manifold.name)
    for other in (board, np.zeros_like(board)):
        points = describe(np.stack([board, other]), "oct5")
        drawn = released(
            points,
            GDP(1.0),
            mechanism=mechanism,
            domain=known,
            manifold=manifold,
        )
        assert np.isfinite(manifold.check(drawn.point)).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("channels = 1", "channels = 3"), "not all images are as the card says"),
        (("budget = 0.5", "budget = 1e-300"), "a million times as wide"),
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
        release_once(told(ward), book, ward)
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
        release_once(told(tmp_path), book, tmp_path)
    assert "miller" not in "".join(traceback.format_exception(caught.value))
    assert book.show("ward-7")[0].releases == 0


def test_warnings_about_an_image_are_not_shown(
    ward: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """What a library says about a record, such as its size, reaches no screen."""

    def talk(images: Any, *options: Any) -> Any:
        warnings.warn(f"image of {images.sum()}", UserWarning, stacklevel=1)
        return describe(images, *options)

    monkeypatch.setattr(import_module("covdp.store.fill"), "describe", talk)
    release_once(told(ward), ledger(ward), ward)
    assert not recwarn.list


def test_title_and_place_do_not_make_another_release(ward: Path) -> None:
    """The same key and images under another title, or another path of the card, are paid."""
    book = ledger(ward)
    first = release_once(told(ward), book, ward)
    assert release_once(told(ward, "budget", 'title = "Another"\nbudget'), book, ward) == first
    other = str(ward) + "/./ward.toml"
    assert release_once(told(ward, str(ward / "ward.toml"), other), book, ward) == first
    assert book.show("ward-7")[0].releases == 1


def test_another_release_is_never_written_over(ward: Path) -> None:
    """Two releases whose files would have one name get two; each asked for again keeps its own."""
    book = ledger(ward)
    book.set_budget("ward-7", GDP(5.0))
    contents = [release_once(told(ward, run_key=key), book, ward) for key in ("a:b", "a b", "a-b")]
    paths = [write_document(content, ward / "out") for content in contents * 2]
    assert [path.name for path in paths[:3]] == [
        "nightly-a-b.json",
        "nightly-a-b-2.json",
        "nightly-a-b-3.json",
    ]
    assert paths[:3] == paths[3:]
    assert [path.read_bytes() for path in paths[:3]] == contents


@pytest.mark.addons
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("budget = 0.5", "budget = true", "budget"),
        ("budget = 0.5", 'budget = "0.5"', "budget"),
        ('labels = "public"', "labels = true", "labels"),
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


def test_a_card_is_found_beside_the_config(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card named without a folder is looked for where the config lies, whatever is here."""
    (ward / "here").mkdir()
    (ward / "here" / "ward.toml").write_text("none")
    monkeypatch.chdir(ward / "here")
    config = told(ward, str(ward / "ward.toml"), "ward.toml")
    assert Path(config.dataset) == ward / "ward.toml"


def test_a_card_whose_name_no_file_can_have_is_one_line(ward: Path) -> None:
    """A name that is too long for the system is a card that is not there."""
    text = (ward / "release.toml").read_text(encoding="utf-8")
    changed = re.sub(r"(?m)^dataset = .*$", f'dataset = "{"x" * 5000}.toml"', text)
    (ward / "release.toml").write_text(changed, encoding="utf-8")
    with pytest.raises(DatasetError, match="cannot read the card"):
        load_release(ward / "release.toml")


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
        drawn = released(points, GDP(mu), mechanism=mechanism, domain=known, manifold=manifold)
        assert np.isfinite(manifold.check(drawn.point)).all()


@pytest.mark.usefixtures("prefect_imported")
def test_the_flow_checks_the_folder_first_and_keeps_the_planned_date(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduled run is named by its planned date; a folder of no use is refused unpaid."""
    from covdp.flows import release as flow

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


@pytest.mark.parametrize("step", ["write_document", "write_parquet"])
def test_a_disk_that_is_full_after_payment_loses_nothing(
    ward: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The line says that the release is paid; asked again, it costs nothing."""
    job = jobs.prepare_release(
        ward / "release.toml", ledger=str(ward / "ledger.sqlite"), out=ward / "out", root=ward
    )

    def full(*given: object) -> Path:
        raise OutputError("cannot write x (No space left on device)")

    with monkeypatch.context() as patch:
        patch.setattr(jobs, step, full)
        with pytest.raises(OutputError, match=r"No space.*is paid.*same run key"):
            jobs.release(job)
    (before,) = ledger(ward).show("ward-7")
    assert before.releases == 1
    assert jobs.release(job).is_file()
    assert ledger(ward).show("ward-7")[0].spent == before.spent


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"ward-7"', '"ward\\u200b-7"', "population.*invisible"),
        ('"ward-7"', '"w\\u0430rd-7"', "population.*one alphabet"),
        ('"ward-7"', '"  "', "population"),
        ('"monday"', '"a/b"', "run_key.*'/'"),
        ('"monday"', '"a\\\\b"', "run_key.*'/'"),
        ('"monday"', '".."', r"run_key.*'\.\.'"),
        ('"monday"', '"monday."', "run_key.*dot"),
        ('"monday"', '"a\\u0000b"', "run_key"),
        ('"monday"', '"con"', "run_key.*Windows"),
        ('"monday"', '"LPT1.txt"', "run_key.*Windows"),
        ('"monday"', f'"{"é" * 51}"', "run_key.*100 bytes"),
        ('"monday"', '""', "run_key"),
    ],
)
def test_names_of_no_use_are_refused_unpaid(ward: Path, old: str, new: str, words: str) -> None:
    """A population that looks like another, or a run key no file can have, is one line."""
    with pytest.raises(ConfigError, match=words) as refusal:
        told(ward, old, new)
    assert "\n" not in str(refusal.value)


def test_blanks_and_spellings_make_no_new_name(ward: Path) -> None:
    """Blanks around a name are none of it, and é is one letter however it was typed."""
    config = told(ward, '"ward-7"', '" ward-7 "', run_key=" Cafe\u0301 ")
    assert (config.population, config.run_key) == ("ward-7", "Caf\u00e9")
    assert told(ward, run_key="monday ") == told(ward)


def test_the_longest_names_can_be_published(ward: Path) -> None:
    """The longest name and run key fit a file system with every suffix, and so do their copies."""
    from covdp.report import build_release_report

    config = told(ward, '"nightly"', f'"{"n" * 60}"', run_key="é" * 50)
    content = release_once(config, ledger(ward), ward)
    place = ward / "out" / "release"
    place.mkdir(parents=True)
    for number in ("", *(f"-{i}" for i in range(2, 12))):
        (place / f"{'n' * 60}-{'é' * 50}{number}.json").write_text("{}")
    path = write_document(content, ward / "out")
    assert path.name == f"{'n' * 60}-{'é' * 50}-12.json"
    build_release_report(read_document(path), path.with_suffix(".html"))
    write_parquet(read_document(path), path.with_suffix(".parquet"))


def test_the_account_pays_for_all_images_of_a_person(ward: Path) -> None:
    """With g images a person μ is one image's and g·μ is charged; the document says both."""
    book = ledger(ward)
    changed = ("budget = 0.5", "budget = 0.25\nimages_per_person = 3")
    config = told(ward, *changed)
    assert (config.cost, config.charge) == (GDP(0.25), GDP(0.75))
    document = json.loads(release_once(config, book, ward))
    row = book.show("ward-7")[0]
    assert row.spent == GDP(0.75)
    assert [item["mu"] for item in document["classes"]] == [0.25, 0.25]
    assert all(item["rho"] <= 0.25**2 / 2 * (1 + 1e-9) for item in document["classes"])
    account = document["account"]
    assert (account["charged"], account["total"], account["spent"]) == (0.75, 1.0, 0.75)
    assert (account["left"], account["releases_left"]) == (row.left.mu, 0)
    statement = dict(document["statement"])
    assert statement["Guarantee"] == str(GDP(0.25))
    assert str(GDP(0.75)) in statement["Charged to the account"]
    assert "at most 3" in statement["Charged to the account"]
    with pytest.raises(BudgetError, match=r"costs μ = 0\.75"):
        release_once(told(ward, *changed, run_key="tuesday"), book, ward)


@pytest.mark.parametrize(
    ("definition", "images", "charged"), [("gdp", 5, GDP(0.5)), ("zcdp", 3, ZCDP(0.9))]
)
def test_decimals_of_a_person_are_charged_as_written(
    ward: Path, definition: str, images: int, charged: Budget
) -> None:
    """At most g images a person: g·μ or g²·ρ, so that a total planned in decimals pays for it."""
    changed = f'budget = 0.1\ndefinition = "{definition}"\nimages_per_person = {images}'
    assert told(ward, "budget = 0.5", changed).charge == charged


def test_the_account_of_a_document_is_that_of_its_charge(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed later, a release states the account as it was right after it was charged."""
    book = ledger(ward)
    with monkeypatch.context() as patch:
        patch.setattr(settling, "make_document", lambda *_: 1 / 0)
        with pytest.raises(PrivacyError):
            release_once(told(ward), book, ward)
    later = json.loads(release_once(told(ward, run_key="tuesday"), book, ward))["account"]
    first = json.loads(release_once(told(ward), book, ward))["account"]
    assert (first["releases"], first["spent"], first["releases_left"]) == (1, 0.5, 3)
    assert (later["releases"], later["spent"], later["releases_left"]) == (2, 0.5**0.5, 2)


def test_what_a_large_account_pays_for_is_read_again(ward: Path) -> None:
    """More releases are left than a document may state; a query that names nothing is no name."""
    book = ledger(ward)
    book.set_budget("ward-7", GDP(1e6))
    contents = {"well": book.digest([b"of another program"])}
    book.reserve("ward-7", '{"name": null}', "monday", contents=contents, cost=GDP(0.5))
    path = write_document(release_once(told(ward), book, ward), ward)  # paid beside that one
    _, document = read_foreign(path)
    assert document.account.releases_left == 10**12
    assert book.show("ward-7")[0].releases == 2


def test_a_number_that_json_has_not_is_never_committed(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN in a document is refused unpaid when black images give it, else paid and drawn again."""
    from covdp.publish import release as module

    real, book = module.private_part, ledger(ward)

    def broken(points: Any, *rest: Any, always: bool) -> Any:
        part = real(points, *rest)
        first = next(iter(points))
        rehearsal = (first == first[0]).all()
        spoilt = always or not rehearsal
        return part.model_copy(update={"predicted_error": np.nan}) if spoilt else part

    for always, error in ((True, ValueError), (False, PrivacyError)):
        with monkeypatch.context() as patch:
            patch.setattr(module, "private_part", partial(broken, always=always))
            with pytest.raises(error):
                release_once(told(ward), book, ward)
        assert book.show("ward-7")[0].releases == (not always)
    release_once(told(ward), book, ward)
    assert (book.show("ward-7")[0].releases, book.show("ward-7")[0].unfinished) == (1, 0)


@pytest.mark.parametrize("what", ["folder", "notes", "number", "dangling", "table", "page", "loop"])
def test_what_is_there_already_is_left_alone(ward: Path, what: str) -> None:
    """A folder, or a file of somebody else, in the place of a release: it takes another name."""
    content = release_once(told(ward), ledger(ward), ward)
    place = ward / "out" / "release"
    place.mkdir(parents=True)
    target = place / "nightly-monday.json"
    if what == "folder":
        target.mkdir()
    elif what in ("dangling", "loop"):
        target.symlink_to(ward / "nowhere" if what == "dangling" else target)
    elif what in ("table", "page"):
        target.with_suffix({"table": ".parquet", "page": ".html"}[what]).mkdir()
    else:
        target.write_text({"notes": '{"mine": 1}', "number": "5"}[what])
    before = sorted((path.name, path.is_file() and path.read_bytes()) for path in place.iterdir())
    path = write_document(content, ward / "out")
    assert path.name == "nightly-monday-2.json"
    assert write_document(content, ward / "out") == path
    path.unlink()
    after = sorted((path.name, path.is_file() and path.read_bytes()) for path in place.iterdir())
    assert after == before


def test_a_file_of_another_user_in_a_shared_folder_is_left(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sticky folder, where nobody may replace another's file, a release takes another name.

    Root makes three users of it. Others cannot, and only take themselves for somebody else.
    """
    content = release_once(told(ward), ledger(ward), ward)
    place = ward / "out" / "release"
    place.mkdir(parents=True)
    (place / "nightly-monday.json").write_text("{damaged")
    place.chmod(0o1777)
    if os.geteuid() != 0:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert write_document(content, ward / "out").name == "nightly-monday-2.json"
        return
    os.chown(place / "nightly-monday.json", 1, 1)
    os.chown(place, 2, 2)
    ward.chmod(0o755)

    def as_nobody() -> None:
        os.setuid(65534)
        os._exit(write_document(content, ward / "out").name != "nightly-monday-2.json")

    ours = "pytest-", "popen-", "covdp-mutants-"
    for folder in ward.parents:
        if folder.stat().st_uid == 0 and folder.name.startswith(ours):
            folder.chmod(0o755)
    (ward / "out").chmod(0o755)
    pid = os.fork()
    if pid == 0:
        try:
            as_nobody()
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_folder_that_vanished_is_made_again_and_a_lost_one_is_free(ward: Path) -> None:
    """A folder may go after the charge: made again, or one line, and free to repeat."""
    book = ledger(ward)
    check_folder(ward / "out")
    content = release_once(told(ward), book, ward)
    (ward / "out" / "release").rmdir()
    (ward / "out").rmdir()
    (ward / "out").write_text("a file now")
    with pytest.raises(OutputError, match="--out"):
        write_document(content, ward / "out")
    (ward / "out").unlink()
    assert (
        write_document(release_once(told(ward), book, ward), ward / "out").read_bytes() == content
    )
    assert book.show("ward-7")[0].spent == GDP(0.5)
