"""Persons: one record each, whatever they have; what is promised, charged and said of them."""

import hashlib
import json
import math
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sample_documents import document_of
from sample_nights import CONFIG, PERSONS, tonight
from sample_nights import Ward as NightWard

from covdp.datasets import DATASET_KINDS, ImageSource, open_dataset
from covdp.datasets.cards import LocalFilesCard
from covdp.datasets.kind import DatasetKind
from covdp.datasets.listing import Faults
from covdp.datasets.source import MemoryReader, opaque, split_codes
from covdp.descriptors import DESCRIPTORS, describe, domain_of
from covdp.errors import ConfigError, DomainError, MismatchError
from covdp.experiments import Run, load_experiments, run_experiment
from covdp.geometry import MANIFOLDS, Manifold, chart_of, to_chart
from covdp.ledger import Ledger, init_ledger
from covdp.mean import admit, mean, person_records
from covdp.mechanisms import LATTICE
from covdp.privacy import GDP, ZCDP, for_group_as_written, repeat, repeat_as_written
from covdp.publish import load_release, release_once, write_parquet
from covdp.report import build_release_report
from covdp.results import read_record, read_rows
from tests.tools.addons import addon

simulate = addon("papers.simulated:simulate")

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

publishing = sys.modules["covdp.publish.release"]

NAMES = ("Amsel, Jo", "Buchfink, Al", "Drossel, Di", "Elster, Ed", "Gimpel, Flo", "Haeher, Guy")
WHO = np.repeat(NAMES, [1, 5, 2, 1, 3, 2])
LABELS = np.array([0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0])
"""Buchfink and Haeher are in both classes."""


class AlbumCard(LocalFilesCard):
    """A card of images in memory, for these tests."""

    obeys: bool = True


def pictures(n: int, seed: int = 0) -> Any:
    """Return n images of 28×28."""
    return np.random.default_rng(seed).integers(0, 256, (n, 28, 28), dtype=np.uint8)


ALBUM = {"images": pictures(len(WHO)), "labels": LABELS, "who": WHO}


def open_album(card: AlbumCard, path: Path, faults: Faults) -> ImageSource:
    """Open the images in the file ``album.npz``, where there is none those in `ALBUM`."""
    file = path / "album.npz"
    album = dict(np.load(file)) if file.exists() else ALBUM
    n = len(album["images"])
    people = album["who"] if card.unit == "person" and card.obeys else None
    return ImageSource(
        card, (28, 28), album["labels"], split_codes("train", n), MemoryReader(album["images"]),
        people=people, classes_per_person=card.classes_per_person,
    )  # fmt: skip


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a card of persons, a config and a ledger of μ = 1, and register the kind."""
    kind = DatasetKind(AlbumCard, open_album, lambda card, root, size, progress: root)
    monkeypatch.setitem(DATASET_KINDS, "album", kind)
    (tmp_path / "ward.toml").write_text(
        'kind = "album"\nchannels = 1\nclasses = ["well", "ill"]\nunit = "person"\n'
    )
    (tmp_path / "release.toml").write_text(
        f'name = "nightly"\npopulation = "ward-7"\ndataset = "{tmp_path}/ward.toml"\n'
        'labels = "public"\nbudget = 0.5\nrun_key = "monday"\n'
    )
    ledger_of(tmp_path).set_budget("ward-7", GDP(1.0))
    return tmp_path


def ledger_of(ward: Path) -> Ledger:
    """Return the ward's ledger."""
    return init_ledger(ward / "ledger.sqlite")


def add(path: Path, line: str) -> None:
    """Add a line to a file."""
    path.write_text(path.read_text() + line + "\n")


def released(ward: Path) -> dict[str, Any]:
    """Release once and return the document."""
    done = release_once(load_release(ward / "release.toml"), ledger_of(ward), ward)
    return dict(json.loads(done))


# what a person costs


@given(st.integers(1, 12), st.integers(1, 4000).map(lambda n: n / 1000))
def test_several_classes_cost_their_composition_rounded_to_the_private_side(
    g: int, value: float
) -> None:
    """√g·μ and g·ρ of the decimals typed: never below by more than half a unit of the last place.

    Where √g is no fraction, not below at all.
    """
    typed = Fraction(repr(value))
    mu = Fraction(repeat_as_written(GDP(value), g).mu)  # type: ignore[union-attr]
    rho = repeat_as_written(ZCDP(value), g).rho  # type: ignore[union-attr]
    root = math.isqrt(g)
    if root**2 == g:
        assert float(mu) == float(root * typed)
    else:
        assert mu**2 >= g * typed**2
    assert float(mu) == pytest.approx(math.sqrt(g) * value, rel=1e-15)
    assert rho == float(g * typed)
    assert repeat(GDP(value), g).mu >= math.sqrt(g) * value * (1 - 1e-15)
    assert repeat_as_written(GDP(value), 1) == GDP(value)


