"""People have one budget: releases and nights of one card and folder under two populations."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sample_nights import CARD, Ward

from covdp.errors import LedgerError
from covdp.publish import load_release, release_once
from tests.tools.addons import addon

release_night = addon("nights.night:release_night")

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

PLAIN = 'name = "{name}"\npopulation = "{population}"\ndataset = "{card}"\nbudget = 2.0\n'
STREAM = "[stream]\nhorizon = 40\nopening = 90.0\n"


@pytest.fixture
def ward(tmp_path: Path) -> Ward:
    """Return a ward of a hundred images, and a ledger in which three populations have budgets."""
    ward = Ward(tmp_path)
    ward.put(50, 50)
    book = ward.pay()
    for population in ("ward-8", "ward-9"):
        book.set_budget(population, book.show("ward-7")[0].budget)
    return ward


def ask(ward: Ward, population: str, stream: str = "", card: str = "ward.toml") -> bytes:
    """Release once, or a night, from a config of its own."""
    path = ward.folder / f"{population}-{bool(stream)}.toml"
    path.write_text(PLAIN.format(name=path.stem.lower(), population=population, card=card) + stream)
    config = load_release(path, run_key="2026-03-01")
    work = release_night if stream else release_once
    return work(config, ward.ledger, ward.folder)


def charges(ward: Ward) -> dict[str, int]:
    """Return how many charges each population has."""
    return {row.population: row.releases for row in ward.ledger.show()}


def as_it_is(ward: Ward) -> None:
    """Leave card, folder and images."""


def other_images(ward: Ward) -> None:
    """Put another image into the same folder."""
    ward.put(1)


def other_title(ward: Ward) -> None:
    """Edit the card."""
    ward.write('title = "Another"\ndescription = "Other words"\n' + CARD)


def other_reading(ward: Ward) -> None:
    """Have the card read the same files in another way, and a copy of it be the card."""
    ward.write(
        'window = [0, 255]\nlicence = "ours"\n' + CARD.replace('"well", "ill"', '"ill", "well"')
    )
    (ward.folder / "ward.toml").rename(ward.folder / "copy.toml")


def other_pattern(ward: Ward) -> None:
    """Name the same files by their kind, in a copy of the card."""
    (ward.folder / "copy.toml").write_text(CARD + 'pattern = "{class}/**/*.png"\n')


def linked(ward: Ward) -> None:
    """Reach the folder by a link, from another card of the same words."""
    (ward.folder / "linked").symlink_to(ward.folder / "ward")
    (ward.folder / "copy.toml").write_text(CARD.replace('"ward"', '"linked"'))


def another_class(ward: Ward) -> None:
    """Add a class that nobody has, in a copy of the card."""
    (ward.folder / "copy.toml").write_text(CARD.replace('"ill"]', '"ill", "none"]'))


def one_class_less(ward: Ward) -> None:
    """Drop a class, in a copy of the card."""
    (ward.folder / "copy.toml").write_text(CARD.replace(', "ill"]', "]"))


CHANGES = [as_it_is, other_images, other_title, other_reading, other_pattern, linked]
CHANGES += [another_class, one_class_less]


@pytest.mark.addons
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("second", ["", STREAM], ids=["release", "stream"])
@pytest.mark.parametrize("first", ["", STREAM], ids=["release", "stream"])
def test_one_card_and_folder_has_one_population(
    ward: Ward, first: str, second: str, change: Callable[[Ward], None]
) -> None:
    """In any order, whatever the images: refused on the first night, and nothing is charged."""
    ask(ward, "ward-7", first)
    change(ward)
    card = "copy.toml" if (ward.folder / "copy.toml").exists() else "ward.toml"
    words = "card and folder were charged under population 'ward-7' before, found 'ward-8'"
    for _ in range(2):
        with pytest.raises(LedgerError, match=words):
            ask(ward, "ward-8", second, card)
    assert charges(ward) == {"ward-7": 1, "ward-8": 0, "ward-9": 0}
    if change is as_it_is:
        assert ask(ward, "ward-7", second)


@pytest.mark.addons
@pytest.mark.parametrize("second", ["", STREAM], ids=["release", "stream"])
@pytest.mark.parametrize("first", ["", STREAM], ids=["release", "stream"])
def test_a_copy_of_the_images_is_told_to_their_owner_alone(
    ward: Ward, first: str, second: str
) -> None:
    """Elsewhere the same images are charged: a refusal would tell that they are the same."""
    ask(ward, "ward-7", first)
    shutil.copytree(ward.folder / "ward", ward.folder / "copied")
    (ward.folder / "copy.toml").write_text(CARD.replace('"ward"', '"copied"'))
    ask(ward, "ward-8", second, "copy.toml")
    assert charges(ward) == {"ward-7": 1, "ward-8": 1, "ward-9": 0}


@pytest.mark.addons
def test_no_document_shows_what_is_declared(ward: Ward) -> None:
    """Neither the folder nor the card's file, nor what the ledger knows them by."""
    for stream in ("", STREAM):
        document = ask(ward, "ward-7", stream).decode()
        assert str(ward.folder) not in document
        assert "ward.toml" not in document
        with ward.ledger.transaction(write=False) as tx:
            assert not [mac for mac in tx.state.declared if mac in document]
            assert len(tx.state.declared) == 3  # card and folder, and two classes
        values = json.loads(document)
        key = ward.ledger.signing_key().public_key().public_bytes_raw().hex()
        assert values.pop("signature")["public_key"] == key  # which is for everybody
        assert not re.search("[0-9a-f]{64}", json.dumps(values))


def test_one_file_has_one_population_whatever_its_classes_are_called(tmp_path: Path) -> None:
    """Without a pattern names of classes are free, so another name is no other image."""
    card = 'kind = "npz"\nlocal = true\npath = "ward.npz"\nchannels = 1\nclasses = ["{}", "{}"]\n'
    ward = Ward(tmp_path)
    ward.pay().set_budget("ward-8", ward.ledger.show("ward-7")[0].budget)
    images = np.random.default_rng(0).integers(0, 256, (90, 8, 8), np.uint8)
    np.savez(tmp_path / "ward.npz", train_images=images, train_labels=np.arange(90) % 2)
    (tmp_path / "ward.toml").write_text(card.format("well", "ill"))
    ask(ward, "ward-7")
    (tmp_path / "copy.toml").write_text(card.format("healthy", "sick"))
    with pytest.raises(LedgerError, match="charged under population 'ward-7' before"):
        ask(ward, "ward-8", card="copy.toml")
