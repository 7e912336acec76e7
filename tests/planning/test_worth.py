"""Refusals of what is not worth its price: public numbers alone, before anything is charged."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sample_nights import Ward

from covdp.cli import main
from covdp.errors import ConfigError
from covdp.inference import NOTHING
from covdp.inference.verdict import COMPARISONS
from covdp.ledger import open_ledger
from covdp.planning import ForecastRequest, forecast, likely_verdict
from covdp.privacy import GDP
from covdp.privacy.rounding import two_digits
from covdp.publish import ReleaseConfig, load_release
from covdp.worth import check_worth
from tests.tools.addons import addon

stream_named = addon("nights.ledger:stream_named")

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

CLASSES = 'classes = ["well", "ill", "none"]'
CARD = f'kind = "folder"\npath = "ward"\nchannels = 1\n{CLASSES}\n'
PERSONS = CARD + 'pattern = "{class}/{person}-*.png"\nunit = "person"\n'


def config_of(folder: Path, card: str = CARD, **keys: object) -> ReleaseConfig:
    """Return a config with some keys, of a card of three classes."""
    keys = {"population": '"ward-7"', "dataset": '"ward.toml"', "budget": 0.5, **keys}
    stream = keys.pop("stream", "")
    (folder / "ward.toml").write_text(card)
    lines = [f"{key} = {value}\n" for key, value in keys.items()]
    (folder / "night.toml").write_text("".join(lines) + str(stream))
    return load_release(folder / "night.toml")


@pytest.mark.parametrize("descriptor", ["oct5", "grid9", "gauss6"])
@pytest.mark.parametrize("budget", [0.25, 0.5, 2.0])
def test_the_number_that_is_refused_is_the_last_that_is_useless_at_best(
    tmp_path: Path, descriptor: str, budget: float
) -> None:
    """Refusals end where the lower end of an even share is usable; what they ask for is likely."""
    config = config_of(tmp_path, descriptor=f'"{descriptor}"', budget=budget)

    def refusal(total: int) -> str:
        try:
            check_worth(config, [total])
        except ConfigError as error:
            return str(error)
        return ""

    totals = [math.ceil(1.2**power) for power in range(60)]
    useless = [bool(refusal(total)) for total in totals]
    assert useless == sorted(useless, reverse=True)
    assert {True, False} == set(useless)
    for total, is_useless in zip(totals, useless, strict=True):
        best = likely_verdict(config, math.ceil(total / 3), best=True)
        assert (best.use == NOTHING) == is_useless
    found = re.search(r"about ([\d,]+) a class are needed, or budget = (\S+);", refusal(totals[3]))
    assert found
    enough, enlarged = int(found[1].replace(",", "")), float(found[2])
    assert likely_verdict(config, enough).use != NOTHING
    larger = config.model_copy(update={"budget": enlarged})
    assert likely_verdict(larger, math.ceil(totals[3] / 3)).use != NOTHING


@pytest.mark.parametrize("definition", ["gdp", "zcdp"])
@pytest.mark.parametrize("total", [20, 82, 83])
def test_a_refusal_asks_for_what_a_plan_asks_for(
    tmp_path: Path, definition: str, total: int
) -> None:
    """Both split the images alike: so many a class, or so large a budget, to the last digit."""
    budget = 0.5 if definition == "gdp" else 0.125
    config = config_of(tmp_path, definition=f'"{definition}"', budget=budget)
    planned = " ".join(forecast(config, ForecastRequest({}, total)).verdict)
    numbers = re.search(r"about ([\d,]+) images a class, or . = (\S+)\.", planned)
    assert numbers
    with pytest.raises(ConfigError) as refused:
        check_worth(config, [total])
    assert f"about {numbers[1]} a class are needed, or budget = {numbers[2]};" in str(refused.value)
    assert f"({total // 3} images each)" in planned
    assert f"about {total // 3} a class" in str(refused.value)


def test_only_classes_of_one_size_are_told_each(tmp_path: Path) -> None:
    """A class may be called as it likes: its images are not those of each class."""
    config = config_of(tmp_path, CARD.replace('"well"', '"each leg"'))
    planned = " ".join(forecast(config, ForecastRequest({"each leg": 300})).verdict)
    assert "(300 images)" in planned


def test_the_readmes_and_a_plan_name_one_number_of_images_to_begin_with(tmp_path: Path) -> None:
    """It is what any use needs at the upper end of the range, at the budget of the examples."""
    config = config_of(tmp_path)
    (number,) = {two_digits(likely_verdict(config, n).needed) for n in (26, 50, 100)}
    root = Path(__file__).parents[2]
    for name in ("README.md", "pipeline/publish/README.md", "reports/site/index.md"):
        text = " ".join((root / name).read_text(encoding="utf-8").split())
        assert f"about {number} images a class" in text
    planned = forecast(config, ForecastRequest({"well": 50, "ill": 100})).verdict
    assert planned[0] == "Prediction: perhaps usable for large differences: well and ill."
    assert f"about {number} images a class" in planned[-1]


def test_a_use_that_clipping_forbids_needs_no_number_of_images(tmp_path: Path) -> None:
    """Colour images by `grid11` have an error that no number of them takes away."""
    config = config_of(
        tmp_path, CARD.replace("channels = 1", "channels = 3"), descriptor='"grid11"'
    )
    forbidden = likely_verdict(config, 5000)
    assert (forbidden.use, forbidden.factor) == (COMPARISONS, 1.0)


@pytest.mark.addons
@pytest.mark.parametrize(
    ("keys", "sizes", "refused"),
    [
        ({}, [79], True),
        ({}, [790], False),
        ({"labels": '"public"'}, [79, 0, 0], False),
        ({"labels": '"public"'}, [27, 26, 26], True),
        ({"definition": '"zcdp"', "budget": 0.125}, [79], True),
        ({"definition": '"zcdp"', "budget": 8.0}, [79], False),
        ({"labels": '"public"', "mechanism": '"ewg"'}, [27, 26, 26], True),
        ({"labels": '"public"', "mechanism": '"ewl"', "noise": '"float"'}, [27, 26, 26], False),
        ({"stream": "[stream]\nhorizon = 9\n"}, [599], True),
        ({"stream": "[stream]\nhorizon = 9\n"}, [600], False),
        ({"stream": "[stream]\nhorizon = 9\n", "labels": '"public"'}, [599, 599, 9], True),
        ({}, [0], True),
        ({"budget": 1e-6}, [79], True),
    ],
)
def test_what_is_refused(
    tmp_path: Path, keys: dict[str, object], sizes: list[int], refused: bool
) -> None:
    """Secret labels split evenly, public ones have a largest class, a stream counts them all."""
    config = config_of(tmp_path, **keys)
    if not refused:
        check_worth(config, sizes)
        return
    with pytest.raises(ConfigError, match=r"needed|needs 600.*nothing was charged, and --even"):
        check_worth(config, sizes)


def test_persons_who_count_in_several_classes(tmp_path: Path) -> None:
    """Of 79 persons in up to three classes each has up to 79, whose mean may be usable."""
    one = config_of(tmp_path, PERSONS)
    with pytest.raises(
        ConfigError, match="79 persons in all classes together, about 26 a class, are too few"
    ):
        check_worth(one, [79])
    check_worth(config_of(tmp_path, PERSONS + "classes_per_person = 3\n"), [79])


def put(ward: Ward, persons: int, images: int = 2) -> None:
    """Put images of some persons into the folder, nearly all in one class."""
    for number in range(persons * images):
        name = "ill" if number % 9 == 0 else "well"
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8), dtype=np.uint8)
        file = ward.folder / "ward" / name / f"p{number // images}-{number}.png"
        Image.fromarray(pixels).save(file)


def ask(ward: Ward, *more: str) -> int:
    """Run a release by the command line."""
    tokens = ["release", "--config", "night.toml", "--ledger", "ledger.sqlite", "--out", "out"]
    return main([*tokens, "--data-root", ".", "--run-key", "2026-03-01", *more])


@pytest.mark.addons
@pytest.mark.parametrize("stream", ["", "[stream]\nhorizon = 9\n"], ids=["release", "stream"])
def test_nothing_is_charged_for_79_persons_in_three_classes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stream: str,
) -> None:
    """Refused in one line with the number that is needed; paid when told; then asked for again."""
    ward = Ward(tmp_path)
    (ward.folder / "ward" / "none").mkdir()
    config_of(tmp_path, PERSONS, name='"nightly"', stream=stream)
    put(ward, 79)
    ward.pay(2.0)
    monkeypatch.chdir(tmp_path)
    assert ask(ward) == 2
    (line,) = capsys.readouterr().err.splitlines()
    needed = "needs 600 at" if stream else "about 170 a class are needed, or budget = 3.1;"
    assert "79 persons " in line
    assert needed in line
    book = open_ledger("ledger.sqlite")
    assert [row.spent for row in book.show()] == [None]
    assert stream_named(book, "ward-7", "nightly") is None
    assert ask(ward, "--even-if-useless") == 0
    assert ask(ward) == 0  # it is there already
    assert "already released, nothing charged" in capsys.readouterr().out
    assert [row.spent for row in book.show()] == [GDP(0.5)]


def test_a_refusal_is_the_same_whatever_labels_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of one class, or evenly: what is secret changes neither the line nor the exit code."""
    said = set()
    for number, many in enumerate(((30, 0), (15, 15), (0, 30))):
        ward = Ward(tmp_path / f"{number}")
        config_of(ward.folder, CARD.replace(', "none"', ""))
        ward.put(*many)
        ward.pay(2.0)
        monkeypatch.chdir(ward.folder)
        said.add((ask(ward), *capsys.readouterr()))
    assert len(said) == 1
    assert "30 images in all classes together" in said.pop()[2]


@pytest.mark.parametrize("mechanism", ["auto", "ewg"])
@pytest.mark.parametrize("n", [3, 12, 40, 150, 700])
def test_as_many_as_are_said_to_be_needed_are_enough(
    mechanism: str, n: int, tmp_path: Path
) -> None:
    """With them, or with the budget that is said beside them, a use more is likely."""
    config = config_of(tmp_path, mechanism=f'"{mechanism}"', labels='"public"')
    likely = likely_verdict(config, n)
    if likely.factor == 1.0:
        return
    assert likely_verdict(config, round(likely.needed)).use > likely.use
    more = config.model_copy(update={"budget": 0.5 * likely.factor})
    assert likely_verdict(more, n).use > likely.use