# one record


SPACES = [
    MANIFOLDS["spd-log-euclidean"](k=5),
    MANIFOLDS["spd-log-cholesky"](k=5),
    MANIFOLDS["spd-affine-invariant"](k=5),
    chart_of(MANIFOLDS["spd-log-euclidean"](k=5)),
    MANIFOLDS["hyperbolic"](dim=3),
]


def points_of(manifold: Manifold, n: int, rng: np.random.Generator) -> Any:
    """Return n points of a manifold."""
    return manifold.exp(manifold.origin, 2 * rng.standard_normal((n, manifold.dim)))


@pytest.mark.parametrize("manifold", SPACES, ids=lambda m: f"{m.name}-{m.point_shape}")
@settings(max_examples=15)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_a_record_is_a_function_of_its_persons_images_alone(
    manifold: Manifold, sizes: list[int], seed: int
) -> None:
    """Other numbers and images of all others leave it, to the last bit; one image is itself."""
    rng = np.random.default_rng(seed)
    images = [points_of(manifold, size, rng) for size in sizes]
    who = np.repeat(np.arange(len(sizes)), sizes)
    found = person_records(np.concatenate(images), who, manifold)
    assert len(found) == len(sizes)
    place = int(rng.integers(len(sizes)))
    others = [points_of(manifold, int(rng.integers(1, 9)), rng) for _ in sizes]
    others[place] = images[place]
    again = person_records(
        np.concatenate(others), np.repeat(np.arange(len(sizes)), [len(x) for x in others]), manifold
    )
    assert (found[place] == again[place]).all()
    space = chart_of(manifold)
    for record, points in zip(found, images, strict=True):
        mine = to_chart(manifold, points)
        if len(mine) == 1:
            assert (record == mine[0]).all()
        reach = space.dist(space.origin, mine).max()
        assert space.dist(space.origin, record) <= reach * (1 + 1e-9)
        if manifold.flat:
            np.testing.assert_allclose(record, mine.mean(axis=0), rtol=0, atol=1e-12 * reach)


EMPTIES = (3, 8)
"""Empty images beside a real one of a person: 19 and 198 means of retina tiles with as many are no
matrices that doubles hold, of 8,078."""
ODD = 351
"""A retina tile whose mean with three empty images is none in log-Cholesky coordinates."""


def colour(images: Any) -> Any:
    """Return gray images as they are in three channels, each with a gain of its own."""
    return (images[..., None] * np.array([1.0, 0.8, 0.5])).astype(np.uint8)


def volumes(images: Any) -> Any:
    """Return gray images as volumes of three slices, the middle one turned."""
    return np.stack([images, images[:, ::-1], images], axis=1)


FORMS = {"oct5": lambda x: x, "grid9": lambda x: x, "grid11": colour, "vol7": volumes}


@cache
def retina() -> Any:
    """Return the tiles of the retina, (8078, 28, 28)."""
    tiles = np.concatenate(list(open_dataset("tiles").chunks(label=1)))
    tiles.setflags(write=False)
    return tiles


def extremes() -> Any:
    """Return images that differ as much as images can, (n, 28, 28)."""
    rows, columns = np.indices((28, 28))
    corner = (rows == 0) & (columns == 0)
    kinds = [rows < 0, corner, rows % 2, columns % 2, (rows + columns) % 2, rows < 14, rows == 9]
    return np.array([255 * kind for kind in kinds], np.uint8)


