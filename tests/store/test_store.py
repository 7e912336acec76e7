"""The store: images are read once, resumed, the same to the last bit whoever works, and private."""

import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian
from sample_dicom import write_dicom

from covdp.arrays import ImageArray
from covdp.cli import main
from covdp.datasets import ImageSource, find_card, npz, open_dataset
from covdp.datasets.source import MemoryReader, Selection
from covdp.descriptors import describe, domain, verify
from covdp.errors import ConfigError, DatasetError, OutputError, PrivacyError
from covdp.experiments import MAIN, Run, load_experiments, run_experiment
from covdp.ledger import init_ledger
from covdp.parallel import limited_to
from covdp.privacy import GDP
from covdp.publish import load_release, release_once
from covdp.results import read_rows
from covdp.store import (
    Place,
    Plan,
    fill,
    find_place,
    lease,
    make_plan,
    plan,
)
from tests.tools.children import in_child
from tests.tools.patience import PATIENCE
from tests.tools.trace import SeenCall, Watcher

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

FILL = import_module("covdp.store.fill")
NPZ = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["well", "ill", "odd"]\n'
SYNTAXES = (ImplicitVRLittleEndian.name, ExplicitVRLittleEndian.name)
FOLDER = 'kind = "folder"\nchannels = 1\nclasses = ["well", "ill"]\n'


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch, shard_images: Callable[[int], None]) -> None:
    """Cut shards at 64 images, and read them in chunks of 10, blocks of 3."""
    shard_images(64)
    monkeypatch.setattr(FILL, "READ_BYTES", 10 * 144)
    monkeypatch.setattr(FILL, "THREAD_BYTES", 3 * 144)


def pictures(n: int, seed: int = 0) -> ImageArray:
    """Return n gray images of 12×12 pixels."""
    return np.random.default_rng(seed).integers(0, 256, (n, 12, 12), dtype=np.uint8)


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    """Make a data root with 300 images in an npz, in three classes and two splits, and its card."""
    images, labels = pictures(300), np.arange(300) % 3
    arrays = {}
    for split, part in (("train", slice(200)), ("test", slice(200, 300))):
        arrays |= {f"{split}_images": images[part], f"{split}_labels": labels[part]}
    np.savez_compressed(tmp_path / "ward.npz", **arrays)
    (tmp_path / "ward.toml").write_text(NPZ)
    return tmp_path


def folder(root: Path, n: int = 90) -> Path:
    """Make a data root with n pictures in two classes, and return the path of its card."""
    for number, image in enumerate(pictures(n)):
        place = root / "scans" / ("ill" if number % 3 else "well")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"miller-{number:03}.png")
    (root / "scans.toml").write_text(FOLDER)
    return root / "scans.toml"


def planned(root: Path, card: str = "ward.toml") -> Plan:
    """Return the pass over all images of a card."""
    return make_plan(open_dataset(root / card, root), descriptor="oct5")


def contents(place: Place) -> dict[str, bytes]:
    """Return all files of a place."""
    return {name: place.read(name) for name in place.names()}


