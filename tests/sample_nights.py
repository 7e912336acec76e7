"""A ward whose folder of images grows, or not, and the nights of its stream; nothing is tested."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from covdp.ledger import Ledger, init_ledger
from covdp.privacy import GDP
from covdp.publish import load_release
from covdp.store import Place
from tests.tools.addons import addon

NightState = addon("nights.account:NightState")
StoredNight = addon("nights.account:StoredNight")
StreamAccount = addon("nights.account:StreamAccount")
reserve_night = addon("nights.ledger:reserve_night")
stream_named = addon("nights.ledger:stream_named")
stream_status = addon("nights.ledger:stream_status")
release_night = addon("nights.night:release_night")
unfinished_night = addon("nights.night:unfinished_night")

CARD = 'kind = "folder"\npath = "ward"\nchannels = 1\nclasses = ["well", "ill"]\n'
PERSONS = CARD + 'pattern = "{class}/{person}-*.png"\nunit = "person"\n'
# μ is large, so that four images of a class are enough for its opening
CONFIG = """\
name = "nightly"
population = "ward-7"
dataset = "ward.toml"
labels = "public"
budget = 20.0
smallest_class = 1
"""
STREAM = "[stream]\nhorizon = 40\nopening = 80.0\n"


@dataclass
class Ward:
    """A folder of images, the card, the config and the ledger of a stream."""

    folder: Path
    made: int = field(default=0)
    address: str = ""

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.write(CARD)
        for name in ("well", "ill"):
            (self.folder / "ward" / name).mkdir(parents=True, exist_ok=True)

    def write(self, card: str = "", config: str = "", stream: str = STREAM) -> None:
        """Write card and config anew."""
        if card:
            (self.folder / "ward.toml").write_text(card)
        (self.folder / "night.toml").write_text((config or CONFIG) + stream)

    def pay(self, total: float = 20.0) -> Ledger:
        """Return the ledger, with a budget for the ward."""
        found = self.ledger
        found.set_budget("ward-7", GDP(total))
        return found

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger: of its address, else a file beside the images."""
        return init_ledger(self.address or self.folder / "ledger.sqlite")

    def put(self, well: int = 0, ill: int = 0, *, who: str = "p", seed: int = 0) -> list[Path]:
        """Put new images into the folder, of persons p0, p1, … where nobody is named."""
        paths = []
        for name, count in (("well", well), ("ill", ill)):
            for _ in range(count):
                person = who if who != "p" else f"p{self.made}"
                paths.append(self.folder / "ward" / name / f"{person}-{self.made:04d}.png")
                paths[-1].write_bytes(image(seed, self.made))
                self.made += 1
        return paths

    def settle(self, day: int, store: Place | None = None) -> list[bytes]:
        """Settle the night of a day of March, one that is not finished first, as a flow does."""
        path, ledger = self.folder / "night.toml", self.ledger
        configs = [load_release(path, run_key=f"2026-03-{day:02d}")]
        if before := unfinished_night(configs[0], ledger):
            configs.insert(0, load_release(path, run_key=before))
        return [release_night(told, ledger, self.folder, store) for told in configs]

    def night(self, day: int) -> dict[str, Any]:
        """Settle a night and return its document."""
        return dict(json.loads(self.settle(day)[-1]))

    @property
    def stream(self) -> StreamAccount:
        """The stream in the ledger."""
        found = stream_named(self.ledger, "ward-7", "nightly")
        assert found
        return found


@cache
def image(seed: int, number: int) -> bytes:
    """Return a PNG of noise."""
    pixels = np.random.default_rng([seed, number]).integers(0, 256, (8, 8), dtype=np.uint8)
    content = BytesIO()
    Image.fromarray(pixels).save(content, "png")
    return content.getvalue()


def tonight(document: dict[str, Any]) -> list[int]:
    """Return how many units of each class entered."""
    return [row["n_tonight"] for row in document["classes"]]


def reserve(
    ledger: Ledger,
    stream: StreamAccount,
    run_key: str,
    units: Sequence[bytes],
    labels: Sequence[str],
) -> NightState | StoredNight | None:
    """Reserve a night that rests on how things are."""
    now = stream_status(ledger, stream.population, stream.name, run_key)
    assert now
    return reserve_night(ledger, stream, run_key, units=units, labels=labels, version=now.version)