def masks_of(images: Any, seed: int) -> Any:
    """Return masks for images: of all but every second image a few pixels, of these one."""
    rng = np.random.default_rng(seed)
    found = rng.random(images.shape) < 0.2
    found[..., 0, 0] = True
    found[::2] = False
    found[::2, ..., 0, 0] = True
    return found


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("descriptor", FORMS)
@pytest.mark.parametrize(
    "metric", ["spd-log-cholesky", "spd-log-euclidean", "spd-affine-invariant"]
)
def test_no_images_of_a_person_end_a_release(metric: str, descriptor: str, masked: bool) -> None:
    """Real images beside empty and other extreme ones: each person has a record in the region.

    On a flat manifold it is the mean of the coordinates; and a mean of them can be drawn.
    """
    tiles = retina()[[*range(0, 8078, 400), ODD]]
    odd = FORMS[descriptor](extremes())
    space = MANIFOLDS[metric](k=DESCRIPTORS[descriptor].k)
    shown = odd.shape[1:]
    limit = domain_of(descriptor, shown, manifold=metric, masked=masked)
    persons, who = [], []
    for number, tile in enumerate(FORMS[descriptor](tiles)):
        beside = [np.repeat(odd[:1], copies, axis=0) for copies in EMPTIES]
        beside.append(odd[np.arange(len(odd)) != number % 7])
        persons += [np.concatenate([tile[None], others]) for others in beside]
        who += [3 * number + i for i in range(3)]
    images, whose = np.concatenate(persons), np.repeat(who, [len(one) for one in persons])
    where = masks_of(images[..., 0] if descriptor == "grid11" else images, 4) if masked else None
    points = describe(images, descriptor, masks=where)
    made = person_records(points, whose, space)
    placed = admit(made, domain=limit, manifold=space).placed
    assert len(placed) == len(persons)
    assert np.isfinite(placed).all()
    if space.flat:
        places = to_chart(space, points)
        for number, record in zip(who, made, strict=True):
            np.testing.assert_allclose(record, places[whose == number].mean(axis=0), atol=1e-9)
        np.testing.assert_allclose(placed, made, atol=1e-5)
    drawn = mean(made, GDP(1.0), domain=limit, manifold=space, plan="auto", noise=LATTICE)
    assert np.isfinite(drawn.point).all()


@pytest.mark.slow
@pytest.mark.parametrize("empties", EMPTIES)
def test_every_tile_beside_empty_images_has_a_record(empties: int) -> None:
    """None of 8,078 persons of a retina tile and empty images fails in log-Cholesky coordinates."""
    tiles = retina()
    space = MANIFOLDS["spd-log-cholesky"](k=5)
    points, empty = describe(tiles), describe(np.zeros((1, 28, 28), np.uint8))
    images = np.concatenate([points[:, None], np.repeat(empty[None], len(points), 0).repeat(
        empties, axis=1)], axis=1).reshape(-1, 5, 5)  # fmt: skip
    made = person_records(images, np.repeat(np.arange(len(points)), 1 + empties), space)
    limit = domain_of("oct5", (28, 28), manifold=space.name)
    placed = admit(made, domain=limit, manifold=space).placed
    expected = (to_chart(space, points) + empties * to_chart(space, empty)) / (1 + empties)
    np.testing.assert_allclose(placed, expected, atol=1e-9)


@pytest.mark.parametrize(
    "metric", ["spd-log-cholesky", "spd-log-euclidean", "spd-affine-invariant"]
)
@pytest.mark.parametrize("descriptor", ["oct5", "grid9"])
def test_folders_that_differ_in_one_person_are_both_released(
    ward: Path, metric: str, descriptor: str
) -> None:
    """With a person of four like images, or of a real one and three empty ones: paid and released.

    In log-Cholesky coordinates the second ended every release before noise was drawn.
    """
    tiles = retina()
    add(ward / "release.toml", f'manifold = "{metric}"\ndescriptor = "{descriptor}"')
    for place, images in enumerate([np.repeat(tiles[ODD : ODD + 1], 4, 0), tiles[[ODD] * 4]]):
        images[1:] *= np.uint8(1 - place)
        album = {"images": np.concatenate([images, tiles[:60:10]]),
                 "labels": np.array([0] * 7 + [1] * 3),
                 "who": np.array([*"aaaabbbcde"])}  # fmt: skip
        np.savez(ward / "album.npz", **album)
        document = released(ward)
        assert [row["n"] for row in document["classes"]] == [2, 3]
        assert ledger_of(ward).show("ward-7")[0].releases == place + 1