def in_turn(work: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Make shards one after another in an order of their own."""
    return (work(*call) for call in random.Random(1).sample(list(calls), len(calls)))


def test_what_is_read_back_is_what_describe_gives(ward: Path) -> None:
    """Each class has the descriptors of its images in the order of the source, bit for bit."""
    source = open_dataset(ward / "ward.toml", ward)
    filled = fill(planned(ward), find_place(ward / "store"))
    stored = filled.stored
    assert (filled.images, stored.counts, stored.units) == (300, (100,) * 3, (100,) * 3)
    for label in range(3):
        records = stored.records(label)
        wanted = describe(np.concatenate(list(source.chunks(label=label))))
        for _ in range(2):  # as often as they are asked for
            np.testing.assert_array_equal(np.concatenate(list(records)), wanted)
        assert records.n == 100
        assert len(set(_cut(b"".join(stored.contents(label))))) == 100


@pytest.mark.addons
@pytest.mark.parametrize("workers", [None, in_turn])
def test_a_pass_says_what_share_of_its_work_was_decoding(
    tmp_path: Path, workers: Callable[..., Any] | None
) -> None:
    """By format of pictures, by transfer syntax of DICOM; none where all is there."""
    folder(tmp_path)
    for path in [*tmp_path.rglob("*.png")][::2]:
        Image.open(path).save(path.with_suffix(".jpg"))
        path.unlink()
    for number, image in enumerate(pictures(6)):
        place = tmp_path / "series" / ("ill" if number % 2 else "well") / f"{number}.dcm"
        place.parent.mkdir(parents=True, exist_ok=True)
        syntax = ImplicitVRLittleEndian if number < 3 else ExplicitVRLittleEndian
        write_dicom(place, image, syntax=syntax)
    (tmp_path / "series.toml").write_text(FOLDER.replace("folder", "dicom"))
    names = {"scans.toml": {"PNG", "JPEG"}, "series.toml": set(SYNTAXES)}
    for name, wanted in names.items():
        place = find_place(tmp_path / name.replace(".toml", "-store"))
        found = fill(planned(tmp_path, name), place, workers).decoding
        assert set(found) == wanted
        assert min(found.values()) > 0.0
        assert sum(found.values()) < 1.0
        assert fill(planned(tmp_path, name), place, workers).decoding == {}


def test_a_plan_holds_a_few_bytes_an_image(
    tmp_path: Path, shard_images: Callable[[int], None]
) -> None:
    """A pass over n images is planned in less than 15·n bytes, and a megabyte."""
    shard_images(1 << 14)
    n = 600_000
    images, labels = np.zeros((n, 1, 1), np.uint8), (np.arange(n) % 3).astype(np.uint8)
    np.savez(tmp_path / "ward.npz", train_images=images, train_labels=labels)
    (tmp_path / "ward.toml").write_text(NPZ)
    tracemalloc.start()
    found = planned(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 15 * n + 1_000_000
    np.testing.assert_array_equal(found.chosen.rows, np.arange(n))
    np.testing.assert_array_equal(found.chosen.units, np.arange(n) // 3)
    assert found.chosen.count_units(3) == found.source.counts() == (n // 3,) * 3


@pytest.mark.parametrize("most", [1, 2, 5, 40])
def test_shards_are_cut_between_units(most: int) -> None:
    """Shards are as long as they may be, whole units, and longer only where one unit is."""
    rng = np.random.default_rng(0)
    labels = np.sort(rng.integers(0, 3, 100)).astype(np.int8)
    units = np.sort(rng.integers(0, 30, 100))
    ends = plan._cut(Selection(np.arange(100), labels, units), most).tolist()
    of_unit = list(zip(labels.tolist(), units.tolist(), strict=True))
    assert ends[-1] == 100
    for start, end in itertools.pairwise([0, *ends]):
        assert end == 100 or of_unit[end - 1] != of_unit[end]
        assert end - start <= most or len(set(of_unit[start:end])) == 1
        longer = next(
            (x for x in range(end + 1, 101) if x == 100 or of_unit[x - 1] != of_unit[x]), 0
        )
        assert not longer or longer - start > most


def _cut(digests: bytes) -> list[bytes]:
    return [digests[start : start + 16] for start in range(0, len(digests), 16)]


@pytest.mark.parametrize("most", [64, 3])
def test_contents_depend_on_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard_images: Callable[[int], None], most: int
) -> None:
    """Units in another order, and images of one, are the same; of other units they are others."""
    shard_images(most)
    monkeypatch.setattr(sys.modules["covdp.store.stored"], "DIGESTS_AT_ONCE", 5)
    card = find_card("tiles").model_copy(update={"classes": ("all",)})
    zeros = np.zeros(12, np.int64)
    images, whose = pictures(12), np.array([b"a", b"b", b"a", b"c", *[b"d"] * 8])
    order = np.random.default_rng(2).permutation(12)

    def known(images: ImageArray, whose: np.ndarray | None) -> bytes:
        source = ImageSource(card, (12, 12), zeros, zeros, MemoryReader(images), people=whose)
        made = make_plan(source, descriptor="oct5")
        stored = fill(made, find_place(f"memory://contents/{len(made.keys)}")).stored
        return b"".join(stored.contents(0))

    assert known(images[order], None) == known(images, None)
    assert known(images[order], whose[order]) == known(images, whose)
    assert len(known(images, whose)) == 4 * 16
    assert known(images[order], whose) != known(images, whose)
    twice = np.concatenate([images[:11], images[:1]])
    assert known(twice, None) != known(images, None)
    assert len(known(twice, None)) == 12 * 16


def test_bits_depend_neither_on_who_works_nor_on_the_order(tmp_path: Path) -> None:
    """One thread, two, five, and workers that get shards in any order write the same files."""
    folder(tmp_path)
    found = []
    for number, threads in enumerate((1, 2, 5)):
        with limited_to(threads):
            place = find_place(tmp_path / f"store-{number}")
            fill(planned(tmp_path, "scans.toml"), place)
        found.append(contents(place))
    place = find_place(tmp_path / "workers")
    fill(planned(tmp_path, "scans.toml"), place, in_turn)
    assert len(found[0]) == 2
    assert found == [contents(place)] * 3


def test_run_again_there_is_nothing_to_do(ward: Path) -> None:
    """A second pass describes no image and gives the same."""
    first, again = (fill(planned(ward), find_place(ward / "store")) for _ in range(2))
    assert (first.images, again.images) == (300, 0)
    assert again.stored == first.stored


def test_an_image_replaced_under_its_old_time_is_noticed(tmp_path: Path) -> None:
    """Same name, size and time of change of the content: its shard is another all the same."""
    folder(tmp_path)
    before = planned(tmp_path, "scans.toml").keys
    file = next(path for path in sorted(tmp_path.rglob("*.png")))
    content, found = file.read_bytes(), file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert file.stat().st_mtime_ns == found.st_mtime_ns
    changed = [a != b for a, b in zip(before, planned(tmp_path, "scans.toml").keys, strict=True)]
    assert sum(changed) == 1


def test_a_file_in_one_stream_is_unpacked_once(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All classes of an npz come from one pass over each of its members."""
    made = planned(ward)
    opened = []
    reader = made.source.read
    counting = replace(reader, read=lambda *a: (opened.append(len(a[0])), reader.read(*a))[1])
    source = replace(made.source, read=counting)
    fill(replace(made, source=source), find_place(ward / "store"))
    assert opened == [300]


def die_at_the_third(write: Callable[..., None]) -> Callable[..., None]:
    """Return what writes into a place, and ends this process by kill -9 when asked a third time."""
    left = [2]

    def killed(place: Place, name: str, content: bytes) -> None:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        write(place, name, content)

    return killed


def test_killed_in_the_middle_it_goes_on_with_the_missing_shards(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After kill -9 in the third of five shards the two that were finished are not made again."""
    place = find_place(ward / "store")
    with monkeypatch.context() as patch:
        patch.setattr(Place, "write", die_at_the_third(Place.write))
        assert in_child(lambda: fill(planned(ward), place)) == -signal.SIGKILL
    before = {name: held for name, held in contents(place).items() if name.endswith(".parquet")}
    assert len(before) == 2
    assert len(place.names()) == 3  # and its lease, which nobody holds
    (ward / "store" / f".{planned(ward).keys[2]}.0.parquet.0.part").write_bytes(b"half")
    (ward / "store" / "0.task").write_bytes(b"what a pass by workers would have left")
    filled = fill(planned(ward), place)
    assert filled.images == 300 - 2 * 64
    after = contents(place)
    assert len(after) == 5
    assert before.items() <= after.items()
    assert after == contents(_elsewhere(ward))


@pytest.mark.parametrize("address", ["memory://leases", "store"])
def test_what_a_running_pass_needs_is_not_swept(
    ward: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Tasks of another pass stay while it works, and go with the next pass once it has ended."""
    place = find_place(address if "://" in address else ward / address)
    place.prepare()
    with lease(place):
        place.write("0.task", b"of the other pass")
        fill(planned(ward), place, in_turn)
        assert place.read("0.task") == b"of the other pass"
        assert sum(name.endswith(".lease") for name in place.names()) == 1
    fill(planned(ward), place)
    assert {Path(name).suffix for name in place.names()} == {".parquet"}
    place.write("0.task", b"of a pass that was killed")
    place.write("0.lease", b"1700000000")  # elsewhere the time of its last sign of life
    fill(planned(ward), place)
    assert {Path(name).suffix for name in place.names()} == {".parquet"}


def _elsewhere(ward: Path) -> Place:
    """Return a store that one undisturbed pass has filled."""
    place = find_place(ward / "undisturbed")
    fill(planned(ward), place)
    return place


@pytest.mark.parametrize("damage", ["flipped", "short", "empty"])
def test_a_damaged_shard_is_made_again(ward: Path, damage: str) -> None:
    """One byte changed, an end that is missing, or nothing at all: that shard alone is redone."""
    place = find_place(ward / "store")
    fill(planned(ward), place)
    good = contents(place)
    name = min(good)
    content = bytearray(good[name])
    content[len(content) // 2] ^= 1
    bad = {"flipped": bytes(content), "short": good[name][:100], "empty": b""}[damage]
    (ward / "store" / name).write_bytes(bad)
    assert fill(planned(ward), place).images in (64, 300 - 4 * 64)
    assert contents(place) == good


def test_damage_after_the_pass_is_one_clear_error(ward: Path) -> None:
    """A shard that changes between the pass and reading is never taken for what it was."""
    stored = fill(planned(ward), find_place(ward / "store")).stored
    name = stored.shards[1].name
    content = bytearray((ward / "store" / name).read_bytes())
    content[len(content) // 4] ^= 1
    (ward / "store" / name).write_bytes(bytes(content))
    with pytest.raises(OutputError, match="damaged") as caught:
        [list(stored.chunks(label)) for label in range(3)]
    assert name not in str(caught.value)


def test_the_store_is_as_private_as_the_images(ward: Path) -> None:
    """Folders are 0700, files 0600, whatever the umask; names and labels of images are in none."""
    before = os.umask(0)
    try:
        fill(planned(ward), find_place(ward / "new" / "store"))
    finally:
        os.umask(before)
    assert (ward / "new" / "store").stat().st_mode & 0o777 == 0o700
    modes = {file.stat().st_mode & 0o777 for file in (ward / "new" / "store").iterdir()}
    assert modes == {0o600}
    assert all(
        re.fullmatch(r"[0-9a-f]{64}\.[0-9a-f]{32}\.parquet", file.name)
        for file in (ward / "new" / "store").iterdir()
    )


def test_where_a_store_may_not_lie(ward: Path) -> None:
    """Under the results, in a folder that others can read, or with a password it is refused."""
    for start in ("", "file://", "local://"):
        with pytest.raises(ConfigError, match="as private as the images"):
            find_place(f"{start}{ward}/out/store", out=ward / "out")
    for address in ("", " ", "s3://", "file:", f"simplecache::file://{ward}/out/store"):
        with pytest.raises(ConfigError, match="one folder or one address"):
            find_place(address, out=ward / "out")
    with pytest.raises(ConfigError, match="password") as caught:
        find_place("s3://user:secret@bucket/folder")
    assert "secret" not in str(caught.value)
    (ward / "open").mkdir(mode=0o755)
    (ward / "open" / "file").touch()
    with pytest.raises(OutputError, match="chmod 700"):
        fill(planned(ward), find_place(ward / "open"))


def test_a_shard_is_known_by_all_that_decides_it(tmp_path: Path) -> None:
    """Another descriptor, η, card key or file time is another shard; a title or place is not."""
    card = folder(tmp_path)
    source = open_dataset(card, tmp_path)
    keys = make_plan(source, descriptor="oct5").keys

    def changed(**fields: object) -> bool:
        other = replace(source, card=source.card.model_copy(update=fields))
        return make_plan(other, descriptor="oct5").keys != keys

    assert make_plan(source, descriptor="oct5").keys == keys
    assert make_plan(source, descriptor="grid9").keys != keys
    assert make_plan(source, descriptor="oct5", eta=1e-5).keys != keys
    assert changed(fit="pad")
    assert not changed(title="another", public=True)
    first = next((tmp_path / "scans" / "ill").iterdir())
    os.utime(first, (1, 1))
    assert len(set(keys) - set(make_plan(source, descriptor="oct5").keys)) == 1


def person_source(people: Sequence[str], labels: Sequence[int]) -> ImageSource:
    """Return images of persons, in memory."""
    tiles = find_card("tiles")
    n = len(people)
    return ImageSource(
        tiles, (12, 12), np.array(labels), np.zeros(n, np.int64), MemoryReader(pictures(n)),
        people=np.array([name.encode() for name in people]),
    )  # fmt: skip


def test_no_person_is_split(tmp_path: Path) -> None:
    """All images of a person lie in one shard, though persons have up to more than it holds."""
    rng = np.random.default_rng(4)
    people, labels = list[str](), list[int]()
    for number, images in enumerate([*rng.integers(1, 40, 30), 100]):
        people += [f"p{number}"] * int(images)
        labels += [number % 3] * int(images)
    source = person_source(people, labels)
    filled = fill(make_plan(source, descriptor="oct5"), find_place(tmp_path / "store"))
    stored = filled.stored
    assert stored.units == source.units()
    assert sum(stored.units) == 31
    for label in range(3):
        seen = list[int]()
        for chunk in stored.chunks(label):
            assert not set(seen) & set(chunk.units.tolist())
            seen += chunk.units.tolist()
        assert seen == sorted(seen)
        assert len(set(seen)) == stored.units[label] == stored.records(label, _first).n
        assert sum(map(len, stored.records(label, _first))) == stored.units[label]


def _first(points: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the first image of each unit."""
    return points[np.unique(units, return_index=True)[1]]


def test_the_bound_is_checked_chunk_by_chunk(ward: Path) -> None:
    """Read in chunks, each class has the row that `verify` gives of all its descriptors at once."""
    known = domain("oct5", height=12, width=12)
    stored = fill(planned(ward), find_place(ward / "store")).stored
    for label in range(3):
        points = np.concatenate(list(stored.records(label)))
        whole = verify([points], known, label, "")
        assert verify(stored.records(label), known, label, "") == whole


def test_an_image_that_cannot_be_read_ends_the_pass_and_keeps_what_is_done(tmp_path: Path) -> None:
    """The error names the file; shards before it stay, and once it is mended the rest is made."""
    folder(tmp_path, 200)
    bad = sorted((tmp_path / "scans" / "ill").iterdir())[-1]
    good = bad.read_bytes()
    place = find_place(tmp_path / "store")
    bad.write_bytes(good[:60])
    with pytest.raises(DatasetError, match=bad.name):
        fill(planned(tmp_path, "scans.toml"), place)
    kept = set(place.names())
    assert kept
    bad.write_bytes(good)
    fill(planned(tmp_path, "scans.toml"), place)
    assert kept < set(place.names())


def test_a_store_elsewhere_is_the_same(ward: Path) -> None:
    """At an address of fsspec the same shards are written, found again, and read back."""
    here, there = find_place(ward / "store"), find_place("memory://test-store/a")
    first, second = fill(planned(ward), here), fill(planned(ward), there, in_turn)
    assert contents(here) == contents(there)
    assert fill(planned(ward), there).images == 0
    for label in range(3):
        for a, b in zip(first.stored.chunks(label), second.stored.chunks(label), strict=True):
            np.testing.assert_array_equal(a.points, b.points)


def test_a_task_that_was_changed_is_not_opened(ward: Path) -> None:
    """A worker opens a pickle only if its content has the digest in its name."""
    place = find_place(ward / "store")

    def changed(work: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        for (address,) in calls:
            Path(address).write_bytes(b"cos\nsystem\n(S'touch opened'\ntR.")
            yield work(address)

    with pytest.raises(OutputError, match="was changed"):
        fill(planned(ward), place, changed)
    assert place.names() == []


def test_a_store_that_does_not_answer_is_refused_in_time(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a server listens and says nothing, one line comes before any image is read."""
    pytest.importorskip("aiohttp")  # what fsspec asks web servers with; it comes with S3
    monkeypatch.setattr("covdp.store.place.ADDRESS_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/store"
        with pytest.raises(OutputError, match=r"cannot reach the store .* \(no answer in 0.5 s\)"):
            fill(planned(ward), find_place(address))


def test_failures_of_a_store_tell_no_secret(ward: Path) -> None:
    """Where fsspec fails, the error names the address and the kind of failure alone."""
    with pytest.raises(OutputError, match="nosuch://there") as caught:
        fill(planned(ward), find_place("nosuch://there?key=secret"))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


RELEASE = """\
name = "nightly"
population = "ward-7"
dataset = "{card}"
labels = "public"
budget = 0.5
run_key = "monday"
"""


@pytest.fixture
def released(ward: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """Give a function that releases about the ward, its private stores in ``ward/stores``."""
    monkeypatch.setenv("COVDP_STORE", str(ward / "stores"))
    (ward / "release.toml").write_text(RELEASE.format(card=ward / "ward.toml"))
    book = init_ledger(ward / "ledger.sqlite")
    book.set_budget("ward-7", GDP(1.0))
    config = load_release(ward / "release.toml")
    return lambda store=None: release_once(config, book, ward, store)


def test_a_release_unpacks_its_file_once(
    ward: Path, released: Callable[..., bytes], watch: Watcher
) -> None:
    """Digests and descriptors of all classes come from one pass, and asked again from another."""
    unpacked = watch(npz._blocks)
    first = released()
    assert [call.given["split"] for call in unpacked] == ["train", "test"]
    assert released() == first


def test_images_in_another_order_are_the_same_to_the_ledger(
    ward: Path, released: Callable[..., bytes]
) -> None:
    """Read in another order a release is found again; with another image it is another."""
    first = released()
    images, labels = pictures(300)[::-1], (np.arange(300) % 3)[::-1]
    np.savez(ward / "ward.npz", train_images=images, train_labels=labels)
    assert released() == first
    book = init_ledger(ward / "ledger.sqlite")
    assert book.show("ward-7")[0].releases == 1
    images = images.copy()
    images[0, 0, 0] ^= 1
    np.savez(ward / "ward.npz", train_images=images, train_labels=labels)
    assert released() != first
    assert book.show("ward-7")[0].releases == 2


def of_the_ward(described: Sequence[SeenCall]) -> int:
    """Return how many images of the ward's size were described, without a black one of ours."""
    images = [call.given["images"] for call in described]
    return sum(
        len(each) for each in images if each.shape[1:] == pictures(1).shape[1:] and each.any()
    )


def test_a_private_store_goes_with_its_release(
    ward: Path, released: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, watch: Watcher
) -> None:
    """What a release keeps is there until it is committed; one that failed goes on from it."""
    described = watch(describe)
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["covdp.publish.release"], "make_document", lambda *_: 1 / 0)
        with pytest.raises(PrivacyError):
            released()
    assert of_the_ward(described) == 300
    assert (ward / "stores").stat().st_mode & 0o777 == 0o700
    (kept,) = (ward / "stores").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o700
    released()
    assert of_the_ward(described) == 300
    assert list((ward / "stores").iterdir()) == []


def test_a_store_among_the_results_is_refused_before_there_are_any(
    ward: Path, released: Callable[..., bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2, and no folder that was not there before."""
    out, config = ward / "out", ward / "release.toml"
    tokens = ["release", "--config", str(config), "--ledger", str(ward / "ledger.sqlite")]
    assert main([*tokens, "--out", str(out), "--store", str(out / "store")]) == 2
    assert "as private as the images" in capsys.readouterr().err
    assert not out.exists()


def test_masks_are_obeyed_and_counted_in_the_domain(tmp_path: Path) -> None:
    """With masks a store holds masked descriptors, and a release draws with the masked domain."""
    n = 60
    images, regions = pictures(n), (pictures(n, seed=1) > 128).astype(np.uint8)
    for number in range(n):
        name = f"{'ill' if number % 3 else 'well'}/{number:02}.png"
        for place, pixels in (("scans", images[number]), ("masks", 255 * regions[number])):
            (tmp_path / "scans" / place / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / "scans" / place / name)
    keys = 'pattern = "scans/{class}/*.png"\nmasks = "masks/{class}/*.png"\n'
    (tmp_path / "scans.toml").write_text(FOLDER + keys)
    made = planned(tmp_path, "scans.toml")
    assert made.source.masks is not None
    stored = fill(made, find_place(tmp_path / "store")).stored
    well = np.arange(n) % 3 == 0
    for label, mine in enumerate((well, ~well)):
        wanted = describe(images[mine], masks=regions[mine])
        np.testing.assert_array_equal(np.concatenate(list(stored.records(label))), wanted)
    (tmp_path / "release.toml").write_text(
        RELEASE.format(card=tmp_path / "scans.toml") + 'descriptor = "grid9"\nmechanism = "ewg"\n'
    )
    book = init_ledger(tmp_path / "ledger.sqlite")
    book.set_budget("ward-7", GDP(1.0))
    document = json.loads(release_once(load_release(tmp_path / "release.toml"), book, tmp_path))
    assert document["settings"]["masked"]
    known = domain("grid9", height=12, width=12, masked=True)
    for row in document["classes"]:
        assert row["costs"][0]["sensitivity"] >= known.diameter / row["n"]


def test_a_named_store_is_used_and_stays(ward: Path, released: Callable[..., bytes]) -> None:
    """With a store that `describe` has filled a release reads no image and leaves it there."""
    place = find_place(ward / "store")
    fill(planned(ward), place)
    before = contents(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FILL, "describe", lambda *_: 1 / 0)
        document = json.loads(released(place))
    assert [row["n"] for row in document["classes"]] == [100] * 3
    assert contents(place) == before


def test_check_lists_what_cannot_be_used_and_a_card_can_leave_it_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each file at fault is named with its reason; left out, the rest of the ward is described."""
    card = folder(tmp_path, 40)
    ill = sorted((tmp_path / "scans" / "ill").iterdir())
    ill[3].write_bytes(ill[3].read_bytes()[:60])
    ill[5].write_bytes(b"no picture [red]")
    Image.fromarray(pictures(1)[0][:7]).save(tmp_path / "scans" / "well" / "miller-999.png")
    call = ["describe", "--dataset", str(card), "--data-root", str(tmp_path)]
    call += ["--store", str(tmp_path / "store")]
    assert main(call) == 2
    assert main([*call, "--check", "--json"]) == 0
    faults = json.loads(capsys.readouterr().out)["faults"]
    wrong = [f"ill/{ill[3].name}", f"ill/{ill[5].name}", "well/miller-999.png"]
    assert [fault["file"] for fault in faults] == wrong
    assert all(fault["reason"] and "miller" not in fault["reason"] for fault in faults[:2])
    assert main([*call, "--check"]) == 0
    assert all(name in capsys.readouterr().out for name in wrong[:1])
    listed = (tmp_path / "store" / "excluded.txt").read_bytes()
    assert (tmp_path / "store" / "excluded.txt").stat().st_mode & 0o777 == 0o600
    (tmp_path / "scans" / "excluded.txt").write_bytes(listed)
    card.write_text(FOLDER + 'exclude = "excluded.txt"\n')
    assert main([*call, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["images"], found["described"]) == (38, 38)
    assert main([*call, "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["faults"] == []
    assert (tmp_path / "store" / "excluded.txt").read_bytes() == listed


S3 = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
print("port", server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.mark.slow
def test_a_store_in_s3_is_the_same(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a bucket, with credentials from the environment, the same shards are written and read."""
    fs = pytest.importorskip("s3fs")
    monkeypatch.setattr("covdp.store.place.ADDRESS_SECONDS", PATIENCE)
    with subprocess.Popen(
        [sys.executable, "-c", S3], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        said = next(line for line in server.stdout if line.startswith("port"))
        address = f"http://127.0.0.1:{int(said.split()[1])}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # the server has gone at the last request
        fs.S3FileSystem().mkdir("bucket")
        here, there = find_place(ward / "store"), find_place("s3://bucket/ward")
        fill(planned(ward), here)
        filled = fill(planned(ward), there, in_turn)
        assert contents(here) == contents(there)
        assert fill(planned(ward), there).images == 0
        assert sum(map(len, filled.stored.records(0))) == 100
        server.communicate("")
    with pytest.raises(OutputError, match="s3://bucket") as caught:
        find_place("s3://bucket/ward").names()
    assert "secret" not in str(caught.value)


@pytest.mark.slow
def test_a_killed_worker_costs_its_shard_only(
    tmp_path: Path, shard_images: Callable[[int], None]
) -> None:
    """Of two workers of Dask one is killed in the middle: every shard is made, the same bits."""
    from distributed import Client, LocalCluster
    from distributed import as_completed as completed

    killed = tmp_path / "killed"
    shard_images(4)
    folder(tmp_path, 80)
    made, place = planned(tmp_path, "scans.toml"), find_place(tmp_path / "store")
    fill(made, find_place(tmp_path / "undisturbed"))

    def by_workers(work: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        addresses = [address for (address,) in calls]
        middle = addresses[len(addresses) // 2]

        def work_or_die(address: Any) -> Any:
            if address == middle and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return work(address)

        for future in completed(client.map(work_or_die, addresses, pure=False)):
            yield future.result()

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        filled = fill(made, place, by_workers)
    assert killed.exists()
    assert len(made.keys) > 10
    assert filled.images == 80
    assert contents(place) == contents(find_place(tmp_path / "undisturbed"))


def test_a_run_reads_its_images_from_a_store_that_goes_with_it(
    ward: Path, monkeypatch: pytest.MonkeyPatch, watch: Watcher
) -> None:
    """One opening and one pass for all steps; bound, records and table come from it, none stays."""
    monkeypatch.setenv("COVDP_STORE", str(ward / "stores"))
    (ward / "ward.toml").write_text(NPZ + "public = true\n")
    config = load_experiments(MAIN, dataset=str(ward / "ward.toml"))[0]
    config = config.model_copy(update={"budgets": (1.0,), "repetitions": 2})
    run = Run(config, ward, ward / "out")
    described, opened, filled = watch(describe), watch(open_dataset), watch(fill)
    table = run_experiment(run)
    assert (len(filled), len(opened)) == (1, 1)  # its shards are digested by `fill`
    assert of_the_ward(described) == 300
    assert set(read_rows(table)["n"]) == {100}
    assert sorted(path.name for path in (run.folder / "samples").iterdir()) == [
        "0.png",
        "1.png",
        "2.png",
    ]
    assert list((ward / "stores").iterdir()) == []
