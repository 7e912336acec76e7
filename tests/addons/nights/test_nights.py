"""Nights as documents, files and commands: the same promises, whatever lies there and is killed."""
# ruff: noqa: F811  (fixtures that are imported)

import itertools
import json
import os
import re
import shutil
import signal
import sys
import tomllib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError
from sample_dicom import write_dicom
from sample_documents import (
    ACCOUNT,
    SETTINGS,
    document_of,
    documents_of,
    night_class_of,
)
from sample_nights import CARD, CONFIG, PERSONS, STREAM, Ward, image, tonight

from covdp.addons.hospital.table import TableCard
from covdp.addons.nights import sums as sums_module
from covdp.addons.nights.arrivals import Arrivals, Unread
from covdp.addons.nights.certainty import check_opening, least_opening
from covdp.addons.nights.followed import night_document
from covdp.addons.nights.ledger import stored_nights, stream_named
from covdp.addons.nights.night import check_night, mechanism_of, release_night
from covdp.addons.nights.stream import (
    Night,
    StreamMechanism,
    StreamPlan,
    column_norm,
    cumulative_mean,
    empty_state,
    split_epochs,
    window_mean,
)
from covdp.addons.nights.stream import release_night as next_night
from covdp.addons.nights.stream.history import part_moments
from covdp.addons.nights.sums import sums_folder
from covdp.addons.nights.transcript import night_row, read_histories, stands_on
from covdp.cli import main
from covdp.datasets import open_dataset, pictures
from covdp.datasets.listing import packed
from covdp.datasets.source import FilesReader
from covdp.descriptors import domain
from covdp.errors import (
    BudgetError,
    ConfigError,
    DatasetError,
    LedgerError,
    MismatchError,
    OutputError,
)
from covdp.geometry import MANIFOLDS
from covdp.inference import NOISY
from covdp.jobs import ReleaseJob
from covdp.ledger import Ledger, init_ledger
from covdp.ledger.api import Transaction
from covdp.mean import NoisyMoments
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP, budget_from
from covdp.publish import ReleaseConfig, load_release
from covdp.publish.preview import refusals
from covdp.schema import as_json
from covdp.store import find_place
from tests.addons.nights.documents import (
    next_sums,
    ward,  # noqa: F401  (fixtures)
)
from tests.publish.scripted import ScriptedSource, noised, replay, stand_in  # noqa: F401  (a fixture)
from tests.tools.children import in_child
from tests.tools.trace import SeenCall, Watcher

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

settling = sys.modules["covdp.addons.nights.night"]

STREAM_OF_40 = {"horizon": 40, "opening": 20.0, "follows": None}
HEAD: dict[str, Any] = {
    "title": "Ward",
    "statement": [],
    "account": ACCOUNT,
    "settings": {**SETTINGS, "budget": 2.0, "descriptor": "oct5", "stream": STREAM_OF_40},
}


def simulated(nights: int) -> tuple[StreamMechanism, list[Night], list[dict[str, Any]]]:
    """Release some nights of one class in floats; return what was and the documents of it."""
    known = domain("oct5", height=28, width=28)
    stream = StreamMechanism(StreamPlan(GDP(2.0), 40, 20.0), known, MANIFOLDS[known.manifold](k=5))
    rng, history, private = np.random.default_rng(3), list[Night](), empty_state(15)
    documents = []
    for number in range(1, nights + 1):
        walks = rng.normal(0.0, 20.0, (4 * number**2, 5, 40))
        points = walks @ walks.swapaxes(1, 2) / 40
        night, private = next_night(stream, history, private, points, noise=FloatNoise(rng))
        history.append(night)
        row = as_json(night_class_of({}).model_copy(update=night_row(stream, night)))
        base = {name: values.tolist() for name, values in stands_on(stream).items()}
        head = {"night": number, "horizon": 40, "coefficient_norm": column_norm(40)}
        documents.append({**HEAD, **head, **base, "classes": [row]})
    return stream, history, documents