def test_a_stream_takes_up_a_person_whose_mean_is_no_matrix(tmp_path: Path) -> None:
    """A night with a retina tile and three empty images of one person is drawn and committed.

    In log-Cholesky coordinates it was stuck for as long as the files lay there.
    """
    ward = NightWard(tmp_path)
    ward.write(PERSONS, CONFIG + 'manifold = "spd-log-cholesky"\n')
    ward.pay()
    tiles = retina()
    for place, tile in enumerate(tiles[[0, 400, 800, 1200, 1600, 2000, ODD]]):
        for copy in range(4):
            path = ward.folder / "ward" / "well" / f"w{place}-{copy}.png"
            shown = np.rint(tile * (1.0 - copy / 10.0)) if place < 6 else tile * (copy == 0)
            Image.fromarray(shown.astype(np.uint8)).save(path)
        Image.fromarray(tile).save(ward.folder / "ward" / "ill" / f"i{place}-0.png")
    document = ward.night(1)
    assert tonight(document) == [7, 7]
    assert all(row["coordinates"] is not None for row in document["classes"])


def test_images_of_a_person_that_are_apart_are_refused() -> None:
    """A person who comes twice would be two records, and move a mean by two."""
    manifold = SPACES[0]
    points = points_of(manifold, 4, np.random.default_rng(0))
    for who in (np.array(["a", "b", "a", "a"]), np.array([3, 3, 7, 3])):
        with pytest.raises(DomainError, match="one after another"):
            person_records(points, who, manifold)


def test_where_no_mean_stays_inside_there_is_no_record() -> None:
    """On a sphere a person with several images is refused, one with one image is not."""
    sphere = MANIFOLDS["sphere"](dim=2)
    points = points_of(sphere, 3, np.random.default_rng(0))
    assert (person_records(points, np.arange(3), sphere) == points).all()
    with pytest.raises(DomainError, match="positive curvature"):
        person_records(points, np.array([0, 0, 1]), sphere)


# which images count


def source_of(who: list[int], labels: list[int], splits: list[int], classes: int) -> ImageSource:
    """Return a source of images without pixels."""
    card = AlbumCard(name="x", kind="album", channels=1, classes=("a", "b", "c"), unit="person")
    n = len(who)
    reader = MemoryReader(np.zeros((n, 1, 1), np.uint8))
    return ImageSource(
        card, (1, 1), np.array(labels, np.int64), np.array(splits, np.int64), reader,
        people=np.array([str(x) for x in who]), classes_per_person=classes,
    )  # fmt: skip


IMAGES = st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 1))


@settings(max_examples=60)
@given(
    mine=st.lists(IMAGES, min_size=1, max_size=8),
    others=st.tuples(*2 * [st.lists(IMAGES, max_size=12)]),
    classes=st.integers(1, 3),
    seed=st.integers(0, 9),
)
def test_which_of_my_images_count_does_not_depend_on_others(
    mine: list[Any], others: tuple[list[Any], list[Any]], classes: int, seed: int
) -> None:
    """Whatever others have and wherever it stands: the first classes of mine, at most so many."""
    kept = []
    every_class = [(7, 0, 0), (8, 1, 0), (9, 2, 0)]  # a class without an image is refused
    for rest in others:
        rows = [(6, *image[1:]) for image in mine] + rest + every_class
        order = np.random.default_rng(seed).permutation(len(rows))
        who, labels, splits = zip(*(rows[i] for i in order), strict=True)
        source = source_of(list(who), list(labels), list(splits), classes)
        picked = source.select("train")
        whose = np.array(who)[picked.rows]
        kept.append(sorted(int(order[row]) for row in picked.rows[whose == 6]))
        assert len(set(zip(whose, picked.labels, strict=True))) == sum(source.units("train"))
    assert kept[0] == kept[1]
    allowed = sorted({label for _, label, split in mine if split == 0})[:classes]
    assert kept[0] == [
        i for i, (_, label, split) in enumerate(mine) if split == 0 and label in allowed
    ]


# releases


def test_a_release_takes_a_person_for_a_record(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is averaged is a record a person, n their number, Δ by it; images are counted nowhere.

    Another number of images of one person changes that person's record and no other.
    """
    seen: list[Any] = []
    real = publishing.mean

    def spy(records: Any, *given: Any, **named: Any) -> Any:
        seen.append(np.concatenate(list(records)))
        return real(records, *given, **named)

    monkeypatch.setattr(publishing, "mean", spy)
    document = released(ward)
    well, ill = seen[-2:]
    assert [row["n"] for row in document["classes"]] == [len(well), len(ill)] == [4, 2]
    assert document["settings"]["classes"] == [[0, "well", 4], [1, "ill", 2]]
    space = MANIFOLDS["spd-log-euclidean"](k=5)
    for record, rows in zip(well, ([0], [1, 2, 3], [6, 7], [13]), strict=True):
        mine = space.log(np.eye(5), describe(ALBUM["images"][rows])).mean(axis=0)
        np.testing.assert_allclose(record, mine, atol=1e-9)
    steps = document["classes"][0]["costs"]
    assert all(step["sensitivity"] == pytest.approx(1 / 4, rel=1e-6) for step in steps)

    more = {key: np.concatenate([value, value[-1:]]) for key, value in ALBUM.items()}
    more["images"][-1] = 7
    np.savez(ward / "album.npz", **more)
    again = released(ward)
    assert (seen[-2][:3] == well[:3]).all()
    assert (seen[-2][3] != well[3]).any()
    assert [row["n"] for row in again["classes"]] == [4, 2]


@pytest.mark.parametrize(("classes", "spent"), [(1, 0.5), (2, math.sqrt(2) * 0.5)])
def test_a_person_in_several_classes_is_kept_once_or_paid_for(
    ward: Path, classes: int, spent: float
) -> None:
    """By default a person counts in one class; in two, the account pays √2·μ and all say so."""
    add(ward / "ward.toml", f"classes_per_person = {classes}")
    document = released(ward)
    row = ledger_of(ward).show("ward-7")[0]
    assert row.spent is not None
    assert row.spent.mu >= spent  # type: ignore[union-attr]
    assert row.spent.mu == pytest.approx(spent, rel=1e-15)  # type: ignore[union-attr]
    assert [row["n"] for row in document["classes"]] == ([4, 2] if classes == 1 else [4, 4])
    said = dict(document["statement"])
    assert said["Unit of privacy"].startswith("one person")
    assert "any other images, at least one, in the same classes" in said["Neighbouring data sets"]
    assert said["Guarantee"] == str(repeat(GDP(0.5), classes))
    assert ("left out, so" if classes == 1 else "at most 2 classes") in said["Composition"]
    assert "several identifiers" in said["Not covered"]
    assert "Persons per class (exact)" in said
    assert "not public" in said["Several images of one person"]
    assert ("for each of 2 classes" in said["Charged to the account"]) == (classes == 2)
    assert all(row["mu"] == 0.5 for row in document["classes"])
    page = build_release_report(document_of(document), ward / "page.html").read_text()
    for words in ("for one person", "Persons, exact", "the images of one particular person were"):
        assert words in page
    assert "for one image" not in page
    assert f"{float(repeat(GDP(0.5), classes).mu):.3g}" in page


def test_persons_and_images_are_paid_from_one_account(ward: Path) -> None:
    """Both cost a person so much; together they hold for as many images as were paid for."""
    book = ledger_of(ward)
    released(ward)
    assert book.show("ward-7")[0].group is None
    assert book.history("ward-7")[-1].text.endswith("for whole persons")
    contents = {"well": book.digest([b"other images"])}
    book.reserve("ward-7", "{}", "x", contents=contents, cost=GDP(0.1), group=3)
    row = book.show("ward-7")[0]
    assert row.group == 3
    assert row.spent is not None
    assert row.spent.mu == pytest.approx(math.hypot(0.5, for_group_as_written(GDP(0.1), 3).mu))  # type: ignore[union-attr]


def test_the_same_images_of_other_persons_are_another_release(ward: Path) -> None:
    """Asked again it costs nothing; with one image of another person it is drawn and paid anew.

    Images, their order and the number of persons stay as they were.
    """
    first = released(ward)
    assert released(ward) == first
    moved = ALBUM["who"].copy()
    moved[6] = NAMES[1]
    np.savez(ward / "album.npz", **{**ALBUM, "who": moved})
    assert released(ward)["settings"]["classes"] == first["settings"]["classes"]
    assert ledger_of(ward).show("ward-7")[0].releases == 2


@pytest.mark.parametrize(
    ("file", "line", "error", "words"),
    [
        ("release.toml", "images_per_person = 3", ConfigError, "leave images_per_person out"),
        ("release.toml", "classes_per_person = 2", ConfigError, "belongs to the card"),
        ("release.toml", "smallest_class = 3", ConfigError, "2 of the 3 persons"),
        ("ward.toml", "obeys = false", MismatchError, "knows persons"),
    ],
)
def test_what_does_not_fit_persons_is_one_line_and_costs_nothing(
    ward: Path, file: str, line: str, error: type[Exception], words: str
) -> None:
    """Two ways to say what a person is, too few persons, a kind that takes images for records."""
    add(ward / file, line)
    with pytest.raises(error, match=words) as caught:
        released(ward)
    assert "\n" not in str(caught.value)
    assert ledger_of(ward).show("ward-7")[0].releases == 0


# runs


EXPERIMENT = """\
name = "ways"
title = "Persons"
dataset = "{ward}/ward.toml"
budgets = [1.0]
repetitions = 2
seed = 1
"""
WAYS = {"persons": [4, 2], "one image": [4, 2], "images in groups": [7, 4], "images": [7, 4]}


def test_a_run_takes_persons_for_records_and_says_so(ward: Path) -> None:
    """Rows, record and statement count persons; other ways count images, and what they promise."""
    add(ward / "ward.toml", "public = true")
    text = EXPERIMENT.format(ward=ward)
    for way in WAYS:
        text += f'[[mechanisms]]\nseries = "{way}"\nmechanism = "ewg"\nrecords = "{way}"\n'
    (ward / "ways.toml").write_text(text)
    run = Run(load_experiments(ward / "ways.toml")[0], ward, ward / "out")
    run_experiment(run)
    rows, record = read_rows(run.table), read_record(run.log)
    for way, n in WAYS.items():
        mine = rows["series"] == way
        assert [set(rows["n"][mine & (rows["label"] == label)]) for label in (0, 1)] == [
            {count} for count in n
        ]
    sigma = {way: rows["sigma"][rows["series"] == way][0] for way in WAYS}
    assert sigma["persons"] == sigma["one image"]
    assert sigma["images in groups"] == pytest.approx(3 * sigma["images"])  # most of a person: 3
    assert sigma["persons"] == pytest.approx(7 / 4 * sigma["images"])
    assert (record.unit, record.units) == ("person", "persons")
    assert [item.n for item in record.classes] == [4, 2]
    assert "11 images make 6 records, of 1 to 3 images each" in " ".join(record.facts)
    assert record.privacy["Unit of privacy"].startswith("one person")
    assert record.privacy["Persons per class (exact)"] == "well: 4, ill: 2"
    assert record.guarantees["images"].startswith("none for persons")
    assert "with most here" in record.guarantees["images in groups"]


def test_what_the_experiment_claims_follows_from_its_persons() -> None:
    """The factors asked for are 0.9 of g and of g·P/n, as the sizes in the file have them."""
    config = next(c for c in load_experiments("ours-persons") if not c.on_images)
    data, _ = simulate(config, 0)
    assert data.persons is not None
    counts = np.bincount(data.persons)
    g, ratio = counts.max(), counts.max() * len(counts) / len(data.persons)
    assert (len(counts), len(data.persons), g) == (730, 2230, 40)
    factors = sorted(claim.factor for claim in config.claims)
    assert factors[-2:] == pytest.approx([0.9 * ratio, 0.9 * g], rel=5e-3)
    assert data.points.shape == (2230, 5, 5)


def test_no_identifier_leaves(ward: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither names in a folder nor digests of them, plain or keyed, are in what is written."""
    folder = ward / "photos"
    for place, (who, label) in enumerate(zip(WHO, LABELS, strict=True)):
        path = folder / ("well", "ill")[label] / f"{who}-{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(ALBUM["images"][place]).save(path)
    (ward / "ward.toml").write_text(
        'kind = "folder"\nlocal = true\nchannels = 1\nclasses = ["well", "ill"]\npath = "photos"\n'
        'unit = "person"\npattern = "{class}/{person}-*.png"\n'
    )
    document = released(ward)
    assert [row["n"] for row in document["classes"]] == [4, 2]
    build_release_report(document_of(document), ward / "page.html")
    write_parquet(document_of(document), ward / "table.parquet")
    (ward / "document.json").write_text(json.dumps(document))
    (ward / "screen.log").write_text("".join(capfd.readouterr()))
    book = ledger_of(ward)
    needles = [name.encode() for name in NAMES] + [name.split(",")[0].encode() for name in NAMES]
    for key in (book.person_key(), book.key, b""):
        needles += [bytes(digest) for digest in opaque(np.array(NAMES), key)]
    for kind in ("md5", "sha1", "sha256", "blake2b"):
        needles += [hashlib.new(kind, name.encode()).hexdigest().encode() for name in NAMES]
    files = [path for path in ward.rglob("*") if path.is_file() and folder not in path.parents]
    assert {"ledger.sqlite", "page.html", "table.parquet"} <= {path.name for path in files}
    for path in files:
        text = path.read_bytes()
        assert not [needle for needle in needles if needle in text], path