def test_documents_alone_give_the_history_to_the_last_bit() -> None:
    """Opening, epochs and every estimate follow from JSON as they did from what was released."""
    stream, history, documents = simulated(9)
    assert sum(night.epoch is not None for night in history) == 2
    (found,) = read_histories(documents_of(documents))
    assert (found.label, found.name, found.before) == (0, "well", None)
    for one, other in zip(found.nights, history, strict=True):
        for name in ("night", "units", "n_so_far"):
            assert getattr(one, name) == getattr(other, name)
        for name in ("shells", "w", "moment"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
    for t in range(1, 10):
        mine, theirs = (
            cumulative_mean(s, h[:t]) for s, h in ((found.stream, found.nights), (stream, history))
        )
        assert (mine is None) == (theirs is None) == (t < 2)
        if mine and theirs:
            assert np.array_equal(mine.offset, theirs.offset)
            assert np.array_equal(mine.covariance, theirs.covariance)
    for t in range(2, 10):
        one, other = (
            part_moments(s, split_epochs(s, h[:t]))[-1]
            for s, h in ((found.stream, found.nights), (stream, history))
        )
        for name in NoisyMoments.__dataclass_fields__:
            assert np.array_equal(getattr(one, name), getattr(other, name))
    mine, theirs = window_mean(found.stream, found.nights, 3), window_mean(stream, history, 3)
    assert mine
    assert theirs
    assert np.array_equal(mine.covariance, theirs.covariance)


@pytest.mark.parametrize("name", ["axes", "centre"])
def test_a_night_of_another_version_s_axes_is_refused(name: str) -> None:
    """Its sums do not add up with ours; what is the same but for rounding does."""
    _, _, documents = simulated(3)
    number = np.array(documents[2][name])
    documents[2][name] = (number + 1e-12).tolist()
    read_histories(documents_of(documents))
    for other in (number * 1.001, number[:-1], ()):
        documents[2][name] = np.array(other).tolist()
        with pytest.raises(OutputError, match=f"night 3 .* other {name}"):
            read_histories(documents_of(documents))
    del documents[2][name]
    with pytest.raises(ValidationError, match=name):
        documents_of(documents)


def test_documents_of_other_nights_or_other_noise_are_refused() -> None:
    """A night that is missing, and one whose noise this version would not draw, are said."""
    _, _, documents = simulated(4)
    with pytest.raises(OutputError, match="expected night 2, found 3"):
        read_histories(documents_of([documents[0], *documents[2:]]))
    documents[3]["classes"][0]["costs"][1]["sigma"] *= 0.5
    with pytest.raises(OutputError, match=r"night 4 .* other noise"):
        read_histories(documents_of(documents))
    documents[1]["classes"][0]["costs"][0]["sigma"] *= 0.5  # of the opening, which has no sums yet
    with pytest.raises(OutputError, match=r"night 2 .* other noise"):
        read_histories(documents_of(documents))


# --- what lies there --------------------------------------------------------------------------


def test_a_stream_of_another_version_ends_in_one_line(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says the way out; nothing is reserved, what was paid stays, no stream follows it."""
    for day in (1, 2, 3):
        ward.put(well=5, ill=5)
        ward.settle(day)
    other = {
        name: 1.01 * value for name, value in stands_on(mechanism_of(ward.stream.query)).items()
    }
    monkeypatch.setattr("covdp.addons.nights.transcript.stands_on", lambda _: other)
    ward.put(well=5, ill=5)
    names = ("nightly", STREAM), ("later", STREAM + 'follows = "nightly"\n')
    for name, stream in names:
        ward.write(config=CONFIG.replace('"nightly"', f'"{name}"'), stream=stream)
        with pytest.raises(OutputError, match="another name, which is charged") as caught:
            ward.settle(4)
        assert "\n" not in str(caught.value)
    assert stream_named(ward.ledger, "ward-7", "later") is None
    assert ward.stream.pending is None
    (row,) = ward.ledger.show("ward-7")
    assert (row.spent, row.releases, row.unfinished) == (GDP(20.0), 1, 0)
    *_, last = stored_nights(ward.ledger, ward.stream)
    older = json.loads(last.result)
    del older["classes"][0]["certainty"]["parts"][0]["observed"]["reach"]
    with pytest.raises(LedgerError, match="another name, which is charged"):
        night_document(json.dumps(older).encode())


def test_a_folder_that_keeps_yesterdays_images(ward: Ward) -> None:
    """Each night takes up what is new, is paid once, and asked again gives the same bytes."""
    documents = []
    for day in range(1, 5):
        ward.put(well=day, ill=5 - day)
        (content,) = ward.settle(day)
        documents.append(json.loads(content))
        (late,) = ward.put(well=1)
        assert ward.settle(day) == [content]
        late.unlink()
        assert tonight(documents[-1]) == [day, 5 - day]
    (row,) = ward.ledger.show("ward-7")
    assert (row.spent, row.releases, row.unfinished) == (GDP(20.0), 1, 0)
    last = documents[-1]
    assert [(one["n_so_far"], one["n"]) for one in last["classes"]] == [(10, 10), (10, 10)]
    assert (last["night"], last["horizon"], last["settings"]["run_key"]) == (4, 40, "2026-03-04")
    said = dict(last["statement"])
    assert said["Guarantee"] == "20-GDP"
    assert said["Horizon"] == "night 4 of 40; 36 left"
    assert said["Charged to the account"].startswith("20-GDP, once")
    assert "and all nights of this stream, for ever, must decide" in said["In plain words"]
    found = read_histories(documents_of(documents))
    for history, one in zip(found, last["classes"], strict=True):
        estimate = cumulative_mean(history.stream, history.nights)
        assert estimate is not None
        assert estimate.point.tolist() == one["point"]
        for seen in one["windows"]:
            back = window_mean(history.stream, history.nights, seen["nights"])
            assert back is not None
            axes = np.array(last["axes"])
            stated = axes.T @ np.diag(seen["variances"]) @ axes
            np.testing.assert_allclose(stated, back.covariance, rtol=1e-9, atol=1e-12)
            assert (seen["n"], seen["coordinates"]) == (back.n, back.offset.tolist())


def test_sigma_of_every_night_is_that_of_the_coefficients(ward: Ward) -> None:
    """σ of w is ‖c‖_H/(√0.95·μ), the norm from exact fractions, on every night and in each class.

    What a unit pays is certified: ρ of each class is at most μ²/2, on the night of the opening too.
    """
    c, square = Fraction(1), Fraction(0)
    for k in range(1, 41):
        square += c * c
        c *= Fraction(2 * k - 1, 2 * k)
    for day in range(1, 5):
        ward.put(well=3, ill=1)
        document = ward.night(day)
        assert document["coefficient_norm"] == pytest.approx(float(square) ** 0.5, rel=1e-12)
        for row in document["classes"]:
            expected = float(square / Fraction(95, 100)) ** 0.5 / 20.0
            assert expected <= row["sigma"] <= expected * (1 + 1e-5)
            assert (row["w"] is None) == (row["costs"] == [] or row["opened"] is not None)
            if row["costs"]:
                assert 199.0 < row["rho"] <= 200.0
            assert (row["point"] is None) == (row["n_so_far"] < 4) == (row["no_point"] is not None)


def test_a_night_in_floats_says_so(ward: Ward) -> None:
    """Its promises hold in theory, and nothing is certified."""
    ward.write(config=CONFIG + 'noise = "float"\n')
    ward.put(well=5, ill=5)
    document = ward.night(1)
    assert any("figure is for noise of real numbers" in text for _, text in document["statement"])
    assert all(row["rho"] is None and row["point"] for row in document["classes"])


def test_a_night_without_images_is_a_night(ward: Ward) -> None:
    """Nothing new, a class without any, an empty folder: released like any other; not the first."""
    with pytest.raises(MismatchError, match="begins on a night with images"):
        ward.settle(1)
    assert ward.ledger.show("ward-7")[0].releases == 0
    ward.put(well=6)
    assert tonight(ward.night(1)) == [6, 0]
    assert tonight(ward.night(2)) == [0, 0]
    for path in ward.folder.glob("ward/*/*.png"):
        path.unlink()
    empty = ward.night(4)
    assert (empty["night"], tonight(empty)) == (3, [0, 0])
    assert empty["classes"][0]["w"] is not None
    ward.put(ill=5)
    assert tonight(ward.night(5)) == [0, 5]


@pytest.mark.parametrize("sums", ["there", "lost", "older"])
def test_a_copy_is_a_record_and_a_renamed_file_is_none(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, sums: str
) -> None:
    """A copy enters tonight or later, in whatever class; a file that takes its place does not.

    Where the sums of nights before are lost too. In those of an older version no digests are: a
    copy that comes then is taken for a file that was renamed.
    """
    first, _ = ward.put(well=2)
    shutil.copy(first, first.with_name("copy.png"))
    shutil.copy(first, ward.folder / "ward" / "ill" / "copy.png")
    if sums == "older":
        with monkeypatch.context() as patch:
            patch.setattr(sums_module, "UNIT", 0)
            patch.setattr(Unread, "stamps_without", older_stamps)
            assert tonight(ward.night(1)) == [3, 1]
    else:
        assert tonight(ward.night(1)) == [3, 1]
    if sums == "lost":
        shutil.rmtree(sums_folder(ward.ledger, ward.stream))
    shutil.copy(first, first.with_name("again.png"))
    first.unlink()
    ward.put(ill=1)
    assert tonight(ward.night(2)) == [0, 1]
    shutil.copy(first.with_name("copy.png"), ward.folder / "ward" / "ill" / "last.png")
    assert tonight(ward.night(3)) == [0, int(sums != "older")]


def older_stamps(unread: Unread, images: Sequence[bytes], late: set[bytes]) -> dict[bytes, bytes]:
    """Return the stamps that a version without digests handed on."""
    read = zip(unread.stamps, images, strict=False)
    return dict.fromkeys(
        {*unread.others, *(stamp for stamp, unit in read if unit not in late)}, b""
    )


def twins(ward: Ward, how: str) -> list[list[int]]:
    """Return what entered on nights on which an image and a copy of it in another class come.

    The first night has the image and another one in the last class, the second a copy in the first
    class, and the third, where the sums are lost, one more image.
    """
    arrays = how == "arrays"
    if arrays:
        ward.write('kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["well", "ill"]\n')
    seen, found = [(1, 7), (1, 9)], []
    for day, more in enumerate(([], [(0, 7)], [(1, 8)]), 1):
        seen += more
        if arrays:
            rng = [np.random.default_rng(number) for _, number in seen]
            images = np.stack([one.integers(0, 256, (8, 8), np.uint8) for one in rng])
            labels = np.array([label for label, _ in seen])
            np.savez(ward.folder / "ward.npz", train_images=images, train_labels=labels)
        for label, number in () if arrays else seen[-len(more or seen) :]:
            file = ward.folder / "ward" / ("well", "ill")[label] / f"{number}-{day}.png"
            file.write_bytes(image(0, number))
        if how == "renamed" and day == 2:
            (ward.folder / "ward/ill/7-1.png").rename(ward.folder / "ward/ill/z.png")
        if how == "lost" and day == 3:
            shutil.rmtree(sums_folder(ward.ledger, ward.stream))
        found.append(tonight(ward.night(day)))
    return found


@pytest.mark.parametrize("how", ["renamed", "arrays", "lost"])
def test_a_copy_in_another_class_enters_as_what_it_is(ward: Ward, how: str) -> None:
    """Not the image that it is a copy of, again: a neighbour differs in one record of one night."""
    assert twins(ward, how) == [[0, 2], [1, 0], [0, 1]]


def test_an_image_that_waits_enters_whatever_copies_entered(ward: Ward) -> None:
    """Its class is too small tonight, and a copy in another class takes no number of it."""
    ward.write(config=CONFIG.replace("smallest_class = 1", "smallest_class = 2"))
    for name, number in (("well/a", 7), ("ill/b", 7), ("ill/c", 9)):
        (ward.folder / "ward" / f"{name}.png").write_bytes(image(0, number))
    assert tonight(ward.night(1)) == [0, 2]
    ward.put(well=2)
    assert tonight(ward.night(2)) == [3, 0]


def test_neighbours_enter_on_the_same_nights(tmp_path: Path) -> None:
    """Whatever image is in the place of another, a copy or not, as many enter on each night."""
    rng, found = np.random.default_rng(5), []
    few = [[int(one) for one in rng.integers(0, 3, 5)] for _ in range(3)]  # with copies
    for place, other in itertools.product(range(5), (0, 2, 7)):
        for changed in (False, True):
            ward = Ward(tmp_path / f"{place}-{other}-{changed}")
            ward.pay()
            nights = [list(one) for one in few]
            if changed:
                nights[1][place] = other
            entered = []
            for day, images in enumerate(nights, 1):
                for number, seen in enumerate(images):
                    name = "well" if number % 2 else "ill"
                    path = ward.folder / "ward" / name / f"{day}-{number}.png"
                    path.write_bytes(image(0, seen))
                entered.append(tonight(ward.night(day)))
            found.append(entered)
    assert all(one == [[2, 3]] * 3 for one in found)


def test_later_images_of_a_person_are_left_out(ward: Ward) -> None:
    """A person enters once, with all images of that night, in one class; later ones add nothing."""
    ward.write(PERSONS)
    ward.put(well=3, who="anna")
    ward.put(ill=2, who="anna")
    ward.put(well=1, ill=3)
    first = ward.night(1)
    assert tonight(first) == [2, 3]
    assert "one person" in dict(first["statement"])["Unit of privacy"]
    ward.put(well=2, who="anna")
    ward.put(well=1)
    assert tonight(ward.night(2)) == [1, 0]


@pytest.mark.parametrize("labels", ["public", "secret"])
def test_no_other_record_of_a_person_is_drawn(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, labels: str
) -> None:
    """Sums that are lost are not made again with later images of a person, or without the first.

    Nor is a night that was claimed. A person with another record on later nights would pay for
    both.
    """
    declared = 'labels = "public"\n'
    config = CONFIG if labels == "public" else CONFIG.replace(declared, "")
    ward.write(PERSONS, config, STREAM.replace("80.0", "300.0"))
    ward.put(well=30, ill=30)
    anna, _ = ward.put(well=2, who="anna")
    ward.settle(1)
    twin = Ward(ward.folder.with_name("twin"))
    shutil.copytree(ward.folder, twin.folder, dirs_exist_ok=True)
    expected = next_sums(twin, 2)
    shutil.rmtree(sums_folder(ward.ledger, ward.stream))
    (later,) = ward.put(well=1, who="anna")
    with pytest.raises(LedgerError, match=r"private sums .* or persons have others now"):
        ward.settle(2)
    later.unlink()
    content = anna.read_bytes()
    anna.unlink()
    with pytest.raises(LedgerError, match=r"private sums .* or persons have others now"):
        ward.settle(2)
    anna.with_name("anna-again.png").write_bytes(content)
    assert next_sums(ward, 2) == expected
    ward.put(well=2, who="bea")
    with monkeypatch.context() as patch:
        patch.setattr(settling, "commit_night", None)
        with pytest.raises(TypeError):
            ward.settle(3)
    (held,) = sums_folder(ward.ledger, ward.stream).glob("3-*.sums")
    (later,) = ward.put(well=1, who="bea")
    held.rename(ward.folder / "held")
    with pytest.raises(LedgerError, match="was reserved for other images or classes"):
        ward.settle(3)
    (ward.folder / "held").rename(held)
    ward.settle(3)


SEVERAL = CONFIG.replace("smallest_class = 1\n", "")


def rows_of(filled: Sequence[SeenCall]) -> list[int]:
    """Return how many rows each pass of a store was planned for."""
    return [len(call.given["plan"].chosen.rows) for call in filled]


def test_a_class_of_too_few_new_units_waits(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, watch: Watcher
) -> None:
    """One image of a class that comes alone enters with the next, and no date tells whose it is.

    It is read again, and nothing else is; a night that is killed takes up none that waits.
    """
    filled = watch(settling.fill)
    ward.write(config=SEVERAL)
    ward.put(well=5, ill=1)
    assert tonight(ward.night(1)) == [5, 0]
    ward.put(well=1, ill=0)
    assert tonight(ward.night(2)) == [0, 0]
    ward.put(well=0, ill=1)
    assert tonight(ward.night(3)) == [0, 2]
    ward.put(well=1, ill=1)
    with monkeypatch.context() as patch:
        patch.setattr(settling, "commit_night", None)
        with pytest.raises(TypeError):
            ward.settle(4)
    for path in sums_folder(ward.ledger, ward.stream).glob("4-*.sums"):
        path.unlink()
    ward.put(ill=1)
    assert [tonight(json.loads(found)) for found in ward.settle(5)] == [[2, 0], [0, 2]]
    assert rows_of(filled)[:4] == [6, 2, 3, 3]
    assert tonight(ward.night(6)) == [0, 0]
    assert [row["n_so_far"] for row in ward.night(7)["classes"]] == [7, 4]


def test_no_night_has_fewer_of_a_class_than_the_smallest(ward: Ward) -> None:
    """Whatever comes, none or at least as many as that enter, and in the end all have."""
    ward.write(config=SEVERAL + "smallest_class = 3\n")
    rng, came = np.random.default_rng(4), np.zeros(2, int)
    for day in range(1, 13):
        images = rng.integers(0, 3, 2)
        came += images
        ward.put(*images)
        assert set(tonight(ward.night(day))) <= {0, 3, 4}
    ward.put(3, 3)
    last = ward.night(13)
    assert [row["n_so_far"] for row in last["classes"]] == (came + 3).tolist()


def test_a_person_of_two_classes_waits_in_both() -> None:
    """Left out of one they are left out of the other, which may then have too few itself."""

    def units(*owners: Sequence[int]) -> Arrivals:
        names = tuple(b"%d" % unit for unit in range(7))
        points = tuple(np.zeros((len(own), 2, 2)) for own in owners)
        return Arrivals(names, ("",) * 7, points, tuple(np.array(own, np.int64) for own in owners))

    both = units([0, 1], [1, 2, 3], [3, 4, 5, 6])
    assert both.enough(2).units == both.units
    assert both.enough(3).units == (b"4", b"5", b"6")
    assert both.enough(4).counts == (0, 0, 0)
    assert units([], [1, 2, 3], []).enough(3).units == both.units


def test_what_is_released_is_made_of_what_was_noised(
    tmp_path: Path,
    stand_in: Callable[..., ScriptedSource],
) -> None:
    """With the noised vectors of one ward, as many other images give its documents to the byte."""
    first, expected = stand_in(noised(5)), list[bytes]()
    for seed in (0, 1, 2):
        shutil.rmtree(tmp_path / "place", ignore_errors=True)
        found = Ward(tmp_path / "place")
        found.pay()
        contents = []
        for day, (well, ill) in enumerate([(3, 0), (2, 4), (0, 0), (9, 40)], 1):
            found.put(well, ill, seed=seed)
            contents += found.settle(day)
        expected = expected or contents
        assert contents == expected
        stand_in(replay(first.calls))
    assert len(first.calls) > 20


@pytest.mark.parametrize("card", [CARD, PERSONS], ids=["images", "persons"])
def test_a_night_reads_what_is_new(ward: Ward, watch: Watcher, card: str) -> None:
    """What entered is not read again, nor is the past: the same work on any night.

    That is counted in images, transactions and results, since seconds depend on the machine. A
    file that was touched is read, and known by its pixels, which may be new ones of the same size
    and time; a list that is lost costs one night.
    """
    ward.write(card)
    filled, results = watch(settling.fill), watch(Transaction.result)
    opened = watch(Ledger.transaction)
    config = ward.folder / "night.toml"
    work = []
    for day in range(1, 13):
        paths = ward.put(well=1, ill=1)
        told = load_release(config, run_key=f"2026-03-{day:02d}")
        before = len(filled), len(opened), len(results)
        release_night(told, init_ledger(ward.folder / "ledger.sqlite"), ward.folder)
        work.append(
            (sum(rows_of(filled)[before[0] :]), len(opened) - before[1], len(results) - before[2])
        )
    assert set(work[1:]) == {(2, 5, 2)}
    os.utime(paths[0])
    assert tonight(ward.night(13)) == [0, 0]
    (handed_on,) = sums_folder(ward.ledger, ward.stream).glob("13-*")
    handed_on.write_bytes(handed_on.read_bytes()[:-1] + b"x")
    assert tonight(ward.night(14)) == [0, 0]
    assert tonight(ward.night(15)) == [0, 0]
    assert rows_of(filled)[12:] == [1, 24]
    (other,) = ward.put(well=1, who="anna")
    os.utime(other, ns=(paths[0].stat().st_atime_ns, paths[0].stat().st_mtime_ns))
    assert other.stat().st_size == paths[0].stat().st_size
    other.replace(paths[0])
    assert tonight(ward.night(16)) == [int(card == CARD), 0]
    assert rows_of(filled)[14:] == [1]


def test_stamps_are_those_of_each_file_alone(tmp_path: Path) -> None:
    """In whatever order the rows have them, several images in one, with files beside them."""
    paths = [str(tmp_path / name) for name in "abcde"]
    for path in paths:
        Path(path).write_text(path)
    files, frames = np.array([0, 0, 3, 1, 4, 4, 2]), np.array([0, 1, 0, 0, 1, 0, 0])
    for beside in (None, paths[::-1]):
        read = FilesReader(lambda *_: np.empty(0, np.uint8), packed(paths), files, frames, beside)
        for rows in (np.arange(7), np.array([1, 2, 6]), np.array([4])):
            one = list(map(read.stamp, rows[:, np.newaxis]))
            assert len(set(one)) == len(rows)


@pytest.mark.parametrize("kind", ["table", "dicom", "nifti"])
def test_nothing_of_any_kind_is_a_night(ward: Ward, kind: str) -> None:
    """A table without a row, folders without a file: no image, so no fault, where one is open."""
    cards = {
        "table": 'kind = "table"\npath = "t.csv"\ncolumns = { path = "f", class = "c" }\n',
        "dicom": 'kind = "dicom"\npath = "ward"\npattern = "{class}/*.dcm"\nwindow = [0, 255]\n',
        "nifti": 'kind = "nifti"\npath = "ward"\npattern = "{class}/*.nii"\naxis = 0\n',
    }
    (ward.folder / "t.csv").write_text("f,c\n")
    card = cards[kind] + 'channels = 1\nclasses = ["well", "ill"]\n'
    ward.write(CARD if kind == "table" else card)
    slices = np.random.default_rng(0).integers(0, 256, (4, 28, 28), dtype=np.uint8)
    if kind == "table":
        ward.put(well=4)
    elif kind == "nifti":
        nibabel.save(nibabel.Nifti1Image(slices, np.eye(4)), ward.folder / "ward/well/0.nii")
    else:
        for number, pixels in enumerate(slices):
            write_dicom(ward.folder / f"ward/well/{number}.dcm", pixels)
    assert tonight(ward.night(1)) == [4, 0]
    for file in (ward.folder / "ward/well").glob("*[im]"):
        file.unlink()
    ward.write(card)
    assert tonight(ward.night(2)) == [0, 0]
    with pytest.raises(MismatchError):
        open_dataset(ward.folder / "ward.toml", ward.folder)


# --- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "stream", "words"),
    [
        ('manifold = "spd-affine-invariant"\n', STREAM, "flat manifold only"),
        ('mechanism = "ewg"\n', STREAM, "a plan of its own"),
        ("shares = [0.2, 0.1, 0.1, 0.1, 0.5]\n", STREAM, "a plan of its own"),
        ("", "[stream]\nhorizon = 0\n", "greater than or equal to 1"),
        ("", "[stream]\nhorizon = 1000000000\n", "less than or equal to"),
        ("", "[stream]\nopening = 80.0\n", "'stream.horizon' is missing"),
        ("", '[stream]\nhorizon = 3\nfollows = "nightly"\n', "its own name"),
        ("", "[stream]\nhorizon = 3\nnights = 2\n", "'stream.nights' is not known"),
        ("", "[stream]\nhorizon = 3\nopening = 1e8\n", "would open with 5,000,000 images, and may"),
    ],
)
def test_what_no_stream_can_be_told_is_one_line(
    ward: Ward, config: str, stream: str, words: str
) -> None:
    """A curved manifold, another plan, no or an endless horizon, a stream that follows itself."""
    ward.write(config=CONFIG + config, stream=stream)
    with pytest.raises(ConfigError, match=words) as caught:
        ward.settle(1)
    assert "\n" not in str(caught.value)


def test_a_night_of_a_later_day_is_refused(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """No night could come before it; one that has been reserved or released is given all the same.

    The command says so before anything is read; what is planned for midnight may start early.
    """
    ward.put(well=5, ill=5)
    path = ward.folder / "night.toml"
    today = datetime.now(UTC) + settling.EARLY
    tomorrow = load_release(path, run_key=f"{today + timedelta(days=1):%Y-%m-%d}")
    with pytest.raises(ConfigError, match=f"{tomorrow.run_key} is in the future, as today is"):
        release_night(tomorrow, ward.ledger, ward.folder)
    assert ward.ledger.show("ward-7")[0].spent is None
    tokens = ["--ledger", str(ward.folder / "ledger.sqlite"), "--out", str(ward.folder / "out")]
    assert (
        main(["release", "--config", str(path), "--run-key", str(tomorrow.run_key), *tokens]) == 2
    )
    assert not (ward.folder / "out").exists()
    night = load_release(path, run_key=f"{today:%Y-%m-%d}")
    first = release_night(night, ward.ledger, ward.folder)
    with monkeypatch.context() as patch:
        patch.setattr(settling, "EARLY", timedelta(days=1))
        second = release_night(tomorrow, ward.ledger, ward.folder)
    assert release_night(tomorrow, ward.ledger, ward.folder) == second != first


@pytest.mark.parametrize(("definition", "budget"), [("gdp", 20.0), ("zcdp", 200.0)])
def test_an_opening_without_a_region_is_refused(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, definition: str, budget: float
) -> None:
    """With its price, wherever a config is read; a stream that has begun so goes on."""
    config = CONFIG.replace("budget = 20.0", f'budget = {budget}\ndefinition = "{definition}"')
    ward.write(config=config, stream=STREAM.replace("80.0", "2.9"))
    path, ledger = ward.folder / "night.toml", init_ledger(ward.folder / f"{definition}.sqlite")
    ledger.set_budget("ward-7", budget_from(definition, budget))
    price = r"N·μ below 59 has no region .* opens again with 20 times as many, .* at least 3$"
    with pytest.raises(ConfigError, match=price) as caught:
        load_release(path, run_key="2026-03-01")
    assert "\n" not in str(caught.value)
    assert main(["plan", "--config", str(path)]) == 2
    known = load_release(path, run_key="2026-03-01", opened=True)
    ward.put(well=5, ill=5)
    with pytest.raises(ConfigError, match=price):
        release_night(known, ledger, ward.folder)
    assert ledger.show("ward-7")[0].spent is None
    with monkeypatch.context() as patch:
        patch.setattr(ReleaseConfig, "check_new_stream", lambda _: None)
        release_night(known, ledger, ward.folder)
    later = load_release(path, run_key="2026-03-02", opened=True)
    assert json.loads(release_night(later, ledger, ward.folder))["night"] == 2


@pytest.mark.parametrize("units", [40, 4000])
@pytest.mark.parametrize("manifold", ["spd-log-euclidean", "spd-log-cholesky"])
def test_the_least_opening_is_the_first_with_a_region(units: int, manifold: str) -> None:
    """The noise of its mean is what the rule for regions allows, to six digits."""
    known = domain("oct5", height=28, width=28, manifold=manifold)
    space, rng = MANIFOLDS[manifold](k=5), np.random.default_rng(2)
    walks = rng.normal(0.0, 20.0, (units, 5, 40))
    points = walks @ walks.swapaxes(1, 2) / 40
    least = least_opening(StreamPlan(GDP(80.0 / units), 9, 80.0), space.dim)
    assert 58.9 < least < 59.0
    for change, noisy in ((1.0 - 1e-6, True), (1.0 + 1e-6, False)):
        plan = StreamPlan(GDP(least * change / units), 9, least * change * (1.0 - 1e-9))
        stream = StreamMechanism(plan, known, space)
        night, _ = next_night(stream, [], empty_state(15), points, noise=FloatNoise(rng))
        assert night.opened
        assert night.opened.observed
        assert (night.opened.observed.sigma > NOISY) == noisy
        with nullcontext() if not noisy else pytest.raises(ConfigError, match="too small"):
            check_opening(plan, space.dim)


@pytest.mark.parametrize("labels", ["public", "secret"])
def test_a_first_look_is_made_good(ward: Ward, labels: str, tmp_path: Path) -> None:
    """Nights between two openings say the mean of the first; the documents alone give it back."""
    config = CONFIG.replace('labels = "public"', f'labels = "{labels}"')
    ward.write(config=config, stream=STREAM.replace("80.0", "40.0"))
    documents = []
    for day, images in enumerate((2, 3, 14, 5, 3), start=1):
        ward.put(images, images)
        documents.append(ward.night(day))
    for place in range(2):
        rows = [document["classes"][place] for document in documents]
        assert sum(row["opened"] is not None for row in rows) >= 1
        if labels == "public":
            assert [row["opened"] is not None for row in rows] == [True, False, True, False, False]
            assert rows[0]["coordinates"] == rows[1]["coordinates"]
            assert [row["n"] for row in rows] == [2, 2, 19, 24, 27]
            assert [row["rho"] and row["rho"] > 190.0 for row in rows] == [True, None, *[True] * 3]
            assert [part["first"] for part in rows[4]["certainty"]["parts"]] == [1, 3, 4]
    found = read_histories(documents_of(documents))
    for history, row in zip(found, documents[-1]["classes"], strict=True):
        estimate = cumulative_mean(history.stream, history.nights)
        if estimate is not None:
            assert estimate.offset.tolist() == row["coordinates"]
    book = ["--ledger", str(ward.folder / "ledger.sqlite"), "--population", "ward-7"]
    assert main(["history", "--out", str(tmp_path / "history"), *book]) == 0


def test_another_setting_is_another_stream(ward: Ward) -> None:
    """Budget, horizon or size changed by mistake is refused; a version and a title are not it."""
    ward.put(well=5, ill=5)
    ward.night(1)
    ward.put(well=1)
    ward.write(stream=STREAM.replace("40", "41"))
    with pytest.raises(LedgerError, match="other settings: horizon = 40, found 41; set it back"):
        ward.settle(2)
    ward.write(config=CONFIG + 'title = "Ward 7"\n')
    assert tonight(ward.night(2)) == [1, 0]
    ward.write()
    ward.night(4)
    with pytest.raises(LedgerError, match="check the clock"):
        ward.settle(3)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("budget = 20.0", "budget = 10.0", "budget = 20.0, found 10.0"),
        ("opening = 80.0", "opening = 300.0", "opening = 80.0, found 300.0"),
        ("horizon = 40", "horizon = 41", "horizon = 40, found 41"),
        ('"public"', '"secret"', "labels = "),
        ('["well", "ill"]', '["ill", "well"]', "classes = "),
        ("channels = 1", "channels = 1\nsize = 6", "image_height = 8, found 6"),
        ("channels = 1", 'channels = 1\ntitle = "Ward 7"', ""),
        ("channels = 1", "channels = 1\nsize = 8", 'fit = null, found "crop"'),
    ],
)
def test_settings_of_an_open_stream_are_compared_before_images_are_read(
    ward: Ward, old: str, new: str, named: str
) -> None:
    """So `serve` refuses them when it starts, and `check` shows them, not the next night alone."""
    ward.put(well=5, ill=5)
    ward.night(1)
    shutil.rmtree(ward.folder / "ward")
    for name in ("ward.toml", "night.toml"):
        path = ward.folder / name
        path.write_text(path.read_text().replace(old, new))
    config = load_release(ward.folder / "night.toml", run_key="2026-03-02", opened=True)
    if not named:
        check_night(config, ward.ledger)
        return
    with pytest.raises(LedgerError, match=re.escape(named)):
        check_night(config, ward.ledger)
    (refusal,) = refusals(config, ward.ledger, ward.folder)
    assert named in refusal


def test_a_card_that_makes_other_images_of_files_is_refused(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before they are read, even to finish a night; where the images lie may change.

    A document says how pixels were made, so that others see whether theirs were made so.
    """
    ward.write(CARD + "window = [0, 250]\n")
    ward.put(well=5, ill=5)
    first = ward.night(1)
    assert first["settings"]["window"] == [0.0, 250.0]
    ward.write(CARD + "window = [0, 200]\n")
    assert ward.night(1) == first
    ward.put(well=1)
    with monkeypatch.context() as patch:
        patch.setattr(ReleaseConfig, "fetch_images", None)
        reason = r"with window = \[0.0, 250.0\], found window = \[0.0, 200.0\] in .*ward.toml"
        with pytest.raises(MismatchError, match=reason):
            ward.settle(2)
    (ward.folder / "ward").rename(ward.folder / "elsewhere")
    ward.write(CARD.replace('"ward"', '"elsewhere"') + "window = [0, 250]\n")
    with monkeypatch.context() as patch:
        patch.setattr(settling, "commit_night", None)
        with pytest.raises(TypeError):
            ward.settle(2)
    ward.write(CARD.replace('"ward"', '"elsewhere"'))
    with pytest.raises(MismatchError, match=r"opened with window .*found no window in"):
        ward.settle(2)
    ward.write(CARD.replace('"ward"', '"elsewhere"') + "window = [0, 250]\n")
    assert tonight(ward.night(2)) == [1, 0]


def test_a_card_that_tells_persons_otherwise_is_refused(ward: Ward) -> None:
    """They would all enter again: a pattern or a column that says who a person is stays."""
    ward.write(PERSONS)
    ward.put(well=4, ill=4)
    ward.night(1)
    other = PERSONS.replace("{person}-*.png", "{person}.png")  # each image another person
    ward.write(other)
    with pytest.raises(MismatchError, match=r"with person = .*\{person\}-\*.*found person = "):
        ward.settle(2)
    table = 'kind = "table"\nclasses = ["a"]\nchannels = 1\nunit = "person"\nname = "t"\n'
    cards = [
        TableCard.model_validate(tomllib.loads(table + f"columns = {{{pairs}}}"))
        for pairs in (
            'path = "f", class = "c", person = "patient"',
            'path = "f", class = "c", person = "mrn"',
            'path = "f", class = "c", person = "mrn", mask = "lesion"',
            'path = "f", class = "c", person = "mrn", mask = "organ"',
        )
    ]
    assert len({json.dumps(card.rendering_settings) for card in cards}) == len(cards)


@pytest.mark.parametrize("units", ["images", "persons"])
def test_images_do_not_enter_again_where_a_decoder_changes(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, units: str
) -> None:
    """A decoder that makes other pixels of a file ends a stream of images; persons are known."""
    ward.write(CARD if units == "images" else PERSONS)
    files = ward.put(well=4, ill=4)
    ward.night(1)
    for file in files:  # as where a folder is copied
        file.write_bytes(file.read_bytes())
        os.utime(file, ns=(1, 1))
    plain = pictures._decode
    monkeypatch.setattr(pictures, "_decode", lambda *asked: plain(*asked) ^ 1)
    pictures._digest_pictures.cache_clear()
    spent = ward.ledger.show("ward-7")[0].spent
    if units == "persons":
        assert tonight(ward.night(2)) == [0, 0]
    else:
        with monkeypatch.context() as patch:
            patch.setattr(ReleaseConfig, "open_images", None)
            with pytest.raises(MismatchError, match="images could enter again; go back"):
                ward.settle(2)
        ward.write(stream=STREAM + 'follows = "nightly"\n', config=CONFIG.replace("nightly", "b"))
        with pytest.raises(MismatchError, match="'nightly' was opened, so images could"):
            ward.settle(2)
    assert ward.ledger.show("ward-7")[0].spent == spent
    monkeypatch.undo()
    pictures._digest_pictures.cache_clear()
    ward.write(config=CONFIG)
    assert tonight(ward.night(3)) == [0, 0]


def test_a_file_that_is_the_person_enters_no_stream(ward: Ward) -> None:
    """Who is known by a file's place alone would enter again where the file is moved."""
    nifti = 'kind = "nifti"\npath = "ward"\nchannels = 1\nclasses = ["well", "ill"]\n'
    nifti += 'axis = 2\nwindow = [0, 255]\nunit = "person"\n'
    for pattern in ("", 'pattern = "{class}/*"\n'):
        ward.write(nifti + pattern)
        with pytest.raises(ConfigError, match=r"each file for another person.*name \{person\}"):
            ward.settle(1)
    ward.write(nifti + 'pattern = "{class}/{person}.nii"\n')
    assert load_release(ward.folder / "night.toml").classes_per_person == 1
    ward.write(nifti, stream="")
    assert load_release(ward.folder / "night.toml").classes_per_person == 1


def test_an_image_whose_mask_is_corrected_does_not_enter_again(ward: Ward) -> None:
    """An image is known by its pixels; lost sums are not made again with another mask."""
    ward.write(CARD + 'masks = "masks/{class}/*.png"\n')
    images = ward.put(well=5, ill=5)
    masks = [ward.folder / "ward/masks" / path.parent.name / path.name for path in images]
    for mask in masks:
        mask.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 255).save(mask)
    assert tonight(ward.night(1)) == [5, 5]
    corrected = Image.new("L", (8, 8), 255)
    corrected.putpixel((3, 3), 0)
    corrected.save(masks[0])
    assert tonight(ward.night(2)) == [0, 0]
    shutil.rmtree(sums_folder(ward.ledger, ward.stream))
    with pytest.raises(LedgerError, match="have other masks"):
        ward.settle(3)


def test_all_images_of_a_person_are_paid_for(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three images a person cost three times μ; an account without is told before they are read."""
    ward.write(config=CONFIG + "images_per_person = 3\n")
    ward.put(well=5, ill=5)
    with monkeypatch.context() as patch:
        patch.setattr(ReleaseConfig, "open_images", None)
        with pytest.raises(BudgetError):
            ward.settle(1)
    ward.pay(60.0)
    ward.settle(1)
    assert ward.ledger.show("ward-7")[0].spent == GDP(60.0)


def test_what_fails_for_black_images_is_not_paid_for(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a stream is opened its first nights are drawn of black images; its own are read."""
    ward.put(well=5, ill=5)
    for night in (1, 2):
        drawn = iter([*[settling.draw_night] * (night - 1), None])
        with monkeypatch.context() as patch:
            patch.setattr(settling, "draw_night", lambda *a, drawn=drawn, **b: next(drawn)(*a, **b))
            with pytest.raises(TypeError, match="'NoneType' object is not callable"):
                ward.settle(1)
        assert ward.ledger.show("ward-7")[0].spent is None
    junk = ward.folder / "ward" / "ill" / "junk.png"
    junk.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\xff" * 90)  # the images are read before, too
    with pytest.raises(DatasetError, match="Nothing was charged"):
        ward.settle(1)
    assert ward.ledger.show("ward-7")[0].spent is None
    junk.unlink()
    assert tonight(ward.night(1)) == [5, 5]


def test_after_the_horizon_another_stream_follows(ward: Ward) -> None:
    """One line with the way out; the stream that follows pays nothing and joins the means."""
    short = "[stream]\nhorizon = 2\nopening = 80.0\n"
    ward.write(stream=short)
    for day in (1, 2):
        ward.put(well=4, ill=5)
        last = ward.night(day)
    with pytest.raises(BudgetError, match=r"2 nights; .*follows = 'nightly'"):
        ward.settle(3)
    on, follows = CONFIG.replace('"nightly"', '"onwards"'), short + 'follows = "nightly"\n'
    ward.write(config=on.replace("budget = 20.0", "budget = 25.0"), stream=follows)
    with pytest.raises(LedgerError, match="no more than that"):
        ward.settle(3)
    ward.write(config=on + "eta = 1e-5\n", stream=follows)
    with pytest.raises(MismatchError, match="so eta must be 1e-06"):
        ward.settle(3)
    ward.write(config=on, stream=follows)
    ward.put(well=1, ill=5)
    found = ward.night(3)
    assert tonight(found) == [1, 5]
    well, ill = found["classes"]
    assert (well["point"], ill["point"] is None) == (None, False)
    before = [row["point"] for row in last["classes"]]
    np.testing.assert_allclose(well["joined"]["point"], before[0], rtol=1e-9)
    assert (ill["joined"]["n"], well["joined"]["n"]) == (15, 8)
    assert ill["joined"]["point"] not in (before[1], ill["point"])
    assert ward.ledger.show("ward-7")[0].spent == GDP(20.0)
    paid = "20-GDP, once for all nights of the stream, by 'nightly', which it follows"
    assert dict(found["statement"])["Charged to the account"] == paid
    ward.put(well=3)
    assert ward.night(4)["classes"][0]["joined"]["n"] == 12


# --- what is kept between nights --------------------------------------------------------------


def test_sums_are_their_owners_and_are_made_again(ward: Ward) -> None:
    """Files are 0600; a lost or changed one is made again to the last bit; else it is one line."""
    for day in range(1, 5):
        ward.put(well=2, ill=3)
        ward.settle(day)
    place = sums_folder(ward.ledger, ward.stream)
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}
    files = sorted(place.glob("*.sums"))
    assert [path.name.split("-")[0] for path in files] == ["3", "4"]
    assert place.stat().st_mode & 0o777 == 0o700
    ward.put(well=2)
    kept = ward.folder / "kept"
    shutil.copytree(ward.folder, kept)
    expected = next_sums(ward, 5)
    for damage in ("changed", "lost"):
        twin = Ward(kept.with_name(damage), made=100)
        shutil.copytree(kept, twin.folder, dirs_exist_ok=True)
        (path,) = sums_folder(twin.ledger, twin.stream).glob("4-*")
        found = path.read_bytes()
        path.unlink() if "lost" in damage else path.write_bytes(found[:-9] + b"x" * 9)
        assert next_sums(twin, 5) == expected
    for path in place.glob("5-*"):
        path.unlink()
    assert tonight(ward.night(6)) == [0, 0]
    next(ward.folder.glob("ward/*/*.png")).unlink()
    assert tonight(ward.night(7)) == [0, 0]
    (path,) = place.glob("7-*")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(LedgerError, match=r"private sums .* not there to make them again"):
        ward.settle(8)


def test_what_a_killed_process_left_of_sums_goes(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of private sums that was half written goes as whole ones do, two nights later."""
    ward.put(well=2, ill=3)
    ward.settle(1)
    place = sums_folder(ward.ledger, ward.stream)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda *_: os._exit(9))
        in_child(lambda: ward.settle(2))
    (left,) = place.glob(".*.part")
    assert left.stat().st_mode & 0o777 == 0o600
    ward.settle(2)
    ward.settle(3)
    assert left.exists()
    ward.settle(4)
    assert sorted(path.name.partition("-")[0] for path in place.iterdir()) == ["3", "4"]


def test_a_stored_night_is_the_answer_whatever_is_there(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Asked for again it says how many files are new, at most, and nothing of what goes wrong."""
    ward.put(well=5, ill=5)
    given = ward.settle(1)
    ward.put(well=2)
    ledger, root = ("--ledger", str(ward.folder / "ledger.sqlite")), str(ward.folder)
    asked = ["release", "--config", str(ward.folder / "night.toml"), "--run-key", "2026-03-01"]
    asked += [*ledger, "--data-root", root, "--out", str(ward.folder / "out")]
    assert main(asked) == 0
    assert "up to 2 new files in the folder" in " ".join(capfd.readouterr().out.split())
    with monkeypatch.context() as patch:
        patch.setattr(settling, "find_unread", lambda *_: Path("miller-7.png").stat())
        assert main(asked) == 0
    (ward.folder / "ward").rename(ward.folder / "away")
    assert main(asked) == 0
    said = capfd.readouterr()
    assert said.err == ""
    assert "new file" not in said.out
    assert "already released" in said.out
    (document,) = (ward.folder / "out" / "release").glob("*.json")
    assert [document.read_bytes()] == given
    assert str(ward.folder) not in document.read_text(encoding="utf-8")


# --- killed, started twice --------------------------------------------------------------------


def test_two_starts_publish_the_same(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of two starts of a night commits first, both give its bytes; so does a third.

    The second comes while the first has reserved its night and not drawn it, and sees an image
    more, which enters on the next night, or the same images, or none.
    """
    real, seen = settling.reserve_night, list[list[bytes]]()
    last: list[Path] = []
    store = find_place(ward.folder / "store")  # which both may use at once
    first = [False]

    def second(ledger: Ledger, *args: Any, **told: Any) -> Any:
        held = real(ledger, *args, **told)
        if not first[0]:
            return held
        first[0] = False
        if len(seen) == 0:
            ward.put(well=1)
        if len(seen) == 2:
            for path in last:
                path.unlink()
        seen.append(ward.settle(day, store))
        return held

    monkeypatch.setattr(settling, "reserve_night", second)
    for day in (1, 2, 3):
        last, first[0] = ward.put(well=3, ill=2), True
        assert ward.settle(day, store) == seen[-1] == ward.settle(day, store)
    assert [tonight(json.loads(found[-1])) for found in seen] == [[3, 2], [4, 2], [3, 2]]
    assert len(stored_nights(ward.ledger, ward.stream)) == 3


def test_a_night_is_of_the_units_that_were_claimed(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that saw an image more than one that claimed before it and was killed leaves it."""
    real, again = settling.reserve_night, [False]

    def late(*args: Any, units: Sequence[bytes], labels: Sequence[str], **told: Any) -> Any:
        if again[0]:
            return real(*args, units=units, labels=labels, **told)
        again[0] = True
        real(*args, units=units[:-1], labels=labels[:-1], version=told["version"])
        return real(*args, units=units, labels=labels, **told)

    ward.put(well=5, ill=5)
    monkeypatch.setattr(settling, "reserve_night", late)
    assert tonight(ward.night(1)) == [5, 4]
    assert tonight(ward.night(2)) == [0, 1]


STEPS = ("entered_on", "write_sums", "reserve_night", "make_night", "commit_night", "forget_sums")


def test_killed_anywhere_every_promise_holds(ward: Ward) -> None:
    """After kill -9 before or after any step: one charge, each image once, the bytes that were out.

    Then the images that the night had claimed are gone, as in a folder that is emptied: it is
    finished all the same, before the next one, from what was kept.
    """
    ward.put(well=5, ill=5)
    ward.settle(1)
    entered = np.array([5, 5])
    for number, (step, after) in enumerate(itertools.product(STEPS, (False, True))):
        day = 2 + 2 * number
        mine = ward.put(well=1 + number % 3, ill=2)
        images = np.array([1 + number % 3, 2])

        def run(step: str = step, after: bool = after, day: int = day) -> None:
            work = getattr(settling, step)

            def die(*args: Any, **told: Any) -> Any:
                if after:
                    work(*args, **told)
                os.kill(os.getpid(), signal.SIGKILL)

            setattr(settling, step, die)
            ward.settle(day)

        assert in_child(run) == -signal.SIGKILL
        stream = ward.stream
        claimed = stream.latest == f"2026-03-{day:02d}"
        assert claimed == (STEPS.index(step) + after > STEPS.index("reserve_night"))
        for path in mine if claimed else ():
            path.unlink()
        documents = [json.loads(found) for found in ward.settle(day + 1)]
        entered += images
        assert [row["n_so_far"] for row in documents[-1]["classes"]] == entered.tolist()
    nights = stored_nights(ward.ledger, ward.stream)
    histories = read_histories(document_of(night.result) for night in nights)
    assert [found.nights[-1].n_so_far for found in histories] == entered.tolist()
    (row,) = ward.ledger.show("ward-7")
    assert (row.spent, row.releases, row.unfinished) == (GDP(20.0), 1, 0)


# --- on a schedule ----------------------------------------------------------------------------


def test_serving_a_stream(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missed nights take none of the horizon, a settled one is skipped, the last one ends it."""
    from tests.cli.scheduled import on_schedule

    ward.write(stream="[stream]\nhorizon = 3\nopening = 80.0\n")
    ward.put(well=5, ill=5)
    ward.settle(2)
    clock, ran = [datetime(2026, 3, 1, 12, tzinfo=UTC)], list[str]()

    def sleep(seconds: float) -> None:
        asleep = 2.5 * 86400 if clock[0].day == 3 else 0.0
        clock[0] += timedelta(seconds=seconds + asleep)

    def night(job: ReleaseJob) -> str:
        ran.append(str(job.settings.run_key))
        ward.settle(int(ran[-1][-2:]))
        return "released"

    monkeypatch.setenv("COVDP_LEDGER", str(ward.folder / "ledger.sqlite"))
    on_schedule(monkeypatch, lambda: clock[0], sleep, night)
    config, out = ward.folder / "night.toml", ward.folder / "out"
    options = {"config": config, "out": out, "data-root": ward.folder}
    tokens = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    assert main(["serve", *tokens]) == 2
    said = capsys.readouterr()
    assert "2026-03-02 02:00 UTC is skipped: the ledger holds its release" in said.out
    assert ran == ["2026-03-03", "2026-03-06"]
    (line,) = said.err.splitlines()
    assert "has had its 3 nights" in line
    assert ward.ledger.show("ward-7")[0].releases == 1
